//! A worker is alive and reports its progress.
//!
//! | job | effect |
//! |---|---|
//! | running under this lease epoch, cancelled or not | an event reports it |
//! | resting, running under another epoch, or not open | rejected, and an event reports that |

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
