//! The end of a loop: its reason, its status and its output.
//!
//! | loop | concluded | cancelled from outside |
//! |---|---|---|
//! | running or stopping | its end is published, and the frame finishes | its end is published, and the frame ends |
//! | concluded (an end is on the agenda) | ignored | the frame ends; its end is already published |
//!
//! The table of the loop node shows which reason leads to which status.

use windlass_value::Value;

use super::budget::budget_error;
use crate::plan::{CollectMode, ExhaustedPolicy, IterationFailure, Loop};
use crate::reduce::fault::{FaultResult, miscounted};
use crate::reduce::{Reducer, budget};
use crate::state::{Closing, FrameEnd, FrameId, LoopFrame};
use crate::{ErrorInfo, EventKind, LoopEndReason, LoopStats, LoopSummary, Status};

impl Reducer<'_> {
    /// Ends the loop with its reason. Every iteration has ended.
    pub(in crate::reduce) fn conclude_loop(&mut self, id: FrameId, reason: LoopEndReason) -> FaultResult {
        let attempts = self.frame(id)?.attempt;
        if std::mem::replace(&mut self.loop_frame_mut(id)?.concluded, true) {
            return Ok(());
        }
        let (looping, body) = self.loop_frame(id)?;
        let (status, error) = self.final_status(looping, body, reason);
        let error = error.map(|error| self.program.plan.apply_hint(error));
        let summary = Some(self.loop_summary(id, looping, reason)?);
        self.publish_loop_done(id, status, reason)?;
        let output = self.loop_output(id, looping, status, reason)?;
        self.forget_loop_time(id)?;
        self.clear_alarm(id)?;
        self.finish(id, FrameEnd { status, output, error, inputs: Value::Null, attempts, loop_summary: summary })
    }

    /// Ends a loop that was cancelled from outside, with its output so far.
    pub(in crate::reduce) fn loop_cancelled(&mut self, id: FrameId, closing: Closing) -> FaultResult {
        let attempts = self.frame(id)?.attempt;
        let reason = cancel_reason(&closing);
        let was_concluded = std::mem::replace(&mut self.loop_frame_mut(id)?.concluded, true);
        let (looping, _) = self.loop_frame(id)?;
        let summary = Some(self.loop_summary(id, looping, reason)?);
        if !was_concluded {
            self.publish_loop_done(id, closing.status, reason)?;
        }
        let output = self.loop_output(id, looping, closing.status, reason)?;
        let Closing { status, mut error, .. } = closing;
        if let Some(error) = error.as_mut().filter(|error| error.path.is_empty()) {
            error.path = self.path(id);
        }
        self.end_cancelled(id, FrameEnd { status, output, error, inputs: Value::Null, attempts, loop_summary: summary })
    }

    /// Returns the status and error of a loop that stopped for this reason.
    fn final_status(&self, looping: &Loop, body: &LoopFrame, reason: LoopEndReason) -> (Status, Option<ErrorInfo>) {
        // A budget that did not suffice for a single iteration fails the loop in any case.
        let without_success = reason == LoopEndReason::Budget && body.ended == body.failed + body.cancelled;
        let fails = without_success || looping.on_exhausted == ExhaustedPolicy::Fail;
        let failed = |error: ErrorInfo| (Status::Failed, Some(error));
        match reason {
            LoopEndReason::Failed => (Status::Failed, body.cause.clone()),
            LoopEndReason::Cancelled => (Status::Cancelled, None),
            LoopEndReason::Condition if body.broken_off => (Status::Succeeded, None),
            LoopEndReason::Count if fails => failed(count_exceeded(body)),
            LoopEndReason::Timeout if fails => failed(timed_out(body)),
            LoopEndReason::Stalled if fails => failed(stalled(body)),
            LoopEndReason::Budget if fails => failed(budget_exceeded(body, without_success)),
            LoopEndReason::Condition
            | LoopEndReason::Items
            | LoopEndReason::Judge
            | LoopEndReason::Count
            | LoopEndReason::Timeout
            | LoopEndReason::Budget
            | LoopEndReason::Stalled => by_iterations(looping, body),
        }
    }

    fn loop_summary(&mut self, id: FrameId, looping: &Loop, reason: LoopEndReason) -> FaultResult<LoopSummary> {
        let records = self.iteration_records(id, looping.records.as_ref().map(|records| records.keep))?;
        let (_, body) = self.loop_frame(id)?;
        let (kind, usage, unjudged) = (looping.kind.clone(), body.budget.clone(), body.unjudged);
        Ok(LoopSummary { kind, iterations: body.ended, failed: body.failed, reason, usage, records, unjudged })
    }

    fn publish_loop_done(&mut self, id: FrameId, status: Status, reason: LoopEndReason) -> FaultResult {
        self.publish_pending_iterations_of(id)?;
        let (looping, body) = self.loop_frame(id)?;
        let (total, failed) = (body.ended, body.failed);
        if looping.internal {
            return Ok(());
        }
        if self.frame(id)?.quiet {
            return self.count_quiet_loop(id, total, failed);
        }
        let done = EventKind::LoopDone {
            iterations: total,
            reason,
            status,
            stats: LoopStats { total, success: successes(id, body)?, failed },
            usage: budget::amounts_value(&body.budget, |budget| budget.used).unwrap_or_default(),
            unjudged: body.unjudged,
        };
        self.publish_at(id, done);
        Ok(())
    }

    fn loop_output(
        &mut self,
        id: FrameId,
        looping: &Loop,
        status: Status,
        reason: LoopEndReason,
    ) -> FaultResult<Value> {
        Ok(match looping.collect {
            CollectMode::Last => self.loop_frame(id)?.1.previous.clone(),
            CollectMode::List => self.result_list(id)?,
            CollectMode::Stats => {
                let results = self.result_list(id)?;
                let (_, body) = self.loop_frame(id)?;
                let stats = Value::object([
                    ("total", Value::from(body.ended)),
                    ("success", Value::from(successes(id, body)?)),
                    ("failed", Value::from(body.failed)),
                ]);
                Value::object([("results", results), ("stats", stats)])
            }
            CollectMode::Report => report(self.loop_frame(id)?.1, status, reason),
        })
    }
}

