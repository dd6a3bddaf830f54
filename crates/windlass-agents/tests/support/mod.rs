//! Helpers for calls of models and their outcomes.

#![allow(clippy::unwrap_used, dead_code)]

pub(crate) mod canned;
pub(crate) mod models;

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_tools::{HttpOptions, HttpTool, Outbound};
use windlass_value::to_json;

pub(crate) fn tool() -> HttpTool {
    HttpTool::new(HttpOptions { outbound: Outbound::open(), max_reply_bytes: 1 << 20, ..HttpOptions::default() })
}

/// Returns a part of an output as JSON, by its path: `body.headers`.
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

/// Returns everything of an outcome that can be seen.
pub(crate) fn debug_text(outcome: &TaskOutcome) -> String {
    format!("{outcome:?}")
}
