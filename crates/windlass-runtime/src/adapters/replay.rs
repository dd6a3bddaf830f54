//! An adapter that replays a journal: it gives the control loop the recorded ticks with their times and seeds,
//! executes nothing, and compares the loop's commands with the recorded ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Event, Job, State, Tick, TickKind, TickOutput};
use windlass_store::StoreRead;
use windlass_value::{BlobHash, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::{
    Adapter, ChildStart, Children, Journal, NextInput, Outward, TickSource, TimeSource, WaitCondition, Workers,
};
use crate::blobs::BlobCache;
use crate::codec::{self, TickEntry};
use crate::concerns;

/// A callback that is invoked after each tick with the resulting state.
pub type ReplayObserver = Box<dyn FnMut(&State, &TickEntry) + Send>;

/// An adapter that gives recorded ticks to the loop; see the module documentation.
pub struct ReplayAdapter {
    entries: Vec<TickEntry>,
    /// The number of ticks that were reduced, and the number that was handed to the loop.
    reduced: usize,
    handed: usize,
    /// The tick whose step of the clock the loop has.
    last_step: Option<usize>,
    /// Values that came from outside the run.
    store: Option<Arc<dyn StoreRead>>,
    /// Values that the replay has created.
    blobs: BTreeMap<BlobHash, Vec<u8>>,
    observer: ReplayObserver,
    divergence: Option<String>,
}

impl ReplayAdapter {
    /// The loop's state must be the one to which the first of these ticks was applied.
    pub fn new(entries: Vec<TickEntry>, store: Option<Arc<dyn StoreRead>>, observer: ReplayObserver) -> ReplayAdapter {
        ReplayAdapter {
            entries,
            reduced: 0,
            handed: 0,
            last_step: None,
            store,
            blobs: BTreeMap::new(),
            observer,
            divergence: None,
        }
    }

    fn current(&self) -> Option<&Tick> {
        self.entries.get(self.reduced).map(|entry| &entry.tick)
    }

    /// Returns the next ticks up to the next `Proceed`, which the loop produces by itself. `proceeds`: the loop is
    /// computing and already has the `Proceed` that may come first.
    fn next(&mut self, proceeds: bool) -> NextInput {
        self.handed = self.handed.max(self.reduced).min(self.entries.len());
        let begun = self.handed;
        while let Some(entry) = self.entries.get(self.handed) {
            let by_itself = matches!(entry.tick.kind, TickKind::Proceed);
            if by_itself && (proceeds || self.handed > begun) {
                break;
            }
            self.handed += 1;
        }
        let ticks: Vec<TickKind> =
            self.entries[begun..self.handed].iter().map(|entry| entry.tick.kind.clone()).collect();
        match ticks.is_empty() {
            false => NextInput::Ticks(ticks),
            true if self.handed < self.entries.len() => NextInput::Nothing,
            true => NextInput::Closed,
        }
    }

    /// Records a divergence. Only the first one counts.
    fn record_divergence(&mut self, why: String) {
        self.divergence.get_or_insert(why);
    }
}

impl Adapter for ReplayAdapter {
    concerns!(own: time, ticks, journal, workers, children, outward);

    async fn close(&mut self) {}
}

impl TimeSource for ReplayAdapter {
    fn get_now(&mut self) -> Timestamp {
        self.current().map_or(Timestamp(i64::MIN), |tick| tick.at)
    }

    fn entropy(&mut self) -> u64 {
        self.current().map_or(0, |tick| tick.seed)
    }

    fn take_clock_step(&mut self) -> i64 {
        let is_known = self.last_step.replace(self.reduced) == Some(self.reduced);
        self.current().filter(|_| !is_known).map_or(0, |tick| tick.clock_step)
    }

    fn clock_offset(&mut self) -> i64 {
        0
    }
}

impl TickSource for ReplayAdapter {
    async fn wait_receive(&mut self) -> NextInput {
        self.next(false)
    }

    async fn wait_for_next_task(&mut self, waiting: WaitCondition) -> NextInput {
        self.next(waiting.poll)
    }

    fn has_pending_input(&mut self, _buffered: bool) -> bool {
        self.current().is_some_and(|tick| tick.more_pending)
    }

    /// The journal already contains the events that a step sent.
    fn send_event(&mut self, _tick: TickKind) {}
}

impl Journal for ReplayAdapter {
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State) {
        let at = self.reduced;
        self.reduced += 1;
        let Some(entry) = self.entries.get(at) else {
            if matches!(tick.kind, TickKind::Proceed) {
                // The recorded ticks end where the loop has more to compute. That is no divergence.
                return;
            }
            return self.record_divergence(format!("the journal has no tick {} ({})", state.ticks, tick.kind.name()));
        };
        if entry.tick != *tick {
            let (was, is) = (entry.tick.kind.name(), tick.kind.name());
            return self
                .record_divergence(format!("tick {} is {was} in the journal; the replay produces {is}", state.ticks));
        }
        if entry.digest != codec::digest(&output.commands) {
            let name = tick.kind.name();
            return self.record_divergence(format!(
                "replaying tick {} ({name}) produces other commands than the journal records",
                state.ticks
            ));
        }
        (self.observer)(state, entry);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.blobs.extend(blobs.take_fresh());
        if state.result().is_some() && self.reduced < self.entries.len() {
            self.record_divergence(format!("the replay ends after tick {}; the journal continues", state.ticks));
        }
        match self.divergence.take() {
            Some(why) => Err(RuntimeError::Quarantined { run: state.run.id.to_string(), why }),
            None => Ok(()),
        }
    }

    fn wants_flush(&mut self) -> bool {
        self.divergence.is_some()
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        let bytes = match (self.blobs.get(hash), &self.store) {
            (Some(bytes), _) => bytes.clone(),
            (None, Some(store)) => match store.blob(hash)? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        codec::blob_value(hash, &bytes).map(Some)
    }

    async fn evict(&mut self, _state: &State, _blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        Ok(())
    }
}

impl Workers for ReplayAdapter {
    fn run_worker(&mut self, _job: Job, _input: Value) {}

    fn cancel_worker(&mut self, _job: u64) {}
}

impl Children for ReplayAdapter {
    fn start_child(&mut self, _child: ChildStart) {}

    fn cancel_child(&mut self, _child: &str) {}
}

impl Outward for ReplayAdapter {
    fn write_to_event_stream(&mut self, _event: Event) {}
}
