//! What a task can do in the world: the contract between workers and tools.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc};
use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, EventKind, PreviousAttempts, ResumeData, TaskOutcome, TickKind};
use windlass_value::{Duration, Timestamp, Value};

use crate::workers::RemoteLease;

/// Something a task can call. It gets plain values, never text to be run, and gives one outcome.
pub trait Tool: Send + Sync {
    fn call(&self, call: ToolCall) -> ToolFuture;

    /// Whether this call is done by somebody outside this process. Then nobody here shows life for it, calls it off or
    /// looks at its time: the tool does, with [`ToolCall::away`].
    fn runs_remotely(&self, _call: &ToolCall) -> bool {
        false
    }
}

pub type ToolFuture = Pin<Box<dyn Future<Output = TaskOutcome> + Send>>;

/// What tools are told of the definition that calls them.
#[derive(Debug, Default)]
pub struct CallerDefinition {
    pub name: Arc<str>,
    /// Its jobs are for workers that have all of these.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

impl CallerDefinition {
    /// Labels are texts in the plan's facts, under `labels`.
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
    /// The name it was called by.
    pub tool: Arc<str>,
    pub definition: Arc<CallerDefinition>,
    /// The pipeline's number in the run.
    pub job: u64,
    /// Goes up whenever something of the job is handed out. Who speaks with another one is refused.
    pub lease_epoch: u32,
    pub input: Value,
    /// The same on every repeat after a crash or a lost reply. Over HTTP it travels as `Idempotency-Key`.
    pub key: Arc<str>,
    pub attempt: u32,
    /// The input is one that the tool itself gave, to go on with an operation that was not finished. No definition can
    /// bring this about.
    pub is_continuation: bool,
    pub run: Arc<str>,
    /// What the run shares with those that it was made from or called by, and with no other: references to secrets are
    /// opened in the family that they were made for, and nowhere else.
    pub run_tree: Arc<str>,
    /// For somebody elsewhere: the mark of the key that references in the input are opened with. None: there is nothing to
    /// open.
    pub sealed_by: Option<Arc<str>>,
    pub path: Arc<str>,
    /// How long the tool may take, if the task says so.
    pub timeout: Option<Duration>,
    /// When this attempt was first handed out, for tasks that go by it: the same on every repeat.
    pub at: Option<Timestamp>,
    /// The tool has asked for something before it could go on: what it has got so far.
    pub resumed: Option<Arc<ResumeData>>,
    /// How the attempt before has failed, for tasks that go by it.
    pub tried: Option<Arc<PreviousAttempts>>,
    pub cancelled: CancelToken,
    /// For what is to be seen outside while the tool works.
    pub publish: EventPublisher,
    /// For a tool that shows life itself: its hold on the job.
    pub remote_lease: Option<RemoteLease>,
}

/// A worker's way to have events published before its result, in order. What comes after the result is refused, and told
/// of as `job.refused`.
#[derive(Clone)]
pub struct EventPublisher(Option<ReportChannel>);

#[derive(Clone)]
struct ReportChannel {
    reports: mpsc::UnboundedSender<TickKind>,
    job: u64,
    lease_epoch: u32,
    /// What somebody makes of the data before they are heard.
    transform: Option<Arc<DataTransform>>,
}

type DataTransform = dyn Fn(Value) -> Value + Send + Sync;

impl EventPublisher {
    pub(crate) fn new(reports: &mpsc::UnboundedSender<TickKind>, job: u64, lease_epoch: u32) -> EventPublisher {
        EventPublisher(Some(ReportChannel { reports: reports.clone(), job, lease_epoch, transform: None }))
    }

    /// Nobody hears it, for tests of tools.
    pub(crate) fn disconnected() -> EventPublisher {
        EventPublisher(None)
    }

    /// What is published comes out of the other end, for tests of tools.
    pub fn channel() -> (EventPublisher, mpsc::UnboundedReceiver<TickKind>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        (EventPublisher::new(&reports, 0, 0), receiver)
    }

