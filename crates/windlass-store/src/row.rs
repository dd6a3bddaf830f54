//! Row types: plain data that goes into and comes out of every store.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{BlobHash, Timestamp};

use crate::{LogBatch, StoreError};

/// The status of a run, as far as listing and waking it needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run is created and has not started: it is held until it is resumed, or has yet to get its first tick.
    Pending,
    /// The run has work to do, or waits only briefly.
    Running,
    /// The run waits for input, or for a timer that is not due soon.
    Waiting,
    /// An operator has paused the run.
    Paused,
    /// The run has ended with its output.
    Succeeded,
    /// The run has ended with an error.
    Failed,
    /// The run has ended, and its definition counts it as skipped.
    Skipped,
    /// The run was cancelled before its end.
    Cancelled,
    /// The run has exceeded its timeout.
    TimedOut,
    /// The journal and the program disagree: no server continues the run until an operator has looked at it.
    Quarantined,
}

impl RunStatus {
    /// All statuses, in the order of declaration.
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

    /// Returns whether the run has ended. A quarantined run has not: it may be continued.
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

    /// Returns the status of this name; the inverse of [`RunStatus::as_str`].
    pub fn parse(word: &str) -> Option<RunStatus> {
        RunStatus::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// One run's part of a transaction: a compare-and-append.
#[derive(Clone, Debug, Default)]
pub struct RunBatch {
    /// The id of the run.
    pub run: Arc<str>,
    /// Fencing token: the owner epoch of the writer's claim. The store refuses any other than its own.
    pub owner_epoch: u64,
    /// The number of ticks the journal holds before this batch.
    pub expected_ticks: u64,
    /// Only in a run's first batch: creates the run, owned by the given owner at epoch `owner_epoch`.
    pub create: Option<NewRun>,
    /// The ticks and the events they published, as one row.
    pub record: Option<JournalRecord>,
    /// A snapshot to store, if one is due.
    pub snapshot: Option<NewSnapshot>,
    /// The new status; `None` leaves it unchanged.
    pub status: Option<StatusChange>,
    /// `Some(None)` clears the run's timer.
    pub timer: Option<Option<Timestamp>>,
    /// All waits that need an external answer; replaces the previous ones. A final status clears them.
    pub waits: Option<Vec<WaitRow>>,
    /// Iteration history to add.
    pub iterations: Vec<IterationRow>,
    /// Iteration history to delete, applied after `iterations` was added.
    pub iteration_trims: Vec<IterationTrim>,
    /// Values stored by their hash. A value that the store already has is only linked to this run.
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
    /// The run has replied to its parent run: what cancels its ancestors no longer reaches it and its child runs.
    pub replied: bool,
    /// Log lines of the run's tasks, to be as durable as the results in this batch.
    pub logs: Option<LogBatch>,
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
        let logs: usize = self.logs.iter().flat_map(|logs| &logs.lines).map(|line| line.text.len()).sum();
        record + snapshot + iterations + blobs + sent + waits + logs
    }
}

/// The row of a run to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// The number that identifies the run besides its id: unique in the store, and greater for later runs.
    pub execution_id: i64,
    /// Hash of the plan; see [`StoreWrite::put_plan`](crate::StoreWrite::put_plan).
    pub plan: BlobHash,
    /// Name of the definition, for listings.
    pub definition: String,
    /// Name of the dialect, as in the plan.
    pub dialect: String,
    /// The first owner; `None` creates the run for the next claim.
    pub owner: Option<String>,
    /// Time of creation; listings filter by it.
    pub created_at: Timestamp,
    /// Id of the parent run, for a child run.
    pub parent: Option<Arc<str>>,
    /// Id of the request that would cancel the run. If that request arrived first, the run is not created: a conflict.
    pub cancel_request_id: Option<Arc<str>>,
    /// The maximum number of open runs in its run tree, the root not counted. A run without a parent run is not counted.
    pub max_tree_runs: u64,
    /// Execution options (virtual time and the like), for the server that resumes the run.
    pub options: Vec<u8>,
    /// Labels by which listings find the run.
    pub labels: RunLabels,
}

/// The labels of a run, by name. Listings filter by them.
pub type RunLabels = BTreeMap<String, String>;

/// Consecutive ticks and the events they published, encoded by the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord {
    /// The number of ticks in the record, at least 1.
    pub ticks: u32,
    /// Number of the first event in the record; meaningless when `events` is 0.
    pub first_event: u64,
    /// The number of events in the record.
    pub events: u32,
    /// The encoded ticks and events. The store does not interpret them.
    pub body: Vec<u8>,
}

/// An encoded state of a run, from which a replay can start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSnapshot {
    /// The state after this many ticks. At most `expected_ticks` plus the ticks of the batch.
    pub tick: u64,
    /// The number of events that the run had published by then.
    pub event: u64,
    /// Hash of the state, to detect a replay that takes another course.
    pub state_hash: [u8; 32],
    /// The encoded state.
    pub body: Vec<u8>,
}

