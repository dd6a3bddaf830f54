//! Go on after a pause.

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn resume(&mut self) {
        if self.state.paused {
            self.state.paused = false;
            self.publish("".into(), "workflow.resumed", []);
        }
    }
}
