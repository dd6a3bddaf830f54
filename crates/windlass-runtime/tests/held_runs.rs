//! Held runs: they are created and start later. Until then they do nothing, whatever is requested in between.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::audit::{audit, events};
use support::{World, engine, engine_with, in_time, json, loom, named, options, until};
use windlass_core::Status;
use windlass_runtime::{EngineOptions, RequestOutcome, RunHandle, RunRequest, RunStartOptions, RuntimeEngine};
use windlass_store::{MemoryStore, RunStatus, StoreRead};
use windlass_value::{Value, to_json};

/// An effect with the run's input, after a signal.
const ORDERS: &str = r#"{"name": "orders", "actions": {
    "go": {"type": "wait", "inputs": {"signal": {"name": "go"}}},
    "work": {"type": "activity", "inputs": {"activityName": "count", "input": "@triggerBody()?['n']"},
        "runAfter": {"go": ["Succeeded"]}}}}"#;

async fn held(engine: &RuntimeEngine, input: &str) -> RunHandle {
    let (hash, _) = engine.add_plan(loom(ORDERS)).expect("a plan");
    let how = RunStartOptions { held: true, ..named("r") };
    in_time(engine.start(hash, json(input), how)).await.expect("made")
}

fn status(store: &MemoryStore) -> RunStatus {
    store.run("r").expect("readable").expect("a run").status
}

fn kinds(store: &MemoryStore) -> Vec<String> {
    events(store, "r").iter().map(|event| event.type_name().to_owned()).collect()
}

/// Evicted from memory immediately, so that the run has to be reloaded.
fn evict_immediately(world: &World) -> EngineOptions {
    EngineOptions { evict_after: Duration::ZERO, ..options(world) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_run_begins_when_it_is_resumed() {
    for evicts in [false, true] {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let engine = match evicts {
            true => engine_with(&store, evict_immediately(&world)),
            false => engine(&store, &world),
        };
        let mut run = held(&engine, r#"{"n": 7}"#).await;
        assert!(run.created);
        assert_eq!((status(&store), kinds(&store)), (RunStatus::Pending, vec!["workflow.held".to_owned()]));
        // The same start again is the same run, and leaves it held.
        assert!(!held(&engine, r#"{"n": 7}"#).await.created);
        if evicts {
            until(|| engine.resident() == 0).await;
        }
        assert_eq!(status(&store), RunStatus::Pending, "evicted: {evicts}");
        // Requests before the start take effect after it.
        let signal = RunRequest::Signal { name: "go".to_owned(), payload: Value::Null };
        engine.request("r", "s", signal).expect("asked");
        engine.request("r", "p", RunRequest::Pause).expect("asked");
        assert!(world.ledger().is_empty());
        assert_ne!(engine.request("r", "admit", RunRequest::Resume).expect("asked"), RequestOutcome::Duplicate);
        assert_eq!(engine.request("r", "admit", RunRequest::Resume).expect("asked"), RequestOutcome::Duplicate);
        let report = in_time(run.wait()).await.expect("ends");
        assert_eq!(report.status, Status::Succeeded);
        assert_eq!(world.ledger().iter().map(|call| &*call.input).collect::<Vec<_>>(), ["7"]);
        audit(&store, "r");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_run_can_be_cancelled() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let mut run = held(&engine, r#"{"n": 7}"#).await;
    engine.request("r", "c", RunRequest::Cancel { reason: "enough".to_owned() }).expect("asked");
    let report = in_time(run.wait()).await.expect("ends");
    assert_eq!((report.status, status(&store)), (Status::Cancelled, RunStatus::Cancelled));
    assert_eq!(engine.request("r", "admit", RunRequest::Resume).expect("asked"), RequestOutcome::Ended);
    assert_eq!(kinds(&store), ["workflow.held", "workflow.finished"]);
    audit(&store, "r");
}

/// The process dies at every commit; the next process resumes the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_run_survives_a_crash_at_every_commit() {
    for at in 1.. {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine(&store, &world);
        store.crash_before_sync(at);
        let (hash, _) = match first.add_plan(loom(ORDERS)) {
            Ok(added) => added,
            Err(_) => continue,
        };
        let started = first.start(hash, json(r#"{"n": 7}"#), RunStartOptions { held: true, ..named("r") }).await;
        if let Ok(mut run) = started {
            let _ = first.request("r", "s", RunRequest::Signal { name: "go".to_owned(), payload: Value::Null });
            let _ = first.request("r", "admit", RunRequest::Resume);
            let _ = in_time(run.wait()).await;
        }
        let reached = store.run("r").is_err();
        let left = Arc::new(store.crash());
        let second = engine_with(&left, EngineOptions { adopt: true, ..options(&world) });
        let (hash, _) = second.add_plan(loom(ORDERS)).expect("a plan");
        let how = RunStartOptions { held: true, ..named("r") };
        let mut run = in_time(second.start(hash, json(r#"{"n": 7}"#), how)).await.expect("made, or there");
        second.request("r", "s", RunRequest::Signal { name: "go".to_owned(), payload: Value::Null }).expect("asked");
        second.request("r", "admit", RunRequest::Resume).expect("asked");
        let report = in_time(run.wait()).await.expect("ends");
        assert_eq!(report.status, Status::Succeeded, "crash {at}: {}", to_json(&report.output));
        assert_eq!(world.keys().len(), 1, "crash {at}");
        audit(&left, "r");
        if !reached {
            assert!(at > 4, "only {at} commits were crashed");
            return;
        }
    }
}
