//! Stop between tasks: jobs in flight may end, nothing new begins.

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn pause(&mut self) {
        if !self.state.paused && self.state.verdict.is_none() {
            self.state.paused = true;
            self.give_all_back();
            self.publish("".into(), "workflow.paused", []);
        }
    }
}
