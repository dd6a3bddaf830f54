//! Somebody wants the run to end.

use std::sync::Arc;

use crate::reduce::Reducer;
use crate::state::Closing;
use crate::{ErrorInfo, Status};

impl Reducer<'_> {
    pub(super) fn cancel_run(&mut self, reason: &Arc<str>) {
        let error = ErrorInfo::new("Cancelled", "cancelled", reason.clone());
        self.end_early(Closing::failed(Status::Cancelled, error));
    }
}
