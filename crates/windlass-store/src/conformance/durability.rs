//! A write call is durable when it returns, and it takes exactly one sync.

use windlass_value::BlobHash;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, message, run_row, ticks, unconsumed};
use crate::{ClaimResult, PlanRow};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let plan = PlanRow { hash: BlobHash([2; 32]), dialect: "loom".to_owned(), body: b"plan".to_vec() };
    step(subject, |subject| subject.store().put_plan(&plan).expect("put"));
    step(subject, |subject| {
        commit(&subject.store(), vec![creation("r"), ticks("r", 0, 2), creation("s")]);
    });
    step(subject, |subject| drop(subject.store().inbox_put(&message("r", "one")).expect("put")));
    step(subject, |subject| {
        let claimed = subject.store().claim("r", "an owner").expect("claim");
        assert_eq!(claimed, ClaimResult::Owned { owner_epoch: 2 });
    });

    let store = subject.store();
    assert_eq!(store.plan(&plan.hash).expect("read"), Some(plan));
    assert_eq!(run_row(&store, "r").ticks, 2);
    assert_eq!(unconsumed(&store, "r"), ["one"]);
    assert_eq!(run_row(&store, "r").owner.as_deref(), Some("an owner"));

    step(subject, |subject| subject.store().release("r", 2).expect("release"));
    assert_eq!(run_row(&subject.store(), "r").owner, None);
}

/// Makes one write call, counts its syncs, and then lets the process die.
fn step(subject: &mut dyn ConformanceSubject, write: impl FnOnce(&mut dyn ConformanceSubject)) {
    let before = subject.syncs();
    write(subject);
    let spent = subject.syncs().zip(before).map(|(after, before)| after - before);
    assert!(spent.is_none_or(|syncs| syncs == 1), "one write call is one sync, not {spent:?}");
    subject.crash();
}
