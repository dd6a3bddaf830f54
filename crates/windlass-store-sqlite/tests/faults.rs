//! Behaviour of the embedded store when the disk, the file or another process misbehaves.

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{Scratch, open};
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    BatchVerdict, ClaimResult, NewSnapshot, RunBatch, StoreErrorKind, StoreOwners, StoreRead, StoreScan, StoreWrite,
};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_value::{BlobHash, Timestamp};

fn open_error(directory: &Path) -> windlass_store::StoreError {
    match SqliteStore::open(directory, SqliteOptions::default()) {
        Ok(_) => panic!("this must not open"),
        Err(error) => error,
    }
}

#[test]
fn commits_are_synced_and_the_file_is_plain_sqlite() {
    let scratch = Scratch::new();
    let store = open(&scratch.join("deep/er/store"));
    let settings = store.settings().expect("settings");
    assert_eq!((&*settings.journal_mode, settings.synchronous), ("wal", 2), "a commit is synced before it returns");
    store.append(vec![creation("r"), tick("r", 0, b"hello".to_vec())]).expect("append");
    let tool = rusqlite::Connection::open(store.file()).expect("any tool opens it");
    let row = tool.query_row("SELECT id, body FROM runs JOIN journal ON run = number", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    assert_eq!(row.expect("ordinary SQL"), ("r".to_owned(), b"hello".to_vec()));
    assert_eq!(fs::read_dir(scratch.path()).expect("readable").count(), 1, "nothing is left lying around");
}

#[test]
fn a_full_disk_loses_nothing_and_space_that_is_freed_is_used() {
    const BODY: usize = 20_000;
    let scratch = Scratch::new();
    let options = SqliteOptions { max_pages: Some(200), ..SqliteOptions::default() };
    let store = SqliteStore::open(scratch.path(), options).expect("the store opens");
    let snapshot = |tick| NewSnapshot { tick, event: tick, state_hash: [0; 32], body: b"small".to_vec() };
    store.append(vec![creation("r"), creation("other")]).expect("append");
    let mut ticks = 0;
    let error = loop {
        let batch = RunBatch { snapshot: Some(snapshot(ticks + 1)), ..tick("r", ticks, vec![ticks as u8; BODY]) };
        match store.append(vec![batch]) {
            Ok(verdicts) => assert_eq!(verdicts, [BatchVerdict::Committed]),
            Err(error) => break error,
        }
        ticks += 1;
    };
    assert_eq!(error.kind, StoreErrorKind::Full);
    assert!(error.hint.is_some() && error.file.is_some(), "it says where, and what to do: {error:?}");
    assert!((20..40).contains(&ticks), "{ticks} bodies of 5 pages fit into 200 pages");
    assert_eq!(store.run("r").expect("read").expect("a run").ticks, ticks, "all that was acknowledged, and no more");
    assert_eq!(store.journal("r", 0, 999).expect("read").len() as u64, ticks);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());

    let small = store.append(vec![tick("other", 0, b"small".to_vec())]).expect("what needs no new page still goes");
    assert_eq!(small, [BatchVerdict::Committed]);
    let trim = RunBatch { record: None, trim_before: Some(ticks), ..tick("r", ticks, Vec::new()) };
    assert_eq!(store.append(vec![trim]).expect("append"), [BatchVerdict::Committed]);
    let retried = store.append(vec![tick("r", ticks, vec![7; BODY])]).expect("the same store, the same batch");
    assert_eq!(retried, [BatchVerdict::Committed]);
    assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
}

#[test]
fn a_flipped_bit_in_the_file_is_found_and_named() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    let body = b"the needle in the haystack".repeat(20);
    store.append(vec![creation("r"), tick("r", 0, vec![1; 300]), tick("r", 1, body)]).expect("append");
    let blobs = vec![(BlobHash([5; 32]), b"another needle".to_vec())];
    store.append(vec![RunBatch { blobs, ..creation("with-blob") }]).expect("append");
    let file = store.file().to_owned();
    drop(store);

    flip_after(&file, b"haystackthe ne");
    flip_after(&file, b"another ne");
    let store = open(scratch.path());
    let error = store.journal("r", 0, 9).expect_err("row 2 is damaged");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    assert!(error.message.contains("journal") && error.message.contains("row 2"), "it names the row: {error}");
    assert_eq!(error.file.as_deref(), Some(&*file), "and the file");
    assert_eq!(store.journal("r", 0, 1).expect("row 1 is well").len(), 1);
    let error = store.blob(&BlobHash([5; 32])).expect_err("the blob is damaged");
    assert!(error.message.contains("blobs"), "{error}");
    let findings = store.verify().expect("verify");
    assert_eq!(findings.len(), 2, "{findings:?}");
    store.append(vec![tick("r", 2, vec![3])]).expect("damage in one row does not stop the store");
}

