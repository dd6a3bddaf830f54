//! Which stored values something encoded refers to, whatever it is.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use windlass_value::{BlobHash, Stored, Value};

use crate::RuntimeError;

/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// The names of stored values in it. May hold others: thirty-two small numbers in a row look like one.
pub(crate) fn references(encoded: &[u8]) -> Result<BTreeSet<BlobHash>, RuntimeError> {
    let damaged = |why: String| RuntimeError::Damaged { what: "a state", why };
    let mut reader = rmp_serde::Deserializer::from_read_ref(encoded);
    let Part(found, _) = Part::deserialize(&mut reader).map_err(|error| damaged(error.to_string()))?;
    Ok(found)
}

pub(crate) fn each_stored(value: &Value, seen: &mut dyn FnMut(&Stored)) {
    match value {
        Value::Stored(stored) => seen(stored),
        Value::List(items) => items.iter().for_each(|item| each_stored(item, seen)),
        Value::Map(map) => map.values().for_each(|value| each_stored(value, seen)),
        _ => {}
    }
}

/// What was found in a part; and the part itself, if it is a byte.
struct Part(BTreeSet<BlobHash>, Option<u8>);

impl Part {
    fn none() -> Part {
        Part(BTreeSet::new(), None)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        deserializer.deserialize_any(Search)
    }
}

struct Search;

impl<'de> Visitor<'de> for Search {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    /// Values are kept as bytes in their own form.
    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Part, E> {
        let mut found = BTreeSet::new();
        if let Ok(value) = windlass_value::decode(bytes) {
            each_stored(&value, &mut |stored| _ = found.insert(stored.hash));
        }
        Ok(Part(found, None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Part, A::Error> {
        let (mut found, mut bytes, mut count) = (BTreeSet::new(), Vec::new(), 0);
        while let Some(Part(inside, byte)) = parts.next_element::<Part>()? {
            found.extend(inside);
            count += 1;
            bytes.extend(byte.filter(|_| bytes.len() < HASH_BYTES));
        }
        if count == HASH_BYTES
            && let Ok(hash) = bytes.try_into()
        {
            found.insert(BlobHash(hash));
        }
        Ok(Part(found, None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<Part, A::Error> {
        let mut found = BTreeSet::new();
        while let Some((Part(name, _), Part(inside, _))) = parts.next_entry::<Part, Part>()? {
            found.extend(name);
            found.extend(inside);
        }
        Ok(Part(found, None))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Part, E> {
        Ok(Part(BTreeSet::new(), u8::try_from(number).ok()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Part, E> {
        Ok(Part::none())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Part, E> {
        Ok(Part::none())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Part, E> {
        Ok(Part::none())
    }

    fn visit_str<E>(self, _: &str) -> Result<Part, E> {
        Ok(Part::none())
    }

    fn visit_unit<E>(self) -> Result<Part, E> {
        Ok(Part::none())
    }

    fn visit_none<E>(self) -> Result<Part, E> {
        Ok(Part::none())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Part, D::Error> {
        Part::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Part, D::Error> {
        Part::deserialize(deserializer)
    }
}
