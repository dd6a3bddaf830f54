//! Backups of a store that is being written, and their way back.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Scratch, open};
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    BatchVerdict, ClaimResult, RunBatch, RunStatus, StatusChange, StoreErrorKind, StoreOwners, StoreRead, StoreScan,
    StoreWrite,
};
use windlass_store_sqlite::{BackupOptions, BackupReport, RestoreOptions, SqliteStore, restore};
use windlass_value::Timestamp;

fn append(store: &SqliteStore, batch: RunBatch) {
    assert_eq!(store.append(vec![batch]).expect("append"), [BatchVerdict::Committed]);
}

fn backup(store: &SqliteStore, directory: &Path) -> BackupReport {
    let report = store.backup(directory, &BackupOptions::default()).expect("a backup");
    assert_eq!(report.findings, Vec::<String>::new());
    report
}

fn ticks(store: &SqliteStore, run: &str) -> u64 {
    store.run(run).expect("read").map_or(0, |row| row.ticks)
}

fn packs(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("readable").map(|entry| entry.expect("readable").path());
    let mut packs: Vec<_> = entries.filter(|path| path.extension().is_some_and(|suffix| suffix == "pack")).collect();
    packs.sort();
    packs
}

/// Every acknowledged write before the backup is in it, and no run is cut in the middle of a transaction.
#[test]
fn a_backup_beside_a_writer_is_consistent() {
    let scratch = Scratch::new();
    let (source, saved) = (scratch.join("source"), scratch.join("saved"));
    let store = open(&source);
    append(&store, creation("one"));
    append(&store, creation("two"));
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = open(&source);
            for number in 0.. {
                // Two runs in one transaction: a backup has both ticks or none.
                let both = ["one", "two"].map(|run| tick(run, number, vec![number as u8; 2_000])).to_vec();
                assert_eq!(writer.append(both).expect("append"), [BatchVerdict::Committed; 2]);
                written.store(number + 1, Ordering::SeqCst);
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        // A failed assertion must end the writer as well.
        let _end = EndOnDrop(&done);
        while written.load(Ordering::SeqCst) < 50 {
            std::thread::yield_now();
        }
        for round in 0..5 {
            let before = written.load(Ordering::SeqCst);
            let report = backup(&store, &saved);
            let after = written.load(Ordering::SeqCst) + 1;
            let target = scratch.join(&format!("target-{round}"));
            let restored = restore(&saved, &target, &RestoreOptions::default()).expect("restored");
            assert_eq!((restored.name, restored.at, restored.open_runs), (report.name, report.at, 2));
            let copy = open(&target);
            let (one, two) = (ticks(&copy, "one"), ticks(&copy, "two"));
            assert!(one == two && (before..=after).contains(&one), "{before} <= {one} = {two} <= {after}");
            assert_eq!(copy.verify().expect("verify"), Vec::<String>::new());
            assert_eq!(copy.journal("one", 0, u32::MAX).expect("read").len() as u64, one);
        }
    });
}

struct EndOnDrop<'d>(&'d AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_further_backup_adds_what_has_changed_and_each_can_be_restored() {
    let scratch = Scratch::new();
    let saved = scratch.join("saved");
    let store = open(&scratch.join("source"));
    append(&store, creation("r"));
    for number in 0..400 {
        append(&store, tick("r", number, format!("tick {number} ").repeat(1_000).into_bytes()));
    }
    let first = backup(&store, &saved);
    assert!(first.bytes > 3_000_000 && first.added_bytes > first.bytes * 9 / 10, "{first:?}");
    append(&store, tick("r", 400, b"one more".to_vec()));
    let second = backup(&store, &saved);
    assert!(second.added_bytes < first.added_bytes / 10, "{second:?}");
    assert!(second.name > first.name && second.backups == 2, "{second:?}");
    let unchanged = backup(&store, &saved);
    assert_eq!((unchanged.added_bytes, unchanged.backups), (0, 3));
    for (at, expected) in [(Some(first.name), 400), (Some(second.name), 401), (None, 401)] {
        let target = scratch.join(&format!("at-{expected}-{}", at.is_some()));
        restore(&saved, &target, &RestoreOptions { at, ..RestoreOptions::default() }).expect("restored");
        let copy = open(&target);
        assert_eq!(ticks(&copy, "r"), expected);
        assert_eq!(copy.verify().expect("verify"), Vec::<String>::new());
        let rows = copy.journal("r", 0, u32::MAX).expect("read");
        assert_eq!(rows[399].body, "tick 399 ".repeat(1_000).into_bytes(), "byte for byte");
    }

