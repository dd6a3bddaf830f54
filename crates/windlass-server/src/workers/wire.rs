//! What workers and the server say to each other. `docs/workers.md` tells it in words.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{ErrorInfo, NextCall, PreviousAttempts, ResumeData, SideOutputs, Suspension, TaskOutcome};
use windlass_value::{Timestamp, Value};

/// Names and texts, sorted.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

// Not the core's `Job`: this one has what a worker outside the server needs besides, and clients know it as `Job`.
/// A task for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
pub struct LeasedJob {
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    /// The lease's number. Whatever is said of the job is said with it.
    pub lease_epoch: u32,
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    #[schema(value_type = serde_json::Value)]
    pub input: Value,
    /// The same on every repeat of the same effect.
    #[schema(value_type = String)]
    pub idempotency_key: Arc<str>,
    pub attempt: u32,
    #[schema(value_type = String)]
    pub path: Arc<str>,
    /// How long it may take from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[schema(value_type = String)]
    pub definition: Arc<str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// For whom references to secrets were made that are opened in this run; the run, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_tree: Option<Arc<str>>,
    /// There are references to secrets in the input, and this is the mark of the key that opens them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub sealed_by: Option<Arc<str>>,
    /// The input is one that the tool has given itself, as `again`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_continuation: bool,
    /// When this attempt was first handed out, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub at: Option<Timestamp>,
    /// What it has got from the waits it asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub resumed: Option<Arc<ResumeData>>,
    /// How the attempt before has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub previous_attempts: Option<Arc<PreviousAttempts>>,
}

/// A worker wants something to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// A fresh id for each life of a worker.
    pub worker: String,
    /// For people.
    #[serde(default)]
    pub name: String,
    /// What it can do.
    pub tools: Vec<String>,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// It takes no jobs of definitions without labels.
    #[serde(default)]
    pub only_labelled: bool,
    /// How many jobs it can have at once.
    #[serde(default = "one")]
    pub slots: u32,
    /// How many it wants now; without it, as many as it has slots free.
    #[serde(default)]
    pub free: Option<u32>,
    /// How long the answer may take while there is nothing to do; at most 30,000.
    #[serde(default)]
    pub wait_ms: u64,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseResponse {
    pub jobs: Vec<LeasedJob>,
    /// Who is silent for so long has lost his jobs.
    pub lease_ms: u64,
    /// So often a worker that has jobs says that it is alive.
    pub heartbeat_ms: u64,
    /// Somebody wants this worker to stop when it has done what it has.
    pub drain: bool,
}

/// One lease, as a worker knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRef {
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
    /// With it, a lease that was lost can be had back if nobody else has the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    pub worker: String,
    /// All that it has.
    #[serde(default)]
    pub jobs: Vec<LeaseRef>,
    /// It takes no more.
    #[serde(default)]
    pub draining: bool,
    /// How long the answer may take while there is nothing to tell; at most a third of the lease.
    #[serde(default)]
    pub wait_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatResponse {
    /// Not, or no longer, its own: it stops, and says nothing more of them.
    pub lost: Vec<LeaseRef>,
    /// Nobody wants the result any more: it stops, and reports `fail`.
    pub cancelled: Vec<LeaseRef>,
    /// It has them under these epochs from now on.
    pub renewed: Vec<LeaseRef>,
    /// Somebody wants this worker to stop when it has done what it has.
    pub drain: bool,
}

impl HeartbeatResponse {
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.cancelled.is_empty() && self.renewed.is_empty() && !self.drain
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressReport {
    pub worker: String,
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
    /// The event's type; without it, `task.progress`.
    #[serde(default)]
    pub r#type: Option<String>,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub data: Value,
}

/// The end of a task, good or bad.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    pub worker: String,
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub output: Value,
    /// What the tool wants known of it, such as durations and usage.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub meta: Value,
    /// What rules can look at besides.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub facts: Value,
    /// The operation is not finished: the tool wants to be called again, so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub next_call: Option<NextCall>,
    /// What the task does to its run besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub side_outputs: Option<Box<SideOutputs>>,
    /// The task waits for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub suspension: Option<Box<Suspension>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    pub worker: String,
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
    pub error: WorkerFailure,
    /// The reply of a service that refused.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub output: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub meta: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub facts: Value,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerFailure {
    /// For programs.
    pub code: String,
    /// What retries go by: `timeout`, `connection`, `http`, `tool`, `cancelled`.
    #[serde(default = "tool")]
    pub kind: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whoever was asked has answered: another try is a new effect, with another key.
    #[serde(default)]
    pub replied: bool,
}

fn tool() -> String {
    "tool".to_owned()
}

impl From<ErrorInfo> for WorkerFailure {
    fn from(error: ErrorInfo) -> WorkerFailure {
        WorkerFailure {
            code: error.code.to_string(),
            kind: error.kind.to_string(),
            message: error.message.to_string(),
            hint: error.hint.map(|hint| hint.to_string()),
            replied: error.replied,
        }
    }
}

impl CompleteRequest {
    pub(crate) fn into_parts(self) -> (ReportOrigin, TaskOutcome) {
        let CompleteRequest {
            worker,
            run,
            job,
            lease_epoch: epoch,
            output,
            meta,
            facts,
            next_call: again,
            side_outputs: beside,
            suspension: awaits,
        } = self;
        let outcome = TaskOutcome {
            output,
            error: None,
            meta,
            next_call: again,
            facts,
            side_outputs: beside,
            suspension: awaits,
            reused: None,
        };
        (ReportOrigin { worker, run, job, lease_epoch: epoch }, outcome)
    }
}

impl FailRequest {
    pub(crate) fn into_parts(self) -> (ReportOrigin, TaskOutcome) {
        let FailRequest { worker, run, job, lease_epoch: epoch, error, output, meta, facts } = self;
        let WorkerFailure { code, kind, message, hint, replied } = error;
        let error = ErrorInfo { hint: hint.map(Into::into), replied, ..ErrorInfo::new(code, kind, message) };
        let outcome = TaskOutcome { output, meta, facts, ..TaskOutcome::failure(error) };
        (ReportOrigin { worker, run, job, lease_epoch: epoch }, outcome)
    }
}

/// Who reports, and of what.
#[derive(Clone, Debug)]
pub struct ReportOrigin {
    pub worker: String,
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
}

/// The answer to a report, which is durable by now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportAccepted {
    /// The pipeline's next task, under the same lease with the next epoch.
    pub next: Option<LeasedJob>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {
    pub worker: String,
}

/// The workers this server knows, and what waits for one.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkerList {
    pub items: Vec<WorkerInfo>,
    pub queued: Vec<QueueInfo>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    Active,
    /// It takes no more, and ends when it has done what it has.
    Draining,
    /// It has been silent for longer than a lease.
    Lost,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkerInfo {
    #[schema(value_type = String)]
    pub worker: Arc<str>,
    pub name: String,
    /// The name of its token.
    pub token: String,
    #[schema(value_type = Vec<String>)]
    pub tools: Vec<Arc<str>>,
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    pub only_labelled: bool,
    pub slots: u32,
    pub state: WorkerState,
    pub seen_at: String,
    pub leases: Vec<LeaseInfo>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LeaseInfo {
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
    #[schema(value_type = String)]
    pub path: Arc<str>,
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    pub since: String,
    /// Unless it says that it is alive.
    pub expires_at: String,
}

/// Jobs that wait for the same kind of worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QueueInfo {
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    pub jobs: usize,
    pub oldest_at: String,
}
