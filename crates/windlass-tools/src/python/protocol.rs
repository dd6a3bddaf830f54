//! The line protocol between the tool and an interpreter.

use std::hash::{BuildHasher, Hasher, RandomState};

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_value::{Map, Value, parse_json, to_json};

use crate::input::with_facts;
use crate::secret::call_redaction;

/// Prefix of text that represents an exact number. Ordinary text hardly begins with it, and it is recognized only in
/// replies that declare such numbers.
const DECIMAL: char = '\0';

/// Maximum number of characters that the driver sends of a message or a traceback.
const MAX_DRIVER_CHARS: usize = 1 << 20;
/// Maximum length of an exception's message; the beginning is kept.
const MAX_MESSAGE_CHARS: usize = 4000;
/// Maximum length of a traceback; the end is kept.
const MAX_TRACEBACK_CHARS: usize = 8000;

/// A random token that the reply to one call must begin with. It is unknown before the call, so code of another call
/// cannot forge the reply.
pub(super) struct CallToken(String);

impl CallToken {
    pub(super) fn new() -> CallToken {
        let random = || RandomState::new().build_hasher().finish();
        CallToken(format!("{:016x}{:016x}", random(), random()))
    }

    pub(super) fn matches(&self, line: &str) -> bool {
        let rest = line.strip_prefix("{\"call\":\"").and_then(|rest| rest.strip_prefix(self.0.as_str()));
        rest.is_some_and(|rest| rest.starts_with("\",") && rest.ends_with('\n'))
    }
}

/// Encodes a request as one line: the code, its imports and its inputs.
pub(super) fn request(
    mark: &CallToken,
    code: &str,
    libs: Option<&Map>,
    args: Option<&Map>,
    input: Option<&Map>,
) -> String {
    let inputs: Map = match (args, input) {
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (args, input) => {
            let both = args.into_iter().chain(input).flat_map(Map::iter);
            both.map(|(name, value)| (name.clone(), value.clone())).collect()
        }
    };
    let mut whole =
        vec![("call", Value::from(mark.0.as_str())), ("code", Value::from(code)), ("inputs", Value::map(inputs))];
    whole.extend(libs.map(|libs| ("libs", Value::map(libs.clone()))));
    let mut line = to_json(&Value::object(whole));
    line.push('\n');
    line
}

/// Parses the reply.
pub(super) fn parse_reply(line: &str) -> Result<TaskOutcome, ErrorInfo> {
    let reply = parse_json(line).map_err(|error| {
        ErrorInfo::new("BadReply", "python", format!("the interpreter did not answer with JSON: {}", error.message))
    })?;
    let meta = super::meta(&reply);
    if let Some(error) = reply.get("error") {
        return Ok(TaskOutcome { meta, ..exception_outcome(error) });
    }
    let result = reply.get("result").cloned().unwrap_or_default();
    let result = if reply.get("decimals").is_some() { with_decimals(&result) } else { result };
    Ok(TaskOutcome { meta, ..with_empty_facts(TaskOutcome::success(result)) })
}

/// Adds empty facts, so that they are present without an exception, too.
pub(super) fn with_empty_facts(outcome: TaskOutcome) -> TaskOutcome {
    let names = ["exception", "exception_type", "message", "line", "traceback"];
    with_facts(outcome, "py", Value::object(names.map(|name| (name, Value::Null))))
}

fn exception_outcome(error: &Value) -> TaskOutcome {
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let secrets = call_redaction();
    let (message, traceback) = (text("message"), text("traceback"));
    let is_cut = |text: &str| text.len() >= MAX_DRIVER_CHARS && text.chars().count() >= MAX_DRIVER_CHARS;
    let message = if is_cut(&message) { secrets.redact_truncated_end(&message) } else { secrets.redact_text(&message) };
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    let traceback =
        if is_cut(&traceback) { secrets.redact_truncated_start(&traceback) } else { secrets.redact_text(&traceback) };
    let surplus = traceback.chars().count().saturating_sub(MAX_TRACEBACK_CHARS);
    let traceback: String = traceback.chars().skip(surplus).collect();
    let kind = text("type");
    let line = error.get("line").filter(|line| !line.is_null());
    let location = line.map(|line| format!(" (line {})", to_json(line))).unwrap_or_default();
    let description = if message.is_empty() { kind.clone() } else { format!("{kind}: {message}") };
    let facts = Value::object([
        ("exception", Value::from(kind.clone())),
        ("exception_type", Value::from(text("full"))),
        ("message", Value::from(message)),
        ("line", line.cloned().unwrap_or_default()),
        ("traceback", Value::from(traceback)),
    ]);
    let error = ErrorInfo::new(kind, "python", format!("{description}{location}")).replied();
    with_facts(TaskOutcome::failure(error), "py", facts)
}

fn with_decimals(value: &Value) -> Value {
    match value {
        Value::Str(text) => text.strip_prefix(DECIMAL).and_then(number).unwrap_or_else(|| value.clone()),
        Value::List(items) => Value::list(items.iter().map(with_decimals).collect()),
        Value::Map(map) => Value::map(map.iter().map(|(key, value)| (key.clone(), with_decimals(value))).collect()),
        other => other.clone(),
    }
}

/// Parses a decimal with all its digits.
fn number(digits: &str) -> Option<Value> {
    let is_number = digits.parse::<f64>().is_ok() && digits.ends_with(|last: char| last.is_ascii_digit());
    let value = || digits.parse().map_or_else(|_| Value::Big(digits.into()), Value::Int);
    is_number.then(value)
}
