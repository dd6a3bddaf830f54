//! A cache of stored values for the reducer: those it has just created and those it has just used.

use std::collections::BTreeMap;
use std::io::Write;

use windlass_core::Values;
use windlass_value::{BlobHash, ContentSummary, StoredValue, Value, encode, write_json};

/// The bytes of JSON that are hashed at a time.
const DIGEST_BUFFER_BYTES: usize = 16 * 1024;

/// The approximate size of the cache in bytes of decoded values.
const MAX_CACHE_BYTES: usize = 16 * 1024 * 1024;

/// A cache of decoded values, bounded by their size. Values that are not durable yet stay in it.
#[derive(Default)]
pub struct BlobCache {
    /// Value, size, and last use.
    lru: std::cell::RefCell<LruCache>,
    /// Created since the last commit; they become durable with the tick. Until then no other process has them.
    fresh: Vec<(BlobHash, Vec<u8>)>,
    fresh_values: BTreeMap<BlobHash, Value>,
    /// Loaded for the tick that is being reduced: all values it needs are available together, whatever their size.
    pinned: BTreeMap<BlobHash, (Value, usize)>,
}

#[derive(Default)]
struct LruCache {
    values: BTreeMap<BlobHash, (Value, usize, u64)>,
    by_use: BTreeMap<u64, BlobHash>,
    bytes: usize,
    uses: u64,
}

impl BlobCache {
    /// Pins a loaded value until the tick is reduced.
    pub(crate) fn insert(&mut self, hash: BlobHash, value: Value, size: usize) {
        self.pinned.insert(hash, (value, size));
    }

    /// Ends the tick: the values it has loaded may be evicted.
    pub(crate) fn unpin(&mut self) {
        for (hash, (value, size)) in std::mem::take(&mut self.pinned) {
            self.lru.get_mut().insert(hash, value, size);
        }
    }

    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Returns the values created since the last call, encoded and with their hashes. The caller makes them durable.
    pub fn take_fresh(&mut self) -> Vec<(BlobHash, Vec<u8>)> {
        self.fresh_values.clear();
        std::mem::take(&mut self.fresh)
    }
}

impl Values for BlobCache {
    fn get(&self, hash: &BlobHash) -> Option<Value> {
        let near = self.pinned.get(hash).map(|(value, _)| value).or_else(|| self.fresh_values.get(hash));
        near.cloned().or_else(|| self.lru.borrow_mut().touch(hash))
    }

    fn put(&mut self, value: &Value) -> StoredValue {
        let bytes = encode(value);
        let hash = BlobHash(*blake3::hash(&bytes).as_bytes());
        let size = bytes.len();
        self.lru.get_mut().insert(hash, value.clone(), size);
        if self.fresh_values.insert(hash, value.clone()).is_none() {
            self.fresh.push((hash, bytes));
        }
        let items = value.as_list().map_or(0, |list| list.len() as u64);
        let size = (size as u64).saturating_add(value.stored_bytes());
        StoredValue { hash, size, items, chunked: false, summary: content_summary(value) }
    }
}

/// Describes a value's JSON, which is hashed while it is written and never held as a whole.
pub fn content_summary(value: &Value) -> ContentSummary {
    let mut digest = JsonDigest { hasher: blake3::Hasher::new(), size: 0 };
    let mut buffered = std::io::BufWriter::with_capacity(DIGEST_BUFFER_BYTES, &mut digest);
    // Neither a value nor this writer has a way to fail.
    let _ = write_json(value, &mut buffered).and_then(|()| buffered.flush());
    drop(buffered);
    ContentSummary::new(value, BlobHash(*digest.hasher.finalize().as_bytes()), digest.size)
}

struct JsonDigest {
    hasher: blake3::Hasher,
    size: u64,
}

impl Write for JsonDigest {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl LruCache {
    fn touch(&mut self, hash: &BlobHash) -> Option<Value> {
        self.uses += 1;
        let now = self.uses;
        let (value, _, used) = self.values.get_mut(hash)?;
        self.by_use.remove(used);
        *used = now;
        self.by_use.insert(now, *hash);
        Some(value.clone())
    }

    fn insert(&mut self, hash: BlobHash, value: Value, size: usize) {
        self.uses += 1;
        if let Some((_, old, used)) = self.values.insert(hash, (value, size, self.uses)) {
            self.bytes -= old;
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, hash);
        self.bytes += size;
        // The newest value always stays, whatever its size: it is about to be used.
        while self.bytes > MAX_CACHE_BYTES && self.values.len() > 1 {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some((_, size, _)) = self.values.remove(&oldest) {
                self.bytes -= size;
            }
        }
    }
}
