//! The part of a run that the store and other runs see, whether or not its journal is kept: its existence, its
//! status, its messages to parent and children, and the messages that it has consumed.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::state::{ApprovalForm, Phase};
use windlass_core::{Command, EffectKey, ErrorInfo, Limits, State, Status, TaskOutcome, Tick, TickKind, TickOutput};
use windlass_store::{
    BatchVerdict, GroupWriter, InboxRow, LogBatch, NewRun, RunBatch, RunStatus, StatusChange, Store, StoreError,
    WaitRow,
};
use windlass_value::{BlobHash, Duration, Map, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::NextInput;
use crate::codec;
use crate::engine::damaged_row_error;
use crate::inspect::with_run_hint;
use crate::report::FinalReport;
use crate::task_log::{LogWriter, LogsInFlight};

/// The maximum number of messages taken from the inbox in one batch.
const INBOX_BATCH_SIZE: u32 = 256;

/// The fact of an error that names the child run and the path in it where it happened.
pub const CHILD_FACT: &str = "child";

pub(crate) struct RunOutboxOptions {
    pub store: Arc<dyn Store>,
    pub writer: Arc<GroupWriter>,
    pub run: Arc<str>,
    pub owner_epoch: u64,
    pub limits: Limits,
    pub program: Arc<windlass_core::Program>,
    /// Only set for a new run.
    pub create: Option<NewRun>,
    /// The parent run and the call that waits for this run's end.
    pub parent: Option<(Arc<str>, u64)>,
    /// Commits on the loop's thread: the shortest path for a single run.
    pub commit_here: bool,
    /// Time is skipped when nothing else can happen. The store is asked for messages before that.
    pub virtual_time: bool,
    /// Writes the log lines of tasks.
    pub logs: Arc<LogWriter>,
}

pub(super) struct RunOutbox {
    pub options: RunOutboxOptions,
    /// Ticks in the journal.
    pub committed: u64,
    consumed: Vec<Arc<str>>,
    status: Option<RunStatus>,
    /// A waiting run is listed as waiting and can be woken by the store. Only set for runs that can be reloaded from
    /// there.
    lists_waits: bool,
    /// The time at which the store would wake the run, if it is known.
    timer: Option<Option<Timestamp>>,
    /// The change count (`state.forms.changes`) of the forms in the store. `None`: the store may lack open forms.
    forms: Option<u64>,
    /// Messages for other runs that are part of the next commit.
    messages: Vec<InboxRow>,
    /// Cancellations of child runs that are part of the next commit.
    child_cancellations: Vec<InboxRow>,
    /// The run has replied to its parent run since the last commit.
    replied: bool,
    /// The run needs no further release in the store: it has ended or was released, or the store has failed.
    ownership_released: bool,
    /// A commit has succeeded since the run was loaded into memory.
    pub has_committed: bool,
}

impl RunOutbox {
    pub(crate) fn new(options: RunOutboxOptions, committed: u64) -> RunOutbox {
        let timer = options.create.is_some().then_some(None);
        RunOutbox {
            options,
            committed,
            consumed: Vec::new(),
            status: None,
            lists_waits: false,
            timer,
            forms: Some(0),
            messages: Vec::new(),
            child_cancellations: Vec::new(),
            replied: false,
            ownership_released: false,
            has_committed: false,
        }
    }

    /// For a run that continues from a state. A state forked from another run has forms that the store does not have.
    pub(crate) fn resuming_from(mut self, state: &State) -> RunOutbox {
        self.forms = Some(state.forms.changes).filter(|_| state.forms.open.is_empty());
        self
    }

    pub(crate) fn with_listed_waits(mut self) -> RunOutbox {
        self.lists_waits = true;
        self
    }

    /// Returns the messages in the store as ticks. They are consumed in the transaction of their tick.
    pub(crate) fn read_inbox(&mut self) -> NextInput {
        let rows = match self.options.store.inbox(&self.options.run, INBOX_BATCH_SIZE) {
            Ok(rows) => rows,
            // A message that cannot be read now is still there at the next notification.
            Err(_) => return NextInput::Nothing,
        };
        let mut ticks = Vec::new();
        for row in rows {
            if self.consumed.contains(&row.request_id) {
                continue;
            }
            // A message that cannot be decoded is consumed as well; otherwise it would be read forever.
            ticks.extend(codec::decode::<TickKind>(&row.body, "a message").ok());
            self.consumed.push(row.request_id);
        }
        if ticks.is_empty() { NextInput::Nothing } else { NextInput::Ticks(ticks) }
    }

    /// Collects the messages to other runs that result from a tick.
    pub(crate) fn note(&mut self, tick: &Tick, output: &TickOutput) {
        for command in &output.commands {
            if let Command::CancelChild { key } = command {
                self.child_cancellations.push(self.child_cancel_message(key, tick.at));
            }
            // In the same transaction as the tick: a parent sees no reply that could be lost, and loses none.
            if let Command::Reply(reply) = command {
                self.replied = true;
                let (status, outcome) = reply.call_result();
                self.messages.extend(self.parent_message(status, outcome, tick.at));
            }
        }
    }

    /// Reports whether there are changes that are not in the store.
    pub(crate) fn has_pending_changes(&self, state: &State) -> bool {
        self.status != Some(self.current_status(state))
            || self.forms != Some(state.forms.changes)
            || !(self.consumed.is_empty() && self.messages.is_empty() && self.child_cancellations.is_empty())
    }

    /// Returns all pending changes as a batch, to which the caller adds its own.
    pub(crate) fn batch(&mut self, state: &State, blobs: Vec<(BlobHash, Vec<u8>)>) -> RunBatch {
        // Computed once: it takes a while for a run with very many waits.
        let status = self.current_status(state);
        RunBatch {
            create: self.options.create.take(),
            timer: self.timer_change(state, status),
            status: self.status_change(state, status),
            waits: self.wait_rows(state),
            blobs,
            consumed: std::mem::take(&mut self.consumed),
            send: self.outgoing_messages(state),
            cancellations: std::mem::take(&mut self.child_cancellations),
            replied: std::mem::take(&mut self.replied) && self.options.parent.is_some(),
            ..self.empty_batch()
        }
    }

    pub(crate) fn empty_batch(&self) -> RunBatch {
        RunBatch {
            run: self.options.run.clone(),
            owner_epoch: self.options.owner_epoch,
            expected_ticks: self.committed,
            ..RunBatch::default()
        }
    }

    fn status_change(&mut self, state: &State, status: RunStatus) -> Option<StatusChange> {
        if self.status == Some(status) {
            return None;
        }
        self.status = Some(status);
        let result = state.result().map(|_| codec::encode(&FinalReport::from_state(&self.options.program, state)));
        Some(StatusChange { status, at: state.now, result })
    }

    fn current_status(&self, state: &State) -> RunStatus {
        resident_status(state, self.lists_waits, self.options.virtual_time)
    }

    /// Returns the timer change for the store. A waiting run is woken when it is due, even if this process is gone by
    /// then. A running one must not be, so the store is updated whenever that changes.
    fn timer_change(&mut self, state: &State, status: RunStatus) -> Option<Option<Timestamp>> {
        if !self.lists_waits {
            return None;
        }
        let due = state.next_due().filter(|_| status == RunStatus::Waiting);
        (self.timer.replace(due) != Some(due)).then_some(due)
    }

    /// Returns all open forms, if they differ from those in the store.
    fn wait_rows(&mut self, state: &State) -> Option<Vec<WaitRow>> {
        let now = Some(state.forms.changes);
        if std::mem::replace(&mut self.forms, now) == now {
            return None;
        }
        let row = |(name, form): (&Arc<str>, &ApprovalForm)| WaitRow {
            name: name.clone(),
            path: form.address.clone(),
            body: codec::encode(&form.content),
            since: form.since,
            deadline: form.deadline,
        };
        Some(state.open_forms().map(row).collect())
    }

    /// Takes the messages to other runs; they are written in the same transaction.
    fn outgoing_messages(&mut self, state: &State) -> Vec<InboxRow> {
        let mut messages = std::mem::take(&mut self.messages);
        messages.extend(self.end_message_for_parent(state));
        messages
    }

    /// Returns the message that cancels a child. It is written with the tick, so it is delivered even if this process
    /// dies right here. A child that does not exist yet is never created: its start may still be in progress, here or
    /// in a process that has lost the parent.
    fn child_cancel_message(&self, key: &EffectKey, at: Timestamp) -> InboxRow {
        let request = codec::cancel_request_id(&self.options.run);
        let reason = "cancelled by its parent run".into();
        let tick = TickKind::CancelRun { reason, request: Some(request.clone()), by_caller: true };
        let run = codec::child_id(&self.options.run, key).into();
        InboxRow { run, request_id: request, body: codec::encode(&tick), at }
    }

    /// Returns the end of this child as a message to its parent, unless it has already replied.
    fn end_message_for_parent(&self, state: &State) -> Option<InboxRow> {
        let result = state.result().filter(|result| result.reply.is_none())?;
        let outcome = TaskOutcome {
            output: result.output.clone(),
            error: result.error.clone(),
            ..TaskOutcome::success(Value::Null)
        };
        self.parent_message(result.status, outcome, state.now)
    }

    /// Builds the one message for a call: the store drops a second one under the same name.
    fn parent_message(&self, status: Status, outcome: TaskOutcome, at: Timestamp) -> Option<InboxRow> {
        let (parent, call) = self.options.parent.as_ref()?;
        let outcome = TaskOutcome { error: outcome.error.map(|error| self.error_for_parent(error)), ..outcome };
        let tick = TickKind::CallResult { call: *call, status, outcome };
        let request_id = format!("child:{}", self.options.run).into();
        Some(InboxRow { run: parent.clone(), request_id, body: codec::encode(&tick), at })
    }

    /// Returns an error as the parent sees it. Paths are those of one run: that in this run is recorded as a fact, with
    /// the run's id, and the parent's reducer sets the path of its call.
    fn error_for_parent(&self, error: ErrorInfo) -> ErrorInfo {
        let error = with_run_hint(error, &self.options.run);
        let origin = [("run", Value::from(self.options.run.clone())), ("path", Value::from(error.path.clone()))];
        let facts = match &error.facts {
            Value::Null => Value::object([(CHILD_FACT, Value::object(origin))]),
            // The run in which it happened first is the innermost one.
            Value::Map(facts) if facts.get(CHILD_FACT).is_none() => {
                let mut facts = Map::clone(facts);
                facts.insert(CHILD_FACT, Value::object(origin));
                Value::map(facts)
            }
            other => other.clone(),
        };
        ErrorInfo { path: "".into(), facts, ..error }
    }

    /// Takes the run's log lines, which are committed with the results of their tasks: a reader that sees a result, or
    /// the end of the run, finds the lines.
    async fn take_log_lines(&self) -> Option<LogBatch> {
        match self.options.logs.take(&self.options.run) {
            Ok(lines) => lines,
            Err(LogsInFlight) => {
                let logs = self.options.logs.clone();
                let _ = tokio::task::spawn_blocking(move || logs.flush()).await;
                None
            }
        }
    }

    pub(crate) async fn commit(&mut self, batch: RunBatch) -> Result<(), RuntimeError> {
        let ticks = batch.record.as_ref().map_or(0, |record| u64::from(record.ticks));
        let max_tree_runs = batch.create.as_ref().map(|create| create.max_tree_runs);
        let last = batch.release || batch.status.as_ref().is_some_and(|change| change.status.is_final());
        let batch = RunBatch { logs: self.take_log_lines().await, ..batch };
        let (sender, receiver) = oneshot::channel();
        // A closed receiver means that the loop was dropped and needs no answer.
        let reply = Box::new(move |verdict| drop(sender.send(verdict)));
        match self.options.commit_here {
            true => self.options.writer.submit_inline(batch, reply),
            false => self.options.writer.submit(batch, reply),
        }
        // Until the store has confirmed, the owner of the run is unknown.
        self.ownership_released = true;
        match receiver.await.map_err(|_| RuntimeError::Closing)?? {
            BatchVerdict::Committed => {
                self.has_committed = true;
                self.committed += ticks;
                self.ownership_released = last;
                Ok(())
            }
            BatchVerdict::Fenced => Err(RuntimeError::Fenced),
            BatchVerdict::ExecutionIdConflict => Err(RuntimeError::ExecutionIdExists),
            BatchVerdict::Damaged => Err(damaged_row_error(&self.options.run)),
            BatchVerdict::NoSpace => Err(StoreError::reserved_space().into()),
            BatchVerdict::TreeFull => Err(RuntimeError::TreeFull { max: max_tree_runs.unwrap_or_default() }),
            BatchVerdict::TreeDamaged => {
                let why = "its checksum does not match; `windlass doctor` names the row".to_owned();
                Err(RuntimeError::Damaged { what: "the place of a run in its run tree", why })
            }
            BatchVerdict::Conflict if max_tree_runs.is_some() => {
                Err(RuntimeError::RunExists(self.options.run.to_string()))
            }
            BatchVerdict::Conflict => Err(RuntimeError::JournalConflict(self.options.run.to_string())),
        }
    }

    pub(crate) fn load_blob(&self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        let Some(bytes) = self.options.store.blob(hash)? else { return Ok(None) };
        codec::blob_value(hash, &bytes).map(Some)
    }

    /// Releases a run that is left before its end, so that another process can resume it immediately.
    pub(crate) fn release_ownership(&self) {
        if !self.ownership_released && self.exists_in_store() {
            let _ = self.options.store.release(&self.options.run, self.options.owner_epoch);
        }
    }

    /// The run exists in the store.
    fn exists_in_store(&self) -> bool {
        self.has_committed || self.committed > 0
    }
}

/// A run that waits for a longer time is listed as waiting. A shorter wait is not worth two changes of the row.
const MIN_LISTED_DELAY: Duration = Duration::from_secs(10);

/// Returns the status under which a run is listed while it is in memory. With `lists_waits`, also whether it waits
/// for input or for a long time. With virtual time no wait is long.
pub(crate) fn resident_status(state: &State, lists_waits: bool, virtual_time: bool) -> RunStatus {
    let rests = || {
        let for_long = |at: Timestamp| at.since(state.now) > MIN_LISTED_DELAY;
        state.is_idle() || (!virtual_time && state.waits_until().is_some_and(for_long))
    };
    match &state.phase {
        Phase::Ended(result) => run_status(result.status),
        Phase::Created | Phase::Running if state.held_start.is_some() => RunStatus::Pending,
        Phase::Created | Phase::Running if state.paused => RunStatus::Paused,
        Phase::Running if lists_waits && rests() => RunStatus::Waiting,
        Phase::Created | Phase::Running => RunStatus::Running,
    }
}

/// Returns the status under which a run is listed when it was evicted before its end.
pub(crate) fn evicted_status(state: &State) -> RunStatus {
    match resident_status(state, false, false) {
        RunStatus::Running => RunStatus::Waiting,
        other => other,
    }
}

pub(crate) fn run_status(status: Status) -> RunStatus {
    match status {
        Status::Succeeded => RunStatus::Succeeded,
        Status::Failed => RunStatus::Failed,
        Status::Skipped => RunStatus::Skipped,
        Status::Cancelled => RunStatus::Cancelled,
        Status::TimedOut => RunStatus::TimedOut,
    }
}
