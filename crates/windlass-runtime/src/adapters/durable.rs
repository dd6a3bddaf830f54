//! A decorator that makes a run durable: every tick is in the store before any of its effects begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use windlass_core::state::Phase;
use windlass_core::{Command, Limits, Output, State, Status, TaskOutcome, Tick, TickKind};
use windlass_store::{
    GroupWriter, InboxRow, NewRun, NewSnapshot, Record, RunBatch, RunStatus, StatusChange, Store, Verdict,
};
use windlass_value::{BlobHash, Value};

use super::turns::TurnBuffer;
use crate::RuntimeError;
use crate::adapter::{Adapter, Next, Waiting};
use crate::blobs::BlobCache;
use crate::codec::{self, TickEntry};
use crate::forward;
use crate::report::FinalReport;

/// An event is shown, and so durable, at most this long after its tick.
const OVERDUE: Duration = Duration::from_millis(50);

/// Messages taken from the inbox at once.
const INBOX_AT_ONCE: u32 = 256;

pub struct DurableOptions {
    pub store: Arc<dyn Store>,
    pub writer: Arc<GroupWriter>,
    pub run: Arc<str>,
    pub epoch: u64,
    pub limits: Limits,
    pub program: Arc<windlass_core::Program>,
    /// Only for a new run.
    pub create: Option<NewRun>,
    /// Who wants to know of this run's end.
    pub parent: Option<(Arc<str>, u64)>,
    /// Commits on the loop's own thread: the shortest way for a lone run.
    pub commit_here: bool,
}

pub struct Durable<A> {
    inner: A,
    options: DurableOptions,
    /// Ticks in the journal.
    committed: u64,
    pending: Vec<TickEntry>,
    pending_since: Option<Instant>,
    turns: TurnBuffer,
    consumed: Vec<Arc<str>>,
    status: Option<RunStatus>,
    /// Ticks and turns at the newest snapshot.
    snapshot_at: (u64, u64),
    /// Snapshots that are kept, and the bytes written since the oldest.
    snapshots: Vec<u64>,
    bytes: u64,
    trim_before: Option<u64>,
    failed: bool,
}

impl<A: Adapter> Durable<A> {
    pub fn new(inner: A, options: DurableOptions, state: &State) -> Durable<A> {
        Durable {
            inner,
            options,
            committed: state.ticks,
            pending: Vec::new(),
            pending_since: None,
            turns: TurnBuffer::default(),
            consumed: Vec::new(),
            status: None,
            snapshot_at: (state.ticks, state.turns),
            snapshots: Vec::new(),
            bytes: 0,
            trim_before: None,
            failed: false,
        }
    }

    /// Messages of the store as ticks. They are consumed in the transaction of their tick.
    fn read_inbox(&mut self) -> Next {
        let rows = match self.options.store.inbox(&self.options.run, INBOX_AT_ONCE) {
            Ok(rows) => rows,
            // What cannot be read now is still there at the next nudge.
            Err(_) => return Next::Nothing,
        };
        let mut ticks = Vec::new();
        for row in rows {
            if self.consumed.contains(&row.request_id) {
                continue;
            }
            // A message that cannot be read is consumed all the same: it would come back for ever.
            ticks.extend(codec::decode::<TickKind>(&row.body, "a message").ok());
            self.consumed.push(row.request_id);
        }
        if ticks.is_empty() { Next::Nothing } else { Next::Ticks(ticks) }
    }

    fn batch(&mut self, state: &State, blobs: &mut BlobCache) -> RunBatch {
        let entries = std::mem::take(&mut self.pending);
        self.pending_since = None;
        let (turns, turn_trims) = self.turns.take(&self.options.limits);
        let ticks = entries.len() as u32;
        let events = entries.iter().map(|entry| entry.events.len() as u32).sum();
        let first_event = entries.iter().flat_map(|entry| &entry.events).next().map_or(0, |event| event.seq);
        let body = codec::encode(&entries);
        self.bytes += body.len() as u64;
        let snapshot = self.snapshot_if_due(state);
        RunBatch {
            run: self.options.run.clone(),
            epoch: self.options.epoch,
            expected: self.committed,
            create: self.options.create.take(),
            record: (ticks > 0).then_some(Record { ticks, first_event, events, body }),
            snapshot,
            status: self.status_change(state),
            turns,
            turn_trims,
            blobs: blobs.take_fresh(),
            consumed: std::mem::take(&mut self.consumed),
            send: self.news_for_parent(state),
            trim_before: self.trim_before.take(),
            ..RunBatch::default()
        }
    }

    fn snapshot_if_due(&mut self, state: &State) -> Option<NewSnapshot> {
        let interval = self.options.limits.snapshot_interval;
        let (ticks, turns) = self.snapshot_at;
        let due = state.ticks - ticks >= interval || state.turns - turns >= interval;
        due.then(|| self.snapshot(state))
    }

