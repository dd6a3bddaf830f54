//! Faults of the clock. Delays keep their length whichever way the clock is set, points in time keep their time, and
//! nothing fires early. The clocks are the test's own, so nothing waits for real time.

use crate::support;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use support::{World, engine_with, in_time, loom, named, options, until};
use tokio::sync::watch;
use windlass_core::plan::Plan;
use windlass_runtime::{ClockSource, EngineClock, EngineOptions, RuntimeEngine};
use windlass_store::{MemoryStore, RunRow, RunStatus, StoreRead};
use windlass_value::{Timestamp, Value};

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;

/// 2026-11-18T12:00:00Z.
static NOON: LazyLock<Timestamp> =
    LazyLock::new(|| Timestamp::parse_rfc3339("2026-11-18T12:00:00Z").expect("a point in time"));

/// Clocks that a test moves.
struct TestClocks {
    wall: AtomicI64,
    steady: AtomicU64,
    moves: watch::Sender<u64>,
}

impl TestClocks {
    fn at(wall: Timestamp) -> Arc<TestClocks> {
        let (wall, steady) = (AtomicI64::new(wall.0), AtomicU64::new(77 * SECOND as u64));
        Arc::new(TestClocks { wall, steady, moves: watch::Sender::new(0) })
    }

    /// Lets time pass.
    fn advance(&self, by: i64) {
        // Both or none: a reader must not see one without the other, which would be a step.
        self.moves.send_modify(|number| {
            self.steady.fetch_add(by.unsigned_abs(), Ordering::SeqCst);
            self.wall.fetch_add(by, Ordering::SeqCst);
            *number += 1;
        });
    }

    /// Sets the wall clock, which takes no time.
    fn set(&self, by: i64) {
        self.wall.fetch_add(by, Ordering::SeqCst);
        self.moves.send_modify(|number| *number += 1);
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.wall.load(Ordering::SeqCst))
    }
}

impl ClockSource for TestClocks {
    fn wall(&self) -> Timestamp {
        let _still = self.moves.borrow();
        self.now()
    }

    fn steady(&self) -> windlass_value::Duration {
        let _still = self.moves.borrow();
        windlass_value::Duration(self.steady.load(Ordering::SeqCst))
    }

    fn moves(&self) -> Option<watch::Receiver<u64>> {
        Some(self.moves.subscribe())
    }
}

fn on(clocks: &Arc<TestClocks>, store: &Arc<MemoryStore>, change: EngineOptions) -> RuntimeEngine {
    engine_with(store, EngineOptions { clock: EngineClock::new(clocks.clone()), ..change })
}

fn row(store: &MemoryStore, run: &str) -> RunRow {
    store.run(run).expect("readable").expect("there")
}

async fn begin(engine: &RuntimeEngine, plan: Plan, id: &str) {
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    engine.start(hash, Value::Null, named(id)).await.expect("started");
}

