//! The engine: starts, reloads and wakes runs, and notifies the callers that wait for them.

mod damage;
mod events;
mod forks;
mod handle;
mod heartbeat;
mod ids;
mod inherited_history;
mod labels;
mod quarantine;
mod recover;
mod reload;
mod requests;
mod residency;
mod residents;
mod run_options;
mod run_tree;
mod snapshots;
mod starts;
mod stats;
mod triggers;
mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use windlass_core::plan::Plan;
use windlass_core::{Limits, ProcessLimits, Program};
use windlass_store::{CommitHook, GroupWriter, PlanRow, RunStatus, Store, WriterLimits};
use windlass_value::{BlobHash, Language, Timestamp};

pub(crate) use damage::damaged_row_error;
pub(crate) use events::EventFeed;
pub use events::EventReader;
pub use forks::{RestartOrigin, RestartRequest};
pub use handle::RunHandle;
use heartbeat::EngineOwner;
pub(crate) use ids::entropy;
pub(crate) use ids::new_execution_id;
pub use ids::{find_run, is_run_id, is_run_reference, new_run_id};
pub use quarantine::quarantine_reason;
pub use recover::RecoveryProgress;
use reload::ReloadGuard;
pub use requests::{RequestOutcome, RunRequest, request};
pub(crate) use residency::Residency;
pub use run_options::RunOptions;
pub use run_tree::open_descendants;
pub(crate) use starts::StartOrigin;
pub use starts::{RunStartOptions, input_hash};
pub use stats::{EngineStats, RunCounts};
pub use triggers::{DeliveryRuns, TriggerOptions};

use crate::RuntimeError;
use crate::adapters::{DecoratorFactory, RunMailbox};
use crate::codec;
use crate::engine_clock::EngineClock;
use crate::external_input::{InputGate, neutralize_references, secure_inputs};
use crate::report::FinalReport;
use crate::task_log::{LogWriter, TaskLogLimits};
use crate::tool::Tools;
use crate::workers::WorkerPool;

/// The durability of a run while it is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every tick is durable before any of its effects starts: any process that opens the store later can resume the
    /// run.
    #[default]
    Durable,
    /// The store keeps only the run's existence, its status and its end. The run lives and dies with this engine, and a
    /// step costs no more than its computation. Children, messages and handles work the same.
    InMemory,
}

/// Options of a [`RuntimeEngine`].
pub struct EngineOptions {
    /// The tools that tasks can call.
    pub tools: Tools,
    /// The expression languages that plans may use.
    pub languages: Vec<Arc<dyn Language>>,
    /// Limits for plans that carry none.
    pub limits: Limits,
    /// The maximum number of concurrent jobs over all runs.
    pub max_job_concurrency: usize,
    /// The maximum number of runs in memory. In-memory runs are not counted.
    pub max_resident_runs: usize,
    /// The maximum number of runs in memory that only wait. Above it, the run that has waited longest is evicted.
    pub max_idle_runs: usize,
    /// The maximum number of bytes of all replies in flight.
    pub max_total_reply_bytes: usize,
    /// The time after which a silent worker loses its lease and its task is handed to another worker.
    pub lease: Duration,
    /// The idle time after which a waiting run is evicted from memory.
    pub evict_after: Duration,
    /// Wakes every unowned run of the store, not only those that this engine has started.
    pub adopt: bool,
    /// Commits on the run's thread when no other commit is queued. Suited to a process with a single run.
    pub commit_here: bool,
    /// Called around every commit: fault points for tests.
    pub commit_hook: Option<CommitHook>,
    /// The interval at which the engine checks the store for writes of other processes.
    pub poll_every: Duration,
    /// The durability of the runs that this engine starts.
    pub durability: Durability,
    /// Checks the inputs that runs are started with.
    pub gate: Option<Arc<dyn InputGate>>,
    /// The maximum number of events of an in-memory run that are buffered for readers; the newest ones are kept.
    pub max_buffered_events: usize,
    /// Creates the decorator of a run when the run is loaded into memory.
    pub decorators: Option<DecoratorFactory>,
    /// Limits of the log lines of tasks.
    pub log_limits: TaskLogLimits,
    /// The mock file that answers in place of tools, recorded with the runs that this engine starts: the process
    /// that resumes them needs it again.
    pub mock_file: Option<Arc<str>>,
    /// The clock that the runs and timers of this engine follow.
    pub clock: EngineClock,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            tools: Tools::new(),
            languages: Vec::new(),
            limits: Limits::default(),
            max_job_concurrency: ProcessLimits::default().max_job_concurrency,
            max_resident_runs: ProcessLimits::default().max_resident_runs,
            max_idle_runs: ProcessLimits::default().max_idle_runs,
            max_total_reply_bytes: ProcessLimits::default().max_total_reply_bytes,
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
            log_limits: TaskLogLimits::default(),
            mock_file: None,
            clock: EngineClock::default(),
        }
    }
}

