//! The end of a loop: its reason, its status, what it gives.

use windlass_value::Value;

use super::budget::exceeded;
use crate::plan::{Collect, Exhausted, Loop, TurnFailure};
use crate::reduce::impossible::Checked;
use crate::reduce::{Reducer, budget};
use crate::state::{Closing, Ended, FrameId, LoopFrame};
use crate::{ErrorInfo, EventKind, LoopStats, LoopSummary, Reason, Status};

impl Reducer<'_> {
    /// Ends the loop with its reason. Every iteration has ended.
    pub(in crate::reduce) fn conclude_loop(&mut self, id: FrameId, reason: Reason) -> Checked {
        let attempts = self.frame(id)?.attempt;
        if std::mem::replace(&mut self.loop_frame_mut(id)?.concluded, true) {
            return Ok(());
        }
        let (looping, body) = self.loop_frame(id)?;
        let (status, error) = self.verdict(looping, body, reason);
        let error = error.map(|error| self.program.plan.advised(error));
        let turns = Some(self.loop_summary(id, looping, reason)?);
        self.tell_loop_done(id, status, reason)?;
        let output = self.loop_output(id, looping, status, reason)?;
        self.forget_loop_time(id)?;
        self.clear_alarm(id)?;
        self.finish(id, Ended { status, output, error, inputs: Value::Null, attempts, turns })
    }

    /// The loop was called off from outside; what it has is kept.
    pub(in crate::reduce) fn loop_called_off(&mut self, id: FrameId, closing: Closing) -> Checked {
        let attempts = self.frame(id)?.attempt;
        let reason = called_off_because(&closing);
        let told = std::mem::replace(&mut self.loop_frame_mut(id)?.concluded, true);
        let (looping, _) = self.loop_frame(id)?;
        let turns = Some(self.loop_summary(id, looping, reason)?);
        if !told {
            self.tell_loop_done(id, closing.status, reason)?;
        }
        let output = self.loop_output(id, looping, closing.status, reason)?;
        let Closing { status, mut error, .. } = closing;
        if let Some(error) = error.as_mut().filter(|error| error.path.is_empty()) {
            error.path = self.path(id);
        }
        self.end_called_off(id, Ended { status, output, error, inputs: Value::Null, attempts, turns })
    }

    /// How a loop that stopped for this reason ends.
    fn verdict(&self, looping: &Loop, body: &LoopFrame, reason: Reason) -> (Status, Option<ErrorInfo>) {
        // A budget that sufficed for no iteration at all fails the loop in any case.
        let in_vain = reason == Reason::Budget && body.ended == body.failed + body.cancelled;
        match reason {
            Reason::Failed => (Status::Failed, body.cause.clone()),
            Reason::Cancelled => (Status::Cancelled, None),
            Reason::Condition if body.broke => (Status::Succeeded, None),
            Reason::Count | Reason::Timeout | Reason::Budget | Reason::Stalled
                if in_vain || looping.on_exhausted == Exhausted::Fail =>
            {
                let turns = if body.ended == 1 { "1 turn".to_owned() } else { format!("{} turns", body.ended) };
                let error = match reason {
                    Reason::Budget => {
                        let when =
                            if in_vain { "before a turn ended well".to_owned() } else { format!("after {turns}") };
                        exceeded(&when, budget::short(&body.budget))
                    }
                    _ => exhausted(&turns, reason),
                };
                (Status::Failed, Some(error))
            }
            Reason::Condition | Reason::Items | Reason::Judge => by_iterations(looping, body),
            Reason::Count | Reason::Timeout | Reason::Budget | Reason::Stalled => by_iterations(looping, body),
        }
    }

    fn loop_summary(&mut self, id: FrameId, looping: &Loop, reason: Reason) -> Checked<LoopSummary> {
        let records = self.iteration_records(id, looping.records.as_ref().map(|records| records.keep))?;
        let (_, body) = self.loop_frame(id)?;
        let (kind, usage, unjudged) = (looping.kind.clone(), body.budget.clone(), body.unjudged);
        Ok(LoopSummary { kind, turns: body.ended, failed: body.failed, reason, usage, records, unjudged })
    }

    fn tell_loop_done(&mut self, id: FrameId, status: Status, reason: Reason) -> Checked {
        self.tell_untold_of(id)?;
        let (looping, body) = self.loop_frame(id)?;
        if looping.machinery || self.frame(id)?.quiet {
            return Ok(());
        }
        let (total, failed) = (body.ended, body.failed);
        let done = EventKind::LoopDone {
            iterations: total,
            reason,
            status,
            stats: LoopStats { total, success: total - failed - body.cancelled, failed },
            usage: budget::told(&body.budget, |budget| budget.used).unwrap_or_default(),
            unjudged: body.unjudged,
        };
        self.publish_at(id, done);
        Ok(())
    }

    fn loop_output(&mut self, id: FrameId, looping: &Loop, status: Status, reason: Reason) -> Checked<Value> {
        Ok(match looping.collect {
            Collect::Last => self.loop_frame(id)?.1.previous.clone(),
            Collect::List => self.result_list(id)?,
            Collect::Stats => {
                let results = self.result_list(id)?;
                let (_, body) = self.loop_frame(id)?;
                let stats = Value::object([
                    ("total", Value::from(body.ended)),
                    ("success", Value::from(body.ended - body.failed - body.cancelled)),
                    ("failed", Value::from(body.failed)),
                ]);
                Value::object([("results", results), ("stats", stats)])
            }
            Collect::Report => report(self.loop_frame(id)?.1, status, reason),
        })
    }
}

