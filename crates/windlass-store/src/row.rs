//! Row types: plain data that goes into and comes out of every store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{BlobHash, Timestamp};

use crate::StoreError;

/// The status of a run, as far as listing and waking it needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Pending,
    Running,
    Waiting,
    Paused,
    Succeeded,
    Failed,
    Skipped,
    Cancelled,
    TimedOut,
    /// The journal and the program disagree: no server continues the run until an operator has looked at it.
    Quarantined,
}

impl RunStatus {
    pub const ALL: [RunStatus; 10] = [
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::Waiting,
        RunStatus::Paused,
        RunStatus::Succeeded,
        RunStatus::Failed,
        RunStatus::Skipped,
        RunStatus::Cancelled,
        RunStatus::TimedOut,
        RunStatus::Quarantined,
    ];

    pub fn is_final(self) -> bool {
        use RunStatus::{Cancelled, Failed, Skipped, Succeeded, TimedOut};
        matches!(self, Succeeded | Failed | Skipped | Cancelled | TimedOut)
    }

    /// The name used in stores and listings.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Pending => "pending",
            RunStatus::Running => "running",
            RunStatus::Waiting => "waiting",
            RunStatus::Paused => "paused",
            RunStatus::Succeeded => "succeeded",
            RunStatus::Failed => "failed",
            RunStatus::Skipped => "skipped",
            RunStatus::Cancelled => "cancelled",
            RunStatus::TimedOut => "timed_out",
            RunStatus::Quarantined => "quarantined",
        }
    }

    pub fn parse(word: &str) -> Option<RunStatus> {
        RunStatus::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// One run's part of a transaction: a compare-and-append.
#[derive(Clone, Debug, Default)]
pub struct RunBatch {
    pub run: Arc<str>,
    /// Fencing token: the owner epoch of the writer's claim. The store refuses any other than its own.
    pub owner_epoch: u64,
    /// The number of ticks the journal holds before this batch.
    pub expected_ticks: u64,
    /// Only in a run's first batch: creates the run, owned by the given owner at epoch `owner_epoch`.
    pub create: Option<NewRun>,
    /// The ticks and the events they published, as one row.
    pub record: Option<JournalRecord>,
    pub snapshot: Option<NewSnapshot>,
    pub status: Option<StatusChange>,
    /// `Some(None)` clears the run's timer.
    pub timer: Option<Option<Timestamp>>,
    /// All waits that need an external answer; replaces the previous ones. A final status clears them.
    pub waits: Option<Vec<WaitRow>>,
    pub iterations: Vec<IterationRow>,
    pub iteration_trims: Vec<IterationTrim>,
    pub blobs: Vec<(BlobHash, Vec<u8>)>,
    /// Request ids of messages whose ticks are in this batch. An id that never was in the inbox is recorded too; an id
    /// that was consumed before makes the batch a conflict.
    pub consumed: Vec<Arc<str>>,
    /// Messages for other runs (starts of child runs, ends of child runs), written in the same transaction. A message
    /// waits for a run that does not exist yet and is dropped for a run that has ended.
    pub send: Vec<InboxRow>,
    /// Messages that cancel other runs, in the same transaction. A run that does not exist yet will never be created:
    /// see [`NewRun::cancel_request_id`].
    pub cancellations: Vec<InboxRow>,
    /// Journal rows whose ticks all come before this number, and snapshots older than it, may be deleted. The store
    /// keeps the newest snapshot, everything after it, and the newest row.
    pub trim_before: Option<u64>,
    /// Releases the run in the same transaction.
    pub release: bool,
}

impl RunBatch {
    /// Returns whether the parts of the batch are consistent; an inconsistent batch is a conflict.
    pub fn is_sound(&self) -> bool {
        let ticks = self.record.as_ref().map_or(0, |record| u64::from(record.ticks));
        let has_ticks = self.record.is_none() || ticks > 0;
        let snapshot_fits = self.snapshot.as_ref().is_none_or(|snapshot| snapshot.tick <= self.expected_ticks + ticks);
        has_ticks && snapshot_fits
    }

    /// Returns roughly how many bytes the batch writes.
    pub(crate) fn size_bytes(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| record.body.len());
        let snapshot = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.body.len());
        let iterations: usize = self.iterations.iter().map(|row| row.body.len()).sum();
        let blobs: usize = self.blobs.iter().map(|(_, body)| body.len()).sum();
        let sent: usize = self.send.iter().chain(&self.cancellations).map(|message| message.body.len()).sum();
        let waits: usize = self.waits.iter().flatten().map(|wait| wait.body.len()).sum();
        record + snapshot + iterations + blobs + sent + waits
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    pub plan: BlobHash,
    pub definition: String,
    pub dialect: String,
    pub owner: Option<String>,
    pub created_at: Timestamp,
    pub parent: Option<Arc<str>>,
    /// Id of the request that would cancel the run. If that request arrived first, the run is not created: a conflict.
    pub cancel_request_id: Option<Arc<str>>,
    /// Execution options (virtual time and the like), for the server that resumes the run.
    pub options: Vec<u8>,
}

