//! Random flips of single bits over every file of a store: each is detected, or changes nothing that is read.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::crashed::CrashedStore;
use common::open;
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    IterationOutcome, IterationRow, LogBatch, LogFilter, LogStream, NewLogLine, NewRun, NewSnapshot, PlanRow,
    RecordChange, RunBatch, RunFilter, RunStatus, StatusChange, StoreClean, StoreError, StoreLogs, StoreOwners,
    StoreRead, StoreRecords, StoreScan, StoreWrite, WaitRow,
};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_value::{BlobHash, Timestamp};

/// Flips of one run of the test; `WINDLASS_TEST_FACTOR` multiplies them.
const FLIPS: usize = 150;

const RUNS: u64 = 12;

fn name(number: u64) -> String {
    format!("run-{number}")
}

/// Fills every table, partly in the database and partly in the log.
fn fill(store: &SqliteStore) {
    store.put_plan(&PlanRow { hash: BlobHash([1; 32]), dialect: "loom".to_owned(), body: vec![7; 600] }).expect("plan");
    for number in 0..RUNS {
        fill_run(store, &name(number), number);
    }
    for key in ["a", "b", "c"] {
        let put = RecordChange::put("token", key, key.repeat(100).into_bytes(), Timestamp(-5));
        assert!(store.change_records(vec![put]).expect("changed"));
    }
    let owner = store.open_owner().expect("an owner");
    store.claim(&name(1), &owner.name).expect("claim");
    owner.beat(Timestamp(77)).expect("written");
    let ended = StatusChange { status: RunStatus::Succeeded, at: Timestamp(50), result: Some(vec![3; 90]) };
    for number in [2, 3] {
        store
            .append(vec![RunBatch { status: Some(ended.clone()), ..tick(&name(number), 8, vec![1]) }])
            .expect("append");
    }
    store.remove(&name(3), Timestamp(99)).expect("removed");
}

fn fill_run(store: &SqliteStore, run: &str, number: u64) {
    let labels = [("team".to_owned(), format!("team {number}"))].into();
    let (parent, base) = ((number % 3 == 1).then(|| name(0).into()), creation(run));
    let new = base.create.map(|new| NewRun { labels, parent, options: vec![4; 50], ..new });
    let line = NewLogLine {
        run: run.into(),
        path: "step".into(),
        attempt: 1,
        stream: LogStream::Log,
        at: Timestamp(9),
        text: format!("line of {run}"),
    };
    let logs = Some(LogBatch { lines: vec![line], max_run_bytes: 1_000 });
    let timer = Some(Some(Timestamp(1_000 + number as i64)));
    store.append(vec![RunBatch { create: new, logs, timer, ..creation(run) }]).expect("append");
    for next in 0..8 {
        let iteration = IterationRow {
            loop_path: "loop".into(),
            first: next,
            last: next,
            outcome: if next == 3 { IterationOutcome::Failed } else { IterationOutcome::Succeeded },
            body: vec![next as u8; 40],
        };
        let wait = WaitRow {
            name: "go".into(),
            path: format!("wait[{next}]").into(),
            body: vec![1; 30],
            since: Timestamp(3),
            deadline: Some(Timestamp(-4)),
        };
        let batch = RunBatch {
            iterations: vec![iteration],
            waits: Some(vec![wait]),
            snapshot: (next == 4).then(|| NewSnapshot { tick: 5, event: 5, state_hash: [8; 32], body: vec![2; 500] }),
            blobs: vec![(BlobHash([next as u8; 32]), vec![next as u8; 700])],
            consumed: if next == 6 { vec![format!("known-{run}").into()] } else { Vec::new() },
            ..tick(run, next, format!("{run} tick {next} ").repeat(12).into_bytes())
        };
        store.append(vec![batch]).expect("append");
    }
    let message =
        windlass_store::InboxRow { run: run.into(), request_id: "signal".into(), body: vec![6; 60], at: Timestamp(12) };
    store.inbox_put(&message).expect("put");
}

