//! The conformance suite can fail: for each guarantee there is a store that breaks it and is caught.

mod common;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use common::flawed::{Flaw, FlawedStore};
use windlass_store::conformance::{ConformanceSubject, STORE_GUARANTEES};
use windlass_store::{MemoryStore, Store};
use windlass_value::BlobHash;

/// Each flaw, and a substring of the name of the guarantee that it breaks.
const BROKEN: &[(Flaw, &str)] = &[
    (Flaw::AppendsAnywhere, "append compares"),
    (Flaw::IgnoresEpochs, "old epoch"),
    (Flaw::OneForAll, "own verdict"),
    (Flaw::ForgetsTheLastWrite, "durable"),
    (Flaw::SyncsTwice, "durable"),
    (Flaw::StealsRuns, "one owner"),
    (Flaw::KeepsRuns, "be released"),
    (Flaw::AcceptsRepeats, "stored once"),
    (Flaw::ForgetsRequests, "stored once"),
    (Flaw::ForgetsTreeMarks, "no run begins below"),
    (Flaw::CountsNoTree, "bounded number of open runs"),
    (Flaw::NeverConsumes, "stored once"),
    (Flaw::SkipsPartialRows, "any tick"),
    (Flaw::IgnoresSnapshotTick, "found by tick"),
    (Flaw::NeverTrims, "journal's position"),
    (Flaw::NeverTrimsIterations, "page by page"),
    (Flaw::LatestTimerFirst, "come due"),
    (Flaw::LosesEmptyBlobs, "by their hash"),
    (Flaw::OldestRunFirst, "newest first"),
    (Flaw::IgnoresSearch, "exactly the matching"),
    (Flaw::CountsAll, "exactly the matching"),
    (Flaw::KeepsWaits, "open waits"),
    (Flaw::ChangesWhatItCan, "change together"),
    (Flaw::ForgetsRevisions, "change together"),
    (Flaw::ConstantMark, "other processes notice"),
    (Flaw::ForgetsTheLastWrite, "crash takes nothing"),
    (Flaw::FindsNothing, "damage is noticed"),
    (Flaw::RemovesAnything, "removal deletes"),
    (Flaw::RemovesOneByOne, "removal deletes"),
    (Flaw::NeverSweeps, "removal deletes"),
    (Flaw::LosesOtherBlobs, "removal deletes"),
    (Flaw::KeepsAllLines, "log lines are bounded"),
    (Flaw::HidesDamage, "only the row"),
    (Flaw::KeepsCircles, "form a circle"),
];

#[test]
fn every_guarantee_has_a_store_that_breaks_it() {
    // The test provokes these panics; their backtraces are suppressed.
    std::panic::set_hook(Box::new(|_| {}));
    let mut covered = BTreeSet::new();
    let mut missed = Vec::new();
    for (flaw, word) in BROKEN {
        let mut fitting = STORE_GUARANTEES.iter().filter(|promise| promise.name.contains(word));
        let (Some(promise), None) = (fitting.next(), fitting.next()) else { panic!("{word:?} names one promise") };
        covered.insert(promise.name);
        let mut subject = FlawedSubject::new(*flaw);
        if catch_unwind(AssertUnwindSafe(|| (promise.check)(&mut subject))).is_ok() {
            missed.push((*flaw, promise.name));
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "flaws that no guarantee detected: {missed:?}");
    assert_eq!(covered.len(), STORE_GUARANTEES.len(), "every promise has a store that breaks it");
}

#[test]
fn a_store_without_a_flaw_keeps_every_guarantee() {
    for promise in STORE_GUARANTEES {
        (promise.check)(&mut FlawedSubject::new(Flaw::None));
    }
}

struct FlawedSubject {
    flaw: Flaw,
    store: Arc<FlawedStore>,
}

impl FlawedSubject {
    fn new(flaw: Flaw) -> FlawedSubject {
        FlawedSubject { flaw, store: Arc::new(FlawedStore::new(flaw, MemoryStore::new())) }
    }
}

impl ConformanceSubject for FlawedSubject {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn crash(&mut self) {
        let lagging: &Mutex<MemoryStore> = &self.store.before_last_write;
        let left = match self.flaw {
            Flaw::ForgetsTheLastWrite => lagging.lock().unwrap_or_else(PoisonError::into_inner).crash(),
            _ => self.store.inner.crash(),
        };
        self.store = Arc::new(FlawedStore::new(self.flaw, left));
    }

    fn damage_journal(&mut self, run: &str, tick: u64) {
        assert!(self.store.inner.damage_journal(run, tick), "there is a row to damage");
    }

    fn damage_blob(&mut self, hash: &BlobHash) {
        assert!(self.store.inner.damage_blob(hash), "there is a blob to damage");
    }

    fn damage_run(&mut self, run: &str) {
        assert!(self.store.inner.damage_run(run));
    }

    fn damage_record(&mut self, kind: &str, key: &str) {
        assert!(self.store.inner.damage_record(kind, key), "there is a record to damage");
    }

    fn syncs(&self) -> Option<u64> {
        let factor = if self.flaw == Flaw::SyncsTwice { 2 } else { 1 };
        Some(self.store.inner.syncs() * factor)
    }
}
