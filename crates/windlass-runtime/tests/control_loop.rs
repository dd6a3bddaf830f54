//! The control loop with test adapters: the order of operations, the priority of inputs, and replay.

use crate::support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use support::audit::entries;
use support::{World, engine, in_time, json, limits, locked, loom, named, until};
use tokio::sync::mpsc;
use windlass_core::plan::Plan;
use windlass_core::{Command, Event, Job, Program, RunResult, START_EVENT, State, Status, TaskOutcome, TickOutput};
use windlass_core::{Tick, TickKind};
use windlass_expr::wdl::WdlLanguage;
use windlass_runtime::adapter::{
    Adapter, FinalizedJob, Journal, NextInput, Outward, TickSource, TimeSource, WaitCondition, Workers,
};
use windlass_runtime::adapters::{LocalAdapter, ReplayAdapter, RunMailbox, RunMessage};
use windlass_runtime::codec::{self, TickEntry};
use windlass_runtime::{
    BlobCache, Clock, ControlLoop, LoopExit, RunWorkers, RuntimeError, WorkerPool, concerns, new_state, real_now,
};
use windlass_store::{MemoryStore, StoreRead};
use windlass_value::{BlobHash, Timestamp, Value};

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Tick(&'static str),
    FlushBegun,
    FlushDone,
    Run(Arc<str>),
    Cancel(u64),
    Published(Arc<str>),
    Finalized(u64),
    Ended(Status),
    Closed,
}

/// The observations of a [`Spy`], for the test to read.
#[derive(Default)]
struct Log {
    steps: Mutex<Vec<Step>>,
    entries: Mutex<Vec<TickEntry>>,
    /// After each tick: its name, jobs in flight, and the state.
    states: Mutex<Vec<(&'static str, usize, Vec<u8>)>>,
}

impl Log {
    fn add(&self, step: Step) {
        locked(&self.steps).push(step);
    }

    fn steps(&self) -> Vec<Step> {
        locked(&self.steps).clone()
    }

    fn ticks(&self) -> Vec<&'static str> {
        locked(&self.states).iter().map(|(name, _, _)| *name).collect()
    }

    fn jobs_after(&self, tick: &str) -> Option<usize> {
        locked(&self.states).iter().rev().find(|(name, _, _)| *name == tick).map(|(_, jobs, _)| *jobs)
    }
}

/// An embedder's decorator: records the calls that pass through it, and can misbehave.
struct Spy<A> {
    inner: A,
    log: Arc<Log>,
    flush_fails: bool,
    /// Cancellations do not reach the worker.
    ignores_cancels: bool,
    now: Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>,
}

impl<A: Adapter> Spy<A> {
    fn new(inner: A, log: &Arc<Log>) -> Spy<A> {
        Spy { inner, log: log.clone(), flush_fails: false, ignores_cancels: false, now: None }
    }
}

impl<A: Adapter> Adapter for Spy<A> {
    concerns!(own: time, journal, workers, outward; inner: ticks, children);

    async fn close(&mut self) {
        self.log.add(Step::Closed);
        self.inner.close().await;
    }
}

impl<A: Adapter> TimeSource for Spy<A> {
    fn get_now(&mut self) -> Timestamp {
        match &self.now {
            Some(now) => now(),
            None => self.inner.time().get_now(),
        }
    }

    fn entropy(&mut self) -> u64 {
        self.inner.time().entropy()
    }

    fn take_clock_step(&mut self) -> i64 {
        self.inner.time().take_clock_step()
    }

    fn clock_offset(&mut self) -> i64 {
        self.inner.time().clock_offset()
    }
}

