//! Records are found by kind and key, and a set of changes is applied completely or not at all.

use std::sync::Arc;

use windlass_value::Timestamp;

use super::ConformanceSubject;
use crate::{RecordChange, RecordRow, Store, StoreErrorKind};

fn put(kind: &str, key: &str, body: &str) -> RecordChange {
    RecordChange::put(kind, key, body.as_bytes().to_vec(), Timestamp(7))
}

fn read(store: &Arc<dyn Store>, kind: &str, key: &str) -> RecordRow {
    store.record(kind, key).expect("read").unwrap_or_else(|| panic!("there is a record {kind} {key:?}"))
}

fn keys(store: &Arc<dyn Store>, kind: &str, after: &str, limit: u32) -> Vec<String> {
    let keys: Vec<String> = store.records(kind, after, limit).expect("read").into_iter().map(|row| row.key).collect();
    assert_eq!(store.record_keys(kind, after, limit).expect("read"), keys);
    keys
}

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let change = |changes| store.change_records(changes).expect("changed");
    assert_eq!((store.record("token", "a").expect("read"), keys(&store, "token", "", 9)), (None, vec![]));

    assert!(change(vec![
        put("token", "b", "one").with_expected_revision(0),
        put("token", "a", "two"),
        put("plan", "a", "three")
    ]));
    let first = read(&store, "token", "b");
    let expected =
        RecordRow { kind: "token".into(), key: "b".into(), body: b"one".to_vec(), at: Timestamp(7), ..first.clone() };
    assert_eq!(first, expected);
    assert_ne!(first.revision, 0, "0 stands for a record that does not exist");

    // The second of three changes is refused: none is applied.
    let late = vec![
        put("token", "c", "new"),
        put("token", "b", "changed").with_expected_revision(0),
        put("token", "a", "changed"),
    ];
    assert!(!change(late), "it exists");
    assert!(!change(vec![
        RecordChange::remove("token", "a", Timestamp(8)),
        put("token", "x", "").with_expected_revision(5)
    ]));
    assert_eq!(keys(&store, "token", "", 9), ["a", "b"]);
    assert_eq!(read(&store, "token", "a").body, b"two");
    assert_eq!(read(&store, "token", "b"), first);

    assert!(change(vec![put("token", "b", "changed").with_expected_revision(first.revision)]));
    let second = read(&store, "token", "b");
    assert_eq!(second.body, b"changed");
    assert!(!change(vec![put("token", "b", "late").with_expected_revision(first.revision)]), "another one was faster");
    // Later changes of a call see the earlier ones.
    assert!(change(vec![
        RecordChange::remove("token", "b", Timestamp(8)),
        put("token", "b", "anew").with_expected_revision(0)
    ]));
    let third = read(&store, "token", "b");
    assert!(![first.revision, second.revision].contains(&third.revision), "no revision repeats");
    assert!(change(vec![RecordChange::remove("token", "b", Timestamp(8)).with_expected_revision(third.revision)]));
    assert!(change(vec![RecordChange::remove("token", "b", Timestamp(8))]), "removing a missing record succeeds");
    assert!(change(vec![put("token", "b", "again")]));
    let fourth = read(&store, "token", "b");
    let before = [first.revision, second.revision, third.revision];
    assert!(!before.contains(&fourth.revision), "also not after a removal: {before:?}, {fourth:?}");

    pages(&store);
    subject.crash();
    let store = subject.store();
    assert_eq!(read(&store, "token", "b"), fourth);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
    subject.damage_record("token", "b");
    let store = subject.store();
    let error = store.record("token", "b").expect_err("it is damaged");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    let findings = store.verify().expect("verify");
    assert!(findings.len() == 1 && findings[0].contains("record"), "{findings:?}");
}

/// Keys are ordered by their bytes, also where they contain the byte 0 or non-ASCII characters.
fn pages(store: &Arc<dyn Store>) {
    let names = ["a", "a\u{0}0000000001", "a\u{0}0000000002", "a/b", "aa", "é", "😀"];
    let changes = names.iter().rev().map(|key| put("version", key, key)).collect();
    assert!(store.change_records(changes).expect("changed"));
    assert_eq!(keys(store, "version", "", 99), names);
    let mut seen = Vec::new();
    loop {
        let page = keys(store, "version", seen.last().map_or("", String::as_str), 2);
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, names, "page by page, without a gap");
    assert_eq!(read(store, "version", "a\u{0}0000000002").body, b"a\x000000000002");
    assert_eq!(keys(store, "versio", "", 9), Vec::<String>::new());
}