/// Runs workflows over a store. Clones share one engine.
#[derive(Clone)]
pub struct RuntimeEngine {
    inner: Arc<EngineInner>,
    /// Whether handles receive live events, if they request them.
    live: bool,
}

pub(crate) struct EngineInner {
    runtime: Handle,
    pub store: Arc<dyn Store>,
    pub writer: Arc<GroupWriter>,
    pub owner: EngineOwner,
    pub pool: WorkerPool,
    pub languages: Vec<Arc<dyn Language>>,
    pub limits: Limits,
    pub evict_after: Duration,
    pub residency: Arc<Residency>,
    pub adopt: bool,
    pub commit_here: bool,
    pub poll_every: Duration,
    pub durability: Durability,
    gate: Option<Arc<dyn InputGate>>,
    pub max_buffered_events: usize,
    feed_cache: Mutex<events::FeedCache>,
    programs: Mutex<BTreeMap<BlobHash, Arc<Program>>>,
    /// The plan that was added last under each name: the one that a child run uses.
    names: Mutex<BTreeMap<Arc<str>, BlobHash>>,
    runs: Mutex<BTreeMap<Arc<str>, TrackedRun>>,
    /// Runs that are being reloaded: two concurrent reloads of one run would fence each other.
    reloading: Mutex<BTreeSet<Arc<str>>>,
    /// Limits how many runs are read and replayed concurrently.
    loads: tokio::sync::Semaphore,
    /// Runs that could not be reloaded, and the time of their next attempt.
    postponed: Mutex<BTreeMap<Arc<str>, recover::PostponedReload>>,
    pub nudge: tokio::sync::Notify,
    /// A caller waits, or has waited, for a run of another process.
    follows: AtomicBool,
    changes: broadcast::Sender<RunChange>,
    closing: AtomicBool,
    /// No new work is started.
    draining: Arc<AtomicBool>,
    /// Set when the engine is closing and all runs in memory have been notified.
    close_announced: watch::Sender<bool>,
    decorators: Option<DecoratorFactory>,
    recovery: Mutex<RecoveryProgress>,
    /// The damaged rows found by the last scan.
    damaged: Mutex<BTreeSet<windlass_store::DamagedRowId>>,
    pub counts: stats::EngineCounters,
    /// Writes the log lines of tasks.
    pub logs: Arc<LogWriter>,
    pub mock_file: Option<Arc<str>>,
    pub clock: EngineClock,
    /// The highest offset that the clock had since the engine was created: it is lower after the clock was set back.
    highest_offset: AtomicI64,
}

/// A run that this engine is responsible for, in memory or not.
pub(crate) struct TrackedRun {
    /// The mailbox of the run while it is in memory.
    pub mailbox: Option<RunMailbox>,
    /// The owner epoch under which this engine last had the run in memory, if it evicted the run because it was idle.
    pub evicted_epoch: Option<u64>,
    /// The offset of the clock under which the timers of an evicted run were set, and the earliest of them.
    pub evicted_clock: Option<EvictedClock>,
    /// Another process owned the run at the last check: the store shows when the run has ended or is free.
    pub elsewhere: bool,
    pub end: watch::Sender<RunEnd>,
    /// The feed from which readers get the run's events.
    pub feed: Arc<EventFeed>,
}

/// The time of an evicted run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictedClock {
    /// The offset of the clock up to which the timers were moved.
    pub offset: i64,
    /// The due time of the earliest timer.
    pub due: Option<Timestamp>,
}

impl TrackedRun {
    /// Reports whether this is the run's current mailbox.
    pub(crate) fn uses_mailbox(&self, mailbox: &RunMailbox) -> bool {
        self.mailbox.as_ref().is_some_and(|own| own.same_channel(mailbox))
    }
}

/// A run was created or has changed its status, durably.
#[derive(Clone, Debug, PartialEq)]
pub struct RunChange {
    /// The id of the run.
    pub run: Arc<str>,
    /// The new status.
    pub status: RunStatus,
}

/// The maximum number of changes by which a subscriber may lag behind.
const MAX_BUFFERED_CHANGES: usize = 4_096;

