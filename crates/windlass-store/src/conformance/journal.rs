//! The journal returns what was appended, from any tick and from any event, page by page.

use super::ConformanceSubject;
use super::fixtures::{body, commit, creation, empty, first_ticks, ticks};
use crate::{JournalRecord, JournalRow, RunBatch};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    commit(&store, vec![creation("r"), creation("other"), creation("silent"), ticks("silent", 0, 4)]);
    // Rows of 3 ticks; every second row publishes 2 events, the others none.
    for row in 0..20 {
        commit(&store, vec![row_of_three(row), ticks("other", row, 1)]);
    }

    assert_eq!(first_ticks(&store, "r", 0, 100), (0..20).map(|row| row * 3).collect::<Vec<_>>());
    assert_eq!(first_ticks(&store, "r", 3, 2), [3, 6], "from the first tick of a row");
    assert_eq!(first_ticks(&store, "r", 5, 2), [3, 6], "from the last tick of a row: the row that holds it");
    assert_eq!(first_ticks(&store, "r", 59, 9), [57]);
    assert!(first_ticks(&store, "r", 60, 9).is_empty(), "nothing after the end");
    assert!(first_ticks(&store, "r", u64::MAX, 9).is_empty());
    assert!(first_ticks(&store, "missing", 0, 9).is_empty());
    assert!(first_ticks(&store, "r", 0, 0).is_empty());
    let expected = JournalRow { first_tick: 6, ticks: 3, first_event: 2, events: 2, body: body(2) };
    assert_eq!(store.journal("r", 6, 1).expect("read"), [expected], "all of it, byte for byte");

    let by_event = |from, limit| -> Vec<u64> {
        let rows = store.journal_by_event("r", from, limit).expect("read");
        rows.iter().map(|row| row.first_event).collect()
    };
    assert_eq!(by_event(0, 100), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    assert_eq!(by_event(6, 2), [6, 8], "from the first event of a row");
    assert_eq!(by_event(7, 2), [6, 8], "from the last event of a row");
    assert_eq!(by_event(19, 9), [18]);
    assert!(by_event(20, 9).is_empty());
    assert!(by_event(u64::MAX, 9).is_empty());
    assert!(store.journal_by_event("missing", 0, 9).expect("read").is_empty());

    let large = JournalRecord { ticks: 1, first_event: 20, events: 1, body: vec![0xA5; 3 << 20] };
    commit(&store, vec![RunBatch { record: Some(large.clone()), ..empty("r", 60) }]);
    assert_eq!(store.journal("r", 60, 1).expect("read")[0].body, large.body, "also if it is large");
}

fn row_of_three(row: u64) -> RunBatch {
    let events = if row.is_multiple_of(2) { 2 } else { 0 };
    let record = JournalRecord { ticks: 3, first_event: if events == 0 { 0 } else { row }, events, body: body(row) };
    RunBatch { record: Some(record), ..empty("r", row * 3) }
}
