//! What the server keeps at hand so that many can look at once.

use tokio::sync::Semaphore;

use crate::paint::Painters;
use crate::streams::changes::Changes;
use crate::streams::{Hubs, Shelf};
use crate::{App, Problem};

/// Calls of the store at once: enough for a disk, too few to starve whoever commits.
const AT_ONCE: usize = 8;

/// What computes for long, at once: replays, compilations. They have a lane of their own, so that nobody who only looks waits
/// for them.
const LONG_AT_ONCE: usize = 2;

/// What readers share.
pub struct Views {
    calls: Semaphore,
    long: Semaphore,
    pub hubs: Hubs,
    pub shelf: Shelf,
    pub changes: Changes,
    pub painters: Painters,
}

impl Default for Views {
    fn default() -> Views {
        Views {
            calls: Semaphore::new(AT_ONCE),
            long: Semaphore::new(LONG_AT_ONCE),
            hubs: Hubs::default(),
            shelf: Shelf::default(),
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
        on_thread(self, &self.views.calls, call).await
    }

    /// The same for what computes for long.
    pub async fn at_length<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        on_thread(self, &self.views.long, call).await
    }
}

async fn on_thread<T: Send + 'static>(
    app: &App,
    lane: &Semaphore,
    call: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    // It is never closed.
    let permit = lane.acquire().await.map_err(|_| Problem::unavailable("the server is stopping"))?;
    let own = app.clone();
    let called = tokio::task::spawn_blocking(move || call(&own)).await;
    drop(permit);
    called.unwrap_or_else(|_| Err(Problem::defect("a call of the store has ended in a defect of the server")))
}
