//! A decorator that makes a run durable: every tick is in the store before any of its effects begins.

use std::time::{Duration, Instant};

use windlass_core::{Command, Output, State, Tick, TickKind, IterationRecord};
use windlass_store::{NewSnapshot, Record, RunBatch, StatusChange};
use windlass_value::{BlobHash, Value};

use super::post::{Post, PostOptions, evicted_status};
use super::iterations::{MAX_PENDING_TIME, IterationBuffer};
use crate::RuntimeError;
use crate::adapter::{Adapter, Journal, Next, TickSource, Waiting};
use crate::blobs::BlobCache;
use crate::codec::{self, TickEntry};
use crate::concerns;

/// An event is shown, and so durable, at most this long after its tick.
const MAX_EVENT_DELAY: Duration = Duration::from_millis(50);

pub(crate) struct Durable<A> {
    inner: A,
    post: Post,
    pending: Vec<TickEntry>,
    pending_since: Option<Instant>,
    iterations: IterationBuffer,
    /// Ticks and turns at the newest snapshot.
    snapshot_at: (u64, u64),
    /// Snapshots that are kept, and the bytes written since the oldest.
    snapshots: Vec<u64>,
    bytes: u64,
    trim_before: Option<u64>,
}

impl<A: Adapter> Durable<A> {
    /// `turns` are those that came out of the replay: their rows may not have been written.
    pub(crate) fn new(inner: A, options: PostOptions, state: &State, iterations: &[IterationRecord]) -> Durable<A> {
        let mut buffer = IterationBuffer::default();
        buffer.extend(iterations);
        Durable {
            inner,
            post: Post::new(options, state.ticks).going_on(state).listing_waits(),
            pending: Vec::new(),
            pending_since: None,
            iterations: buffer,
            snapshot_at: (state.ticks, state.iterations),
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
        // After a crash the turns since the newest snapshot come out of the replay again: none may be older.
        let (iterations, turn_trims) = match snapshot.is_some() || state.result().is_some() || self.iterations.is_due() {
            true => self.iterations.take(&self.post.options.limits),
            false => Default::default(),
        };
        RunBatch {
            record: (ticks > 0).then_some(Record { ticks, first_event, events, body }),
            snapshot,
            iterations: turns: iterations,
            iteration_trims: turn_trims,
            trim_before: self.trim_before.take(),
            ..self.post.batch(state, blobs.take_fresh())
        }
    }

    fn snapshot_if_due(&mut self, state: &State) -> Option<NewSnapshot> {
        let interval = self.post.options.limits.snapshot_interval;
        let (ticks, iterations) = self.snapshot_at;
        let due = state.ticks - ticks >= interval || state.iterations - iterations >= interval;
        due.then(|| self.snapshot(state))
    }

    fn snapshot(&mut self, state: &State) -> NewSnapshot {
        let (body, state_hash) = codec::state_bytes(state);
        self.snapshot_at = (state.ticks, state.iterations);
        self.bytes += body.len() as u64;
        if self.bytes > self.post.options.limits.max_journal_bytes {
            // All but the newest kept snapshot, and what came before it, may go.
            self.trim_before = self.snapshots.last().copied();
            self.snapshots.clear();
            self.bytes = body.len() as u64;
        }
        self.snapshots.push(state.ticks);
        NewSnapshot { tick: state.ticks, event: state.events, state_hash, body }
    }

    /// History that nothing else would write soon.
    async fn write_iterations(&mut self) -> Result<(), RuntimeError> {
        let (iterations, turn_trims) = self.iterations.take(&self.post.options.limits);
        let batch = RunBatch { iterations: turns: iterations, iteration_trims: turn_trims, ..self.post.empty_batch() };
        self.post.commit(batch).await
    }
}

impl<A: Adapter> Adapter for Durable<A> {
    concerns!(own: ticks, journal; inner: time, workers, children, outward);

    async fn close(&mut self) {
        self.post.give_back();
        self.inner.close().await;
    }
}

impl<A: Adapter> Journal for Durable<A> {
    fn on_tick(&mut self, tick: &Tick, output: &Output, state: &State) {
        self.post.note(tick, output);
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
        self.post.commit(batch).await
    }

    fn wants_flush(&mut self) -> bool {
        // Whoever has started or resumed the run waits for its first commit.
        !self.post.begun || self.pending_since.is_some_and(|since| since.elapsed() >= MAX_EVENT_DELAY)
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        self.post.load(hash)
    }

    async fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        let mut batch = self.batch(state, blobs);
        if batch.snapshot.is_none() {
            batch.snapshot = Some(self.snapshot(state));
            let (iterations, turn_trims) = self.iterations.take(&self.post.options.limits);
            batch.iterations.extend(iterations);
            batch.iteration_trims.extend(turn_trims);
        }
        batch.timer = Some(state.next_due());
        batch.status = Some(StatusChange { status: evicted_status(state), at: state.now, result: None });
        batch.release = true;
        self.post.commit(batch).await
    }
}

impl<A: Adapter> TickSource for Durable<A> {
    async fn wait_receive(&mut self) -> Next {
        self.inner.ticks().wait_receive().await
    }

    async fn wait_for_next_task(&mut self, waiting: Waiting) -> Next {
        if self.post.options.virtual_time
            && waiting.until.is_some()
            && let Next::Ticks(ticks) = self.post.read_inbox()
        {
            return Next::Ticks(ticks);
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
                            Err(error) => return Next::Failed(error),
                        },
                    }
                }
            };
            match next {
                Next::Inbox => match self.post.read_inbox() {
                    Next::Nothing if !waiting.poll => {}
                    next => return next,
                },
                next => return next,
            }
        }
    }

    fn more_comes(&mut self, buffered: bool) -> bool {
        self.inner.ticks().more_comes(buffered)
    }

    fn send_event(&mut self, tick: TickKind) {
        self.inner.ticks().send_event(tick);
    }
}
