//! A server whose store has damaged rows: it starts and works, says that it is degraded, and lists and removes them.

use crate::common;

use std::sync::Arc;

use axum::http::Method;
use common::{HELD, HELLO, World, in_time};
use serde_json::{Value as Json, json};
use windlass_runtime::real_now;
use windlass_server::triggers::TriggerScheduler;
use windlass_store::{MemoryStore, RunFilter, StoreRecords};
use windlass_value::Timestamp;

const HOUR: i64 = 3_600_000_000;

fn hourly(name: &str) -> String {
    let every = r#"{"type": "recurrence", "recurrence": {"frequency": "Hour", "interval": 1}}"#;
    format!(
        r#"{{"name": "{name}", "triggers": {{"tick": {every}}}, "actions": {{"a": {{"type": "compose", "inputs": 1}}}}}}"#
    )
}

async fn ready(world: &World) -> Json {
    world.get("/readyz").await.expect_status(200)
}

async fn until_ready(world: &World) -> Json {
    in_time(async {
        while world.app.engine.is_recovering() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    ready(world).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_run_degrades_the_server_until_it_is_removed() {
    let store = Arc::new(MemoryStore::new());
    let world = World::on(store.clone());
    world.register(HELD).await;
    world.start("held", "ill").await;
    world.start("held", "well").await;
    drop(world);
    let store = Arc::new(store.crash());
    assert!(store.damage_run("ill"));
    let world = World::adopting(store);
    let state = until_ready(&world).await;
    assert_eq!((&state["status"], &state["damaged_rows"]), (&json!("degraded"), &json!(1)), "{state}");

    let page = world.get("/api/v1/runs").await.expect_status(200);
    let listed: Vec<(&Json, &Json)> =
        page["items"].as_array().expect("items").iter().map(|item| (&item["run"], &item["status"])).collect();
    assert_eq!(listed, [(&json!("ill"), &json!("damaged")), (&json!("well"), &json!("running"))], "{page}");
    assert!(page["items"][0]["error"]["message"].as_str().is_some_and(|why| why.contains("checksum")), "{page}");
    let only = world.get("/api/v1/runs?status=damaged").await.expect_status(200);
    assert_eq!(only["items"].as_array().map(Vec::len), Some(1), "{only}");
    let running = world.get("/api/v1/runs?status=running").await.expect_status(200);
    assert_eq!(running["items"][0]["run"], "well", "{running}");

    let damage = world.get("/api/v1/damage").await.expect_status(200);
    assert_eq!((&damage["items"][0]["id"], &damage["items"][0]["name"]), (&json!("runs/1"), &json!("ill")), "{damage}");
    for (path, status) in [("runs/2", 404), ("runs/77", 404), ("runs/x", 400), ("tables/1", 400)] {
        let refused = world.request(Method::DELETE, &format!("/api/v1/damage/{path}"), None).await;
        assert!(refused.expect_status(status)["hint"].is_string(), "{path}");
    }
    world.request(Method::DELETE, "/api/v1/damage/runs/1", None).await.expect_status(200);
    assert_eq!(ready(&world).await["status"], "ready");
    world.open("gate");
    world.until_status("well", "succeeded").await;
    // Its id is free, and so is that of a damaged run that is removed by its id.
    world.register(HELLO).await;
    world.run("hello", "ill").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_run_can_be_removed_by_its_id() {
    let store = Arc::new(MemoryStore::new());
    let world = World::on(store.clone());
    world.register(HELLO).await;
    world.run("hello", "ill").await;
    assert!(store.damage_run("ill"));
    let seen = world.get("/api/v1/runs/ill").await;
    assert!(seen.expect_status(500)["detail"].as_str().is_some_and(|detail| detail.contains("damaged")));
    let removed = world.request(Method::DELETE, "/api/v1/runs/ill", None).await.expect_status(200);
    assert_eq!(removed, json!({"run": "ill", "removed": 1}));
    world.get("/api/v1/runs/ill").await.expect_status(404);
}

/// Damaged records of one definition: the server starts, serves the others and fires their triggers.
#[tokio::test]
async fn damaged_records_stop_neither_the_start_nor_other_definitions() {
    for (kind, key) in [("definition", "b\0"), ("version", "b\x000000000001"), ("trigger", "b\0tick")] {
        let key = if kind == "definition" { "b" } else { key };
        let store = Arc::new(MemoryStore::new());
        let first = World::on(store.clone());
        for name in ["a", "b", "c"] {
            first.register(&hourly(name)).await;
            let settings = json!({"catch_up": "last"});
            let path = format!("/api/v1/definitions/{name}/triggers/tick");
            first.request(Method::PUT, &path, Some(settings)).await.expect_status(200);
        }
        drop(first);
        assert!(store.damage_record(kind, key), "{kind}");
        let world = World::on(store.clone());
        let scheduler = TriggerScheduler::new(world.app.clone());
        let later = Timestamp(real_now().0 + HOUR + 1_000_000);
        scheduler.fire_due(later).await;
        let rows = world.store.runs(&RunFilter::default(), None, 9).expect("readable");
        let mut fired: Vec<&str> = rows.iter().map(|row| &*row.definition).collect();
        fired.sort_unstable();
        assert_eq!(fired, ["a", "c"], "{kind}: the damaged one does not fire by default settings");
        assert!(store.record(kind, key).is_err(), "{kind}: nothing replaced it");
        let damage = world.get("/api/v1/damage").await.expect_status(200);
        let id = damage["items"][0]["id"].as_str().expect("an id").to_owned();
        assert!(id.starts_with("records/"), "{damage}");
        world.request(Method::DELETE, &format!("/api/v1/damage/{id}"), None).await.expect_status(200);
        world.register(&hourly("b")).await;
    }
}
