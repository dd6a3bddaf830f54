//! Timers: all of them live in the state, so nothing about time is lost with a process.
//!
//! | timer | its owner is there | its owner is gone |
//! |---|---|---|
//! | deadline | the frame is called off | – |
//! | loop time, budget | the loop stops; any other frame fails | – |
//! | alarm | the frame goes on: see its kind | – |
//! | grace | the job is gone without a word of its worker | – |
//! | run | its end is decided as timed out; armed anew, if it was alive for less | – |
//!
//! – is impossible and a fault: a timer goes with its owner.

use windlass_value::{Timestamp, Value};

use super::Reducer;
use super::fault::{FaultResult, no_part, wrong_frame};
use crate::plan::Amount;
use crate::state::{AgendaItem, Closing, FrameBody, FrameId, PendingWait, Timer, TimerKey};
use crate::{ErrorInfo, Status, amounts};

impl Reducer<'_> {
    pub(crate) fn set_timer(&mut self, at: Timestamp, timer: Timer) -> TimerKey {
        let key = (at, self.state.next_timer);
        self.state.next_timer += 1;
        self.state.timers.insert(key, timer);
        key
    }

    /// Whatever tick brings the time, all that is due by it happens first, in order of due time.
    pub(crate) fn fire_due_timers(&mut self) -> FaultResult {
        while let Some(entry) = self.state.timers.first_entry() {
            if entry.key().0 > self.state.now {
                break;
            }
            let key = *entry.key();
            match entry.remove() {
                Timer::Deadline(frame) => self.deadline(frame)?,
                Timer::LoopTime(frame) => self.loop_time_over(frame)?,
                Timer::Alarm(frame) => self.alarm(frame, key)?,
                Timer::Grace(job) => self.job_cancelled(job)?,
                Timer::Budget(frame) => self.budget_time_over(frame)?,
                Timer::Run => self.run_timeout_due()?,
            }
        }
        Ok(())
    }

    /// Leaves a frame this long at most.
    pub(crate) fn limit_deadline(&mut self, id: FrameId, at: Timestamp) -> FaultResult {
        // It has ended, and its parent has yet to hear of it.
        let Some(frame) = self.frame_if_live(id) else { return Ok(()) };
        let before = frame.deadline;
        if before.is_some_and(|(before, _)| before <= at) {
            return Ok(());
        }
        let key = self.set_timer(at, Timer::Deadline(id));
        self.frame_mut(id)?.deadline = Some(key);
        if let Some(before) = before {
            self.state.timers.remove(&before);
        }
        Ok(())
    }

    /// The timer goes with its frame, so the frame is there.
    fn deadline(&mut self, id: FrameId) -> FaultResult {
        let program = self.program;
        let frame = self.frame_mut(id)?;
        frame.deadline = None;
        let node = program.node(frame.node);
        // A node without a timeout was given a deadline because it holds up nothing but its graph's end.
        let Some(timeout) = &node.timeout else { return self.close(id, Closing::cancelled()) };
        let suffix = match &timeout.after {
            Amount::Fixed(after) => format!("of {after} allows"),
            Amount::Computed(_) => "allows".to_owned(),
        };
        let message = format!("`{}` took longer than its timeout {suffix}", node.name);
        let mut error = ErrorInfo::new("ActionTimedOut", "timeout", message);
        if let Amount::Fixed(after) = &timeout.after {
            let name = if node.hidden { "the run".to_owned() } else { format!("`{}`", node.name) };
            error =
                self.program.plan.apply_wording(error, &[("name", &name), ("span", &amounts::format_duration(*after))]);
        }
        self.close(id, Closing::failed(timeout.status, error))
    }

    /// The timer goes with its frame, and with the wait that it is for.
    fn alarm(&mut self, id: FrameId, key: TimerKey) -> FaultResult {
        let frame = self.frame_mut(id)?;
        if frame.alarm != Some(key) {
            return Err(no_part(id, "alarm", key.1));
        }
        frame.alarm = None;
        match &frame.body {
            FrameBody::Backoff => {
                frame.body = FrameBody::New;
                self.request_slot(id)
            }
            FrameBody::Pipeline(body) => match body.pending_wait.as_deref() {
                Some(PendingWait::Event { .. } | PendingWait::Time | PendingWait::Child { .. }) => {
                    self.wait_expired(id)
                }
                // It is tried again, with the answers that it has got; or its operation goes on elsewhere.
                Some(PendingWait::Resolved) | None => self.request_slot(id),
            },
            FrameBody::Loop(_) => {
                self.state.agenda.push_back(AgendaItem::NextIteration(id));
                Ok(())
            }
            FrameBody::Wait(_) => self.wait_alarm(id),
            other @ (FrameBody::New
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Net(_)
            | FrameBody::Call { .. }) => Err(wrong_frame(id, "a frame that can wait for time", other)),
        }
    }

    pub(crate) fn clear_alarm(&mut self, id: FrameId) -> FaultResult {
        if let Some(key) = self.frame_mut(id)?.alarm.take() {
            self.state.timers.remove(&key);
        }
        Ok(())
    }

    /// The run's own time counts only while it is alive, so the timer may be early.
    pub(crate) fn run_timeout_due(&mut self) -> FaultResult {
        // A tick may ask for it in a run that has no timeout.
        let Some(timeout) = self.program.plan.timeout else { return Ok(()) };
        if self.state.alive_time < timeout {
            self.arm_run_timeout();
            return Ok(());
        }
        let active = self.active_steps();
        let active_text = match active.is_empty() {
            true => String::new(),
            false => format!("; still at work: {}", active.join(", ")),
        };
        let message = format!("the run took longer than its timeout of {timeout}{active_text}");
        let mut error = ErrorInfo::new("RunTimedOut", "timeout", message);
        if !active.is_empty() {
            error.facts = Value::object([("active", Value::list(active.into_iter().map(Value::Str).collect()))]);
        }
        self.end_early(Closing::failed(Status::TimedOut, error))
    }

    pub(crate) fn arm_run_timeout(&mut self) {
        if let Some(timeout) = self.program.plan.timeout {
            let left = windlass_value::Duration(timeout.0.saturating_sub(self.state.alive_time.0));
            self.state.timers.retain(|_, timer| !matches!(timer, Timer::Run));
            self.set_timer(self.now() + left, Timer::Run);
        }
    }

    /// Somebody has decided how the run ends; what is alive is called off first.
    pub(crate) fn end_early(&mut self, closing: Closing) -> FaultResult {
        if self.state.decided_end.is_some() {
            return Ok(());
        }
        self.state.paused = false;
        if self.state.held_start.take().is_some() {
            // It has never begun: there is nothing to call off.
            return self.end_held_run(closing);
        }
        self.state.decided_end = Some(closing);
        match self.state.root {
            Some(root) => self.close(root, Closing::cancelled()),
            None => Ok(()),
        }
    }
}
