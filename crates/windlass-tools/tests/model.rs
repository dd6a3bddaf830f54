//! The tool `model` against a scripted service.

use crate::support;

use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall};
use windlass_testing::mock::MockService;
use windlass_testing::test_service::TestService;
use windlass_tools::{HttpOptions, HttpTool, ModelOptions, ModelTool, Outbound, Secret};
use windlass_value::{Duration, to_json};

use support::{call, class, debug_text, error, options, part, tool};

const KEY: &str = "sk-canary-0123456789";

fn model_options(base_url: impl Into<String>) -> ModelOptions {
    ModelOptions {
        base_url: Some(base_url.into()),
        key: Some(Secret::new(KEY)),
        default_model: Some("small".to_owned()),
        ..ModelOptions::default()
    }
}

fn service(script: &str) -> MockService {
    TestService::from_mocks(script).unwrap()
}

async fn ask_with(options: ModelOptions, input: &str) -> TaskOutcome {
    ModelTool::new(options, tool()).call(call(input)).await
}

async fn ask(service: &MockService, input: &str) -> TaskOutcome {
    ask_with(model_options(service.model_url()), input).await
}

/// Starts a service with one route that returns this body with this status, as a model service would.
fn replying(status: u16, body: &str) -> MockService {
    service(&format!(
        r#"{{"mocks": [{{"when": {{"url": "/v1/chat/completions"}}, "status": {status}, "body": {body}}}]}}"#
    ))
}

