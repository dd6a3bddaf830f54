//! Loop details that the final report lacks, from the history as far as it is retained.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::{Amount, NodeKind, Plan};
use windlass_core::{EventKind, LoopEndReason, LoopEventLimits, LoopSummary, Status};
use windlass_store::StoreRead;

use super::{StoredEvent, StoredEvents};
use crate::codec::{self, IterationPack};
use crate::{FinalReport, RuntimeError};

/// The maximum number of event pages searched for a loop's start: the number is not worth a longer wait.
const MAX_SCANNED_PAGES: usize = 4;

/// The number of last iterations that are searched for cancelled ones: only iterations that run when the loop ends
/// are cancelled. Of a loop with a higher concurrency (`max_loop_concurrency`), some may be missed.
const MAX_TRAILING_ITERATIONS: u64 = 256;

/// Details of one loop that its report lacks.
#[derive(Clone, Copy, Default)]
pub struct LoopDetails {
    /// The maximum number of iterations, if it was computed.
    pub max_iterations: Option<u64>,
    /// Iterations that had started and were cancelled with the loop.
    pub cancelled: u64,
}

/// Loop details by the name of the step.
pub type LoopDetailsByStep = BTreeMap<Arc<str>, LoopDetails>;

/// Reads the details of the top-level loops of an ended run. Loops without any have no entry.
pub fn loop_details(
    store: &dyn StoreRead,
    run: &Arc<str>,
    plan: &Plan,
    report: &FinalReport,
) -> Result<LoopDetailsByStep, RuntimeError> {
    let mut facts = LoopDetailsByStep::new();
    let mut unknown = Vec::new();
    let loops = report.steps.iter().filter_map(|(name, step)| Some((name, step.looping.as_ref()?)));
    for (name, looping) in loops {
        if !matches!(looping.reason, LoopEndReason::Items | LoopEndReason::Count)
            && defined_max_iterations(plan, name).is_none()
        {
            unknown.push(name);
        }
        if matches!(looping.reason, LoopEndReason::Cancelled | LoopEndReason::Timeout | LoopEndReason::Failed) {
            facts.entry(name.clone()).or_default().cancelled = count_cancelled(store, run, name, looping)?;
        }
    }
    for (name, max_iterations) in computed_limits(store, run, unknown)? {
        facts.entry(name).or_default().max_iterations = Some(max_iterations);
    }
    Ok(facts)
}

fn count_cancelled(store: &dyn StoreRead, run: &str, name: &str, looping: &LoopSummary) -> Result<u64, RuntimeError> {
    let from = looping.iterations.saturating_sub(MAX_TRAILING_ITERATIONS);
    // After a crash an iteration may have been written twice; the later one counts.
    let mut iterations = BTreeMap::new();
    for row in store.iterations(run, name, from, MAX_TRAILING_ITERATIONS as u32)? {
        let IterationPack(pack) = codec::decode(&row.body, "a loop's history")?;
        iterations.extend(pack.into_iter().map(|iteration| (iteration.index, iteration.status)));
    }
    Ok(iterations.into_values().filter(|status| *status == Status::Cancelled).count() as u64)
}

/// Returns the limits of loops whose limits are expressions or which have items: their start event contains them.
fn computed_limits(
    store: &dyn StoreRead,
    run: &Arc<str>,
    mut unresolved: Vec<&Arc<str>>,
) -> Result<Vec<(Arc<str>, u64)>, RuntimeError> {
    let mut limits = Vec::new();
    let mut events = StoredEvents::new(run.clone(), 0);
    for _ in 0..MAX_SCANNED_PAGES {
        if unresolved.is_empty() {
            break;
        }
        let page = events.read(store)?;
        if page.is_empty() {
            break;
        }
        for stored in page {
            let StoredEvent::Event(event) = stored else { continue };
            let EventKind::LoopStarted { limits: started_limits, .. } = &event.kind else { continue };
            if unresolved.contains(&&event.path) {
                unresolved.retain(|name| **name != event.path);
                limits.extend(
                    started_max_iterations(started_limits).map(|max_iterations| (event.path.clone(), max_iterations)),
                );
            }
        }
    }
    Ok(limits)
}

/// Returns the maximum number of iterations of a loop from its start event.
pub fn started_max_iterations(limits: &LoopEventLimits) -> Option<u64> {
    limits.items.or(limits.count)
}

/// Returns the maximum number of iterations of a loop, if the definition gives it as a number.
pub fn defined_max_iterations(plan: &Plan, name: &str) -> Option<u64> {
    plan.nodes.iter().filter(|node| &*node.name == name).find_map(|node| match &node.kind {
        NodeKind::Loop(looping) => match looping.limits.iterations {
            Some(Amount::Fixed(max_iterations)) => Some(max_iterations),
            Some(Amount::Computed(_)) | None => None,
        },
        _ => None,
    })
}
