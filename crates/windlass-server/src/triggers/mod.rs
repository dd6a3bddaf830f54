//! Triggers that start runs: webhooks, schedules, polls.
//!
//! A firing is a delivery with a name, composed of the definition, the trigger, and the due time or the sender's id.
//! `Engine::trigger` starts the runs of a delivery once, however often and by whichever server it is made; so neither
//! a crash nor a second server fires twice.

mod catch_up;
pub mod hooks;
mod poll;
pub mod queue;
mod queue_position;
mod request;
mod scheduler;
pub(crate) mod settings;
mod signature;
mod timed;
mod trigger_log;

use windlass_core::plan::{Action, NodeKind, Plan};
use windlass_runtime::RuntimeError;

pub(crate) use catch_up::CatchUp;
pub use queue_position::{QueuePositionInfo, find_queue_position};
pub use scheduler::TriggerScheduler;
pub use signature::{SignatureError, SignatureScheme, VerifiedDelivery, verify as verify_signature};
pub(crate) use timed::timed_triggers;
pub(crate) use trigger_log::{TriggerLogEntry, TriggerLogOutcome};

/// Trigger kinds that are called over HTTP.
const CALLED_KINDS: [&str; 3] = ["request", "manual", "webhook"];

/// Trigger kinds that fire by the clock. The last one polls a service first.
const TIMED_KINDS: [&str; 3] = ["recurrence", "schedule", POLLING_KIND];
const POLLING_KIND: &str = "http";

pub(crate) fn is_called(kind: &str) -> bool {
    CALLED_KINDS.contains(&kind)
}

/// Returns the common prefix of the names of all deliveries to a trigger, and so of the ids of their runs.
pub fn delivery_prefix(definition: &str, trigger: &str) -> String {
    let tag = blake3::hash(format!("{definition}\0{trigger}").as_bytes()).to_hex();
    format!("t{}-", &tag[..12])
}

/// Returns whether a run of this plan may reply before its end.
fn may_reply(plan: &Plan) -> bool {
    let tasks = plan.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Pipeline(pipeline) => Some(&pipeline.tasks),
        _ => None,
    });
    tasks.flatten().any(|task| matches!(task.action, Action::Reply { .. }))
}

/// Returns the run of a delivery that was made before, perhaps with another version of the definition.
fn existing_run(error: &RuntimeError) -> Option<&str> {
    match error {
        RuntimeError::RunExists(run) | RuntimeError::RunRemoved(run) => Some(run),
        _ => None,
    }
}
