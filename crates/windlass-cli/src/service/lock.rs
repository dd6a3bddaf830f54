//! One server per store. Runs have owners, so two servers could share them; but the audit log has one writer, and
//! workers and stream readers would see only half of the activity.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{CliFailure, codes};

const LOCK_FILE: &str = "server.lock";

/// A process that only checks the lock holds it for a moment.
const MAX_TRIES: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// The command that started a server. Its store remembers it, for the hints that start the server again.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ServerCommand {
    /// The command line after `windlass`, without the option that names the store.
    pub arguments: String,
    /// The folder in which the command must be given; `None` if it does not matter.
    pub folder: Option<PathBuf>,
    /// The store follows from the arguments.
    pub has_own_store: bool,
    /// Mocks answer calls in the server's process.
    pub is_mocked: bool,
}

/// The content of the lock file.
#[derive(Serialize, Deserialize)]
struct LockHolder {
    process: u32,
    address: String,
    command: ServerCommand,
}

impl LockHolder {
    fn read(file: &mut File) -> Option<LockHolder> {
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Returns the address of the server that currently holds this store.
pub(crate) fn serving_address(store: &Path) -> Option<String> {
    let mut file = File::open(store.join(LOCK_FILE)).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    LockHolder::read(&mut file).map(|holder| holder.address)
}

/// Returns the command of the server that holds this store, or of the last one that held it.
pub(crate) fn last_server_command(store: &Path) -> Option<ServerCommand> {
    LockHolder::read(&mut File::open(store.join(LOCK_FILE)).ok()?).map(|holder| holder.command)
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
                // The holder may not have written its address yet.
                let holder = LockHolder::read(&mut file);
                let holder = holder.map(|holder| format!("process {} on {}", holder.process, holder.address));
                let holder = holder.unwrap_or_else(|| "another process".to_owned());
                Err(CliFailure::usage(format!("another server already uses this store: {holder}"))
                    .code(codes::BUSY_STORE)
                    .location(store.display().to_string())
                    .hint("stop that server first, or use another store with --store"))
            }
        }
    }

    /// Writes the server's address and its command into the lock file, for other processes.
    pub(crate) fn write_holder(&mut self, address: &str, command: ServerCommand) {
        let holder = LockHolder { process: std::process::id(), address: address.to_owned(), command };
        let text = serde_json::to_string(&holder).unwrap_or_default() + "\n";
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
