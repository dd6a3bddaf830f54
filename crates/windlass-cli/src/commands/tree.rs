//! The live frames of a run as a tree, with loops folded.

use windlass_core::plan::{Amount, NodeKind, Plan};
use windlass_core::{FrameView, LoopView};
use windlass_runtime::inspect::{due_kind, running_iterations};
use windlass_value::Timestamp;

use crate::out::Paint;
use crate::text;

/// Maximum number of children shown per node; a parallel loop may have hundreds.
const MAX_CHILDREN: usize = 10;

/// Returns the node that stands for the run's current position: the outermost live loop, else the innermost live
/// node.
pub(crate) fn current(views: &[FrameView]) -> Option<&FrameView> {
    views.iter().find_map(first_loop).or_else(|| views.first().map(innermost))
}

fn first_loop(view: &FrameView) -> Option<&FrameView> {
    if view.looping.is_some() { Some(view) } else { view.children.iter().find_map(first_loop) }
}

fn innermost(view: &FrameView) -> &FrameView {
    view.children.first().map_or(view, innermost)
}

pub(crate) fn lines(plan: &Plan, views: &[FrameView], now: Timestamp, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    write(plan, views, now, paint, 1, &mut lines);
    lines
}

fn write(plan: &Plan, views: &[FrameView], now: Timestamp, paint: Paint, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    for view in views.iter().take(MAX_CHILDREN) {
        lines.push(format!("{indent}{}", line(plan, view, now, paint)));
        write(plan, &view.children, now, paint, depth + 1, lines);
    }
    if views.len() > MAX_CHILDREN {
        lines.push(format!("{indent}… and {} more", views.len() - MAX_CHILDREN));
    }
}

/// `[3] sync 15/100 (until) running 45s`
fn line(plan: &Plan, view: &FrameView, now: Timestamp, paint: Paint) -> String {
    let iteration = view.iteration.map(|iteration| format!("[{iteration}] ")).unwrap_or_default();
    let count = view
        .looping
        .as_ref()
        .map(|looping| format!(" {}", format_loop_progress(plan, view, looping)))
        .unwrap_or_default();
    let doing = paint.status(view.activity, view.activity);
    let since = text::format_duration(now.since(view.started_at));
    let attempt = if view.attempt > 1 { format!(", attempt {}", view.attempt) } else { String::new() };
    let looping = view.looping.as_ref().map(loop_notes).unwrap_or_default();
    let due = view.due.map(|due| format!(", {}", format_due(due_kind(view), due, now))).unwrap_or_default();
    let used = text::usage(&view.usage).map(|used| format!(", {used}")).unwrap_or_default();
    format!("{iteration}{}{count} ({}) {doing} {since}{attempt}{due}{looping}{used}", view.name, view.label)
}

/// Formats when a node continues by itself: `next iteration in 45s`.
pub(crate) fn format_due(what: &str, due: Timestamp, now: Timestamp) -> String {
    let left = text::format_duration(due.since(now));
    match what {
        "iteration" => format!("next iteration in {left}"),
        "retry" => format!("retry in {left}"),
        _ => format!("due in {left}"),
    }
}

/// Formats a loop's progress. A sequential loop shows its current iteration, counted from 1; any other loop shows how
/// many iterations have ended and how many are running.
pub(crate) fn format_loop_progress(plan: &Plan, view: &FrameView, looping: &LoopView) -> String {
    let in_flight = running_iterations(looping);
    if in_flight == 0 || (in_flight == 1 && is_sequential(plan, view)) {
        return text::format_ratio(looping.begun, looping.max_iterations);
    }
    format!("{} ({in_flight} {})", text::format_ratio(looping.ended, looping.max_iterations), view.activity)
}

fn is_sequential(plan: &Plan, view: &FrameView) -> bool {
    let named = plan.nodes.iter().filter(|node| node.name == view.name);
    let loops = named.filter_map(|node| match &node.kind {
        NodeKind::Loop(looping) => Some(&looping.max_concurrency),
        _ => None,
    });
    loops.into_iter().all(|in_flight| matches!(in_flight, Amount::Fixed(1)))
}

fn loop_notes(looping: &LoopView) -> String {
    let failed = if looping.failed > 0 { format!(", {} failed", looping.failed) } else { String::new() };
    let stopping = looping.stopping.map(|reason| format!(", stopping: {}", reason.as_str())).unwrap_or_default();
    format!("{failed}{stopping}")
}

pub(crate) fn short_condition(looping: &LoopView) -> Option<String> {
    looping.condition.as_ref().map(|condition| text::format_value(condition, 200))
}
