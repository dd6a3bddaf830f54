//! A decorator for runs that live in memory alone: of their ticks, events and states nothing is written, so a step costs no
//! more than its reduction. The store hears what others must know, and only then.

use windlass_core::{Output, State, Tick, TickKind};
use windlass_value::{BlobHash, Value};

use super::post::{Post, PostOptions};
use crate::RuntimeError;
use crate::adapter::{Adapter, Journal, Next, TickSource, Waiting};
use crate::blobs::BlobCache;
use crate::concerns;

pub(crate) struct InMemoryAdapter<A> {
    inner: A,
    post: Post,
}

impl<A: Adapter> InMemoryAdapter<A> {
    pub(crate) fn new(inner: A, options: PostOptions, state: &State) -> InMemoryAdapter<A> {
        InMemoryAdapter { inner, post: Post::new(options, 0).going_on(state) }
    }
}

impl<A: Adapter> Adapter for InMemoryAdapter<A> {
    concerns!(own: ticks, journal; inner: time, workers, children, outward);

    async fn close(&mut self) {
        self.post.give_back();
        self.inner.close().await;
    }
}

impl<A: Adapter> Journal for InMemoryAdapter<A> {
    fn on_tick(&mut self, tick: &Tick, output: &Output, state: &State) {
        self.post.note(tick, output);
        self.inner.journal().on_tick(tick, output, state);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        if !self.post.owes(state) && !blobs.has_fresh() {
            return Ok(());
        }
        let batch = self.post.batch(state, blobs.take_fresh());
        // Boxed: most often there is nothing to tell.
        Box::pin(self.post.commit(batch)).await
    }

    /// A flush costs nothing, and whoever watches sees how far a long computation is.
    fn wants_flush(&mut self) -> bool {
        true
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        self.post.load(hash)
    }

    async fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.inner.journal().evict(state, blobs).await
    }
}

impl<A: Adapter> TickSource for InMemoryAdapter<A> {
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
            match self.inner.ticks().wait_for_next_task(waiting).await {
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