    let kept = store.backup(&saved, &BackupOptions { keep: Some(2), ..BackupOptions::default() }).expect("a backup");
    assert_eq!(kept.backups, 2);
    let error = restore(
        &saved,
        &scratch.join("gone"),
        &RestoreOptions { at: Some("20000101T000000Z".to_owned()), ..RestoreOptions::default() },
    );
    assert_eq!(error.expect_err("unknown").kind, StoreErrorKind::Version);
    restore(&saved, &scratch.join("kept"), &RestoreOptions::default()).expect("old packs that are needed stay");
    assert_eq!(ticks(&open(&scratch.join("kept")), "r"), 401);
}

#[test]
fn a_damaged_backup_is_refused_and_the_next_one_is_whole_again() {
    let scratch = Scratch::new();
    let (saved, target) = (scratch.join("saved"), scratch.join("target"));
    let store = open(&scratch.join("source"));
    append(&store, creation("r"));
    for number in 0..100 {
        append(&store, tick("r", number, vec![number as u8; 9_000]));
    }
    backup(&store, &saved);
    let pack = packs(&saved).pop().expect("a pack");
    let mut bytes = fs::read(&pack).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&pack, &bytes).expect("written");
    let error = restore(&saved, &target, &RestoreOptions::default()).expect_err("one bit is wrong");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    assert!(error.message.contains("checksum") && error.hint.is_some(), "{error:?}");
    assert!(!target.exists(), "verified before anything is written");

    let whole = backup(&store, &saved);
    assert_eq!(whole.added_bytes, whole.bytes, "nothing of the damaged backup is reused");
    restore(&saved, &target, &RestoreOptions::default()).expect("restored");
    assert_eq!(ticks(&open(&target), "r"), 100);

    packs(&saved).iter().for_each(|pack| fs::write(pack, b"cut").expect("written"));
    let error = restore(&saved, &scratch.join("cut"), &RestoreOptions::default()).expect_err("cut off");
    assert!(error.message.contains("too short"), "{error}");
    packs(&saved).iter().for_each(|pack| fs::remove_file(pack).expect("removed"));
    let error = restore(&saved, &scratch.join("none"), &RestoreOptions::default()).expect_err("no pack");
    assert!(error.message.contains("missing"), "{error}");
    let manifests = fs::read_dir(&saved).expect("readable").map(|entry| entry.expect("readable").path());
    for manifest in manifests.filter(|path| path.extension().is_some_and(|suffix| suffix == "manifest")) {
        let text = fs::read_to_string(&manifest).expect("readable");
        fs::write(&manifest, text.replacen("windlass.db", "windlass.dc", 1)).expect("written");
    }
    let error = restore(&saved, &scratch.join("none"), &RestoreOptions::default()).expect_err("another manifest");
    assert!(error.message.contains("checksum"), "{error}");
    let empty = restore(&scratch.join("nowhere"), &target, &RestoreOptions::default()).expect_err("no backup");
    assert!(empty.message.contains("There is no backup"), "{empty}");
}

