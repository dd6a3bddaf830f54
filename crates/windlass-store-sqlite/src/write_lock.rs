//! A fair write lock: one transaction at a time, in this process and among all processes, without starvation.
//!
//! A single lock starves waiters: its holder releases it and takes it again before a waiting process has woken up.
//! So there are two. Every writer takes the gate, then the slot, then releases the gate. A writer that waits for
//! the slot holds the gate, and a busy writer that returns has to queue behind it.

use std::fs::{File, OpenOptions, TryLockError};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_store::{StoreError, StoreErrorKind};

use crate::error::from_io;

pub(crate) struct FairLock<T> {
    gate: Mutex<LockFile>,
    slot: Mutex<LockSlot<T>>,
    timeout: Duration,
}

struct LockSlot<T> {
    lock: LockFile,
    content: T,
}

/// The right to write, with access to the protected value.
pub(crate) struct WriteGuard<'t, T> {
    slot: MutexGuard<'t, LockSlot<T>>,
}

impl<T> FairLock<T> {
    pub(crate) fn new(directory: &Path, timeout: Duration, content: T) -> FairLock<T> {
        FairLock {
            gate: Mutex::new(LockFile::new(directory.join("queue.lock"))),
            slot: Mutex::new(LockSlot { lock: LockFile::new(directory.join("writer.lock")), content }),
            timeout,
        }
    }

    /// Replaces the protected value, without waiting for other processes.
    pub(crate) fn take_content<E>(&self, replacement: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut slot.content, replacement()?))
    }

    pub(crate) fn enter(&self) -> Result<WriteGuard<'_, T>, StoreError> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.lock(self.timeout)?;
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let entered = slot.lock.lock(self.timeout);
        gate.unlock();
        entered.map(|()| WriteGuard { slot })
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.slot.content
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.slot.content
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.slot.lock.unlock();
    }
}

/// A file that is locked and unlocked repeatedly.
pub(crate) struct LockFile {
    path: PathBuf,
    file: Option<File>,
}

impl LockFile {
    pub(crate) fn new(path: PathBuf) -> LockFile {
        LockFile { path, file: None }
    }

    pub(crate) fn lock(&mut self, timeout: Duration) -> Result<(), StoreError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        match file.try_lock() {
            Ok(()) => self.file = Some(file),
            Err(TryLockError::WouldBlock) => self.file = Some(self.wait(file, timeout)?),
            Err(TryLockError::Error(error)) => return Err(from_io(&error, "lock", &self.path)),
        }
        Ok(())
    }

    fn open(&self) -> Result<File, StoreError> {
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&self.path);
        opened.map_err(|error| from_io(&error, "open", &self.path))
    }

    /// Waits for the lock with a timeout.
    ///
    /// The system's lock call queues the caller but has no timeout, so a helper thread waits in it. After a timeout the
    /// thread eventually gets the lock, finds the channel closed, and closes the file: that releases the lock.
    fn wait(&self, file: File, timeout: Duration) -> Result<File, StoreError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let waiting = move || drop(sender.send(file.lock().map(|()| file)));
        let spawned = std::thread::Builder::new().name("windlass-lock".to_owned()).spawn(waiting);
        spawned.map_err(|error| from_io(&error, "start a thread to lock", &self.path))?;
        match receiver.recv_timeout(timeout) {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error)) => Err(from_io(&error, "lock", &self.path)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(self.timeout_error(timeout)),
        }
    }

    fn timeout_error(&self, timeout: Duration) -> StoreError {
        let message = format!("Another process has held {} for {} s.", self.path.display(), timeout.as_secs_f32());
        let hint = "Look for another windlass process that is stopped or hangs; ending it frees the store.";
        StoreError::new(StoreErrorKind::Busy, message).with_hint(hint).with_file(&self.path)
    }

    pub(crate) fn unlock(&mut self) {
        // A handle that cannot be unlocked is closed instead, which has the same effect.
        self.file = self.file.take().filter(|file| file.unlock().is_ok());
    }
}
