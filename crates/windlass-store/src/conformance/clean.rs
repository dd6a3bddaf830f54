//! A run is removed with all its descendants once all of them ended long enough ago, and with them the blobs that
//! no other run has written.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_value::{BlobHash, Timestamp};

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, first_ticks, message, new_run, snapshot, status, ticks};
use crate::{
    ClaimResult, InboxVerdict, IterationOutcome, IterationRow, NewRun, RemovableTree, RunBatch, RunFilter, RunStatus,
    Store, SweepResult, TreeRemoval,
};

fn hash(number: u8) -> BlobHash {
    BlobHash([number; 32])
}

/// Creates a run with a journal, a snapshot, an iteration and these blobs.
fn make(store: &Arc<dyn Store>, run: &str, parent: Option<&str>, blobs: &[u8]) {
    let create = NewRun { parent: parent.map(Into::into), ..new_run(None) };
    commit(store, vec![RunBatch { create: Some(create), ..creation(run) }]);
    let iteration = IterationRow {
        loop_path: "loop".into(),
        first: 0,
        last: 3,
        outcome: IterationOutcome::Succeeded,
        body: b"iterations".to_vec(),
    };
    let blobs = blobs.iter().map(|number| (hash(*number), vec![*number; 100_000])).collect();
    commit(
        store,
        vec![RunBatch { iterations: vec![iteration], blobs, snapshot: Some(snapshot(1)), ..ticks(run, 0, 2) }],
    );
    commit(store, vec![ticks(run, 2, 1)]);
}

fn end(store: &Arc<dyn Store>, run: &str, at: i64) {
    commit(store, vec![RunBatch { status: Some(status(RunStatus::Succeeded, at)), ..empty(run, 3) }]);
}

fn removable(store: &Arc<dyn Store>, before: i64) -> BTreeMap<String, u64> {
    let found = store.removable(Timestamp(before), 0, 99).expect("read");
    found.into_iter().map(|RemovableTree { run, runs, .. }| (run.to_string(), runs)).collect()
}

fn sweep(store: &Arc<dyn Store>) -> SweepResult {
    let mut all = SweepResult::default();
    loop {
        let swept = store.sweep().expect("swept");
        (all.blobs, all.bytes) = (all.blobs + swept.blobs, all.bytes + swept.bytes);
        if !swept.more {
            return all;
        }
    }
}

