//! Errors of the command line: a message, a location and a hint what to type next.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use windlass_runtime::RuntimeError;
use windlass_store::{StoreError, StoreErrorKind};
use windlass_syntax::{DiagnosticReport, Severity};

/// The documented exit codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CliExit {
    Success,
    /// The run did not succeed, or a check (`doctor`, `replay`) found a problem.
    Failed,
    /// The definition is not valid.
    Invalid,
    /// Wrong usage or configuration.
    Usage,
    Interrupted,
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> ExitCode {
        ExitCode::from(match exit {
            CliExit::Success => 0,
            CliExit::Failed => 1,
            CliExit::Invalid => 2,
            CliExit::Usage => 3,
            CliExit::Interrupted => 130,
        })
    }
}

/// The problem code of a file that cannot be read: the file itself is the problem, not its content.
const UNREADABLE: &str = "unreadable";

#[derive(Debug)]
pub(crate) struct CliFailure {
    exit: CliExit,
    /// `None` prints nothing: the reader of our output has gone.
    message: Option<String>,
    location: Option<String>,
    hint: Option<String>,
    /// Problems in files, as `check` reports them.
    problems: Option<Box<serde_json::Value>>,
}

impl CliFailure {
    pub(crate) fn new(exit: CliExit, message: impl Into<String>) -> CliFailure {
        CliFailure { exit, message: Some(message.into()), location: None, hint: None, problems: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> CliFailure {
        CliFailure::new(CliExit::Usage, message)
    }

    /// A failure without a message: everything was printed already, or the reader has gone.
    pub(crate) fn silent(exit: CliExit) -> CliFailure {
        CliFailure { exit, message: None, location: None, hint: None, problems: None }
    }

    #[must_use]
    pub(crate) fn location(mut self, location: impl Into<String>) -> CliFailure {
        self.location = Some(location.into());
        self
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CliFailure {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn problems(mut self, problems: &[DiagnosticReport]) -> CliFailure {
        self.problems = serde_json::to_value(problems).ok().map(Box::new);
        self
    }

    /// Reports a file that could not be read in the form of the problems of other files.
    pub(crate) fn report(&self, file: &Path) -> DiagnosticReport {
        let (file, message) = (file.display().to_string(), self.message().to_owned());
        let (code, severity, hint) = (UNREADABLE, Severity::Error, self.hint.clone());
        DiagnosticReport { code, severity, message, file, line: 0, column: 0, end_line: 0, end_column: 0, hint }
    }

    /// The JSON output of a failed command: `{"error": {message, where?, hint?, problems?}}`.
    pub(crate) fn to_value(&self) -> Option<serde_json::Value> {
        let mut error = serde_json::Map::new();
        error.insert("message".to_owned(), self.message.as_ref()?.trim_end().into());
        let more = [("where", &self.location), ("hint", &self.hint)];
        for (key, text) in more {
            error.extend(text.as_ref().map(|text| (key.to_owned(), text.as_str().into())));
        }
        error.extend(self.problems.as_deref().map(|problems| ("problems".to_owned(), problems.clone())));
        Some(serde_json::json!({ "error": error }))
    }

    pub(crate) fn exit(&self) -> CliExit {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    pub(crate) fn show(&self) {
        let Some(message) = &self.message else { return };
        let mut text = format!("error: {}\n", message.trim_end());
        if let Some(place) = &self.location {
            text.push_str(&format!("  where: {place}\n"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("  hint: {hint}\n"));
        }
        // There is nowhere else to report a failure of stderr.
        let _ = std::io::stderr().write_all(crate::out::escape_terminal_controls(&text).as_bytes());
    }
}

impl From<StoreError> for CliFailure {
    fn from(error: StoreError) -> CliFailure {
        let hint = error.hint.unwrap_or_else(|| store_hint(error.kind).to_owned());
        let failure = CliFailure::usage(error.message).hint(hint);
        match error.file {
            Some(file) => failure.location(file.display().to_string()),
            None => failure,
        }
    }
}

fn store_hint(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Full => "free some space, then resume the run by its id; nothing acknowledged is lost",
        StoreErrorKind::Io => "check the disk and the permissions, or choose another directory with --store",
        StoreErrorKind::Damaged => "copy the directory, then `windlass doctor`",
        StoreErrorKind::Busy => "another process holds the write lock for very long; try again",
        StoreErrorKind::NeedsNewer => "use the newer version of windlass; this one has changed nothing",
        StoreErrorKind::Version => "use the version that created this store, or choose another directory with --store",
        StoreErrorKind::Stopped => "start again; acknowledged data is not lost",
    }
}

impl From<RuntimeError> for CliFailure {
    fn from(error: RuntimeError) -> CliFailure {
        let message = error.to_string();
        match error {
            RuntimeError::Store(error) => error.into(),
            RuntimeError::NoSuchRun(_) => {
                CliFailure::usage(message).hint("`windlass list` shows the runs of the store")
            }
            RuntimeError::Owned { run, owner } => CliFailure::usage(format!("{} runs `{run}`", owner_name(&owner)))
                .hint(format!("`windlass status {run}` shows it, `windlass resume {run}` follows it")),
            RuntimeError::RunExists(run) | RuntimeError::ChildExists(run) => CliFailure::usage(message)
                .hint(format!("choose another --id, or inspect the existing run with `windlass status {run}`")),
            RuntimeError::MissingTools { run, .. } => CliFailure::usage(message)
                .hint(format!("the run is unchanged: resume `{run}` with a program that has them")),
            RuntimeError::HasEnded(run) => {
                CliFailure::usage(message).hint(format!("`windlass status {run}` shows its result"))
            }
            RuntimeError::InMemoryOnly(_) => CliFailure::usage(message).hint("start it again"),
            RuntimeError::Input(_) => {
                CliFailure::usage(message).hint("give inputs with --set, --input or --input-file")
            }
            RuntimeError::Quarantined { ref run, .. } if !run.is_empty() => {
                CliFailure::new(CliExit::Failed, message).hint(format!("`windlass replay {run}` shows where they differ"))
            }
            RuntimeError::Plan(_)
            | RuntimeError::Quarantined { .. }
            | RuntimeError::Damaged { .. }
            | RuntimeError::MissingBlob(_) => {
                CliFailure::new(CliExit::Failed, message).hint("`windlass doctor` checks the store")
            }
            RuntimeError::NoSuchTrigger { .. } => CliFailure::usage(message).hint("name one of them with --trigger"),
            RuntimeError::Delivery(error) => {
                let hint =
                    error.hint.as_deref().unwrap_or("check the trigger's `conditions` and `splitOn`").to_owned();
                CliFailure::usage(message).hint(hint)
            }
            RuntimeError::NoSuchPath { run, nearest, .. } => CliFailure::usage(message).hint(match nearest {
                Some(near) => format!("windlass restart {run} --from '{near}'"),
                None => format!("`windlass events {run}` shows what has started"),
            }),
            RuntimeError::NoSuchOccurrence { .. } => CliFailure::usage(message)
                .hint("occurrences are counted from 1; without --occurrence the last is taken"),
            RuntimeError::BeganBefore { run, .. } => CliFailure::usage(message).hint(format!(
                "`windlass events {run}` shows what is retained; a larger `max_journal_bytes` in [limits] retains more of later runs"
            )),
            RuntimeError::NoSuchVariable { .. } => {
                CliFailure::usage(message).hint("--set changes only existing variables; nothing was started")
            }
            RuntimeError::StillOpen(run) => {
                CliFailure::usage(message).hint(format!("end it first: windlass cancel {run}"))
            }
            RuntimeError::NothingFailed(run) => {
                CliFailure::usage(message).hint(format!("to repeat a part of it: windlass restart {run} --from PATH"))
            }
            RuntimeError::Closing
            | RuntimeError::Fenced
            | RuntimeError::JournalConflict(_)
            | RuntimeError::CancelledBeforeStart(_)
            | RuntimeError::CallDepth { .. } => CliFailure::new(CliExit::Failed, message),
        }
    }
}

/// Returns a readable owner name. Owner ids consist of a start time, a process id and a random number; users want the
/// process.
pub(crate) fn owner_name(owner: &str) -> String {
    match owner.split('-').nth(1) {
        Some(process) if process.bytes().all(|byte| byte.is_ascii_digit()) => format!("process {process}"),
        _ => format!("another process ({owner})"),
    }
}
