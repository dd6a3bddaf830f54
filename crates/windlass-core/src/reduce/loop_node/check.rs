//! The checks of an iteration: failure policy, `break_when`, condition, stall; and the values kept of the iteration.
//! All of them are evaluated in the iteration's scope, before the scope is removed.
//!
//! | checked, in this order | the loop ends as |
//! |---|---|
//! | the iteration failed, and the policy does not allow it | `failed` |
//! | `break_when` holds | `condition` |
//! | the condition ends the loop | `condition` |
//! | the watched value has been the same for too long | `stalled` |
//! | any of these cannot be evaluated | `failed` |
//! | none of them | the loop continues: judge, limits, delay |
//!
//! The first check evaluates the condition alone. A first check after an iteration has begun, or in a loop that does
//! not check before, is impossible and a fault.

use windlass_value::{Duration, Map, Value};

use super::judge::judge_for;
use crate::plan::{CollectMode, IterationFailure, Loop, LoopCheck};
use crate::reduce::eval::Locals;
use crate::reduce::fault::no_part;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{AgendaItem, FrameId, Iteration, ScopeId};
use crate::{ErrorInfo, LoopEndReason, Outcome, Status};

/// The results of the checks of an iteration.
#[derive(Default)]
pub(super) struct IterationChecks {
    pub stop: Option<LoopEndReason>,
    pub condition: Option<bool>,
    /// The loop's own condition ends it.
    pub met: bool,
    /// `break_when` ends it.
    pub broke: bool,
    /// The value that must change.
    pub watched: Option<Value>,
    pub error: Option<ErrorInfo>,
    pub delay: Option<Duration>,
    /// The record of the iteration.
    pub record: Value,
    /// The entry kept of it instead of its output.
    pub entry: Option<Value>,
}

impl IterationChecks {
    /// Records a failed check, which ends the loop as failed; a check that lacks values is repeated.
    pub(crate) fn record_failure(&mut self, checked: Result<(), ItemStop>) -> Result<(), ItemStop> {
        match checked {
            Ok(()) => Ok(()),
            Err(ItemStop::Failed(error)) => {
                self.stop = Some(LoopEndReason::Failed);
                self.error = Some(*error);
                Ok(())
            }
            Err(stop @ (ItemStop::Need(_) | ItemStop::Impossible(_))) => Err(stop),
        }
    }

    /// Returns a value that the iteration leaves behind. A loop that is ending already has its reason.
    fn record_value(&mut self, value: Result<Value, ItemStop>, ending: bool) -> Result<Option<Value>, ItemStop> {
        match value {
            Ok(value) => Ok(Some(value)),
            Err(ItemStop::Failed(_)) if ending || self.stop.is_some() => Ok(None),
            Err(stop) => self.record_failure(Err(stop)).map(|()| None),
        }
    }
}

/// Returns the names that an `entry` expression sees of the iteration's end.
fn entry_names(outcome: &Outcome) -> Map {
    let status = if outcome.status == Status::Succeeded { "success" } else { "error" };
    Map::from_iter([
        ("status", Value::from(status)),
        ("output", outcome.output.clone()),
        ("error", outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value)),
    ])
}

