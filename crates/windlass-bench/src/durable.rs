//! The engine on a real disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use windlass_core::plan::Plan;
use windlass_runtime::{EngineOptions, RunStartOptions};
use windlass_store_sqlite::SyncMode;
use windlass_testing::test_service::TestService;
use windlass_value::Value;

use crate::counts;
use crate::definitions;
use crate::disk::{self, BenchFolder};
use crate::engine::{engine, options, runtime, sqlite};

/// Runs a plan once, durably, and returns its duration.
pub(crate) fn time_run(folder: &Path, plan: Plan, durability: SyncMode) -> Duration {
    runtime().block_on(async {
        let engine = engine(sqlite(folder, durability), EngineOptions { commit_here: true, ..options() });
        let (plan, _) = engine.add_plan(plan).expect("the plan loads");
        counts::mark(folder, counts::BEGIN);
        let begun = Instant::now();
        let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
        let mut handle = engine.start(plan, Value::Null, options).await.expect("the run starts");
        let report = handle.wait().await.expect("the run ends");
        assert_eq!(report.status, windlass_core::Status::Succeeded, "{:?}", report.error);
        let took = begun.elapsed();
        counts::mark(folder, counts::END);
        took
    })
}

/// Measures the loop and the disk alternately, so that a neighbour's burst hits both.
fn relative_to_disk(name: &str, iterations: u64, plan: impl Fn() -> Plan) -> Vec<String> {
    let (mut best, mut best_rates) = (0.0, (0.0, 0.0));
    for _ in 0..5 {
        let folder = BenchFolder::new(name);
        let disk = disk::sync_rate(folder.path(), Duration::from_millis(700));
        let rate = iterations as f64 / time_run(folder.path(), plan(), SyncMode::Full).as_secs_f64();
        let disk = (disk + disk::sync_rate(folder.path(), Duration::from_millis(700))) / 2.0;
        if rate / disk > best {
            best = rate / disk;
            best_rates = (rate, disk);
        }
    }
    vec![format!("{:.0} iterations/s = {:.0} % of {:.0} syncs/s", best_rates.0, best * 100.0, best_rates.1)]
}

pub(crate) fn effect_iterations() -> Vec<String> {
    relative_to_disk("effects", 3_000, || definitions::effect_loop(3_000, definitions::NOOP))
}

/// Measures the cost of an iteration besides the disk.
pub(crate) fn unsynced_iterations() -> Vec<String> {
    const ITERATIONS: u64 = 30_000;
    let folder = BenchFolder::new("unsynced");
    let plan = definitions::effect_loop(ITERATIONS, definitions::NOOP);
    let rate = ITERATIONS as f64 / time_run(folder.path(), plan, SyncMode::Off).as_secs_f64();
    vec![format!("{rate:.0} iterations/s: {:.0} us of own cost per iteration", 1e6 / rate)]
}

pub(crate) fn http_iterations() -> Vec<String> {
    let service = TestService::start().expect("the service starts");
    let action = definitions::http(&service.url("/json/x"));
    relative_to_disk("http", 2_000, || definitions::effect_loop(2_000, &action))
}

pub(crate) fn many_runs() -> Vec<String> {
    let best = (0..3).map(|_| run_rate(20_000)).fold(0.0_f64, f64::max);
    vec![format!("{best:.0} steps/s = {:.2} x the target", best / 20_000.0)]
}

/// Returns the steps per second of this many runs of five steps.
pub(crate) fn run_rate(runs: usize) -> f64 {
    let folder = BenchFolder::new("runs");
    runtime().block_on(async {
        let engine = engine(sqlite(folder.path(), SyncMode::Full), options());
        let (plan, _) = engine.add_plan(definitions::five_steps()).expect("the plan loads");
        let slots = Arc::new(Semaphore::new(512));
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..runs {
            let slot = slots.clone().acquire_owned().await.expect("slots stay open");
            // Finished tasks are removed immediately: the set would keep them all.
            while tasks.try_join_next().is_some() {}
            let engine = engine.clone();
            tasks.spawn(async move {
                let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
                let mut handle = engine.start(plan, Value::Null, options).await.expect("the run starts");
                handle.wait().await.expect("the run ends");
                drop(slot);
            });
        }
        while tasks.join_next().await.is_some() {}
        (runs * 5) as f64 / begun.elapsed().as_secs_f64()
    })
}

pub(crate) fn items() -> Vec<String> {
    const ITEMS: u64 = 100_000;
    let before = disk::resident();
    let (mut best, mut peak) = (0.0_f64, 0);
    for _ in 0..3 {
        let folder = BenchFolder::new("items");
        best =
            best.max(ITEMS as f64 / time_run(folder.path(), definitions::items(ITEMS), SyncMode::Full).as_secs_f64());
        peak = disk::resident_peak();
    }
    vec![format!("{best:.0} items/s; memory peak {} MB over {} MB", (peak - before) >> 20, before >> 20)]
}

pub(crate) fn ten_million() -> Vec<String> {
    const ITERATIONS: u64 = 10_000_000;
    let folder = BenchFolder::new("million");
    let took = time_run(folder.path(), definitions::counting_loop(ITERATIONS), SyncMode::Full);
    vec![format!(
        "{:.0} iterations/s durable; memory peak {} MB; store {} MB",
        ITERATIONS as f64 / took.as_secs_f64(),
        disk::resident_peak() >> 20,
        store_bytes(&folder) >> 20
    )]
}

