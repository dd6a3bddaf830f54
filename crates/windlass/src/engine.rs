//! The engine: runs workflows, in memory or durably.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_dialect::Dialect;
use windlass_runtime as runtime;
use windlass_runtime::{Durability, EngineOptions, RuntimeError, Tool, Tools};
use windlass_store::{MemoryStore, RunStatus, Store};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_value::{BlobHash, Value};

use crate::definition::{CompileEnvironment, Dialects};
use crate::handle::Handle;
use crate::registered::{Function, FunctionSpec, FunctionTool};
use crate::{Error, Event, EventStream, StepError, Workflow};

/// Runs workflows. In memory, no run outlives the process; opened on a directory, every run resumes after a crash.
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
    pub(crate) inner: runtime::RuntimeEngine,
    definitions: Arc<BTreeMap<String, Definition>>,
    virtual_time: bool,
}

/// A definition that an engine can run.
struct Definition {
    plan: BlobHash,
    /// `None` for a definition in another dialect.
    workflow: Option<Workflow>,
}

/// A builder of an engine.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = windlass::Engine::in_memory().virtual_time(true).max_job_concurrency(64).build()?;
/// # engine.close().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "an engine exists once it is built: `.build()`"]
pub struct EngineBuilder {
    directory: Option<PathBuf>,
    workflows: Vec<Workflow>,
    definitions: Vec<(String, DefinitionSource)>,
    pub(crate) dialects: Dialects,
    pub(crate) tools: Tools,
    functions: Vec<String>,
    /// Functions that agents may call.
    pub(crate) offered: Vec<(String, FunctionSpec)>,
    /// Builds the tools of agents when all functions are known.
    #[cfg(feature = "agents")]
    pub(crate) agents: Option<crate::agents::AgentToolsBuilder>,
    pub(crate) options: EngineOptions,
    virtual_time: bool,
    store: Option<Arc<dyn Store>>,
}

/// The source of a definition's text.
enum DefinitionSource {
    Inline(String),
    File(PathBuf),
}

impl Engine {
    /// Configures an engine that keeps runs in memory only: as fast as possible, and lost with the process.
    pub fn in_memory() -> EngineBuilder {
        EngineBuilder::new(None)
    }

    /// Configures an engine that keeps all runs in this directory, in SQLite. It takes over open runs of its workflows
    /// that another process has left, unless [`adopt`](EngineBuilder::adopt) is off.
    pub fn open(directory: impl AsRef<Path>) -> EngineBuilder {
        EngineBuilder::new(Some(directory.as_ref().to_owned()))
    }

