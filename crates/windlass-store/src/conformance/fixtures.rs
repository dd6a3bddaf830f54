//! Builders and shorthands for the checks.

use std::sync::Arc;

use windlass_value::{BlobHash, Timestamp};

use super::batches::next_execution_id;
use crate::{
    BatchVerdict, InboxRow, JournalRecord, NewRun, NewSnapshot, RunBatch, RunRow, RunStatus, StatusChange, Store,
};

pub(super) fn new_run(owner: Option<&str>) -> NewRun {
    NewRun {
        execution_id: next_execution_id(),
        plan: BlobHash([9; 32]),
        definition: "orders".to_owned(),
        dialect: "loom".to_owned(),
        owner: owner.map(str::to_owned),
        created_at: Timestamp(1_000),
        parent: Some("parent".into()),
        cancel_request_id: None,
        max_tree_runs: u64::MAX,
        options: b"options".to_vec(),
        labels: Default::default(),
    }
}

/// The first batch of a run: it creates the run and nothing else.
pub(super) fn creation(run: &str) -> RunBatch {
    RunBatch { run: run.into(), owner_epoch: 1, create: Some(new_run(None)), ..RunBatch::default() }
}

/// A batch without content.
pub(super) fn empty(run: &str, expected: u64) -> RunBatch {
    RunBatch { run: run.into(), owner_epoch: 1, expected_ticks: expected, ..RunBatch::default() }
}

/// A batch with one row of `count` ticks, each of which publishes one event.
pub(super) fn ticks(run: &str, expected: u64, count: u32) -> RunBatch {
    RunBatch { record: Some(record(expected, count)), ..empty(run, expected) }
}

pub(super) fn record(expected: u64, count: u32) -> JournalRecord {
    JournalRecord { ticks: count, first_event: expected, events: count, body: body(expected) }
}

/// A body that differs for each number and is long enough to be truncated.
pub(super) fn body(number: u64) -> Vec<u8> {
    format!("body {number}; ").repeat(20).into_bytes()
}

pub(super) fn snapshot(tick: u64) -> NewSnapshot {
    NewSnapshot { tick, event: tick, state_hash: [tick as u8; 32], body: body(tick) }
}

pub(super) fn status(status: RunStatus, at: i64) -> StatusChange {
    let result = status.is_final().then(|| b"result".to_vec());
    StatusChange { status, at: Timestamp(at), result }
}

pub(super) fn message(run: &str, request_id: &str) -> InboxRow {
    let body = format!("do {request_id}").into_bytes();
    InboxRow { run: run.into(), request_id: request_id.into(), body, at: Timestamp(5) }
}

/// Appends batches that must all be committed.
pub(super) fn commit(store: &Arc<dyn Store>, batches: Vec<RunBatch>) {
    let runs: Vec<_> = batches.iter().map(|batch| (batch.run.clone(), batch.expected_ticks)).collect();
    let verdicts = store.append(batches).expect("the append succeeds");
    let all = verdicts.iter().all(|verdict| *verdict == BatchVerdict::Committed);
    assert!(all && verdicts.len() == runs.len(), "every batch of {runs:?} should be committed: {verdicts:?}");
}

/// Returns the verdict on a single batch.
pub(super) fn verdict(store: &Arc<dyn Store>, batch: RunBatch) -> BatchVerdict {
    let verdicts = store.append(vec![batch]).expect("the append succeeds");
    assert_eq!(verdicts.len(), 1, "one batch, one verdict");
    verdicts[0]
}

pub(super) fn run_row(store: &Arc<dyn Store>, run: &str) -> RunRow {
    store.run(run).expect("the run can be read").unwrap_or_else(|| panic!("run {run} should exist"))
}

/// Returns the number of the first tick of each row.
pub(super) fn first_ticks(store: &Arc<dyn Store>, run: &str, from: u64, limit: u32) -> Vec<u64> {
    let rows = store.journal(run, from, limit).expect("the journal can be read");
    rows.iter().map(|row| row.first_tick).collect()
}

pub(super) fn unconsumed(store: &Arc<dyn Store>, run: &str) -> Vec<String> {
    let messages = store.inbox(run, 100).expect("the inbox can be read");
    messages.iter().map(|message| message.request_id.to_string()).collect()
}
