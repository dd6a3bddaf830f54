//! Resident runs: each one executes its own control loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{Instrument, debug, debug_span};
use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, Event, Program, RunReply, RunResult, State, Tick, TickKind, TickOutput};
use windlass_store::{NewRun, RunLabels, RunStatus};
use windlass_value::{BlobHash, Value};

use super::residency::ResidentPlace;
use super::{Durability, EngineInner, EvictedClock, ReloadGuard, RunEnd, RunOptions, entropy};
use crate::adapter::{Adapter, ChildStart, Children, Journal, Outward, TickSource, TimeSource};
use crate::adapters::{
    DecoratedAdapter, DurableAdapter, IdleEviction, InMemoryAdapter, LocalAdapter, RunMailbox, RunMessage,
    RunOutboxOptions, evicted_status, resident_status,
};
use crate::blobs::BlobCache;
use crate::clock::Clock;
use crate::concerns;
use crate::control_loop::{ControlLoop, LoopExit};
use crate::recovery::RunImage;
use crate::report::FinalReport;
use crate::reused_results::ReusedResults;
use crate::tool::CallerDefinition;
use crate::workers::RunWorkers;
use crate::{RuntimeError, codec};

pub(crate) struct Launch {
    pub run: Arc<str>,
    pub program: Arc<Program>,
    pub image: RunImage,
    pub first: Vec<TickKind>,
    pub owner_epoch: u64,
    pub create: Option<NewRun>,
    pub clock: Clock,
    /// The offset of the engine's clock under which the timers were set.
    pub clock_offset: i64,
    pub parent: Option<(Arc<str>, u64)>,
    /// The id of the run tree that the run belongs to.
    pub run_tree: Arc<str>,
    /// Results of another run that this run reuses.
    pub reused: Option<Arc<ReusedResults>>,
    /// Prevents another caller from creating or reloading the run before it is durable, even if the first caller stops
    /// waiting.
    pub reload_guard: Option<ReloadGuard>,
}

/// The reload guard of a run that is not durable yet.
type SharedReloadGuard = Arc<Mutex<Option<ReloadGuard>>>;

