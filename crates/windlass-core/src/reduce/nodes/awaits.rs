//! A task that is not finished: it has let its worker go and waits for an event, for time or for a child run. When the
//! answer is there, it is handed out again, under the same key and as the same attempt, with all answers so far.
//!
//! | the task waits for | event | result of the child run | alarm | task | close |
//! |---|---|---|---|---|---|
//! | an event | answered | – | answered: it did not come in time | – | ended |
//! | time | – | – | answered | – | ended |
//! | a child run | – | answered | – | – | ended, and the child run is cancelled |
//! | nothing any more (answered) | – | – | tried again after a failure | handed out with its answers | ended |
//! | nothing | – | – | tried again, or called again | handed out | by the pipeline |
//!
//! – is impossible and a fault.

use std::sync::Arc;

use windlass_value::{Duration, Timestamp, Value};

use super::pipeline::At;
use crate::plan::{Action, Task};
use crate::reduce::Reducer;
use crate::reduce::impossible::{Checked, no_call, no_part};
use crate::state::{Awaiting, Body, FrameId, Item, OpenCall, Timer};
use crate::{
    Answer, Await, Awaited, Command, EffectKey, ErrorInfo, Resumed, Status, TaskOutcome, TriedBefore, WaitAnnouncement,
};

/// What an answer to a task expects.
const WAIT: &str = "wait of its current task";

