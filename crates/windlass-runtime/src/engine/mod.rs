//! The engine: starts runs, brings them back, wakes them, and tells whoever waits.

mod events;
mod forks;
mod ids;
mod quarantine;
mod recover;
mod reload;
mod requests;
mod residents;
mod run_tree;
mod snapshots;
mod starts;
mod stats;
mod triggers;
mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, watch};
use windlass_core::plan::Plan;
use windlass_core::{Event, Limits, ProcessLimits, Program};
use windlass_store::{CommitHook, GroupWriter, Owner, PlanRow, RunStatus, Store, WriterLimits};
use windlass_value::{BlobHash, Language};

pub(crate) use events::EventFeed;
pub use events::EventReader;
pub use forks::{RestartOrigin, RestartRequest};
pub(crate) use ids::entropy;
pub use ids::{is_run_id, new_run_id};
pub use quarantine::quarantine_reason;
pub use recover::RecoveryProgress;
use reload::ReloadGuard;
pub use requests::{RequestOutcome, RunRequest, request};
pub use run_tree::open_descendants;
pub(crate) use starts::StartOrigin;
pub use starts::input_hash;
pub use stats::{EngineStats, RunCounts};
pub use triggers::{DeliveryRuns, TriggerOptions};

use crate::RuntimeError;
use crate::adapters::{DecoratorFactory, RunMailbox};
use crate::codec;
use crate::external_input::{InputGate, neutralize_references, secure_inputs};
use crate::report::FinalReport;
use crate::tool::Tools;
use crate::workers::WorkerPool;

/// What of a run is kept while it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every tick, before any of its effects begins: whoever opens the store later goes on with the run.
    #[default]
    Durable,
    /// Only that it exists, where it stands and how it ends. It lives and dies with this engine, and a step costs no more
    /// than its computation. Children, messages and handles work the same.
    InMemory,
}

pub struct EngineOptions {
    pub tools: Tools,
    pub languages: Vec<Arc<dyn Language>>,
    pub limits: Limits,
    /// Jobs at once over all runs.
    pub max_job_concurrency: usize,
    /// How long a worker may be silent before its task is handed to another.
    pub lease: Duration,
    /// A run that has only waited for this long leaves memory.
    pub evict_after: Duration,
    /// Wakes every run of the store that nobody owns, not only those this engine has started.
    pub adopt: bool,
    /// Commits on the run's own thread when nothing else waits. Right for a process with one run.
    pub commit_here: bool,
    /// Called around every commit: fault points for tests.
    pub commit_hook: Option<CommitHook>,
    /// How often the store is asked whether another process has written.
    pub poll_every: Duration,
    pub durability: Durability,
    /// Looks at what runs are started with.
    pub gate: Option<Arc<dyn InputGate>>,
    /// Of a run that keeps nothing: how many of its newest events readers can have.
    pub max_buffered_events: usize,
    /// Makes the decorator of a run, when the run comes into memory.
    pub decorators: Option<DecoratorFactory>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            tools: Tools::new(),
            languages: Vec::new(),
            limits: Limits::default(),
            max_job_concurrency: ProcessLimits::default().max_job_concurrency,
            lease: crate::workers::DEFAULT_LEASE,
            evict_after: Duration::from_secs(10),
            adopt: false,
            commit_here: false,
            commit_hook: None,
            poll_every: Duration::from_millis(50),
            durability: Durability::default(),
            gate: None,
            max_buffered_events: 2_000,
            decorators: None,
        }
    }
}

#[derive(Clone)]
pub struct RuntimeEngine {
    inner: Arc<EngineInner>,
    /// Whether handles have events live, if they are wanted.
    live: bool,
}

