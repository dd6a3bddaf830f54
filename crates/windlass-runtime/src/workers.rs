//! The in-process workers. A worker holds a task under a lease: it sends heartbeats, and a report is accepted only
//! with the epoch of the lease. Between two tasks of a pipeline no worker here is occupied: the state records which
//! worker has the job.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug_span};
use windlass_core::{ErrorInfo, Job, ProcessLimits, TaskOutcome, TickKind};
use windlass_value::{Duration, Value};

use crate::adapter::FinalizedJob;
use crate::codec;
use crate::reply_memory::{ReplyBudget, ReplyMemory, ReplyPermit, is_large};
use crate::reused_results::ReusedResults;
use crate::task_log::{LogSink, TaskLog, TaskLogLimits};
use crate::tool::{CallerDefinition, CancelToken, EventPublisher, Tool, ToolCall, ToolFuture, Tools, no_such_tool};

/// The default time after which a silent worker loses its lease and its task is handed to another worker.
pub(crate) const DEFAULT_LEASE: std::time::Duration = std::time::Duration::from_secs(30);

/// The number of heartbeats per lease. Leases are checked half as often.
const HEARTBEATS_PER_LEASE: u32 = 6;

/// Shared by all runs of an engine: the tools, and the limit of concurrent jobs over all runs.
#[derive(Clone)]
pub struct WorkerPool {
    tools: Tools,
    slots: Arc<Semaphore>,
    max_concurrency: usize,
    lease: std::time::Duration,
    replies: ReplyBudget,
    /// The receiver of log lines.
    logs: Option<(Arc<dyn LogSink>, TaskLogLimits)>,
}

impl WorkerPool {
    /// Creates a pool with leases of 30 seconds that runs at most `max_job_concurrency` jobs at the same time.
    pub fn new(tools: Tools, max_job_concurrency: usize) -> WorkerPool {
        WorkerPool {
            tools,
            slots: Arc::new(Semaphore::new(max_job_concurrency)),
            max_concurrency: max_job_concurrency,
            lease: DEFAULT_LEASE,
            replies: ReplyBudget::new(ProcessLimits::default().max_total_reply_bytes),
            logs: None,
        }
    }

    /// Sets the receiver of log lines. Without it they are discarded.
    #[must_use]
    pub(crate) fn with_logs(self, sink: Arc<dyn LogSink>, limits: TaskLogLimits) -> WorkerPool {
        WorkerPool { logs: Some((sink, limits)), ..self }
    }

    fn task_log(&self, run: &Arc<str>, path: &Arc<str>, attempt: u32) -> TaskLog {
        match &self.logs {
            Some((sink, limits)) => TaskLog::new(sink.clone(), (run.clone(), path.clone(), attempt), *limits),
            None => TaskLog::disconnected(),
        }
    }

    /// Sets the memory of all replies in flight.
    #[must_use]
    pub(crate) fn with_reply_bytes(self, max_bytes: usize) -> WorkerPool {
        WorkerPool { replies: ReplyBudget::new(max_bytes), ..self }
    }

    /// Sets the duration of leases.
    #[must_use]
    pub(crate) fn with_lease(self, lease: std::time::Duration) -> WorkerPool {
        WorkerPool { lease, ..self }
    }

    /// Returns the bytes that replies in flight have reserved.
    pub(crate) fn reply_bytes(&self) -> usize {
        self.replies.reserved_bytes()
    }

    pub(crate) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Returns the number of tasks that are running now.
    pub(crate) fn in_flight(&self) -> usize {
        self.max_concurrency.saturating_sub(self.slots.available_permits())
    }
}

/// The jobs of one run that are in flight.
pub struct RunWorkers {
    pool: WorkerPool,
    run: Arc<str>,
    run_tree: Arc<str>,
    definition: Arc<CallerDefinition>,
    reports: mpsc::UnboundedSender<TickKind>,
    /// Results of another run that this run reuses.
    reused: Option<Arc<ReusedResults>>,
    leases: LeaseTable,
    /// The memory of reports that are not durable yet.
    held: HeldReplies,
    /// Jobs of remote workers, which wait until their report is durable.
    remote: BTreeMap<u64, (u32, oneshot::Sender<bool>)>,
    /// Reports that are durable and whose commands are being executed.
    acknowledgements: Vec<(oneshot::Sender<bool>, bool)>,
}

