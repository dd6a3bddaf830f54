//! What starts runs by itself: webhooks, schedules, asking again and again.
//!
//! A firing is a delivery with a name: that of the definition and the trigger, and the time that was due or the id that the
//! sender gave. `Engine::trigger` starts the runs of a delivery once, whoever makes it and however often; so neither a crash
//! nor a second server fires twice.

mod catch_up;
pub mod hooks;
mod poll;
pub mod queue;
mod queue_position;
mod request;
mod scheduler;
pub(crate) mod settings;
pub(crate) mod signature;
mod timed;
mod trigger_log;

use windlass_core::plan::{Action, NodeKind, Plan};
use windlass_runtime::RuntimeError;

pub(crate) use catch_up::CatchUp;
pub use queue_position::{QueuePositionInfo, find_queue_position};
pub use scheduler::TriggerScheduler;
pub(crate) use timed::timed_triggers;
pub(crate) use trigger_log::{TriggerLogEntry, TriggerLogOutcome};

/// Kinds that somebody calls.
const CALLED_KINDS: [&str; 3] = ["request", "manual", "webhook"];

/// Kinds that fire by the clock. The last asks somebody first.
const TIMED_KINDS: [&str; 3] = ["recurrence", "schedule", POLLING_KIND];
const POLLING_KIND: &str = "http";

pub(crate) fn is_called(kind: &str) -> bool {
    CALLED_KINDS.contains(&kind)
}

/// The beginning of the names of all deliveries to a trigger, and so of the ids of their runs.
pub fn delivery_prefix(definition: &str, trigger: &str) -> String {
    let tag = blake3::hash(format!("{definition}\0{trigger}").as_bytes()).to_hex();
    format!("t{}-", &tag[..12])
}

/// Whether a run of this plan may answer before its end.
fn may_reply(plan: &Plan) -> bool {
    let tasks = plan.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Pipeline(pipeline) => Some(&pipeline.tasks),
        _ => None,
    });
    tasks.flatten().any(|task| matches!(task.action, Action::Reply { .. }))
}

/// The same delivery has been made before, perhaps with another version of the definition.
fn existing_run(error: &RuntimeError) -> Option<&str> {
    match error {
        RuntimeError::RunExists(run) => Some(run),
        _ => None,
    }
}
