//! A decorator that evicts idle runs from memory.

use std::time::Duration;

use crate::adapter::{Adapter, NextInput, TickKind, TickSource, TimeSource, WaitCondition};
use crate::concerns;

/// Evicts a run that has been idle for `evict_after`. A timer, a signal or a process start reloads it.
pub(crate) struct IdleEviction<A> {
    inner: A,
    evict_after: Duration,
}

impl<A: Adapter> IdleEviction<A> {
    pub(crate) fn new(inner: A, evict_after: Duration) -> IdleEviction<A> {
        IdleEviction { inner, evict_after }
    }
}

impl<A: Adapter> Adapter for IdleEviction<A> {
    concerns!(own: ticks; inner: time, journal, workers, children, outward);

    async fn close(&mut self) {
        self.inner.close().await;
    }
}

impl<A: Adapter> TickSource for IdleEviction<A> {
    async fn wait_receive(&mut self) -> NextInput {
        self.inner.ticks().wait_receive().await
    }

    async fn wait_for_next_task(&mut self, waiting: WaitCondition) -> NextInput {
        let soon = self.inner.time().get_now() + windlass_value::Duration(self.evict_after.as_micros() as u64);
        let due_soon = waiting.until.is_some_and(|at| at <= soon);
        if waiting.poll || !waiting.quiet || due_soon {
            return self.inner.ticks().wait_for_next_task(waiting).await;
        }
        let next = tokio::time::timeout(self.evict_after, self.inner.ticks().wait_for_next_task(waiting)).await;
        next.unwrap_or(NextInput::Evict)
    }

    fn has_pending_input(&mut self, buffered: bool) -> bool {
        self.inner.ticks().has_pending_input(buffered)
    }

    fn send_event(&mut self, tick: TickKind) {
        self.inner.ticks().send_event(tick);
    }
}
