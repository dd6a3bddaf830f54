//! Handles the expiry of a worker's lease.
//!
//! | job | effect |
//! |---|---|
//! | running under this lease epoch | dispatched again under the next epoch, with the same key |
//! | running under this lease epoch, cancelled | gone: no worker is left to confirm |
//! | resting under this lease epoch | lease returned |
//! | running or resting under another epoch, or not open | rejected, and an event reports it |

use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;

impl Reducer<'_> {
    pub(super) fn lease_lost(&mut self, job: u64, lease_epoch: u32) -> FaultResult {
        match self.state.jobs.get(&job) {
            Some(open) if open.job.lease_epoch == lease_epoch && open.cancelled.is_some() => self.job_cancelled(job),
            // It had reported: only the worker is lost.
            Some(open) if open.job.lease_epoch == lease_epoch && open.resting => self.return_lease(job),
            Some(open) if open.job.lease_epoch == lease_epoch => {
                self.state.free_workers.insert(open.job.worker);
                self.redispatch(job)
            }
            Some(_) | None => {
                self.reject_report("LeaseLost", job, lease_epoch);
                Ok(())
            }
        }
    }
}
