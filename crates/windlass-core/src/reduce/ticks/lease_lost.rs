//! A worker has let its lease run out.
//!
//! | job | effect |
//! |---|---|
//! | out under this epoch | handed out again under the next epoch, with the same key |
//! | out under this epoch, called off | gone: nobody is left to confirm |
//! | at rest under this epoch | given back |
//! | out or at rest under another epoch, or not open | refused, and an event tells of it |

use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;

impl Reducer<'_> {
    pub(super) fn lease_lost(&mut self, job: u64, lease_epoch: u32) -> FaultResult {
        match self.state.jobs.get(&job) {
            Some(open) if open.job.lease_epoch == lease_epoch && open.cancelled.is_some() => self.job_cancelled(job),
            // It had reported: nothing is lost but the worker.
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