fn drop_reload_guard(guard: &SharedReloadGuard) {
    drop(guard.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// The initial values of a control loop.
struct LoopSetup {
    program: Arc<Program>,
    state: State,
    blobs: BlobCache,
    first: Vec<TickKind>,
    reused: Option<Arc<ReusedResults>>,
    mailbox: RunMailbox,
    reload_guard: SharedReloadGuard,
    place: Option<ResidentPlace>,
}

impl EngineInner {
    /// Loads a run into memory. Returns when its first ticks are durable.
    pub(crate) async fn launch(self: &Arc<Self>, launch: Launch) -> Result<(), RuntimeError> {
        let Launch {
            run,
            program,
            image,
            first,
            owner_epoch,
            create,
            clock,
            clock_offset,
            parent,
            run_tree,
            reused,
            reload_guard,
        } = launch;
        // A run without a journal cannot be evicted: it would wait for a place that it takes itself.
        let place = match self.durability {
            Durability::Durable => Some(self.residency.acquire().await.ok_or(RuntimeError::Closing)?),
            Durability::InMemory => None,
        };
        let (mailbox, mail) = RunMailbox::channel();
        let (reports_in, reports) = mpsc::unbounded_channel();
        let feed = {
            let mut runs = self.runs();
            if self.is_closing() {
                runs.remove(&run);
            }
            let tracked = runs.get_mut(&run).ok_or(RuntimeError::Closing)?;
            tracked.mailbox = Some(mailbox.clone());
            tracked.elsewhere = false;
            tracked.feed.clone()
        };
        let virtual_time = matches!(clock, Clock::Virtual { .. });
        if program.plan.timeout.is_some() && !virtual_time {
            self.owner.add_timed_run(&run);
        }
        let workers = RunWorkers::new(self.pool.clone(), run.clone(), reports_in)
            .with_reused_results(reused.clone())
            .with_run_tree(run_tree);
        let workers = workers.with_definition(CallerDefinition::from_plan(&program.plan));
        let local = LocalAdapter::new(clock, entropy(), (mailbox.clone(), mail), reports, workers);
        let local = local.with_clock(self.clock.clone(), clock_offset);
        let local = local.with_feed(feed).with_draining_flag(self.draining.clone()).checking_inbox_first();
        let above = parent.as_ref().map(|(parent, _)| parent.clone());
        let options = RunOutboxOptions {
            store: self.store.clone(),
            writer: self.writer.clone(),
            run: run.clone(),
            owner_epoch,
            limits: program.limits.clone(),
            program: program.clone(),
            create,
            parent,
            commit_here: self.commit_here,
            virtual_time,
            logs: self.logs.clone(),
        };
        let decorator = self.decorators.as_ref().and_then(|make| make(&run, &program.plan.name));
        let RunImage { state, blobs, iterations } = image;
        let reload_guard = Arc::new(Mutex::new(reload_guard));
        let idle_mailbox = mailbox.clone();
        let loaded = LoopSetup { program, state, blobs, first, reused, mailbox, reload_guard, place };
        let (begun, task) = match self.durability {
            Durability::Durable => {
                let durable = DurableAdapter::new(local, options, &loaded.state, &iterations);
                let durable = IdleEviction::new(durable, self.evict_after, self.residency.clone(), idle_mailbox);
                match decorator {
                    // Two types of loops, so that a run without a decorator does not pay for decorators.
                    None => self.host(run.clone(), owner_epoch, above, virtual_time, durable, loaded),
                    Some(decorator) => {
                        let decorated = DecoratedAdapter::new(durable, decorator);
                        self.host(run.clone(), owner_epoch, above, virtual_time, decorated, loaded)
                    }
                }
            }
            Durability::InMemory => {
                let in_memory = InMemoryAdapter::new(local, options, &loaded.state);
                match decorator {
                    None => self.host(run.clone(), owner_epoch, above, virtual_time, in_memory, loaded),
                    Some(decorator) => {
                        let decorated = DecoratedAdapter::new(in_memory, decorator);
                        self.host(run.clone(), owner_epoch, above, virtual_time, decorated, loaded)
                    }
                }
            }
        };
        match begun.await {
            Ok(()) => Ok(()),
            // The loop ended before anything was durable: its own error gives the reason.
            Err(_) => match task.await {
                Ok(Some(error)) => Err(error),
                Ok(None) => Ok(()),
                Err(_) => {
                    let why = "internal error: the control loop panicked".to_owned();
                    Err(RuntimeError::Quarantined { run: run.to_string(), why })
                }
            },
        }
    }

    /// Spawns the loop of a run as a task. The receiver resolves when its first ticks are durable.
    fn host<A: Adapter + 'static>(
        self: &Arc<Self>,
        run: Arc<str>,
        owner_epoch: u64,
        parent: Option<Arc<str>>,
        virtual_time: bool,
        inner: A,
        loaded: LoopSetup,
    ) -> (oneshot::Receiver<()>, JoinHandle<Option<RuntimeError>>) {
        let LoopSetup { program, state, blobs, first, reused, mailbox, reload_guard, place } = loaded;
        let replied = Arc::new(AtomicBool::new(state.reply.is_some()));
        let (sender, begun) = oneshot::channel();
        let hosted = HostedAdapter {
            inner,
            engine: self.clone(),
            run: run.clone(),
            parent: parent.clone(),
            replied: replied.clone(),
            begun: Some(sender),
            reload_guard: reload_guard.clone(),
            report: None,
            program: program.clone(),
            virtual_time,
            durable: self.durability == Durability::Durable,
            reused,
            published_status: None,
        };
        // Not the caller's span: a run outlives the request that has started it.
        let span = debug_span!(parent: None, "run", run = &*run, definition = &*program.plan.name, owner_epoch);
        let looping = ControlLoop::new(program, state, blobs, hosted, first);
        let engine = self.clone();
        let running = async move {
            let exit = super::quarantine::catch_panic(&run, looping.run()).await;
            let waiting = parent.as_ref().filter(|_| !replied.load(Ordering::SeqCst));
            drop(place);
            let error = engine.on_loop_exit(&run, owner_epoch, &mailbox, waiting, exit);
            // Released last: the next caller that loads the run must find nothing left over from this loop.
            drop_reload_guard(&reload_guard);
            error
        };
        (begun, self.runtime.spawn(running.instrument(span)))
    }

    /// Handles the exit of a control loop. `parent` waits for the result of the run. Returns the loop's error, for a
    /// start that waits for it.
    fn on_loop_exit(
        &self,
        run: &Arc<str>,
        owner_epoch: u64,
        mailbox: &RunMailbox,
        parent: Option<&Arc<str>>,
        exit: Result<LoopExit, RuntimeError>,
    ) -> Option<RuntimeError> {
        let exit_kind = match &exit {
            Ok(LoopExit::Ended(_)) => "ended",
            Ok(LoopExit::Evicted) => "evicted",
            Ok(LoopExit::Closed) => "closed",
            Err(_) => "failed",
        };
        debug!(run = &**run, exit = exit_kind, "run left memory");
        match exit {
            Ok(LoopExit::Ended(_)) => {
                self.owner.remove_timed_run(run);
                None
            }
            Ok(LoopExit::Evicted) => {
                if let Some(tracked) = self.runs().get_mut(run).filter(|tracked| tracked.uses_mailbox(mailbox)) {
                    tracked.mailbox = None;
                    tracked.evicted_epoch = Some(owner_epoch);
                }
                self.nudge.notify_one();
                None
            }
            Ok(LoopExit::Closed) => {
                self.publish_end_from_loop(run, mailbox, RunEnd::Detached);
                None
            }
            Err(error) => {
                self.quarantine_if_poisoned(run, owner_epoch, &error);
                // The state in memory is ahead of the journal and lost. The run resumes from the journal when the store
                // works again.
                let will_reload = self.adopt && error.is_transient();
                if will_reload {
                    self.postpone(run, &error);
                } else {
                    self.owner.remove_timed_run(run);
                }
                self.publish_end_from_loop(run, mailbox, RunEnd::Failed(error.clone()));
                // If another process has the run, it continues there. The parent would never learn of any other error.
                let elsewhere = matches!(
                    error,
                    RuntimeError::Fenced | RuntimeError::RunExists(_) | RuntimeError::ExecutionIdExists
                );
                // The start of the run reports it to the parent.
                let refused = matches!(error, RuntimeError::TreeFull { .. });
                if let (Some(parent), false) =
                    (parent, will_reload || elsewhere || refused || self.needs_operator(&error))
                {
                    self.stop_run(parent, error.clone());
                }
                Some(error)
            }
        }
    }
}

/// The outermost adapter: the operations that only the engine can perform.
struct HostedAdapter<A> {
    inner: A,
    engine: Arc<EngineInner>,
    run: Arc<str>,
    parent: Option<Arc<str>>,
    /// The run has replied to its parent, which waits no longer.
    replied: Arc<AtomicBool>,
    program: Arc<Program>,
    begun: Option<oneshot::Sender<()>>,
    reload_guard: SharedReloadGuard,
    report: Option<FinalReport>,
    virtual_time: bool,
    /// The run has a journal, and is listed as waiting when it waits.
    durable: bool,
    reused: Option<Arc<ReusedResults>>,
    /// The last status that was published to subscribers.
    published_status: Option<RunStatus>,
}

impl<A> HostedAdapter<A> {
    fn publish_status(&mut self, status: RunStatus) {
        if self.published_status.replace(status) != Some(status) {
            self.engine.publish_change(&self.run, status);
        }
    }
}

impl<A: Adapter> Adapter for HostedAdapter<A> {
    concerns!(own: journal, children, outward; inner: time, ticks, workers);

    async fn close(&mut self) {
        self.inner.close().await;
    }
}

impl<A: Adapter> Journal for HostedAdapter<A> {
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State) {
        self.engine.counts.count_tick(output.iterations.len());
        self.inner.journal().on_tick(tick, output, state);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.inner.journal().flush(state, blobs).await?;
        if let Some(begun) = self.begun.take() {
            drop_reload_guard(&self.reload_guard);
            // The caller that started the run may have gone.
            let _ = begun.send(());
        }
        self.publish_status(resident_status(state, self.durable, self.virtual_time));
        if state.result().is_some() {
            self.report = Some(FinalReport::from_state(&self.program, state));
        }
        Ok(())
    }

    fn wants_flush(&mut self) -> bool {
        self.inner.journal().wants_flush()
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        self.inner.journal().load_blob(hash).await
    }

    async fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.inner.journal().evict(state, blobs).await?;
        let evicted = EvictedClock { offset: self.inner.time().clock_offset(), due: state.next_due() };
        if let Some(tracked) = self.engine.runs().get_mut(&self.run) {
            tracked.evicted_clock = Some(evicted);
        }
        self.publish_status(evicted_status(state));
        Ok(())
    }
}

