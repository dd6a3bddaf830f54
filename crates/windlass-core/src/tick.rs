//! Ticks: the inputs of the reducer. Everything nondeterministic enters here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Timestamp, Value};

use crate::{Status, TaskOutcome};

/// The name of the event that starts a run.
pub const START_EVENT: &str = "start";

/// The name of an event that is mail to a node, `{to, text}`, in a plan that has at least one mailbox.
pub const MAIL_EVENT: &str = "mail";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Never earlier than the time of the previous tick.
    pub at: Timestamp,
    /// Entropy: every random value of this tick derives from it and a counter.
    pub seed: u64,
    pub kind: TickKind,
    /// More input was accepted before this tick was reduced and follows it. Whatever this tick leaves behind, the run
    /// is not idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_pending: bool,
}

/// The origin of a run that another run called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOrigin {
    /// The run that called it.
    pub parent: Arc<str>,
    /// The root of the run tree.
    pub trace: Arc<str>,
    /// The node in the run's own scope whose output becomes the run's output, if the caller requests one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_node: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TickKind {
    /// An event entered from outside: the start, a signal, a token.
    AddEvent {
        name: Arc<str>,
        payload: Value,
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
        job: u64,
        lease_epoch: u32,
        outcome: TaskOutcome,
    },
    /// A worker's lease expired: its task is dispatched again, with the same idempotency key.
    LeaseLost {
        job: u64,
        lease_epoch: u32,
    },
    /// A child run ended.
    CallResult {
        call: u64,
        status: Status,
        outcome: TaskOutcome,
    },
    /// A request to end the run.
    CancelRun {
        reason: Arc<str>,
        request: Option<Arc<str>>,
        /// The parent run no longer waits for this run. A run that has already replied ignores the request.
        #[serde(default, skip_serializing_if = "is_false")]
        by_caller: bool,
    },
    /// A worker publishes an event while it works.
    PublishEvent {
        job: u64,
        /// The lease epoch; a report with another epoch is stale.
        lease_epoch: u32,
        kind: Arc<str>,
        data: Value,
    },
    /// The run's own timeout may be due.
    Timeout,
    /// A timer of the state may be due.
    TimerDue,
    Pause {
        request: Option<Arc<str>>,
    },
    Resume {
        request: Option<Arc<str>>,
    },
    /// A worker is alive and reports its progress.
    Progress {
        job: u64,
        /// The lease epoch; a report with another epoch is stale.
        lease_epoch: u32,
        data: Value,
    },
    /// The process that executed the run is gone; another process has taken over.
    Restart,
    /// The last tick yielded: there is more to compute.
    Proceed,
}

/// Omits fields at their default from the journal: most ticks have none of them.
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
            TickKind::Restart => "Restart",
            TickKind::Proceed => "Proceed",
        }
    }
}
