//! Messages between workers and the server. `docs/workers.md` describes the protocol.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{ErrorInfo, NextCall, PreviousAttempts, ResumeData, SideOutputs, Suspension, TaskOutcome};
use windlass_value::{Timestamp, Value};

/// Label names and values, sorted.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

// Not the core's `Job`: this type adds what a remote worker needs, and clients know it as `Job`.
/// A task for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
pub struct LeasedJob {
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    /// The fencing token of the lease. Every message about the job contains it.
    pub lease_epoch: u32,
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    #[schema(value_type = serde_json::Value)]
    pub input: Value,
    /// The same for every repeat of the same effect.
    #[schema(value_type = String)]
    pub idempotency_key: Arc<str>,
    pub attempt: u32,
    #[schema(value_type = String)]
    pub path: Arc<str>,
    /// Remaining time for the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[schema(value_type = String)]
    pub definition: Arc<str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Id of the run tree whose sealed secret references this run may open; absent if it is the id of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_tree: Option<Arc<str>>,
    /// The input contains secret references; this identifies the key that opens them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub sealed_by: Option<Arc<str>>,
    /// The input is the one that the tool itself returned as `next_call`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_continuation: bool,
    /// Time at which this attempt was first dispatched, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub at: Option<Timestamp>,
    /// Results of the waits that the task asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub resumed: Option<Arc<ResumeData>>,
    /// Failure of the previous attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub previous_attempts: Option<Arc<PreviousAttempts>>,
}

/// A request for jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// A fresh id for each lifetime of a worker.
    pub worker: String,
    /// Display name.
    #[serde(default)]
    pub name: String,
    /// Tools that the worker can run.
    pub tools: Vec<String>,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Take no jobs of definitions without labels.
    #[serde(default)]
    pub only_labelled: bool,
    /// Maximum number of concurrent jobs.
    #[serde(default = "one")]
    pub slots: u32,
    /// Maximum number of jobs requested now; by default all free slots.
    #[serde(default)]
    pub free: Option<u32>,
    /// Time to wait for jobs in milliseconds; at most 30,000.
    #[serde(default)]
    pub wait_ms: u64,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseResponse {
    pub jobs: Vec<LeasedJob>,
    /// A worker that sends no heartbeat for this long loses its jobs.
    pub lease_ms: u64,
    /// Interval at which a worker with jobs sends heartbeats.
    pub heartbeat_ms: u64,
    /// The worker has been asked to stop when its jobs are done.
    pub drain: bool,
}

/// One lease as known to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRef {
    #[schema(value_type = String)]
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
    /// With it, an expired lease can be reclaimed if no other worker has the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    pub worker: String,
    /// All leases of the worker.
    #[serde(default)]
    pub jobs: Vec<LeaseRef>,
    /// The worker takes no more jobs.
    #[serde(default)]
    pub draining: bool,
    /// Time to wait while there is nothing to report, in milliseconds; at most a third of the lease.
    #[serde(default)]
    pub wait_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatResponse {
    /// Leases that are not, or no longer, the worker's: it stops these jobs and reports nothing more about them.
    pub lost: Vec<LeaseRef>,
    /// Cancelled jobs: the worker stops them and reports `fail`.
    pub cancelled: Vec<LeaseRef>,
    /// Leases that continue under these new epochs.
    pub renewed: Vec<LeaseRef>,
    /// The worker has been asked to stop when its jobs are done.
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
    /// The event's type; by default `task.progress`.
    #[serde(default)]
    pub r#type: Option<String>,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub data: Value,
}

/// The successful end of a task.
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
    /// Metadata of the tool, such as durations and usage.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub meta: Value,
    /// Additional facts that rules can refer to.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub facts: Value,
    /// The operation is not finished: the tool asks to be called again with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub next_call: Option<NextCall>,
    /// Side outputs of the task: sends and state changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub side_outputs: Option<Box<SideOutputs>>,
    /// The suspension of the task until an event, a timer or a child run.
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
    /// Machine-readable code.
    pub code: String,
    /// The kind that retry rules match: `timeout`, `connection`, `http`, `tool`, `cancelled`.
    #[serde(default = "tool")]
    pub kind: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The called service has replied: another attempt is a new effect, with another idempotency key.
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
        let CompleteRequest { worker, run, job, lease_epoch, output, meta, facts, next_call, side_outputs, suspension } =
            self;
        let outcome =
            TaskOutcome { output, error: None, meta, next_call, facts, side_outputs, suspension, reused: None };
        (ReportOrigin { worker, run, job, lease_epoch }, outcome)
    }
}

impl FailRequest {
    pub(crate) fn into_parts(self) -> (ReportOrigin, TaskOutcome) {
        let FailRequest { worker, run, job, lease_epoch, error, output, meta, facts } = self;
        let WorkerFailure { code, kind, message, hint, replied } = error;
        let error = ErrorInfo { hint: hint.map(Into::into), replied, ..ErrorInfo::new(code, kind, message) };
        let outcome = TaskOutcome { output, meta, facts, ..TaskOutcome::failure(error) };
        (ReportOrigin { worker, run, job, lease_epoch }, outcome)
    }
}

/// The worker and job of a report.
#[derive(Clone, Debug)]
pub struct ReportOrigin {
    pub worker: String,
    pub run: Arc<str>,
    pub job: u64,
    pub lease_epoch: u32,
}

/// The response to a report that is durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportAccepted {
    /// The pipeline's next task, under the same lease with the next epoch.
    pub next: Option<LeasedJob>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeregisterRequest {
    pub worker: String,
}

/// The workers known to this server, and the queued jobs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkerList {
    pub items: Vec<WorkerInfo>,
    pub queued: Vec<QueueInfo>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    Active,
    /// It takes no more jobs and ends when its jobs are done.
    Draining,
    /// It has sent nothing for longer than a lease.
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
    /// Expiry unless a heartbeat renews it.
    pub expires_at: String,
}

/// Queued jobs that need the same kind of worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QueueInfo {
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    pub jobs: usize,
    pub oldest_at: String,
}
