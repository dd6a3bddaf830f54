//! Errors of the command line: a message, a location and a hint what to type next.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use windlass_runtime::RuntimeError;
use windlass_store::{StoreError, StoreErrorKind};
use windlass_syntax::{DiagnosticReport, Severity};

use crate::args::GlobalArgs;
use crate::hints;

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

/// The error codes of commands. Errors of runs, stores and definitions have their own.
pub(crate) mod codes {
    /// A file with a definition cannot be read: the file itself is the problem, not its content.
    pub(crate) const UNREADABLE: &str = "WND-0002";
    pub(crate) const UNREADABLE_SETTINGS: &str = "WND-1500";
    pub(crate) const SETTINGS_SYNTAX: &str = "WND-1501";
    pub(crate) const UNKNOWN_SETTING: &str = "WND-1502";
    pub(crate) const SETTING: &str = "WND-1503";
    pub(crate) const LIMITS: &str = "WND-1504";
    pub(crate) const DUPLICATE_DEFINITION: &str = "WND-1525";
    pub(crate) const NO_DEFINITIONS: &str = "WND-1526";
    pub(crate) const UNREACHABLE_SERVER: &str = "WND-1527";
    pub(crate) const NO_TOKEN: &str = "WND-1528";
    pub(crate) const INPUT: &str = "WND-1530";
    pub(crate) const UNUSED_INPUT: &str = "WND-1531";
    pub(crate) const RUN_ID: &str = "WND-1532";
    pub(crate) const TRIGGER: &str = "WND-1533";
    /// Wrong usage without a code of its own.
    pub(crate) const USAGE: &str = "WND-1590";
    pub(crate) const REPLAY: &str = "WND-2601";
    pub(crate) const BUSY_STORE: &str = "WND-2606";
    pub(crate) const NO_SUCH_RUN: &str = "WND-2610";
    pub(crate) const RUN_ENDED: &str = "WND-2613";
    pub(crate) const MISSING_TOOLS: &str = "WND-2614";
    pub(crate) const TOKEN_REJECTED: &str = "WND-3001";
    pub(crate) const FORBIDDEN: &str = "WND-3002";
    pub(crate) const NOT_FOUND: &str = "WND-3003";
    pub(crate) const CONFLICT: &str = "WND-3004";
    pub(crate) const INVALID_DEFINITION: &str = "WND-3007";
    /// The server's code for a request to an ended run.
    pub(crate) const ENDED_AT_SERVER: &str = "WND-3009";
    pub(crate) const NO_CONTEXT: &str = "WND-3040";
    pub(crate) const NO_SERVER: &str = "WND-3041";
    pub(crate) const NEEDS_STORE: &str = "WND-3042";
    pub(crate) const CREDENTIAL_KEY: &str = "WND-3070";
    pub(crate) const INVALID_CREDENTIAL: &str = "WND-3071";
    pub(crate) const SERVER: &str = "WND-3099";

    /// Codes whose page says no more than the message.
    pub(crate) const GENERIC: [&str; 2] = [USAGE, INVALID_DEFINITION];
}

#[derive(Debug)]
pub(crate) struct CliFailure {
    exit: CliExit,
    /// Such as `WND-1590`; `windlass explain` has its page.
    code: &'static str,
    /// `None` prints nothing: the reader of our output has gone.
    message: Option<String>,
    location: Option<String>,
    hint: Option<String>,
    /// Problems in files, as `check` reports them.
    problems: Option<Box<serde_json::Value>>,
    /// Whether a server did not answer, or answered that it is about to stop.
    server_away: bool,
}

impl CliFailure {
    pub(crate) fn new(exit: CliExit, message: impl Into<String>) -> CliFailure {
        let code = if exit == CliExit::Invalid { codes::INVALID_DEFINITION } else { codes::USAGE };
        CliFailure { message: Some(message.into()), code, ..CliFailure::silent(exit) }
    }

    pub(crate) fn usage(message: impl Into<String>) -> CliFailure {
        CliFailure::new(CliExit::Usage, message)
    }

    /// A setting with a wrong value.
    pub(crate) fn setting(message: impl Into<String>) -> CliFailure {
        CliFailure::usage(message).code(codes::SETTING)
    }

    /// Input on the command line that cannot be used.
    pub(crate) fn input(message: impl Into<String>) -> CliFailure {
        CliFailure::usage(message).code(codes::INPUT)
    }

    #[must_use]
    pub(crate) fn code(mut self, code: &'static str) -> CliFailure {
        self.code = code;
        self
    }

