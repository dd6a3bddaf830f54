//! What starts runs by itself: webhooks, schedules, asking again and again.
//!
//! A firing is a delivery with a name: that of the definition and the trigger, and the time that was due or the id that the
//! sender gave. `Engine::trigger` starts the runs of a delivery once, whoever makes it and however often; so neither a crash
//! nor a second server fires twice.

mod catch_up;
pub mod hooks;
mod poll;
mod request;
pub mod schedule;
mod scheduler;
pub mod settings;
pub mod signature;

use std::sync::Arc;

use windlass_core::plan::{Action, NodeKind, Plan, Trigger};
use windlass_runtime::RuntimeError;
use windlass_store::{RunFilter, Store, StoreError};
use windlass_value::Value;

pub use catch_up::CatchUp;
pub use scheduler::{Listening, Scheduler, listening};

/// Kinds that somebody calls.
const CALLED: [&str; 2] = ["request", "manual"];

pub fn is_called(kind: &str) -> bool {
    CALLED.contains(&kind)
}

/// The beginning of the names of all deliveries to a trigger, and so of the ids of their runs.
pub fn prefix(definition: &str, trigger: &str) -> String {
    let tag = blake3::hash(format!("{definition}\0{trigger}").as_bytes()).to_hex();
    format!("t{}-", &tag[..12])
}

/// How many runs of a trigger there may be at once.
fn runs_at_once(trigger: &Trigger) -> Option<u32> {
    if trigger.settings.get("singleInstance").and_then(Value::as_bool) == Some(true) {
        return Some(1);
    }
    trigger.settings.get("runs").and_then(Value::as_int).and_then(|runs| u32::try_from(runs).ok())
}

/// Whether as many runs of a trigger are under way as there may be. One that this delivery has made before does not count.
fn is_full(
    store: &dyn Store,
    definition: &Arc<str>,
    trigger: &Trigger,
    delivery: Option<&str>,
) -> Result<bool, StoreError> {
    let Some(most) = runs_at_once(trigger) else { return Ok(false) };
    let filter = RunFilter {
        definition: Some(definition.to_string()),
        unfinished: true,
        search: Some(prefix(definition, &trigger.name)),
        ..RunFilter::default()
    };
    let open = store.runs(&filter, None, most + 1)?;
    let others = open.iter().filter(|row| delivery.is_none_or(|delivery| !row.run.starts_with(delivery))).count();
    Ok(others >= most as usize)
}

/// Whether a run of this plan may answer before its end.
fn replies(plan: &Plan) -> bool {
    let tasks = plan.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Pipeline(pipeline) => Some(&pipeline.tasks),
        _ => None,
    });
    tasks.flatten().any(|task| matches!(task.action, Action::Reply { .. }))
}

/// The same delivery has been made before, perhaps with another version of the definition.
fn was_made(error: &RuntimeError) -> Option<&str> {
    match error {
        RuntimeError::RunExists(run) => Some(run),
        _ => None,
    }
}
