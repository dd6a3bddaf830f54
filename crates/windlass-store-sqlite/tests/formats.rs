//! Runs that a newer program has written: they are listed and otherwise left unchanged.

mod common;

use common::{Scratch, open};
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    ClaimResult, InboxRow, InboxVerdict, RUN_FORMAT, RunFilter, RunStatus, StatusChange, StoreClean, StoreErrorKind,
    StoreRead, StoreScan, StoreWrite,
};
use windlass_store_sqlite::SqliteStore;
use windlass_value::Timestamp;

fn stamp(store: &SqliteStore, run: &str, format: u32) {
    let shell = rusqlite::Connection::open(store.file()).expect("any tool can open it");
    let changed = shell.execute("UPDATE runs SET format = ?2 WHERE id = ?1", rusqlite::params![run, format]);
    assert_eq!(changed.expect("stamped"), 1);
    windlass_store_sqlite::reseal_runs(&shell).expect("resealed");
}

fn message(run: &str) -> InboxRow {
    InboxRow { run: run.into(), request_id: "one".into(), at: Timestamp(1), body: vec![1] }
}

#[test]
fn a_run_of_a_newer_format_is_refused_and_left_unchanged() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    for run in ["ours", "theirs"] {
        store.append(vec![creation(run)]).expect("append");
        store.append(vec![tick(run, 0, vec![1])]).expect("append");
    }
    stamp(&store, "theirs", RUN_FORMAT + 1);
    let before = store.run("theirs").expect("a listing shows it").expect("a run");
    assert_eq!((before.format, before.check_format().is_err()), (RUN_FORMAT + 1, true));

    let refusals = [
        store.journal("theirs", 0, 9).map(drop),
        store.journal_by_event("theirs", 0, 9).map(drop),
        store.snapshot("theirs", None).map(drop),
        store.oldest_snapshot("theirs").map(drop),
        store.iterations("theirs", "loop", 0, 9).map(drop),
        store.iteration_headers("theirs", "loop", 0, false, 9).map(drop),
        store.loops("theirs").map(drop),
        store.inbox_put(&message("theirs")).map(drop),
    ];
    for refused in refusals {
        let error = refused.expect_err("nothing of it is read or written");
        assert_eq!(error.kind, StoreErrorKind::NeedsNewer, "{error}");
        let expected = "needs a newer version of windlass: run `theirs` was written with journal format 2, this program \
                        reads up to 1";
        assert_eq!(error.message, expected);
        assert!(error.hint.is_some());
    }
    let claims = store.claim_all(&["theirs".into(), "ours".into()], "me").expect("claims");
    assert_eq!(claims, [ClaimResult::NeedsNewer { format: RUN_FORMAT + 1 }, ClaimResult::Owned { owner_epoch: 2 }]);
    assert_eq!(store.run("theirs").expect("read"), Some(before), "a refused claim changes nothing");
    assert_eq!(store.runs(&RunFilter::default(), None, 9).expect("a listing").len(), 2);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new(), "nothing is wrong with it");

    stamp(&store, "theirs", RUN_FORMAT);
    assert_eq!(store.claim("theirs", "me").expect("claim"), ClaimResult::Owned { owner_epoch: 2 });
    assert_eq!(store.journal("theirs", 0, 9).expect("read").len(), 1);
    assert!(matches!(store.inbox_put(&message("theirs")).expect("put"), InboxVerdict::Accepted { .. }));
}

/// The owner that claims a run may write in its own format from then on.
#[test]
fn a_claim_stamps_the_run_with_the_format_of_its_owner() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    store.append(vec![creation("r")]).expect("append");
    stamp(&store, "r", 0);
    assert_eq!(store.claim("r", "me").expect("claim"), ClaimResult::Owned { owner_epoch: 2 });
    assert_eq!(store.run("r").expect("read").expect("a run").format, RUN_FORMAT);
}

#[test]
fn a_run_that_a_newer_program_has_ended_is_not_removed() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    let later = Timestamp(i64::MAX);
    for run in ["ours", "theirs"] {
        let status = Some(StatusChange { status: RunStatus::Succeeded, at: Timestamp(5), result: None });
        store.append(vec![windlass_store::RunBatch { status, ..creation(run) }]).expect("append");
    }
    stamp(&store, "theirs", RUN_FORMAT + 1);
    let removable = store.removable(later, 0, 9).expect("read");
    assert_eq!(removable.iter().map(|one| &*one.run).collect::<Vec<_>>(), ["ours"]);
    assert_eq!(store.remove("theirs", later).expect("removed").runs, 0);
    assert_eq!(store.remove("ours", later).expect("removed").runs, 1);
    assert!(store.run("theirs").expect("read").is_some());
}
