//! The engine: runs workflows, in memory or durably.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use windlass_expr::steps::Steps;
use windlass_runtime as runtime;
use windlass_runtime::{EngineOptions, RuntimeError, Tools};
use windlass_store::{MemoryStore, SqliteOptions, SqliteStore, Store};
use windlass_value::{BlobHash, Value};

use crate::handle::Handle;
use crate::{Error, Event, Workflow};

/// Runs workflows. In memory nothing outlives the process; opened on a directory, every run goes on after a crash.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// use windlass::Engine;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let workflow = Workflow::builder("short").step("finish", |_: Begin| async { Ok(Done) }).build()?;
/// # let directory = std::env::temp_dir().join(format!("windlass-doc-{}", std::process::id()));
/// let engine = Engine::open(&directory).workflow(&workflow).build()?;
/// let handle = engine.start(&workflow, Begin).id("order-1").await?;
/// assert_eq!(handle.result::<Done>().await?, Done);
///
/// // The same id with the same event is the same run, also tomorrow.
/// let again = engine.start(&workflow, Begin).id("order-1").await?;
/// assert_eq!(again.result::<Done>().await?, Done);
/// # engine.close().await;
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: runtime::Engine,
    workflows: Arc<BTreeMap<String, (Workflow, BlobHash)>>,
    virtual_time: bool,
}

/// An engine that is being put together.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = windlass::Engine::in_memory().virtual_time(true).jobs_at_once(64).build()?;
/// # engine.close().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "an engine is there when it is built: `.build()`"]
pub struct EngineBuilder {
    directory: Option<PathBuf>,
    workflows: Vec<Workflow>,
    tools: Tools,
    options: EngineOptions,
    virtual_time: bool,
    store: Option<Arc<dyn Store>>,
}

impl Engine {
    /// Keeps nothing: as fast as it gets, gone with the process.
    pub fn in_memory() -> EngineBuilder {
        EngineBuilder::new(None)
    }

    /// Keeps all runs in this directory, in SQLite. Runs of its workflows that a process has left open are taken over, unless
    /// [`adopt`](EngineBuilder::adopt) says otherwise.
    pub fn open(directory: impl AsRef<Path>) -> EngineBuilder {
        EngineBuilder::new(Some(directory.as_ref().to_owned()))
    }

    /// Starts a run; when it is awaited and returns, the start is kept. Can be refined before it is awaited.
    pub fn start<E: Event>(&self, workflow: &Workflow, event: E) -> Start<'_, E> {
        Start { engine: self, workflow: workflow.clone(), event, options: StartOptions::default() }
    }

    /// Goes on with a run by its id: after a crash, a release from memory or a pause. Of one that has ended, its result can
    /// be read.
    pub async fn resume(&self, run: &str) -> Result<Handle, Error> {
        let handle = self.inner.resume(run).await?;
        self.handle_of(handle)
    }

    fn handle_of(&self, handle: runtime::RunHandle) -> Result<Handle, Error> {
        let row = self.inner.store().run(&handle.run).map_err(RuntimeError::from)?;
        let definition = row.map(|row| row.definition).unwrap_or_default();
        match self.workflows.get(&definition) {
            Some((workflow, _)) => Ok(Handle::new(self.clone(), workflow.clone(), handle)),
            None => {
                let known = crate::nearest::listed("there are", self.workflows.keys().map(String::as_str));
                let message = format!(
                    "the run `{}` is one of `{definition}`, which this engine does not have; {known}",
                    handle.run
                );
                Err(Error::refused("NoSuchWorkflow", message))
            }
        }
    }

    /// Lets go of all runs, and takes no more. They can be resumed by another engine.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    fn plan_of(&self, workflow: &Workflow) -> Result<BlobHash, Error> {
        match self.workflows.get(workflow.name()) {
            Some((_, hash)) => Ok(*hash),
            None => {
                let known = crate::nearest::listed("there are", self.workflows.keys().map(String::as_str));
                let message = format!("this engine does not have the workflow `{}`; {known}", workflow.name());
                Err(Error::refused("NoSuchWorkflow", message))
            }
        }
    }

    async fn start_with(&self, workflow: &Workflow, input: Value, options: StartOptions) -> Result<Handle, Error> {
        let plan = self.plan_of(workflow)?;
        let virtual_time = options.virtual_time.unwrap_or(self.virtual_time);
        let how = runtime::StartOptions { id: options.id, virtual_time, parent: None, watch: false };
        let handle = self.inner.start(plan, input, how).await?;
        Ok(Handle::new(self.clone(), workflow.clone(), handle))
    }
}

