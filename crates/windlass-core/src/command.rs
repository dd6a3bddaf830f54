//! Commands: the outputs of the reducer. The control loop executes them in this order once the tick is durable.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, Timestamp, Value};

use crate::{ErrorInfo, Event, LoopEndReason, RunReply, Status, TickKind, WaitResult};

/// An instruction of the reducer to the control loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// A tick for this run's own queue.
    QueueEvent(TickKind),
    /// A job for a worker.
    RunWorker(Job),
    /// Asks the worker that runs this job to stop and confirm.
    CancelWorker {
        /// The number of the job in the run.
        job: u64,
    },
    /// Ends the lease of a worker that holds this job between two tasks: the pipeline has ended, or it returns the
    /// lease because it waits for a long time. The same job number with a higher lease epoch may follow.
    EndLease {
        /// The number of the job in the run.
        job: u64,
        /// The epoch of the lease to end; a newer lease of the same job stays.
        lease_epoch: u32,
    },
    /// A child run.
    StartChild {
        /// The number of the call in the run; the result arrives under it.
        call: u64,
        /// The name of the definition to run.
        definition: Arc<str>,
        /// The evaluated input of the child run.
        input: Value,
        /// The idempotency key, from which the id of the child run is derived.
        key: EffectKey,
    },
    /// Cancels a child run.
    CancelChild {
        /// The idempotency key of the call that started the child run.
        key: EffectKey,
    },
    /// A reply to the caller that started the run; the run continues.
    Reply(RunReply),
    /// The run has succeeded.
    CompleteRun(RunResult),
    /// The run was cancelled or has timed out.
    Halt(RunResult),
    /// The run has failed.
    FailWorkflow(RunResult),
    /// An event to be published to observers.
    PublishEvent(Event),
}

/// Work under a lease: a task of a pipeline with everything needed to dispatch it, once or repeatedly. A pipeline is
/// one job from its first effect to its end, so the response to a worker's report is either the next of these under
/// the same number or the end of the lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The number of the job in the run.
    pub job: u64,
    /// The lease epoch: increases whenever a task of the job is dispatched. A report with another epoch is stale.
    pub lease_epoch: u32,
    /// The worker's number: the smallest that no other job of the run uses. It stays the same while the lease is held.
    pub worker: u32,
    /// The name of the tool to call.
    pub tool: Arc<str>,
    /// The evaluated input; large parts are references to stored values.
    pub input: Value,
    /// Contains the task's path as well: see [`Job::path`].
    pub key: EffectKey,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The timeout of the task; the worker enforces it.
    pub timeout: Option<Duration>,
    /// The time at which this attempt was first dispatched. A repeat after a crash has the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Set when the task was suspended and now resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Arc<ResumeData>>,
    /// The attempts before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_attempts: Option<Arc<PreviousAttempts>>,
}

impl Job {
    /// Returns the path of the task, which is part of its idempotency key.
    pub fn path(&self) -> &Arc<str> {
        &self.key.path
    }
}

/// Facts about earlier attempts, passed to a task that is retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreviousAttempts {
    /// The start of the first attempt.
    pub since: Timestamp,
    /// The time at which the last attempt failed.
    pub failed_at: Timestamp,
    /// The error of the last attempt.
    pub error: ErrorInfo,
}

/// Data passed to a suspended task when it resumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResumeData {
    /// The results of its waits, in order.
    pub answers: Vec<WaitResult>,
    /// Number of events the task has already published.
    pub published_events: u64,
}

/// The parts of an idempotency key; the run's key root completes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectKey {
    /// The path of the task in the run.
    pub path: Arc<str>,
    /// Which entry of the frame this is, over all retries of the nodes around it.
    pub generation: u32,
    /// How often a jump or an arc has reached the task again.
    pub visit: u32,
    /// Increases only when a retry follows a received reply.
    pub group: u32,
    /// Zero for the call that begins an operation; every call that continues it has its own number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call: u32,
}

/// Omits numbers that are almost always zero from the encoding.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The final status.
    pub status: Status,
    /// The output of the run.
    pub output: Value,
    /// The error, unless the run succeeded.
    pub error: Option<ErrorInfo>,
    /// The reply the run gave before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<RunReply>,
    /// The resources its jobs used, if the root meters them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
}

/// One iteration of a loop, for the loop's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationRecord {
    /// The loop's path; followed by `~` and its generation for a loop that was entered before under this path.
    pub loop_path: Arc<str>,
    /// The index of the iteration, counted from 0.
    pub index: u64,
    /// The final status of the iteration.
    pub status: Status,
    /// The time at which the iteration began.
    pub started_at: Timestamp,
    /// The time from its beginning to its end.
    pub duration: Duration,
    /// The value of the loop's condition after the iteration; None if it was not evaluated.
    pub condition: Option<bool>,
    /// The output of the iteration, or a reference to it.
    pub result: Value,
    /// The error, if the iteration did not succeed.
    pub error: Option<ErrorInfo>,
    /// Set on the loop's last iteration.
    pub reason: Option<LoopEndReason>,
    /// The item of the iteration, in a loop over items. It identifies the iteration that failed. Only small items are
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
    /// The verdict of the loop's judge on the iteration, if it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<IterationVerdict>,
}

/// The verdict of a judge on an iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationVerdict {
    /// Whether the loop is done. None: the judge gave no verdict.
    pub done: Option<bool>,
    /// The reason that the judge gave, or the reason why there is no verdict. A long reason is truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}