/// Reads everything that a reader can ask for.
fn read_all(store: &SqliteStore) -> Result<Vec<String>, StoreError> {
    let mut all = Vec::new();
    all.push(format!("{:?}", store.runs(&RunFilter::default(), None, 99)?));
    all.push(format!("{:?}", store.runs(&RunFilter { unfinished: true, ..RunFilter::default() }, None, 99)?));
    all.push(format!("{:?}", store.counts(&RunFilter::default(), 99)?));
    all.push(format!("{:?} {:?}", store.due(Timestamp(1_005), 99)?, store.next_due()?));
    all.push(format!("{:?} {:?}", store.with_inbox(99)?, store.waits(None, 0, 999)?));
    all.push(format!("{:?} {:?}", store.records("token", "", 99)?, store.record_keys("token", "", 99)?));
    all.push(format!("{:?}", store.plan(&BlobHash([1; 32]))?));
    for number in 0..RUNS {
        let run = name(number);
        all.push(format!("{:?} {:?}", store.run(&run)?, store.journal(&run, 0, 99)?));
        all.push(format!("{:?} {:?}", store.journal_by_event(&run, 5, 99)?, store.snapshot(&run, None)?));
        all.push(format!("{:?} {:?}", store.inbox(&run, 99)?, store.knows_request(&run, &format!("known-{run}"))?));
        all.push(format!("{:?} {:?}", store.iterations(&run, "loop", 0, 99)?, store.loops(&run)?));
        all.push(format!("{:?}", store.iteration_headers(&run, "loop", 0, true, 99)?));
        all.push(format!("{:?}", store.logs(&run, LogFilter::default(), 0, 99)?));
    }
    for number in 0..8 {
        let hash = BlobHash([number; 32]);
        all.push(format!("{:?} {:?}", store.blob(&hash)?, store.blob_of_run(&name(5), &hash)?));
    }
    let owners = store.run(&name(1))?.and_then(|run| run.owner);
    all.push(format!("{:?}", owners.map(|owner| store.last_heartbeat(&owner)).transpose()?));
    all.push(format!("{:?}", store.removable(Timestamp(99), 0, 99)?));
    Ok(all)
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug, Clone, Copy)]
enum Outcome {
    RefusedOnOpen,
    FailedOnRead,
    FoundByDoctor,
    Harmless,
    Wrong,
}

fn outcome(directory: &Path, expected: &[String]) -> Outcome {
    let Ok(store) = SqliteStore::open(directory, SqliteOptions::default()) else { return Outcome::RefusedOnOpen };
    let read = read_all(&store);
    let findings = store.scrub(100).map(|report| report.findings);
    match (read, findings) {
        (Err(_), _) => Outcome::FailedOnRead,
        (_, Err(_)) => Outcome::FoundByDoctor,
        (_, Ok(findings)) if !findings.is_empty() => Outcome::FoundByDoctor,
        (Ok(read), _) if read == expected => Outcome::Harmless,
        _ => Outcome::Wrong,
    }
}

/// A small generator of numbers: the same seed gives the same flips.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn flips() -> usize {
    let factor = std::env::var("WINDLASS_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    FLIPS * factor
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let store = CrashedStore::new(fill);
    store.restore();
    let expected = {
        let store = open(store.path());
        assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
        read_all(&store).expect("everything is readable")
    };
    let mut numbers = Numbers(20_261_118);
    let names: Vec<&PathBuf> =
        store.files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, _)| name).collect();
    assert!(names.len() >= 4, "database, log, head record and a heartbeat: {names:?}");
    let mut counts: BTreeMap<(String, Outcome), usize> = BTreeMap::new();
    for _ in 0..flips() {
        store.restore();
        let name = names[numbers.below(names.len())];
        let (at, mask) = (numbers.below(store.files[name].len()), 1 << numbers.below(8));
        store.flip(name, at, mask);
        let outcome = outcome(store.path(), &expected);
        assert_ne!(outcome, Outcome::Wrong, "byte {at}, mask {mask:#x} of {}", name.display());
        let shown = name.components().next().map_or_else(String::new, |name| name.as_os_str().to_string_lossy().into());
        *counts.entry((shown, outcome)).or_default() += 1;
    }
    for ((file, outcome), count) in &counts {
        println!("{file}: {outcome:?} {count}");
    }
    let refused = |file: &str| counts.get(&(file.to_owned(), Outcome::RefusedOnOpen)).copied().unwrap_or(0);
    assert!(refused("windlass.db-wal") > 0, "{counts:?}");
}
