//! Calls of tools, and looks at what came of them.

#![allow(clippy::unwrap_used, dead_code)]

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{Tool, ToolCall};
use windlass_testing::test_service::TestService;
use windlass_tools::{HttpOptions, HttpTool, Outbound};
use windlass_value::{parse_json, to_json};

pub(crate) fn service() -> TestService {
    TestService::start().unwrap()
}

pub(crate) fn options() -> HttpOptions {
    HttpOptions { outbound: Outbound::open(), max_reply_bytes: 1 << 20, ..HttpOptions::default() }
}

pub(crate) fn tool() -> HttpTool {
    HttpTool::new(options())
}

pub(crate) fn call(input: &str) -> ToolCall {
    ToolCall {
        key: "run-1:sync[3]/fetch".into(),
        attempt: 2,
        run: "run-1".into(),
        path: "sync[3]/Grüße".into(),
        ..ToolCall::for_test(parse_json(input).unwrap())
    }
}

pub(crate) async fn send(input: &str) -> TaskOutcome {
    tool().call(call(input)).await
}

pub(crate) async fn get(uri: &str) -> TaskOutcome {
    send(&format!(r#"{{"uri": "{uri}"}}"#)).await
}

/// An output's part, as JSON: `body.headers`.
pub(crate) fn part(outcome: &TaskOutcome, path: &str) -> String {
    path.split('.').try_fold(&outcome.output, |value, name| value.get(name)).map(to_json).unwrap_or_default()
}

pub(crate) fn error(outcome: &TaskOutcome) -> &ErrorInfo {
    outcome.error.as_ref().unwrap_or_else(|| panic!("it succeeded: {:?}", outcome.output))
}

pub(crate) fn class(outcome: &TaskOutcome) -> (&str, &str, bool) {
    let error = error(outcome);
    (&error.code, &error.kind, error.replied)
}

/// Everything of an outcome that somebody can see.
pub(crate) fn debug_text(outcome: &TaskOutcome) -> String {
    format!("{outcome:?}")
}

/// One call of a tool.
pub(crate) async fn call_tool(tool: &impl Tool, input: &str) -> TaskOutcome {
    tool.call(call(input)).await
}

/// What came of a call, as JSON; of a failure, its code, kind and message.
pub(crate) fn summary(outcome: &TaskOutcome) -> String {
    match &outcome.error {
        None => to_json(&outcome.output),
        Some(error) => format!("{} {}: {}", error.code, error.kind, error.message),
    }
}

/// A part of what the tool tells besides, as JSON: `pg.code`.
pub(crate) fn fact(outcome: &TaskOutcome, path: &str) -> String {
    path.split('.').try_fold(&outcome.facts, |value, name| value.get(name)).map(to_json).unwrap_or_default()
}
