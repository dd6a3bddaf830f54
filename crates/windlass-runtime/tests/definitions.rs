//! Guarantees for definitions, tested through the whole engine: one case per table row.

use crate::support;

use std::sync::Arc;

use support::audit::events;
use support::{World, engine, in_time, in_virtual_time, json, loom, named};
use windlass_core::Status;
use windlass_runtime::{FinalReport, RunRequest};
use windlass_store::MemoryStore;
use windlass_value::Value;

async fn ended(text: &str) -> (Arc<FinalReport>, Arc<MemoryStore>, World) {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let (hash, _) = engine.add_plan(loom(text)).expect("a plan");
    let mut handle = engine.start(hash, Value::Null, in_virtual_time("r")).await.expect("started");
    let report = in_time(handle.wait()).await.expect("an end");
    (report, store, world)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_refers_to_the_innermost_loop_with_items() {
    let (report, ..) = ended(
        r#"{"actions": {"each": {"type": "foreach", "foreach": ["A", "B"], "actions": {
            "twice": {"type": "until", "condition": "@equals(variables('loopIndex'), 2)", "actions": {
                "say": {"type": "compose", "inputs": "@item()"}}}}}},
            "outputs": {"said": "@outputs('each')[1].twice.lastResult.say"}}"#,
    )
    .await;
    assert_eq!(report.output, json(r#"{"said": "B"}"#), "{:?}", report.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_written_before_it_is_initialized_is_reported() {
    let (report, ..) = ended(
        r#"{"actions": {
            "set": {"type": "setVariable", "name": "n", "value": 2},
            "init": {"type": "initializeVariable", "inputs": {"name": "n", "type": "integer", "value": 1}}}}"#,
    )
    .await;
    let error = report.error.as_ref().expect("an error");
    assert_eq!((report.status, &*error.code, &*error.path), (Status::Failed, "VariableExists", "init"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_reports_its_outcome_on_success_and_on_failure() {
    let retry = |fail: u32| {
        format!(
            r#"{{"actions": {{"r": {{"type": "retry", "retryPolicy": {{"type": "fixed", "count": 2, "interval": "PT1S"}},
                "action": {{"type": "activity", "inputs": {{"activityName": "flaky", "input": {{"fail": {fail}}}}}}}}}}}}}"#
        )
    };
    let (report, ..) = ended(&retry(2)).await;
    let output = &report.steps[0].1.output;
    assert_eq!((output.get("status"), output.get("attempts")), (Some(&"success".into()), Some(&Value::Int(3))));
    let (report, ..) = ended(&retry(9)).await;
    let output = &report.steps[0].1.output;
    assert_eq!((output.get("status"), output.get("attempts")), (Some(&"failed".into()), Some(&Value::Int(3))));
    assert!(output.get("error").and_then(|error| error.get("message")).is_some(), "{output:?}");
    assert_eq!(report.status, Status::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delay_expression_sees_the_completed_iteration() {
    let (report, store, _) = ended(
        r#"{"type": "until", "name": "grow", "condition": "@greaterOrEquals(variables('loopIndex'), 3)",
            "delay": {"interval": {"count": "@add(variables('loopIndex'), 1)", "unit": "minute"}},
            "actions": {"a": {"type": "compose", "inputs": 1}}}"#,
    )
    .await;
    assert_eq!(report.status, Status::Succeeded, "{:?}", report.error);
    let started: Vec<i64> = events(&*store, "r")
        .iter()
        .filter(|event| event.type_name() == "loop.iteration.started")
        .map(|event| event.at.as_ms() / 60_000)
        .collect();
    assert_eq!([started[1] - started[0], started[2] - started[1]], [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_timeout_applies_to_each_attempt() {
    let (report, _, world) = ended(
        r#"{"type": "activity", "name": "slow", "inputs": {"activityName": "never", "input": 1}, "timeout": 5,
            "retry": {"type": "fixed", "count": 2, "interval": "PT1S", "on": ["timeout"]}}"#,
    )
    .await;
    assert_eq!(report.status, Status::Failed);
    let keys: Vec<_> = world.ledger().iter().map(|effect| effect.key.clone()).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(keys.iter().all(|key| *key == keys[0]), "no reply was received, so every attempt has the same key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_cancellation_precedes_any_further_effect() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    let gate = r#"{"type": "activity", "name": "hold", "inputs": {"activityName": "gate", "input": "shut"}}"#;
    let (hash, _) = first.add_plan(loom(gate)).expect("a plan");
    first.start(hash, Value::Null, named("r")).await.expect("started");
    world.calls(1).await;
    first.close().await;
    let request = RunRequest::Cancel { reason: "enough".to_owned() };
    windlass_runtime::request(&*store, "r", "cancel", request).expect("kept");
    let second = engine(&store, &world);
    let mut handle = second.resume("r").await.expect("resumed");
    let report = in_time(handle.wait()).await.expect("an end");
    assert_eq!(report.status, Status::Cancelled);
    assert_eq!(world.ledger().len(), 1, "the job was not dispatched again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_larger_than_the_cache_are_loaded_when_needed() {
    let (report, ..) = ended(
        r#"{"actions": {
            "a": {"type": "activity", "inputs": {"activityName": "big", "input": 9000000}},
            "b": {"type": "activity", "inputs": {"activityName": "big", "input": 9000001}, "runAfter": {"a": ["Succeeded"]}},
            "ax": {"type": "compose", "inputs": "@concat(outputs('a'), 'x')", "runAfter": {"b": ["Succeeded"]}},
            "bx": {"type": "compose", "inputs": "@concat(outputs('b'), 'x')", "runAfter": {"ax": ["Succeeded"]}},
            "first": {"type": "compose", "inputs": "@length(outputs('ax'))", "runAfter": {"bx": ["Succeeded"]}},
            "same": {"type": "compose", "inputs": "@equals(outputs('ax'), outputs('bx'))", "runAfter": {"first": ["Succeeded"]}}},
            "outputs": {"length": "@outputs('first')", "same": "@outputs('same')"}}"#,
    )
    .await;
    assert_eq!(report.output, json(r#"{"length": 9000001, "same": false}"#), "{:?}", report.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_larger_than_memory_stays_a_reference() {
    let (report, store, _) = ended(
        r#"{"actions": {
            "v": {"type": "initializeVariable", "inputs": {"name": "v", "type": "array", "value": [1]}},
            "grow": {"type": "until", "condition": "@equals(variables('loopIndex'), 50)", "runAfter": {"v": ["Succeeded"]}, "actions": {
                "twice": {"type": "compose", "inputs": "@createArray(variables('v'), variables('v'))"},
                "keep": {"type": "setVariable", "inputs": {"name": "v", "value": "@outputs('twice')"}}}}},
            "outputs": {"v": "@variables('v')"}}"#,
    )
    .await;
    let shown = windlass_runtime::resolve(&*store, &report.output).expect("resolved");
    assert!(windlass_value::to_json(&shown).len() < 1_000_000, "it was put together");
}
