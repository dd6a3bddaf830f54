//! The one loop: body, check, delay, again.
//!
//! A loop that checks before its first turn differs only in that first look; from then on every turn is body, check,
//! delay. After the last allowed turn the check runs once more, then the limit applies.

use std::sync::Arc;

use windlass_value::{Duration, Timestamp, Value};

use super::budget;
use super::looks::{Found, judged};
use super::loop_end::called_off_because;
use crate::plan::{Check, Loop, NodeKind, Source, TurnFailure};
use crate::reduce::eval::Locals;
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, Closing, FrameId, Item, JUDGE, LoopFrame, Scope, ScopeId, Timer, Turn, Used};
use crate::{ErrorInfo, Outcome, Reason, Status, TurnRecord};

/// Bytes of an item that a turn's history keeps, of a turn that went well and of one that did not.
const ITEM_BYTES_MAX: usize = 128;
const FAILED_ITEM_BYTES_MAX: usize = 4096;

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_loop(&mut self, id: FrameId, looping: &Loop) -> Result<(), Stop> {
        let Some(frame) = self.state.frames.get(id) else { return Ok(()) };
        let scope = frame.scope;
        let turns_max = looping.limits.turns.as_ref().map(|amount| self.count(amount, scope)).transpose()?;
        let time = looping.limits.time.as_ref().map(|amount| self.duration(amount, scope)).transpose()?;
        let in_flight = self.count(&looping.in_flight, scope)?;
        let budget = self.budget_of(id, looping, scope)?;
        refuse_beyond(looping, turns_max, time, in_flight)?;
        let items = match looping.source {
            Source::Repeat => None,
            Source::Each(expression) => {
                let value = self.eval(expression, scope)?;
                Some(self.hold_items(&value)?)
            }
        };
        self.tell_started(id);
        let path = self.path(id);
        let time_at = time.map(|time| self.now() + time);
        let time_key = time_at.filter(|_| looping.limits.cuts_turn).map(|at| self.set_timer(at, Timer::LoopTime(id)));
        let history = self.entered_before(id).map(|generation| format!("{path}~{generation}").into());
        let body = LoopFrame::new(path, items, turns_max, in_flight, time_at, time_key, budget);
        let body = LoopFrame { history, ..body };
        self.tell_loop_started(id, looping, time, &body);
        if let Some(frame) = self.state.frames.get_mut(id) {
            frame.body = Body::Loop(Box::new(body));
        }
        self.state.agenda.push_back(match looping.check {
            Check::Before { .. } => Item::FirstCheck(id),
            Check::After { .. } | Check::Never => Item::NextTurn(id),
        });
        Ok(())
    }

    fn tell_loop_started(&mut self, id: FrameId, looping: &Loop, time: Option<Duration>, body: &LoopFrame) {
        if looping.machinery || self.state.frames.get(id).is_some_and(|frame| frame.quiet) {
            return;
        }
        let mut limits = vec![
            ("count", Value::from(body.turns_max)),
            ("timeout", Value::from(time.map(|time| time.to_string()))),
            ("items", Value::from(body.items.as_ref().map(|items| items.count))),
        ];
        let most = body.items.as_ref().map(|items| items.count).filter(|items| *items > body.in_flight);
        if most.is_some() && body.in_flight > 1 && self.program.plan.tells_verdicts() {
            limits.push(("atOnce", Value::from(body.in_flight)));
        }
        limits.extend(budget::told(&body.budget, |budget| budget.most).map(|most| ("budget", most)));
        let limits = Value::object(limits);
        self.publish_at(id, "loop.started", [("kind", Value::Str(looping.kind.clone())), ("limits", limits)]);
    }

    pub(super) fn loop_of(&self, id: FrameId) -> Option<(&'a Loop, &LoopFrame)> {
        let frame = self.state.frames.get(id)?;
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Loop(looping), Body::Loop(body)) => Some((looping, body)),
            _ => None,
        }
    }

    pub(super) fn loop_mut(&mut self, id: FrameId) -> Option<&mut LoopFrame> {
        match &mut self.state.frames.get_mut(id)?.body {
            Body::Loop(body) => Some(body),
            _ => None,
        }
    }

    /// Before the first turn the condition sees no turn's results, and 0 turns completed.
    pub(in crate::reduce) fn first_check(&mut self, id: FrameId) -> Result<(), Stop> {
        let Some(frame) = self.state.frames.get(id).filter(|frame| frame.closing.is_none()) else { return Ok(()) };
        let (scope, node, started_at) = (frame.scope, frame.node, self.started_at(id));
        let Some((looping, body)) = self.loop_of(id) else { return Ok(()) };
        if body.stopping.is_some() {
            return self.next_turn(id);
        }
        let Check::Before { condition, stop_when } = looping.check else { return self.next_turn(id) };
        let turn = Turn {
            loop_node: node,
            index: 0,
            item: self.item_around(id),
            previous: Value::Null,
            loop_started_at: started_at,
            started_at,
            count: body.items.as_ref().map(|items| items.count),
        };
        let locals = Locals { turn: Some(&turn), ..Locals::default() };
        if self.condition(condition, scope, locals)? == stop_when {
            if let Some(body) = self.loop_mut(id) {
                body.condition_met = true;
            }
            self.conclude_loop(id, Reason::Condition);
        } else {
            self.state.agenda.push_back(Item::NextTurn(id));
        }
        Ok(())
    }

    pub(in crate::reduce) fn next_turn(&mut self, id: FrameId) -> Result<(), Stop> {
        let Some(frame) = self.state.frames.get(id).filter(|frame| frame.closing.is_none()) else { return Ok(()) };
        let live = frame.live;
        let Some((looping, body)) = self.loop_of(id) else { return Ok(()) };
        if let Some(reason) = body.stopping {
            if live == 0 {
                self.conclude_loop(id, reason);
            }
            return Ok(());
        }
        match looping.source {
            Source::Repeat => match limit_reached(body, self.now()) {
                Some(reason) => self.conclude_loop(id, reason),
                None => {
                    let item = self.item_around(id);
                    self.begin_turn(id, item);
                }
            },
            Source::Each(_) => self.begin_item_turns(id)?,
        }
        Ok(())
    }

    /// A loop without items has those of the loop around it: `item()` means the innermost that has any.
    fn item_around(&self, id: FrameId) -> Value {
        let mut scope = self.state.frames.get(id).and_then(|frame| self.state.scopes.get(frame.scope));
        while let Some(around) = scope {
            if let Some(turn) = &around.turn {
                return turn.item.clone();
            }
            scope = around.parent.and_then(|parent| self.state.scopes.get(parent));
        }
        Value::Null
    }

    /// As many turns as may run at once. A turn's item is at hand before the turn begins.
    fn begin_item_turns(&mut self, id: FrameId) -> Result<(), Stop> {
        loop {
            let Some((_, body)) = self.loop_of(id) else { return Ok(()) };
            let count = body.items.as_ref().map_or(0, |items| items.count);
            if body.begun >= count {
                if body.turns.is_empty() {
                    self.conclude_loop(id, Reason::Items);
                }
                return Ok(());
            }
            if let Some(reason) = limit_reached(body, self.now()) {
                let quiet = body.turns.is_empty();
                if let Some(body) = self.loop_mut(id) {
                    body.stopping = Some(reason);
                }
                if quiet {
                    self.conclude_loop(id, reason);
                }
                return Ok(());
            }
            if body.turns.len() as u64 >= body.in_flight {
                return Ok(());
            }
            if self.work.turns_left == 0 {
                self.state.agenda.push_front(Item::NextTurn(id));
                return Ok(());
            }
            let item = self.item_at(body, body.begun)?;
            self.begin_turn(id, item);
        }
    }

    fn begin_turn(&mut self, id: FrameId, item: Value) {
        let Some(frame) = self.state.frames.get(id) else { return };
        let (node, outer, loop_started_at) = (frame.node, frame.scope, frame.started_at);
        let Some((looping, body)) = self.loop_of(id) else { return };
        let (index, started_at) = (body.begun, self.state.now);
        let (previous, count) = (body.previous.clone(), body.items.as_ref().map(|items| items.count));
        let turn = Turn { loop_node: node, index, item, previous, loop_started_at, started_at, count };
        let scope = self.state.scopes.insert(Scope { turn: Some(turn), ..Scope::new(Some(outer), Some(node)) });
        let quiet = index >= self.program.limits.loop_quiet_from_turn && self.program.facts(looping.body).computes_only;
        let child = self.begin_child(id, looping.body, index, scope, quiet);
        let told = self.state.frames.get(child).is_some_and(|frame| !frame.quiet);
        self.state.turns += 1;
        self.work.turns_left = self.work.turns_left.saturating_sub(1);
        let Some(body) = self.loop_mut(id) else { return };
        body.turns.insert(index, child);
        body.begun += 1;
        if told && !looping.machinery {
            self.publish_at(child, "loop.iteration.started", [("iteration", Value::from(index))]);
        }
    }

    pub(in crate::reduce) fn turn_ended(
        &mut self,
        id: FrameId,
        slot: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
    ) -> Result<(), Stop> {
        if slot & JUDGE != 0 {
            return self.judge_ended(id, slot, outcome, scope);
        }
        let Some(frame) = self.state.frames.get(id) else { return Ok(()) };
        let closing = frame.closing.is_some();
        let Some((looping, body)) = self.loop_of(id) else { return Ok(()) };
        let ending = closing || body.stopping.is_some();
        let found = self.look(id, looping, outcome, scope, ending)?;
        self.child_gone(id);
        let judged = judged(looping, outcome, &found);
        self.note_turn(id, looping, slot, outcome, scope, &found);
        if closing {
            self.state.scopes.remove(scope);
            self.close_if_empty(id);
            return Ok(());
        }
        if judged && self.not_stopping(id) {
            self.begin_judge(id, looping, slot, scope);
            return Ok(());
        }
        self.state.scopes.remove(scope);
        self.after_turn(id, looping, found);
        Ok(())
    }

    fn turn_started_at(&self, scope: ScopeId) -> Timestamp {
        let turn = self.state.scopes.get(scope).and_then(|scope| scope.turn.as_ref());
        turn.map_or(self.state.now, |turn| turn.started_at)
    }

    /// What a turn was for, as its history keeps it: of what went well less, for there is much of it. Where a definition says
    /// that anything is not shown, nobody can tell whether items are.
    fn item_kept(&self, scope: ScopeId, status: Status) -> Option<Value> {
        let turn = self.state.scopes.get(scope)?.turn.as_ref()?;
        let most = if status.is_bad() { FAILED_ITEM_BYTES_MAX } else { ITEM_BYTES_MAX };
        let small = !turn.item.is_null() && turn.item.size_up_to(most) <= most;
        (small && !self.program.veils_something()).then(|| turn.item.clone())
    }

    fn not_stopping(&self, id: FrameId) -> bool {
        self.loop_of(id).is_some_and(|(_, body)| body.stopping.is_none())
    }

    /// Counts, results, history, events: all that a turn's end leaves behind.
    fn note_turn(
        &mut self,
        id: FrameId,
        looping: &Loop,
        index: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
        found: &Found,
    ) {
        let started_at = self.turn_started_at(scope);
        let reason = self.last_reason(id, looping, outcome, found);
        let closing = self.state.frames.get(id).is_some_and(|frame| frame.closing.is_some());
        let quiet_from = self.program.limits.loop_quiet_from_turn;
        let loop_quiet = self.state.frames.get(id).is_some_and(|frame| frame.quiet);
        let quiet = loop_quiet || (index >= quiet_from && self.program.facts(looping.body).computes_only);
        let Some(body) = self.loop_mut(id) else { return };
        // A turn that the loop calls off says nothing about how the loop ends.
        let called_off = outcome.status == Status::Cancelled && (closing || body.stopping.is_some());
        let bad = outcome.status.is_bad() && !called_off;
        body.turns.remove(&index);
        body.ended += 1;
        body.failed += u64::from(bad);
        body.cancelled += u64::from(called_off);
        if !called_off && body.last_index.is_none_or(|last| index >= last) {
            body.last_index = Some(index);
            body.last_status = Some(outcome.status);
            body.last_error = outcome.error.clone();
            body.previous = outcome.output.clone();
        }
        if bad && body.first_error.is_none() {
            body.first_error = outcome.error.clone();
        }
        if let Some(value) = &found.watched {
            body.stall = match body.stall.take() {
                Some((before, turns)) if before == *value => Some((before, turns + 1)),
                _ => Some((value.clone(), 1)),
            };
        }
        body.condition_met |= found.met;
        body.broke |= found.broke;
        let path = body.history.as_ref().unwrap_or(&body.path).clone();
        let counts = quiet && !loop_quiet && !looping.machinery;
        let told_first = counts && body.untold.is_none();
        if counts {
            let (from, failed) = body.untold.unwrap_or((body.ended - 1, 0));
            body.untold = Some((from, failed + u64::from(bad)));
        }
        if told_first {
            self.work.untold.push(id);
        }
        let kept = match &found.entry {
            Some(entry) => self.slim(entry.clone()),
            None => outcome.output.clone(),
        };
        self.keep_result(id, looping.collect, index, kept);
        if let Some(records) = &looping.records {
            self.keep_record(id, records.keep, index, found.record.clone());
        }
        if looping.machinery {
            return;
        }
        let duration = self.state.now.since(started_at);
        if !quiet {
            self.tell_turn(id, looping, index, outcome, duration, found.condition);
        }
        self.work.output.turns.push(TurnRecord {
            loop_path: path,
            index,
            status: outcome.status,
            started_at,
            duration,
            condition: found.condition,
            result: self.shown(id, &outcome.output),
            error: outcome.error.clone(),
            reason,
            item: self.item_kept(scope, outcome.status),
        });
    }

    /// Why the loop ends with this turn, if it is the last to end. (A judge decides later.)
    fn last_reason(&self, id: FrameId, looping: &Loop, outcome: &Outcome, found: &Found) -> Option<Reason> {
        let frame = self.state.frames.get(id).filter(|frame| frame.live == 0)?;
        if let Some(closing) = &frame.closing {
            return Some(called_off_because(closing));
        }
        let (_, body) = self.loop_of(id)?;
        let decided = found.stop.or(body.stopping);
        let exhausted = || limit_reached(body, self.now()).or((!goes_on(body, self.now())).then_some(Reason::Items));
        decided.or_else(|| exhausted().filter(|_| !judged(looping, outcome, found)))
    }

    fn tell_turn(
        &mut self,
        id: FrameId,
        looping: &Loop,
        index: u64,
        outcome: &Outcome,
        duration: Duration,
        condition: Option<bool>,
    ) {
        let Some(frame) = self.state.frames.get(id) else { return };
        let Body::Loop(body) = &frame.body else { return };
        let path = format!("{}{}", body.path, looping.turn_path.write(index));
        let mut fields = vec![
            ("actionName", Value::Str(self.program.node(frame.node).name.clone())),
            ("iteration", Value::from(index)),
            ("loopType", Value::Str(looping.kind.clone())),
            ("status", Value::from(outcome.status.as_str())),
            ("conditionResult", Value::from(condition)),
            ("result", self.shown(id, &outcome.output)),
            ("duration", Value::from(duration.as_ms())),
        ];
        fields.extend(budget::told(&body.budget, |budget| budget.used).map(|used| ("usage", used)));
        fields.extend((!outcome.usage.is_null()).then(|| ("turnUsage", outcome.usage.clone())));
        fields.extend(outcome.error.as_ref().map(|error| ("error", error.to_value())));
        self.publish(path.into(), "loop.iteration.done", fields);
    }

    fn after_turn(&mut self, id: FrameId, looping: &Loop, found: Found) {
        let live = self.state.frames.get(id).map_or(0, |frame| frame.live);
        let now = self.now();
        let Some(body) = self.loop_mut(id) else { return };
        if let Some(reason) = found.stop.filter(|_| body.stopping.is_none()) {
            body.stopping = Some(reason);
            body.cause = found.error;
            let finish = matches!(looping.on_turn_failure, TurnFailure::Stop { running_finish: true });
            if live > 0 && !finish {
                self.call_off_turns(id);
            }
        }
        let Some((_, body)) = self.loop_of(id) else { return };
        if let Some(reason) = body.stopping {
            if live == 0 {
                self.conclude_loop(id, reason);
            }
            return;
        }
        if matches!(looping.source, Source::Repeat)
            && let Some(reason) = limit_reached(body, now)
        {
            return self.conclude_loop(id, reason);
        }
        self.delay_or_go_on(id, found.delay);
    }

    fn delay_or_go_on(&mut self, id: FrameId, delay: Option<Duration>) {
        match delay.filter(|delay| delay.0 > 0) {
            None => self.state.agenda.push_back(Item::NextTurn(id)),
            // Of turns that run at once, the first to end begins the delay; the next ones begin when it is over.
            Some(_) if self.state.frames.get(id).is_some_and(|frame| frame.alarm.is_some()) => {}
            Some(delay) => {
                let key = self.set_timer(self.now() + delay, Timer::Alarm(id));
                if let Some(frame) = self.state.frames.get_mut(id) {
                    frame.alarm = Some(key);
                }
            }
        }
    }

    fn call_off_turns(&mut self, id: FrameId) {
        let Some((_, body)) = self.loop_of(id) else { return };
        for turn in body.turns.values().copied().collect::<Vec<_>>() {
            self.close(turn, Closing::cancelled());
        }
    }

    /// The loop has had its time: a turn that outlives it is cut off.
    pub(in crate::reduce) fn loop_time_over(&mut self, id: FrameId) {
        if let Some(body) = self.loop_mut(id) {
            body.time_key = None;
        }
        self.cut_loop(id, Reason::Timeout);
    }

    /// A limit ends the loop where it is, its turns with it.
    pub(super) fn cut_loop(&mut self, id: FrameId, reason: Reason) {
        self.clear_alarm(id);
        let Some(body) = self.loop_mut(id) else { return };
        body.stopping.get_or_insert(reason);
        self.call_off_turns(id);
        self.state.agenda.push_back(Item::NextTurn(id));
    }

    pub(in crate::reduce) fn forget_loop_time(&mut self, id: FrameId) {
        if let Some(key) = self.loop_mut(id).and_then(|body| body.time_key.take()) {
            self.state.timers.remove(&key);
        }
    }

    fn begin_judge(&mut self, id: FrameId, looping: &Loop, index: u64, scope: ScopeId) {
        let Some(judge) = looping.judge else { return };
        let child = self.begin_child(id, judge, index | JUDGE, scope, false);
        if let Some(body) = self.loop_mut(id) {
            body.turns.insert(index | JUDGE, child);
        }
    }

    /// A judge that gives no verdict does not stop the loop, unless it says by failing that it never will.
    fn judge_ended(&mut self, id: FrameId, slot: u64, outcome: &Outcome, scope: ScopeId) -> Result<(), Stop> {
        let verdict = self.resolve(&outcome.output)?;
        let Some((looping, _)) = self.loop_of(id) else { return Ok(()) };
        let closing = self.state.frames.get(id).is_some_and(|frame| frame.closing.is_some());
        let said = verdict.get("done").and_then(Value::as_bool);
        let done = said == Some(true);
        let mut found = Found { stop: done.then_some(Reason::Judge), ..Found::default() };
        if !closing {
            let rested = self.look_at_delay(id, looping, scope, &mut found);
            found.or_failed(rested)?;
        }
        if looping.judge_fails && matches!(outcome.status, Status::Failed | Status::TimedOut) {
            found.stop = Some(Reason::Failed);
            found.error = outcome.error.clone();
        }
        self.child_gone(id);
        if let Some(body) = self.loop_mut(id) {
            body.turns.remove(&slot);
            body.unjudged += u64::from(said.is_none());
        }
        if self.program.plan.tells_verdicts() {
            let fields = [("iteration", Value::from(slot & !JUDGE)), ("done", Value::from(said)), ("verdict", verdict)];
            self.publish_at(id, "loop.judged", fields);
        }
        self.state.scopes.remove(scope);
        match closing {
            true => self.close_if_empty(id),
            false => self.after_turn(id, looping, found),
        }
        Ok(())
    }
}

