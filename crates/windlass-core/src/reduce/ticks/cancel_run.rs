//! Cancels the run on request.
//!
//! | run | effect |
//! |---|---|
//! | held | ended as cancelled: it has not begun |
//! | running, paused or not | its end is decided; everything alive is cancelled, and then it ends |
//! | running, its end is decided | none: the first decision counts |
//! | has replied, and its caller cancels it | late |

use std::sync::Arc;

use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::Closing;
use crate::{ErrorInfo, Status};

impl Reducer<'_> {
    pub(super) fn cancel_run(&mut self, reason: &Arc<str>, by_caller: bool) -> FaultResult {
        if by_caller && self.state.reply.is_some() {
            // The caller has its reply, though it may not have seen it: the run no longer depends on the caller.
            self.publish_late("CancelRun");
            return Ok(());
        }
        let error = ErrorInfo::new("Cancelled", "cancelled", reason.clone());
        self.end_early(Closing::failed(Status::Cancelled, error))
    }
}
