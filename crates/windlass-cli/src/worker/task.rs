//! One job: runs each task, reports its result to the server, and receives the next task in the response.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_core::{ErrorInfo, TaskOutcome, TickKind};
use windlass_runtime::{CallerDefinition, EventPublisher, LogSink, ReplyMemory, TaskLog, TaskLogLimits, ToolCall};
use windlass_server::workers::{
    CompleteRequest, FailRequest, LeasedJob, LogReport, LogReportLine, ProgressReport, ReportAccepted,
};
use windlass_store::{LogStream, NewLogLine};

use super::client::ServerRequestError;
use super::{Backoff, HeldLease, RESPONSE_SLACK, RemoteWorker, describe_error};
use crate::credentials::job as credentials;
use crate::out;

/// Maximum number of log lines in one request.
const MAX_BATCH_LINES: usize = 500;

/// Time that a result waits for the task's last events.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(5);

impl RemoteWorker {
    /// Runs the tasks of a job until the pipeline ends or continues elsewhere.
    pub(super) async fn work(self: Arc<Self>, job: LeasedJob) {
        let id = (job.run.clone(), job.job);
        let mut next = Some(job);
        while let Some(job) = next.take() {
            let lease = self.track_lease(&job);
            let mut lost = lease.lost.clone();
            next = tokio::select! {
                next = self.run_task(job, &lease) => next,
                () = lost.wait() => None,
            };
        }
        self.leases().remove(&id);
        self.changed.notify_waiters();
    }

    async fn run_task(&self, job: LeasedJob, lease: &HeldLease) -> Option<LeasedJob> {
        let outcome = self.perform(&job, lease).await;
        let (side_outputs, suspension) = (outcome.side_outputs.clone(), outcome.suspension.clone());
        let outcome = TaskOutcome { side_outputs, suspension, ..self.redaction.redact_outcome(outcome) };
        self.report(&job, lease, outcome).await
    }

    /// Runs the task as a worker inside an engine would. A cancelled or timed-out task is dropped where it stands.
    async fn perform(&self, job: &LeasedJob, lease: &HeldLease) -> TaskOutcome {
        let Some(tool) = self.tools.get(&job.tool) else {
            let message = format!("this worker has no tool `{}`", job.tool);
            return TaskOutcome::failure(ErrorInfo::new("NoSuchTool", "tool", message));
        };
        let (publish, events) = EventPublisher::channel();
        let (sink, lines) = mpsc::unbounded_channel();
        let source = (job.run.clone(), job.path.clone(), job.attempt);
        let log = TaskLog::new(Arc::new(LineChannel(sink)), source, TaskLogLimits::from_limits(&self.limits));
        let timeout = job.timeout_ms.map(Duration::from_millis);
        let call = ToolCall {
            tool: job.tool.clone(),
            definition: Arc::new(CallerDefinition { name: job.definition.clone(), labels: job.labels.clone() }),
            job: job.job,
            lease_epoch: job.lease_epoch,
            input: job.input.clone(),
            key: job.idempotency_key.clone(),
            attempt: job.attempt,
            is_continuation: job.is_continuation,
            run: job.run.clone(),
            run_tree: job.run_tree.clone().unwrap_or_else(|| job.run.clone()),
            sealed_by: job.sealed_by.clone(),
            path: job.path.clone(),
            timeout: job.timeout_ms.map(windlass_value::Duration::from_ms),
            at: job.at,
            resumed: job.resumed.clone(),
            tried: job.previous_attempts.clone(),
            cancelled: lease.cancelled.clone(),
            publish,
            log,
            memory: ReplyMemory::default(),
            remote_lease: None,
        };
        // In a separate task: a panic of the tool ends that task, not the worker.
        let (tool, credentials, known) = (tool.clone(), job.credentials.clone(), self.known_secrets.clone());
        let task =
            async move { credentials::with_credentials(&credentials, &known, async { tool.call(call).await }).await };
        let mut running = AbortOnDrop(tokio::spawn(task));
        let mut cancelled = lease.cancelled.clone();
        // The future owns the running task, which therefore ends with it.
        let done = async move {
            tokio::select! {
                biased;
                outcome = &mut running.0 => outcome.unwrap_or_else(|_| {
                    failure("ToolPanicked", "tool", "the tool panicked")
                }),
                () = cancelled.wait() => failure("Cancelled", "cancelled", "the task was cancelled"),
                () = sleep_or_never(timeout) => failure("timeout", "timeout", "the task took longer than its timeout allows"),
            }
        };
        let sending = async {
            tokio::join!(self.send_events(job, lease, events), self.send_lines(job, lease, lines));
        };
        tokio::pin!(sending, done);
        let mut all_sent = false;
        let outcome = loop {
            tokio::select! {
                outcome = &mut done => break outcome,
                () = &mut sending, if !all_sent => all_sent = true,
            }
        };
        // The task publishes nothing more: pending events go before the result.
        if !all_sent {
            let _ = tokio::time::timeout(EVENTS_TIMEOUT, sending).await;
        }
        outcome
    }

    /// Sends the events of the task in order, until it can publish no more.
    async fn send_events(&self, job: &LeasedJob, lease: &HeldLease, mut events: mpsc::UnboundedReceiver<TickKind>) {
        while let Some(tick) = events.recv().await {
            let (kind, data) = match tick {
                TickKind::PublishEvent { kind, data, .. } => (Some(kind.to_string()), data),
                TickKind::Progress { data, .. } => (None, data),
                _ => continue,
            };
            let progress = ProgressReport {
                worker: self.poll_request.worker.clone(),
                run: job.run.clone(),
                job: job.job,
                lease_epoch: lease.lease_epoch.load(Ordering::SeqCst),
                r#type: kind,
                data: self.redaction.redact_value(&data),
            };
            // Events are for observers: none is worth failing the task.
            let _: Result<(), ServerRequestError> = self.client.post("progress", &progress, RESPONSE_SLACK).await;
        }
    }

