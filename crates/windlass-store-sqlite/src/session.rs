//! The time for which a process has a store open: who else uses it, and the head record of what was committed.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use windlass_store::{StoreError, StoreErrorKind};

use crate::chain::ChainLink;
use crate::error::from_io;
use crate::head::{FileIdentity, HeadFile, HeadRecord, identity};
use crate::inventory::log_path;

/// A commit is in the head record after this time at the latest, with a margin for the write itself.
const HEAD_DELAY: Duration = Duration::from_millis(900);

/// A lock that every process shares which has the store open. Must be joined and left under the lock of the head file.
pub(crate) struct UsersLock {
    path: PathBuf,
    file: File,
}

impl UsersLock {
    /// Joins the users of the store. Returns whether there are no others: nothing changes until `share` is called.
    pub(crate) fn join(directory: &Path) -> Result<(UsersLock, bool), StoreError> {
        let path = directory.join("users.lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let users = UsersLock { file: opened.map_err(|error| from_io(&error, "open", &path))?, path };
        match users.is_alone()? {
            true => Ok((users, true)),
            false => {
                users.share()?;
                Ok((users, false))
            }
        }
    }

    /// Returns whether no other process has the store open; if so, none can join until `share` is called.
    pub(crate) fn is_alone(&self) -> Result<bool, StoreError> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(from_io(&error, "lock", &self.path)),
        }
    }

    /// Ends this use of the store.
    pub(crate) fn release(&self) {
        // The end of the process would release it as well.
        let _ = self.file.unlock();
    }

    /// Lets others join.
    pub(crate) fn share(&self) -> Result<(), StoreError> {
        self.file.lock_shared().map_err(|error| from_io(&error, "lock", &self.path))
    }
}

/// Writes the head record, at most about once a second, on a thread of its own.
pub(crate) struct HeadKeeper {
    shared: Arc<KeeperState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct KeeperState {
    head: HeadFile,
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Default)]
struct Pending {
    record: Option<HeadRecord>,
    has_ended: bool,
}

impl HeadKeeper {
    pub(crate) fn new(head: HeadFile) -> HeadKeeper {
        let shared = Arc::new(KeeperState { head, pending: Mutex::default(), changed: Condvar::new() });
        HeadKeeper { shared, thread: Mutex::default() }
    }

    pub(crate) fn head(&self) -> &HeadFile {
        &self.shared.head
    }

    /// Notes a commit that is on the disk. Costs a mutex; the record is written later.
    pub(crate) fn publish(&self, link: &ChainLink, database: FileIdentity) {
        let mut pending = self.shared.lock();
        let was_idle = pending.record.replace(HeadRecord::of_link(link, database)).is_none();
        drop(pending);
        if was_idle {
            self.start();
            self.shared.changed.notify_one();
        }
    }

    /// Starts the thread with the first commit: a process that only reads needs none.
    fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let spawned = std::thread::Builder::new().name("windlass-head".to_owned()).spawn(move || shared.run());
            // Without a thread the record stays old, and is written when the store is closed.
            *thread = spawned.ok();
        }
    }

    /// Ends the thread. What was noted is written when the store is closed.
    pub(crate) fn end(&self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl KeeperState {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(record) = self.next() {
            // A record that cannot be written leaves the older one, which claims less. Nothing is synced: after a power
            // failure the record may be old, even that of a closed store, and the next start checks more.
            let _ = self.head.lock().and_then(|head| head.advance(record));
        }
    }

    /// Waits for a commit, then for the delay, and returns the newest commit. Returns `None` at the end.
    fn next(&self) -> Option<HeadRecord> {
        let idle = |pending: &mut Pending| pending.record.is_none() && !pending.has_ended;
        let pending = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let waiting = self.changed.wait_timeout_while(pending, HEAD_DELAY, |pending| !pending.has_ended);
        let (mut pending, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        if pending.has_ended { None } else { pending.record.take() }
    }
}

/// The files that a process has opened, to notice when they are removed or replaced.
pub(crate) struct OpenedFiles {
    file: PathBuf,
    pub database: FileIdentity,
    log: Option<FileIdentity>,
}

impl OpenedFiles {
    pub(crate) fn new(file: &Path) -> Result<OpenedFiles, StoreError> {
        let Some(database) = identity(file)? else { return Err(gone(file, "was removed")) };
        Ok(OpenedFiles { file: file.to_owned(), database, log: identity(&log_path(file))? })
    }

    /// Checks that the name of the database still leads to the file that is open.
    pub(crate) fn check_database(&self) -> Result<(), StoreError> {
        match identity(&self.file)? {
            Some(found) if found == self.database => Ok(()),
            Some(_) => Err(gone(&self.file, "was replaced by another file")),
            None => Err(gone(&self.file, "was removed")),
        }
    }

    /// Checks the log as well: it stays the same file as long as a process has the store open.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.check_database()?;
        let log = log_path(&self.file);
        match self.log.is_none() || identity(&log)? == self.log {
            true => Ok(()),
            false => Err(gone(&log, "was removed or replaced")),
        }
    }
}

fn gone(file: &Path, how: &str) -> StoreError {
    let message = format!("{} {how} while it was in use: nothing can be stored any more.", file.display());
    let hint = "Put the store's directory back, or restore a backup; then start again.";
    StoreError::new(StoreErrorKind::Gone, message).with_file(file).with_hint(hint)
}
