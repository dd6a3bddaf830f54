//! Trigger concurrency: runs beyond the limit queue in order, survive the process, and are reported.

use crate::common;

use std::sync::{Arc, Mutex};

use axum::http::Method;
use common::{Reply, World, in_time};
use serde_json::{Value as Json, json};
use windlass_runtime::{TriggerOptions, real_now};
use windlass_server::triggers::{TriggerScheduler, delivery_prefix, queue};
use windlass_store::{MemoryStore, RunFilter, Store, StoreRead};
use windlass_value::{Timestamp, Value};

fn orders(concurrency: &str) -> String {
    format!(
        r#"{{"name": "orders", "triggers": {{"new": {{"type": "request", {concurrency}}}}},
            "actions": {{"wait": {{"type": "activity", "inputs": {{"activityName": "gate", "input": "@triggerBody()"}}}}}}}}"#
    )
}

const TWO: &str = r#""runtimeConfiguration": {"concurrency": {"runs": 2, "maximumWaitingRuns": 2}}"#;

/// Sends a delivery whose body and delivery id are both the name of the gate.
async fn deliver(world: &World, gate: &str) -> Reply {
    let mut request = common::request(Method::POST, "/hooks/orders/new", Some(json!(gate)));
    request.headers_mut().insert("idempotency-key", gate.parse().expect("a value"));
    world.send(request).await
}

async fn run_of(world: &World, gate: &str) -> String {
    deliver(world, gate).await.expect_status(202)["runs"][0].as_str().expect("a run").to_owned()
}

async fn status(world: &World, run: &str) -> Json {
    world.get(&format!("/api/v1/runs/{run}")).await.expect_status(200)["status"].clone()
}

async fn trigger(world: &World) -> Json {
    world.get("/api/v1/triggers").await.expect_status(200)["items"][0].clone()
}

fn runs(store: &Arc<dyn Store>) -> usize {
    store.runs(&RunFilter::default(), None, 999).expect("readable").len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_beyond_the_limit_queue_in_order_and_are_then_rejected() {
    let world = World::new();
    world.register(&orders(TWO)).await;
    tokio::spawn(queue::watch_run_changes(world.app.clone()));
    let mut made = Vec::new();
    for gate in ["a", "b", "c", "d"] {
        made.push(run_of(&world, gate).await);
    }
    for run in &made[..2] {
        world.until_status(run, "running").await;
    }
    for run in &made[2..] {
        assert_eq!(status(&world, run).await, "pending", "{run}");
    }
    let queue_position = |run: String| {
        let world = &world;
        async move { world.get(&format!("/api/v1/runs/{run}")).await.expect_status(200)["queue_position"].clone() }
    };
    assert_eq!(queue_position(made[0].clone()).await, Json::Null);
    let note = "queued: 2 runs of the trigger `new` are in flight (limit 2), position 2";
    let expected = json!({ "trigger": "new", "in_flight": 2, "max_concurrency": 2, "position": 2, "note": note });
    assert_eq!(queue_position(made[3].clone()).await, expected);
    assert_eq!(queue_position(made[2].clone()).await["position"], 1);
    // A paused run would still be admitted: the API does not promise otherwise.
    world.post(&format!("/api/v1/runs/{}/pause", made[3]), json!({})).await.expect_status(409);
    let facts = trigger(&world).await;
    assert_eq!((&facts["in_flight"], &facts["waiting"]), (&json!(2), &json!(2)), "{facts}");
    let refused = deliver(&world, "e").await;
    assert_eq!(refused.expect_status(429)["code"], "WND-3006");
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(runs(&world.store), 4, "nothing was made of it");
    // A repeated delivery is the same run, whether the queue is full or not.
    let again = deliver(&world, "c").await.expect_status(202);
    assert_eq!((&again["runs"][0], &again["repeated"]), (&json!(made[2]), &json!(true)));

    world.open("b");
    world.until_status(&made[1], "succeeded").await;
    world.until_status(&made[2], "running").await;
    assert_eq!(status(&world, &made[3]).await, "pending", "runs start in order of arrival");
    let fifth = deliver(&world, "e").await.expect_status(202);
    assert_eq!(fifth["waiting_runs"], 1, "there is room again");
    // A queued run can be cancelled, and frees its queue position.
    world.post(&format!("/api/v1/runs/{}/cancel", made[3]), json!({})).await.expect_status(202);
    world.until_status(&made[3], "cancelled").await;
    made.push(fifth["runs"][0].as_str().expect("a run").to_owned());
    for gate in ["a", "c", "e"] {
        world.open(gate);
    }
    world.until_status(&made[4], "succeeded").await;
    world.until_status(&made[0], "succeeded").await;
}

/// The server dies with active and queued runs. The next server continues with them, in their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_runs_survive_the_server() {
    let store = Arc::new(MemoryStore::new());
    let world = World::on(store.clone());
    world.register(&orders(&TWO.replace("\"runs\": 2", "\"runs\": 1"))).await;
    let mut made = Vec::new();
    for gate in ["a", "b", "c"] {
        made.push(run_of(&world, gate).await);
    }
    world.until_status(&made[0], "running").await;
    let left: Arc<dyn Store> = Arc::new(store.crash());
    drop(world);
    let world = World::adopting(left);
    let scheduler = TriggerScheduler::new(world.app.clone());
    scheduler.fire_due(real_now()).await;
    world.until_status(&made[0], "running").await;
    assert_eq!(status(&world, &made[1]).await, "pending");
    deliver(&world, "d").await.expect_status(429);
    assert_eq!(deliver(&world, "b").await.expect_status(202)["repeated"], true);
    // No watch is active: the next scheduler step finds the free slot.
    for at in 0..3 {
        world.open(["a", "b", "c"][at]);
        world.until_status(&made[at], "succeeded").await;
        scheduler.fire_due(real_now()).await;
        if let Some(next) = made.get(at + 1) {
            world.until_status(next, "running").await;
        }
        if let Some(later) = made.get(at + 2) {
            assert_eq!(status(&world, later).await, "pending");
        }
    }
}

