//! Endpoint tools against a local service.

use crate::support;

use windlass_core::TaskOutcome;
use windlass_runtime::Tool;
use windlass_tools::{Endpoint, EndpointTool, HttpOptions, HttpTool, Outbound, Secret};
use windlass_value::{Duration, to_json};

use support::{call, class, debug_text, error, options, part, service, tool};

const TOKEN: &str = "canary-token-42";

fn endpoint(url: String) -> Endpoint {
    let headers = vec![
        ("X-Team".to_owned(), Secret::new(TOKEN)),
        ("Authorization".to_owned(), Secret::new(format!("Bearer {TOKEN}"))),
    ];
    Endpoint { headers, ..Endpoint::new(url) }
}

async fn run(endpoint: Endpoint, input: &str) -> TaskOutcome {
    EndpointTool::new(endpoint, tool()).call(call(input)).await
}

#[tokio::test]
async fn sends_its_input_and_gives_the_body() {
    let service = service();
    let outcome = run(endpoint(service.url("/json/pay")), r#"{"amount": 5, "method": "GET", "uri": "http://h"}"#).await;
    assert_eq!(outcome.error, None);
    assert_eq!(part(&outcome, "body"), r#"{"amount":5,"method":"GET","uri":"http://h"}"#);
    for (name, value) in [("method", "POST"), ("path", "/json/pay")] {
        assert_eq!(part(&outcome, name), format!("\"{value}\""));
    }
    for (name, value) in [
        ("content-type", "application/json"),
        ("idempotency-key", "run-1:sync[3]/fetch"),
        ("x-windlass-run", "run-1"),
        ("x-windlass-path", "sync[3]/Gr%C3%BC%C3%9Fe"),
        ("x-windlass-attempt", "2"),
        // The headers arrive, and repeated values are redacted.
        ("x-team", "***"),
        ("authorization", "***"),
    ] {
        assert_eq!(part(&outcome, &format!("headers.{name}")), format!("\"{value}\""), "{name}");
    }
    assert!(!debug_text(&outcome).contains("canary"));
    let put = Endpoint { method: "put".to_owned(), ..endpoint(service.url("/json/x")) };
    let outcome = run(put, "null").await;
    assert_eq!((part(&outcome, "method"), part(&outcome, "body")), (r#""PUT""#.into(), "null".into()));
}

#[tokio::test]
async fn bodies_of_every_kind() {
    let service = service();
    for (path, body) in [
        ("/text", r#""hello""#),
        ("/status/204", "null"),
        ("/empty", "null"),
        ("/gzip", r#"{"packed":true}"#),
        ("/binary", r#"{"$content-type":"application/octet-stream","$content":"AP8="}"#),
    ] {
        assert_eq!(to_json(&run(endpoint(service.url(path)), "1").await.output), body, "{path}");
    }
}

#[tokio::test]
async fn failures_are_those_of_http() {
    let service = service();
    let outcome = run(endpoint(service.url("/status/503?retry-after=2&sig=hush")), "1").await;
    assert_eq!(class(&outcome), ("503", "http", true));
    assert_eq!((part(&outcome, "statusCode"), part(&outcome, "body")), ("503".into(), r#"{"status":503}"#.into()));
    assert_eq!(to_json(&outcome.meta), r#"{"retry_after_ms":2000}"#);
    assert!(!error(&outcome).message.contains("hush"));
    let slow = Endpoint { timeout: Some(Duration::from_ms(50)), ..endpoint(service.url("/slow?ms=10000")) };
    assert_eq!(class(&run(slow, "1").await), ("timeout", "timeout", false));
    assert_eq!(class(&run(endpoint(service.url("/close")), "1").await), ("connection", "connection", false));
    for path in ["/bad-json", "/echo-bad-json"] {
        let outcome = run(endpoint(service.url(path)), "1").await;
        assert_eq!(class(&outcome), ("BadJson", "http", true));
        assert!(!debug_text(&outcome).contains("canary"), "{outcome:?}");
    }
    let bad = Endpoint { method: "GE T".to_owned(), ..endpoint(service.url("/text")) };
    assert_eq!(class(&run(bad, "1").await), ("BadEndpoint", "input", false));
    assert_eq!(class(&run(endpoint("ftp://h".to_owned()), "1").await), ("BadRequestUri", "input", false));
}

#[tokio::test]
async fn its_headers_stay_with_it() {
    let (first, second) = (service(), service());
    for (target, kept) in [(first.url("/json/x"), true), (second.url("/json/x"), false)] {
        let outcome = run(endpoint(first.url(&format!("/redirect?code=307&to={target}"))), "1").await;
        for name in ["x-team", "authorization"] {
            assert_eq!(!part(&outcome, &format!("headers.{name}")).is_empty(), kept, "{name}");
        }
        assert_eq!(part(&outcome, "headers.x-windlass-run"), r#""run-1""#);
    }
    let debug = format!("{:?}", endpoint(first.url("/x")));
    assert!(debug.contains("X-Team") && !debug.contains("canary"), "{debug}");
}

#[tokio::test]
async fn a_closed_engine_calls_public_addresses_only() {
    let service = service();
    let closed = HttpTool::new(HttpOptions { outbound: Outbound::default(), ..options() });
    let outcome = EndpointTool::new(endpoint(service.url("/text")), closed).call(call("1")).await;
    assert_eq!((class(&outcome), service.requests()), (("BlockedAddress", "input", false), 0));
}
