//! Every dialect calls every other one in one engine, and so does a dialect that this crate does not know.

#![cfg(all(feature = "loom", feature = "noetl", feature = "zenflow"))]

#[path = "../../windlass-dialect/tests/toy/mod.rs"]
mod toy;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, EngineBuilder, Event, StartOptions, Value, Workflow};
use windlass_agents::{DefaultRule, PermissionPolicy, ToolRegistry};
use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::to_json;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order", start)]
struct Order {
    pieces: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "priced", stop)]
struct Priced {
    price: Value,
}

const DIALECTS: [&str; 4] = ["rust", "loom", "noetl", "zenflow"];

/// A fake model: returns seven times the number of pieces in its prompt.
struct Model;

impl Tool for Model {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let price = if to_json(&call.input).replace(['\\', '"'], "").contains("pieces:3") { "21" } else { "unknown" };
        let usage = Value::object([("tokens", Value::Int(2))]);
        let reply = Value::object([
            ("content", Value::from(price)),
            ("calls", Value::list(Vec::new())),
            ("stop", Value::from("end")),
            ("model", Value::from("test")),
            ("usage", usage),
        ]);
        Box::pin(async move { TaskOutcome::success(reply) })
    }
}

/// `callee-DIALECT`: returns seven times the pieces.
fn callee(dialect: &str) -> &'static str {
    match dialect {
        "loom" => {
            r#"{
              "actions": {"price": {"type": "compose", "inputs": "@mul(triggerBody()?['pieces'], 7)"}},
              "outputs": {"price": {"type": "Int", "value": "@outputs('price')"}}
            }"#
        }
        "noetl" => {
            "apiVersion: noetl.io/v2
kind: Playbook
workload: {pieces: 1}
workflow:
  - step: start
    tool: {kind: noop, result: {price: '{{ pieces * 7 }}'}}
"
        }
        _ => {
            "name: callee
x-windlass: {inputs: {pieces: 1}}
steps:
  - id: price
    instructions: Say the price.
"
        }
    }
}

/// `DIALECT-calls-NAME`: returns the result of the callee.
fn caller(dialect: &str, name: &str) -> String {
    match dialect {
        "loom" => format!(
            r#"{{
              "actions": {{
                "ask": {{"type": "activity", "inputs": {{"activityType": "{name}", "input": {{"pieces": "@triggerBody()?['pieces']"}}}}}}
              }},
              "outputs": {{"answer": {{"type": "Object", "value": "@outputs('ask')"}}}}
            }}"#
        ),
        "noetl" => format!(
            "apiVersion: noetl.io/v2
kind: Playbook
workload: {{pieces: 1}}
workflow:
  - step: start
    tool: {{kind: playbook, path: {name}, input: {{pieces: '{{{{ pieces }}}}'}}}}
"
        ),
        _ => format!(
            "name: caller
x-windlass: {{inputs: {{pieces: 1}}}}
steps:
  - id: ask
    x-windlass:
      call: {{definition: {name}, input: \"{{'pieces': inputs.pieces}}\"}}
"
        ),
    }
}

fn pricing() -> Workflow {
    Workflow::builder("callee-rust")
        .step("price", |order: Order| async move { Ok(Priced { price: Value::from(order.pieces * 7) }) })
        .build()
        .unwrap()
}

fn asking(name: &str) -> Workflow {
    let callee = name.to_owned();
    Workflow::builder(&format!("rust-calls-{name}"))
        .step("ask", move |ctx: Context, order: Order| {
            let callee = callee.clone();
            async move {
                let input = BTreeMap::from([("pieces", order.pieces)]);
                Ok(Priced { price: ctx.call(&callee, input).await? })
            }
        })
        .build()
        .unwrap()
}