impl EngineBuilder {
    fn new(directory: Option<PathBuf>) -> EngineBuilder {
        let adopt = directory.is_some();
        let options = EngineOptions { adopt, ..EngineOptions::default() };
        EngineBuilder {
            directory,
            workflows: Vec::new(),
            tools: Tools::new(),
            options,
            virtual_time: false,
            store: None,
        }
    }

    /// Adds a workflow. An engine can have many.
    pub fn workflow(mut self, workflow: &Workflow) -> EngineBuilder {
        self.workflows.push(workflow.clone());
        self
    }

    /// Skips all waiting: a run in virtual time jumps to its next timer when there is nothing else to do. For tests.
    pub fn virtual_time(mut self, skips: bool) -> EngineBuilder {
        self.virtual_time = skips;
        self
    }

    /// How many steps run at once over all runs.
    pub fn jobs_at_once(mut self, jobs: usize) -> EngineBuilder {
        self.options.jobs_at_once = jobs.max(1);
        self
    }

    /// Whether runs of its workflows that nobody has are taken over: those of a process that was killed, those whose time
    /// has come. On for [`Engine::open`].
    pub fn adopt(mut self, adopts: bool) -> EngineBuilder {
        self.options.adopt = adopts;
        self
    }

    /// How long a run that only waits stays in memory.
    pub fn release_after(mut self, time: std::time::Duration) -> EngineBuilder {
        self.options.release_after = time;
        self
    }

    /// On a store of one's own.
    pub fn store(mut self, store: Arc<dyn Store>) -> EngineBuilder {
        self.store = Some(store);
        self
    }

    /// Opens the store and makes the engine. To be called inside a tokio runtime.
    pub fn build(self) -> Result<Engine, Error> {
        let EngineBuilder { directory, workflows, tools, mut options, virtual_time, store } = self;
        let store: Arc<dyn Store> = match (store, directory) {
            (Some(store), _) => store,
            (None, Some(directory)) => {
                Arc::new(SqliteStore::open(&directory, SqliteOptions::default()).map_err(RuntimeError::from)?)
            }
            (None, None) => Arc::new(MemoryStore::new()),
        };
        options.tools = workflows.iter().fold(tools, |tools, workflow| workflow.add_tools(tools));
        options.languages.push(Arc::new(Steps));
        let inner = runtime::Engine::new(store, options)?;
        let mut known = BTreeMap::new();
        for workflow in workflows {
            let (hash, _) = inner.add_plan(workflow.plan().clone())?;
            if known.insert(workflow.name().to_owned(), (workflow.clone(), hash)).is_some() {
                let message = format!("two workflows are called `{}`", workflow.name());
                return Err(Error::refused("DuplicateWorkflow", message));
            }
        }
        Ok(Engine { inner, workflows: Arc::new(known), virtual_time })
    }
}

/// How a run is started.
///
/// ```
/// let options = windlass::StartOptions::default().id("order-7").virtual_time(true);
/// assert_eq!(options.id.as_deref(), Some("order-7"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StartOptions {
    /// The run's id. The same id with the same workflow and event is the same run. One is made up if none is given.
    pub id: Option<String>,
    /// Whether waiting is skipped; what the engine says, if nothing is given.
    pub virtual_time: Option<bool>,
}

impl StartOptions {
    /// With this id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> StartOptions {
        self.id = Some(id.into());
        self
    }

    /// In virtual time, or not.
    #[must_use]
    pub fn virtual_time(mut self, skips: bool) -> StartOptions {
        self.virtual_time = Some(skips);
        self
    }
}

/// A start that happens when it is awaited.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Engine, Event, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let workflow = Workflow::builder("short").step("finish", |_: Begin| async { Ok(Done) }).build()?;
/// # let engine = Engine::in_memory().workflow(&workflow).build()?;
/// let handle = engine.start(&workflow, Begin).id("mine").await?;
/// assert_eq!(handle.id(), "mine");
/// # Ok(())
/// # }
/// ```
#[must_use = "a run starts when this is awaited"]
pub struct Start<'e, E> {
    engine: &'e Engine,
    workflow: Workflow,
    event: E,
    options: StartOptions,
}

impl<E> Start<'_, E> {
    /// With this id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.options.id = Some(id.into());
        self
    }

    /// In virtual time, or not.
    pub fn virtual_time(mut self, skips: bool) -> Self {
        self.options.virtual_time = Some(skips);
        self
    }

    /// With all of these.
    pub fn options(mut self, options: StartOptions) -> Self {
        self.options = options;
        self
    }
}

impl<'e, E: Event> IntoFuture for Start<'e, E> {
    type Output = Result<Handle, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Handle, Error>> + Send + 'e>>;

    fn into_future(self) -> Self::IntoFuture {
        let Start { engine, workflow, event, options } = self;
        let input = workflow.start_input(&event);
        Box::pin(async move { engine.start_with(&workflow, input?, options).await })
    }
}
