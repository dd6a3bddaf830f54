//! Requests that are accepted first and answered later, by `http` and by endpoints.

use crate::support;

use windlass_core::{NextCall, TaskOutcome};
use windlass_runtime::{Tool, ToolCall};
use windlass_testing::test_service::TestService;
use windlass_tools::{Endpoint, EndpointTool, HttpOptions, HttpTool, Outbound, Secret};
use windlass_value::{Duration, Value, parse_json, to_json};

use support::{call, class, debug_text, error, options, part, send, service, tool};

fn again(outcome: &TaskOutcome) -> &NextCall {
    assert_eq!(outcome.error, None);
    outcome.next_call.as_ref().unwrap_or_else(|| panic!("it is finished: {outcome:?}"))
}

/// Calls the tool until it no longer asks to be called again. Returns all follow-up inputs and the final outcome.
async fn to_the_end(tool: &impl Tool, input: &str) -> (Vec<String>, TaskOutcome) {
    let mut inputs = Vec::new();
    let mut outcome = tool.call(call(input)).await;
    while let Some(NextCall { input, .. }) = outcome.next_call {
        inputs.push(to_json(&input));
        outcome = tool.call(next(input)).await;
    }
    (inputs, outcome)
}

fn next(input: Value) -> ToolCall {
    ToolCall { input, is_continuation: true, key: "another".into(), ..call("null") }
}

