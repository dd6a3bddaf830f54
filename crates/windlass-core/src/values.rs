//! Values stored outside of the state, by content hash.

use windlass_value::{BlobHash, StoredValue, Value};

/// The reducer's access to stored values. Deterministic: the same hash is always the same value.
pub trait Values {
    /// Returns the value, or None if it is not loaded. The reducer then gives up the tick unchanged and names the
    /// values it needs.
    fn get(&self, hash: &BlobHash) -> Option<Value>;

    /// Stores a value; it becomes durable together with the tick.
    fn put(&mut self, value: &Value) -> StoredValue;
}
