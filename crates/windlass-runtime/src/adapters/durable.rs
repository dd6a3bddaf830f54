//! A decorator that makes a run durable: every tick is in the store before any of its effects starts.

use std::time::{Duration, Instant};

use windlass_core::{Command, IterationRecord, State, Tick, TickKind, TickOutput};
use windlass_store::{JournalRecord, NewSnapshot, RunBatch, StatusChange};
use windlass_value::{BlobHash, Value};

use super::iterations::{IterationBuffer, MAX_PENDING_TIME};
use super::run_outbox::{RunOutbox, RunOutboxOptions, evicted_status};
use crate::RuntimeError;
use crate::adapter::{Adapter, Journal, NextInput, TickSource, WaitCondition};
use crate::blobs::BlobCache;
use crate::codec::{self, TickEntry};
use crate::concerns;

/// The maximum delay between a tick and the publication of its events. Events are published after the commit, so
/// this bounds the delay of the commit too.
const MAX_EVENT_DELAY: Duration = Duration::from_millis(50);

pub(crate) struct DurableAdapter<A> {
    inner: A,
    outbox: RunOutbox,
    pending: Vec<TickEntry>,
    pending_since: Option<Instant>,
    iterations: IterationBuffer,
    /// Ticks and iterations at the newest snapshot.
    last_snapshot: (u64, u64),
    /// Ticks of the retained snapshots, and the bytes written since the oldest of them.
    snapshots: Vec<u64>,
    bytes: u64,
    trim_before: Option<u64>,
}

impl<A: Adapter> DurableAdapter<A> {
    /// `iterations` are those that the replay produced: their rows may not have been written.
    pub(crate) fn new(
        inner: A,
        options: RunOutboxOptions,
        state: &State,
        iterations: &[IterationRecord],
    ) -> DurableAdapter<A> {
        let mut buffer = IterationBuffer::default();
        buffer.extend(iterations);
        DurableAdapter {
            inner,
            outbox: RunOutbox::new(options, state.ticks).resuming_from(state).with_listed_waits(),
            pending: Vec::new(),
            pending_since: None,
            iterations: buffer,
            last_snapshot: (state.ticks, state.iterations),
            snapshots: Vec::new(),
            bytes: 0,
            trim_before: None,
        }
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
        // After a crash the replay reproduces only the iterations since the newest snapshot, so a snapshot is written
        // together with all buffered iterations.
        let (iterations, iteration_trims) =
            match snapshot.is_some() || state.result().is_some() || self.iterations.is_due() {
                true => self.iterations.take(&self.outbox.options.limits),
                false => Default::default(),
            };
        RunBatch {
            record: (ticks > 0).then_some(JournalRecord { ticks, first_event, events, body }),
            snapshot,
            iterations,
            iteration_trims,
            trim_before: self.trim_before.take(),
            ..self.outbox.batch(state, blobs.take_fresh())
        }
    }

    fn snapshot_if_due(&mut self, state: &State) -> Option<NewSnapshot> {
        let interval = self.outbox.options.limits.snapshot_interval;
        let (ticks, iterations) = self.last_snapshot;
        let due = state.ticks - ticks >= interval || state.iterations - iterations >= interval;
        due.then(|| self.snapshot(state))
    }

    fn snapshot(&mut self, state: &State) -> NewSnapshot {
        let (body, state_hash) = codec::state_bytes(state);
        self.last_snapshot = (state.ticks, state.iterations);
        self.bytes += body.len() as u64;
        if self.bytes > self.outbox.options.limits.max_journal_bytes {
            // The previous snapshot and the journal from there on are kept. Older snapshots and the journal before it
            // may be deleted.
            self.trim_before = self.snapshots.last().copied();
            self.snapshots.clear();
            self.bytes = body.len() as u64;
        }
        self.snapshots.push(state.ticks);
        NewSnapshot { tick: state.ticks, event: state.events, state_hash, body }
    }

    /// Writes iteration history that no other commit would write soon.
    async fn write_iterations(&mut self) -> Result<(), RuntimeError> {
        let (iterations, iteration_trims) = self.iterations.take(&self.outbox.options.limits);
        let batch = RunBatch { iterations, iteration_trims, ..self.outbox.empty_batch() };
        self.outbox.commit(batch).await
    }
}

impl<A: Adapter> Adapter for DurableAdapter<A> {
    concerns!(own: ticks, journal; inner: time, workers, children, outward);

    async fn close(&mut self) {
        self.outbox.release_ownership();
        self.inner.close().await;
    }
}

impl<A: Adapter> Journal for DurableAdapter<A> {
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State) {
        self.outbox.note(tick, output);
        let events = output
            .commands
            .iter()
            .filter_map(|command| if let Command::PublishEvent(event) = command { Some(event.clone()) } else { None })
            .collect();
        self.pending.push(TickEntry { tick: tick.clone(), digest: codec::digest(&output.commands), events });
        self.iterations.extend(&output.iterations);
        self.pending_since.get_or_insert_with(Instant::now);
        self.inner.journal().on_tick(tick, output, state);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let batch = self.batch(state, blobs);
        self.outbox.commit(batch).await
    }

    fn wants_flush(&mut self) -> bool {
        // The caller that started or resumed the run waits for its first commit.
        !self.outbox.has_committed || self.pending_since.is_some_and(|since| since.elapsed() >= MAX_EVENT_DELAY)
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        self.outbox.load_blob(hash)
    }

    async fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        let mut batch = self.batch(state, blobs);
        if batch.snapshot.is_none() {
            batch.snapshot = Some(self.snapshot(state));
            let (iterations, iteration_trims) = self.iterations.take(&self.outbox.options.limits);
            batch.iterations.extend(iterations);
            batch.iteration_trims.extend(iteration_trims);
        }
        batch.timer = Some(state.next_due());
        batch.status = Some(StatusChange { status: evicted_status(state), at: state.now, result: None });
        batch.release = true;
        self.outbox.commit(batch).await
    }
}

impl<A: Adapter> TickSource for DurableAdapter<A> {
    async fn wait_receive(&mut self) -> NextInput {
        self.inner.ticks().wait_receive().await
    }

    async fn wait_for_next_task(&mut self, waiting: WaitCondition) -> NextInput {
        if self.outbox.options.virtual_time
            && waiting.until.is_some()
            && let NextInput::Ticks(ticks) = self.outbox.read_inbox()
        {
            return NextInput::Ticks(ticks);
        }
        loop {
            let next = match self.iterations.is_empty() || waiting.poll {
                true => self.inner.ticks().wait_for_next_task(waiting).await,
                false => {
                    let next =
                        tokio::time::timeout(MAX_PENDING_TIME, self.inner.ticks().wait_for_next_task(waiting)).await;
                    match next {
                        Ok(next) => next,
                        Err(_) => match self.write_iterations().await {
                            Ok(()) => continue,
                            Err(error) => return NextInput::Failed(error),
                        },
                    }
                }
            };
            match next {
                NextInput::Inbox => match self.outbox.read_inbox() {
                    NextInput::Nothing if !waiting.poll => {}
                    next => return next,
                },
                next => return next,
            }
        }
    }

    fn has_pending_input(&mut self, buffered: bool) -> bool {
        self.inner.ticks().has_pending_input(buffered)
    }

    fn send_event(&mut self, tick: TickKind) {
        self.inner.ticks().send_event(tick);
    }
}
