//! A task that is not finished: it has let its worker go and waits for an event, for time or for a child run. When the
//! answer is there, it is handed out again, under the same key and as the same attempt, with all answers so far.

use std::sync::Arc;

use windlass_value::{Duration, Timestamp, Value};

use super::pipeline::At;
use crate::plan::{Action, Task};
use crate::reduce::Reducer;
use crate::reduce::impossible::Checked;
use crate::state::{Awaiting, Body, FrameId, Item, OpenCall, Timer};
use crate::{Answer, Asked, Await, Awaited, Command, EffectKey, ErrorInfo, Resumed, Status, TaskOutcome, TriedBefore};

impl Reducer<'_> {
    /// The task has told what it waits for.
    pub(super) fn begin_await(&mut self, id: FrameId, wanted: &Await) -> Checked {
        let body = self.pipeline_frame_mut(id)?;
        Arc::make_mut(body.resumed.get_or_insert_default()).told = wanted.told;
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
            Awaited::Event { name, requirements, deadline, asks } => {
                if let Some(Asked { kind, data }) = asks {
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
                self.ask_for_child(call);
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

    pub(in crate::reduce) fn awaiting(&self, id: FrameId) -> Option<&Awaiting> {
        match &self.state.frames.get(id)?.body {
            Body::Pipeline(body) => body.awaits.as_deref(),
            _ => None,
        }
    }

    /// What the task has waited for is there: it goes on as soon as it has a slot.
    pub(in crate::reduce) fn answered(&mut self, id: FrameId, value: Value, error: Option<ErrorInfo>) -> Checked {
        let to: Arc<str> = match self.awaiting(id) {
            Some(Awaiting::Event { name, .. }) => format!("event {name}").into(),
            Some(Awaiting::Child { .. }) => "child".into(),
            Some(Awaiting::Time | Awaiting::Answered) | None => "time".into(),
        };
        self.clear_alarm(id)?;
        let body = self.frame(id)?.body.clone();
        self.forget_await(id, &body);
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
        let error = match self.awaiting(id) {
            Some(Awaiting::Event { name, .. }) => {
                let message = format!("nobody sent `{name}` in time");
                Some(ErrorInfo::new("WaitTimedOut", "timeout", message))
            }
            Some(Awaiting::Time | Awaiting::Child { .. } | Awaiting::Answered) | None => None,
        };
        self.answered(id, Value::Null, error)
    }

    pub(in crate::reduce) fn child_answered(&mut self, id: FrameId, status: Status, outcome: &TaskOutcome) -> Checked {
        let ended = || ErrorInfo::new("ChildFailed", "call", format!("the child run ended as {}", status.as_str()));
        let error = outcome.error.clone().or_else(|| status.is_bad().then(ended));
        self.answered(id, outcome.output.clone(), error)
    }

    /// A child run that a task waits for is not wanted without it.
    pub(in crate::reduce) fn call_off_child(&mut self, id: FrameId) {
        if let Some(Awaiting::Child { call }) = self.awaiting(id)
            && let Some(open) = self.state.calls.get(call)
        {
            self.work.output.commands.push(Command::CancelChild { key: open.key.clone() });
        }
    }

    /// A task that no longer waits leaves nothing behind in the state's indexes.
    pub(in crate::reduce) fn forget_await(&mut self, id: FrameId, body: &Body) {
        let Body::Pipeline(pipeline) = body else { return };
        match pipeline.awaits.as_deref() {
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
        | Action::Tell { .. } => false,
    }
}
