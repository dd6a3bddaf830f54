//! Run trees in the memory store: how many runs of a tree are open, and which runs are cancelled.

use std::sync::Arc;

use super::image::{DiskImage, StoredRunImage};
use crate::NewRun;

/// The place of a run in its run tree. A run that has neither a parent, nor children, nor a mark has none.
#[derive(Clone, Copy, Default)]
pub(super) struct TreePlace {
    /// The number of the root, for every other run.
    root: Option<i64>,
    /// For a root: the open runs below it.
    open: u64,
    marks: TreeMarks,
}

/// Marks that decide whether runs may begin below a run. They are never removed.
#[derive(Clone, Copy, Default)]
pub(super) struct TreeMarks {
    /// A caller outside the run tree has cancelled the run.
    pub cancelled: bool,
    /// The parent run has cancelled it.
    pub cancelled_by_caller: bool,
    /// The run has replied to its parent run.
    pub replied: bool,
}

impl DiskImage {
    pub(super) fn number(&self, run: &str) -> Option<i64> {
        self.numbers.get(run).copied()
    }

    /// Reports whether a run has ended or is cancelled, or one above it.
    pub(super) fn is_cancelled_from(&self, run: Option<&Arc<str>>) -> bool {
        let mut above = run.and_then(|run| self.run(run));
        while let Some(run) = above {
            let marks = self.tree_places.get(&run.row.number).copied().unwrap_or_default().marks;
            if run.row.status.is_final() || marks.cancelled || (marks.cancelled_by_caller && !marks.replied) {
                return true;
            }
            let parent = run.row.parent.as_ref().filter(|_| !marks.replied);
            // A parent is older: rows that say otherwise form no tree, and a walk over them may not end.
            let older = |parent: &&StoredRunImage| parent.row.number < run.row.number;
            above = parent.and_then(|parent| self.run(parent)).filter(older);
        }
        false
    }

    /// Reports whether a run above this one has ended or is cancelled.
    pub(super) fn is_cancelled_above(&self, run: &StoredRunImage) -> bool {
        let replied = self.tree_places.get(&run.row.number).is_some_and(|place| place.marks.replied);
        !replied && self.is_cancelled_from(run.row.parent.as_ref())
    }

    /// Returns the root of the tree that a new run belongs to; `None` for a run without a parent in this store.
    pub(super) fn root_above(&self, new: &NewRun) -> Option<i64> {
        let parent = self.number(new.parent.as_ref()?)?;
        Some(self.tree_places.get(&parent).and_then(|place| place.root).unwrap_or(parent))
    }

    pub(super) fn is_tree_full(&self, new: &NewRun) -> bool {
        let place = self.root_above(new).and_then(|root| self.tree_places.get(&root));
        self.root_above(new).is_some() && place.map_or(0, |place| place.open) >= new.max_tree_runs
    }

    pub(super) fn enter_tree(&mut self, number: i64, root: Option<i64>) {
        let Some(root) = root else { return };
        self.tree_places.insert(number, TreePlace { root: Some(root), ..TreePlace::default() });
        self.tree_places.entry(root).or_default().open += 1;
    }

    /// Ends the run's part in its tree. Its marks stay: runs below it may still be open.
    pub(super) fn end_in_tree(&mut self, number: i64) {
        let root = self.tree_places.get(&number).and_then(|place| place.root);
        if let Some(root) = root.and_then(|root| self.tree_places.get_mut(&root)) {
            root.open = root.open.saturating_sub(1);
        }
    }

    /// Adds marks to a run.
    pub(super) fn mark(&mut self, number: i64, marks: TreeMarks) {
        let own = &mut self.tree_places.entry(number).or_default().marks;
        own.cancelled |= marks.cancelled;
        own.cancelled_by_caller |= marks.cancelled_by_caller;
        own.replied |= marks.replied;
    }
}
