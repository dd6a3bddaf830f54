//! The queue position of a run that waits for admission. All of it is in the store, so any process can compute it.

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::plan::Plan;
use windlass_store::{RunFilter, RunRow, RunStatus, Store, StoreError};

use super::delivery_prefix;
use super::queue::{TriggerConcurrency, each_run, occupies_slot, queue_order};

/// The position of a run in the queue of its trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueuePositionInfo {
    /// The name of the trigger.
    pub trigger: String,
    /// Runs of the trigger that are in flight.
    pub in_flight: usize,
    /// Maximum number of concurrent runs.
    pub max_concurrency: usize,
    /// 1: it is the next.
    pub position: usize,
    /// All of this as a sentence.
    pub note: String,
}

/// Returns the queue position. None: the run is not queued, or the trigger has no limit in this plan.
pub fn find_queue_position(
    store: &dyn Store,
    row: &RunRow,
    plan: &Plan,
) -> Result<Option<QueuePositionInfo>, StoreError> {
    if row.status != RunStatus::Pending {
        return Ok(None);
    }
    let own = plan.triggers.iter().map(|trigger| (trigger, delivery_prefix(&plan.name, &trigger.name)));
    let own = own.into_iter().find(|(_, prefix)| row.run.starts_with(prefix));
    let Some((trigger, prefix)) = own else { return Ok(None) };
    let Some(TriggerConcurrency { max_concurrency, .. }) = TriggerConcurrency::from_trigger(trigger, 0) else {
        return Ok(None);
    };
    let filter = RunFilter {
        definition: Some(row.definition.clone()),
        unfinished: true,
        search: Some(prefix.clone()),
        ..RunFilter::default()
    };
    let (mut in_flight, mut position) = (0, 1);
    let own_order = queue_order(row);
    each_run(store, &filter, |other| {
        let of_trigger = other.run.starts_with(&prefix);
        match other.status {
            RunStatus::Pending => position += usize::from(of_trigger && queue_order(other) < own_order),
            status => in_flight += usize::from(of_trigger && occupies_slot(status)),
        }
        Ok(())
    })?;
    let name = &trigger.name;
    let runs = if in_flight == 1 { "1 run".to_owned() } else { format!("{in_flight} runs") };
    let are = if in_flight == 1 { "is" } else { "are" };
    let note = format!(
        "queued: {runs} of the trigger `{name}` {are} in flight (limit {max_concurrency}), position {position}"
    );
    Ok(Some(QueuePositionInfo { trigger: name.to_string(), in_flight, max_concurrency, position, note }))
}
