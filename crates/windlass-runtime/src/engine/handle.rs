//! Handles: how callers follow a run and wait for its end.

use std::sync::Arc;

use tokio::sync::{broadcast, watch};
use windlass_core::Event;

use super::{EventFeed, RunEnd};
use crate::RuntimeError;
use crate::report::FinalReport;

/// A caller's view of a run. Dropping it does not stop the run.
pub struct RunHandle {
    /// The id of the run.
    pub run: Arc<str>,
    pub(super) end: watch::Receiver<RunEnd>,
    /// Live events from now on, if they were requested.
    pub events: Option<broadcast::Receiver<Event>>,
    /// The call that returned this handle created the run.
    pub created: bool,
    /// Buffered events stay in memory as long as a handle exists.
    pub(super) _feed: Arc<EventFeed>,
}

impl RunHandle {
    /// Returns the report of the run, if it has ended.
    pub fn ended(&self) -> Option<Arc<FinalReport>> {
        match &*self.end.borrow() {
            RunEnd::Ended(report) => Some(report.clone()),
            RunEnd::Open | RunEnd::Failed(_) | RunEnd::Detached => None,
        }
    }

    /// Waits until the run has ended or this engine is no longer responsible for it.
    pub async fn wait(&mut self) -> Result<Arc<FinalReport>, RuntimeError> {
        let end = self.end.wait_for(|end| !matches!(end, RunEnd::Open)).await.map_err(|_| RuntimeError::Closing)?;
        match &*end {
            RunEnd::Ended(report) => Ok(report.clone()),
            RunEnd::Failed(error) => Err(error.clone()),
            RunEnd::Open | RunEnd::Detached => Err(RuntimeError::Closing),
        }
    }
}
