//! Scripts, and the mock service that runs them.

use crate::support;

use std::sync::{Arc, Mutex};

use windlass_runtime::Tool;
use windlass_syntax::{Colour, SourceText};
use windlass_testing::mock::{MockFile, MockService};
use windlass_testing::test_service::TestService;
use windlass_value::to_json;

use support::{call, class, get, part, send, tool};

fn start(mocks: &str) -> MockService {
    TestService::from_mocks(mocks).unwrap()
}

const MOCKS: &str = r#"{
  "mocks": [
    {"when": {"method": "GET", "url": "/items", "query": {"page": 2}}, "body": {"items": [3]}},
    {"when": {"method": "GET", "url": "/items"}, "body": {"items": [1, 2], "next": 2}},
    {"when": {"method": "POST", "url": "/jobs"}, "status": 202, "headers": {"Location": "/jobs/1"}, "retry_after": 1},
    {"when": {"url": "/jobs/*"}, "answers": [{"status": 503}, {"status": 202}, {"body": "done"}]},
    {"when": {"url": "/echo"}, "body": "$echo", "delay_ms": 1},
    {"when": {"url": "/xml"}, "headers": {"Content-Type": "application/xml"}, "body": "<a/>"},
    {"when": {"url": "/bytes"}, "body": {"$content-type": "image/x", "$content": "AP8="}}
  ]
}"#;

#[tokio::test]
async fn rules_answer_in_order() {
    let service = start(MOCKS);
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
async fn an_unmatched_request_fails() {
    let service = start(MOCKS);
    let outcome = send(&format!(r#"{{"method": "DELETE", "uri": "{}"}}"#, service.url("/items?x=1"))).await;
    assert_eq!(class(&outcome), ("500", "http", true));
    assert_eq!(part(&outcome, "body.error"), r#""no rule of the mock file matches DELETE /items?x=1""#);
    assert!(part(&outcome, "body.rules").contains("any /jobs/*"));
}

#[tokio::test]
async fn model_rules_match_texts_and_turns() {
    let service = start(
        r#"{"mocks": [
            {"when": {"contains": "plan", "turn": 1}, "text": "first plan"},
            {"when": {"contains": "plan", "turn": 2}, "text": "second plan"},
            {"when": {"turn": 4}, "text": "fourth of all"},
            {"when": {"contains": "act"}, "text": "acted"}
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
mocks:
  - when: {step: "review[*].check", role: judge, turn: 2}
    text: the judge's second
  - when: {step: "review.check", attempt: 2, pass: 2}
    text: the second time
  - when: {step: "re*w.check", iteration: 7}
    text: the eighth iteration
  - when: {step: "review.check"}
    answers:
      - first
      - text: second
        calls: [{name: read}]
    after_last: next
  - when: {model: "big-*"}
    text: a big one
  - when: {offered_tool: submit_result}
    text: has a tool
  - when: {last_contains: now}
    text: now
  - when: {contains: before}
    text: before
"#,
    );
    let service = MockService::start(MockFile::parse(&source).unwrap(), 0).unwrap();
    let plain = |text: &str| format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "{text}"}}]}}"#);
    let step = |step, role, turn| [("x-windlass-step", step), ("x-windlass-role", role), ("x-windlass-turn", turn)];
    for (headers, body, expected) in [
        (step("review[3].check", "judge", "2").to_vec(), plain("x"), "the judge's second"),
        (step("review[3].check", "step", "2").to_vec(), plain("x"), "second"),
        (step("review[3].check", "step", "1").to_vec(), plain("x"), "first"),
        (step("review[7].check", "step", "1").to_vec(), plain("x"), "the eighth iteration"),
        (step("outer.review.3.check", "step", "1").to_vec(), plain("x"), "first"),
        (step("preview.check", "step", "1").to_vec(), plain("x now"), "now"),
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
    let none = model_reply(&service, &step("review.check", "step", "3"), &plain("x")).await;
    assert!(none.contains("matches step `review.check`, role `step`, turn 3, attempt 2"), "{none}");
    // A repeated request belongs to the same execution; another key means that the step runs again.
    let keyed = |key| [&step("review[1].check", "step", "1")[..], &[("Idempotency-Key", key)]].concat();
    for (key, expected) in [("a", "first"), ("a", "first"), ("b", "the second time"), ("a", "first")] {
        assert_eq!(model_reply(&service, &keyed(key), &plain("x")).await, format!("\"{expected}\""), "{key}");
    }
}