pub(crate) struct EngineInner {
    runtime: Handle,
    pub store: Arc<dyn Store>,
    pub writer: Arc<GroupWriter>,
    pub owner: Owner,
    pub pool: WorkerPool,
    pub languages: Vec<Arc<dyn Language>>,
    pub limits: Limits,
    pub evict_after: Duration,
    pub adopt: bool,
    pub commit_here: bool,
    pub poll_every: Duration,
    pub durability: Durability,
    gate: Option<Arc<dyn InputGate>>,
    pub max_buffered_events: usize,
    feed_cache: Mutex<events::FeedCache>,
    programs: Mutex<BTreeMap<BlobHash, Arc<Program>>>,
    /// The plan that was added last under each name: the one a child run gets.
    names: Mutex<BTreeMap<Arc<str>, BlobHash>>,
    runs: Mutex<BTreeMap<Arc<str>, TrackedRun>>,
    /// Runs that are being brought back right now: two who do it at once would fence each other.
    reloading: Mutex<BTreeSet<Arc<str>>>,
    /// How many are read and replayed at once.
    loads: tokio::sync::Semaphore,
    /// Runs that could not be brought back, and when they are tried again.
    postponed: Mutex<BTreeMap<Arc<str>, recover::PostponedReload>>,
    pub nudge: tokio::sync::Notify,
    /// Somebody waits, or has waited, for a run of another process.
    follows: AtomicBool,
    changes: broadcast::Sender<RunChange>,
    closing: AtomicBool,
    /// Nothing new is begun.
    draining: Arc<AtomicBool>,
    /// That it closes: all runs that were there have been told.
    close_announced: watch::Sender<bool>,
    decorators: Option<DecoratorFactory>,
    recovery: Mutex<RecoveryProgress>,
    pub counts: stats::EngineCounters,
}

/// A run this engine answers for, in memory or not.
pub(crate) struct TrackedRun {
    /// Where its mail goes while it is in memory.
    pub mailbox: Option<RunMailbox>,
    /// The claim under which this engine has had it in memory last, and has let it go because it only waited.
    pub evicted_epoch: Option<u64>,
    /// Another process had it when it was looked at last: the store says when it has ended, or is free.
    pub elsewhere: bool,
    pub end: watch::Sender<RunEnd>,
    /// Where its readers have its events from.
    pub feed: Arc<EventFeed>,
}

impl TrackedRun {
    /// Whether its mail goes there.
    pub(crate) fn uses_mailbox(&self, mailbox: &RunMailbox) -> bool {
        self.mailbox.as_ref().is_some_and(|own| own.same_channel(mailbox))
    }
}

/// A run was made or has changed its status, durably.
#[derive(Clone, Debug, PartialEq)]
pub struct RunChange {
    pub run: Arc<str>,
    pub status: RunStatus,
}

/// Changes that whoever listens may be behind.
const MAX_BUFFERED_CHANGES: usize = 4_096;

/// What a handle can see of a run's fate.
#[derive(Clone, Debug)]
pub(crate) enum RunEnd {
    Open,
    Ended(Arc<FinalReport>),
    Failed(RuntimeError),
    /// The engine was closed; the run can be resumed.
    Detached,
}

pub struct RunStartOptions {
    pub id: Option<String>,
    pub virtual_time: bool,
    pub parent: Option<(Arc<str>, u64)>,
    /// Events are wanted live.
    pub watch: bool,
    /// It is made and begins when it is resumed.
    pub held: bool,
}

impl Default for RunStartOptions {
    fn default() -> RunStartOptions {
        RunStartOptions { id: None, virtual_time: false, parent: None, watch: true, held: false }
    }
}

/// How a run was started, for whoever resumes it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunOptions {
    pub virtual_time: bool,
    pub input: BlobHash,
    pub parent: Option<(Arc<str>, u64)>,
    /// How many runs it is inside of, by calls.
    pub depth: u64,
    /// The whole input of the delivery that it is a part of.
    pub delivery: Option<BlobHash>,
    /// The run that all this began with, if it is another.
    pub trace: Option<Arc<str>>,
    /// Nothing is kept of it that somebody could go on with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_memory: bool,
    /// The run that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RestartOrigin>,
    /// What it shares with the runs that it was made from or called by, and with no other, whatever their ids.
    pub run_tree: Arc<str>,
}

pub struct RunHandle {
    pub run: Arc<str>,
    end: watch::Receiver<RunEnd>,
    pub events: Option<broadcast::Receiver<Event>>,
    /// The run was made by the call that gave this handle, not before.
    pub created: bool,
    /// What is in memory of its events stays there as long as somebody has a handle.
    _feed: Arc<EventFeed>,
}

impl RunHandle {
    /// How the run has ended, if it has.
    pub fn ended(&self) -> Option<Arc<FinalReport>> {
        match &*self.end.borrow() {
            RunEnd::Ended(report) => Some(report.clone()),
            RunEnd::Open | RunEnd::Failed(_) | RunEnd::Detached => None,
        }
    }

