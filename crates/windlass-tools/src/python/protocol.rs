//! The line protocol between the tool and an interpreter.

use std::hash::{BuildHasher, Hasher, RandomState};

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_store::LogStream;
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

/// The reply to a call.
pub(super) struct PythonReply {
    pub(super) outcome: TaskOutcome,
    pub(super) printed: PrintedText,
}

/// The text that code has printed, to both streams and in order.
pub(super) struct PrintedText {
    pub(super) parts: Vec<(LogStream, String)>,
    /// The code has printed more than this.
    is_cut: bool,
}

impl PrintedText {
    fn from_reply(reply: &Value) -> PrintedText {
        let is_cut = reply.get("cut").is_some();
        let parts = reply.get("printed").and_then(Value::as_list).unwrap_or_default().iter().filter_map(|part| {
            let [stream, text] = part.as_list()? else { return None };
            let stream = if stream.as_str() == Some("err") { LogStream::Stderr } else { LogStream::Stdout };
            Some((stream, text.as_str()?.to_owned()))
        });
        let mut parts: Vec<(LogStream, String)> = parts.collect();
        if let Some((_, last)) = parts.last_mut().filter(|_| is_cut) {
            *last = call_redaction().redact_truncated_end(last);
        }
        PrintedText { parts, is_cut }
    }

    /// Returns the text of each stream for `meta`.
    fn to_meta(&self) -> Value {
        let text = |stream: LogStream| -> String {
            self.parts.iter().filter(|(of, _)| *of == stream).map(|(_, text)| text.as_str()).collect()
        };
        let texts = [("stdout", text(LogStream::Stdout)), ("stderr", text(LogStream::Stderr))];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name, text.into()));
        let entries: Vec<(&str, Value)> =
            texts.chain(self.is_cut.then_some(("stdout_truncated", true.into()))).collect();
        if entries.is_empty() { Value::Null } else { Value::object(entries) }
    }
}

/// Parses the reply.
pub(super) fn parse_reply(line: &str) -> Result<PythonReply, ErrorInfo> {
    let reply = parse_json(line).map_err(|error| {
        ErrorInfo::new("BadReply", "python", format!("the interpreter did not answer with JSON: {}", error.message))
    })?;
    let printed = PrintedText::from_reply(&reply);
    let outcome = match reply.get("error") {
        Some(error) => exception_outcome(error),
        None => {
            let result = reply.get("result").cloned().unwrap_or_default();
            let result = if reply.get("decimals").is_some() { with_decimals(&result) } else { result };
            with_empty_facts(TaskOutcome::success(result))
        }
    };
    Ok(PythonReply { outcome: TaskOutcome { meta: printed.to_meta(), ..outcome }, printed })
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
