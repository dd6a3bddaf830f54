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

impl RuntimeError {
    /// Returns the error code, such as `WND-2610`.
    pub fn code(&self) -> &'static str {
        match self {
            RuntimeError::Store(error) => error.kind.code(),
            RuntimeError::Plan(_) => "WND-2628",
            RuntimeError::Quarantined { .. } => "WND-2601",
            RuntimeError::Damaged { .. } => "WND-2605",
            RuntimeError::NoSuchRun(_) => "WND-2610",
            RuntimeError::Owned { .. } => "WND-2611",
            RuntimeError::InMemoryOnly(_) => "WND-2612",
            RuntimeError::HasEnded(_) => "WND-2613",
            RuntimeError::MissingTools { .. } => "WND-2614",
            RuntimeError::RunExists(_) => "WND-2615",
            RuntimeError::ChildExists(_) => "WND-2302",
            RuntimeError::CancelledBeforeStart(_) => "WND-2616",
            RuntimeError::MissingBlob(_) => "WND-2609",
            RuntimeError::Input(_) => "WND-2208",
            RuntimeError::CallDepth { .. } => "WND-2301",
            RuntimeError::NoSuchTrigger { .. } => "WND-2617",
            RuntimeError::Delivery(_) => "WND-2618",
            RuntimeError::NoSuchPath { .. } => "WND-2619",
            RuntimeError::NoSuchOccurrence { .. } => "WND-2620",
            RuntimeError::BeganBefore { .. } => "WND-2621",
            RuntimeError::NoSuchVariable { .. } => "WND-2622",
            RuntimeError::StillOpen(_) => "WND-2623",
            RuntimeError::NothingFailed(_) => "WND-2624",
            RuntimeError::Closing => "WND-2625",
            RuntimeError::JournalConflict(_) => "WND-2626",
            RuntimeError::Fenced => "WND-2627",
        }
    }
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}

impl From<ImpossibleTick> for RuntimeError {
    fn from(error: ImpossibleTick) -> RuntimeError {
        RuntimeError::Quarantined { run: String::new(), why: error.to_string() }
    }
}
