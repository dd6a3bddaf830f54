//! One server per store. Runs have owners, so two servers could share them; but the audit log has one writer, and
//! workers and stream readers would see only half of the activity.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use crate::failure::{CliFailure, codes};

const LOCK_FILE: &str = "server.lock";

/// A process that only checks the lock holds it for a moment.
const MAX_TRIES: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Returns the address of the server that currently holds this store.
pub(crate) fn serving_address(store: &Path) -> Option<String> {
    let mut file = File::open(store.join(LOCK_FILE)).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut holder = String::new();
    file.read_to_string(&mut holder).ok()?;
    holder.trim().split_once(" on ").map(|(_, address)| address.to_owned())
}

/// Held as long as the server lives: the system releases it when the process dies.
pub(crate) struct StoreLock {
    file: File,
}

impl StoreLock {
    pub(crate) fn take(store: &Path) -> Result<StoreLock, CliFailure> {
        let path = store.join(LOCK_FILE);
        let failed = |error: std::io::Error| {
            CliFailure::usage(format!("could not create {}: {error}", path.display())).location(LOCK_FILE)
        };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let mut locked = file.try_lock();
        for _ in 1..MAX_TRIES {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(RETRY_DELAY);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => Ok(StoreLock { file }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder may not have written its address yet.
                let _ = file.read_to_string(&mut holder);
                let holder =
                    if holder.trim().is_empty() { "another process".to_owned() } else { holder.trim().to_owned() };
                Err(CliFailure::usage(format!("another server already uses this store: {holder}"))
                    .code(codes::BUSY_STORE)
                    .location(store.display().to_string())
                    .hint("stop that server first, or use another store with --store"))
            }
        }
    }

    /// Writes the server's address into the lock file for other processes.
    pub(crate) fn write_address(&mut self, address: &str) {
        let text = format!("process {} on {address}\n", std::process::id());
        // The text is only informational.
        let _ = self
            .file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .and_then(|_| self.file.write_all(text.as_bytes()));
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is just being started keeps the file open until it executes another
        // program.
        let _ = self.file.unlock();
    }
}
