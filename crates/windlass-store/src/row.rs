//! The rows: plain data, in and out of every store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{BlobHash, Timestamp};

use crate::StoreError;

/// Where a run stands, as far as listing and waking it needs to know.
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
    /// The journal and the program disagree: nobody goes on with it until a person has looked.
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

    /// The word that stores and listings use.
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

/// One run's part of a transaction: compare-and-append.
#[derive(Clone, Debug, Default)]
pub struct RunBatch {
    pub run: Arc<str>,
    /// The epoch of the writer's claim. Any other than the store's is refused.
    pub owner_epoch: u64,
    /// How many ticks the journal holds before this batch.
    pub expected_ticks: u64,
    /// Only in a run's first batch: makes the run, owned by the given owner at epoch `epoch`.
    pub create: Option<NewRun>,
    /// The ticks and the events they published: one row.
    pub record: Option<JournalRecord>,
    pub snapshot: Option<NewSnapshot>,
    pub status: Option<StatusChange>,
    /// `Some(None)` clears the run's timer.
    pub timer: Option<Option<Timestamp>>,
    /// All that the run waits for somebody to answer, in place of what it waited for before. A final status clears it.
    pub waits: Option<Vec<WaitRow>>,
    pub iterations: Vec<IterationRow>,
    pub iteration_trims: Vec<IterationTrim>,
    pub blobs: Vec<(BlobHash, Vec<u8>)>,
    /// Request ids of messages whose ticks are in this batch. One that never was in the inbox is remembered too; one
    /// that was consumed before makes the batch a conflict.
    pub consumed: Vec<Arc<str>>,
    /// Messages for other runs: starts of children, their ends. Written in the same transaction. They wait for a run
    /// that does not exist yet, and are dropped for one that has ended.
    pub send: Vec<InboxRow>,
    /// Messages that end other runs, in the same transaction. A run that does not exist yet will never be made: see
    /// [`NewRun::unless`].
    pub cancellations: Vec<InboxRow>,
    /// Journal rows whose ticks all come before this number, and snapshots older than it, may go. The store
    /// keeps what follows the newest snapshot, that snapshot, and the newest row.
    pub trim_before: Option<u64>,
    /// Gives the run back in the same transaction.
    pub release: bool,
}

impl RunBatch {
    /// Whether the parts of the batch fit each other; one that is not sound is a conflict.
    pub fn is_sound(&self) -> bool {
        let ticks = self.record.as_ref().map_or(0, |record| u64::from(record.ticks));
        let has_ticks = self.record.is_none() || ticks > 0;
        let snapshot_fits = self.snapshot.as_ref().is_none_or(|snapshot| snapshot.tick <= self.expected_ticks + ticks);
        has_ticks && snapshot_fits
    }

    /// Roughly how many bytes the batch writes.
    pub(crate) fn size_bytes(&self) -> usize {
        let record = self.record.as_ref().map_or(0, |record| record.body.len());
        let snapshot = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.body.len());
        let iterations: usize = self.iterations.iter().map(|turn| turn.body.len()).sum();
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
    /// The request by which it would be called off. If that has come first, the run is not made: a conflict.
    pub cancel_request_id: Option<Arc<str>>,
    /// How it is to be run (virtual time and the like), for whoever resumes it.
    pub options: Vec<u8>,
}

/// Consecutive ticks and the events they published, encoded by the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord {
    pub ticks: u32,
    /// Number of the first event in it; meaningless when `events` is 0.
    pub first_event: u64,
    pub events: u32,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewSnapshot {
    /// The state after this many ticks. At most `expected` plus the ticks of the batch.
    pub tick: u64,
    pub event: u64,
    pub state_hash: [u8; 32],
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StatusChange {
    /// A final one also clears the timer and the waits, and closes the inbox.
    pub status: RunStatus,
    pub at: Timestamp,
    /// The run's result object, when it has ended.
    pub result: Option<Vec<u8>>,
}

/// Consecutive turns of one loop, packed.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationRow {
    pub loop_path: Arc<str>,
    pub first: u64,
    pub last: u64,
    pub failed: bool,
    pub body: Vec<u8>,
}

/// Which turns such a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationHeader {
    pub first: u64,
    pub last: u64,
    pub failed: bool,
}

/// What a run waits for somebody to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitRow {
    /// The name of the signal that answers it.
    pub name: Arc<str>,
    /// Where in the run; a run has at most one wait at a path.
    pub path: Arc<str>,
    pub body: Vec<u8>,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
}

