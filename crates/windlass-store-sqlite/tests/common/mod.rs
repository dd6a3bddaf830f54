//! Helpers shared by several test files.
#![allow(dead_code, reason = "not every test file needs all of it")]

pub(crate) mod crashed;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_store::Store;
use windlass_store::conformance::ConformanceSubject;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_value::BlobHash;

/// A separate directory on the same disk as the build, removed when the value is dropped.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Scratch { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory, SqliteOptions::default()).expect("the store opens")
}

/// A store that dies by leaving its files as they are: the next life gets a copy of them, without any cleanup.
pub(crate) struct SqliteSubject {
    scratch: Scratch,
    lives: u32,
    store: Arc<SqliteStore>,
}

impl SqliteSubject {
    pub(crate) fn new() -> SqliteSubject {
        let scratch = Scratch::new();
        let store = Arc::new(open(&scratch.join("life-0")));
        SqliteSubject { scratch, lives: 0, store }
    }

    fn directory(&self) -> PathBuf {
        self.scratch.join(&format!("life-{}", self.lives))
    }
}

impl ConformanceSubject for SqliteSubject {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn crash(&mut self) {
        let old = self.directory();
        self.lives += 1;
        copy_as_is(&old, &self.directory());
        self.store = Arc::new(open(&self.directory()));
    }

    fn damage_journal(&mut self, run: &str, tick: u64) {
        let connection = rusqlite::Connection::open(self.store.file()).expect("any tool can open it");
        let changed = connection.execute(
            "UPDATE journal SET body = CAST('?' || substr(body, 2) AS BLOB)
             WHERE run = (SELECT number FROM runs WHERE id = ?1) AND first_tick = ?2",
            rusqlite::params![run, tick],
        );
        assert_eq!(changed.expect("the row can be changed"), 1);
    }

    fn damage_blob(&mut self, hash: &BlobHash) {
        let connection = rusqlite::Connection::open(self.store.file()).expect("any tool can open it");
        let sql = "UPDATE blobs SET body = CAST('?' || substr(body, 2) AS BLOB) WHERE hash = ?1";
        assert_eq!(connection.execute(sql, [hash.0]).expect("the row can be changed"), 1);
    }

    fn damage_record(&mut self, kind: &str, key: &str) {
        let connection = rusqlite::Connection::open(self.store.file()).expect("any tool can open it");
        let sql = "UPDATE records SET body = CAST('?' || substr(body, 2) AS BLOB) WHERE kind = ?1 AND key = ?2";
        assert_eq!(connection.execute(sql, [kind, key]).expect("the row can be changed"), 1);
    }
}

/// Copies a store's files while it is open, as a crash would leave them. The next process rebuilds the shared-memory
/// index.
pub(crate) fn copy_as_is(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("owners")).expect("a directory");
    for entry in std::fs::read_dir(from).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_file() && !name.ends_with("-shm") {
            std::fs::copy(&path, to.join(&name)).expect("copied");
        }
    }
    for entry in std::fs::read_dir(from.join("owners")).into_iter().flatten() {
        let path = entry.expect("readable").path();
        std::fs::copy(&path, to.join("owners").join(path.file_name().expect("a name"))).expect("copied");
    }
}