fn callees() -> EngineBuilder {
    let engine = Engine::in_memory().virtual_time(true).workflow(&pricing());
    let engine =
        engine.agents(ToolRegistry::builder().file_tools(), Arc::new(PermissionPolicy::new(DefaultRule::Deny)), |_| {
            Model
        });
    let files = DIALECTS.iter().filter(|dialect| **dialect != "rust");
    files.fold(engine, |engine, dialect| engine.definition(&format!("callee-{dialect}"), callee(dialect)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_dialect_calls_the_others() {
    let pairs = DIALECTS.iter().flat_map(|from| DIALECTS.iter().map(move |to| (*from, *to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    assert_eq!(pairs.len(), 12);
    let engine = pairs.iter().fold(callees(), |engine, (from, to)| {
        let callee = format!("callee-{to}");
        match *from {
            "rust" => engine.workflow(&asking(&callee)),
            from => engine.definition(&format!("{from}-calls-{callee}"), caller(from, &callee)),
        }
    });
    let engine = engine.build().unwrap();
    for (from, to) in pairs {
        let name = format!("{from}-calls-callee-{to}");
        let input = BTreeMap::from([("pieces", 3)]);
        let handle = engine.start_definition(&name, input, StartOptions::default()).await.unwrap();
        let output: Value = handle.output().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(to_json(&output).contains("21"), "{name}: {}", to_json(&output));
    }
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dialect_of_one_line_is_loaded_run_and_called() {
    let engine = callees()
        .dialect(toy::ToyDialect)
        .definition("greeting", "toy greeting\ninput pieces = 1\ncall priced callee-loom\n")
        .workflow(&asking("greeting"))
        .build()
        .unwrap();
    let input = BTreeMap::from([("pieces", 3)]);
    let handle = engine.start_definition("rust-calls-greeting", input, StartOptions::default()).await.unwrap();
    let output: Value = handle.output().await.unwrap();
    assert_eq!(to_json(&output), r#"{"price":{"priced":{"price":21}}}"#);
    engine.close().await;
    let wrong = callees().dialect(toy::ToyDialect).definition("greeting", "toy greeting\nsya hello Hello\n").build();
    assert!(wrong.err().unwrap().to_string().contains("did you mean `say`?"));
}

#[tokio::test]
async fn zenflow_files_are_checked_when_the_engine_is_built() {
    let table = [
        ("name: w\nsteps: [{id: a, agnet: x}]\n", "did you mean `agent`?"),
        (
            "name: w\nsteps: [{id: a, x-windlass: {call: nowhere}}]\n",
            "calls `nowhere`, which this engine does not have",
        ),
        ("name: w\nsteps: [{id: a, instructions: y, x-windlass: {call: callee-loom}}]\n", "cannot have `instructions`"),
        ("name: w\nsteps: [{id: a, include: other.yaml}]\n", "cannot be included"),
    ];
    for (text, expected) in table {
        let error = callees().definition("w", text).build().err().unwrap().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let agents = "name: w\nsteps: [{id: a, instructions: y}]\n";
    let error = Engine::in_memory().definition("w", agents).build().err().unwrap().to_string();
    assert!(error.contains(".agents("), "{error}");
    // A definition that only calls definitions of the engine needs no models.
    let calls = "name: w\nsteps: [{id: a, x-windlass: {call: {definition: callee-rust, input: {pieces: 3}}}}]\n";
    let engine = Engine::in_memory().workflow(&pricing()).definition("w", calls).build().unwrap();
    let handle = engine.start_definition("w", BTreeMap::<&str, u64>::new(), StartOptions::default()).await.unwrap();
    let output: Value = handle.output().await.unwrap();
    assert!(to_json(&output).contains("21"), "{}", to_json(&output));
    engine.close().await;
}

#[tokio::test]
async fn a_zenflow_file_includes_the_files_beside_it() {
    let folder = std::env::temp_dir().join(format!("windlass-include-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("outer.yaml"), "name: outer\nsteps: [{id: inner, include: inner.yaml}]\n").unwrap();
    std::fs::write(folder.join("inner.yaml"), "name: inner\nsteps: [{id: price, instructions: 'pieces:3'}]\n").unwrap();
    let engine = callees().definition_file("outer", folder.join("outer.yaml")).build().unwrap();
    let handle = engine.start_definition("outer", BTreeMap::<&str, u64>::new(), StartOptions::default()).await.unwrap();
    let output: Value = handle.output().await.unwrap();
    assert!(to_json(&output).contains("21"), "{}", to_json(&output));
    engine.close().await;
    std::fs::remove_dir_all(&folder).unwrap();
}
