//! Trimming deletes what a snapshot has replaced, and never the journal's position.

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, first_ticks, run_row, snapshot, ticks, verdict};
use crate::{BatchVerdict, RunBatch};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("r"), creation("other"), ticks("other", 0, 2)]);
    for row in 0..6 {
        commit(&store, vec![ticks("r", row * 2, 2)]);
    }
    let trim = |expected, before| RunBatch { trim_before: Some(before), ..empty("r", expected) };
    commit(&store, vec![trim(12, 12)]);
    assert_eq!(first_ticks(&store, "r", 0, 10), [0, 2, 4, 6, 8, 10], "without a snapshot everything is needed");

    commit(&store, vec![RunBatch { snapshot: Some(snapshot(4)), ..empty("r", 12) }]);
    commit(&store, vec![RunBatch { snapshot: Some(snapshot(7)), ..trim(12, 7) }]);
    assert_eq!(first_ticks(&store, "r", 0, 10), [6, 8, 10], "the row that holds tick 7 begins at 6, and stays");
    assert_eq!(store.oldest_snapshot("r").expect("read").map(|found| found.tick), Some(7));
    assert_eq!(first_ticks(&store, "other", 0, 10), [0], "other runs are left alone");

    commit(&store, vec![trim(12, 100)]);
    assert_eq!(first_ticks(&store, "r", 0, 10), [6, 8, 10], "what the newest snapshot does not cover stays");
    assert_eq!(store.snapshot("r", None).expect("read").map(|found| found.tick), Some(7), "and so does the snapshot");

    commit(&store, vec![RunBatch { snapshot: Some(snapshot(12)), ..trim(12, 12) }]);
    assert_eq!(first_ticks(&store, "r", 0, 10), [10], "the newest row stays");
    assert_eq!(run_row(&store, "r").ticks, 12, "the run keeps its tick count after a trim");
    assert_eq!(verdict(&store, ticks("r", 2, 1)), BatchVerdict::Conflict);
    commit(&store, vec![ticks("r", 12, 1)]);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new(), "a trimmed journal is a sound journal");

    subject.crash();
    assert_eq!(run_row(&subject.store(), "r").ticks, 13);
}