/// Consecutive ticks and the events they published, encoded by the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord {
    pub ticks: u32,
    /// Number of the first event in the record; meaningless when `events` is 0.
    pub first_event: u64,
    pub events: u32,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewSnapshot {
    /// The state after this many ticks. At most `expected_ticks` plus the ticks of the batch.
    pub tick: u64,
    pub event: u64,
    pub state_hash: [u8; 32],
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StatusChange {
    /// A final status also clears the timer and the waits, and closes the inbox.
    pub status: RunStatus,
    pub at: Timestamp,
    /// The run's result object, when it has ended.
    pub result: Option<Vec<u8>>,
}

/// Consecutive iterations of one loop, packed.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationRow {
    pub loop_path: Arc<str>,
    pub first: u64,
    pub last: u64,
    pub failed: bool,
    pub body: Vec<u8>,
}

/// The iterations that an [`IterationRow`] holds, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationHeader {
    pub first: u64,
    pub last: u64,
    pub failed: bool,
}

/// A wait of a run that needs an external answer.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitRow {
    /// The name of the signal that answers it.
    pub name: Arc<str>,
    /// Path of the waiting node in the run; a run has at most one wait at a path.
    pub path: Arc<str>,
    pub body: Vec<u8>,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
}

/// A wait as listings over runs return it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWait {
    /// Order in which waits were opened; also the page cursor of listings.
    pub position: i64,
    pub run: Arc<str>,
    pub definition: String,
    pub wait: WaitRow,
}

/// Deletes history of a loop: of its iterations `keep_first..before`, those that did not fail may be deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationTrim {
    pub loop_path: Arc<str>,
    pub keep_first: u64,
    pub before: u64,
}

/// The store's verdict on a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchVerdict {
    Committed,
    /// Another owner has claimed the run in the meantime.
    Fenced,
    /// The journal is not at the expected tick, the run to create exists or was cancelled, the run does not exist, a
    /// message was consumed before, or the parts of the batch are inconsistent (a record without ticks, a snapshot
    /// ahead of the journal).
    Conflict,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimResult {
    Owned {
        owner_epoch: u64,
    },
    /// A live owner has the run.
    HeldBy(String),
    NoSuchRun,
    /// The run has ended and needs no owner.
    Ended,
    /// A newer program has written the run, in this format. The run is left unchanged.
    NeedsNewer {
        format: u32,
    },
}

impl RunRow {
    /// Refuses a run that a newer program has written: nothing of it may be read or changed.
    pub fn check_format(&self) -> Result<(), StoreError> {
        check_run_format(&self.run, self.format)
    }
}

/// Version of the encoding of a run's stored data: options, journal, snapshots, iterations, result.
///
/// It is raised when a program that does not know the new encoding would misread it. A run is stamped when it is
/// created, and again by every claim, because the new owner may write in its own format.
pub const RUN_FORMAT: u32 = 1;

