//! Scripts, and the mock service that runs them.

use crate::support;

use std::sync::{Arc, Mutex};

use windlass_runtime::Tool;
use windlass_syntax::{Colour, SourceText};
use windlass_testing::mock::{MockService, Script};
use windlass_testing::test_service::TestService;
use windlass_value::to_json;

use support::{call, class, get, part, send, tool};

fn start(script: &str) -> MockService {
    TestService::from_script(script).unwrap()
}

const SCRIPT: &str = r#"{
  "routes": [
    {"method": "GET", "path": "/items", "query": {"page": "2"}, "replies": [{"body": {"items": [3]}}]},
    {"method": "GET", "path": "/items", "replies": [{"body": {"items": [1, 2], "next": 2}}]},
    {"method": "POST", "path": "/jobs", "replies": [{"status": 202, "headers": {"Location": "/jobs/1", "Retry-After": 1}}]},
    {"path": "/jobs/*", "replies": [{"status": 503}, {"status": 202}, {"body": "done"}]},
    {"path": "/echo", "replies": [{"body": "$echo", "after_ms": 1}]},
    {"path": "/xml", "replies": [{"headers": {"Content-Type": "application/xml"}, "body": "<a/>"}]},
    {"path": "/bytes", "replies": [{"body": {"$content-type": "image/x", "$content": "AP8="}}]}
  ]
}"#;