#[tokio::test]
async fn gives_the_answer_and_what_it_cost() {
    let service = service(
        r#"{"mocks": [
            {"when": {"contains": "as data"}, "text": {"n": [1]}, "usage": {"input_tokens": 7, "output_tokens": 5}},
            {"when": {"contains": "quiet"}, "text": "fine"},
            {"text": "Good morning.", "usage": {"total_tokens": 9}}
        ]}"#,
    );
    let outcome = ask(&service, r#"{"prompt": "as data, please"}"#).await;
    assert_eq!(
        to_json(&outcome.output),
        r#"{"body":{"n":[1]},"content":"{\"n\":[1]}","model":"small","finishReason":"stop","usage":{"promptTokens":7,"completionTokens":5,"totalTokens":12}}"#
    );
    assert_eq!(to_json(&outcome.meta), r#"{"usage":{"tokens":12}}"#);
    let outcome = ask(&service, r#"{"prompt": "hello", "model": "large"}"#).await;
    assert_eq!((part(&outcome, "body"), part(&outcome, "model")), (r#""Good morning.""#.into(), r#""large""#.into()));
    assert_eq!(to_json(&outcome.meta), r#"{"usage":{"tokens":9}}"#);
    let outcome = ask(&service, r#"{"prompt": "quiet"}"#).await;
    assert_eq!((part(&outcome, "usage"), to_json(&outcome.meta)), ("null".into(), "null".into()));
    assert_eq!(service.model_requests(), 3);
}

#[tokio::test]
async fn sends_what_the_input_says() {
    for (input, contains) in [
        (
            r#"{"prompt": "hi", "systemPrompt": "be brief"}"#,
            r#""messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]"#,
        ),
        (r#"{"prompt": {"a": 1}}"#, r#""content":"{\"a\":1}""#),
        (
            r#"{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}], "prompt": "three"}"#,
            r#""messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]"#,
        ),
        (
            r#"{"prompt": "x", "temperature": 0.5, "topP": 1, "maxTokens": 9, "responseFormat": "json", "model": "m"}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":0.5,"top_p":1,"max_tokens":9,"response_format":{"type":"json_object"}}"#,
        ),
        (
            r#"{"prompt": "x", "responseFormat": {"type": "json_schema"}, "topP": null}"#,
            r#""response_format":{"type":"json_schema"}"#,
        ),
    ] {
        let seen = question(input).await;
        assert!(seen.contains(contains), "{seen}");
    }
}

/// Returns the body of the request for an input.
async fn question(input: &str) -> String {
    let (seen, watch) = std::sync::mpsc::channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = String::new();
        loop {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).await.unwrap();
            text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                break;
            }
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        seen.send(text).unwrap();
    });
    ask_with(model_options(url), input).await;
    server.await.unwrap();
    watch.recv().unwrap()
}

#[tokio::test]
async fn requests_carry_run_headers_and_an_idempotency_key() {
    let seen = question(r#"{"prompt": "x"}"#).await;
    for line in [
        "POST /v1/chat/completions HTTP/1.1",
        "authorization: Bearer sk-canary-0123456789",
        "content-type: application/json",
        "idempotency-key: run-1:sync[3]/fetch",
        "x-windlass-run: run-1",
        "x-windlass-path: sync[3]/Gr%C3%BC%C3%9Fe",
        "x-windlass-attempt: 2",
    ] {
        assert!(seen.lines().any(|found| found == line), "{line}\n{seen}");
    }
}

#[tokio::test]
async fn service_errors_keep_their_status_and_message() {
    let service = service(
        r#"{"mocks": [
            {"when": {"turn": 1}, "text": "slow down", "status": 429, "retry_after": 3},
            {"when": {"turn": 2}, "text": "no such model", "status": 404},
            {"when": {"turn": 3}, "text": "wrong key", "status": 401}
        ]}"#,
    );
    let outcome = ask(&service, r#"{"prompt": "x"}"#).await;
    assert_eq!(class(&outcome), ("429", "model", true));
    assert!(error(&outcome).message.ends_with("answered 429 Too Many Requests: slow down"), "{:?}", outcome.error);
    assert_eq!(to_json(&outcome.meta), r#"{"retry_after_ms":3000}"#);
    for (code, words) in [("404", "base_url"), ("401", "OPENAI_API_KEY")] {
        let outcome = ask(&service, r#"{"prompt": "x"}"#).await;
        assert_eq!(class(&outcome), (code, "model", true));
        assert!(error(&outcome).hint.as_ref().unwrap().contains(words), "{:?}", outcome.error);
    }
    // A request that no rule matches fails.
    let outcome = ask(&service, r#"{"prompt": "a fourth time"}"#).await;
    assert_eq!(class(&outcome), ("500", "model", true));
    assert!(
        error(&outcome).message.contains("(model `small`, tools: none); the prompt ends: a fourth time"),
        "{:?}",
        outcome.error
    );
    assert_eq!(class(&ask(&replying(502, r#""<h1>Bad</h1>""#), r#"{"prompt": "x"}"#).await), ("502", "model", true));
}

#[tokio::test]
async fn unusable_replies_are_errors() {
    for (body, code, words) in [
        (r#""<html>""#, "BadModelReply", "did not answer with a JSON object; the reply begins: <html>"),
        ("[1]", "BadModelReply", "did not answer with a JSON object"),
        ("null", "BadModelReply", "did not answer with a JSON object"),
        ("{}", "BadModelReply", "no `choices`"),
        (r#"{"choices": []}"#, "BadModelReply", "no `choices`"),
        (r#"{"choices": [{"finish_reason": "stop"}]}"#, "BadModelReply", "no message"),
        (r#"{"error": {"message": "overloaded", "code": 529}}"#, "529", "overloaded"),
        (r#"{"error": {"message": "overloaded"}}"#, "ModelError", "overloaded"),
    ] {
        let outcome = ask(&replying(200, body), r#"{"prompt": "x"}"#).await;
        assert_eq!(class(&outcome), (code, "model", true), "{body}");
        assert!(error(&outcome).message.contains(words), "{body}: {}", error(&outcome).message);
    }
    let paid = r#"{"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 0}}"#;
    assert_eq!(to_json(&ask(&replying(200, paid), r#"{"prompt": "x"}"#).await.meta), r#"{"usage":{"tokens":4}}"#);
    let bad_json = support::service();
    let outcome = ask_with(model_options(bad_json.url("/bad-json")), r#"{"prompt": "x"}"#).await;
    assert_eq!(class(&outcome), ("BadJson", "model", true));
    let parts =
        r#"{"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}]}"#;
    assert_eq!(part(&ask(&replying(200, parts), r#"{"prompt": "x"}"#).await, "content"), r#""ab""#);
}

/// A reply that is cut off, refused, withheld or empty is no answer: the call fails, with the reply as its output, unless
/// it accepts such replies.
#[tokio::test]
async fn replies_that_are_no_answer_fail() {
    for (choice, stop, code, content) in [
        (r#"{"message": {"content": "half of"}, "finish_reason": "length"}"#, "length", "AnswerCutOff", "half of"),
        (r#"{"message": {"content": null}, "finish_reason": "length"}"#, "length", "AnswerCutOff", ""),
        (r#"{"message": {"refusal": "I will not", "content": null}}"#, "refusal", "AnswerRefused", "I will not"),
        (r#"{"message": {"content": ""}, "finish_reason": "content_filter"}"#, "filtered", "AnswerFiltered", ""),
        (
            r#"{"message": {"content": ""}, "finish_reason": "content_filter: RECITATION"}"#,
            "filtered",
            "AnswerFiltered",
            "",
        ),
        (r#"{"message": {"content": " "}, "finish_reason": "stop"}"#, "empty", "AnswerEmpty", " "),
        (r#"{"message": {"content": null}, "finish_reason": "stop"}"#, "empty", "AnswerEmpty", ""),
    ] {
        let body = format!(r#"{{"choices": [{choice}], "usage": {{"total_tokens": 9}}}}"#);
        let outcome = ask(&replying(200, &body), r#"{"prompt": "x"}"#).await;
        assert_eq!(class(&outcome), (code, "model", true), "{choice}");
        assert!(error(&outcome).hint.as_ref().unwrap().contains(&format!("accept: [\"{stop}\"]")), "{choice}");
        assert_eq!(part(&outcome, "content"), format!("{content:?}"), "{choice}");
        assert_eq!(to_json(&outcome.meta), r#"{"usage":{"tokens":9}}"#, "it was paid for");
        let accepts = format!(r#"{{"prompt": "x", "accept": ["{stop}"]}}"#);
        let outcome = ask(&replying(200, &body), &accepts).await;
        assert!(outcome.error.is_none(), "{choice}: {:?}", outcome.error);
        assert_eq!(part(&outcome, "content"), format!("{content:?}"), "{choice}");
    }
    for accept in ["5", r#"["all"]"#, r#""length""#] {
        let input = format!(r#"{{"prompt": "x", "accept": {accept}}}"#);
        let outcome = ask(&replying(200, "{}"), &input).await;
        assert_eq!(class(&outcome), ("BadModelSetting", "input", false), "{accept}");
    }
}

#[tokio::test]
async fn configuration_timeout_and_connection_errors() {
    let slow = support::service();
    let url = slow.url("/slow?ms=10000");
    let options = ModelOptions { timeout: Duration::from_ms(50), ..model_options(url.as_str()) };
    assert_eq!(class(&ask_with(options, r#"{"prompt": "x"}"#).await), ("timeout", "timeout", false));
    let by_task = ToolCall { timeout: Some(Duration::from_ms(50)), ..call(r#"{"prompt": "x"}"#) };
    let outcome = ModelTool::new(model_options(url), tool()).call(by_task).await;
    assert_eq!(class(&outcome), ("timeout", "timeout", false));
    let gone = slow.url("/v1");
    drop(slow);
    assert_eq!(class(&ask_with(model_options(gone), r#"{"prompt": "x"}"#).await), ("connection", "connection", false));

    let none = ModelOptions { base_url: None, ..model_options("") };
    let outcome = ask_with(none, r#"{"prompt": "x"}"#).await;
    assert_eq!(class(&outcome), ("ModelNotConfigured", "model", false));
    assert!(error(&outcome).hint.as_ref().unwrap().contains("base_url"));
}

#[tokio::test]
async fn a_service_on_ones_own_machine_needs_no_key() {
    let service = service(r#"{"mocks": [{"text": "x"}]}"#);
    let outcome =
        ask_with(ModelOptions { key: None, ..model_options(service.model_url()) }, r#"{"prompt": "x"}"#).await;
    assert_eq!(outcome.error, None);
}

#[tokio::test]
async fn a_closed_engine_keeps_its_model_off_private_addresses() {
    let service = service(r#"{"mocks": [{"text": "x"}]}"#);
    let closed = HttpTool::new(HttpOptions { outbound: Outbound::default(), ..options() });
    let outcome = ModelTool::new(model_options(service.model_url()), closed).call(call(r#"{"prompt": "x"}"#)).await;
    assert_eq!((class(&outcome), service.requests()), (("BlockedAddress", "input", false), 0));
}

#[tokio::test]
async fn invalid_inputs_are_rejected() {
    for (input, code, hint) in [
        (r#""x""#, "BadModelInput", "object"),
        (r#"{"promt": "x"}"#, "BadModelInput", "did you mean `prompt`?"),
        (r#"{"prompt": "x", "top_p": 1}"#, "BadModelInput", "did you mean `topP`?"),
        (r#"{"prompt": "x", "banana": 1}"#, "BadModelInput", "supported keys"),
        ("{}", "BadModelPrompt", "prompt"),
        (r#"{"prompt": null}"#, "BadModelPrompt", "prompt"),
        (r#"{"messages": "x"}"#, "BadModelMessages", "array"),
        (r#"{"messages": []}"#, "BadModelMessages", "array"),
        (r#"{"messages": [{"content": "x"}]}"#, "BadModelMessages", "role"),
        (r#"{"prompt": "x", "model": 5}"#, "BadModelName", "name"),
        (r#"{"prompt": "x", "temperature": "hot"}"#, "BadModelSetting", "number"),
        (r#"{"prompt": "x", "maxTokens": 0}"#, "BadModelSetting", "above 0"),
        (r#"{"prompt": "x", "responseFormat": "xml"}"#, "BadModelSetting", "json"),
    ] {
        let outcome = ask_with(model_options("http://127.0.0.1:1/v1"), input).await;
        assert_eq!(class(&outcome), (code, "input", false), "{input}");
        assert!(error(&outcome).hint.as_ref().unwrap().contains(hint), "{input}: {:?}", outcome.error);
    }
    let nameless = ModelOptions { default_model: None, ..model_options("http://127.0.0.1:1/v1") };
    let outcome = ask_with(nameless, r#"{"prompt": "x"}"#).await;
    assert!(error(&outcome).hint.as_ref().unwrap().contains("`model` under"));
}

#[tokio::test]
async fn the_key_is_redacted() {
    let options = model_options("http://127.0.0.1:1/v1");
    assert!(!format!("{options:?}").contains("canary"), "{options:?}");
    let telling = [
        (401, format!(r#"{{"error": {{"message": "the key {KEY} is wrong"}}}}"#)),
        (500, format!(r#""oops {KEY}""#)),
        (200, format!(r#""text with {KEY}""#)),
        (200, format!(r#"{{"error": {{"message": "{KEY}"}}}}"#)),
        (200, format!(r#"{{"choices": [{{"message": {{"refusal": "{KEY}"}}}}]}}"#)),
        (200, format!(r#"{{"choices": [{{"finish_reason": "{KEY}"}}]}}"#)),
        (
            200,
            format!(
                r#"{{"model": "{KEY}", "choices": [{{"message": {{"content": "{KEY}"}}, "finish_reason": "{KEY}"}}]}}"#
            ),
        ),
        (200, r#"{"choices": [{"message": {"content": "{\"a\": \"\\u0073k-canary-0123456789\"}"}}]}"#.to_owned()),
    ];
    for (status, body) in telling {
        let outcome = ask(&replying(status, &body), r#"{"prompt": "x"}"#).await;
        assert!(!debug_text(&outcome).contains(KEY), "{outcome:?}");
    }
    let echo = ask(&replying(418, r#""$echo""#), r#"{"prompt": "x"}"#).await;
    assert!(error(&echo).message.contains("418") && !debug_text(&echo).contains("canary"), "{echo:?}");
    for path in ["/echo-bad-json", "/close", "/redirect?to=ftp://h/"] {
        let service = support::service();
        let outcome = ask_with(model_options(service.url(path)), r#"{"prompt": "x"}"#).await;
        assert!(outcome.error.is_some() && !debug_text(&outcome).contains("canary"), "{outcome:?}");
    }
}
