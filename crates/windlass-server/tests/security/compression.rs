//! Compression: what is compressed, what is not, and the size of the first view of the web UI.

use std::io::Read;

use axum::http::StatusCode;
use flate2::read::GzDecoder;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_server::auth::TokenScope;
use windlass_server::{RunningServer, ServerOptions, serve};

use crate::world::{TestResponse, World, new_request};

/// As Chromium sends it to localhost and over TLS.
const BROWSER: &str = "gzip, deflate, br, zstd";

/// The goal for everything that the browser receives for the first view, heads included.
const MAX_FIRST_VIEW_BYTES: usize = 100_000;

async fn ask(world: &World, method: &str, path: &str, accepted: Option<&str>) -> TestResponse {
    let body = (method == "POST").then(|| json!({ "name": "x".repeat(100), "scopes": ["read"] }));
    let mut request = new_request(method, path, Some(&world.first), body);
    if let Some(accepted) = accepted {
        request.headers_mut().insert("accept-encoding", accepted.parse().unwrap());
    }
    world.send(request).await
}

fn token_names(body: &[u8]) -> Vec<String> {
    let listed: serde_json::Value = serde_json::from_slice(body).unwrap();
    let tokens = listed["items"].as_array().unwrap();
    assert_eq!(tokens.len(), 31);
    tokens.iter().map(|token| token["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn large_responses_are_compressed_if_the_client_accepts_it() {
    let world = World::new();
    for _ in 0..30 {
        world.token(&[TokenScope::Read]);
    }
    for path in ["/api/v1/openapi.json", "/api/v1/tokens", "/metrics"] {
        let plain = ask(&world, "GET", path, None).await;
        assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "accept-encoding"), "{path}");
        let packed = ask(&world, "GET", path, Some(BROWSER)).await;
        assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "accept-encoding"), "{path}");
        let mut text = Vec::new();
        GzDecoder::new(&packed.body[..]).read_to_end(&mut text).unwrap();
        assert!(packed.body.len() * 2 < text.len(), "{path}: {} of {}", packed.body.len(), text.len());
        match path {
            "/api/v1/openapi.json" => assert_eq!(text, plain.body, "{path}"),
            // The requests of this test change `last_used`.
            "/api/v1/tokens" => assert_eq!(token_names(&text), token_names(&plain.body), "{path}"),
            _ => assert!(text.starts_with(b"# "), "{path}"),
        }
        let refused = ask(&world, "GET", path, Some("gzip;q=0, identity")).await;
        assert_eq!(refused.header("content-encoding"), "", "{path}");
    }
}

/// Secrets beside text of the caller, event streams, small responses and errors are sent as they are.
#[tokio::test]
async fn secrets_and_streams_are_not_compressed() {
    let world = World::new();
    let cases = [
        ("POST", "/api/v1/tokens", StatusCode::CREATED),
        ("GET", "/api/v1/session", StatusCode::OK),
        ("POST", "/api/v1/session", StatusCode::CREATED),
        ("GET", "/api/v1/runs/changes", StatusCode::OK),
        ("GET", "/healthz", StatusCode::OK),
        ("GET", "/api/v1/nowhere", StatusCode::NOT_FOUND),
    ];
    for (method, path, status) in cases {
        let answer = ask(&world, method, path, Some(BROWSER)).await;
        assert_eq!((answer.status, answer.header("content-encoding")), (status, ""), "{method} {path}");
    }
}

/// Returns the response and the number of bytes on the wire.
async fn transfer(running: &RunningServer, token: &str, path: &str) -> (String, usize) {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: {BROWSER}\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(text.starts_with("HTTP/1.1 200"), "{path}: {text}");
    (text, answer.len())
}

#[tokio::test]
async fn the_first_view_is_small() {
    let options = ServerOptions { bind: ([127, 0, 0, 1], 0).into(), ..ServerOptions::default() };
    let world = World::with(options);
    let running = serve(world.app.clone()).await.unwrap();
    let document = world.send(new_request("GET", "/runs", None, None)).await.text();
    let assets = document.split('"').filter(|part| part.starts_with("/assets/") || *part == "/favicon.svg");
    let calls = ["/runs", "/api/v1/session", "/api/v1/approvals", "/api/v1/runs?limit=100", "/api/v1/runs/counts"];
    let mut sizes = Vec::new();
    for path in calls.into_iter().chain(assets).chain(["/api/v1/definitions?limit=500"]) {
        sizes.push((path, transfer(&running, &world.first, path).await.1));
    }
    let total: usize = sizes.iter().map(|(_, size)| size).sum();
    assert!(sizes.len() > 8, "the document has lost its assets: {sizes:?}");
    assert!(total <= MAX_FIRST_VIEW_BYTES, "{total} bytes: {sizes:?}");
    running.stop().await.unwrap();
}