impl<A: Adapter> Outward for HostedAdapter<A> {
    fn write_to_event_stream(&mut self, event: Event) {
        self.inner.outward().write_to_event_stream(event);
    }

    fn replied(&mut self, reply: &RunReply) {
        self.inner.outward().replied(reply);
        self.replied.store(true, Ordering::SeqCst);
        if let Some(parent) = &self.parent {
            // The message was written with the tick.
            self.engine.nudge_run(parent);
        }
    }

    fn ended(&mut self, result: &RunResult) {
        self.inner.outward().ended(result);
        self.engine.counts.count_end(&self.program.plan.name, result.status);
        if let Some(report) = self.report.take() {
            self.engine.publish_end(&self.run, RunEnd::Ended(Arc::new(report)));
        }
        if let Some(parent) = &self.parent {
            // The message was written with the last tick.
            self.engine.nudge_run(parent);
        }
    }
}

impl<A: Adapter> Children for HostedAdapter<A> {
    fn start_child(&mut self, child: ChildStart) {
        if let Some(outcome) = self.reused.as_ref().and_then(|reused| reused.reuse_call(&child)) {
            let (call, status) = (child.call, windlass_core::Status::Succeeded);
            return self.inner.ticks().send_event(TickKind::CallResult { call, status, outcome });
        }
        // A child runs in its parent's time.
        let mut clock = if self.virtual_time { Clock::virtual_time() } else { Clock::Real };
        clock.skip_to(self.inner.time().get_now());
        let failed_child = self.reused.as_ref().and_then(|reused| reused.failed_call(&child));
        self.engine.clone().start_child(self.run.clone(), child, clock, failed_child);
    }

