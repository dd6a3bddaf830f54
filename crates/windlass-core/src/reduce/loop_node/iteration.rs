//! Iterations: how one begins, how its body ends, and the consequences.
//!
//! | iteration | begin | body ends | judge ends | cancelled |
//! |---|---|---|---|---|
//! | none | body | – | – | – |
//! | body | – | judge, if there is one and the body succeeded; else over | – | body, until it has ended |
//! | judge | – | – | over | judge, until it has ended |
//! | over | – | – | – | ignored |
//!
//! – is impossible and a fault. [`AgendaItem::NextIteration`] requests the beginning of an iteration, possibly too
//! often: a loop that has reached its concurrency limit, or has no items left, begins none.

use std::sync::Arc;

use windlass_value::{Duration, Timestamp, Value};

use super::check::IterationChecks;
use super::end::cancel_reason;
use super::judge::judge_for;
use super::limits::{limit_reached, may_continue};
use crate::plan::{IterationFailure, Loop, LoopSource, iteration_suffix};
use crate::reduce::fault::{FaultResult, no_part};
use crate::reduce::{ItemStop, Reducer, budget};
use crate::state::{AgendaItem, Closing, FrameId, Iteration, LiveIteration, Scope, ScopeId};
use crate::{EventKind, IterationRecord, LoopEndReason, Outcome, Status};

