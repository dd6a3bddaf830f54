//! The paged history of loops. Counts come from the row heads alone; only displayed iterations are unpacked.

use std::collections::BTreeMap;

use windlass_core::{IterationRecord, IterationVerdict, LoopEndReason};
use windlass_store::{IterationHeader, IterationOutcome, IterationRow, StoreRead};
use windlass_value::{Map, Value};

use super::with_run_hint;
use crate::codec::{self, IterationPack};
use crate::{FinalReport, RuntimeError, error_value};

/// The number of rows read first; more are read until the page is full. Small, since a row may hold a thousand
/// iterations and all of them are unpacked.
const INITIAL_ROW_BATCH_SIZE: u32 = 2;

/// The number of last iterations that are searched for the reason of a loop's end.
const MAX_TRAILING_ITERATIONS: u64 = 256;

/// A page of a loop's iterations, in order.
#[derive(Debug, Default)]
pub struct IterationPage {
    /// The iterations, in order of their indexes.
    pub iterations: Vec<IterationRecord>,
    /// The ranges that the page skips, first and last: removed by retention, or not ended yet.
    pub missing: Vec<(u64, u64)>,
    /// The start of the next page.
    pub next: Option<u64>,
}

/// A loop with history.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopHistory {
    /// The path of the loop in the run.
    pub path: String,
    /// The number of iterations up to the newest that has ended.
    pub iterations: u64,
    /// The number of iterations that the store still has.
    pub kept: u64,
    /// Iterations that the loop itself has cancelled are not counted.
    pub failed: u64,
    /// The reason for its end.
    pub reason: Option<LoopEndReason>,
}

/// Iterations `from..=to` of a loop, as one cell of a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryCell {
    /// Index of the first iteration.
    pub from: u64,
    /// Index of the last iteration, inclusive.
    pub to: u64,
    /// The number of iterations that succeeded.
    pub succeeded: u64,
    /// The number of iterations that failed.
    pub failed: u64,
    /// Not retained, not ended, or cancelled with their loop.
    pub other: u64,
}

/// Returns at most `limit` iterations from an index on; only failed ones if requested. `judged` are the iterations of
/// the run whose judge runs: none of them has failed.
pub fn iterations_page(
    store: &dyn StoreRead,
    run: &str,
    path: &str,
    from: u64,
    limit: usize,
    failed: bool,
    judged: &[IterationRecord],
) -> Result<IterationPage, RuntimeError> {
    let max_iterations = limit.saturating_add(1);
    let mut iterations = match failed {
        true => read_failed(store, run, path, from, max_iterations)?,
        false => with_judged(read(store, run, path, from, max_iterations)?, path, from, judged),
    };
    let more = iterations.len() > limit;
    iterations.truncate(limit);
    let missing = if failed { Vec::new() } else { missing_ranges(&iterations, from) };
    let next = iterations.last().map(|iteration| iteration.index + 1).filter(|_| more);
    Ok(IterationPage { iterations, missing, next })
}

/// Adds the iterations of the loop whose judge runs, unless their history has been written in the meantime.
fn with_judged(
    mut iterations: Vec<IterationRecord>,
    path: &str,
    from: u64,
    judged: &[IterationRecord],
) -> Vec<IterationRecord> {
    iterations.extend(judged.iter().filter(|one| *one.loop_path == *path && one.index >= from).cloned());
    iterations.sort_by_key(|one| one.index);
    iterations.dedup_by_key(|one| one.index);
    iterations
}

fn missing_ranges(iterations: &[IterationRecord], from: u64) -> Vec<(u64, u64)> {
    let mut expected = from;
    let mut gaps = Vec::new();
    for iteration in iterations {
        if iteration.index > expected {
            gaps.push((expected, iteration.index - 1));
        }
        expected = iteration.index + 1;
    }
    gaps
}

/// Reads iterations from an index on. Failed iterations are in separate rows, so the iterations read are only
/// complete up to the start of the last row.
fn read(
    store: &dyn StoreRead,
    run: &str,
    path: &str,
    from: u64,
    max_iterations: usize,
) -> Result<Vec<IterationRecord>, RuntimeError> {
    let mut row_limit = INITIAL_ROW_BATCH_SIZE;
    loop {
        let rows = store.iterations(run, path, from, row_limit)?;
        let complete = (rows.len() as u32) < row_limit;
        let sure_until = if complete { u64::MAX } else { rows.last().map_or(u64::MAX, |row| row.first) };
        let mut iterations = unpack(rows)?;
        iterations.retain(|iteration| iteration.index >= from && iteration.index < sure_until);
        if complete || iterations.len() >= max_iterations || row_limit == u32::MAX {
            iterations.truncate(max_iterations);
            return Ok(iterations);
        }
        row_limit = row_limit.saturating_mul(4);
    }
}

/// Reads failed iterations. Rows without failures are skipped by their heads.
fn read_failed(
    store: &dyn StoreRead,
    run: &str,
    path: &str,
    from: u64,
    max_iterations: usize,
) -> Result<Vec<IterationRecord>, RuntimeError> {
    // A row has at least one iteration.
    let heads = store.iteration_headers(run, path, from, true, u32::try_from(max_iterations).unwrap_or(u32::MAX))?;
    let mut iterations = Vec::new();
    for head in heads {
        if iterations.len() >= max_iterations {
            break;
        }
        let row = store
            .iterations(run, path, head.first, 2)?
            .into_iter()
            .find(|row| row.outcome == IterationOutcome::Failed && row.first == head.first);
        let row = unpack(row.into_iter().collect())?;
        iterations.extend(row.into_iter().filter(|iteration| iteration.index >= from));
    }
    iterations.truncate(max_iterations);
    Ok(iterations)
}

