//! Ends the process when its store is lost: nothing can be stored any more, and a supervisor starts it again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::error;
use windlass_store::Store;

use crate::failure::CliFailure;

/// The check reads the names of two files.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// The watch over a store. Dropping it ends the watch.
pub(super) struct StoreWatch(JoinHandle<()>);

impl StoreWatch {
    /// Starts to watch. Must be called inside the runtime.
    pub(super) fn start(store: Arc<dyn Store>) -> StoreWatch {
        StoreWatch(tokio::spawn(async move {
            let lost = loop {
                if let Err(lost) = store.check() {
                    break lost;
                }
                tokio::time::sleep(CHECK_EVERY).await;
            };
            error!(event = "store_lost", code = lost.kind.code(), "{lost}");
            CliFailure::from(lost).show();
            // Neither runs nor requests can end in order: whatever they do cannot be stored.
            std::process::exit(1);
        }))
    }
}

impl Drop for StoreWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
