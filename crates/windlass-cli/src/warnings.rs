//! Warnings after a run with agents: non-fatal problems that users should not have to search for.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_core::{EventKind, PermissionDecision};
use windlass_runtime::FinalReport;
use windlass_runtime::inspect::StoredEvent;

use crate::dialects::registry;
use crate::progress::agents;
use crate::text;

/// Maximum number of event pages scanned: of a longer run, only the beginning is considered.
const MAX_EVENT_PAGES: usize = 64;

#[derive(Default)]
struct AgentWarnings {
    coordinator: Vec<String>,
    /// Number of denied tool calls by reason.
    denied: BTreeMap<String, u64>,
    /// Iterations without a verdict and all iterations, by loop.
    unjudged: BTreeMap<Arc<str>, (u64, u64)>,
}

/// Returns the warnings of an ended run, one sentence each. `next_events` returns the events of the run page by page,
/// and none after the last.
pub(crate) fn collect<E>(
    plan: &Plan,
    report: &FinalReport,
    next_events: impl FnMut() -> Result<Vec<StoredEvent>, E>,
) -> Result<Vec<String>, E> {
    if !registry().for_plan(plan).has_agents() {
        return Ok(Vec::new());
    }
    let mut found = scan_events(next_events)?;
    let loops = report.steps.iter().filter_map(|(name, step)| Some((name, step.looping.as_ref()?)));
    for (name, looping) in loops.filter(|(_, looping)| looping.unjudged > 0) {
        found.unjudged.insert(name.clone(), (looping.unjudged, looping.iterations));
    }
    let coordinator = found.coordinator.into_iter();
    let coordinator =
        coordinator.map(|why| format!("the coordinator failed, and the steps continued without it: {why}"));
    let unjudged = found.unjudged.into_iter().map(|(path, (unjudged, iterations))| {
        let iterations = text::pluralize(iterations, "iteration");
        format!("{path}: {unjudged} of {iterations} had no verdict")
    });
    let denied = found.denied.into_iter().map(|(why, times)| {
        let why = why.strip_prefix("permission denied: ").unwrap_or(&why);
        match times {
            1 => format!("1 tool call was denied: {why}"),
            times => format!("{times} tool calls were denied: {why}"),
        }
    });
    Ok(coordinator.chain(unjudged).chain(denied).collect())
}

fn scan_events<E>(mut next_events: impl FnMut() -> Result<Vec<StoredEvent>, E>) -> Result<AgentWarnings, E> {
    let mut found = AgentWarnings::default();
    for _ in 0..MAX_EVENT_PAGES {
        let pieces = next_events()?;
        if pieces.is_empty() {
            break;
        }
        for piece in pieces {
            let StoredEvent::Event(event) = piece else { continue };
            match &event.kind {
                EventKind::CoordinatorFailed { error } => found.coordinator.push(agents::message_of(error)),
                EventKind::AgentPermission { tool, decision: PermissionDecision::Denied, reason } => {
                    *found.denied.entry(agents::refusal(tool, reason.as_deref())).or_default() += 1;
                }
                EventKind::LoopDone { iterations, unjudged, .. } if *unjudged > 0 => {
                    found.unjudged.insert(event.path.clone(), (*unjudged, *iterations));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}
