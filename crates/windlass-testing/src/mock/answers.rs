//! Parsing of answers: HTTP responses, results of steps, and replies of models.

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use windlass_syntax::{Diagnostic, Diagnostics, ObjectReader, SyntaxNode, SyntaxNodeKind, to_value};
use windlass_value::{Map, Value, to_json};

use super::file::{BAD_VALUE, CONFLICT, MISSING_KEY, UNKNOWN_KEY, parse_integer, parse_list, parse_text};
use super::keywords::parse_keyword;

/// Bounds a delay, so that a typing error does not hang a trial.
pub(super) const MAX_DELAY_MS: i64 = 600_000;
/// The upper bound of `retry_after`, a day.
pub(super) const MAX_RETRY_AFTER_SECS: i64 = 86_400;

/// One answer: the parts that are set decide which kinds of calls it fits.
#[derive(Clone, Debug, Default)]
pub(super) struct MockAnswer {
    pub(super) status: Option<StatusCode>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Value>,
    pub(super) output: Option<Value>,
    pub(super) error: Option<MockError>,
    pub(super) text: Option<String>,
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) usage: Option<ScriptedUsage>,
    pub(super) stop: Option<ScriptedStop>,
    pub(super) fault: Option<MockFault>,
    pub(super) delay_ms: u64,
    pub(super) retry_after: Option<u64>,
}

/// The failure of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockError {
    pub code: String,
    pub kind: String,
    pub message: String,
}

#[derive(Clone, Debug)]
pub(super) struct ScriptedCall {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Value,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScriptedUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) total: Option<u64>,
    pub(super) reasoning: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptedStop {
    End,
    Tools,
    Length,
    Refusal,
    Filtered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MockFault {
    /// The connection breaks in the middle of the response.
    Truncated,
    /// The arguments of the calls are invalid JSON.
    Malformed,
    /// No response is ever sent.
    Hang,
}

pub(super) const STOPS: [(&str, ScriptedStop); 5] = [
    ("end", ScriptedStop::End),
    ("tools", ScriptedStop::Tools),
    ("length", ScriptedStop::Length),
    ("refusal", ScriptedStop::Refusal),
    ("filtered", ScriptedStop::Filtered),
];
pub(super) const FAULTS: [(&str, MockFault); 3] =
    [("truncated", MockFault::Truncated), ("malformed", MockFault::Malformed), ("hang", MockFault::Hang)];

/// The keys that make an object an answer.
const ANSWER_KEYS: [&str; 8] = ["status", "headers", "body", "output", "error", "text", "calls", "fault"];

impl MockAnswer {
    /// Returns true if only an HTTP response can have these parts, as the reply to a request or of a step's tool.
    pub(super) fn is_http(&self) -> bool {
        self.body.is_some() || !self.headers.is_empty()
    }

    pub(super) fn is_step_result(&self) -> bool {
        self.output.is_some() || self.error.is_some()
    }

    pub(super) fn is_model_reply(&self) -> bool {
        let has_model_parts = self.usage.is_some() || self.stop.is_some() || self.fault == Some(MockFault::Malformed);
        self.text.is_some() || !self.calls.is_empty() || has_model_parts
    }
}

/// Parses a text, or an object with the keys of an answer.
pub(super) fn parse_answer(node: &SyntaxNode, out: &mut Diagnostics) -> Option<MockAnswer> {
    if let SyntaxNodeKind::Str(text) = &node.kind {
        return Some(MockAnswer { text: Some(text.text.clone()), ..MockAnswer::default() });
    }
    let mut object = ObjectReader::read(node, "an answer", out)?;
    let answer = take_answer(&mut object, out);
    let span = object.span();
    let has_only_known_keys = object.unread_entries().next().is_none();
    object.finish(UNKNOWN_KEY, "an answer", out);
    if answer.is_none() && has_only_known_keys {
        let keys = ANSWER_KEYS.map(|key| format!("`{key}`")).join(", ");
        let problem = Diagnostic::error(MISSING_KEY, span, format!("an answer needs one of {keys}"));
        out.push(problem.with_hint("such as {\"body\": {\"ok\": true}} or {\"text\": \"yes\"}"));
    }
    answer
}

/// Takes the keys of an answer; returns `None` if none is present.
pub(super) fn take_answer(object: &mut ObjectReader<'_>, out: &mut Diagnostics) -> Option<MockAnswer> {
    // An unreadable key is still present, and its own problem is enough.
    let is_answer = ANSWER_KEYS.iter().any(|name| object.peek(name).is_some());
    let span = object.span();
    let answer = MockAnswer {
        status: object.take("status").and_then(|node| parse_status(node, out)),
        headers: object.take("headers").map(|node| parse_headers(node, out)).unwrap_or_default(),
        body: object.take("body").map(to_value),
        output: object.take("output").map(to_value),
        error: object.take("error").and_then(|node| parse_error(node, out)),
        // Anything but text is sent as its JSON text.
        text: object.take("text").map(|node| match to_value(node) {
            Value::Str(text) => text.to_string(),
            other => to_json(&other),
        }),
        calls: object.take("calls").map(|node| parse_list(node, "`calls`", out, parse_call)).unwrap_or_default(),
        usage: object.take("usage").and_then(|node| parse_usage(node, out)),
        stop: object.take("stop").and_then(|node| parse_keyword(node, "`stop`", &STOPS, out)),
        fault: object.take("fault").and_then(|node| parse_keyword(node, "`fault`", &FAULTS, out)),
        delay_ms: take_integer(object, "delay_ms", MAX_DELAY_MS, out).unwrap_or(0),
        retry_after: take_integer(object, "retry_after", MAX_RETRY_AFTER_SECS, out),
    };
    let kinds = [answer.is_http(), answer.is_step_result(), answer.is_model_reply()];
    if kinds.iter().filter(|is| **is).count() > 1 {
        let problem = Diagnostic::error(CONFLICT, span, "an answer cannot be of several kinds");
        out.push(problem.with_hint(
            "an HTTP response (`headers`, `body`), a step's result (`output`, `error`) or a model's reply (`text`, `calls`)",
        ));
    }
    is_answer.then_some(answer)
}

fn take_integer(object: &mut ObjectReader<'_>, name: &'static str, max: i64, out: &mut Diagnostics) -> Option<u64> {
    object.take(name).and_then(|node| parse_integer(node, &format!("`{name}`"), 0..=max, out))
}

fn parse_status(node: &SyntaxNode, out: &mut Diagnostics) -> Option<StatusCode> {
    let code = parse_integer(node, "`status`", 200..=599, out)?;
    u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok())
}

