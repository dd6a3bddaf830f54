//! One file per tick: the effect of each input on the state. Each begins with a table of its effects by state. An
//! ended run accepts no input: every tick is late there. Before its start a run accepts its start and, as its very
//! first tick, a pause; any other tick is impossible and a fault
//! ([`ReducerFault::NotStarted`](super::ReducerFault::NotStarted)).

mod add_event;
mod call_result;
mod cancel_run;
mod lease_lost;
mod pause;
mod proceed;
mod progress;
mod publish_event;
mod restart;
mod resume;
mod step_result;
mod timeout;
mod timer_due;

use super::Reducer;
use super::fault::FaultResult;
use windlass_value::interned;

use crate::{EventKind, TickKind};

impl Reducer<'_> {
    pub(super) fn apply(&mut self, kind: &TickKind) -> FaultResult {
        if self.state.result().is_some() {
            // An ended run accepts no more input; a late tick is published and changes nothing.
            self.publish_late(kind.name());
            return Ok(());
        }
        match kind {
            TickKind::AddEvent { name, payload, origin, to, trigger_metadata, defaults, .. } => {
                self.add_event(name, payload, origin.as_deref(), to.as_ref(), (trigger_metadata, defaults))?;
            }
            TickKind::StepResult { job, lease_epoch, outcome } => self.step_result(*job, *lease_epoch, outcome)?,
            TickKind::LeaseLost { job, lease_epoch } => self.lease_lost(*job, *lease_epoch)?,
            TickKind::CallResult { call, status, outcome } => self.call_result(*call, *status, outcome)?,
            TickKind::CancelRun { reason, by_caller, .. } => self.cancel_run(reason, *by_caller)?,
            TickKind::PublishEvent { job, lease_epoch, kind, data } => {
                self.publish_event(*job, *lease_epoch, kind, data)?
            }
            TickKind::Timeout => self.timeout()?,
            TickKind::TimerDue => self.timer_due(),
            TickKind::Pause { .. } => self.pause()?,
            TickKind::Resume { .. } => self.resume()?,
            TickKind::Progress { job, lease_epoch, data } => self.progress(*job, *lease_epoch, data),
            TickKind::Restart { .. } => self.restart()?,
            TickKind::Proceed => self.proceed(),
        }
        Ok(())
    }

    pub(super) fn publish_late(&mut self, what: &'static str) {
        let (event, reason) = (interned(what), interned("it arrived too late and changed nothing"));
        self.publish("".into(), EventKind::EventUnhandled { event, reason, idle: None });
    }
}
