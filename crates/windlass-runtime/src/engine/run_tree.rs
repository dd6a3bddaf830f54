//! The runs below a run: those it has called, those they have called, and so on.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::NodeKind;
use windlass_store::{RunFilter, RunRow, Store};

use super::EngineInner;
use crate::RuntimeError;

/// Runs looked at in one go.
const ROW_BATCH_SIZE: u32 = 256;

/// The runs below `run` that have not ended, oldest first. Those in between may have ended.
pub fn open_descendants(store: &dyn Store, run: &str) -> Result<Vec<RunRow>, RuntimeError> {
    let filter = RunFilter { unfinished: true, ..RunFilter::default() };
    let mut belongs = BTreeMap::from([(Arc::from(run), true)]);
    let mut open = Vec::new();
    let mut before = None;
    loop {
        let rows = store.runs(&filter, before, ROW_BATCH_SIZE)?;
        let Some(last) = rows.last().map(|row| row.number) else { break };
        before = Some(last);
        for row in rows {
            if is_descendant(store, row.parent.clone(), &mut belongs)? {
                open.push(row);
            }
        }
    }
    open.reverse();
    Ok(open)
}

/// Climbs until it meets somebody of whom it is known.
fn is_descendant(
    store: &dyn Store,
    mut above: Option<Arc<str>>,
    belongs: &mut BTreeMap<Arc<str>, bool>,
) -> Result<bool, RuntimeError> {
    let mut passed = Vec::new();
    let answer = loop {
        let Some(next) = above else { break false };
        if let Some(known) = belongs.get(&next) {
            break *known;
        }
        // A run is made after its parent, so this comes to an end.
        above = store.run(&next)?.and_then(|row| row.parent);
        passed.push(next);
    };
    belongs.extend(passed.into_iter().map(|run| (run, answer)));
    Ok(answer)
}

impl EngineInner {
    /// Brings back what a process that died has left open below a run: children that it had called off, of which their
    /// parent knows no more, and such that have answered and go on.
    pub(super) async fn reload_descendants(self: &Arc<Self>, row: &RunRow) -> Result<(), RuntimeError> {
        let calls = |kind: &NodeKind| matches!(kind, NodeKind::Call(_));
        // The report of a run that has ended can be read even if its plan cannot.
        let Ok(program) = self.program(&row.plan) else { return Ok(()) };
        // Whoever adopts finds them by itself.
        if self.adopt || !program.plan.nodes.iter().any(|node| calls(&node.kind)) {
            return Ok(());
        }
        for descendant in open_descendants(&*self.store, &row.run)? {
            self.reload_or_postpone(&descendant.run).await;
        }
        Ok(())
    }
}
