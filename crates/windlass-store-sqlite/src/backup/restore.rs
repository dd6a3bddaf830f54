//! Restoring a backup into a store's directory.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::{RunFilter, StoreError, StoreErrorKind, StoreOwners, StoreScan, StoreSpace};
use windlass_value::Timestamp;

use super::manifest::{Manifest, backup_names, no_backup};
use super::{DATABASE, now};
use crate::error::{damaged, from_io};
use crate::head::{HEAD_FILE, HeadFile, HeadRecord, identity};
use crate::inventory::Inventory;
use crate::open::{create_directory, sync_directory};
use crate::schema::FORMAT_VERSION;
use crate::session::UsersLock;
use crate::write_lock::LockFile;
use crate::{SqliteOptions, SqliteStore};

/// Runs whose ownership is renewed in one transaction.
const RUNS_PER_RENEWAL: u32 = 500;

/// Options of [`restore`].
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// The name of the backup; the newest one by default.
    pub at: Option<String>,
    /// Moves a store that is in the way into a directory inside of the store's directory.
    pub replace: bool,
    /// Restores a backup of a store that was damaged.
    pub allow_damage: bool,
}

/// The outcome of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreReport {
    /// The name of the backup.
    pub name: String,
    /// The store has everything that was durable at this time, and nothing later.
    pub at: Timestamp,
    /// The size of the restored files.
    pub bytes: u64,
    /// The number of runs that have not ended. They continue from this state.
    pub open_runs: u64,
    /// The directory that has the replaced store.
    pub replaced: Option<PathBuf>,
    /// Damage that the backup was made with.
    pub findings: Vec<String>,
}

/// Restores a backup as the store of a directory, after all of the backup was verified.
///
/// The owners that the runs had are void: each open run has a higher owner epoch and no owner, so that no process from
/// before can write it.
pub fn restore(source: &Path, directory: &Path, options: &RestoreOptions) -> Result<RestoreReport, StoreError> {
    let (name, manifest) = find(source, options)?;
    manifest.read_chunks(source, |_, _| Ok(()))?;
    if is_occupied(directory) && !options.replace {
        return Err(occupied(directory));
    }
    create_directory(directory)?;
    let mut lock = LockFile::new(directory.join("writer.lock"));
    lock.lock(SqliteOptions::default().lock_timeout)?;
    let users = refuse_if_in_use(directory)?;
    let folder = directory.join("restore.new");
    write_files(source, &manifest, &folder)?;
    let replaced = match is_occupied(directory) {
        true => Some(move_away(directory)?),
        false => None,
    };
    move_into_place(&manifest, &folder, directory)?;
    drop(users);
    lock.unlock();
    let store = SqliteStore::open(directory, SqliteOptions::default())?;
    let open_runs = renew_ownership(&store)?;
    let (at, bytes, findings) = (Timestamp(manifest.at), manifest.bytes(), manifest.findings);
    Ok(RestoreReport { name, at, bytes, open_runs, replaced, findings })
}

/// Reads the manifest of the requested backup and checks that this program can restore it.
fn find(source: &Path, options: &RestoreOptions) -> Result<(String, Manifest), StoreError> {
    let newest = || backup_names(source)?.pop().ok_or_else(|| no_backup(source, None));
    let name = options.at.clone().map_or_else(newest, Ok)?;
    let manifest = Manifest::read(source, &name)?;
    let (found, known) = (manifest.store_format.unsigned_abs(), FORMAT_VERSION.unsigned_abs());
    if found > known {
        return Err(StoreError::needs_newer(&format!("the backup `{name}`"), "store format", found, known));
    }
    if found < known {
        let message =
            format!("The backup `{name}` has the store format {found}; this program reads the format {known}.");
        let hint = format!("Restore it with {}, which has written it.", manifest.created_by);
        return Err(StoreError::new(StoreErrorKind::Version, message).with_hint(hint).with_file(source));
    }
    if let Some(first) = manifest.findings.first().filter(|_| !options.allow_damage) {
        let message = format!("The backup `{name}` is a copy of a damaged store: {first}");
        let hint = "Restore an older backup with `--at NAME`, or accept the damage with `--allow-damage`.";
        return Err(StoreError::new(StoreErrorKind::Damaged, message).with_hint(hint).with_file(source));
    }
    Ok((name, manifest))
}

