//! A damaged row is never returned, and verification finds and names it.

use windlass_value::BlobHash;

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, record, ticks};
use crate::{JournalRecord, RunBatch, StoreErrorKind};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("well"), creation("ill"), creation("gap")]);
    for tick in 0..5 {
        commit(&store, vec![ticks("well", tick, 1), ticks("ill", tick, 1)]);
    }
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new(), "nothing is wrong yet");

    subject.damage_journal("ill", 2);
    let store = subject.store();
    let error = store.journal("ill", 0, 9).expect_err("the row at tick 2 is damaged");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    let error = store.journal_by_event("ill", 2, 1).expect_err("by whichever way it is read");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    assert_eq!(store.journal("ill", 0, 2).expect("the rows before it are well").len(), 2);
    assert_eq!(store.journal("well", 0, 9).expect("and so are the other runs").len(), 5);
    commit(&store, vec![ticks("well", 5, 1)]);
    let findings = store.verify().expect("verify");
    assert_eq!(findings.len(), 1, "one damage, one finding: {findings:?}");
    assert!(findings[0].to_lowercase().contains("journal"), "it says where: {findings:?}");

    damaged_blob(subject);
    let store = subject.store();
    let jump = JournalRecord { first_event: 7, ..record(1, 1) };
    commit(&store, vec![ticks("gap", 0, 1), RunBatch { record: Some(jump), ..empty("gap", 1) }]);
    let findings = store.verify().expect("verify");
    assert!(findings.iter().any(|line| line.contains("gap") && line.contains("events")), "{findings:?}");
}

/// Every read of a damaged blob fails and names the blob.
fn damaged_blob(subject: &mut dyn ConformanceSubject) {
    let (well, ill) = (BlobHash([0x17; 32]), BlobHash([0x18; 32]));
    let blobs = vec![(well, b"well".to_vec()), (ill, b"ill".to_vec())];
    commit(&subject.store(), vec![RunBatch { blobs, ..empty("well", 6) }]);
    subject.damage_blob(&ill);
    let store = subject.store();
    assert_eq!(store.blob(&well).expect("read").as_deref(), Some(&b"well"[..]));
    let error = store.blob(&ill).expect_err("the blob is damaged");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    assert!(error.message.contains(&ill.to_string()), "it is named: {error}");
    let findings = store.verify().expect("verify");
    assert!(findings.iter().any(|line| line.contains(&ill.to_string())), "{findings:?}");
}
