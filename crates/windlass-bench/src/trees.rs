//! Run trees: the cancellation of a root with very many open runs below it.

use std::time::{Duration, Instant};

use windlass_core::Limits;
use windlass_core::plan::Plan;
use windlass_runtime::{EngineOptions, RunRequest, RunStartOptions};
use windlass_store::{RunFilter, RunStatus};
use windlass_store_sqlite::SyncMode;
use windlass_value::Value;

use crate::definitions;
use crate::disk::{self, BenchFolder};
use crate::engine::{engine, options, runtime, sqlite};

/// The number of child runs of the root, and of each of them.
const WIDTH: u64 = 316;

/// The width from the environment, for a machine or a build that is too slow for all of them.
fn width() -> u64 {
    std::env::var("WINDLASS_BENCH_TREE_WIDTH").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDTH)
}

fn with_wide_limits(plan: Plan) -> Plan {
    Plan { limits: Some(Limits { max_tree_runs: 1_000_000, ..definitions::limits() }), ..plan }
}

/// Cancels a tree of runs, each of which waits for a long time or for its child runs: first with all runs in memory,
/// then with none.
pub(crate) fn cancel_tree() -> Vec<String> {
    [Duration::from_secs(3_600), Duration::ZERO].into_iter().map(cancel).collect()
}

fn cancel(evict_after: Duration) -> String {
    let folder = BenchFolder::new("tree");
    runtime().block_on(async {
        let store = sqlite(folder.path(), SyncMode::Full);
        let engine = engine(store.clone(), EngineOptions { adopt: true, evict_after, ..options() });
        let width = width();
        for plan in [definitions::waiting_named("leaf"), definitions::caller("middle", "leaf", width)] {
            engine.add_plan(with_wide_limits(plan)).expect("the plan loads");
        }
        let root = with_wide_limits(definitions::caller("root", "middle", width));
        let (plan, _) = engine.add_plan(root).expect("the plan loads");
        let options = RunStartOptions { id: Some("root".to_owned()), watch: false, ..RunStartOptions::default() };
        let begun = Instant::now();
        drop(engine.start(plan, Value::Null, options).await.expect("the run starts"));
        let count = |filter: &RunFilter| -> u64 {
            store.counts(filter, 10_000_000).expect("readable").iter().map(|count| count.runs).sum()
        };
        let leaf = RunFilter { definition: Some("leaf".to_owned()), ..RunFilter::default() };
        let waiting = RunFilter { status: Some(RunStatus::Waiting), ..leaf.clone() };
        while count(&waiting) < width * width {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        while evict_after.is_zero() && engine.resident() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let (grown, resident) = (begun.elapsed(), engine.resident());
        let begun = Instant::now();
        let cancel = RunRequest::Cancel { reason: "enough".to_owned() };
        engine.request("root", "off", cancel).expect("acknowledged");
        let acknowledged = begun.elapsed();
        let cancelled = RunFilter { status: Some(RunStatus::Cancelled), ..RunFilter::default() };
        while count(&cancelled) < width * width + width + 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        format!(
            "{} open runs ({resident} in memory) after {:.1} s; acknowledged in {:.1} ms, all cancelled in {:.1} s; {} MB",
            width * width + width + 1,
            grown.as_secs_f64(),
            acknowledged.as_secs_f64() * 1e3,
            begun.elapsed().as_secs_f64(),
            disk::resident() >> 20
        )
    })
}
