//! Model services that misbehave.

use crate::support;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use windlass_agents::chat::{ChatOptions, ModelProtocol};
use windlass_core::TaskOutcome;
use windlass_value::{Duration, to_json};

use support::canned::{AfterReply, CannedService};
use support::models::{ASK, BOTH, options, turn};
use support::{class, error, part};

async fn ask(service: &CannedService, protocol: ModelProtocol) -> TaskOutcome {
    turn(options(&service.url, protocol, true), ASK).await
}

const HELLO: &str = r#"data: {"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": null}]}"#;
const STOP: &str = r#"data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}"#;
const DONE: &str = "data: [DONE]";

const BLOCK: &str = "event: content_block_start\ndata: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": {\"type\": \"text\", \"text\": \"hel\"}}";
const BEGIN: &str = "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"model\": \"m\", \"usage\": {\"input_tokens\": 7, \"output_tokens\": 1}}}";
const DELTA: &str = "event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"lo\"}}";
const ENDED: &str = "event: message_delta\ndata: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\"}, \"usage\": {\"output_tokens\": 5}}";
const OVER: &str = "event: message_stop\ndata: {\"type\": \"message_stop\"}";

/// Each line: a protocol, its events, the behaviour afterwards, and the expected outcome.
#[tokio::test]
async fn streams_end_as_expected() {
    let table: &[(&str, &[&str], AfterReply, &str)] = &[
        ("openai", &[HELLO, STOP, DONE], AfterReply::Close, "hello"),
        // After a stream has announced its end, its connection is not waited for.
        ("openai", &[HELLO, STOP, DONE], AfterReply::Silence, "hello"),
        ("openai", &[HELLO, STOP], AfterReply::Close, "hello"),
        ("openai", &[HELLO, DONE], AfterReply::Close, "hello"),
        ("openai", &[": sign of life", HELLO, "data:", ": x", STOP, DONE], AfterReply::Close, "hello"),
        // Ended without content; or no content and no end.
        ("openai", &[DONE], AfterReply::Close, "BadModelReply model"),
        ("openai", &["data: {}", DONE], AfterReply::Silence, "BadModelReply model"),
        ("openai", &["data: {}"], AfterReply::Close, "connection connection"),
        ("openai", &[STOP, DONE], AfterReply::Close, ""),
        ("anthropic", &[OVER], AfterReply::Close, "BadModelReply model"),
        ("anthropic", &[BEGIN, OVER], AfterReply::Close, "BadModelReply model"),
        ("openai", &[HELLO], AfterReply::Close, "connection connection"),
        ("openai", &[], AfterReply::Close, "connection connection"),
        ("openai", &[HELLO, "data: {\"choices\": ["], AfterReply::Close, "BadModelReply model"),
        ("openai", &[HELLO, "data: nope", STOP], AfterReply::Close, "BadModelReply model"),
        ("openai", &[HELLO, r#"data: {"error": {"message": "busy", "code": 503}}"#], AfterReply::Close, "503 http"),
        ("openai", &[HELLO, r#"data: {"error": "gone wrong"}"#], AfterReply::Close, "500 http"),
        (
            "openai",
            &[r#"data: {"error": {"message": "too much", "code": "context_length_exceeded"}}"#],
            AfterReply::Close,
            "ContextTooLong model",
        ),
        ("openai", &["data: [1]", HELLO, "data: 5", "data: {\"choices\": 5}", STOP], AfterReply::Close, "hello"),
        ("anthropic", &[BEGIN, BLOCK, DELTA, ENDED, OVER], AfterReply::Close, "hello"),
        (
            "anthropic",
            &[BEGIN, "event: ping\ndata: {\"type\": \"ping\"}", BLOCK, DELTA, ENDED, OVER],
            AfterReply::Silence,
            "hello",
        ),
        ("anthropic", &[BEGIN, BLOCK, DELTA, ENDED], AfterReply::Close, "hello"),
        ("anthropic", &[BEGIN, BLOCK, DELTA], AfterReply::Close, "connection connection"),
        (
            "anthropic",
            &[
                BEGIN,
                "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"busy\"}}",
            ],
            AfterReply::Close,
            "529 http",
        ),
        (
            "anthropic",
            &[
                "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"rate_limit_error\", \"message\": \"busy\"}}",
            ],
            AfterReply::Close,
            "429 http",
        ),
    ];
    for (protocol, events, then, expected) in table {
        let service = CannedService::events(events, *then).await;
        let outcome = ask(&service, ModelProtocol::parse(protocol).unwrap()).await;
        let found = match &outcome.error {
            None => part(&outcome, "content").trim_matches('"').to_owned(),
            Some(error) => format!("{} {}", error.code, error.kind),
        };
        assert_eq!(found, *expected, "{protocol} {events:?}: {:?}", outcome.error);
    }
}

#[tokio::test]
async fn the_usage_of_a_broken_answer_is_counted() {
    let service = CannedService::events(&[BEGIN, BLOCK, DELTA], AfterReply::Close).await;
    let outcome = ask(&service, ModelProtocol::Anthropic).await;
    assert_eq!(class(&outcome), ("connection", "connection", false));
    assert!(to_json(&outcome.meta).contains(r#""tokens":8"#), "{}", to_json(&outcome.meta));
}

/// Each line: the reported usage of an answer of 40 characters, and the counted input, output, total, and estimate
/// flag.
#[tokio::test]
async fn missing_usage_is_estimated() {
    let long = "hello ".repeat(1_000);
    let question = format!(r#"{{"messages": [{{"role": "user", "content": "{long}"}}]}}"#);
    for (usage, expected) in [
        (r#"{"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}"#, (7, 5, 12, false)),
        ("null", (1_500, 10, 1_510, true)),
        ("5", (1_500, 10, 1_510, true)),
        ("{}", (1_500, 10, 1_510, true)),
        (r#"{"prompt_tokens": -7, "completion_tokens": -5, "total_tokens": -12}"#, (1_500, 10, 1_510, true)),
        (r#"{"prompt_tokens": "7", "completion_tokens": 1e400, "total_tokens": 0.5}"#, (1_500, 10, 1_510, true)),
        (r#"{"prompt_tokens": 7, "completion_tokens": 99999999999999999999}"#, (7, 10, 17, true)),
    ] {
        let text = "x".repeat(40);
        let body = format!(
            r#"{{"choices": [{{"message": {{"content": "{text}"}}, "finish_reason": "stop"}}], "usage": {usage}}}"#
        );
        let service = CannedService::json(200, &body).await;
        let outcome = turn(options(&service.url, ModelProtocol::OpenAi, false), &question).await;
        let count = |name: &str| part(&outcome, name).parse::<i64>().unwrap();
        // The request has a little more text than the message.
        let input = count("usage.input_tokens");
        let near = if (1_500..1_530).contains(&input) { 1_500 } else { input };
        let total = count("usage.total_tokens") - input + near;
        let found = (near, count("usage.output_tokens"), total, part(&outcome, "usage.estimated") == "true");
        assert_eq!(found, expected, "{usage}: {}", to_json(&outcome.output));
        let tokens = format!(r#""tokens":{}"#, part(&outcome, "usage.total_tokens"));
        assert!(to_json(&outcome.meta).contains(&tokens), "{}", to_json(&outcome.meta));
    }
}

#[tokio::test]
async fn a_too_long_retry_after_is_an_error() {
    for (wait, is_long) in [
        ("retry-after: 3600", false),
        ("retry-after: 3601", true),
        ("retry-after: 2937600", true),
        ("retry-after: Thu, 01 Jan 2099 00:00:00 GMT", true),
        ("retry-after-ms: 3600001", true),
    ] {
        let service = CannedService::reply(429, &format!("{wait}\r\n"), b"{}").await;
        let outcome = ask(&service, ModelProtocol::OpenAi).await;
        let expected = if is_long { ("RetryAfterTooLong", "model", true) } else { ("429", "http", true) };
        assert_eq!(class(&outcome), expected, "{wait}");
        assert_eq!(to_json(&outcome.meta).contains("retry_after_ms"), !is_long, "{wait}");
        assert!(!is_long || error(&outcome).message.contains("requests a retry after"), "{}", error(&outcome).message);
    }
}

#[tokio::test]
async fn foreign_redirects_are_not_followed() {
    let answer = r#"{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}"#;
    let other = CannedService::json(200, answer).await;
    for protocol in BOTH {
        for status in [301, 302, 303, 307, 308] {
            let service = CannedService::reply(status, &format!("location: {}/x\r\n", other.url), b"").await;
            let outcome = ask(&service, protocol).await;
            assert_eq!(class(&outcome), ("ForeignRedirect", "http", true), "{status}");
        }
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn replies_are_limited_in_size_and_time() {
    // The tool of these tests reads at most one MiB.
    let line = format!("data: {}\n", "x".repeat(8_000)).into_bytes();
    let whole_events = format!("{HELLO}\n\n").into_bytes();
    for protocol in BOTH {
        for pieces in [line.clone(), b": ping\n\n".to_vec(), vec![b'x'; 4096], whole_events.clone()] {
            let service = CannedService::stream("text/event-stream", [pieces], AfterReply::Endless).await;
            let outcome = ask(&service, protocol).await;
            assert_eq!(class(&outcome), ("ReplyTooLarge", "limit", true), "{:?}", outcome.error);
        }
        let service = CannedService::stream("application/json", [vec![b' '; 4096]], AfterReply::Endless).await;
        assert_eq!(class(&ask(&service, protocol).await), ("ReplyTooLarge", "limit", true));
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&vec![b'x'; 4 << 20]).unwrap();
        let headers = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
        let service = CannedService::reply(200, headers, &packed.finish().unwrap()).await;
        assert_eq!(class(&ask(&service, protocol).await), ("ReplyTooLarge", "limit", true));
        // The time is limited as well.
        let service = CannedService::events(&[HELLO], AfterReply::Silence).await;
        let hasty = ChatOptions { timeout: Duration::from_ms(50), ..options(&service.url, protocol, true) };
        assert_eq!(class(&turn(hasty, ASK).await), ("timeout", "timeout", false));
    }
    // Refusals are limited too, and keep their status.
    let service = CannedService::stream("text/plain", [vec![b'x'; 4096]], AfterReply::Close).await;
    assert_eq!(class(&ask(&service, ModelProtocol::OpenAi).await).0, "BadModelReply");
}

/// Each line: a content type, a body, and the expected outcome.
#[tokio::test]
async fn bodies_are_read_whatever_their_content_type() {
    let stream = format!("{HELLO}\n\n{STOP}\n\n{DONE}\n\n");
    let plain = r#"{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}"#;
    for (media, body, expected) in [
        ("text/event-stream", stream.as_bytes(), "hello"),
        ("Text/Event-Stream; charset=utf-8", stream.as_bytes(), "hello"),
        ("application/json", stream.as_bytes(), "hello"),
        ("text/plain", stream.as_bytes(), "hello"),
        ("", stream.as_bytes(), "hello"),
        ("application/json", plain.as_bytes(), "hello"),
        ("text/html", plain.as_bytes(), "hello"),
        ("", plain.as_bytes(), "hello"),
        ("text/event-stream", plain.as_bytes(), "connection"),
        ("application/json", b"<html>busy</html>", "BadModelReply"),
        ("application/json", b"", "BadModelReply"),
        ("application/json", b"[]", "BadModelReply"),
        ("application/json", b"{}", "BadModelReply"),
        ("application/json", br#"{"choices": []}"#, "BadModelReply"),
        ("application/json", br#"{"choices": [{}]}"#, "BadModelReply"),
        ("application/json", br#"{"choices": [{"message": {}}]}"#, "BadModelReply"),
        ("application/json", br#"{"error": {"message": "busy", "code": 429}}"#, "429"),
        ("application/json", b"{\"choices\": [{\"message\": {\"content\": \"\xff\"}}]}", "BadModelReply"),
        ("text/event-stream", b"data: {\"choices\": [{\"delta\": {\"content\": \"\xff\"}}]}\n\n", "BadModelReply"),
        ("application/json", br#"{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}"#, ""),
        ("application/json", br#"{"choices": [{"message": {"content": [{"text": "hel"}, {"text": "lo"}]}}]}"#, "hello"),
        ("application/json", br#"{"choices": [{"message": {"refusal": "no"}, "finish_reason": "stop"}]}"#, "no"),
    ] {
        let service = CannedService::reply(200, &format!("content-type: {media}\r\n"), body).await;
        let outcome = ask(&service, ModelProtocol::OpenAi).await;
        let shown = String::from_utf8_lossy(body);
        let found = match &outcome.error {
            None => part(&outcome, "content").trim_matches('"').to_owned(),
            Some(error) => error.code.to_string(),
        };
        assert_eq!(found, expected, "{media} {shown}: {:?}", outcome.error);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(stream.as_bytes()).unwrap();
    let headers = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
    let service = CannedService::reply(200, headers, &packed.finish().unwrap()).await;
    assert_eq!(part(&ask(&service, ModelProtocol::OpenAi).await, "content"), r#""hello""#);
}

/// Each line: the calls as a service sends them, and as they are read.
#[tokio::test]
async fn tool_calls_of_all_shapes_are_read() {
    let chunk = |calls: &str| format!(r#"data: {{"choices": [{{"delta": {{"tool_calls": {calls}}}}}]}}"#);
    let table: &[(&[&str], &str)] = &[
        (
            &[
                r#"[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x"}}, {"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}}]"#,
                r#"[{"index": 1, "function": {"arguments": "{}"}}]"#,
                r#"[{"index": 0, "function": {"arguments": "\": 1}"}}]"#,
            ],
            r#"a f {"x":1}, b g {}"#,
        ),
        // No index.
        (
            &[
                r#"[{"id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}]"#,
                r#"[{"function": {"arguments": " 1}"}}]"#,
                r#"[{"id": "b", "function": {"name": "f", "arguments": "{}"}}]"#,
            ],
            r#"a f {"x":1}, b f {}"#,
        ),
        // All with the same index.
        (
            &[
                r#"[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]"#,
                r#"[{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}]"#,
            ],
            "a f {}, b f {}",
        ),
        // No ids, or the same id twice.
        (
            &[
                r#"[{"index": 0, "function": {"name": "f", "arguments": "{}"}}, {"index": 1, "id": "", "function": {"name": "g"}}]"#,
            ],
            "call_0 f {}, call_1 g {}",
        ),
        (
            &[
                r#"[{"index": 0, "id": "a", "function": {"name": "f"}}, {"index": 1, "id": "a", "function": {"name": "f"}}]"#,
            ],
            "a f {}, call_1 f {}",
        ),
        // An object in place of its text.
        (&[r#"[{"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]"#], r#"a f {"x":1}"#),
        (&[r#"[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "[1]"}}]"#], r#"a f "[1]""#),
    ];
    for (pieces, expected) in table {
        let events: Vec<String> = pieces.iter().map(|calls| chunk(calls)).chain([STOP.to_owned()]).collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let service = CannedService::events(&events, AfterReply::Close).await;
        let outcome = ask(&service, ModelProtocol::OpenAi).await;
        assert_eq!(outcome.error, None);
        let calls = outcome.output.get("calls").unwrap().as_list().unwrap().to_vec();
        let calls_text = calls.iter().map(|call| {
            let text = |name: &str| call.get(name).unwrap().as_str().unwrap().to_owned();
            format!("{} {} {}", text("id"), text("name"), to_json(call.get("arguments").unwrap()))
        });
        assert_eq!(calls_text.collect::<Vec<_>>().join(", "), *expected, "{pieces:?}");
        assert_eq!(part(&outcome, "stop"), r#""tools""#);
    }
}

/// Each line: a status, a body, and the expected error.
#[tokio::test]
async fn refusals_are_classified() {
    for (status, body, code, kind, expected) in [
        (
            400,
            r#"{"error": {"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"}}"#,
            "ContextTooLong",
            "model",
            ": no",
        ),
        (
            400,
            r#"{"error": {"message": "This model's maximum context length is 8192 tokens."}}"#,
            "ContextTooLong",
            "model",
            "8192",
        ),
        (400, r#"{"error": {"message": "no", "code": "content_policy_violation"}}"#, "Refused", "model", ": no"),
        (400, r#"{"error": {"message": "bad temperature"}}"#, "400", "http", "bad temperature"),
        (429, r#"{"error": {"message": "no", "code": "insufficient_quota"}}"#, "429", "http", "no credit"),
        (
            422,
            r#"{"object": "error", "message": {"detail": [{"loc": ["body", "stream_options"]}]}}"#,
            "422",
            "http",
            "stream_usage = false",
        ),
        (
            400,
            r#"[{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}]"#,
            "400",
            "http",
            "API key not valid",
        ),
        (500, r#"{"error": "it broke"}"#, "500", "http", ": it broke"),
        (500, r#"{"detail": "it broke"}"#, "500", "http", "it broke"),
        (502, "<html>bad gateway</html>", "502", "http", "<html>bad gateway</html>"),
        (503, "", "503", "http", "answered 503 Service Unavailable"),
        (302, "", "302", "http", "answered 302"),
    ] {
        let service = CannedService::json(status, body).await;
        let outcome = ask(&service, ModelProtocol::OpenAi).await;
        assert_eq!(class(&outcome), (code, kind, true), "{body}");
        let shown = format!("{} {}", error(&outcome).message, error(&outcome).hint.clone().unwrap_or_default());
        assert!(shown.contains(expected), "{body}: {shown}");
    }
    for (headers, ms) in [("retry-after: 7\r\n", "7000"), ("retry-after-ms: 250\r\nretry-after: 1\r\n", "250")] {
        let service = CannedService::reply(429, headers, b"{}").await;
        assert_eq!(
            to_json(&ask(&service, ModelProtocol::Anthropic).await.meta),
            format!(r#"{{"retry_after_ms":{ms}}}"#)
        );
    }
    let gone = options("http://127.0.0.1:1/v1", ModelProtocol::OpenAi, true);
    assert_eq!(class(&turn(gone, ASK).await), ("connection", "connection", false));
}
