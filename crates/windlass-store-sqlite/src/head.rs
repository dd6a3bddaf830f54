//! The head record: which commit was the last, in a file apart from the database and its log.
//!
//! The file has two slots in different sectors, which are written in turn: an interrupted write damages at most the
//! older one, because a disk writes a sector completely or not at all. A record names only commits that are on the disk already, so it needs no sync of its own.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use windlass_store::StoreError;
use windlass_store::backend::checksum;

use crate::chain::{ChainLink, take};
use crate::error::from_io;

/// The name of the file in the store's directory.
pub(crate) const HEAD_FILE: &str = "windlass.head";

const MAGIC: [u8; 8] = *b"WNDHEAD1";
const SLOT_BYTES: usize = 512;
const RECORD_BYTES: usize = 8 + 16 + 2 * 8 + 32 + 3 * 8 + 4;

/// A file on its device: two files with the same content differ here.
pub(crate) type FileIdentity = (u64, u64);

/// Knowledge about the store that is kept apart from the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeadRecord {
    /// The random name of the store.
    pub store: [u8; 16],
    /// The number of the last commit.
    pub sequence: u64,
    /// Its hash.
    pub hash: [u8; 32],
    /// No process has the store open, and the database has every commit.
    pub is_closed: bool,
    /// The database file at that time.
    pub database: FileIdentity,
    /// Grows with every write of the file.
    generation: u64,
}

impl HeadRecord {
    /// Creates the record of a commit.
    pub(crate) fn of_link(link: &ChainLink, database: FileIdentity) -> HeadRecord {
        let ChainLink { store, sequence, hash, .. } = *link;
        HeadRecord { store, sequence, hash, is_closed: false, database, generation: 0 }
    }

    /// Marks the store as closed.
    pub(crate) fn closed(self) -> HeadRecord {
        HeadRecord { is_closed: true, ..self }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.store);
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.hash);
        for number in [u64::from(self.is_closed), self.database.0, self.database.1] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(checksum(&[], &[&bytes]).to_le_bytes());
        bytes
    }

    fn decode(slot: &[u8]) -> Option<HeadRecord> {
        let (body, sum) = slot.get(..RECORD_BYTES)?.split_last_chunk::<4>()?;
        if checksum(&[], &[body]).to_le_bytes() != *sum {
            return None;
        }
        let mut rest = body.strip_prefix(&MAGIC)?;
        let store = take(&mut rest)?;
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let (generation, sequence) = (number()?, number()?);
        let hash = take(&mut rest)?;
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let (is_closed, database) = (number()? == 1, (number()?, number()?));
        Some(HeadRecord { store, sequence, hash, is_closed, database, generation })
    }
}

/// The file of the head record.
pub(crate) struct HeadFile {
    path: PathBuf,
    file: File,
}

impl HeadFile {
    /// Opens the file; `None` if there is none.
    pub(crate) fn open(directory: &Path) -> Result<Option<HeadFile>, StoreError> {
        let path = directory.join(HEAD_FILE);
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(Some(HeadFile { path, file })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(from_io(&error, "open", &path)),
        }
    }

    /// Creates the file with its first record, and syncs it. Its name is durable once the directory is synced.
    pub(crate) fn create(directory: &Path, record: HeadRecord) -> Result<HeadFile, StoreError> {
        let (path, temporary) = (directory.join(HEAD_FILE), directory.join("windlass.head.new"));
        let failed = |error: std::io::Error| from_io(&error, "write", &temporary);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&temporary).map_err(failed)?;
        file.set_len(2 * SLOT_BYTES as u64).map_err(failed)?;
        file.write_all_at(&HeadRecord { generation: 1, ..record }.encode(), 0).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&temporary, &path).map_err(|error| from_io(&error, "rename", &temporary))?;
        Ok(HeadFile { path, file })
    }

    /// Locks the file until the guard is dropped: for a moment to write, and while a store is opened or closed.
    pub(crate) fn lock(&self) -> Result<HeadLock<'_>, StoreError> {
        self.file.lock().map_err(|error| from_io(&error, "lock", &self.path))?;
        Ok(HeadLock(self))
    }
}

/// The right to write the head record.
pub(crate) struct HeadLock<'f>(&'f HeadFile);

impl HeadLock<'_> {
    fn slots(&self) -> Result<[Option<HeadRecord>; 2], StoreError> {
        let slot = |number: u64| {
            let mut bytes = [0; RECORD_BYTES];
            let read = self.0.file.read_exact_at(&mut bytes, number * SLOT_BYTES as u64);
            match read {
                Ok(()) => Ok(HeadRecord::decode(&bytes)),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => Err(from_io(&error, "read", &self.0.path)),
            }
        };
        Ok([slot(0)?, slot(1)?])
    }

    /// Returns the newest record; `None` if both slots are damaged.
    pub(crate) fn read(&self) -> Result<Option<HeadRecord>, StoreError> {
        let slots = self.slots()?;
        Ok(slots.into_iter().flatten().max_by_key(|record| record.generation))
    }

    /// Writes a record in place of the older one, unless another process has written a later commit.
    pub(crate) fn advance(&self, record: HeadRecord) -> Result<(), StoreError> {
        let newest = self.read()?;
        match newest.is_some_and(|newest| newest.store == record.store && newest.sequence > record.sequence) {
            true => Ok(()),
            false => self.write(record),
        }
    }

    fn write(&self, record: HeadRecord) -> Result<(), StoreError> {
        let generation = |slot: &Option<HeadRecord>| slot.map_or(0, |record| record.generation);
        let [first, second] = self.slots()?;
        let older = u64::from(generation(&first) > generation(&second));
        let record = HeadRecord { generation: generation(&first).max(generation(&second)) + 1, ..record };
        let written = self.0.file.write_all_at(&record.encode(), older * SLOT_BYTES as u64);
        written.map_err(|error| from_io(&error, "write", &self.0.path))
    }
}

impl Drop for HeadLock<'_> {
    fn drop(&mut self) {
        // Closing the file would release the lock as well.
        let _ = self.0.file.unlock();
    }
}

/// Returns the identity of a file; `None` if it does not exist.
pub(crate) fn identity(path: &Path) -> Result<Option<FileIdentity>, StoreError> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(from_io(&error, "examine", path)),
    }
}
