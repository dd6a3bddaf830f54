//! Memory of resident runs: idle runs are evicted under pressure, the one that has been idle longest first, and no run
//! is lost for lack of a place.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::plans::steps;
use support::{World, engine_with, in_time, named, options, until};
use windlass_core::Status;
use windlass_runtime::{EngineOptions, RunRequest};
use windlass_store::{MemoryStore, RunFilter, RunStatus, StoreRead, StoreScan};
use windlass_value::Value;

/// Options under which no run is evicted for its idle time.
fn patient(world: &World) -> EngineOptions {
    EngineOptions { evict_after: Duration::from_secs(3_600), ..options(world) }
}

fn owned(store: &MemoryStore) -> Vec<String> {
    let rows = store.runs(&RunFilter::default(), None, 1_000).expect("readable");
    let mut runs: Vec<String> =
        rows.into_iter().filter(|row| row.owner.is_some()).map(|row| row.run.to_string()).collect();
    runs.sort();
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_run_that_has_waited_longest_leaves_memory_first() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine_with(&store, EngineOptions { max_idle_runs: 2, ..patient(&world) });
    let (plan, _) = engine.add_plan(steps("waits").signal("wait", "go").plan()).expect("a plan");
    let mut handles = Vec::new();
    for name in ["a", "b", "c", "d"] {
        handles.push(engine.start(plan, Value::Null, named(name)).await.expect("started"));
        let waits = |row: windlass_store::RunRow| row.status == RunStatus::Waiting;
        until(|| store.run(name).expect("readable").is_some_and(waits) && engine.resident() <= 2).await;
    }
    until(|| engine.resident() == 2).await;
    assert_eq!(owned(&store), ["c", "d"], "the runs that have waited for the shortest time are in memory");
    for handle in &mut handles {
        let signal = RunRequest::Signal { name: "go".to_owned(), payload: Value::Null };
        engine.request(&handle.run, "go", signal).expect("accepted");
        assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
    }
}

/// More runs than there are places, each of which waits in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_runs_than_places_all_end_and_never_exceed_the_places() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine_with(&store, EngineOptions { max_resident_runs: 3, ..patient(&world) });
    let plan = steps("works").effect("one", "count", "1").signal("wait", "go").effect("two", "count", "2").plan();
    let (plan, _) = engine.add_plan(plan).expect("a plan");
    let mut handles = Vec::new();
    for number in 0..20 {
        handles.push(in_time(engine.start(plan, Value::Null, named(&format!("r{number}")))).await.expect("started"));
        assert!(engine.resident() <= 3 + 1, "{} runs in memory", engine.resident());
    }
    for handle in &mut handles {
        let signal = RunRequest::Signal { name: "go".to_owned(), payload: Value::Null };
        engine.request(&handle.run, "go", signal).expect("accepted");
    }
    for handle in &mut handles {
        assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
    }
    assert_eq!(world.ledger().len(), 40, "every step was called once");
}

/// A parent that waits for its child run gives its place to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_child_runs_end_with_one_place() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine_with(&store, EngineOptions { max_resident_runs: 1, ..patient(&world) });
    engine.add_plan(steps("leaf").effect("work", "count", "1").plan()).expect("a plan");
    engine.add_plan(steps("middle").call("call", "leaf", "{}").call("again", "leaf", "{}").plan()).expect("a plan");
    let root = steps("root").call("call", "middle", "{}").effect("work", "count", "2").plan();
    let (plan, _) = engine.add_plan(root).expect("a plan");
    let mut handle = engine.start(plan, Value::Null, named("r")).await.expect("started");
    assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
    assert_eq!(world.ledger().len(), 3);
}

/// Replies that are larger than the budget come one after the other; none is lost, and all memory is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_outcomes_share_the_memory_of_replies() {
    const MAX_BYTES: usize = 8 << 20;
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine_with(&store, EngineOptions { max_total_reply_bytes: MAX_BYTES, ..patient(&world) });
    let (plan, _) = engine.add_plan(steps("large").effect("get", "big", "3000000").plan()).expect("a plan");
    let mut handles = Vec::new();
    for number in 0..12 {
        handles.push(engine.start(plan, Value::Null, named(&format!("r{number}"))).await.expect("started"));
        assert!(engine.stats().reply_bytes <= MAX_BYTES as u64);
    }
    for handle in &mut handles {
        assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
        assert!(engine.stats().reply_bytes <= MAX_BYTES as u64);
    }
    until(|| engine.stats().reply_bytes == 0).await;
}
