//! Code shared by the implementations of the store traits, so that every store checks, counts and removes alike.

pub use crate::checksum::{RowSum, checksum, damaged_blob_message, record_checksum};
pub use crate::verify::JournalCheck;

/// Factor by which the count limit grows when a filter names one definition or one parent run.
pub const NARROW_COUNT_FACTOR: u32 = 10;

/// Maximum number of runs that one call of `remove` removes.
pub const MAX_REMOVED_PER_CALL: usize = 500;
