//! Input handling shared by all tools: field access, error messages and time limits.

use std::future::Future;
use std::time::Duration as StdDuration;

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_value::{Duration, Map, Value, to_json};

/// The fields of one call. A null field counts as absent.
#[derive(Clone, Copy)]
pub(crate) struct ToolInput<'a> {
    tool: &'static str,
    map: &'a Map,
}

impl<'a> ToolInput<'a> {
    pub(crate) fn parse(tool: &'static str, value: &'a Value) -> Result<ToolInput<'a>, ErrorInfo> {
        let problem = || bad_input(format!("the input of `{tool}` is {}, not an object", value.kind()));
        value.as_map().map(|map| ToolInput { tool, map }).ok_or_else(problem)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns the first of several spellings that is present.
    pub(crate) fn first_of(&self, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        names.iter().find_map(|name| self.get(name).map(|value| (*name, value)))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, ErrorInfo> {
        self.typed(name, "a string", Value::as_str)
    }

    pub(crate) fn list(&self, name: &str) -> Result<Option<&'a [Value]>, ErrorInfo> {
        self.typed(name, "an array", Value::as_list)
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a Map>, ErrorInfo> {
        self.typed(name, "an object", Value::as_map)
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        cast: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ErrorInfo> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let problem = || bad_input(format!("`{name}` of `{}` is {}, not {expected}", self.tool, value.kind()));
        cast(value).map(Some).ok_or_else(problem)
    }

    /// Returns the time limit of the call: the shorter one of its input's timeout and its task's, else the default.
    pub(crate) fn time_limit(&self, call: &ToolCall, default: Duration) -> Result<StdDuration, ErrorInfo> {
        let own = self.get("timeout").map(parse_duration).transpose()?;
        Ok(own.into_iter().chain(call.timeout).min().unwrap_or(default).to_std())
    }
}

/// Parses a duration: seconds as a number or text, or `PT30S`.
pub(crate) fn parse_duration(value: &Value) -> Result<Duration, ErrorInfo> {
    let seconds = |seconds: f64| Duration((seconds * 1e6) as u64);
    let span = match value {
        Value::Str(text) => Duration::parse_iso(text).or_else(|| text.trim().parse().ok().map(seconds)),
        value => value.as_f64().map(seconds),
    };
    let problem = || bad_input("`timeout` is not a duration").hint("give seconds, or `PT30S`; more than zero");
    span.filter(|span| *span > Duration::ZERO).ok_or_else(problem)
}

pub(crate) fn bad_input(message: impl Into<String>) -> ErrorInfo {
    ErrorInfo::new("BadInput", "input", message.into())
}

/// Converts a value to text: null becomes empty, anything that is not text becomes JSON.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::Null => String::new(),
        other => to_json(other),
    }
}

/// The reason why a call was stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CallStopReason {
    Timeout(StdDuration),
    Cancelled,
}

impl CallStopReason {
    pub(crate) fn error(self, what: &str) -> ErrorInfo {
        match self {
            CallStopReason::Timeout(limit) => {
                ErrorInfo::new("timeout", "timeout", format!("{what} did not end within {limit:?}"))
                    .hint("`timeout` sets the time limit; without it, `limits.default_tool_time` in windlass.toml")
            }
            CallStopReason::Cancelled => ErrorInfo::new("Cancelled", "cancelled", format!("{what} was cancelled")),
        }
    }
}

/// Waits for the work unless the call is cancelled or its time limit is reached.
pub(crate) async fn run_with_limit<T>(
    call: &ToolCall,
    limit: StdDuration,
    work: impl Future<Output = T>,
) -> Result<T, CallStopReason> {
    let mut cancelled = call.cancelled.clone();
    tokio::select! {
        biased;
        () = cancelled.wait() => Err(CallStopReason::Cancelled),
        done = work => Ok(done),
        () = tokio::time::sleep(limit) => Err(CallStopReason::Timeout(limit)),
    }
}

/// Returns the outcome with the facts of this kind of tool.
pub(crate) fn with_facts(outcome: TaskOutcome, name: &str, facts: Value) -> TaskOutcome {
    TaskOutcome { facts: Value::object([(name, facts)]), ..outcome }
}
