//! Buffers loop history before it is written to the store: many iterations per row, trimmed as the history grows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{IterationRecord, Limits, Status};
use windlass_store::{IterationOutcome, IterationRow, IterationTrim};

use crate::codec::{self, IterationPack};

/// The number of iterations between two trims of one loop.
const TRIM_INTERVAL: u64 = 1_000;

/// The maximum number of iterations that wait for their row. They are in the journal already, so a crash loses none.
const MAX_PENDING_ITERATIONS: usize = 256;

/// The maximum time that an iteration waits for its row, so that readers of the history see it soon.
pub(crate) const MAX_PENDING_TIME: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct IterationBuffer {
    pending: BTreeMap<Arc<str>, Vec<IterationRecord>>,
    count: usize,
    since: Option<Instant>,
    /// The iteration up to which each loop's history was trimmed.
    trimmed: BTreeMap<Arc<str>, u64>,
}

impl IterationBuffer {
    pub(crate) fn extend(&mut self, iterations: &[IterationRecord]) {
        if iterations.is_empty() {
            return;
        }
        self.count += iterations.len();
        self.since.get_or_insert_with(Instant::now);
        for iteration in iterations {
            match self.pending.get_mut(&iteration.loop_path) {
                Some(pending) => pending.push(iteration.clone()),
                None => {
                    self.pending.insert(iteration.loop_path.clone(), vec![iteration.clone()]);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reports whether rows must be written now. A row per iteration would double the pages of a commit, so iterations
    /// are collected within bounds.
    pub(crate) fn is_due(&self) -> bool {
        self.count >= MAX_PENDING_ITERATIONS || self.since.is_some_and(|since| since.elapsed() >= MAX_PENDING_TIME)
    }

    /// Takes the rows to be written now, and the ranges that may be deleted.
    pub(crate) fn take(&mut self, limits: &Limits) -> (Vec<IterationRow>, Vec<IterationTrim>) {
        let (mut rows, mut trims) = (Vec::new(), Vec::new());
        self.count = 0;
        self.since = None;
        for (path, mut iterations) in std::mem::take(&mut self.pending) {
            let newest = iterations.iter().map(|iteration| iteration.index).max().unwrap_or(0);
            let keep_from = newest.saturating_sub(limits.history_newest_iterations.saturating_sub(1));
            iterations.retain(|iteration| {
                iteration.index >= keep_from
                    || iteration.index < limits.history_first_iterations
                    || iteration.status.is_bad()
            });
            self.trim(&path, keep_from, limits, &mut trims);
            rows.extend(pack_iterations(&path, iterations, limits));
        }
        (rows, trims)
    }

    fn trim(&mut self, path: &Arc<str>, keep_from: u64, limits: &Limits, trims: &mut Vec<IterationTrim>) {
        if keep_from <= limits.history_first_iterations {
            return;
        }
        let trimmed = self.trimmed.entry(path.clone()).or_default();
        if keep_from >= *trimmed + TRIM_INTERVAL {
            *trimmed = keep_from;
            trims.push(IterationTrim {
                loop_path: path.clone(),
                keep_first: limits.history_first_iterations,
                before: keep_from,
            });
        }
    }
}

/// Packs consecutive iterations with the same retention into rows: the first ones and the failed ones are kept
/// forever, the others are trimmed later.
pub(crate) fn pack_iterations(path: &Arc<str>, iterations: Vec<IterationRecord>, limits: &Limits) -> Vec<IterationRow> {
    let mut iterations = iterations;
    iterations.sort_by_key(|iteration| iteration.index);
    let mut groups: Vec<((IterationOutcome, u64), Vec<IterationRecord>)> = Vec::new();
    for iteration in iterations {
        let first = iteration.index < limits.history_first_iterations;
        let retention_group = (outcome(iteration.status), if first { 0 } else { 1 + iteration.index / TRIM_INTERVAL });
        match groups.last_mut() {
            Some((same, group))
                if *same == retention_group && group.last().is_some_and(|last| last.index + 1 == iteration.index) =>
            {
                group.push(iteration);
            }
            _ => groups.push((retention_group, vec![iteration])),
        }
    }
    let row = |((outcome, _), mut iterations): ((IterationOutcome, u64), Vec<IterationRecord>)| {
        let (first, last) = (
            iterations.first().map_or(0, |iteration| iteration.index),
            iterations.last().map_or(0, |iteration| iteration.index),
        );
        iterations.iter_mut().for_each(|iteration| iteration.loop_path = "".into());
        IterationRow { loop_path: path.clone(), first, last, outcome, body: codec::encode(&IterationPack(iterations)) }
    };
    groups.into_iter().map(row).collect()
}

fn outcome(status: Status) -> IterationOutcome {
    match status {
        Status::Succeeded | Status::Skipped => IterationOutcome::Succeeded,
        Status::Failed | Status::TimedOut => IterationOutcome::Failed,
        Status::Cancelled => IterationOutcome::Cancelled,
    }
}