    /// Waits until the run has ended, or this engine no longer answers for it.
    pub async fn wait(&mut self) -> Result<Arc<FinalReport>, RuntimeError> {
        let end = self.end.wait_for(|end| !matches!(end, RunEnd::Open)).await.map_err(|_| RuntimeError::Closing)?;
        match &*end {
            RunEnd::Ended(report) => Ok(report.clone()),
            RunEnd::Failed(error) => Err(error.clone()),
            RunEnd::Open | RunEnd::Detached => Err(RuntimeError::Closing),
        }
    }
}

impl RuntimeEngine {
    /// Must be called inside a tokio runtime: there its runs turn, whoever starts them from wherever.
    pub fn new(store: Arc<dyn Store>, options: EngineOptions) -> Result<RuntimeEngine, RuntimeError> {
        let owner = store.open_owner()?;
        let write: Arc<dyn Store> = store.clone();
        let writer = GroupWriter::with_limits(write, WriterLimits::default(), options.commit_hook)?;
        let inner = Arc::new(EngineInner {
            runtime: Handle::current(),
            store,
            writer: Arc::new(writer),
            owner,
            pool: WorkerPool::new(options.tools, options.max_job_concurrency).with_lease(options.lease),
            languages: options.languages,
            limits: options.limits,
            evict_after: options.evict_after,
            adopt: options.adopt,
            commit_here: options.commit_here,
            poll_every: options.poll_every,
            durability: options.durability,
            gate: options.gate,
            max_buffered_events: options.max_buffered_events,
            feed_cache: Mutex::default(),
            programs: Mutex::default(),
            names: Mutex::default(),
            runs: Mutex::default(),
            reloading: Mutex::default(),
            loads: tokio::sync::Semaphore::new(recover::max_load_concurrency()),
            postponed: Mutex::default(),
            nudge: tokio::sync::Notify::new(),
            follows: AtomicBool::new(false),
            changes: broadcast::channel(MAX_BUFFERED_CHANGES).0,
            closing: AtomicBool::new(false),
            draining: Arc::default(),
            close_announced: watch::channel(false).0,
            decorators: options.decorators,
            recovery: Mutex::new(RecoveryProgress { in_progress: options.adopt, ..RecoveryProgress::default() }),
            counts: stats::EngineCounters::default(),
        });
        tokio::spawn(wake::watch(Arc::downgrade(&inner)));
        if options.adopt {
            tokio::spawn(recover::keep_recovering(Arc::downgrade(&inner)));
        }
        Ok(RuntimeEngine { inner, live: true })
    }

    /// The same engine for whoever reads events by their numbers and never through a handle: what a handle may be behind
    /// takes half a megabyte for each run, and would be there for as long as the run is open.
    #[must_use]
    pub fn without_live_events(self) -> RuntimeEngine {
        RuntimeEngine { live: false, ..self }
    }

    fn track(&self, run: &Arc<str>, watched: bool) -> RunHandle {
        self.inner.track(run, watched && self.live)
    }

