//! The one door between the control loop and the world.
//!
//! The same loop runs on real time and disk, with virtual time, in memory, and in replay: only the adapter differs. An
//! adapter is six concerns, each a small trait:
//!
//! | concern | what it answers for |
//! |---|---|
//! | [`TimeSource`] | the time and the entropy of each tick |
//! | [`TickSource`] | ticks in: workers' reports, mail, timers |
//! | [`Journal`] | what is durable, and stored values |
//! | [`Workers`] | jobs: handing them out, cancelling them, their leases |
//! | [`Children`] | child runs |
//! | [`Outward`] | events, the reply and the end, for whoever is outside |
//!
//! A decorator wraps an adapter, implements the concerns that it changes, and passes the others on with
//! [`concerns!`](crate::concerns). The engine's chain, from the inside out: `Local` (workers, mailbox and clock of this
//! process), `Durable` or `Unkept` (the store), `IdleRelease` (lets a waiting run leave memory), `Decorated` (an embedder's
//! decorator, if there is one), `Hosted` (what only the engine can do: children, handles, counts). `Replay` stands alone.
//!
//! Events leave by [`Outward::write_to_event_stream`] alone, after the flush of the tick that they belong to.

use std::future::Future;

pub use windlass_core::{EffectKey, Event, Job, RunReply, RunResult, State, Tick, TickKind, TickOutput};
pub use windlass_value::{BlobHash, Timestamp, Value};

use crate::RuntimeError;
use crate::blobs::BlobCache;

/// What the control loop waits for.
#[derive(Clone, Copy, Debug)]
pub struct WaitCondition {
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
    pub idle_event_pending: bool,
}

impl WaitCondition {
    /// For whoever only wants to look.
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

/// What ended the wait.
#[derive(Debug)]
pub enum NextInput {
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
    Evict,
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
pub struct FinalizedJob {
    pub job: u64,
    pub lease_epoch: u32,
    /// It was not refused.
    pub accepted: bool,
}

/// The time and the entropy of each tick.
pub trait TimeSource: Send {
    /// The current time. The control loop never lets a run's time go back.
    fn get_now(&mut self) -> Timestamp;

    /// Entropy for the next tick.
    fn entropy(&mut self) -> u64;
}

/// Ticks in.
pub trait TickSource: Send {
    /// Blocks until an outside tick arrives: the pull task of each round.
    fn wait_receive(&mut self) -> impl Future<Output = NextInput> + Send;

    /// The first of what is waited for. Workers come before outside input.
    fn wait_for_next_task(&mut self, waiting: WaitCondition) -> impl Future<Output = NextInput> + Send;

    /// Whether something was accepted that the loop has yet to reduce. `buffered`: the loop itself has such ticks.
    fn has_pending_input(&mut self, buffered: bool) -> bool {
        buffered
    }

    /// Puts a tick into this run's own mailbox.
    fn send_event(&mut self, tick: TickKind);
}

/// What is durable.
pub trait Journal: Send {
    /// Called after each tick's reduction, before any of its commands is carried out.
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State);

    /// Makes everything that `on_tick` was told durable, together with values the reducer has made. No effect starts
    /// before this has returned.
    fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> impl Future<Output = Result<(), RuntimeError>> + Send;

    /// Whether something durable is overdue although no effect asks for it.
    fn wants_flush(&mut self) -> bool {
        false
    }

    /// Loads a stored value; None if there is none.
    fn load_blob(&mut self, hash: &BlobHash) -> impl Future<Output = Result<Option<Value>, RuntimeError>> + Send;

    /// The run leaves memory: its state, and when it wants to be woken, are kept.
    fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> impl Future<Output = Result<(), RuntimeError>> + Send;
}

/// Jobs.
pub trait Workers: Send {
    /// Hands a job to a worker, with its input put together.
    fn run_worker(&mut self, job: Job, input: Value);

    /// Asks the worker of a job to stop.
    fn cancel_worker(&mut self, job: u64);

    /// Ends the lease of a worker that holds a job between two of its tasks. Workers in this process hold nothing meanwhile.
    fn end_lease(&mut self, _job: u64, _lease_epoch: u32) {}

    /// A job's result has been reduced and is durable.
    fn finalize_step(&mut self, _step: FinalizedJob) {}

    /// All that the last commit led to has been carried out.
    fn on_commit_applied(&mut self) {}
}

/// Child runs.
pub trait Children: Send {
    /// Starts a child run. Starting the same one twice starts it once.
    fn start_child(&mut self, child: ChildStart);

    /// Wakes a child whose cancellation was written with the tick.
    fn cancel_child(&mut self, child: &str);
}

/// What leaves the run. All of it is durable by then.
pub trait Outward: Send {
    /// Shows an event outside.
    fn write_to_event_stream(&mut self, event: Event);

    /// The run has answered whoever started it, and goes on.
    fn replied(&mut self, _reply: &RunReply) {}

    /// The run has ended.
    fn ended(&mut self, _result: &RunResult) {}
}

/// All concerns of a run.
pub trait Adapter: Send {
    type Time: TimeSource;
    type Ticks: TickSource;
    type Journal: Journal;
    type Workers: Workers;
    type Children: Children;
    type Outward: Outward;

    fn time(&mut self) -> &mut Self::Time;
    fn ticks(&mut self) -> &mut Self::Ticks;
    fn journal(&mut self) -> &mut Self::Journal;
    fn workers(&mut self) -> &mut Self::Workers;
    fn children(&mut self) -> &mut Self::Children;
    fn outward(&mut self) -> &mut Self::Outward;

    /// Wakes blocked waits and lets go of what the run holds.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Says who answers for which concern: `concerns!(own: ticks; inner: time, journal, workers, children, outward)`. `own` ones are
/// implemented by the type itself, the others are those of the adapter in its field `inner`, of the type `A`.
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
