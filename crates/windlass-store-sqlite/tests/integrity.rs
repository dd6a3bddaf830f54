//! A store whose files have lost something that was acknowledged is refused before anything is discarded, and a repair
//! saves what is left.

mod common;

use std::fs;
use std::path::Path;

use common::crashed::CrashedStore;
use common::{Scratch, copy_as_is, open};
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{StoreClean, StoreError, StoreErrorKind, StoreOwners, StoreRead, StoreScan, StoreWrite};
use windlass_store_sqlite::{RepairReport, SqliteOptions, SqliteStore, repair};
use windlass_value::Timestamp;

const LOG: &str = "windlass.db-wal";
const HEAD: &str = "windlass.head";
const FILE: &str = "windlass.db";

/// The length of a frame of the log.
const FRAME: usize = 24 + 4096;

fn refusal(directory: &Path) -> StoreError {
    match SqliteStore::open(directory, SqliteOptions::default()) {
        Ok(_) => panic!("this must not open"),
        Err(error) => error,
    }
}

fn append(store: &SqliteStore, ticks: std::ops::Range<u64>) {
    for number in ticks {
        store.append(vec![tick("r", number, format!("tick {number} ").repeat(30).into_bytes())]).expect("append");
    }
}

/// A run of 60 ticks, of which the last ones are only in the log.
fn crashed() -> CrashedStore {
    CrashedStore::new(|store| {
        store.append(vec![creation("r")]).expect("append");
        append(store, 0..60);
    })
}

fn ticks(directory: &Path) -> u64 {
    let store = open(directory);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
    let scrubbed = store.scrub(100).expect("a search");
    assert!(scrubbed.findings.is_empty() && scrubbed.is_complete && scrubbed.rows > 0, "{scrubbed:?}");
    let held = store.run("r").expect("read").map_or(0, |run| run.ticks);
    assert_eq!(store.journal("r", 0, 99).expect("read").len() as u64, held);
    held
}

#[test]
fn a_crash_alone_loses_nothing_and_is_not_refused() {
    let store = crashed();
    store.restore();
    assert_eq!(ticks(store.path()), 60);
    assert!(!store.path().join(LOG).exists(), "a clean stop copies the log into the database and removes it");
    assert_eq!(ticks(store.path()), 60);
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_and_corrected_by_a_repair() {
    let store = crashed();
    let log = Path::new(LOG);
    let frames = (store.files[log].len() - 32) / FRAME;
    assert!(frames > 100, "{frames} frames");
    for at in [8, 18, 32 + 3, 32 + 17, 32 + 24 + 700, 32 + frames / 2 * FRAME + 9, store.files[log].len() - 1_000] {
        store.restore();
        store.flip(log, at, 0x20);
        let damaged = fs::read(store.path().join(LOG)).expect("readable");
        let error = refusal(store.path());
        assert_eq!(error.kind, StoreErrorKind::Incomplete, "byte {at}: {error}");
        assert!(error.message.contains("missing") && error.message.contains("damaged"), "byte {at}: {error}");
        assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("windlass repair --dry-run")), "{error:?}");
        assert_eq!(fs::read(store.path().join(LOG)).expect("readable"), damaged, "nothing was discarded");

        let planned = repair(store.path(), true).expect("a report");
        assert_eq!(fs::read(store.path().join(LOG)).expect("readable"), damaged, "a dry run changes nothing");
        assert_eq!(refusal(store.path()).message, error.message);
        let done = repair(store.path(), false).expect("a repair");
        assert_eq!(RepairReport { copy: None, ..done.clone() }, planned, "it does what it has said");
        assert!(done.lost.is_empty() && done.actions[0].contains(&format!("at byte {at}")), "{done:?}");
        let kept = done.copy.expect("a copy of the damaged files");
        assert_eq!(fs::read(kept.join(LOG)).expect("readable"), damaged);
        fs::remove_dir_all(&kept).expect("removed");
        assert_eq!(ticks(store.path()), 60, "byte {at}");
    }
}

#[test]
fn what_a_repair_cannot_correct_it_names_as_lost() {
    let store = crashed();
    store.restore();
    let log = Path::new(LOG);
    let frames = (store.files[log].len() - 32) / FRAME;
    let at = 32 + frames / 2 * FRAME + 24 + 90;
    let mut bytes = store.files[log].clone();
    bytes[at..at + 16].fill(0xaa);
    fs::write(store.path().join(LOG), bytes).expect("written");
    assert_eq!(refusal(store.path()).kind, StoreErrorKind::Incomplete);
    let done = repair(store.path(), false).expect("a repair");
    assert!(done.lost.iter().any(|lost| lost.contains("to 61")), "60 ticks and the creation: {done:?}");
    assert!(done.saved.iter().any(|saved| saved.contains("1 runs")), "{done:?}");
    let left = ticks(store.path());
    assert!((20..45).contains(&left), "{left} ticks are before the damage");
    let reopened = open(store.path());
    append(&reopened, left..left + 5);
    drop(reopened);
    assert_eq!(ticks(store.path()), left + 5, "the repaired store goes on");
    assert_eq!(repair(store.path(), true).expect("a report"), RepairReport::default(), "nothing is left to repair");
}