fn existing_blobs(store: &Arc<dyn Store>, blobs: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let exists = |number: &u8| store.blob(&hash(*number)).expect("read").is_some();
    blobs.into_iter().filter(exists).collect()
}

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    assert_eq!((removable(&store, 99), sweep(&store)), (BTreeMap::new(), SweepResult::default()), "an empty store");
    make(&store, "old", None, &[1, 2]);
    make(&store, "child", Some("old"), &[2, 3]);
    make(&store, "grandchild", Some("child"), &[4]);
    make(&store, "other", None, &[2, 5]);
    make(&store, "young", None, &[6]);
    make(&store, "open", None, &[7]);
    store.inbox_put(&message("old", "signal")).expect("put");
    for (run, at) in [("old", 10), ("child", 9), ("young", 50), ("other", 30)] {
        end(&store, run, at);
    }
    assert_eq!(removable(&store, 20), BTreeMap::new(), "a child run has not ended");
    assert_eq!(store.remove("old", Timestamp(20)).expect("asked"), TreeRemoval::default());
    end(&store, "grandchild", 25);
    assert_eq!(removable(&store, 20), BTreeMap::new(), "a child run has ended too recently");
    assert_eq!(removable(&store, 26), BTreeMap::from([("old".to_owned(), 3)]));
    assert_eq!(removable(&store, 40).keys().collect::<Vec<_>>(), ["old", "other"]);
    let first = store.removable(Timestamp(40), 0, 1).expect("read");
    let second = store.removable(Timestamp(40), first[0].number, 9).expect("read");
    assert_eq!((&*first[0].run, &*second[0].run), ("old", "other"), "page by page, oldest first");
    let ended = |before, limit| {
        let trees = store.ended_trees(before, limit).expect("read");
        trees.iter().map(|tree| (tree.number, tree.run.to_string(), tree.ended_at.0)).collect::<Vec<_>>()
    };
    let all = ended(None, 9);
    let names: Vec<_> = all.iter().map(|(_, run, at)| (run.as_str(), *at)).collect();
    assert_eq!(names, [("young", 50), ("other", 30), ("old", 10)], "ended runs that no run has called, newest first");
    assert_eq!(ended(Some(all[0].0), 1), all[1..2], "page by page");
    for run in ["child", "young", "open", "missing"] {
        assert_eq!(store.remove(run, Timestamp(26)).expect("asked"), TreeRemoval::default(), "{run} stays");
    }
    assert!(first[0].bytes > 300_000 && first[0].bytes < 400_000, "three blobs are only theirs: {first:?}");

    assert_eq!(store.remove("old", Timestamp(26)).expect("removed"), TreeRemoval { runs: 3, more: false });
    let left = |store: &Arc<dyn Store>| {
        let rows = store.runs(&RunFilter::default(), None, 99).expect("read");
        rows.iter().map(|row| row.run.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(left(&store), ["open", "young", "other"], "removed immediately");
    assert!(first_ticks(&store, "old", 0, 9).is_empty() && store.snapshot("old", None).expect("read").is_none());
    assert_eq!(store.claim("old", "me").expect("claim"), ClaimResult::NoSuchRun);
    assert_eq!(store.inbox_put(&message("old", "signal")).expect("put"), InboxVerdict::NoSuchRun);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());

    // The name of a half-removed run is free: a new run of that name gets none of the old data. The same bytes are
    // written again.
    subject.crash();
    let store = subject.store();
    make(&store, "old", None, &[4]);
    assert_eq!(first_ticks(&store, "old", 0, 9), [0, 2]);
    let swept = sweep(&store);
    assert_eq!(existing_blobs(&store, 1..=7), [2, 4, 5, 6, 7], "blobs of other runs stay");
    assert_eq!(swept.blobs, 2);
    assert!(swept.bytes > 200_000, "{swept:?}");
    assert_eq!(sweep(&store), SweepResult::default(), "nothing is left to do");
    assert_eq!(first_ticks(&store, "old", 0, 9), [0, 2]);
    assert_eq!(store.iterations("old", "loop", 0, 9).expect("read").len(), 1);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());

    assert_eq!(store.remove("other", Timestamp(40)).expect("removed").runs, 1);
    sweep(&store);
    assert_eq!(existing_blobs(&store, 1..=7), [4, 6, 7], "the last run that wrote it is removed");
    let kept = store.blob(&hash(7)).expect("read").expect("there");
    assert_eq!(kept, vec![7; 100_000], "byte for byte");
    many_children(&store);
    many_small_runs(&store);
}

/// Many small runs are removed together; runs that must stay do stay, at any position among them.
fn many_small_runs(store: &Arc<dyn Store>) {
    const SMALL: usize = 300;
    let ended = |run: &str| RunBatch { status: Some(status(RunStatus::Succeeded, 3)), ..creation(run) };
    let mut names: Vec<Arc<str>> = (0..SMALL).map(|number| format!("small-{number}").into()).collect();
    commit(store, names.iter().map(|name| ended(name)).collect());
    for (at, stays) in [(0, "open"), (10, "missing"), (150, "young")] {
        names.insert(at, stays.into());
    }
    let (mut left, mut removed, mut steps) = (&names[..], 0, 0);
    while !left.is_empty() {
        let step = store.remove_all(left, Timestamp(4)).expect("removed");
        assert!(step.done > 0 && step.done <= left.len(), "{step:?}");
        (left, removed, steps) = (&left[step.done..], removed + step.runs, steps + 1);
    }
    assert!(removed == SMALL as u64 && steps < SMALL / 5, "{removed} runs in {steps} steps");
    for stays in ["open", "young"] {
        assert!(store.run(stays).expect("read").is_some(), "{stays} stays");
    }
    sweep(store);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
}

/// A run has more descendants than one step removes.
fn many_children(store: &Arc<dyn Store>) {
    const BELOW: u64 = 1_200;
    make(store, "top", None, &[]);
    let child = |number: u64| {
        let create = NewRun { parent: Some("top".into()), ..new_run(None) };
        let ended = Some(status(RunStatus::Failed, 3));
        RunBatch { create: Some(create), status: ended, ..creation(&format!("below-{number}")) }
    };
    commit(store, (0..BELOW).map(child).collect());
    end(store, "top", 3);
    let mut removed = 0;
    let mut steps = 0;
    loop {
        let step = store.remove("top", Timestamp(4)).expect("removed");
        (removed, steps) = (removed + step.runs, steps + 1);
        assert_eq!(store.run("top").expect("read").is_some(), step.more, "the top goes last");
        if !step.more {
            break;
        }
    }
    assert!(removed == BELOW + 1 && steps > 1, "{removed} runs in {steps} steps");
    sweep(store);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
}
