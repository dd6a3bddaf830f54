//! The embedded store: one SQLite file, shared by all processes that use it.

#![deny(missing_docs)]

mod append;
mod clean;
mod error;
mod logs;
mod open;
mod owners;
mod read;
mod records;
mod rows;
mod scan;
mod schema;
mod trees;
mod verify;
mod write;
mod write_lock;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use windlass_store::{Owner, StoreError, StoreErrorKind, StoreOwners};
use windlass_value::Timestamp;

use crate::error::SqliteResult;
pub use crate::open::{SqliteOptions, SyncMode};
use crate::write_lock::FairLock;

/// Maximum number of idle read connections in the pool.
const MAX_IDLE_READERS: usize = 4;

/// A store in one SQLite file. It implements all traits of `windlass-store`, and several processes may open the same
/// file.
pub struct SqliteStore {
    file: PathBuf,
    owners: PathBuf,
    options: SqliteOptions,
    writer: FairLock<Connection>,
    readers: Mutex<Vec<Connection>>,
    /// Used only for the change mark, because SQLite's `data_version` is specific to a connection.
    watcher: Mutex<Option<Connection>>,
    stopped: OnceLock<StoreError>,
}

/// The settings of the write connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqliteSettings {
    /// The value of `PRAGMA journal_mode`: `wal`.
    pub journal_mode: String,
    /// 2 is FULL.
    pub synchronous: i64,
    /// The number of write-ahead log pages after which SQLite copies them into the database.
    pub checkpoint_pages: i64,
}

impl SqliteStore {
    /// Opens the store in a directory; creates both if they are missing.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let file = directory.join("windlass.db");
        let owners = directory.join("owners");
        let connection = open::open_writer(directory, &file, &options)?;
        if !owners::remove_dead_owners(&owners, |owner| open::has_open_runs(&connection, &file, owner))? {
            open::checkpoint(&connection, &file)?;
        }
        Ok(SqliteStore {
            writer: FairLock::new(directory, options.lock_timeout, connection),
            readers: Mutex::default(),
            watcher: Mutex::default(),
            stopped: OnceLock::new(),
            file,
            owners,
            options,
        })
    }

    /// Returns the path of the database file, `windlass.db` in the store's directory.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the settings from SQLite itself, so the result shows what is in effect and not what was asked for.
    pub fn settings(&self) -> Result<SqliteSettings, StoreError> {
        let connection = self.writer.enter()?;
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let read = || -> SqliteResult<SqliteSettings> {
            Ok(SqliteSettings {
                journal_mode: connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
                synchronous: number("synchronous")?,
                checkpoint_pages: number("wal_autocheckpoint")?,
            })
        };
        read().map_err(|trouble| trouble.into_error(&self.file))
    }

    /// Runs one write transaction: durable when it returns, without a trace when it fails.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> SqliteResult<T>) -> Result<T, StoreError> {
        self.transact(|transaction| Ok((work(transaction)?, true)))
    }

    /// Runs one write transaction that is rolled back if `work` returns `false`.
    fn write_if(&self, work: impl FnOnce(&Transaction<'_>) -> SqliteResult<bool>) -> Result<bool, StoreError> {
        self.transact(|transaction| work(transaction).map(|whether| (whether, whether)))
    }

    /// Runs one write transaction whose commit is not synced. It survives the death of the process, and is durable with
    /// the next synced commit.
    fn write_unsynced<T>(&self, work: impl FnOnce(&Transaction<'_>) -> SqliteResult<T>) -> Result<T, StoreError> {
        self.refuse_if_stopped()?;
        let mut connection = self.writer.enter()?;
        self.refuse_if_stopped()?;
        let attempt = |connection: &mut Connection| {
            // In WAL mode NORMAL syncs only checkpoints; the database stays consistent.
            open::set_synchronous(connection, "NORMAL")?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let outcome = work(&transaction)?;
            transaction.commit()?;
            Ok(outcome)
        };
        let outcome = attempt(&mut connection);
        let restored = open::set_synchronous(&connection, self.options.durability.as_pragma());
        self.stop_on_io_error(outcome.and_then(|outcome| restored.map(|()| outcome)))
    }

    fn transact<T>(&self, work: impl FnOnce(&Transaction<'_>) -> SqliteResult<(T, bool)>) -> Result<T, StoreError> {
        self.refuse_if_stopped()?;
        let mut connection = self.writer.enter()?;
        // The transaction that this one waited for may have stopped the store.
        self.refuse_if_stopped()?;
        let attempt = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let (outcome, keep) = work(&transaction)?;
            match keep {
                true => transaction.commit()?,
                false => transaction.rollback()?,
            }
            Ok(outcome)
        };
        self.stop_on_io_error(attempt(&mut connection))
    }

    /// Runs one short read transaction on its own connection.
    fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> SqliteResult<T>) -> Result<T, StoreError> {
        self.refuse_if_stopped()?;
        let idle = locked(&self.readers).pop();
        let attempt = || {
            let mut connection = match idle {
                Some(connection) => connection,
                None => open::open_reader(&self.file, &self.options)?,
            };
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            let outcome = work(&transaction);
            transaction.finish()?;
            self.keep_reader(connection);
            outcome
        };
        attempt().map_err(|trouble| trouble.into_error(&self.file))
    }

    fn keep_reader(&self, connection: Connection) {
        let mut readers = locked(&self.readers);
        if readers.len() < MAX_IDLE_READERS {
            readers.push(connection);
        }
    }

    fn refuse_if_stopped(&self) -> Result<(), StoreError> {
        match self.stopped.get() {
            None => Ok(()),
            Some(first) => Err(StoreError::stopped_by(first)),
        }
    }

    /// Stops the store after a failed write or sync: the cache and the disk may differ, and a second sync would claim
    /// success.
    fn stop_on_io_error<T>(&self, outcome: SqliteResult<T>) -> Result<T, StoreError> {
        outcome.map_err(|trouble| {
            let error = trouble.into_error(&self.file);
            if error.kind == StoreErrorKind::Io {
                let _ = self.stopped.set(error.clone());
            }
            error
        })
    }
}

