//! The run tree: the child runs of a run, their child runs, and so on.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::NodeKind;
use windlass_store::{RunFilter, RunRow, Store, StoreErrorKind};

use super::EngineInner;
use crate::RuntimeError;

/// The number of runs read per batch.
const ROW_BATCH_SIZE: u32 = 256;

/// Returns the descendants of `run` that have not ended, oldest first. Runs in between may have ended.
pub fn open_descendants(store: &dyn Store, run: &str) -> Result<Vec<RunRow>, RuntimeError> {
    let filter = RunFilter { unfinished: true, ..RunFilter::default() };
    let mut belongs = BTreeMap::from([(Arc::from(run), true)]);
    let root = store.run(run)?.map_or(0, |row| row.number);
    let mut open = Vec::new();
    let mut before = None;
    loop {
        let rows = store.runs(&filter, before, ROW_BATCH_SIZE)?;
        let Some(last) = rows.last().map(|row| row.number).filter(|_| before.is_none_or(|before| before > root)) else {
            break;
        };
        before = Some(last);
        // A run is newer than its parent, also where the rows of damaged runs say otherwise.
        for row in rows.into_iter().filter(|row| row.number > root) {
            if is_descendant(store, &row, &mut belongs)? {
                open.push(row);
            }
        }
    }
    open.reverse();
    Ok(open)
}

/// Follows the parents until it reaches a run whose membership is known.
fn is_descendant(
    store: &dyn Store,
    row: &RunRow,
    belongs: &mut BTreeMap<Arc<str>, bool>,
) -> Result<bool, RuntimeError> {
    let (mut above, mut number) = (row.parent.clone(), row.number);
    let mut passed = Vec::new();
    let answer = loop {
        let Some(next) = above else { break false };
        if let Some(known) = belongs.get(&next) {
            break *known;
        }
        // Rows that form a circle, or that are damaged, belong to no tree.
        let found = match store.run(&next) {
            Err(error) if error.kind == StoreErrorKind::Damaged => None,
            found => found?.filter(|row| row.number < number),
        };
        passed.push(next);
        let Some(found) = found else { break false };
        (above, number) = (found.parent, found.number);
    };
    belongs.extend(passed.into_iter().map(|run| (run, answer)));
    Ok(answer)
}

impl EngineInner {
    /// Reloads the open descendants that a crashed process has left: children whose cancellation their parent has
    /// already forgotten, and children that have replied and continue.
    pub(super) async fn reload_descendants(self: &Arc<Self>, row: &RunRow) -> Result<(), RuntimeError> {
        let calls = |kind: &NodeKind| matches!(kind, NodeKind::Call(_));
        // The report of an ended run can be read even if its plan cannot.
        let Ok(program) = self.program(&row.plan) else { return Ok(()) };
        // An adopting engine finds them by itself.
        if self.adopt || !program.plan.nodes.iter().any(|node| calls(&node.kind)) {
            return Ok(());
        }
        for descendant in open_descendants(&*self.store, &row.run)? {
            self.reload_or_postpone(&descendant.run).await;
        }
        Ok(())
    }
}
