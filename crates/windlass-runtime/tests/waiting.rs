//! A waiting run is listed as waiting immediately, while it is still in memory; any engine that is running when its
//! timer is due wakes it.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::plans::steps;
use support::{World, engine, engine_with, in_time, loom, named, options, until};
use windlass_core::plan::Plan;
use windlass_runtime::{EngineOptions, RunRequest, RuntimeEngine, request};
use windlass_store::{MemoryStore, RunRow, RunStatus, StoreRead};
use windlass_value::Value;

fn row(store: &MemoryStore, run: &str) -> RunRow {
    store.run(run).expect("readable").expect("there")
}

async fn begin(engine: &RuntimeEngine, plan: Plan, id: &str) {
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    engine.start(hash, Value::Null, named(id)).await.expect("started");
}

fn asks(limit: &str) -> Plan {
    loom(&format!(
        r#"{{"actions": {{
            "before": {{"type": "activity", "inputs": {{"activityName": "count", "input": 1}}}},
            "ask": {{"type": "wait", "inputs": {{"signal": {{"name": "go"}}}}{limit}, "runAfter": {{"before": ["Succeeded"]}}}},
            "after": {{"type": "activity", "inputs": {{"activityName": "gate", "input": "after"}},
                "runAfter": {{"ask": ["Succeeded", "TimedOut", "Failed"]}}}}}}}}"#
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_listed_status_follows_the_run() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    begin(&engine, asks(""), "r").await;
    until(|| row(&store, "r").status == RunStatus::Waiting).await;
    assert!(row(&store, "r").owner.is_some(), "the run was not evicted for that");
    let go = RunRequest::Signal { name: "go".to_owned(), payload: Value::Null };
    engine.request("r", "one", go).expect("kept");
    until(|| row(&store, "r").status == RunStatus::Running).await;
    world.open("after");
    until(|| row(&store, "r").status == RunStatus::Succeeded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_delay_is_listed_as_waiting_with_its_timer() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let plan = loom(r#"{"actions": {"hold": {"type": "wait", "inputs": {"interval": "PT1H"}}}}"#);
    begin(&engine, plan, "r").await;
    until(|| row(&store, "r").status == RunStatus::Waiting).await;
    assert!(row(&store, "r").timer.is_some() && row(&store, "r").owner.is_some());
    engine.request("r", "one", RunRequest::Pause).expect("kept");
    until(|| row(&store, "r").status == RunStatus::Paused).await;
    assert_eq!(row(&store, "r").timer, None, "one that is paused is not woken");
    engine.request("r", "two", RunRequest::Resume).expect("kept");
    until(|| row(&store, "r").status == RunStatus::Waiting && row(&store, "r").timer.is_some()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_delays_of_loops_and_retries_are_listed_as_waiting() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let looping = loom(
        r#"{"actions": {"poll": {"type": "until", "expression": "@equals(1, 2)", "limit": {"count": 3, "timeout": "P1D"},
            "delay": {"interval": {"count": 1, "unit": "hour"}},
            "actions": {"look": {"type": "activity", "inputs": {"activityName": "count", "input": 1}}}}}}"#,
    );
    begin(&engine, looping, "looping").await;
    let retrying = loom(
        r#"{"actions": {"try": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 5}},
            "retry": {"type": "fixed", "count": 2, "interval": "PT1H"}}}}"#,
    );
    begin(&engine, retrying, "retrying").await;
    until(|| ["looping", "retrying"].iter().all(|run| row(&store, run).status == RunStatus::Waiting)).await;
    assert!(row(&store, "looping").timer.is_some() && row(&store, "looping").owner.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timer_of_a_waiting_run_fires_after_its_process_died() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let dead = engine(&store, &world);
    begin(&dead, asks(r#", "limit": {"timeout": "PT0.5S"}"#), "timed").await;
    begin(&dead, asks(""), "signalled").await;
    until(|| ["timed", "signalled"].iter().all(|run| row(&store, run).status == RunStatus::Waiting)).await;
    let store = Arc::new(store.crash());
    world.open("after");
    let living = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
    until(|| row(&store, "timed").status.is_final()).await;
    assert_eq!(row(&store, "signalled").status, RunStatus::Waiting);
    let signal = RunRequest::Signal { name: "go".to_owned(), payload: Value::Null };
    request(&*store, "signalled", "one", signal).expect("buffered");
    until(|| row(&store, "signalled").status == RunStatus::Succeeded).await;
    drop(living);
}

/// Due runs that this engine cannot execute come first: they do not block the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_cannot_be_reloaded_do_not_block_others() {
    // On a busy machine some are due before all are created: then the delay is longer.
    for seconds in [2, 10, 60] {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine_with(&store, EngineOptions { evict_after: Duration::ZERO, ..options(&world) });
        let soon = windlass_value::Duration::from_secs(seconds);
        for n in 0..300 {
            let plan = steps("stuck").delay("wait", soon).effect("work", "count", "1").plan();
            begin(&first, plan, &format!("stuck-{n}")).await;
        }
        begin(&first, steps("well").delay("wait", soon).plan(), "well").await;
        until(|| first.resident() == 0).await;
        in_time(first.close()).await;
        if !world.ledger().is_empty() {
            continue;
        }
        let tools = world.tools().only(|name| name != "count");
        let _second = engine_with(&store, EngineOptions { adopt: true, tools, ..options(&world) });
        until(|| row(&store, "well").status == RunStatus::Succeeded).await;
        return;
    }
    panic!("a minute is not enough to make 301 runs");
}
