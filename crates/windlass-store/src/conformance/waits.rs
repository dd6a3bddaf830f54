//! Waits for an external answer are written with the batch that changes them and are removed with the run.

use std::sync::Arc;

use windlass_value::Timestamp;

use super::ConformanceSubject;
use super::fixtures::{body, commit, creation, empty, status, verdict};
use crate::{BatchVerdict, RunBatch, RunStatus, Store, WaitRow};

fn wait(path: &str, since: i64) -> WaitRow {
    let deadline = (since % 2 == 0).then_some(Timestamp(since + 60));
    WaitRow {
        name: format!("answer to {path}").into(),
        path: path.into(),
        body: body(1),
        since: Timestamp(since),
        deadline,
    }
}

fn open(store: &Arc<dyn Store>, run: Option<&str>) -> Vec<String> {
    let waits = store.waits(run, 0, 99).expect("read");
    waits.iter().map(|open| format!("{}:{}", open.run, open.wait.path)).collect()
}

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("r"), creation("s")]);
    let waits = |run: &str, waits: &[WaitRow]| RunBatch { waits: Some(waits.to_vec()), ..empty(run, 0) };
    commit(&store, vec![waits("r", &[wait("a", 1), wait("b", 2)]), waits("s", &[wait("a", 3)])]);
    assert_eq!(open(&store, None), ["r:a", "r:b", "s:a"], "in the order in which they were opened");
    let found = store.waits(Some("r"), 0, 9).expect("read");
    assert_eq!(found.iter().map(|open| open.wait.clone()).collect::<Vec<_>>(), [wait("a", 1), wait("b", 2)]);
    assert_eq!((&*found[0].run, &*found[0].definition), ("r", "orders"));
    assert!(store.waits(Some("missing"), 0, 9).expect("read").is_empty());

    let first = store.waits(None, 0, 2).expect("read");
    let second = store.waits(None, first[1].position, 2).expect("read");
    assert_eq!((first.len(), second.len(), &*second[0].run), (2, 1, "s"), "page by page");

    // A wait that stays open keeps its position; a batch without waits, or a refused batch, changes nothing.
    commit(&store, vec![waits("r", &[wait("c", 4), wait("b", 9)]), empty("s", 0)]);
    assert_eq!(open(&store, None), ["r:b", "s:a", "r:c"]);
    assert_eq!(store.waits(Some("r"), 0, 1).expect("read")[0].wait, wait("b", 9));
    assert_eq!(verdict(&store, RunBatch { owner_epoch: 9, ..waits("s", &[]) }), BatchVerdict::Fenced);
    subject.crash();
    let store = subject.store();
    assert_eq!(open(&store, None), ["r:b", "s:a", "r:c"]);
    commit(&store, vec![waits("s", &[])]);
    assert_eq!(open(&store, None), ["r:b", "r:c"]);
    commit(&store, vec![RunBatch { status: Some(status(RunStatus::Paused, 9)), ..empty("r", 0) }]);
    assert_eq!(open(&store, Some("r")).len(), 2);
    // A final status takes precedence over the waits of the same batch.
    let ended = Some(status(RunStatus::Failed, 9));
    commit(&store, vec![RunBatch { status: ended, ..waits("r", &[wait("d", 1)]) }]);
    assert_eq!(open(&store, None), Vec::<String>::new(), "a run that has ended waits for nothing");
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
}