/// A new status of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusChange {
    /// A final status also clears the timer and the waits, and closes the inbox.
    pub status: RunStatus,
    /// The time of the change; becomes `changed_at` of the run.
    pub at: Timestamp,
    /// The run's result object, when it has ended.
    pub result: Option<Vec<u8>>,
}

/// Consecutive iterations of one loop, packed.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationRow {
    /// Path of the loop in the run.
    pub loop_path: Arc<str>,
    /// Index of the first iteration, counted from 0.
    pub first: u64,
    /// Index of the last iteration, inclusive.
    pub last: u64,
    /// The outcome of every iteration in the row.
    pub outcome: IterationOutcome,
    /// The encoded iterations.
    pub body: Vec<u8>,
}

/// The iterations that an [`IterationRow`] holds, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationHeader {
    /// Index of the first iteration, counted from 0.
    pub first: u64,
    /// Index of the last iteration, inclusive.
    pub last: u64,
    /// The outcome of every iteration in the row.
    pub outcome: IterationOutcome,
}

/// The outcome that the iterations of one row share, so that they are counted without reading them. Trimming keeps
/// iterations that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationOutcome {
    /// The iterations succeeded or were skipped.
    Succeeded = 0,
    /// The iterations failed.
    Failed = 1,
    /// The iterations were in flight when their loop ended, which cancelled them.
    Cancelled = 2,
}

impl IterationOutcome {
    /// Returns the outcome with this number; the inverse of a cast.
    pub fn from_number(number: u8) -> Option<IterationOutcome> {
        use IterationOutcome::{Cancelled, Failed, Succeeded};
        [Succeeded, Failed, Cancelled].into_iter().find(|outcome| *outcome as u8 == number)
    }
}

/// A wait of a run that needs an external answer.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitRow {
    /// The name of the signal that answers it.
    pub name: Arc<str>,
    /// Path of the waiting node in the run; a run has at most one wait at a path.
    pub path: Arc<str>,
    /// The encoded content of the form that the answer fills in.
    pub body: Vec<u8>,
    /// The time at which the wait was opened.
    pub since: Timestamp,
    /// The time at which the wait expires, if it does.
    pub deadline: Option<Timestamp>,
}

/// A wait as listings over runs return it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWait {
    /// Order in which waits were opened; also the page cursor of listings.
    pub position: i64,
    /// The id of the waiting run.
    pub run: Arc<str>,
    /// Name of the run's definition.
    pub definition: String,
    /// The wait as the run stored it.
    pub wait: WaitRow,
}

/// Deletes history of a loop: of its iterations `keep_first..before`, those that did not fail may be deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationTrim {
    /// Path of the loop in the run.
    pub loop_path: Arc<str>,
    /// The number of iterations at the beginning of the loop that are kept.
    pub keep_first: u64,
    /// Index of the first of the newest iterations, which are kept.
    pub before: u64,
}

/// The store's verdict on a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchVerdict {
    /// The batch is durable.
    Committed,
    /// Another owner has claimed the run in the meantime.
    Fenced,
    /// The journal is not at the expected tick, the run to create exists or was cancelled, alone or with a run above it,
    /// the run does not exist, a message was consumed before, or the parts of the batch are inconsistent (a record
    /// without ticks, a snapshot ahead of the journal).
    Conflict,
    /// Another run has the execution id of the run to create.
    ExecutionIdConflict,
    /// The rows of the run that the batch needs are damaged.
    Damaged,
    /// The disk is full, and the space that is left is reserved for other batches. Nothing was written.
    NoSpace,
    /// The run tree of the run to create has as many open runs as [`NewRun::max_tree_runs`] allows.
    TreeFull,
    /// A stored place in the run tree of the run to create is damaged.
    TreeDamaged,
}

/// The outcome of claiming a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimResult {
    /// The caller owns the run now.
    Owned {
        /// The new fencing token, higher than all earlier ones of the run.
        owner_epoch: u64,
    },
    /// A live owner has the run.
    HeldBy(String),
    /// There is no run with this id.
    NoSuchRun,
    /// The run has ended and needs no owner.
    Ended,
    /// A newer program has written the run, in this format. The run is left unchanged.
    NeedsNewer {
        /// The format of the run's stored data.
        format: u32,
    },
    /// The run's row is damaged: no process can own it.
    Damaged {
        /// A sentence that says what is wrong with the row.
        reason: String,
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

/// The outcome of putting a message into an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InboxVerdict {
    /// Stored. Carries the run's owner if one is alive.
    Accepted {
        /// The name of the live owner, which must be notified.
        owner: Option<String>,
    },
    /// A message with the same request id was stored before.
    Duplicate,
    /// There is no run with this id.
    NoSuchRun,
    /// The run has ended and accepts no messages.
    Ended,
}