/// By job, with the lease epoch of the report.
type HeldReplies = Arc<Mutex<BTreeMap<u64, (u32, ReplyPermit)>>>;

type LeaseTable = Arc<Mutex<BTreeMap<u64, TaskLease>>>;

struct TaskLease {
    lease_epoch: u32,
    /// `None`: a remote worker holds the job, and the remote protocol checks its heartbeats.
    last_heartbeat: Option<Instant>,
    cancelled: CancelToken,
    task: Option<tokio::task::AbortHandle>,
}

impl RunWorkers {
    /// Creates the workers of one run. They send their reports as ticks to `reports`.
    pub fn new(pool: WorkerPool, run: Arc<str>, reports: mpsc::UnboundedSender<TickKind>) -> RunWorkers {
        let (definition, leases, held) = (Arc::default(), Arc::default(), Arc::default());
        let (remote, acknowledgements) = (BTreeMap::new(), Vec::new());
        RunWorkers {
            pool,
            run_tree: run.clone(),
            run,
            definition,
            reports,
            reused: None,
            leases,
            held,
            remote,
            acknowledgements,
        }
    }

    #[must_use]
    pub(crate) fn with_reused_results(mut self, reused: Option<Arc<ReusedResults>>) -> RunWorkers {
        self.reused = reused;
        self
    }

    /// Sets the run tree, for a run that another run has created.
    #[must_use]
    pub(crate) fn with_run_tree(mut self, run_tree: Arc<str>) -> RunWorkers {
        self.run_tree = run_tree;
        self
    }

    /// Sets the definition that the run belongs to.
    #[must_use]
    pub(crate) fn with_definition(mut self, definition: CallerDefinition) -> RunWorkers {
        self.definition = Arc::new(definition);
        self
    }

    /// Returns the interval at which leases are checked.
    pub(crate) fn lease_check_interval(&self) -> Duration {
        let every = self.pool.lease / (HEARTBEATS_PER_LEASE / 2);
        Duration::from_ms(u64::try_from(every.as_millis()).unwrap_or(u64::MAX).max(1))
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.leases().len()
    }

