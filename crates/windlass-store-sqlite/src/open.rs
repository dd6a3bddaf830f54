//! Opening and creating the file, and the settings of each connection.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior, params};
use windlass_store::backend::RowSum;
use windlass_store::{StoreError, StoreErrorKind};

use crate::chain::ChainLink;
use crate::error::{SqliteResult, SqliteStoreError, damaged, from_io};
use crate::head::{HeadFile, HeadLock, HeadRecord, identity};
use crate::inventory::{Inventory, log_path, refused};
use crate::schema::{APPLICATION_ID, FORMAT_VERSION, TABLES, unfinished};
use crate::seal::{RowCheck, are_sealed, seal};
use crate::transaction::newest_link;
use crate::verify::verify;
use crate::wal::HEADER_BYTES;
use crate::write_lock::LockFile;

/// The point at which a commit counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncMode {
    /// When the disk confirms the write.
    #[default]
    Full,
    /// When the operating system has the write: a power failure may lose commits. For benchmarks only.
    Off,
}

impl SyncMode {
    /// Returns the value of `PRAGMA synchronous`.
    pub(crate) fn as_pragma(self) -> &'static str {
        match self {
            SyncMode::Full => "FULL",
            SyncMode::Off => "OFF",
        }
    }
}

/// Options of a store. The default is durable, waits 10 seconds for other processes and does not bound the file.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// When a commit counts as done.
    pub durability: SyncMode,
    /// Time to wait for other processes before failing with `Busy`.
    pub lock_timeout: Duration,
    /// Number of write-ahead log pages after which they are copied into the database.
    pub checkpoint_pages: u32,
    /// Maximum size of the file, in pages of 4 KiB. Tests use it to fill the disk.
    pub max_pages: Option<u32>,
    /// Bytes of the disk that are reserved for control records; `None` makes no reserve, and uses one that exists.
    pub reserved_bytes: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions {
            durability: SyncMode::Full,
            lock_timeout: Duration::from_secs(10),
            // A small number is fast: a log that is soon reused does not grow, and a sync need not write a new file
            // size.
            checkpoint_pages: 1_000,
            max_pages: None,
            reserved_bytes: None,
        }
    }
}

/// Above this size the log file is truncated when it starts over; below it, its blocks are reused without allocation.
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;

const MAX_CACHED_STATEMENTS: usize = 64;

/// Checks the files of a store that no other process has open, before SQLite may discard anything. Returns whether
/// they may be a copy of a store in use.
pub(crate) fn check_files(file: &Path, head: Option<&HeadLock<'_>>) -> Result<bool, StoreError> {
    let record = head.map(HeadLock::read).transpose()?.flatten();
    let Some(inventory) = Inventory::take(file, record)? else { return Ok(false) };
    match inventory.mismatch() {
        Some(mismatch) => Err(mismatch.into_error(&inventory)),
        None => Ok(inventory.may_be_copy()),
    }
}

/// Checks every page and every row of a database that may have been copied while it was in use.
pub(crate) fn check_copy(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let transaction =
        connection.unchecked_transaction().map_err(|error| SqliteStoreError::from(error).into_error(file))?;
    let findings = verify(&transaction, file);
    let Some(first) = findings.first() else { return Ok(()) };
    let message = format!(
        "{} is a copy that was made while the store was in use, and its parts do not belong together: {first}",
        file.display()
    );
    Err(refused(message, file))
}

/// Reads the link of the newest commit.
pub(crate) fn last_link(connection: &Connection, file: &Path) -> Result<ChainLink, StoreError> {
    newest_link(connection, file).map_err(|error| error.into_error(file))
}

/// Opens a database for its repair, without any check.
pub(crate) fn open_unchecked(file: &Path) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect(file, flags, &SqliteOptions::default())?;
    set_synchronous(&connection, "FULL")?;
    Ok(connection)
}

/// Closes a connection. If it is the last one of all, SQLite copies the log into the database, syncs it and removes the
/// log.
pub(crate) fn close_writer(connection: Connection, is_last: bool) -> SqliteResult<()> {
    connection.flush_prepared_statement_cache();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !is_last)?;
    connection.close().map_err(|(_, error)| SqliteStoreError::from(error))
}

pub(crate) fn open_writer(file: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(file, flags, options)
        .and_then(|connection| check_and_set(connection, file, options))
        .map_err(|trouble| trouble.into_error(file))
}

pub(crate) fn open_reader(file: &Path, options: &SqliteOptions) -> SqliteResult<Connection> {
    connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX, options)
}

/// Copies the log that a dead process has left into the database, and syncs it.
///
/// If the process died of a failed sync, part of its log may exist only in the system's memory although it can be
/// read: nothing must be built on it.
pub(crate) fn checkpoint(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    copied.map_err(|error| SqliteStoreError::from(error).into_error(file))
}

