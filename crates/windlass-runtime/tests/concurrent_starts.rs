//! The same start, or the same delivery, made twice concurrently: every run exists once, and both callers get it.

use crate::support;

use std::sync::{Arc, Mutex, mpsc};

use support::audit::audit;
use support::plans::steps;
use support::{World, engine, engine_with, in_time, json, locked, named, options, until};
use windlass_core::plan::{ExpressionSource, Plan, SourceSpan, Trigger};
use windlass_runtime::{
    DeliveryRuns, EngineOptions, RunHandle, RunRequest, RuntimeEngine, RuntimeError, TriggerOptions,
};
use windlass_store::{CommitHook, CommitMoment, CommitPoint, MemoryStore, RunFilter, StoreScan};
use windlass_value::{ExpressionMode, Value};

/// Holds an engine right before its first commit.
struct CommitHold {
    reached: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

/// Returns an engine that has checked the store, has found no run, and is about to create it.
fn slow_engine(store: &Arc<MemoryStore>, world: &World) -> (RuntimeEngine, CommitHold) {
    let (reached_sender, reached) = mpsc::channel();
    let (go, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let hook: CommitHook = Box::new(move |point| {
        if point == (CommitPoint { number: 1, when: CommitMoment::Before }) {
            // A test that has failed by now waits for nothing.
            let _ = reached_sender.send(());
            let _ = locked(&wait).recv();
        }
    });
    let engine = engine_with(store, EngineOptions { commit_hook: Some(hook), ..options(world) });
    (engine, CommitHold { reached, go })
}

fn ids(store: &MemoryStore) -> Vec<String> {
    let rows = store.runs(&RunFilter::default(), None, u32::MAX).expect("readable");
    let mut runs: Vec<String> = rows.iter().map(|row| row.run.to_string()).collect();
    runs.sort();
    runs
}

// -------------------------------------------------------------------------------------------------------------- starts

fn gated() -> Plan {
    steps("gated").effect("hold", "gate", r#""go""#).plan()
}

async fn start(engine: &RuntimeEngine, input: &str) -> Result<RunHandle, RuntimeError> {
    let (hash, _) = engine.add_plan(gated())?;
    in_time(engine.start(hash, json(input), named("r"))).await
}

/// Returns the result of the slower of two starts; `ended` selects whether the faster run has ended by then.
async fn slower_start(
    store: &Arc<MemoryStore>,
    world: &World,
    inputs: [&str; 2],
    ended: bool,
) -> Result<RunHandle, String> {
    let (slow, held) = slow_engine(store, world);
    let fast = engine(store, world);
    let (first, second) = tokio::join!(start(&slow, inputs[0]), async {
        until(|| held.reached.try_recv().is_ok()).await;
        let mut handle = start(&fast, inputs[1]).await.expect("started");
        if ended {
            world.open("go");
            in_time(handle.wait()).await.expect("an end");
        }
        held.go.send(()).expect("it waits");
        handle
    });
    world.open("go");
    let mut second = second;
    in_time(second.wait()).await.expect("an end");
    assert_eq!((ids(store), world.ledger().len()), (vec!["r".to_owned()], 1));
    audit(store, "r");
    first.map_err(|error| match error {
        RuntimeError::Owned { .. } => "owned".to_owned(),
        other => other.to_string(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_starts_in_two_engines_are_one_run() {
    let fresh = || (Arc::new(MemoryStore::new()), World::new());
    let (store, world) = fresh();
    let open = slower_start(&store, &world, ["{}", "{}"], false).await;
    assert_eq!(open.err().as_deref(), Some("owned"), "a run of another owner can be followed");
    let (store, world) = fresh();
    let mut ended =
        slower_start(&store, &world, [r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "a": 1}"#], true).await.expect("it");
    in_time(ended.wait()).await.expect("its report");
    let (store, world) = fresh();
    let other = slower_start(&store, &world, [r#"{"a": 1}"#, "{}"], false).await.err().expect("another input");
    assert_eq!(other, RuntimeError::RunExists("r".to_owned()).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_equal_starts_in_one_process_are_one_run() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let (one, other) = tokio::join!(start(&engine, "{}"), start(&engine, "{}"));
    world.open("go");
    for handle in [one, other] {
        in_time(handle.expect("started").wait()).await.expect("an end");
    }
    assert_eq!((ids(&store), world.ledger().len()), (vec!["r".to_owned()], 1));
}

/// The caller disconnects while the start becomes durable, and repeats it before it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_start_after_a_disconnect_is_the_same_run() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let (engine, held) = slow_engine(&store, &world);
    let gone = tokio::spawn({
        let engine = engine.clone();
        async move { start(&engine, "{}").await.map(|handle| handle.run.clone()) }
    });
    until(|| held.reached.try_recv().is_ok()).await;
    gone.abort();
    assert!(gone.await.is_err(), "it was waiting");
    let again = start(&engine, "{}");
    let mut again = std::pin::pin!(again);
    // It proceeds as far as it can before the first start is durable.
    let early = tokio::time::timeout(std::time::Duration::from_millis(100), &mut again).await.is_ok();
    assert!(!early, "no reply before the start is durable");
    held.go.send(()).expect("it waits");
    let mut again = again.await.expect("the same run");
    assert!(!again.created);
    world.calls(1).await;
    let outcome = engine.request("r", "stop", RunRequest::Cancel { reason: "enough".to_owned() }).expect("asked");
    assert_eq!(outcome, windlass_runtime::RequestOutcome::Delivered);
    let report = in_time(again.wait()).await.expect("the run receives the request");
    assert_eq!(report.status, windlass_core::Status::Cancelled);
    assert_eq!((ids(&store), world.ledger().len()), (vec!["r".to_owned()], 1), "the run started once");
    audit(&store, "r");
}

// ---------------------------------------------------------------------------------------------------------- deliveries

/// The items depend on the time at which the delivery was evaluated.
fn timed() -> Plan {
    let mut plan = steps("timed").effect("work", "count", r#""@triggerBody()""#).plan();
    let span = SourceSpan::default();
    let source = Value::from("@createArray(utcNow(), guid(), triggerBody().item)");
    let split =
        plan.add_expression(ExpressionSource { language: "wdl".into(), source, mode: ExpressionMode::Value, span });
    plan.triggers.push(Trigger {
        name: "Manual".into(),
        kind: "request".into(),
        conditions: Vec::new(),
        validation: None,
        split: Some(split),
        settings: Value::Null,
        span,
    });
    plan
}

async fn deliver(engine: &RuntimeEngine, input: &str) -> Result<DeliveryRuns, RuntimeError> {
    let (hash, _) = engine.add_plan(timed())?;
    let options = TriggerOptions { delivery: Some("d".to_owned()), ..TriggerOptions::default() };
    in_time(engine.trigger(hash, "manual", json(input), options)).await
}

async fn all_end(triggered: Result<DeliveryRuns, RuntimeError>) {
    let runs = triggered.expect("delivered").runs;
    assert_eq!(runs.len(), 3);
    for mut handle in runs {
        in_time(handle.wait()).await.expect("an end");
    }
}

fn expect_three(store: &MemoryStore, world: &World) {
    assert_eq!(ids(store), ["d-0", "d-1", "d-2"]);
    assert_eq!((world.keys().len(), world.ledger().len()), (3, 3), "each effect once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_concurrent_deliveries_both_succeed() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let (slow, held) = slow_engine(&store, &world);
    let fast = engine(&store, &world);
    let (first, second) = tokio::join!(deliver(&slow, r#"{"item": 1}"#), async {
        until(|| held.reached.try_recv().is_ok()).await;
        let delivered = deliver(&fast, r#"{"item": 1}"#).await;
        held.go.send(()).expect("it waits");
        delivered
    });
    all_end(first).await;
    all_end(second).await;
    expect_three(&store, &world);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_deliveries_in_any_order_both_succeed() {
    for _ in 0..20 {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let (one, other) = (engine(&store, &world), engine(&store, &world));
        let (first, second) = tokio::join!(deliver(&one, r#"{"item": 1}"#), deliver(&other, r#"{"item": 1}"#));
        all_end(first).await;
        all_end(second).await;
        expect_three(&store, &world);
    }
}

/// Two deliveries with one name that differ only in their last item.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_with_another_input_is_refused_before_anything_starts() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let (slow, held) = slow_engine(&store, &world);
    let fast = engine(&store, &world);
    let (first, second) = tokio::join!(deliver(&slow, r#"{"item": 1}"#), async {
        until(|| held.reached.try_recv().is_ok()).await;
        let delivered = deliver(&fast, r#"{"item": 2}"#).await;
        held.go.send(()).expect("it waits");
        delivered
    });
    all_end(second).await;
    assert!(matches!(first, Err(RuntimeError::RunExists(run)) if run == "d-0"));
    let later = deliver(&fast, r#"{"item": 3}"#).await;
    assert!(matches!(later, Err(RuntimeError::RunExists(run)) if run == "d-0"));
    expect_three(&store, &world);
    all_end(deliver(&fast, r#"{"item": 2}"#).await).await;
}