/// Limits that are computed are held to the system's as strictly as those that are written down.
fn refuse_beyond(looping: &Loop, turns: Option<u64>, time: Option<Duration>, in_flight: u64) -> Result<(), ErrorInfo> {
    let limits = &looping.limits;
    let refuse = |message: String| Err(ErrorInfo::new("LoopLimit", "limit", message).hint("see `windlass limits`"));
    match (turns, time) {
        (Some(0), _) => refuse("a loop needs a limit of at least 1 turn".to_owned()),
        (Some(turns), _) if turns > limits.turns_max => {
            refuse(format!("the loop asks for {turns} turns; the system's limit is {}", limits.turns_max))
        }
        (_, Some(time)) if time > limits.time_max => {
            refuse(format!("the loop asks for {time}; the system's limit is {}", limits.time_max))
        }
        _ if in_flight == 0 => refuse("a loop needs at least 1 turn at a time".to_owned()),
        _ => Ok(()),
    }
}

fn limit_reached(body: &LoopFrame, now: Timestamp) -> Option<Reason> {
    if body.turns_max.is_some_and(|max| body.begun >= max) {
        return Some(Reason::Count);
    }
    if body.time_at.is_some_and(|at| now >= at) {
        return Some(Reason::Timeout);
    }
    body.budget.iter().any(Used::ends_turns).then_some(Reason::Budget)
}

/// Another turn may begin: there are items left, and no limit is reached.
pub(super) fn goes_on(body: &LoopFrame, now: Timestamp) -> bool {
    let items_left = body.items.as_ref().is_none_or(|items| body.begun < items.count);
    items_left && limit_reached(body, now).is_none()
}
