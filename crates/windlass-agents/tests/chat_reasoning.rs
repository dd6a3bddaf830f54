//! The reasoning of a reply is sent back unmodified and in order, and is part of no output. Bodies as the services send
//! them, whole and streamed.

use windlass_agents::chat::{ChatOptions, ModelProtocol};
use windlass_core::TaskOutcome;
use windlass_value::{Value, parse_json, to_json};

use crate::support::canned::{AfterReply, CannedService};
use crate::support::models::{ASK, KEY, options, turn};
use crate::support::{debug_text, part};

/// A reply: whole, and as the events of a stream.
struct Reply {
    whole: &'static str,
    events: &'static [&'static str],
}

/// A model of Anthropic that thinks, speaks, thinks again where it cannot be read, and calls two tools.
const THINKING: Reply = Reply {
    whole: r#"{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [
        {"type": "thinking", "thinking": "They want a list.", "signature": "EqQBCgIYAhIM+a/b=="},
        {"type": "text", "text": "I look."},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3p=="},
        {"type": "tool_use", "id": "toolu_1", "name": "glob", "input": {"pattern": "*"}},
        {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}}],
        "stop_reason": "tool_use", "usage": {"input_tokens": 9, "output_tokens": 5}}"#,
    events: &[
        r#"data: {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}"#,
        r#"data: {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}"#,
        r#"data: {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "They want "}}"#,
        r#"data: {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a list."}}"#,
        r#"data: {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQBCgIYAhIM+a/b=="}}"#,
        r#"data: {"type": "content_block_stop", "index": 0}"#,
        r#"data: {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}"#,
        r#"data: {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I "}}"#,
        r#"data: {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}}"#,
        r#"data: {"type": "content_block_start", "index": 2, "content_block": {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3p=="}}"#,
        r#"data: {"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "glob", "input": {}}}"#,
        r#"data: {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"pattern\": \"*\"}"}}"#,
        r#"data: {"type": "content_block_start", "index": 4, "content_block": {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}}}"#,
        r#"data: {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}"#,
        r#"data: {"type": "message_stop"}"#,
    ],
};

/// Google's signatures are parts of the calls and of the message.
const SIGNATURES: Reply = Reply {
    whole: r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "I look.",
        "extra_content": {"google": {"thought_signature": "bXNn+/=="}},
        "tool_calls": [
            {"id": "function-call-1", "type": "function", "function": {"name": "glob", "arguments": "{\"pattern\":\"*\"}"},
             "extra_content": {"google": {"thought_signature": "CvcQAdHtim9/+=="}}},
            {"id": "function-call-2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 40}}"#,
    events: &[
        r#"data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "I look."}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "function-call-1", "type": "function", "function": {"name": "glob", "arguments": "{\"pattern\":\"*\"}"}, "extra_content": {"google": {"thought_signature": "CvcQAdHtim9/+=="}}}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "function-call-2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"extra_content": {"google": {"thought_signature": "bXNn+/=="}}}, "finish_reason": "tool_calls"}]}"#,
        "data: [DONE]",
    ],
};

/// DeepSeek and others.
const REASONING_CONTENT: Reply = Reply {
    whole: r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "I look.",
        "reasoning_content": "They want a list.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "glob", "arguments": "{\"pattern\": \"*\"}"}},
            {"id": "call_2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}}]}"#,
    events: &[
        r#"data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": null, "reasoning_content": ""}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"content": null, "reasoning_content": "They want "}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"content": null, "reasoning_content": "a list."}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"content": "I look.", "reasoning_content": null}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "glob", "arguments": "{\"pattern\": \"*\"}"}}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}"#,
        "data: [DONE]",
    ],
};

/// OpenRouter: texts with a signature, and items that only the service can read.
const DETAILS: Reply = Reply {
    whole: r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "I look.",
        "reasoning": "They want a list.",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "They want a list.", "signature": "c2ln==", "format": "anthropic-claude-v1", "index": 0},
            {"type": "reasoning.encrypted", "data": "ZW5j==", "id": "rs_1", "format": "openai-responses-v1", "index": 1}],
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "glob", "arguments": "{\"pattern\": \"*\"}"}},
            {"id": "call_2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}}]}"#,
    events: &[
        r#"data: {"choices": [{"index": 0, "delta": {"content": "", "reasoning": "They want ", "reasoning_details": [{"type": "reasoning.text", "text": "They want ", "signature": null, "format": "anthropic-claude-v1", "index": 0}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"content": "", "reasoning": "a list.", "reasoning_details": [{"type": "reasoning.text", "text": "a list.", "format": "anthropic-claude-v1", "index": 0}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"content": "", "reasoning_details": [{"type": "reasoning.text", "signature": "c2ln==", "format": "anthropic-claude-v1", "index": 0}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"content": "", "reasoning_details": [{"type": "reasoning.encrypted", "data": "ZW5j==", "id": "rs_1", "format": "openai-responses-v1", "index": 1}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"content": "I look."}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "glob", "arguments": "{\"pattern\": \"*\"}"}}]}}]}"#,
        r#"data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}"#,
        "data: [DONE]",
    ],
};

