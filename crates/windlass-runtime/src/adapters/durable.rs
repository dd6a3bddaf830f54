//! A decorator that makes a run durable: every tick is in the store before any of its effects begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use windlass_core::state::Phase;
use windlass_core::{Command, EffectKey, Limits, Output, State, Status, TaskOutcome, Tick, TickKind, TurnRecord};
use windlass_store::{
    GroupWriter, InboxRow, NewRun, NewSnapshot, Record, RunBatch, RunStatus, StatusChange, Store, Verdict,
};
use windlass_value::{BlobHash, Timestamp, Value};

use super::turns::{TURN_WAITS_MAX, TurnBuffer};
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
    /// Time is skipped when nothing else can happen: the store is asked for messages before that.
    pub virtual_time: bool,
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
    /// Messages for other runs that go with the next commit.
    messages: Vec<InboxRow>,
    /// Children that are no longer wanted, of which the next commit tells.
    unwanted: Vec<InboxRow>,
    /// The store needs no word from us any more: the run has ended or was given back, or the store has failed.
    let_go: bool,
    /// Something has been committed since the run came into memory.
    begun: bool,
}

impl<A: Adapter> Durable<A> {
    /// `turns` are those that came out of the replay: their rows may not have been written.
    pub fn new(inner: A, options: DurableOptions, state: &State, turns: &[TurnRecord]) -> Durable<A> {
        let mut buffer = TurnBuffer::default();
        buffer.extend(turns);
        Durable {
            inner,
            options,
            committed: state.ticks,
            pending: Vec::new(),
            pending_since: None,
            turns: buffer,
            consumed: Vec::new(),
            status: None,
            snapshot_at: (state.ticks, state.turns),
            snapshots: Vec::new(),
            bytes: 0,
            trim_before: None,
            messages: Vec::new(),
            unwanted: Vec::new(),
            let_go: false,
            begun: false,
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
        let ticks = entries.len() as u32;
        let events = entries.iter().map(|entry| entry.events.len() as u32).sum();
        let first_event = entries.iter().flat_map(|entry| &entry.events).next().map_or(0, |event| event.seq);
        let body = codec::encode(&entries);
        self.bytes += body.len() as u64;
        let snapshot = self.snapshot_if_due(state);
        // After a crash the turns since the newest snapshot come out of the replay again: none may be older.
        let (turns, turn_trims) = match snapshot.is_some() || state.result().is_some() || self.turns.is_due() {
            true => self.turns.take(&self.options.limits),
            false => Default::default(),
        };
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
            send: self.news(state),
            call_off: std::mem::take(&mut self.unwanted),
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

    /// What other runs must hear, in the same transaction.
    fn news(&mut self, state: &State) -> Vec<InboxRow> {
        let mut news = std::mem::take(&mut self.messages);
        news.extend(self.news_for_parent(state));
        news
    }

    /// A child that is no longer wanted is told so even if this process dies right here. One that does not exist yet is
    /// never made: its start may still be under way, here or in a process that has lost the parent.
    fn cancel_of_child(&self, key: &EffectKey, at: Timestamp) -> InboxRow {
        let request = codec::call_off_id(&self.options.run);
        let reason = "its parent no longer wants it".into();
        let tick = TickKind::CancelRun { reason, request: Some(request.clone()), by_caller: true };
        let run = codec::child_id(&self.options.run, key).into();
        InboxRow { run, request_id: request, body: codec::encode(&tick), at }
    }

    /// The end of a child is a message to its parent, unless it has replied.
    fn news_for_parent(&self, state: &State) -> Option<InboxRow> {
        let result = state.result().filter(|result| result.reply.is_none())?;
        let outcome = TaskOutcome {
            output: result.output.clone(),
            error: result.error.clone(),
            ..TaskOutcome::success(Value::Null)
        };
        self.word_to_parent(result.status, outcome, state.now)
    }

    /// One word for one call: a second one under the same name would be dropped by the store.
    fn word_to_parent(&self, status: Status, outcome: TaskOutcome, at: Timestamp) -> Option<InboxRow> {
        let (parent, call) = self.options.parent.as_ref()?;
        let tick = TickKind::CallResult { call: *call, status, outcome };
        let request_id = format!("child:{}", self.options.run).into();
        Some(InboxRow { run: parent.clone(), request_id, body: codec::encode(&tick), at })
    }

    /// History that nothing else would write soon.
    async fn write_turns(&mut self) -> Result<(), RuntimeError> {
        let (turns, turn_trims) = self.turns.take(&self.options.limits);
        let batch = RunBatch {
            run: self.options.run.clone(),
            epoch: self.options.epoch,
            expected: self.committed,
            turns,
            turn_trims,
            ..RunBatch::default()
        };
        self.commit(batch).await
    }

    async fn commit(&mut self, batch: RunBatch) -> Result<(), RuntimeError> {
        let ticks = batch.record.as_ref().map_or(0, |record| u64::from(record.ticks));
        let creates = batch.create.is_some();
        let last = batch.release || batch.status.as_ref().is_some_and(|change| change.status.is_final());
        let (sender, receiver) = oneshot::channel();
        // A receiver that is gone means that the loop was dropped: nobody needs the answer.
        let reply = Box::new(move |verdict| drop(sender.send(verdict)));
        match self.options.commit_here {
            true => self.options.writer.submit_here(batch, reply),
            false => self.options.writer.submit(batch, reply),
        }
        // Until the store has said yes, nobody knows whose the run is.
        self.let_go = true;
        match receiver.await.map_err(|_| RuntimeError::Closing)?? {
            Verdict::Committed => {
                self.begun = true;
                self.committed += ticks;
                self.let_go = last;
                Ok(())
            }
            Verdict::Fenced => Err(RuntimeError::Fenced),
            Verdict::Conflict if creates => Err(RuntimeError::RunExists(self.options.run.to_string())),
            Verdict::Conflict => {
                let why = "it is not where this process has left it".to_owned();
                Err(RuntimeError::Damaged { what: "the journal", why })
            }
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
    forward!(inner: run_worker, get_now, entropy, wait_receive, cancel_worker, end_lease, start_child, cancel_child, write_to_event_stream, send_event, finalize_step, replied, ended);

    fn on_tick(&mut self, tick: &Tick, output: &Output, state: &State) {
        for command in &output.commands {
            if let Command::CancelChild { key } = command {
                self.unwanted.push(self.cancel_of_child(key, tick.at));
            }
            // In the same transaction as the tick: a parent sees no reply that could be lost, and loses none.
            if let Command::Reply(reply) = command {
                let (status, outcome) = reply.call_result();
                self.messages.extend(self.word_to_parent(status, outcome, tick.at));
            }
        }
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
        // Whoever has started or resumed the run waits for its first commit.
        !self.begun || self.pending_since.is_some_and(|since| since.elapsed() >= OVERDUE)
    }

    async fn wait_for_next_task(&mut self, waiting: Waiting) -> Next {
        if self.options.virtual_time
            && waiting.until.is_some()
            && let Next::Ticks(ticks) = self.read_inbox()
        {
            return Next::Ticks(ticks);
        }
        loop {
            let next = match self.turns.is_empty() || waiting.poll {
                true => self.inner.wait_for_next_task(waiting).await,
                false => {
                    let next = tokio::time::timeout(TURN_WAITS_MAX, self.inner.wait_for_next_task(waiting)).await;
                    match next {
                        Ok(next) => next,
                        Err(_) => match self.write_turns().await {
                            Ok(()) => continue,
                            Err(error) => return Next::Failed(error),
                        },
                    }
                }
            };
            match next {
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
        codec::blob_value(hash, &bytes).map(Some)
    }

    async fn release(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        let mut batch = self.batch(state, blobs);
        if batch.snapshot.is_none() {
            batch.snapshot = Some(self.snapshot(state));
            let (turns, turn_trims) = self.turns.take(&self.options.limits);
            batch.turns.extend(turns);
            batch.turn_trims.extend(turn_trims);
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
        // A run that is left in the middle is given back, so that another process can go on with it at once.
        if !self.let_go && self.committed > 0 {
            let _ = self.options.store.release(&self.options.run, self.options.epoch);
        }
        self.inner.close().await;
    }
}