/// Returns whether a run that has not ended has this owner or previous owner. The search ends at the first one.
pub(crate) fn has_open_runs(connection: &Connection, file: &Path, owner: &str) -> Result<bool, StoreError> {
    let read = || -> SqliteResult<bool> {
        let sql = concat!("SELECT 1 FROM runs WHERE ", unfinished!(), " AND ?1 IN (owner, previous_owner) LIMIT 1");
        Ok(connection.prepare_cached(sql)?.exists([owner])?)
    };
    read().map_err(|error| error.into_error(file))
}

fn connect(file: &Path, flags: OpenFlags, options: &SqliteOptions) -> SqliteResult<Connection> {
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(options.lock_timeout)?;
    connection.set_prepared_statement_cache_capacity(MAX_CACHED_STATEMENTS);
    // The log is removed by `close_writer` only: not when a store is refused or was stopped.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    add_functions(&connection)?;
    Ok(connection)
}

/// Adds the function with which queries verify the newest row of a journal: it returns the number of ticks; or, if the
/// row is damaged, the number that it has, negated and less 1.
fn add_functions(connection: &Connection) -> SqliteResult<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("windlass_ticks", JOURNAL_SUMMED + 1, flags, |context| {
        let count = context.len() - 1;
        let values = (0..count).map(|value| context.get_raw(value));
        match are_sealed(values, context.get_raw(count)) {
            true => Ok(context.get::<i64>(1)? + context.get::<i64>(2)?),
            false => {
                let number = |value| context.get_raw(value).as_i64().unwrap_or(0);
                Ok(-1 - number(1).saturating_add(number(2)).max(0))
            }
        }
    })?;
    Ok(())
}

/// The number of columns that the checksum of a journal row is over.
const JOURNAL_SUMMED: i32 = 7;

/// Sets when commits of a connection are synced.
pub(crate) fn set_synchronous(connection: &Connection, mode: &str) -> SqliteResult<()> {
    Ok(connection.pragma_update(None, "synchronous", mode)?)
}

fn check_and_set(connection: Connection, file: &Path, options: &SqliteOptions) -> SqliteResult<Connection> {
    check_format(&connection, file)?;
    check_schema(&connection, file)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(damaged(format!("{} cannot keep a write-ahead log (mode {mode}).", file.display()), file).into());
    }
    set_synchronous(&connection, options.durability.as_pragma())?;
    connection.pragma_update(None, "foreign_keys", false)?;
    // Query plans do not depend on bound values, so a statement is prepared once and not again with every new number.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "wal_autocheckpoint", options.checkpoint_pages)?;
    connection.pragma_update_and_check(None, "journal_size_limit", MAX_LOG_BYTES, |_| Ok(()))?;
    if let Some(pages) = options.max_pages {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(connection)
}

fn check_format(connection: &Connection, file: &Path) -> SqliteResult<()> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version, shown) = (pragma("application_id")?, pragma("user_version")?, file.display());
    if application != APPLICATION_ID {
        let message = format!("{shown} is a SQLite database, but not one that Windlass has created.");
        let hint = "Give another directory, or move that file away.";
        return Err(StoreError::new(StoreErrorKind::Version, message).with_hint(hint).with_file(file).into());
    }
    match version {
        FORMAT_VERSION => Ok(()),
        newer if newer > FORMAT_VERSION => {
            let what = format!("the store {shown}");
            Err(StoreError::needs_newer(&what, "store format", newer.unsigned_abs(), FORMAT_VERSION.unsigned_abs())
                .with_file(file)
                .into())
        }
        other => {
            let message = format!(
                "{shown} has the store format {other}, which was never released; this program reads the format \
                 {FORMAT_VERSION}."
            );
            let hint = "Give another directory, or move that one away.";
            Err(StoreError::new(StoreErrorKind::Version, message).with_hint(hint).with_file(file).into())
        }
    }
}

/// Creates a store under another name and then renames it, so that a crash leaves a complete store or none.
///
/// This needs one sync of the file and one of the directory, where SQLite itself takes about ten.
pub(crate) fn create_if_missing(directory: &Path, file: &Path, options: &SqliteOptions) -> Result<(), StoreError> {
    if file.exists() {
        return Ok(());
    }
    create_directory(directory)?;
    let mut lock = LockFile::new(directory.join("writer.lock"));
    lock.lock(options.lock_timeout)?;
    let created = match file.exists() {
        true => Ok(()),
        false => refuse_leftovers(directory, file).and_then(|()| create_store(directory, file, options)),
    };
    lock.unlock();
    created
}

