//! Values that a definition secures are used by the run and redacted everywhere else.

use crate::common;

use axum::http::{Method, header};
use common::{World, request};
use serde_json::{Value as Json, json};

const SECRET: &str = "hunter2";

/// An activity returns the secret; every later action reads it in its own way.
const FLOW: &str = r#"{"name": "secured",
    "triggers": {"new": {"type": "request"}},
    "actions": {
        "v": {"type": "initializeVariable", "inputs": {"variables": [{"name": "kept", "type": "string", "value": ""}]}},
        "get": {"type": "activity", "inputs": {"activityName": "echo", "input": {"password": "@concat('hunter', '2')", "many": ["@concat('hunter', '2')"]}},
            "runAfter": {"v": ["Succeeded"]},
            "runtimeConfiguration": {"secureData": {"properties": ["inputs", "outputs"]}}},
        "copy": {"type": "compose", "inputs": "@outputs('get')", "runAfter": {"get": ["Succeeded"]}},
        "copyAgain": {"type": "compose", "inputs": {"deep": "@outputs('copy')"}, "runAfter": {"copy": ["Succeeded"]}},
        "keep": {"type": "setVariable", "inputs": {"name": "kept", "value": "@string(outputs('copy'))"}, "runAfter": {"copyAgain": ["Succeeded"]}},
        "fromVariable": {"type": "compose", "inputs": "@variables('kept')", "runAfter": {"keep": ["Succeeded"]}},
        "each": {"type": "foreach", "foreach": "@outputs('get')?['many']", "runAfter": {"fromVariable": ["Succeeded"]},
            "actions": {"one": {"type": "compose", "inputs": "@item()"}}},
        "plain": {"type": "compose", "inputs": "seen by all", "runAfter": {"each": ["Succeeded", "Failed"]}},
        "used": {"type": "if", "expression": "@contains(string(outputs('get')), concat('hunter', '2'))", "runAfter": {"plain": ["Succeeded"]},
            "actions": {"right": {"type": "compose", "inputs": "it was there"}},
            "else": {"actions": {"wrong": {"type": "terminate", "inputs": {"runStatus": "Failed"}}}}}
    }}"#;

async fn everything(world: &World, run: &str) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    for path in ["", "/journal", "/graph", "/steps", "/loops", "/iterations?loop=each", "/strip?loop=each"] {
        let path = format!("/api/v1/runs/{run}{path}");
        let reply = world.get(&path).await;
        assert!(reply.status.is_success(), "{path}: {reply:?}");
        seen.push((path, reply.text()));
    }
    for kind in ["application/json", "application/x-ndjson"] {
        let mut ask = request(Method::GET, &format!("/api/v1/runs/{run}/events?follow=false"), None);
        ask.headers_mut().insert(header::ACCEPT, kind.parse().expect("a value"));
        let reply = world.send(ask).await;
        assert!(reply.status.is_success(), "{reply:?}");
        seen.push((kind.to_owned(), reply.text()));
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secured_values_are_used_and_never_shown() {
    let world = World::new();
    world.register(FLOW).await;
    let run = world.run("secured", "r").await;
    assert_eq!(run["status"], "succeeded", "{run}");
    assert_eq!(run["steps"]["plain"]["output"], "seen by all");
    assert!(run.to_string().contains("(redacted)"), "{run}");
    for (origin, text) in everything(&world, "r").await {
        assert!(!text.contains(SECRET), "{origin}: {text}");
    }
    // The journal lists what happened without values; and a value is not served by its hash either.
    let journal = world.get("/api/v1/runs/r/journal").await.expect_status(200);
    assert!(
        journal["items"]
            .as_array()
            .is_some_and(|items| items.len() >= 2 && items.iter().all(|tick| tick.get("body").is_none()))
    );
    world.get(&format!("/api/v1/runs/r/values/{}", "0".repeat(64))).await.expect_status(404);
    // Without the setting, all values are there.
    let open = FLOW.replace(
        r#""runtimeConfiguration": {"secureData": {"properties": ["inputs", "outputs"]}}"#,
        r#""description": "open""#,
    );
    world.register(&open).await;
    world.run("secured", "open").await;
    let shown = everything(&world, "open").await.into_iter().filter(|(_, text)| text.contains(SECRET)).count();
    assert!(shown >= 4, "the test looks where values are");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_a_secured_trigger_are_not_shown() {
    let source = r#"{"name": "secured", "triggers": {"new": {"type": "request",
            "runtimeConfiguration": {"secureData": {"properties": ["outputs"]}, "concurrency": {"runs": 1}}}},
        "actions": {"copy": {"type": "compose", "inputs": "@triggerBody()?['password']"},
            "after": {"type": "compose", "inputs": "@length(outputs('copy'))", "runAfter": {"copy": ["Succeeded"]}},
            "plain": {"type": "compose", "inputs": 7, "runAfter": {"after": ["Succeeded"]}},
            "each": {"type": "foreach", "foreach": [1], "actions": {"one": {"type": "compose", "inputs": 1}}}}}"#;
    let world = World::new();
    world.register(source).await;
    let made = world
        .send(request(Method::POST, "/hooks/secured/new", Some(json!({"password": SECRET}))))
        .await
        .expect_status(202);
    let run = made["runs"][0].as_str().expect("a run").to_owned();
    let ended: Json = world.until_status(&run, "succeeded").await;
    assert_eq!((&ended["input"], &ended["steps"]["plain"]["output"]), (&json!("(redacted)"), &json!(7)), "{ended}");
    for (origin, text) in everything(&world, &run).await {
        assert!(!text.contains(SECRET), "{origin}: {text}");
    }
}

/// An error shows its kind, and nothing of the request or the response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_secured_action_contains_no_values() {
    let source = r#"{"name": "secured", "actions": {
        "get": {"type": "activity", "inputs": {"activityName": "fail", "input": 1},
            "runtimeConfiguration": {"secureData": {"properties": ["inputs"]}}},
        "each": {"type": "foreach", "foreach": [1], "actions": {"one": {"type": "compose", "inputs": 1}}}}}"#;
    let world = World::new();
    world.register(source).await;
    let run = world.run("secured", "r").await;
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("503")), "{run}");
    for (origin, text) in everything(&world, "r").await {
        assert!(!text.contains("not now"), "{origin}: {text}");
    }
}
