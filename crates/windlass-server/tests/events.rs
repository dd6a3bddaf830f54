//! Event streams: every event once, from any start position, and an end.

use crate::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, header};
use common::{HELD, World, counting, in_time, request};
use http_body_util::BodyExt;
use serde_json::Value as Json;
use windlass_server::ServerOptions;
use windlass_store::MemoryStore;

const SSE: &str = "text/event-stream";
const NDJSON: &str = "application/x-ndjson";

fn stream_request(path: &str, accept: &str) -> Request<Body> {
    let mut request = request(Method::GET, path, None);
    request.headers_mut().insert(header::ACCEPT, accept.parse().expect("a type"));
    request
}

/// One message of a stream.
#[derive(Debug, Clone, PartialEq)]
struct Message {
    id: Option<u64>,
    event: String,
    data: Json,
}

fn messages(text: &str) -> Vec<Message> {
    let blocks = text.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
    blocks
        .map(|block| {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            Message {
                id: field("id").map(|id| id.parse().expect("a number")),
                event: field("event").unwrap_or_default().to_owned(),
                data: serde_json::from_str(field("data").unwrap_or("null")).expect("JSON"),
            }
        })
        .collect()
}

/// Returns the next chunk of a body.
async fn next_chunk(body: &mut Body) -> Option<String> {
    let frame = in_time(body.frame()).await?.expect("a frame");
    Some(String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text"))
}

#[tokio::test]
async fn a_reader_of_an_ended_run_gets_all_events_from_any_sequence_number_and_the_end() {
    let world = World::new();
    world.register(&counting("count", 5)).await;
    world.run("count", "r1").await;
    let all = messages(&world.send(stream_request("/api/v1/runs/r1/events", SSE)).await.text());
    let (end, events) = all.split_last().expect("messages");
    assert_eq!((end.event.as_str(), end.id, &end.data["status"]), ("end", None, &Json::from("succeeded")));
    let numbers: Vec<u64> = events.iter().filter_map(|message| message.id).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "each once, without a gap");
    assert_eq!(events[0].event, "playbook.execution_requested");
    for (message, number) in events.iter().zip(1u64..) {
        assert_eq!(
            (&message.data["seq"], &message.data["type"]),
            (&Json::from(number), &Json::from(message.event.as_str()))
        );
    }
    for after in 0..=events.len() {
        let by_query = format!("/api/v1/runs/r1/events?after={after}");
        let rest = messages(&world.send(stream_request(&by_query, SSE)).await.text());
        assert_eq!(rest[..rest.len() - 1], events[after..], "after {after}");
        // The `Last-Event-ID` header of a browser takes precedence over the query.
        let mut again = stream_request("/api/v1/runs/r1/events?after=0", SSE);
        again.headers_mut().insert("last-event-id", after.to_string().parse().expect("a number"));
        assert_eq!(messages(&world.send(again).await.text()), rest, "after {after}");
    }
    let lines = world.send(stream_request("/api/v1/runs/r1/events", NDJSON)).await.text();
    let lines: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), all.len());
    assert!(lines.iter().zip(&all).all(|(line, message)| *line == message.data));
    let page = world.get("/api/v1/runs/r1/events?after=2&limit=3").await.expect_status(200);
    assert_eq!((page["items"].as_array().map(Vec::len), &page["next"]), (Some(3), &Json::from(5)));
    assert_eq!(page["items"][0], events[2].data);
    world.get("/api/v1/runs/missing/events").await.expect_status(404);
    world.send(stream_request("/api/v1/runs/missing/events", SSE)).await.expect_status(404);
}

#[tokio::test]
async fn readers_of_a_live_run_get_new_events() {
    let world = World::new();
    world.register(HELD).await;
    world.start("held", "r1").await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let (status, _, body) = world.stream(stream_request("/api/v1/runs/r1/events", SSE)).await;
        assert_eq!(status, 200);
        readers.push(body);
    }
    let mut texts = vec![String::new(); readers.len()];
    for (body, text) in readers.iter_mut().zip(&mut texts) {
        text.push_str(&next_chunk(body).await.expect("the earlier events"));
    }
    world.open("gate");
    for (body, text) in readers.iter_mut().zip(&mut texts) {
        while let Some(more) = next_chunk(body).await {
            text.push_str(&more);
        }
        let all = messages(text);
        let numbers: Vec<u64> = all.iter().filter_map(|message| message.id).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert_eq!(all.last().map(|last| last.event.as_str()), Some("end"));
        assert_eq!(all[all.len() - 2].event, "workflow.finished");
    }
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), 1, "all readers get the same events");
}

