//! Loop history on its way to the store: packed many turns to a row, trimmed as it grows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{Limits, TurnRecord};
use windlass_store::{TurnRow, TurnTrim};

use crate::codec::{self, TurnPack};

/// Turns between two trims of one loop.
const TRIM_EVERY: u64 = 1_000;

/// Turns that wait at most for their row. They are in the journal already, so a crash loses none.
const TURNS_WAITING_MAX: usize = 256;

/// How long a turn waits at most for its row, so that whoever reads the history sees it soon.
pub(crate) const TURN_WAITS_MAX: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct TurnBuffer {
    pending: BTreeMap<Arc<str>, Vec<TurnRecord>>,
    count: usize,
    since: Option<Instant>,
    /// Up to where each loop's history was trimmed.
    trimmed: BTreeMap<Arc<str>, u64>,
}

impl TurnBuffer {
    pub(crate) fn extend(&mut self, turns: &[TurnRecord]) {
        if turns.is_empty() {
            return;
        }
        self.count += turns.len();
        self.since.get_or_insert_with(Instant::now);
        for turn in turns {
            match self.pending.get_mut(&turn.loop_path) {
                Some(pending) => pending.push(turn.clone()),
                None => {
                    self.pending.insert(turn.loop_path.clone(), vec![turn.clone()]);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A row for every turn would double the pages of a commit: they wait for each other, within bounds.
    pub(crate) fn is_due(&self) -> bool {
        self.count >= TURNS_WAITING_MAX || self.since.is_some_and(|since| since.elapsed() >= TURN_WAITS_MAX)
    }

    /// The rows to be written now, and the ranges that may go.
    pub(crate) fn take(&mut self, limits: &Limits) -> (Vec<TurnRow>, Vec<TurnTrim>) {
        let (mut rows, mut trims) = (Vec::new(), Vec::new());
        self.count = 0;
        self.since = None;
        for (path, mut turns) in std::mem::take(&mut self.pending) {
            let newest = turns.iter().map(|turn| turn.index).max().unwrap_or(0);
            let keep_from = newest.saturating_sub(limits.history_newest_turns.saturating_sub(1));
            turns.retain(|turn| {
                turn.index >= keep_from || turn.index < limits.history_first_turns || turn.status.is_bad()
            });
            self.trim(&path, keep_from, limits, &mut trims);
            rows.extend(pack(&path, turns, limits));
        }
        (rows, trims)
    }

    fn trim(&mut self, path: &Arc<str>, keep_from: u64, limits: &Limits, trims: &mut Vec<TurnTrim>) {
        if keep_from <= limits.history_first_turns {
            return;
        }
        let trimmed = self.trimmed.entry(path.clone()).or_default();
        if keep_from >= *trimmed + TRIM_EVERY {
            *trimmed = keep_from;
            trims.push(TurnTrim { loop_path: path.clone(), keep_first: limits.history_first_turns, before: keep_from });
        }
    }
}

/// A row holds consecutive turns that share their fate: the first ones and the failed ones stay for ever, the others go
/// in time.
fn pack(path: &Arc<str>, turns: Vec<TurnRecord>, limits: &Limits) -> Vec<TurnRow> {
    let mut turns = turns;
    turns.sort_by_key(|turn| turn.index);
    let mut groups: Vec<((bool, u64), Vec<TurnRecord>)> = Vec::new();
    for turn in turns {
        let first = turn.index < limits.history_first_turns;
        let fate = (turn.status.is_bad(), if first { 0 } else { 1 + turn.index / TRIM_EVERY });
        match groups.last_mut() {
            Some((same, group)) if *same == fate && group.last().is_some_and(|last| last.index + 1 == turn.index) => {
                group.push(turn);
            }
            _ => groups.push((fate, vec![turn])),
        }
    }
    let row = |((failed, _), mut turns): ((bool, u64), Vec<TurnRecord>)| {
        let (first, last) = (turns.first().map_or(0, |turn| turn.index), turns.last().map_or(0, |turn| turn.index));
        turns.iter_mut().for_each(|turn| turn.loop_path = "".into());
        TurnRow { loop_path: path.clone(), first, last, failed, body: codec::encode(&TurnPack(turns)) }
    };
    groups.into_iter().map(row).collect()
}
