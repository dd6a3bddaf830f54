//! What the server keeps at hand so that many can look at once.

use tokio::sync::Semaphore;

use crate::{App, Problem};

/// Reads of the store at once: enough for a disk, too few to starve whoever commits.
const READS_AT_ONCE: usize = 8;

/// What readers share.
pub struct Views {
    reads: Semaphore,
}

impl Default for Views {
    fn default() -> Views {
        Views { reads: Semaphore::new(READS_AT_ONCE) }
    }
}

impl App {
    /// Reads from the store on a thread that may wait for a disk; those that answer requests may not.
    pub async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        // It is never closed.
        let permit = self.views.reads.acquire().await.map_err(|_| Problem::unavailable("the server is stopping"))?;
        let app = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&app)).await;
        drop(permit);
        read.unwrap_or_else(|_| Err(Problem::defect("a read of the store has ended in a defect of the server")))
    }
}
