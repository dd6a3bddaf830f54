//! A decorator that evicts idle runs from memory.

use std::sync::Arc;
use std::time::Duration;

use crate::adapter::{Adapter, NextInput, TickKind, TickSource, TimeSource, WaitCondition};
use crate::adapters::RunMailbox;
use crate::concerns;
use crate::engine::Residency;

/// Evicts a run that has been idle for `evict_after`, or sooner if the engine needs its memory. A timer, a signal or a process start reloads it.
pub(crate) struct IdleEviction<A> {
    inner: A,
    evict_after: Duration,
    residency: Arc<Residency>,
    mailbox: RunMailbox,
}

impl<A: Adapter> IdleEviction<A> {
    pub(crate) fn new(
        inner: A,
        evict_after: Duration,
        residency: Arc<Residency>,
        mailbox: RunMailbox,
    ) -> IdleEviction<A> {
        IdleEviction { inner, evict_after, residency, mailbox }
    }

    /// Waits like the inner adapter, for a run that must not be evicted now.
    async fn wait_resident(&mut self, waiting: WaitCondition) -> NextInput {
        loop {
            match self.inner.ticks().wait_for_next_task(waiting).await {
                NextInput::Evict if waiting.poll => return NextInput::Nothing,
                NextInput::Evict => {}
                next => return next,
            }
        }
    }

    /// Waits until the run is asked to leave memory and has no other input.
    async fn wait_idle(&mut self, waiting: WaitCondition) -> NextInput {
        let _idle = self.residency.mark_idle(&self.mailbox);
        loop {
            match self.inner.ticks().wait_for_next_task(waiting).await {
                NextInput::Evict if self.inner.ticks().has_pending_input(false) => {}
                next => return next,
            }
        }
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
            return self.wait_resident(waiting).await;
        }
        let evict_after = self.evict_after;
        tokio::time::timeout(evict_after, self.wait_idle(waiting)).await.unwrap_or(NextInput::Evict)
    }

    fn has_pending_input(&mut self, buffered: bool) -> bool {
        self.inner.ticks().has_pending_input(buffered)
    }

    fn send_event(&mut self, tick: TickKind) {
        self.inner.ticks().send_event(tick);
    }
}
