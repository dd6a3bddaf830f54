//! A run tree has a bounded number of open runs, and no run begins below a cancelled one.

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, message, new_run, status, unconsumed, verdict};
use crate::{BatchVerdict, InboxVerdict, NewRun, RunBatch, RunStatus};

/// The first batch of a child run in a tree of at most `max_tree_runs` open runs below the root.
fn child(run: &str, parent: Option<&str>, max_tree_runs: u64) -> RunBatch {
    let create = NewRun { parent: parent.map(Into::into), max_tree_runs, ..new_run(None) };
    RunBatch { create: Some(create), ..creation(run) }
}

fn end(run: &str) -> RunBatch {
    RunBatch { status: Some(status(RunStatus::Succeeded, 7)), ..empty(run, 0) }
}

pub(super) fn check_count(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![child("root", None, 0), child("other", None, 0), child("lost", Some("unknown"), 0)]);
    commit(&store, vec![child("a", Some("root"), 2), child("b", Some("a"), 2)]);
    assert_eq!(verdict(&store, child("c", Some("root"), 2)), BatchVerdict::TreeFull);
    assert_eq!(verdict(&store, child("c", Some("b"), 2)), BatchVerdict::TreeFull, "counted at whatever depth");
    assert!(store.run("c").expect("read").is_none(), "a refused run leaves no trace");
    commit(&store, vec![child("d", Some("other"), 1)]);

    commit(&store, vec![end("b")]);
    let ends_at_once = RunBatch { status: Some(status(RunStatus::Succeeded, 7)), ..child("c", Some("a"), 2) };
    commit(&store, vec![ends_at_once]);
    commit(&store, vec![child("e", Some("a"), 2)]);
    assert_eq!(verdict(&store, child("f", Some("root"), 2)), BatchVerdict::TreeFull, "an ended run gives one place");
    subject.crash();
    let store = subject.store();
    assert_eq!(verdict(&store, child("f", Some("root"), 2)), BatchVerdict::TreeFull, "also after a crash");
    commit(&store, vec![child("f", Some("root"), 3)]);
}

pub(super) fn check_marks(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let max = u64::MAX;
    commit(&store, vec![child("root", None, max), child("a", Some("root"), max), child("b", Some("a"), max)]);
    commit(&store, vec![child("replied", Some("root"), max), child("under", Some("replied"), max)]);
    commit(&store, vec![RunBatch { replied: true, ..empty("replied", 0) }]);
    assert_eq!(store.cancel_tree(&message("none", "off")).expect("put"), InboxVerdict::NoSuchRun);
    assert_eq!(store.cancel_tree(&message("root", "off")).expect("put"), InboxVerdict::Accepted { owner: None });
    assert_eq!(store.cancel_tree(&message("root", "off")).expect("put"), InboxVerdict::Duplicate);
    assert_eq!(unconsumed(&store, "root"), ["off"], "the run gets the message");
    for parent in ["root", "a", "b"] {
        assert_eq!(verdict(&store, child("late", Some(parent), max)), BatchVerdict::Conflict, "below {parent}");
    }
    commit(&store, vec![child("c", Some("replied"), max), child("d", Some("under"), max)]);
    let is_cancelled = |run: &str| store.is_cancelled_above(run).expect("read");
    assert!(is_cancelled("a") && is_cancelled("b"));
    for run in ["root", "replied", "under", "c", "none"] {
        assert!(!is_cancelled(run), "{run} depends on no cancelled run");
    }
    subject.crash();
    let store = subject.store();
    assert_eq!(verdict(&store, child("late", Some("b"), max)), BatchVerdict::Conflict, "also after a crash");

    let cancellations = vec![message("replied", "off"), message("under", "off")];
    commit(&store, vec![RunBatch { cancellations, ..empty("a", 0) }]);
    commit(&store, vec![child("e", Some("replied"), max)]);
    let below_cancelled = verdict(&store, child("late", Some("d"), max));
    assert_eq!(below_cancelled, BatchVerdict::Conflict, "its caller has cancelled `under`, which has not replied");

    commit(&store, vec![end("c")]);
    assert_eq!(verdict(&store, child("late", Some("c"), max)), BatchVerdict::Conflict, "the run above it has ended");
    assert_eq!(store.cancel_tree(&message("c", "off")).expect("put"), InboxVerdict::Ended);
    commit(&store, vec![child("new root", None, max)]);
}
