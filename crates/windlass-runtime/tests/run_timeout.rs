//! The run timeout across processes: the time in which the process that had the run was up counts, up to its last
//! heartbeat, and nothing else.

use crate::support;

use std::sync::Arc;
use std::time::Duration as StdDuration;

use support::audit::entries;
use support::plans::steps;
use support::{World, engine, engine_with, in_time, named, options, until};
use windlass_core::plan::Plan;
use windlass_core::{Tick, TickKind};
use windlass_runtime::{EngineOptions, RunRequest, RunStartOptions, RuntimeEngine, request};
use windlass_store::{
    BatchVerdict, MemoryStore, RunBatch, RunStatus, StatusChange, StoreOwners, StoreRead, StoreWrite,
};
use windlass_value::{Duration, Timestamp, Value};

fn with_timeout(plan: Plan) -> Plan {
    Plan { timeout: Some(Duration::from_secs(3_600)), ..plan }
}

async fn begin(engine: &RuntimeEngine, plan: Plan) {
    let (hash, _) = engine.add_plan(with_timeout(plan)).expect("a plan");
    engine.start(hash, Value::Null, named("r")).await.expect("started");
}

fn last_tick(store: &MemoryStore) -> Tick {
    entries(store, "r").pop().expect("a tick").tick
}

/// Waits for a heartbeat that is later than the run's last tick, kills all processes, and returns what is left.
async fn kill_after_a_heartbeat(store: &MemoryStore, owner: &str) -> (Arc<MemoryStore>, Timestamp) {
    until(|| store.last_heartbeat(owner).expect("readable") > Some(last_tick(store).at)).await;
    let killed = store.kill();
    let beat = killed.last_heartbeat(owner).expect("readable").expect("a heartbeat");
    (Arc::new(killed), beat)
}

fn lived(store: &MemoryStore) -> Vec<Duration> {
    let restarts = entries(store, "r").into_iter().filter_map(|entry| match entry.tick.kind {
        TickKind::Restart { lived } => Some(lived),
        _ => None,
    });
    restarts.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_counts_up_to_its_last_heartbeat() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    begin(&first, steps("hangs").effect("work", "never", "1").plan()).await;
    let owner = store.run("r").expect("readable").and_then(|row| row.owner).expect("an owner");
    let (killed, beat) = kill_after_a_heartbeat(&store, &owner).await;
    let before = last_tick(&killed).at;
    let second = engine(&killed, &world);
    second.resume("r").await.expect("resumed");
    assert_eq!(lived(&killed), [beat.since(before)]);
    in_time(first.close()).await;
    in_time(second.close()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_run_counts_the_time_of_the_process_that_evicted_it() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine_with(&store, EngineOptions { evict_after: StdDuration::ZERO, ..options(&world) });
    begin(&first, steps("waits").signal("wait", "go").plan()).await;
    until(|| first.resident() == 0 && store.run("r").is_ok_and(|row| row.is_some_and(|row| row.owner.is_none()))).await;
    let row = store.run("r").expect("readable").expect("there");
    assert_eq!(row.status, RunStatus::Waiting);
    let (killed, beat) = kill_after_a_heartbeat(&store, &row.previous_owner.expect("the evicting engine")).await;
    let before = last_tick(&killed).at;
    let second = engine(&killed, &world);
    second.resume("r").await.expect("resumed");
    assert_eq!(lived(&killed), [beat.since(before)]);
    in_time(first.close()).await;
    in_time(second.close()).await;
}

/// The process goes on without the run, which waits for an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_in_quarantine_does_not_count() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    begin(&first, steps("hangs").effect("work", "never", "1").plan()).await;
    let row = store.run("r").expect("readable").expect("there");
    let at = last_tick(&store).at;
    let quarantined = RunBatch {
        run: row.run.clone(),
        owner_epoch: row.owner_epoch,
        expected_ticks: row.ticks,
        status: Some(StatusChange { status: RunStatus::Quarantined, at, result: None }),
        release: true,
        ..RunBatch::default()
    };
    assert_eq!(store.append(vec![quarantined]).expect("append"), [BatchVerdict::Committed]);
    let second = engine(&store, &world);
    second.resume("r").await.expect("resumed");
    assert_eq!(lived(&store), [Duration::ZERO]);
    in_time(first.close()).await;
    in_time(second.close()).await;
}

/// Heartbeats last as long as an open run needs them, also one that is evicted, and begin again with the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_end_with_the_last_run_that_has_a_timeout() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine_with(&store, EngineOptions { evict_after: StdDuration::ZERO, ..options(&world) });
    assert!(!engine.sends_heartbeats());
    for _ in 0..2 {
        let (hash, _) = engine.add_plan(with_timeout(steps("waits").signal("wait", "go").plan())).expect("a plan");
        let mut runs = Vec::new();
        for _ in 0..2 {
            runs.push(engine.start(hash, Value::Null, RunStartOptions::default()).await.expect("started"));
        }
        until(|| engine.resident() == 0).await;
        for mut run in runs {
            assert!(engine.sends_heartbeats(), "this one is open");
            let signal = RunRequest::Signal { name: "go".to_owned(), payload: Value::Null };
            request(&*store, &run.run, "one", signal).expect("buffered");
            in_time(run.wait()).await.expect("ended");
        }
        until(|| !engine.sends_heartbeats()).await;
    }
    in_time(engine.close()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_a_timeout_has_no_heartbeats() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    let plan = steps("hangs").effect("work", "never", "1").plan();
    let (hash, _) = first.add_plan(plan).expect("a plan");
    first.start(hash, Value::Null, named("r")).await.expect("started");
    let owner = store.run("r").expect("readable").and_then(|row| row.owner).expect("an owner");
    in_time(first.close()).await;
    assert_eq!(store.last_heartbeat(&owner).expect("readable"), None, "no run has a timeout");
    let second = engine(&store, &world);
    second.resume("r").await.expect("resumed");
    assert_eq!(lived(&store), [Duration::ZERO]);
    in_time(second.close()).await;
}
