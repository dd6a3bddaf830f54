//! The change mark is cheap to read and differs after every write.

use super::ConformanceSubject;
use super::fixtures::{commit, creation, message, ticks};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    let mut seen = store.change_mark().expect("a mark");
    let mut has_changed = || {
        let mark = store.change_mark().expect("a mark");
        std::mem::replace(&mut seen, mark) != mark
    };
    assert!(!has_changed(), "nothing was written");
    commit(&store, vec![creation("r")]);
    assert!(has_changed());
    commit(&store, vec![ticks("r", 0, 1)]);
    assert!(has_changed());
    store.inbox_put(&message("r", "a")).expect("put");
    assert!(has_changed());
    assert!(!has_changed(), "reading is not writing");
}
