//! Removing runs from the memory store.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_value::Timestamp;

use super::MemoryStore;
use super::image::{DiskImage, StoredRunImage};
use crate::backend::MAX_REMOVED_PER_CALL;
use crate::{BatchRemoval, EndedTree, RemovableTree, RunRow, StoreClean, StoreError, SweepResult, TreeRemoval};

impl StoreClean for MemoryStore {
    fn removable(&self, before: Timestamp, after: i64, limit: u32) -> Result<Vec<RemovableTree>, StoreError> {
        self.read_image(|image| {
            let roots = image.runs.range(after + 1..).filter(|(_, run)| image.is_root(run));
            let trees = roots.filter_map(|(number, _)| Some((*number, image.tree(*number, before)?)));
            let found = trees.take(limit as usize);
            found.map(|(number, tree)| image.describe(number, &tree)).collect()
        })
    }

    fn ended_trees(&self, before: Option<i64>, limit: u32) -> Result<Vec<EndedTree>, StoreError> {
        self.read_image(|image| {
            let runs = image.runs.range(..before.unwrap_or(i64::MAX)).rev().map(|(_, run)| &run.row);
            let ended = runs.filter(|row| row.parent.is_none() && row.status.is_final());
            let describe = |row: &RunRow| EndedTree {
                number: row.number,
                run: row.run.clone(),
                definition: row.definition.clone(),
                status: row.status,
                ended_at: row.changed_at,
            };
            ended.take(limit as usize).map(describe).collect()
        })
    }

    fn remove(&self, run: &str, before: Timestamp) -> Result<TreeRemoval, StoreError> {
        self.write(|image| image.remove(run, before, MAX_REMOVED_PER_CALL))
    }

    fn remove_all(&self, runs: &[Arc<str>], before: Timestamp) -> Result<BatchRemoval, StoreError> {
        self.write(|image| {
            let mut all = BatchRemoval::default();
            for run in runs {
                let left = MAX_REMOVED_PER_CALL.saturating_sub(all.runs as usize);
                let removed = image.remove(run, before, left);
                all.runs += removed.runs;
                if removed.more {
                    break;
                }
                all.done += 1;
            }
            all
        })
    }

    fn sweep(&self) -> Result<SweepResult, StoreError> {
        self.write(|image| {
            let mut swept = SweepResult::default();
            if let Some((number, run)) = image.removed_runs.pop_first() {
                swept.add_row(run.bytes());
                image.free_blobs(number, &mut swept);
            }
            swept.more = !image.removed_runs.is_empty();
            swept
        })
    }
}

impl DiskImage {
    /// Removes at most `max_runs` runs of a tree.
    fn remove(&mut self, run: &str, before: Timestamp, max_runs: usize) -> TreeRemoval {
        let root = self.run(run).filter(|run| self.is_root(run)).map(|run| run.row.number);
        let Some(tree) = root.and_then(|root| self.tree(root, before)) else { return TreeRemoval::default() };
        let removed = tree.iter().rev().take(max_runs);
        removed.clone().for_each(|number| self.detach_run(*number));
        TreeRemoval { runs: removed.len() as u64, more: tree.len() > max_runs }
    }

    fn is_root(&self, run: &StoredRunImage) -> bool {
        let above = run.row.parent.as_ref().and_then(|parent| self.run(parent));
        above.is_none_or(|above| above.row.number >= run.row.number)
    }

    /// Returns a run and all its descendants, parents first; `None` if one of them may not be removed.
    fn tree(&self, root: i64, before: Timestamp) -> Option<Vec<i64>> {
        let mut called: HashMap<&Arc<str>, Vec<i64>> = HashMap::new();
        for (number, run) in &self.runs {
            if let Some(parent) = &run.row.parent {
                called.entry(parent).or_default().push(*number);
            }
        }
        let mut tree = vec![root];
        let mut at = 0;
        while let Some(run) = tree.get(at).and_then(|number| self.runs.get(number)) {
            if run.damaged || !run.row.status.is_final() || run.row.changed_at >= before {
                return None;
            }
            // A run is created after its parent: rows that form a circle end here.
            tree.extend(called.get(&run.row.run).into_iter().flatten().filter(|child| **child > run.row.number));
            at += 1;
        }
        Some(tree)
    }

    fn describe(&self, number: i64, tree: &[i64]) -> RemovableTree {
        let rows: u64 = tree.iter().filter_map(|number| self.runs.get(number)).map(StoredRunImage::bytes).sum();
        let only_theirs = |hash| self.blob_runs.get(hash).is_some_and(|runs| runs.iter().all(|run| tree.contains(run)));
        let blobs: u64 =
            self.blobs.values().filter(|blob| only_theirs(&blob.row.hash)).map(|blob| blob.row.body.len() as u64).sum();
        let run = self.runs.get(&number).map(|run| run.row.run.clone()).unwrap_or_default();
        RemovableTree { number, run, runs: tree.len() as u64, bytes: rows + blobs }
    }

    pub(super) fn detach_run(&mut self, number: i64) {
        let Some(run) = self.runs.remove(&number) else { return };
        self.numbers.remove(&run.row.run);
        self.execution_ids.remove(&run.row.execution_id);
        self.set_waits(number, Vec::new());
        self.tree_places.remove(&number);
        self.requests.remove(&run.row.run);
        for position in self.unconsumed_by_run.remove(&run.row.run).unwrap_or_default() {
            self.unconsumed.remove(&position);
        }
        self.removed_runs.insert(number, run);
    }

    fn free_blobs(&mut self, number: i64, swept: &mut SweepResult) {
        self.blob_runs.retain(|hash, runs| {
            if runs.remove(&number) && runs.is_empty() {
                let bytes = self.blobs.remove(hash).map_or(0, |blob| blob.row.body.len() as u64);
                swept.add_blob(bytes);
            }
            !runs.is_empty()
        });
    }
}

impl StoredRunImage {
    fn bytes(&self) -> u64 {
        let journal = self.journal.values().map(|row| row.row.body.len());
        let snapshots = self.snapshots.values().map(|row| row.row.body.len());
        let iterations = self.iterations.values().flat_map(|rows| rows.values()).map(|row| row.body.len());
        journal.chain(snapshots).chain(iterations).sum::<usize>() as u64 + self.logs.bytes()
    }
}
