//! The last failed attempt of each task that is retried: its number, and its error.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::{Amount, Node, NodeKind, Plan, Retry};
use windlass_core::{EventKind, FrameView};
use windlass_runtime::inspect::StoredEvent;

use super::tree::is_retried;
use crate::failure::CliFailure;
use crate::text;

/// The number of events before the newest in which the errors of retried tasks are searched.
const SEARCHED_EVENTS: u64 = 1_000;

/// Maximum number of characters of an error.
const MAX_ERROR_CHARS: usize = 240;

/// Failed attempts by the path of the task.
#[derive(Default)]
pub(crate) struct FailedAttempts(BTreeMap<Arc<str>, (u32, String)>);

impl FailedAttempts {
    /// Reads them from the newest events, if a live node is retried. `newest` returns the number of the newest event, and
    /// `read` returns events after a number; none if there are no more.
    pub(crate) fn read(
        frames: &[FrameView],
        newest: impl FnOnce() -> Result<u64, CliFailure>,
        mut read: impl FnMut(u64) -> Result<Vec<StoredEvent>, CliFailure>,
    ) -> Result<FailedAttempts, CliFailure> {
        let mut found = FailedAttempts::default();
        if !any_retried(frames) {
            return Ok(found);
        }
        let mut after = newest()?.saturating_sub(SEARCHED_EVENTS);
        loop {
            let events = read(after)?;
            let Some(last) = events.last() else { return Ok(found) };
            after = last.seq();
            for stored in &events {
                let StoredEvent::Event(event) = stored else { continue };
                if let EventKind::TaskRetrying { attempt, error, .. } = &event.kind {
                    found.0.insert(event.path.clone(), (*attempt, error.message.to_string()));
                }
            }
        }
    }

    /// Formats the failed attempt of the node with this path: `attempt 1 of 5 failed: the service is down`.
    pub(crate) fn describe(&self, plan: &Plan, path: &str) -> Option<String> {
        let is_in_node = |task: &str| {
            task.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && !rest.contains('['))
        };
        let (task, (attempt, error)) = self.0.iter().find(|(task, _)| is_in_node(task))?;
        let max_attempts = max_attempts(plan, path, task).map(|max| format!(" of {max}")).unwrap_or_default();
        let error = text::truncate(&text::one_line(error), MAX_ERROR_CHARS);
        Some(format!("attempt {attempt}{max_attempts} failed: {error}"))
    }
}

fn any_retried(frames: &[FrameView]) -> bool {
    frames.iter().any(|view| is_retried(view) || any_retried(&view.children))
}

/// Returns the maximum number of attempts of a task of a node, if the definition gives it as a number.
fn max_attempts(plan: &Plan, path: &str, task: &str) -> Option<u64> {
    let name = path.rsplit('.').next()?;
    let label = task.strip_prefix(path)?.trim_start_matches('.');
    let of_task = |node: &Node| match &node.kind {
        NodeKind::Pipeline(pipeline) => pipeline
            .tasks
            .iter()
            .find(|task| &*task.label == label)
            .and_then(|task| fixed_attempts(task.retry.as_ref()?)),
        _ => None,
    };
    let nodes = plan.nodes.iter().filter(|node| &*node.name == name);
    let mut found = nodes.map(|node| of_task(node).or_else(|| fixed_attempts(node.retry.as_ref()?)));
    found.find_map(|attempts| attempts)
}

fn fixed_attempts(retry: &Retry) -> Option<u64> {
    match retry.attempts {
        Amount::Fixed(attempts) => Some(attempts),
        Amount::Computed(_) => None,
    }
}