fn parse_headers(node: &SyntaxNode, out: &mut Diagnostics) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(object) = ObjectReader::read(node, "`headers`", out) else { return headers };
    for (key, node) in object.unread_entries() {
        let value = match to_value(node) {
            Value::Str(text) => text.to_string(),
            other => to_json(&other),
        };
        match (HeaderName::from_bytes(key.text.as_bytes()), HeaderValue::from_str(&value)) {
            (Ok(name), Ok(value)) => {
                headers.append(name, value);
            }
            _ => {
                let problem = Diagnostic::error(BAD_VALUE, key.span, format!("`{}` cannot be a header", key.text));
                out.push(problem.with_hint("names are letters, digits and hyphens; values are one line of plain text"));
            }
        }
    }
    headers
}

/// Parses the message, or an object.
fn parse_error(node: &SyntaxNode, out: &mut Diagnostics) -> Option<MockError> {
    let mut error =
        MockError { code: "Mocked".to_owned(), kind: "tool".to_owned(), message: "the mock file says so".to_owned() };
    if let SyntaxNodeKind::Str(text) = &node.kind {
        error.message = text.text.clone();
        return Some(error);
    }
    let mut object = ObjectReader::read(node, "`error`", out)?;
    for (name, field) in [("code", &mut error.code), ("kind", &mut error.kind), ("message", &mut error.message)] {
        let Some(node) = object.take(name) else { continue };
        match &node.kind {
            // A status is a code, too.
            SyntaxNodeKind::Number(number) if name == "code" => *field = to_json(number),
            _ => *field = parse_text(node, &format!("`{name}`"), out)?,
        }
    }
    object.finish(UNKNOWN_KEY, "`error`", out);
    Some(error)
}

fn parse_call(node: &SyntaxNode, out: &mut Diagnostics) -> Option<ScriptedCall> {
    let mut object = ObjectReader::read(node, "a call", out)?;
    let name = object.take("name");
    let arguments = object.take("arguments");
    let id = object.take("id").and_then(|node| parse_text(node, "`id`", out));
    let span = object.span();
    object.finish(UNKNOWN_KEY, "a call", out);
    let Some(name) = name else {
        let problem = Diagnostic::error(MISSING_KEY, span, "a call needs `name`");
        out.push(problem.with_hint("such as {\"name\": \"submit_result\", \"arguments\": {\"done\": true}}"));
        return None;
    };
    let name = parse_text(name, "`name`", out)?;
    // Any value is sent: models err, too.
    let arguments = arguments.map_or_else(|| Value::map(Map::new()), to_value);
    Some(ScriptedCall { id, name, arguments })
}

fn parse_usage(node: &SyntaxNode, out: &mut Diagnostics) -> Option<ScriptedUsage> {
    let mut object = ObjectReader::read(node, "`usage`", out)?;
    let mut count = |name: &'static str| {
        let node = object.take(name)?;
        parse_integer(node, &format!("`{name}`"), 0..=i64::MAX, out)
    };
    let usage = ScriptedUsage {
        input: count("input_tokens").unwrap_or(0),
        output: count("output_tokens").unwrap_or(0),
        total: count("total_tokens"),
        reasoning: count("reasoning_tokens").unwrap_or(0),
        cache_read: count("cache_read_tokens").unwrap_or(0),
        cache_write: count("cache_write_tokens").unwrap_or(0),
    };
    object.finish(UNKNOWN_KEY, "`usage`", out);
    Some(usage)
}
