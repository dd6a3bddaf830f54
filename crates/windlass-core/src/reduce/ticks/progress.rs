//! A worker is alive and says how far it is.

use windlass_value::Value;

use crate::EventKind;
use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn progress(&mut self, job: u64, dispatch: u32, data: &Value) {
        match self.spoken_for(job, dispatch) {
            Some(frame) => {
                let progress = self.shown(frame, data);
                self.publish(self.task_path(frame), EventKind::TaskProgress { progress });
            }
            None => self.refuse("Progress", job, dispatch),
        }
    }
}
