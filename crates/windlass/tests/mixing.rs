//! Rust workflows and definitions of other dialects call each other.

#![cfg(all(feature = "loom", feature = "noetl"))]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, EngineBuilder, Event, StartOptions, StepError, Value, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order", start)]
struct Order {
    pieces: u64,
}

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "priced", stop)]
struct Priced {
    price: u64,
}

#[derive(Deserialize)]
struct Pieces {
    pieces: u64,
}

/// A workflow that calls a definition by name.
fn asking(definition: &'static str) -> Workflow {
    Workflow::builder("asking")
        .step("ask", move |ctx: Context, order: Order| async move {
            let input = BTreeMap::from([("pieces", order.pieces)]);
            let given: Value = ctx.call(definition, input).await?;
            let price = windlass::from_value(given.get("price").unwrap_or(&given))?;
            Ok(Priced { price })
        })
        .build()
        .unwrap()
}

/// A workflow that definitions call.
fn pricing() -> Workflow {
    Workflow::builder("pricing")
        .step("price", |order: Order| async move { Ok(Priced { price: order.pieces * 7 }) })
        .build()
        .unwrap()
}

const PLAYBOOK_OF_A_FUNCTION: &str = "
apiVersion: noetl.io/v2
kind: Playbook
workload: {pieces: 1}
workflow:
  - step: start
    tool: {kind: rust, name: price, args: {pieces: '{{ pieces }}'}}
";

const PLAYBOOK_OF_A_WORKFLOW: &str = "
apiVersion: noetl.io/v2
kind: Playbook
workload: {pieces: 1}
workflow:
  - step: start
    tool: {kind: playbook, path: pricing, input: {pieces: '{{ pieces }}'}}
";

const LOOM_OF_A_FUNCTION: &str = r#"{
  "actions": {
    "ask": {"type": "activity", "inputs": {"activityType": "price", "input": {"pieces": "@triggerBody()?['pieces']"}}}
  },
  "outputs": {"price": {"type": "Int", "value": "@outputs('ask')?['price']"}}
}"#;

const LOOM_OF_A_WORKFLOW: &str = r#"{
  "actions": {
    "ask": {"type": "activity", "inputs": {"activityType": "pricing", "input": {"pieces": "@triggerBody()?['pieces']"}}}
  },
  "outputs": {"price": {"type": "Int", "value": "@outputs('ask')?['price']"}}
}"#;

fn engine(workflow: &Workflow) -> EngineBuilder {
    Engine::in_memory().virtual_time(true).workflow(workflow).workflow(&pricing()).function(
        "price",
        |ctx: Context, order: Pieces| async move {
            // Durable calls work here as in a step.
            ctx.sleep(std::time::Duration::from_secs(3600)).await?;
            match order.pieces {
                0 => Err(StepError::new("NoPieces", "nothing was ordered")),
                pieces => Ok(Priced { price: pieces * 10 }),
            }
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_call_definitions_that_call_rust() {
    let table = [
        (PLAYBOOK_OF_A_FUNCTION, 30),
        (PLAYBOOK_OF_A_WORKFLOW, 21),
        (LOOM_OF_A_FUNCTION, 30),
        (LOOM_OF_A_WORKFLOW, 21),
    ];
    let workflow = asking("definition");
    for (text, price) in table {
        let engine = engine(&workflow).definition("definition", text).build().unwrap();
        let handle = engine.start(&workflow, Order { pieces: 3 }).await.unwrap();
        let priced = handle.result::<Priced>().await.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(priced, Priced { price }, "{text}");
        engine.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_goes_through() {
    let workflow = asking("definition");
    let engine = engine(&workflow).definition("definition", PLAYBOOK_OF_A_FUNCTION).build().unwrap();
    let error = engine.start(&workflow, Order { pieces: 0 }).await.unwrap().result::<Priced>().await.unwrap_err();
    assert!(error.to_string().contains("nothing was ordered"), "{error}");
    let alone = engine.start_definition("definition", BTreeMap::from([("pieces", 2)]), StartOptions::default()).await;
    assert_eq!(alone.unwrap().output::<Priced>().await.unwrap(), Priced { price: 20 });
    engine.close().await;
}

#[tokio::test]
async fn definitions_are_checked_when_the_engine_is_built() {
    let workflow = asking("definition");
    let table = [
        ("workflow: [{step: start, tool: {kind: rust, name: pirce}}]", "did you mean `price`?"),
        (
            "workflow: [{step: start, tool: {kind: playbook, path: nowhere}}]",
            "calls `nowhere`, which this engine does not have",
        ),
        ("{\"actions\": {\"a\": {\"type\": \"compos\"}}}", "compos"),
        ("just: text", "not a definition in any known dialect"),
    ];
    for (text, expected) in table {
        let error = engine(&workflow).definition("definition", text).build().err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let missing = engine(&workflow).definition_file("definition", "no/such/file.yaml").build().err().unwrap();
    assert!(missing.to_string().contains("no/such/file.yaml"), "{missing}");
}
