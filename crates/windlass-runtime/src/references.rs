//! Finds the stored values that encoded data of any type refers to.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use windlass_value::{BlobHash, StoredValue, Value};

use crate::RuntimeError;

/// The length of a hash in bytes.
const HASH_BYTES: usize = 32;

/// Returns the hashes of stored values in the data. The result may contain others: thirty-two small numbers in a row
/// look like a hash.
pub(crate) fn references(encoded: &[u8]) -> Result<BTreeSet<BlobHash>, RuntimeError> {
    let ReferenceScan(found, _) = crate::codec::decode(encoded, "a state")?;
    Ok(found)
}

pub(crate) fn each_stored(value: &Value, visit: &mut dyn FnMut(&StoredValue)) {
    match value {
        Value::Stored(stored) => visit(stored),
        Value::List(items) => items.iter().for_each(|item| each_stored(item, visit)),
        Value::Map(map) => map.values().for_each(|value| each_stored(value, visit)),
        _ => {}
    }
}

/// The hashes found in a part of the data; and the part itself, if it is a byte.
struct ReferenceScan(BTreeSet<BlobHash>, Option<u8>);

impl ReferenceScan {
    fn none() -> ReferenceScan {
        ReferenceScan(BTreeSet::new(), None)
    }
}

impl<'de> Deserialize<'de> for ReferenceScan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ReferenceScan, D::Error> {
        deserializer.deserialize_any(ReferenceVisitor)
    }
}

struct ReferenceVisitor;

impl<'de> Visitor<'de> for ReferenceVisitor {
    type Value = ReferenceScan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    /// Values are encoded as bytes in their own format.
    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<ReferenceScan, E> {
        let mut found = BTreeSet::new();
        if let Ok(value) = windlass_value::decode(bytes) {
            each_stored(&value, &mut |stored| _ = found.insert(stored.hash));
        }
        Ok(ReferenceScan(found, None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<ReferenceScan, A::Error> {
        let (mut found, mut bytes, mut count) = (BTreeSet::new(), Vec::new(), 0);
        while let Some(ReferenceScan(inside, byte)) = parts.next_element::<ReferenceScan>()? {
            found.extend(inside);
            count += 1;
            bytes.extend(byte.filter(|_| bytes.len() < HASH_BYTES));
        }
        if count == HASH_BYTES
            && let Ok(hash) = bytes.try_into()
        {
            found.insert(BlobHash(hash));
        }
        Ok(ReferenceScan(found, None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<ReferenceScan, A::Error> {
        let mut found = BTreeSet::new();
        while let Some((ReferenceScan(name, _), ReferenceScan(inside, _))) =
            parts.next_entry::<ReferenceScan, ReferenceScan>()?
        {
            found.extend(name);
            found.extend(inside);
        }
        Ok(ReferenceScan(found, None))
    }

    fn visit_u64<E>(self, number: u64) -> Result<ReferenceScan, E> {
        Ok(ReferenceScan(BTreeSet::new(), u8::try_from(number).ok()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<ReferenceScan, E> {
        Ok(ReferenceScan::none())
    }

    fn visit_i64<E>(self, _: i64) -> Result<ReferenceScan, E> {
        Ok(ReferenceScan::none())
    }

    fn visit_f64<E>(self, _: f64) -> Result<ReferenceScan, E> {
        Ok(ReferenceScan::none())
    }

    fn visit_str<E>(self, _: &str) -> Result<ReferenceScan, E> {
        Ok(ReferenceScan::none())
    }

    fn visit_unit<E>(self) -> Result<ReferenceScan, E> {
        Ok(ReferenceScan::none())
    }

    fn visit_none<E>(self) -> Result<ReferenceScan, E> {
        Ok(ReferenceScan::none())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<ReferenceScan, D::Error> {
        ReferenceScan::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<ReferenceScan, D::Error> {
        ReferenceScan::deserialize(deserializer)
    }
}
