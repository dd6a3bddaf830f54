//! Tools: the contract between workers and the external effects of tasks.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc};
use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, EventKind, PreviousAttempts, ResumeData, TaskOutcome, TickKind};
use windlass_value::{Duration, Timestamp, Value};

use crate::reply_memory::ReplyMemory;
use crate::task_log::TaskLog;
use crate::workers::RemoteLease;

/// An operation that a task can call. It gets plain values, never text to be executed, and returns one outcome.
pub trait Tool: Send + Sync {
    /// Starts the call. The future should end soon after [`ToolCall::cancelled`] reports a cancellation; it is dropped
    /// when its worker loses the lease.
    fn call(&self, call: ToolCall) -> ToolFuture;

    /// Reports whether this call runs in another process, which sends its own heartbeats and enforces cancellation and
    /// timeout through [`ToolCall::remote_lease`].
    fn runs_remotely(&self, _call: &ToolCall) -> bool {
        false
    }
}

/// A running call. A failure is part of the outcome.
pub type ToolFuture = Pin<Box<dyn Future<Output = TaskOutcome> + Send>>;

/// The definition that calls a tool, as the tool sees it.
#[derive(Debug, Default)]
pub struct CallerDefinition {
    /// The name of the definition, as in its plan.
    pub name: Arc<str>,
    /// Its jobs run only on workers that have all of these labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

impl CallerDefinition {
    /// Reads the labels from the plan's metadata: texts under `labels`.
    pub fn from_plan(plan: &Plan) -> CallerDefinition {
        let labels = plan.metadata.get("labels").and_then(Value::as_map);
        let labels = labels.into_iter().flat_map(|labels| labels.iter());
        let text = |value: &Value| value.as_str().map(Arc::from);
        let labels = labels.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect();
        CallerDefinition { name: plan.name.clone(), labels }
    }
}

/// One attempt of one effect.
pub struct ToolCall {
    /// The name under which the tool was called.
    pub tool: Arc<str>,
    /// The definition that contains the task.
    pub definition: Arc<CallerDefinition>,
    /// The pipeline's number in the run.
    pub job: u64,
    /// The fencing token of the lease: it rises whenever a task of the job is handed out. A report with another epoch
    /// is refused.
    pub lease_epoch: u32,
    /// The evaluated input, with stored values resolved.
    pub input: Value,
    /// The idempotency key: the same on every repeat after a crash or a lost reply. Over HTTP it is sent as
    /// `Idempotency-Key`.
    pub key: Arc<str>,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The input was provided by the tool itself to continue an unfinished operation. No definition can cause this.
    pub is_continuation: bool,
    /// The id of the run.
    pub run: Arc<str>,
    /// The id of the run tree: shared with the runs that this run was forked from or called by, and with no other.
    /// References to secrets are opened only in the run tree that they were created for.
    pub run_tree: Arc<str>,
    /// For a remote worker: the id of the key that opens the references in the input. `None`: there is nothing to open.
    pub sealed_by: Option<Arc<str>>,
    /// The path of the task in the run.
    pub path: Arc<str>,
    /// The timeout of the task, if it has one.
    pub timeout: Option<Duration>,
    /// The time at which this attempt was first handed out, for tasks that depend on it: the same on every repeat.
    pub at: Option<Timestamp>,
    /// The answers received so far, if the tool was suspended before.
    pub resumed: Option<Arc<ResumeData>>,
    /// The failure of the previous attempt, for tasks that depend on it.
    pub tried: Option<Arc<PreviousAttempts>>,
    /// Reports that the result is no longer needed.
    pub cancelled: CancelToken,
    /// Publishes events while the tool is running.
    pub publish: EventPublisher,
    /// Stores log lines while the tool is running. They are for people, and no part of the run's history.
    pub log: TaskLog,
    /// The memory of its reply: a tool that reads a long reply reserves it before.
    pub memory: ReplyMemory,
    /// For a remote tool: its lease on the job.
    pub remote_lease: Option<RemoteLease>,
}

/// Publishes events of a worker before its result, in order. Events after the result are refused and reported as
/// `job.refused`.
#[derive(Clone)]
pub struct EventPublisher(Option<ReportChannel>);

#[derive(Clone)]
struct ReportChannel {
    reports: mpsc::UnboundedSender<TickKind>,
    job: u64,
    lease_epoch: u32,
    /// Transforms the data before they become a tick.
    transform: Option<Arc<DataTransform>>,
}

type DataTransform = dyn Fn(Value) -> Value + Send + Sync;

impl EventPublisher {
    pub(crate) fn new(reports: &mpsc::UnboundedSender<TickKind>, job: u64, lease_epoch: u32) -> EventPublisher {
        EventPublisher(Some(ReportChannel { reports: reports.clone(), job, lease_epoch, transform: None }))
    }

    /// Returns a publisher whose events are discarded, for tests of tools.
    pub(crate) fn disconnected() -> EventPublisher {
        EventPublisher(None)
    }

    /// Returns a publisher and the receiver of its events, for tests of tools.
    pub fn channel() -> (EventPublisher, mpsc::UnboundedReceiver<TickKind>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        (EventPublisher::new(&reports, 0, 0), receiver)
    }

    /// Publishes the progress of the task as an event `task.progress`.
    pub fn progress(&self, data: Value) {
        if let Some(ReportChannel { reports, job, lease_epoch, transform }) = &self.0 {
            let data = transform.iter().fold(data, |data, transform| transform(data));
            // A closed channel means that the run has left this process.
            let _ = reports.send(TickKind::Progress { job: *job, lease_epoch: *lease_epoch, data });
        }
    }

