//! Keys and bodies of the records that hold definitions and versions.

use serde::Serialize;
use windlass_store::{RecordRow, Store, StoreError, StoreErrorKind};
use windlass_value::BlobHash;

pub(super) fn unreadable(record: &RecordRow, why: &str) -> StoreError {
    let what = format!("the {} `{}` cannot be read: {why}", record.kind, record.key.replace('\0', " "));
    StoreError::new(StoreErrorKind::Damaged, what)
}

pub(super) fn version_key(name: &str, version: u64) -> String {
    format!("{name}\0{version:010}")
}

pub(super) fn to_json_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    // Serializing into memory cannot fail, and every type here is serializable.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Parses a hash from hexadecimal text.
pub fn parse_hash(text: &str) -> Option<BlobHash> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(BlobHash(bytes))
}

/// Records read per page.
const RECORD_PAGE_SIZE: u32 = 500;

/// Visits the intact records of one kind.
pub(super) fn each_record(
    store: &dyn Store,
    kind: &str,
    mut visit: impl FnMut(RecordRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut after = String::new();
    loop {
        let page = store.records(kind, &after, RECORD_PAGE_SIZE)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.key.clone();
        page.into_iter().try_for_each(&mut visit)?;
    }
}
