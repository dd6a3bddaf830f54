//! Helpers that call tools and inspect their outcomes.

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

/// Returns a part of the output as JSON, by a path such as `body.headers`.
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

/// Returns everything visible of an outcome.
pub(crate) fn debug_text(outcome: &TaskOutcome) -> String {
    format!("{outcome:?}")
}

/// Calls a tool once.
pub(crate) async fn call_tool(tool: &impl Tool, input: &str) -> TaskOutcome {
    tool.call(call(input)).await
}

/// Returns the output of a call as JSON, or code, kind and message of its failure.
pub(crate) fn summary(outcome: &TaskOutcome) -> String {
    match &outcome.error {
        None => to_json(&outcome.output),
        Some(error) => format!("{} {}: {}", error.code, error.kind, error.message),
    }
}

/// Returns a part of the facts as JSON, by a path such as `pg.code`.
pub(crate) fn fact(outcome: &TaskOutcome, path: &str) -> String {
    path.split('.').try_fold(&outcome.facts, |value, name| value.get(name)).map(to_json).unwrap_or_default()
}