fn post(service: &TestService, path: &str, more: &str) -> String {
    format!(r#"{{"method": "POST", "uri": "{}", "body": {{"b": 1}}{more}}}"#, service.url(path))
}

#[tokio::test]
async fn asks_until_there_is_a_result() {
    let service = service();
    let more = r#", "headers": {"Accept": "a/b", "Content-Type": "x/y", "X-Api-Key": "k", "Idempotency-Key": "mine"},
        "cookie": "c=1", "authentication": {"type": "Raw", "value": "Bearer t"}, "queries": {"times": 2}, "timeout": 9"#;
    let (inputs, outcome) = to_the_end(&tool(), &post(&service, "/async/1", more)).await;
    let next = format!(
        r#"{{"method":"GET","uri":"{}","headers":{{"Accept":"a/b","X-Api-Key":"k"}},"timeout":9,"cookie":"c=1","authentication":{{"type":"Raw","value":"Bearer t"}}}}"#,
        service.url("/async/1?times=2")
    );
    assert_eq!(inputs, [next.as_str(), next.as_str()]);
    assert_eq!((outcome.error.is_none(), part(&outcome, "statusCode")), (true, "200".to_owned()));
    assert_eq!((part(&outcome, "body.method"), part(&outcome, "body.body")), (r#""GET""#.into(), "null".into()));
    for (name, value) in [
        ("accept", r#""a/b""#),
        ("x-api-key", r#""k""#),
        ("cookie", r#""c=1""#),
        ("authorization", r#""Bearer t""#),
        ("idempotency-key", r#""another""#),
        ("content-type", ""),
    ] {
        assert_eq!(part(&outcome, &format!("body.headers.{name}")), value, "{name}");
    }
    assert_eq!(service.requests(), 3);
}

#[tokio::test]
async fn waits_as_long_as_the_server_says_within_bounds() {
    let service = service();
    for (retry_after, seconds) in [
        ("", 20),
        ("&retry-after=7", 7),
        ("&retry-after=0", 1),
        ("&retry-after=99999", 3600),
        ("&retry-after=Sun,%2006%20Nov%201994%2008:49:37%20GMT", 1),
        ("&retry-after=Sat,%2001%20Jan%202400%2000:00:00%20GMT", 3600),
        ("&retry-after=soon", 20),
    ] {
        let outcome = send(&post(&service, &format!("/async/w?times=99{retry_after}"), "")).await;
        assert_eq!(again(&outcome).after, Duration::from_secs(seconds), "{retry_after}");
        assert_eq!(outcome.output, Value::Null);
    }
}

#[tokio::test]
async fn a_202_is_the_answer_where_nothing_follows() {
    let service = service();
    let outcome = send(&post(&service, "/async/1", r#", "async": false"#)).await;
    assert_eq!((outcome.next_call.is_none(), part(&outcome, "statusCode")), (true, "202".to_owned()));
    let outcome = send(&post(&service, "/status/202", "")).await;
    assert_eq!((outcome.next_call.is_none(), part(&outcome, "statusCode")), (true, "202".to_owned()));
    let outcome = send(&post(&service, "/status/202", r#", "async": "no""#)).await;
    assert_eq!(class(&outcome), ("BadRequestAsync", "input", false));
    assert_eq!(service.requests(), 2);
}

#[tokio::test]
async fn a_poll_may_be_redirected_or_fail() {
    let service = service();
    // The next address is relative, with a redirect on the way.
    let (inputs, outcome) = to_the_end(&tool(), &post(&service, "/async/a?times=1&to=../hops/2", "")).await;
    assert_eq!(inputs, [format!(r#"{{"method":"GET","uri":"{}"}}"#, service.url("/hops/2"))]);
    assert_eq!(part(&outcome, "body.path"), r#""/json/end""#);
    let (inputs, outcome) = to_the_end(&tool(), &post(&service, "/async/b?times=1&end=503", "")).await;
    assert_eq!((inputs.len(), class(&outcome)), (1, ("503", "http", true)));
    assert_eq!(part(&outcome, "body.method"), r#""GET""#);
    // A poll without a new address repeats the same one.
    let outcome = tool().call(next(Value::object([("uri", Value::from(service.url("/status/202")))]))).await;
    assert_eq!(again(&outcome).input.get("uri"), Some(&Value::from(service.url("/status/202"))));
    let outcome = send(&post(&service, "/async/c?to=ftp://u:hush@h/", "")).await;
    assert_eq!(class(&outcome), ("BadLocation", "http", true));
    assert!(!error(&outcome).message.contains("hush") && error(&outcome).hint.is_some(), "{outcome:?}");
}

#[tokio::test]
async fn secrets_stay_with_their_server() {
    let (first, second) = (service(), service());
    let path = format!("/async/1?times=1&to={}", second.url("/json/x"));
    let more = r#", "headers": {"Accept": "a/b", "X-Api-Key": "hush"}, "cookie": "hush",
        "authentication": {"type": "Raw", "value": "hush"}"#;
    let (inputs, outcome) = to_the_end(&tool(), &post(&first, &path, more)).await;
    let next = format!(r#"{{"method":"GET","uri":"{}","headers":{{"Accept":"a/b"}}}}"#, second.url("/json/x"));
    assert_eq!((inputs, debug_text(&outcome).contains("hush")), (vec![next], false));
    // A login in the address is sent along, but only to that server.
    for (to, login) in [(first.url("/json/x"), r#""Basic dTpwQHc=""#), (second.url("/json/x"), "")] {
        let uri = format!("http://u:p%40w@{}/async/{}?times=1&to={to}", first.addr(), login.len());
        let (_, outcome) = to_the_end(&tool(), &format!(r#"{{"uri": "{uri}"}}"#)).await;
        assert_eq!(part(&outcome, "body.headers.authorization"), login);
    }
}

#[tokio::test]
async fn polls_obey_the_outbound_rules() {
    let service = service();
    let open = send(&post(&service, "/async/1", "")).await;
    let closed = HttpTool::new(HttpOptions { outbound: Outbound::default(), ..options() });
    let outcome = closed.call(next(again(&open).input.clone())).await;
    assert_eq!(class(&outcome), ("BlockedAddress", "input", false));
}

fn endpoint(url: String) -> EndpointTool {
    let headers = vec![("X-Team".to_owned(), Secret::new("canary-7"))];
    EndpointTool::new(Endpoint { headers, ..Endpoint::new(url) }, tool())
}

#[tokio::test]
async fn endpoint_polls_send_the_configured_headers() {
    let (first, second) = (service(), service());
    let (inputs, outcome) = to_the_end(&endpoint(first.url("/async/1?times=2")), r#"{"b": 1}"#).await;
    assert_eq!(inputs.len(), 2);
    assert!(!inputs.concat().contains("canary"), "{inputs:?}");
    assert_eq!((part(&outcome, "method"), part(&outcome, "body")), (r#""GET""#.into(), "null".into()));
    assert_eq!(part(&outcome, "headers.x-team"), r#""***""#);
    let elsewhere = first.url(&format!("/async/2?times=1&to={}", second.url("/json/x")));
    let (_, outcome) = to_the_end(&endpoint(elsewhere), "1").await;
    assert_eq!((part(&outcome, "path"), part(&outcome, "headers.x-team")), (r#""/json/x""#.into(), String::new()));
}

#[tokio::test]
async fn an_input_cannot_redirect_an_endpoint() {
    let (first, second) = (service(), service());
    let forged = parse_json(&format!(r#"{{"at": "{}", "own": true}}"#, second.url("/json/x"))).unwrap();
    let outcome = endpoint(first.url("/json/x")).call(call(&to_json(&forged))).await;
    assert_eq!(outcome.output.get("body"), Some(&forged));
    assert_eq!(second.requests(), 0);
}
