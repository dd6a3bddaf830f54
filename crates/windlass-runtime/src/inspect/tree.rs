//! The live part of a run as a tree, with loops folded.

use windlass_core::plan::iteration_suffix;
use windlass_core::{FrameView, LoopView};
use windlass_value::{Map, Timestamp, Value};

/// Gives running nodes the status of their run if nothing of it runs: it is paused, or was interrupted. While a run is
/// paused, none of its nodes continues by itself.
pub fn mark_stopped(views: &mut [FrameView], run_status: &'static str) {
    if !["paused", "interrupted"].contains(&run_status) {
        return;
    }
    for view in views {
        if view.activity == "running" {
            view.activity = run_status;
        }
        view.due = view.due.filter(|_| run_status != "paused");
        mark_stopped(&mut view.children, run_status);
    }
}

/// Returns the event path of a live node from the path of its parent: `pages[3].items`.
pub fn frame_path(above: &str, view: &FrameView) -> String {
    let iteration = view.iteration.map(iteration_suffix).unwrap_or_default();
    let dot = if above.is_empty() { "" } else { "." };
    format!("{above}{iteration}{dot}{}", view.name)
}

/// The next moment at which a run continues by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextDue {
    /// The path of the node that continues.
    pub path: String,
    /// The kind of continuation: `iteration`, `retry` or `timer`.
    pub what: &'static str,
    /// The time.
    pub at: Timestamp,
}

impl NextDue {
    /// Returns the earliest of the due times of live nodes.
    pub fn earliest(views: &[FrameView]) -> Option<NextDue> {
        let mut all = Vec::new();
        collect_due(views, "", &mut all);
        all.into_iter().min_by_key(|due| due.at)
    }
}

fn collect_due(views: &[FrameView], above: &str, all: &mut Vec<NextDue>) {
    for view in views {
        let path = frame_path(above, view);
        all.extend(view.due.map(|at| NextDue { path: path.clone(), what: due_kind(view), at }));
        collect_due(&view.children, &path, all);
    }
}

/// Returns the kind of continuation that a node with a due time waits for.
pub fn due_kind(view: &FrameView) -> &'static str {
    match (view.activity, &view.looping) {
        ("retrying", _) => "retry",
        (_, Some(_)) => "iteration",
        _ => "timer",
    }
}

/// Returns the number of iterations that have started and not ended.
pub fn running_iterations(looping: &LoopView) -> u64 {
    looping.begun.saturating_sub(looping.ended)
}

/// Returns the tree as a value for programs.
pub fn tree_value(views: &[FrameView], now: Timestamp) -> Value {
    Value::list(views.iter().map(|view| node_value(view, now)).collect())
}

fn node_value(view: &FrameView, now: Timestamp) -> Value {
    let mut map = Map::new();
    map.insert("name", view.name.clone());
    map.insert("kind", view.label.clone());
    map.insert("status", view.activity);
    map.insert("started_at", view.started_at.to_string());
    map.insert("duration_ms", now.since(view.started_at).as_ms());
    map.insert("attempt", view.attempt);
    if let Some(iteration) = view.iteration {
        map.insert("iteration", iteration);
    }
    if let Some(due) = view.due {
        map.insert("due_at", due.to_string());
    }
    if let Some(looping) = &view.looping {
        map.insert("loop", loop_value(looping));
    }
    if !view.usage.is_null() {
        map.insert("usage", view.usage.clone());
    }
    map.insert("children", tree_value(&view.children, now));
    Value::map(map)
}

fn loop_value(looping: &LoopView) -> Value {
    Value::object([
        ("iteration", Value::from(looping.begun)),
        ("ended", Value::from(looping.ended)),
        ("running", Value::from(running_iterations(looping))),
        ("failed", Value::from(looping.failed)),
        ("max_iterations", Value::from(looping.max_iterations)),
        ("condition", looping.condition.clone().unwrap_or_default()),
        ("last_result", looping.last.clone()),
        ("stopping", Value::from(looping.stopping.map(|reason| reason.as_str()))),
    ])
}
