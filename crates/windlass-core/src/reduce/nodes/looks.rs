//! What a loop looks at when a turn has ended: all of it in the turn's scope, before the scope goes.

use windlass_value::{Duration, Map, Value};

use super::looping::goes_on;
use crate::plan::{Check, Collect, Loop, TurnFailure};
use crate::reduce::eval::Locals;
use crate::reduce::{Reducer, Stop};
use crate::state::{FrameId, ScopeId};
use crate::{ErrorInfo, Outcome, Reason, Status};

#[derive(Default)]
pub(super) struct Found {
    pub stop: Option<Reason>,
    pub condition: Option<bool>,
    /// The loop's own condition ends it.
    pub met: bool,
    /// The wish to break off ends it.
    pub broke: bool,
    pub watched: Option<Value>,
    pub error: Option<ErrorInfo>,
    pub delay: Option<Duration>,
    /// What is written down of the turn.
    pub record: Value,
    /// What is kept of it instead of its output.
    pub entry: Option<Value>,
}

impl Found {
    /// A look that fails ends the loop as failed; one that lacks values is repeated.
    pub fn or_failed(&mut self, looked: Result<(), Stop>) -> Result<(), Stop> {
        match looked {
            Err(Stop::Failed(error)) => {
                self.stop = Some(Reason::Failed);
                self.error = Some(*error);
                Ok(())
            }
            other => other,
        }
    }

    /// What a turn leaves behind. A loop that ends has its reason already.
    fn left_behind(&mut self, value: Result<Value, Stop>, ending: bool) -> Result<Option<Value>, Stop> {
        match value {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Failed(_)) if ending || self.stop.is_some() => Ok(None),
            Err(stop) => self.or_failed(Err(stop)).map(|()| None),
        }
    }
}

/// A turn's end, for what is kept of it.
fn turn_names(outcome: &Outcome) -> Map {
    let status = if outcome.status == Status::Succeeded { "success" } else { "error" };
    Map::from_iter([
        ("status", Value::from(status)),
        ("output", outcome.output.clone()),
        ("error", outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value)),
    ])
}

impl Reducer<'_> {
    /// All that is evaluated after a turn. Of a loop that is ending anyway, only what the turn leaves behind.
    pub(super) fn look(
        &mut self,
        id: FrameId,
        looping: &Loop,
        outcome: &Outcome,
        scope: ScopeId,
        ending: bool,
    ) -> Result<Found, Stop> {
        let mut found = Found::default();
        if !ending {
            let looked = self.try_look(id, looping, outcome, scope, &mut found);
            found.or_failed(looked)?;
        }
        let called_off = ending && outcome.status == Status::Cancelled;
        if let Some(records) = looping.records.as_ref().filter(|_| !called_off) {
            let record = self.eval_with(records.value, scope, Locals { turn_ended: true, ..Locals::default() });
            found.record = found.left_behind(record, ending)?.unwrap_or_default();
        }
        let listed = matches!(looping.collect, Collect::List | Collect::Stats);
        if let Some(entry) = looping.entry.filter(|_| listed && !called_off) {
            let names = turn_names(outcome);
            let entry = self.eval_with(entry, scope, Locals { names: Some(&names), ..Locals::default() });
            found.entry = found.left_behind(entry, ending)?;
        }
        if !ending && !judged(looping, outcome, &found) {
            let rested = self.look_at_delay(id, looping, scope, &mut found);
            found.or_failed(rested)?;
        }
        Ok(found)
    }

    /// Between turns only, in the scope of the turn that has ended: a loop that ends does not even work its delay out.
    pub(super) fn look_at_delay(
        &mut self,
        id: FrameId,
        looping: &Loop,
        scope: ScopeId,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let Some((_, body)) = self.loop_of(id) else { return Ok(()) };
        if found.stop.is_none() && body.stopping.is_none() && goes_on(body, self.now()) {
            found.delay = looping.delay.as_ref().map(|delay| self.duration(delay, scope)).transpose()?;
        }
        Ok(())
    }

    fn try_look(
        &mut self,
        id: FrameId,
        looping: &Loop,
        outcome: &Outcome,
        scope: ScopeId,
        found: &mut Found,
    ) -> Result<(), Stop> {
        let Some((_, body)) = self.loop_of(id) else { return Ok(()) };
        let (completed, failed) = (body.ended + 1, body.failed + u64::from(outcome.status.is_bad()));
        if outcome.status.is_bad() && stops(looping.on_turn_failure, failed) {
            found.stop = Some(Reason::Failed);
            found.error = outcome.error.clone();
            return Ok(());
        }
        let locals = Locals { turn_index: Some(completed), previous: Some(&outcome.output), ..Locals::default() };
        if let Some(condition) = looping.break_when {
            found.broke = self.condition(condition, scope, locals)?;
        }
        if let Check::Before { condition, stop_when } | Check::After { condition, stop_when } = looping.check {
            let result = self.condition(condition, scope, locals)?;
            found.condition = Some(result);
            found.met = result == stop_when;
        }
        found.stop = (found.broke || found.met).then_some(Reason::Condition);
        if let Some(stall) = &looping.stall {
            let value = self.eval_with(stall.watch, scope, locals)?;
            let Some((_, body)) = self.loop_of(id) else { return Ok(()) };
            let same = match &body.stall {
                Some((before, turns)) if *before == value => turns + 1,
                _ => 1,
            };
            if same >= stall.turns {
                found.stop = found.stop.or(Some(Reason::Stalled));
            }
            found.watched = Some(value);
        }
        Ok(())
    }
}

fn stops(policy: TurnFailure, failed: u64) -> bool {
    match policy {
        TurnFailure::Stop { .. } => true,
        TurnFailure::Tolerate(allowed) => failed > allowed,
        TurnFailure::FailAtEnd | TurnFailure::Count | TurnFailure::LastDecides => false,
    }
}

/// The judge looks at a turn that has ended well and has not ended the loop.
pub(super) fn judged(looping: &Loop, outcome: &Outcome, found: &Found) -> bool {
    looping.judge.is_some() && found.stop.is_none() && !outcome.status.is_bad()
}
