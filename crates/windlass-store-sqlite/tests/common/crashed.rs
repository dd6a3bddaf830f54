//! The files of a store as the death of its process leaves them, restored as often as a test needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Scratch, open};
use windlass_store_sqlite::SqliteStore;

/// A store whose process has died. The database keeps its inode, so the files do not count as a copy.
pub(crate) struct CrashedStore {
    scratch: Scratch,
    /// The content of each file, by its path in the directory.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

impl CrashedStore {
    /// Fills a store and remembers its files in the middle of its life, with a head record of the last commit: that of
    /// another process that has just closed the store.
    pub(crate) fn new(fill: impl FnOnce(&SqliteStore)) -> CrashedStore {
        let scratch = Scratch::new();
        let (store, other) = (open(scratch.path()), open(scratch.path()));
        fill(&store);
        other.close();
        CrashedStore::remember(scratch, store)
    }

    /// The same, but commits of `after` are newer than the head record.
    pub(crate) fn with_commits_after_head(fill: impl FnOnce(&SqliteStore), after: impl FnOnce(&SqliteStore)) -> Self {
        let scratch = Scratch::new();
        let (store, other) = (open(scratch.path()), open(scratch.path()));
        fill(&store);
        other.close();
        after(&store);
        CrashedStore::remember(scratch, store)
    }

    fn remember(scratch: Scratch, store: SqliteStore) -> CrashedStore {
        let mut files = BTreeMap::new();
        for folder in ["", "owners"] {
            for entry in fs::read_dir(scratch.join(folder)).into_iter().flatten() {
                let path = entry.expect("readable").path();
                let name = path.strip_prefix(scratch.path()).expect("below it").to_owned();
                if path.is_file() && !name.to_string_lossy().ends_with("-shm") {
                    files.insert(name, fs::read(&path).expect("readable"));
                }
            }
        }
        drop(store);
        CrashedStore { scratch, files }
    }

    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Puts all files back as they were.
    pub(crate) fn restore(&self) {
        for folder in ["", "owners"] {
            for entry in fs::read_dir(self.scratch.join(folder)).into_iter().flatten() {
                let path = entry.expect("readable").path();
                let name = path.strip_prefix(self.path()).expect("below it");
                if path.is_file() && !self.files.contains_key(name) {
                    fs::remove_file(&path).expect("removed");
                }
            }
        }
        for (name, bytes) in &self.files {
            let path = self.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("written");
        }
    }

    /// Flips bits of a byte.
    pub(crate) fn flip(&self, name: &Path, at: usize, mask: u8) {
        let mut bytes = self.files[name].clone();
        bytes[at] ^= mask;
        fs::write(self.path().join(name), bytes).expect("written");
    }
}
