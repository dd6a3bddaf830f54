//! A batch is committed only if the journal is in the state the writer expects.

use std::sync::Arc;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, first_ticks, new_run, record, run_row, snapshot, ticks, verdict};
use crate::{BatchVerdict, JournalRecord, NewRun, RunBatch, Store};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    assert_eq!(verdict(&store, ticks("r", 0, 1)), BatchVerdict::Conflict, "a run that was never made has no journal");
    assert!(store.run("r").expect("readable").is_none(), "a refused batch makes no run");

    let late_creation = RunBatch { expected_ticks: 1, ..creation("r") };
    assert_eq!(verdict(&store, late_creation), BatchVerdict::Conflict, "a new run has no ticks");
    commit(&store, vec![RunBatch { record: Some(record(0, 3)), ..creation("r") }]);
    assert_eq!(verdict(&store, creation("r")), BatchVerdict::Conflict, "a run is made once");
    check_execution_ids(&store);
    let again = RunBatch { create: Some(new_run(None)), ..empty("r", 3) };
    assert_eq!(verdict(&store, again), BatchVerdict::Conflict, "a run is made once, wherever its journal is");

    for wrong in [0, 2, 4] {
        assert_eq!(
            verdict(&store, ticks("r", wrong, 1)),
            BatchVerdict::Conflict,
            "the journal holds 3 ticks, not {wrong}"
        );
        assert_eq!(
            verdict(&store, empty("r", wrong)),
            BatchVerdict::Conflict,
            "a batch without ticks compares as well"
        );
    }
    assert_eq!(first_ticks(&store, "r", 0, 10), [0], "refused batches leave no trace");

    commit(&store, vec![ticks("r", 3, 2), empty("r", 5), ticks("r", 5, 1)]);
    assert_eq!(run_row(&store, "r").ticks, 6);
    assert_eq!(first_ticks(&store, "r", 0, 10), [0, 3, 5]);

    let hollow = JournalRecord { ticks: 0, ..record(6, 1) };
    let hollow = RunBatch { record: Some(hollow), ..empty("r", 6) };
    assert_eq!(verdict(&store, hollow), BatchVerdict::Conflict, "a row without ticks could never be read");
    let early = RunBatch { snapshot: Some(snapshot(8)), ..ticks("r", 6, 1) };
    assert_eq!(verdict(&store, early), BatchVerdict::Conflict, "a snapshot cannot be ahead of the journal");
    assert_eq!(run_row(&store, "r").ticks, 6);
}

/// An execution id identifies one run, and is free again when the run is removed.
fn check_execution_ids(store: &Arc<dyn Store>) {
    let first = run_row(store, "r");
    let found = store.run_by_execution_id(first.execution_id).expect("read");
    assert_eq!(found, Some(first.clone()), "a run is found by its execution id");
    assert_eq!(store.run_by_execution_id(-1).expect("read"), None);
    let create = NewRun { execution_id: first.execution_id, ..new_run(None) };
    let same = RunBatch { create: Some(create), ..creation("twin") };
    assert_eq!(verdict(store, same), BatchVerdict::ExecutionIdConflict);
    assert_eq!(store.run("twin").expect("read"), None, "a refused batch creates nothing");
}