impl<A: Adapter> Journal for Spy<A> {
    fn on_tick(&mut self, tick: &Tick, output: &TickOutput, state: &State) {
        self.log.add(Step::Tick(tick.kind.name()));
        let events = output.commands.iter().filter_map(|command| match command {
            Command::PublishEvent(event) => Some(event.clone()),
            _ => None,
        });
        let entry = TickEntry { tick: tick.clone(), digest: codec::digest(&output.commands), events: events.collect() };
        locked(&self.log.entries).push(entry);
        locked(&self.log.states).push((tick.kind.name(), state.jobs.len(), codec::state_bytes(state).0));
        self.inner.journal().on_tick(tick, output, state);
    }

    async fn flush(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.log.add(Step::FlushBegun);
        // A flush takes some time; this exposes code that does not wait for it.
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        self.inner.journal().flush(state, blobs).await?;
        if self.flush_fails {
            return Err(RuntimeError::Fenced);
        }
        self.log.add(Step::FlushDone);
        Ok(())
    }

    fn wants_flush(&mut self) -> bool {
        self.inner.journal().wants_flush()
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        self.inner.journal().load_blob(hash).await
    }

    async fn evict(&mut self, state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.inner.journal().evict(state, blobs).await
    }
}

impl<A: Adapter> Workers for Spy<A> {
    fn run_worker(&mut self, job: Job, input: Value) {
        self.log.add(Step::Run(job.path().clone()));
        self.inner.workers().run_worker(job, input);
    }

    fn cancel_worker(&mut self, job: u64) {
        self.log.add(Step::Cancel(job));
        if !self.ignores_cancels {
            self.inner.workers().cancel_worker(job);
        }
    }

    fn finalize_step(&mut self, step: FinalizedJob) {
        self.log.add(Step::Finalized(step.job));
        self.inner.workers().finalize_step(step);
    }
}

impl<A: Adapter> Outward for Spy<A> {
    fn write_to_event_stream(&mut self, event: Event) {
        self.log.add(Step::Published(event.type_name().into()));
        self.inner.outward().write_to_event_stream(event);
    }

    fn ended(&mut self, result: &RunResult) {
        self.log.add(Step::Ended(result.status));
        self.inner.outward().ended(result);
    }
}

fn program(plan: Plan) -> Arc<Program> {
    Arc::new(Program::load(plan, &[&WdlLanguage], limits()).expect("a plan that loads"))
}

fn start() -> TickKind {
    TickKind::AddEvent {
        name: START_EVENT.into(),
        payload: Value::Null,
        request: None,
        origin: None,
        to: None,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    }
}

fn local(world: &World, clock: Clock) -> (LocalAdapter, RunMailbox) {
    let (mailbox, mail) = RunMailbox::channel();
    let (reports_in, reports) = mpsc::unbounded_channel();
    let workers = RunWorkers::new(WorkerPool::new(world.tools(), 64), "run".into(), reports_in);
    (LocalAdapter::new(clock, 7, (mailbox.clone(), mail), reports, workers), mailbox)
}

fn looping<A: Adapter>(program: &Arc<Program>, adapter: A, first: Vec<TickKind>) -> ControlLoop<A> {
    let state = new_state(&"run".into(), 1, program, Timestamp(0));
    ControlLoop::new(program.clone(), state, BlobCache::default(), adapter, first)
}

async fn run_spied(program: &Arc<Program>, world: &World, clock: Clock) -> (RunResult, Arc<Log>) {
    let log = Arc::new(Log::default());
    let (local, _mailbox) = local(world, clock);
    let exit = in_time(looping(program, Spy::new(local, &log), vec![start()]).run()).await;
    let Ok(LoopExit::Ended(result)) = exit else { panic!("{exit:?}") };
    (result, log)
}

const THREE_CALLS: &str = r#"{"actions": {
    "a": {"type": "activity", "inputs": {"activityName": "count", "input": 1}},
    "both": {"type": "parallel", "runAfter": {"a": ["Succeeded"]}, "actions": {
        "b": {"type": "activity", "inputs": {"activityName": "count", "input": 2}},
        "c": {"type": "activity", "inputs": {"activityName": "count", "input": 3}}}}}}"#;

