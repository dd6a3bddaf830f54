//! An embedder's own decorator around the engine's adapter: seed 001's extension point.

use std::sync::Arc;

use windlass_core::{Event, RunReply, RunResult, State, Tick, TickKind, TickOutput};
use windlass_value::{BlobHash, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::{Adapter, Journal, NextInput, Outward, TickSource, TimeSource, WaitCondition};
use crate::blobs::BlobCache;
use crate::concerns;

/// Changes one or more concerns of a run. Each method has a default that changes nothing.
///
/// A decorator may look at every tick, move the run's time, and drop, change, delay or add to what is shown of its events. It
/// may not come between a tick and its durability: it is called beside the journal, never instead of it, so no effect and no
/// event can overtake the commit that it belongs to. Its methods are called on the run's own task and must not block; a panic
/// quarantines the run, like a defect of the engine.
///
/// What a decorator does is not journaled. After a crash a new one is made, and sees the ticks after the restart only. Time is
/// the exception: the time of a tick is in the journal, so a replay comes to the same result without the decorator.
pub trait RunDecorator: Send {
    /// The time of the next tick, given the engine's. The control loop never lets a run's time go back.
    ///
    /// Timers wait by the difference between both. A run that has left memory is woken by the engine's own time.
    fn get_now(&mut self, now: Timestamp) -> Timestamp {
        now
    }

    /// A tick was reduced to this state and noted for the journal. It is not durable yet: only look.
    fn on_tick(&mut self, _tick: &Tick, _state: &State) {}

    /// An event is durable and about to be shown. `show` passes an event on: this one, others that were held back, or none.
    ///
    /// This reaches live subscribers and readers of runs in memory. Readers of a journaled run read the journal, which has
    /// all events: a decorator can neither hide nor invent any of them.
    fn write_to_event_stream(&mut self, event: Event, emit: &mut dyn FnMut(Event)) {
        emit(event);
    }

    /// The run has answered whoever started it.
    fn replied(&mut self, _reply: &RunReply) {}

    /// The run has ended, durably. `show` passes on events that were held back: afterwards nobody listens.
    fn ended(&mut self, _result: &RunResult, _emit: &mut dyn FnMut(Event)) {}

    /// The run leaves memory, because it has ended, only waits, or the engine closes.
    fn close(&mut self) {}
}

/// Makes the decorator of a run, by its id and the name of its definition. None: the run has none.
pub type DecoratorFactory = Arc<dyn Fn(&Arc<str>, &str) -> Option<Box<dyn RunDecorator>> + Send + Sync>;

/// Around the engine's own adapters, inside of what only the engine can do.
pub(crate) struct DecoratedAdapter<A> {
    inner: A,
    decorator: Box<dyn RunDecorator>,
}

impl<A: Adapter> DecoratedAdapter<A> {
    pub(crate) fn new(inner: A, decorator: Box<dyn RunDecorator>) -> DecoratedAdapter<A> {
        DecoratedAdapter { inner, decorator }
    }

    /// The engine's time when the run's time is `at`, if both go on as they do now.
    fn engine_time(&mut self, at: Timestamp) -> Timestamp {
        let now = self.inner.time().get_now();
        let shown = self.decorator.get_now(now);
        Timestamp(now.0.saturating_add(at.0.saturating_sub(shown.0)))
    }
}

impl<A: Adapter> Adapter for DecoratedAdapter<A> {
    concerns!(own: time, ticks, journal, outward; inner: workers, children);

    async fn close(&mut self) {
        self.decorator.close();
        self.inner.close().await;
    }
}

impl<A: Adapter> TimeSource for DecoratedAdapter<A> {
    fn get_now(&mut self) -> Timestamp {
        let now = self.inner.time().get_now();
        self.decorator.get_now(now)
    }

    fn entropy(&mut self) -> u64 {
        self.inner.time().entropy()
    }
}

impl<A: Adapter> TickSource for DecoratedAdapter<A> {
    async fn wait_receive(&mut self) -> NextInput {
        self.inner.ticks().wait_receive().await
    }

    async fn wait_for_next_task(&mut self, waiting: WaitCondition) -> NextInput {
        let until = waiting.until.map(|at| self.engine_time(at));
        self.inner.ticks().wait_for_next_task(WaitCondition { until, ..waiting }).await
    }

    fn has_pending_input(&mut self, buffered: bool) -> bool {
        self.inner.ticks().has_pending_input(buffered)
    }

    fn send_event(&mut self, tick: TickKind) {
        self.inner.ticks().send_event(tick);
    }
}

impl<A: Adapter> Journal for DecoratedAdapter<A> {
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State) {
        self.inner.journal().on_tick(tick, output, state);
        self.decorator.on_tick(tick, state);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.inner.journal().flush(state, blobs).await
    }

    fn wants_flush(&mut self) -> bool {
        self.inner.journal().wants_flush()
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        self.inner.journal().load_blob(hash).await
    }

    async fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.inner.journal().evict(state, blobs).await
    }
}

impl<A: Adapter> Outward for DecoratedAdapter<A> {
    fn write_to_event_stream(&mut self, event: Event) {
        let outward = self.inner.outward();
        self.decorator.write_to_event_stream(event, &mut |event| outward.write_to_event_stream(event));
    }

    fn replied(&mut self, reply: &RunReply) {
        self.decorator.replied(reply);
        self.inner.outward().replied(reply);
    }

    fn ended(&mut self, result: &RunResult) {
        let outward = self.inner.outward();
        self.decorator.ended(result, &mut |event| outward.write_to_event_stream(event));
        self.inner.outward().ended(result);
    }
}
