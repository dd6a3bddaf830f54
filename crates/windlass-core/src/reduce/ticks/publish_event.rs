//! A worker publishes an event while it works.
//!
//! | job | effect |
//! |---|---|
//! | running under this lease epoch, cancelled or not | the event is published and counted for the task |
//! | resting, running under another epoch, or not open | rejected, and an event reports it |

use std::sync::Arc;

use windlass_value::Value;

use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, no_job};

impl Reducer<'_> {
    pub(super) fn publish_event(&mut self, job: u64, lease_epoch: u32, kind: &Arc<str>, data: &Value) -> FaultResult {
        let Some(frame) = self.frame_of_dispatched(job, lease_epoch) else {
            self.reject_report("PublishEvent", job, lease_epoch);
            return Ok(());
        };
        let path = self.path(frame);
        let data = self.redacted_output(frame, data);
        self.publish_custom(path, kind, &data);
        // If this worker is lost, the next one that gets the task need not publish the event again.
        let open = self.state.jobs.get_mut(&job).ok_or_else(|| no_job(job, "a job whose worker publishes an event"))?;
        Arc::make_mut(open.job.resumed.get_or_insert_default()).published_events += 1;
        Ok(())
    }
}
