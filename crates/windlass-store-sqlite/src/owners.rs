//! Owners are lock files: the system releases the lock of a process that dies, however it dies.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_store::{Owner, StoreError};

use crate::error::from_io;

const SUFFIX: &str = "lock";

/// Creates a file, locks it and only then gives it the name that other processes look for, so that it is never seen
/// unlocked.
///
/// Nothing is synced: after a power failure a missing file correctly means that the owner is dead.
pub(crate) fn open(directory: &Path) -> Result<Owner, StoreError> {
    fs::create_dir_all(directory).map_err(|error| from_io(&error, "make", directory))?;
    let name = fresh_name();
    let temporary = directory.join(format!("{name}.new"));
    let failed = |error: std::io::Error| from_io(&error, "make the owner's lock", &temporary);
    let file = OpenOptions::new().create_new(true).write(true).open(&temporary).map_err(failed)?;
    file.lock().map_err(failed)?;
    let path = path_of(directory, &name);
    fs::rename(&temporary, &path).map_err(failed)?;
    Ok(Owner::new(name, OwnerLock { _file: file, path }))
}

/// Returns whether an owner is alive. Shared probes do not disturb each other, and a name is never reused.
pub(crate) fn is_alive(directory: &Path, owner: &str) -> Result<bool, StoreError> {
    if !is_owner_name(owner) {
        return Ok(false);
    }
    is_locked(&path_of(directory, owner))
}

fn is_owner_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the names of the owners that are alive: few, one for each engine that has the store open.
pub(crate) fn live_owners(directory: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(from_io(&error, "list", directory)),
    };
    let mut alive = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| from_io(&error, "list", directory))?.path();
        let is_owner = path.extension().is_some_and(|extension| extension == SUFFIX);
        let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|name| is_owner && is_owner_name(name));
        if let Some(name) = name
            && is_locked(&path)?
        {
            alive.push(name.to_owned());
        }
    }
    Ok(alive)
}

/// Removes the files of dead owners and returns whether any owner is alive. Files that cannot be examined stay.
pub(crate) fn remove_dead_owners(directory: &Path) -> bool {
    let mut any_alive = false;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let is_owner = path.extension().is_some_and(|extension| extension == SUFFIX);
        if is_owner && matches!(is_locked(&path), Ok(false)) {
            // Another process that removes the file at the same time does no harm.
            let _ = fs::remove_file(&path);
        } else {
            any_alive = true;
        }
    }
    any_alive
}

fn is_locked(path: &Path) -> Result<bool, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(from_io(&error, "open", path)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(from_io(&error, "lock", path)),
    }
}

fn path_of(directory: &Path, owner: &str) -> PathBuf {
    directory.join(format!("{owner}.{SUFFIX}"))
}

/// Returns a fresh name from time, process and a random number: unique even after a restart with the same process id.
fn fresh_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let random = RandomState::new().hash_one(now);
    format!("{now:x}-{}-{random:016x}", std::process::id())
}

struct OwnerLock {
    _file: File,
    path: PathBuf,
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // The next process that opens the store removes a file that stays behind.
        let _ = fs::remove_file(&self.path);
    }
}