    /// Sends the log lines of the task, until it can write no more.
    async fn send_lines(&self, job: &LeasedJob, lease: &HeldLease, mut lines: mpsc::UnboundedReceiver<NewLogLine>) {
        let mut batch = Vec::new();
        while lines.recv_many(&mut batch, MAX_BATCH_LINES).await > 0 {
            let is_lost = |line: &NewLogLine| line.stream == LogStream::Lost;
            let lost = batch.iter().filter(|line| is_lost(line)).filter_map(|line| line.text.parse::<u64>().ok()).sum();
            let line = |line: &NewLogLine| LogReportLine {
                stream: Some(line.stream.as_str().to_owned()),
                text: self.redaction.redact_text(&line.text),
            };
            let report = LogReport {
                worker: self.poll_request.worker.clone(),
                run: job.run.clone(),
                job: job.job,
                lease_epoch: lease.lease_epoch.load(Ordering::SeqCst),
                lines: batch.iter().filter(|one| !is_lost(one)).map(line).collect(),
                lost,
            };
            // Log lines are for people: none is worth failing the task.
            let _: Result<(), ServerRequestError> = self.client.post("log", &report, RESPONSE_SLACK).await;
            batch.clear();
        }
    }

    /// Reports the result to the server, and retries while the server is unreachable.
    async fn report(&self, job: &LeasedJob, lease: &HeldLease, mut outcome: TaskOutcome) -> Option<LeasedJob> {
        // The server accepts no larger request.
        let max_bytes = self.limits.max_worker_result_bytes;
        if outcome.output.size_up_to(max_bytes) > max_bytes {
            outcome = too_large();
        }
        let (begun, mut backoff) = (Instant::now(), Backoff::new());
        while begun.elapsed() < self.limits.max_worker_result_wait.to_std() {
            let lease_epoch = lease.lease_epoch.load(Ordering::SeqCst);
            match self.send(job, lease_epoch, &outcome).await {
                Ok(ReportAccepted { next }) => return next,
                Err(ServerRequestError::StaleLease) if lease.lease_epoch.load(Ordering::SeqCst) != lease_epoch => {}
                Err(ServerRequestError::StaleLease) => {
                    // A restarted server may not know yet that this worker has the job. The heartbeat informs it, and
                    // the response may renew the lease under another lease epoch.
                    let _ = self.heartbeat(Duration::ZERO).await;
                    if lease.lease_epoch.load(Ordering::SeqCst) == lease_epoch {
                        backoff.wait().await;
                    }
                }
                Err(ServerRequestError::Unreachable(_)) => backoff.wait().await,
                Err(ServerRequestError::Rejected { status: 413, .. }) => outcome = too_large(),
                Err(error) if outcome.error.as_ref().is_some_and(|error| &*error.code == "ResultRejected") => {
                    out::note(&format!("{}: the server rejects its report: {}", job.path, describe_error(&error)));
                    return None;
                }
                Err(error) => outcome = failure("ResultRejected", "tool", &describe_error(&error)),
            }
        }
        out::note(&format!(
            "{}: its result is discarded: the server was unreachable for {} (`limits.max_worker_result_wait` in windlass.toml)",
            job.path, self.limits.max_worker_result_wait
        ));
        None
    }

    async fn send(
        &self,
        job: &LeasedJob,
        lease_epoch: u32,
        outcome: &TaskOutcome,
    ) -> Result<ReportAccepted, ServerRequestError> {
        let (worker, run, number) = (self.poll_request.worker.clone(), job.run.clone(), job.job);
        let TaskOutcome { output, error, meta, next_call: again, facts, private, side_outputs, suspension, .. } =
            outcome.clone();
        match error {
            Some(error) => {
                let error = error.into();
                let fail = FailRequest { worker, run, job: number, lease_epoch, error, output, meta, facts };
                self.client.post("fail", &fail, RESPONSE_SLACK * 4).await
            }
            None => {
                let complete = CompleteRequest {
                    worker,
                    run,
                    job: number,
                    lease_epoch,
                    output,
                    meta,
                    facts,
                    private,
                    next_call: again,
                    side_outputs,
                    suspension,
                };
                self.client.post("complete", &complete, RESPONSE_SLACK * 4).await
            }
        }
    }
}

/// Passes the log lines of a task to the loop that sends them.
struct LineChannel(mpsc::UnboundedSender<NewLogLine>);

impl LogSink for LineChannel {
    fn push(&self, line: NewLogLine) {
        // A closed channel means that the task's result is being sent.
        let _ = self.0.send(line);
    }
}

/// A task of the runtime that is aborted when the handle is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<TaskOutcome>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn sleep_or_never(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn too_large() -> TaskOutcome {
    let message = "the result is larger than a server accepts from a worker";
    let hint = "raise `limits.max_worker_result_bytes` of the worker and `server.max_body_bytes` of the server in windlass.toml";
    TaskOutcome::failure(ErrorInfo::new("ResultTooLarge", "limit", message).hint(hint))
}

fn failure(code: &str, kind: &str, message: &str) -> TaskOutcome {
    TaskOutcome::failure(ErrorInfo::new(code, kind, message))
}