    /// A failure without a message: everything was printed already, or the reader has gone.
    pub(crate) fn silent(exit: CliExit) -> CliFailure {
        CliFailure {
            exit,
            code: codes::USAGE,
            message: None,
            location: None,
            hint: None,
            problems: None,
            server_away: false,
        }
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

    /// Adds the options in use to the commands in the hint: the store or the server, and what a run needs again.
    #[must_use]
    pub(crate) fn complete_commands(mut self, global: &GlobalArgs) -> CliFailure {
        self.hint = self.hint.map(|hint| hints::complete_commands(global, &hint));
        self
    }

    /// Reports a file that could not be read in the form of the problems of other files.
    pub(crate) fn report(&self, file: &Path) -> DiagnosticReport {
        let (file, message) = (file.display().to_string(), self.message().to_owned());
        let (code, severity, hint) = (self.code, Severity::Error, self.hint.clone());
        let (line, column, end_line, end_column) = (0, 0, 0, 0);
        DiagnosticReport { code, name: None, severity, message, file, line, column, end_line, end_column, hint }
    }

    /// The JSON output of a failed command: `{"error": {code, message, where?, hint?, problems?}}`.
    pub(crate) fn to_value(&self) -> Option<serde_json::Value> {
        let mut error = serde_json::Map::new();
        error.insert("code".to_owned(), self.code.into());
        error.insert("message".to_owned(), self.message.as_ref()?.trim_end().into());
        let more = [("where", &self.location), ("hint", &self.hint)];
        for (key, text) in more {
            error.extend(text.as_ref().map(|text| (key.to_owned(), text.as_str().into())));
        }
        error.extend(self.problems.as_deref().map(|problems| ("problems".to_owned(), problems.clone())));
        Some(serde_json::json!({ "error": error }))
    }

    #[must_use]
    pub(crate) fn with_server_away(mut self, server_away: bool) -> CliFailure {
        self.server_away = server_away;
        self
    }

    pub(crate) fn is_server_away(&self) -> bool {
        self.server_away
    }

    pub(crate) fn exit(&self) -> CliExit {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    pub(crate) fn show(&self) {
        let Some(message) = &self.message else { return };
        let mut text = format!("error[{}]: {}\n", self.code, message.trim_end());
        if let Some(place) = &self.location {
            text.push_str(&format!("  where: {place}\n"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("  hint: {hint}\n"));
        }
        if !codes::GENERIC.contains(&self.code) {
            text.push_str(&format!("  details: windlass explain {}\n", self.code));
        }
        // There is nowhere else to report a failure of stderr.
        let _ = std::io::stderr().write_all(crate::out::escape_terminal_controls(&text).as_bytes());
    }
}

impl From<StoreError> for CliFailure {
    fn from(error: StoreError) -> CliFailure {
        let hint = error.hint.unwrap_or_else(|| store_hint(error.kind).to_owned());
        let failure = CliFailure::usage(error.message).code(error.kind.code()).hint(hint);
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
        StoreErrorKind::Occupied => "name another directory with --store, or give --replace",
        StoreErrorKind::Incomplete => "`windlass repair --dry-run` lists what can be saved and what is lost",
        StoreErrorKind::Gone => "put the directory back, or restore a backup; then start again",
    }
}

impl From<RuntimeError> for CliFailure {
    fn from(error: RuntimeError) -> CliFailure {
        let (code, message) = (error.code(), error.to_string());
        let failure: CliFailure = match error {
            RuntimeError::Store(error) => error.into(),
            RuntimeError::NoSuchRun(_) => {
                CliFailure::usage(message).hint("`windlass list` shows the runs of the store")
            }
            RuntimeError::Owned { run, owner } => CliFailure::usage(format!("{} runs `{run}`", owner_name(&owner)))
                .hint(format!("`windlass status {run}` shows it, `windlass resume {run}` follows it")),
            RuntimeError::RunExists(run) | RuntimeError::ChildExists(run) => CliFailure::usage(message)
                .hint(format!("choose another --id, or inspect the existing run with `windlass status {run}`")),
            RuntimeError::RunRemoved(_) => CliFailure::usage(message)
                .hint("choose another --id; `keep_ids` under [retention] says how long ids are known"),
            RuntimeError::ExecutionIdExists => CliFailure::new(CliExit::Failed, message),
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
            | RuntimeError::CallDepth { .. }
            | RuntimeError::TreeFull { .. } => CliFailure::new(CliExit::Failed, message),
        };
        failure.code(code)
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