#[tokio::test]
async fn without_headers_turns_are_counted() {
    for (after, expected) in [("next", "other"), ("repeat", "two"), ("cycle", "one")] {
        let rule = r#"{"when": {"contains": "plan"}, "answers": ["one", [{"text": "two"}]], "after_last""#;
        let service = start(&format!(r#"{{"mocks": [{rule}: "{after}"}}, {{"text": "other"}}]}}"#));
        let mut replies = Vec::new();
        for text in ["plan", "x", "a plan", "plan"] {
            let body = format!(r#"{{"messages": [{{"role": "user", "content": "{text}"}}]}}"#);
            replies.push(model_reply(&service, &[], &body).await);
        }
        assert_eq!(replies, ["\"one\"", "\"other\"", "\"two\"", &format!("\"{expected}\"")], "{after}");
    }
}

/// A request of the engine has its step, and rules can name it as in every other place.
#[tokio::test]
async fn requests_match_steps_bodies_and_numbers() {
    let service = start(
        r#"{"mocks": [
            {"when": {"step": "pages.fetch", "iteration": 2}, "body": "third page"},
            {"when": {"step": "fetch"}, "body": "a page"},
            {"when": {"contains": "urgent"}, "body": "at once"},
            {"when": {"url": "https://example.com/*/x", "call": 2}, "body": "second"},
            {"when": {"url": "https://example.com/*/x"}, "body": "any"},
            {"when": {"url": "/cut"}, "body": "long enough", "fault": "truncated"}
        ]}"#,
    );
    let from = |path: &str| {
        let input = windlass_value::parse_json(&format!(r#"{{"uri": "{}"}}"#, service.url("/any"))).unwrap();
        windlass_runtime::ToolCall { path: path.into(), ..windlass_runtime::ToolCall::for_test(input) }
    };
    for (path, expected) in [("pages[2].fetch", "third page"), ("pages[1].fetch.http", "a page")] {
        assert_eq!(part(&tool().call(from(path)).await, "body"), format!("\"{expected}\""), "{path}");
    }
    // Rules with the same condition count the same calls, also those that an earlier rule has answered.
    for (body, expected) in [("urgent", "at once"), ("", "second"), ("", "any")] {
        let input = format!(r#"{{"method": "POST", "uri": "{}", "body": "{body}"}}"#, service.url("/y/x"));
        assert_eq!(part(&send(&input).await, "body"), format!("\"{expected}\""), "{body}");
    }
    assert_eq!(class(&get(&service.url("/cut")).await).1, "connection");
}

#[tokio::test]
async fn the_observer_sees_every_request() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = seen.clone();
    let script = MockFile::parse(&SourceText::new("s", MOCKS)).unwrap();
    let service = MockService::with_observer(script, 0, move |served| {
        let line = format!("{} {} {} {}", served.method, served.path, served.status, served.by);
        lines.lock().unwrap().push(line);
    })
    .unwrap();
    for path in ["/jobs/1", "/jobs/1", "/none?a=1"] {
        tool().call(call(&format!(r#"{{"uri": "{}"}}"#, service.url(path)))).await;
    }
    let expected =
        ["GET /jobs/1 503 rule 4, answer 1", "GET /jobs/1 202 rule 4, answer 2", "GET /none?a=1 500 no rule matches"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

/// Each line: a file, and its expected problem.
#[test]
fn errors_have_a_position() {
    for (file, position, message, hint) in [
        ("{", "1:2", "", ""),
        ("[]", "1:1", "a mock file must be an object", "an object is written"),
        ("{}", "1:1", "a mock file needs `mocks`", "such as"),
        (r#"{"mock": []}"#, "1:2", "unknown key `mock` in a mock file", "did you mean `mocks`?"),
        (r#"{"mocks": {}}"#, "1:11", "`mocks` must be an array", "array"),
        (r#"{"mocks": [], "otherwise": "skip"}"#, "1:28", "`otherwise` cannot be `skip`", "`call`, `fail`"),
        (r#"{"mocks": [{"when": {"url": "/x"}}]}"#, "1:12", "a rule needs an answer", "`body`"),
        (r#"{"mocks": [{"when": {"url": "x"}, "body": 1}]}"#, "1:29", "begins with `/`", "such as"),
        (r#"{"mocks": [{"when": {"url": "/x?a=1"}, "body": 1}]}"#, "1:29", "has no query", "query"),
        (r#"{"mocks": [{"when": {"step": "a..b"}, "body": 1}]}"#, "1:30", "no path of a step", "pages[3].fetch"),
        (r#"{"mocks": [{"when": {"step": "a[b"}, "body": 1}]}"#, "1:30", "brackets do not match", "such as"),
        (r#"{"mocks": [{"staus": 200}]}"#, "1:13", "unknown key `staus`", "`status`"),
        (r#"{"mocks": [{"status": 99}]}"#, "1:23", "`status` is out of range", "from 200 to 599"),
        (r#"{"mocks": [{"when": {"method": "G T"}, "body": 1}]}"#, "1:32", "not an HTTP method", "GET"),
        (r#"{"mocks": [{"when": {"query": {"a": []}}, "body": 1}]}"#, "1:37", "must be a text", "such as"),
        (r#"{"mocks": [{"headers": {"a b": 1}}]}"#, "1:25", "cannot be a header", "names"),
        (r#"{"mocks": [{"when": {"contain": "x"}, "text": "y"}]}"#, "1:22", "unknown key `contain`", "`contains`"),
        (r#"{"mocks": [{"when": {"turn": 0}, "text": "y"}]}"#, "1:30", "`turn` is out of range", "from 1"),
        (r#"{"mocks": [{"when": {"iteration": -1}, "body": 1}]}"#, "1:35", "`iteration` is out of range", "from 0"),
        (r#"{"mocks": [{"when": {"attempt": 0}, "body": 1}]}"#, "1:33", "`attempt` is out of range", "from 1"),
        (r#"{"mocks": [{"text": "y", "usage": {"tokens": 1}}]}"#, "1:36", "unknown key `tokens`", "known here"),
        (r#"{"mocks": [{"text": "y", "usage": {"input_token": 1}}]}"#, "1:36", "unknown key", "`input_tokens`"),
        (r#"{"mocks": [{"text": "y", "when": {"steps": "x"}}]}"#, "1:35", "unknown key `steps`", "`step`"),
        (r#"{"mocks": [{"text": "y", "when": {"role": 5}}]}"#, "1:43", "`role` must be a text", "quotes"),
        (r#"{"mocks": [{"calls": {}}]}"#, "1:22", "`calls` must be an array", "array"),
        (r#"{"mocks": [{"calls": [{"arguments": {}}]}]}"#, "1:23", "a call needs `name`", "submit_result"),
        (r#"{"mocks": [{"calls": [{"name": "x", "args": {}}]}]}"#, "1:37", "unknown key `args`", "`arguments`"),
        (r#"{"mocks": [{"text": "x", "stop": "stopp"}]}"#, "1:34", "`stop` cannot be `stopp`", "known here: `end`"),
        (r#"{"mocks": [{"when": {"role": "juge"}, "text": "x"}]}"#, "1:30", "`role` cannot be `juge`", "`judge`"),
        (r#"{"mocks": [{"fault": "hangs"}]}"#, "1:22", "`fault` cannot be `hangs`", "`hang`"),
        (r#"{"mocks": [{"text": "x", "delay_ms": -1}]}"#, "1:38", "`delay_ms` is out of range", "from 0"),
        (r#"{"mocks": [{"error": {"cod": 1}}]}"#, "1:23", "unknown key `cod`", "`code`"),
        (
            r#"{"mocks": [{"text": "x", "answers": ["y"]}]}"#,
            "1:26",
            "either `answers` or a single answer",
            "into `answers`",
        ),
        (r#"{"mocks": [{"text": "x", "after_last": "next"}]}"#, "1:26", "no effect on a single answer", "`answers`"),
        (r#"{"mocks": [{"answers": ["x"], "after_last": "again"}]}"#, "1:45", "`after_last` cannot be", "`cycle`"),
        (r#"{"mocks": [{"when": {"turn": 1}, "answers": ["y"]}]}"#, "1:34", "one answer per turn", "remove `turn`"),
        (r#"{"mocks": [{"when": {"call": 1}, "answers": ["y"]}]}"#, "1:34", "one answer per call", "remove `call`"),
        (r#"{"mocks": [{"answers": []}]}"#, "1:24", "`answers` is empty", "per call"),
        (r#"{"mocks": [{"answers": [[]]}]}"#, "1:25", "at least one answer", "per attempt"),
        (r#"{"mocks": [{"answers": [{}]}]}"#, "1:25", "an answer needs one of", "such as"),
        (r#"{"mocks": [{"answers": ["a", {"txt": "y"}]}]}"#, "1:31", "unknown key `txt`", "`text`"),
        (r#"{"mocks": [{"answers": [5]}]}"#, "1:25", "an answer must be an object", "object"),
        (r#"{"mocks": [{"text": "x", "body": 1}]}"#, "1:12", "cannot be of several kinds", "`output`"),
        (r#"{"mocks": [{"when": {"url": "/x"}, "text": "y"}]}"#, "1:12", "no call can match this rule", "`body`"),
        (r#"{"mocks": [{"when": {"role": "judge"}, "output": 1}]}"#, "1:12", "no call can match this rule", "`text`"),
        (r#"{"mocks": [{"when": {"tool": "http"}, "text": "y"}]}"#, "1:12", "no call can match this rule", "`tool`"),
        (
            r#"{"actionMocks": {"a": {"status": "Succeded"}}}"#,
            "1:34",
            "`status` cannot be",
            "did you mean `Succeeded`?",
        ),
        (r#"{"actionMocks": {"a": {"status": "Skipped"}}}"#, "1:34", "`status` cannot be", "static result"),
        (r#"{"actionMocks": {"a": {"output": 1}}}"#, "1:24", "unknown key `output`", "`outputs`"),
    ] {
        let source = SourceText::new("s.json", file);
        let problems = MockFile::parse(&source).expect_err(file);
        let report = &problems.reports(&source)[0];
        assert_eq!(format!("{}:{}", report.line, report.column), position, "{file}");
        assert!(report.message.contains(message), "{file}: {}", report.message);
        assert!(report.hint.clone().unwrap_or_default().contains(hint), "{file}: {:?}", report.hint);
    }
    for (file, position, message) in [
        ("mocks:\n  - when: {stp: x}\n    text: y\n", "2:12", "unknown key `stp`"),
        ("mocks:\n  - text: y\n    fault: hangs\n", "3:12", "`fault` cannot be"),
        ("mocks: [\n", "2:1", ""),
    ] {
        let source = SourceText::new("s.YAML", file);
        let problems = MockFile::parse(&source).expect_err(file);
        let report = &problems.reports(&source)[0];
        assert_eq!(format!("{}:{}", report.line, report.column), position, "{file}");
        assert!(report.message.contains(message), "{file}: {}", report.message);
    }
    let both = SourceText::new("s.json", r#"{"mocks": [{"when": {"url": "x"}, "bdy": 1, "status": 9}], "extra": 1}"#);
    let problems = MockFile::parse(&both).unwrap_err();
    assert_eq!(problems.len(), 4, "{}", problems.render(&both, Colour::Never));
}

/// Returns the keys that the parser knows in an object, from its message about an unknown one.
fn known_keys(file: &str) -> Vec<String> {
    let source = SourceText::new("s.json", file);
    let problems = MockFile::parse(&source).expect_err(file);
    let unknown = problems.reports(&source).into_iter().find(|report| report.message.contains("zzzz"));
    let hint = unknown.and_then(|report| report.hint).expect("a hint");
    let keys = hint.strip_prefix("known here: ").unwrap_or_else(|| panic!("{file}: {hint}"));
    keys.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_schema_has_the_keys_of_the_parser() {
    let schema = windlass_testing::mock::schema();
    let at = |path: &[&str]| path.iter().fold(schema.clone(), |node, key| node.get(key).cloned().expect("a part"));
    let answer = at(&["$defs", "answer", "anyOf"]).as_list().unwrap()[1].get("properties").cloned().unwrap();
    let error = answer.get("error").unwrap().get("anyOf").unwrap().as_list().unwrap()[1].get("properties").cloned();
    let part = |name: &str| answer.get(name).unwrap().clone();
    for (object, file) in [
        (at(&["properties"]), r#"{"mocks": [], "zzzz": 1}"#),
        (at(&["$defs", "rule", "properties"]), r#"{"mocks": [{"text": "x", "zzzz": 1}]}"#),
        (at(&["$defs", "condition", "properties"]), r#"{"mocks": [{"when": {"zzzz": 1}, "text": "x"}]}"#),
        (answer.clone(), r#"{"mocks": [{"answers": [{"text": "x", "zzzz": 1}]}]}"#),
        (error.unwrap(), r#"{"mocks": [{"error": {"zzzz": 1}}]}"#),
        (part("usage").get("properties").unwrap().clone(), r#"{"mocks": [{"text": "x", "usage": {"zzzz": 1}}]}"#),
        (
            part("calls").get("items").unwrap().get("properties").unwrap().clone(),
            r#"{"mocks": [{"calls": [{"name": "x", "zzzz": 1}]}]}"#,
        ),
    ] {
        let mut keys: Vec<String> = object.as_map().unwrap().keys().map(|key| key.to_string()).collect();
        keys.sort_unstable_by_key(|key| key.to_lowercase());
        assert_eq!(keys, known_keys(file), "{file}");
    }
}

/// A value that the schema rejects is one that the parser rejects, and the other way round.
#[tokio::test]
async fn the_schema_accepts_what_the_parser_accepts() {
    let schema = windlass_tools::schema::CompiledSchema::compile(&windlass_testing::mock::schema(), None).unwrap();
    for file in [
        r#"{"mocks": []}"#,
        r#"{"mocks": [{"status": 200}], "input": {"a": 1}, "otherwise": "fail", "$schema": "x"}"#,
        r#"{"mocks": [{"when": {"step": "a", "iteration": 0, "call": 1}, "output": null}]}"#,
        r#"{"mocks": [{"when": {"tool": "http", "definition": "d", "attempt": 1}, "error": {"code": 503}}]}"#,
        r#"{"mocks": [{"when": {"step": "a"}, "error": "broken"}]}"#,
        r#"{"mocks": [{"when": {"method": "GET", "url": "/", "query": {"a": 1, "b": "x", "c": true}}, "body": []}]}"#,
        r#"{"mocks": [{"answers": ["x", ["y", {"status": 429, "retry_after": 1}]], "after_last": "cycle"}]}"#,
        r#"{"mocks": [{"text": {"a": 1}, "usage": {"input_tokens": 1}, "stop": "length", "delay_ms": 5}]}"#,
        r#"{"mocks": [{"calls": [{"id": "1", "name": "x", "arguments": []}], "fault": "malformed"}]}"#,
        r#"{"mocks": [{"when": {"role": "judge", "model": "m", "turn": 1, "pass": 1, "last_contains": "a", "offered_tool": "b"}, "text": "x"}]}"#,
        r#"{"mocks": [{"status": 199}]}"#,
        r#"{"mocks": [{"when": {"iteration": -1}, "body": 1}]}"#,
        r#"{"mocks": [{"when": {"call": 0}, "body": 1}]}"#,
        r#"{"mocks": [{"when": {"step": 5}, "body": 1}]}"#,
        r#"{"mocks": [{"answers": [5]}]}"#,
        r#"{"mocks": [{"delay_ms": 600001, "body": 1}]}"#,
        r#"{"mocks": [{"calls": [{}]}]}"#,
        r#"{"mocks": [{"body": 1, "more": 1}]}"#,
        r#"{"otherwise": "call"}"#,
    ] {
        let is_parsed = MockFile::parse(&SourceText::new("s.json", file)).is_ok();
        let value = windlass_value::parse_json(file).unwrap();
        let problems = schema.problems(&value, 5).await;
        assert_eq!(problems.is_none(), is_parsed, "{file}: {problems:?}");
    }
}

/// All mock files of the examples are valid, for the parser and by the schema.
#[tokio::test]
async fn the_files_of_the_examples_are_valid() {
    let schema = windlass_tools::schema::CompiledSchema::compile(&windlass_testing::mock::schema(), None).unwrap();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut checked = 0;
    for folder in ["zenflow", "noetl", "loom/seed"] {
        for entry in std::fs::read_dir(format!("{examples}/{folder}")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.ends_with(".script.yaml") && name != "service.json" {
                continue;
            }
            let source = SourceText::new(name.as_str(), std::fs::read_to_string(&path).unwrap());
            MockFile::parse(&source).unwrap_or_else(|problems| panic!("{}", problems.render(&source, Colour::Never)));
            let mut found = windlass_syntax::Diagnostics::new();
            let limits = windlass_syntax::ParseLimits { bytes: 1 << 20, depth: 50 };
            let tree = windlass_syntax::parse_yaml(&source, limits, windlass_syntax::ScalarRules::Core, &mut found);
            let problems = schema.problems(&windlass_syntax::to_value(&tree.unwrap()), 5).await;
            assert_eq!(problems, None, "{name}");
            checked += 1;
        }
    }
    assert!(checked >= 17, "{checked} files");
}
