//! Ticks: the inputs of the reducer. Everything nondeterministic enters here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, Timestamp, Value};

use crate::{Status, TaskOutcome};

/// The name of the event that starts a run.
pub const START_EVENT: &str = "start";

/// The name of an event that is mail to a node, `{to, text}`, in a plan that has at least one mailbox.
pub const MAIL_EVENT: &str = "mail";

/// One input of the reducer, as the journal records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Never earlier than the time of the previous tick, moved by `clock_step`.
    pub at: Timestamp,
    /// Entropy: every random value of this tick derives from it and a counter.
    pub seed: u64,
    /// The input itself.
    pub kind: TickKind,
    /// More input was accepted before this tick was reduced and follows it. Whatever this tick leaves behind, the run
    /// is not idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_pending: bool,
    /// The microseconds by which the clock was set since the previous tick; negative if it was set back. Delays and
    /// timeouts move along, so that they keep their remaining time.
    #[serde(default, skip_serializing_if = "is_no_step")]
    pub clock_step: i64,
}

/// The origin of a run that another run called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOrigin {
    /// The run that called it.
    pub parent: Arc<str>,
    /// The execution id of the run that called it.
    pub parent_execution_id: i64,
    /// The root of the run tree.
    pub trace: Arc<str>,
    /// The node in the run's own scope whose output becomes the run's output, if the caller requests one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_node: Option<Arc<str>>,
}

/// The kinds of input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TickKind {
    /// An event entered from outside: the start, a signal, a token.
    AddEvent {
        /// The name of the event; [`START_EVENT`] for the start.
        name: Arc<str>,
        /// The data of the event; for the start, the input of the run.
        payload: Value,
        /// The id of the request, if it came through the inbox.
        request: Option<Arc<str>>,
        /// On the start event: the parent run of a child run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Box<CallOrigin>>,
        /// The only place that receives the event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Arc<str>>,
        /// On the start event: metadata that accompanied the payload, as an object, if a trigger received it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        trigger_metadata: Value,
        /// On the start event: values that replace the plan's defaults in this run, as an object.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        defaults: Value,
    },
    /// A worker finished a task of its job.
    StepResult {
        /// The number of the job.
        job: u64,
        /// The lease epoch; a report with another epoch is stale.
        lease_epoch: u32,
        /// The worker's report.
        outcome: TaskOutcome,
    },
    /// A worker's lease expired: its task is dispatched again, with the same idempotency key.
    LeaseLost {
        /// The number of the job.
        job: u64,
        /// The epoch of the lease that expired.
        lease_epoch: u32,
    },
    /// A child run ended.
    CallResult {
        /// The number of the call in this run.
        call: u64,
        /// The final status of the child run, or of its reply.
        status: Status,
        /// The output or the error of the child run.
        outcome: TaskOutcome,
    },
    /// A request to end the run.
    CancelRun {
        /// The reason, for the error of the run.
        reason: Arc<str>,
        /// The id of the request, if it came through the inbox.
        request: Option<Arc<str>>,
        /// The parent run no longer waits for this run. A run that has already replied ignores the request.
        #[serde(default, skip_serializing_if = "is_false")]
        by_caller: bool,
    },
    /// A worker publishes an event while it works.
    PublishEvent {
        /// The number of the job.
        job: u64,
        /// The lease epoch; a report with another epoch is stale.
        lease_epoch: u32,
        /// The type of the event.
        kind: Arc<str>,
        /// The data of the event.
        data: Value,
    },
    /// The run's own timeout may be due.
    Timeout,
    /// A timer of the state may be due.
    TimerDue,
    /// A request to start no further tasks.
    Pause {
        /// The id of the request, if it came through the inbox.
        request: Option<Arc<str>>,
    },
    /// A request to end a pause, or to start a held run.
    Resume {
        /// The id of the request, if it came through the inbox.
        request: Option<Arc<str>>,
    },
    /// A worker is alive and reports its progress.
    Progress {
        /// The number of the job.
        job: u64,
        /// The lease epoch; a report with another epoch is stale.
        lease_epoch: u32,
        /// The data of the event `task.progress`.
        data: Value,
    },
    /// The process that executed the run is gone; another process has taken over.
    Restart {
        /// The time that the process was up after the run's last tick, up to its last heartbeat. It counts towards the
        /// run's timeout; the time in which no process was up does not.
        #[serde(default, skip_serializing_if = "is_zero")]
        lived: Duration,
    },
    /// The last tick yielded: there is more to compute.
    Proceed,
}

/// Omits fields at their default from the journal: most ticks have none of them.
fn is_zero(duration: &Duration) -> bool {
    *duration == Duration::ZERO
}

fn is_no_step(step: &i64) -> bool {
    *step == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl TickKind {
    /// Returns the tick's name for events and messages, as the control-loop specification (seed 001) spells it.
    pub fn name(&self) -> &'static str {
        match self {
            TickKind::AddEvent { .. } => "AddEvent",
            TickKind::StepResult { .. } => "StepResult",
            TickKind::LeaseLost { .. } => "LeaseLost",
            TickKind::CallResult { .. } => "CallResult",
            TickKind::CancelRun { .. } => "CancelRun",
            TickKind::PublishEvent { .. } => "PublishEvent",
            TickKind::Timeout => "Timeout",
            TickKind::TimerDue => "TimerDue",
            TickKind::Pause { .. } => "Pause",
            TickKind::Resume { .. } => "Resume",
            TickKind::Progress { .. } => "Progress",
            TickKind::Restart { .. } => "Restart",
            TickKind::Proceed => "Proceed",
        }
    }
}