    /// Returns a publisher that applies a transformation to all data first.
    #[must_use]
    pub fn with_transform(self, transform: impl Fn(Value) -> Value + Send + Sync + 'static) -> EventPublisher {
        EventPublisher(self.0.map(|channel| {
            let before = channel.transform.clone();
            let both = move |data| transform(before.iter().fold(data, |data, transform| transform(data)));
            ReportChannel { transform: Some(Arc::new(both)), ..channel }
        }))
    }

    /// Publishes an event of a type that the engine defines, with the task's path.
    pub fn event(&self, kind: &EventKind) {
        self.send(kind.type_name(), Value::map(kind.fields()));
    }

    /// Publishes an event of this kind with the task's path and these data: an object, or any value as `data`.
    pub fn send(&self, kind: impl Into<Arc<str>>, data: Value) {
        if let Some(ReportChannel { reports, job, lease_epoch, transform }) = &self.0 {
            let data = transform.iter().fold(data, |data, transform| transform(data));
            let tick = TickKind::PublishEvent { job: *job, lease_epoch: *lease_epoch, kind: kind.into(), data };
            // A closed channel means that the run has left this process.
            let _ = reports.send(tick);
        }
    }
}

impl ToolCall {
    /// Returns a call that belongs to no run and is never cancelled, for tests of tools.
    pub fn for_test(input: Value) -> ToolCall {
        ToolCall {
            tool: "tool".into(),
            definition: Arc::default(),
            job: 0,
            lease_epoch: 0,
            input,
            key: "key".into(),
            attempt: 1,
            is_continuation: false,
            run: "run".into(),
            run_tree: "run".into(),
            sealed_by: None,
            path: "path".into(),
            timeout: None,
            at: None,
            resumed: None,
            tried: None,
            cancelled: CancelToken::uncancelled(),
            publish: EventPublisher::disconnected(),
            log: TaskLog::disconnected(),
            memory: ReplyMemory::default(),
            remote_lease: None,
        }
    }
}

/// Signals a tool that its result is no longer needed.
#[derive(Clone)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Default)]
struct CancelState {
    cancelled: AtomicBool,
    notify: Notify,
}

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn uncancelled() -> CancelToken {
        CancelToken(Arc::default())
    }

    /// Cancels the call.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Reports whether the call was cancelled. A tool with long computations checks it now and then.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Resolves when the call is cancelled; never if it is not.
    pub async fn wait(&mut self) {
        let mut notified = pin!(self.0.notify.notified());
        // From here on no notification is missed.
        notified.as_mut().enable();
        if !self.is_cancelled() {
            notified.await;
        }
    }
}

/// The tools an engine has, by name.
#[derive(Clone, Default)]
pub struct Tools {
    named: BTreeMap<Arc<str>, Arc<dyn Tool>>,
    /// The tool for all other names.
    fallback: Option<Arc<dyn Tool>>,
}

impl Tools {
    /// Creates a set without tools.
    pub fn new() -> Tools {
        Tools::default()
    }

    /// Adds a tool; replaces an earlier one of the same name.
    #[must_use]
    pub fn with(self, name: &str, tool: impl Tool + 'static) -> Tools {
        self.with_shared(name, Arc::new(tool))
    }

    /// Adds a tool that others may share; replaces an earlier one of the same name.
    #[must_use]
    pub fn with_shared(mut self, name: &str, tool: Arc<dyn Tool>) -> Tools {
        self.named.insert(name.into(), tool);
        self
    }

    /// Adds a tool that is called for every name that no other tool has.
    #[must_use]
    pub fn with_fallback(mut self, tool: Arc<dyn Tool>) -> Tools {
        self.fallback = Some(tool);
        self
    }

    /// Adds a tool from a plain function, for embedders and tests.
    #[must_use]
    pub fn with_fn<F, R>(self, name: &str, function: F) -> Tools
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = TaskOutcome> + Send + 'static,
    {
        self.with(name, FnTool(function))
    }

    /// Returns the tool of this name, or else the fallback.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.named.get(name).or(self.fallback.as_ref())
    }

    /// Keeps only the tools whose names match.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&str) -> bool) -> Tools {
        self.named.retain(|name, _| keep(name));
        self
    }

    /// Wraps each tool, for example to inspect its inputs and outputs.
    #[must_use]
    pub fn wrap_each<T: Tool + 'static>(self, wrap: impl Fn(Arc<dyn Tool>) -> T) -> Tools {
        let hand = |tool| Arc::new(wrap(tool)) as Arc<dyn Tool>;
        let named = self.named.into_iter().map(|(name, tool)| (name, hand(tool))).collect();
        Tools { named, fallback: self.fallback.map(hand) }
    }

    /// Returns the names of the tools in byte order, without the fallback.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(|name| &**name)
    }
}

struct FnTool<F>(F);

impl<F, R> Tool for FnTool<F>
where
    F: Fn(ToolCall) -> R + Send + Sync,
    R: Future<Output = TaskOutcome> + Send + 'static,
{
    fn call(&self, call: ToolCall) -> ToolFuture {
        Box::pin((self.0)(call))
    }
}

/// Returns the failure of a task that names an unknown tool.
pub(crate) fn no_such_tool(name: &str, tools: &Tools) -> TaskOutcome {
    let known = tools.names().collect::<Vec<_>>().join(", ");
    let message = format!("unknown tool `{name}`; available: {known}");
    TaskOutcome::failure(ErrorInfo::new("NoSuchTool", "tool", message))
}
