//! Memory of resident runs: how many runs are in memory, and which of them leave it first.
//!
//! A run that only waits is idle. When there are too many idle runs, or a run waits for a place in memory, the run that
//! has been idle longest is evicted. A run with work to do is never evicted, so a run that finds no place waits until
//! another one ends or becomes idle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::adapters::{RunMailbox, RunMessage};

/// The places in memory of an engine.
pub(crate) struct Residency {
    places: Arc<Semaphore>,
    max_idle_runs: usize,
    /// The number of runs that wait for a place.
    waiting: AtomicUsize,
    idle: Mutex<IdleRuns>,
}

#[derive(Default)]
struct IdleRuns {
    next: u64,
    /// The run that has been idle longest comes first.
    runs: BTreeMap<u64, RunMailbox>,
}

/// A place of a run in memory.
pub(crate) type ResidentPlace = OwnedSemaphorePermit;

/// Marks a run as idle while it exists.
pub(crate) struct IdleMark {
    residency: Arc<Residency>,
    number: u64,
}

impl Drop for IdleMark {
    fn drop(&mut self) {
        self.residency.idle().runs.remove(&self.number);
    }
}

impl Residency {
    pub(crate) fn new(max_resident_runs: usize, max_idle_runs: usize) -> Residency {
        let places = max_resident_runs.clamp(1, Semaphore::MAX_PERMITS);
        Residency {
            places: Arc::new(Semaphore::new(places)),
            max_idle_runs,
            waiting: AtomicUsize::new(0),
            idle: Mutex::default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, IdleRuns> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place in memory. Returns `None` when the engine is gone.
    pub(crate) async fn acquire(&self) -> Option<ResidentPlace> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        let _waiting = WaitingRun::new(&self.waiting);
        self.evict_oldest(1);
        self.places.clone().acquire_owned().await.ok()
    }

    /// Returns how many of this many runs have a place now, and evicts idle runs for the others.
    pub(crate) fn make_room(&self, runs: usize) -> usize {
        let free = self.places.available_permits().min(runs);
        self.evict_oldest(runs - free);
        free
    }

    /// Marks a run as idle. If there are too many idle runs, or others wait for a place, the oldest one is evicted.
    pub(crate) fn mark_idle(self: &Arc<Self>, mailbox: &RunMailbox) -> IdleMark {
        let mut idle = self.idle();
        let number = idle.next;
        idle.next += 1;
        idle.runs.insert(number, mailbox.clone());
        let surplus = idle.runs.len().saturating_sub(self.max_idle_runs);
        drop(idle);
        self.evict_oldest(surplus.max(self.waiting.load(Ordering::SeqCst).min(1)));
        IdleMark { residency: self.clone(), number }
    }

    fn evict_oldest(&self, runs: usize) {
        for _ in 0..runs {
            let Some((_, mailbox)) = self.idle().runs.pop_first() else { return };
            mailbox.send(RunMessage::Evict);
        }
    }
}

/// Counts a run that waits for a place.
struct WaitingRun<'r>(&'r AtomicUsize);

impl<'r> WaitingRun<'r> {
    fn new(count: &'r AtomicUsize) -> WaitingRun<'r> {
        count.fetch_add(1, Ordering::SeqCst);
        WaitingRun(count)
    }
}

impl Drop for WaitingRun<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
