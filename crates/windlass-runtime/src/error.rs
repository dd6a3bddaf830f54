//! Errors around a run. (An error inside a run is part of the run's outcome.)

use windlass_core::{ErrorInfo, ImpossibleTick, PlanError};
use windlass_store::StoreError;

/// An error of the engine or its store: a request was refused, or a run cannot continue here.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The compiled plan is not valid for this program.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Journal and program disagree: the run is quarantined and no engine resumes it.
    #[error("the run `{run}` is quarantined: {why}")]
    Quarantined {
        /// The id of the run; empty if it is not known where the error occurred.
        run: String,
        /// The contradiction that was found.
        why: String,
    },
    /// Stored bytes cannot be decoded, or their checksum does not match.
    #[error("cannot decode {what}: {why}")]
    Damaged {
        /// A noun for the damaged data: `the journal`, `a snapshot`.
        what: &'static str,
        /// The error of the decoder.
        why: String,
    },
    /// The store has no run with this id.
    #[error("there is no run `{0}` in this store")]
    NoSuchRun(String),
    /// Another live process owns the run, so this one must not change it.
    #[error("the run `{run}` is owned by another live process ({owner})")]
    Owned {
        /// The id of the run.
        run: String,
        /// The name of its owner.
        owner: String,
    },
    /// The run kept no journal, so nothing of it can be resumed or repeated.
    #[error("the run `{0}` was in-memory only and cannot be resumed")]
    InMemoryOnly(String),
    /// The request needs a run that is still open.
    #[error("the run `{0}` has ended")]
    HasEnded(String),
    /// The run is unchanged: a program that has the tools can resume it.
    #[error("the run `{run}` needs tools that this program does not have: {tools}")]
    MissingTools {
        /// The id of the run.
        run: String,
        /// The missing tools, separated by commas, or the expression language that is missing.
        tools: String,
    },
    /// The id belongs to a run that was started differently.
    #[error("a run `{0}` already exists with a different definition, input or source run")]
    RunExists(String),
    /// The run had this id and has been removed, and its id is still known: a start is not repeated.
    #[error("the run `{0}` has ended and was removed; its id cannot be used again yet")]
    RunRemoved(String),
    /// Another process drew the same execution id for a new run. The next attempt draws another one.
    #[error("another process created a run with the same execution id at the same time; try again")]
    ExecutionIdExists,
    /// The id that a call computed for its child run belongs to another run.
    #[error("the run `{0}` already exists and is not the child run of this call")]
    ChildExists(String),
    /// A request to cancel this run came before its start, so it is never created.
    #[error("the run `{0}` was cancelled before it started")]
    CancelledBeforeStart(String),
    /// The store lacks a value that the run refers to, named by its hash.
    #[error("a stored value ({0}) is missing")]
    MissingBlob(String),
    /// The input was refused before the run was created; the text says why.
    #[error("the input does not match the definition: {0}")]
    Input(String),
    /// The call would nest child runs too deeply.
    #[error("calling `{definition}` would exceed the maximum depth of {max} nested child runs")]
    CallDepth {
        /// The name of the definition that was called.
        definition: String,
        /// The maximum depth.
        max: u64,
    },
    /// The run tree of the child run has as many open runs as it may have.
    #[error("the run tree has {max} open child runs, the limit `max_tree_runs`")]
    TreeFull {
        /// The maximum number of open runs below the root.
        max: u64,
    },
    /// The delivery names a trigger that the definition does not have.
    #[error("the definition has no trigger `{name}`; it has {known}")]
    NoSuchTrigger {
        /// The name that was given.
        name: String,
        /// The triggers that the definition has, as a phrase.
        known: String,
    },
    /// The delivery could not be evaluated: nothing was started.
    #[error("the trigger rejected the delivery: {}", .0.message)]
    Delivery(Box<ErrorInfo>),
    /// No node has started at this path; `nearest` is the most similar path.
    #[error("nothing has started at `{path}` in the run `{run}`{}", suggestion(.nearest))]
    NoSuchPath {
        /// The id of the run.
        run: String,
        /// The path that was given.
        path: String,
        /// The most similar path that has started.
        nearest: Option<String>,
    },
    /// The path has started, but not as often as the request assumes.
    #[error("`{path}` has started {times} in the run `{run}`; there is no occurrence {occurrence}")]
    NoSuchOccurrence {
        /// The id of the run.
        run: String,
        /// The path that was given.
        path: String,
        /// How often the path has started, as a phrase: `once`, `3 times`.
        times: String,
        /// The occurrence that was asked for, counted from 1.
        occurrence: u64,
    },
    /// The journal before that tick was trimmed.
    #[error(
        "the journal of the run `{run}` begins at tick {tick}, and `{path}` has not started since; earlier ticks were \
         trimmed"
    )]
    BeganBefore {
        /// The id of the run.
        run: String,
        /// The path that was given.
        path: String,
        /// The first tick that the journal still has.
        tick: u64,
    },
    /// An override names a variable that is not visible at the restart point.
    #[error("`{path}` has no variable `{name}` in scope{}", suggestion(.nearest))]
    NoSuchVariable {
        /// The path of the restart point.
        path: String,
        /// The name that was given.
        name: String,
        /// The most similar variable in scope.
        nearest: Option<String>,
    },
    /// Only an ended run can be retried, and this one has not ended.
    #[error("the run `{0}` has not ended; only an ended run can be retried")]
    StillOpen(String),
    /// A retry repeats failed work, and this run has none.
    #[error("nothing has failed in the run `{0}`")]
    NothingFailed(String),
    /// The engine is shutting down and accepts no requests.
    #[error("the engine is shutting down")]
    Closing,
    /// Another writer has appended to the journal of this run in the meantime. This process no longer knows its state.
    #[error("the journal of the run `{0}` was changed by another writer")]
    JournalConflict(String),
    /// Another process has claimed the run: the store refuses this process's owner epoch.
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
            RuntimeError::RunExists(_) | RuntimeError::ExecutionIdExists => "WND-2615",
            RuntimeError::RunRemoved(_) => "WND-2630",
            RuntimeError::ChildExists(_) => "WND-2302",
            RuntimeError::CancelledBeforeStart(_) => "WND-2616",
            RuntimeError::MissingBlob(_) => "WND-2609",
            RuntimeError::Input(_) => "WND-2208",
            RuntimeError::CallDepth { .. } => "WND-2301",
            RuntimeError::TreeFull { .. } => "WND-2318",
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
