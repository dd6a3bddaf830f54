//! A child run has ended.
//!
//! | call | effect |
//! |---|---|
//! | open, of a task that waits for it | the task's wait is resolved |
//! | open, of a call node | the node ends as the child run has |
//! | not open | late: the call was cancelled, or its result has arrived before |
//!
//! An open call of any other frame is impossible and a fault.

use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, no_call, wrong_frame};
use crate::state::{FrameBody, OpenCall};
use crate::{Status, TaskOutcome};

impl Reducer<'_> {
    pub(super) fn call_result(&mut self, call: u64, status: Status, outcome: &TaskOutcome) -> FaultResult {
        let Some(OpenCall { frame, .. }) = self.state.calls.remove(&call) else {
            self.publish_late("CallResult");
            return Ok(());
        };
        match &self.frame(frame)?.body {
            FrameBody::Pipeline(_) if self.waits_for_child(frame, call)? => {
                self.child_run_ended(frame, status, outcome)
            }
            FrameBody::Call { call: own } if *own == call => {
                self.end_with(frame, status, outcome.output.clone(), outcome.error.clone())
            }
            FrameBody::Pipeline(_) | FrameBody::Call { .. } => Err(no_call(call, "the one that its frame waits for")),
            other @ (FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Loop(_)
            | FrameBody::Net(_)
            | FrameBody::Wait(_)) => Err(wrong_frame(frame, "a frame that waits for a child run", other)),
        }
    }
}