#[test]
fn a_backup_of_a_damaged_store_says_so() {
    let scratch = Scratch::new();
    let saved = scratch.join("saved");
    let store = open(&scratch.join("source"));
    append(&store, creation("r"));
    append(&store, tick("r", 0, b"the body".to_vec()));
    let shell = rusqlite::Connection::open(store.file()).expect("any tool can open it");
    shell.execute("UPDATE journal SET body = x'00'", []).expect("changed");
    drop(shell);
    let report = store.backup(&saved, &BackupOptions::default()).expect("a copy is better than none");
    assert_eq!(report.findings.len(), 1, "{report:?}");
    let target = scratch.join("target");
    let error = restore(&saved, &target, &RestoreOptions::default()).expect_err("refused");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("--allow-damage")), "{error:?}");
    let accepted = RestoreOptions { allow_damage: true, ..RestoreOptions::default() };
    assert_eq!(restore(&saved, &target, &accepted).expect("restored").findings, report.findings);
}

#[test]
fn owners_of_a_restored_store_are_void() {
    let scratch = Scratch::new();
    let (source, saved) = (scratch.join("source"), scratch.join("saved"));
    let store = open(&source);
    let owner = store.open_owner().expect("an owner");
    for run in ["open", "ended"] {
        append(&store, creation(run));
        assert_eq!(store.claim(run, &owner.name).expect("claim"), ClaimResult::Owned { owner_epoch: 2 });
        append(&store, RunBatch { owner_epoch: 2, ..tick(run, 0, vec![1]) });
    }
    let ended = StatusChange { status: RunStatus::Succeeded, at: Timestamp(5), result: None };
    append(&store, RunBatch { owner_epoch: 2, status: Some(ended), ..tick("ended", 1, vec![1]) });
    backup(&store, &saved);
    let replace = RestoreOptions { replace: true, ..RestoreOptions::default() };
    let error = restore(&saved, &source, &RestoreOptions::default()).expect_err("there is a store");
    assert_eq!(error.kind, StoreErrorKind::Occupied);
    let error = restore(&saved, &source, &replace).expect_err("it is in use");
    assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
    append(&store, RunBatch { owner_epoch: 2, ..tick("open", 1, vec![2]) });
    drop((owner, store));

    let report = restore(&saved, &source, &replace).expect("restored");
    assert_eq!(report.open_runs, 1);
    let replaced = report.replaced.expect("the old store is kept");
    let store = open(&source);
    let row = store.run("open").expect("read").expect("a run");
    assert_eq!((row.owner, row.ticks), (None, 1));
    let stale = RunBatch { owner_epoch: 2, ..tick("open", 1, vec![2]) };
    assert_eq!(store.append(vec![stale]).expect("append"), [BatchVerdict::Fenced]);
    assert!(matches!(store.claim("open", "me").expect("claim"), ClaimResult::Owned { owner_epoch } if owner_epoch > 3));
    assert_eq!(store.claim("ended", "me").expect("claim"), ClaimResult::Ended);
    assert_eq!(ticks(&open(&replaced), "open"), 2, "the replaced store works by itself");
}

#[test]
fn an_interrupted_backup_is_none() {
    let scratch = Scratch::new();
    let saved = scratch.join("saved");
    let store = open(&scratch.join("source"));
    append(&store, creation("r"));
    fs::create_dir_all(&saved).expect("a directory");
    fs::write(saved.join("copy.db"), b"half a copy").expect("written");
    fs::write(saved.join("20990101T000000Z.pack"), b"half a pack").expect("written");
    fs::write(saved.join("20990101T000000Z.manifest.new"), b"half a manifest").expect("written");
    let none = restore(&saved, &scratch.join("none"), &RestoreOptions::default()).expect_err("no manifest");
    assert!(none.message.contains("There is no backup"), "{none}");
    assert_eq!(backup(&store, &saved).backups, 1);
    assert!(!saved.join("copy.db").exists());
    restore(&saved, &scratch.join("target"), &RestoreOptions::default()).expect("restored");
}