impl StoreOwners for SqliteStore {
    fn open_owner(&self) -> Result<Owner, StoreError> {
        self.refuse_if_stopped()?;
        owners::open(&self.owners)
    }

    fn owner_alive(&self, owner: &str) -> Result<bool, StoreError> {
        self.refuse_if_stopped()?;
        owners::is_alive(&self.owners, owner)
    }

    fn live_owners(&self) -> Result<Vec<String>, StoreError> {
        self.refuse_if_stopped()?;
        owners::live_owners(&self.owners)
    }

    fn last_heartbeat(&self, owner: &str) -> Result<Option<Timestamp>, StoreError> {
        self.refuse_if_stopped()?;
        owners::last_heartbeat(&self.owners, owner)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_store::{PlanRow, StoreRead, StoreWrite};

    #[test]
    fn a_failed_write_stops_the_store_and_a_full_disk_does_not() {
        let directory = std::env::temp_dir().join(format!("windlass-failed-write-{}", std::process::id()));
        let store = SqliteStore::open(&directory, SqliteOptions::default()).expect("a store");
        let plan = PlanRow { hash: windlass_value::BlobHash([1; 32]), dialect: "loom".to_owned(), body: vec![1] };
        let failed = |kind| store.stop_on_io_error::<()>(Err(StoreError::new(kind, "the disk has failed").into()));
        assert!(failed(StoreErrorKind::Full).is_err() && store.put_plan(&plan).is_ok());
        assert!(failed(StoreErrorKind::Io).is_err());
        for error in [store.put_plan(&plan).err(), store.run("r").err()] {
            let error = error.expect("everything is refused");
            assert_eq!(error.kind, StoreErrorKind::Stopped);
            assert!(error.message.contains("the disk has failed"), "it names the first error: {error}");
        }
        std::fs::remove_dir_all(directory).expect("removed");
    }
}
