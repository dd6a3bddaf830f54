//! The one door between the control loop and the world.
//!
//! The same loop runs on real time and disk, with virtual time, in memory, and in replay: only the adapter differs.
//! Decorators wrap an adapter, forward everything and override one concern.

use std::future::Future;

pub use windlass_core::{EffectKey, Event, Job, Output, Reply, RunResult, State, Tick, TickKind};
pub use windlass_value::{BlobHash, Timestamp, Value};

use crate::RuntimeError;
use crate::blobs::BlobCache;

/// What the control loop waits for.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The earliest timer of the state.
    pub until: Option<Timestamp>,
    /// Nothing is being done: only time, a signal or a child's end can move the run.
    pub quiet: bool,
    /// Child runs have not ended.
    pub children: bool,
    /// Somebody has paused the run: it waits for a person, so no time may be skipped.
    pub paused: bool,
    /// Do not wait at all: only look.
    pub poll: bool,
    /// The run has become idle and has not said so, because more was to come: if nothing has come of it, it wants a tick.
    pub untold: bool,
}

impl Waiting {
    /// For whoever only wants to look.
    pub fn poll() -> Waiting {
        Waiting { until: None, quiet: false, children: false, paused: false, poll: true, untold: false }
    }
}

/// What ended the wait.
#[derive(Debug)]
pub enum Next {
    /// Workers' reports and outside input, workers first.
    Ticks(Vec<TickKind>),
    /// A timer may be due.
    Timer,
    /// The store may hold messages for the run.
    Inbox,
    /// Somebody wants the state as it stands, encoded.
    Snapshot(tokio::sync::oneshot::Sender<Vec<u8>>),
    /// Nothing there (only when polling).
    Nothing,
    /// The run is to leave memory.
    Release,
    /// The store has failed while nothing else was happening.
    Failed(RuntimeError),
    /// The process is going down; the run stays as it is in the store.
    Closed,
}

/// How a run's children are told apart from it.
#[derive(Clone, Debug)]
pub struct ChildStart {
    pub call: u64,
    pub id: String,
    pub definition: std::sync::Arc<str>,
    pub input: Value,
    pub key: EffectKey,
}

/// A job's report that has been reduced and is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finalized {
    pub job: u64,
    pub dispatch: u32,
    /// It was not refused.
    pub counts: bool,
}

pub trait Adapter: Send {
    /// The current time. Never goes back.
    fn get_now(&mut self) -> Timestamp;

    /// Entropy for the next tick.
    fn entropy(&mut self) -> u64;

    /// Blocks until an outside tick arrives: the pull task of each round.
    fn wait_receive(&mut self) -> impl Future<Output = Next> + Send;

    /// The first of what is waited for. Workers come before outside input.
    fn wait_for_next_task(&mut self, waiting: Waiting) -> impl Future<Output = Next> + Send;

    /// Whether something was accepted that the loop has yet to reduce. `buffered`: the loop itself has such ticks.
    fn more_comes(&mut self, buffered: bool) -> bool {
        buffered
    }

    /// Called after each tick's reduction, before any of its commands is carried out.
    fn on_tick(&mut self, tick: &Tick, output: &Output, state: &State);

    /// Makes everything that `on_tick` was told durable, together with values the reducer has made. No effect starts
    /// before this has returned.
    fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// Whether something durable is overdue although no effect asks for it.
    fn wants_flush(&mut self) -> bool {
        false
    }

    fn load_blob(&mut self, hash: &BlobHash) -> impl Future<Output = Result<Option<Value>, RuntimeError>> + Send;

    /// Hands a job to a worker, with its input put together.
    fn run_worker(&mut self, job: Job, input: Value);

    fn cancel_worker(&mut self, job: u64);

    /// Whoever holds a job between two of its tasks holds it no longer. Workers in this process hold nothing meanwhile.
    fn end_lease(&mut self, _job: u64, _dispatch: u32) {}

    fn start_child(&mut self, child: ChildStart);

    fn cancel_child(&mut self, child: &str);

    /// Shows an event outside. It is durable.
    fn write_to_event_stream(&mut self, event: Event);

    /// Puts a tick into this run's own mailbox.
    fn send_event(&mut self, tick: TickKind);

    /// A job's result has been reduced and is durable.
    fn finalize_step(&mut self, _step: Finalized) {}

    /// All that the last commit led to has been carried out.
    fn settled(&mut self) {}

    /// The run leaves memory: its state, and when it wants to be woken, are kept.
    fn release(
        &mut self,
        state: &State,
        blobs: &mut BlobCache,
    ) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// The run has answered whoever started it; the answer is durable, and the run goes on.
    fn replied(&mut self, _reply: &Reply) {}

