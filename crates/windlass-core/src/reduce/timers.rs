//! Timers. All of them are part of the state, so no pending timer is lost with a process.
//!
//! | timer | its owner exists | its owner is gone |
//! |---|---|---|
//! | deadline | the frame is cancelled | – |
//! | loop time, budget | the loop stops; any other frame fails | – |
//! | alarm | the frame continues: see its kind | – |
//! | grace | the job is removed without a confirmation from its worker | – |
//! | run | its end is decided as timed out; armed again, if it was alive for less | – |
//!
//! – is impossible and a fault: a timer is removed with its owner.

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

    /// Fires all due timers, in order of due time, before the tick itself is applied.
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

    /// Limits the remaining time of a frame.
    pub(crate) fn limit_deadline(&mut self, id: FrameId, at: Timestamp) -> FaultResult {
        // It has ended, and its parent has not processed that yet.
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

    /// Handles a node's deadline. The timer is removed with its frame, so the frame exists.
    fn deadline(&mut self, id: FrameId) -> FaultResult {
        let program = self.program;
        let frame = self.frame_mut(id)?;
        frame.deadline = None;
        let node = program.node(frame.node);
        // A node without a timeout has a deadline only as a lingering child: the rest of its graph has ended.
        let Some(timeout) = &node.timeout else { return self.close(id, Closing::cancelled()) };
        let suffix = match &timeout.after {
            Amount::Fixed(after) => format!("of {after} allows"),
            Amount::Computed(_) => "allows".to_owned(),
        };
        let message = format!("`{}` took longer than its timeout {suffix}", node.name);
        let mut error = ErrorInfo::new("ActionTimedOut", "timeout", message);
        if let Amount::Fixed(after) = &timeout.after {
            let name = if node.hidden { "the run".to_owned() } else { format!("`{}`", node.name) };
            error = self
                .program
                .plan
                .apply_wording(error, &[("name", &name), ("duration", &amounts::format_duration(*after))]);
        }
        self.close(id, Closing::failed(timeout.status, error))
    }

    /// Handles an alarm. The timer is removed with its frame, and with the wait that it belongs to.
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
                // It is retried with its wait results, or its operation continues elsewhere.
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

    /// Handles the run's timeout. Only time in which the run is alive counts, so the timer may be early.
    pub(crate) fn run_timeout_due(&mut self) -> FaultResult {
        // A tick may request it in a run that has no timeout.
        let Some(timeout) = self.program.plan.timeout else { return Ok(()) };
        if self.state.alive_time < timeout {
            self.arm_run_timeout();
            return Ok(());
        }
        let active = self.active_steps();
        let active_text = match active.is_empty() {
            true => String::new(),
            false => format!("; still running: {}", active.join(", ")),
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

    /// Ends the run with a decided status; everything alive is cancelled first.
    pub(crate) fn end_early(&mut self, closing: Closing) -> FaultResult {
        if self.state.decided_end.is_some() {
            return Ok(());
        }
        self.state.paused = false;
        if self.state.held_start.take().is_some() {
            // It has never begun: there is nothing to cancel.
            return self.end_held_run(closing);
        }
        self.state.decided_end = Some(closing);
        match self.state.root {
            Some(root) => self.close(root, Closing::cancelled()),
            None => Ok(()),
        }
    }
}