/// Files that a store leaves in its directory, and that a restore must not mix with its own.
fn store_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(DATABASE) || name == HEAD_FILE || (name.starts_with("audit.") && name.ends_with(".log"))
    };
    entries.map(|entry| entry.path()).filter(|path| path.is_file() && is_ours(path)).collect()
}

fn is_occupied(directory: &Path) -> bool {
    !store_files(directory).is_empty()
}

fn occupied(directory: &Path) -> StoreError {
    let message = format!("There is a store in {} already.", directory.display());
    let hint = "Name an empty directory with `--store`, or move that store away with `--replace`.";
    StoreError::new(StoreErrorKind::Occupied, message).with_hint(hint).with_file(directory)
}

/// Refuses a store that a process has open. The returned lock keeps others from opening it.
fn refuse_if_in_use(directory: &Path) -> Result<UsersLock, StoreError> {
    let (users, is_alone) = UsersLock::join(directory)?;
    if is_alone {
        return Ok(users);
    }
    let message = format!("Another process uses the store in {}.", directory.display());
    let hint = "Stop the server and all commands that use the store, then restore.";
    Err(StoreError::new(StoreErrorKind::Busy, message).with_hint(hint).with_file(directory))
}

fn write_files(source: &Path, manifest: &Manifest, folder: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| from_io(&error, "write", folder);
    // Left over from an interrupted restore; usually there is none.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder).map_err(failed)?;
    let create = |name: &str| OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name));
    let mut open: Option<(String, File)> = None;
    manifest.read_chunks(source, |entry, bytes| {
        if open.as_ref().is_none_or(|(name, _)| *name != entry.name) {
            sync_and_close(open.take()).map_err(failed)?;
            open = Some((entry.name.clone(), create(&entry.name).map_err(failed)?));
        }
        open.as_mut().map_or(Ok(()), |(_, file)| file.write_all(bytes)).map_err(failed)
    })?;
    sync_and_close(open).map_err(failed)?;
    sync_directory(folder)
}

fn sync_and_close(file: Option<(String, File)>) -> std::io::Result<()> {
    file.map_or(Ok(()), |(_, file)| file.sync_all())
}

/// Moves the files of the store that is in the way into a directory of their own.
fn move_away(directory: &Path) -> Result<PathBuf, StoreError> {
    let away = directory.join(format!("replaced-{}", now().0));
    let failed = |error: std::io::Error| from_io(&error, "move the store to", &away);
    fs::create_dir(&away).map_err(failed)?;
    for path in store_files(directory) {
        fs::rename(&path, away.join(path.file_name().unwrap_or_default())).map_err(failed)?;
    }
    sync_directory(&away)?;
    sync_directory(directory)?;
    Ok(away)
}

/// Gives the restored files their names: the head record before the database, which is refused without it. Without the
/// database, there is no store.
fn move_into_place(manifest: &Manifest, folder: &Path, directory: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| from_io(&error, "move the restored files to", directory);
    let (database, others): (Vec<_>, Vec<_>) = manifest.files.iter().partition(|file| file.name == DATABASE);
    let restored = folder.join(DATABASE);
    let link = Inventory::take(&restored, None)?.and_then(|inventory| inventory.last());
    let link = link.ok_or_else(|| damaged(format!("{} has no commits.", restored.display()), &restored))?;
    let mut head = HeadRecord::of_link(&link, identity(&restored)?.unwrap_or_default());
    head.is_closed = true;
    HeadFile::create(directory, head)?;
    sync_directory(directory)?;
    for file in others.into_iter().chain(database) {
        fs::rename(folder.join(&file.name), directory.join(&file.name)).map_err(failed)?;
    }
    fs::remove_dir(folder).map_err(failed)?;
    sync_directory(directory)
}

/// Gives every open run a higher owner epoch and no owner. Returns the number of open runs.
fn renew_ownership(store: &SqliteStore) -> Result<u64, StoreError> {
    let owner = store.open_owner()?;
    let filter = RunFilter { unfinished: true, ..RunFilter::default() };
    let (mut before, mut renewed) = (None, 0);
    loop {
        let page = store.runs(&filter, before, RUNS_PER_RENEWAL)?;
        let Some(last) = page.last() else { return Ok(renewed) };
        before = Some(last.number);
        renewed += page.len() as u64;
        let runs: Vec<Arc<str>> = page.into_iter().map(|row| row.run).collect();
        store.renew_owners(&runs, &owner.name)?;
        // The store may be on a small disk.
        store.space_left();
    }
}
