//! Removal of finished runs.

use std::sync::Arc;

use windlass_store::{RemovableTree, Store};
use windlass_value::Timestamp;

use crate::RuntimeError;

/// The number of runs processed per batch.
const RUN_BATCH_SIZE: u32 = 256;

/// The amount that a cleanup has freed, or would free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanupReport {
    /// The number of removed runs, descendants included.
    pub runs: u64,
    /// The number of removed values.
    pub blobs: u64,
    /// The number of freed bytes, rows and values together.
    pub bytes: u64,
}

/// Returns the runs that [`clean_runs`] would remove, oldest first.
pub fn removable(store: &dyn Store, before: Timestamp) -> Result<Vec<RemovableTree>, RuntimeError> {
    let mut all: Vec<RemovableTree> = Vec::new();
    loop {
        let after = all.last().map_or(0, |last| last.number);
        let page = store.removable(before, after, RUN_BATCH_SIZE)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Removes the runs that have ended before a time, each with all its descendants, and the stored values that no other
/// run has written. It works in steps: other processes can write in between, and an interrupted cleanup is continued
/// by the next one.
pub fn clean_runs(store: &dyn Store, before: Timestamp) -> Result<CleanupReport, RuntimeError> {
    let mut report = CleanupReport::default();
    sweep_blobs(store, &mut report)?;
    let mut after = 0;
    loop {
        let page = store.removable(before, after, RUN_BATCH_SIZE)?;
        let Some(last) = page.last() else { return Ok(report) };
        after = last.number;
        let runs: Vec<Arc<str>> = page.into_iter().map(|found| found.run).collect();
        let mut left = &runs[..];
        while !left.is_empty() {
            let removed = store.remove_all(left, before)?;
            report.runs += removed.runs;
            left = &left[removed.done..];
            sweep_blobs(store, &mut report)?;
        }
    }
}

fn sweep_blobs(store: &dyn Store, report: &mut CleanupReport) -> Result<(), RuntimeError> {
    loop {
        let swept = store.sweep()?;
        report.blobs += swept.blobs;
        report.bytes += swept.bytes;
        if !swept.more {
            return Ok(());
        }
    }
}