pub(super) fn cancel_reason(closing: &Closing) -> LoopEndReason {
    let timed_out = closing.error.as_ref().is_some_and(|error| &*error.kind == "timeout");
    if timed_out || closing.status == Status::TimedOut { LoopEndReason::Timeout } else { LoopEndReason::Cancelled }
}

fn by_iterations(looping: &Loop, body: &LoopFrame) -> (Status, Option<ErrorInfo>) {
    match looping.on_iteration_failure {
        IterationFailure::FailAtEnd if body.failed > 0 => (Status::Failed, body.first_error.clone()),
        IterationFailure::LastDecides => match body.last_status {
            Some(status) if status.is_bad() => (status, body.last_error.clone()),
            Some(_) | None => (Status::Succeeded, None),
        },
        // An iteration that the policy does not allow to fail has ended the loop as failed.
        IterationFailure::FailAtEnd
        | IterationFailure::Stop { .. }
        | IterationFailure::Tolerate(_)
        | IterationFailure::Count => (Status::Succeeded, None),
    }
}

fn format_iterations(body: &LoopFrame) -> String {
    if body.ended == 1 { "1 iteration".to_owned() } else { format!("{} iterations", body.ended) }
}

fn count_exceeded(body: &LoopFrame) -> ErrorInfo {
    let message = format!("the loop has used all its {} and its condition is not met", format_iterations(body));
    ErrorInfo::new("LoopCountExceeded", "limit", message)
        .hint("raise limit.count, or check why its condition is not met: `windlass events RUN`")
}

fn timed_out(body: &LoopFrame) -> ErrorInfo {
    let message = format!("the loop ran out of time after {}", format_iterations(body));
    ErrorInfo::new("LoopTimeout", "timeout", message).hint(
        "raise limit.timeout (it also elapses while a run is stopped), or check why the condition is not met: `windlass events RUN`",
    )
}

fn stalled(body: &LoopFrame) -> ErrorInfo {
    let message = format!("the loop makes no progress after {}", format_iterations(body));
    ErrorInfo::new("LoopStalled", "limit", message)
        .hint("check what stays the same from iteration to iteration: `windlass events RUN`")
}

fn budget_exceeded(body: &LoopFrame, without_success: bool) -> ErrorInfo {
    let when = if without_success {
        "before an iteration succeeded".to_owned()
    } else {
        format!("after {}", format_iterations(body))
    };
    budget_error(&when, budget::shortage(&body.budget))
}

/// Returns the number of successful iterations.
fn successes(id: FrameId, body: &LoopFrame) -> FaultResult<u64> {
    let good = body.ended.checked_sub(body.failed).and_then(|good| good.checked_sub(body.cancelled));
    good.ok_or_else(|| miscounted(id, "successful iterations"))
}

/// Returns the report of a condition loop.
fn report(body: &LoopFrame, status: Status, reason: LoopEndReason) -> Value {
    let word = match (reason, status) {
        (LoopEndReason::Count, _) => "max-iterations",
        (LoopEndReason::Timeout, _) => "timeout",
        (LoopEndReason::Budget, _) => "budget",
        (LoopEndReason::Stalled, _) => "stalled",
        (LoopEndReason::Condition, Status::Succeeded) if body.broken_off && !body.condition_met => "break",
        (
            LoopEndReason::Condition
            | LoopEndReason::Items
            | LoopEndReason::Judge
            | LoopEndReason::Failed
            | LoopEndReason::Cancelled,
            status,
        ) => {
            if status == Status::Succeeded {
                "completed"
            } else {
                status.as_str()
            }
        }
    };
    let mut map = windlass_value::Map::new();
    map.insert("status", word);
    map.insert("reason", reason.as_str());
    map.insert("iterations", body.ended);
    map.insert("conditionMet", body.condition_met);
    map.insert("lastResult", body.previous.clone());
    map.insert("results", body.results.tail.iter().cloned().collect::<Vec<_>>());
    if body.results.dropped > 0 {
        map.insert("resultsDropped", body.results.dropped);
    }
    if let Some(used) = budget::amounts_value(&body.budget, |budget| budget.used) {
        map.insert("usage", used);
    }
    Value::map(map)
}
