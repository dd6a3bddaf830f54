//! Minimal batches for a store's own tests outside the suite.

use std::sync::atomic::{AtomicI64, Ordering};

use windlass_value::{BlobHash, Timestamp};

use crate::{JournalRecord, NewRun, RunBatch};

/// Returns a number that no other run of this process has.
pub fn next_execution_id() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A batch that only creates a run.
pub fn creation(run: &str) -> RunBatch {
    let create = NewRun {
        execution_id: next_execution_id(),
        plan: BlobHash([1; 32]),
        definition: "test".to_owned(),
        dialect: "none".to_owned(),
        owner: None,
        created_at: Timestamp(1),
        parent: None,
        cancel_request_id: None,
        max_tree_runs: u64::MAX,
        options: Vec::new(),
        labels: Default::default(),
    };
    RunBatch { run: run.into(), owner_epoch: 1, create: Some(create), ..RunBatch::default() }
}

/// A batch that appends one tick, which publishes one event.
pub fn tick(run: &str, expected: u64, body: Vec<u8>) -> RunBatch {
    let record = JournalRecord { ticks: 1, first_event: expected, events: 1, body };
    RunBatch { run: run.into(), owner_epoch: 1, expected_ticks: expected, record: Some(record), ..RunBatch::default() }
}