#[tokio::test]
async fn routes_answer_in_order() {
    let service = start(SCRIPT);
    assert_eq!(part(&get(&service.url("/items")).await, "body"), r#"{"items":[1,2],"next":2}"#);
    assert_eq!(part(&get(&service.url("/items?page=2")).await, "body"), r#"{"items":[3]}"#);
    for status in ["503", "202", "200", "200"] {
        assert_eq!(part(&get(&service.url("/jobs/7")).await, "statusCode"), status);
    }
    assert_eq!(
        part(&get(&service.url("/xml")).await, "body"),
        r#"{"$content-type":"application/xml","$content":"PGEvPg=="}"#
    );
    assert_eq!(part(&get(&service.url("/bytes")).await, "body"), r#"{"$content-type":"image/x","$content":"AP8="}"#);
    let echo =
        send(&format!(r#"{{"method": "PUT", "uri": "{}", "body": {{"b": 1}}}}"#, service.url("/echo?a=1&a=2"))).await;
    assert_eq!((part(&echo, "body.method"), part(&echo, "body.body")), (r#""PUT""#.into(), r#"{"b":1}"#.into()));
    assert_eq!(part(&echo, "body.query"), r#"{"a":["1","2"]}"#);
    let accepted = send(&format!(r#"{{"method": "POST", "uri": "{}", "async": false}}"#, service.url("/jobs"))).await;
    assert_eq!(part(&accepted, "headers.location"), r#""/jobs/1""#);
    assert_eq!(service.requests(), 10);
}

#[tokio::test]
async fn an_unscripted_request_fails() {
    let service = start(SCRIPT);
    let outcome = send(&format!(r#"{{"method": "DELETE", "uri": "{}"}}"#, service.url("/items?x=1"))).await;
    assert_eq!(class(&outcome), ("500", "http", true));
    assert_eq!(part(&outcome, "body.error"), r#""no route of the script matches DELETE /items?x=1""#);
    assert!(part(&outcome, "body.routes").contains("any /jobs/*"));
}

#[tokio::test]
async fn model_rules_match_texts_and_turns() {
    let service = start(
        r#"{"model": [
            {"when": {"contains": "plan", "turn": 1}, "reply": "first plan"},
            {"when": {"contains": "plan", "turn": 2}, "reply": "second plan"},
            {"when": {"turn": 4}, "reply": "fourth of all"},
            {"when": {"contains": "act"}, "reply": "acted"}
        ]}"#,
    );
    for (prompt, expected) in [
        ("act", "\"acted\""),
        ("plan", "\"first plan\""),
        ("plan", "\"second plan\""),
        ("act", "\"fourth of all\""),
        ("act", "\"acted\""),
    ] {
        let body = format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "now {prompt}"}}]}}"#);
        let input =
            format!(r#"{{"method": "POST", "uri": "{}", "body": {body}}}"#, service.url("/v1/chat/completions"));
        let outcome = send(&input).await;
        let choices = outcome.output.get("body").unwrap().get("choices").unwrap().as_list().unwrap().to_vec();
        assert_eq!(to_json(choices[0].get("message").unwrap().get("content").unwrap()), expected);
    }
    assert_eq!((service.requests(), service.model_requests()), (5, 5));
}

/// Returns the model's reply to a request with these headers, or the message of its error.
async fn model_reply(service: &MockService, headers: &[(&str, &str)], body: &str) -> String {
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!(r#""{name}": "{value}""#)).collect();
    let headers = headers.join(", ");
    let url = service.url("/v1/chat/completions");
    // The tool of these tests sends its own headers for the run and the attempt.
    let input = format!(r#"{{"method": "POST", "uri": "{url}", "headers": {{{headers}}}, "body": {body}}}"#);
    let outcome = send(&input).await;
    let body = outcome.output.get("body").unwrap().clone();
    match body.get("choices") {
        Some(choices) => to_json(choices.as_list().unwrap()[0].get("message").unwrap().get("content").unwrap()),
        None => to_json(body.get("error").unwrap().get("message").unwrap()),
    }
}

#[tokio::test]
async fn model_rules_match_step_role_and_attempt() {
    let source = SourceText::new(
        "model.yaml",
        r#"
model:
  - when: {step: "review[*].check", role: judge, turn: 2}
    text: the judge's second
  - when: {step: "review[*].check", attempt: 2, pass: 2}
    text: the second time
  - when: {step: "review*"}
    replies:
      - first
      - text: second
        calls: [{name: read}]
  - when: {model: "big-*"}
    reply: a big one
  - when: {tool: submit_result}
    reply: has a tool
  - when: {last_contains: now}
    reply: now
  - when: {contains: before}
    reply: before
"#,
    );
    let service = MockService::start(Script::parse(&source).unwrap(), 0).unwrap();
    let plain = |text: &str| format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "{text}"}}]}}"#);
    let step = |step, role, turn| [("x-windlass-step", step), ("x-windlass-role", role), ("x-windlass-turn", turn)];
    for (headers, body, expected) in [
        (step("review[3].check", "judge", "2").to_vec(), plain("x"), "the judge's second"),
        (step("review[3].check", "step", "2").to_vec(), plain("x"), "second"),
        (step("review[3].check", "step", "1").to_vec(), plain("x"), "first"),
        (step("review", "step", "1").to_vec(), plain("x"), "first"),
        (step("preview", "step", "1").to_vec(), plain("x now"), "now"),
        (vec![], plain("x").replace("\"m\"", "\"big-1\""), "a big one"),
        (
            vec![],
            plain("x").replace("{\"model\"", r#"{"tools": [{"type": "function", "function": {"name": "submit_result"}}], "model""#),
            "has a tool",
        ),
        (
            vec![],
            r#"{"messages": [{"role": "system", "content": "now"}, {"role": "user", "content": "before"}]}"#.to_owned(),
            "before",
        ),
        (
            vec![],
            r#"{"messages": [{"role": "user", "content": "now"}, {"role": "assistant", "content": "a"}, {"role": "tool", "content": "before"}]}"#
                .to_owned(),
            "before",
        ),
        (
            vec![],
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "right now"}]}]}"#.to_owned(),
            "now",
        ),
    ] {
        assert_eq!(model_reply(&service, &headers, &body).await, format!("\"{expected}\""), "{headers:?} {body}");
    }
    let none = model_reply(&service, &step("review", "step", "3"), &plain("x")).await;
    assert!(none.contains("matches step `review`, role `step`, turn 3, attempt 2"), "{none}");
    // A repeated request belongs to the same execution; another key means that the step runs again.
    let keyed = |key| [&step("review[1].check", "step", "1")[..], &[("Idempotency-Key", key)]].concat();
    for (key, expected) in [("a", "first"), ("a", "first"), ("b", "the second time"), ("a", "first")] {
        assert_eq!(model_reply(&service, &keyed(key), &plain("x")).await, format!("\"{expected}\""), "{key}");
    }
}

#[tokio::test]
async fn without_headers_turns_are_counted() {
    let service = start(
        r#"{"model": [
            {"when": {"contains": "plan"}, "replies": ["one", [{"text": "two"}]]},
            {"reply": "other"}
        ]}"#,
    );
    let mut replies = Vec::new();
    for text in ["plan", "x", "a plan", "plan"] {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "{text}"}}]}}"#);
        replies.push(model_reply(&service, &[], &body).await);
    }
    assert_eq!(replies, ["\"one\"", "\"other\"", "\"two\"", "\"other\""]);
}

