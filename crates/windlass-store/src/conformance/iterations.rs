//! The history of each loop is read page by page; trimming spares the first iterations and those that failed.

use super::ConformanceSubject;
use super::fixtures::{body, commit, creation, empty};
use crate::IterationOutcome::{Cancelled, Failed, Succeeded};
use crate::{IterationOutcome, IterationRow, IterationTrim, RunBatch};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("r"), creation("other")]);
    assert!(store.loops("r").expect("read").is_empty());
    // Rows of ten iterations; those that begin with iteration 30 failed, those that begin with 50 were cancelled.
    let outcome = |row| {
        if row == 3 {
            Failed
        } else if row == 5 {
            Cancelled
        } else {
            Succeeded
        }
    };
    let iterations = (0..10).map(|row| iteration_row("sync", row * 10, row * 10 + 9, outcome(row))).collect();
    let inner = vec![iteration_row("sync[3].inner", 0, 0, Succeeded)];
    commit(&store, vec![RunBatch { iterations, ..empty("r", 0) }, RunBatch { iterations: inner, ..empty("r", 0) }]);
    commit(&store, vec![RunBatch { iterations: vec![iteration_row("second", 5, 5, Succeeded)], ..empty("other", 0) }]);

    let read = |path: &str, from, limit| store.iterations("r", path, from, limit).expect("read");
    let firsts = |from, limit| -> Vec<u64> { read("sync", from, limit).iter().map(|row| row.first).collect() };
    assert_eq!(firsts(0, 100), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    assert_eq!(firsts(20, 2), [20, 30]);
    assert_eq!(firsts(29, 2), [20, 30], "the row that holds iteration 29");
    assert_eq!(firsts(99, 9), [90]);
    assert!(firsts(100, 9).is_empty());
    assert!(firsts(u64::MAX, 9).is_empty());
    assert_eq!(read("sync", 30, 1), [iteration_row("sync", 30, 39, Failed)]);
    assert_eq!(store.loops("r").expect("read"), ["sync", "sync[3].inner"]);
    assert_eq!(store.loops("other").expect("read"), ["second"]);
    assert!(store.loops("missing").expect("read").is_empty());
    assert!(read("nowhere", 0, 9).is_empty());

    let heads = |from, failed, limit| -> Vec<(u64, u64, IterationOutcome)> {
        let heads = store.iteration_headers("r", "sync", from, failed, limit).expect("read");
        heads.iter().map(|head| (head.first, head.last, head.outcome)).collect()
    };
    assert_eq!(
        heads(29, false, 2),
        [(20, 29, Succeeded), (30, 39, Failed)],
        "the head of the row that holds iteration 29"
    );
    assert_eq!(heads(0, true, 9), [(30, 39, Failed)], "only failed ones");
    assert_eq!(heads(39, true, 9), [(30, 39, Failed)], "also from its middle");
    assert!(heads(40, true, 9).is_empty());
    assert_eq!(heads(50, false, 1), [(50, 59, Cancelled)]);
    assert_eq!(heads(0, false, 100).len(), 10);

    let trim = IterationTrim { loop_path: "sync".into(), keep_first: 10, before: 75 };
    commit(&store, vec![RunBatch { iteration_trims: vec![trim], ..empty("r", 0) }]);
    assert_eq!(
        firsts(0, 100),
        [0, 30, 50, 70, 80, 90],
        "the first, those that did not succeed, and what reaches beyond"
    );
    assert_eq!(read("sync[3].inner", 0, 9).len(), 1, "other loops are left alone");

    let longer = iteration_row("sync", 90, 94, Succeeded);
    commit(&store, vec![RunBatch { iterations: vec![longer.clone()], ..empty("r", 0) }]);
    assert_eq!(read("sync", 90, 9), [longer], "a row that begins with the same iteration replaces it");
}

fn iteration_row(loop_path: &str, first: u64, last: u64, outcome: IterationOutcome) -> IterationRow {
    IterationRow { loop_path: loop_path.into(), first, last, outcome, body: body(first) }
}
