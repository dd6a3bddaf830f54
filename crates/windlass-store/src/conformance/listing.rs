//! Runs are listed newest first, page by page, all or those that fit.

use windlass_value::{BlobHash, Timestamp};

use super::Subject;
use super::make::{commit, creation, empty, new_run, run_row, status};
use crate::{NewRun, RunBatch, RunFilter, RunRow, RunStatus};

pub(super) fn check(subject: &mut dyn Subject) {
    let store = subject.store();
    for number in 0..10 {
        let definition = if number % 2 == 0 { "even" } else { "odd" };
        let create = NewRun { definition: definition.to_owned(), ..new_run(None) };
        commit(&store, vec![RunBatch { create: Some(create), ..creation(&format!("r{number}")) }]);
    }
    for (run, now) in [("r2", RunStatus::Succeeded), ("r3", RunStatus::TimedOut), ("r4", RunStatus::Waiting)] {
        commit(&store, vec![RunBatch { status: Some(status(now, 77)), ..empty(run, 0) }]);
    }

    let page = |filter: &RunFilter, before, limit| store.runs(filter, before, limit).expect("read");
    let every = RunFilter::default();
    assert_eq!(names(&page(&every, None, 99)), ["r9", "r8", "r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"]);
    let first = page(&every, None, 3);
    assert_eq!(names(&first), ["r9", "r8", "r7"]);
    assert_eq!(names(&page(&every, Some(first[2].number), 3)), ["r6", "r5", "r4"], "the next page, without a gap");

    let even = RunFilter { definition: Some("even".to_owned()), ..every.clone() };
    assert_eq!(names(&page(&even, None, 99)), ["r8", "r6", "r4", "r2", "r0"]);
    let waiting = RunFilter { status: Some(RunStatus::Waiting), ..every.clone() };
    assert_eq!(names(&page(&waiting, None, 99)), ["r4"]);
    let unfinished = RunFilter { unfinished: true, ..every.clone() };
    assert_eq!(names(&page(&unfinished, None, 99)), ["r9", "r8", "r7", "r6", "r5", "r4", "r1", "r0"]);
    let both = RunFilter { unfinished: true, status: Some(RunStatus::Succeeded), ..even };
    assert!(page(&both, None, 99).is_empty(), "every part of a filter counts");

    whole_row(&run_row(&store, "r2"));
    for every in RunStatus::ALL {
        commit(&store, vec![RunBatch { status: Some(status(every, 80)), ..empty("r9", 0) }]);
        assert_eq!(run_row(&store, "r9").status, every);
    }
}

fn whole_row(row: &RunRow) {
    let expected = RunRow {
        number: row.number,
        run: "r2".into(),
        plan: BlobHash([9; 32]),
        definition: "even".to_owned(),
        dialect: "loom".to_owned(),
        status: RunStatus::Succeeded,
        owner: None,
        epoch: 1,
        created_at: Timestamp(1_000),
        changed_at: Timestamp(77),
        timer: None,
        parent: Some("parent".into()),
        options: b"options".to_vec(),
        result: Some(b"result".to_vec()),
        ticks: 0,
    };
    assert_eq!(*row, expected, "everything that was given");
}

fn names(rows: &[RunRow]) -> Vec<&str> {
    rows.iter().map(|row| &*row.run).collect()
}
