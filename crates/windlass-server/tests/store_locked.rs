//! While another process holds the store's lock, read requests are answered.

use crate::common;

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use common::{HELD, Reply, World, in_time};
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

const WAITING_FLOW: &str = r#"{"name": "asks", "triggers": {"call": {"type": "request", "runtimeConfiguration": {"concurrency": {"runs": 1}}}},
    "actions": {"ask": {"type": "approval", "inputs": {"title": "Go on?"}}}}"#;

/// Much shorter than the store's lock timeout, and longer than a busy machine needs.
const SOON: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(1_800);

/// Spawns a request on the threads that all requests share, as in a server.
fn spawn_request(world: &Arc<World>, method: Method, path: &str, body: Option<Json>) -> JoinHandle<Reply> {
    let (world, path) = (world.clone(), path.to_owned());
    tokio::spawn(async move { world.request(method, &path, body).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_answered_while_another_process_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions { lock_timeout: PATIENCE, ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).expect("a store");
    let world = Arc::new(World::on(Arc::new(store)));
    world.register(HELD).await;
    world.register(WAITING_FLOW).await;
    world.start("held", "r1").await;
    world.start("asks", "r2").await;
    world.start("asks", "r3").await;
    world.until_status("r2", "waiting").await;
    let another = File::options().write(true).open(folder.path().join("writer.lock")).expect("the lock");
    another.lock().expect("the lock is free");

    // More writers of each kind than there are threads and slots, and a run that has something to commit.
    world.open("gate");
    let mut writing = Vec::new();
    for number in 0..10 {
        let token = json!({ "name": format!("t{number}"), "scopes": ["read"] });
        writing.push(spawn_request(&world, Method::POST, "/api/v1/tokens", Some(token)));
        writing.push(spawn_request(
            &world,
            Method::POST,
            "/api/v1/runs/r3/signal",
            Some(json!({ "name": format!("s{number}") })),
        ));
        writing.push(spawn_request(
            &world,
            Method::PUT,
            "/api/v1/definitions/asks/triggers/call",
            Some(json!({ "insecure": true })),
        ));
    }
    writing.push(spawn_request(&world, Method::POST, "/api/v1/runs/r2/approvals/ask", Some(json!({ "data": true }))));
    // These readiness checks take long enough for all writers above to be queued.
    for _ in 0..3 {
        let ready = spawn_request(&world, Method::GET, "/readyz", None);
        let ready = tokio::time::timeout(SOON, ready).await.expect("soon").expect("an answer").expect_status(503);
        let detail = ready["detail"].as_str().unwrap_or_default();
        assert!(detail.starts_with("the store cannot be written: retried for"), "{ready}");
    }
    let looks = [
        "/healthz",
        "/api/v1/runs",
        "/api/v1/runs/counts",
        "/api/v1/runs/r1",
        "/api/v1/runs/r1/loops",
        "/api/v1/runs/r1/events",
        "/api/v1/runs/r1/steps",
        "/api/v1/runs/r2/graph",
        "/api/v1/definitions",
        "/api/v1/definitions/asks",
        "/api/v1/approvals",
        "/api/v1/triggers",
        "/api/v1/tokens",
        "/api/v1/workers",
    ];
    for path in looks {
        let look = spawn_request(&world, Method::GET, path, None);
        let look = tokio::time::timeout(SOON, look).await.unwrap_or_else(|_| panic!("{path} is not answered"));
        look.expect("an answer").expect_status(200);
    }
    assert!(writing.iter().all(|write| !write.is_finished()), "the lock blocks every writer");
    another.unlock().expect("given back");
    for write in writing {
        let answer = in_time(write).await.expect("an answer");
        assert!(answer.status.is_success(), "{answer:?}");
    }
    world.until_status("r1", "succeeded").await;
    world.until_status("r2", "succeeded").await;
    // A slow disk may need more than one attempt.
    let ready = async { while world.get("/readyz").await.status != 200 {} };
    tokio::time::timeout(SOON, ready).await.expect("soon");
}
