//! The durable store: what a run may rely on, whoever keeps it.
//!
//! Reads, scans and writes are kept apart. The store knows bytes, numbers and names; it does not know plans, ticks or
//! dialects. Everything here suits several processes, and later several servers, on one store: ownership is a row with an
//! epoch, never a lock inside one process.

pub mod backend;
mod checksum;
pub mod conformance;
mod error;
mod memory;
mod row;
mod verify;
mod writer;

pub use error::{StoreError, StoreErrorKind};
pub use memory::{Fault, MemoryStore};
pub use row::*;
pub use writer::{CommitHook, CommitLatency, CommitMoment, CommitPoint, CommitReply, GroupWriter, WriterLimits};

use std::sync::Arc;

use windlass_value::{BlobHash, Timestamp};

/// Writes. Each call is one transaction: it is durable when it returns.
pub trait StoreWrite: Send + Sync {
    /// Many runs in one transaction, one verdict each, in the order given. A batch that is not committed leaves no
    /// trace; the others are committed all the same.
    fn append(&self, batches: Vec<RunBatch>) -> Result<Vec<BatchVerdict>, StoreError>;

    /// Keeps a plan under its hash; the same hash twice is the same plan.
    fn put_plan(&self, plan: &PlanRow) -> Result<(), StoreError>;

    /// Makes `owner` the run's only writer, if nobody alive is. The epoch goes up with every claim.
    fn claim(&self, run: &str, owner: &str) -> Result<ClaimResult, StoreError>;

    /// The same for many runs, in one transaction; the answers in the order given.
    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> Result<Vec<ClaimResult>, StoreError>;

    /// Gives a run back, if the epoch still is the caller's. Giving back twice is harmless.
    fn release(&self, run: &str, owner_epoch: u64) -> Result<(), StoreError>;

