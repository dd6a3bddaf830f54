//! A store on a disk that is full: reserved space lets runs be cancelled and end, and nothing new begins.

mod common;

use std::path::Path;

use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    BatchVerdict, ClaimResult, InboxRow, InboxVerdict, PlanRow, RecordChange, RunBatch, RunStatus, SpaceLeft,
    StatusChange, StoreErrorKind, StoreOwners, StoreRead, StoreRecords, StoreScan, StoreSpace, StoreWrite,
};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_testing::small_disk::{SmallDisk, on_small_disk};
use windlass_value::{BlobHash, Timestamp};

const DISK_BYTES: u64 = 64 << 20;
const RESERVED_BYTES: u64 = windlass_store_sqlite::DEFAULT_RESERVED_BYTES;

fn open(directory: &Path, reserved_bytes: Option<u64>) -> SqliteStore {
    SqliteStore::open(directory, SqliteOptions { reserved_bytes, ..SqliteOptions::default() }).expect("the store opens")
}

fn verdict(store: &SqliteStore, batch: RunBatch) -> BatchVerdict {
    store.append(vec![batch]).expect("the store answers")[0]
}

fn message(request: &str, bytes: usize) -> InboxRow {
    InboxRow { run: "before".into(), request_id: request.into(), at: Timestamp(1), body: vec![7; bytes] }
}

fn cancelled(run: &str, ticks: u64) -> RunBatch {
    let status = Some(StatusChange { status: RunStatus::Cancelled, at: Timestamp(2), result: None });
    RunBatch { status, ..tick(run, ticks, vec![1]) }
}

/// Starts runs until the disk has no space for one. Returns the number of runs.
fn start_until_refused(store: &SqliteStore) -> u64 {
    for number in 0.. {
        let body = vec![number as u8; 50_000];
        let record = tick("r", 0, body).record;
        let refused = verdict(store, RunBatch { record, ..creation(&format!("r{number}")) });
        if refused != BatchVerdict::Committed {
            assert_eq!(refused, BatchVerdict::NoSpace);
            return number;
        }
    }
    unreachable!("the disk is small")
}

/// Waits until the store has made its reserve again.
fn wait_for_space(store: &SqliteStore) {
    let begun = std::time::Instant::now();
    while store.space_left() != SpaceLeft::Enough {
        assert!(begun.elapsed().as_secs() < 60, "the reserve was not made again");
        std::thread::yield_now();
    }
}