fn flip_after(file: &Path, marker: &[u8]) {
    let mut bytes = fs::read(file).expect("readable");
    let found = bytes.windows(marker.len()).position(|window| window == marker).expect("the marker is in the file");
    bytes[found + marker.len()] ^= 0x10;
    fs::write(file, bytes).expect("writable");
}

#[test]
fn a_truncated_file_is_refused() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    store.append(vec![creation("r")]).expect("append");
    for tick_number in 0..40 {
        store.append(vec![tick("r", tick_number, vec![2; 3_000])]).expect("append");
    }
    let file = store.file().to_owned();
    drop(store);
    let length = fs::metadata(&file).expect("a file").len();
    let opened = fs::OpenOptions::new().write(true).open(&file).expect("a file");
    opened.set_len(length / 2).expect("cut");
    let error = open_error(scratch.path());
    assert_eq!(error.kind, StoreErrorKind::Damaged, "{error}");
    assert!(error.message.contains("windlass.db") && error.hint.is_some(), "{error:?}");
}

#[test]
fn a_foreign_file_is_refused_and_left_unchanged() {
    let text = b"Dear diary, today I did not become a database. ".repeat(50);
    type Make<'m> = &'m dyn Fn(&Path);
    let cases: [(&str, Make<'_>, StoreErrorKind); 5] = [
        ("a text", &|file| fs::write(file, &text).expect("written"), StoreErrorKind::Damaged),
        ("nothing at all", &|file| fs::write(file, b"").expect("written"), StoreErrorKind::Version),
        ("a database of another program", &|file| make_foreign(file, 0, 0), StoreErrorKind::Version),
        ("a store of the past", &|file| make_foreign(file, 0x5769_6E64, 1), StoreErrorKind::Version),
        ("a store of the future", &|file| make_foreign(file, 0x5769_6E64, 999), StoreErrorKind::NeedsNewer),
    ];
    for (name, make, kind) in cases {
        let scratch = Scratch::new();
        let file = scratch.join("windlass.db");
        make(&file);
        let before = fs::read(&file).expect("readable");
        let error = open_error(scratch.path());
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.hint.is_some() && error.file.is_some(), "{name}: {error:?}");
        assert_eq!(fs::read(&file).expect("readable"), before, "{name} is left as it was");
    }
}

fn make_foreign(file: &Path, application: i64, version: i64) {
    let connection = rusqlite::Connection::open(file).expect("a database");
    connection.execute_batch("CREATE TABLE recipes (name TEXT)").expect("a table");
    connection.pragma_update(None, "application_id", application).expect("an id");
    connection.pragma_update(None, "user_version", version).expect("a version");
}

#[test]
fn an_interrupted_creation_is_started_over() {
    let scratch = Scratch::new();
    drop(open(scratch.path()));
    // The power has failed between the head record and the database.
    fs::remove_file(scratch.join("windlass.db")).expect("removed");
    fs::write(scratch.join("windlass.db.new"), b"half of a").expect("written");
    let store = open(scratch.path());
    store.append(vec![creation("r")]).expect("append");
    assert!(!scratch.join("windlass.db.new").exists());
}