    fn cancel_child(&mut self, child: &str) {
        // The message was written with the tick.
        self.engine.nudge_run(child);
    }
}

impl EngineInner {
    /// Starts a child run. Its id derives from its parent and the calling path, so starting it twice starts it once.
    fn start_child(self: Arc<Self>, parent: Arc<str>, child: ChildStart, clock: Clock, failed_child: Option<String>) {
        self.runtime.clone().spawn(async move {
            let (call, run) = (child.call, parent.clone());
            let engine = super::RuntimeEngine { inner: self.clone(), live: false };
            let notified = match engine.start_child_when_possible(parent, child, clock, failed_child).await {
                // A child in another process sends a message at its end as well.
                Ok(()) | Err(RuntimeError::Owned { .. } | RuntimeError::Closing) => Ok(()),
                // Its parent has cancelled it.
                Err(RuntimeError::CancelledBeforeStart(_)) => Ok(()),
                Err(error) if self.needs_operator(&error) => Ok(()),
                Err(
                    error @ (RuntimeError::NoSuchRun(_)
                    | RuntimeError::Input(_)
                    | RuntimeError::Plan(_)
                    | RuntimeError::CallDepth { .. }
                    | RuntimeError::TreeFull { .. }
                    | RuntimeError::ChildExists(_)),
                ) => self.report_child_not_started(&run, call, &error),
                Err(error) => Err(error),
            };
            if let Err(error) = notified {
                // Whether the child will run is unknown: the parent cannot continue before an operator has looked.
                self.stop_run(&run, error);
            }
        });
    }

    /// Reports whether the parent of a child with this error keeps waiting until an operator resumes the child. That
    /// applies to an engine that adopts all runs of its store. A process that has only these runs stops the parent with
    /// the error.
    fn needs_operator(&self, error: &RuntimeError) -> bool {
        self.adopt && (error.needs_newer() || error.is_poison() && !matches!(error, RuntimeError::Plan(_)))
    }

    /// Resolves a definition name of a plan: the pinned plan, then the plan itself, then the plan that was added last
    /// under that name.
    fn plan_of_child(&self, plan: &Plan, hash: BlobHash, definition: &Arc<str>) -> Option<BlobHash> {
        let pinned = plan.pins.iter().find(|(name, _)| name == definition).map(|(_, pinned)| *pinned);
        let itself = (plan.name == *definition).then_some(hash);
        pinned.or(itself).or_else(|| self.names().get(definition).copied())
    }

    /// Ends a call that could not be made, with an error.
    fn report_child_not_started(&self, parent: &Arc<str>, call: u64, error: &RuntimeError) -> Result<(), RuntimeError> {
        let info = match error {
            RuntimeError::CallDepth { .. } => ErrorInfo::new("CallDepth", "limit", error.to_string())
                .hint("check for a call that recurses without end, or raise `max_call_depth`"),
            RuntimeError::TreeFull { .. } => ErrorInfo::new("TreeFull", "limit", error.to_string())
                .hint("check for a definition that calls itself more than once, or raise `limits.max_tree_runs` in windlass.toml"),
            RuntimeError::ChildExists(_) => ErrorInfo::new("ChildExists", "call", error.to_string())
                .hint("the ids of child runs start with the id of their parent: start the parent under another id"),
            other => ErrorInfo::new("ChildNotStarted", "call", other.to_string()),
        };
        let outcome = windlass_core::TaskOutcome::failure(info);
        let tick = TickKind::CallResult { call, status: windlass_core::Status::Failed, outcome };
        let row = windlass_store::InboxRow {
            run: parent.clone(),
            request_id: format!("call:{call}").into(),
            body: codec::encode(&tick),
            at: self.clock.now(),
        };
        self.store.inbox_put(&row)?;
        self.nudge_run(parent);
        Ok(())
    }