    /// The run has ended; its result is durable.
    fn ended(&mut self, _result: &RunResult) {}

    /// Wakes blocked waits and lets go of what the run holds.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Decorators forward what they do not change: `forward!(field: method, …)` writes those methods.
#[macro_export]
macro_rules! forward {
    ($inner:ident: $($method:ident),+ $(,)?) => { $($crate::forward_one!($inner, $method);)+ };
}

#[doc(hidden)]
#[macro_export]
macro_rules! forward_one {
    ($inner:ident, get_now) => {
        fn get_now(&mut self) -> $crate::adapter::Timestamp {
            self.$inner.get_now()
        }
    };
    ($inner:ident, entropy) => {
        fn entropy(&mut self) -> u64 {
            self.$inner.entropy()
        }
    };
    ($inner:ident, wait_receive) => {
        async fn wait_receive(&mut self) -> $crate::adapter::Next {
            self.$inner.wait_receive().await
        }
    };
    ($inner:ident, wait_for_next_task) => {
        async fn wait_for_next_task(&mut self, waiting: $crate::adapter::Waiting) -> $crate::adapter::Next {
            self.$inner.wait_for_next_task(waiting).await
        }
    };
    ($inner:ident, more_comes) => {
        fn more_comes(&mut self, buffered: bool) -> bool {
            self.$inner.more_comes(buffered)
        }
    };
    ($inner:ident, on_tick) => {
        fn on_tick(
            &mut self,
            tick: &$crate::adapter::Tick,
            output: &$crate::adapter::Output,
            state: &$crate::adapter::State,
        ) {
            self.$inner.on_tick(tick, output, state);
        }
    };
    ($inner:ident, flush) => {
        async fn flush(
            &mut self,
            state: &$crate::adapter::State,
            blobs: &mut $crate::BlobCache,
        ) -> Result<(), $crate::RuntimeError> {
            self.$inner.flush(state, blobs).await
        }
    };
    ($inner:ident, wants_flush) => {
        fn wants_flush(&mut self) -> bool {
            self.$inner.wants_flush()
        }
    };
    ($inner:ident, load_blob) => {
        async fn load_blob(
            &mut self,
            hash: &$crate::adapter::BlobHash,
        ) -> Result<Option<$crate::adapter::Value>, $crate::RuntimeError> {
            self.$inner.load_blob(hash).await
        }
    };
    ($inner:ident, run_worker) => {
        fn run_worker(&mut self, job: $crate::adapter::Job, input: $crate::adapter::Value) {
            self.$inner.run_worker(job, input);
        }
    };
    ($inner:ident, cancel_worker) => {
        fn cancel_worker(&mut self, job: u64) {
            self.$inner.cancel_worker(job);
        }
    };
    ($inner:ident, end_lease) => {
        fn end_lease(&mut self, job: u64, dispatch: u32) {
            self.$inner.end_lease(job, dispatch);
        }
    };
    ($inner:ident, start_child) => {
        fn start_child(&mut self, child: $crate::adapter::ChildStart) {
            self.$inner.start_child(child);
        }
    };
    ($inner:ident, cancel_child) => {
        fn cancel_child(&mut self, child: &str) {
            self.$inner.cancel_child(child);
        }
    };
    ($inner:ident, write_to_event_stream) => {
        fn write_to_event_stream(&mut self, event: $crate::adapter::Event) {
            self.$inner.write_to_event_stream(event);
        }
    };
    ($inner:ident, send_event) => {
        fn send_event(&mut self, tick: $crate::adapter::TickKind) {
            self.$inner.send_event(tick);
        }
    };
    ($inner:ident, finalize_step) => {
        fn finalize_step(&mut self, step: $crate::adapter::Finalized) {
            self.$inner.finalize_step(step);
        }
    };
    ($inner:ident, settled) => {
        fn settled(&mut self) {
            self.$inner.settled();
        }
    };
    ($inner:ident, release) => {
        async fn release(
            &mut self,
            state: &$crate::adapter::State,
            blobs: &mut $crate::BlobCache,
        ) -> Result<(), $crate::RuntimeError> {
            self.$inner.release(state, blobs).await
        }
    };
    ($inner:ident, replied) => {
        fn replied(&mut self, reply: &$crate::adapter::Reply) {
            self.$inner.replied(reply);
        }
    };
    ($inner:ident, ended) => {
        fn ended(&mut self, result: &$crate::adapter::RunResult) {
            self.$inner.ended(result);
        }
    };
    ($inner:ident, close) => {
        async fn close(&mut self) {
            self.$inner.close().await;
        }
    };
}
