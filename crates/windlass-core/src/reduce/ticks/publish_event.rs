//! A worker wants something said while it works. The state stays as it is.

use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn publish_event(&mut self, job: u64, dispatch: Option<u32>, kind: &Arc<str>, data: &Value) {
        let Some(frame) = self.spoken_for(job, dispatch) else {
            return self.refuse("PublishEvent", job, dispatch);
        };
        let path = self.path(frame);
        let data = data.as_map().cloned().unwrap_or_else(|| Map::from_iter([("data", data.clone())]));
        let data = data.iter().map(|(name, value)| (name.clone(), self.slim(value.clone()))).collect();
        self.publish_map(path, kind.clone(), data);
    }
}