    /// Reports whether a worker in this process is running a task. Remote workers keep their tasks when the run leaves
    /// this process.
    pub(crate) fn has_local_work(&self) -> bool {
        self.leases().values().any(|lease| lease.last_heartbeat.is_some())
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, TaskLease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job to a worker. The caller has loaded its stored inputs.
    pub(crate) fn run(&mut self, job: Job, input: Value) {
        let (number, lease_epoch) = (job.job, job.lease_epoch);
        if let Some(outcome) = self.reused.as_ref().and_then(|reused| reused.reuse_job(&job)) {
            return send_report(&self.reports, number, lease_epoch, outcome);
        }
        let Some(tool) = self.pool.tools.get(&job.tool) else {
            let outcome = no_such_tool(&job.tool, &self.pool.tools);
            return send_report(&self.reports, number, lease_epoch, outcome);
        };
        let span = debug_span!(
            "job",
            run = &*self.run,
            path = &**job.path(),
            job = number,
            attempt = job.attempt,
            tool = &*job.tool
        );
        let cancelled = CancelToken::uncancelled();
        let log = self.pool.task_log(&self.run, &job.key.path, job.attempt);
        let memory = self.pool.replies.call();
        let call = ToolCall {
            tool: job.tool,
            definition: self.definition.clone(),
            job: number,
            lease_epoch,
            input,
            key: codec::effect_key(&self.run, &job.key).into(),
            attempt: job.attempt,
            is_continuation: job.key.call > 0,
            run: self.run.clone(),
            run_tree: self.run_tree.clone(),
            sealed_by: None,
            path: job.key.path,
            timeout: job.timeout,
            cancelled: cancelled.clone(),
            at: job.at,
            resumed: job.resumed,
            tried: job.previous_attempts,
            publish: EventPublisher::new(&self.reports, number, lease_epoch),
            log,
            memory: memory.clone(),
            remote_lease: None,
        };
        if tool.runs_remotely(&call) {
            let tool = tool.clone();
            return self.run_remotely(&*tool, call, span);
        }
        let pending_work = match self.pool.slots.clone().try_acquire_owned() {
            Err(_) => PendingWork::Queued(tool.clone(), Box::new(call)),
            Ok(slot) => match span.in_scope(|| call_and_poll_once(&**tool, call)) {
                ControlFlow::Break(outcome) if is_large(&outcome) => PendingWork::Finished(Box::new(outcome), slot),
                ControlFlow::Break(outcome) => return send_report(&self.reports, number, lease_epoch, outcome),
                ControlFlow::Continue(called) => PendingWork::Started(called, slot),
            },
        };
        let task_lease =
            TaskLease { lease_epoch, last_heartbeat: Some(Instant::now()), cancelled: cancelled.clone(), task: None };
        self.leases().insert(number, task_lease);
        let (slots, leases, reports) = (self.pool.slots.clone(), self.leases.clone(), self.reports.clone());
        let holder = LeaseHolder {
            leases,
            job: number,
            lease_epoch,
            heartbeat_interval: self.pool.lease / HEARTBEATS_PER_LEASE,
        };
        let reply = ReplyInFlight { memory, held: self.held.clone() };
        let work = run_in_slot(pending_work, job.timeout, slots, reply.memory.clone());
        let task_future = hold_lease(work, cancelled, holder, reply, reports).instrument(span);
        let task = tokio::spawn(task_future).abort_handle();
        if let Some(lease) = self.leases().get_mut(&number) {
            lease.task = Some(task);
        }
    }

    /// Hands a job to a remote worker. It takes no slot, since nothing runs here.
    fn run_remotely(&mut self, tool: &dyn Tool, mut call: ToolCall, span: Span) {
        let (job, lease_epoch, cancelled) = (call.job, call.lease_epoch, call.cancelled.clone());
        let (sender, accepted) = oneshot::channel();
        let (leases, reports) = (self.leases.clone(), self.reports.clone());
        let reply = ReplyInFlight { memory: call.memory.clone(), held: self.held.clone() };
        call.remote_lease =
            Some(RemoteLease { job, lease_epoch, leases: leases.clone(), reports: reports.clone(), accepted });
        if self.remote.len() >= 2 * self.leases().len().max(32) {
            // Jobs whose lease was lost and that were not dispatched again.
            self.remote.retain(|_, (_, sender)| !sender.is_closed());
        }
        // Before the call, which may complete immediately.
        self.remote.insert(job, (lease_epoch, sender));
        self.leases().insert(job, TaskLease { lease_epoch, last_heartbeat: None, cancelled, task: None });
        match span.in_scope(|| call_and_poll_once(tool, call)) {
            ControlFlow::Break(outcome) => send_report_and_end_lease(&leases, &reports, job, lease_epoch, outcome),
            ControlFlow::Continue(called) => {
                let remote_call = async move {
                    let outcome = called.await;
                    reply.memory.settle(&outcome).await;
                    reply.hold(job, lease_epoch);
                    send_report_and_end_lease(&leases, &reports, job, lease_epoch, outcome);
                };
                let task = tokio::spawn(remote_call.instrument(span)).abort_handle();
                if let Some(lease) = self.leases().get_mut(&job) {
                    lease.task = Some(task);
                }
            }
        }
    }

    /// Called when a report has been reduced and is durable.
    pub(crate) fn finalize(&mut self, step: FinalizedJob) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.get(&step.job).is_some_and(|(lease_epoch, _)| *lease_epoch == step.lease_epoch) {
            held.remove(&step.job);
        }
        drop(held);
        // Workers in this process need no acknowledgement.
        if self.remote.get(&step.job).is_some_and(|(lease_epoch, _)| *lease_epoch == step.lease_epoch)
            && let Some((_, sender)) = self.remote.remove(&step.job)
        {
            self.acknowledgements.push((sender, step.accepted));
        }
    }