/// A crash at every commit of a delivery: the sender repeats it, and one run results, which ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_commit_loses_and_repeats_nothing() {
    let mut crashes = 0;
    for at in 1.. {
        let store = Arc::new(MemoryStore::new());
        let world = World::on(store.clone());
        world.register(&orders(TWO)).await;
        store.crash_before_sync(at);
        let _ = in_time(deliver(&world, "a")).await;
        let reached = store.run("any").is_err();
        let left: Arc<dyn Store> = Arc::new(store.crash());
        drop(world);
        let world = World::adopting(left);
        world.open("a");
        TriggerScheduler::new(world.app.clone()).fire_due(real_now()).await;
        let run = run_of(&world, "a").await;
        world.until_status(&run, "succeeded").await;
        assert_eq!(runs(&world.store), 1, "crash {at}");
        if !reached {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 2, "only {crashes} commits were crashed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_items_of_a_delivery_queue_in_order() {
    let world = World::new();
    world.register(&orders(&format!(r#""splitOn": "@triggerBody()", {TWO}"#))).await;
    tokio::spawn(queue::watch_run_changes(world.app.clone()));
    let split = |gates: Json| common::request(Method::POST, "/hooks/orders/new", Some(gates));
    // The runs are created concurrently, so with enough of them the creation order differs from the item order.
    let gates: Vec<String> = (0..24).map(|item| format!("gate {item}")).collect();
    let made = world.send(split(json!(gates))).await.expect_status(202);
    assert_eq!(made["waiting_runs"], 22, "a delivery is admitted as a whole: {made}");
    world.send(split(json!(["x"]))).await.expect_status(429);
    let run = |at: usize| made["runs"][at].as_str().expect("a run").to_owned();
    for (at, gate) in gates.iter().enumerate() {
        world.until_status(&run(at), "running").await;
        for later in at + 2..gates.len() {
            assert_eq!(status(&world, &run(later)).await, "pending", "{later} while {at} is the first");
        }
        world.open(gate);
        world.until_status(&run(at), "succeeded").await;
    }
}

/// The client is gone when its run is created, and no response reports the queueing: the run is still admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_a_disconnected_caller_is_still_admitted() {
    let world = World::new();
    world.register(&orders(TWO)).await;
    tokio::spawn(queue::watch_run_changes(world.app.clone()));
    assert_eq!(trigger(&world).await["waiting"], 0);
    let plan = world.app.definitions.get("orders").expect("registered").current.plan();
    let delivery = Some(format!("{}gone", delivery_prefix("orders", "new")));
    let options = TriggerOptions { delivery, held: true, ..TriggerOptions::default() };
    let made = in_time(world.app.engine.trigger(plan, "new", Value::from("a"), options)).await.expect("made");
    world.open("a");
    world.until_status(&made.runs[0].run, "succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_instance_trigger_has_no_queue() {
    let world = World::new();
    world.register(&orders(r#""operationOptions": "SingleInstance""#)).await;
    let run = run_of(&world, "a").await;
    world.until_status(&run, "running").await;
    deliver(&world, "b").await.expect_status(429);
    world.open("a");
    world.until_status(&run, "succeeded").await;
    world.open("b");
    let run = run_of(&world, "b").await;
    world.until_status(&run, "succeeded").await;
}

/// Changed limits apply immediately; without a limit no run stays queued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_those_of_the_newest_version() {
    let world = World::new();
    world.register(&orders(&TWO.replace("\"runs\": 2", "\"runs\": 1"))).await;
    let scheduler = TriggerScheduler::new(world.app.clone());
    let mut made = Vec::new();
    for gate in ["a", "b", "c"] {
        made.push(run_of(&world, gate).await);
    }
    world.until_status(&made[0], "running").await;
    world.register(&orders(TWO)).await;
    scheduler.fire_due(real_now()).await;
    world.until_status(&made[1], "running").await;
    assert_eq!(status(&world, &made[2]).await, "pending");
    world.register(&orders(r#""description": "any number""#)).await;
    scheduler.fire_due(real_now()).await;
    world.until_status(&made[2], "running").await;
}

fn hours_from(now: Timestamp, hours: i64) -> Timestamp {
    let hour = 3_600_000_000;
    Timestamp((now.0 / hour + hours) * hour)
}

/// A schedule skips firings beyond the limit and reports it: in the log, in the list of triggers, in the metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_queues_then_skips_and_reports_it() {
    let world = World::new();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let noted = lines.clone();
    let _guard = windlass_testing::log::on_line(move |line| {
        if line.starts_with("trigger ") {
            noted.lock().expect("unharmed").push(line.to_owned());
        }
    });
    let bounds = r#""runtimeConfiguration": {"concurrency": {"runs": 1, "maximumWaitingRuns": 1}},"#;
    world
        .register(&format!(
            r#"{{"name": "tidy", "triggers": {{"tick": {{"type": "recurrence", {bounds}
            "recurrence": {{"frequency": "Hour", "interval": 1, "startTime": "2026-01-01T00:00:00Z"}}}}}},
            "actions": {{"wait": {{"type": "activity", "inputs": {{"activityName": "gate", "input": "gate"}}}}}}}}"#
        ))
        .await;
    let now = real_now();
    let scheduler = TriggerScheduler::new(world.app.clone());
    for hour in [1, 2, 3, 7] {
        scheduler.fire_due(hours_from(now, hour)).await;
    }
    assert_eq!(runs(&world.store), 2);
    let full = "concurrency limit of this trigger reached: 1 in flight, 1 waiting";
    let line = |what: &str, hour: i64, rest: &str| {
        let due = hours_from(now, hour);
        format!("trigger {what} definition=tidy trigger=tick kind=recurrence due={due} {rest}")
    };
    let lines = lines.lock().expect("unharmed").clone();
    // The id of the run is random.
    let (first, second) = (lines[0].split_once(" run="), lines[1].split_once(" run="));
    let [(fired, one), (also, two)] = [first, second].map(|line| line.expect("a run"));
    assert_eq!([format!("{fired} "), format!("{also} ")], [line("fired", 1, ""), line("fired", 2, "")]);
    assert!(one.ends_with(" runs=1") && two.ends_with(" runs=1 waiting=1"), "{lines:?}");
    let expected = [
        line("skipped", 3, &format!("reason={full}")),
        "trigger missed definition=tidy trigger=tick kind=recurrence times=3".to_owned(),
        line("skipped", 7, &format!("reason={full}")),
    ];
    assert_eq!(lines[2..], expected);
    let facts = trigger(&world).await;
    assert_eq!((&facts["skipped"], &facts["skipped_at"]), (&json!(full), &json!(hours_from(now, 7).to_string())));
    let metrics = world.get("/metrics").await.text();
    for (outcome, count) in [("started", 2), ("skipped", 2)] {
        let line = format!("windlass_trigger_firings_total{{kind=\"schedule\",outcome=\"{outcome}\"}} {count}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}
