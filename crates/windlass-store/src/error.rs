//! Store errors, worded so that an operator knows what to do.

use std::path::PathBuf;

/// The class of a store error, which decides whether the store stays usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreErrorKind {
    /// No space. Nothing acknowledged is lost; free space and resume.
    Full,
    /// A write or sync failed: the content of the disk is unknown, so this store refuses all further work.
    Io,
    /// A checksum, length or sequence number does not match.
    Damaged,
    /// Another process holds a lock for longer than the configured wait.
    Busy,
    /// The file is not a store that this program can read.
    Version,
    /// Written in a newer format than this program knows. Nothing is wrong with it, and nothing was changed.
    NeedsNewer,
    /// The store was stopped by an earlier error.
    Stopped,
    /// There is a store already where another one was to be restored. Nothing was changed.
    Occupied,
    /// Commits that were acknowledged are missing: the log is damaged or removed, or the files do not belong together.
    Incomplete,
    /// The store's directory or database was removed or replaced while it was open.
    Gone,
}

impl StoreErrorKind {
    /// Returns the error code, such as `WND-2603`.
    pub fn code(self) -> &'static str {
        match self {
            StoreErrorKind::NeedsNewer => "WND-2602",
            StoreErrorKind::Full => "WND-2603",
            StoreErrorKind::Io => "WND-2604",
            StoreErrorKind::Damaged => "WND-2605",
            StoreErrorKind::Busy => "WND-2606",
            StoreErrorKind::Version => "WND-2607",
            StoreErrorKind::Stopped => "WND-2608",
            StoreErrorKind::Occupied => "WND-2629",
            StoreErrorKind::Incomplete => "WND-2640",
            StoreErrorKind::Gone => "WND-2641",
        }
    }
}

/// The row whose checksum does not match. Everything but that row can still be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRow {
    /// The name of the table.
    pub table: &'static str,
    /// The number of the row in its table.
    pub row: i64,
    /// The row's name as it is stored, which may be damaged itself: the id of a run, or kind and key of a record.
    pub key: Option<String>,
}

/// A store error: its kind, a message, the affected file and a hint what to do next.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// The class of the error.
    pub kind: StoreErrorKind,
    /// A description for an operator.
    pub message: String,
    /// The affected file, if the error belongs to one.
    pub file: Option<PathBuf>,
    /// The next step for the operator, if there is one.
    pub hint: Option<String>,
    /// The row that is damaged, if the damage is limited to one row.
    pub damaged_row: Option<Box<DamagedRow>>,
}

impl StoreError {
    /// Creates an error without a file and without a hint.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
        StoreError { kind, message: message.into(), file: None, hint: None, damaged_row: None }
    }

    /// Sets the affected file.
    pub fn with_file(mut self, file: impl Into<PathBuf>) -> StoreError {
        self.file = Some(file.into());
        self
    }

    /// Sets the next step for the operator.
    pub fn with_hint(mut self, hint: impl Into<String>) -> StoreError {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the row to which the damage is limited.
    pub fn with_damaged_row(mut self, row: DamagedRow) -> StoreError {
        self.damaged_row = Some(Box::new(row));
        self
    }

    /// Refuses something that a newer program has written: `what` names it, `kind` names the version number that is too
    /// high.
    pub fn needs_newer(what: &str, kind: &str, found: u64, known: u64) -> StoreError {
        let message = format!(
            "needs a newer version of windlass: {what} was written with {kind} {found}, this program reads up to \
             {known}"
        );
        let hint = "use the newer version of windlass; this one has changed nothing";
        StoreError::new(StoreErrorKind::NeedsNewer, message).with_hint(hint)
    }

    /// The error of every call after the first failed write or sync.
    pub fn stopped_by(first: &StoreError) -> StoreError {
        let message = format!("The store was stopped by an earlier error: {}", first.message);
        let hint = "End this process, check the disk, then start again: acknowledged writes are intact.";
        StoreError { file: first.file.clone(), ..StoreError::new(StoreErrorKind::Stopped, message).with_hint(hint) }
    }
}
