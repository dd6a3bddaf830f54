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
        }
    }
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
}

impl StoreError {
    /// Creates an error without a file and without a hint.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
        StoreError { kind, message: message.into(), file: None, hint: None }
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
        StoreError { kind: StoreErrorKind::Stopped, message, file: first.file.clone(), hint: Some(hint.to_owned()) }
    }
}
