//! Counters of the engine's work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::Status;
use windlass_store::CommitLatency;

use super::RuntimeEngine;

/// The maximum number of definitions that are counted by name. Later ones share one counter.
const MAX_COUNTED_DEFINITIONS: usize = 200;

/// The shared name of the definitions above the maximum.
const OTHER_DEFINITIONS: &str = "other";

#[derive(Default)]
pub(crate) struct EngineCounters {
    pub ticks: AtomicU64,
    pub iterations: AtomicU64,
    definitions: Mutex<BTreeMap<Arc<str>, RunCounts>>,
}

/// Run counts of one definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// The number of runs that were started since the engine was created.
    pub started: u64,
    /// The number of runs that have ended since then, by the name of their final status.
    pub ended: BTreeMap<&'static str, u64>,
}

/// A snapshot of the engine's counters.
#[derive(Clone, Debug, Default)]
pub struct EngineStats {
    /// Runs that the engine is responsible for.
    pub open: u64,
    /// Runs in memory.
    pub resident: u64,
    /// Tasks that run in workers of this process.
    pub jobs: u64,
    /// Bytes that replies in flight have reserved.
    pub reply_bytes: u64,
    /// The number of commits.
    pub commits: u64,
    /// The number of batches in these commits. Above one per commit, runs share commits.
    pub batches: u64,
    /// The histogram of the durations of commits.
    pub commit_latency: CommitLatency,
    /// The number of reduced ticks.
    pub ticks: u64,
    /// The number of loop iterations that have ended.
    pub iterations: u64,
    /// Run counts by the name of the definition. Above a maximum number of names, further ones share `other`.
    pub definitions: BTreeMap<Arc<str>, RunCounts>,
}

impl EngineCounters {
    pub(crate) fn count_tick(&self, iterations: usize) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        if iterations > 0 {
            self.iterations.fetch_add(iterations as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_start(&self, definition: &Arc<str>) {
        self.count(definition, |runs| runs.started += 1);
    }

    pub(crate) fn count_end(&self, definition: &Arc<str>, status: Status) {
        self.count(definition, |runs| *runs.ended.entry(status.as_str()).or_default() += 1);
    }

    fn count(&self, definition: &Arc<str>, change: impl FnOnce(&mut RunCounts)) {
        let mut definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runs) = definitions.get_mut(definition) {
            return change(runs);
        }
        let name =
            if definitions.len() < MAX_COUNTED_DEFINITIONS { definition.clone() } else { OTHER_DEFINITIONS.into() };
        change(definitions.entry(name).or_default());
    }
}

impl RuntimeEngine {
    /// Returns the counters since the engine was created, and its current state.
    pub fn stats(&self) -> EngineStats {
        let inner = &self.inner;
        let (open, resident) = {
            let runs = inner.runs();
            let resident = runs.values().filter(|tracked| tracked.mailbox.is_some()).count();
            (runs.len() as u64, resident as u64)
        };
        let definitions = inner.counts.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        EngineStats {
            open,
            resident,
            jobs: inner.pool.in_flight() as u64,
            reply_bytes: inner.pool.reply_bytes() as u64,
            commits: inner.writer.commits(),
            batches: inner.writer.batches(),
            commit_latency: inner.writer.latency(),
            ticks: inner.counts.ticks.load(Ordering::Relaxed),
            iterations: inner.counts.iterations.load(Ordering::Relaxed),
            definitions,
        }
    }

    /// Reports whether the engine accepts no more runs.
    pub fn is_closing(&self) -> bool {
        self.inner.is_closing()
    }
}