    /// How far the task is, as an event `task.progress`.
    pub fn progress(&self, data: Value) {
        if let Some(ReportChannel { reports, job, lease_epoch, transform }) = &self.0 {
            let data = transform.iter().fold(data, |data, transform| transform(data));
            // A closed mailbox means that the run has left this process.
            let _ = reports.send(TickKind::Progress { job: *job, lease_epoch: *lease_epoch, data });
        }
    }

    /// The same, with all data seen by somebody first.
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

    /// Events of such a kind get the task's path and these data: an object, or anything as `data`.
    pub fn send(&self, kind: impl Into<Arc<str>>, data: Value) {
        if let Some(ReportChannel { reports, job, lease_epoch, transform }) = &self.0 {
            let data = transform.iter().fold(data, |data, transform| transform(data));
            let tick = TickKind::PublishEvent { job: *job, lease_epoch: *lease_epoch, kind: kind.into(), data };
            // A closed mailbox means that the run has left this process.
            let _ = reports.send(tick);
        }
    }
}

impl ToolCall {
    /// A call that belongs to no run and that nobody cancels, for tests of tools.
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
            remote_lease: None,
        }
    }
}

/// Tells a tool that nobody wants its result any more.
#[derive(Clone)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Default)]
struct CancelState {
    cancelled: AtomicBool,
    notify: Notify,
}

impl CancelToken {
    /// A call that nobody has cancelled yet.
    pub fn uncancelled() -> CancelToken {
        CancelToken(Arc::default())
    }

    /// Nobody wants the result any more.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Resolves when the call is cancelled; never, if nobody does that.
    pub async fn wait(&mut self) {
        let mut notified = pin!(self.0.notify.notified());
        // From here on nothing is missed.
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
    /// Whatever else is called.
    fallback: Option<Arc<dyn Tool>>,
}

impl Tools {
    pub fn new() -> Tools {
        Tools::default()
    }

    #[must_use]
    pub fn with(self, name: &str, tool: impl Tool + 'static) -> Tools {
        self.with_shared(name, Arc::new(tool))
    }

    #[must_use]
    pub fn with_shared(mut self, name: &str, tool: Arc<dyn Tool>) -> Tools {
        self.named.insert(name.into(), tool);
        self
    }

    /// With one that is called by any name that no other has.
    #[must_use]
    pub fn with_fallback(mut self, tool: Arc<dyn Tool>) -> Tools {
        self.fallback = Some(tool);
        self
    }

    /// A tool from a plain function, for embedders and tests.
    #[must_use]
    pub fn with_fn<F, R>(self, name: &str, function: F) -> Tools
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = TaskOutcome> + Send + 'static,
    {
        self.with(name, FnTool(function))
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.named.get(name).or(self.fallback.as_ref())
    }

    /// Only those that are wanted.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&str) -> bool) -> Tools {
        self.named.retain(|name, _| keep(name));
        self
    }

    /// Each of them in the hands of something that looks at what goes in and what comes out.
    #[must_use]
    pub fn wrap_each<T: Tool + 'static>(self, wrap: impl Fn(Arc<dyn Tool>) -> T) -> Tools {
        let hand = |tool| Arc::new(wrap(tool)) as Arc<dyn Tool>;
        let named = self.named.into_iter().map(|(name, tool)| (name, hand(tool))).collect();
        Tools { named, fallback: self.fallback.map(hand) }
    }

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

/// A task names a tool that this engine does not have.
pub(crate) fn no_such_tool(name: &str, tools: &Tools) -> TaskOutcome {
    let known = tools.names().collect::<Vec<_>>().join(", ");
    let message = format!("there is no tool `{name}` here; there are: {known}");
    TaskOutcome::failure(ErrorInfo::new("NoSuchTool", "tool", message))
}