impl Reducer<'_> {
    /// Checks before the first iteration. The condition sees no results, and 0 iterations completed.
    pub(in crate::reduce) fn first_check(&mut self, id: FrameId) -> Result<(), ItemStop> {
        let Some((looping, body)) = self.loop_if_open(id)? else { return Ok(()) };
        if body.stopping.is_some() {
            return self.next_iteration(id);
        }
        let (condition, stop_when) = match looping.check {
            LoopCheck::Before { condition, stop_when } if body.begun == 0 => (condition, stop_when),
            LoopCheck::Before { .. } | LoopCheck::After { .. } | LoopCheck::Never => {
                return Err(no_part(id, "first check after this number of iterations:", body.begun).into());
            }
        };
        let frame = self.frame(id)?;
        let (scope, started_at) = (frame.scope, frame.started_at);
        let iteration = Iteration {
            loop_node: frame.node,
            index: 0,
            item: self.item_around(id)?,
            previous: Value::Null,
            loop_started_at: started_at,
            started_at,
            count: body.items.as_ref().map(|items| items.count),
        };
        let locals = Locals { iteration: Some(&iteration), ..Locals::default() };
        if self.condition(condition, scope, locals)? == stop_when {
            self.loop_frame_mut(id)?.condition_met = true;
            self.conclude_loop(id, LoopEndReason::Condition)?;
        } else {
            self.state.agenda.push_back(AgendaItem::NextIteration(id));
        }
        Ok(())
    }

    /// Evaluates all checks after an iteration. In a loop that is ending anyway, evaluates only the values kept of the
    /// iteration.
    pub(super) fn check_iteration(
        &mut self,
        id: FrameId,
        looping: &Loop,
        outcome: &Outcome,
        scope: ScopeId,
        ending: bool,
    ) -> Result<IterationChecks, ItemStop> {
        let mut checks = IterationChecks::default();
        if !ending {
            let checked = self.check_stop(id, looping, outcome, scope, &mut checks);
            checks.record_failure(checked)?;
        }
        let cancelled = ending && outcome.status == Status::Cancelled;
        if let Some(records) = looping.records.as_ref().filter(|_| !cancelled) {
            let record = self.eval_with(records.value, scope, Locals { iteration_ended: true, ..Locals::default() });
            checks.record = checks.record_value(record, ending)?.unwrap_or_default();
        }
        let listed = matches!(looping.collect, CollectMode::List | CollectMode::Stats);
        if let Some(entry) = looping.entry.filter(|_| listed && !cancelled) {
            let names = entry_names(outcome);
            let entry = self.eval_with(entry, scope, Locals { names: Some(&names), ..Locals::default() });
            checks.entry = checks.record_value(entry, ending)?;
        }
        if !ending && judge_for(looping, outcome, &checks).is_none() {
            let delayed = self.check_delay(id, looping, scope, &mut checks);
            checks.record_failure(delayed)?;
        }
        Ok(checks)
    }

    /// Checks whether the iteration ends the loop: by its failure, by `break_when`, by the condition, or because
    /// nothing changes.
    fn check_stop(
        &mut self,
        id: FrameId,
        looping: &Loop,
        outcome: &Outcome,
        scope: ScopeId,
        checks: &mut IterationChecks,
    ) -> Result<(), ItemStop> {
        let (_, body) = self.loop_frame(id)?;
        let (completed, failed) = (body.ended + 1, body.failed + u64::from(outcome.status.is_bad()));
        if outcome.status.is_bad() && stops(looping.on_iteration_failure, failed) {
            checks.stop = Some(LoopEndReason::Failed);
            checks.error = outcome.error.clone();
            return Ok(());
        }
        let locals = Locals { iteration_index: Some(completed), previous: Some(&outcome.output), ..Locals::default() };
        if let Some(condition) = looping.break_when {
            checks.broke = self.condition(condition, scope, locals)?;
        }
        if let LoopCheck::Before { condition, stop_when } | LoopCheck::After { condition, stop_when } = looping.check {
            let result = self.condition(condition, scope, locals)?;
            checks.condition = Some(result);
            checks.met = result == stop_when;
        }
        checks.stop = (checks.broke || checks.met).then_some(LoopEndReason::Condition);
        if let Some(stall) = &looping.stall {
            let value = self.eval_with(stall.watch, scope, locals)?;
            let (_, body) = self.loop_frame(id)?;
            let same = match &body.stall {
                Some((before, count)) if *before == value => count + 1,
                Some(_) | None => 1,
            };
            if same >= stall.iterations {
                checks.stop = checks.stop.or(Some(LoopEndReason::Stalled));
            }
            checks.watched = Some(value);
        }
        Ok(())
    }
}

fn stops(policy: IterationFailure, failed: u64) -> bool {
    match policy {
        IterationFailure::Stop { .. } => true,
        IterationFailure::Tolerate(allowed) => failed > allowed,
        IterationFailure::FailAtEnd | IterationFailure::Count | IterationFailure::LastDecides => false,
    }
}
