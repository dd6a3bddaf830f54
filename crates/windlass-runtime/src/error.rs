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
    #[error("the run `{run}` is set aside: {why}")]
    Quarantined { run: String, why: String },
    #[error("what the store holds of {what} cannot be read: {why}")]
    Damaged { what: &'static str, why: String },
    #[error("there is no run `{0}` in this store")]
    NoSuchRun(String),
    #[error("the run `{run}` is owned by another live process ({owner})")]
    Owned { run: String, owner: String },
    #[error("the run `{0}` was kept in memory alone: there is nothing to go on with")]
    InMemoryOnly(String),
    #[error("the run `{0}` has ended")]
    HasEnded(String),
    /// The run is unchanged: a program that has the tools can resume it.
    #[error("the run `{run}` needs tools that this program does not have: {tools}")]
    MissingTools { run: String, tools: String },
    #[error(
        "a run `{0}` exists already and is another one: its definition, its input or what it was made from differs"
    )]
    RunExists(String),
    #[error("the run `{0}` exists already, and is not the child run that this call would start")]
    ChildExists(String),
    #[error("the run `{0}` was called off before it began")]
    CancelledBeforeStart(String),
    #[error("a stored value ({0}) is missing")]
    MissingBlob(String),
    #[error("the input does not fit the definition: {0}")]
    Input(String),
    #[error("the call of `{definition}` would be more than {max} child runs inside each other")]
    CallDepth { definition: String, max: u64 },
    #[error("the definition has no trigger `{name}`; it has {known}")]
    NoSuchTrigger { name: String, known: String },
    /// The delivery could not be evaluated: nothing was started.
    #[error("the trigger refuses the delivery: {}", .0.message)]
    Delivery(Box<ErrorInfo>),
    /// No node has started at this path; `nearest` is the most similar path.
    #[error("nothing in the run `{run}` has begun at `{path}`{}", suggestion(.nearest))]
    NoSuchPath { run: String, path: String, nearest: Option<String> },
    #[error("`{path}` has begun {times} in the run `{run}`, so there is no occurrence {occurrence}")]
    NoSuchOccurrence { run: String, path: String, times: String, occurrence: u64 },
    /// The journal before that tick was trimmed.
    #[error("the journal of the run `{run}` is kept from its tick {tick} on, and `{path}` has not begun since")]
    BeganBefore { run: String, path: String, tick: u64 },
    #[error("`{path}` sees no variable `{name}`{}", suggestion(.nearest))]
    NoSuchVariable { path: String, name: String, nearest: Option<String> },
    #[error("the run `{0}` has not ended, so it is not known what will have failed")]
    StillOpen(String),
    #[error("nothing has failed in the run `{0}`")]
    NothingFailed(String),
    #[error("the engine is shutting down")]
    Closing,
    #[error("the journal of the run `{0}` is not where this process has left it")]
    JournalConflict(String),
    #[error("another process has taken the run over")]
    Fenced,
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!("; is `{nearest}` meant?")).unwrap_or_default()
}

impl From<ImpossibleTick> for RuntimeError {
    fn from(error: ImpossibleTick) -> RuntimeError {
        RuntimeError::Quarantined { run: String::new(), why: error.to_string() }
    }
}