#[tokio::test]
async fn reduce_then_on_tick_then_flush_then_effects() {
    let world = World::new();
    let (result, log) = run_spied(&program(loom(THREE_CALLS)), &world, Clock::Real).await;
    assert_eq!(result.status, Status::Succeeded);
    let (mut unflushed, mut flushing, mut runs) = (0, false, 0);
    for step in log.steps() {
        match &step {
            Step::Tick(_) => {
                assert!(!flushing, "a tick was reduced during a flush");
                unflushed += 1;
            }
            Step::FlushBegun => flushing = true,
            Step::FlushDone => (flushing, unflushed) = (false, 0),
            Step::Run(_) | Step::Cancel(_) | Step::Published(_) | Step::Finalized(_) | Step::Ended(_) => {
                assert!(!flushing && unflushed == 0, "{step:?} before its tick was durable: {:?}", log.steps());
                runs += usize::from(matches!(step, Step::Run(_)));
            }
            Step::Closed => {}
        }
    }
    assert_eq!(runs, 3);
    let mut finalized: Vec<Step> = log.steps().into_iter().filter(|step| matches!(step, Step::Finalized(_))).collect();
    finalized.dedup();
    assert_eq!(finalized.len(), 3, "each job is finalized once");
    assert_eq!(log.steps()[log.steps().len() - 2..], [Step::Ended(Status::Succeeded), Step::Closed]);
}

#[tokio::test]
async fn without_a_flush_there_is_no_effect() {
    let (world, log) = (World::new(), Arc::new(Log::default()));
    let (local, _mailbox) = local(&world, Clock::Real);
    let spy = Spy { flush_fails: true, ..Spy::new(local, &log) };
    let exit = in_time(looping(&program(loom(THREE_CALLS)), spy, vec![start()]).run()).await;
    assert!(matches!(exit, Err(RuntimeError::Fenced)), "{exit:?}");
    assert_eq!(log.steps(), [Step::Tick("AddEvent"), Step::FlushBegun, Step::Closed]);
    assert_eq!(world.ledger(), []);
}

#[tokio::test]
async fn workers_come_before_outside_input() {
    let (mailbox, mail) = RunMailbox::channel();
    let (reports_in, reports) = mpsc::unbounded_channel();
    let workers = RunWorkers::new(WorkerPool::new(World::new().tools(), 1), "run".into(), reports_in.clone());
    let mut local = LocalAdapter::new(Clock::Real, 0, (mailbox.clone(), mail), reports, workers);
    let report = |job| TickKind::StepResult { job, lease_epoch: 0, outcome: TaskOutcome::success(Value::Null) };
    mailbox.send(RunMessage::Tick(Box::new(TickKind::Pause { request: None })));
    mailbox.notify_inbox();
    mailbox.notify_inbox();
    reports_in.send(report(1)).expect("open");
    reports_in.send(report(2)).expect("open");
    let waiting = WaitCondition { poll: false, ..WaitCondition::poll() };
    let next = in_time(local.wait_for_next_task(waiting)).await;
    assert!(matches!(&next, NextInput::Ticks(ticks) if *ticks == [report(1), report(2)]), "{next:?}");
    let next = in_time(local.wait_for_next_task(waiting)).await;
    assert!(matches!(&next, NextInput::Ticks(ticks) if *ticks == [TickKind::Pause { request: None }]), "{next:?}");
    assert!(matches!(in_time(local.wait_for_next_task(waiting)).await, NextInput::Inbox));
    let poll = WaitCondition { poll: true, ..waiting };
    assert!(matches!(in_time(local.wait_for_next_task(poll)).await, NextInput::Nothing));
}

