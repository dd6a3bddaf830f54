//! Runs over the API: start, list, inspect.

use crate::common;

use axum::body::Body;
use axum::http::{Method, header};
use common::{BROKEN, HELD, HELLO, TOKEN, World, request};
use serde_json::{Value as Json, json};

fn with_key(key: &str, body: Json) -> axum::http::Request<Body> {
    let mut request = request(Method::POST, "/api/v1/runs", Some(body));
    request.headers_mut().insert("idempotency-key", key.parse().expect("a key"));
    request
}

#[tokio::test]
async fn a_start_is_durable_and_can_be_waited_for() {
    let world = World::new();
    world.register(HELLO).await;
    let reply = world.post("/api/v1/runs", json!({ "definition": "hello" })).await;
    let started = reply.expect_status(202);
    let location = reply.headers.get(header::LOCATION).and_then(|location| location.to_str().ok()).expect("a place");
    assert_eq!(world.get(location).await.expect_status(200)["run"], started["run"]);
    world.post("/api/v1/runs", json!({ "definition": "hello", "wait_ms": 60_001 })).await.expect_status(400);
    assert_eq!(
        (&started["definition"], &started["version"], &started["created"]),
        (&json!("hello"), &json!(1), &json!(true))
    );
    let run = started["run"].as_str().expect("a run");
    assert!(world.store.run(run).expect("a read").is_some());
    let ended = world.run("hello", "r1").await;
    assert_eq!((&ended["run"], &ended["status"]), (&json!("r1"), &json!("succeeded")));
    assert_eq!(ended["steps"]["greet"]["output"], "hi");
    assert_eq!(ended["current"], json!([]));
    world.register(HELD).await;
    let open = world.post("/api/v1/runs", json!({ "definition": "held", "wait_ms": 20 })).await.expect_status(202);
    assert_eq!(open["status"], "running");
}

#[tokio::test]
async fn the_same_key_is_the_same_run_although_another_version_is_registered() {
    let world = World::new();
    world.register(HELLO).await;
    let body = json!({ "definition": "hello", "input": { "b": 1, "a": [2] } });
    let first = world.send(with_key("k1", body.clone())).await.expect_status(202);
    assert_eq!(first["created"], true);
    world.register(&HELLO.replace("hi", "ho")).await;
    // The same values in another order are the same body.
    let again = json!({ "input": { "a": [2], "b": 1 }, "definition": "hello" });
    let again = world.send(with_key("k1", again)).await.expect_status(202);
    assert_eq!((&again["run"], &again["created"], &again["version"]), (&first["run"], &json!(false), &json!(1)));
    for other in [
        json!({ "definition": "hello", "input": { "a": 3 } }),
        json!({ "definition": "hello", "version": 2, "input": { "b": 1, "a": [2] } }),
    ] {
        assert_eq!(world.send(with_key("k1", other)).await.expect_status(409)["code"], "WND-3004");
    }
    let another = world.send(with_key("k2", body)).await.expect_status(202);
    assert_ne!(another["run"], first["run"]);
    assert_eq!((&another["created"], &another["version"]), (&json!(true), &json!(2)));
    let both = with_key("k1", json!({ "definition": "hello", "id": "x" }));
    world.send(both).await.expect_status(400);
}

#[tokio::test]
async fn concurrent_starts_with_one_key_make_one_run() {
    let world = World::new();
    world.register(HELD).await;
    let starts = (0..16).map(|_| world.send(with_key("same", json!({ "definition": "held" }))));
    let mut made = 0;
    let mut runs = std::collections::BTreeSet::new();
    for start in starts.collect::<Vec<_>>() {
        let started = start.await.expect_status(202);
        made += u32::from(started["created"] == true);
        runs.insert(started["run"].as_str().expect("a run").to_owned());
    }
    assert_eq!((made, runs.len()), (1, 1));
}

