//! The reply of a model, independent of the protocol.

use std::collections::BTreeSet;

use windlass_core::TaskOutcome;
use windlass_value::{Map, Value, parse_json};

use super::price::TokenPrice;
use super::schema::ResultSchema;
use windlass_tools::Redactor;

/// Malformed arguments are kept up to this length to show the model what it has sent.
const MAX_RAW_CHARS: usize = 2_000;
/// The rule of thumb of model vendors for English.
const CHARS_PER_TOKEN: u64 = 4;
/// The maximum that base64 data counts: services do not charge it like text.
const MAX_DATA_CHARS: u64 = 4_000;

#[derive(Debug, Default)]
pub(super) struct ModelReply {
    pub(super) content: String,
    pub(super) calls: Vec<ToolUse>,
    pub(super) stop: Option<StopReason>,
    pub(super) model: Option<String>,
    pub(super) usage: ModelUsage,
    /// The reasoning state that the service wants to see again.
    pub(super) state: Option<Map>,
    /// The service's reason for giving up in the middle of its answer.
    pub(super) interrupted: Option<String>,
}

/// A tool call of the model.
#[derive(Debug, Default)]
pub(super) struct ToolUse {
    pub(super) id: String,
    pub(super) name: String,
    /// The raw text of the model: JSON, or meant to be.
    pub(super) arguments: String,
    /// The service's own addition to the call, which is sent back with it.
    pub(super) extra: Value,
}

/// The reason why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    End,
    Tools,
    /// The reply was cut off at its maximum number of tokens.
    Length,
    /// The reply was cut off because the model's context is full: there is no room to continue.
    ContextFull,
    /// The model refuses.
    Refusal,
    /// The service withholds the reply, or the rest of it.
    Filtered,
    /// The reply is complete and has neither text nor calls.
    Empty,
}

impl StopReason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            StopReason::End => "end",
            StopReason::Tools => "tools",
            StopReason::Length | StopReason::ContextFull => "length",
            StopReason::Refusal => "refusal",
            StopReason::Filtered => "filtered",
            StopReason::Empty => "empty",
        }
    }

    /// Returns whether the reply is no complete answer.
    pub(super) fn is_incomplete(self) -> bool {
        !matches!(self, StopReason::End | StopReason::Tools)
    }

    fn is_cut(self) -> bool {
        matches!(self, StopReason::Length | StopReason::ContextFull)
    }
}

/// Counts in tokens. The input includes cache reads and writes; the output includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) total: u64,
    pub(super) reasoning: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    /// The service reported none.
    pub(super) estimated: bool,
}

impl ModelUsage {
    /// Reads a number of a service's usage object.
    pub(super) fn count(usage: &Value, path: &[&str]) -> Option<u64> {
        let found = path.iter().try_fold(usage, |value, name| value.get(name))?;
        found.as_int().and_then(|count| u64::try_from(count).ok())
    }

    /// Estimates missing counts, so that budgets also hold with services that count nothing or nonsense. `prompt` is the
    /// number of characters of the request.
    fn with_estimates(self, prompt: u64, answer: u64) -> ModelUsage {
        let tokens = |chars: u64| (chars / CHARS_PER_TOKEN).max(1);
        let input = if self.input == 0 { tokens(prompt) } else { self.input };
        let output = if self.output == 0 && answer > 0 { tokens(answer) } else { self.output };
        let estimated = (input, output) != (self.input, self.output);
        ModelUsage { input, output, total: self.total.max(input.saturating_add(output)), estimated, ..self }
    }

    fn entries(&self) -> Map {
        let mut map = Map::with_capacity(8);
        for (name, count) in [
            ("input_tokens", self.input),
            ("output_tokens", self.output),
            ("total_tokens", self.total),
            ("reasoning_tokens", self.reasoning),
            ("cache_read_tokens", self.cache_read),
            ("cache_write_tokens", self.cache_write),
        ] {
            map.insert(name, saturating_i64(count));
        }
        map
    }

    /// Returns the entries with the totals that budgets use.
    pub(super) fn meta(&self, price: Option<TokenPrice>) -> Value {
        let mut map = self.entries();
        map.insert("tokens", saturating_i64(self.total));
        if let Some(price) = price {
            map.insert("money", saturating_i64(price.cost(self)));
        }
        Value::map(map)
    }
}

fn saturating_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Counts the characters of text in a request.
pub(super) fn text_chars(value: &Value) -> u64 {
    match value {
        Value::Str(text) => chars(text),
        Value::List(items) => items.iter().map(text_chars).sum(),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| match (&**key, value) {
                ("data", Value::Str(bytes)) => chars(bytes).min(MAX_DATA_CHARS),
                (_, value) => text_chars(value),
            });
            entries.sum()
        }
        _ => 1,
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