async fn answer(reply: &Reply, protocol: ModelProtocol, stream: bool) -> TaskOutcome {
    let service = match stream {
        true => CannedService::events(reply.events, AfterReply::Close).await,
        false => CannedService::json(200, reply.whole).await,
    };
    turn(options(&service.url, protocol, stream), ASK).await
}

/// Builds the assistant message of a reply as the conversation keeps it.
fn kept(outcome: &TaskOutcome) -> Value {
    let part = |name: &str| outcome.output.get(name).cloned().unwrap_or_default();
    let calls = part("calls");
    let calls = calls.as_list().unwrap_or_default().iter().map(|call| {
        let part = |name: &str| call.get(name).cloned().unwrap_or_default();
        Value::object([("id", part("id")), ("name", part("name")), ("arguments", part("arguments"))])
    });
    Value::object([
        ("role", Value::from("assistant")),
        ("content", part("content")),
        ("calls", Value::list(calls.collect())),
        ("state", outcome.private.clone()),
    ])
}

/// Sends a conversation with these messages after the first one, and returns the assistant messages that the service
/// received.
async fn sent_back(messages: Vec<Value>, protocol: ModelProtocol, change: impl Fn(&mut ChatOptions)) -> Vec<Value> {
    let service = CannedService::json(200, r#"{"choices": [{"message": {"content": "ok"}}], "content": []}"#).await;
    let mut options = options(&service.url, protocol, false);
    change(&mut options);
    let first = Value::object([("role", "user"), ("content", "hello")]);
    let mut all = vec![first];
    for message in messages {
        let calls = message.get("calls").and_then(Value::as_list).unwrap_or_default().to_vec();
        let results = calls.iter().map(|call| {
            Value::object([("id", call.get("id").cloned().unwrap_or_default()), ("content", Value::from("done"))])
        });
        let results = Value::list(results.collect());
        all.push(message);
        all.push(match calls.is_empty() {
            true => Value::object([("role", "user"), ("content", "And now?")]),
            false => Value::object([("role", Value::from("tool")), ("results", results)]),
        });
    }
    let input = to_json(&Value::object([("messages", Value::list(all))]));
    turn(options, &input).await;
    let body = parse_json(&service.body()).unwrap();
    let sent = body.get("messages").and_then(Value::as_list).unwrap_or_default();
    sent.iter().filter(|message| message.get("role").and_then(Value::as_str) == Some("assistant")).cloned().collect()
}

fn json(text: &str) -> Value {
    parse_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn unchanged(_: &mut ChatOptions) {}

#[tokio::test]
async fn thinking_blocks_are_sent_back_in_order() {
    for stream in [false, true] {
        let outcome = answer(&THINKING, ModelProtocol::Anthropic, stream).await;
        assert_eq!((part(&outcome, "content"), part(&outcome, "stop")), (r#""I look.""#.into(), r#""tools""#.into()));
        assert!(!to_json(&outcome.output).contains("They want"), "{:?}", outcome.output);
        let sent = sent_back(vec![kept(&outcome)], ModelProtocol::Anthropic, unchanged).await;
        assert_eq!(sent[0].get("content"), json(THINKING.whole).get("content"), "stream: {stream}");
    }
}

#[tokio::test]
async fn a_block_that_was_cut_off_is_not_sent_back() {
    let cut = r#"{"content": [{"type": "thinking", "thinking": "They want a", "signature": ""}, {"type": "text", "text": "Well"}], "stop_reason": "max_tokens"}"#;
    let service = CannedService::json(200, cut).await;
    let outcome = turn(options(&service.url, ModelProtocol::Anthropic, false), ASK).await;
    assert_eq!((part(&outcome, "stop"), &outcome.private), (r#""length""#.into(), &Value::Null));
}

#[tokio::test]
async fn thought_signatures_are_sent_back_with_their_calls() {
    for stream in [false, true] {
        let outcome = answer(&SIGNATURES, ModelProtocol::OpenAi, stream).await;
        assert!(!to_json(&outcome.output).contains("thought_signature"), "{:?}", outcome.output);
        let sent = sent_back(vec![kept(&outcome)], ModelProtocol::OpenAi, unchanged).await;
        let message = json(SIGNATURES.whole);
        let message = message.get("choices").unwrap().as_list().unwrap()[0].get("message").unwrap();
        for name in ["content", "extra_content", "tool_calls"] {
            assert_eq!(sent[0].get(name), message.get(name), "{name}, stream: {stream}");
        }
    }
}

/// The services that send it reject a message with calls that lacks it, even if it was empty, and some reject it in a
/// message without calls.
#[tokio::test]
async fn reasoning_content_is_sent_back_with_calls() {
    for stream in [false, true] {
        let outcome = answer(&REASONING_CONTENT, ModelProtocol::OpenAi, stream).await;
        assert_eq!(part(&outcome, "content"), r#""I look.""#);
        let spoken = Value::object([
            ("role", Value::from("assistant")),
            ("content", Value::from("Done.")),
            ("state", outcome.private.clone()),
        ]);
        let mut quiet = kept(&outcome).as_map().unwrap().clone();
        quiet.remove("state");
        let messages = vec![kept(&outcome), spoken, Value::map(quiet)];
        let sent = sent_back(messages, ModelProtocol::OpenAi, unchanged).await;
        let reasoning: Vec<Option<&str>> =
            sent.iter().map(|message| message.get("reasoning_content").and_then(Value::as_str)).collect();
        assert_eq!(reasoning, [Some("They want a list."), None, Some("")], "stream: {stream}");
    }
}

#[tokio::test]
async fn reasoning_details_are_sent_back_as_they_are() {
    for stream in [false, true] {
        let outcome = answer(&DETAILS, ModelProtocol::OpenAi, stream).await;
        let sent = sent_back(vec![kept(&outcome)], ModelProtocol::OpenAi, unchanged).await;
        let message = json(DETAILS.whole);
        let message = message.get("choices").unwrap().as_list().unwrap()[0].get("message").unwrap();
        assert_eq!(sent[0].get("reasoning_details"), message.get("reasoning_details"), "stream: {stream}");
        assert_eq!(sent[0].get("reasoning"), None, "the details have it");
    }
}

/// A state is of no use to another model, and other services reject it.
#[tokio::test]
async fn the_state_of_another_model_is_not_sent() {
    let other = |options: &mut ChatOptions| options.default_model = Some("test/other".to_owned());
    let outcome = answer(&REASONING_CONTENT, ModelProtocol::OpenAi, false).await;
    let sent = sent_back(vec![kept(&outcome)], ModelProtocol::OpenAi, other).await;
    assert_eq!((sent.len(), sent[0].get("reasoning_content")), (1, None));
    let outcome = answer(&THINKING, ModelProtocol::Anthropic, false).await;
    let sent = sent_back(vec![kept(&outcome)], ModelProtocol::Anthropic, other).await;
    assert!(!to_json(&sent[0]).contains("signature"), "{sent:?}");
}

/// Redaction would modify the state, which must be sent back unmodified.
#[tokio::test]
async fn a_state_with_a_secret_is_dropped() {
    let body = format!(
        r#"{{"choices": [{{"message": {{"content": "ok", "reasoning_content": "the key is {KEY}"}}, "finish_reason": "stop"}}]}}"#
    );
    let service = CannedService::json(200, &body).await;
    let outcome = turn(options(&service.url, ModelProtocol::OpenAi, false), ASK).await;
    assert_eq!(outcome.private, Value::Null);
    assert!(!debug_text(&outcome).contains(KEY));
}
