//! Limits: the number of iterations, the time, the budget. Every loop over a condition has the first two.
//!
//! | limit | between iterations | while iterations are live |
//! |---|---|---|
//! | number of iterations | ends as `count` | no other begins; ends when they have ended |
//! | time | ends as `timeout` | the same; with `cancels_iterations_on_timeout` they are cancelled |
//! | budget | ends as `budget` | no other begins; cancelled, if a call was refused or the budget of time is over |
//!
//! A limit that is reached in a loop that is stopping changes nothing: the first reason counts.

use windlass_value::{Duration, Timestamp};

use crate::plan::Loop;
use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::{AgendaItem, BudgetUsage, FrameBody, FrameId, LoopFrame};
use crate::{ErrorInfo, LoopEndReason};

/// Checks computed limits against the system's maximums, as strictly as limits that are written in the definition.
pub(super) fn check_maximums(
    looping: &Loop,
    iterations: Option<u64>,
    time: Option<Duration>,
    max_concurrency: u64,
) -> Result<(), ErrorInfo> {
    let limits = &looping.limits;
    let refuse = |message: String| Err(ErrorInfo::new("LoopLimit", "limit", message).hint("see `windlass limits`"));
    match (iterations, time) {
        (Some(0), _) => refuse("a loop needs a limit of at least 1 iteration".to_owned()),
        (Some(iterations), _) if iterations > limits.max_iterations => refuse(format!(
            "the loop requests {iterations} iterations; the system's limit is {}",
            limits.max_iterations
        )),
        (_, Some(time)) if time > limits.max_time => {
            refuse(format!("the loop requests {time}; the system's limit is {}", limits.max_time))
        }
        _ if max_concurrency == 0 => refuse("a loop needs a concurrency of at least 1".to_owned()),
        _ => Ok(()),
    }
}

/// Returns the limit that forbids another iteration.
pub(super) fn limit_reached(body: &LoopFrame, now: Timestamp) -> Option<LoopEndReason> {
    if body.max_iterations.is_some_and(|max| body.begun >= max) {
        return Some(LoopEndReason::Count);
    }
    if body.time_at.is_some_and(|at| now >= at) {
        return Some(LoopEndReason::Timeout);
    }
    body.budget.iter().any(BudgetUsage::ends_iterations).then_some(LoopEndReason::Budget)
}

/// Returns true if another iteration may begin: there are items left, and no limit is reached.
pub(super) fn may_continue(body: &LoopFrame, now: Timestamp) -> bool {
    let items_left = body.items.as_ref().is_none_or(|items| body.begun < items.count);
    items_left && limit_reached(body, now).is_none()
}

impl Reducer<'_> {
    /// Handles the expiry of the loop's time limit: live iterations are cancelled.
    pub(in crate::reduce) fn loop_time_over(&mut self, id: FrameId) -> FaultResult {
        // The timer is removed with the loop's body, so the body exists.
        self.loop_frame_mut(id)?.time_key = None;
        self.stop_loop(id, LoopEndReason::Timeout)
    }

    /// Stops the loop because of a limit and cancels its iterations.
    pub(in crate::reduce) fn stop_loop(&mut self, id: FrameId, reason: LoopEndReason) -> FaultResult {
        self.clear_alarm(id)?;
        let body = self.loop_frame_mut(id)?;
        body.stopping.get_or_insert(reason);
        self.cancel_iterations(id)?;
        self.state.agenda.push_back(AgendaItem::NextIteration(id));
        Ok(())
    }

    /// Removes a loop's timer; a frame of any other kind has none.
    pub(in crate::reduce) fn forget_loop_time(&mut self, id: FrameId) -> FaultResult {
        if let FrameBody::Loop(body) = &mut self.frame_mut(id)?.body
            && let Some(key) = body.time_key.take()
        {
            self.state.timers.remove(&key);
        }
        Ok(())
    }
}
