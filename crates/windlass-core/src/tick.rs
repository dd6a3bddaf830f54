//! Ticks: the inputs of the reducer. All that is not deterministic enters here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Timestamp, Value};

use crate::{Status, TaskOutcome};

/// The name of the event that starts a run.
pub const START_EVENT: &str = "start";

/// The name of an event that is mail to a node, `{to, text}`, if any node of the plan has a mailbox.
pub const MAIL_EVENT: &str = "mail";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Never earlier than the tick before.
    pub at: Timestamp,
    /// Entropy: every random value of this tick derives from it and a counter.
    pub seed: u64,
    pub kind: TickKind,
    /// More was accepted before this tick was reduced, and comes next: whatever this one leaves behind, the run is not idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_pending: bool,
}

/// Where a run comes from that another run has called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOrigin {
    /// The run that called it.
    pub parent: Arc<str>,
    /// The run that all this began with.
    pub trace: Arc<str>,
    /// The node of the run's own scope whose output is the run's, if the caller asks for one.
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
        /// Of the start: whose child the run is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Box<CallOrigin>>,
        /// The only place that gets it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Arc<str>>,
        /// Of the start: what came with the payload, as an object, if a trigger was told of it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        trigger_metadata: Value,
        /// Of the start: what stands in the place of the plan's defaults in this run, as an object.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        defaults: Value,
    },
    /// A worker has ended a task of its job.
    StepResult {
        job: u64,
        lease_epoch: u32,
        outcome: TaskOutcome,
    },
    /// A worker has let its lease run out: its task is handed out again, with the same key.
    LeaseLost {
        job: u64,
        lease_epoch: u32,
    },
    /// A child run has ended.
    CallResult {
        call: u64,
        status: Status,
        outcome: TaskOutcome,
    },
    /// Somebody wants the run to end.
    CancelRun {
        reason: Arc<str>,
        request: Option<Arc<str>>,
        /// Whoever called the run no longer waits for it. One that has replied takes no heed.
        #[serde(default, skip_serializing_if = "is_false")]
        by_caller: bool,
    },
    /// A worker wants something said while it works.
    PublishEvent {
        job: u64,
        /// The lease's epoch; with another one it is late.
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
    /// A worker is alive and says how far it is.
    Progress {
        job: u64,
        /// The lease's epoch; with another one it is late.
        lease_epoch: u32,
        data: Value,
    },
    /// The process that ran this is gone; another has taken over.
    Restart,
    /// The last tick yielded: there is more to compute.
    Proceed,
}

/// Leaves fields at their default out of the journal: most ticks have none of them.
fn is_false(flag: &bool) -> bool {
    !flag
}

impl TickKind {
    /// The name in seed 001's words.
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
