//! How a reply ended, by the reason that the service gives and by the reply itself; whole and streamed.

use windlass_agents::chat::ModelProtocol;
use windlass_core::TaskOutcome;

use crate::support::canned::{AfterReply, CannedService};
use crate::support::models::{ASK, options, turn};
use crate::support::{class, part};

async fn openai(reason: &str, fields: &str, stream: bool) -> TaskOutcome {
    let finish = format!(r#""finish_reason": {reason}"#);
    let service = match stream {
        false => CannedService::json(200, &format!(r#"{{"choices": [{{"message": {{{fields}}}, {finish}}}]}}"#)).await,
        true => {
            let text =
                format!(r#"data: {{"choices": [{{"index": 0, "delta": {{{fields}}}, "finish_reason": null}}]}}"#);
            let end = format!(r#"data: {{"choices": [{{"index": 0, "delta": {{}}, {finish}}}]}}"#);
            CannedService::events(&[&text, &end, "data: [DONE]"], AfterReply::Close).await
        }
    };
    turn(options(&service.url, ModelProtocol::OpenAi, stream), ASK).await
}

async fn anthropic(reason: &str, text: &str, stream: bool) -> TaskOutcome {
    let block = format!(r#"{{"type": "text", "text": "{text}"}}"#);
    let service = match stream {
        false => CannedService::json(200, &format!(r#"{{"content": [{block}], "stop_reason": {reason}}}"#)).await,
        true => {
            let start = format!(r#"data: {{"type": "content_block_start", "index": 0, "content_block": {block}}}"#);
            let end = format!(r#"data: {{"type": "message_delta", "delta": {{"stop_reason": {reason}}}}}"#);
            CannedService::events(&[&start, &end, r#"data: {"type": "message_stop"}"#], AfterReply::Close).await
        }
    };
    turn(options(&service.url, ModelProtocol::Anthropic, stream), ASK).await
}

#[tokio::test]
async fn chat_completions() {
    let text = r#""content": "half""#;
    let call =
        r#""content": null, "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]"#;
    for (reason, fields, stop, content) in [
        (r#""stop""#, text, "end", "half"),
        (r#""eos""#, text, "end", "half"),
        (r#""tool_calls""#, text, "end", "half"),
        (r#""tool_calls""#, call, "tools", ""),
        (r#""stop""#, call, "tools", ""),
        (r#""length""#, text, "length", "half"),
        (r#""length""#, r#""content": """#, "length", ""),
        (r#""model_length""#, text, "length", "half"),
        (r#""content_filter""#, text, "filtered", "half"),
        (r#""content_filter: RECITATION""#, r#""content": null"#, "filtered", ""),
        (r#""stop""#, r#""content": null, "refusal": "I will not.""#, "refusal", "I will not."),
        (r#""stop""#, r#""content": " \n""#, "empty", " \n"),
        (r#""stop""#, r#""content": null"#, "empty", ""),
        (r#""function_call_filter: MALFORMED_FUNCTION_CALL""#, r#""content": null"#, "empty", ""),
    ] {
        for stream in [false, true] {
            let outcome = openai(reason, fields, stream).await;
            assert_eq!(outcome.error, None, "{reason} {fields} {stream}");
            let found = (part(&outcome, "stop"), part(&outcome, "content"));
            assert_eq!(found, (format!("{stop:?}"), format!("{content:?}")), "{reason} {fields} {stream}");
            let is_full = part(&outcome, "context_full") == "true";
            assert_eq!(is_full, reason == r#""model_length""#, "{reason}");
        }
    }
}

#[tokio::test]
async fn messages() {
    for (reason, text, stop) in [
        (r#""end_turn""#, "half", "end"),
        (r#""stop_sequence""#, "half", "end"),
        (r#""tool_use""#, "half", "end"),
        (r#""max_tokens""#, "half", "length"),
        (r#""pause_turn""#, "half", "length"),
        (r#""model_context_window_exceeded""#, "half", "length"),
        (r#""refusal""#, "half", "refusal"),
        (r#""end_turn""#, "", "empty"),
    ] {
        for stream in [false, true] {
            let outcome = anthropic(reason, text, stream).await;
            assert_eq!(outcome.error, None, "{reason} {text} {stream}");
            assert_eq!(part(&outcome, "stop"), format!("{stop:?}"), "{reason} {text} {stream}");
            let is_full = part(&outcome, "context_full") == "true";
            assert_eq!(is_full, reason.contains("context_window"), "{reason}");
        }
    }
}

/// A service that gives up in the middle has not answered: the call is retried.
#[tokio::test]
async fn interrupted_answers_are_errors() {
    for reason in [r#""error""#, r#""insufficient_system_resource""#, r#""abort""#] {
        for stream in [false, true] {
            let outcome = openai(reason, r#""content": "half""#, stream).await;
            assert_eq!(class(&outcome), ("500", "http", true), "{reason} {stream}");
        }
    }
}

/// Arguments that are missing because the reply was cut off are not taken for an empty object.
#[tokio::test]
async fn a_call_at_the_cut_has_a_problem() {
    let calls = r#""tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}, {"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}}]"#;
    for (reason, cut) in [(r#""length""#, true), (r#""tool_calls""#, false)] {
        for stream in [false, true] {
            let outcome = openai(reason, calls, stream).await;
            let calls = outcome.output.get("calls").and_then(|calls| calls.as_list()).unwrap();
            let problems: Vec<bool> = calls.iter().map(|call| !call.get("problem").unwrap().is_null()).collect();
            assert_eq!(problems, [false, cut], "{reason} {stream}");
        }
    }
}
