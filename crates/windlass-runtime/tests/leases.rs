//! Workers hold a pipeline under a lease: a silent worker loses it, its late report is refused, and a crash between
//! two tasks repeats neither.

use crate::support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use support::audit::{assert_replays, entries, events};
use support::plans::steps;
use support::{World, engine_with, in_time, locked, named, options, until};
use windlass_core::plan::Plan;
use windlass_core::{Status, TaskOutcome, TickKind};
use windlass_runtime::EngineOptions;
use windlass_store::{MemoryStore, StoreRead};
use windlass_value::Value;

const RUN: &str = "r";

fn three_tasks() -> Plan {
    steps("three").pipeline("pipe", &[("one", "count", "1"), ("two", "count", "2"), ("three", "count", "3")]).plan()
}

/// The first worker is not dead, only slow: its thread hangs in the tool, so it sends no heartbeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_stale_worker_report_is_rejected() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let (wake, sleeping) = mpsc::channel::<()>();
    let (sleeping, calls) = (Arc::new(Mutex::new(sleeping)), Arc::new(AtomicU32::new(0)));
    let keys: Arc<Mutex<Vec<Arc<str>>>> = Arc::default();
    let tools = {
        let keys = keys.clone();
        world.tools().with_fn("hangs", move |call| {
            let (sleeping, number) = (sleeping.clone(), calls.fetch_add(1, Ordering::SeqCst));
            locked(&keys).push(call.key.clone());
            async move {
                // Not on the control loop's own thread.
                tokio::task::yield_now().await;
                if number == 0 {
                    let _ = locked(&sleeping).recv();
                }
                TaskOutcome::success(Value::from(["first", "second"][number.min(1) as usize]))
            }
        })
    };
    // The test waits for one lease to expire, in real time. A worker that does not hang must report within the lease,
    // even on a busy machine.
    let engine = engine_with(&store, EngineOptions { tools, lease: Duration::from_secs(3), ..options(&world) });
    let tasks = [("one", "count", "1"), ("two", "hangs", "2"), ("three", "gate", r#""end""#)];
    let plan = steps("zombie").pipeline("pipe", &tasks).plan();
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    let mut handle = in_time(engine.start(hash, Value::Null, named(RUN))).await.expect("started");
    // The second worker has reported, and the pipeline has continued.
    until(|| world.ledger().iter().any(|effect| effect.tool == "gate")).await;
    wake.send(()).expect("the zombie sleeps");
    until(|| events(&*store, RUN).iter().any(|event| event.type_name() == "job.refused")).await;
    world.open("end");
    assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);

    let events = events(&*store, RUN);
    let refused = events.iter().find(|event| event.type_name() == "job.refused").expect("the refusal is published");
    let number = |name: &str| refused.fields().get(name).and_then(Value::as_int);
    assert_eq!((number("job"), number("lease_epoch")), (Some(0), Some(1)), "{refused:?}");
    assert!(number("expected") > Some(2), "{refused:?}");
    let result = |label: &str| {
        let task = Value::from(label);
        let processed = events.iter().filter(|event| event.type_name() == "task.processed");
        let processed = processed.filter(|event| event.fields().get("task") == Some(&task)).collect::<Vec<_>>();
        assert_eq!(processed.len(), 1, "{label} is processed once");
        processed[0].fields().get("outcome").and_then(|outcome| outcome.get("result")).cloned()
    };
    assert_eq!(result("two"), Some(Value::from("second")));
    let keys = locked(&keys).clone();
    assert!(keys.len() >= 2 && keys.iter().all(|key| *key == keys[0]), "a repeat has the same key: {keys:?}");
    assert_replays(&*store, RUN);
}

/// Returns the number of tasks that have ended according to the journal.
fn reported(store: &MemoryStore) -> usize {
    let results = entries(store, RUN);
    results.iter().filter(|entry| matches!(entry.tick.kind, TickKind::StepResult { .. })).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_two_tasks_repeats_neither() {
    let mut between = Vec::new();
    for commit in 1.. {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        store.crash_after_sync(commit);
        let engine = engine_with(&store, options(&world));
        let Ok((hash, _)) = engine.add_plan(three_tasks()) else { continue };
        if let Ok(mut handle) = in_time(engine.start(hash, Value::Null, named(RUN))).await {
            let _ = in_time(handle.wait()).await;
        }
        let crashed = store.run(RUN).is_err();
        drop(engine);
        let store = Arc::new(store.crash());
        if !crashed {
            break;
        }
        let known = store.run(RUN).expect("readable").is_some_and(|row| !row.status.is_final());
        let ended = if known { reported(&store) } else { 0 };
        let again = World::new();
        let engine = engine_with(&store, options(&again));
        let (hash, _) = engine.add_plan(three_tasks()).expect("a plan");
        let mut handle = in_time(engine.start(hash, Value::Null, named(RUN))).await.expect("continues");
        assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
        if known {
            let called: Vec<_> = again.ledger().iter().map(|effect| effect.input.clone()).collect();
            assert_eq!(called, ["1", "2", "3"][ended..], "killed after commit {commit}");
            between.push(ended);
        }
        assert_replays(&*store, RUN);
    }
    between.dedup();
    assert_eq!(between, [0, 1, 2], "it was cut before and after each task");
}