#[test]
fn removed_and_exchanged_files_are_refused() {
    let (store, other) = (crashed(), crashed());
    let exchange = |name: &str| fs::write(store.path().join(name), &other.files[Path::new(name)]).expect("written");
    let remove = |name: &str| fs::remove_file(store.path().join(name)).expect("removed");
    type Damage<'d> = &'d dyn Fn();
    let cases: [(&str, Damage<'_>, &str); 8] = [
        ("the log is removed", &|| remove(LOG), "is missing or empty"),
        (
            "the log is cut",
            &|| fs::write(store.path().join(LOG), &store.files[Path::new(LOG)][..99_999]).expect("cut"),
            "ends too early",
        ),
        ("the database is removed", &|| remove(FILE), "The database"),
        ("the head record is removed", &|| remove(HEAD), "no head record"),
        (
            "the head record is damaged",
            &|| fs::write(store.path().join(HEAD), [7; 1024]).expect("written"),
            "is damaged",
        ),
        ("the log is of another store", &|| exchange(LOG), "different stores"),
        ("the database is of another store", &|| exchange(FILE), "different stores"),
        ("the head record is of another store", &|| exchange(HEAD), "different stores"),
    ];
    for (name, damage, expected) in cases {
        store.restore();
        damage();
        let error = refusal(store.path());
        assert_eq!(error.kind, StoreErrorKind::Incomplete, "{name}: {error}");
        assert!(error.message.contains(expected) && error.hint.is_some(), "{name}: {error:?}");
        if name.contains("database") {
            continue;
        }
        let done = repair(store.path(), false).expect("a repair");
        assert_eq!(done.lost.is_empty(), name.contains("head record"), "{name}: {done:?}");
        assert_eq!(ticks(store.path()) == 60, name.contains("head record"), "{name}: {done:?}");
        fs::remove_dir_all(done.copy.expect("a copy")).expect("removed");
    }
    store.restore();
    remove(FILE);
    assert!(repair(store.path(), true).is_err(), "a repair cannot bring a database back");
}

#[test]
fn a_database_that_is_copied_alone_is_refused() {
    let store = crashed();
    store.restore();
    let scratch = Scratch::new();
    fs::copy(store.path().join(FILE), scratch.join(FILE)).expect("copied");
    assert!(refusal(scratch.path()).message.contains("no head record"));
    fs::copy(store.path().join(HEAD), scratch.join(HEAD)).expect("copied");
    assert!(refusal(scratch.path()).message.contains("61 acknowledged commits"), "{}", refusal(scratch.path()));
    fs::copy(store.path().join(LOG), scratch.join(LOG)).expect("copied");
    assert_eq!(ticks(scratch.path()), 60, "all three files are the store");
}

/// A power failure may leave the later part of a commit that was not acknowledged, without the earlier part.
#[test]
fn a_torn_commit_that_was_not_acknowledged_is_not_refused() {
    let store = CrashedStore::with_commits_after_head(
        |store| {
            store.append(vec![creation("r")]).expect("append");
            append(store, 0..20);
        },
        |store| append(store, 20..21),
    );
    let log = Path::new(LOG);
    let end = store.files[log].len();
    for lost in 1..=2 {
        store.restore();
        let mut bytes = store.files[log].clone();
        let from = end - (lost + 1) * FRAME;
        bytes[from..from + FRAME].fill(0);
        fs::write(store.path().join(LOG), bytes).expect("written");
        assert_eq!(ticks(store.path()), 20, "the commit before is the last one");
    }
}

/// A commit that another one follows was on the disk before, whatever the head record says.
#[test]
fn a_commit_that_is_followed_by_another_is_missed_without_the_head_record() {
    let store = CrashedStore::with_commits_after_head(
        |store| {
            store.append(vec![creation("r")]).expect("append");
        },
        |store| append(store, 0..30),
    );
    store.restore();
    store.flip(Path::new(LOG), store.files[Path::new(LOG)].len() / 2, 1);
    let error = refusal(store.path());
    assert!(error.message.contains("missing") && error.message.contains("to 30"), "all but the last: {error}");
}

#[test]
fn a_copy_of_a_store_in_use_is_refused_or_complete() {
    let scratch = Scratch::new();
    let options = SqliteOptions { checkpoint_pages: 40, ..SqliteOptions::default() };
    let store = SqliteStore::open(&scratch.join("live"), options).expect("the store opens");
    store.append(vec![creation("r")]).expect("append");
    let names = [FILE, LOG, HEAD];
    let (mut next, mut refused, mut opened) = (0, 0, 0);
    for round in 0..24 {
        let copy = scratch.join(&format!("copy-{round}"));
        fs::create_dir_all(&copy).expect("a directory");
        let before = next;
        // The files one after the other, in each order, with commits in between.
        for step in 0..3 {
            let name = names[(round / 6 * step + round + step) % 3];
            let other = names[(round + step * 2) % 3];
            for name in [name, other] {
                fs::copy(scratch.join("live").join(name), copy.join(name)).expect("copied");
            }
            append(&store, next..next + 7);
            next += 7;
        }
        match SqliteStore::open(&copy, SqliteOptions::default()) {
            Err(error) => {
                assert_eq!(error.kind, StoreErrorKind::Incomplete, "{error}");
                refused += 1;
            }
            Ok(copied) => {
                assert_eq!(copied.verify().expect("verify"), Vec::<String>::new());
                let held = copied.run("r").expect("read").expect("a run").ticks;
                assert!(held >= before, "{before} were acknowledged before the copy, it has {held}");
                assert_eq!(copied.journal("r", 0, 9_999).expect("read").len() as u64, held);
                opened += 1;
            }
        }
    }
    assert!(refused > 0 && opened > 0, "{refused} refused, {opened} opened: both are tried");
}

#[test]
fn a_store_that_is_removed_or_replaced_while_it_is_open_accepts_nothing() {
    for replaced in [false, true] {
        let scratch = Scratch::new();
        let place = scratch.join("store");
        let store = open(&place);
        store.append(vec![creation("r")]).expect("append");
        fs::rename(&place, scratch.join("away")).expect("moved");
        if replaced {
            drop(open(&place));
        }
        let error = store.append(vec![tick("r", 0, vec![1])]).expect_err("nothing is acknowledged");
        assert_eq!(error.kind, StoreErrorKind::Gone, "{error}");
        assert_eq!(store.check().expect_err("it is noticed without a commit, too").kind, StoreErrorKind::Gone);
        assert!(error.message.contains(if replaced { "replaced" } else { "removed" }), "{error}");
        assert_eq!(store.run("r").expect_err("stopped").kind, StoreErrorKind::Stopped);
    }
}

/// SQL evaluates conditions on columns that it does not verify.
#[test]
fn a_run_whose_status_is_damaged_is_named_and_never_removed() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    store.append(vec![creation("well"), creation("r"), tick("r", 0, vec![1])]).expect("append");
    let shell = rusqlite::Connection::open(store.file()).expect("any tool opens it");
    shell.execute("UPDATE runs SET status = 'succeeded' WHERE id = 'r'", []).expect("changed");
    let error = store.run("r").expect_err("damaged");
    let row = error.damaged_row.expect("it says which row");
    assert_eq!((row.table, row.key.as_deref()), ("runs", Some("r")));
    assert_eq!(store.append(vec![tick("r", 1, vec![1])]).expect_err("damaged").kind, StoreErrorKind::Damaged);
    assert_eq!(store.remove("r", Timestamp(i64::MAX)).expect("an answer").runs, 0);
    assert_eq!(store.verify().expect("verify").len(), 1);
    assert_eq!(store.scrub(100).expect("a search").findings, store.verify().expect("verify"));
    assert!(store.run("well").is_ok_and(|run| run.is_some()), "the other one is well");
}

#[test]
fn several_users_share_a_store_and_the_last_one_closes_it() {
    let scratch = Scratch::new();
    let (one, two) = (open(scratch.path()), open(scratch.path()));
    one.append(vec![creation("r")]).expect("append");
    append(&one, 0..5);
    one.close();
    assert!(scratch.join(LOG).exists(), "the other one uses it");
    append(&two, 5..9);
    let crashed = scratch.join("crashed");
    copy_as_is(scratch.path(), &crashed);
    two.close();
    assert!(!scratch.join(LOG).exists());
    assert_eq!((ticks(scratch.path()), ticks(&crashed)), (9, 9));
    assert_eq!(two.append(vec![creation("late")]).expect_err("closed").kind, StoreErrorKind::Stopped);
}
