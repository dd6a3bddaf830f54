//! Runs are listed newest first, page by page, all of them or those that match a filter.

use windlass_value::{BlobHash, Timestamp};

use super::ConformanceSubject;
use super::fixtures::{commit, creation, empty, new_run, run_row, status};
use crate::{NewRun, ParentFilter, RUN_FORMAT, RunBatch, RunFilter, RunLabels, RunRow, RunStatus, RunningFilter};

pub(super) fn check(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    for number in 0..10 {
        let definition = if number % 2 == 0 { "even" } else { "odd" };
        let labels = [("parity".to_owned(), definition.to_owned()), ("note".to_owned(), "a \"b\" = ü".to_owned())];
        let create = NewRun { definition: definition.to_owned(), labels: labels.into(), ..new_run(None) };
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

    assert_full_row(&run_row(&store, "r2"));
    for every in RunStatus::ALL {
        commit(&store, vec![RunBatch { status: Some(status(every, 80)), ..empty("r9", 0) }]);
        assert_eq!(run_row(&store, "r9").status, every);
    }
}

fn assert_full_row(row: &RunRow) {
    let expected = RunRow {
        format: RUN_FORMAT,
        number: row.number,
        run: "r2".into(),
        execution_id: row.execution_id,
        plan: BlobHash([9; 32]),
        definition: "even".to_owned(),
        dialect: "loom".to_owned(),
        status: RunStatus::Succeeded,
        owner: None,
        owner_epoch: 1,
        previous_owner: None,
        created_at: Timestamp(1_000),
        changed_at: Timestamp(77),
        timer: None,
        parent: Some("parent".into()),
        options: b"options".to_vec(),
        result: Some(b"result".to_vec()),
        ticks: 0,
        labels: [("parity".to_owned(), "even".to_owned()), ("note".to_owned(), "a \"b\" = ü".to_owned())].into(),
    };
    assert_eq!(*row, expected, "everything that was given");
}

/// The labels of the run with this number.
fn labels(number: i64) -> RunLabels {
    let customer = ("customer".to_owned(), format!("c{}", number % 3));
    [customer, ("env".to_owned(), if number % 2 == 0 { "prod" } else { "test" }.to_owned())].into()
}

fn names(rows: &[RunRow]) -> Vec<&str> {
    rows.iter().map(|row| &*row.run).collect()
}

/// Every part of a filter, alone and combined with others: pages of three runs each, taken together, list all matching
/// runs.
pub(super) fn check_filters(subject: &mut dyn ConformanceSubject) {
    let store = subject.store();
    for number in 0..24i64 {
        let create = NewRun {
            definition: ["Orders", "orders-late", "50%_done", "Ärger"][number as usize % 4].to_owned(),
            dialect: if number % 3 == 0 { "noetl" } else { "loom" }.to_owned(),
            parent: [None, Some("r-0".into()), Some("r-1".into())][number as usize % 3].clone(),
            created_at: Timestamp(1_000 + number * 10),
            labels: if number % 5 == 4 { RunLabels::new() } else { labels(number) },
            ..new_run([None, Some("alive-1"), Some("dead-1")][number as usize / 10])
        };
        let run = format!("{}-{number}", if number < 12 { "r" } else { "Late" });
        let now = RunStatus::ALL[number as usize % 10];
        let status = Some(status(now, 2_000));
        commit(&store, vec![RunBatch { create: Some(create), status, ..creation(&run) }]);
    }
    let all = store.runs(&RunFilter::default(), None, 99).expect("read");
    let has = |row: &RunRow, part: &str| [&*row.run, &*row.definition].iter().any(|text| text.contains(part));
    type Fits = Box<dyn Fn(&RunRow) -> bool>;
    let alive = vec!["other-1".to_owned(), "alive-1".to_owned()];
    let search = |part: &str| RunFilter { search: Some(part.to_owned()), ..RunFilter::default() };
    let parts: Vec<(&str, RunFilter, Fits)> = vec![
        ("status", RunFilter { status: Some(RunStatus::Failed), ..RunFilter::default() }, {
            Box::new(|row| row.status == RunStatus::Failed)
        }),
        (
            "statuses",
            RunFilter {
                statuses: vec![RunStatus::Failed, RunStatus::Running, RunStatus::Failed],
                ..RunFilter::default()
            },
            Box::new(|row| [RunStatus::Failed, RunStatus::Running].contains(&row.status)),
        ),
        (
            "interrupted",
            RunFilter { running: Some(RunningFilter::NotOwnedBy(alive.clone())), ..RunFilter::default() },
            { Box::new(|row| row.status != RunStatus::Running || row.owner.as_deref() != Some("alive-1")) },
        ),
        ("owned", RunFilter { running: Some(RunningFilter::OwnedBy(alive)), ..RunFilter::default() }, {
            Box::new(|row| row.status != RunStatus::Running || row.owner.as_deref() == Some("alive-1"))
        }),
        ("definition", RunFilter { definition: Some("Orders".into()), ..RunFilter::default() }, {
            Box::new(|row| row.definition == "Orders")
        }),
        ("dialect", RunFilter { dialect: Some("noetl".into()), ..RunFilter::default() }, {
            Box::new(|row| row.dialect == "noetl")
        }),
        ("unfinished", RunFilter { unfinished: true, ..RunFilter::default() }, Box::new(|row| !row.status.is_final())),
        ("search", search("LATE"), Box::new(move |row| has(row, "late") || has(row, "Late"))),
        ("a percent sign", search("0%_D"), Box::new(move |row| has(row, "50%_done"))),
        ("more than ASCII", search("rger"), Box::new(move |row| has(row, "Ärger"))),
        ("nothing", search(""), Box::new(|_| true)),
        ("missing", search("no such thing"), Box::new(|_| false)),
        (
            "top",
            RunFilter { parent: Some(ParentFilter::TopLevel), ..RunFilter::default() },
            Box::new(|row| row.parent.is_none()),
        ),
        ("children", RunFilter { parent: Some(ParentFilter::Run("r-1".into())), ..RunFilter::default() }, {
            Box::new(|row| row.parent.as_deref() == Some("r-1"))
        }),
        ("since", RunFilter { since: Some(Timestamp(1_100)), ..RunFilter::default() }, {
            Box::new(|row| row.created_at >= Timestamp(1_100))
        }),
        ("until", RunFilter { until: Some(Timestamp(1_150)), ..RunFilter::default() }, {
            Box::new(|row| row.created_at < Timestamp(1_150))
        }),
    ];
    let label = |name: &str, value: &str| RunFilter {
        labels: [(name.to_owned(), value.to_owned())].into(),
        ..RunFilter::default()
    };
    let labelled: Vec<(&str, RunFilter, Fits)> = vec![
        ("label", label("customer", "c1"), Box::new(|row| row.labels.get("customer").is_some_and(|it| it == "c1"))),
        ("other label", label("env", "prod"), Box::new(|row| row.labels.get("env").is_some_and(|it| it == "prod"))),
        ("unknown label", label("customer", "prod"), Box::new(|_| false)),
    ];
    let parts: Vec<(&str, RunFilter, Fits)> = parts.into_iter().chain(labelled).collect();
    for (one_name, one, one_fits) in &parts {
        for (other_name, other, other_fits) in &parts {
            let Some(filter) = merge_filters(one, other) else { continue };
            if one.labels.iter().any(|(name, value)| other.labels.get(name).is_some_and(|other| other != value)) {
                continue;
            }
            let fitting = all.iter().filter(|row| one_fits(row) && other_fits(row));
            let fitting: Vec<&str> = fitting.map(|row| &*row.run).collect();
            let mut found = Vec::new();
            loop {
                let before = found.last().map(|row: &RunRow| row.number);
                let page = store.runs(&filter, before, 3).expect("read");
                if page.is_empty() {
                    break;
                }
                found.extend(page);
            }
            assert_eq!(names(&found), fitting, "{one_name} and {other_name}");
            let counted = store.counts(&filter, 24).expect("read");
            let with = |status: RunStatus| found.iter().filter(|row| row.status == status).count() as u64;
            let expected = RunStatus::ALL.map(|status| (status, with(status), false));
            let counted: Vec<_> = counted.iter().map(|one| (one.status, one.runs, one.more)).collect();
            let expected: Vec<_> = expected.into_iter().filter(|(_, runs, _)| *runs > 0).collect();
            assert_eq!(counted, expected, "{one_name} and {other_name}");
        }
    }
    let few = |filter: &RunFilter, max_per_status| {
        let counts = store.counts(filter, max_per_status).expect("read");
        counts.iter().map(|one| (one.status, one.runs, one.more)).collect::<Vec<_>>()
    };
    let running = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
    assert_eq!(few(&running, 2), [(RunStatus::Running, 2, true)], "the newest alone are counted");
    assert_eq!(
        few(&RunFilter { parent: Some(ParentFilter::TopLevel), ..running.clone() }, 2),
        [(RunStatus::Running, 1, true)]
    );
    let orders = RunFilter { definition: Some("Orders".into()), ..running };
    assert_eq!(few(&orders, 1), [], "Orders are pending, paused, waiting, …: none of them runs");
}

/// Combines two filters; returns `None` if both constrain the same field differently.
fn merge_filters(one: &RunFilter, other: &RunFilter) -> Option<RunFilter> {
    fn either<T: Clone + PartialEq>(one: &Option<T>, other: &Option<T>) -> Option<Option<T>> {
        match (one, other) {
            (Some(one), Some(other)) if one != other => None,
            (one, other) => Some(one.clone().or_else(|| other.clone())),
        }
    }
    Some(RunFilter {
        status: either(&one.status, &other.status)?,
        statuses: if one.statuses.is_empty() { other.statuses.clone() } else { one.statuses.clone() },
        definition: either(&one.definition, &other.definition)?,
        dialect: either(&one.dialect, &other.dialect)?,
        unfinished: one.unfinished || other.unfinished,
        search: either(&one.search, &other.search)?,
        parent: either(&one.parent, &other.parent)?,
        since: either(&one.since, &other.since)?,
        until: either(&one.until, &other.until)?,
        running: either(&one.running, &other.running)?,
        labels: one.labels.iter().chain(&other.labels).map(|(name, value)| (name.clone(), value.clone())).collect(),
    })
}
