//! The interface between the control loop and its environment.
//!
//! The same loop runs on real time and disk, with virtual time, in memory, and in replay: only the adapter differs.
//! An adapter consists of six concerns, each a small trait:
//!
//! | concern | responsibility |
//! |---|---|
//! | [`TimeSource`] | the time and the entropy of each tick |
//! | [`TickSource`] | incoming ticks: worker reports, messages, timers |
//! | [`Journal`] | durability and stored values |
//! | [`Workers`] | jobs: starting them, cancelling them, their leases |
//! | [`Children`] | child runs |
//! | [`Outward`] | events, the reply and the end of the run, for observers |
//!
//! A decorator wraps an adapter, implements the concerns that it changes, and delegates the others with
//! [`concerns!`](crate::concerns). The engine's chain, from the inside out: `LocalAdapter` (workers, mailbox and
//! clock of this process), `DurableAdapter` or `InMemoryAdapter` (the store), `IdleEviction` (evicts a waiting run
//! from memory), `DecoratedAdapter` (an embedder's decorator, if there is one), `HostedAdapter` (operations that only
//! the engine can perform: children, handles, counters). `ReplayAdapter` is used alone.
//!
//! Events leave only through [`Outward::write_to_event_stream`], after the flush of the tick that they belong to.

use std::future::Future;

pub use windlass_core::{EffectKey, Event, Job, RunReply, RunResult, State, Tick, TickKind, TickOutput};
pub use windlass_value::{BlobHash, Timestamp, Value};

use crate::RuntimeError;
use crate::blobs::BlobCache;

/// The state of the run while the control loop waits for input.
#[derive(Clone, Copy, Debug)]
pub struct WaitCondition {
    /// The earliest timer of the state.
    pub until: Option<Timestamp>,
    /// No job is running: only time, a signal or a child's end can move the run.
    pub quiet: bool,
    /// Child runs have not ended.
    pub children: bool,
    /// The run is paused: it waits for an operator, so no time may be skipped.
    pub paused: bool,
    /// Do not wait: only poll.
    pub poll: bool,
    /// The run has become idle without publishing the idle event, because more input was expected. It needs a tick if
    /// none has arrived.
    pub idle_event_pending: bool,
}

impl WaitCondition {
    /// Returns a condition that only polls.
    pub fn poll() -> WaitCondition {
        WaitCondition {
            until: None,
            quiet: false,
            children: false,
            paused: false,
            poll: true,
            idle_event_pending: false,
        }
    }
}

/// The input that ended the wait.
#[derive(Debug)]
pub enum NextInput {
    /// Worker reports and external input, workers first.
    Ticks(Vec<TickKind>),
    /// A timer may be due.
    Timer,
    /// The store may hold messages for the run.
    Inbox,
    /// A caller requests the encoded current state.
    Snapshot(tokio::sync::oneshot::Sender<Vec<u8>>),
    /// No input is available (only when polling).
    Nothing,
    /// The run is to be evicted from memory.
    Evict,
    /// The store failed while no other input arrived.
    Failed(RuntimeError),
    /// The process is shutting down; the run stays in the store as it is.
    Closed,
}

/// The start of a child run. `call` and `key` distinguish the children of one run.
#[derive(Clone, Debug)]
pub struct ChildStart {
    /// The number of the call in the parent run; the child's end is reported with it.
    pub call: u64,
    /// The id of the child run. A repeat of the same call has the same id.
    pub id: String,
    /// The name of the definition to run.
    pub definition: std::sync::Arc<str>,
    /// The evaluated input.
    pub input: Value,
    /// The idempotency key of the call.
    pub key: EffectKey,
}

/// A job's report that has been reduced and is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FinalizedJob {
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease under which the report was made.
    pub lease_epoch: u32,
    /// The report was accepted, not refused.
    pub accepted: bool,
}

/// The time and the entropy of each tick.
pub trait TimeSource: Send {
    /// Returns the current time. A run's time goes back only by a step of the clock.
    fn get_now(&mut self) -> Timestamp;

    /// Returns the entropy for the next tick.
    fn entropy(&mut self) -> u64;

    /// Returns the microseconds by which the clock was set since the last call, and 0 while time cannot be set.
    fn take_clock_step(&mut self) -> i64;

    /// Returns the offset of the clock up to which the steps were taken.
    fn clock_offset(&mut self) -> i64;
}

/// The source of incoming ticks.
pub trait TickSource: Send {
    /// Blocks until an external tick arrives: the pull task of each round.
    fn wait_receive(&mut self) -> impl Future<Output = NextInput> + Send;

    /// Waits for the first of the given conditions. Worker reports come before external input.
    fn wait_for_next_task(&mut self, waiting: WaitCondition) -> impl Future<Output = NextInput> + Send;

