//! What the server keeps at hand so that many can look at once.

use tokio::sync::Semaphore;

use crate::paint::Painters;
use crate::streams::Hubs;
use crate::streams::changes::Changes;
use crate::{App, Problem};

/// Calls of the store at once: enough for a disk, too few to starve whoever commits.
const AT_ONCE: usize = 8;

/// What readers share.
pub struct Views {
    calls: Semaphore,
    pub hubs: Hubs,
    pub changes: Changes,
    pub painters: Painters,
}

impl Default for Views {
    fn default() -> Views {
        Views {
            calls: Semaphore::new(AT_ONCE),
            hubs: Hubs::default(),
            changes: Changes::default(),
            painters: Painters::default(),
        }
    }
}

impl App {
    /// Reads or writes the store on a thread that may wait for a disk; those that answer requests may not.
    pub async fn at_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        // It is never closed.
        let permit = self.views.calls.acquire().await.map_err(|_| Problem::unavailable("the server is stopping"))?;
        let app = self.clone();
        let called = tokio::task::spawn_blocking(move || call(&app)).await;
        drop(permit);
        called.unwrap_or_else(|_| Err(Problem::defect("a call of the store has ended in a defect of the server")))
    }
}