#[test]
fn a_hanging_process_is_reported_and_does_not_damage_the_store() {
    let scratch = Scratch::new();
    let options = SqliteOptions { lock_timeout: Duration::from_millis(30), ..SqliteOptions::default() };
    let store = SqliteStore::open(scratch.path(), options).expect("the store opens");
    store.append(vec![creation("r")]).expect("append");
    for name in ["queue.lock", "writer.lock"] {
        let hanging = fs::File::open(scratch.join(name)).expect("a lock file");
        hanging.lock().expect("locked");
        let error = store.append(vec![tick("r", 0, vec![1])]).expect_err("the write lock is held");
        assert_eq!(error.kind, StoreErrorKind::Busy, "{error}");
        assert!(error.message.contains(name) && error.hint.is_some(), "{error:?}");
        assert_eq!(store.run("r").expect("reading continues").expect("a run").ticks, 0);
    }
    let shell = rusqlite::Connection::open(store.file()).expect("a database shell");
    shell.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
    assert_eq!(store.append(vec![tick("r", 0, vec![1])]).expect_err("locked").kind, StoreErrorKind::Busy);
    drop(shell);
    assert_eq!(store.append(vec![tick("r", 0, vec![1])]).expect("append"), [BatchVerdict::Committed]);
}

#[test]
fn two_stores_on_one_directory_see_each_other() {
    let scratch = Scratch::new();
    let (one, two) = (open(scratch.path()), open(scratch.path()));
    one.append(vec![creation("r")]).expect("append");
    let mark = two.change_mark().expect("a mark");
    let owner = one.open_owner().expect("an owner");
    assert_eq!(one.claim("r", &owner.name).expect("claim"), ClaimResult::Owned { owner_epoch: 2 });
    assert_ne!(two.change_mark().expect("a mark"), mark);
    assert!(two.owner_alive(&owner.name).expect("alive"));
    assert_eq!(two.claim("r", "me").expect("claim"), ClaimResult::HeldBy(owner.name.clone()));
    let fenced = two.append(vec![tick("r", 0, vec![1])]).expect("append");
    assert_eq!(fenced, [BatchVerdict::Fenced], "what counts is in the tables, not in the process");
    drop(open(scratch.path()));
    assert!(two.owner_alive(&owner.name).expect("alive"), "opening a store buries only the dead");
}

/// The heartbeat of a dead process is needed until another one has taken over its runs.
#[test]
fn heartbeats_of_dead_owners_stay_as_long_as_an_open_run_needs_them() {
    let scratch = Scratch::new();
    let owners = scratch.join("owners");
    let files = || fs::read_dir(&owners).expect("readable").count();
    let (dead, beat) = {
        let store = open(scratch.path());
        let owner = store.open_owner().expect("an owner");
        store.append(vec![creation("r")]).expect("append");
        assert_eq!(store.claim("r", &owner.name).expect("claim"), ClaimResult::Owned { owner_epoch: 2 });
        store.append(vec![RunBatch { owner_epoch: 2, ..tick("r", 0, vec![1]) }]).expect("append");
        owner.beat(Timestamp(7)).expect("written");
        let name = owner.name.clone();
        drop(owner);
        let beat = store.last_heartbeat(&name).expect("read");
        (name, beat)
    };
    assert!(beat > Some(Timestamp(7)), "an owner that ends writes its last heartbeat");
    let store = open(scratch.path());
    assert_eq!((files(), store.last_heartbeat(&dead).expect("read")), (1, beat));
    assert!(!store.owner_alive(&dead).expect("alive"));
    store.claim("r", "me").expect("claim");
    assert_eq!(open(scratch.path()).last_heartbeat(&dead).expect("read"), beat, "it is the previous owner");
    store.append(vec![RunBatch { owner_epoch: 3, ..tick("r", 1, vec![1]) }]).expect("append");
    store.claim("r", "you").expect("claim");
    assert_eq!(open(scratch.path()).last_heartbeat(&dead).expect("read"), None, "no run needs it any more");
    assert_eq!(files(), 0);
}

#[test]
fn files_of_dead_owners_are_removed_when_a_store_is_opened() {
    let scratch = Scratch::new();
    drop(open(scratch.path()));
    let owners = scratch.join("owners");
    fs::create_dir_all(&owners).expect("a directory");
    fs::write(owners.join("dead-1-0.lock"), b"").expect("written");
    let store = open(scratch.path());
    assert_eq!(fs::read_dir(&owners).expect("readable").count(), 0);
    assert!(!store.owner_alive("dead-1-0").expect("alive"));
}