    /// Reports whether input was accepted that the loop has yet to reduce. `buffered`: the loop itself holds such
    /// ticks.
    fn has_pending_input(&mut self, buffered: bool) -> bool {
        buffered
    }

    /// Puts a tick into the mailbox of this run.
    fn send_event(&mut self, tick: TickKind);
}

/// The durability of a run.
pub trait Journal: Send {
    /// Records a tick. Called after each reduction, before any of the tick's commands is executed.
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State);

    /// Makes everything that was passed to `on_tick` durable, together with the values that the reducer has created. No
    /// effect starts before this has returned.
    fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// Reports whether a commit is overdue although no effect requires one.
    fn wants_flush(&mut self) -> bool {
        false
    }

    /// Loads a stored value. Returns `None` if it does not exist.
    fn load_blob(&mut self, hash: &BlobHash) -> impl Future<Output = Result<Option<Value>, RuntimeError>> + Send;

    /// Evicts the run from memory: stores its state and its wake-up time.
    fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> impl Future<Output = Result<(), RuntimeError>> + Send;
}

/// The jobs of a run.
pub trait Workers: Send {
    /// Hands a job to a worker, with its input resolved.
    fn run_worker(&mut self, job: Job, input: Value);

    /// Asks the worker of a job to stop.
    fn cancel_worker(&mut self, job: u64);

    /// Ends the lease of a worker that holds a job between two of its tasks. Workers in this process hold no lease
    /// then.
    fn end_lease(&mut self, _job: u64, _lease_epoch: u32) {}

    /// Called when a job's result has been reduced and is durable.
    fn finalize_step(&mut self, _step: FinalizedJob) {}

    /// Called when all commands of the last commit have been executed.
    fn on_commit_applied(&mut self) {}
}

/// The child runs of a run.
pub trait Children: Send {
    /// Starts a child run. Starting the same child twice starts it once.
    fn start_child(&mut self, child: ChildStart);

    /// Wakes a child whose cancellation was written with the tick.
    fn cancel_child(&mut self, child: &str);
}

/// The output of a run to observers. Everything passed here is already durable.
pub trait Outward: Send {
    /// Publishes an event to observers.
    fn write_to_event_stream(&mut self, event: Event);

    /// The run has replied to its caller and continues.
    fn replied(&mut self, _reply: &RunReply) {}

    /// The run has ended.
    fn ended(&mut self, _result: &RunResult) {}
}

/// All concerns of a run.
pub trait Adapter: Send {
    /// Implements [`TimeSource`].
    type Time: TimeSource;
    /// Implements [`TickSource`].
    type Ticks: TickSource;
    /// Implements [`Journal`].
    type Journal: Journal;
    /// Implements [`Workers`].
    type Workers: Workers;
    /// Implements [`Children`].
    type Children: Children;
    /// Implements [`Outward`].
    type Outward: Outward;

    /// Returns the implementation of [`TimeSource`].
    fn time(&mut self) -> &mut Self::Time;
    /// Returns the implementation of [`TickSource`].
    fn ticks(&mut self) -> &mut Self::Ticks;
    /// Returns the implementation of [`Journal`].
    fn journal(&mut self) -> &mut Self::Journal;
    /// Returns the implementation of [`Workers`].
    fn workers(&mut self) -> &mut Self::Workers;
    /// Returns the implementation of [`Children`].
    fn children(&mut self) -> &mut Self::Children;
    /// Returns the implementation of [`Outward`].
    fn outward(&mut self) -> &mut Self::Outward;

    /// Wakes blocked waits and frees the resources of the run.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Declares which type implements which concern: `concerns!(own: ticks; inner: time, journal, workers, children,
/// outward)`. The type itself implements the `own` concerns; the others are delegated to the adapter of type `A` in
/// its field `inner`.
#[macro_export]
macro_rules! concerns {
    (own: $($own:ident),+ $(; $inner:ident: $($passed:ident),+)?) => {
        $($crate::concern!(own $own);)+
        $($($crate::concern!($inner $passed);)+)?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! concern {
    ($from:ident time) => { $crate::concern!($from time Time); };
    ($from:ident ticks) => { $crate::concern!($from ticks Ticks); };
    ($from:ident journal) => { $crate::concern!($from journal Journal); };
    ($from:ident workers) => { $crate::concern!($from workers Workers); };
    ($from:ident children) => { $crate::concern!($from children Children); };
    ($from:ident outward) => { $crate::concern!($from outward Outward); };
    (own $method:ident $concern:ident) => {
        type $concern = Self;

        fn $method(&mut self) -> &mut Self {
            self
        }
    };
    ($inner:ident $method:ident $concern:ident) => {
        type $concern = A::$concern;

        fn $method(&mut self) -> &mut A::$concern {
            self.$inner.$method()
        }
    };
}