    /// Starts a run. The start can be refined before it is awaited; it is durable when the await returns.
    pub fn start<E: Event>(&self, workflow: &Workflow, event: E) -> Start<'_, E> {
        Start { engine: self, workflow: workflow.clone(), event, options: StartOptions::default() }
    }

    /// Resumes a run by its id: after a crash, an eviction from memory or a pause. For a run that has ended, the handle
    /// gives its result.
    pub async fn resume(&self, run: &str) -> Result<Handle, Error> {
        let handle = self.inner.resume(run).await?;
        self.wrap_handle(handle)
    }

    /// Returns a handle on a run that another process may own, and leaves it with that owner. It can send events to the
    /// run, watch it and wait for its end.
    pub fn handle(&self, run: &str) -> Result<Handle, Error> {
        let row = self.inner.store().run(run).map_err(RuntimeError::from)?;
        let row = row.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))?;
        let workflow = self.definitions.get(&row.definition).and_then(|known| known.workflow.clone());
        Ok(Handle::store_only(self.clone(), row.definition.as_str().into(), workflow, row.run))
    }

    /// Returns the status of a run without loading it; `None` if there is no run of this id.
    pub fn status(&self, run: &str) -> Result<Option<RunStatus>, Error> {
        let row = self.inner.store().run(run).map_err(RuntimeError::from)?;
        Ok(row.map(|row| row.status))
    }

    /// Returns the events of a run after a sequence number, 0 for all, without loading it; another process may own the
    /// run.
    pub fn events(&self, run: &str, after: u64) -> Result<EventStream, Error> {
        Ok(EventStream::new(self.inner.events(run, after)?, self.inner.store().clone()))
    }

    fn wrap_handle(&self, handle: runtime::RunHandle) -> Result<Handle, Error> {
        let row = self.inner.store().run(&handle.run).map_err(RuntimeError::from)?;
        let definition = row.map(|row| row.definition).unwrap_or_default();
        let workflow = self.definitions.get(&definition).and_then(|known| known.workflow.clone());
        Ok(Handle::new(self.clone(), definition.as_str().into(), workflow, handle))
    }

    /// Starts a new run from a [snapshot](Handle::snapshot), which may come from another engine. Work that was in
    /// flight when the snapshot was taken is done again.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Engine, Event, StepError, Workflow};
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "begin", start)]
    /// # struct Begin;
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "asked", input_required)]
    /// # struct Asked;
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "answered", human_response)]
    /// # struct Answered { text: String }
    /// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
    /// # #[event(name = "done", stop)]
    /// # struct Done { text: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let workflow = Workflow::builder("w")
    /// #     .step("ask", |_: Begin| async { Ok(Asked) })
    /// #     .step("end", |answered: Answered| async move { Ok(Done { text: answered.text }) })
    /// #     .build()?;
    /// # let engine = Engine::in_memory().workflow(&workflow).build()?;
    /// let handle = engine.start(&workflow, Begin).await?;
    /// let snapshot = handle.snapshot().await?;
    ///
    /// let elsewhere = Engine::in_memory().workflow(&workflow).build()?;
    /// let restored = elsewhere.restore(&workflow, &snapshot).await?;
    /// restored.send(Answered { text: "hello".into() }).await?;
    /// assert_eq!(restored.result::<Done>().await?.text, "hello");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn restore(&self, workflow: &Workflow, snapshot: &[u8]) -> Result<Handle, Error> {
        self.plan_hash(workflow.name())?;
        let name = runtime::RuntimeEngine::snapshot_definition(snapshot)?;
        if *name != *workflow.name() {
            let message = format!("the snapshot belongs to the workflow `{name}`, not to `{}`", workflow.name());
            return Err(Error::refused("WrongWorkflow", message));
        }
        let handle = self.inner.restore(snapshot, None).await?;
        self.wrap_handle(handle)
    }

    /// Starts a new run that repeats a run from a step on, as [`RestartRequest`](crate::RestartRequest) specifies.
    /// Earlier results are kept, work that was in flight is done again. The old run does not change.
    pub async fn restart(&self, run: &str, restart: runtime::RestartRequest) -> Result<Handle, Error> {
        let handle = self.inner.restart(run, restart).await?;
        self.wrap_handle(handle)
    }

    /// Starts a new run that retries the failed steps of an ended run and the steps that depend on them. It reuses the
    /// results of all other steps as long as their inputs are the same. The same id twice is the same run.
    pub async fn retry_failed(&self, run: &str, id: Option<String>) -> Result<Handle, Error> {
        let handle = self.inner.retry_failed(run, id).await?;
        self.wrap_handle(handle)
    }

    /// Closes the engine: evicts all runs and accepts no more. Another engine can resume them.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    pub(crate) fn plan(&self, hash: &BlobHash) -> Result<Plan, Error> {
        let row = self.inner.store().plan(hash).map_err(RuntimeError::from)?;
        let row = row.ok_or_else(|| RuntimeError::MissingBlob(hash.to_string()))?;
        Ok(runtime::codec::decode_plan(&row.body)?)
    }

    fn plan_hash(&self, name: &str) -> Result<BlobHash, Error> {
        self.definitions.get(name).map(|known| known.plan).ok_or_else(|| {
            let known = crate::nearest::list_names("there are", self.definitions.keys().map(String::as_str));
            Error::refused("NoSuchWorkflow", format!("this engine does not have `{name}`; {known}"))
        })
    }

    /// Starts a definition of any dialect by its name, with an input.
    pub async fn start_definition(
        &self,
        name: &str,
        input: impl serde::Serialize,
        options: StartOptions,
    ) -> Result<Handle, Error> {
        let input = windlass_value::to_value(&input).map_err(|error| Error::Event(StepError::from(error)))?;
        let input = match self.definitions.get(name).and_then(|known| known.workflow.as_ref()) {
            Some(workflow) => workflow.read_start(&input)?,
            None => input,
        };
        self.start_with(name, input, options).await
    }

    async fn start_with(&self, name: &str, input: Value, options: StartOptions) -> Result<Handle, Error> {
        let plan = self.plan_hash(name)?;
        let virtual_time = options.virtual_time.unwrap_or(self.virtual_time);
        let start_options = runtime::RunStartOptions {
            id: options.id,
            virtual_time,
            watch: false,
            labels: options.labels,
            ..runtime::RunStartOptions::default()
        };
        let handle = self.inner.start(plan, input, start_options).await?;
        let workflow = self.definitions.get(name).and_then(|known| known.workflow.clone());
        Ok(Handle::new(self.clone(), name.into(), workflow, handle))
    }
}

