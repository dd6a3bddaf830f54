//! An owner that has lost a run can no longer change it.

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, first_ticks, run_row, status, ticks, verdict};
use crate::{BatchVerdict, ClaimResult, RunBatch, RunStatus};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("r"), ticks("r", 0, 1)]);
    let owner = store.open_owner().expect("an owner");
    assert_eq!(store.claim("r", &owner.name).expect("claim"), ClaimResult::Owned { owner_epoch: 2 });

    assert_eq!(verdict(&store, ticks("r", 1, 1)), BatchVerdict::Fenced, "epoch 1 is stale");
    let ended = RunBatch { status: Some(status(RunStatus::Failed, 5)), ..empty("r", 1) };
    assert_eq!(verdict(&store, ended), BatchVerdict::Fenced, "a batch without ticks is fenced as well");
    assert_eq!(verdict(&store, ticks("r", 7, 1)), BatchVerdict::Fenced, "fencing is reported before a conflict");
    let from_nowhere = RunBatch { owner_epoch: 3, ..ticks("r", 1, 1) };
    assert_eq!(verdict(&store, from_nowhere), BatchVerdict::Fenced, "an epoch that was never assigned");
    assert_eq!(first_ticks(&store, "r", 0, 10), [0]);
    assert_eq!(run_row(&store, "r").status, RunStatus::Pending, "a fenced batch leaves no trace");

    commit(&store, vec![RunBatch { owner_epoch: 2, ..ticks("r", 1, 1) }]);
    store.release("r", 1).expect("release");
    assert_eq!(run_row(&store, "r").owner, Some(owner.name.clone()), "an old epoch cannot release the run");
}
