//! The durable store: the traits a run relies on, independent of the backend.
//!
//! Reads, scans and writes are separate traits. The store knows bytes, numbers and names; it does not know plans,
//! ticks or dialects. Everything here works with several processes, and later several servers, on one store:
//! ownership is a row with an owner epoch (a fencing token), never a lock inside one process.

#![deny(missing_docs)]

pub mod backend;
mod checksum;
pub mod conformance;
mod damage;
mod error;
mod filter;
mod log;
mod memory;
mod removal;
mod row;
mod space;
mod verify;
mod writer;

pub use damage::{DamagedRowId, DamagedTable, IsolatedRow, StoreDamage};
pub use error::{DamagedRow, StoreError, StoreErrorKind};
pub use filter::{ParentFilter, RunFilter, RunningFilter, StatusCount};
pub use log::{LogBatch, LogFilter, LogPage, LogRow, LogStream, NewLogLine, StoreLogs};
pub use memory::{Fault, MemoryStore};
pub use removal::*;
pub use row::*;
pub use space::{MAX_CONTROL_BYTES, SpaceLeft, StoreSpace};
pub use writer::{CommitHook, CommitLatency, CommitMoment, CommitPoint, CommitReply, GroupWriter, WriterLimits};

use std::sync::Arc;

use windlass_value::{BlobHash, Timestamp};

/// Write operations. Each call is one transaction: it is durable when it returns.
pub trait StoreWrite: Send + Sync {
    /// Appends batches of many runs in one transaction and returns one verdict each, in the given order.
    ///
    /// A batch that is not committed leaves no trace; the others are committed all the same. So a run with a damaged row
    /// refuses only its own batches.
    fn append(&self, batches: Vec<RunBatch>) -> Result<Vec<BatchVerdict>, StoreError>;

    /// Stores a plan under its hash; storing the same hash twice is idempotent.
    fn put_plan(&self, plan: &PlanRow) -> Result<(), StoreError>;

    /// Makes `owner` the run's only writer unless a live owner has it. The owner epoch rises with every claim.
    fn claim(&self, run: &str, owner: &str) -> Result<ClaimResult, StoreError>;

    /// Claims many runs in one transaction; the results are in the given order.
    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> Result<Vec<ClaimResult>, StoreError>;

    /// Releases a run if the owner epoch is still the caller's. Releasing twice is harmless.
    fn release(&self, run: &str, owner_epoch: u64) -> Result<(), StoreError>;

