//! Owners are lock files: the system releases the lock of a process that dies, however it dies. The file holds the
//! last heartbeat of an owner that sends them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_store::backend::checksum;
use windlass_store::{Owner, OwnerGuard, StoreError};
use windlass_value::Timestamp;

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
    let file = OpenOptions::new().create_new(true).read(true).write(true).open(&temporary).map_err(failed)?;
    file.lock().map_err(failed)?;
    let path = path_of(directory, &name);
    fs::rename(&temporary, &path).map_err(failed)?;
    Ok(Owner::new(name, OwnerLock { file, path, has_beaten: AtomicBool::new(false) }))
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

/// Encodes a heartbeat: 8 bytes, microseconds since 1970, and their checksum.
fn encode_heartbeat(at: Timestamp) -> [u8; 12] {
    let (mut bytes, number) = ([0; 12], at.0.to_le_bytes());
    bytes[..8].copy_from_slice(&number);
    bytes[8..].copy_from_slice(&checksum(&[], &[&number]).to_le_bytes());
    bytes
}

/// Decodes a heartbeat; `None` if it is damaged.
fn decode_heartbeat(bytes: &[u8]) -> Option<Timestamp> {
    let at = Timestamp(i64::from_le_bytes(*bytes.first_chunk()?));
    (encode_heartbeat(at) == bytes).then_some(at)
}

/// Returns one line for each heartbeat that is damaged.
pub(crate) fn damaged_heartbeats(directory: &Path) -> Vec<String> {
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_damaged = |path: &PathBuf| {
        let is_owner = path.extension().is_some_and(|extension| extension == SUFFIX);
        is_owner && fs::read(path).is_ok_and(|bytes| !bytes.is_empty() && decode_heartbeat(&bytes).is_none())
    };
    let damaged = paths.filter(is_damaged);
    damaged.map(|path| format!("The heartbeat {} is damaged: its checksum does not match.", path.display())).collect()
}

/// Returns the last heartbeat of an owner, which its file holds. A damaged one counts as none.
pub(crate) fn last_heartbeat(directory: &Path, owner: &str) -> Result<Option<Timestamp>, StoreError> {
    if !is_owner_name(owner) {
        return Ok(None);
    }
    let path = path_of(directory, owner);
    match fs::read(&path) {
        Ok(bytes) => Ok(decode_heartbeat(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(from_io(&error, "read", &path)),
    }
}

/// Removes the files of dead owners and returns whether any owner is alive. Files that cannot be examined stay, and so
/// do heartbeats that an open run may need.
pub(crate) fn remove_dead_owners(
    directory: &Path,
    is_needed: impl Fn(&str) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let mut any_alive = false;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let is_owner = path.extension().is_some_and(|extension| extension == SUFFIX);
        if !is_owner || !matches!(is_locked(&path), Ok(false)) {
            any_alive = true;
        } else if !has_heartbeat(&path) || !is_needed(&owner_name(&path))? {
            // Another process that removes the file at the same time does no harm.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(any_alive)
}

fn has_heartbeat(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.len() > 0)
}

fn owner_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
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

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64))
}

/// Returns a fresh name from time, process and a random number: unique even after a restart with the same process id.
fn fresh_name() -> String {
    let now = now().0;
    let random = RandomState::new().hash_one(now);
    format!("{now:x}-{}-{random:016x}", std::process::id())
}

struct OwnerLock {
    file: File,
    path: PathBuf,
    has_beaten: AtomicBool,
}

impl OwnerGuard for OwnerLock {
    fn beat(&self, at: Timestamp) -> Result<(), StoreError> {
        self.has_beaten.store(true, Ordering::Relaxed);
        let written = self.file.write_all_at(&encode_heartbeat(at), 0);
        written.map_err(|error| from_io(&error, "write a heartbeat to", &self.path))
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        if self.has_beaten.load(Ordering::Relaxed) {
            // Runs that this owner has released need its last heartbeat. If it cannot be written, the previous one counts.
            let _ = self.beat(now());
        } else {
            // The next process that opens the store removes a file that stays behind.
            let _ = fs::remove_file(&self.path);
        }
    }
}