#[tokio::test]
async fn the_observer_sees_every_request() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = seen.clone();
    let script = Script::parse(&SourceText::new("s", SCRIPT)).unwrap();
    let service = MockService::with_observer(script, 0, move |served| {
        let line = format!("{} {} {} {}", served.method, served.path, served.status, served.by);
        lines.lock().unwrap().push(line);
    })
    .unwrap();
    for path in ["/jobs/1", "/jobs/1", "/none?a=1"] {
        tool().call(call(&format!(r#"{{"uri": "{}"}}"#, service.url(path)))).await;
    }
    let expected =
        ["GET /jobs/1 503 route 4, reply 1", "GET /jobs/1 202 route 4, reply 2", "GET /none?a=1 500 no route matches"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// Each line: a script, and its expected problem.
#[test]
fn script_errors_have_a_position() {
    for (script, position, message, hint) in [
        ("{", "1:2", "", ""),
        ("[]", "1:1", "a script must be an object", "an object is written"),
        ("{}", "1:1", "neither `routes` nor `model`", "such as"),
        (r#"{"route": []}"#, "1:2", "unknown key `route` in a script", "did you mean `routes`?"),
        (r#"{"routes": [{"path": "/x"}]}"#, "1:13", "a route needs `replies`", "such as"),
        (r#"{"routes": [{"replies": [{}]}]}"#, "1:13", "a route needs `path`", "such as"),
        (r#"{"routes": [{"path": "x", "replies": [{}]}]}"#, "1:22", "a path begins with `/`", "such as"),
        (r#"{"routes": [{"path": "/x?a=1", "replies": [{}]}]}"#, "1:22", "a path has no query", "query"),
        (r#"{"routes": [{"path": "/*/x", "replies": [{}]}]}"#, "1:22", "at the end", "such as"),
        (r#"{"routes": [{"path": "/x", "replies": []}]}"#, "1:39", "at least one reply", "the last reply repeats"),
        (r#"{"routes": [{"path": "/x", "replies": [{"staus": 200}]}]}"#, "1:41", "unknown key `staus`", "`status`"),
        (r#"{"routes": [{"path": "/x", "replies": [{"status": 99}]}]}"#, "1:51", "`status` must be", "from 200 to 599"),
        (r#"{"routes": [{"path": "/x", "method": "G T", "replies": [{}]}]}"#, "1:38", "not an HTTP method", "GET"),
        (r#"{"routes": [{"path": "/x", "query": {"a": []}, "replies": [{}]}]}"#, "1:43", "must be a text", "such as"),
        (
            r#"{"routes": [{"path": "/x", "replies": [{"headers": {"a b": 1}}]}]}"#,
            "1:53",
            "cannot be a header",
            "names",
        ),
        (r#"{"model": [{"when": {"contain": "x"}, "reply": "y"}]}"#, "1:22", "unknown key `contain`", "`contains`"),
        (r#"{"model": [{"when": {"turn": 0}, "reply": "y"}]}"#, "1:30", "`turn` must be", "from 1"),
        (r#"{"model": [{"when": {}}]}"#, "1:12", "a model rule needs `reply`", "such as"),
        (r#"{"model": [{"reply": "y", "usage": {"tokens": 1}}]}"#, "1:37", "unknown key `tokens`", "known here"),
        (r#"{"model": [{"reply": "y", "usage": {"input_token": 1}}]}"#, "1:37", "unknown key", "`input_tokens`"),
        (r#"{"model": [{"reply": "y", "when": {"steps": "x"}}]}"#, "1:36", "unknown key `steps`", "`step`"),
        (r#"{"model": [{"reply": "y", "when": {"role": 5}}]}"#, "1:44", "`role` must be a text", "quotes"),
        (r#"{"model": [{"reply": "y", "when": {"attempt": 0}}]}"#, "1:47", "`attempt` must be", "from 1"),
        (r#"{"model": [{"text": 5}]}"#, "1:21", "`text` must be a text", "quotes"),
        (r#"{"model": [{"status": 200}]}"#, "1:12", "a model rule needs `reply`", "`calls`"),
        (r#"{"model": [{"calls": {}}]}"#, "1:22", "`calls` must be an array", "array"),
        (r#"{"model": [{"calls": [{"arguments": {}}]}]}"#, "1:23", "a call needs `name`", "submit_result"),
        (r#"{"model": [{"calls": [{"name": "x", "args": {}}]}]}"#, "1:37", "unknown key `args`", "`arguments`"),
        (r#"{"model": [{"text": "x", "stop": "stopp"}]}"#, "1:34", "`stop` cannot be `stopp`", "known here: `end`"),
        (r#"{"model": [{"when": {"role": "juge"}, "text": "x"}]}"#, "1:30", "`role` cannot be `juge`", "`judge`"),
        (r#"{"model": [{"fault": "hangs"}]}"#, "1:22", "`fault` cannot be `hangs`", "`hang`"),
        (r#"{"model": [{"text": "x", "after_ms": -1}]}"#, "1:38", "`after_ms` must be", "from 0"),
        (
            r#"{"model": [{"text": "x", "replies": ["y"]}]}"#,
            "1:26",
            "either `replies` or a single reply",
            "into `replies`",
        ),
        (r#"{"model": [{"when": {"turn": 1}, "replies": ["y"]}]}"#, "1:34", "one reply per turn", "remove `turn`"),
        (r#"{"model": [{"replies": []}]}"#, "1:24", "`replies` is empty", "per turn"),
        (r#"{"model": [{"replies": [[]]}]}"#, "1:25", "at least one reply", "per attempt"),
        (r#"{"model": [{"replies": [{}]}]}"#, "1:25", "a reply needs", "such as"),
        (r#"{"model": [{"replies": ["a", {"txt": "y"}]}]}"#, "1:31", "unknown key `txt`", "`text`"),
        (r#"{"model": [{"replies": [5]}]}"#, "1:25", "a reply must be a text", "quotes"),
    ] {
        let source = SourceText::new("s.json", script);
        let problems = Script::parse(&source).expect_err(script);
        let report = &problems.reports(&source)[0];
        assert_eq!(format!("{}:{}", report.line, report.column), position, "{script}");
        assert!(report.message.contains(message), "{script}: {}", report.message);
        assert!(report.hint.clone().unwrap_or_default().contains(hint), "{script}: {:?}", report.hint);
    }
    for (script, position, message) in [
        ("model:\n  - when: {stp: x}\n    reply: y\n", "2:12", "unknown key `stp`"),
        ("model:\n  - reply: y\n    fault: hangs\n", "3:12", "`fault` cannot be"),
        ("model: [\n", "2:1", ""),
    ] {
        let source = SourceText::new("s.YAML", script);
        let problems = Script::parse(&source).expect_err(script);
        let report = &problems.reports(&source)[0];
        assert_eq!(format!("{}:{}", report.line, report.column), position, "{script}");
        assert!(report.message.contains(message), "{script}: {}", report.message);
    }
    let both = SourceText::new("s.json", r#"{"routes": [{"path": "x", "replies": [{"bdy": 1}]}], "extra": 1}"#);
    let problems = Script::parse(&both).unwrap_err();
    assert_eq!(problems.len(), 3, "{}", problems.render(&both, Colour::Never));
}
