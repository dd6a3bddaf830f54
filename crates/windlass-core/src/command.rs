//! Commands: the outputs of the reducer. What the control loop must do, in this order, once the tick is durable.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, Timestamp, Value};

use crate::{ErrorInfo, Event, LoopEndReason, RunReply, Status, TickKind, WaitResult};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// A tick for this run's own buffer.
    QueueEvent(TickKind),
    /// A job for a worker.
    RunWorker(Job),
    /// Whoever runs this job should stop and confirm.
    CancelWorker { job: u64 },
    /// Whoever holds this job between two tasks holds it no longer: its pipeline has ended, or gives the lease back because
    /// it waits for long. The same number with a higher epoch may follow.
    EndLease { job: u64, lease_epoch: u32 },
    /// A child run.
    StartChild { call: u64, definition: Arc<str>, input: Value, key: EffectKey },
    /// The child run is no longer wanted.
    CancelChild { key: EffectKey },
    /// An answer to whoever started the run, which goes on.
    Reply(RunReply),
    /// The run has succeeded.
    CompleteRun(RunResult),
    /// The run was cancelled or has timed out.
    Halt(RunResult),
    /// The run has failed.
    FailWorkflow(RunResult),
    /// Something to be seen outside.
    PublishEvent(Event),
}

/// Work under a lease: a task of a pipeline, with all that is needed to hand it out, and to hand it out again. The pipeline
/// is one job from its first effect to its end, so the answer to a worker's report is either the next of these under the
/// same number, or the lease's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub job: u64,
    /// Goes up whenever something of the job is handed out: the lease's epoch. A report with another number is late.
    pub lease_epoch: u32,
    /// The smallest number that no other job of the run has. It stays while the lease is held.
    pub worker: u32,
    pub tool: Arc<str>,
    pub input: Value,
    /// Holds the task's path as well: see [`Job::path`].
    pub key: EffectKey,
    pub attempt: u32,
    pub timeout: Option<Duration>,
    /// When this attempt was first handed out. A repeat after a crash has the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The task has waited, and goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Arc<ResumeData>>,
    /// The attempts before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_attempts: Option<Arc<PreviousAttempts>>,
}

impl Job {
    /// The path of the task, which is part of its idempotency key.
    pub fn path(&self) -> &Arc<str> {
        &self.key.path
    }
}

/// What a task that is tried again is told of the attempts before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreviousAttempts {
    /// When the first began.
    pub since: Timestamp,
    pub failed_at: Timestamp,
    pub error: ErrorInfo,
}

/// What a task that goes on is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResumeData {
    /// In the order of its waits.
    pub answers: Vec<WaitResult>,
    /// Events that it has published before.
    pub published_events: u64,
}

/// What an idempotency key is made of, together with the run's key root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectKey {
    pub path: Arc<str>,
    /// Which entry of the frame this is, over all retries of what encloses it.
    pub generation: u32,
    /// How often the task was reached again by a jump or an arc.
    pub visit: u32,
    /// Goes up only when a retry follows a received reply.
    pub group: u32,
    /// Zero for the call that begins an operation; each one that goes on with it has a number of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call: u32,
}

/// Leaves numbers that are almost always zero out of the encoding.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub status: Status,
    pub output: Value,
    pub error: Option<ErrorInfo>,
    /// What the run has answered before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<RunReply>,
    /// What its jobs have used, if its root counts that.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
}

/// One turn of a loop, for its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationRecord {
    /// The loop's path; followed by `~` and its generation for a loop that was entered before under this path.
    pub loop_path: Arc<str>,
    pub index: u64,
    pub status: Status,
    pub started_at: Timestamp,
    pub duration: Duration,
    pub condition: Option<bool>,
    pub result: Value,
    pub error: Option<ErrorInfo>,
    /// Set on the loop's last turn.
    pub reason: Option<LoopEndReason>,
    /// What the turn was for, of a loop over items: whoever looks for the one that went wrong goes by it. Small ones only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
}
