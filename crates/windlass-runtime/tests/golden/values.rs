//! Stored values in memory that must be loaded in every tick, as in an engine with a cold cache.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::Values;
use windlass_runtime::content_summary;
use windlass_value::{BlobHash, StoredValue, Value, encode};

#[derive(Default)]
pub(crate) struct ColdValues {
    blobs: BTreeMap<BlobHash, Value>,
    loaded: BTreeSet<BlobHash>,
}

impl ColdValues {
    /// Empties the cache before each tick.
    pub(crate) fn evict(&mut self) {
        self.loaded.clear();
    }

    pub(crate) fn load(&mut self, hashes: &[BlobHash]) {
        for hash in hashes {
            assert!(self.blobs.contains_key(hash), "{hash} was never put");
            self.loaded.insert(*hash);
        }
    }
}

impl Values for ColdValues {
    fn get(&self, hash: &BlobHash) -> Option<Value> {
        self.blobs.get(hash).filter(|_| self.loaded.contains(hash)).cloned()
    }

    fn put(&mut self, value: &Value) -> StoredValue {
        let bytes = encode(value);
        let hash = BlobHash(*blake3::hash(&bytes).as_bytes());
        self.blobs.insert(hash, value.clone());
        let items = value.as_list().map_or(0, |list| list.len() as u64);
        StoredValue { hash, size: bytes.len() as u64, items, chunked: false, summary: content_summary(value) }
    }
}