#[tokio::test]
async fn a_decorator_can_replace_the_clock_and_time_never_goes_back() {
    let (world, log) = (World::new(), Arc::new(Log::default()));
    let (local, _mailbox) = local(&world, Clock::Real);
    let calls = AtomicU64::new(0);
    let (times, zero) = ([5_000, 9_000, 2_000, 11_000], real_now().0);
    let now = move || Timestamp(zero + times[calls.fetch_add(1, Ordering::SeqCst) as usize % 4]);
    let spy = Spy { now: Some(Arc::new(now)), ..Spy::new(local, &log) };
    let program = program(loom(
        r#"{"type": "until", "name": "l", "condition": "@greaterOrEquals(variables('loopIndex'), 3)",
            "actions": {"a": {"type": "activity", "inputs": {"activityName": "count", "input": 0}}}}"#,
    ));
    let exit = in_time(looping(&program, spy, vec![start()]).run()).await;
    assert!(matches!(exit, Ok(LoopExit::Ended(_))), "{exit:?}");
    let at: Vec<i64> = locked(&log.entries).iter().map(|entry| entry.tick.at.0 - zero).collect();
    assert_eq!(at, [5_000, 9_000, 9_000, 11_000]);
}

#[tokio::test]
async fn six_hours_of_virtual_time_in_memory() {
    let world = World::new();
    let program = program(loom(
        r#"{"actions": {"poll": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 36)",
                "delay": {"interval": {"count": 10, "unit": "minute"}}, "limit": {"count": 100, "timeout": "PT12H"},
                "actions": {"ask": {"type": "activity", "inputs": {"activityName": "count", "input": "@variables('loopIndex')"}}}},
            "big": {"type": "activity", "inputs": {"activityName": "big", "input": 200000}, "runAfter": {"poll": ["Succeeded"]}},
            "length": {"type": "compose", "inputs": "@length(outputs('big'))", "runAfter": {"big": ["Succeeded"]}}},
            "outputs": {"iterations": "@outputs('poll').iterations", "length": "@outputs('length')"}}"#,
    ));
    let begun = std::time::Instant::now();
    let (result, log) = run_spied(&program, &world, Clock::virtual_time()).await;
    assert!(begun.elapsed().as_secs() < 120);
    assert_eq!(result.output, json(r#"{"iterations": 36, "length": 200000}"#));
    let entries = locked(&log.entries).clone();
    let (first, last) = (entries[0].tick.at, entries[entries.len() - 1].tick.at);
    let minutes = last.since(first).as_ms() / 60_000;
    assert_eq!(minutes, 350, "35 delays of ten minutes");
}

/// A worker that has not confirmed keeps its slot, however often it was cancelled.
#[tokio::test]
async fn a_cancelled_iteration_keeps_its_slot_until_its_worker_confirms() {
    let (world, log) = (World::new(), Arc::new(Log::default()));
    let (local, _mailbox) = local(&world, Clock::Real);
    let program = program(loom(
        r#"{"actions": {"all": {"type": "foreach", "foreach": ["one", "two"], "operationOptions": "Sequential", "actions": {
            "hold": {"type": "scope", "timeout": "PT0.02S", "actions": {
                "in": {"type": "activity", "inputs": {"activityName": "gate", "input": "@item()"}}}}}}}}"#,
    ));
    let spy = Spy { ignores_cancels: true, ..Spy::new(local, &log) };
    let running = tokio::spawn(looping(&program, spy, vec![start()]).run());
    until(|| log.steps().contains(&Step::Cancel(0))).await;
    assert_eq!(log.jobs_after("TimerDue"), Some(1), "the job is cancelled and still holds its slot");
    assert_eq!(world.ledger().len(), 1, "the second iteration does not start");
    world.open("one");
    until(|| world.ledger().len() == 2).await;
    until(|| log.steps().contains(&Step::Cancel(1))).await;
    world.open("two");
    let exit = in_time(running).await.expect("no panic");
    assert!(matches!(&exit, Ok(LoopExit::Ended(result)) if result.status == Status::Failed), "{exit:?}");
    assert_eq!(world.call_counts().max_concurrency, 1);
}