pub(super) fn called_off_because(closing: &Closing) -> Reason {
    let timed_out = closing.error.as_ref().is_some_and(|error| &*error.kind == "timeout");
    if timed_out || closing.status == Status::TimedOut { Reason::Timeout } else { Reason::Cancelled }
}

fn by_iterations(looping: &Loop, body: &LoopFrame) -> (Status, Option<ErrorInfo>) {
    match (looping.on_turn_failure, body.last_status) {
        (TurnFailure::FailAtEnd, _) if body.failed > 0 => (Status::Failed, body.first_error.clone()),
        (TurnFailure::LastDecides, Some(status)) if status.is_bad() => (status, body.last_error.clone()),
        _ => (Status::Succeeded, None),
    }
}

fn exhausted(turns: &str, reason: Reason) -> ErrorInfo {
    match reason {
        Reason::Timeout => ErrorInfo::new("LoopTimeout", "timeout", format!("the loop ran out of time after {turns}"))
            .hint("raise limit.timeout (it also runs while a run stands still), or look why the condition is not met: `windlass events RUN`"),
        Reason::Stalled => ErrorInfo::new("LoopStalled", "limit", format!("the loop makes no progress after {turns}"))
            .hint("look what stays the same from turn to turn: `windlass events RUN`"),
        _ => ErrorInfo::new(
            "LoopCountExceeded",
            "limit",
            format!("the loop has used all its {turns} and its condition is not met"),
        )
        .hint("raise limit.count, or look why its condition is not met: `windlass events RUN`"),
    }
}

/// What a condition loop says of itself.
fn report(body: &LoopFrame, status: Status, reason: Reason) -> Value {
    let word = match (status, reason) {
        (_, Reason::Count) => "max-iterations",
        (_, Reason::Timeout) => "timeout",
        (_, Reason::Budget) => "budget",
        (_, Reason::Stalled) => "stalled",
        (Status::Succeeded, Reason::Condition) if body.broke && !body.condition_met => "break",
        (Status::Succeeded, _) => "completed",
        (status, _) => status.as_str(),
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
    if let Some(used) = budget::told(&body.budget, |budget| budget.used) {
        map.insert("usage", used);
    }
    Value::map(map)
}
