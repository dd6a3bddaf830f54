//! Any owner can claim a run that was released.

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, run_row, ticks, verdict};
use crate::{BatchVerdict, ClaimResult, RunBatch};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let (first, second) = (store.open_owner().expect("an owner"), store.open_owner().expect("an owner"));
    commit(&store, vec![creation("r")]);
    assert_eq!(store.claim("r", &first.name).expect("claim"), ClaimResult::Owned { owner_epoch: 2 });

    store.release("r", 2).expect("release");
    store.release("r", 2).expect("releasing twice is harmless");
    store.release("missing", 1).expect("so is releasing a run that does not exist");
    assert_eq!(run_row(&store, "r").owner, None);
    assert_eq!(
        store.claim("r", &second.name).expect("claim"),
        ClaimResult::Owned { owner_epoch: 3 },
        "its owner is alive, but has released it"
    );
    store.release("r", 2).expect("release");
    assert_eq!(run_row(&store, "r").owner, Some(second.name.clone()), "the first owner holds nothing to release");

    let last = RunBatch { owner_epoch: 3, release: true, ..ticks("r", 0, 1) };
    commit(&store, vec![last]);
    assert_eq!(run_row(&store, "r").owner, None, "released in the transaction of the last ticks");
    assert_eq!(run_row(&store, "r").ticks, 1);
    assert_eq!(store.claim("r", &first.name).expect("claim"), ClaimResult::Owned { owner_epoch: 4 });
    let refused = RunBatch { owner_epoch: 4, release: true, ..empty("r", 9) };
    assert_eq!(verdict(&store, refused), BatchVerdict::Conflict);
    assert_eq!(run_row(&store, "r").owner, Some(first.name.clone()), "a refused batch releases nothing");
}