const LONG: &str = r#"{"actions": {
    "count": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 20000)", "limit": {"count": 100000, "timeout": "P1D"},
        "actions": {"note": {"type": "compose", "inputs": "@variables('loopIndex')"}}}}}"#;

#[tokio::test]
async fn a_computing_loop_exits_when_it_is_closed() {
    let (world, log) = (World::new(), Arc::new(Log::default()));
    let (local, mailbox) = local(&world, Clock::Real);
    mailbox.send(RunMessage::Close);
    let exit = in_time(looping(&program(loom(LONG)), Spy::new(local, &log), vec![start()]).run()).await;
    assert!(matches!(exit, Ok(LoopExit::Closed)), "{exit:?}");
    assert_eq!(log.ticks(), ["AddEvent", "Proceed"], "not at its end, but at the next check for input");
    assert_eq!(log.steps().last(), Some(&Step::Closed));
    assert!(log.steps().contains(&Step::FlushDone), "the computed values are stored");
}

#[tokio::test]
async fn outside_input_does_not_multiply_the_ticks_of_a_long_computation() {
    let (world, log) = (World::new(), Arc::new(Log::default()));
    let (local, mailbox) = local(&world, Clock::Real);
    for _ in 0..300 {
        let signal = TickKind::AddEvent {
            name: "knock".into(),
            payload: Value::Null,
            request: None,
            origin: None,
            to: None,
            trigger_metadata: Value::Null,
            defaults: Value::Null,
        };
        mailbox.send(RunMessage::Tick(Box::new(signal)));
    }
    let exit = in_time(looping(&program(loom(LONG)), Spy::new(local, &log), vec![start()]).run()).await;
    assert!(matches!(exit, Ok(LoopExit::Ended(_))), "{exit:?}");
    let proceeds = log.ticks().iter().filter(|name| **name == "Proceed").count();
    assert!(proceeds <= 20, "{proceeds} for 20 slices");
}

/// Checks that the journal's ticks give the same states byte for byte, without any effect.
async fn assert_replays_exactly(
    program: &Arc<Program>,
    journal: Vec<TickEntry>,
    store: Option<Arc<dyn StoreRead>>,
    run: &str,
    created: Timestamp,
) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let replay = ReplayAdapter::new(
        journal.clone(),
        store,
        Box::new(move |state, _| locked(&into).push((state.ticks, codec::state_bytes(state).0))),
    );
    let state = new_state(&run.into(), 1, program, created);
    let exit = in_time(ControlLoop::new(program.clone(), state, BlobCache::default(), replay, Vec::new()).run()).await;
    assert!(matches!(exit, Ok(LoopExit::Ended(_))), "{exit:?}");
    assert_eq!(locked(&seen).len(), journal.len(), "every tick was seen");
    assert_eq!(locked(&seen).last().map(|(ticks, _)| *ticks), Some(journal.len() as u64));
}

#[tokio::test]
async fn replay_gives_the_same_states_without_effects() {
    let world = World::new();
    for (definition, clock) in [(THREE_CALLS, Clock::Real), (LONG, Clock::Real), (MIXED, Clock::virtual_time())] {
        let program = program(loom(definition));
        let (result, log) = run_spied(&program, &world, clock).await;
        let calls = world.ledger().len();
        let journal = locked(&log.entries).clone();
        let states = Arc::new(Mutex::new(Vec::new()));
        let into = states.clone();
        let replay = ReplayAdapter::new(
            journal,
            None,
            Box::new(move |state, _| locked(&into).push(codec::state_bytes(state).0)),
        );
        let exit = in_time(looping(&program, replay, Vec::new()).run()).await;
        let Ok(LoopExit::Ended(again)) = exit else { panic!("{exit:?}") };
        assert_eq!(again, result);
        let lived: Vec<Vec<u8>> = locked(&log.states).iter().map(|(_, _, bytes)| bytes.clone()).collect();
        assert!(*locked(&states) == lived, "the states differ");
        assert_eq!(world.ledger().len(), calls, "a replay has no effects");
    }
}

