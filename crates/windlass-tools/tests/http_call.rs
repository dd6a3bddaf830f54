//! The tool `http_call` against a local service that echoes its requests.

use crate::support;

use std::sync::Arc;

use support::{call_tool, class, debug_text, error, fact, part, summary};
use windlass_core::TaskOutcome;
use windlass_testing::test_service::TestService;
use windlass_tools::{HttpCallTool, HttpTool, NamedCredentials};

fn tool() -> HttpCallTool {
    let known = NamedCredentials::new(|name| match name {
        "WINDLASS_AUTH_BEARER" => Some(r#"{"type": "bearer", "token": "canary-token"}"#.to_owned()),
        "WINDLASS_AUTH_BARE" => Some("canary-bare".to_owned()),
        "WINDLASS_AUTH_BASIC" => Some(r#"{"username": "me", "password": "canary-word"}"#.to_owned()),
        "WINDLASS_AUTH_HEADER" => Some(r#"{"type": "api_key", "header": "X-Own", "value": "canary-key"}"#.to_owned()),
        "WINDLASS_AUTH_QUERY" => Some(r#"{"type": "api_key", "query": "k", "value": "canary-key"}"#.to_owned()),
        "WINDLASS_AUTH_ODD" => Some(r#"{"type": "odd", "token": "canary-token"}"#.to_owned()),
        _ => None,
    });
    HttpCallTool::new(HttpTool::new(support::options()), Arc::new(known))
}

async fn send(service: &TestService, path: &str, rest: &str) -> TaskOutcome {
    call_tool(&tool(), &format!(r#"{{"url": "{}"{rest}}}"#, service.url(path))).await
}

#[tokio::test]
async fn bodies_and_parameters_have_the_names_that_playbooks_use() {
    let service = support::service();
    let form = r#""application/x-www-form-urlencoded""#;
    let json = r#""application/json""#;
    let table = [
        ("", "GET", "", "null"),
        (r#", "json": {"a": 1}"#, "POST", json, r#"{"a":1}"#),
        (r#", "json": "text""#, "POST", json, r#""text""#),
        (r#", "payload": {"a": 1}, "method": "put""#, "PUT", json, r#"{"a":1}"#),
        (r#", "data": [1]"#, "POST", json, "[1]"),
        (r#", "body": "text""#, "POST", r#""text/plain; charset=utf-8""#, r#""text""#),
        (r#", "form": {"a": "x y", "b": [1, 2], "c": null}"#, "POST", form, r#""a=x+y&b=1&b=2""#),
        (
            r#", "data": {"a": 1}, "headers": {"Content-Type": "application/x-www-form-urlencoded"}"#,
            "POST",
            form,
            r#""a=1""#,
        ),
    ];
    for (rest, method, content_type, body) in table {
        let outcome = send(&service, "/json/x", rest).await;
        let sent = ["method", "headers.content-type", "body"].map(|name| part(&outcome, &format!("data.{name}")));
        assert_eq!(
            sent,
            [format!("{method:?}"), content_type.to_owned(), body.to_owned()],
            "{rest} {}",
            summary(&outcome)
        );
    }
    let outcome = send(&service, "/json/x?a=1", r#", "params": {"b": 2, "c": null, "d": ["x", "y"]}"#).await;
    assert_eq!(part(&outcome, "data.query"), r#"{"a":"1","b":"2","d":["x","y"]}"#);
    assert_eq!((part(&outcome, "status_code"), fact(&outcome, "http.status")), ("200".into(), "200".into()));
    assert_eq!(part(&outcome, "headers.content-type"), fact(&outcome, "http.headers.content-type"));
}

/// As in NoETL, whatever can be text is text: a template would otherwise show its bytes in base64.
#[tokio::test]
async fn replies_of_other_types_are_text_if_their_bytes_are() {
    let service = support::service();
    let data = |path: &'static str| {
        let service = &service;
        async move { part(&send(service, path, "").await, "data") }
    };
    assert_eq!(data("/form").await, r#""name=a+b&note=%26""#);
    assert_eq!(data("/binary").await, r#"{"$content-type":"application/octet-stream","$content":"AP8="}"#);
}

#[tokio::test]
async fn credentials_authenticate_and_are_redacted() {
    let service = support::service();
    for auth in ["bearer", "bare", "basic", "header", "query", "odd", "unknown"] {
        let outcome = send(&service, "/json/x", &format!(r#", "auth": "{auth}""#)).await;
        let expected = match auth {
            "bearer" | "bare" => ("headers.authorization", r#""***""#),
            "basic" => ("headers.authorization", r#""***""#),
            "header" => ("headers.x-own", r#""***""#),
            "query" => ("query.k", r#""***""#),
            "odd" => {
                assert_eq!(class(&outcome), ("BadCredential", "auth", false));
                continue;
            }
            _ => {
                assert_eq!(class(&outcome), ("UnknownCredential", "auth", false));
                assert!(error(&outcome).hint.as_ref().unwrap().contains("WINDLASS_AUTH_UNKNOWN"));
                continue;
            }
        };
        let got = part(&outcome, &format!("data.{}", expected.0));
        assert_eq!(got, expected.1, "{auth}");
        assert!(!debug_text(&outcome).contains("canary"), "{}", debug_text(&outcome));
    }
}

#[tokio::test]
async fn failures_keep_the_reply_and_the_facts() {
    let service = support::service();
    let outcome = send(&service, "/status/503", "").await;
    assert_eq!(class(&outcome), ("503", "http", true));
    assert_eq!((part(&outcome, "status_code"), fact(&outcome, "http.status")), ("503".into(), "503".into()));
    let outcome = call_tool(&tool(), r#"{"url": "http://127.0.0.1:1/"}"#).await;
    assert_eq!(class(&outcome), ("connection", "connection", false));
    assert_eq!(fact(&outcome, "http"), r#"{"status":null,"headers":{}}"#);
    let outcome = send(&service, "/redirect?to=/text", r#", "follow_redirects": false"#).await;
    assert_eq!(class(&outcome), ("302", "http", true));
    assert_eq!(part(&send(&service, "/redirect?to=/text", "").await, "data"), r#""hello""#);
    let slow = send(&service, "/slow?ms=60000", r#", "timeout": {"connect": 0.2, "read": 0.1}"#).await;
    assert_eq!(class(&slow), ("timeout", "timeout", false));
    let table = [
        ("{}", "`http_call` has no `url`"),
        (r#"{"url": "http://x/", "verify_ssl": 5}"#, "`verify_ssl` is neither true nor false"),
        (r#"{"url": "http://x/", "timeout": {"connect": "soon"}}"#, "`timeout` is not a duration"),
        (r#"{"url": "http://x/", "form": 5}"#, "`form` is integer, not an object"),
    ];
    for (input, message) in table {
        assert_eq!(summary(&call_tool(&tool(), input).await), format!("BadInput input: {message}"));
    }
}
