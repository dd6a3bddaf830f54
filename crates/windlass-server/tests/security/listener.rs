//! Connections: what one may cost. Time is virtual where something takes too long.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_server::{Running, ServerOptions, StartError, serve};

use crate::world::World;

fn anywhere() -> ServerOptions {
    ServerOptions { bind: ([127, 0, 0, 1], 0).into(), drain: Duration::from_secs(1), ..ServerOptions::default() }
}

async fn running(options: ServerOptions) -> (World, Running) {
    let world = World::with(options);
    let running = serve(world.app.clone()).await.unwrap();
    (world, running)
}

/// Sends all of it, and reads until the other end has closed.
async fn exchange(running: &Running, sent: &str) -> String {
    exchange_at(running.address, sent).await
}

async fn exchange_at(address: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is broken off has said what it had to say.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn no_server_without_tokens_for_other_machines() {
    let world = World::with(ServerOptions { bind: ([0, 0, 0, 0], 0).into(), open: true, ..anywhere() });
    let Err(error) = serve(world.app.clone()).await else { panic!("it listens to everybody") };
    assert!(matches!(error, StartError::Bind(_)));
    assert!(error.to_string().contains("nobody would be asked for a token"), "{error}");
    assert!(error.hint().contains("--no-auth"));
}

#[tokio::test]
async fn requests_one_after_another_on_one_connection() {
    let (world, running) = running(anywhere()).await;
    let first = &world.first;
    let sent = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n\
         GET /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {first}\r\n\r\n\
         GET /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    );
    let answer = exchange(&running, &sent).await;
    let statuses: Vec<&str> = answer.matches("HTTP/1.1 ").collect();
    assert_eq!(statuses.len(), 3, "{answer}");
    let (ok, refused) = (answer.find("HTTP/1.1 200").unwrap(), answer.find("HTTP/1.1 401").unwrap());
    assert!(ok < refused && answer.matches("HTTP/1.1 200").count() == 2, "a token is for one request: {answer}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn heads_have_bounds() {
    let (_world, running) = running(anywhere()).await;
    let many: String = (0..100).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "a".repeat(40 * 1024));
    for headers in [many, long] {
        let answer = exchange(&running, &format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_sends_slowly_is_let_go() {
    let (world, running) = running(anywhere()).await;
    let head = exchange(&running, "GET /healthz HTTP/1.1\r\nhost: local").await;
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    let idle = exchange(&running, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(idle.starts_with("HTTP/1.1 200"), "{idle}");
    let token = &world.first;
    let body = exchange(
        &running,
        &format!(
            "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"na"
        ),
    )
    .await;
    assert!(body.starts_with("HTTP/1.1 408") && body.contains("WND-3016"), "{body}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn one_connection_too_many_is_told() {
    let (_world, running) = running(ServerOptions { connections_max: 2, ..anywhere() }).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut begin = [0u8; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        open.push(stream);
    }
    let refused = exchange(&running, "").await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    drop(open);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn who_asks_is_in_the_audit_log() {
    let (world, running) = running(anywhere()).await;
    let body = r#"{"name":"x","scopes":["read"]}"#;
    let sent = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        world.first,
        body.len()
    );
    let answer = exchange(&running, &sent).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let log = std::fs::read_to_string(world.directory.path().join("audit.log")).unwrap();
    assert!(log.contains("\"from\":\"127.0.0.1:"), "{log}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn while_it_stops_whoever_comes_is_told() {
    let (world, running) = running(ServerOptions { drain: Duration::from_secs(30), ..anywhere() }).await;
    let (address, body) = (running.address, r#"{"name":"x","scopes":["read"]}"#);
    let post = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        world.first,
        body.len()
    );
    // A request is under way: somebody wants its body.
    let mut under_way = TcpStream::connect(address).await.unwrap();
    under_way.write_all(format!("{post}expect: 100-continue\r\n\r\n").as_bytes()).await.unwrap();
    let mut begin = [0u8; 12];
    under_way.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 100");
    let stopped = tokio::spawn(running.stop());
    world.app.draining().wait_for(|draining| *draining).await.unwrap();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let table = [
        (get("/healthz"), "HTTP/1.1 200", "\"ok\""),
        (get("/readyz"), "HTTP/1.1 503", "about to stop"),
        (format!("{post}\r\n{body}"), "HTTP/1.1 503", "retry-after: 5"),
    ];
    for (sent, status, part) in table {
        let answer = exchange_at(address, &sent).await;
        assert!(answer.starts_with(status) && answer.contains(part), "{sent}: {answer}");
    }
    under_way.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    under_way.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("HTTP/1.1 201"), "{answer}");
    stopped.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