    fn snapshot(&mut self, state: &State) -> NewSnapshot {
        let (body, state_hash) = codec::state_bytes(state);
        self.snapshot_at = (state.ticks, state.turns);
        self.bytes += body.len() as u64;
        if self.bytes > self.options.limits.journal_bytes_kept {
            // All but the newest kept snapshot, and what came before it, may go.
            self.trim_before = self.snapshots.last().copied();
            self.snapshots.clear();
            self.bytes = body.len() as u64;
        }
        self.snapshots.push(state.ticks);
        NewSnapshot { tick: state.ticks, event: state.events, state_hash, body }
    }

    fn status_change(&mut self, state: &State) -> Option<StatusChange> {
        let status = match &state.phase {
            Phase::Ended(result) => run_status(result.status),
            Phase::Created | Phase::Running if state.paused => RunStatus::Paused,
            Phase::Created | Phase::Running => RunStatus::Running,
        };
        if self.status == Some(status) {
            return None;
        }
        self.status = Some(status);
        let result = state.result().map(|_| codec::encode(&FinalReport::of(&self.options.program, state)));
        Some(StatusChange { status, at: state.now, result })
    }

    /// The end of a child is a message to its parent, in the same transaction.
    fn news_for_parent(&self, state: &State) -> Vec<InboxRow> {
        let (Some((parent, call)), Some(result)) = (&self.options.parent, state.result()) else { return Vec::new() };
        let outcome = TaskOutcome { output: result.output.clone(), error: result.error.clone(), meta: Value::Null };
        let tick = TickKind::CallResult { call: *call, status: result.status, outcome };
        vec![InboxRow {
            run: parent.clone(),
            request_id: format!("child:{}", self.options.run).into(),
            body: codec::encode(&tick),
            at: state.now,
        }]
    }

    async fn commit(&mut self, batch: RunBatch) -> Result<(), RuntimeError> {
        let ticks = batch.record.as_ref().map_or(0, |record| u64::from(record.ticks));
        let (sender, receiver) = oneshot::channel();
        // A receiver that is gone means that the loop was dropped: nobody needs the answer.
        let reply = Box::new(move |verdict| drop(sender.send(verdict)));
        match self.options.commit_here {
            true => self.options.writer.submit_here(batch, reply),
            false => self.options.writer.submit(batch, reply),
        }
        let verdict = receiver.await.map_err(|_| RuntimeError::Closing)?;
        let verdict = verdict.inspect_err(|_| self.failed = true)?;
        match verdict {
            Verdict::Committed => {
                self.committed += ticks;
                Ok(())
            }
            Verdict::Fenced => Err(RuntimeError::Fenced),
            Verdict::Conflict => Err(RuntimeError::RunExists(self.options.run.to_string())),
        }
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

impl<A: Adapter> Adapter for Durable<A> {
    forward!(inner: run_worker, get_now, entropy, wait_receive, cancel_worker, start_child, cancel_child, write_to_event_stream, send_event, finalize_step, ended);

    fn on_tick(&mut self, tick: &Tick, output: &Output, state: &State) {
        let events = output
            .commands
            .iter()
            .filter_map(|command| if let Command::PublishEvent(event) = command { Some(event.clone()) } else { None })
            .collect();
        self.pending.push(TickEntry { tick: tick.clone(), digest: codec::digest(&output.commands), events });
        self.turns.extend(&output.turns);
        self.pending_since.get_or_insert_with(Instant::now);
        self.inner.on_tick(tick, output, state);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let batch = self.batch(state, blobs);
        self.commit(batch).await
    }

    fn wants_flush(&mut self) -> bool {
        self.pending_since.is_some_and(|since| since.elapsed() >= OVERDUE)
    }

    async fn wait_for_next_task(&mut self, waiting: Waiting) -> Next {
        loop {
            match self.inner.wait_for_next_task(waiting).await {
                Next::Inbox => match self.read_inbox() {
                    Next::Nothing if !waiting.poll => {}
                    next => return next,
                },
                next => return next,
            }
        }
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        let Some(bytes) = self.options.store.blob(hash)? else { return Ok(None) };
        let value = windlass_value::decode(&bytes);
        value.map(Some).map_err(|error| RuntimeError::Damaged { what: "a value", why: error.to_string() })
    }

    async fn release(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        let mut batch = self.batch(state, blobs);
        if batch.snapshot.is_none() {
            batch.snapshot = Some(self.snapshot(state));
        }
        batch.timer = Some(state.next_due());
        batch.status = Some(StatusChange {
            status: if state.paused { RunStatus::Paused } else { RunStatus::Waiting },
            at: state.now,
            result: None,
        });
        batch.release = true;
        self.commit(batch).await
    }

    async fn close(&mut self) {
        // A run that is left in the middle is given back, so that another process can go on with it at once. A store that
        // has failed is not asked for anything more.
        if !self.failed && self.committed > 0 {
            let _ = self.options.store.release(&self.options.run, self.options.epoch);
        }
        self.inner.close().await;
    }
}