/// Refuses to create a store where another one has lost its database.
fn refuse_leftovers(directory: &Path, file: &Path) -> Result<(), StoreError> {
    let record = match HeadFile::open(directory)? {
        Some(head) => head.lock()?.read()?,
        None => None,
    };
    let commits = record.map_or(0, |record| record.sequence);
    let log = log_path(file);
    let log_bytes = fs::metadata(&log).map_or(0, |found| found.len());
    if commits == 0 && log_bytes <= HEADER_BYTES as u64 {
        return Ok(());
    }
    let (shown, log) = (file.display(), log.display());
    let left = match log_bytes > 0 {
        true => format!("its log {log} is there"),
        false => format!("its head record names {commits} commits"),
    };
    Err(refused(format!("The database {shown} is missing, although {left}."), file))
}

pub(crate) fn create_directory(directory: &Path) -> Result<(), StoreError> {
    if directory.is_dir() {
        return Ok(());
    }
    // Runs hold confidential data: only the owner may read the directory.
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| from_io(&error, "make the directory", directory))?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

fn create_store(directory: &Path, file: &Path, options: &SqliteOptions) -> Result<(), StoreError> {
    let temporary = directory.join("windlass.db.new");
    for leftover in ["", "-wal", "-shm", "-journal"] {
        // Remove the leftovers of an interrupted attempt; usually there are none.
        let _ = fs::remove_file(directory.join(format!("windlass.db.new{leftover}")));
    }
    let link = write_tables(&temporary, options).map_err(|trouble| trouble.into_error(&temporary))?;
    // SQLite gives the log and its index the same mode.
    let private = fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600));
    private.map_err(|error| from_io(&error, "make private", &temporary))?;
    if options.durability == SyncMode::Full {
        let made = File::open(&temporary).and_then(|made| made.sync_all());
        made.map_err(|error| from_io(&error, "sync", &temporary))?;
    }
    // The head record comes first, and is durable before the database has its name: a database without one is refused.
    let database = identity(&temporary)?.unwrap_or_default();
    HeadFile::create(directory, HeadRecord::of_link(&link, database))?;
    sync_directory(directory)?;
    fs::rename(&temporary, file).map_err(|error| from_io(&error, "rename", &temporary))?;
    sync_directory(directory)
}

fn write_tables(temporary: &Path, options: &SqliteOptions) -> SqliteResult<ChainLink> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(temporary, flags, options)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "memory", |_| Ok(()))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
    transaction.execute_batch(TABLES)?;
    let first = ChainLink::first(new_store_name()?);
    transaction.execute("INSERT INTO chain (id, link) VALUES (1, ?1)", [first.encode()])?;
    for (key, value) in [("created_by", CREATED_BY.to_owned()), ("schema", schema_sum(&transaction)?)] {
        let checksum = seal(&[&key, &value.as_str()]);
        transaction.execute("INSERT INTO meta VALUES (?1, ?2, ?3)", params![key, value, checksum])?;
    }
    transaction.commit()?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    close_writer(connection, true)?;
    Ok(first)
}

const CREATED_BY: &str = concat!("windlass ", env!("CARGO_PKG_VERSION"));

/// Returns a random name for a store.
fn new_store_name() -> SqliteResult<[u8; 16]> {
    let mut name = [0; 16];
    let random = getrandom::fill(&mut name).map_err(|error| error.to_string());
    let failed = |error| StoreError::new(StoreErrorKind::Io, format!("Could not get random numbers: {error}."));
    random.map_err(failed)?;
    Ok(name)
}

/// Returns a checksum of the tables and indexes as SQLite has them.
pub(crate) fn schema_sum(connection: &Connection) -> SqliteResult<String> {
    let mut select = connection.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name")?;
    let mut rows = select.query([])?;
    let mut sum = RowSum::default();
    while let Some(row) = rows.next()? {
        for column in 0..4 {
            match row.get::<_, Option<String>>(column)? {
                Some(text) => sum.bytes(b't', text.as_bytes()),
                None => sum.null(),
            }
        }
    }
    Ok(format!("{:08x}", sum.finish()))
}

/// Checks that the tables are those that were created: a damaged definition would misread every row.
fn check_schema(connection: &Connection, file: &Path) -> SqliteResult<()> {
    let mut select = connection.prepare("SELECT key, value, checksum FROM meta WHERE key = 'schema'")?;
    let decode = |row: &Row<'_>| match RowCheck::new(row, 2).is_sealed()? {
        true => row.get::<_, String>(1),
        false => Ok(String::new()),
    };
    let stored = select.query_map([], decode)?.next().transpose()?;
    if stored != Some(schema_sum(connection)?) {
        let message = format!("The definitions of the tables in {} are damaged.", file.display());
        return Err(damaged(message, file).into());
    }
    Ok(())
}

/// Syncs a directory: a new name is durable only once its directory is.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let synced = File::open(directory).and_then(|opened| opened.sync_all());
    synced.map_err(|error| from_io(&error, "sync the directory", directory))
}
