//! Stored values in memory. A forgetful instance has no value resident until it is asked to load it, in every tick.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::Values;
use windlass_value::{BlobHash, ContentSummary, StoredValue, Value, encode};

use super::rng::digest;

#[derive(Clone, Default)]
pub(crate) struct MemoryValues {
    blobs: BTreeMap<BlobHash, Value>,
    at_hand: BTreeSet<BlobHash>,
    forgetful: bool,
    /// Number of loads.
    pub loads: usize,
}

impl MemoryValues {
    pub(crate) fn forgetful() -> MemoryValues {
        MemoryValues { forgetful: true, ..MemoryValues::default() }
    }

    pub(crate) fn forget(&mut self) {
        self.at_hand.clear();
    }

    pub(crate) fn load(&mut self, hashes: &[BlobHash]) {
        assert!(!hashes.is_empty(), "values are needed, but none is named");
        for hash in hashes {
            assert!(self.blobs.contains_key(hash), "{hash} was never put");
            assert!(self.at_hand.insert(*hash), "{hash} is loaded and requested again");
        }
        self.loads += 1;
    }

    /// Resolves a value completely, as an external reader would see it.
    pub(crate) fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::Stored(stored) if stored.chunked => {
                let root = &self.blobs[&stored.hash];
                let chunks = root.as_list().expect("a list of chunks").iter().map(|chunk| self.resolve(chunk));
                let items: Vec<Value> = chunks.flat_map(|chunk| chunk.as_list().expect("a chunk").to_vec()).collect();
                assert_eq!(items.len() as u64, stored.items, "a chunked list knows its length");
                Value::list(items.iter().map(|item| self.resolve(item)).collect())
            }
            Value::Stored(stored) => self.resolve(&self.blobs[&stored.hash]),
            Value::List(items) => Value::list(items.iter().map(|item| self.resolve(item)).collect()),
            Value::Map(map) => Value::object(map.iter().map(|(key, item)| (key.clone(), self.resolve(item)))),
            plain => plain.clone(),
        }
    }
}

impl Values for MemoryValues {
    fn get(&self, hash: &BlobHash) -> Option<Value> {
        let at_hand = !self.forgetful || self.at_hand.contains(hash);
        self.blobs.get(hash).filter(|_| at_hand).cloned()
    }

    fn put(&mut self, value: &Value) -> StoredValue {
        let bytes = encode(value);
        let hash = content_hash(&bytes);
        self.blobs.insert(hash, value.clone());
        let items = value.as_list().map_or(0, |list| list.len() as u64);
        let summary = ContentSummary::new(value, hash, bytes.len() as u64);
        StoredValue { hash, size: bytes.len() as u64, items, chunked: false, summary }
    }
}

fn content_hash(bytes: &[u8]) -> BlobHash {
    let mut hash = [0; 32];
    for (lane, part) in hash.chunks_mut(8).enumerate() {
        part.copy_from_slice(&digest(lane as u64 + 1, bytes).to_le_bytes());
    }
    BlobHash(hash)
}
