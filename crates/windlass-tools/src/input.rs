//! What all tools of this crate do with their input: find a field, say what is wrong with it, keep to the time.

use std::future::Future;
use std::time::Duration as StdDuration;

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_value::{Duration, Map, Value, to_json};

/// The fields of one call. A field that is null counts as not given.
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

    /// The first of several spellings that is there.
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

    /// How long the call may take: what its input says, what its task says, whichever ends first.
    pub(crate) fn time_limit(&self, call: &ToolCall, default: Duration) -> Result<StdDuration, ErrorInfo> {
        let own = self.get("timeout").map(parse_duration).transpose()?;
        Ok(own.into_iter().chain(call.timeout).min().unwrap_or(default).to_std())
    }
}

/// A span of time: seconds as a number or text, or `PT30S`.
pub(crate) fn parse_duration(value: &Value) -> Result<Duration, ErrorInfo> {
    let seconds = |seconds: f64| Duration((seconds * 1e6) as u64);
    let span = match value {
        Value::Str(text) => Duration::parse_iso(text).or_else(|| text.trim().parse().ok().map(seconds)),
        value => value.as_f64().map(seconds),
    };
    let problem = || bad_input("`timeout` is no span of time").hint("give seconds, or `PT30S`; more than zero");
    span.filter(|span| *span > Duration::ZERO).ok_or_else(problem)
}

pub(crate) fn bad_input(message: impl Into<String>) -> ErrorInfo {
    ErrorInfo::new("BadInput", "input", message.into())
}

/// Text for a place that holds text only: what is no text becomes JSON, null becomes nothing.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::Null => String::new(),
        other => to_json(other),
    }
}

/// Why a call was given up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CallStopReason {
    Timeout(StdDuration),
    Cancelled,
}

impl CallStopReason {
    pub(crate) fn error(self, what: &str) -> ErrorInfo {
        match self {
            CallStopReason::Timeout(limit) => {
                ErrorInfo::new("timeout", "timeout", format!("{what} did not end within {limit:?}")).hint(
                    "`timeout` says how long it may take; without it, `limits.default_tool_time` in windlass.toml",
                )
            }
            CallStopReason::Cancelled => ErrorInfo::new("Cancelled", "cancelled", format!("{what} was cancelled")),
        }
    }
}

/// Waits for the work, unless the call is cancelled or its time is over.
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

/// The outcome with what this kind of tool tells besides.
pub(crate) fn with_facts(outcome: TaskOutcome, name: &str, facts: Value) -> TaskOutcome {
    TaskOutcome { facts: Value::object([(name, facts)]), ..outcome }
}
