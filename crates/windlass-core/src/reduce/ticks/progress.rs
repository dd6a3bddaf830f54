//! A worker is alive and says how far it is.

use windlass_value::Value;

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn progress(&mut self, job: u64, data: &Value) {
        match self.state.jobs.get(&job).map(|open| open.frame) {
            Some(frame) => self.publish_at(frame, "task.progress", [("progress", data.clone())]),
            None => self.late("Progress"),
        }
    }
}