    /// Leaves a message for whoever owns the run, now or later. The same request id twice is one message.
    fn inbox_put(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError>;

    /// Remembers a request that needs no message, as if it had been consumed: for as long as the run is there, whether or not
    /// it has ended. Of a run that does not exist nothing is remembered.
    fn note_request(&self, run: &str, request_id: &str) -> Result<(), StoreError>;
}

/// Reads of one run. Short transactions, which never block a writer.
pub trait StoreRead: Send + Sync {
    fn run(&self, run: &str) -> Result<Option<RunRow>, StoreError>;
    fn plan(&self, hash: &BlobHash) -> Result<Option<PlanRow>, StoreError>;
    fn blob(&self, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError>;
    /// A value that this run has written; None if only others have.
    fn blob_of_run(&self, run: &str, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError>;
    /// The newest snapshot at or before a tick number; None for `at_most` means the newest of all.
    fn snapshot(&self, run: &str, max_tick: Option<u64>) -> Result<Option<SnapshotRow>, StoreError>;
    /// The oldest snapshot that is kept.
    fn oldest_snapshot(&self, run: &str) -> Result<Option<SnapshotRow>, StoreError>;
    /// Journal rows that hold ticks numbered `from` or higher, in order, at most `limit` rows.
    fn journal(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError>;
    /// Journal rows that hold events numbered `from` or higher, in order, at most `limit` rows.
    fn journal_by_event(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError>;
    /// Messages that no tick has consumed yet, in order of arrival.
    fn inbox(&self, run: &str, limit: u32) -> Result<Vec<InboxRow>, StoreError>;
    /// Whether a request of this id was made before, consumed or not.
    fn knows_request(&self, run: &str, request_id: &str) -> Result<bool, StoreError>;
    /// History of one loop, rows that touch turns `from..`, in order, at most `limit` rows.
    fn iterations(&self, run: &str, loop_path: &str, from: u64, limit: u32) -> Result<Vec<IterationRow>, StoreError>;
    /// The same without what is in the rows, for counting and for finding one; only rows of failed turns if that is asked
    /// for.
    fn iteration_headers(
        &self,
        run: &str,
        loop_path: &str,
        from: u64,
        only_failed: bool,
        limit: u32,
    ) -> Result<Vec<IterationHeader>, StoreError>;
    /// The paths of all loops of a run that have history.
    fn loops(&self, run: &str) -> Result<Vec<String>, StoreError>;
}

/// Scans over runs.
pub trait StoreScan: Send + Sync {
    /// Newest first. `before` is the number of the last run seen, for the next page.
    fn runs(&self, filter: &RunFilter, before: Option<i64>, limit: u32) -> Result<Vec<RunRow>, StoreError>;
    /// How many runs fit a filter, for each status that any of them has. Only the newest are counted, so that it costs no
    /// more where there are very many: `most` of each status; or, if the filter names a definition or a parent, ten times
    /// as many of those.
    fn counts(&self, filter: &RunFilter, max_per_status: u32) -> Result<Vec<StatusCount>, StoreError>;
    /// Unfinished runs whose timer is due, earliest first.
    fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<RunRow>, StoreError>;
    /// When the earliest timer of all is due.
    fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;
    /// Unfinished runs that have unconsumed messages, and runs that are yet to be made by theirs; longest waiting first.
    fn with_inbox(&self, limit: u32) -> Result<Vec<String>, StoreError>;
    /// What runs wait for somebody to answer, in the order in which it was asked. `after` is the position of the last one
    /// seen, 0 for the first page.
    fn waits(&self, run: Option<&str>, after: i64, limit: u32) -> Result<Vec<OpenWait>, StoreError>;
    /// A number that changes whenever another process may have written. Cheap: meant to be polled.
    fn change_mark(&self) -> Result<u64, StoreError>;
    /// Looks for damage; gives one line for each finding.
    fn verify(&self) -> Result<Vec<String>, StoreError>;
}

/// Removes what nobody needs any more. Each call is one transaction of bounded size, so that others can write in between.
/// Whatever interrupts it, nothing that a remaining run refers to is lost, and what is half removed is taken up by the
/// next `sweep`.
pub trait StoreClean: Send + Sync {
    /// Runs that no remaining run has called, which have ended before `before` together with all below them; oldest
    /// first. `after` is the number of the last one seen, 0 for the first page.
    fn removable(&self, before: Timestamp, after: i64, limit: u32) -> Result<Vec<RemovableTree>, StoreError>;

    /// Takes such a run and those below it out of every listing, the run itself last. One that is not `removable` stays.
    /// What they have written is not given out any more; `sweep` frees it.
    fn remove(&self, run: &str, before: Timestamp) -> Result<TreeRemoval, StoreError>;

    /// The same for many, in the order given, as far as one short transaction goes.
    fn remove_all(&self, runs: &[Arc<str>], before: Timestamp) -> Result<BatchRemoval, StoreError>;

    /// Frees a part of what removed runs have left: journals, snapshots, turns, and blobs that no remaining run has
    /// written too.
    fn sweep(&self) -> Result<SweepResult, StoreError>;
}

/// Small things that are not part of any run: what a server has registered, its tokens, its settings. Each has a kind and
/// a key, and a revision by which a change is refused that was made in ignorance of another.
pub trait StoreRecords: Send + Sync {
    fn record(&self, kind: &str, key: &str) -> Result<Option<RecordRow>, StoreError>;

    /// Records of one kind in the order of their keys, byte by byte. `after_key` is the last one seen, "" for the first
    /// page.
    fn records(&self, kind: &str, after_key: &str, limit: u32) -> Result<Vec<RecordRow>, StoreError>;

    /// All of the changes in one transaction, in the order given, or none of them and `false`: when a revision is not the
    /// expected one.
    fn change_records(&self, changes: Vec<RecordChange>) -> Result<bool, StoreError>;
}

/// Owners are alive while they hold something that the death of their process takes from them.
pub trait StoreOwners: Send + Sync {
    /// Registers this process under a fresh name; the guard is the sign of life.
    fn open_owner(&self) -> Result<Owner, StoreError>;
    fn owner_alive(&self, owner: &str) -> Result<bool, StoreError>;
}

/// All of it.
pub trait Store: StoreWrite + StoreRead + StoreScan + StoreClean + StoreRecords + StoreOwners {}

impl<S: StoreWrite + StoreRead + StoreScan + StoreClean + StoreRecords + StoreOwners> Store for S {}

/// A live owner. Dropping it is dying.
pub struct Owner {
    pub name: String,
    _guard: Box<dyn std::any::Any + Send + Sync>,
}

impl Owner {
    pub fn new(name: String, guard: impl std::any::Any + Send + Sync) -> Owner {
        Owner { name, _guard: Box::new(guard) }
    }
}