    /// What tasks can call, for whoever asks the world something outside of all runs.
    pub fn tools(&self) -> &Tools {
        self.inner.pool.tools()
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Commits so far, and batches in them.
    pub fn commits(&self) -> (u64, u64) {
        (self.inner.writer.commits(), self.inner.writer.batches())
    }

    /// Runs of this engine that are made or change their status, from now on. Whoever is too slow is told how many were
    /// missed.
    pub fn changes(&self) -> broadcast::Receiver<RunChange> {
        self.inner.changes.subscribe()
    }

    /// Runs that are in memory now.
    pub fn resident(&self) -> usize {
        self.inner.runs().values().filter(|tracked| tracked.mailbox.is_some()).count()
    }

    /// A plan with its expressions parsed: from memory, or from the store.
    pub fn program(&self, plan: &BlobHash) -> Result<Arc<Program>, RuntimeError> {
        self.inner.program(plan)
    }

    /// Calls of this name mean this plan from now on, which is in the store already.
    pub fn name_plan(&self, name: &Arc<str>, plan: BlobHash) {
        self.inner.names().insert(name.clone(), plan);
    }

    /// Calls of this name mean nothing any more; what was compiled with it goes on.
    pub fn forget_name(&self, name: &str) {
        self.inner.names().remove(name);
    }

    /// Keeps a plan so that runs can be started with it.
    pub fn add_plan(&self, mut plan: Plan) -> Result<(BlobHash, Arc<Program>), RuntimeError> {
        plan.limits.get_or_insert_with(|| self.inner.limits.clone());
        let (hash, body) = codec::plan_hash(&plan);
        let known = self.inner.programs().get(&hash).cloned();
        let program = match known {
            Some(program) => program,
            // Whoever wants a program does not wait for a disk meanwhile. Two who add the same plan write it twice, as one.
            None => self.store_plan(plan, hash, body)?,
        };
        self.inner.names().insert(program.plan.name.clone(), hash);
        Ok((hash, program))
    }

    fn store_plan(&self, plan: Plan, hash: BlobHash, body: Vec<u8>) -> Result<Arc<Program>, RuntimeError> {
        for (name, pinned) in &plan.pins {
            let is_known = self.inner.programs().contains_key(pinned);
            if !is_known && self.inner.store.plan(pinned)?.is_none() {
                let why = format!("its definition `{name}` ({pinned}) has not been added");
                return Err(windlass_core::PlanError(why).into());
            }
        }
        let row = PlanRow { hash, dialect: plan.dialect.to_string(), body };
        let program = Arc::new(self.inner.compile_plan(plan)?);
        self.inner.store.put_plan(&row)?;
        Ok(self.inner.programs().entry(hash).or_insert(program).clone())
    }

    /// Asks something of a run, wherever it is. Durable when this returns. A run whose plan only a newer program can read
    /// gets nothing.
    pub fn request(&self, run: &str, request_id: &str, request: RunRequest) -> Result<RequestOutcome, RuntimeError> {
        self.inner.refuse_newer_plan(run)?;
        let answer = requests::request(&*self.inner.store, run, request_id, request)?;
        self.inner.nudge_run(run);
        Ok(answer)
    }

    /// Lets go of all runs, between two ticks, and takes no more. They can be resumed by another engine.
    pub async fn close(&self) {
        self.stop_runs(|| crate::adapters::RunMessage::Close).await;
    }

    /// The same, but what tasks are at work on may end first, if that takes no longer than `limit`. Nothing new is begun.
    pub async fn drain(&self, limit: Duration) {
        self.inner.draining.store(true, Ordering::SeqCst);
        // Those that take too long are told to let go, whatever they are at.
        if tokio::time::timeout(limit, self.stop_runs(|| crate::adapters::RunMessage::Drain)).await.is_err() {
            self.close().await;
        }
    }

    /// Comes to an end when the engine takes no more, and every run has been told.
    pub async fn wait_until_closing(&self) {
        // The sender lives as long as the engine does.
        let _ = self.inner.close_announced.subscribe().wait_for(|announced| *announced).await;
    }

    async fn stop_runs(&self, message: impl Fn() -> crate::adapters::RunMessage) {
        self.inner.closing.store(true, Ordering::SeqCst);
        self.inner.nudge.notify_one();
        let mailboxes: Vec<RunMailbox> = {
            let mut runs = self.inner.runs();
            for (_, asleep) in runs.extract_if(.., |_, tracked| tracked.mailbox.is_none()) {
                asleep.end.send_replace(RunEnd::Detached);
            }
            // Readers look once more, and see that it is time to go.
            runs.values().for_each(|tracked| tracked.feed.wake());
            runs.values().filter_map(|tracked| tracked.mailbox.clone()).collect()
        };
        for mailbox in &mailboxes {
            // A loop that has just ended needs no telling.
            let _ = mailbox.send(message());
        }
        self.inner.close_announced.send_replace(true);
        for mailbox in mailboxes {
            mailbox.closed().await;
        }
    }
}

impl EngineInner {
    /// The input of a run that somebody outside starts, as it is kept.
    fn admit_input(
        &self,
        plan: &Plan,
        run_tree: &str,
        input: windlass_value::Value,
    ) -> Result<windlass_value::Value, RuntimeError> {
        match &self.gate {
            Some(gate) => gate.admit(&secure_inputs(plan), run_tree, input).map_err(RuntimeError::Input),
            None => Ok(neutralize_references(input)),
        }
    }

    pub(crate) fn runs(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, TrackedRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, BlobHash>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn feed_cache(&self) -> std::sync::MutexGuard<'_, events::FeedCache> {
        self.feed_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    fn programs(&self) -> std::sync::MutexGuard<'_, BTreeMap<BlobHash, Arc<Program>>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compile_plan(&self, plan: Plan) -> Result<Program, RuntimeError> {
        let languages: Vec<&dyn Language> = self.languages.iter().map(|language| &**language).collect();
        Ok(Program::load(plan, &languages, self.limits.clone())?)
    }