/// A message to a run.
#[derive(Clone, PartialEq, Debug)]
pub struct InboxRow {
    /// The id of the run that receives the message.
    pub run: Arc<str>,
    /// Deduplicates messages: a run accepts each id once.
    pub request_id: Arc<str>,
    /// The encoded message.
    pub body: Vec<u8>,
    /// The time at which the message was sent.
    pub at: Timestamp,
}

/// A run as the store knows it.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRow {
    /// Format version of the run's stored data; see [`RUN_FORMAT`].
    pub format: u32,
    /// Order of creation; also the page cursor of listings.
    pub number: i64,
    /// The id of the run.
    pub run: Arc<str>,
    /// The number that identifies the run besides its id, as in [`NewRun::execution_id`].
    pub execution_id: i64,
    /// Hash of the plan.
    pub plan: BlobHash,
    /// Name of the definition.
    pub definition: String,
    /// Name of the dialect, as in the plan.
    pub dialect: String,
    /// The status of the last committed batch that changed it.
    pub status: RunStatus,
    /// The owner of the last claim, alive or not; `None` after a release.
    pub owner: Option<String>,
    /// The fencing token of the last claim.
    pub owner_epoch: u64,
    /// The owner before, if it has written a tick: the one that wrote the newest tick before the last claim or release.
    pub previous_owner: Option<String>,
    /// The time at which the run was created.
    pub created_at: Timestamp,
    /// The time of the last status change.
    pub changed_at: Timestamp,
    /// The time at which the run must be woken, if it waits for one.
    pub timer: Option<Timestamp>,
    /// Id of the parent run, for a child run.
    pub parent: Option<Arc<str>>,
    /// Execution options, as in [`NewRun::options`].
    pub options: Vec<u8>,
    /// The encoded result, once the run has ended.
    pub result: Option<Vec<u8>>,
    /// The number of ticks the journal holds in all, trimmed ones included.
    pub ticks: u64,
    /// The labels that the run was created with.
    pub labels: RunLabels,
}

/// An encoded plan, stored under its hash.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanRow {
    /// Hash of the plan.
    pub hash: BlobHash,
    /// Name of the dialect that the plan was compiled from.
    pub dialect: String,
    /// The encoded plan.
    pub body: Vec<u8>,
}

/// A stored snapshot; see [`NewSnapshot`].
#[derive(Clone, PartialEq, Debug)]
pub struct SnapshotRow {
    /// The state is the one after this many ticks.
    pub tick: u64,
    /// The number of events that the run had published by then.
    pub event: u64,
    /// Hash of the state.
    pub state_hash: [u8; 32],
    /// The encoded state.
    pub body: Vec<u8>,
}

/// A stored [`JournalRecord`].
#[derive(Clone, PartialEq, Debug)]
pub struct JournalRow {
    /// Number of the first tick in the row, counted from 0.
    pub first_tick: u64,
    /// The number of ticks in the row.
    pub ticks: u32,
    /// Number of the first event in the row; meaningless when `events` is 0.
    pub first_event: u64,
    /// The number of events in the row.
    pub events: u32,
    /// The encoded ticks and events.
    pub body: Vec<u8>,
}

/// A record that belongs to no run.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordRow {
    /// Groups records of the same meaning, such as tokens.
    pub kind: String,
    /// Identifies the record within its kind.
    pub key: String,
    /// Changes with every update and never repeats, not even after the record was removed. Never 0.
    pub revision: u64,
    /// The content, encoded by the caller.
    pub body: Vec<u8>,
    /// Time of the last change.
    pub at: Timestamp,
}

/// A change of one record.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordChange {
    /// The kind of the record.
    pub kind: String,
    /// The key of the record.
    pub key: String,
    /// The revision that the record must have; 0 if it must not exist; `None` accepts any state.
    pub expected_revision: Option<u64>,
    /// The new content; `None` removes the record.
    pub body: Option<Vec<u8>>,
    /// The time of the change.
    pub at: Timestamp,
}

impl RecordChange {
    /// Creates or replaces a record, whatever its revision.
    pub fn put(kind: &str, key: &str, body: Vec<u8>, at: Timestamp) -> RecordChange {
        RecordChange { kind: kind.to_owned(), key: key.to_owned(), expected_revision: None, body: Some(body), at }
    }

    /// Removes a record, whatever its revision.
    pub fn remove(kind: &str, key: &str, at: Timestamp) -> RecordChange {
        RecordChange { kind: kind.to_owned(), key: key.to_owned(), expected_revision: None, body: None, at }
    }

    /// Applies the change only if the record still has this revision; 0 if it must not exist.
    #[must_use]
    pub fn with_expected_revision(self, revision: u64) -> RecordChange {
        RecordChange { expected_revision: Some(revision), ..self }
    }
}
