//! One checksum for every stored row.

use windlass_value::BlobHash;

use crate::RecordRow;

/// What is said of a blob that is not what was written.
pub fn damaged_blob_message(hash: &BlobHash) -> String {
    format!("The stored value {hash} (table blobs) is damaged: its checksum does not match.")
}

/// Covers the numbers of a row as well as its bytes, so that a row found in the wrong place is noticed too. Each part
/// counts with its length: bytes that move from one column to the next change the sum.
pub fn checksum(numbers: &[u64], parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

/// The checksum of a record, over everything in its row.
pub fn record_checksum(row: &RecordRow) -> u32 {
    let numbers = [row.revision, row.at.0.unsigned_abs()];
    checksum(&numbers, &[row.kind.as_bytes(), row.key.as_bytes(), &row.body])
}
