//! Somebody wants the run to end.
//!
//! | run | effect |
//! |---|---|
//! | held | ended as cancelled: nothing of it has begun |
//! | running, paused or not | its end is decided; all that is alive is called off, and then it ends |
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
            // The caller has its answer, though it may not have seen it: the run is no longer part of it.
            self.publish_late("CancelRun");
            return Ok(());
        }
        let error = ErrorInfo::new("Cancelled", "cancelled", reason.clone());
        self.end_early(Closing::failed(Status::Cancelled, error))
    }
}
