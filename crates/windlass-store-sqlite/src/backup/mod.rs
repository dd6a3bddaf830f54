//! Backups of a store that is in use.
//!
//! A backup directory holds any number of backups. Each has a manifest, which lists the files of the store as chunks
//! with their hashes, and a pack with the chunks that the newest backup before it lacks. So every backup is complete,
//! and writes only what has changed. The manifest is written last: an interrupted backup is none.
//!
//! | file | content |
//! |---|---|
//! | `TIME.manifest` | the files as lists of chunks, and the hash of all that |
//! | `TIME.pack` | the chunks that this backup has added |
//! | `copy.db` | only during a backup: the database as one transaction sees it |
//! | `backup.lock` | held during a backup |

mod manifest;
mod restore;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use windlass_store::{StoreError, StoreErrorKind};
use windlass_value::Timestamp;

use crate::SqliteStore;
use crate::error::{SqliteResult, SqliteStoreError, from_io};
use crate::open::{open_reader, sync_directory};
use crate::schema::FORMAT_VERSION;
use manifest::{CHUNK_BYTES, ChunkEntry, FileEntry, MANIFEST_SUFFIX, Manifest, PACK_SUFFIX, backup_names, file_names};

pub use restore::{RestoreOptions, RestoreReport, restore};

/// The database in a store's directory and in its backups.
const DATABASE: &str = "windlass.db";

const COPY: &str = "copy.db";

/// Pages copied per step: 4 MiB.
const PAGES_PER_STEP: i32 = 1_024;

/// Options of [`SqliteStore::backup`].
#[derive(Clone, Debug, Default)]
pub struct BackupOptions {
    /// Further files to include, by their paths. They are read after the database.
    pub files: Vec<PathBuf>,
    /// The number of backups that are kept; older ones are removed. `None` keeps all.
    pub keep: Option<usize>,
}

/// The outcome of a backup.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupReport {
    /// The name of the backup, for [`RestoreOptions::at`].
    pub name: String,
    /// The backup has everything that was durable at this time.
    pub at: Timestamp,
    /// The size of the files that can be restored.
    pub bytes: u64,
    /// The bytes that this backup has added to its directory.
    pub added_bytes: u64,
    /// The number of backups in the directory.
    pub backups: usize,
    /// Damage that the store already has. Such a backup is complete, and is restored only on request.
    pub findings: Vec<String>,
}

impl SqliteStore {
    /// Makes a backup while other processes use the store, and verifies it: every row of the copy, then every byte that
    /// was written or that an earlier backup has contributed.
    ///
    pub fn backup(&self, directory: &Path, options: &BackupOptions) -> Result<BackupReport, StoreError> {
        self.refuse_if_stopped()?;
        make_directory(directory)?;
        let _lock = lock(directory)?;
        remove_copy(directory);
        let copied = self.copy_database(&directory.join(COPY)).and_then(|(at, findings)| {
            let sources = [(DATABASE.to_owned(), directory.join(COPY))].into_iter();
            let others =
                options.files.iter().filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path.clone())));
            let manifest = Manifest::new(at.0, FORMAT_VERSION, findings);
            let sources: Vec<_> = sources.chain(others).collect();
            let report = write_backup(directory, manifest, &sources)?;
            let backups = remove_old(directory, options.keep)?;
            Ok(BackupReport { backups, ..report })
        });
        remove_copy(directory);
        copied
    }

    /// Copies the database as one read transaction sees it, and checks the copy.
    fn copy_database(&self, copy: &Path) -> Result<(Timestamp, Vec<String>), StoreError> {
        let at = self.read(|transaction| {
            // The first read fixes what the transaction sees.
            transaction.query_row("SELECT count(*) FROM meta", [], |row| row.get::<_, i64>(0))?;
            let at = now();
            copy_pages(transaction, copy)?;
            Ok(at)
        });
        let at = at?;
        let findings = (|| -> SqliteResult<Vec<String>> {
            let mut connection = open_reader(copy, &self.options)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            Ok(crate::verify::verify(&transaction, copy))
        })();
        Ok((at, findings.map_err(|trouble| trouble.into_error(copy))?))
    }
}

