//! Each run has one timer; due timers are returned earliest first, and a run that has ended has none.

use windlass_value::Timestamp;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, run_row, status};
use crate::{RunBatch, RunStatus};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    assert_eq!(store.next_due().expect("read"), None);
    let timer = |at: Option<i64>| Some(at.map(Timestamp));
    for (run, at) in [("a", Some(300)), ("b", Some(100)), ("c", None), ("d", Some(200)), ("e", Some(200))] {
        commit(&store, vec![RunBatch { timer: timer(at), ..creation(run) }]);
    }

    let due = |now, limit| -> Vec<String> {
        let runs = store.due(Timestamp(now), limit).expect("read");
        runs.iter().map(|run| run.run.to_string()).collect()
    };
    assert!(due(99, 9).is_empty());
    assert_eq!(due(100, 9), ["b"], "due at its time, not after it");
    assert_eq!(due(1_000, 9), ["b", "d", "e", "a"], "earliest first, then in order of creation");
    assert_eq!(due(1_000, 2), ["b", "d"]);
    assert_eq!(store.next_due().expect("read"), Some(Timestamp(100)));
    assert_eq!(run_row(&store, "a").timer, Some(Timestamp(300)));

    commit(&store, vec![RunBatch { timer: timer(Some(400)), ..empty("b", 0) }]);
    commit(&store, vec![RunBatch { timer: timer(None), ..empty("d", 0) }, empty("e", 0)]);
    assert_eq!(due(1_000, 9), ["e", "a", "b"], "moved, cleared, and left as it was");
    let end = RunBatch { timer: timer(Some(1)), status: Some(status(RunStatus::Failed, 6)), ..empty("e", 0) };
    commit(&store, vec![end]);
    assert_eq!(due(1_000, 9), ["a", "b"], "a run that has ended waits for nothing");
    assert_eq!(run_row(&store, "e").timer, None);
    assert_eq!(store.next_due().expect("read"), Some(Timestamp(300)));
}
