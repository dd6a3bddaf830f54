//! Control over the API: pause, resume, cancel, signal, retry, restart.

use crate::common;

use common::{BROKEN, HELD, HELLO, World, counting, request};
use serde_json::json;

/// Waits for a signal.
const SIGNAL_FLOW: &str =
    r#"{"name": "asks", "actions": {"wait": {"type": "wait", "inputs": {"signal": {"name": "go"}}}}}"#;

#[tokio::test]
async fn a_run_is_paused_resumed_and_cancelled() {
    let world = World::new();
    world.register(HELD).await;
    world.start("held", "r1").await;
    let paused = world.post("/api/v1/runs/r1/pause", json!({})).await.expect_status(202);
    assert_eq!(paused, json!({ "run": "r1", "delivery": "delivered" }));
    world.until_status("r1", "paused").await;
    world.post("/api/v1/runs/r1/resume", json!({})).await.expect_status(202);
    world.until_status("r1", "running").await;
    world.post("/api/v1/runs/r1/cancel", json!({ "reason": "no longer wanted" })).await.expect_status(202);
    let ended = world.until_status("r1", "cancelled").await;
    assert_eq!(ended["current"], json!([]));
    for path in ["pause", "resume", "cancel"] {
        let problem = world.post(&format!("/api/v1/runs/r1/{path}"), json!({})).await.expect_status(409);
        assert_eq!(problem["code"], "WND-3009", "{path}");
        world.post(&format!("/api/v1/runs/missing/{path}"), json!({})).await.expect_status(404);
    }
    // A body may be left out.
    let bare = request(axum::http::Method::POST, "/api/v1/runs/r1/pause", None);
    world.send(bare).await.expect_status(409);
}

#[tokio::test]
async fn the_same_request_twice_is_one() {
    let world = World::new();
    world.register(HELD).await;
    world.start("held", "r1").await;
    let pause = || world.post("/api/v1/runs/r1/pause", json!({ "request_id": "one" }));
    assert_eq!(pause().await.expect_status(202)["delivery"], "delivered");
    assert_eq!(pause().await.expect_status(202)["delivery"], "repeated");
    // Another operation under the same key is another request.
    let other = world.post("/api/v1/runs/r1/resume", json!({ "request_id": "one" })).await.expect_status(202);
    assert_eq!(other["delivery"], "delivered");
    world.post("/api/v1/runs/r1/pause", json!({ "requestid": "one" })).await.expect_status(400);
}

#[tokio::test]
async fn a_signal_reaches_the_wait_of_a_run() {
    let world = World::new();
    world.register(SIGNAL_FLOW).await;
    world.start("asks", "r1").await;
    let waiting = world.until_status("r1", "waiting").await;
    assert_eq!(waiting["waits"][0]["name"], "go");
    let signal = |body: serde_json::Value| world.post("/api/v1/runs/r1/signal", body);
    let early = signal(json!({ "name": "stop" })).await.expect_status(202);
    let note = "no node waits for `stop` yet; the signal is buffered; it waits for `go`";
    assert_eq!(early, json!({ "run": "r1", "delivery": "buffered", "note": note }));
    let elsewhere = signal(json!({ "name": "go", "step": "other" })).await.expect_status(202);
    assert_eq!(elsewhere["delivery"], "dropped", "{elsewhere}");
    let detail = world.get("/api/v1/runs/r1").await.expect_status(200);
    assert_eq!(detail["status"], "waiting", "neither has ended its wait");
    let response = signal(json!({ "name": "go", "data": { "n": 1 } })).await.expect_status(202);
    assert!(response["note"].is_null() && response["delivery"] != "dropped", "{response}");
    world.until_status("r1", "succeeded").await;
    world.post("/api/v1/runs/r1/signal", json!({ "name": "go" })).await.expect_status(409);
    world.post("/api/v1/runs/r1/signal", json!({ "name": "" })).await.expect_status(400);
}

#[tokio::test]
async fn retry_and_restart_create_new_runs() {
    let world = World::new();
    world.register(BROKEN).await;
    world.register(HELLO).await;
    world.run("broken", "r1").await;
    let retried = world.post("/api/v1/runs/r1/retry", json!({ "id": "r2" })).await.expect_status(202);
    assert_eq!(retried, json!({ "run": "r2", "retries": "r1", "created": true }));
    let ended = world.until_status("r2", "failed").await;
    assert_eq!(ended["origin"], json!({ "retries": "r1", "from": "second" }));
    let restarted = world.post("/api/v1/runs/r1/restart", json!({ "from": "first" })).await.expect_status(202);
    assert_eq!((&restarted["restarts"], &restarted["from"]), (&json!("r1"), &json!("first")));
    let new = restarted["run"].as_str().expect("a run").to_owned();
    assert_eq!(world.until_status(&new, "failed").await["origin"]["restarts"], "r1");
    world.register(&counting("counts", 3)).await;
    world.run("counts", "iterations").await;
    let problem =
        world.post("/api/v1/runs/iterations/restart", json!({ "from": "count[99]" })).await.expect_status(422);
    assert!(problem["hint"].as_str().is_some_and(|hint| hint.contains("`count` has 3 iterations")), "{problem}");
    let problem = world.post("/api/v1/runs/r1/restart", json!({ "from": "frist" })).await.expect_status(422);
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("did you mean `first`?")), "{problem}");
    world.run("hello", "r3").await;
    world.post("/api/v1/runs/r3/retry", json!({})).await.expect_status(409);
    world.post("/api/v1/runs/missing/retry", json!({})).await.expect_status(404);
}

/// Three concurrent waits for the same signal: a client that knows the intended one names its path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_with_a_path_reaches_the_wait_at_that_path() {
    let world = World::new();
    let waits = r#"{"name": "waits", "actions": {"each": {"type": "foreach", "foreach": [1, 2, 3],
        "actions": {"w": {"type": "wait", "inputs": {"signal": {"name": "paid"}}}}}}}"#;
    world.register(waits).await;
    world.start("waits", "r1").await;
    world.until_status("r1", "waiting").await;
    let send_signal = async |path: &str| {
        let body = json!({"name": "paid", "data": path, "step": path});
        world.post("/api/v1/runs/r1/signal", body).await.expect_status(202)["delivery"].clone()
    };
    assert_eq!(send_signal("each[7].w").await, "dropped");
    for path in ["each[1].w", "each[2].w", "each[0].w"] {
        assert_eq!(send_signal(path).await, "delivered", "{path}");
    }
    world.until_status("r1", "succeeded").await;
    let page = world.get("/api/v1/runs/r1/iterations?loop=each").await.expect_status(200);
    let results: Vec<_> =
        page["iterations"].as_array().expect("iterations").iter().map(|iteration| &iteration["result"]).collect();
    assert!(
        results.iter().enumerate().all(|(at, result)| result.to_string().contains(&format!("each[{at}].w"))),
        "{page}"
    );
}
