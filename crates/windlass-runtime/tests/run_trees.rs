//! Run trees: a definition that calls itself is stopped by a limit and by a cancellation, also after a restart.

use crate::support;

use std::sync::Arc;

use support::audit::assert_replays;
use support::plans::steps;
use support::{World, engine, engine_with, in_time, loom, named, options, until};
use windlass_core::plan::Plan;
use windlass_core::{Limits, Status};
use windlass_runtime::{EngineOptions, RunRequest, RuntimeEngine};
use windlass_store::{MemoryStore, RunFilter, RunRow, RunStatus, StoreRead, StoreScan};
use windlass_value::{BlobHash, Value};

/// Calls itself twice at the same time, without a condition.
const TWO_WIDE: &str = r#"{"name": "test", "actions": {
    "one": {"type": "workflow", "inputs": {"name": "test", "body": {}}, "runAfter": {}},
    "two": {"type": "workflow", "inputs": {"name": "test", "body": {}}, "runAfter": {}}
}}"#;

fn two_wide(max_tree_runs: u64) -> Plan {
    let limits = Limits { max_tree_runs, max_call_depth: 1_000_000, ..support::limits() };
    Plan { limits: Some(limits), ..loom(TWO_WIDE) }
}

fn added(engine: &RuntimeEngine, plan: Plan) -> BlobHash {
    engine.add_plan(plan).expect("a plan").0
}

fn rows(store: &MemoryStore, filter: &RunFilter) -> Vec<RunRow> {
    store.runs(filter, None, u32::MAX).expect("readable")
}

fn all(store: &MemoryStore) -> usize {
    rows(store, &RunFilter::default()).len()
}

fn open(store: &MemoryStore) -> usize {
    rows(store, &RunFilter { unfinished: true, ..RunFilter::default() }).len()
}

fn cancel() -> RunRequest {
    RunRequest::Cancel { reason: "enough".to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_wide_recursion_stops_at_the_limit_of_open_runs() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let hash = added(&engine, two_wide(40));
    let report =
        in_time(engine.start(hash, Value::Null, named("r")).await.expect("started").wait()).await.expect("end");
    let error = report.error.clone().expect("an error");
    assert_eq!((report.status, &*error.code, &*error.kind), (Status::Failed, "TreeFull", "limit"));
    assert!(error.message.contains("40") && error.message.contains("`max_tree_runs`"), "{}", error.message);
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("limits.max_tree_runs")));
    until(|| open(&store) == 0).await;
    assert!(all(&store) < 40 * 40, "the failure ends the tree instead of making room for more: {}", all(&store));
    assert_replays(&*store, "r");
}

/// Every place in the tree is given back: a tree that was full has room again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_run_that_ends_gives_its_place_back() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    added(&engine, steps("child").effect("work", "count", "1").plan());
    let mut plan = steps("parent");
    for at in 0..5 {
        plan = plan.call(&format!("call{at}"), "child", "{}");
    }
    let plan = Plan { limits: Some(Limits { max_tree_runs: 1, ..support::limits() }), ..plan.plan() };
    let hash = added(&engine, plan);
    let report =
        in_time(engine.start(hash, Value::Null, named("r")).await.expect("started").wait()).await.expect("end");
    assert_eq!((report.status, all(&store)), (Status::Succeeded, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_starts_no_more_child_runs_than_its_limit() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    added(&engine, steps("child").effect("work", "count", "1").plan());
    let plan =
        steps("parent").call("one", "child", "{}").call("two", "child", "{}").call("three", "child", "{}").plan();
    let hash = added(&engine, Plan { limits: Some(Limits { max_child_runs: 2, ..support::limits() }), ..plan });
    let report =
        in_time(engine.start(hash, Value::Null, named("r")).await.expect("started").wait()).await.expect("end");
    let error = report.error.clone().expect("an error");
    assert_eq!((report.status, &*error.code, &*error.path), (Status::Failed, "ChildRuns", "three"));
    assert!(error.message.contains("`max_child_runs`"), "{}", error.message);
    assert_eq!(all(&store), 3);
    assert_replays(&*store, "r");
}

/// Lets a tree grow, cancels its root, and returns the number of its runs when the cancellation was acknowledged.
async fn grown_and_cancelled(engine: &RuntimeEngine, store: &MemoryStore, at_least: usize) -> usize {
    let hash = added(engine, two_wide(1_000_000));
    let handle = engine.start(hash, Value::Null, named("r")).await.expect("started");
    until(|| all(store) >= at_least).await;
    engine.request("r", "off", cancel()).expect("acknowledged");
    let runs = all(store);
    drop(handle);
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_run_begins_after_the_cancellation_of_its_tree_is_acknowledged() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let runs = grown_and_cancelled(&engine, &store, 300).await;
    let before = engine.commits().1;
    until(|| open(&store) == 0).await;
    assert_eq!(all(&store), runs, "no run began after the acknowledgement");
    assert!(rows(&store, &RunFilter::default()).iter().all(|row| row.status == RunStatus::Cancelled));
    let batches = engine.commits().1 - before;
    assert!(batches <= 4 * runs as u64, "the work grows with the open runs: {batches} batches for {runs} runs");
    assert_replays(&*store, "r");
}

/// The process dies right after the acknowledgement; the runs that the next process finds start no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_tree_does_not_grow_again_after_a_crash() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    let runs = grown_and_cancelled(&first, &store, 300).await;
    let store = Arc::new(store.crash());
    drop(first);
    let _second = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
    until(|| open(&store) == 0).await;
    assert_eq!(all(&store), runs, "no run began after the restart");
}

/// A child that has replied continues when its caller is cancelled, and so do the runs that it starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_has_replied_starts_child_runs_under_a_cancelled_caller() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    added(&engine, steps("grandchild").compose("value", "7").plan());
    let child = steps("child").reply("reply", "1", true).effect("hold", "gate", r#""go""#);
    added(&engine, child.call("call", "grandchild", "{}").plan());
    let parent = steps("parent").call("call", "child", "{}").effect("hold", "gate", r#""never""#).plan();
    let handle = engine.start(added(&engine, parent), Value::Null, named("r")).await.expect("started");
    world.calls(2).await;
    engine.request("r", "off", cancel()).expect("acknowledged");
    until(|| store.run("r").expect("readable").is_some_and(|row| row.status == RunStatus::Cancelled)).await;
    world.open("go");
    until(|| open(&store) == 0).await;
    let mut ends: Vec<_> = rows(&store, &RunFilter::default());
    ends.sort_by_key(|row| row.number);
    let statuses: Vec<RunStatus> = ends.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [RunStatus::Cancelled, RunStatus::Succeeded, RunStatus::Succeeded]);
    drop(handle);
}
