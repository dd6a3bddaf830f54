//! Every limit of the server: a changed value takes effect, and the response names the limit. Each case is one row of a
//! table. The limits of rates, signatures, polls and catch-up are tested next to their code.

use std::time::Duration as StdDuration;

use axum::body::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_core::ServerLimits;
use windlass_server::{ServerOptions, serve};
use windlass_value::Duration;

use crate::world::{World, new_request};

/// The change that a case makes.
type Change = fn(&mut ServerLimits);

fn options(change: impl FnOnce(&mut ServerLimits)) -> ServerOptions {
    let mut limits = ServerLimits::default();
    change(&mut limits);
    ServerOptions {
        bind: ([127, 0, 0, 1], 0).into(),
        drain: StdDuration::from_secs(1),
        limits,
        ..ServerOptions::default()
    }
}

#[tokio::test]
async fn request_limits_apply() {
    let lease = json!({"worker": "w", "name": "w", "tools": ["a", "b"], "labels": {}, "slots": 1, "wait_ms": 0});
    let beat = json!({"worker": "w", "jobs": [], "wait_ms": 0});
    let progress = json!({"worker": "w", "run": "r", "job": 1, "lease_epoch": 1, "data": "abcdefghij"});
    let register = json!({"source": "{}", "labels": {"a": "1", "b": "2"}});
    let token = json!({"name": "one more", "scopes": ["read"]});
    let table: [(Change, &str, Value, &str); 6] = [
        (|l| l.max_body_bytes = 9, "/api/v1/worker/heartbeat", beat, "max_body_bytes"),
        (
            |l| l.max_start_wait = Duration::from_secs(1),
            "/api/v1/runs",
            json!({"definition": "x", "wait_ms": 2000}),
            "max_start_wait",
        ),
        (|l| l.max_tokens = 1, "/api/v1/tokens", token, "max_tokens"),
        (|l| l.max_worker_entries = 1, "/api/v1/worker/lease", lease, "max_worker_entries"),
        (|l| l.max_worker_event_bytes = 4, "/api/v1/worker/progress", progress, "max_worker_event_bytes"),
        (|l| l.max_labels = 1, "/api/v1/definitions", register, "max_labels"),
    ];
    for (change, path, body, name) in table {
        let named = format!("`server.{name}`");
        let (now, before) = (World::with(options(change)), World::new());
        let answer = now.post(path, body.clone()).await;
        assert!(answer.status.is_client_error() && answer.text().contains(&named), "{name}: {}", answer.text());
        let answer = before.post(path, body).await;
        assert!(!answer.text().contains(&named), "{name}: {}", answer.text());
    }
}

/// Returns how long the server keeps a connection open, and what it sends. Time is virtual.
async fn connection_lifetime(options: ServerOptions, sent: &str) -> (u64, String) {
    let world = World::with(options);
    let running = serve(world.app.clone()).await.unwrap();
    let began = tokio::time::Instant::now();
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(sent.replace("TOKEN", &world.first).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let seconds = began.elapsed().as_secs();
    running.stop().await.unwrap();
    (seconds, String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test(start_paused = true)]
async fn time_limits_apply() {
    let half = "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer TOKEN\r\n\
                content-type: application/json\r\ncontent-length: 100\r\n\r\n{\"na";
    let (late, response) = connection_lifetime(options(|l| l.max_request_time = Duration::from_secs(3)), half).await;
    assert!(
        response.starts_with("HTTP/1.1 408") && response.contains("`server.max_request_time`") && late < 30,
        "{late}: {response}"
    );
    let (late, response) = connection_lifetime(options(|l| l.max_response_time = Duration::from_secs(3)), half).await;
    assert!(
        response.starts_with("HTTP/1.1 408") && response.contains("`server.max_response_time`") && late < 30,
        "{late}: {response}"
    );
    let (late, _) =
        connection_lifetime(options(|l| l.max_head_time = Duration::from_secs(4)), "GET /healthz HTTP/1.1\r\nhost: l")
            .await;
    assert!(late < 9, "{late}");
    let (late, _) = connection_lifetime(options(|l| l.max_head_time = Duration::from_secs(4)), "").await;
    assert!(late < 4, "half of it for the first head: {late}");
}

#[tokio::test]
async fn head_limits_apply() {
    let ask = |headers: &str| format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    let many = ask("a: 1\r\nb: 1\r\nc: 1\r\n");
    let long = ask(&format!("a: {}\r\n", "x".repeat(9_000)));
    let table: [(Change, &str); 2] = [(|l| l.max_headers = 4, &many), (|l| l.max_head_bytes = 8_192, &long)];
    for (change, sent) in table {
        let (_, now) = connection_lifetime(options(change), sent).await;
        let (_, before) = connection_lifetime(options(|_| ()), sent).await;
        assert!(now.starts_with("HTTP/1.1 431") && before.starts_with("HTTP/1.1 200"), "{now} {before}");
    }
}

/// A client that sends requests repeatedly and reads nothing is disconnected.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let world = World::with(options(|l| l.max_client_stall_time = Duration::from_secs(4)));
    let running = serve(world.app.clone()).await.unwrap();
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let sent = "GET /api/v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let _ = tokio::time::timeout(StdDuration::from_secs(1), stream.write_all(sent.as_bytes())).await;
    let connections = || {
        let text = world.app.metrics.render(&world.app).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("windlass_connections ").map(str::to_owned));
        line.unwrap_or_default().trim().to_owned()
    };
    while connections() != "1" {
        tokio::task::yield_now().await;
    }
    let began = tokio::time::Instant::now();
    while connections() != "0" {
        assert!(began.elapsed() < StdDuration::from_secs(20), "it is kept for too long");
        tokio::time::sleep(StdDuration::from_secs(1)).await;
    }
    running.stop().await.unwrap();
}

/// A body that is announced as too large is rejected before it is sent.
#[tokio::test]
async fn a_body_announced_as_too_large_is_rejected() {
    let world = World::with(options(|l| l.max_body_bytes = 4));
    let mut request = new_request("POST", "/api/v1/tokens", Some(&world.first), Some(json!({})));
    *request.body_mut() = Body::from("[1, 2, 3]");
    assert_eq!(world.send(request).await.status.as_u16(), 413);
}