    /// Fails if the plan of a run was written by a newer program. A run in memory has a plan that was read before; what else
    /// is wrong with a plan is found when the run is loaded.
    fn refuse_newer_plan(&self, run: &str) -> Result<(), RuntimeError> {
        if self.runs().get(run).is_some_and(|tracked| tracked.mailbox.is_some()) {
            return Ok(());
        }
        let Some(row) = self.store.run(run)? else { return Ok(()) };
        match self.program(&row.plan) {
            Err(error) if error.needs_newer() => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn program(&self, hash: &BlobHash) -> Result<Arc<Program>, RuntimeError> {
        if let Some(program) = self.programs().get(hash) {
            return Ok(program.clone());
        }
        let row = self.store.plan(hash)?.ok_or_else(|| RuntimeError::MissingBlob(hash.to_string()))?;
        let plan = codec::decode_plan(&row.body)?;
        let program = Arc::new(self.compile_plan(plan)?);
        self.programs().insert(*hash, program.clone());
        Ok(program)
    }

    fn track(&self, run: &Arc<str>, watched: bool) -> RunHandle {
        let mut runs = self.runs();
        let tracked = runs.entry(run.clone()).or_insert_with(|| TrackedRun {
            mailbox: None,
            evicted_epoch: None,
            elsewhere: false,
            end: watch::channel(RunEnd::Open).0,
            feed: Arc::new(match self.durability {
                Durability::Durable => EventFeed::stored(),
                Durability::InMemory => EventFeed::in_memory(self.max_buffered_events),
            }),
        });
        let events = watched.then(|| tracked.feed.subscribe());
        RunHandle {
            run: run.clone(),
            end: tracked.end.subscribe(),
            events,
            created: false,
            _feed: tracked.feed.clone(),
        }
    }

    /// Waits for a run that another process has.
    fn follow(&self, run: &str, watched: bool) -> RunHandle {
        let handle = self.track(&run.into(), watched);
        self.follows.store(true, Ordering::SeqCst);
        if let Some(tracked) = self.runs().get_mut(run) {
            tracked.elsewhere = true;
        }
        handle
    }

    fn untrack(&self, run: &str) {
        self.runs().remove(run);
    }

    pub(crate) fn is_resident(&self, run: &str) -> bool {
        self.runs().get(run).is_some_and(|tracked| tracked.mailbox.is_some())
    }

    pub(crate) fn publish_end(&self, run: &str, end: RunEnd) {
        self.publish_end_if(run, end, |_| true);
    }

    /// The same from a loop that has let go of a run: somebody else may have brought it back by now, and goes on with it.
    pub(crate) fn publish_end_from_loop(&self, run: &str, mailbox: &RunMailbox, end: RunEnd) {
        self.publish_end_if(run, end, |tracked| tracked.uses_mailbox(mailbox));
    }

    fn publish_end_if(&self, run: &str, end: RunEnd, fits: impl Fn(&TrackedRun) -> bool) {
        let mut runs = self.runs();
        if !runs.get(run).is_some_and(fits) {
            return;
        }
        if let Some((run, tracked)) = runs.remove_entry(run) {
            // Whoever looks for its events finds them in one place or the other.
            self.feed_cache().put(&run, &tracked.feed, self.max_buffered_events);
            drop(runs);
            tracked.feed.close();
            // Nobody may be waiting.
            tracked.end.send_replace(end);
        }
    }

    pub(crate) fn publish_change(&self, run: &Arc<str>, status: RunStatus) {
        if self.changes.receiver_count() > 0 {
            // Whoever has just gone need not hear it.
            let _ = self.changes.send(RunChange { run: run.clone(), status });
        }
    }

    pub(crate) fn nudge_run(&self, run: &str) {
        if let Some(mailbox) = self.runs().get(run).and_then(|tracked| tracked.mailbox.as_ref()) {
            // A loop that has just ended will not need it.
            let _ = mailbox.send(crate::adapters::RunMessage::Inbox);
        }
        self.nudge.notify_one();
    }
}

pub(crate) type MailPair = (RunMailbox, mpsc::UnboundedReceiver<crate::adapters::RunMessage>);
