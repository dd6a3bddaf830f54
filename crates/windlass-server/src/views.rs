//! Caches and concurrency limits shared by all readers of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_core::State;

use crate::run_drawings::RunDrawingCache;
use crate::streams::changes::RunChangeFeed;
use crate::streams::{EventFanOuts, EventPageCache};
use crate::{ApiProblem, App};

/// Maximum number of concurrent store reads: enough for a disk, too few to starve commits.
const MAX_STORE_READS: usize = 8;

/// Maximum number of concurrent store writes. Writes have their own limit, so that reads do not wait for the write
/// lock while another process holds it.
const MAX_STORE_WRITES: usize = 8;

/// Maximum number of concurrent long computations (replays, compilations). They have their own limit, so that plain
/// reads do not wait for them.
const MAX_LONG_CALLS: usize = 2;

/// Time to wait for the state of a resident run. A run that waits for its own commit does not answer; the store
/// contains everything it may publish.
const STATE_TIMEOUT: Duration = Duration::from_millis(500);

/// Caches and limits shared by readers.
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

/// The state of the sweep that frees removed data. A removal during a sweep makes the sweep run once more.
#[derive(Default)]
pub(crate) struct SweepState(AtomicU8);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const RERUN_REQUESTED: u8 = 2;

impl SweepState {
    /// Requests a sweep. Returns true if none is running: the caller then performs it.
    pub(crate) fn begin(&self) -> bool {
        let next = |now| Some(if now == IDLE { RUNNING } else { RERUN_REQUESTED });
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(IDLE)
    }

    /// Ends a sweep. Returns false if data was removed meanwhile: the caller then sweeps again.
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
    /// Runs a store read on a thread that may block on the disk; request threads may not block.
    pub(crate) async fn read_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, ApiProblem> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        on_thread(self, &self.views.reads, call).await
    }

    /// Runs a store write in the same way.
    pub(crate) async fn write_store<T: Send + 'static>(
        &self,
        call: impl FnOnce(&App) -> Result<T, ApiProblem> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        on_thread(self, &self.views.writes, call).await
    }

    /// Returns the state of a run if it is resident and answers in time. None: read the store.
    pub(crate) async fn resident_state(&self, run: &str) -> Result<Option<State>, ApiProblem> {
        match tokio::time::timeout(STATE_TIMEOUT, self.engine.state(run)).await {
            Ok(state) => Ok(state?),
            Err(_) => Ok(None),
        }
    }

    /// Runs a long computation on a blocking thread.
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
    // The semaphore is never closed.
    let permit =
        lane.clone().acquire_owned().await.map_err(|_| ApiProblem::unavailable("the server is shutting down"))?;
    let own = app.clone();
    let called = tokio::task::spawn_blocking(move || {
        // Held for the whole call, even if the caller has stopped waiting: a thread cannot be cancelled.
        let _permit = permit;
        call(&own)
    });
    called.await.unwrap_or_else(|_| Err(ApiProblem::defect("internal error: a call of the store panicked")))
}

#[cfg(test)]
mod tests {
    use super::SweepState;

    #[test]
    fn concurrent_sweeps_are_merged_without_missing_removals() {
        let sweeping = SweepState::default();
        assert!(sweeping.begin());
        assert!(!sweeping.begin() && !sweeping.begin(), "one reader is active");
        assert!(!sweeping.finish(), "a run that was removed meanwhile is looked up again");
        assert!(sweeping.finish());
        assert!(sweeping.begin(), "the view is rebuilt");
        assert!(sweeping.finish());
    }
}