#[tokio::test]
async fn a_reconnecting_reader_misses_nothing_and_gets_nothing_twice() {
    let world = Arc::new(World::new());
    world.register(&counting("count", 400)).await;
    world.start("count", "r1").await;
    let mut seen = Vec::new();
    loop {
        let after = seen.last().copied().unwrap_or(0u64);
        let (_, _, mut body) =
            world.stream(stream_request(&format!("/api/v1/runs/r1/events?after={after}"), SSE)).await;
        // One chunk of each connection, then it breaks.
        let Some(text) = next_chunk(&mut body).await else { continue };
        let all = messages(&text);
        seen.extend(all.iter().filter_map(|message| message.id));
        if all.iter().any(|message| message.event == "end") {
            break;
        }
    }
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>());
    assert!(seen.len() > 800);
}

#[tokio::test]
async fn a_stream_without_follow_ends_at_the_newest_event() {
    let world = World::new();
    world.register(HELD).await;
    world.start("held", "r1").await;
    let text = world.send(stream_request("/api/v1/runs/r1/events?follow=false", NDJSON)).await.text();
    assert!(!text.is_empty() && !text.contains("\"end\""), "{text}");
}

#[tokio::test]
async fn a_quiet_stream_sends_heartbeats() {
    let heartbeat = Duration::from_millis(20);
    let options = ServerOptions { heartbeat, ..ServerOptions::default() };
    let world = World::with(Arc::new(MemoryStore::new()), options);
    world.register(HELD).await;
    world.start("held", "r1").await;
    for (accept, expected) in [(SSE, ": heartbeat\n\n"), (NDJSON, "{\"type\":\"heartbeat\"}\n")] {
        let (_, _, mut body) = world.stream(stream_request("/api/v1/runs/r1/events?after=1000", accept)).await;
        for _ in 0..3 {
            assert_eq!(next_chunk(&mut body).await.as_deref(), Some(expected));
        }
    }
    let (_, _, mut body) = world.stream(stream_request("/api/v1/runs/changes", SSE)).await;
    assert_eq!(next_chunk(&mut body).await.as_deref(), Some(": heartbeat\n\n"));
}

#[tokio::test]
async fn run_changes_are_streamed_as_they_happen() {
    let world = World::new();
    world.register(HELD).await;
    let (_, headers, mut body) = world.stream(stream_request("/api/v1/runs/changes", SSE)).await;
    assert_eq!(headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()), Some(SSE));
    let mut received = String::new();
    // The watch begins with its first reader: a run that starts later is reported.
    world.start("held", "r1").await;
    while !received.contains("\"status\":\"running\"") {
        received.push_str(&next_chunk(&mut body).await.expect("a change"));
    }
    world.open("gate");
    while !received.contains("\"status\":\"succeeded\"") {
        received.push_str(&next_chunk(&mut body).await.expect("a change"));
    }
    let last = messages(&received).pop().expect("a message");
    assert_eq!(
        (last.event.as_str(), &last.data["run"], &last.data["version"]),
        ("run", &Json::from("r1"), &Json::from(1))
    );
}