fn reserved_space(disk: &SmallDisk) {
    let directory = disk.directory().join("store");
    let store = open(&directory, Some(RESERVED_BYTES));
    assert_eq!(store.space_left(), SpaceLeft::Enough);
    assert_eq!(verdict(&store, creation("before")), BatchVerdict::Committed);
    let open_runs: Vec<String> = (0..1_000).map(|number| format!("open-{number}")).collect();
    for run in &open_runs {
        assert_eq!(verdict(&store, creation(run)), BatchVerdict::Committed);
    }
    disk.fill();
    let started = start_until_refused(&store);
    assert_eq!(store.space_left(), SpaceLeft::Reserved, "readiness can follow at once");
    assert_eq!(store.run(&format!("r{started}")).expect("read"), None, "nothing of the refused start is left");
    assert_eq!(verdict(&store, creation("another")), BatchVerdict::NoSpace);
    let plan = PlanRow { hash: BlobHash([1; 32]), dialect: "loom".to_owned(), body: vec![1] };
    assert_eq!(store.put_plan(&plan).expect_err("refused").kind, StoreErrorKind::Full);

    // In one group with a start, a run that exists continues.
    let group = vec![creation("another"), tick("before", 0, vec![1; 9_000])];
    assert_eq!(store.append(group).expect("append"), [BatchVerdict::NoSpace, BatchVerdict::Committed]);
    assert!(matches!(store.claim("before", "me").expect("claim"), ClaimResult::Owned { .. }));
    assert!(matches!(store.inbox_put(&message("one", 200)).expect("put"), InboxVerdict::Accepted { .. }));

    // Runs that go on use their part up; requests and ends still work.
    let mut ticks = 1;
    while verdict(&store, RunBatch { owner_epoch: 2, ..tick("before", ticks, vec![2; 60_000]) })
        == BatchVerdict::Committed
    {
        ticks += 1;
    }
    assert_eq!(store.space_left(), SpaceLeft::ControlOnly);
    assert!(ticks > 20, "only {ticks} ticks in the reserve");
    assert_eq!(store.run("before").expect("read").expect("a run").ticks, ticks, "all that was acknowledged");
    assert!(matches!(store.inbox_put(&message("two", 200)).expect("put"), InboxVerdict::Accepted { .. }));
    assert_eq!(store.inbox_put(&message("three", 100_000)).expect_err("too large").kind, StoreErrorKind::Full);
    let change = RecordChange::put("kind", "key", vec![1], Timestamp(1));
    assert_eq!(store.change_records(vec![change.clone()]).expect_err("refused").kind, StoreErrorKind::Full);
    assert!(store.change_records(vec![RecordChange::remove("kind", "key", Timestamp(1))]).expect("removals work"));
    for run in &open_runs {
        assert_eq!(verdict(&store, cancelled(run, 0)), BatchVerdict::Committed, "{run}");
    }
    // Another process agrees, and can ask for a cancellation.
    let other = open(&directory, None);
    assert_eq!(other.space_left(), SpaceLeft::ControlOnly);
    assert!(other.open_owner().is_ok());
    assert_eq!(verdict(&other, creation("another")), BatchVerdict::NoSpace);

    disk.free();
    wait_for_space(&store);
    assert_eq!(verdict(&store, creation("another")), BatchVerdict::Committed);
    assert!(store.change_records(vec![change]).expect("changed"));
    store.put_plan(&plan).expect("stored");
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
    wait_for_space(&other);
    drop((store, other));
    assert_eq!(open(&directory, None).verify().expect("verify"), Vec::<String>::new());

    // Full again: the reserve is there again.
    let store = open(&directory, Some(RESERVED_BYTES));
    disk.fill();
    start_again_until_refused(&store);
    assert_eq!(verdict(&store, RunBatch { owner_epoch: 2, ..cancelled("before", ticks) }), BatchVerdict::Committed);
}

fn start_again_until_refused(store: &SqliteStore) {
    let start = |number: u64| {
        let record = tick("r", 0, vec![1; 50_000]).record;
        verdict(store, RunBatch { record, ..creation(&format!("again-{number}")) })
    };
    assert!((0..10_000).any(|number| start(number) == BatchVerdict::NoSpace), "the disk is full again");
}

#[test]
fn reserved_space_keeps_runs_controllable_on_a_full_disk() {
    on_small_disk("reserved_space_keeps_runs_controllable_on_a_full_disk", DISK_BYTES, reserved_space);
}

/// A disk that is full before the reserve exists, and one on which the reserve does not fit.
#[test]
fn a_store_without_a_reserve_fails_without_a_trace() {
    on_small_disk("a_store_without_a_reserve_fails_without_a_trace", 6 << 20, |disk| {
        let store = open(disk.directory(), Some(1 << 30));
        assert_ne!(store.space_left(), SpaceLeft::Enough, "the reserve does not fit");
        drop(store);
        std::fs::remove_file(disk.directory().join("space.runs")).expect("removed");
        let store = open(disk.directory(), None);
        assert_eq!(verdict(&store, creation("r")), BatchVerdict::Committed);
        disk.fill();
        let mut ticks = 0;
        let error = loop {
            match store.append(vec![tick("r", ticks, vec![1; 50_000])]) {
                Ok(_) => ticks += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind, StoreErrorKind::Full);
        assert_eq!(store.run("r").expect("read").expect("a run").ticks, ticks);
        disk.free();
        assert_eq!(verdict(&store, tick("r", ticks, vec![1; 50_000])), BatchVerdict::Committed);
    });
}