/// Such a wait, as listings over runs give it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWait {
    /// Order of asking; also the page mark of listings.
    pub position: i64,
    pub run: Arc<str>,
    pub definition: String,
    pub wait: WaitRow,
}

/// Turns `keep_first..before` of a loop that did not fail may go.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationTrim {
    pub loop_path: Arc<str>,
    pub keep_first: u64,
    pub before: u64,
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchVerdict {
    Committed,
    /// Another owner has claimed the run since.
    Fenced,
    /// The journal is not where the batch expected it to be, the run to make exists or was called off, the run does not
    /// exist, a message was consumed before, or the parts of the batch do not fit each other (a record without ticks, a snapshot ahead
    /// of the journal).
    Conflict,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimResult {
    Owned {
        owner_epoch: u64,
    },
    /// Somebody alive owns it.
    HeldBy(String),
    NoSuchRun,
    /// It has ended; nobody needs to own it.
    Ended,
    /// A newer program has written it, in this format. It is left as it is.
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

/// The version of the encoding of what is kept of a run: options, journal, snapshots, iterations, result. It is raised when
/// a program that does not know the new form would misread it. A run is stamped when it is created, and again by every claim:
/// whoever owns it may write in its own format.
pub const RUN_FORMAT: u32 = 1;

/// Refuses a run in this format if a newer program has written it.
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
    /// Kept. The owner, if somebody alive is.
    Accepted {
        owner: Option<String>,
    },
    /// The same request id was kept before.
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
    /// The version of what is kept of the run; see [`RUN_FORMAT`].
    pub format: u32,
    /// Order of creation; also the page mark of listings.
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
    /// How many ticks the journal holds in all, trimmed ones included.
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

/// Which runs a listing gives: those that fit every part of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunFilter {
    pub status: Option<RunStatus>,
    /// Any of these; an empty list is no condition.
    pub statuses: Vec<RunStatus>,
    pub definition: Option<String>,
    pub dialect: Option<String>,
    pub unfinished: bool,
    /// A part of the run's id or of its definition's name. Letters from A to Z count as those from a to z.
    pub search: Option<String>,
    pub parent: Option<ParentFilter>,
    /// Made at this time or later.
    pub since: Option<Timestamp>,
    /// Made before this time.
    pub until: Option<Timestamp>,
}

/// How many runs have a status, as far as they were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusCount {
    pub status: RunStatus,
    pub runs: u64,
    /// There are older runs that were not looked at.
    pub more: bool,
}

impl RunFilter {
    /// It names whose runs are meant: there are seldom very many of them, of all statuses together.
    pub fn is_narrow(&self) -> bool {
        self.definition.is_some() || matches!(self.parent, Some(ParentFilter::Run(_)))
    }
}

/// Whose children a listing gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParentFilter {
    /// Runs that no run has called.
    TopLevel,
    /// Runs that this one has called.
    Run(Arc<str>),
}

/// A record outside all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordRow {
    pub kind: String,
    pub key: String,
    /// Another one after every change, and none comes again, also not after the record was removed. Never 0.
    pub revision: u64,
    pub body: Vec<u8>,
    /// When it was changed last.
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RecordChange {
    pub kind: String,
    pub key: String,
    /// The revision that the record must have; 0 if it must not be there. None: whatever is there.
    pub expected_revision: Option<u64>,
    /// None removes it.
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

    /// Only if the record still has this revision; 0 if it is not there.
    #[must_use]
    pub fn with_expected_revision(self, revision: u64) -> RecordChange {
        RecordChange { expected_revision: Some(revision), ..self }
    }
}

/// A run that may go, with all below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovableTree {
    pub number: i64,
    pub run: Arc<str>,
    /// How many runs that are, itself included.
    pub runs: u64,
    /// What that would free: its rows, and the blobs that only these runs have written.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeRemoval {
    pub runs: u64,
    /// There are more below the same run: call again.
    pub more: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchRemoval {
    pub runs: u64,
    /// How many of those that were named need no more: they are gone, or stay. Call again for the rest.
    pub done: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepResult {
    pub blobs: u64,
    pub bytes: u64,
    /// There is more: call again.
    pub more: bool,
}

impl SweepResult {
    /// Counts a removed row of so many bytes.
    pub fn add_row(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts a removed blob of so many bytes.
    pub fn add_blob(&mut self, bytes: u64) {
        self.blobs += 1;
        self.bytes += bytes;
    }
}