impl EngineBuilder {
    fn new(directory: Option<PathBuf>) -> EngineBuilder {
        let (adopt, keep) = match &directory {
            Some(_) => (true, Durability::Durable),
            None => (false, Durability::InMemory),
        };
        EngineBuilder {
            directory,
            workflows: Vec::new(),
            definitions: Vec::new(),
            dialects: Dialects::built_in(),
            tools: Tools::new(),
            functions: Vec::new(),
            offered: Vec::new(),
            #[cfg(feature = "agents")]
            agents: None,
            options: EngineOptions { adopt, durability: keep, ..EngineOptions::default() },
            virtual_time: false,
            store: None,
        }
    }

    /// Adds a workflow. An engine can have several.
    pub fn workflow(mut self, workflow: &Workflow) -> EngineBuilder {
        self.workflows.push(workflow.clone());
        self
    }

    /// Skips all waiting: a run in virtual time jumps to its next timer when it has nothing else to do. For tests.
    pub fn virtual_time(mut self, enabled: bool) -> EngineBuilder {
        self.virtual_time = enabled;
        self
    }

    /// Sets how many events of an in-memory run are buffered for late or slow readers. A durable run retains all of
    /// them.
    pub fn max_buffered_events(mut self, events: usize) -> EngineBuilder {
        self.options.max_buffered_events = events;
        self
    }

    /// Limits the number of steps that run concurrently over all runs.
    pub fn max_job_concurrency(mut self, jobs: usize) -> EngineBuilder {
        self.options.max_job_concurrency = jobs.max(1);
        self
    }

    /// Sets whether the engine takes over runs of its workflows that have no owner: those of a process that was killed
    /// and those with a due timer. On by default for [`Engine::open`].
    pub fn adopt(mut self, enabled: bool) -> EngineBuilder {
        self.options.adopt = enabled;
        self
    }

    /// Sets how long a run that only waits stays in memory before it is evicted.
    pub fn evict_after(mut self, time: std::time::Duration) -> EngineBuilder {
        self.options.evict_after = time;
        self
    }

