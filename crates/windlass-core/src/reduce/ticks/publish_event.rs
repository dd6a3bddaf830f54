//! A worker wants something said while it works.

use std::sync::Arc;

use windlass_value::Value;

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn publish_event(&mut self, job: u64, dispatch: u32, kind: &Arc<str>, data: &Value) {
        let Some(frame) = self.spoken_for(job, dispatch) else {
            return self.refuse("PublishEvent", job, dispatch);
        };
        let path = self.path(frame);
        let data = self.shown(frame, data);
        self.publish_custom(path, kind, &data);
        // Whoever is given the task again, because this worker was lost, need not say it again.
        if let Some(open) = self.state.jobs.get_mut(&job) {
            Arc::make_mut(open.resumed.get_or_insert_default()).told += 1;
        }
    }
}
