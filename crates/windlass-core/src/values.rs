//! Values that live outside the state, by content hash.

use windlass_value::{BlobHash, StoredValue, Value};

/// The reducer's access to stored values. Deterministic: the same hash is always the same value.
pub trait Values {
    /// None: not at hand. The reducer then gives up the tick unchanged and names what it needs.
    fn get(&self, hash: &BlobHash) -> Option<Value>;

    /// Keeps a value; it becomes durable together with the tick.
    fn put(&mut self, value: &Value) -> StoredValue;
}
