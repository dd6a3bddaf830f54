//! What the server keeps at hand so that many can look at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_core::State;

use crate::paint::Painters;
use crate::streams::changes::RunChangeFeed;
use crate::streams::{EventFanOuts, EventPageCache};
use crate::{App, Problem};

/// Calls of the store at once: enough for a disk, too few to starve whoever commits.
const MAX_STORE_READS: usize = 8;

/// Calls that write it, at once. They have a lane of their own: whoever only looks needs no turn to write, and does not wait for
/// one while another process has it.
const MAX_STORE_WRITES: usize = 8;

/// What computes for long, at once: replays, compilations. They have a lane of their own, so that nobody who only looks waits
/// for them.
const MAX_LONG_CALLS: usize = 2;

/// How long a run in memory is asked how it stands. One that waits for its own commit says nothing; the store has all that it may
/// tell.
const STATE_WITHIN: Duration = Duration::from_millis(500);

/// What readers share.
pub struct Views {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    long: Arc<Semaphore>,
    pub(crate) fan_outs: EventFanOuts,
    pub(crate) page_cache: EventPageCache,
    pub(crate) changes: RunChangeFeed,
    pub painters: Painters,
    pub(crate) sweeping: Sweeping,
}

/// Whether somebody frees what was removed. Whoever removes something meanwhile has it looked for once more.
#[derive(Default)]
pub(crate) struct Sweeping(AtomicU8);

const NOBODY: u8 = 0;
const AT_IT: u8 = 1;
const ONCE_MORE: u8 = 2;

impl Sweeping {
    /// True: nobody is at it, so whoever asks is from now on.
    pub(crate) fn begin(&self) -> bool {
        let next = |now| Some(if now == NOBODY { AT_IT } else { ONCE_MORE });
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(NOBODY)
    }

    /// False: something was removed since; whoever is at it looks again.
    pub(crate) fn is_done(&self) -> bool {
        let next = |now| Some(if now == ONCE_MORE { AT_IT } else { NOBODY });
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) != Ok(ONCE_MORE)
    }
}

impl Default for Views {
    fn default() -> Views {
        Views {
            reads: Arc::new(Semaphore::new(MAX_STORE_READS)),
            writes: Arc::new(Semaphore::new(MAX_STORE_WRITES)),
            long: Arc::new(Semaphore::new(MAX_LONG_CALLS)),
            fan_outs: EventFanOuts::default(),
            page_cache: EventPageCache::default(),
            changes: RunChangeFeed::default(),
            painters: Painters::default(),
            sweeping: Sweeping::default(),
        }
    }
}

impl App {
    /// Reads the store on a thread that may wait for a disk; those that answer requests may not.
    pub(crate) async fn at_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        on_thread(self, &self.views.reads, call).await
    }

    /// The same for what writes.
    pub(crate) async fn to_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        on_thread(self, &self.views.writes, call).await
    }

    /// How a run stands, if it is in memory and says so soon. None: ask the store.
    pub(crate) async fn resident_state(&self, run: &str) -> Result<Option<State>, Problem> {
        match tokio::time::timeout(STATE_WITHIN, self.engine.state(run)).await {
            Ok(state) => Ok(state?),
            Err(_) => Ok(None),
        }
    }

    /// What computes for long, on such a thread as well.
    pub async fn at_length<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        on_thread(self, &self.views.long, call).await
    }
}

async fn on_thread<T: Send + 'static>(
    app: &App,
    lane: &Arc<Semaphore>,
    call: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    // It is never closed.
    let place = lane.clone().acquire_owned().await.map_err(|_| Problem::unavailable("the server is stopping"))?;
    let own = app.clone();
    let called = tokio::task::spawn_blocking(move || {
        // For as long as it takes, whether or not anybody still waits for it: a thread cannot be called off.
        let _place = place;
        call(&own)
    });
    called.await.unwrap_or_else(|_| Err(Problem::defect("a call of the store has ended in a defect of the server")))
}

#[cfg(test)]
mod tests {
    use super::Sweeping;

    #[test]
    fn one_sweeps_for_all_and_misses_nothing() {
        let sweeping = Sweeping::default();
        assert!(sweeping.begin());
        assert!(!sweeping.begin() && !sweeping.begin(), "one is at it");
        assert!(!sweeping.is_done(), "what was removed meanwhile is looked for");
        assert!(sweeping.is_done());
        assert!(sweeping.begin(), "it begins anew");
        assert!(sweeping.is_done());
    }
}
