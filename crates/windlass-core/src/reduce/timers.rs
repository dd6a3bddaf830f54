//! Timers: all of them live in the state, so nothing about time is lost with a process.

use windlass_value::{Timestamp, Value};

use super::Reducer;
use crate::plan::Amount;
use crate::state::{Body, Closing, Frame, FrameId, Item, Timer, TimerKey};
use crate::{ErrorInfo, Status, words};

impl Reducer<'_> {
    pub(crate) fn set_timer(&mut self, at: Timestamp, timer: Timer) -> TimerKey {
        let key = (at, self.state.next_timer);
        self.state.next_timer += 1;
        self.state.timers.insert(key, timer);
        key
    }

    /// Whatever tick brings the time, all that is due by it happens first, in order of due time.
    pub(crate) fn fire_due_timers(&mut self) {
        while let Some(entry) = self.state.timers.first_entry() {
            if entry.key().0 > self.state.now {
                break;
            }
            let key = *entry.key();
            match entry.remove() {
                Timer::Deadline(frame) => self.deadline(frame),
                Timer::LoopTime(frame) => self.loop_time_over(frame),
                Timer::Alarm(frame) => self.alarm(frame, key),
                Timer::Grace(job) => self.job_gone(job),
                Timer::Budget(frame) => self.budget_time_over(frame),
                Timer::Run => self.run_time_over(),
            }
        }
    }

    /// Leaves a frame this long at most.
    pub(crate) fn end_by(&mut self, id: FrameId, at: Timestamp) {
        let Some(frame) = self.state.frames.get(id) else { return };
        let before = frame.deadline;
        if before.is_some_and(|(before, _)| before <= at) {
            return;
        }
        let key = self.set_timer(at, Timer::Deadline(id));
        if let Some(frame) = self.state.frames.get_mut(id) {
            frame.deadline = Some(key);
        }
        if let Some(before) = before {
            self.state.timers.remove(&before);
        }
    }

    fn deadline(&mut self, id: FrameId) {
        let Some(frame) = self.state.frames.get_mut(id) else { return };
        frame.deadline = None;
        let node = self.program.node(frame.node);
        let Some(timeout) = &node.timeout else { return self.close(id, Closing::cancelled()) };
        let told = match &timeout.after {
            Amount::Fixed(after) if self.program.plan.places_tasks() => format!("of {after} allows"),
            _ => "allows".to_owned(),
        };
        let message = format!("`{}` took longer than its timeout {told}", node.name);
        let mut error = ErrorInfo::new("ActionTimedOut", "timeout", message);
        if let Amount::Fixed(after) = &timeout.after {
            let name = if node.hidden { "the run".to_owned() } else { format!("`{}`", node.name) };
            error = self.program.plan.worded(error, &[("name", &name), ("span", &words::span(*after))]);
        }
        self.close(id, Closing::failed(timeout.status, error));
    }

    fn alarm(&mut self, id: FrameId, key: TimerKey) {
        let known = |frame: &&mut Frame| frame.alarm == Some(key);
        let Some(frame) = self.state.frames.get_mut(id).filter(known) else { return };
        frame.alarm = None;
        match &frame.body {
            Body::Backoff => {
                frame.body = Body::New;
                self.unpark(id);
            }
            Body::Pipeline(body) if body.awaits.is_some() => self.await_over(id),
            Body::Pipeline(_) => self.unpark(id),
            Body::Loop(_) => self.state.agenda.push_back(Item::NextTurn(id)),
            Body::Wait(_) => self.wait_over(id),
            Body::New | Body::Graph(_) | Body::Branch { .. } | Body::Net(_) | Body::Call { .. } => {
                unreachable!("a frame that never delays had an alarm")
            }
        }
    }

    pub(crate) fn clear_alarm(&mut self, id: FrameId) {
        if let Some(key) = self.state.frames.get_mut(id).and_then(|frame| frame.alarm.take()) {
            self.state.timers.remove(&key);
        }
    }

    /// The run's own time counts only while it is alive, so the timer may be early.
    pub(crate) fn run_time_over(&mut self) {
        let Some(timeout) = self.program.plan.timeout else { return };
        if self.state.alive < timeout {
            return self.arm_run_timeout();
        }
        let at_work = self.steps_at_work();
        let still = match at_work.is_empty() {
            true => String::new(),
            false => format!("; still at work: {}", at_work.join(", ")),
        };
        let message = format!("the run took longer than its timeout of {timeout}{still}");
        let mut error = ErrorInfo::new("RunTimedOut", "timeout", message);
        if !at_work.is_empty() {
            error.facts = Value::object([("active", Value::list(at_work.into_iter().map(Value::Str).collect()))]);
        }
        self.end_early(Closing::failed(Status::TimedOut, error));
    }

    pub(crate) fn arm_run_timeout(&mut self) {
        if let Some(timeout) = self.program.plan.timeout {
            let left = windlass_value::Duration(timeout.0.saturating_sub(self.state.alive.0));
            self.state.timers.retain(|_, timer| !matches!(timer, Timer::Run));
            self.set_timer(self.now() + left, Timer::Run);
        }
    }

    /// Somebody has decided how the run ends; what is alive is called off first.
    pub(crate) fn end_early(&mut self, closing: Closing) {
        if self.state.verdict.is_some() {
            return;
        }
        self.state.paused = false;
        if self.state.held.take().is_some() {
            // It has never begun: there is nothing to call off.
            return self.end_unbegun(closing);
        }
        self.state.verdict = Some(closing);
        if let Some(root) = self.state.root {
            self.close(root, Closing::cancelled());
        }
    }
}
