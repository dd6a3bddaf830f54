//! What the end of a run does not tell of its loops, from its history as far as that is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::{Amount, NodeKind, Plan};
use windlass_core::{EventKind, LoopEndReason, LoopEventLimits, LoopSummary, Status};
use windlass_store::StoreRead;

use super::{StoredEvent, StoredEvents};
use crate::codec::{self, IterationPack};
use crate::{FinalReport, RuntimeError};

/// Pages of events looked through for a loop's beginning: nobody waits for a number that is nice to have.
const MAX_SCANNED_PAGES: usize = 4;

/// More turns than ever run at once: those that were cut off are among the last so many.
const MAX_TRAILING_ITERATIONS: u64 = 256;

#[derive(Clone, Copy, Default)]
pub struct LoopDetails {
    /// The most turns there could be, where that was computed.
    pub max_iterations: Option<u64>,
    /// Turns that had begun and were called off with the loop.
    pub cancelled: u64,
}

/// By the name of the step.
pub type LoopDetailsByStep = BTreeMap<Arc<str>, LoopDetails>;

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
    // After a crash a turn may have been written twice; the later one counts.
    let mut iterations = BTreeMap::new();
    for row in store.iterations(run, name, from, MAX_TRAILING_ITERATIONS as u32)? {
        let IterationPack(pack) = codec::decode(&row.body, "a loop's history")?;
        iterations.extend(pack.into_iter().map(|iteration| (iteration.index, iteration.status)));
    }
    Ok(iterations.into_values().filter(|status| *status == Status::Cancelled).count() as u64)
}

/// What the loops whose limits are expressions, or which have items, were held to: their beginning tells.
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

/// The most turns that a loop can have, as its beginning tells.
pub fn started_max_iterations(limits: &LoopEventLimits) -> Option<u64> {
    limits.items.or(limits.count)
}

/// How many turns a loop may have, if the definition says so in a number.
pub fn defined_max_iterations(plan: &Plan, name: &str) -> Option<u64> {
    plan.nodes.iter().filter(|node| &*node.name == name).find_map(|node| match &node.kind {
        NodeKind::Loop(looping) => match looping.limits.iterations {
            Some(Amount::Fixed(max_iterations)) => Some(max_iterations),
            Some(Amount::Computed(_)) | None => None,
        },
        _ => None,
    })
}
