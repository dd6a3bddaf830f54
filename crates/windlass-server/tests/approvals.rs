//! Approvals over the API: runs that request human input.

use crate::common;

use std::time::{Duration, Instant};

use axum::http::Method;
use common::{HANG, Reply, World, request};
use serde_json::{Value as Json, json};
use windlass_tools::approval;

const APPROVAL_FLOW: &str = r#"{"name": "asks", "actions": {
    "each": {"type": "foreach", "foreach": ["a", "b"], "actions": {
        "ask": {"type": "approval", "inputs": {"title": "Go on with @{item()}?", "schema": {"type": "object",
            "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}}, "limit": {"timeout": "PT1H"}}}}}}"#;

async fn wait_for_approvals(world: &World, count: usize) -> Json {
    let begun = Instant::now();
    loop {
        let seen = world.get("/api/v1/approvals").await.expect_status(200);
        if seen["items"].as_array().is_some_and(|items| items.len() == count) {
            return seen;
        }
        assert!(begun.elapsed() < HANG, "{count} approvals never appeared: {seen}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn an_approval_has_one_valid_answer() {
    let world = World::new();
    world.register(APPROVAL_FLOW).await;
    world.start("asks", "r1").await;
    let seen = wait_for_approvals(&world, 2).await;
    let first = &seen["items"][0];
    assert_eq!(
        (&first["run"], &first["path"], &first["title"]),
        (&json!("r1"), &json!("each[0].ask"), &json!("Go on with a?"))
    );
    assert!(first["deadline"].is_string() && first["schema"]["type"] == "object", "{first}");
    let page = world.get("/api/v1/approvals?limit=1&run=r1").await.expect_status(200);
    let rest = world.get(&format!("/api/v1/approvals?limit=1&after={}", page["next"])).await.expect_status(200);
    assert_eq!(rest["items"][0]["path"], "each[1].ask");
    assert_eq!(world.get("/api/v1/approvals?run=missing").await.expect_status(200)["items"], json!([]));

    let path = "/api/v1/runs/r1/approvals/each%5B1%5D.ask";
    let wrong = world.post(path, json!({"data": {"approved": "yes"}})).await.expect_status(422);
    assert_eq!(wrong["problems"][0]["pointer"], "/approved");
    assert_eq!(world.post(path, json!({"data": {}})).await.expect_status(422)["problems"][0]["pointer"], "");
    let signal = |data: Json| json!({"name": "each[1].ask", "data": data});
    let wrong = world.post("/api/v1/runs/r1/signal", signal(json!({"approved": "yes"}))).await.expect_status(422);
    assert_eq!(wrong["problems"][0]["pointer"], "/approved");
    let to_place = json!({"name": "each[1].ask", "step": "each[1].ask"});
    world.post("/api/v1/runs/r1/signal", to_place).await.expect_status(422);
    world.post("/api/v1/runs/r1/approvals/each%5B7%5D.ask", json!({"data": {}})).await.expect_status(404);
    world.post("/api/v1/runs/r1/approvals/ask", json!({"data": {}})).await.expect_status(404);
    // A client looks up the approval now, and answers it when the run already has an answer.
    let late = approval::find(&*world.store, "r1", Some("each[1].ask")).expect("asked");
    world.post(path, json!({"data": {"approved": true}})).await.expect_status(202);
    wait_for_approvals(&world, 1).await;
    for approved in [false, true] {
        let data = windlass_value::Value::object([("approved", windlass_value::Value::from(approved))]);
        let refused = late.answer(&*world.store, data).await.expect_err("it is answered");
        assert!(refused.to_string().contains("already has"), "{refused}");
    }
    world
        .post("/api/v1/runs/r1/approvals/each%5B0%5D.ask", json!({"data": {"approved": false}}))
        .await
        .expect_status(202);
    let ended = world.until_status("r1", "succeeded").await;
    assert_eq!(ended["steps"]["each"]["output"], json!([{"ask": {"approved": false}}, {"ask": {"approved": true}}]));
    world.post(path, json!({"data": {"approved": true}})).await.expect_status(409);
    assert_eq!(wait_for_approvals(&world, 0).await["next"], Json::Null);
}

/// A client that has not received the response repeats the request and gets the original result.
#[tokio::test]
async fn the_same_answer_under_the_same_key_is_an_idempotent_repeat() {
    let world = World::new();
    world.register(APPROVAL_FLOW).await;
    world.start("asks", "r1").await;
    wait_for_approvals(&world, 2).await;
    let answer = async |path: &str, key: &str, approved: bool| -> Reply {
        let body = json!({"data": {"approved": approved}});
        let mut request = request(Method::POST, &format!("/api/v1/runs/r1/approvals/{path}"), Some(body));
        request.headers_mut().insert("idempotency-key", key.parse().expect("a key"));
        world.send(request).await
    };
    let (first, second) = ("each%5B0%5D.ask", "each%5B1%5D.ask");
    answer(first, "k1", true).await.expect_status(202);
    wait_for_approvals(&world, 1).await;
    assert_eq!(answer(first, "k1", true).await.expect_status(202)["delivery"], "repeated", "the run has consumed it");
    // Another body, key or approval is another request.
    answer(first, "k1", false).await.expect_status(404);
    answer(first, "k2", true).await.expect_status(404);
    assert_ne!(answer(second, "k1", true).await.expect_status(202)["delivery"], "repeated");
    world.until_status("r1", "succeeded").await;
    for path in [first, second] {
        assert_eq!(answer(path, "k1", true).await.expect_status(202)["delivery"], "repeated", "it has ended");
    }
    answer(first, "k2", true).await.expect_status(409);
}

/// A signal sent before the approval is requested was never checked against its schema: it is not an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_before_the_request_is_not_an_answer() {
    let world = World::new();
    let later = r#"{"name": "later", "actions": {
        "first": {"type": "wait", "inputs": {"signal": {"name": "go"}}},
        "ask": {"type": "approval", "runAfter": {"first": ["Succeeded"]}, "inputs": {"title": "Well?",
            "schema": {"type": "object", "properties": {"approved": {"type": "boolean"}}}}}}}"#;
    world.register(later).await;
    world.start("later", "r1").await;
    world.until_status("r1", "waiting").await;
    world.post("/api/v1/runs/r1/signal", json!({"name": "ask", "data": {"approved": "yes"}})).await.expect_status(202);
    world.post("/api/v1/runs/r1/signal", json!({"name": "go"})).await.expect_status(202);
    wait_for_approvals(&world, 1).await;
    world.post("/api/v1/runs/r1/approvals/ask", json!({"data": {"approved": true}})).await.expect_status(202);
    world.until_status("r1", "succeeded").await;
    let run = world.get("/api/v1/runs/r1").await.expect_status(200).to_string();
    assert!(!run.contains("yes"), "{run}");
}
