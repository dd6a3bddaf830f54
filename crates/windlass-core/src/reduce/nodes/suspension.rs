//! Suspension of a task: it has returned its worker and waits for an event, for time or for a child run. When the
//! wait is over, the task is dispatched again, under the same key and as the same attempt, with the results of all
//! waits so far.
//!
//! | the task waits for | event | result of the child run | alarm | task | close |
//! |---|---|---|---|---|---|
//! | an event | resolved | – | resolved: the event did not arrive in time | – | ended |
//! | time | – | – | resolved | – | ended |
//! | a child run | – | resolved | – | – | ended, and the child run is cancelled |
//! | nothing any more (resolved) | – | – | retried after a failure | dispatched with its wait results | ended |
//! | nothing | – | – | retried, or called again | dispatched | by the pipeline |
//!
//! – is impossible and a fault.

use std::sync::Arc;

use windlass_value::{Duration, Timestamp, Value};

use super::pipeline::PipelinePosition;
use crate::plan::{Action, Task};
use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, no_call, no_part};
use crate::state::{AgendaItem, FrameBody, FrameId, OpenCall, PendingWait, Timer};
use crate::{
    Command, EffectKey, ErrorInfo, PreviousAttempts, ResumeData, Status, SuspendedOn, Suspension, TaskOutcome,
    WaitAnnouncement, WaitResult,
};

/// The expectation named in faults about the result of a wait.
const A_WAIT: &str = "wait of its current task";

