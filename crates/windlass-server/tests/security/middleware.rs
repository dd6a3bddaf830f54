//! Checks that every request passes: host names, rates, limits, headers, metrics.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass_core::ServerLimits;
use windlass_server::auth::{Allowed, Public, Read, TokenScope};
use windlass_server::{App, ServerOptions, with_layers};

use crate::world::{World, new_request, with_peer_address};

/// A server with routes that real servers do not have.
fn with_routes(options: ServerOptions) -> World {
    let world = World::with(options);
    let routes: axum::Router<App> = axum::Router::new()
        .route("/panics", get(panics))
        .route("/stream", get(stream))
        .route("/takes", post(|_: Public, _: Json<Value>| async { "taken" }))
        .route("/api/v1/hooks/{definition}/{trigger}", post(|_: Public| async { "delivered" }));
    World { routes: with_layers(routes, world.app.clone()), ..world }
}

async fn panics(_: Public) {
    panic!("a secret");
}

/// A stream that never ends.
async fn stream(_: Allowed<Read>) -> impl IntoResponse {
    let frames = http_body_util::StreamBody::new(Endless);
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(frames))
}

struct Endless;

impl futures_core::Stream for Endless {
    type Item = Result<http_body::Frame<bytes::Bytes>, Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}

#[tokio::test]
async fn a_foreign_host_name_is_rejected() {
    let world = World::new();
    let hosts = [
        ("localhost:7117", StatusCode::OK),
        ("127.0.0.1:1", StatusCode::OK),
        ("[::1]", StatusCode::OK),
        ("evil.example:7117", StatusCode::MISDIRECTED_REQUEST),
        ("localhost.evil.example", StatusCode::MISDIRECTED_REQUEST),
    ];
    for path in ["/healthz", "/api/v1/tokens"] {
        for (host, expected) in hosts {
            let mut request = new_request("GET", path, Some(&world.first), None);
            request.headers_mut().insert(header::HOST, host.parse().unwrap());
            let answer = world.send(request).await;
            assert_eq!(answer.status, expected, "{host} {path}");
            assert!(expected.is_success() || answer.is_problem());
        }
    }
    let absolute = new_request("GET", "http://evil.example/healthz", None, None);
    assert_eq!(world.send(absolute).await.status, StatusCode::MISDIRECTED_REQUEST);
    let mut twice = new_request("GET", "/healthz", None, None);
    twice.headers_mut().append(header::HOST, "localhost".parse().unwrap());
    assert_eq!(world.send(twice).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_cross_origin_page_changes_nothing() {
    let world = World::new();
    let post = |origin: &str| {
        let body = json!({ "name": "x", "scopes": ["read"] });
        let mut request = new_request("POST", "/api/v1/tokens", Some(&world.first), Some(body));
        request.headers_mut().insert(header::ORIGIN, origin.parse().unwrap());
        request
    };
    assert_eq!(world.send(post("http://localhost:7117")).await.status, StatusCode::CREATED);
    for origin in ["http://evil.example", "null", "http://localhost:1", "https://localhost:7117.evil.example"] {
        assert_eq!(world.send(post(origin)).await.status, StatusCode::FORBIDDEN, "{origin}");
    }
    let mut preflight = new_request("OPTIONS", "/api/v1/tokens", None, None);
    preflight.headers_mut().insert(header::ORIGIN, "http://evil.example".parse().unwrap());
    preflight.headers_mut().insert("access-control-request-method", "POST".parse().unwrap());
    let answer = world.send(preflight).await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")));
}

#[tokio::test]
async fn every_response_has_its_headers() {
    let world = World::new();
    let requests = [
        new_request("GET", "/healthz", None, None),
        new_request("GET", "/api/v1/tokens", Some(&world.first), None),
        new_request("GET", "/api/v1/tokens", None, None),
        new_request("GET", "/api/v1/nowhere", None, None),
        new_request("PUT", "/healthz", None, None),
        new_request("GET", "http://evil.example/", None, None),
    ];
    for request in requests {
        let shown = format!("{} {}", request.method(), request.uri());
        let answer = world.send(request).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{shown}");
        assert_eq!(answer.header("cache-control"), "no-store", "{shown}");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{shown}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{shown}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{shown}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{shown}");
    }
}

#[tokio::test]
async fn one_token_has_a_rate_limit() {
    // However slow the machine is, it sends more than one request a second.
    let world = World::with(ServerOptions { rate_per_second: 1, ..ServerOptions::default() });
    let mut limited = None;
    for _ in 0..100 {
        limited = Some(world.get("/metrics").await).filter(|answer| answer.status == StatusCode::TOO_MANY_REQUESTS);
        if limited.is_some() {
            break;
        }
    }
    let limited = limited.expect("one of them is too many");
    assert!(limited.is_problem());
    assert_eq!((limited.header("retry-after"), &limited.json()["code"]), ("1", &json!("WND-3006")));
    // Another token has its own rate.
    let (_, other) = world.token(&[TokenScope::Read]);
    assert_eq!(world.send(new_request("GET", "/metrics", Some(&other), None)).await.status, StatusCode::OK);
}

/// Returns whether one of many consecutive requests is rate limited. A slow machine, too, sends more than one a
/// second.
async fn is_rate_limited(ask: impl AsyncFn(u32) -> StatusCode) -> bool {
    for number in 0..200 {
        if ask(number).await == StatusCode::TOO_MANY_REQUESTS {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_guessing_client_is_rate_limited_and_others_are_not() {
    let world = World::new();
    let guess = |address: &str| with_peer_address(new_request("GET", "/metrics", Some("wl_guess"), None), address);
    assert_eq!(world.send(guess("10.0.0.1")).await.status, StatusCode::UNAUTHORIZED);
    let slowed = is_rate_limited(async |_| world.send(guess("10.0.0.1")).await.status).await;
    assert!(slowed, "guessing is rate limited");
    let right = with_peer_address(new_request("GET", "/metrics", Some(&world.first), None), "10.0.0.1");
    assert_eq!(world.send(right).await.status, StatusCode::OK, "a neighbour with a token");
    // Addresses share a table of buckets: one of them may collide with that of the first, but not all.
    let mut others = Vec::new();
    for address in ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"] {
        others.push(world.send(guess(address)).await.status);
    }
    assert!(others.contains(&StatusCode::UNAUTHORIZED), "{others:?}");
}

/// Behind a named proxy each client is limited by its own address; the header of any other peer is ignored.
#[tokio::test]
async fn only_a_named_proxy_is_trusted() {
    let proxies = vec!["10.0.0.7".parse().unwrap()];
    let world = World::with(ServerOptions { proxies, ..ServerOptions::default() });
    let guess = |proxy: &str, header: &'static str, value: &str| {
        let mut request = with_peer_address(new_request("DELETE", "/api/v1/tokens/x", Some("wl_guess"), None), proxy);
        request.headers_mut().insert(header, value.parse().unwrap());
        request
    };
    for number in 0..60 {
        let others = guess("10.0.0.7", "x-forwarded-for", &format!("1.1.1.1, 192.0.2.{number}"));
        assert_eq!(world.send(others).await.status, StatusCode::UNAUTHORIZED, "{number}");
    }
    let slowed = is_rate_limited(async |number| {
        world.send(guess("10.0.0.7", "forwarded", &format!("for=192.0.2.{number}, for=198.51.100.1"))).await.status
    });
    assert!(slowed.await, "entries before the proxy's own are ignored");
    let slowed = is_rate_limited(async |number| {
        world.send(guess("10.0.0.8", "x-forwarded-for", &format!("192.0.2.{number}"))).await.status
    });
    assert!(slowed.await, "an untrusted peer's header is ignored");
    for (proxy, noted) in [
        ("10.0.0.7", r#""from":"192.0.2.3","via":"10.0.0.7:40000","method""#),
        ("10.0.0.8", r#""from":"10.0.0.8:40000","method""#),
    ] {
        let body = json!({ "name": "x", "scopes": ["read"] });
        let mut request =
            with_peer_address(new_request("POST", "/api/v1/tokens", Some(&world.first), Some(body)), proxy);
        request.headers_mut().insert("x-forwarded-for", "192.0.2.3".parse().unwrap());
        assert_eq!(world.send(request).await.status, StatusCode::CREATED);
        let log = std::fs::read_to_string(world.directory.path().join("audit.log")).unwrap();
        assert!(log.contains(noted), "{log}");
    }
}

#[tokio::test]
async fn errors_of_the_routes_are_problems() {
    let world = with_routes(ServerOptions::default());
    let take = |kind: &str, body: Body| {
        let request = Request::builder().method("POST").uri("/takes").header(header::CONTENT_TYPE, kind);
        let request = request.header(header::HOST, "localhost:7117");
        request.body(body).unwrap()
    };
    let cases = [
        (take("text/plain", Body::from("{}")), 415, "WND-3014"),
        (take("application/json", Body::from("{")), 400, "WND-3000"),
        (take("application/json", Body::from(vec![b' '; ServerLimits::default().max_body_bytes + 1])), 413, "WND-3005"),
        (new_request("GET", "/takes", None, None), 405, "WND-3015"),
        (new_request("GET", "/api/v1/nowhere", None, None), 404, "WND-3003"),
        (new_request("GET", "/panics", None, None), 500, "WND-3099"),
    ];
    for (request, status, code) in cases {
        let answer = world.send(request).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (status, &json!(code)), "{}", answer.text());
        assert!(answer.is_problem() && !answer.text().contains("a secret"));
    }
}

#[tokio::test]
async fn streams_are_counted_and_end_with_the_server() {
    let world = with_routes(ServerOptions {
        limits: ServerLimits { max_streams_per_token: 2, ..ServerLimits::default() },
        ..ServerOptions::default()
    });
    let open = || async {
        let request = new_request("GET", "/stream", Some(&world.first), None);
        world.routes.clone().oneshot(request).await.unwrap()
    };
    let (one, other) = (open().await, open().await);
    assert_eq!((one.status(), other.status()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(open().await.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(other);
    let third = open().await;
    assert_eq!(third.status(), StatusCode::OK, "a closed stream frees its slot");
    let metrics = world.app.metrics.render(&world.app).unwrap();
    assert!(metrics.contains("windlass_streams 2"), "{metrics}");
    world.app.drain();
    for stream in [one, third] {
        tokio::time::timeout(Duration::from_secs(120), stream.into_body().collect()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn readiness_reflects_the_store() {
    let world = World::new();
    let ask = || new_request("GET", "/readyz", None, None);
    let mut ready = world.send(ask()).await;
    // A slow disk may need more than one attempt.
    while ready.text().contains("retried for") {
        ready = world.send(ask()).await;
    }
    assert_eq!((ready.status, &ready.json()["status"]), (StatusCode::OK, &json!("ready")));
    world.app.drain();
    let stopping = world.send(ask()).await;
    assert_eq!(stopping.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(stopping.is_problem() && stopping.header("retry-after") == "1");
    assert_eq!(
        world.send(new_request("GET", "/healthz", None, None)).await.status,
        StatusCode::OK,
        "the server is still alive"
    );
}

#[tokio::test]
async fn metrics_are_complete_and_bounded() {
    let world = World::new();
    world.post("/api/v1/tokens", json!({ "name": "x", "scopes": ["read"] })).await;
    for number in 0..20 {
        world.send(new_request("GET", &format!("/api/v1/nowhere/{number}"), None, None)).await;
        world.send(new_request(&format!("M{number}"), "/healthz", None, None)).await;
    }
    let answer = world.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let text = answer.text();
    let expected = [
        r#"windlass_http_requests_total{route="/api/v1/tokens",method="POST",status="201"} 1"#,
        r#"windlass_http_requests_total{route="none",method="GET",status="404"} 20"#,
        r#"windlass_http_requests_total{route="/healthz",method="other",status="405"} 20"#,
        r#"windlass_http_request_seconds_count{route="/api/v1/tokens",method="POST"} 1"#,
        "windlass_runs_open 0",
        "windlass_runs_resident 0",
        "windlass_runs_waiting 0",
        "windlass_jobs_running 0",
        "windlass_commits_total 0",
        "windlass_ticks_total 0",
        "windlass_iterations_total 0",
        "windlass_audit_lines_total 1",
        "windlass_audit_waiting 0",
        r#"windlass_workers{state="active"} 0"#,
        "# TYPE windlass_jobs_queued gauge",
        "# TYPE windlass_jobs_leased gauge",
        "# TYPE windlass_leases_expired counter",
        r#"windlass_commit_seconds_bucket{le="+Inf"} 0"#,
        "# EOF",
    ];
    for line in expected {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("/api/v1/nowhere") && !text.contains("M1\""));
}
