//! Connections and their resource limits. Time is virtual where something takes too long.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_server::{RunningServer, ServerOptions, StartError, serve};

use crate::world::World;

fn loopback_options() -> ServerOptions {
    ServerOptions { bind: ([127, 0, 0, 1], 0).into(), drain: Duration::from_secs(1), ..ServerOptions::default() }
}

async fn running(options: ServerOptions) -> (World, RunningServer) {
    let world = World::with(options);
    let running = serve(world.app.clone()).await.unwrap();
    (world, running)
}

/// Sends the text, and reads until the peer has closed.
async fn exchange(running: &RunningServer, sent: &str) -> String {
    exchange_at(running.address, sent).await
}

async fn exchange_at(address: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is reset may still have delivered its response.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_server_without_tokens_binds_only_to_loopback() {
    let world = World::with(ServerOptions { bind: ([0, 0, 0, 0], 0).into(), no_auth: true, ..loopback_options() });
    let Err(error) = serve(world.app.clone()).await else { panic!("it listens on all addresses") };
    assert!(matches!(error, StartError::Bind(_)));
    assert!(error.to_string().contains("would accept every request without a token"), "{error}");
    assert!(error.hint().contains("--no-auth"));
}

#[tokio::test]
async fn requests_one_after_another_on_one_connection() {
    let (world, running) = running(loopback_options()).await;
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
async fn request_heads_are_limited() {
    let (_world, running) = running(loopback_options()).await;
    let many: String = (0..100).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "a".repeat(40 * 1024));
    for headers in [many, long] {
        let answer = exchange(&running, &format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_sender_is_disconnected() {
    let (world, running) = running(loopback_options()).await;
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

/// A silent connection occupies a slot for a while, and yields it when others need it.
#[tokio::test(start_paused = true)]
async fn silent_connections_block_no_client() {
    let (world, running) = running(ServerOptions { max_connections: 8, ..loopback_options() }).await;
    let mut silent = Vec::new();
    for _ in 0..30 {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    let ask = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    for _ in 0..10 {
        let answer = exchange(&running, ask).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let metrics = world.app.metrics.render(&world.app).unwrap();
    assert!(metrics.contains("windlass_connections_refused_total 0"), "{metrics}");
    // The newest of them was not evicted; it is closed for its silence, long before a connection that has sent a
    // request would be.
    let began = tokio::time::Instant::now();
    let mut last = silent.pop().unwrap();
    assert_eq!(last.read_to_end(&mut Vec::new()).await.unwrap_or(0), 0);
    assert!((5..15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    running.stop().await.unwrap();
}

/// Responses that are requested repeatedly and never read are not buffered, and their reader is disconnected.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let (world, running) = running(loopback_options()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let sent = "GET /api/v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let writing = async { stream.write_all(sent.as_bytes()).await };
    let _ = tokio::time::timeout(Duration::from_secs(1), writing).await;
    let metric = |name: &str| {
        let text = world.app.metrics.render(&world.app).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name).map(|rest| rest.trim().to_owned())).unwrap_or_default()
    };
    while metric("windlass_connections ") != "1" {
        tokio::task::yield_now().await;
    }
    let began = tokio::time::Instant::now();
    while metric("windlass_connections ") != "0" {
        assert!(began.elapsed() < Duration::from_secs(60), "it is kept for ever");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() > Duration::from_secs(20), "{:?}", began.elapsed());
    running.stop().await.unwrap();
}

#[tokio::test]
async fn one_connection_too_many_is_rejected_with_a_response() {
    let (world, running) = running(ServerOptions { max_connections: 2, ..loopback_options() }).await;
    let mut open = Vec::new();
    let token = &world.first;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let sent =
            format!("GET /api/v1/runs/changes HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut begin = [0u8; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        open.push(stream);
    }
    let refused = exchange(&running, "").await;
    let is_explained =
        refused.contains("retry-after: 5") && refused.contains("WND-3012") && refused.contains("\"hint\"");
    assert!(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n") && is_explained, "{refused}");
    drop(open);
    running.stop().await.unwrap();
}

/// Raw requests, and the beginning and content of each response. Nothing may be answered after an ambiguous request.
#[tokio::test]
async fn malformed_requests_are_rejected() {
    let (world, running) = running(loopback_options()).await;
    let token = &world.first;
    let to = |line: &str| format!("{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n");
    let post = format!("{}content-type: application/json\r\n", to("POST /api/v1/tokens"));
    let body = r#"{"name":"x","scopes":["read"]}"#;
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let next = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let length = body.len();
    let long = "a".repeat(30_000);
    let close = "connection: close\r\n\r\n";
    let table: Vec<(&str, String, &str, &str)> = vec![
        (
            "a length and chunks",
            format!("{post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n{chunked}{next}"),
            "201",
            "connection: close",
        ),
        (
            "chunks and a length",
            format!("{post}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n{chunked}{next}"),
            "201",
            "connection: close",
        ),
        (
            "chunks alone",
            format!("{post}transfer-encoding: chunked\r\n\r\n{chunked}{next}"),
            "201",
            "connection: close",
        ),
        (
            "chunks in another coding",
            format!("{post}transfer-encoding: gzip, chunked\r\n\r\n{chunked}{next}"),
            "400",
            "only `chunked` is accepted",
        ),
        (
            "chunks twice",
            format!("{post}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n{chunked}{next}"),
            "400",
            "only `chunked` is accepted",
        ),
        ("not chunks at the end", format!("{post}transfer-encoding: chunked, gzip\r\n\r\n{chunked}{next}"), "400", ""),
        ("two lengths", format!("{post}content-length: 5\r\ncontent-length: 6\r\n\r\n{body}{next}"), "400", ""),
        ("a length that is none", format!("{post}content-length: +5\r\n\r\n{body}{next}"), "400", ""),
        (
            "chunks in HTTP/1.0",
            format!("{}transfer-encoding: chunked\r\n\r\n{chunked}", post.replace("1.1", "1.0")),
            "400",
            "",
        ),
        ("a space before the colon", format!("GET /healthz HTTP/1.1\r\nhost : localhost\r\n{close}"), "400", ""),
        (
            "a folded header line",
            format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\r\n b\r\n{close}"),
            "400",
            "",
        ),
        ("a NUL in a header", format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n{close}"), "400", ""),
        ("no host", format!("GET /healthz HTTP/1.1\r\n{close}"), "400", "the request has no `Host` header"),
        ("no host, as long ago", "GET /healthz HTTP/1.0\r\n\r\n".to_owned(), "200", "\"ok\""),
        (
            "another host",
            format!("GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n{close}"),
            "421",
            "WND-3013",
        ),
        (
            "its own host",
            format!("GET http://localhost/healthz HTTP/1.1\r\nhost: localhost\r\n{close}"),
            "200",
            "\"ok\"",
        ),
        ("a tunnel", format!("CONNECT localhost:22 HTTP/1.1\r\nhost: localhost\r\n{close}"), "404", "WND-3003"),
        (
            "a tunnel elsewhere",
            format!("CONNECT evil.example:22 HTTP/1.1\r\nhost: localhost\r\n{close}"),
            "421",
            "WND-3013",
        ),
        ("all of it", format!("OPTIONS * HTTP/1.1\r\nhost: localhost\r\n{close}"), "404", "WND-3003"),
        ("its methods", format!("{}{close}", to("OPTIONS /api/v1/runs")), "405", "allow: POST,GET,HEAD"),
        ("a trace", format!("{}{close}", to("TRACE /api/v1/runs")), "405", "WND-3015"),
        ("another protocol", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "", ""),
        ("no protocol", "hello\r\n\r\n".to_owned(), "400", ""),
        ("a long query", format!("{}{close}", to(&format!("GET /api/v1/runs?search={long}"))), "200", "items"),
        ("a longer query", format!("{}{close}", to(&format!("GET /api/v1/runs?search={long}{long}{long}"))), "4", ""),
        ("a slash at the end", format!("{}{close}", to("GET /api/v1/runs/")), "404", "WND-3003"),
        ("a NUL in an id", format!("{}{close}", to("GET /api/v1/runs/a%00b")), "404", "WND-3003"),
        ("a slash in an id", format!("{}{close}", to("GET /api/v1/runs/a%2Fb")), "404", "WND-3003"),
        ("no text in an id", format!("{}{close}", to("GET /api/v1/runs/a%ff")), "400", "WND-3000"),
        (
            "no text in a worker",
            format!("{}content-length: 0\r\n{close}", to("POST /api/v1/workers/%ff/drain")),
            "400",
            "WND-3000",
        ),
        ("a NUL in a token", format!("{}{close}", to("DELETE /api/v1/tokens/a%00b")), "404", "WND-3003"),
        (
            "a packed body",
            format!("{post}content-encoding: gzip\r\ncontent-length: {length}\r\n{close}{body}"),
            "415",
            "unsupported Content-Encoding `gzip`",
        ),
        (
            "a large body that is not sent yet",
            format!("{post}expect: 100-continue\r\ncontent-length: 99999999\r\n\r\n"),
            "413",
            "WND-3005",
        ),
        (
            "an unauthenticated body that is not sent yet",
            format!("{}expect: 100-continue\r\ncontent-length: {length}\r\n\r\n", post.replace(token.as_str(), "wl_x")),
            "401",
            "WND-3001",
        ),
        (
            "a part of the web UI",
            format!("GET / HTTP/1.1\r\nhost: localhost\r\nrange: bytes=0-9,5-20,-1\r\n{close}"),
            "200",
            "<!doctype html>",
        ),
        ("the head of the web UI", format!("HEAD / HTTP/1.1\r\nhost: localhost\r\n{close}"), "200", "content-length"),
        ("the head of a stream", format!("{}{close}", to("HEAD /api/v1/runs/changes")), "200", "text/event-stream"),
        (
            "two numbers of events",
            format!("{}last-event-id: 1\r\nlast-event-id: 2\r\n{close}", to("GET /api/v1/runs/x/events")),
            "400",
            "Last-Event-ID",
        ),
    ];
    let mut wrong = Vec::new();
    for (what, sent, status, part) in table {
        let answer = exchange(&running, &sent).await;
        let fits = answer.is_empty() && status.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status}"));
        let fits = fits || answer.starts_with(&format!("HTTP/1.0 {status}"));
        let fits = fits && answer.to_lowercase().contains(&part.to_lowercase());
        // A second response would mean that the text after the request was parsed as another request, although another
        // parser may have taken it for part of the body.
        let one = answer.lines().filter(|line| line.starts_with("HTTP/1.")).count() <= 1;
        if !(fits && one) {
            wrong.push(format!("{what}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // Two requests on one connection; the second follows the body of a rejected one.
    let twice = format!("{}content-length: {length}\r\n\r\n{body}{next}", post.replace(token.as_str(), "wl_x"));
    let answer = exchange(&running, &twice).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    running.stop().await.unwrap();
}

/// A bare line feed ends a line for some parsers and not for others. Nothing after it may be taken for a request.
#[tokio::test]
async fn bare_line_feeds_are_rejected() {
    let (world, running) = running(loopback_options()).await;
    let token = &world.first;
    let post = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\n"
    );
    let body = r#"{"name":"x","scopes":["read"]}"#;
    let (chunked, size, length) = (format!("{post}transfer-encoding: chunked\r\n\r\n"), body.len(), body.len() + 1);
    let table = [
        ("in front of the request", "\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned()),
        ("after the request line", "GET /healthz HTTP/1.1\nhost: localhost\r\n\r\n".to_owned()),
        ("after a header", "GET /healthz HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n".to_owned()),
        ("after the headers", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\n".to_owned()),
        ("everywhere", "GET /healthz HTTP/1.1\nhost: localhost\n\n".to_owned()),
        ("a hidden length", format!("{post}x: y\ncontent-length: {size}\r\n\r\n{body}")),
        ("after the size of a chunk", format!("{chunked}{size:x}\n{body}\r\n0\r\n\r\n")),
        ("in an extension of a chunk", format!("{chunked}{size:x};x\n\r\n{body}\r\n0\r\n\r\n")),
        ("after a chunk", format!("{chunked}{size:x}\r\n{body}\n0\r\n\r\n")),
        ("after the last chunk", format!("{chunked}{size:x}\r\n{body}\r\n0\n\r\n")),
        ("in a trailer", format!("{chunked}{size:x}\r\n{body}\r\n0\r\nx: y\nz: 1\r\n\r\n")),
        ("after the trailers", format!("{chunked}{size:x}\r\n{body}\r\n0\r\nx: y\r\n\n")),
    ];
    let next = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    for (what, sent) in table {
        let answer = exchange(&running, &format!("{sent}{next}")).await;
        let is_single = answer.matches("HTTP/1.").count() == 1;
        assert!(answer.starts_with("HTTP/1.1 400") && is_single, "{what}: {answer}");
    }
    assert_eq!(world.get("/api/v1/tokens").await.json()["items"].as_array().map(Vec::len), Some(1), "nothing is made");
    // In a body they are data, and the next request begins where the body ends.
    let answer = exchange(&running, &format!("{post}content-length: {length}\r\n\r\n\n{body}{next}")).await;
    assert!(answer.starts_with("HTTP/1.1 201") && answer.contains("HTTP/1.1 200"), "{answer}");
    let packets = format!("{chunked}1\r\n\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n");
    let answer = exchange(&running, &packets).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn hostile_idempotency_keys_are_rejected() {
    let (world, running) = running(loopback_options()).await;
    let body = r#"{"definition":"nothing"}"#;
    let long = "k".repeat(257);
    let table = [
        ("idempotency-key: a\r\nidempotency-key: b", "400", "more than one"),
        ("idempotency-key: ", "400", "1 to 256"),
        ("idempotency-key: \u{e4}", "400", "1 to 256"),
        (&*format!("idempotency-key: {long}"), "400", "1 to 256"),
        ("idempotency-key: ../../x", "404", "nothing"),
        ("idempotency-key: a, b;c=\"d\"", "404", "nothing"),
    ];
    for (line, status, part) in table {
        let answer = exchange(&running, &format!(
            "POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n{line}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", world.first, body.len())).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(part), "{line}: {answer}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_client_address_is_in_the_audit_log() {
    let (world, running) = running(loopback_options()).await;
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
async fn new_requests_are_rejected_while_the_server_stops() {
    let (world, running) = running(ServerOptions { drain: Duration::from_secs(30), ..loopback_options() }).await;
    let (address, body) = (running.address, r#"{"name":"x","scopes":["read"]}"#);
    let post = format!(
        "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        world.first,
        body.len()
    );
    // A request is in flight: the handler waits for its body.
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
        (get("/readyz"), "HTTP/1.1 503", "shutting down"),
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
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}
