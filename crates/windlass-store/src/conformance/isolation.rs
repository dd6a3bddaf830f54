//! A damaged row of a run or a record is left out of scans, listed as damaged and removable. Everything else works.

use std::sync::Arc;

use windlass_value::Timestamp;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, message, new_run, status, ticks, verdict};
use crate::{
    BatchVerdict, ClaimResult, DamagedTable, InboxVerdict, IsolatedRow, NewRun, RecordChange, RunBatch, RunFilter,
    RunStatus, Store, StoreErrorKind,
};

const ANY_AGE: Timestamp = Timestamp(i64::MAX);

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    for (at, run) in ["old", "ill", "new", "quarantined"].into_iter().enumerate() {
        let timer = Some(Some(Timestamp(100 + at as i64)));
        let running = Some(status(RunStatus::Running, 2));
        commit(&store, vec![RunBatch { timer, status: running, ..creation(run) }, ticks(run, 0, 1)]);
    }
    commit(&store, vec![RunBatch { status: Some(status(RunStatus::Quarantined, 3)), ..empty("quarantined", 1) }]);
    assert_eq!(store.damage().expect("read"), Vec::<IsolatedRow>::new());
    subject.damage_run("ill");

    let store = subject.store();
    assert_eq!(store.run("ill").expect_err("it cannot be trusted").kind, StoreErrorKind::Damaged);
    assert_eq!(listed(&store, 9), ["quarantined", "new", "old"]);
    assert_eq!(listed(&store, 2), ["quarantined", "new"]);
    let second = store.runs(&RunFilter::default(), Some(3), 1).expect("a page that would begin with it");
    assert_eq!(second.iter().map(|row| &*row.run).collect::<Vec<_>>(), ["old"]);
    let due = store.due(Timestamp(999), 2).expect("timers");
    assert_eq!(due.iter().map(|row| &*row.run).collect::<Vec<_>>(), ["old", "new"], "it takes no place of others");

    let verdicts = store.append(vec![ticks("old", 1, 1), ticks("ill", 1, 1), ticks("new", 1, 1)]).expect("append");
    assert_eq!(verdicts, [BatchVerdict::Committed, BatchVerdict::Damaged, BatchVerdict::Committed]);
    let owner = store.open_owner().expect("an owner");
    let claims = store.claim_all(&["old".into(), "ill".into(), "new".into()], &owner.name).expect("claims");
    assert!(matches!(&claims[1], ClaimResult::Damaged { reason } if !reason.is_empty()), "{claims:?}");
    assert!(matches!((&claims[0], &claims[2]), (ClaimResult::Owned { .. }, ClaimResult::Owned { .. })), "{claims:?}");
    let accepted = store.inbox_put(&message("old", "one")).expect("the others receive messages");
    assert!(matches!(accepted, InboxVerdict::Accepted { .. }));

    remove_run(&store);
    records(subject);
}

fn listed(store: &Arc<dyn Store>, limit: u32) -> Vec<String> {
    let rows = store.runs(&RunFilter::default(), None, limit).expect("the listing works");
    rows.into_iter().map(|row| row.run.to_string()).collect()
}

fn remove_run(store: &Arc<dyn Store>) {
    let damage = store.damage().expect("read");
    let [ill] = &damage[..] else { panic!("one row is damaged: {damage:?}") };
    assert_eq!((ill.id.table, ill.name.as_deref()), (DamagedTable::Runs, Some("ill")));
    assert!(ill.reason.contains("damaged") && ill.run.as_ref().is_some_and(|row| &*row.run == "ill"), "{ill:?}");
    assert_eq!(ill.id.to_string().parse(), Ok(ill.id));
    let number = |run: &str| store.run(run).expect("read").expect("a run").number;
    let id_of = |run| crate::DamagedRowId::new(DamagedTable::Runs, number(run));
    assert!(!store.remove_damaged(id_of("old")).expect("checked"), "an intact run stays");
    assert!(store.remove_damaged(ill.id).expect("removed"));
    assert!(!store.remove_damaged(ill.id).expect("checked"), "it is gone");
    assert_eq!(store.run("ill").expect("read"), None);
    assert!(store.remove_damaged(id_of("quarantined")).expect("removed"), "a quarantined run may be removed as well");
    assert_eq!(listed(store, 9), ["new", "old"]);
    assert_eq!(store.damage().expect("read"), Vec::<IsolatedRow>::new());
    while store.sweep().expect("sweep").more {}
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new(), "nothing is left of them");
    assert_eq!(verdict(store, creation("ill")), BatchVerdict::Committed, "the id is free again");
}

fn records(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let put = |key: &str| RecordChange::put("token", key, key.as_bytes().to_vec(), Timestamp(7));
    assert!(store.change_records(vec![put("a"), put("b"), put("c")]).expect("changed"));
    subject.damage_record("token", "b");
    let store = subject.store();
    let keys = |after: &str, limit| -> Vec<String> {
        store.records("token", after, limit).expect("the page works").into_iter().map(|row| row.key).collect()
    };
    for (after, limit, expected) in [("", 9, &["a", "c"][..]), ("", 2, &["a", "c"]), ("a", 1, &["c"])] {
        assert_eq!(keys(after, limit), expected);
    }
    assert_eq!(store.record("token", "b").expect_err("it cannot be trusted").kind, StoreErrorKind::Damaged);
    let damage = store.damage().expect("read");
    let [ill] = &damage[..] else { panic!("one row is damaged: {damage:?}") };
    assert_eq!((ill.id.table, ill.name.as_deref()), (DamagedTable::Records, Some("token b")));
    assert!(store.remove_damaged(ill.id).expect("removed"));
    assert_eq!((store.record("token", "b").expect("read"), store.damage().expect("read")), (None, Vec::new()));
    assert_eq!(keys("", 9), ["a", "c"]);
}

/// The rows of two runs name each other as parents, and a third one itself.
pub(super) fn check_circles(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    for (run, parent) in [("a", "b"), ("b", "a"), ("self", "self")] {
        let create = NewRun { parent: Some(parent.into()), ..new_run(None) };
        commit(&store, vec![RunBatch { create: Some(create), ..creation(run) }]);
    }
    assert_eq!(store.removable(ANY_AGE, 0, 9).expect("read"), [], "none of them has ended");
    for run in ["a", "b", "self"] {
        commit(&store, vec![RunBatch { status: Some(status(RunStatus::Failed, 2)), ..empty(run, 0) }]);
    }
    let trees = store.removable(ANY_AGE, 0, 9).expect("read");
    assert_eq!(trees.iter().map(|tree| (&*tree.run, tree.runs)).collect::<Vec<_>>(), [("a", 2), ("self", 1)]);
    for tree in &trees {
        assert_eq!(store.remove(&tree.run, ANY_AGE).expect("removed").runs, tree.runs);
    }
    assert_eq!(listed(&store, 9), Vec::<String>::new());
}