    /// Stops a run because of an event outside its loop. It can be resumed.
    pub(super) fn stop_run(&self, run: &Arc<str>, error: RuntimeError) {
        let mailbox = self.runs().get(run).and_then(|tracked| tracked.mailbox.clone());
        self.publish_end(run, RunEnd::Failed(error));
        if let Some(mailbox) = mailbox {
            mailbox.send(RunMessage::Close);
        }
    }
}

/// Time between two attempts to start a child run while the store has no space for it.
const CHILD_RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl super::RuntimeEngine {
    /// Starts a child. A server tries again as long as the store is full or busy: the parent waits for its child.
    async fn start_child_when_possible(
        &self,
        parent: Arc<str>,
        child: ChildStart,
        clock: Clock,
        failed_child: Option<String>,
    ) -> Result<(), RuntimeError> {
        loop {
            let again = (parent.clone(), child.clone(), failed_child.clone());
            match self.start_child_run(again.0, again.1, clock, again.2).await {
                Err(error) if self.inner.adopt && error.is_transient() && !self.inner.is_closing() => {
                    tokio::time::sleep(CHILD_RETRY_INTERVAL).await;
                }
                started => return started,
            }
        }
    }

    /// Starts a child with the plan that its parent resolves the name to. A child that was started before keeps its
    /// plan. If the parent retries a run in which this call failed, the child is a retry too.
    async fn start_child_run(
        &self,
        parent: Arc<str>,
        child: ChildStart,
        clock: Clock,
        failed_child: Option<String>,
    ) -> Result<(), RuntimeError> {
        if let Some(row) = self.inner.store.run(&child.id)? {
            let before = RunOptions::from_row(&row)?;
            return match before.parent == Some((parent, child.call)) {
                true => self.attach(&child.id, false, false).await.map(drop),
                false => Err(RuntimeError::ChildExists(child.id)),
            };
        }
        let above = self.inner.store.run(&parent)?.ok_or_else(|| RuntimeError::NoSuchRun(parent.to_string()))?;
        let program = self.inner.program(&above.plan)?;
        let whole = self.inner.plan_of_child(&program.plan, above.plan, &child.definition);
        let (plan, returns) = match (whole, child.definition.rsplit_once('#')) {
            // `definition#step`: the caller gets the output of that step.
            (None, Some((name, step))) => {
                (self.inner.plan_of_child(&program.plan, above.plan, &name.into()), Some(step.into()))
            }
            (whole, _) => (whole, None),
        };
        let plan = plan.ok_or_else(|| RuntimeError::NoSuchRun(format!("definition {}", child.definition)))?;
        let how = RunOptions::from_row(&above)?;
        let (depth, max_depth) = (how.depth + 1, program.limits.max_call_depth);
        if depth > max_depth {
            return Err(RuntimeError::CallDepth { definition: child.definition.to_string(), max: max_depth });
        }
        let run_tree = Some(how.run_tree);
        let trace = Some(how.trace.unwrap_or_else(|| parent.clone()));
        if let Some(old) = failed_child {
            let at = clock.now();
            let called = super::forks::ChildCall {
                id: child.id.as_str().into(),
                parent: parent.clone(),
                parent_execution_id: above.execution_id,
                call: child.call,
            };
            if self.retry_child(&old, plan, called, depth, trace.clone(), at).await? {
                return Ok(());
            }
        }
        let options = super::RunStartOptions {
            id: Some(child.id),
            parent: Some((parent, child.call)),
            virtual_time: matches!(clock, Clock::Virtual { .. }),
            watch: false,
            held: false,
            labels: RunLabels::new(),
        };
        let input = crate::recovery::resolve(&*self.inner.store, &child.input)?;
        let origin = super::StartOrigin {
            clock,
            depth,
            at: self.inner.clock.now(),
            delivery: None,
            metadata: Value::Null,
            parent_execution_id: Some(above.execution_id),
            trace,
            output_step: returns,
            run_tree,
            inherited_labels: above.labels,
        };
        self.start_from(plan, input, options, origin).await.map(drop)
    }
}