/// Copies all pages within the transaction, which keeps what it sees: writers do not make the copy start over.
fn copy_pages(transaction: &Transaction<'_>, copy: &Path) -> SqliteResult<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(copy, flags)?;
    // The copy is thrown away: only its bytes are needed.
    target.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    target.pragma_update(None, "synchronous", "OFF")?;
    let backup = Backup::new(transaction, &mut target)?;
    loop {
        match backup.step(PAGES_PER_STEP)? {
            StepResult::Done => break,
            StepResult::More => {}
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    drop(backup);
    target.close().map_err(|(_, error)| SqliteStoreError::from(error))
}

/// Writes a backup of these files, each a name and a path. If a chunk of an earlier backup is damaged, this one is
/// written in full.
fn write_backup(
    directory: &Path,
    mut manifest: Manifest,
    sources: &[(String, PathBuf)],
) -> Result<BackupReport, StoreError> {
    let older = backup_names(directory)?;
    let at = Timestamp(manifest.at);
    let name = fresh_name(at, &older);
    let previous = older.last().and_then(|previous| Manifest::read(directory, previous).ok());
    let written = match write_pack(directory, &name, &mut manifest, previous, sources) {
        Err(error) if error.kind == StoreErrorKind::Damaged => {
            write_pack(directory, &name, &mut manifest, None, sources)
        }
        written => written,
    };
    let complete = written.and_then(|added_bytes| manifest.write(directory, &name).map(|()| added_bytes));
    let added_bytes = complete.inspect_err(|_| {
        let _ = fs::remove_file(directory.join(format!("{name}{PACK_SUFFIX}")));
    })?;
    let (bytes, findings) = (manifest.bytes(), manifest.findings);
    Ok(BackupReport { name, at, bytes, added_bytes, backups: older.len() + 1, findings })
}

/// Writes and verifies the chunks of a backup. Returns the bytes of its pack.
fn write_pack(
    directory: &Path,
    name: &str,
    manifest: &mut Manifest,
    previous: Option<Manifest>,
    sources: &[(String, PathBuf)],
) -> Result<u64, StoreError> {
    let mut pack = PackWriter::create(directory, name, previous)?;
    manifest.files.clear();
    for (file, path) in sources {
        manifest.files.push(pack.add_file(file, path)?);
    }
    let (packs, added_bytes) = pack.finish()?;
    manifest.packs = packs;
    manifest.drop_unused_packs();
    manifest.read_chunks(directory, |_, _| Ok(()))?;
    Ok(added_bytes)
}

/// Removes all but the newest backups, and the packs that no backup needs. Returns the number of backups.
fn remove_old(directory: &Path, keep: Option<usize>) -> Result<usize, StoreError> {
    let names = backup_names(directory)?;
    let Some(keep) = keep else { return Ok(names.len()) };
    let (old, kept) = names.split_at(names.len().saturating_sub(keep.max(1)));
    let mut needed = HashSet::new();
    for name in kept {
        match Manifest::read(directory, name) {
            Ok(manifest) => needed.extend(manifest.packs),
            // Its packs are not known: nothing is removed.
            Err(_) => return Ok(names.len()),
        }
    }
    let remove = |file: String| {
        let path = directory.join(file);
        fs::remove_file(&path).map_err(|error| from_io(&error, "remove", &path))
    };
    for name in old {
        remove(format!("{name}{MANIFEST_SUFFIX}"))?;
    }
    for name in file_names(directory, PACK_SUFFIX)?.into_iter().filter(|name| !needed.contains(name)) {
        remove(format!("{name}{PACK_SUFFIX}"))?;
    }
    Ok(kept.len())
}

/// Returns a name that sorts after all others.
fn fresh_name(at: Timestamp, older: &[String]) -> String {
    let time = at.to_string().replace([':', '-'], "");
    let name = time.split('.').next().unwrap_or(&time).trim_end_matches('Z').to_owned() + "Z";
    match older.last().filter(|last| **last >= name) {
        // Twice in a second, or the clock was put back.
        Some(last) => format!("{last}+"),
        None => name,
    }
}

/// The chunks that this backup adds.
struct PackWriter {
    path: PathBuf,
    file: File,
    /// The packs of the manifest; the last one is written now.
    packs: Vec<String>,
    known: HashMap<String, (usize, u64)>,
    bytes: u64,
}

impl PackWriter {
    fn create(directory: &Path, name: &str, previous: Option<Manifest>) -> Result<PackWriter, StoreError> {
        let mut known = HashMap::new();
        let mut packs = Vec::new();
        if let Some(previous) = previous {
            for ChunkEntry(hash, pack, offset) in previous.files.into_iter().flat_map(|file| file.chunks) {
                known.insert(hash, (pack, offset));
            }
            packs = previous.packs;
        }
        packs.push(name.to_owned());
        let path = directory.join(format!("{name}{PACK_SUFFIX}"));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.map_err(|error| from_io(&error, "create", &path))?;
        Ok(PackWriter { path, file, packs, known, bytes: 0 })
    }

    fn add_file(&mut self, name: &str, path: &Path) -> Result<FileEntry, StoreError> {
        let failed = |error: std::io::Error| from_io(&error, "read", path);
        let mut source = File::open(path).map_err(failed)?;
        let mut entry = FileEntry { name: name.to_owned(), bytes: 0, chunks: Vec::new() };
        let mut buffer = Vec::with_capacity(CHUNK_BYTES);
        loop {
            buffer.clear();
            let read = (&mut source).take(CHUNK_BYTES as u64).read_to_end(&mut buffer).map_err(failed)?;
            if read == 0 {
                return Ok(entry);
            }
            entry.bytes += read as u64;
            entry.chunks.push(self.add_chunk(&buffer)?);
            if read < CHUNK_BYTES {
                // The file may grow meanwhile: a chunk that is not full is its last one.
                return Ok(entry);
            }
        }
    }

    fn add_chunk(&mut self, bytes: &[u8]) -> Result<ChunkEntry, StoreError> {
        let hash = blake3::hash(bytes).to_hex().to_string();
        if let Some((pack, offset)) = self.known.get(&hash) {
            return Ok(ChunkEntry(hash, *pack, *offset));
        }
        self.file.write_all(bytes).map_err(|error| from_io(&error, "write", &self.path))?;
        let (pack, offset) = (self.packs.len() - 1, self.bytes);
        self.bytes += bytes.len() as u64;
        self.known.insert(hash.clone(), (pack, offset));
        Ok(ChunkEntry(hash, pack, offset))
    }

    /// Makes the pack durable. Returns the packs of the manifest and the bytes of this one.
    fn finish(self) -> Result<(Vec<String>, u64), StoreError> {
        self.file.sync_all().map_err(|error| from_io(&error, "sync", &self.path))?;
        // Drops the pages from the cache, so that verification reads the disk. A system without this verifies the cache.
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        Ok((self.packs, self.bytes))
    }
}

fn make_directory(directory: &Path) -> Result<(), StoreError> {
    if directory.is_dir() {
        return Ok(());
    }
    // A backup holds confidential data like its store.
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| from_io(&error, "make the directory", directory))?;
    sync_directory(directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Locks a backup directory: two backups would write the same files.
fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("backup.lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| from_io(&error, "open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = format!("Another process is making a backup in {}.", directory.display());
            Err(StoreError::new(StoreErrorKind::Busy, message)
                .with_hint("Try again when it has ended.")
                .with_file(path))
        }
        Err(TryLockError::Error(error)) => Err(from_io(&error, "lock", &path)),
    }
}

fn remove_copy(directory: &Path) {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        // Usually there is none.
        let _ = fs::remove_file(directory.join(format!("{COPY}{suffix}")));
    }
}

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64))
}
