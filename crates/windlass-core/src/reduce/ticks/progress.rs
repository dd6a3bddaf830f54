//! A worker is alive and says how far it is.
//!
//! | job | effect |
//! |---|---|
//! | out under this epoch, called off or not | an event tells of it |
//! | at rest, out under another epoch, or not open | refused, and an event tells of that |

use windlass_value::Value;

use crate::EventKind;
use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn progress(&mut self, job: u64, lease_epoch: u32, data: &Value) {
        match self.frame_of_dispatched(job, lease_epoch) {
            Some(frame) => {
                let progress = self.redacted_output(frame, data);
                self.publish(self.task_path(frame), EventKind::TaskProgress { progress });
            }
            None => self.reject_report("Progress", job, lease_epoch),
        }
    }
}