/// The end of a run as a handle observes it.
#[derive(Clone, Debug)]
pub(crate) enum RunEnd {
    Open,
    Ended(Arc<FinalReport>),
    Failed(RuntimeError),
    /// The engine was closed; the run can be resumed.
    Detached,
}

impl RuntimeEngine {
    /// Creates an engine. Must be called inside a tokio runtime: all runs execute there, whichever thread starts them.
    pub fn new(store: Arc<dyn Store>, options: EngineOptions) -> Result<RuntimeEngine, RuntimeError> {
        let owner = EngineOwner::new(store.open_owner()?);
        let write: Arc<dyn Store> = store.clone();
        let writer = GroupWriter::with_limits(write, WriterLimits::default(), options.commit_hook)?;
        let logs = Arc::new(LogWriter::new(store.clone(), options.log_limits));
        let pool = WorkerPool::new(options.tools, options.max_job_concurrency).with_lease(options.lease);
        let pool = pool.with_reply_bytes(options.max_total_reply_bytes);
        let inner = Arc::new(EngineInner {
            runtime: Handle::current(),
            store,
            writer: Arc::new(writer),
            owner,
            pool: pool.with_logs(logs.clone(), options.log_limits),
            logs,
            mock_file: options.mock_file,
            highest_offset: AtomicI64::new(options.clock.offset()),
            clock: options.clock,
            languages: options.languages,
            limits: options.limits,
            evict_after: options.evict_after,
            residency: Arc::new(Residency::new(options.max_resident_runs, options.max_idle_runs)),
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
            damaged: Mutex::default(),
            counts: stats::EngineCounters::default(),
        });
        tokio::spawn(wake::watch(Arc::downgrade(&inner)));
        if options.adopt {
            tokio::spawn(recover::keep_recovering(Arc::downgrade(&inner)));
        }
        Ok(RuntimeEngine { inner, live: true })
    }

    /// Returns the same engine without live events on handles, for callers that read events by their numbers. The
    /// buffer of a live subscriber takes half a megabyte per run for as long as the run is open.
    #[must_use]
    pub fn without_live_events(self) -> RuntimeEngine {
        RuntimeEngine { live: false, ..self }
    }

    fn track(&self, run: &Arc<str>, watched: bool) -> RunHandle {
        self.inner.track(run, watched && self.live)
    }

    /// Returns the tools that tasks can call, for callers that use one outside of any run.
    pub fn tools(&self) -> &Tools {
        self.inner.pool.tools()
    }

    /// Returns the store that the engine was created with.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns the number of commits so far, and of the batches in them.
    pub fn commits(&self) -> (u64, u64) {
        (self.inner.writer.commits(), self.inner.writer.batches())
    }

    /// Subscribes to the runs of this engine that are created or change their status from now on. A subscriber that is
    /// too slow learns how many changes it missed.
    pub fn changes(&self) -> broadcast::Receiver<RunChange> {
        self.inner.changes.subscribe()
    }

    /// Returns the number of runs in memory.
    pub fn resident(&self) -> usize {
        self.inner.runs().values().filter(|tracked| tracked.mailbox.is_some()).count()
    }

    /// Reports whether the engine sends heartbeats: while a run with a timeout is open.
    pub fn sends_heartbeats(&self) -> bool {
        self.inner.owner.sends_heartbeats()
    }

    /// Returns a plan with its expressions parsed: from memory, or from the store.
    pub fn program(&self, plan: &BlobHash) -> Result<Arc<Program>, RuntimeError> {
        self.inner.program(plan)
    }

    /// Makes calls of this name use this plan from now on. The plan is already in the store.
    pub fn name_plan(&self, name: &Arc<str>, plan: BlobHash) {
        self.inner.names().insert(name.clone(), plan);
    }

    /// Makes calls of this name fail from now on. Definitions that were compiled with it keep working.
    pub fn forget_name(&self, name: &str) {
        self.inner.names().remove(name);
    }

    /// Stores a plan so that runs can be started with it.
    pub fn add_plan(&self, mut plan: Plan) -> Result<(BlobHash, Arc<Program>), RuntimeError> {
        plan.limits.get_or_insert_with(|| self.inner.limits.clone());
        let (hash, body) = codec::plan_hash(&plan);
        let known = self.inner.programs().get(&hash).cloned();
        let program = match known {
            Some(program) => program,
            // Callers that need a program do not wait for the disk here. Two callers that add the same plan write it
            // twice, with the same content.
            None => self.store_plan(plan, hash, body)?,
        };
        self.inner.names().insert(program.plan.name.clone(), hash);
        Ok((hash, program))
    }

