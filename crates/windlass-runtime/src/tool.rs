//! What a task can do in the world: the contract between workers and tools.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc};
use windlass_core::{ErrorInfo, Resumed, TaskOutcome, TickKind, TriedBefore};
use windlass_value::{Duration, Timestamp, Value};

/// Something a task can call. It gets plain values, never text to be run, and gives one outcome.
pub trait Tool: Send + Sync {
    fn call(&self, call: ToolCall) -> ToolFuture;
}

pub type ToolFuture = Pin<Box<dyn Future<Output = TaskOutcome> + Send>>;

/// One attempt of one effect.
pub struct ToolCall {
    pub input: Value,
    /// The same on every repeat after a crash or a lost reply. Over HTTP it travels as `Idempotency-Key`.
    pub key: Arc<str>,
    pub attempt: u32,
    /// The input is one that the tool itself gave, to go on with an operation that was not finished. No definition can
    /// bring this about.
    pub goes_on: bool,
    pub run: Arc<str>,
    pub path: Arc<str>,
    /// How long the tool may take, if the task says so.
    pub timeout: Option<Duration>,
    /// When this attempt was first handed out, for tasks that go by it: the same on every repeat.
    pub at: Option<Timestamp>,
    /// The tool has asked for something before it could go on: what it has got so far.
    pub resumed: Option<Arc<Resumed>>,
    /// How the attempt before has failed, for tasks that go by it.
    pub tried: Option<Arc<TriedBefore>>,
    pub cancelled: Cancelled,
    /// For what is to be seen outside while the tool works.
    pub publish: Publish,
}

/// A worker's way to have events published before its result, in order. What comes after the result is refused, and told
/// of as `job.refused`.
#[derive(Clone)]
pub struct Publish(Option<Speaker>);

#[derive(Clone)]
struct Speaker {
    reports: mpsc::UnboundedSender<TickKind>,
    job: u64,
    dispatch: u32,
    /// What somebody makes of the data before they are heard.
    seen: Option<Arc<Seen>>,
}

type Seen = dyn Fn(Value) -> Value + Send + Sync;

impl Publish {
    pub(crate) fn new(reports: &mpsc::UnboundedSender<TickKind>, job: u64, dispatch: u32) -> Publish {
        Publish(Some(Speaker { reports: reports.clone(), job, dispatch, seen: None }))
    }

    /// Nobody hears it, for tests of tools.
    pub fn nowhere() -> Publish {
        Publish(None)
    }

    /// What is published comes out of the other end, for tests of tools.
    pub fn heard() -> (Publish, mpsc::UnboundedReceiver<TickKind>) {
        let (reports, heard) = mpsc::unbounded_channel();
        (Publish::new(&reports, 0, 0), heard)
    }

    /// The same, with all data seen by somebody first.
    #[must_use]
    pub fn seen_through(self, see: impl Fn(Value) -> Value + Send + Sync + 'static) -> Publish {
        Publish(self.0.map(|speaker| {
            let before = speaker.seen.clone();
            let both = move |data| see(before.iter().fold(data, |data, seen| seen(data)));
            Speaker { seen: Some(Arc::new(both)), ..speaker }
        }))
    }

    /// Events of such a kind get the task's path and these data: an object, or anything as `data`.
    pub fn send(&self, kind: impl Into<Arc<str>>, data: Value) {
        if let Some(Speaker { reports, job, dispatch, seen }) = &self.0 {
            let data = seen.iter().fold(data, |data, seen| seen(data));
            let tick = TickKind::PublishEvent { job: *job, dispatch: Some(*dispatch), kind: kind.into(), data };
            // A closed mailbox means that the run has left this process.
            let _ = reports.send(tick);
        }
    }
}

impl ToolCall {
    /// A call that belongs to no run and that nobody cancels, for tests of tools.
    pub fn alone(input: Value) -> ToolCall {
        ToolCall {
            input,
            key: "key".into(),
            attempt: 1,
            goes_on: false,
            run: "run".into(),
            path: "path".into(),
            timeout: None,
            at: None,
            resumed: None,
            tried: None,
            cancelled: Cancelled::never(),
            publish: Publish::nowhere(),
        }
    }
}

/// Tells a tool that nobody wants its result any more.
#[derive(Clone)]
pub struct Cancelled(Arc<CallOff>);

#[derive(Default)]
struct CallOff {
    is_off: AtomicBool,
    told: Notify,
}

impl Cancelled {
    /// A call that nobody has cancelled yet.
    pub fn never() -> Cancelled {
        Cancelled(Arc::default())
    }

    /// Nobody wants the result any more.
    pub fn call_off(&self) {
        self.0.is_off.store(true, Ordering::SeqCst);
        self.0.told.notify_waiters();
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.is_off.load(Ordering::SeqCst)
    }

    /// Resolves when the call is cancelled; never, if nobody does that.
    pub async fn wait(&mut self) {
        let mut told = pin!(self.0.told.notified());
        // From here on nothing is missed.
        told.as_mut().enable();
        if !self.is_cancelled() {
            told.await;
        }
    }
}

/// The tools an engine has, by name.
#[derive(Clone, Default)]
pub struct Tools(BTreeMap<Arc<str>, Arc<dyn Tool>>);

impl Tools {
    pub fn new() -> Tools {
        Tools::default()
    }

    #[must_use]
    pub fn with(mut self, name: &str, tool: impl Tool + 'static) -> Tools {
        self.0.insert(name.into(), Arc::new(tool));
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
        self.0.get(name)
    }

    /// Only those that are wanted.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Tools {
        self.0.retain(|name, _| wanted(name));
        self
    }

    /// Each of them in the hands of something that looks at what goes in and what comes out.
    #[must_use]
    pub fn each<T: Tool + 'static>(self, wrap: impl Fn(Arc<dyn Tool>) -> T) -> Tools {
        let wrapped = self.0.into_iter().map(|(name, tool)| (name, Arc::new(wrap(tool)) as Arc<dyn Tool>));
        Tools(wrapped.collect())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
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
