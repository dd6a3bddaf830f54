//! A worker has finished a task.
//!
//! | job | effect |
//! |---|---|
//! | running under this lease epoch | resting, or returned if the run is paused; the pipeline's task has ended |
//! | running under this lease epoch, cancelled | gone: its worker has confirmed |
//! | resting, running under another epoch, or not open | rejected, and an event reports it |
//!
//! A job whose pipeline is gone is impossible and a fault.

use crate::TaskOutcome;
use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::AgendaItem;

impl Reducer<'_> {
    pub(super) fn step_result(&mut self, job: u64, lease_epoch: u32, outcome: &TaskOutcome) -> FaultResult {
        // The job is not open, or was dispatched again since: the lease has expired, and the result is rejected.
        let Some(open) = self.state.jobs.get(&job).filter(|open| open.is_dispatched_under(lease_epoch)) else {
            self.reject_report("StepResult", job, lease_epoch);
            return Ok(());
        };
        let (frame, cancelled) = (open.frame, open.cancelled.is_some());
        // A job is removed with its pipeline.
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
