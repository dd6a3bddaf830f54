//! After a crash all acknowledged writes are present, the previous owners are dead, and work continues where it
//! stopped.

use super::ConformanceSubject;
use super::fixtures::{commit, creation, first_ticks, message, new_run, run_row, ticks, unconsumed, verdict};
use crate::{BatchVerdict, ClaimResult, InboxVerdict, RunBatch};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let owner = store.open_owner().expect("an owner");
    commit(&store, vec![RunBatch { create: Some(new_run(Some(&owner.name))), ..creation("r") }]);
    for tick in 0..50 {
        commit(&store, vec![ticks("r", tick, 1)]);
    }
    store.inbox_put(&message("r", "done")).expect("put");
    store.inbox_put(&message("r", "open")).expect("put");
    commit(&store, vec![RunBatch { consumed: vec!["done".into()], ..ticks("r", 50, 1) }]);

    for life in 0..3 {
        subject.crash();
        let store = subject.store();
        assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
        assert!(!store.owner_alive(&owner.name).expect("alive"), "its process is gone");
        assert_eq!(run_row(&store, "r").ticks, 51 + life);
        assert_eq!(first_ticks(&store, "r", 0, 1_000), (0..51 + life).collect::<Vec<_>>());
        assert_eq!(unconsumed(&store, "r"), ["open"]);
        assert_eq!(store.inbox_put(&message("r", "done")).expect("put"), InboxVerdict::Duplicate);

        let next = store.open_owner().expect("an owner");
        let owner_epoch = 2 + life;
        assert_eq!(
            store.claim("r", &next.name).expect("claim"),
            ClaimResult::Owned { owner_epoch },
            "epochs keep increasing"
        );
        assert_eq!(
            verdict(&store, RunBatch { owner_epoch: owner_epoch - 1, ..ticks("r", 51 + life, 1) }),
            BatchVerdict::Fenced
        );
        commit(&store, vec![RunBatch { owner_epoch, ..ticks("r", 51 + life, 1) }]);
    }
}