    /// Acknowledges the durable reports: the commands that followed from them have been executed.
    pub(crate) fn acknowledge(&mut self) {
        for (sender, counts) in self.acknowledgements.drain(..) {
            // The reporting worker may have gone.
            let _ = sender.send(counts);
        }
    }

    pub(crate) fn cancel(&self, job: u64) {
        if let Some(lease) = self.leases().get(&job) {
            lease.cancelled.cancel();
        }
    }

    /// Ends the leases of workers that have been silent for too long. The reducer refuses whatever they report later.
    pub(crate) fn expire_leases(&self) -> Vec<TickKind> {
        let mut expired = Vec::new();
        self.leases().retain(|job, lease| {
            let alive = lease.last_heartbeat.is_none_or(|at| at.elapsed() < self.pool.lease);
            if !alive {
                if let Some(task) = &lease.task {
                    task.abort();
                }
                expired.push(TickKind::LeaseLost { job: *job, lease_epoch: lease.lease_epoch });
            }
            alive
        });
        expired
    }
}

/// The run leaves this process, so no report can be delivered.
impl Drop for RunWorkers {
    fn drop(&mut self) {
        for lease in self.leases().values() {
            if let Some(task) = &lease.task {
                task.abort();
            }
        }
    }
}

/// The lease of a remote worker on a job.
pub struct RemoteLease {
    job: u64,
    lease_epoch: u32,
    leases: LeaseTable,
    reports: mpsc::UnboundedSender<TickKind>,
    accepted: oneshot::Receiver<bool>,
}

impl RemoteLease {
    /// Revokes the lease because the worker was silent for too long or returned the job. The same task, with the same
    /// key and the next lease epoch, is handed to another worker. The call is aborted.
    pub fn revoke(&self) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if leases.get(&self.job).is_some_and(|lease| lease.lease_epoch == self.lease_epoch)
            && let Some(lease) = leases.remove(&self.job)
        {
            if let Some(task) = &lease.task {
                task.abort();
            }
            // A closed channel means that the run has left this process.
            let _ = self.reports.send(TickKind::LeaseLost { job: self.job, lease_epoch: self.lease_epoch });
        }
    }

    /// Waits until the report is durable and the job's next task has been handed out, if there is one. Returns whether
    /// the report was accepted; `None` if the run has left this process before.
    pub async fn wait_accepted(self) -> Option<bool> {
        self.accepted.await.ok()
    }
}

/// The lease of an in-process worker on a job.
struct LeaseHolder {
    leases: LeaseTable,
    job: u64,
    lease_epoch: u32,
    heartbeat_interval: std::time::Duration,
}

impl LeaseHolder {
    /// Records a heartbeat, but only on this worker's lease: another worker may have the job by now.
    fn record_heartbeat(&self) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = leases.get_mut(&self.job).filter(|lease| lease.lease_epoch == self.lease_epoch) {
            lease.last_heartbeat = Some(Instant::now());
        }
    }
}

/// The memory of one reply on its way to the journal.
struct ReplyInFlight {
    memory: ReplyMemory,
    held: HeldReplies,
}

impl ReplyInFlight {
    /// Holds the memory until the report is durable.
    fn hold(&self, job: u64, lease_epoch: u32) {
        if let Some(permit) = self.memory.take() {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(job, (lease_epoch, permit));
        }
    }
}

/// A task that did not complete in its first poll, or whose reply has to wait for memory.
enum PendingWork {
    /// All slots are in use.
    Queued(Arc<dyn Tool>, Box<ToolCall>),
    Started(CatchPanic, OwnedSemaphorePermit),
    /// The reply is complete; its memory is not reserved yet.
    Finished(Box<TaskOutcome>, OwnedSemaphorePermit),
}

/// The result of the first poll: completed, or still running.
type FirstPoll = ControlFlow<TaskOutcome, CatchPanic>;

