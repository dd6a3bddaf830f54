//! Deliveries: every run of a delivery starts once, whatever happens in between.

use crate::support;

use std::sync::Arc;

use support::audit::audit;
use support::plans::steps;
use support::{World, engine, in_time, json};
use windlass_core::plan::{ExpressionSource, Plan, SourceSpan, Trigger};
use windlass_runtime::{DeliveryRuns, RuntimeEngine, RuntimeError, TriggerOptions};
use windlass_store::{MemoryStore, RunFilter, StoreRead, StoreScan};
use windlass_value::{ExpressionMode, Value, to_json};

/// One effect with the run's input; the trigger requires `on` and splits `items`.
fn split_plan(split: Option<&str>) -> Plan {
    let mut plan =
        steps("orders").effect("work", "count", r#""@triggerBody()""#).gives(&[("saw", "@outputs('work').saw")]);
    let span = SourceSpan::default();
    let mut add = |source: &str, mode| {
        plan.add_expression(ExpressionSource { language: "wdl".into(), source: Value::from(source), mode, span })
    };
    let conditions = vec![add("@triggerBody().on", ExpressionMode::Condition)];
    let split = split.map(|source| add(source, ExpressionMode::Value));
    plan.triggers.push(Trigger {
        name: "Manual".into(),
        kind: "request".into(),
        validation: None,
        conditions,
        split,
        settings: Value::Null,
        span,
    });
    plan
}

async fn deliver(
    engine: &RuntimeEngine,
    plan: &Plan,
    input: &str,
    delivery: &str,
) -> Result<DeliveryRuns, RuntimeError> {
    let (hash, _) = engine.add_plan(plan.clone())?;
    let options = TriggerOptions { delivery: Some(delivery.to_owned()), ..TriggerOptions::default() };
    in_time(engine.trigger(hash, "manual", json(input), options)).await
}

/// Waits for all runs and returns their outputs.
async fn ends(triggered: DeliveryRuns) -> Result<Vec<(String, String)>, RuntimeError> {
    let mut ends = Vec::new();
    for mut handle in triggered.runs {
        let report = in_time(handle.wait()).await?;
        ends.push((handle.run.to_string(), to_json(&report.output)));
    }
    Ok(ends)
}

fn runs(store: &MemoryStore) -> Vec<String> {
    let rows = store.runs(&RunFilter::default(), None, u32::MAX).expect("readable");
    let mut runs: Vec<String> = rows.iter().map(|row| row.run.to_string()).collect();
    runs.sort();
    runs
}

fn fresh() -> (Arc<MemoryStore>, World) {
    (Arc::new(MemoryStore::new()), World::new())
}

const DELIVERY: &str = r#"{"on": true, "items": ["a", "b", "c"]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_starts_a_run_for_each_item() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let plan = split_plan(Some("@triggerBody().items"));
    let triggered = deliver(&engine, &plan, DELIVERY, "d1").await.expect("delivered");
    assert!(triggered.unmet.is_none());
    let ends = ends(triggered).await.expect("ends");
    let expected = [("d1-0", r#"{"saw":"a"}"#), ("d1-1", r#"{"saw":"b"}"#), ("d1-2", r#"{"saw":"c"}"#)];
    assert_eq!(ends, expected.map(|(run, saw)| (run.to_owned(), saw.to_owned())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_that_is_not_met_starts_nothing_and_is_named() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let triggered = deliver(&engine, &split_plan(None), r#"{"on": false}"#, "d1").await.expect("delivered");
    let unmet = triggered.unmet.expect("a condition was not met");
    assert_eq!((unmet.condition, unmet.source.as_str()), (0, Some("@triggerBody().on")));
    assert!(triggered.runs.is_empty() && runs(&store).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_split_there_is_one_run_with_the_whole_input() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let triggered = deliver(&engine, &split_plan(None), r#"{"on": true}"#, "d1").await.expect("delivered");
    assert_eq!(ends(triggered).await.expect("ends"), [("d1-0".to_owned(), r#"{"saw":{"on":true}}"#.to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_is_repeated_starts_nothing_twice() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let plan = split_plan(Some("@triggerBody().items"));
    let first = ends(deliver(&engine, &plan, DELIVERY, "d1").await.expect("delivered")).await.expect("ends");
    let again = ends(deliver(&engine, &plan, DELIVERY, "d1").await.expect("delivered")).await.expect("ends");
    assert_eq!(first, again);
    assert_eq!((runs(&store).len(), world.ledger().len()), (3, 3));
    let other = deliver(&engine, &plan, r#"{"on": true, "items": ["z"]}"#, "d1").await;
    assert!(matches!(other, Err(RuntimeError::RunExists(run)) if run == "d1-0"), "another delivery of that name");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_delivery_starts_nothing() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let plan = split_plan(Some("@triggerBody().items"));
    let refused = deliver(&engine, &plan, r#"{"on": true, "items": 5}"#, "d1").await;
    assert!(matches!(refused, Err(RuntimeError::Delivery(error)) if &*error.code == "NotAnArray"));
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    let unknown = engine.trigger(hash, "nightly", Value::Null, TriggerOptions::default()).await.err();
    assert_eq!(unknown.expect("unknown").to_string(), "the definition has no trigger `nightly`; it has `Manual`");
    assert!(runs(&store).is_empty());
}

/// The client repeats the delivery until it is acknowledged; every commit of the delivery is crashed, on both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_during_a_delivery_loses_and_repeats_nothing() {
    // Time and randomness must not make it another delivery.
    let plan = split_plan(Some("@createArray('a', guid(), utcNow(), rand(0, 1000000), 'e')"));
    // Neither must another version that was registered before the repeat.
    let newer = Plan { metadata: json(r#"{"labels": {"version": "2"}}"#), ..plan.clone() };
    let mut crashes = 0;
    for (before, again) in [(true, &plan), (false, &plan), (true, &newer), (false, &newer)] {
        for at in 1.. {
            let (mut store, world) = fresh();
            match before {
                true => store.crash_before_sync(at),
                false => store.crash_after_sync(at),
            }
            let first = match deliver(&engine(&store, &world), &plan, r#"{"on": true}"#, "d1").await {
                Ok(triggered) => ends(triggered).await,
                Err(error) => Err(error),
            };
            let reached = store.run("d1-0").is_err();
            store = Arc::new(store.crash());
            let begun = runs(&store);
            let triggered = deliver(&engine(&store, &world), again, r#"{"on": true}"#, "d1").await.expect("delivered");
            let second = ends(triggered).await.expect("all runs end");
            let expected: Vec<String> = (0..5).map(|item| format!("d1-{item}")).collect();
            assert_eq!(runs(&store), expected, "crash {at}");
            assert!(begun.iter().all(|run| expected.contains(run)), "crash {at}");
            for run in &expected {
                audit(&store, run);
            }
            assert_eq!(world.keys().len(), 5, "crash {at}: every effect has one key");
            for calls in world.keys().values() {
                assert!(calls.iter().all(|call| call.input == calls[0].input), "crash {at}: {calls:?}");
            }
            if !reached {
                assert_eq!(first.expect("nothing disturbed it"), second);
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes >= 12, "only {crashes} commits were crashed");
}
