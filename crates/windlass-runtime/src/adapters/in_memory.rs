//! A decorator for in-memory runs: it writes none of their ticks, events and states, so a step costs no more than its
//! reduction. It writes to the store only what other runs and processes need.

use windlass_core::{State, Tick, TickKind, TickOutput};
use windlass_value::{BlobHash, Value};

use super::run_outbox::{RunOutbox, RunOutboxOptions};
use crate::RuntimeError;
use crate::adapter::{Adapter, Journal, NextInput, TickSource, WaitCondition};
use crate::blobs::BlobCache;
use crate::concerns;

pub(crate) struct InMemoryAdapter<A> {
    inner: A,
    outbox: RunOutbox,
}

impl<A: Adapter> InMemoryAdapter<A> {
    pub(crate) fn new(inner: A, options: RunOutboxOptions, state: &State) -> InMemoryAdapter<A> {
        InMemoryAdapter { inner, outbox: RunOutbox::new(options, 0).resuming_from(state) }
    }
}

impl<A: Adapter> Adapter for InMemoryAdapter<A> {
    concerns!(own: ticks, journal; inner: time, workers, children, outward);

    async fn close(&mut self) {
        self.outbox.release_ownership();
        self.inner.close().await;
    }
}

impl<A: Adapter> Journal for InMemoryAdapter<A> {
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State) {
        self.outbox.note(tick, output);
        self.inner.journal().on_tick(tick, output, state);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        if !self.outbox.has_pending_changes(state) && !blobs.has_fresh() {
            return Ok(());
        }
        let batch = self.outbox.batch(state, blobs.take_fresh());
        // Boxed: most of the time there is nothing to write.
        Box::pin(self.outbox.commit(batch)).await
    }

    /// A flush costs nothing, and observers see the progress of a long computation.
    fn wants_flush(&mut self) -> bool {
        true
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        self.outbox.load_blob(hash)
    }

    async fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.inner.journal().evict(state, blobs).await
    }
}

impl<A: Adapter> TickSource for InMemoryAdapter<A> {
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
            match self.inner.ticks().wait_for_next_task(waiting).await {
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