impl Reducer<'_> {
    /// Begins the wait that a task has requested.
    pub(super) fn suspend(&mut self, id: FrameId, suspension: &Suspension) -> FaultResult {
        let body = self.pipeline_frame_mut(id)?;
        Arc::make_mut(body.resumed.get_or_insert_default()).published_events = suspension.published_events;
        match &suspension.waits_for {
            SuspendedOn::Checkpoint(value) => {
                // The worker is resting and continues under the same lease.
                let value = self.move_to_blob(value.clone());
                self.record_wait_result(id, WaitResult { waited_for: "checkpoint".into(), value, error: None })?;
                self.state.agenda.push_back(AgendaItem::Task(id));
            }
            SuspendedOn::Time(time) => {
                self.set_pending_wait(id, PendingWait::Time, Some(*time))?;
            }
            SuspendedOn::Event { name, requirements, deadline, announcement } => {
                if let Some(WaitAnnouncement { kind, data }) = announcement {
                    self.publish_custom(self.path(id), kind, data);
                }
                let (name, requirements) = (name.clone(), requirements.clone());
                let awaiting = PendingWait::Event { name: name.clone(), requirements: requirements.clone() };
                self.set_pending_wait(id, awaiting, *deadline)?;
                self.wait_for_signal(id, name, &requirements)?;
            }
            SuspendedOn::Child { definition, input } => {
                let call = self.open_child_call(id, definition.clone(), input.clone())?;
                self.set_pending_wait(id, PendingWait::Child { call }, None)?;
                match self.child_run_refusal(call) {
                    Some(error) => self.resolve_wait(id, Value::Null, Some(error))?,
                    None => self.request_child(call)?,
                }
            }
        }
        Ok(())
    }

    /// Sets the pending wait; the task keeps neither a worker nor a slot meanwhile.
    fn set_pending_wait(&mut self, id: FrameId, wait: PendingWait, deadline: Option<Duration>) -> FaultResult {
        self.return_worker(id)?;
        let alarm = deadline.map(|after| self.set_timer(self.now() + after, Timer::Alarm(id)));
        self.frame_mut(id)?.alarm = alarm;
        self.pipeline_frame_mut(id)?.pending_wait = Some(Box::new(wait));
        self.yield_slot(id)
    }

    /// Opens the call of a child run. Each wait of each attempt of the task has its own child run.
    fn open_child_call(&mut self, id: FrameId, definition: Arc<str>, input: Value) -> FaultResult<u64> {
        let input = self.move_to_blob(input);
        let path = self.task_path(id);
        let generation = self.frame(id)?.generation;
        let PipelinePosition { body, .. } = self.pipeline_frame(id)?;
        let ordinal = body.resumed.as_ref().map_or(0, |resumed| resumed.answers.len());
        let (visit, group) = (body.visits.get(&body.pc).copied().unwrap_or(0), body.attempt.saturating_sub(1));
        let path = format!("{path}#{ordinal}").into();
        let key = EffectKey { path, generation, visit, group, call: 0 };
        let call = self.state.next_call;
        self.state.next_call += 1;
        self.state.calls.insert(call, OpenCall { frame: id, definition, input, key });
        Ok(call)
    }

    /// Returns the pending wait of a frame's current task. Only a pipeline has tasks.
    pub(in crate::reduce) fn pending_wait(&self, id: FrameId) -> FaultResult<Option<&PendingWait>> {
        match &self.frame(id)?.body {
            FrameBody::Pipeline(body) => Ok(body.pending_wait.as_deref()),
            FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Loop(_)
            | FrameBody::Net(_)
            | FrameBody::Wait(_)
            | FrameBody::Call { .. } => Ok(None),
        }
    }

    /// Resolves the pending wait: the task resumes as soon as it has a slot.
    pub(in crate::reduce) fn resolve_wait(
        &mut self,
        id: FrameId,
        value: Value,
        error: Option<ErrorInfo>,
    ) -> FaultResult {
        let wait = self.pipeline_frame_mut(id)?.pending_wait.take();
        let waited_for: Arc<str> = match wait.as_deref() {
            Some(PendingWait::Event { name, .. }) => format!("event {name}").into(),
            Some(PendingWait::Child { .. }) => "child".into(),
            Some(PendingWait::Time) => "time".into(),
            Some(PendingWait::Resolved) | None => return Err(no_part(id, A_WAIT, 0)),
        };
        self.clear_alarm(id)?;
        self.forget_pending_wait(id, wait.as_deref());
        self.record_wait_result(id, WaitResult { waited_for, value, error })?;
        self.request_slot(id)
    }

    fn record_wait_result(&mut self, id: FrameId, result: WaitResult) -> FaultResult {
        let body = self.pipeline_frame_mut(id)?;
        body.pending_wait = Some(Box::new(PendingWait::Resolved));
        Arc::make_mut(body.resumed.get_or_insert_default()).answers.push(result);
        Ok(())
    }

    /// Handles the alarm of a pending wait: the delay that was waited for is over, or the wait has timed out.
    pub(in crate::reduce) fn wait_expired(&mut self, id: FrameId) -> FaultResult {
        let error = match self.pending_wait(id)? {
            Some(PendingWait::Event { name, .. }) => {
                let message = format!("`{name}` was not received in time");
                Some(ErrorInfo::new("WaitTimedOut", "timeout", message))
            }
            Some(PendingWait::Time) => None,
            // A wait for a child run has no time limit.
            Some(PendingWait::Child { .. } | PendingWait::Resolved) | None => return Err(no_part(id, A_WAIT, 0)),
        };
        self.resolve_wait(id, Value::Null, error)
    }

    pub(in crate::reduce) fn child_run_ended(
        &mut self,
        id: FrameId,
        status: Status,
        outcome: &TaskOutcome,
    ) -> FaultResult {
        let ended = || ErrorInfo::new("ChildFailed", "call", format!("the child run ended as {}", status.as_str()));
        let error = outcome.error.clone().or_else(|| status.is_bad().then(ended));
        self.resolve_wait(id, outcome.output.clone(), error)
    }

    /// Cancels the child run that a cancelled task waits for.
    pub(in crate::reduce) fn cancel_child_run(&mut self, id: FrameId) -> FaultResult {
        if let Some(PendingWait::Child { call }) = self.pending_wait(id)? {
            let open = self.state.calls.get(call).ok_or_else(|| no_call(*call, "the one that a task waits for"))?;
            self.work.output.commands.push(Command::CancelChild { key: open.key.clone() });
        }
        Ok(())
    }

    /// Returns true if the frame's task waits for the end of this child run.
    pub(in crate::reduce) fn waits_for_child(&self, id: FrameId, call: u64) -> FaultResult<bool> {
        Ok(matches!(self.pending_wait(id)?, Some(PendingWait::Child { call: awaited }) if *awaited == call))
    }

    /// Removes a pending wait from the state's indexes.
    pub(in crate::reduce) fn forget_pending_wait(&mut self, id: FrameId, wait: Option<&PendingWait>) {
        match wait {
            Some(PendingWait::Event { name, .. }) => self.forget_wait(id, name),
            Some(PendingWait::Child { call }) => _ = self.state.calls.remove(call),
            Some(PendingWait::Time | PendingWait::Resolved) | None => {}
        }
    }

    /// Returns the time at which the current attempt was first dispatched, for tasks that receive it.
    pub(super) fn attempt_started_at(&self, id: FrameId) -> FaultResult<Option<Timestamp>> {
        let PipelinePosition { task, body, .. } = self.pipeline_frame(id)?;
        Ok(needs_attempt_history(task).then_some(body.task_started_at))
    }

    /// Records the last failure for a task that receives the attempt's time.
    pub(super) fn note_failure(&mut self, id: FrameId, outcome: &TaskOutcome) -> FaultResult {
        let failed_at = self.now();
        let needs_history = needs_attempt_history(self.pipeline_frame(id)?.task);
        // A rule may request a task again that has not failed.
        let Some(error) = outcome.error.clone().filter(|_| needs_history) else { return Ok(()) };
        let body = self.pipeline_frame_mut(id)?;
        let since = body.first_try_at.unwrap_or(failed_at);
        body.previous_attempts = Some(Arc::new(PreviousAttempts { since, failed_at, error }));
        Ok(())
    }

    /// Returns the results of the task's waits so far and clears the pending wait.
    pub(super) fn take_resume_data(&mut self, id: FrameId) -> FaultResult<Option<Arc<ResumeData>>> {
        let body = self.pipeline_frame_mut(id)?;
        body.pending_wait = None;
        Ok(body.resumed.clone())
    }

    /// Forgets the result of a wait that failed, if the task failed right after it, so that the next attempt waits
    /// again. Earlier results are kept.
    pub(super) fn forget_failed_wait(&mut self, id: FrameId) -> FaultResult {
        let body = self.pipeline_frame_mut(id)?;
        let failed = |resumed: &Arc<ResumeData>| resumed.answers.last().is_some_and(|answer| answer.error.is_some());
        if let Some(resumed) = body.resumed.as_mut().filter(|resumed| failed(resumed)) {
            Arc::make_mut(resumed).answers.pop();
        }
        Ok(())
    }

    /// Forgets the wait results of a task when the pipeline moves on to another task.
    pub(super) fn forget_wait_results(&mut self, id: FrameId) -> FaultResult {
        self.pipeline_frame_mut(id)?.resumed = None;
        Ok(())
    }
}

fn needs_attempt_history(task: &Task) -> bool {
    match &task.action {
        Action::Effect(effect) => effect.reevaluates_input,
        Action::Evaluate(_)
        | Action::Write(_)
        | Action::End { .. }
        | Action::Reply { .. }
        | Action::Node(_)
        | Action::Post(_)
        | Action::PublishEvent { .. } => false,
    }
}