fn store_bytes(folder: &BenchFolder) -> u64 {
    let files = std::fs::read_dir(folder.path().join("store")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Leaves a run after a million iterations and measures the time from opening the store to the next iteration.
pub(crate) fn restart() -> Vec<String> {
    vec![
        format!(
            "compute-only: {}",
            measure_restart("restart-compute", definitions::counting_loop(u64::MAX / 4), 1_000_000)
        ),
        format!(
            "one effect per iteration: {}",
            measure_restart("restart-effects", definitions::effect_loop(u64::MAX / 4, definitions::NOOP), 1_000_000)
        ),
    ]
}

fn measure_restart(name: &str, plan: Plan, iterations: u64) -> String {
    let folder = BenchFolder::new(name);
    let run = runtime().block_on(async {
        // The run itself need not be durable against power loss; the measured restart is the same.
        let store = sqlite(folder.path(), SyncMode::Off);
        let engine = engine(store.clone(), EngineOptions { commit_here: true, ..options() });
        let (hash, _) = engine.add_plan(plan).expect("the plan loads");
        let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
        let handle = engine.start(hash, Value::Null, options).await.expect("the run starts");
        let run = handle.run.clone();
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let image = windlass_runtime::snapshot_progress(&*store, &run).expect("the run can be read");
            if image.is_some_and(|(_, so_far)| so_far >= iterations) {
                break;
            }
        }
        engine.close().await;
        run
    });
    // Syncs what was not synced before: a run that was durable all along would have nothing left to sync either.
    for file in std::fs::read_dir(folder.path().join("store")).into_iter().flatten().flatten() {
        let synced = std::fs::File::open(file.path()).and_then(|file| file.sync_all());
        synced.expect("the disk syncs");
    }
    let begun = Instant::now();
    let (opened, took) = runtime().block_on(async {
        let store = sqlite(folder.path(), SyncMode::Full);
        let opened = begun.elapsed();
        let engine = engine(store, EngineOptions { commit_here: true, ..options() });
        let _handle = engine.resume(&run).await.expect("the run resumes");
        (opened, begun.elapsed())
    });
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!("{:.1} ms from opening the store to the next iteration ({:.1} ms of it to open)", ms(took), ms(opened))
}

pub(crate) fn waiting_runs() -> Vec<String> {
    const RUNS: usize = 100_000;
    let folder = BenchFolder::new("waiting");
    runtime().block_on(async {
        let store = sqlite(folder.path(), SyncMode::Off);
        let engine = engine(store, EngineOptions { evict_after: Duration::ZERO, ..options() });
        let (plan, _) = engine.add_plan(definitions::waiting()).expect("the plan loads");
        let start = |count: usize| {
            let (engine, slots) = (engine.clone(), Arc::new(Semaphore::new(256)));
            async move {
                let mut tasks = tokio::task::JoinSet::new();
                for _ in 0..count {
                    let slot = slots.clone().acquire_owned().await.expect("slots stay open");
                    while tasks.try_join_next().is_some() {}
                    let engine = engine.clone();
                    tasks.spawn(async move {
                        let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
                        drop(engine.start(plan, Value::Null, options).await.expect("the run starts"));
                        drop(slot);
                    });
                }
                while tasks.join_next().await.is_some() {}
                while engine.resident() > 0 {
                    tokio::task::yield_now().await;
                }
            }
        };
        // The first runs fill caches and buffers that do not grow with the number of runs.
        start(20_000).await;
        let before = disk::resident();
        let begun = Instant::now();
        start(RUNS).await;
        let grown = disk::resident().saturating_sub(before);
        vec![format!(
            "{} bytes resident per waiting run; {:.0} starts/s; {} MB in all",
            grown / RUNS as u64,
            RUNS as f64 / begun.elapsed().as_secs_f64(),
            disk::resident() >> 20
        )]
    })
}

/// Starts runs that wait, with the options of a server: they stay in memory for a while before they are evicted.
pub(crate) fn waiting_runs_as_served() -> Vec<String> {
    const RUNS: u64 = 21_500;
    let folder = BenchFolder::new("served-waiting");
    runtime().block_on(async {
        let engine = engine(sqlite(folder.path(), SyncMode::Off), options());
        let (plan, _) = engine.add_plan(definitions::waiting()).expect("the plan loads");
        let idle = disk::resident();
        let (mut highest, begun) = (0, Instant::now());
        for number in 0..RUNS {
            let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
            drop(engine.start(plan, Value::Null, options).await.expect("the run starts"));
            if number % 100 == 0 {
                highest = highest.max(engine.resident());
            }
        }
        let (waiting, took) = (disk::resident().saturating_sub(idle), begun.elapsed());
        while engine.resident() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let left = disk::resident().saturating_sub(idle);
        vec![format!(
            "{} bytes per run while {highest} runs are in memory, {} bytes per run after their eviction; {:.0} starts/s; {} MB idle",
            waiting / RUNS,
            left / RUNS,
            RUNS as f64 / took.as_secs_f64(),
            idle >> 20
        )]
    })
}
