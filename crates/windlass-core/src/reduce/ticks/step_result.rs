//! A worker has ended a job.

use crate::TaskOutcome;
use crate::reduce::Reducer;
use crate::state::{Body, Item};

impl Reducer<'_> {
    pub(super) fn step_result(&mut self, job: u64, dispatch: u32, outcome: &TaskOutcome) {
        // A job that is not open, or was handed out again since: the lease was lost, the result is refused.
        let Some(open) = self.state.jobs.get(&job).filter(|open| open.dispatch == dispatch) else {
            return self.late("StepResult");
        };
        let (frame, cancelled) = (open.frame, open.cancelled.is_some());
        self.note_usage(frame, outcome);
        if cancelled {
            return self.job_gone(job);
        }
        let Some(frame) = self.close_job(job) else { return };
        if let Some(Body::Pipeline(pipeline)) = self.state.frames.get_mut(frame).map(|frame| &mut frame.body) {
            pipeline.job = None;
        }
        self.state.agenda.push_back(Item::TaskEnded(frame, Box::new(outcome.clone())));
    }
}
