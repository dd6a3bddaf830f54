//! Parts that the implementations of the store traits share, so that every store checks, counts and removes alike.

pub use crate::checksum::{checksum, damaged_blob_message, record_checksum};
pub use crate::verify::JournalCheck;

/// Runs that are counted of a definition or a parent, for each that would be counted of a status.
pub const NARROW_COUNT_FACTOR: u32 = 10;

/// Runs that one call of `remove` takes at most.
pub const MAX_REMOVED_PER_CALL: usize = 500;
