//! Rows about the removal of ended runs.

use std::sync::Arc;

use windlass_value::Timestamp;

use crate::RunStatus;

/// An ended run that no run has called, as retention sees it. Its child runs may still be open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedTree {
    /// The number of the run; also the page cursor of the listing.
    pub number: i64,
    /// The id of the run.
    pub run: Arc<str>,
    /// Name of the definition.
    pub definition: String,
    /// The status with which it has ended.
    pub status: RunStatus,
    /// The time of its end.
    pub ended_at: Timestamp,
}

/// A run that may be removed together with all its descendants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovableTree {
    /// The number of the root; also the page cursor of the listing.
    pub number: i64,
    /// The id of the root.
    pub run: Arc<str>,
    /// The number of runs in the tree, including the root.
    pub runs: u64,
    /// The bytes that removal would free: the rows, and the blobs that only these runs have written.
    pub bytes: u64,
}

/// The outcome of [`StoreClean::remove`](crate::StoreClean::remove).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeRemoval {
    /// The number of runs that this call removed.
    pub runs: u64,
    /// More descendants of the same run remain: call again.
    pub more: bool,
}

/// The outcome of [`StoreClean::remove_all`](crate::StoreClean::remove_all).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchRemoval {
    /// The number of runs that this call removed, descendants included.
    pub runs: u64,
    /// The number of named runs that are settled: they were removed, or must stay. Call again for the rest.
    pub done: usize,
}

/// The outcome of [`StoreClean::sweep`](crate::StoreClean::sweep).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepResult {
    /// The number of blobs that were freed.
    pub blobs: u64,
    /// The number of bytes that were freed, rows and blobs together.
    pub bytes: u64,
    /// More remains to be freed: call again.
    pub more: bool,
}

impl SweepResult {
    /// Counts a removed row of this many bytes.
    pub fn add_row(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts a removed blob of this many bytes.
    pub fn add_blob(&mut self, bytes: u64) {
        self.blobs += 1;
        self.bytes += bytes;
    }
}
