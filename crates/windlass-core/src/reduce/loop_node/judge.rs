//! The judge: a node that decides, after a successful iteration, whether the loop is done.
//!
//! It runs in the iteration's scope and keeps the iteration's slot; the iteration is over when the judge has ended.
//!
//! | the judge ends | loop running | loop stopping | loop being cancelled |
//! |---|---|---|---|
//! | with `done: true` | ends as `judge` | ends when none is live | ends when none is live |
//! | with `done: false`, or without a verdict | continues | the same | the same |
//! | without a verdict, once more than `max_unjudged` | ends as `failed` | the same | the same |
//! | failed or timed out | continues; ends as `failed` with `judge_fails` | the same | the same |

use windlass_value::Value;

use super::check::IterationChecks;
use crate::plan::{Loop, NodeId};
use crate::reduce::fault::FaultResult;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameId, LiveIteration, ScopeId};
use crate::{ErrorInfo, EventKind, IterationRecord, IterationVerdict, LoopEndReason, Outcome, Status};

/// Returns the judge of a successful iteration that has not ended the loop.
pub(super) fn judge_for(looping: &Loop, outcome: &Outcome, checks: &IterationChecks) -> Option<NodeId> {
    looping.judge.filter(|_| checks.stop.is_none() && !outcome.status.is_bad())
}

impl Reducer<'_> {
    /// Begins the judge of an iteration. The history of the iteration waits for the verdict.
    pub(super) fn begin_judge(
        &mut self,
        id: FrameId,
        judge: NodeId,
        index: u64,
        scope: ScopeId,
        record: Option<IterationRecord>,
    ) -> FaultResult {
        let child = self.begin_child(id, judge, index, scope, false)?;
        let body = self.loop_frame_mut(id)?;
        body.iterations.insert(index, LiveIteration::Judge(child));
        body.judging.extend(record.map(|record| (index, record)));
        Ok(())
    }

    /// Handles the judge's end. A judge without a verdict does not stop the loop, unless its failure fails the loop
    /// (`judge_fails`).
    pub(super) fn judge_ended(
        &mut self,
        id: FrameId,
        index: u64,
        outcome: &Outcome,
        scope: ScopeId,
    ) -> Result<(), ItemStop> {
        let verdict = self.resolve(&outcome.output)?;
        let (looping, _) = self.loop_frame(id)?;
        let closing = self.frame(id)?.closing.is_some();
        let done_value = verdict.get("done").and_then(Value::as_bool);
        let done = done_value == Some(true);
        let mut checks = IterationChecks { stop: done.then_some(LoopEndReason::Judge), ..IterationChecks::default() };
        if !closing {
            let delayed = self.check_delay(id, looping, scope, &mut checks);
            checks.record_failure(delayed)?;
        }
        if looping.judge_fails && matches!(outcome.status, Status::Failed | Status::TimedOut) {
            checks.stop = Some(LoopEndReason::Failed);
            checks.error = outcome.error.clone();
        }
        self.child_removed(id)?;
        let body = self.loop_frame_mut(id)?;
        body.iterations.remove(&index);
        let record = body.judging.remove(&index);
        // A judge that was cancelled was not asked to the end: its iteration is not one without a verdict.
        let unjudged_now = done_value.is_none() && outcome.status != Status::Cancelled;
        body.unjudged += u64::from(unjudged_now);
        let too_often = unjudged_now && looping.max_unjudged.is_some_and(|max| body.unjudged > max);
        if too_often && checks.error.is_none() {
            checks.stop = Some(LoopEndReason::Failed);
            checks.error = Some(unjudged(body.unjudged, &verdict));
        }
        let reason = self.last_reason(id, checks.stop)?;
        let max_chars = self.program.limits.max_history_reason_chars;
        let given = (outcome.status != Status::Cancelled).then(|| history_verdict(done_value, &verdict, max_chars));
        let record = record.map(|record| IterationRecord { verdict: given, reason, ..record });
        self.work.output.iterations.extend(record);
        self.publish_at(id, EventKind::LoopJudged { iteration: index, done: done_value, verdict });
        self.state.scopes.remove(scope);
        match closing {
            true => self.close_if_empty(id)?,
            false => self.after_iteration(id, looping, checks)?,
        }
        Ok(())
    }
}

/// Returns a verdict as the history of the iteration retains it.
fn history_verdict(done: Option<bool>, verdict: &Value, max_chars: usize) -> IterationVerdict {
    let problem = || verdict.get("error").and_then(|error| error.get("message"));
    let reason = verdict.get("reason").filter(|reason| !reason.is_null()).or_else(problem);
    let text = reason.map(|reason| reason.as_str().map_or_else(|| windlass_value::to_json(reason), str::to_owned));
    IterationVerdict { done, reason: text.map(|text| text.chars().take(max_chars).collect::<String>().into()) }
}

/// The error of a loop whose judge gave no verdict too often, with the reason of the last time if the judge failed.
fn unjudged(times: u64, last: &Value) -> ErrorInfo {
    let times = if times == 1 { "1 iteration has".to_owned() } else { format!("{times} iterations have") };
    let why = last.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
    let last = why.map(|why| format!("; the last: {why}")).unwrap_or_default();
    let message = format!("{times} no verdict of the judge, more than the loop tolerates{last}");
    ErrorInfo::new("LoopUnjudged", "limit", message)
        .hint("check what the judge answers: `windlass events RUN`; or raise `maxUnjudged`")
}
