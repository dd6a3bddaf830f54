//! An embedder's decorator around the engine's adapter: seed 001's extension point.

use std::sync::Arc;

use windlass_core::{Event, RunReply, RunResult, State, Tick, TickKind, TickOutput};
use windlass_value::{BlobHash, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::{Adapter, Journal, NextInput, Outward, TickSource, TimeSource, WaitCondition};
use crate::blobs::BlobCache;
use crate::concerns;

/// Changes one or more concerns of a run. Each method has a default that changes nothing.
///
/// A decorator may observe every tick, change the run's time, and drop, change, delay or add published events. It
/// cannot come between a tick and its durability: it is called in addition to the journal, never instead of it, so no
/// effect and no event can overtake the commit that it belongs to. Its methods are called on the run's task and must
/// not block. A panic quarantines the run, like a defect of the engine.
///
/// The actions of a decorator are not journaled. After a crash the factory creates a new one, which sees only the
/// ticks after the restart. Time is the exception: the time of a tick is in the journal, so a replay gives the same
/// result without the decorator.
pub trait RunDecorator: Send {
    /// Returns the time of the next tick, given the engine's time. The control loop never lets a run's time go back.
    ///
    /// The engine shifts the run's timers by the difference between both times. An evicted run is reloaded by the
    /// engine's own time.
    fn get_now(&mut self, now: Timestamp) -> Timestamp {
        now
    }

    /// A tick was reduced to this state and recorded for the journal. It is not durable yet: only observe it.
    fn on_tick(&mut self, _tick: &Tick, _state: &State) {}

    /// An event is durable and about to be published. `emit` publishes an event: this one, delayed ones, or none.
    ///
    /// This reaches live subscribers and readers of in-memory runs. Readers of a durable run read the journal, which
    /// has all events: a decorator can neither hide nor invent any of them.
    fn write_to_event_stream(&mut self, event: Event, emit: &mut dyn FnMut(Event)) {
        emit(event);
    }

    /// The run has replied to its caller.
    fn replied(&mut self, _reply: &RunReply) {}

    /// The run has ended, durably. `emit` publishes delayed events: afterwards there are no subscribers.
    fn ended(&mut self, _result: &RunResult, _emit: &mut dyn FnMut(Event)) {}

    /// The run leaves memory, because it has ended, is idle, or the engine closes.
    fn close(&mut self) {}
}

/// Creates the decorator of a run from its id and the name of its definition. `None`: the run has no decorator.
pub type DecoratorFactory = Arc<dyn Fn(&Arc<str>, &str) -> Option<Box<dyn RunDecorator>> + Send + Sync>;

/// The adapter that applies a decorator: around the store adapters, inside `HostedAdapter`.
pub(crate) struct DecoratedAdapter<A> {
    inner: A,
    decorator: Box<dyn RunDecorator>,
}

impl<A: Adapter> DecoratedAdapter<A> {
    pub(crate) fn new(inner: A, decorator: Box<dyn RunDecorator>) -> DecoratedAdapter<A> {
        DecoratedAdapter { inner, decorator }
    }

    /// Converts the run's time `at` to the engine's time, assuming that both advance as they do now.
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

    fn take_clock_step(&mut self) -> i64 {
        self.inner.time().take_clock_step()
    }

    fn clock_offset(&mut self) -> i64 {
        self.inner.time().clock_offset()
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
