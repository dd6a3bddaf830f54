//! Blobs and plans are addressed by their hash; storing the same hash twice is idempotent.

use windlass_value::BlobHash;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty};
use crate::{PlanRow, RunBatch};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let hash = |number: u8| BlobHash([number; 32]);
    let plan = PlanRow { hash: hash(1), dialect: "noetl".to_owned(), body: b"a plan".to_vec() };
    assert_eq!(store.plan(&hash(1)).expect("read"), None);
    store.put_plan(&plan).expect("put");
    store.put_plan(&PlanRow { body: b"something else".to_vec(), ..plan.clone() }).expect("put");
    assert_eq!(store.plan(&hash(1)).expect("read"), Some(plan), "the first stays");
    assert_eq!(store.blob(&hash(1)).expect("read"), None, "plans are not blobs");

    let large: Vec<u8> = (0..5_000_000_u32).map(|number| (number % 251) as u8).collect();
    let blobs = vec![(hash(2), b"small".to_vec()), (hash(3), large.clone()), (hash(4), Vec::new())];
    commit(&store, vec![RunBatch { blobs, ..creation("r") }]);
    assert_eq!(store.blob(&hash(2)).expect("read").as_deref(), Some(&b"small"[..]));
    assert_eq!(store.blob(&hash(3)).expect("read"), Some(large));
    assert_eq!(store.blob(&hash(4)).expect("read"), Some(Vec::new()), "an empty one is not a missing one");
    assert_eq!(store.blob(&hash(5)).expect("read"), None);
    commit(&store, vec![RunBatch { blobs: vec![(hash(2), b"small".to_vec())], ..empty("r", 0) }]);
    assert_eq!(store.blob(&hash(2)).expect("read").as_deref(), Some(&b"small"[..]));
}
