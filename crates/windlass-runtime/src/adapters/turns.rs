//! Loop history on its way to the store: packed many turns to a row, trimmed as it grows.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Limits, TurnRecord};
use windlass_store::{TurnRow, TurnTrim};

use crate::codec::{self, TurnPack};

/// Turns between two trims of one loop.
const TRIM_EVERY: u64 = 1_000;

#[derive(Default)]
pub struct TurnBuffer {
    pending: BTreeMap<Arc<str>, Vec<TurnRecord>>,
    /// Up to where each loop's history was trimmed.
    trimmed: BTreeMap<Arc<str>, u64>,
}

impl TurnBuffer {
    pub fn extend(&mut self, turns: &[TurnRecord]) {
        for turn in turns {
            match self.pending.get_mut(&turn.loop_path) {
                Some(pending) => pending.push(turn.clone()),
                None => {
                    self.pending.insert(turn.loop_path.clone(), vec![turn.clone()]);
                }
            }
        }
    }

    /// The rows to be written now, and the ranges that may go.
    pub fn take(&mut self, limits: &Limits) -> (Vec<TurnRow>, Vec<TurnTrim>) {
        let (mut rows, mut trims) = (Vec::new(), Vec::new());
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

/// Turns of a row share their fate: the first ones and the failed ones stay for ever, the others go in time.
fn pack(path: &Arc<str>, turns: Vec<TurnRecord>, limits: &Limits) -> Vec<TurnRow> {
    let mut groups: BTreeMap<(bool, u64), Vec<TurnRecord>> = BTreeMap::new();
    for turn in turns {
        let first = turn.index < limits.history_first_turns;
        let block = if first { 0 } else { 1 + turn.index / TRIM_EVERY };
        groups.entry((turn.status.is_bad(), block)).or_default().push(turn);
    }
    let row = |((failed, _), mut turns): ((bool, u64), Vec<TurnRecord>)| {
        turns.sort_by_key(|turn| turn.index);
        let (first, last) = (turns.first().map_or(0, |turn| turn.index), turns.last().map_or(0, |turn| turn.index));
        turns.iter_mut().for_each(|turn| turn.loop_path = "".into());
        TurnRow { loop_path: path.clone(), first, last, failed, body: codec::encode(&TurnPack(turns)) }
    };
    groups.into_iter().map(row).collect()
}
