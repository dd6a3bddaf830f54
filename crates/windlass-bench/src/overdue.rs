//! Timers that became due while no process was running.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use windlass_runtime::{ClockSource, EngineClock, EngineOptions, RunStartOptions, RuntimeEngine, real_now};
use windlass_store::{RunFilter, RunStatus};
use windlass_store_sqlite::SyncMode;
use windlass_value::{Timestamp, Value};

use crate::definitions;
use crate::disk::BenchFolder;
use crate::engine::{engine, options, runtime, sqlite};

/// The number of runs; `WINDLASS_BENCH_TIMERS` overrides it.
const TIMERS: usize = 100_000;

/// A clock that is ahead of the system's.
struct Ahead {
    by: windlass_value::Duration,
    since: Instant,
}

impl ClockSource for Ahead {
    fn wall(&self) -> Timestamp {
        real_now() + self.by
    }

    fn steady(&self) -> windlass_value::Duration {
        windlass_value::Duration(u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// Measures the time from opening a store with overdue timers to the end of the last of their runs.
pub(crate) fn timers() -> Vec<String> {
    let given = std::env::var("WINDLASS_BENCH_TIMERS").ok().and_then(|text| text.parse().ok());
    let count: usize = given.unwrap_or(TIMERS);
    let folder = BenchFolder::new("overdue");
    runtime().block_on(prepare_timers(&folder, count));
    let (took, commits) = runtime().block_on(wake(&folder, count));
    let rate = count as f64 / took.as_secs_f64();
    vec![format!("{count} timers in {:.1} s: {rate:.0}/s, {commits} commits", took.as_secs_f64())]
}

async fn prepare_timers(folder: &BenchFolder, count: usize) {
    let evicting = EngineOptions { evict_after: Duration::ZERO, ..options() };
    // The commits of the preparation need not survive a power failure.
    let first = engine(sqlite(folder.path(), SyncMode::Off), evicting);
    let (plan, _) = first.add_plan(definitions::waiting()).expect("the plan loads");
    let slots = Arc::new(Semaphore::new(512));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..count {
        let slot = slots.clone().acquire_owned().await.expect("slots stay open");
        while tasks.try_join_next().is_some() {}
        let engine = first.clone();
        tasks.spawn(async move {
            let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
            drop(engine.start(plan, Value::Null, options).await.expect("the run starts"));
            drop(slot);
        });
    }
    while tasks.join_next().await.is_some() {}
    while first.resident() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.close().await;
}

async fn wake(folder: &BenchFolder, count: usize) -> (Duration, u64) {
    let ahead = Ahead { by: windlass_value::Duration::from_secs(25 * 3_600), since: Instant::now() };
    let begun = Instant::now();
    let clock = EngineClock::new(Arc::new(ahead));
    let second = engine(sqlite(folder.path(), SyncMode::Full), EngineOptions { adopt: true, clock, ..options() });
    while open_runs(&second) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ended: u64 = second.stats().definitions.values().flat_map(|runs| runs.ended.values()).sum();
    assert_eq!(ended, count as u64, "every timer fired");
    (begun.elapsed(), second.commits().0)
}

fn open_runs(engine: &RuntimeEngine) -> bool {
    let waiting = RunFilter { status: Some(RunStatus::Waiting), ..RunFilter::default() };
    engine.resident() > 0 || !engine.store().runs(&waiting, None, 1).expect("readable").is_empty()
}