    /// Puts a message into the run's inbox for its current or next owner. The same request id twice is one message.
    fn inbox_put(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError>;

    /// Puts a message that cancels the run into its inbox and marks the run as cancelled, in one transaction.
    ///
    /// From then on no run is created below it, whether or not its owner has read the message: a run is refused when a
    /// run above it has ended or is marked. A run that has replied to its parent run no longer depends on those above
    /// it; see [`RunBatch::replied`].
    fn cancel_tree(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError>;

    /// Records a request that needs no message, as if it had been consumed.
    ///
    /// The record lives as long as the run, whether or not the run has ended. Requests to a run that does not exist are
    /// not recorded.
    fn note_request(&self, run: &str, request_id: &str) -> Result<(), StoreError>;
}

/// Reads of one run, in short transactions that never block a writer.
pub trait StoreRead: Send + Sync {
    /// Returns the row of a run; `None` for an unknown or removed run.
    fn run(&self, run: &str) -> Result<Option<RunRow>, StoreError>;
    /// Returns the row of the run with this execution id; `None` if there is none.
    fn run_by_execution_id(&self, execution_id: i64) -> Result<Option<RunRow>, StoreError>;
    /// Returns the plan with this hash.
    fn plan(&self, hash: &BlobHash) -> Result<Option<PlanRow>, StoreError>;
    /// Returns the value with this hash, after its checksum was verified.
    fn blob(&self, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError>;
    /// Returns a value that this run has written; `None` if only other runs have written it.
    fn blob_of_run(&self, run: &str, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError>;
    /// Returns the newest snapshot at or before tick `max_tick`; without `max_tick`, the newest of all.
    fn snapshot(&self, run: &str, max_tick: Option<u64>) -> Result<Option<SnapshotRow>, StoreError>;
    /// Returns the oldest stored snapshot.
    fn oldest_snapshot(&self, run: &str) -> Result<Option<SnapshotRow>, StoreError>;
    /// Returns the journal rows that hold ticks numbered `from` or higher, in order, at most `limit` rows.
    fn journal(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError>;
    /// Returns the journal rows that hold events numbered `from` or higher, in order, at most `limit` rows.
    fn journal_by_event(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError>;
    /// Returns the messages that no tick has consumed yet, in order of arrival.
    fn inbox(&self, run: &str, limit: u32) -> Result<Vec<InboxRow>, StoreError>;
    /// Returns whether a request with this id was made before, consumed or not.
    fn knows_request(&self, run: &str, request_id: &str) -> Result<bool, StoreError>;
    /// Returns whether a run above this one has ended or is cancelled, so that no run may begin here; see
    /// [`StoreWrite::cancel_tree`]. False for a run that has replied to its parent run.
    fn is_cancelled_above(&self, run: &str) -> Result<bool, StoreError>;
    /// Returns the history rows of one loop that touch iterations `from..`, in order, at most `limit` rows.
    fn iterations(&self, run: &str, loop_path: &str, from: u64, limit: u32) -> Result<Vec<IterationRow>, StoreError>;
    /// Returns the same rows without their bodies, for counting and searching; with `only_failed`, only rows of failed
    /// iterations.
    fn iteration_headers(
        &self,
        run: &str,
        loop_path: &str,
        from: u64,
        only_failed: bool,
        limit: u32,
    ) -> Result<Vec<IterationHeader>, StoreError>;
    /// Returns the paths of all loops of a run that have history.
    fn loops(&self, run: &str) -> Result<Vec<String>, StoreError>;
}

/// Scans over runs. A damaged row is left out, and all others are returned: see [`StoreDamage`].
pub trait StoreScan: Send + Sync {
    /// Lists runs, newest first. `before` is the number of the last run seen, for the next page.
    fn runs(&self, filter: &RunFilter, before: Option<i64>, limit: u32) -> Result<Vec<RunRow>, StoreError>;
    /// Counts the runs that match a filter, for each status that occurs.
    ///
    /// Only the newest runs are counted, so that the cost stays bounded in a large store: `max_per_status` of each
    /// status, or, if the filter names a definition or a parent, ten times as many of those.
    fn counts(&self, filter: &RunFilter, max_per_status: u32) -> Result<Vec<StatusCount>, StoreError>;
    /// Returns the unfinished runs whose timer is due, earliest first.
    fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<RunRow>, StoreError>;
    /// Returns the due time of the earliest timer of all runs.
    fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;
    /// Returns unfinished runs that have unconsumed messages, and runs that their messages have yet to create; longest
    /// waiting first.
    fn with_inbox(&self, limit: u32) -> Result<Vec<String>, StoreError>;
    /// Returns the waits that need an external answer, in the order in which they were opened.
    ///
    /// `after` is the position of the last one seen, 0 for the first page.
    fn waits(&self, run: Option<&str>, after: i64, limit: u32) -> Result<Vec<OpenWait>, StoreError>;
    /// Returns a number that changes whenever another process may have written. Cheap: meant to be polled.
    fn change_mark(&self) -> Result<u64, StoreError>;
    /// Looks for damage and returns one line for each finding.
    fn verify(&self) -> Result<Vec<String>, StoreError>;
    /// Looks for the same damage in short steps with pauses in between, so that others can use the store meanwhile.
    ///
    /// `busy_percent` is the share of time that is spent working, from 1 to 100. The search ends early when the store
    /// is closed.
    fn scrub(&self, busy_percent: u32) -> Result<ScrubReport, StoreError> {
        let _ = busy_percent;
        Ok(ScrubReport { findings: self.verify()?, rows: 0, is_complete: true })
    }
}

/// Removes data that no run needs any more.
///
/// Each call is one transaction of bounded size, so that other writers can proceed in between. An interruption
/// never loses data that a remaining run refers to, and the next `sweep` continues a removal that was left half
/// done.
pub trait StoreClean: Send + Sync {
    /// Returns run trees that may be removed, oldest first: the root has no remaining parent run, and the root and all
    /// its descendants ended before `before`.
    ///
    /// `after` is the number of the last one seen, 0 for the first page.
    fn removable(&self, before: Timestamp, after: i64, limit: u32) -> Result<Vec<RemovableTree>, StoreError>;

    /// Removes such a run and its descendants from every listing, the run itself last. A run that is not `removable`
    /// stays.
    ///
    /// Reads no longer return what they have written; `sweep` frees it.
    fn remove(&self, run: &str, before: Timestamp) -> Result<TreeRemoval, StoreError>;

    /// Removes many run trees in the given order, as far as one short transaction allows.
    fn remove_all(&self, runs: &[Arc<str>], before: Timestamp) -> Result<BatchRemoval, StoreError>;

    /// Returns ended runs without a parent run, newest first. `before` is the number of the last one seen, for the next
    /// page.
    fn ended_trees(&self, before: Option<i64>, limit: u32) -> Result<Vec<EndedTree>, StoreError>;

    /// Frees a part of what removed runs have left: journals, snapshots, iterations, and blobs that no remaining run
    /// has written as well.
    fn sweep(&self) -> Result<SweepResult, StoreError>;
}

/// Small records that are not part of any run: a server's registrations, tokens and settings.
///
/// Each record has a kind, a key and a revision. A change that expects another revision is refused (optimistic
/// locking). Reading a damaged record is an error; a page leaves it out.
pub trait StoreRecords: Send + Sync {
    /// Returns one record; `None` if there is none.
    fn record(&self, kind: &str, key: &str) -> Result<Option<RecordRow>, StoreError>;

    /// Returns the records of one kind in byte order of their keys. `after_key` is the last key seen, "" for the first
    /// page.
    fn records(&self, kind: &str, after_key: &str, limit: u32) -> Result<Vec<RecordRow>, StoreError>;

    /// Returns the keys of one kind in the same way, also of records that are damaged.
    fn record_keys(&self, kind: &str, after_key: &str, limit: u32) -> Result<Vec<String>, StoreError>;

    /// Applies all changes in one transaction, in the given order; or applies none and returns `false` when a revision
    /// is not the expected one.
    fn change_records(&self, changes: Vec<RecordChange>) -> Result<bool, StoreError>;
}

/// Liveness of owners: an owner is alive while it holds a resource that the system takes away when its process dies.
pub trait StoreOwners: Send + Sync {
    /// Registers this process under a fresh name; the owner is alive as long as the returned guard.
    fn open_owner(&self) -> Result<Owner, StoreError>;
    /// Returns whether a process still holds the resource of this owner. An unknown owner is dead.
    fn owner_alive(&self, owner: &str) -> Result<bool, StoreError>;
    /// Returns the names of all owners that are alive: one for each engine that has this store open.
    fn live_owners(&self) -> Result<Vec<String>, StoreError>;
    /// Returns the last heartbeat of an owner, alive or dead. `None` if it has sent none, or if it is not known any
    /// more: it is kept as long as an open run has this owner or previous owner.
    fn last_heartbeat(&self, owner: &str) -> Result<Option<Timestamp>, StoreError>;

    /// Returns the reason why nothing can be stored any more: an earlier error, or files that were removed or replaced.
    /// Cheap: meant to be polled.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends the use of the store in this process. Every later call is refused.
    fn close(&self) {}
}

/// The result of a search for damage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubReport {
    /// One line for each finding.
    pub findings: Vec<String>,
    /// The number of rows whose checksums were verified.
    pub rows: u64,
    /// The search was not ended early.
    pub is_complete: bool,
}

/// The complete store interface.
pub trait Store:
    StoreWrite + StoreRead + StoreScan + StoreDamage + StoreClean + StoreRecords + StoreLogs + StoreOwners + StoreSpace
{
}

impl<S> Store for S where
    S: StoreWrite
        + StoreRead
        + StoreScan
        + StoreDamage
        + StoreClean
        + StoreRecords
        + StoreLogs
        + StoreOwners
        + StoreSpace
{
}

/// A live owner. Dropping it ends its liveness.
pub struct Owner {
    /// The unique name under which the owner claims runs.
    pub name: String,
    guard: Box<dyn OwnerGuard>,
}

/// The resource that makes an owner alive.
pub trait OwnerGuard: Send + Sync {
    /// Records that the owner was alive at this time. The record survives the death of the process, though not that of
    /// the machine: nothing is synced.
    fn beat(&self, at: Timestamp) -> Result<(), StoreError>;
}

impl Owner {
    /// Creates an owner that stays alive as long as `guard` exists.
    pub fn new(name: String, guard: impl OwnerGuard + 'static) -> Owner {
        Owner { name, guard: Box::new(guard) }
    }

    /// Sends a heartbeat.
    pub fn beat(&self, at: Timestamp) -> Result<(), StoreError> {
        self.guard.beat(at)
    }
}
