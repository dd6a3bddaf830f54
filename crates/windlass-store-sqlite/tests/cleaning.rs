//! Removing runs from a real file: concurrently with a writer, and killed in the middle.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Scratch, open};
use windlass_store::conformance::batches::{creation, tick};
use windlass_store::{
    BatchVerdict, RunBatch, RunFilter, RunStatus, StatusChange, StoreClean, StoreRead, StoreScan, StoreWrite,
};
use windlass_store_sqlite::SqliteStore;
use windlass_value::{BlobHash, Timestamp};

const DIRECTORY: &str = "WINDLASS_CLEANING_TEST_DIRECTORY";

/// Old runs ended before this time.
const BEFORE: Timestamp = Timestamp(1_000);

fn blob(number: u64) -> (BlobHash, Vec<u8>) {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&number.to_le_bytes());
    (BlobHash(hash), format!("value {number} ").repeat(8_000).into_bytes())
}

fn append(store: &SqliteStore, batch: RunBatch) {
    assert_eq!(store.append(vec![batch]).expect("append"), [BatchVerdict::Committed]);
}

/// A run with a few rows and these blobs.
fn make(store: &SqliteStore, run: &str, blobs: &[u64]) {
    append(store, creation(run));
    append(
        store,
        RunBatch { blobs: blobs.iter().map(|number| blob(*number)).collect(), ..tick(run, 0, vec![1; 9_000]) },
    );
    append(store, tick(run, 1, vec![2; 9_000]));
}

fn end(store: &SqliteStore, run: &str) {
    let status = StatusChange { status: RunStatus::Succeeded, at: Timestamp(1), result: None };
    append(store, RunBatch { record: None, status: Some(status), ..tick(run, 2, Vec::new()) });
}

/// Does everything that `windlass clean` does, one step at a time.
fn clean(store: &SqliteStore, mut stepped: impl FnMut()) {
    loop {
        while store.sweep().expect("swept").more {
            stepped();
        }
        let Some(next) = store.removable(BEFORE, 0, 1).expect("read").pop() else { break };
        stepped();
        while store.remove(&next.run, BEFORE).expect("removed").more {}
        stepped();
    }
}

fn blobs_in(store: &SqliteStore) -> u64 {
    let connection = rusqlite::Connection::open(store.file()).expect("any tool can open it");
    connection.query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)).expect("counted")
}

/// Entry point of the other process, not a test. Without a directory there is nothing to do.
#[test]
fn other_process() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = open(Path::new(&directory));
    clean(&store, || {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nstep").and_then(|()| out.flush()).expect("the parent listens");
    });
}

/// Starts another process that cleans, and kills it after `steps` steps. Returns false if it finished before.
fn clean_until_killed(directory: &Path, steps: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "other_process", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, directory).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().expect("the other process starts");
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let completed = lines.map_while(Result::ok).filter(|line| line == "step").take(steps).count();
    process.kill().expect("killed");
    process.wait().expect("waited for");
    completed == steps
}

#[test]
fn kill_9_in_the_middle_of_cleaning_loses_nothing_that_is_needed() {
    let scratch = Scratch::new();
    let store = open(scratch.path());
    // Every third blob of an old run also belongs to a run that stays.
    for number in 0..40u64 {
        let (old, kept) = (format!("old-{number}"), format!("kept-{number}"));
        make(&store, &old, &[3 * number, 3 * number + 1, 3 * number + 2]);
        make(&store, &kept, &[3 * number, 1_000 + number]);
        end(&store, &old);
    }
    let mut kills = 0;
    for life in 0.. {
        let directory = scratch.path().to_owned();
        let cleaning = std::thread::spawn(move || clean_until_killed(&directory, 2 + life % 7));
        // Meanwhile another writer creates a run, with one blob that an old run has written too.
        let run = format!("busy-{life}");
        make(&store, &run, &[life as u64 * 2 % 120, 2_000 + life as u64]);
        let killed = cleaning.join().expect("it ends");
        assert_eq!(store.verify().expect("verify"), Vec::<String>::new());
        if !killed {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 10, "only {kills} kills");
    clean(&store, || {});
    let rows = store.runs(&RunFilter::default(), None, u32::MAX).expect("read");
    assert!(rows.iter().all(|row| !row.run.starts_with("old-")), "everything removable is removed");
    let mut needed = std::collections::BTreeSet::new();
    needed.extend((0..40u64).flat_map(|number| [3 * number, 1_000 + number]));
    needed.extend((0..=kills as u64).flat_map(|life| [life * 2 % 120, 2_000 + life]));
    for number in &needed {
        let (hash, body) = blob(*number);
        assert_eq!(store.blob(&hash).expect("read"), Some(body), "blob {number}");
    }
    assert_eq!(blobs_in(&store), needed.len() as u64, "and nothing else");
    let kept = rows.iter().filter(|row| row.run.starts_with("kept-")).collect::<Vec<_>>();
    assert_eq!(kept.len(), 40);
    assert!(kept.iter().all(|row| store.journal(&row.run, 0, 9).expect("read").len() == 2), "their journals are whole");
}
