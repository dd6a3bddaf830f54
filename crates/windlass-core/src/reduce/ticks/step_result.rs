//! A worker has ended a task.
//!
//! | job | effect |
//! |---|---|
//! | out under this epoch | at rest, or given back if the run is paused; the pipeline's task has ended |
//! | out under this epoch, called off | gone: its worker has confirmed |
//! | at rest, out under another epoch, or not open | refused, and an event tells of it |
//!
//! A job whose pipeline is gone is impossible and a fault.

use crate::TaskOutcome;
use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::AgendaItem;

impl Reducer<'_> {
    pub(super) fn step_result(&mut self, job: u64, lease_epoch: u32, outcome: &TaskOutcome) -> FaultResult {
        // A job that is not open, or was handed out again since: the lease was lost, the result is refused.
        let Some(open) = self.state.jobs.get(&job).filter(|open| open.is_dispatched_under(lease_epoch)) else {
            self.reject_report("StepResult", job, lease_epoch);
            return Ok(());
        };
        let (frame, cancelled) = (open.frame, open.cancelled.is_some());
        // A job goes with its pipeline.
        self.frame(frame)?;
        self.account_job(job, Some(outcome))?;
        if cancelled {
            return self.job_cancelled(job);
        }
        self.watch_report(frame, outcome);
        self.rest_job(job)?;
        self.state.agenda.push_back(AgendaItem::TaskEnded(frame, Box::new(outcome.clone())));
        Ok(())
    }
}