/// Unpacks rows in order, each index once: after a crash an iteration may have been written twice, and the later one
/// counts.
fn unpack(rows: Vec<IterationRow>) -> Result<Vec<IterationRecord>, RuntimeError> {
    let mut iterations = BTreeMap::new();
    for row in rows {
        let IterationPack(pack) = codec::decode(&row.body, "a loop's history")?;
        iterations.extend(pack.into_iter().map(|iteration| (iteration.index, iteration)));
    }
    Ok(iterations.into_values().collect())
}

/// Returns the histories of some loops of a run. `report` is the final report of the run: a loop that ends between
/// two iterations has its reason only there. `judged` are the iterations of the run whose judge runs.
pub fn loop_histories(
    store: &dyn StoreRead,
    run: &str,
    paths: Vec<String>,
    report: Option<&FinalReport>,
    judged: &[IterationRecord],
) -> Result<Vec<LoopHistory>, RuntimeError> {
    let steps = report.into_iter().flat_map(|report| &report.steps);
    let ends: BTreeMap<&str, LoopEndReason> =
        steps.filter_map(|(name, step)| Some((&**name, step.looping.as_ref()?.reason))).collect();
    paths
        .into_iter()
        .map(|path| {
            let heads = store.iteration_headers(run, &path, 0, false, u32::MAX)?;
            let recorded = heads.iter().map(|head| head.last + 1).max().unwrap_or(0);
            let waiting = judged.iter().filter(|one| *one.loop_path == *path && !covers(&heads, one.index));
            let waiting: Vec<u64> = waiting.map(|one| one.index).collect();
            let iterations = waiting.iter().map(|index| index + 1).max().unwrap_or(0).max(recorded);
            let last =
                unpack(store.iterations(run, &path, iterations.saturating_sub(MAX_TRAILING_ITERATIONS), u32::MAX)?)?;
            let reason = last.iter().rev().find_map(|iteration| iteration.reason);
            Ok(LoopHistory {
                iterations,
                kept: covered(heads.iter()) + waiting.len() as u64,
                failed: covered(heads.iter().filter(|head| head.outcome == IterationOutcome::Failed)),
                reason: reason.or_else(|| ends.get(path.as_str()).copied()),
                path,
            })
        })
        .collect()
}

fn covers(heads: &[IterationHeader], index: u64) -> bool {
    heads.iter().any(|head| (head.first..=head.last).contains(&index))
}

/// Returns the number of iterations in the rows, each counted once. The rows are in the order of their first
/// iteration.
pub(super) fn covered<'a>(heads: impl Iterator<Item = &'a IterationHeader>) -> u64 {
    let mut next = 0;
    let mut count = 0;
    for head in heads {
        let first = head.first.max(next);
        if head.last >= first {
            count += head.last - first + 1;
            next = head.last + 1;
        }
    }
    count
}

/// Returns the history of a loop in at most `cells` cells of equal size.
pub fn history_strip(
    store: &dyn StoreRead,
    run: &str,
    path: &str,
    cells: u64,
) -> Result<Vec<HistoryCell>, RuntimeError> {
    let heads = store.iteration_headers(run, path, 0, false, u32::MAX)?;
    let iterations = heads.iter().map(|head| head.last + 1).max().unwrap_or(0);
    let size = iterations.div_ceil(cells.max(1)).max(1);
    let mut strip: Vec<HistoryCell> = (0..iterations.div_ceil(size))
        .map(|cell| {
            let (from, to) = (cell * size, (cell * size + size - 1).min(iterations - 1));
            HistoryCell { from, to, succeeded: 0, failed: 0, other: to - from + 1 }
        })
        .collect();
    let mut next = 0;
    for head in heads {
        // After a crash an iteration may be in two rows.
        let first = head.first.max(next);
        next = next.max(head.last + 1);
        let mut at = first;
        while at <= head.last {
            let Some(cell) = usize::try_from(at / size).ok().and_then(|cell| strip.get_mut(cell)) else { break };
            let count = head.last.min(cell.to) - at + 1;
            let counted = match head.outcome {
                IterationOutcome::Succeeded => Some(&mut cell.succeeded),
                IterationOutcome::Failed => Some(&mut cell.failed),
                IterationOutcome::Cancelled => None,
            };
            if let Some(counted) = counted {
                *counted += count;
                cell.other = cell.other.saturating_sub(count);
            }
            at += count;
        }
    }
    Ok(strip)
}

fn verdict_value(verdict: &IterationVerdict) -> Value {
    Value::object([("done", Value::from(verdict.done)), ("reason", Value::from(verdict.reason.clone()))])
}

/// Returns one iteration as a value for programs.
pub fn iteration_value(run: &str, iteration: &IterationRecord) -> Value {
    let mut map = Map::new();
    map.insert("iteration", iteration.index);
    map.insert("status", iteration.status.as_str());
    map.insert("started_at", iteration.started_at.to_string());
    map.insert("duration_ms", iteration.duration.as_ms());
    map.insert("condition_result", iteration.condition);
    map.insert("result", iteration.result.clone());
    if let Some(error) = &iteration.error {
        map.insert("error", error_value(&with_run_hint(error.clone(), run)));
    }
    if let Some(reason) = iteration.reason {
        map.insert("reason", reason.as_str());
    }
    if let Some(item) = &iteration.item {
        map.insert("item", item.clone());
    }
    if let Some(verdict) = &iteration.verdict {
        map.insert("verdict", verdict_value(verdict));
    }
    Value::map(map)
}