/// Calls the tool and polls it once. A tool that completes immediately needs no lease, no task and no wake-up. One
/// that does not is polled again as soon as its task starts, so nothing is missed in between.
fn call_and_poll_once(tool: &dyn Tool, call: ToolCall) -> FirstPoll {
    let Ok(called) = catch_unwind(AssertUnwindSafe(|| tool.call(call))) else { return ControlFlow::Break(panicked()) };
    let mut called = CatchPanic(called);
    match Pin::new(&mut called).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => ControlFlow::Break(outcome),
        Poll::Pending => ControlFlow::Continue(called),
    }
}

async fn hold_lease(
    work: impl Future<Output = TaskOutcome>,
    mut cancelled: CancelToken,
    holder: LeaseHolder,
    reply: ReplyInFlight,
    reports: mpsc::UnboundedSender<TickKind>,
) {
    // A queued job sends heartbeats like a running one.
    let heartbeats = async {
        loop {
            tokio::time::sleep(holder.heartbeat_interval).await;
            holder.record_heartbeat();
        }
    };
    // A tool that is cancelled is dropped where it is.
    let outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        () = cancelled.wait() => failure("Cancelled", "cancelled", "the task was cancelled"),
        () = heartbeats => unreachable!("heartbeats never end"),
    };
    reply.hold(holder.job, holder.lease_epoch);
    send_report_and_end_lease(&holder.leases, &reports, holder.job, holder.lease_epoch, outcome);
}

/// Waits for a slot, then calls the tool. Its timeout counts from the call; a tool that exceeds it is dropped where
/// it is. The slot stays taken until the reply has its memory, so that no more replies come meanwhile.
async fn run_in_slot(
    work: PendingWork,
    timeout: Option<Duration>,
    slots: Arc<Semaphore>,
    memory: ReplyMemory,
) -> TaskOutcome {
    let (called, _slot) = match work {
        PendingWork::Started(called, slot) => (Ok(called), slot),
        PendingWork::Finished(outcome, slot) => (Err(*outcome), slot),
        PendingWork::Queued(tool, call) => {
            // The pool is never closed.
            let Ok(slot) = slots.acquire_owned().await else { return std::future::pending().await };
            match call_and_poll_once(&*tool, *call) {
                ControlFlow::Break(outcome) => (Err(outcome), slot),
                ControlFlow::Continue(called) => (Ok(called), slot),
            }
        }
    };
    let outcome = match called {
        Ok(called) => end_in_time(called, timeout).await,
        Err(outcome) => outcome,
    };
    memory.settle(&outcome).await;
    outcome
}

async fn end_in_time(called: CatchPanic, timeout: Option<Duration>) -> TaskOutcome {
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout.to_std()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        outcome = called => outcome,
        () = deadline => failure("timeout", "timeout", "the task took longer than its timeout allows"),
    }
}

fn panicked() -> TaskOutcome {
    failure("ToolPanicked", "tool", "the tool panicked")
}

fn failure(code: &str, kind: &str, message: &str) -> TaskOutcome {
    TaskOutcome::failure(ErrorInfo::new(code, kind, message))
}

/// A tool call whose panics fail the task, not the worker.
struct CatchPanic(ToolFuture);

impl Future for CatchPanic {
    type Output = TaskOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TaskOutcome> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(panicked()))
    }
}

/// Sends a report and ends its lease. If the lease was lost before, another worker has the job: the report is sent as
/// well, and the reducer refuses it by its lease epoch, with a visible event.
fn send_report_and_end_lease(
    leases: &Mutex<BTreeMap<u64, TaskLease>>,
    reports: &mpsc::UnboundedSender<TickKind>,
    job: u64,
    lease_epoch: u32,
    outcome: TaskOutcome,
) {
    let mut leases_guard = leases.lock().unwrap_or_else(PoisonError::into_inner);
    // Sent before the lease ends: an observer that sees nothing in flight has all reports before it.
    send_report(reports, job, lease_epoch, outcome);
    if leases_guard.get(&job).is_some_and(|lease| lease.lease_epoch == lease_epoch) {
        leases_guard.remove(&job);
    }
}

fn send_report(reports: &mpsc::UnboundedSender<TickKind>, job: u64, lease_epoch: u32, outcome: TaskOutcome) {
    // A closed channel means that the run has left this process.
    let _ = reports.send(TickKind::StepResult { job, lease_epoch, outcome });
}
