//! The loop history that a restarted or retried run takes over: the iterations that had ended in its source run when
//! it was forked. Without them the new run would count only what it has repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::{IterationRecord, Limits};
use windlass_store::{IterationRow, StoreRead};
use windlass_value::{BlobHash, Value};

use crate::RuntimeError;
use crate::adapters::pack_iterations;
use crate::codec::{self, IterationPack};
use crate::references::each_stored;

/// The maximum size of stored results that are copied with the history. A result beyond that stays a reference into
/// the source run, and is gone when that run is removed.
const MAX_COPIED_BYTES: u64 = 64 * 1024 * 1024;

/// Identifies an iteration by its loop's path and its index.
type IterationKey = (Arc<str>, u64);

/// Collects iterations of the source run.
#[derive(Default)]
pub(super) struct InheritedHistory {
    iterations: BTreeMap<IterationKey, IterationRecord>,
}

/// The history for the first batch of the new run.
#[derive(Default)]
pub(super) struct InheritedRows {
    pub rows: Vec<IterationRow>,
    pub blobs: Vec<(BlobHash, Vec<u8>)>,
}

impl InheritedHistory {
    /// Reads the stored history of a run without the iterations that ended after the fork.
    pub(super) fn read(
        store: &dyn StoreRead,
        run: &str,
        ended_later: &BTreeSet<IterationKey>,
    ) -> Result<InheritedHistory, RuntimeError> {
        let mut history = InheritedHistory::default();
        for path in store.loops(run)? {
            let path: Arc<str> = path.into();
            for row in store.iterations(run, &path, 0, u32::MAX)? {
                let IterationPack(pack) = codec::decode(&row.body, "a loop's history")?;
                let records = pack.into_iter().map(|record| IterationRecord { loop_path: path.clone(), ..record });
                history.extend(records.filter(|record| !ended_later.contains(&key(record))));
            }
        }
        Ok(history)
    }

    /// Adds iterations; of two records of one iteration the later one counts.
    pub(super) fn extend(&mut self, records: impl IntoIterator<Item = IterationRecord>) {
        self.iterations.extend(records.into_iter().map(|record| (key(&record), record)));
    }

    /// Packs the history into rows, together with the stored results that it refers to.
    pub(super) fn into_rows(self, store: &dyn StoreRead, limits: &Limits) -> Result<InheritedRows, RuntimeError> {
        let mut blobs = BTreeMap::new();
        let mut left = MAX_COPIED_BYTES;
        let mut by_loop: BTreeMap<Arc<str>, Vec<IterationRecord>> = BTreeMap::new();
        for record in self.iterations.into_values() {
            copy_blobs(store, &record.result, &mut left, &mut blobs)?;
            by_loop.entry(record.loop_path.clone()).or_default().push(record);
        }
        let rows = by_loop.into_iter().flat_map(|(path, records)| pack_iterations(&path, records, limits)).collect();
        Ok(InheritedRows { rows, blobs: blobs.into_iter().collect() })
    }
}

pub(super) fn key(record: &IterationRecord) -> IterationKey {
    (record.loop_path.clone(), record.index)
}

fn copy_blobs(
    store: &dyn StoreRead,
    value: &Value,
    left: &mut u64,
    blobs: &mut BTreeMap<BlobHash, Vec<u8>>,
) -> Result<(), RuntimeError> {
    let mut open = Vec::new();
    each_stored(value, &mut |stored| {
        // The size includes all nested values.
        if stored.size <= *left {
            *left -= stored.size;
            open.push(stored.hash);
        }
    });
    while let Some(hash) = open.pop() {
        if blobs.contains_key(&hash) {
            continue;
        }
        // A value that is already gone stays a reference.
        let Some(bytes) = store.blob(&hash)? else { continue };
        each_stored(&codec::blob_value(&hash, &bytes)?, &mut |stored| open.push(stored.hash));
        blobs.insert(hash, bytes);
    }
    Ok(())
}
