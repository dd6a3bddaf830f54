//! Triggers over the real router: authorization, the runs of a delivery, and timed firings.

use crate::common;

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Method, Request, header};
use common::{Reply, TOKEN, World, in_time};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value as Json, json};
use sha2::Sha256;
use windlass_runtime::real_now;
use windlass_server::triggers::{TriggerScheduler, hooks};
use windlass_store::{MemoryStore, RecordChange, RunFilter, Store};
use windlass_value::Timestamp;

/// An environment variable that every test has; its value is the secret.
const SECRET: &str = "CARGO_MANIFEST_DIR";

const ORDERS: &str = r#"{"name": "shop/orders",
    "triggers": {"new": {"type": "request", "conditions": [{"expression": "@greater(triggerBody()?['n'], 0)"}]}},
    "actions": {"greet": {"type": "compose", "inputs": "@triggerBody()?['n']"}}}"#;

const HOOK: &str = "/hooks/shop%2Forders/new";
const SETTINGS: &str = "/api/v1/definitions/shop%2Forders/triggers/new";

fn bare(path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = Request::builder().method(Method::POST).uri(path).header(header::HOST, "127.0.0.1:7117");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_owned())).expect("a request")
}

fn mac(parts: &[&str]) -> String {
    let secret = std::env::var(SECRET).expect("cargo sets it");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    parts.iter().for_each(|part| mac.update(part.as_bytes()));
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn github(path: &str, delivery: &str, body: &str) -> Request<Body> {
    let signature = format!("sha256={}", mac(&[body]));
    bare(path, &[("x-hub-signature-256", &signature), ("x-github-delivery", delivery)], body)
}

async fn put(world: &World, path: &str, body: Json) -> Reply {
    world.request(Method::PUT, path, Some(body)).await
}

async fn secured(source: &str) -> World {
    let world = World::new();
    world.register(source).await;
    put(&world, SETTINGS, json!({"secret": format!("env:{SECRET}"), "scheme": "github"})).await.expect_status(200);
    world
}

fn runs(store: &Arc<dyn Store>) -> Vec<String> {
    let rows = store.runs(&RunFilter::default(), None, 999).expect("readable");
    rows.iter().rev().map(|row| row.run.to_string()).collect()
}

#[tokio::test]
async fn a_trigger_without_a_secret_rejects_deliveries() {
    let world = World::new();
    world.register(ORDERS).await;
    let refused = world.send(bare(HOOK, &[], r#"{"n": 1}"#)).await.expect_status(401);
    assert_eq!(refused["code"], "WND-3011");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("shop%2Forders/triggers/new")), "{refused}");
    world.send(bare("/hooks/shop%2Forders/other", &[], "{}")).await.expect_status(404);
    world.send(bare("/hooks/nothing/new", &[], "{}")).await.expect_status(404);
    world.send(bare(HOOK, &[("authorization", "Bearer wl_wrong")], r#"{"n": 1}"#)).await.expect_status(401);
    assert!(runs(&world.store).is_empty());
    let bearer = format!("Bearer {TOKEN}");
    world.send(bare(HOOK, &[("authorization", &bearer)], r#"{"n": 1}"#)).await.expect_status(202);
    put(&world, SETTINGS, json!({"insecure": true})).await.expect_status(200);
    world.send(bare(HOOK, &[], r#"{"n": 2}"#)).await.expect_status(202);
    assert_eq!(runs(&world.store).len(), 2);
}

#[tokio::test]
async fn each_authenticated_delivery_starts_one_run() {
    let world = secured(ORDERS).await;
    let body = r#"{"n": 7}"#;
    let reply = world.send(github(HOOK, "d-1", body)).await;
    let started = reply.expect_status(202);
    let run = started["runs"][0].as_str().expect("a run").to_owned();
    assert!(run.len() <= 42, "short enough to be read: {run}");
    assert_eq!(reply.headers["location"], format!("/api/v1/runs/{run}"));
    assert_eq!(world.until_status(&run, "succeeded").await["steps"]["greet"]["output"], 7);
    let again = world.send(github(HOOK, "d-1", body)).await.expect_status(202);
    assert_eq!((&again["runs"][0], &again["repeated"]), (&json!(run), &json!(true)));
    // Also after a crash or another version in between.
    world.register(&ORDERS.replace("\"greet\"", "\"welcome\"")).await;
    let again = world.send(github(HOOK, "d-1", body)).await.expect_status(202);
    assert_eq!((&again["runs"][0], &again["repeated"]), (&json!(run), &json!(true)));
    assert_eq!(runs(&world.store), [run]);
    world.send(github(HOOK, "d-2", body)).await.expect_status(202);
    assert_eq!(runs(&world.store).len(), 2);

    for signature in ["sha256=00".to_owned(), format!("sha256={}", mac(&["other"]))] {
        let refused = world.send(bare(HOOK, &[("x-hub-signature-256", &signature)], body)).await.expect_status(401);
        assert_eq!(refused["code"], "WND-3011");
    }
    world.send(bare(HOOK, &[], body)).await.expect_status(401);
    assert_eq!(runs(&world.store).len(), 2);
}

/// A known delivery id with another body is a mistake of its sender, or a replay: it is neither accepted nor ignored.
#[tokio::test]
async fn a_delivery_id_with_another_body_is_a_conflict() {
    let world = secured(ORDERS).await;
    let run = world.send(github(HOOK, "d-1", r#"{"n": 7, "m": 1}"#)).await.expect_status(202)["runs"][0].clone();
    for body in [r#"{"n": 8, "m": 1}"#, r#"{"n": 7}"#, r#"{"n": "7", "m": 1}"#, r#"{"n": 0}"#, ""] {
        let problem = world.send(github(HOOK, "d-1", body)).await.expect_status(409);
        assert_eq!((&problem["code"], &problem["cause"]), (&json!("WND-3004"), &json!("WND-2615")), "{body}");
        let named = problem["detail"].as_str().zip(run.as_str()).is_some_and(|(detail, run)| detail.contains(run));
        assert!(named && problem["hint"].is_string(), "{body}: {problem}");
    }
    // Equal data is the same delivery, however it is written. The headers of the first delivery count.
    let again = world.send(github(HOOK, "d-1", r#"{"m":1,"n":7}"#)).await.expect_status(202);
    assert_eq!((&again["runs"][0], &again["repeated"]), (&run, &json!(true)));
    // Also with a newer version of the definition, and for deliveries that a token authenticates.
    world.register(&ORDERS.replace("\"greet\"", "\"welcome\"")).await;
    world.send(github(HOOK, "d-1", r#"{"n": 8}"#)).await.expect_status(409);
    let bearer = format!("Bearer {TOKEN}");
    let by_token = |body| bare(HOOK, &[("authorization", &bearer), ("idempotency-key", "k-1")], body);
    world.send(by_token(r#"{"n": 1}"#)).await.expect_status(202);
    world.send(by_token(r#"{"n": 2}"#)).await.expect_status(409);
    world.send(by_token(r#"{"n": 1}"#)).await.expect_status(202);
    assert_eq!(runs(&world.store).len(), 2);
}

/// An observer of one delivery can replay it, and nothing else.
#[tokio::test]
async fn unsigned_parts_make_no_other_delivery() {
    let world = secured(ORDERS).await;
    let facts = put(&world, SETTINGS, json!({"scheme": "windlass"})).await.expect_status(200);
    assert_eq!((&facts["proof"], &facts["scheme"]), (&json!("signature"), &json!("windlass")));
    let (body, time) = (r#"{"n": 7}"#, (real_now().0 / 1_000_000).to_string());
    let hex = mac(&[&time, ".", body]);
    let own = format!("t={time},v1={hex}");
    let started = world.send(bare(HOOK, &[("x-windlass-signature", &own)], body)).await.expect_status(202);
    for (name, value) in [("x-windlass-delivery", "a"), ("x-windlass-delivery", "b"), ("idempotency-key", "c")] {
        let again =
            world.send(bare(HOOK, &[("x-windlass-signature", &own), (name, value)], body)).await.expect_status(202);
        assert_eq!((&again["runs"], &again["repeated"]), (&started["runs"], &json!(true)), "{name}: {value}");
    }
    let upper = hex.to_uppercase();
    for odd in [format!("t={time}, v1={hex}"), format!("t={time},v1={upper}"), format!("{own},zz=1")] {
        world.send(bare(HOOK, &[("x-windlass-signature", &odd)], body)).await.expect_status(401);
    }
    world.send(bare(HOOK, &[("x-windlass-signature", &own)], &body.replace('7', "8"))).await.expect_status(401);
    // The same bytes are not accepted under another signature scheme.
    let (as_body, as_github) = (format!("{time}.{body}"), format!("sha256={hex}"));
    world.send(bare(HOOK, &[("x-hub-signature-256", &as_github)], &as_body)).await.expect_status(401);
    put(&world, SETTINGS, json!({"scheme": "standard"})).await.expect_status(200);
    let refused = world.send(bare(HOOK, &[("x-windlass-signature", &own)], body)).await.expect_status(401);
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("webhook-signature")), "{refused}");
    assert_eq!(runs(&world.store).len(), 1);
    put(&world, SETTINGS, json!({"scheme": "all"})).await.expect_status(400);
}

/// A valid signature authenticates the sender; it does not make an ambiguous body valid.
#[tokio::test]
async fn an_ambiguous_delivery_starts_no_run() {
    let world = secured(ORDERS).await;
    for (body, location) in
        [(r#"{"n": 1, "n": 2}"#, "at `/n`"), (r#"{"n": 1e999}"#, "at `/n`"), (r#"{"n": "#, "line 1")]
    {
        let problem = world.send(github(HOOK, "d-1", body)).await.expect_status(400);
        assert!(problem["where"].as_str().is_some_and(|given| given.contains(location)), "{body}: {problem}");
    }
    let mut packed = github(HOOK, "d-1", r#"{"n": 1}"#);
    packed.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().expect("a coding"));
    world.send(packed).await.expect_status(415);
    assert!(runs(&world.store).is_empty());
    // A rejected delivery has not used up its delivery id.
    world.send(github(HOOK, "d-1", r#"{"n": 1}"#)).await.expect_status(202);
}

#[tokio::test]
async fn a_delivery_is_checked_against_the_trigger() {
    let world = secured(ORDERS).await;
    let unmet = world.send(github(HOOK, "d-1", r#"{"n": 0}"#)).await.expect_status(202);
    assert_eq!(unmet["runs"], json!([]));
    assert!(unmet["unmet"].to_string().contains("triggerBody"), "{unmet}");
    let broken = world.send(github(HOOK, "d-2", "{")).await.expect_status(400);
    assert!(broken["where"].as_str().is_some_and(|location| location.starts_with("line 1")), "{broken}");
    put(&world, SETTINGS, json!({"enabled": false})).await.expect_status(200);
    world.send(github(HOOK, "d-3", r#"{"n": 1}"#)).await.expect_status(503);
    put(&world, SETTINGS, json!({"enabled": true})).await.expect_status(200);
    world.request(Method::POST, "/api/v1/definitions/shop%2Forders/disable", None).await.expect_status(200);
    world.send(github(HOOK, "d-3", r#"{"n": 1}"#)).await.expect_status(503);
    assert!(runs(&world.store).is_empty());
}

#[tokio::test]
async fn settings_name_secrets_and_never_hold_them() {
    let world = World::new();
    world.register(ORDERS).await;
    for secret in ["whsec_c2VjcmV0", "a secret with blanks", &"x".repeat(65), "hunter2", "env:NO_SUCH_VARIABLE"] {
        let refused = put(&world, SETTINGS, json!({"secret": secret})).await.expect_status(422);
        assert!(!refused.to_string().contains(secret) && refused["hint"].is_string(), "it is not repeated: {refused}");
    }
    put(&world, SETTINGS, json!({"sceret": "env:X"})).await.expect_status(400);
    put(&world, "/api/v1/definitions/shop%2Forders/triggers/old", json!({"enabled": true})).await.expect_status(404);
    let unknown =
        put(&world, "/api/v1/definitions/nothing/triggers/new", json!({"enabled": true})).await.expect_status(404);
    assert!(unknown["hint"].as_str().is_some_and(|hint| hint.contains("GET /api/v1/definitions lists")), "{unknown}");
    let facts = put(&world, SETTINGS, json!({"secret": format!("env:{SECRET}")})).await.expect_status(200);
    assert_eq!((&facts["proof"], &facts["url"]), (&json!("signature"), &json!(HOOK)));
    assert!(!world.get("/api/v1/triggers").await.expect_status(200).to_string().contains(SECRET));
    let log_lines = Arc::new(Mutex::new(Vec::new()));
    let listener = log_lines.clone();
    let _guard = windlass_testing::log::on_line(move |line| {
        if line.starts_with("trigger ") {
            listener.lock().expect("not poisoned").push(line.to_owned());
        }
    });
    hooks::log_missing_secrets(&world.app).expect("readable");
    assert_eq!(log_lines.lock().expect("not poisoned").len(), 0, "nothing is missing yet");
    // The server was started without the secret: a client learns neither its name nor that of an alias.
    for gone in ["env:NO_SUCH_VARIABLE", "no-such-alias"] {
        let body = serde_json::to_vec(&json!({"secret": gone, "scheme": "github"})).expect("JSON");
        let change = RecordChange::put("trigger", "shop/orders\0new", body, real_now());
        assert!(world.store.change_records(vec![change]).expect("writable"));
        let refused = world.send(bare(HOOK, &[("x-hub-signature-256", "sha256=00")], "{}")).await.expect_status(503);
        assert!(!refused.to_string().to_lowercase().contains("no_such"), "{refused}");
        assert!(!refused.to_string().contains(gone), "{refused}");
        world.send(bare(HOOK, &[], "{}")).await.expect_status(401);
        // The operator is informed at the start of the server and on every request.
        hooks::log_missing_secrets(&world.app).expect("readable");
        let line = log_lines.lock().expect("not poisoned").pop().expect("a line");
        assert!(line.contains("shop/orders") && line.contains("secret is unavailable"), "{line}");
        let listed = world.get("/api/v1/triggers").await.expect_status(200);
        let error = listed["items"][0]["last_error"].as_str().unwrap_or_default();
        assert!(error.contains("secret is unavailable") && !listed.to_string().contains(gone), "{listed}");
    }
}

/// The request is available in addition to the body, and a trigger lists how it is called.
#[tokio::test]
async fn a_run_sees_how_its_trigger_was_called() {
    let world = World::new();
    world
        .register(
            r#"{"name": "seen", "triggers": {
                "new": {"type": "request", "conditions": [{"expression": "@equals(triggerOutputs()['headers']['X-Event'], 'push')"}]},
                "look": {"type": "request", "inputs": {"method": "get", "relativePath": "/customers/{id}/orders"}}},
            "actions": {"all": {"type": "compose", "inputs": "@triggerOutputs()"}}}"#,
        )
        .await;
    for trigger in ["new", "look"] {
        put(&world, &format!("/api/v1/definitions/seen/triggers/{trigger}"), json!({"insecure": true}))
            .await
            .expect_status(200);
    }
    let seen = async |reply: Reply| {
        let run = reply.expect_status(202)["runs"][0].as_str().expect("a run").to_owned();
        world.until_status(&run, "succeeded").await["steps"]["all"]["output"].clone()
    };
    let bearer = format!("Bearer {TOKEN}");
    let headers =
        [("X-Event", "push"), ("authorization", &*bearer), ("cookie", "a=b"), ("x-hub-signature-256", "sha256=00")];
    let all = seen(world.send(bare("/hooks/seen/new?q=a%20b&t=1&t=2", &headers, r#"{"n": 1}"#)).await).await;
    assert_eq!(
        all,
        json!({"headers": {"host": "127.0.0.1:7117", "x-event": "push", "content-type": "application/json"},
            "queries": {"q": "a b", "t": "1,2"}, "body": {"n": 1}})
    );
    let unmet = world.send(bare("/hooks/seen/new", &[("x-event", "pull")], "{}")).await.expect_status(202);
    assert_eq!(unmet["runs"], json!([]), "conditions see it as well");

    let by = |method: Method, path: &str| {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:7117");
        request.body(Body::empty()).expect("a request")
    };
    let all = seen(world.send(by(Method::GET, "/hooks/seen/look/customers/4%2F2/orders?open=1")).await).await;
    assert_eq!(
        (&all["relativePathParameters"], &all["queries"], &all["body"]),
        (&json!({"id": "4/2"}), &json!({"open": "1"}), &json!({}))
    );
    let before = runs(&world.store).len();
    for (method, path, status) in [
        (Method::POST, "/hooks/seen/look/customers/42/orders", 405),
        (Method::GET, "/hooks/seen/new", 405),
        (Method::GET, "/hooks/seen/look/customers/42", 404),
        (Method::GET, "/hooks/seen/look", 404),
        (Method::POST, "/hooks/seen/new/more", 404),
    ] {
        let refused = world.send(by(method.clone(), path)).await.expect_status(status);
        assert!(refused["hint"].is_string(), "{method} {path}: {refused}");
    }
    assert_eq!(runs(&world.store).len(), before);
}

#[tokio::test]
async fn a_run_replies_to_its_caller() {
    let world = World::new();
    world
        .register(
            r#"{"name": "asked", "triggers": {"manual": {"type": "request"}}, "actions": {
            "answer": {"type": "response", "inputs": {"statusCode": 201, "headers": {"x-shop": "open", "connection": "close",
                    "Content-Type": "text/html", "Content-Security-Policy": "default-src *", "X-Content-Type-Options": "", "X-Frame-Options": "ALLOWALL",
                    "Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"},
                "body": {"twice": "@mul(triggerBody()['n'], 2)"}}},
            "later": {"type": "activity", "inputs": {"activityName": "gate", "input": "gate"}, "runAfter": {"answer": ["Succeeded"]}}}}"#,
        )
        .await;
    put(&world, "/api/v1/definitions/asked/triggers/manual", json!({"insecure": true})).await.expect_status(200);
    let reply = in_time(world.send(bare("/hooks/asked/manual", &[("webhook-id", "m1")], r#"{"n": 21}"#))).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (201, json!({"twice": 42})));
    assert_eq!((&reply.headers["x-shop"], reply.headers.get("connection")), (&"open".parse().expect("a value"), None));
    // The reply comes from the origin of the web UI: the server sets what browsers may do with it.
    for (name, value) in [
        ("content-type", Some("text/html")),
        ("content-security-policy", Some("sandbox; default-src 'none'; frame-ancestors 'none'")),
        ("x-content-type-options", Some("nosniff")),
        ("x-frame-options", Some("DENY")),
        ("set-cookie", None),
        ("access-control-allow-origin", None),
        ("cross-origin-resource-policy", Some("same-origin")),
    ] {
        assert_eq!(reply.headers.get(name).map(|value| value.to_str().expect("text")), value, "{name}");
    }
    let run = reply.headers["x-windlass-run"].to_str().expect("text").to_owned();
    assert_eq!(
        world.get(&format!("/api/v1/runs/{run}")).await.expect_status(200)["status"],
        "running",
        "the run continues"
    );
    // A repeated delivery gets the same reply.
    let again = in_time(world.send(bare("/hooks/asked/manual", &[("webhook-id", "m1")], r#"{"n": 21}"#))).await;
    assert_eq!((again.json(), runs(&world.store).len()), (json!({"twice": 42}), 1));
    world.open("gate");
    world.until_status(&run, "succeeded").await;
}

fn hourly(more: &str) -> String {
    format!(
        r#"{{"name": "tidy", "triggers": {{"tick": {{"type": "recurrence", {more}
            "recurrence": {{"frequency": "Hour", "interval": 1, "startTime": "2026-01-01T00:00:00Z"}}}}}},
            "actions": {{"wait": {{"type": "activity", "inputs": {{"activityName": "gate", "input": "gate"}}}}}}}}"#
    )
}

fn hours_from(now: Timestamp, hours: i64) -> Timestamp {
    let hour = 3_600_000_000;
    Timestamp((now.0 / hour + hours) * hour)
}

#[tokio::test]
async fn a_schedule_fires_once_at_each_time_regardless_of_the_scheduler() {
    let world = World::new();
    world.register(&hourly("")).await;
    let (one, other) = (TriggerScheduler::new(world.app.clone()), TriggerScheduler::new(world.app.clone()));
    let now = real_now();
    let first = hours_from(now, 1);
    assert_eq!(one.fire_due(now).await, Some(first), "nothing is due yet");
    assert!(runs(&world.store).is_empty());
    assert_eq!(world.get("/api/v1/triggers").await.expect_status(200)["items"][0]["next_at"], first.to_string());
    let (next, _) = tokio::join!(one.fire_due(first), other.fire_due(first));
    assert_eq!(next, Some(hours_from(now, 2)));
    assert_eq!(runs(&world.store).len(), 1, "two servers, one run");
    one.fire_due(Timestamp(first.0 + 1)).await;
    assert_eq!(runs(&world.store).len(), 1);
    let seen = world.get("/api/v1/triggers").await.expect_status(200);
    let tick = &seen["items"][0];
    assert_eq!((&tick["kind"], &tick["last_at"]), (&json!("recurrence"), &json!(first.to_string())));

    // Down for five hours: the newest missed firing is caught up, the others are not.
    one.fire_due(hours_from(now, 6)).await;
    assert_eq!(runs(&world.store).len(), 2);
    put(&world, "/api/v1/definitions/tidy/triggers/tick", json!({"catch_up": "all"})).await.expect_status(200);
    one.fire_due(hours_from(now, 9)).await;
    assert_eq!(runs(&world.store).len(), 5);
    put(&world, "/api/v1/definitions/tidy/triggers/tick", json!({"catch_up": "none"})).await.expect_status(200);
    one.fire_due(Timestamp(hours_from(now, 12).0 - 1)).await;
    assert_eq!(runs(&world.store).len(), 5);
    // A disabled schedule misses nothing that would be caught up.
    put(&world, "/api/v1/definitions/tidy/triggers/tick", json!({"catch_up": "all", "enabled": false}))
        .await
        .expect_status(200);
    assert_eq!(one.fire_due(hours_from(now, 20)).await, None);
    put(&world, "/api/v1/definitions/tidy/triggers/tick", json!({"enabled": true})).await.expect_status(200);
    assert_eq!(one.fire_due(hours_from(now, 20)).await, Some(hours_from(now, 21)));
    assert_eq!(runs(&world.store).len(), 5);
}

#[tokio::test]
async fn a_crash_between_start_and_progress_record_fires_nothing_twice() {
    let store = Arc::new(MemoryStore::new());
    let world = World::on(store.clone());
    world.register(&hourly("")).await;
    let first = hours_from(real_now(), 1);
    // The start is one write, the progress record another: the process dies before the second is synced.
    store.crash_before_sync(2);
    TriggerScheduler::new(world.app.clone()).fire_due(first).await;
    let left: Arc<dyn Store> = Arc::new(store.crash());
    let before = runs(&left);
    let after = World::on(left.clone());
    let next = TriggerScheduler::new(after.app.clone()).fire_due(first).await;
    assert_eq!(next, Some(Timestamp(first.0 + 3_600_000_000)));
    assert_eq!(runs(&left).len(), 1, "before: {before:?}");
}

#[tokio::test]
async fn a_definition_limits_the_concurrent_runs() {
    let world = World::new();
    world.register(&hourly(r#""operationOptions": "SingleInstance","#)).await;
    let now = real_now();
    let scheduler = TriggerScheduler::new(world.app.clone());
    scheduler.fire_due(hours_from(now, 1)).await;
    scheduler.fire_due(hours_from(now, 2)).await;
    let only = runs(&world.store);
    assert_eq!(only.len(), 1, "the first is still in flight");
    world.open("gate");
    world.until_status(&only[0], "succeeded").await;
    scheduler.fire_due(hours_from(now, 3)).await;
    assert_eq!(runs(&world.store).len(), 2);
}

#[tokio::test]
async fn any_definition_can_have_its_own_schedule() {
    let world = World::new();
    world.register(common::HELLO).await;
    let path = "/api/v1/definitions/hello/triggers/nightly";
    let refused = put(&world, path, json!({"schedule": {"cron": "61 * * * *"}})).await.expect_status(422);
    assert!(refused["hint"].is_string(), "{refused}");
    for (zone, hint) in [
        ("Mars/Phobos", "a name such as `Europe/Berlin` or `UTC`"),
        ("Europe/Berln", "did you mean `Europe/Berlin`?"),
        ("America/New York", "did you mean `America/New_York`?"),
    ] {
        let refused =
            put(&world, path, json!({"schedule": {"cron": "0 * * * *", "time_zone": zone}})).await.expect_status(422);
        assert_eq!(refused["hint"], hint, "{refused}");
    }
    let facts = put(&world, path, json!({"schedule": {"cron": "0 * * * *", "time_zone": "Europe/Berlin"}}))
        .await
        .expect_status(200);
    let now = real_now();
    assert_eq!((&facts["kind"], &facts["next_at"]), (&json!("schedule"), &json!(hours_from(now, 1).to_string())));
    TriggerScheduler::new(world.app.clone()).fire_due(hours_from(now, 1)).await;
    TriggerScheduler::new(world.app.clone()).fire_due(hours_from(now, 1)).await;
    let runs = runs(&world.store);
    assert_eq!(runs.len(), 1);
    world.until_status(&runs[0], "succeeded").await;
}

/// Times that were due before the schedule was set or enabled again are ignored.
#[tokio::test]
async fn a_schedule_counts_from_when_it_was_set_or_turned_on() {
    let first = World::new();
    first.register(common::HELLO).await;
    // Registered long ago.
    let key = format!("hello\0{:010}", 1);
    let row = first.store.record("version", &key).expect("readable").expect("a version");
    let mut version: Json = serde_json::from_slice(&row.body).expect("JSON");
    version["registered_at"] = json!(hours_from(real_now(), -999).0);
    let long_ago = |kind: &str, key: &str, body: &Json| {
        RecordChange::put(kind, key, serde_json::to_vec(body).expect("JSON"), real_now())
    };
    assert!(first.store.change_records(vec![long_ago("version", &key, &version)]).expect("writable"));
    let world = World::on(first.store.clone());
    let path = "/api/v1/definitions/hello/triggers/hourly";
    put(&world, path, json!({"schedule": {"cron": "0 * * * *"}})).await.expect_status(200);
    let now = real_now();
    let scheduler = TriggerScheduler::new(world.app.clone());
    assert_eq!(scheduler.fire_due(now).await, Some(hours_from(now, 1)));
    for (off, on) in [
        ((Method::PUT, path, Some(json!({"enabled": false}))), (Method::PUT, path, Some(json!({"enabled": true})))),
        (
            (Method::POST, "/api/v1/definitions/hello/disable", None),
            (Method::POST, "/api/v1/definitions/hello/enable", None),
        ),
    ] {
        world.request(off.0, off.1, off.2).await.expect_status(200);
        // No scheduler step ran while it was disabled.
        let firing = json!({"due": hours_from(now, -99).0});
        assert!(world.store.change_records(vec![long_ago("firing", "hello\0hourly", &firing)]).expect("writable"));
        world.request(on.0, on.1, on.2).await.expect_status(200);
        assert_eq!(scheduler.fire_due(now).await, Some(hours_from(now, 1)));
    }
    assert_eq!(runs(&world.store), [""; 0]);

    assert_eq!(put(&world, path, json!({"schedule": null})).await.status, 204);
    assert_eq!(world.get("/api/v1/triggers").await.expect_status(200)["items"], json!([]));
    assert_eq!(scheduler.fire_due(hours_from(now, 1)).await, None);
    put(&world, path, json!({"schedule": null})).await.expect_status(404);
    world.register(&hourly("")).await;
    put(&world, "/api/v1/definitions/tidy/triggers/tick", json!({"schedule": null})).await.expect_status(422);
}

#[tokio::test]
async fn a_slow_poll_delays_no_schedule() {
    let world = World::new();
    let asks = hourly("").replace("tidy", "asks").replace(
        r#""type": "recurrence","#,
        r#""type": "http", "inputs": {"method": "GET", "uri": "http://127.0.0.1:9/"},"#,
    );
    world.register(&asks).await;
    world.register(&hourly("")).await;
    let scheduler = TriggerScheduler::new(world.app.clone());
    for hour in 1..4 {
        in_time(scheduler.fire_due(hours_from(real_now(), hour))).await;
    }
    assert_eq!(runs(&world.store).len(), 3);
}

#[tokio::test]
async fn a_schedule_that_never_fires_is_rejected() {
    let world = World::new();
    world.register(common::HELLO).await;
    let path = "/api/v1/definitions/hello/triggers/never";
    for cron in ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
        let refused = put(&world, path, json!({"schedule": {"cron": cron}})).await.expect_status(422);
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("never")), "{cron}: {refused}");
    }
    put(&world, path, json!({"schedule": {"cron": "0 0 29 2 *"}})).await.expect_status(200);
    let every = r#""frequency": "Hour", "interval": 1"#;
    for never in [
        r#""frequency": "Day", "interval": 9223372036854775807"#,
        r#""frequency": "Second", "interval": 9223372036854775807"#,
    ] {
        let source = hourly("").replace(every, never);
        assert_ne!(source, hourly(""));
        let refused = world
            .request(Method::POST, "/api/v1/definitions", Some(json!({"source": source})))
            .await
            .expect_status(422);
        assert!(refused.to_string().contains("tick"), "{refused}");
    }
}

#[tokio::test]
async fn names_are_limited_to_characters_of_addresses_and_keys() {
    let world = World::new();
    let long = "x".repeat(257);
    for name in ["a\u{0}b", "a\nb", &long, ".", "..", "check"] {
        let source = ORDERS.replace(r#""shop/orders""#, &json!(name).to_string());
        let refused = world
            .request(Method::POST, "/api/v1/definitions", Some(json!({"source": source})))
            .await
            .expect_status(422);
        assert!(refused["problems"][0]["hint"].is_string() || refused["hint"].is_string(), "{name:?}: {refused}");
    }
    let source = ORDERS.replace(r#""new""#, r#""pub\u0000hook""#);
    world.request(Method::POST, "/api/v1/definitions", Some(json!({"source": source}))).await.expect_status(422);
    world.register(ORDERS).await;
    let path = "/api/v1/definitions/shop%2Forders/triggers/a%00b";
    put(&world, path, json!({"schedule": {"cron": "0 * * * *"}})).await.expect_status(422);
    for id in ["changes", ".", ".."] {
        let body = json!({"definition": "shop/orders", "id": id});
        let reply = world.request(Method::POST, "/api/v1/runs", Some(body)).await;
        assert!(reply.status.is_client_error(), "{id}");
    }
}

/// An unauthenticated client uses up the rate limit of its address, and nothing of the webhook's.
#[tokio::test]
async fn unauthenticated_clients_cannot_exhaust_a_webhook() {
    let world = secured(ORDERS).await;
    let from = |mut request: Request<Body>, address: &str| {
        let peer = std::net::SocketAddr::new(address.parse().expect("an address"), 4_000);
        request.extensions_mut().insert(windlass_server::auth::Peer(peer));
        request
    };
    let wrong = |at: &str, address: &str| from(bare(at, &[("x-hub-signature-256", "sha256=00")], "{}"), address);
    let mut seen = std::collections::BTreeSet::new();
    for attempt in 0..400 {
        let at = if attempt % 2 == 0 { HOOK } else { "/hooks/shop%2forders/%6eew" };
        seen.insert(world.send(wrong(at, "10.0.0.1")).await.status.as_u16());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [401, 429]);
    // Addresses share a table of buckets: one of them may collide with that of the first, but not all.
    let mut other = None;
    for address in ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"] {
        if world.send(wrong(HOOK, address)).await.status == 401 {
            other = Some(address);
        }
    }
    world.send(from(github(HOOK, "d-1", r#"{"n": 1}"#), other.expect("another address"))).await.expect_status(202);
    // Authenticated clients share the webhook's rate, however they spell its address. All of them send at once, so the
    // result does not depend on how fast they finish.
    let (world, mut all) = (Arc::new(world), tokio::task::JoinSet::new());
    for attempt in 0..1_000 {
        let at = if attempt % 2 == 0 { HOOK } else { "/hooks/shop%2forders/%6eew" };
        let (world, delivery) = (world.clone(), github(at, "d-2", r#"{"n": 0}"#));
        all.spawn(async move { world.send(delivery).await.status.as_u16() });
    }
    let seen: std::collections::BTreeSet<u16> = all.join_all().await.into_iter().collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [202, 429]);
}