impl Reducer<'_> {
    /// Begins the iterations that may begin, or ends the loop.
    pub(in crate::reduce) fn next_iteration(&mut self, id: FrameId) -> Result<(), ItemStop> {
        let Some((looping, body)) = self.loop_if_open(id)? else { return Ok(()) };
        if let Some(reason) = body.stopping {
            if self.frame(id)?.live == 0 {
                self.conclude_loop(id, reason)?;
            }
            return Ok(());
        }
        match looping.source {
            LoopSource::Repeat => match limit_reached(body, self.now()) {
                Some(reason) => self.conclude_loop(id, reason)?,
                None => {
                    let item = self.item_around(id)?;
                    self.begin_iteration(id, item)?;
                }
            },
            LoopSource::Each(_) => self.begin_item_iterations(id)?,
        }
        Ok(())
    }

    /// Returns the item of the innermost enclosing loop that has items: the meaning of `item()` in a loop without
    /// items.
    pub(super) fn item_around(&self, id: FrameId) -> FaultResult<Value> {
        let mut scope = self.state.scopes.get(self.frame(id)?.scope);
        while let Some(around) = scope {
            if let Some(iteration) = &around.iteration {
                return Ok(iteration.item.clone());
            }
            scope = around.parent.and_then(|parent| self.state.scopes.get(parent));
        }
        Ok(Value::Null)
    }

    /// Begins as many iterations as may run concurrently. An iteration's item is loaded before it begins.
    fn begin_item_iterations(&mut self, id: FrameId) -> Result<(), ItemStop> {
        loop {
            let (_, body) = self.loop_frame(id)?;
            let items = body.items.as_ref().ok_or_else(|| no_part(id, "list of items for iteration", body.begun))?;
            if body.begun >= items.count {
                if body.iterations.is_empty() {
                    self.conclude_loop(id, LoopEndReason::Items)?;
                }
                return Ok(());
            }
            if let Some(reason) = limit_reached(body, self.now()) {
                let idle = body.iterations.is_empty();
                self.loop_frame_mut(id)?.stopping = Some(reason);
                if idle {
                    self.conclude_loop(id, reason)?;
                }
                return Ok(());
            }
            if body.iterations.len() as u64 >= body.max_concurrency {
                return Ok(());
            }
            if self.work.iterations_left == 0 {
                self.state.agenda.push_front(AgendaItem::NextIteration(id));
                return Ok(());
            }
            let item = self.item_at(id, items, body.begun)?;
            self.begin_iteration(id, item)?;
        }
    }

    fn begin_iteration(&mut self, id: FrameId, item: Value) -> FaultResult {
        let frame = self.frame(id)?;
        let (node, outer, loop_started_at) = (frame.node, frame.scope, frame.started_at);
        let (looping, body) = self.loop_frame(id)?;
        let (index, started_at) = (body.begun, self.state.now);
        let (previous, count) = (body.previous.clone(), body.items.as_ref().map(|items| items.count));
        let iteration = Iteration { loop_node: node, index, item, previous, loop_started_at, started_at, count };
        let scope =
            self.state.scopes.insert(Scope { iteration: Some(iteration), ..Scope::new(Some(outer), Some(node)) });
        let quiet =
            index >= self.program.limits.loop_quiet_from_iteration && self.program.facts(looping.body).computes_only;
        let child = self.begin_child(id, looping.body, index, scope, quiet)?;
        let publishes = !self.frame(child)?.quiet;
        self.state.iterations += 1;
        self.work.iterations_left = self.work.iterations_left.saturating_sub(1);
        let body = self.loop_frame_mut(id)?;
        body.iterations.insert(index, LiveIteration::Body(child));
        body.begun += 1;
        if publishes && !looping.internal {
            self.publish_at(child, EventKind::IterationStarted { iteration: index });
        }
        Ok(())
    }

    /// Handles the end of a child of the loop: the body of an iteration, or its judge.
    pub(in crate::reduce) fn loop_child_ended(
        &mut self,
        id: FrameId,
        index: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
    ) -> Result<(), ItemStop> {
        match self.loop_frame(id)?.1.iterations.get(&index) {
            Some(LiveIteration::Body(_)) => self.iteration_ended(id, index, outcome, scope),
            Some(LiveIteration::Judge(_)) => self.judge_ended(id, index, outcome, scope),
            None => Err(no_part(id, "iteration", index).into()),
        }
    }

    fn iteration_ended(
        &mut self,
        id: FrameId,
        index: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
    ) -> Result<(), ItemStop> {
        let closing = self.frame(id)?.closing.is_some();
        let (looping, _) = self.loop_frame(id)?;
        let ending = self.is_ending(id)?;
        let checks = self.check_iteration(id, looping, outcome, scope, ending)?;
        self.child_removed(id)?;
        let record = self.record_iteration(id, looping, index, outcome, scope, &checks)?;
        if closing {
            self.work.output.iterations.extend(record);
            self.state.scopes.remove(scope);
            self.close_if_empty(id)?;
            return Ok(());
        }
        if let Some(judge) = judge_for(looping, outcome, &checks).filter(|_| !ending) {
            self.begin_judge(id, judge, index, scope, record)?;
            return Ok(());
        }
        self.work.output.iterations.extend(record);
        self.state.scopes.remove(scope);
        self.after_iteration(id, looping, checks)?;
        Ok(())
    }

    fn iteration_started_at(&self, scope: ScopeId) -> Timestamp {
        let iteration = self.state.scopes.get(scope).and_then(|scope| scope.iteration.as_ref());
        iteration.map_or(self.state.now, |iteration| iteration.started_at)
    }

    /// Returns the item to be retained in the iteration's history. The size limit is lower for successful iterations,
    /// because there are many. If the definition redacts anything, items may contain it, so none is retained.
    fn retained_item(&self, scope: ScopeId, status: Status) -> Option<Value> {
        let iteration = self.state.scopes.get(scope)?.iteration.as_ref()?;
        let limits = &self.program.limits;
        let max_bytes =
            if status.is_bad() { limits.max_history_failed_item_bytes } else { limits.max_history_item_bytes };
        let small = !iteration.item.is_null() && iteration.item.size_up_to(max_bytes) <= max_bytes;
        (small && !self.program.has_redactions()).then(|| iteration.item.clone())
    }

    /// Records the end of an iteration: counts, results, events. Returns its history.
    fn record_iteration(
        &mut self,
        id: FrameId,
        looping: &Loop,
        index: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
        checks: &IterationChecks,
    ) -> FaultResult<Option<IterationRecord>> {
        let started_at = self.iteration_started_at(scope);
        let reason = match judge_for(looping, outcome, checks) {
            // The judge decides whether it is the last.
            Some(_) if !self.is_ending(id)? => None,
            Some(_) | None => self.last_reason(id, checks.stop)?,
        };
        let frame = self.frame(id)?;
        let (closing, loop_quiet) = (frame.closing.is_some(), frame.quiet);
        let quiet_from = self.program.limits.loop_quiet_from_iteration;
        let quiet = loop_quiet || (index >= quiet_from && self.program.facts(looping.body).computes_only);
        let body = self.loop_frame_mut(id)?;
        // An iteration that the loop cancels does not affect how the loop ends.
        let cancelled = outcome.status == Status::Cancelled && (closing || body.stopping.is_some());
        let bad = outcome.status.is_bad() && !cancelled;
        body.iterations.remove(&index);
        body.ended += 1;
        body.failed += u64::from(bad);
        body.cancelled += u64::from(cancelled);
        if !cancelled && body.last_index.is_none_or(|last| index >= last) {
            body.last_index = Some(index);
            body.last_status = Some(outcome.status);
            body.last_error = outcome.error.clone();
            body.previous = outcome.output.clone();
        }
        if bad && body.first_error.is_none() {
            body.first_error = outcome.error.clone();
        }
        if let Some(value) = &checks.watched {
            body.stall = match body.stall.take() {
                Some((before, count)) if before == *value => Some((before, count + 1)),
                Some(_) | None => Some((value.clone(), 1)),
            };
        }
        body.condition_met |= checks.met;
        body.broken_off |= checks.broke;
        let path = body.history.as_ref().unwrap_or(&body.path).clone();
        let counts = quiet && !loop_quiet && !looping.internal;
        let first_unpublished = counts && body.unpublished.is_none();
        if counts {
            let (from, failed) = body.unpublished.unwrap_or((body.ended - 1, 0));
            body.unpublished = Some((from, failed + u64::from(bad)));
        }
        if first_unpublished {
            self.work.unpublished.push(id);
        }
        let result = match &checks.entry {
            Some(entry) => self.move_to_blob(entry.clone()),
            None => outcome.output.clone(),
        };
        self.collect_result(id, looping.collect, index, result)?;
        if let Some(records) = &looping.records {
            self.collect_record(id, records.keep, index, checks.record.clone())?;
        }
        if looping.internal {
            return Ok(None);
        }
        let duration = self.state.now.since(started_at);
        if !quiet {
            self.publish_iteration(id, looping, index, outcome, duration, checks.condition)?;
        }
        Ok(Some(IterationRecord {
            loop_path: path,
            index,
            status: outcome.status,
            started_at,
            duration,
            condition: checks.condition,
            result: self.redacted_output(id, &outcome.output),
            error: outcome.error.clone(),
            reason,
            item: self.retained_item(scope, outcome.status),
            verdict: None,
        }))
    }

    /// Reports whether the loop is stopping or being cancelled: then it begins no judge.
    fn is_ending(&self, id: FrameId) -> FaultResult<bool> {
        Ok(self.frame(id)?.closing.is_some() || self.loop_frame(id)?.1.stopping.is_some())
    }

    /// Returns the reason why the loop ends with the iteration that is over now, if it is the last. `stop` is the
    /// reason that the iteration itself gives.
    pub(super) fn last_reason(&self, id: FrameId, stop: Option<LoopEndReason>) -> FaultResult<Option<LoopEndReason>> {
        let frame = self.frame(id)?;
        if frame.live > 0 {
            return Ok(None);
        }
        if let Some(closing) = &frame.closing {
            return Ok(Some(cancel_reason(closing)));
        }
        let (_, body) = self.loop_frame(id)?;
        let exhausted =
            || limit_reached(body, self.now()).or((!may_continue(body, self.now())).then_some(LoopEndReason::Items));
        Ok(body.stopping.or(stop).or_else(exhausted))
    }

    fn publish_iteration(
        &mut self,
        id: FrameId,
        looping: &Loop,
        index: u64,
        outcome: &Outcome,
        duration: Duration,
        condition: Option<bool>,
    ) -> FaultResult {
        let node = self.frame(id)?.node;
        let (_, body) = self.loop_frame(id)?;
        let path = format!("{}{}", body.path, iteration_suffix(index));
        let done = EventKind::IterationDone {
            action_name: self.program.node(node).name.clone(),
            iteration: index,
            loop_type: looping.kind.clone(),
            status: outcome.status,
            condition_result: condition,
            result: self.redacted_output(id, &outcome.output),
            duration,
            usage: budget::amounts_value(&body.budget, |budget| budget.used).unwrap_or_default(),
            iteration_usage: outcome.usage.clone(),
            error: outcome.error.as_ref().map(|error| self.event_error(error)),
        };
        self.publish(path.into(), done);
        Ok(())
    }

    /// Handles a completed iteration, its judge included: the loop ends, waits, or continues.
    pub(super) fn after_iteration(&mut self, id: FrameId, looping: &Loop, checks: IterationChecks) -> FaultResult {
        let (live, now) = (self.frame(id)?.live, self.now());
        let body = self.loop_frame_mut(id)?;
        if let Some(reason) = checks.stop.filter(|_| body.stopping.is_none()) {
            body.stopping = Some(reason);
            body.cause = checks.error;
            let finish = matches!(looping.on_iteration_failure, IterationFailure::Stop { running_finish: true });
            if live > 0 && !finish {
                self.cancel_iterations(id)?;
            }
        }
        let (_, body) = self.loop_frame(id)?;
        if let Some(reason) = body.stopping {
            return if live == 0 { self.conclude_loop(id, reason) } else { Ok(()) };
        }
        if matches!(looping.source, LoopSource::Repeat)
            && let Some(reason) = limit_reached(body, now)
        {
            return self.conclude_loop(id, reason);
        }
        self.delay_or_go_on(id, checks.delay)
    }

    pub(super) fn cancel_iterations(&mut self, id: FrameId) -> FaultResult {
        let (_, body) = self.loop_frame(id)?;
        for child in body.iterations.values().map(LiveIteration::frame).collect::<Vec<_>>() {
            self.close(child, Closing::cancelled())?;
        }
        Ok(())
    }
}
