//! A decorator that lets a waiting run leave memory.

use std::time::Duration;

use crate::adapter::{Adapter, Next, Waiting};
use crate::forward;

/// A run that has only waited for this long is released; it comes back on a timer, a signal or a start of the process.
pub struct IdleRelease<A> {
    inner: A,
    after: Duration,
}

impl<A: Adapter> IdleRelease<A> {
    pub fn new(inner: A, after: Duration) -> IdleRelease<A> {
        IdleRelease { inner, after }
    }
}

impl<A: Adapter> Adapter for IdleRelease<A> {
    forward!(inner: get_now, entropy, wait_receive, more_comes, on_tick, flush, wants_flush, load_blob, run_worker, cancel_worker, end_lease, start_child, cancel_child, write_to_event_stream, send_event, finalize_step, settled, release, replied, ended, close);

    async fn wait_for_next_task(&mut self, waiting: Waiting) -> Next {
        let soon = self.inner.get_now() + windlass_value::Duration(self.after.as_micros() as u64);
        let due_soon = waiting.until.is_some_and(|at| at <= soon);
        if waiting.poll || !waiting.quiet || due_soon {
            return self.inner.wait_for_next_task(waiting).await;
        }
        let next = tokio::time::timeout(self.after, self.inner.wait_for_next_task(waiting)).await;
        next.unwrap_or(Next::Release)
    }
}
