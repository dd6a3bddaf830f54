//! Stores that this user may only read: on a read-only mount, or in a directory without write permission.
//!
//! SQLite cannot read a store in its place then: the newest commits are in the log, and reading the log needs files
//! beside it that can be written. So a private copy is read, which is checked like any copy of a store in use, and
//! removed at the end. Nothing can be written to it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, access};
use windlass_store::{StoreError, StoreErrorKind};

use crate::error::from_io;
use crate::head::HEAD_FILE;
use crate::{SqliteOptions, SqliteStore};

/// The files that a store consists of. The head record comes first: it must not know of later commits than the others.
const FILES: [&str; 3] = [HEAD_FILE, "windlass.db", "windlass.db-wal"];

/// Maximum number of copies of a store whose owner writes meanwhile.
const MAX_TRIES: u32 = 5;

/// A copy of a store in a directory that only this user can read.
pub(crate) struct PrivateCopy {
    directory: PathBuf,
    /// The directory of the store itself.
    original: PathBuf,
}

impl PrivateCopy {
    fn make(original: &Path) -> Result<PrivateCopy, StoreError> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass-read-{}-{number}-{:016x}", std::process::id(), random());
        let directory = std::env::temp_dir().join(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|error| from_io(&error, "make the directory", &directory))?;
        let copy = PrivateCopy { directory, original: original.to_owned() };
        for name in FILES {
            let (from, to) = (original.join(name), copy.directory.join(name));
            // The copy has its own permissions: those of the original may allow no writing.
            match File::open(&from).and_then(|mut from| io::copy(&mut from, &mut File::create(&to)?)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(from_io(&error, "copy the store from", &from));
                }
                _ => {}
            }
        }
        Ok(copy)
    }

    /// Names the store itself in an error about the copy.
    fn error_of_original(&self, mut error: StoreError) -> StoreError {
        let (copy, original) = (self.directory.display().to_string(), self.original.display().to_string());
        error.message = error.message.replace(&copy, &original);
        error.file = error
            .file
            .map(|file| file.strip_prefix(&self.directory).map_or(file.clone(), |name| self.original.join(name)));
        error
    }

    /// The error of everything that would change the store.
    pub(crate) fn refusal(&self) -> StoreError {
        let directory = &self.original;
        let message = format!("The store in {} can only be read: this user may not write there.", directory.display());
        let hint = "Run the command as the owner of the store, or work on a copy of its directory.";
        StoreError::new(StoreErrorKind::Io, message).with_hint(hint).with_file(directory)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // What cannot be removed is private, and in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // The directory must be new: a name that is guessed is no danger.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Returns whether there is a store that this user cannot write.
fn is_read_only(directory: &Path) -> bool {
    let denied = |path: &Path| {
        let (needed, found) = (Access::WRITE_OK, access(path, Access::EXISTS).is_ok());
        found && access(path, needed).is_err()
    };
    directory.join("windlass.db").exists()
        && (denied(directory) || FILES.iter().any(|name| denied(&directory.join(name))))
}

impl SqliteStore {
    /// Opens a store to look at it. One that this user cannot write is read from a private copy, and refuses every
    /// change.
    pub fn open_to_read(directory: &Path, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        if !is_read_only(directory) {
            return SqliteStore::open(directory, options);
        }
        let mut tries = 1;
        loop {
            let copy = PrivateCopy::make(directory)?;
            match SqliteStore::open(&copy.directory, options.clone()) {
                Ok(mut store) => {
                    // Its owners may be alive and hold their locks there.
                    store.owners = directory.join("owners");
                    store.copy = Some(copy);
                    return Ok(store);
                }
                // Its owner has written meanwhile.
                Err(error) if error.kind == StoreErrorKind::Incomplete && tries < MAX_TRIES => tries += 1,
                Err(error) => return Err(copy.error_of_original(error)),
            }
        }
    }
}
