//! A child run has ended.

use crate::reduce::Reducer;
use crate::reduce::impossible::Checked;
use crate::{Status, TaskOutcome};

impl Reducer<'_> {
    pub(super) fn call_result(&mut self, call: u64, status: Status, outcome: &TaskOutcome) -> Checked {
        match self.state.calls.remove(&call) {
            Some(open) if self.awaiting(open.frame).is_some() => self.child_answered(open.frame, status, outcome),
            Some(open) => self.end_with(open.frame, status, outcome.output.clone(), outcome.error.clone()),
            None => {
                self.late("CallResult");
                Ok(())
            }
        }
    }
}
