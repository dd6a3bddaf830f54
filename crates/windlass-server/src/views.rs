//! What the server keeps at hand so that many can look at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_core::State;

use crate::run_drawings::RunDrawingCache;
use crate::streams::changes::RunChangeFeed;
use crate::streams::{EventFanOuts, EventPageCache};
use crate::{ApiProblem, App};

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
const STATE_TIMEOUT: Duration = Duration::from_millis(500);

/// What readers share.
pub struct ReaderViews {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    long: Arc<Semaphore>,
    pub(crate) fan_outs: EventFanOuts,
    pub(crate) page_cache: EventPageCache,
    pub(crate) changes: RunChangeFeed,
    pub painters: RunDrawingCache,
    pub(crate) sweep_state: SweepState,
}

/// Whether somebody frees what was removed. Whoever removes something meanwhile has it looked for once more.
#[derive(Default)]
pub(crate) struct SweepState(AtomicU8);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const RERUN_REQUESTED: u8 = 2;

impl SweepState {
    /// True: nobody is at it, so whoever asks is from now on.
    pub(crate) fn begin(&self) -> bool {
        let next = |now| Some(if now == IDLE { RUNNING } else { RERUN_REQUESTED });
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(IDLE)
    }

    /// False: something was removed since; whoever is at it looks again.
    pub(crate) fn finish(&self) -> bool {
        let next = |now| Some(if now == RERUN_REQUESTED { RUNNING } else { IDLE });
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) != Ok(RERUN_REQUESTED)
    }
}

impl Default for ReaderViews {
    fn default() -> ReaderViews {
        ReaderViews {
            reads: Arc::new(Semaphore::new(MAX_STORE_READS)),
            writes: Arc::new(Semaphore::new(MAX_STORE_WRITES)),
            long: Arc::new(Semaphore::new(MAX_LONG_CALLS)),
            fan_outs: EventFanOuts::default(),
            page_cache: EventPageCache::default(),
            changes: RunChangeFeed::default(),
            painters: RunDrawingCache::default(),
            sweep_state: SweepState::default(),
        }
    }
}

impl App {
    /// Reads the store on a thread that may wait for a disk; those that answer requests may not.
    pub(crate) async fn read_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, ApiProblem> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        on_thread(self, &self.views.reads, call).await
    }

    /// The same for what writes.
    pub(crate) async fn write_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, ApiProblem> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        on_thread(self, &self.views.writes, call).await
    }

    /// How a run stands, if it is in memory and says so soon. None: ask the store.
    pub(crate) async fn resident_state(&self, run: &str) -> Result<Option<State>, ApiProblem> {
        match tokio::time::timeout(STATE_TIMEOUT, self.engine.state(run)).await {
            Ok(state) => Ok(state?),
            Err(_) => Ok(None),
        }
    }

    /// What computes for long, on such a thread as well.
    pub async fn compute<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, ApiProblem> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        on_thread(self, &self.views.long, call).await
    }
}

async fn on_thread<T: Send + 'static>(
    app: &App,
    lane: &Arc<Semaphore>,
    call: impl FnOnce(&App) -> Result<T, ApiProblem> + Send + 'static,
) -> Result<T, ApiProblem> {
    // It is never closed.
    let permit = lane.clone().acquire_owned().await.map_err(|_| ApiProblem::unavailable("the server is stopping"))?;
    let own = app.clone();
    let called = tokio::task::spawn_blocking(move || {
        // For as long as it takes, whether or not anybody still waits for it: a thread cannot be called off.
        let _permit = permit;
        call(&own)
    });
    called.await.unwrap_or_else(|_| Err(ApiProblem::defect("a call of the store has ended in a defect of the server")))
}

#[cfg(test)]
mod tests {
    use super::SweepState;

    #[test]
    fn concurrent_sweeps_are_merged_without_missing_removals() {
        let sweeping = SweepState::default();
        assert!(sweeping.begin());
        assert!(!sweeping.begin() && !sweeping.begin(), "one is at it");
        assert!(!sweeping.finish(), "what was removed meanwhile is looked for");
        assert!(sweeping.finish());
        assert!(sweeping.begin(), "it begins anew");
        assert!(sweeping.finish());
    }
}