    /// Registers a function that definitions call by this name: `kind: rust` in NoETL, an activity in Loom, and a tool
    /// of agents if the function is [described](crate::described).
    pub fn function<Args: 'static>(mut self, name: &str, function: impl Function<Args>) -> EngineBuilder {
        self.offered.extend(function.spec().map(|about| (name.to_owned(), about)));
        self.functions.push(name.to_owned());
        self.tools = self.tools.with(name, FunctionTool::new(name, function));
        self
    }

    /// Registers a tool that definitions use, such as `http`.
    pub fn tool(mut self, name: &str, tool: impl Tool + 'static) -> EngineBuilder {
        self.tools = self.tools.with(name, tool);
        self
    }

    /// Registers a definition in another dialect under this name. Steps [call](crate::Context::call) it, and it may
    /// call functions and workflows in Rust. The dialects are features of this crate, `loom`, `noetl` and `zenflow`,
    /// and those that are [added](EngineBuilder::dialect). Agents of zenflow files need
    /// [`agents`](EngineBuilder::agents).
    ///
    #[cfg_attr(feature = "noetl", doc = "```")]
    #[cfg_attr(not(feature = "noetl"), doc = "```ignore")]
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Context, Engine, Event, StepError, Workflow};
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "begin", start)]
    /// # struct Begin;
    /// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
    /// # #[event(name = "done", stop)]
    /// # struct Done { price: u64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let playbook = "
    /// apiVersion: noetl.io/v2
    /// kind: Playbook
    /// workload: {pieces: 1}
    /// workflow:
    ///   - step: start
    ///     tool: {kind: rust, name: price, args: '{{ pieces }}'}
    /// ";
    /// let workflow = Workflow::builder("asks")
    ///     .step("ask", |ctx: Context, _: Begin| async move {
    ///         let input = std::collections::BTreeMap::from([("pieces", 3)]);
    ///         Ok(Done { price: ctx.call("pricing", input).await? })
    ///     })
    ///     .build()?;
    /// let engine = Engine::in_memory()
    ///     .workflow(&workflow)
    ///     .definition("pricing", playbook)
    ///     .function("price", |pieces: u64| async move { Ok(pieces * 10) })
    ///     .build()?;
    /// let done: Done = engine.start(&workflow, Begin).await?.result().await?;
    /// assert_eq!(done, Done { price: 30 });
    /// # Ok(())
    /// # }
    /// ```
    pub fn definition(mut self, name: &str, text: impl Into<String>) -> EngineBuilder {
        self.definitions.push((name.to_owned(), DefinitionSource::Inline(text.into())));
        self
    }

    /// Registers a definition from a file, which may read files of the same directory.
    pub fn definition_file(mut self, name: &str, path: impl AsRef<Path>) -> EngineBuilder {
        self.definitions.push((name.to_owned(), DefinitionSource::File(path.as_ref().to_owned())));
        self
    }

    /// Adds a custom dialect for definitions.
    pub fn dialect(mut self, dialect: impl Dialect + 'static) -> EngineBuilder {
        self.dialects.add(dialect);
        self
    }

    /// Sets the options of a dialect, by their type: those of the crates `windlass-loom`, `windlass-noetl` and
    /// `windlass-zenflow`, or of a custom dialect. Settings that the engine has itself, such as limits and definitions,
    /// are not taken from them.
    pub fn dialect_options<T: std::any::Any + Send + Sync>(mut self, options: T) -> EngineBuilder {
        self.dialects.options = std::mem::take(&mut self.dialects.options).with(options);
        self
    }

    /// Uses a custom store, in which all runs are durable.
    pub fn store(mut self, store: Arc<dyn Store>) -> EngineBuilder {
        self.store = Some(store);
        self.options.durability = Durability::Durable;
        self
    }

    /// Opens the store and creates the engine. Must be called inside a tokio runtime.
    pub fn build(self) -> Result<Engine, Error> {
        #[cfg(feature = "agents")]
        return self.with_agents()?.build_engine();
        #[cfg(not(feature = "agents"))]
        self.build_engine()
    }

    fn build_engine(self) -> Result<Engine, Error> {
        let plans = self.plans()?;
        let EngineBuilder { directory, workflows, dialects, tools, mut options, virtual_time, store, .. } = self;
        let store: Arc<dyn Store> = match (store, directory) {
            (Some(store), _) => store,
            (None, Some(directory)) => {
                Arc::new(SqliteStore::open(&directory, SqliteOptions::default()).map_err(RuntimeError::from)?)
            }
            (None, None) => Arc::new(MemoryStore::new()),
        };
        options.tools = workflows.iter().fold(tools, |tools, workflow| workflow.add_tools(tools));
        options.languages = dialects.languages();
        let inner = runtime::RuntimeEngine::new(store, options)?;
        let mut known = BTreeMap::new();
        for (name, plan, workflow) in plans {
            let (plan, _) = inner.add_plan(plan)?;
            if known.insert(name.clone(), Definition { plan, workflow }).is_some() {
                return Err(Error::refused("DuplicateWorkflow", format!("two definitions are called `{name}`")));
            }
        }
        Ok(Engine { inner, definitions: Arc::new(known), virtual_time })
    }

    fn plans(&self) -> Result<Vec<(String, Plan, Option<Workflow>)>, Error> {
        let in_rust = self.workflows.iter().map(|one| (one.name().to_owned(), one.plan().clone(), Some(one.clone())));
        let mut plans: Vec<_> = in_rust.collect();
        let definitions = self.workflows.iter().map(|one| one.name().to_owned());
        let definitions = definitions.chain(self.definitions.iter().map(|(name, _)| name.clone())).collect();
        let environment =
            CompileEnvironment::new(&self.tools, &self.functions, definitions, self.options.limits.clone());
        for (name, text) in &self.definitions {
            let plan = self.dialects.compile(name, &text.read(name)?, text.file(), &environment)?;
            plans.push((name.clone(), plan, None));
        }
        Ok(plans)
    }
}