fn delay(interval: &str) -> Plan {
    loom(&format!(r#"{{"actions": {{"hold": {{"type": "wait", "inputs": {{"interval": "{interval}"}}}}}}}}"#))
}

fn until_point(at: Timestamp) -> Plan {
    loom(&format!(r#"{{"actions": {{"hold": {{"type": "wait", "inputs": {{"until": {{"timestamp": "{at}"}}}}}}}}}}"#))
}

async fn until_status(store: &Arc<MemoryStore>, run: &str, status: RunStatus) {
    until(|| row(store, run).status == status).await;
}

/// Waits until the run has taken note of a step of the clock: that is one tick.
async fn after_step(store: &Arc<MemoryStore>, run: &str, ticks: u64) {
    until(|| row(store, run).ticks > ticks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_delay_lasts_as_long_when_the_clock_is_set_back_or_forward() {
    for step in [-HOUR, HOUR, -30 * 365 * 24 * HOUR, 30 * 365 * 24 * HOUR, -2 * SECOND, 3 * SECOND] {
        let (store, world, clocks) = (Arc::new(MemoryStore::new()), World::new(), TestClocks::at(*NOON));
        let engine = on(&clocks, &store, options(&world));
        begin(&engine, delay("PT5S"), "r").await;
        clocks.advance(SECOND);
        let ticks = row(&store, "r").ticks;
        clocks.set(step);
        after_step(&store, "r", ticks).await;
        assert_eq!(row(&store, "r").status, RunStatus::Running, "{step}: four seconds are left");
        let ticks = row(&store, "r").ticks;
        clocks.advance(4 * SECOND - 1);
        // Another step makes the run look at the clock.
        clocks.set(HOUR);
        after_step(&store, "r", ticks).await;
        assert_eq!(row(&store, "r").status, RunStatus::Running, "{step}: a microsecond is left");
        clocks.advance(1);
        until_status(&store, "r", RunStatus::Succeeded).await;
        in_time(engine.close()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_a_point_in_time_ends_when_the_clock_shows_it_and_not_before() {
    let (store, world, clocks) = (Arc::new(MemoryStore::new()), World::new(), TestClocks::at(*NOON));
    let engine = on(&clocks, &store, options(&world));
    let point = Timestamp(NOON.0 + 480 * SECOND);
    for run in ["back", "forward"] {
        begin(&engine, until_point(point), run).await;
        until_status(&store, run, RunStatus::Waiting).await;
    }
    let ticks = row(&store, "back").ticks;
    clocks.set(-HOUR);
    after_step(&store, "back", ticks).await;
    let ticks = row(&store, "back").ticks;
    // The time that it would have taken without the step passes, and another step makes the run look at the clock.
    clocks.advance(600 * SECOND);
    clocks.set(SECOND);
    after_step(&store, "back", ticks).await;
    assert_eq!(row(&store, "back").status, RunStatus::Waiting, "the clock shows {}", clocks.now());
    assert_eq!(row(&store, "back").timer, Some(point), "the point in time is the same");
    clocks.set(HOUR);
    for run in ["back", "forward"] {
        until_status(&store, run, RunStatus::Succeeded).await;
    }
}

/// A run outside memory is woken by the time that has passed, not by what the clock shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_run_is_woken_on_time_when_the_clock_was_set() {
    for step in [-2 * HOUR, 2 * HOUR] {
        let (store, world, clocks) = (Arc::new(MemoryStore::new()), World::new(), TestClocks::at(*NOON));
        let short = || EngineOptions { evict_after: Duration::ZERO, ..options(&world) };
        let engine = on(&clocks, &store, short());
        begin(&engine, delay("PT1H"), "r").await;
        let is_evicted = || row(&store, "r").owner.is_none() && engine.resident() == 0;
        until(is_evicted).await;
        let ticks = row(&store, "r").ticks;
        clocks.set(step);
        if step > 0 {
            // By the clock it is due. It is looked at, and waits for the rest of its hour.
            after_step(&store, "r", ticks).await;
            until(is_evicted).await;
            assert_eq!(row(&store, "r").timer, Some(Timestamp(NOON.0 + step + HOUR)));
        }
        clocks.advance(HOUR);
        until_status(&store, "r", RunStatus::Succeeded).await;
        in_time(engine.close()).await;
    }
}

/// The process that began the delay is gone, and the clock shows an earlier time than the run has seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_set_back_while_no_process_ran_makes_no_delay_longer() {
    for evict_after in [Duration::ZERO, Duration::from_secs(600)] {
        let (store, world, clocks) = (Arc::new(MemoryStore::new()), World::new(), TestClocks::at(*NOON));
        let first = on(&clocks, &store, EngineOptions { evict_after, ..options(&world) });
        begin(&first, delay("PT1H"), "r").await;
        until_status(&store, "r", RunStatus::Waiting).await;
        until(|| !evict_after.is_zero() || first.resident() == 0).await;
        in_time(first.close()).await;
        drop(first);

        let store = Arc::new(store.crash());
        let clocks = TestClocks::at(Timestamp(NOON.0 - 5 * HOUR));
        let engine = on(&clocks, &store, EngineOptions { adopt: true, ..options(&world) });
        until(|| row(&store, "r").timer == Some(Timestamp(NOON.0 - 4 * HOUR))).await;
        assert_eq!(row(&store, "r").status, RunStatus::Waiting, "the whole hour is left");
        clocks.advance(HOUR);
        until_status(&store, "r", RunStatus::Succeeded).await;
        in_time(engine.close()).await;
    }
}

/// A delay that was due while no process ran ends at once: the time without a process counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_that_was_due_while_no_process_ran_ends_at_once() {
    let (store, world, clocks) = (Arc::new(MemoryStore::new()), World::new(), TestClocks::at(*NOON));
    let first = on(&clocks, &store, options(&world));
    begin(&first, delay("PT1H"), "r").await;
    until_status(&store, "r", RunStatus::Waiting).await;
    in_time(first.close()).await;
    let (store, clocks) = (Arc::new(store.crash()), TestClocks::at(Timestamp(NOON.0 + 2 * HOUR)));
    let engine = on(&clocks, &store, EngineOptions { adopt: true, ..options(&world) });
    until_status(&store, "r", RunStatus::Succeeded).await;
    in_time(engine.close()).await;
}

/// Thousands of timers became due while no process ran. They are woken batch after batch, without a pause in between:
/// the engine would look at the store only once a second otherwise. Their claims share commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overdue_timers_fire_without_pauses_and_share_commits() {
    const RUNS: usize = 2_000;
    let (store, world, clocks) = (Arc::new(MemoryStore::new()), World::new(), TestClocks::at(*NOON));
    let first = on(&clocks, &store, EngineOptions { evict_after: Duration::ZERO, ..options(&world) });
    for number in 0..RUNS {
        begin(&first, delay("PT1H"), &format!("r{number}")).await;
    }
    until(|| first.resident() == 0).await;
    in_time(first.close()).await;
    let store = Arc::new(store.crash());
    let clocks = TestClocks::at(Timestamp(NOON.0 + 2 * HOUR));
    let seldom = EngineOptions { adopt: true, poll_every: Duration::from_secs(3_600), ..options(&world) };
    let before = store.syncs();
    let engine = on(&clocks, &store, seldom);
    until(|| engine.stats().ticks >= RUNS as u64 && engine.resident() == 0).await;
    let ended: u64 = engine.stats().definitions.values().flat_map(|runs| runs.ended.values()).sum();
    assert_eq!(ended, RUNS as u64);
    let syncs = store.syncs() - before;
    // The last tick of a run is one commit at most, and the claims of a whole batch are one.
    assert!(syncs < RUNS as u64 + 50, "{syncs} commits for {RUNS} runs");
}
