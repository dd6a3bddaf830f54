//! The live frames of a run as a tree, with loops folded.

use windlass_core::plan::{Amount, NodeKind, Plan};
use windlass_core::{FrameView, LoopView};
use windlass_runtime::inspect::{due_kind, frame_path, running_iterations};
use windlass_value::{Duration, Timestamp};

use super::retries::FailedAttempts;
use crate::out::Paint;
use crate::text;

/// Maximum number of children shown per node; a parallel loop may have hundreds.
const MAX_CHILDREN: usize = 10;

/// The delay of a timer up to which it is not overdue: the process that runs it may be busy.
const MAX_DELAY_OF_TIMERS: Duration = Duration::from_secs(2);

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

/// The tree of a run, ready to be written.
pub(crate) struct RunTree<'a> {
    pub plan: &'a Plan,
    pub now: Timestamp,
    pub paint: Paint,
    /// The last failed attempts of tasks that are retried, by their paths.
    pub retries: &'a FailedAttempts,
}

impl RunTree<'_> {
    pub(crate) fn lines(&self, views: &[FrameView]) -> Vec<String> {
        let mut lines = Vec::new();
        self.write(views, "", 1, &mut lines);
        lines
    }

    fn write(&self, views: &[FrameView], above: &str, depth: usize, lines: &mut Vec<String>) {
        let indent = "  ".repeat(depth);
        for view in views.iter().take(MAX_CHILDREN) {
            let path = frame_path(above, view);
            lines.push(format!("{indent}{}", line(self.plan, view, self.now, self.paint)));
            let failed =
                Some(&path).filter(|_| is_retried(view)).and_then(|path| self.retries.describe(self.plan, path));
            lines.extend(failed.map(|failed| format!("{indent}  {failed}")));
            self.write(&view.children, &path, depth + 1, lines);
        }
        if views.len() > MAX_CHILDREN {
            lines.push(format!("{indent}… and {} more", views.len() - MAX_CHILDREN));
        }
    }
}

/// Returns whether a node waits for its next attempt, also while its run is paused.
pub(crate) fn is_retried(view: &FrameView) -> bool {
    view.activity == "retrying"
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

/// Formats when a node continues by itself: `next iteration in 45s`, or `next iteration overdue by 7m` if no process
/// has begun it.
pub(crate) fn format_due(what: &str, due: Timestamp, now: Timestamp) -> String {
    let when = match format_overdue(due, now) {
        Some(overdue) => overdue,
        None => format!("in {}", text::format_duration(due.since(now))),
    };
    match what {
        "iteration" => format!("next iteration {when}"),
        "retry" => format!("retry {when}"),
        _ if when.starts_with("in ") => format!("due {when}"),
        _ => when,
    }
}

/// Formats how long a time has passed: `overdue by 7m`. Returns `None` if it is to come, or passes just now.
pub(crate) fn format_overdue(due: Timestamp, now: Timestamp) -> Option<String> {
    let overdue = now.since(due);
    (overdue > MAX_DELAY_OF_TIMERS).then(|| format!("overdue by {}", text::format_duration(overdue)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_is_overdue() {
        let at = |secs: i64| Timestamp(secs * 1_000_000);
        for (what, due, now, shown) in [
            ("retry", 10, 3, "retry in 7.0s"),
            ("retry", 10, 11, "retry in 0ms"),
            ("retry", 10, 430, "retry overdue by 7m 00s"),
            ("iteration", 10, 430, "next iteration overdue by 7m 00s"),
            ("timer", 10, 3, "due in 7.0s"),
            ("timer", 10, 430, "overdue by 7m 00s"),
        ] {
            assert_eq!(format_due(what, at(due), at(now)), shown);
        }
    }
}