impl DefinitionSource {
    fn file(&self) -> Option<&Path> {
        match self {
            DefinitionSource::Inline(_) => None,
            DefinitionSource::File(path) => Some(path),
        }
    }

    fn read(&self, name: &str) -> Result<String, Error> {
        match self {
            DefinitionSource::Inline(text) => Ok(text.clone()),
            DefinitionSource::File(path) => std::fs::read_to_string(path).map_err(|error| {
                let message = format!("the definition `{name}` cannot be read from {}: {error}", path.display());
                Error::refused("Definition", message)
            }),
        }
    }
}

/// Options of the start of a run.
///
/// ```
/// let options = windlass::StartOptions::default().id("order-7").virtual_time(true);
/// assert_eq!(options.id.as_deref(), Some("order-7"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StartOptions {
    /// The run's id. The same id with the same workflow and event is the same run. Generated if none is given.
    pub id: Option<String>,
    /// Whether waiting is skipped; the engine's setting by default.
    pub virtual_time: Option<bool>,
    /// Labels of the run, by which `windlass list --label` and the API find it.
    pub labels: BTreeMap<String, String>,
}

impl StartOptions {
    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> StartOptions {
        self.id = Some(id.into());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> StartOptions {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Turns virtual time on or off.
    #[must_use]
    pub fn virtual_time(mut self, enabled: bool) -> StartOptions {
        self.virtual_time = Some(enabled);
        self
    }
}

/// A start of a run, which takes effect when it is awaited.
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
    /// Sets the id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.options.id = Some(id.into());
        self
    }

    /// Turns virtual time on or off.
    pub fn virtual_time(mut self, enabled: bool) -> Self {
        self.options.virtual_time = Some(enabled);
        self
    }

    /// Sets all options.
    pub fn options(mut self, options: StartOptions) -> Self {
        self.options = options;
        self
    }
}

impl Engine {
    /// Checks that the workflow is the one this engine was given, not another one of the same name.
    fn check_registered(&self, workflow: &Workflow) -> Result<(), Error> {
        let own = self.definitions.get(workflow.name()).and_then(|known| known.workflow.as_ref());
        let same =
            |own: &Workflow| runtime::codec::encode_plan(own.plan()) == runtime::codec::encode_plan(workflow.plan());
        match own {
            Some(own) if !same(own) => {
                let message = format!("this engine has a different workflow named `{}`", workflow.name());
                Err(Error::refused("AnotherWorkflow", message))
            }
            _ => Ok(()),
        }
    }
}

impl<'e, E: Event> IntoFuture for Start<'e, E> {
    type Output = Result<Handle, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Handle, Error>> + Send + 'e>>;

    fn into_future(self) -> Self::IntoFuture {
        let Start { engine, workflow, event, options } = self;
        let input = workflow.start_input(&event);
        Box::pin(async move {
            engine.check_registered(&workflow)?;
            engine.start_with(workflow.name(), input?, options).await
        })
    }
}
