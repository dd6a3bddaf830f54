//! The conformance suite of stores, one module for each guarantee. A store must pass all of them.
//!
//! Checks panic with their findings, as tests do. A crate with its own store implements [`ConformanceSubject`] in
//! its tests and calls [`run_all`].

pub mod batches;
mod change_mark;
mod clean;
mod compare_and_append;
mod content;
mod crash;
mod damage;
mod durability;
mod fencing;
mod fixtures;
mod inbox;
mod isolation;
mod iterations;
mod journal;
mod listing;
mod logs;
mod ownership;
mod records;
mod release;
mod snapshots;
mod timers;
mod trees;
mod trims;
mod verdicts;
mod waits;

use std::sync::Arc;

use windlass_value::BlobHash;

use crate::Store;

/// A store under test.
pub trait ConformanceSubject {
    /// Returns the store of the current process; after [`crash`](ConformanceSubject::crash), that of the new one.
    fn store(&self) -> Arc<dyn Store>;

    /// Simulates a process that dies without cleanup and another one that opens the files.
    ///
    /// From then on `store` returns the new process's store; the owners of the old one are dead.
    fn crash(&mut self);

    /// Changes a byte of the journal row that holds this tick, bypassing the store.
    fn damage_journal(&mut self, run: &str, tick: u64);

    /// Changes a byte of a blob, bypassing the store.
    fn damage_blob(&mut self, hash: &BlobHash);

    /// Changes a byte of the row of a run, bypassing the store.
    fn damage_run(&mut self, run: &str);

    /// Changes a byte of a record, bypassing the store.
    fn damage_record(&mut self, kind: &str, key: &str);

    /// Returns the number of syncs, if the store counts them.
    fn syncs(&self) -> Option<u64> {
        None
    }
}

/// A guarantee of the store and its check.
pub struct StoreGuarantee {
    /// The guarantee as a sentence, for the report of a failure.
    pub name: &'static str,
    /// The check: panics if the store breaks the guarantee. It needs an empty store.
    pub check: fn(&mut dyn ConformanceSubject),
}

/// All guarantees, in the order in which they are checked.
pub const STORE_GUARANTEES: &[StoreGuarantee] = &[
    StoreGuarantee { name: "append compares before it appends", check: compare_and_append::check },
    StoreGuarantee { name: "a writer with an old epoch changes nothing", check: fencing::check },
    StoreGuarantee { name: "each batch has its own verdict", check: verdicts::check },
    StoreGuarantee { name: "a write is durable when it returns", check: durability::check },
    StoreGuarantee { name: "a run has one owner", check: ownership::check },
    StoreGuarantee { name: "a run can be released", check: release::check },
    StoreGuarantee { name: "a message is stored once and consumed with its ticks", check: inbox::check },
    StoreGuarantee { name: "a run tree has a bounded number of open runs", check: trees::check_count },
    StoreGuarantee { name: "no run begins below a cancelled one", check: trees::check_marks },
    StoreGuarantee { name: "the journal can be read from any tick and any event", check: journal::check },
    StoreGuarantee { name: "snapshots are found by tick", check: snapshots::check },
    StoreGuarantee { name: "trimming never loses the journal's position", check: trims::check },
    StoreGuarantee { name: "the iterations of a loop can be read page by page", check: iterations::check },
    StoreGuarantee { name: "timers come due in order", check: timers::check },
    StoreGuarantee { name: "blobs and plans are stored by their hash", check: content::check },
    StoreGuarantee { name: "runs are listed newest first", check: listing::check },
    StoreGuarantee { name: "listings return exactly the matching runs", check: listing::check_filters },
    StoreGuarantee { name: "log lines are bounded and read in order", check: logs::check },
    StoreGuarantee { name: "open waits are listed", check: waits::check },
    StoreGuarantee { name: "records change together, or not at all", check: records::check },
    StoreGuarantee { name: "other processes notice writes", check: change_mark::check },
    StoreGuarantee { name: "a crash takes nothing that was acknowledged", check: crash::check },
    StoreGuarantee { name: "damage is noticed", check: damage::check },
    StoreGuarantee { name: "damage affects only the row that it hits", check: isolation::check },
    StoreGuarantee { name: "parents that form a circle stop nothing", check: isolation::check_circles },
    StoreGuarantee { name: "removal deletes what was removed and nothing else", check: clean::check },
];

/// Runs every check, each on a fresh store.
pub fn run_all(mut make: impl FnMut() -> Box<dyn ConformanceSubject>) {
    for promise in STORE_GUARANTEES {
        let mut subject = make();
        (promise.check)(subject.as_mut());
    }
}
