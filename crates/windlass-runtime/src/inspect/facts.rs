//! Loop details that the final report lacks, from the history as far as it is retained.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::{Amount, NodeKind, Plan};
use windlass_core::{EventKind, LoopEndReason, LoopEventLimits};
use windlass_store::{IterationOutcome, StoreRead};

use super::iterations::covered;
use super::{InheritedEvents, StoredEvent, StoredEvents};
use crate::{FinalReport, RuntimeError};

/// The maximum number of event pages searched for a loop's start: the number is not worth a longer wait.
const MAX_SCANNED_PAGES: usize = 4;

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
            facts.entry(name.clone()).or_default().cancelled = count_cancelled(store, run, name)?;
        }
    }
    let mut own = StoredEvents::new(run.clone(), 0);
    let mut limits = computed_limits(&mut unknown, || own.read(store))?;
    if let Some(row) = store.run(run)?.filter(|_| !unknown.is_empty()) {
        // A restart inside a loop continues the loop of the run that it repeats.
        let mut inherited = InheritedEvents::new(store, &row)?;
        limits.extend(computed_limits(&mut unknown, || inherited.read(store))?);
    }
    for (name, max_iterations) in limits {
        facts.entry(name).or_default().max_iterations = Some(max_iterations);
    }
    Ok(facts)
}

/// Counts the iterations that were cancelled with their loop. They are a few rows: those in flight when it ended.
fn count_cancelled(store: &dyn StoreRead, run: &str, name: &str) -> Result<u64, RuntimeError> {
    let heads = store.iteration_headers(run, name, 0, false, u32::MAX)?;
    let cancelled = heads.iter().filter(|head| head.outcome == IterationOutcome::Cancelled);
    // After a crash an iteration may be stored twice.
    Ok(covered(cancelled))
}

/// Returns the limits of loops whose limits are expressions or which have items: their start event contains them. The
/// loops whose start was not found remain in `unresolved`.
fn computed_limits(
    unresolved: &mut Vec<&Arc<str>>,
    mut read_page: impl FnMut() -> Result<Vec<StoredEvent>, RuntimeError>,
) -> Result<Vec<(Arc<str>, u64)>, RuntimeError> {
    let mut limits = Vec::new();
    for _ in 0..MAX_SCANNED_PAGES {
        if unresolved.is_empty() {
            break;
        }
        let page = read_page()?;
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
