//! The memory store models the faults of a disk.

use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{BatchVerdict, Fault, MemoryStore, StoreErrorKind, StoreOwners, StoreRead, StoreScan, StoreWrite};

fn ticks_of(store: &MemoryStore, run: &str) -> u64 {
    store.run(run).expect("readable").map_or(0, |run| run.ticks)
}

#[test]
fn a_full_disk_refuses_the_write_and_keeps_the_store_usable() {
    for fault in [Fault::Full, Fault::Busy] {
        let store = MemoryStore::new();
        store.append(vec![creation("r")]).expect("append");
        store.fail_next(fault);
        let error = store.append(vec![tick("r", 0, vec![1])]).expect_err("the fault");
        assert!(matches!(error.kind, StoreErrorKind::Full | StoreErrorKind::Busy));
        assert_eq!(ticks_of(&store, "r"), 0, "nothing was written");
        assert_eq!(store.syncs(), 1);
        let retried = store.append(vec![tick("r", 0, vec![1])]).expect("space was freed");
        assert_eq!(retried, [BatchVerdict::Committed]);
        assert_eq!(ticks_of(&store.crash(), "r"), 1);
    }
}

#[test]
fn a_failed_write_or_sync_stops_the_store_for_good() {
    for fault in [Fault::WriteFailed, Fault::SyncFailed] {
        let store = MemoryStore::new();
        store.append(vec![creation("r"), tick("r", 0, vec![1])]).expect("append");
        store.fail_next(fault);
        let first = store.append(vec![tick("r", 1, vec![2])]).expect_err("the fault");
        assert_eq!(first.kind, StoreErrorKind::Io);
        let later = [
            store.append(vec![tick("r", 1, vec![2])]).err(),
            store.run("r").err(),
            store.runs(&Default::default(), None, 9).err(),
            store.change_mark().err(),
            store.open_owner().err(),
        ];
        for error in later.map(|error| error.expect("everything is refused")) {
            assert_eq!(error.kind, StoreErrorKind::Stopped);
            assert!(error.message.contains(&first.message), "it names the first error: {error}");
        }
        assert_eq!(ticks_of(&store.crash(), "r"), 1, "acknowledged writes are present");
    }
}

/// Crashes in both ways at every write of a small workload: no acknowledged write is missing, and at most the one
/// write that was not acknowledged is present in addition.
#[test]
fn a_crash_at_every_write_keeps_what_was_acknowledged() {
    const WRITES: u64 = 12;
    let crash_before: fn(&MemoryStore, u64) = MemoryStore::crash_before_sync;
    let crash_after: fn(&MemoryStore, u64) = MemoryStore::crash_after_sync;
    for (plan, surplus) in [(crash_before, 0), (crash_after, 1)] {
        for write in 1..=WRITES {
            let store = MemoryStore::new();
            store.append(vec![creation("r")]).expect("append");
            plan(&store, write);
            let mut acknowledged = 0;
            while store.append(vec![tick("r", acknowledged, vec![7])]).is_ok() {
                acknowledged += 1;
            }
            assert_eq!(acknowledged, write - 1, "the {write}th write fails");
            assert_eq!(store.run("r").expect_err("stopped").kind, StoreErrorKind::Stopped);
            let next = store.crash();
            assert_eq!(ticks_of(&next, "r"), acknowledged + surplus);
            assert_eq!(next.verify().expect("verify"), Vec::<String>::new());
            assert_eq!(
                next.append(vec![tick("r", acknowledged + surplus, vec![8])]).expect("append"),
                [BatchVerdict::Committed]
            );
        }
    }
}