/// The death of another process changes nothing in the store, and is reported all the same.
#[tokio::test]
async fn the_death_of_a_process_is_a_change_of_its_runs() {
    let store = Arc::new(windlass_store::MemoryStore::new());
    let world = World::on(store.clone());
    let other = windlass_store::StoreOwners::open_owner(&*store).expect("an owner");
    let create = windlass_store::NewRun {
        execution_id: 1,
        plan: windlass_value::BlobHash([7; 32]),
        definition: "elsewhere".to_owned(),
        dialect: "rust".to_owned(),
        owner: Some(other.name.clone()),
        created_at: windlass_value::Timestamp(1),
        parent: None,
        cancel_request_id: None,
        max_tree_runs: u64::MAX,
        options: Vec::new(),
        labels: Default::default(),
    };
    let status = windlass_store::RunStatus::Running;
    let status = windlass_store::StatusChange { status, at: windlass_value::Timestamp(1), result: None };
    let batch = windlass_store::RunBatch {
        run: "r1".into(),
        owner_epoch: 1,
        create: Some(create),
        status: Some(status),
        ..windlass_store::RunBatch::default()
    };
    windlass_store::StoreWrite::append(&*store, vec![batch]).expect("written");
    let (_, _, mut body) = world.stream(stream_request("/api/v1/runs/changes", SSE)).await;
    // The watch has read the store once it reports a later run.
    world.register(HELD).await;
    world.start("held", "r2").await;
    let mut received = String::new();
    while !received.contains("\"run\":\"r2\"") {
        received.push_str(&next_chunk(&mut body).await.expect("a change"));
    }
    drop(other);
    while !received.contains("\"status\":\"interrupted\"") {
        received.push_str(&next_chunk(&mut body).await.expect("a change"));
    }
    let changed = messages(&received).into_iter().find(|message| message.data["status"] == "interrupted");
    assert_eq!(changed.expect("a message").data["run"], "r1");
}

#[tokio::test]
async fn a_stopping_server_announces_it_in_every_stream() {
    let world = World::new();
    world.register(HELD).await;
    world.start("held", "r1").await;
    let table = [
        ("/api/v1/runs/r1/events?after=1000", SSE, "event: closing\ndata: {\"type\":\"closing\"}\n\n"),
        ("/api/v1/runs/r1/events?after=1000", NDJSON, "{\"type\":\"closing\"}\n"),
        ("/api/v1/runs/changes", SSE, "event: closing\ndata: {\"type\":\"closing\"}\n\n"),
    ];
    let mut bodies = Vec::new();
    for (path, accept, _) in table {
        bodies.push(world.stream(stream_request(path, accept)).await.2);
    }
    world.app.drain();
    world.app.engine.close().await;
    for (mut body, (path, _, expected)) in bodies.into_iter().zip(table) {
        let mut received = String::new();
        while let Some(more) = next_chunk(&mut body).await {
            received.push_str(&more);
        }
        assert!(received.ends_with(expected), "{path}: {received}");
    }
}

#[tokio::test]
async fn an_impossible_filter_is_an_error_and_not_an_empty_result() {
    let world = World::new();
    world.register(&counting("count", 3)).await;
    world.run("count", "r1").await;
    world.register(HELD).await;
    world.start("held", "r2").await;
    let steps = "GET /api/v1/runs/r1/steps lists the steps that have started";
    let table = [
        ("r1/steps?parent=zz", 404, steps),
        ("r1/steps?parent=cuont", 404, "did you mean `count`?"),
        ("r1/steps?parent=count%5B1%5D.ad", 404, "did you mean `add`?"),
        ("r1/steps?parent=count%5B1%5D.add", 200, ""),
        ("r1/steps?parent=count%5B99%5D", 200, ""),
        ("r2/steps?parent=wait", 200, ""),
        ("r1/events?path=zz", 404, steps),
        ("r1/events?path=cuont%5B%5D", 404, "did you mean `count`?"),
        ("r1/events?path=count%5B99%5D", 200, ""),
        ("r1/events?type=zz", 400, "docs/events.md lists the types"),
        ("r1/events?type=step.dome", 400, "did you mean `step.done`?"),
        ("r1/events?type=step.done,stepdone", 200, ""),
        ("r1/events?type=loop.judged", 200, ""),
        ("r2/events?type=step.zzzzzz", 400, "docs/events.md lists the types"),
        ("r2/events?type=stp.done", 400, "did you mean `step.done`?"),
        // A worker may still publish this type.
        ("r2/events?type=render.frame", 200, ""),
        ("r2/events?type=agent.tool", 200, ""),
        ("r2/events?type=", 200, ""),
    ];
    for (path, status, hint) in table {
        let answer = world.get(&format!("/api/v1/runs/{path}")).await.expect_status(status);
        let given = answer["hint"].as_str().unwrap_or_default();
        assert!(given.contains(hint) && given.is_empty() == hint.is_empty(), "{path}: {answer}");
    }
}
