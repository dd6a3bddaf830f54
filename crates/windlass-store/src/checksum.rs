//! The checksum shared by all stored rows.

use windlass_value::BlobHash;

use crate::RecordRow;

/// The message for a blob whose bytes are not what was written.
pub fn damaged_blob_message(hash: &BlobHash) -> String {
    format!("The stored value {hash} (table blobs) is damaged: its checksum does not match.")
}

/// Computes a checksum over the numbers of a row as well as its bytes, so that a row at the wrong position is
/// detected too.
///
/// Each part is preceded by its length: bytes that move from one column to the next change the sum.
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

/// The checksum of a row over the types and values of its columns.
#[derive(Default)]
pub struct RowSum(crc32fast::Hasher);

impl RowSum {
    /// Adds a column without a value.
    pub fn null(&mut self) {
        self.0.update(b"-");
    }

    /// Adds a number.
    pub fn number(&mut self, number: i64) {
        let mut bytes = [b'n'; 9];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        self.0.update(&bytes);
    }

    /// Adds a text or a blob: the tag tells them apart.
    pub fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        let mut head = [tag; 9];
        head[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.update(&head);
        self.0.update(bytes);
    }

    /// Returns the checksum.
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}
