//! Removal deletes what is no longer needed and nothing else; and counts by status.

use crate::common;

use std::sync::Arc;

use axum::http::Method;
use common::{BROKEN, HANG, HELD, HELLO, World, counting, in_time, request};
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use windlass_store::MemoryStore;

const WAITING_FLOW: &str =
    r#"{"name": "asks", "actions": {"wait": {"type": "wait", "inputs": {"signal": {"name": "go"}}}}}"#;

async fn delete(world: &World, path: &str) -> common::Reply {
    world.request(Method::DELETE, path, None).await
}

#[tokio::test]
async fn an_ended_run_is_removed_with_its_child_runs() {
    let world = World::new();
    world.register(HELLO).await;
    world.register(r#"{"name": "calls", "actions": {"call": {"type": "workflow", "inputs": {"host": {"workflow": {"id": "hello"}}}}}}"#).await;
    world.run("calls", "r1").await;
    let child = world.get("/api/v1/runs?parent=r1").await.expect_status(200)["items"][0]["run"]
        .as_str()
        .expect("a child")
        .to_owned();
    let refused = delete(&world, &format!("/api/v1/runs/{child}")).await.expect_status(409);
    assert_eq!(
        (&refused["code"], &refused["hint"]),
        (&json!("WND-3004"), &json!("DELETE /api/v1/runs/r1 removes both"))
    );
    let (_, _, mut changes) = world.stream(request(Method::GET, "/api/v1/runs/changes", None)).await;
    world.get("/api/v1/runs/r1/graph").await.expect_status(200);
    assert_eq!(delete(&world, "/api/v1/runs/r1").await.expect_status(200), json!({ "run": "r1", "removed": 2 }));
    for path in ["r1", &child] {
        world.get(&format!("/api/v1/runs/{path}")).await.expect_status(404);
        delete(&world, &format!("/api/v1/runs/{path}")).await.expect_status(404);
    }
    let mut received = String::new();
    while !received.contains("event: removed") {
        let frame = in_time(changes.frame()).await.expect("more").expect("a frame");
        received.push_str(std::str::from_utf8(&frame.into_data().expect("data")).expect("text"));
    }
    assert!(received.contains(r#"{"run":"r1"}"#), "{received}");
    // The id is free again, and nothing is left of the removed run.
    world.register(BROKEN).await;
    world.run("broken", "r1").await;
    let drawn = world.get("/api/v1/runs/r1/graph").await.expect_status(200);
    assert!(
        drawn["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["name"] == "second")),
        "{drawn}"
    );
}

#[tokio::test]
async fn a_live_run_is_not_removed() {
    let world = World::new();
    world.register(HELD).await;
    world.start("held", "r1").await;
    let refused = delete(&world, "/api/v1/runs/r1").await.expect_status(409);
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("POST /api/v1/runs/r1/cancel")), "{refused}");
    world.post("/api/v1/runs/r1/cancel", json!({})).await.expect_status(202);
    world.until_status("r1", "cancelled").await;
    delete(&world, "/api/v1/runs/r1").await.expect_status(200);
}

#[tokio::test]
async fn a_removed_definition_is_unavailable_to_starts_and_triggers_but_not_to_its_runs() {
    let store = Arc::new(MemoryStore::new());
    let world = World::on(store.clone());
    let text = HELD.replace(r#""actions""#, r#""triggers": {"call": {"type": "request"}}, "actions""#);
    world.register(&text).await;
    world.register(&text.replace("gate\"}}", "gate\"}, \"description\": \"two\"}")).await;
    let loose = json!({ "insecure": true });
    world.request(Method::PUT, "/api/v1/definitions/held/triggers/call", Some(loose)).await.expect_status(200);
    world.request(Method::POST, "/hooks/held/call", Some(json!({}))).await;
    world.start("held", "r1").await;
    let removed = delete(&world, "/api/v1/definitions/held").await.expect_status(200);
    assert_eq!(removed, json!({ "name": "held", "removed": true, "open_runs": true }));
    delete(&world, "/api/v1/definitions/held").await.expect_status(404);
    for world in [&world, &World::on(store.clone())] {
        let gone = world.get("/api/v1/definitions/held").await.expect_status(404);
        assert!(gone["detail"].as_str().is_some_and(|detail| detail.contains("was removed at")), "{gone}");
        assert_eq!(world.get("/api/v1/definitions").await.expect_status(200)["items"], json!([]));
        assert_eq!(world.get("/api/v1/triggers").await.expect_status(200)["items"], json!([]));
        for version in [None, Some(1)] {
            let body = json!({ "definition": "held", "version": version });
            world.post("/api/v1/runs", body).await.expect_status(404);
        }
        let kept = world.get("/api/v1/definitions/held/versions/1").await.expect_status(200);
        assert!(kept["removed_at"].is_string() && kept["source"].as_str() == Some(&text), "{kept}");
        let versions = world.get("/api/v1/definitions/held/versions").await.expect_status(200);
        let versions = versions["items"].as_array().expect("a list");
        assert_eq!(versions.len(), 2);
        for version in versions {
            assert!(version["current"] == false && version["removed_at"].is_string(), "{version}");
        }
    }
    assert_eq!(world.request(Method::POST, "/hooks/held/call", Some(json!({}))).await.status, 404);
    world.open("gate");
    world.until_status("r1", "succeeded").await;
    // A definition of the same name continues the version count, and no trigger settings are left.
    let again = world.register(&text).await;
    assert_eq!((&again["version"], &again["is_new"]), (&json!(1), &json!(true)));
    let third = world.register(&text.replace("gate\"}}", "gate\"}, \"description\": \"three\"}")).await;
    assert_eq!(third["version"], 3);
    assert_eq!(world.get("/api/v1/triggers").await.expect_status(200)["items"][0]["proof"], "token");
}

#[tokio::test]
async fn a_repeated_start_is_recognized_after_its_definition_was_removed() {
    let world = World::new();
    world.register(HELLO).await;
    let with_key = |body: Json| {
        let mut request = request(Method::POST, "/api/v1/runs", Some(body));
        request.headers_mut().insert("idempotency-key", "k1".parse().expect("a key"));
        request
    };
    let (body, named) = (json!({ "definition": "hello" }), json!({ "definition": "hello", "id": "r1" }));
    let first = world.send(with_key(body.clone())).await.expect_status(202);
    world.run("hello", "r1").await;
    delete(&world, "/api/v1/definitions/hello").await.expect_status(200);
    let again = world.send(with_key(body)).await.expect_status(202);
    assert_eq!((&again["run"], &again["created"], &again["version"]), (&first["run"], &json!(false), &json!(1)));
    assert_eq!(world.post("/api/v1/runs", named.clone()).await.expect_status(202)["run"], "r1");
    assert_eq!(world.run("hello", "r1").await["status"], "succeeded", "a waiting caller gets the result");
    // A different request for the same id is a conflict and starts no run.
    for other in [
        json!({ "definition": "hello", "id": "r1", "input": { "a": 3 } }),
        json!({ "definition": "hello", "id": "r1", "version": 2 }),
        json!({ "definition": "helo", "id": "r1" }),
    ] {
        assert_eq!(world.post("/api/v1/runs", other).await.expect_status(409)["code"], "WND-3004");
    }
    world.post("/api/v1/runs", json!({ "definition": "hello", "id": "r2" })).await.expect_status(404);
    delete(&world, "/api/v1/runs/r1").await.expect_status(200);
    world.post("/api/v1/runs", named).await.expect_status(404);
}

#[tokio::test]
async fn runs_are_counted_by_status_and_listed_as_waiting_immediately() {
    let world = World::new();
    for text in [HELLO, BROKEN, WAITING_FLOW] {
        world.register(text).await;
    }
    for run in ["a", "b"] {
        world.run("hello", run).await;
    }
    world.run("broken", "c").await;
    world.start("asks", "d").await;
    let of = |counts: &Json| -> Vec<(String, u64)> {
        let items = counts["items"].as_array().expect("counts").iter();
        items
            .map(|one| (one["status"].as_str().unwrap_or_default().to_owned(), one["runs"].as_u64().unwrap_or(0)))
            .collect()
    };
    // The list shows this status too, not only the detail of the run.
    let begun = std::time::Instant::now();
    loop {
        let listed = world.get("/api/v1/runs?status=waiting").await.expect_status(200);
        if listed["items"][0]["run"] == "d" {
            break;
        }
        assert!(begun.elapsed() < HANG, "it is listed when it has left memory: {listed}");
        tokio::task::yield_now().await;
    }
    let counts = world.get("/api/v1/runs/counts").await.expect_status(200);
    let expected = [("waiting", 1), ("succeeded", 2), ("failed", 1)].map(|(status, runs)| (status.to_owned(), runs));
    assert_eq!(of(&counts), expected);
    assert_eq!(counts["items"][0]["more"], false);
    assert_eq!(of(&world.get("/api/v1/runs/counts?definition=hello").await.expect_status(200)), expected[1..2]);
    assert_eq!(of(&world.get("/api/v1/runs/counts?search=brok").await.expect_status(200)), expected[2..]);
    world.get("/api/v1/runs/counts?status=failed").await.expect_status(400);
    // A path with its own route is not a run id.
    world.post("/api/v1/runs", json!({ "definition": "hello", "id": "counts" })).await.expect_status(400);
}

#[tokio::test]
async fn events_of_one_path_are_found_among_many() {
    let world = World::new();
    world.register(&counting("count", 3_000)).await;
    world.run("count", "r1").await;
    let iteration =
        &world.get("/api/v1/runs/r1/iterations?loop=count&from=2500&limit=1").await.expect_status(200)["iterations"][0];
    let at = iteration["started_at"].as_str().expect("a time").to_owned();
    let pages = |query: String| {
        let world = &world;
        async move {
            let (mut found, mut after, mut requests) = (Vec::new(), 0, 0);
            loop {
                let page = world.get(&format!("/api/v1/runs/r1/events?after={after}&{query}")).await.expect_status(200);
                found.extend(page["items"].as_array().expect("items").clone());
                requests += 1;
                match page["next"].as_u64() {
                    Some(next) if next > after => after = next,
                    Some(next) => panic!("{next} comes after {after}"),
                    None => return (found, requests),
                }
            }
        }
    };
    let kinds = |found: &[Json]| {
        found.iter().map(|one| one["type"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let (all, _) = pages("path=count%5B2500%5D.add".to_owned()).await;
    assert_eq!(kinds(&all), ["step.started", "ctx.patched", "step.done"]);
    let (soon, _) = pages(format!("path=count%5B2500%5D.add&since={at}")).await;
    assert_eq!(soon, all, "from its beginning on");
    let (done, _) = pages("path=count%5B%5D.add&type=step.done,step.failed&limit=5000".to_owned()).await;
    assert_eq!(done.len(), 3_000, "of all iterations");
    let (iterations, _) = pages("path=count%5B2500%5D&limit=2".to_owned()).await;
    assert_eq!(iterations.len(), 5, "with what is inside: {iterations:?}");
    let first = world.get(&format!("/api/v1/runs/r1/events?since={at}&limit=1")).await.expect_status(200);
    assert!(first["items"][0]["at"].as_str() >= Some(at.as_str()), "{first}");
    assert_eq!(
        world.get("/api/v1/runs/r1/events?since=2999-01-01T00:00:00Z").await.expect_status(200),
        json!({ "items": [], "next": null })
    );
    world.get("/api/v1/runs/r1/events?since=yesterday").await.expect_status(400);
    let mut stream = request(Method::GET, "/api/v1/runs/r1/events?path=count", None);
    stream.headers_mut().insert("accept", "text/event-stream".parse().expect("a type"));
    world.send(stream).await.expect_status(400);
}
