//! The newest snapshot at or before a tick is found; writing the same tick twice yields one snapshot.

use super::ConformanceSubject;
use super::fixtures::{body, commit, creation, empty, snapshot, ticks};
use crate::{NewSnapshot, RunBatch, SnapshotRow};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("r"), creation("other")]);
    assert!(store.snapshot("r", None).expect("read").is_none());
    assert!(store.oldest_snapshot("r").expect("read").is_none());
    for tick in 0..10 {
        let snapshot = (tick % 3 == 2).then(|| snapshot(tick + 1));
        commit(&store, vec![RunBatch { snapshot, ..ticks("r", tick, 1) }]);
    }

    let tick_of = |found: Option<SnapshotRow>| found.map(|snapshot| snapshot.tick);
    let newest_up_to = |tick| tick_of(store.snapshot("r", tick).expect("read"));
    assert_eq!(newest_up_to(None), Some(9));
    assert_eq!(newest_up_to(Some(u64::MAX)), Some(9));
    assert_eq!(newest_up_to(Some(9)), Some(9));
    assert_eq!(newest_up_to(Some(8)), Some(6));
    assert_eq!(newest_up_to(Some(3)), Some(3));
    assert_eq!(newest_up_to(Some(2)), None);
    assert_eq!(tick_of(store.oldest_snapshot("r").expect("read")), Some(3));
    assert_eq!(tick_of(store.snapshot("other", None).expect("read")), None, "runs do not mix");
    let whole = SnapshotRow { tick: 6, event: 6, state_hash: [6; 32], body: body(6) };
    assert_eq!(store.snapshot("r", Some(6)).expect("read"), Some(whole));

    let later = NewSnapshot { body: b"again".to_vec(), ..snapshot(9) };
    commit(&store, vec![RunBatch { snapshot: Some(later), ..empty("r", 10) }]);
    let replaced = store.snapshot("r", Some(9)).expect("read").expect("a snapshot");
    assert_eq!(replaced.body, b"again", "the same tick again replaces it");
    let fresh = RunBatch { snapshot: Some(snapshot(0)), ..empty("other", 0) };
    commit(&store, vec![fresh]);
    assert_eq!(tick_of(store.snapshot("other", None).expect("read")), Some(0), "the state before the first tick");
}
