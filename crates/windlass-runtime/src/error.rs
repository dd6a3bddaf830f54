//! Errors around a run. (An error inside a run is part of the run's outcome.)

use windlass_core::{ErrorInfo, ImpossibleTick, PlanError};
use windlass_store::StoreError;

#[derive(Clone, Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Journal and program disagree: the run is quarantined and no engine resumes it.
    #[error("the run `{run}` is quarantined: {why}")]
    Quarantined { run: String, why: String },
    #[error("cannot decode {what}: {why}")]
    Damaged { what: &'static str, why: String },
    #[error("there is no run `{0}` in this store")]
    NoSuchRun(String),
    #[error("the run `{run}` is owned by another live process ({owner})")]
    Owned { run: String, owner: String },
    #[error("the run `{0}` was in-memory only and cannot be resumed")]
    InMemoryOnly(String),
    #[error("the run `{0}` has ended")]
    HasEnded(String),
    /// The run is unchanged: a program that has the tools can resume it.
    #[error("the run `{run}` needs tools that this program does not have: {tools}")]
    MissingTools { run: String, tools: String },
    #[error("a run `{0}` already exists with a different definition, input or source run")]
    RunExists(String),
    #[error("the run `{0}` already exists and is not the child run of this call")]
    ChildExists(String),
    #[error("the run `{0}` was cancelled before it started")]
    CancelledBeforeStart(String),
    #[error("a stored value ({0}) is missing")]
    MissingBlob(String),
    #[error("the input does not match the definition: {0}")]
    Input(String),
    #[error("calling `{definition}` would exceed the maximum depth of {max} nested child runs")]
    CallDepth { definition: String, max: u64 },
    #[error("the definition has no trigger `{name}`; it has {known}")]
    NoSuchTrigger { name: String, known: String },
    /// The delivery could not be evaluated: nothing was started.
    #[error("the trigger rejected the delivery: {}", .0.message)]
    Delivery(Box<ErrorInfo>),
    /// No node has started at this path; `nearest` is the most similar path.
    #[error("nothing has started at `{path}` in the run `{run}`{}", suggestion(.nearest))]
    NoSuchPath { run: String, path: String, nearest: Option<String> },
    #[error("`{path}` has started {times} in the run `{run}`; there is no occurrence {occurrence}")]
    NoSuchOccurrence { run: String, path: String, times: String, occurrence: u64 },
    /// The journal before that tick was trimmed.
    #[error(
        "the journal of the run `{run}` begins at tick {tick}, and `{path}` has not started since; earlier ticks were \
         trimmed"
    )]
    BeganBefore { run: String, path: String, tick: u64 },
    #[error("`{path}` has no variable `{name}` in scope{}", suggestion(.nearest))]
    NoSuchVariable { path: String, name: String, nearest: Option<String> },
    #[error("the run `{0}` has not ended; only an ended run can be retried")]
    StillOpen(String),
    #[error("nothing has failed in the run `{0}`")]
    NothingFailed(String),
    #[error("the engine is shutting down")]
    Closing,
    #[error("the journal of the run `{0}` was changed by another writer")]
    JournalConflict(String),
    #[error("another process has taken over the run; the owner epoch of this process is stale")]
    Fenced,
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}

impl From<ImpossibleTick> for RuntimeError {
    fn from(error: ImpossibleTick) -> RuntimeError {
        RuntimeError::Quarantined { run: String::new(), why: error.to_string() }
    }
}
