//! A worker has let its lease run out.

use crate::reduce::Reducer;
use crate::reduce::impossible::Checked;

impl Reducer<'_> {
    pub(super) fn lease_lost(&mut self, job: u64, dispatch: u32) -> Checked {
        match self.state.jobs.get(&job) {
            Some(open) if open.dispatch == dispatch && open.cancelled.is_some() => self.job_gone(job),
            // It had reported: nothing is lost but the worker.
            Some(open) if open.dispatch == dispatch && open.resting => self.give_back(job),
            Some(open) if open.dispatch == dispatch => {
                self.state.free_workers.insert(open.worker);
                self.hand_out_again(job)
            }
            Some(_) | None => {
                self.refuse("LeaseLost", job, dispatch);
                Ok(())
            }
        }
    }
}
