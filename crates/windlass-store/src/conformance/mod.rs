//! What every store promises, one module for each promise. A store is one that passes all of them.
//!
//! Checks panic with what they have found, as tests do. A crate with a store of its own implements [`Subject`] in its tests
//! and calls [`run_all`].

pub mod batches;
mod change_mark;
mod clean;
mod compare_and_append;
mod content;
mod crash;
mod damage;
mod durability;
mod fencing;
mod inbox;
mod journal;
mod listing;
mod make;
mod ownership;
mod records;
mod release;
mod snapshots;
mod timers;
mod trims;
mod iterations;
mod verdicts;
mod waits;

use std::sync::Arc;

use windlass_value::BlobHash;

use crate::Store;

/// A store under examination.
pub trait Subject {
    fn store(&self) -> Arc<dyn Store>;

    /// The process dies without a word, and another one opens what is on the disk. `store` gives that one from now on;
    /// the owners of the old one are dead.
    fn crash(&mut self);

    /// Changes a byte of the journal row that holds this tick, behind the store's back.
    fn damage_journal(&mut self, run: &str, tick: u64);

    /// Changes a byte of a blob, behind the store's back.
    fn damage_blob(&mut self, hash: &BlobHash);

    /// Changes a byte of a record, behind the store's back.
    fn damage_record(&mut self, kind: &str, key: &str);

    /// How many syncs there were, if the store counts them.
    fn syncs(&self) -> Option<u64> {
        None
    }
}

/// A promise and its check.
pub struct Promise {
    pub name: &'static str,
    pub check: fn(&mut dyn Subject),
}

/// All promises, in the order in which they are checked.
pub const PROMISES: &[Promise] = &[
    Promise { name: "append compares before it appends", check: compare_and_append::check },
    Promise { name: "a writer with an old epoch changes nothing", check: fencing::check },
    Promise { name: "each batch has its own verdict", check: verdicts::check },
    Promise { name: "what has returned is durable", check: durability::check },
    Promise { name: "a run has one owner", check: ownership::check },
    Promise { name: "a run can be given back", check: release::check },
    Promise { name: "a message is kept once and consumed with its ticks", check: inbox::check },
    Promise { name: "the journal can be read from any tick and any event", check: journal::check },
    Promise { name: "snapshots are found by tick", check: snapshots::check },
    Promise { name: "trimming never loses the way back", check: trims::check },
    Promise { name: "the turns of a loop can be read page by page", check: iterations::check },
    Promise { name: "timers come due in order", check: timers::check },
    Promise { name: "blobs and plans are kept by their hash", check: content::check },
    Promise { name: "runs are listed newest first", check: listing::check },
    Promise { name: "listings give what fits, all of it, and nothing else", check: listing::check_filters },
    Promise { name: "what runs wait for is known", check: waits::check },
    Promise { name: "records change together, or not at all", check: records::check },
    Promise { name: "others notice that something was written", check: change_mark::check },
    Promise { name: "a crash takes nothing that was acknowledged", check: crash::check },
    Promise { name: "damage is noticed", check: damage::check },
    Promise { name: "what is removed goes, and nothing that is needed", check: clean::check },
];

/// Runs every check, each on a fresh store.
pub fn run_all(mut make: impl FnMut() -> Box<dyn Subject>) {
    for promise in PROMISES {
        let mut subject = make();
        (promise.check)(subject.as_mut());
    }
}