/// Refuses a run whose format is newer than this program's.
pub fn check_run_format(run: &str, format: u32) -> Result<(), StoreError> {
    if format > RUN_FORMAT {
        return Err(StoreError::needs_newer(
            &format!("run `{run}`"),
            "journal format",
            format.into(),
            RUN_FORMAT.into(),
        ));
    }
    Ok(())
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InboxVerdict {
    /// Stored. Carries the run's owner if one is alive.
    Accepted {
        owner: Option<String>,
    },
    /// A message with the same request id was stored before.
    Duplicate,
    NoSuchRun,
    Ended,
}

#[derive(Clone, PartialEq, Debug)]
pub struct InboxRow {
    pub run: Arc<str>,
    pub request_id: Arc<str>,
    pub body: Vec<u8>,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RunRow {
    /// Format version of the run's stored data; see [`RUN_FORMAT`].
    pub format: u32,
    /// Order of creation; also the page cursor of listings.
    pub number: i64,
    pub run: Arc<str>,
    pub plan: BlobHash,
    pub definition: String,
    pub dialect: String,
    pub status: RunStatus,
    pub owner: Option<String>,
    pub owner_epoch: u64,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
    pub timer: Option<Timestamp>,
    pub parent: Option<Arc<str>>,
    pub options: Vec<u8>,
    pub result: Option<Vec<u8>>,
    /// The number of ticks the journal holds in all, trimmed ones included.
    pub ticks: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PlanRow {
    pub hash: BlobHash,
    pub dialect: String,
    pub body: Vec<u8>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct SnapshotRow {
    pub tick: u64,
    pub event: u64,
    pub state_hash: [u8; 32],
    pub body: Vec<u8>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct JournalRow {
    /// Number of the first tick in the row, counted from 0.
    pub first_tick: u64,
    pub ticks: u32,
    pub first_event: u64,
    pub events: u32,
    pub body: Vec<u8>,
}

/// Filter of a listing: a run must match every part.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunFilter {
    pub status: Option<RunStatus>,
    /// The run has any of these; an empty list is no condition.
    pub statuses: Vec<RunStatus>,
    pub definition: Option<String>,
    pub dialect: Option<String>,
    pub unfinished: bool,
    /// A substring of the run's id or of its definition's name, compared without regard to ASCII case.
    pub search: Option<String>,
    pub parent: Option<ParentFilter>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
}

/// The number of runs that have a status, as far as they were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusCount {
    pub status: RunStatus,
    pub runs: u64,
    /// There are older runs that were not examined.
    pub more: bool,
}

impl RunFilter {
    /// Returns whether the filter names a definition or a parent run: such runs are seldom very many, all statuses
    /// together.
    pub fn is_narrow(&self) -> bool {
        self.definition.is_some() || matches!(self.parent, Some(ParentFilter::Run(_)))
    }
}

/// Filter by parent run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParentFilter {
    /// Runs without a parent run.
    TopLevel,
    /// Child runs of this run.
    Run(Arc<str>),
}

/// A record that belongs to no run.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordRow {
    pub kind: String,
    pub key: String,
    /// Changes with every update and never repeats, not even after the record was removed. Never 0.
    pub revision: u64,
    pub body: Vec<u8>,
    /// Time of the last change.
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RecordChange {
    pub kind: String,
    pub key: String,
    /// The revision that the record must have; 0 if it must not exist; `None` accepts any state.
    pub expected_revision: Option<u64>,
    /// The new content; `None` removes the record.
    pub body: Option<Vec<u8>>,
    pub at: Timestamp,
}

impl RecordChange {
    pub fn put(kind: &str, key: &str, body: Vec<u8>, at: Timestamp) -> RecordChange {
        RecordChange { kind: kind.to_owned(), key: key.to_owned(), expected_revision: None, body: Some(body), at }
    }

    pub fn remove(kind: &str, key: &str, at: Timestamp) -> RecordChange {
        RecordChange { kind: kind.to_owned(), key: key.to_owned(), expected_revision: None, body: None, at }
    }

    /// Applies the change only if the record still has this revision; 0 if it must not exist.
    #[must_use]
    pub fn with_expected_revision(self, revision: u64) -> RecordChange {
        RecordChange { expected_revision: Some(revision), ..self }
    }
}

/// A run that may be removed together with all its descendants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovableTree {
    pub number: i64,
    pub run: Arc<str>,
    /// The number of runs in the tree, including the root.
    pub runs: u64,
    /// The bytes that removal would free: the rows, and the blobs that only these runs have written.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeRemoval {
    pub runs: u64,
    /// More descendants of the same run remain: call again.
    pub more: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchRemoval {
    pub runs: u64,
    /// The number of named runs that are settled: they were removed, or must stay. Call again for the rest.
    pub done: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepResult {
    pub blobs: u64,
    pub bytes: u64,
    /// More remains to be freed: call again.
    pub more: bool,
}

impl SweepResult {
    /// Counts a removed row of this many bytes.
    pub fn add_row(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts a removed blob of this many bytes.
    pub fn add_blob(&mut self, bytes: u64) {
        self.blobs += 1;
        self.bytes += bytes;
    }
}
