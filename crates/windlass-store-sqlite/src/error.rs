//! Conversion of SQLite errors into errors that an operator can act on.

use std::path::Path;

use rusqlite::ffi;
use windlass_store::{DamagedRow, StoreError, StoreErrorKind};

/// The reason why a transaction ended: an SQLite error, or an error found by the store.
pub(crate) enum SqliteStoreError {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for SqliteStoreError {
    fn from(error: rusqlite::Error) -> SqliteStoreError {
        SqliteStoreError::Sqlite(error)
    }
}

impl From<StoreError> for SqliteStoreError {
    fn from(error: StoreError) -> SqliteStoreError {
        SqliteStoreError::Store(error)
    }
}

pub(crate) type SqliteResult<T> = Result<T, SqliteStoreError>;

impl SqliteStoreError {
    /// Returns whether the damage is limited to one row.
    pub(crate) fn is_damaged_row(&self) -> bool {
        matches!(self, SqliteStoreError::Store(error) if error.damaged_row.is_some())
    }

    pub(crate) fn into_error(self, file: &Path) -> StoreError {
        match self {
            SqliteStoreError::Sqlite(error) => from_sqlite(&error, file),
            SqliteStoreError::Store(error) => error,
        }
    }
}

/// The error for a row whose checksum does not match.
pub(crate) fn damaged_row(what: DamagedRow, file: &Path) -> StoreError {
    let name = what.key.as_ref().map_or_else(String::new, |key| format!(" ({key})"));
    let message = format!("Table {}, row {}{name} is damaged: its checksum does not match.", what.table, what.row);
    damaged(message, file).with_damaged_row(what)
}

pub(crate) fn damaged(message: String, file: &Path) -> StoreError {
    let hint = "Copy the directory before anything else; then restore a backup, or delete the run that it concerns.";
    StoreError::new(StoreErrorKind::Damaged, message).with_file(file).with_hint(hint)
}

pub(crate) fn from_io(error: &std::io::Error, operation: &str, file: &Path) -> StoreError {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::FileTooLarge => {
            StoreErrorKind::Full
        }
        _ => StoreErrorKind::Io,
    };
    StoreError::new(kind, format!("Could not {operation} {}: {error}.", file.display())).with_file(file)
}

fn from_sqlite(error: &rusqlite::Error, file: &Path) -> StoreError {
    let shown = file.display();
    let kind = match is_write(error).then(|| exceeded_size_limit(file)).flatten() {
        Some(bytes) => {
            let message = format!("No file of this process may grow beyond {bytes} bytes, and {shown} would.");
            let hint =
                "Nothing that was acknowledged is lost. Raise the limit (`ulimit -f`, `LimitFSIZE=`), then resume.";
            return StoreError::new(StoreErrorKind::Full, message).with_hint(hint).with_file(file);
        }
        None => error_kind(error),
    };
    match kind {
        StoreErrorKind::Full => StoreError::new(StoreErrorKind::Full, format!("No space left to write {shown}."))
            .with_hint("Nothing that was acknowledged is lost. Free some space, then resume.")
            .with_file(file),
        StoreErrorKind::Busy => {
            StoreError::new(StoreErrorKind::Busy, format!("Another process holds {shown} locked for too long."))
                .with_hint(
                    "Look for a program that has the file open in a write transaction, such as a database shell.",
                )
                .with_file(file)
        }
        StoreErrorKind::Damaged => damaged(format!("{shown} is damaged or not a database: {error}."), file),
        kind => StoreError::new(kind, format!("Reading or writing {shown} failed: {error}."))
            .with_hint("Check the disk and the file's permissions, then start again.")
            .with_file(file),
    }
}

fn error_kind(error: &rusqlite::Error) -> StoreErrorKind {
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        // A column of the wrong type or a number out of range: SQLite works, the content is wrong.
        return StoreErrorKind::Damaged;
    };
    match (failure.extended_code, failure.extended_code & 0xff) {
        // The shared-memory index could not grow; nothing was written to the journal.
        (ffi::SQLITE_IOERR_SHMSIZE, _) | (_, ffi::SQLITE_FULL) => StoreErrorKind::Full,
        (ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_DATA, _) => StoreErrorKind::Damaged,
        (_, ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED) => StoreErrorKind::Busy,
        // A missing table or column, or a violated constraint: another program has changed the file.
        (_, ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB | ffi::SQLITE_ERROR | ffi::SQLITE_CONSTRAINT) => {
            StoreErrorKind::Damaged
        }
        _ => StoreErrorKind::Io,
    }
}

fn is_write(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.extended_code == ffi::SQLITE_IOERR_WRITE)
}

/// Returns the process's file size limit if the database or its log has reached it.
///
/// SQLite reports a write that the system refuses because of the file size in the same way as a failed disk. The
/// size was the cause if the database or its log is at the limit: the last write before has filled it up.
pub(crate) fn exceeded_size_limit(file: &Path) -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current?;
    let log = format!("{}-wal", file.display());
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let largest = bytes(file).max(bytes(Path::new(&log)));
    (largest + MAX_WRITE_BYTES >= limit).then_some(limit)
}

/// Maximum size of one SQLite write: a page and the log's frame header.
const MAX_WRITE_BYTES: u64 = 64 * 1024 + 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_is_an_io_error_unless_the_file_is_at_its_size_limit() {
        let failed = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_WRITE), None);
        assert_eq!(from_sqlite(&failed, Path::new("nowhere.db")).kind, StoreErrorKind::Io);
        let full = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
        assert_eq!(from_sqlite(&full, Path::new("nowhere.db")).kind, StoreErrorKind::Full);
        let too_large = std::io::Error::from(std::io::ErrorKind::FileTooLarge);
        assert_eq!(from_io(&too_large, "write", Path::new("x")).kind, StoreErrorKind::Full);
    }
}
