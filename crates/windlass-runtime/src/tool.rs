//! What a task can do in the world: the contract between workers and tools.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use windlass_core::{ErrorInfo, Resumed, TaskOutcome};
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
    pub cancelled: Cancelled,
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
            cancelled: Cancelled::never(),
        }
    }
}

/// Tells a tool that nobody wants its result any more.
#[derive(Clone)]
pub struct Cancelled(watch::Receiver<bool>);

impl Cancelled {
    pub(crate) fn pair() -> (watch::Sender<bool>, Cancelled) {
        let (sender, receiver) = watch::channel(false);
        (sender, Cancelled(receiver))
    }

    /// A call that nobody can cancel, for tests of tools.
    pub fn never() -> Cancelled {
        Cancelled::pair().1
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the call is cancelled; never, if nobody can cancel it any more.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
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
