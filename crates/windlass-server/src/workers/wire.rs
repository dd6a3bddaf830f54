//! Messages between workers and the server. `docs/workers.md` describes the protocol.

#![deny(clippy::missing_docs_in_private_items)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{ErrorInfo, NextCall, PreviousAttempts, ResumeData, SideOutputs, Suspension, TaskOutcome};
use windlass_store::LogStream;
use windlass_value::{Timestamp, Value};

/// Label names and values, sorted.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

// Not the core's `Job`: this type adds what a remote worker needs, and clients know it as `Job`.
/// A task for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
pub struct LeasedJob {
    /// The id of the run.
    #[schema(value_type = String)]
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease. Every message about the job contains it.
    pub lease_epoch: u32,
    /// The tool to run.
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    /// The input of the tool.
    #[schema(value_type = serde_json::Value)]
    pub input: Value,
    /// The same for every repeat of the same effect.
    #[schema(value_type = String)]
    pub idempotency_key: Arc<str>,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The path of the task in the run.
    #[schema(value_type = String)]
    pub path: Arc<str>,
    /// Remaining time for the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Name of the run's definition.
    #[schema(value_type = String)]
    pub definition: Arc<str>,
    /// Labels that the definition requires of its workers.
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
    /// The stored credentials that the task refers to, by name. They are for this task only, and must not be stored or
    /// shown. Those that the worker has itself come first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, JobCredential>,
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

/// A stored credential that a task refers to: its value, or the reason why it cannot be opened.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobCredential {
    /// A text, a URL, or a JSON object as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The reason why there is no value, as a part of a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Advice on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl std::fmt::Debug for JobCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobCredential(***)")
    }
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
    /// The labels of the worker.
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

/// The number of slots of a worker that gives none.
fn one() -> u32 {
    1
}

/// Jobs for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseResponse {
    /// The leased jobs; empty if none arrived in time.
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
    /// The id of the run.
    #[schema(value_type = String)]
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease.
    pub lease_epoch: u32,
    /// With it, an expired lease can be reclaimed if no other worker has the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The number of the attempt, to reclaim an expired lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// Renews the leases of a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// The id of the worker.
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

/// The news about a worker's leases.
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
    /// Returns whether there is nothing to report to the worker.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.cancelled.is_empty() && self.renewed.is_empty() && !self.drain
    }
}

/// An event that a task publishes while it runs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressReport {
    /// The id of the worker.
    pub worker: String,
    /// The id of the run.
    #[schema(value_type = String)]
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease.
    pub lease_epoch: u32,
    /// The event's type; by default `task.progress`.
    #[serde(default)]
    pub r#type: Option<String>,
    /// The data of the event.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub data: Value,
}

/// Log lines of a running task.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogReport {
    /// The id of the worker.
    pub worker: String,
    /// The id of the run.
    #[schema(value_type = String)]
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease.
    pub lease_epoch: u32,
    /// The lines, in order.
    pub lines: Vec<LogReportLine>,
    /// Number of lines that the worker could not send.
    #[serde(default)]
    pub lost: u64,
}

/// A log line of a worker.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogReportLine {
    /// stdout, stderr or log; log by default
    #[serde(default)]
    pub stream: Option<String>,
    /// The text. Line breaks make several lines of it.
    pub text: String,
}

impl LogReportLine {
    /// Returns the stream; an unknown one is the worker's own log.
    pub(crate) fn stream(&self) -> LogStream {
        let named = self.stream.as_deref().and_then(LogStream::parse);
        named.filter(|stream| *stream != LogStream::Lost).unwrap_or(LogStream::Log)
    }
}

/// The successful end of a task.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    /// The id of the worker.
    pub worker: String,
    /// The id of the run.
    #[schema(value_type = String)]
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease.
    pub lease_epoch: u32,
    /// The output of the task.
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
    /// State that the tool wants to see again. It is stored and never shown.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = serde_json::Value)]
    pub private: Value,
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