const MIXED: &str = r#"{"actions": {
    "tries": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 2}}, "retry": {"type": "exponential", "count": 4, "interval": "PT7S"}},
    "all": {"type": "foreach", "foreach": "@range(0, 30)", "runAfter": {"tries": ["Succeeded"]}, "actions": {
        "ask": {"type": "activity", "inputs": {"activityName": "count", "input": "@item()"}},
        "random": {"type": "compose", "inputs": "@rand(0, 1000000)", "runAfter": {"ask": ["Succeeded"]}}}},
    "when": {"type": "compose", "inputs": "@utcNow()", "runAfter": {"all": ["Succeeded"]}}},
    "outputs": {"random": "@outputs('all')", "when": "@outputs('when')"}}"#;

#[tokio::test]
async fn a_diverging_replay_reports_the_tick() {
    let (world, program) = (World::new(), program(loom(THREE_CALLS)));
    let (_, log) = run_spied(&program, &world, Clock::Real).await;
    let journal = locked(&log.entries).clone();
    let replayed = async |entries: Vec<TickEntry>, program: &Arc<Program>| {
        in_time(looping(program, ReplayAdapter::new(entries, None, Box::new(|_, _| {})), Vec::new()).run()).await
    };
    let mut other_digest = journal.clone();
    other_digest[1].digest[0] ^= 1;
    let exit = replayed(other_digest, &program).await;
    assert!(matches!(&exit, Err(RuntimeError::Quarantined { why, .. }) if why.contains("tick 2")), "{exit:?}");

    let other_program = self::program(loom(&THREE_CALLS.replace("\"input\": 3", "\"input\": 4")));
    let exit = replayed(journal.clone(), &other_program).await;
    assert!(matches!(&exit, Err(RuntimeError::Quarantined { why, .. }) if why.contains("tick 2")), "{exit:?}");

    let cut = replayed(journal[..2].to_vec(), &program).await;
    assert!(matches!(cut, Ok(LoopExit::Closed)), "a part of the journal is no difference: {cut:?}");
}

#[tokio::test]
async fn a_durable_journal_replays_through_the_same_loop() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    let definition = r#"{"actions": {
        "count": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 5000)", "limit": {"count": 100000, "timeout": "P1D"},
            "actions": {"note": {"type": "compose", "inputs": "@variables('loopIndex')"}}},
        "hold": {"type": "activity", "inputs": {"activityName": "gate", "input": "later"}, "runAfter": {"count": ["Succeeded"]}},
        "big": {"type": "activity", "inputs": {"activityName": "big", "input": 100000}, "runAfter": {"hold": ["Succeeded"]}},
        "size": {"type": "compose", "inputs": "@length(outputs('big'))", "runAfter": {"big": ["Succeeded"]}}},
        "outputs": {"size": "@outputs('size')"}}"#;
    let (plan, program) = first.add_plan(loom(definition)).expect("a plan");
    first.start(plan, Value::Null, named("r")).await.expect("started");
    world.calls(1).await;
    let store = Arc::new(store.crash());
    world.open("later");
    let second = engine(&store, &world);
    in_time(second.resume("r").await.expect("resumed").wait()).await.expect("ended");
    let journal = entries(&*store, "r");
    assert!(journal.iter().any(|entry| matches!(entry.tick.kind, TickKind::Restart { .. })), "it was restarted");
    assert!(journal.iter().any(|entry| matches!(entry.tick.kind, TickKind::Proceed)), "it yielded");
    let created = store.run("r").expect("readable").expect("there").created_at;
    assert!(created <= real_now());
    assert_replays_exactly(&program, journal, Some(store.clone()), "r", created).await;
}
