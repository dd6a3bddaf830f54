//! Space on the disk that is reserved for control records.
//!
//! Two files in the store's directory occupy space. When a write meets a full disk, the first one is emptied: runs
//! that exist continue, and nothing new begins. When that space is used up too, the second one is emptied: only
//! requests to runs and the ends of runs are written. Once the disk has room, the files are filled again.
//!
//! | `space.runs` | `space.control` | space left |
//! |---|---|---|
//! | missing | – | enough; this store reserves nothing |
//! | full | full | enough |
//! | empty | full | reserved |
//! | empty | empty | only control records |
//!
//! The files are the state, so that all processes that use the store agree on it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use windlass_store::{SpaceLeft, StoreError, StoreErrorKind, StoreSpace};

use crate::SqliteStore;
use crate::error::exceeded_size_limit;

/// The default size of the reserve: a quarter for runs that exist, the rest for control records.
pub const DEFAULT_RESERVED_BYTES: u64 = 16 * 1024 * 1024;

const RUNS_FILE: &str = "space.runs";
const CONTROL_FILE: &str = "space.control";

/// How often the files are examined, and filled again if they are empty.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) struct SpaceReserve {
    directory: PathBuf,
    /// The size of both files together; `None` uses a reserve that another process has made, and makes none.
    bytes: Option<u64>,
    left: AtomicU8,
    refreshed: Mutex<Instant>,
}

impl SpaceReserve {
    /// Makes the reserve of a store. A disk that is too full for it, or does not support it, is no error.
    pub(crate) fn open(directory: &Path, bytes: Option<u64>) -> SpaceReserve {
        let reserve = SpaceReserve {
            directory: directory.to_owned(),
            bytes: bytes.filter(|bytes| *bytes > 0),
            left: AtomicU8::new(SpaceLeft::Enough as u8),
            refreshed: Mutex::new(Instant::now()),
        };
        if reserve.bytes.is_some() && !reserve.path(RUNS_FILE).exists() {
            // Empty files first: whatever cannot be filled now is filled later.
            let _ = [CONTROL_FILE, RUNS_FILE].map(|name| open_file(&reserve.path(name)));
        }
        if reserve.read() != SpaceLeft::Enough {
            reserve.refill();
        }
        reserve.update();
        reserve
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the last known state. Looks at the files if that was some time ago.
    pub(crate) fn left(&self) -> SpaceLeft {
        if let Ok(mut refreshed) = self.refreshed.try_lock()
            && refreshed.elapsed() >= REFRESH_INTERVAL
        {
            if self.read() != SpaceLeft::Enough {
                self.refill();
            }
            self.update();
            *refreshed = Instant::now();
        }
        self.known()
    }

    /// Returns the last known state without any system call.
    pub(crate) fn known(&self) -> SpaceLeft {
        match self.left.load(Ordering::Acquire) {
            0 => SpaceLeft::Enough,
            1 => SpaceLeft::Reserved,
            _ => SpaceLeft::ControlOnly,
        }
    }

    /// Reacts to a full disk: gives the next part of the reserve free. Returns false if there is none.
    pub(crate) fn release(&self) -> bool {
        let mut refreshed = self.lock();
        let (known, found) = (self.known(), self.read());
        // Another process may have released a part already; its space may be left.
        if found == known {
            let released = match found {
                SpaceLeft::Enough => self.empty(RUNS_FILE),
                SpaceLeft::Reserved => self.empty(CONTROL_FILE),
                SpaceLeft::ControlOnly => false,
            };
            if !released {
                return false;
            }
        }
        self.update();
        *refreshed = Instant::now();
        self.known() > known
    }

    fn empty(&self, name: &str) -> bool {
        let file = OpenOptions::new().write(true).open(self.path(name));
        // Some file systems free the space only with the sync.
        file.and_then(|file| file.set_len(0).and_then(|()| file.sync_all())).is_ok()
    }

    fn update(&self) {
        self.left.store(self.read() as u8, Ordering::Release);
    }

    fn read(&self) -> SpaceLeft {
        let bytes = |name| self.path(name).metadata().ok().map(|about| about.len());
        match (bytes(RUNS_FILE), bytes(CONTROL_FILE)) {
            (None, _) | (Some(1..), _) => SpaceLeft::Enough,
            (Some(0), Some(1..)) => SpaceLeft::Reserved,
            (Some(0), _) => SpaceLeft::ControlOnly,
        }
    }

    /// Fills the files again if the disk has room for them and for further work.
    fn refill(&self) {
        let bytes = self.bytes.unwrap_or(DEFAULT_RESERVED_BYTES);
        let free =
            rustix::fs::statvfs(&self.directory).map_or(0, |about| about.f_bavail.saturating_mul(about.f_frsize));
        if free < bytes + bytes / 2 {
            return;
        }
        // Space for runs is the sign that there is enough, so it comes last.
        for (name, bytes) in [(CONTROL_FILE, bytes - bytes / 4), (RUNS_FILE, bytes / 4)] {
            let filled = open_file(&self.path(name)).and_then(|file| fill(&file, bytes));
            match filled {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                    self.empty(name);
                    return;
                }
                // A limit of this process or a file system without this: the store works without a reserve.
                Err(_) => {
                    let _ = std::fs::remove_file(self.path(RUNS_FILE));
                    return;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.refreshed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes a file occupy this many bytes of the disk.
fn fill(mut file: &File, bytes: u64) -> std::io::Result<()> {
    if file.metadata()?.len() >= bytes {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    // Not zeros, which a file system may store without space.
    let block: Vec<u8> = (0..64 * 1024u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for _ in 0..bytes.div_ceil(block.len() as u64) {
        file.write_all(&block)?;
    }
    file.sync_all()
}

impl SqliteStore {
    /// Makes a write. When the disk is full, a part of the reserve is released and the write is made again, as far as
    /// the space that is left then admits it.
    pub(crate) fn write_in_space<T>(
        &self,
        write: impl Fn(SpaceLeft) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            match write(self.reserve.left()) {
                Err(error) if error.kind == StoreErrorKind::Full && self.release_for_write() => self.reuse_log(),
                outcome => return outcome,
            }
        }
    }

    /// Releases reserved space, unless the limit is that of a file: other space does not help then.
    fn release_for_write(&self) -> bool {
        exceeded_size_limit(&self.file).is_none() && self.reserve.release()
    }

    /// Copies the write-ahead log into the database with the space that has become free: the log's own space can be
    /// used again then. The reserve for control records is larger than the log that grows before it is released.
    fn reuse_log(&self) {
        if let Ok(connection) = self.writer.enter() {
            // If this fails, the log grows into the space.
            let _ = crate::open::checkpoint(&connection, &self.file);
        }
    }
}

impl StoreSpace for SqliteStore {
    fn space_left(&self) -> SpaceLeft {
        self.reserve.left()
    }

    fn release_space(&self) -> bool {
        self.reserve.release()
    }
}
