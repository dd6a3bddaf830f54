//! Errors of steps, and errors around a run.

use std::fmt;
use std::sync::Arc;

use windlass_core::{ErrorInfo, Status};
use windlass_runtime::RuntimeError;

use crate::{BuildError, Problem};

/// The reason why a step failed. Any error converts into one with `?`; its code is then the short name of the error's
/// type, which [`RetryPolicy::on`](crate::RetryPolicy::on) can name.
///
/// ```
/// use windlass::StepError;
///
/// fn port(text: &str) -> Result<u16, StepError> {
///     Ok(text.parse()?)
/// }
///
/// let error = port("eighty").unwrap_err();
/// assert_eq!(error.code(), "ParseIntError");
///
/// let own = StepError::new("RateLimited", "the gateway asks to wait").hint("lower `workers`");
/// assert_eq!(own.to_string(), "RateLimited: the gateway asks to wait (lower `workers`)");
/// ```
#[derive(Clone, PartialEq)]
pub struct StepError(Box<ErrorInfo>);

impl StepError {
    /// Creates an error of the kind `step`.
    pub fn new(code: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> StepError {
        StepError(Box::new(ErrorInfo::new(code, "step", message)))
    }

    /// Sets the kind: a coarse class that retries can name.
    #[must_use]
    pub fn with_kind(mut self, kind: impl Into<Arc<str>>) -> StepError {
        self.0.kind = kind.into();
        self
    }

    /// Sets the hint: what the reader should do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Arc<str>>) -> StepError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Returns the code, for programs: `RateLimited`.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// Returns the kind, a coarse class: `step`, `timeout`, `event`, `conflict`.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Returns the message, for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the hint: what to do about the error.
    pub fn advice(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the path of the node where the error occurred, if the engine reported it.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the error code, such as `WND-2124`; `windlass explain` prints its page.
    pub fn reference(&self) -> &'static str {
        windlass_errors::for_run_error(&self.0.code, &self.0.kind)
    }

    pub(crate) fn into_info(self) -> ErrorInfo {
        *self.0
    }

    pub(crate) fn from_info(info: ErrorInfo) -> StepError {
        StepError(Box::new(info))
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)?;
        match &self.0.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StepError({self})")
    }
}

impl<E: std::error::Error> From<E> for StepError {
    fn from(error: E) -> StepError {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let cause_text = inner.to_string();
            if !message.contains(&cause_text) {
                message.push_str(": ");
                message.push_str(&cause_text);
            }
            cause = inner.source();
        }
        StepError::new(short_name(std::any::type_name::<E>()), message)
    }
}

impl From<StepError> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: StepError) -> Self {
        error.to_string().into()
    }
}

impl From<StepError> for Box<dyn std::error::Error> {
    fn from(error: StepError) -> Self {
        error.to_string().into()
    }
}

/// Returns `ParseIntError` for `core::num::error::ParseIntError`. A bare `Error` keeps its module: `io::Error`.
pub(crate) fn short_name(full: &str) -> String {
    let bare = full.split('<').next().unwrap_or(full);
    let mut parts = bare.rsplit("::");
    let last = parts.next().unwrap_or(bare);
    let module = parts.find(|part| *part != "error").unwrap_or_default();
    match last == "Error" && !module.is_empty() {
        true => format!("{module}::{last}"),
        false => last.to_owned(),
    }
}

/// An error around a run, as its caller sees it.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Debug, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("fails")
///     .step("fail", |_: Begin| async { Err::<Done, _>(StepError::new("NoLuck", "not today")) })
///     .build()?;
/// let error = workflow.run::<Done>(Begin).await.unwrap_err();
/// assert_eq!(error.code(), "NoLuck");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run has ended without its stop event: failed, timed out or cancelled.
    #[error("the run `{run}` {}: {error}", status_phrase(*status))]
    Run {
        /// Its id.
        run: Arc<str>,
        /// The final status.
        status: Status,
        /// The reason.
        error: StepError,
    },
    /// A workflow that cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An event or value that does not have the expected form.
    #[error("{0}")]
    Event(StepError),
    /// An error of the engine or its store.
    #[error("{}{}", .0, advice(.0))]
    Engine(#[from] RuntimeError),
    /// A request that does not fit this engine or this run.
    #[error("{message}")]
    Refused {
        /// For programs.
        code: &'static str,
        /// For people.
        message: String,
    },
}

/// Prints the same text as `Display`, since `main` prints the debug form of a returned error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn advice(error: &RuntimeError) -> &'static str {
    match error {
        RuntimeError::RunExists(_) => {
            "; use `resume` to continue it as it was started: changed workers or retries also make a different workflow"
        }
        _ => "",
    }
}

fn status_phrase(status: Status) -> &'static str {
    match status {
        Status::Cancelled => "was cancelled",
        Status::TimedOut => "has timed out",
        _ => "has failed",
    }
}

impl Error {
    /// Returns the code, for programs.
    pub fn code(&self) -> &str {
        match self {
            Error::Run { error, .. } | Error::Event(error) => error.code(),
            Error::Build(_) => "Build",
            Error::Engine(error) => match error {
                error if error.needs_newer() => "NeedsNewer",
                RuntimeError::NoSuchRun(_) => "NoSuchRun",
                RuntimeError::Owned { .. } => "Owned",
                RuntimeError::RunExists(_) | RuntimeError::ExecutionIdExists => "RunExists",
                RuntimeError::Closing => "Closing",
                RuntimeError::Quarantined { .. } => "Quarantined",
                RuntimeError::Input(_) => "Input",
                RuntimeError::NoSuchPath { .. } => "NoSuchPath",
                RuntimeError::NoSuchVariable { .. } => "NoSuchVariable",
                RuntimeError::StillOpen(_) => "StillOpen",
                RuntimeError::NothingFailed(_) => "NothingFailed",
                _ => "Engine",
            },
            Error::Refused { code, .. } => code,
        }
    }

    /// Returns the error code, such as `WND-2001`; `windlass explain` prints its page.
    pub fn reference(&self) -> &'static str {
        match self {
            Error::Run { error, .. } | Error::Event(error) => error.reference(),
            Error::Build(error) => error.problems.first().map(Problem::reference).unwrap_or_default(),
            Error::Engine(error) => error.code(),
            Error::Refused { code, .. } => windlass_errors::for_run_error(code, ""),
        }
    }

    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Error {
        Error::Refused { code, message: message.into() }
    }
}