impl ModelReply {
    /// Returns whether the reply has no content and no stop reason.
    pub(super) fn is_empty(&self) -> bool {
        self.stop.is_none() && self.content.is_empty() && self.calls.is_empty()
    }

    /// Fills in the usage if the service sent none.
    pub(super) fn with_usage(self, prompt: u64) -> ModelReply {
        let calls = self.calls.iter().map(|call| chars(&call.name) + chars(&call.arguments)).sum::<u64>();
        let usage = self.usage.with_estimates(prompt, chars(&self.content) + calls);
        ModelReply { usage, ..self }
    }

    /// Returns the stop reason: as the service reports it, unless the reply itself shows another. Not every service
    /// reports tool calls, and none reports that a reply is empty.
    pub(super) fn stop_reason(&self) -> StopReason {
        let stop = self.stop.unwrap_or(StopReason::End);
        match (stop, self.calls.is_empty()) {
            (StopReason::End | StopReason::Tools, false) => StopReason::Tools,
            (StopReason::End | StopReason::Tools, true) if self.content.trim().is_empty() => StopReason::Empty,
            (StopReason::Tools, true) => StopReason::End,
            (stop, _) => stop,
        }
    }

    /// Converts the reply to an outcome. `checked` is the tool whose arguments must fit a schema.
    pub(super) async fn outcome(
        self,
        price: Option<TokenPrice>,
        checked: Option<(&str, ResultSchema)>,
        redaction: &Redactor,
    ) -> TaskOutcome {
        let stop = self.stop_reason();
        let (usage, last) = (self.usage, self.calls.len().saturating_sub(1));
        let mut used_ids = BTreeSet::new();
        let mut calls = Vec::with_capacity(self.calls.len());
        for (index, call) in self.calls.into_iter().enumerate() {
            let id = unique_id(call.id, index, &mut used_ids);
            // Redacted first because problems quote a part of the arguments: half of a secret is still a secret.
            let is_cut = stop.is_cut() && index == last;
            let (arguments, mut problem) = parse_arguments(&redaction.redact_text(&call.arguments), is_cut);
            if let Some((_, schema)) = checked.as_ref().filter(|(tool, _)| problem.is_none() && *tool == call.name) {
                problem = schema.check(&arguments).await;
            }
            calls.push(Value::object([
                ("id", Value::from(id)),
                ("name", Value::from(call.name)),
                ("arguments", arguments),
                ("problem", Value::from(problem)),
            ]));
        }
        let mut output = Map::with_capacity(5);
        output.insert("content", self.content);
        output.insert("calls", Value::list(calls));
        output.insert("stop", stop.as_str());
        if stop == StopReason::ContextFull {
            output.insert("context_full", true);
        }
        output.insert("model", self.model);
        let mut usage_entries = usage.entries();
        if usage.estimated {
            usage_entries.insert("estimated", true);
        }
        output.insert("usage", Value::map(usage_entries));
        let meta = Value::object([("usage", usage.meta(price))]);
        TaskOutcome { meta, ..TaskOutcome::success(Value::map(output)) }
    }
}

/// Makes an id unique. Some services send none or the same id twice, so results could not be assigned.
fn unique_id(id: String, index: usize, used_ids: &mut BTreeSet<String>) -> String {
    let id = if id.is_empty() || used_ids.contains(&id) { format!("call_{index}") } else { id };
    let mut free = id.clone();
    let mut number = 1;
    while used_ids.contains(&free) {
        number += 1;
        free = format!("{id}_{number}");
    }
    used_ids.insert(free.clone());
    free
}

/// Parses the arguments. Invalid arguments are returned as text, with a description of the problem. Of the call at
/// which a reply was cut off, missing arguments are invalid, too.
fn parse_arguments(raw: &str, is_cut: bool) -> (Value, Option<String>) {
    let cut = if is_cut { "; the answer was cut off at its maximum number of tokens" } else { "" };
    if raw.trim().is_empty() {
        let problem = is_cut.then(|| format!("the arguments are missing{cut}"));
        return (Value::map(Map::new()), problem);
    }
    let kept = || Value::from(raw.chars().take(MAX_RAW_CHARS).collect::<String>());
    match parse_json(raw) {
        Ok(value @ Value::Map(_)) => (value, None),
        Ok(other) => (kept(), Some(format!("the arguments are {}, not a JSON object{cut}", other.kind()))),
        Err(error) => (kept(), Some(format!("the arguments are {error}{cut}"))),
    }
}

/// Converts the arguments of an earlier call to an object, which services require, even if they were malformed.
pub(super) fn past_arguments(arguments: &Value) -> Value {
    match arguments {
        Value::Map(_) => arguments.clone(),
        Value::Null => Value::map(Map::new()),
        other => Value::object([("malformed", other.clone())]),
    }
}
