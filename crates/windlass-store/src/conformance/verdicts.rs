//! Batches of one transaction are independent of each other, and a refused batch leaves no trace.

use windlass_value::{BlobHash, Timestamp};

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, first_ticks, message, run_row, snapshot, ticks, unconsumed, verdict};
use crate::{BatchVerdict, ClaimResult, InboxVerdict, IterationOutcome, IterationRow, RunBatch};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("a"), creation("b"), creation("c"), creation("target")]);
    let owner = store.open_owner().expect("an owner");
    assert_eq!(store.claim("b", &owner.name).expect("claim"), ClaimResult::Owned { owner_epoch: 2 });
    store.inbox_put(&message("c", "pending")).expect("put");

    let heavy = RunBatch {
        snapshot: Some(snapshot(8)),
        timer: Some(Some(Timestamp(50))),
        iterations: vec![IterationRow {
            loop_path: "l".into(),
            first: 0,
            last: 1,
            outcome: IterationOutcome::Succeeded,
            body: vec![1],
        }],
        blobs: vec![(BlobHash([1; 32]), vec![1])],
        consumed: vec!["pending".into()],
        send: vec![message("target", "sent")],
        ..ticks("c", 7, 1)
    };
    let batches = vec![ticks("a", 0, 1), ticks("b", 0, 1), heavy, ticks("missing", 0, 1), ticks("a", 1, 1)];
    let verdicts = store.append(batches).expect("append");
    use BatchVerdict::{Committed, Conflict, Fenced};
    assert_eq!(verdicts, [Committed, Fenced, Conflict, Conflict, Committed], "one verdict each, in order");
    assert_eq!(first_ticks(&store, "a", 0, 10), [0, 1], "the valid ones are committed");

    let refused = run_row(&store, "c");
    assert_eq!((refused.ticks, refused.timer), (0, None));
    assert!(store.snapshot("c", None).expect("read").is_none());
    assert!(store.loops("c").expect("read").is_empty());
    assert!(store.blob(&BlobHash([1; 32])).expect("read").is_none());
    assert_eq!(unconsumed(&store, "c"), ["pending"]);
    assert!(unconsumed(&store, "target").is_empty());
    assert_eq!(store.inbox_put(&message("c", "pending")).expect("put"), InboxVerdict::Duplicate);
    assert_eq!(verdict(&store, empty("c", 0)), Committed, "and the run continues unaffected");
    assert_eq!(
        store.append(Vec::new()).expect("append"),
        [],
        "an append without batches succeeds and returns no verdicts"
    );
}
