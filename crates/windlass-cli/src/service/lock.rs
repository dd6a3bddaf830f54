//! One server a store. Runs have owners of their own, so two could share them; but the audit log has one writer, and
//! workers and readers of streams would only see half of what goes on.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;

const FILE: &str = "server.lock";

/// Whoever only looks holds it for a moment.
const MAX_TRIES: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(20);

/// The address of the server that has this store now, if one has.
pub(crate) fn server_of(store: &Path) -> Option<String> {
    let mut file = File::open(store.join(FILE)).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut who = String::new();
    file.read_to_string(&mut who).ok()?;
    who.trim().split_once(" on ").map(|(_, address)| address.to_owned())
}

/// Held as long as the server lives: the system takes it from a process that dies.
pub(crate) struct StoreLock {
    file: File,
}

impl StoreLock {
    pub(crate) fn take(store: &Path) -> Result<StoreLock, Failure> {
        let path = store.join(FILE);
        let failed =
            |error: std::io::Error| Failure::usage(format!("could not make {}: {error}", path.display())).place(FILE);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let mut taken = file.try_lock();
        for _ in 1..MAX_TRIES {
            if !matches!(taken, Err(TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(BETWEEN);
            taken = file.try_lock();
        }
        match taken {
            Ok(()) => Ok(StoreLock { file }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut who = String::new();
                // Whoever has it may not have said so yet.
                let _ = file.read_to_string(&mut who);
                let who = if who.trim().is_empty() { "another process".to_owned() } else { who.trim().to_owned() };
                Err(Failure::usage(format!("a server has this store already: {who}"))
                    .place(store.display().to_string())
                    .hint("stop that one first, or give this one a store of its own with --store"))
            }
        }
    }

    /// For whoever comes second.
    pub(crate) fn tell(&mut self, address: &str) {
        let text = format!("process {} on {address}\n", std::process::id());
        // It is only for people.
        let _ = self
            .file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .and_then(|_| self.file.write_all(text.as_bytes()));
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is just being started has the file open too until it is another program.
        let _ = self.file.unlock();
    }
}