impl Reducer<'_> {
    /// The task has told what it waits for.
    pub(super) fn begin_await(&mut self, id: FrameId, wanted: &Await) -> Checked {
        let body = self.pipeline_frame_mut(id)?;
        Arc::make_mut(body.resumed.get_or_insert_default()).published_events = wanted.published_events;
        match &wanted.awaited {
            Awaited::Kept(value) => {
                // The worker is at rest and goes on with the same lease.
                let value = self.slim(value.clone());
                self.note_answer(id, Answer { to: "kept".into(), value, error: None })?;
                self.state.agenda.push_back(Item::Task(id));
            }
            Awaited::Time(time) => {
                self.wait_as(id, Awaiting::Time, Some(*time))?;
            }
            Awaited::Event { name, requirements, deadline, announcement: asks } => {
                if let Some(WaitAnnouncement { kind, data }) = asks {
                    self.publish_custom(self.path(id), kind, data);
                }
                let (name, requirements) = (name.clone(), requirements.clone());
                let awaiting = Awaiting::Event { name: name.clone(), requirements: requirements.clone() };
                self.wait_as(id, awaiting, *deadline)?;
                self.await_signal(id, name, &requirements)?;
            }
            Awaited::Child { definition, input } => {
                let call = self.call_for(id, definition.clone(), input.clone())?;
                self.wait_as(id, Awaiting::Child { call }, None)?;
                self.ask_for_child(call)?;
            }
        }
        Ok(())
    }

    /// Nobody is kept busy, and nobody's slot is.
    fn wait_as(&mut self, id: FrameId, awaiting: Awaiting, deadline: Option<Duration>) -> Checked {
        self.leave_worker(id)?;
        let alarm = deadline.map(|after| self.set_timer(self.now() + after, Timer::Alarm(id)));
        self.frame_mut(id)?.alarm = alarm;
        self.pipeline_frame_mut(id)?.awaits = Some(Box::new(awaiting));
        self.park(id)
    }

    /// Each wait of each try of the task has a child of its own.
    fn call_for(&mut self, id: FrameId, definition: Arc<str>, input: Value) -> Checked<u64> {
        let input = self.slim(input);
        let path = self.task_path(id);
        let generation = self.frame(id)?.generation;
        let At { body, .. } = self.pipeline_frame(id)?;
        let ordinal = body.resumed.as_ref().map_or(0, |resumed| resumed.answers.len());
        let (visit, group) = (body.visits.get(&body.pc).copied().unwrap_or(0), body.attempt.saturating_sub(1));
        let path = format!("{path}#{ordinal}").into();
        let key = EffectKey { path, generation, visit, group, call: 0 };
        let call = self.state.next_call;
        self.state.next_call += 1;
        self.state.calls.insert(call, OpenCall { frame: id, definition, input, key });
        Ok(call)
    }

    /// The wait of a frame's current task. Only a pipeline has tasks.
    pub(in crate::reduce) fn awaiting(&self, id: FrameId) -> Checked<Option<&Awaiting>> {
        match &self.frame(id)?.body {
            Body::Pipeline(body) => Ok(body.awaits.as_deref()),
            Body::New
            | Body::Backoff
            | Body::Graph(_)
            | Body::Branch { .. }
            | Body::Loop(_)
            | Body::Net(_)
            | Body::Wait(_)
            | Body::Call { .. } => Ok(None),
        }
    }

    /// What the task has waited for is there: it goes on as soon as it has a slot.
    pub(in crate::reduce) fn answered(&mut self, id: FrameId, value: Value, error: Option<ErrorInfo>) -> Checked {
        let awaited = self.pipeline_frame_mut(id)?.awaits.take();
        let to: Arc<str> = match awaited.as_deref() {
            Some(Awaiting::Event { name, .. }) => format!("event {name}").into(),
            Some(Awaiting::Child { .. }) => "child".into(),
            Some(Awaiting::Time) => "time".into(),
            Some(Awaiting::Answered) | None => return Err(no_part(id, WAIT, 0)),
        };
        self.clear_alarm(id)?;
        self.forget_await(id, awaited.as_deref());
        self.note_answer(id, Answer { to, value, error })?;
        self.unpark(id)
    }

    fn note_answer(&mut self, id: FrameId, answer: Answer) -> Checked {
        let body = self.pipeline_frame_mut(id)?;
        body.awaits = Some(Box::new(Awaiting::Answered));
        Arc::make_mut(body.resumed.get_or_insert_default()).answers.push(answer);
        Ok(())
    }

    /// The time is over: that is what was waited for, or the reason why it is waited for no longer.
    pub(in crate::reduce) fn await_over(&mut self, id: FrameId) -> Checked {
        let error = match self.awaiting(id)? {
            Some(Awaiting::Event { name, .. }) => {
                let message = format!("nobody sent `{name}` in time");
                Some(ErrorInfo::new("WaitTimedOut", "timeout", message))
            }
            Some(Awaiting::Time) => None,
            // A child run has all the time it takes.
            Some(Awaiting::Child { .. } | Awaiting::Answered) | None => return Err(no_part(id, WAIT, 0)),
        };
        self.answered(id, Value::Null, error)
    }

    pub(in crate::reduce) fn child_answered(&mut self, id: FrameId, status: Status, outcome: &TaskOutcome) -> Checked {
        let ended = || ErrorInfo::new("ChildFailed", "call", format!("the child run ended as {}", status.as_str()));
        let error = outcome.error.clone().or_else(|| status.is_bad().then(ended));
        self.answered(id, outcome.output.clone(), error)
    }

    /// A child run that a task waits for is not wanted without it.
    pub(in crate::reduce) fn call_off_child(&mut self, id: FrameId) -> Checked {
        if let Some(Awaiting::Child { call }) = self.awaiting(id)? {
            let open = self.state.calls.get(call).ok_or_else(|| no_call(*call, "the one that a task waits for"))?;
            self.work.output.commands.push(Command::CancelChild { key: open.key.clone() });
        }
        Ok(())
    }

    /// Whether the frame's task waits for the end of this child run.
    pub(in crate::reduce) fn awaits_child(&self, id: FrameId, call: u64) -> Checked<bool> {
        Ok(matches!(self.awaiting(id)?, Some(Awaiting::Child { call: awaited }) if *awaited == call))
    }

    /// A task that no longer waits leaves nothing behind in the state's indexes.
    pub(in crate::reduce) fn forget_await(&mut self, id: FrameId, awaits: Option<&Awaiting>) {
        match awaits {
            Some(Awaiting::Event { name, .. }) => self.forget_wait(id, name),
            Some(Awaiting::Child { call }) => _ = self.state.calls.remove(call),
            Some(Awaiting::Time | Awaiting::Answered) | None => {}
        }
    }

    /// When the current attempt was first handed out: what a task that asks for the time is told.
    pub(super) fn attempt_begun_at(&self, id: FrameId) -> Checked<Option<Timestamp>> {
        let At { task, body, .. } = self.pipeline_frame(id)?;
        Ok(asks_for_time(task).then_some(body.task_started_at))
    }

    /// A task that asks for the time is told of its last failure as well.
    pub(super) fn note_failure(&mut self, id: FrameId, outcome: &TaskOutcome) -> Checked {
        let failed_at = self.now();
        let asks = asks_for_time(self.pipeline_frame(id)?.task);
        // A rule may ask for a task again that has not failed.
        let Some(error) = outcome.error.clone().filter(|_| asks) else { return Ok(()) };
        let body = self.pipeline_frame_mut(id)?;
        let since = body.first_try_at.unwrap_or(failed_at);
        body.tried = Some(Arc::new(TriedBefore { since, failed_at, error }));
        Ok(())
    }

    /// What the task has waited for so far; from here on it waits for nothing.
    pub(super) fn goes_on_with(&mut self, id: FrameId) -> Checked<Option<Arc<Resumed>>> {
        let body = self.pipeline_frame_mut(id)?;
        body.awaits = None;
        Ok(body.resumed.clone())
    }

    /// A task that failed right after it has waited in vain waits anew when it is tried again. What it has got before is kept.
    pub(super) fn forget_vain_answer(&mut self, id: FrameId) -> Checked {
        let body = self.pipeline_frame_mut(id)?;
        let vain = |resumed: &Arc<Resumed>| resumed.answers.last().is_some_and(|answer| answer.error.is_some());
        if let Some(resumed) = body.resumed.as_mut().filter(|resumed| vain(resumed)) {
            Arc::make_mut(resumed).answers.pop();
        }
        Ok(())
    }

    /// What a task has been told already, for its next handing out. A task that is left forgets.
    pub(super) fn forget_answers(&mut self, id: FrameId) -> Checked {
        self.pipeline_frame_mut(id)?.resumed = None;
        Ok(())
    }
}

fn asks_for_time(task: &Task) -> bool {
    match &task.action {
        Action::Effect(effect) => effect.fresh,
        Action::Evaluate(_)
        | Action::Write(_)
        | Action::End { .. }
        | Action::Reply { .. }
        | Action::Node(_)
        | Action::Post(_)
        | Action::PublishEvent { .. } => false,
    }
}