    fn store_plan(&self, plan: Plan, hash: BlobHash, body: Vec<u8>) -> Result<Arc<Program>, RuntimeError> {
        for (name, pinned) in &plan.pins {
            let is_known = self.inner.programs().contains_key(pinned);
            if !is_known && self.inner.store.plan(pinned)?.is_none() {
                let why = format!("its definition `{name}` ({pinned}) is not registered");
                return Err(windlass_core::PlanError(why).into());
            }
        }
        let row = PlanRow { hash, dialect: plan.dialect.to_string(), body };
        let program = Arc::new(self.inner.compile_plan(plan)?);
        self.inner.store.put_plan(&row)?;
        Ok(self.inner.programs().entry(hash).or_insert(program).clone())
    }

    /// Sends a request to a run, wherever it is. The request is durable when this returns. Fails for a run whose plan
    /// only a newer program can read.
    pub fn request(&self, run: &str, request_id: &str, request: RunRequest) -> Result<RequestOutcome, RuntimeError> {
        self.inner.refuse_newer_plan(run)?;
        let answer = requests::request(&*self.inner.store, run, request_id, request)?;
        self.inner.nudge_run(run);
        Ok(answer)
    }

    /// Stops all runs between two ticks and accepts no more. Another engine can resume them.
    pub async fn close(&self) {
        self.stop_runs(|| crate::adapters::RunMessage::Close).await;
    }

    /// Closes the engine like [`close`](Self::close), but first lets running tasks end within `limit`. No new task is
    /// started.
    pub async fn drain(&self, limit: Duration) {
        self.inner.draining.store(true, Ordering::SeqCst);
        // Runs that take longer are stopped immediately.
        if tokio::time::timeout(limit, self.stop_runs(|| crate::adapters::RunMessage::Drain)).await.is_err() {
            self.close().await;
        }
    }

    /// Waits until the engine accepts no more runs and every run has been notified.
    pub async fn wait_until_closing(&self) {
        // The sender lives as long as the engine.
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
            // Readers check once more and see that the engine is closing.
            runs.values().for_each(|tracked| tracked.feed.wake());
            runs.values().filter_map(|tracked| tracked.mailbox.clone()).collect()
        };
        for mailbox in &mailboxes {
            mailbox.send(message());
        }
        self.inner.close_announced.send_replace(true);
        for mailbox in mailboxes {
            mailbox.closed().await;
        }
    }
}

impl EngineInner {
    /// Returns the input of an externally started run as it is stored.
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

    /// Fails if the plan of a run was written by a newer program. A run in memory has a plan that was already read.
    /// Other problems of a plan are found when the run is loaded.
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
            evicted_clock: None,
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

    /// Returns a handle to a run that another process owns.
    fn follow(&self, run: &str, watched: bool) -> RunHandle {
        let handle = self.track(&run.into(), watched);
        self.follows.store(true, Ordering::SeqCst);
        if let Some(tracked) = self.runs().get_mut(run) {
            tracked.elsewhere = true;
        }
        self.owner.remove_timed_run(run);
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

    /// Publishes the end from a loop that has exited. Does nothing if the run has been reloaded in the meantime.
    pub(crate) fn publish_end_from_loop(&self, run: &str, mailbox: &RunMailbox, end: RunEnd) {
        self.publish_end_if(run, end, |tracked| tracked.uses_mailbox(mailbox));
    }

    fn publish_end_if(&self, run: &str, end: RunEnd, fits: impl Fn(&TrackedRun) -> bool) {
        let mut runs = self.runs();
        if !runs.get(run).is_some_and(fits) {
            return;
        }
        if let Some((run, tracked)) = runs.remove_entry(run) {
            // A reader finds the feed either among the runs or in the cache.
            self.feed_cache().put(&run, &tracked.feed, self.max_buffered_events);
            drop(runs);
            tracked.feed.close();
            // There may be no waiting handle.
            tracked.end.send_replace(end);
        }
    }

    pub(crate) fn publish_change(&self, run: &Arc<str>, status: RunStatus) {
        if self.changes.receiver_count() > 0 {
            // A subscriber that has just gone needs no change.
            let _ = self.changes.send(RunChange { run: run.clone(), status });
        }
    }

    pub(crate) fn nudge_run(&self, run: &str) {
        if let Some(mailbox) = self.runs().get(run).and_then(|tracked| tracked.mailbox.as_ref()) {
            mailbox.notify_inbox();
        }
        self.nudge.notify_one();
    }
}
