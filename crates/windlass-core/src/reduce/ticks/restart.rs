//! Another process has taken over: tasks in flight are dispatched again, in order, with their keys and attempts;
//! workers are numbered from 0. A pipeline between two tasks continues where it is.
//!
//! | what is open | effect |
//! |---|---|
//! | a cancelled job | gone: no worker is left to confirm |
//! | a resting job | its lease is returned |
//! | a running job | dispatched again under the next lease epoch |
//! | a call | the child run is requested again, under the same key |
//! | the run's timeout | armed again with what the time in which a process was up has left, unless the run is held |

use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;

impl Reducer<'_> {
    pub(super) fn restart(&mut self) -> FaultResult {
        self.state.free_workers.clear();
        self.state.workers = 0;
        let cancelled: Vec<u64> =
            self.state.jobs.iter().filter(|(_, open)| open.cancelled.is_some()).map(|(job, _)| *job).collect();
        for job in cancelled {
            // Its worker is gone with the process: no worker is left to confirm.
            self.job_cancelled(job)?;
        }
        self.return_resting_leases()?;
        self.state.free_workers.clear();
        for job in self.state.jobs.keys().copied().collect::<Vec<_>>() {
            self.redispatch(job)?;
        }
        for call in self.state.calls.keys().copied().collect::<Vec<_>>() {
            self.request_child(call)?;
        }
        if self.state.held_start.is_none() {
            self.arm_run_timeout();
        }
        Ok(())
    }
}