#[tokio::test]
async fn invalid_starts_are_rejected() {
    let world = World::new();
    world.register(r#"{"name": "asks", "parameters": {"n": {"type": "int"}}, "actions": {"a": {"type": "compose", "inputs": "@parameters('n')"}}}"#).await;
    let table = [
        (json!({ "definition": "askz" }), 404, "did you mean `asks`?"),
        (json!({ "definition": "asks" }), 422, "lists its parameters"),
        (json!({ "definition": "asks", "input": { "n": "x" } }), 422, "lists its parameters"),
        (json!({ "definition": "asks", "version": 7, "input": { "n": 1 } }), 404, "it has 1 to 1"),
        (json!({ "definition": "asks", "id": "a b" }), 400, "up to 128 letters"),
        (json!({ "definition": "asks", "inputs": {} }), 400, "did you mean `input`?"),
    ];
    for (body, status, hint) in table {
        let problem = world.post("/api/v1/runs", body.clone()).await.expect_status(status);
        assert!(problem["hint"].as_str().is_some_and(|given| given.contains(hint)), "{body}: {problem}");
    }
    let mut plain = request(Method::POST, "/api/v1/runs", Some(json!({ "definition": "asks" })));
    plain.headers_mut().insert(header::CONTENT_TYPE, "text/plain".parse().expect("a type"));
    assert_eq!(world.send(plain).await.expect_status(415)["code"], "WND-3014");
    let unauthenticated = axum::http::Request::post("/api/v1/runs").header(header::CONTENT_TYPE, "application/json");
    let unauthenticated =
        unauthenticated.header(header::HOST, "127.0.0.1:7117").body(Body::from("{}")).expect("a request");
    assert_eq!(world.send(unauthenticated).await.expect_status(401)["code"], "WND-3001");
    assert!(!TOKEN.is_empty());
}

/// Two parsers of one text must not see different values.
#[tokio::test]
async fn ambiguous_bodies_are_rejected() {
    let world = World::new();
    world.register(HELLO).await;
    let table = [
        (
            "/api/v1/runs",
            r#"{"definition": "hello", "input": {"a": {"b": 1, "b": 2}}}"#,
            "the key `b` is given twice",
            "/input/a/b",
        ),
        (
            "/api/v1/runs",
            r#"{"definition": "hello", "input": {"\u0061": 1, "a": 2}}"#,
            "the key `a` is given twice",
            "/input/a",
        ),
        (
            "/api/v1/runs",
            r#"{"definition": "hello", "definition": "hello"}"#,
            "duplicate field `definition`",
            "column 36",
        ),
        (
            "/api/v1/runs",
            r#"{"definition": "hello", "input": [1, 1e999999]}"#,
            "the number `1e999999` is too large",
            "/input/1",
        ),
        (
            "/api/v1/runs",
            r#"{"definition": "hello", "input": {"$serde_json::private::Number": "x"}}"#,
            "an invalid number",
            "column",
        ),
        (
            "/api/v1/runs",
            r#"{"definition": "hello", "input": {"$serde_json::private::Number": "1"}}"#,
            "reserved key name",
            "/input",
        ),
        ("/api/v1/tokens", r#"{"name": "x", "scopes": ["read"], "name": "y"}"#, "duplicate field `name`", "column"),
        (
            "/api/v1/definitions",
            r#"{"source": "", "labels": {"a": "b", "a": "c"}}"#,
            "the key `a` is given twice",
            "/labels/a",
        ),
        ("/api/v1/definitions/check", r#"{"source": "", "source": ""}"#, "duplicate field `source`", "column"),
        ("/api/v1/worker/lease", r#"{"worker": "w", "worker": "v"}"#, "duplicate field `worker`", "column"),
        (
            "/api/v1/runs/x/signal",
            r#"{"name": "x", "data": {"a": 1, "a": 1}}"#,
            "the key `a` is given twice",
            "/data/a",
        ),
        ("/api/v1/runs/x/approvals/y", r#"{"data": [{"a": 1, "a": 1}]}"#, "the key `a` is given twice", "/data/0/a"),
        ("/api/v1/runs/x/cancel", r#"{"reason": "x", "reason": "y"}"#, "duplicate field `reason`", "column"),
    ];
    for (path, body, detail, location) in table {
        let mut sent = request(Method::POST, path, Some(json!({})));
        *sent.body_mut() = Body::from(body);
        let problem = world.send(sent).await.expect_status(400);
        assert!(problem["detail"].as_str().is_some_and(|given| given.contains(detail)), "{body}: {problem}");
        assert!(problem["where"].as_str().is_some_and(|given| given.contains(location)), "{body}: {problem}");
    }
    assert_eq!(world.get("/api/v1/runs").await.expect_status(200)["items"], json!([]));
    // Large integers are ordinary data.
    let body =
        r#"{"definition": "hello", "id": "large", "input": {"n": 123456789012345678901234567890}, "wait_ms": 9000}"#;
    let mut sent = request(Method::POST, "/api/v1/runs", Some(json!({})));
    *sent.body_mut() = Body::from(body);
    assert!(world.send(sent).await.text().contains("123456789012345678901234567890"));
}

#[tokio::test]
async fn an_error_has_its_location_in_the_definition() {
    let world = World::new();
    world.register(BROKEN).await;
    let ended = world.run("broken", "r1").await;
    assert_eq!((&ended["status"], &ended["error"]["path"]), (&json!("failed"), &json!("second")));
    let position = &ended["error"]["position"];
    assert_eq!(position["line"], 5);
    let excerpt = position["excerpt"].as_str().expect("an excerpt");
    assert!(excerpt.contains("\"second\"") && excerpt.contains('^'), "{excerpt}");
    let listed = world.get("/api/v1/runs").await.expect_status(200);
    assert_eq!(listed["items"][0]["error"]["message"], "not now");
    assert_eq!(ended["error"]["hint"], "look at `windlass events r1`");
    assert_eq!(ended["steps"]["second"]["error"]["position"]["line"], 5);
}

#[tokio::test]
async fn runs_are_listed_newest_first_with_filters() {
    let world = World::new();
    for definition in [HELLO, BROKEN, HELD] {
        world.register(definition).await;
    }
    world.run("hello", "one").await;
    world.run("broken", "two").await;
    world.start("held", "three").await;
    let ids = |page: Json| -> Vec<String> {
        let items = page["items"].as_array().expect("items").clone();
        items.iter().map(|one| one["run"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let table: [(&str, &[&str]); 8] = [
        ("", &["three", "two", "one"]),
        ("?status=failed", &["two"]),
        ("?status=failed,succeeded", &["two", "one"]),
        ("?definition=held", &["three"]),
        ("?search=EL", &["three", "one"]),
        ("?since=2100-01-01T00:00:00Z", &[]),
        ("?until=2100-01-01T00:00:00Z&dialect=loom", &["three", "two", "one"]),
        ("?parent=one", &[]),
    ];
    for (query, expected) in table {
        assert_eq!(ids(world.get(&format!("/api/v1/runs{query}")).await.expect_status(200)), expected, "{query}");
    }
    let page = world.get("/api/v1/runs?limit=2").await.expect_status(200);
    let next = page["next"].as_i64().expect("a mark");
    assert_eq!(ids(world.get(&format!("/api/v1/runs?limit=2&before={next}")).await.expect_status(200)), ["one"]);
    assert_eq!(world.get("/api/v1/runs?status=faild").await.expect_status(400)["hint"], "did you mean `failed`?");
    world.get("/api/v1/runs?since=yesterday").await.expect_status(400);
    assert_eq!(world.get("/api/v1/runs?dialect=lom").await.expect_status(400)["hint"], "did you mean `loom`?");
    world.get("/api/v1/runs?dialect=foo").await.expect_status(400);
    assert_eq!(world.get("/api/v1/runs/three").await.expect_status(200)["current"][0]["name"], "wait");
    world.get("/api/v1/runs/missing").await.expect_status(404);
    world.get("/api/v1/runs/no%20body").await.expect_status(404);
}

/// A repeated start reports the current status of the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_start_returns_the_run_status() {
    let world = World::new();
    world.register(HELD).await;
    assert_eq!(world.start("held", "one").await["status"], "running");
    world.post("/api/v1/runs/one/pause", json!({})).await.expect_status(202);
    world.until_status("one", "paused").await;
    let again = world.start("held", "one").await;
    assert_eq!((&again["status"], &again["created"]), (&json!("paused"), &json!(false)));
}

/// A server that does not adopt the run lists it as what it is: the process that ran it is gone.
#[tokio::test]
async fn a_run_without_a_live_process_is_interrupted() {
    let store = std::sync::Arc::new(windlass_store::MemoryStore::new());
    let before = World::on(store.clone());
    before.register(HELD).await;
    before.register(HELLO).await;
    before.run("hello", "r0").await;
    before.start("held", "r1").await;
    before.until_status("r1", "running").await;
    let world = World::on(std::sync::Arc::new(store.crash()));
    let listed = world.get("/api/v1/runs").await.expect_status(200);
    assert_eq!((&listed["items"][0]["run"], &listed["items"][0]["status"]), (&json!("r1"), &json!("interrupted")));
    let detail = world.get("/api/v1/runs/r1").await.expect_status(200);
    assert_eq!((&detail["status"], &detail["owner"]), (&json!("interrupted"), &Json::Null), "{detail}");
    assert_eq!(detail["current"][0]["status"], "interrupted", "nor does a step of it run");
    let found = async |status: &str| {
        let page = world.get(&format!("/api/v1/runs?status={status}")).await.expect_status(200);
        page["items"].as_array().expect("items").iter().map(|run| run["run"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("running").await, Vec::<Json>::new());
    assert_eq!(found("interrupted").await, [json!("r1")]);
    assert_eq!(found("running,interrupted").await, [json!("r1")]);
    assert_eq!(found("interrupted,succeeded").await, [json!("r1"), json!("r0")]);
    let counts = world.get("/api/v1/runs/counts").await.expect_status(200);
    let counts: Vec<(&Json, &Json)> =
        counts["items"].as_array().expect("items").iter().map(|one| (&one["status"], &one["runs"])).collect();
    assert_eq!(counts, [(&json!("interrupted"), &json!(1)), (&json!("succeeded"), &json!(1))]);
    let again = world.post("/api/v1/runs", json!({ "definition": "held", "id": "r0" })).await;
    again.expect_status(409);
}

#[tokio::test]
async fn runs_have_labels() {
    let world = World::new();
    world.register(HELLO).await;
    for (id, customer, env) in [("one", "acme", "prod"), ("two", "acme", "a,b"), ("three", "other", "prod")] {
        let body = json!({"definition": "hello", "id": id, "wait_ms": 10_000,
            "labels": {"customer": customer, "env": env}});
        let ended = world.post("/api/v1/runs", body).await.expect_status(200);
        assert_eq!(ended["labels"], json!({"customer": customer, "env": env}));
    }
    let ids = |page: Json| -> Vec<String> {
        let items = page["items"].as_array().expect("items").clone();
        items.iter().map(|one| one["run"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let table: [(&str, &[&str]); 5] = [
        ("label=customer=acme", &["two", "one"]),
        ("label=customer=acme,env=prod", &["one"]),
        ("label=env=a,b", &["two"]),
        ("label=customer=none", &[]),
        ("label=customer=acme&search=hell&status=succeeded", &["two", "one"]),
    ];
    for (query, expected) in table {
        assert_eq!(ids(world.get(&format!("/api/v1/runs?{query}")).await.expect_status(200)), expected, "{query}");
    }
    let counts = world.get("/api/v1/runs/counts?label=customer=acme").await.expect_status(200);
    assert_eq!(counts["items"], json!([{"status": "succeeded", "runs": 2, "more": false}]));
    world.get("/api/v1/runs?label=acme").await.expect_status(400);
    let wrong = json!({"definition": "hello", "labels": {"a b": "1"}});
    let refused = world.post("/api/v1/runs", wrong).await.expect_status(422);
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("name of a label")), "{refused}");
}