/// The unsuccessful end of a task.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    /// The id of the worker.
    pub worker: String,
    /// The id of the run.
    #[schema(value_type = String)]
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease.
    pub lease_epoch: u32,
    /// The reason.
    pub error: WorkerFailure,
    /// The reply of a service that refused.
    #[serde(default, skip_serializing_if = "Value::is_null")]
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
}

/// The reason why a task failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerFailure {
    /// Machine-readable code.
    pub code: String,
    /// The kind that retry rules match: `timeout`, `connection`, `http`, `tool`, `cancelled`.
    #[serde(default = "tool")]
    pub kind: String,
    /// A description for people, without secrets.
    pub message: String,
    /// Advice on how to fix it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The called service has replied: another attempt is a new effect, with another idempotency key.
    #[serde(default)]
    pub replied: bool,
}

/// The kind of a failure that gives none.
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
    /// Splits the report into its origin and the outcome of the task.
    pub(crate) fn into_parts(self) -> (ReportOrigin, TaskOutcome) {
        let CompleteRequest { worker, run, job, lease_epoch, .. } = self;
        let outcome = TaskOutcome {
            output: self.output,
            error: None,
            meta: self.meta,
            next_call: self.next_call,
            facts: self.facts,
            private: self.private,
            side_outputs: self.side_outputs,
            suspension: self.suspension,
            reused: None,
        };
        (ReportOrigin { worker, run, job, lease_epoch }, outcome)
    }
}

impl FailRequest {
    /// Splits the report into its origin and the outcome of the task.
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
    /// The id of the worker.
    pub worker: String,
    /// The id of the run.
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token under which the report was made.
    pub lease_epoch: u32,
}

/// The response to a report that is durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReportAccepted {
    /// The pipeline's next task, under the same lease with the next epoch.
    pub next: Option<LeasedJob>,
}

/// The end of a worker. Its leases end, and other workers get its jobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeregisterRequest {
    /// The id of the worker.
    pub worker: String,
}

/// The workers known to this server, and the queued jobs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkerList {
    /// The workers.
    pub items: Vec<WorkerInfo>,
    /// The queued jobs, by the kind of worker that they need.
    pub queued: Vec<QueueInfo>,
}

/// The state of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// It takes jobs.
    Active,
    /// It takes no more jobs and ends when its jobs are done.
    Draining,
    /// It has sent nothing for longer than a lease.
    Lost,
}

/// A worker known to this server.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WorkerInfo {
    /// The id of the worker, new for each of its lifetimes.
    #[schema(value_type = String)]
    pub worker: Arc<str>,
    /// Display name.
    pub name: String,
    /// The name of its token.
    pub token: String,
    /// Tools that the worker can run.
    #[schema(value_type = Vec<String>)]
    pub tools: Vec<Arc<str>>,
    /// The labels of the worker.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// It takes no jobs of definitions without labels.
    pub only_labelled: bool,
    /// Maximum number of concurrent jobs.
    pub slots: u32,
    /// Whether it takes jobs.
    pub state: WorkerState,
    /// Time of its last message, RFC 3339.
    pub seen_at: String,
    /// The jobs that it holds.
    pub leases: Vec<LeaseInfo>,
}

/// A job that a worker holds.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LeaseInfo {
    /// The id of the run.
    #[schema(value_type = String)]
    pub run: Arc<str>,
    /// The number of the job in the run.
    pub job: u64,
    /// The fencing token of the lease.
    pub lease_epoch: u32,
    /// The path of the task in the run.
    #[schema(value_type = String)]
    pub path: Arc<str>,
    /// The tool that runs.
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    /// Time at which the worker got the job, RFC 3339.
    pub since: String,
    /// Expiry unless a heartbeat renews it.
    pub expires_at: String,
}

/// Queued jobs that need the same kind of worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QueueInfo {
    /// The required tool.
    #[schema(value_type = String)]
    pub tool: Arc<str>,
    /// The required labels.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// The number of queued jobs.
    pub jobs: usize,
    /// Time at which the oldest of them was queued, RFC 3339.
    pub oldest_at: String,
}
