//! Encodes a scripted reply in either protocol, complete or as a stream.

use hyper::StatusCode;
use windlass_value::{Map, Value, to_json};

use super::answers::{MockAnswer, MockFault, ScriptedStop, ScriptedUsage};

/// Number of characters per stream event: few, so that clients must join them.
const TEXT_CHARS: usize = 12;
/// The text of a refusal whose mock has none.
const REFUSAL: &str = "refused";
const ARGUMENT_CHARS: usize = 7;
/// Approximate maximum number of pieces of one text.
const MAX_PIECES: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MockModelProtocol {
    OpenAi,
    Anthropic,
}

/// A reply with the values that depend on the request.
pub(super) struct ModelResponse<'a> {
    pub(super) protocol: MockModelProtocol,
    pub(super) model: Value,
    pub(super) reply: &'a MockAnswer,
    pub(super) turn: u64,
}

/// The events of a stream, and how many of them at the end complete it.
pub(super) struct ModelStream {
    pub(super) events: Vec<String>,
    pub(super) tail: usize,
}

impl MockModelProtocol {
    pub(super) fn from_path(path: &str) -> Option<MockModelProtocol> {
        match path {
            path if path.ends_with("/chat/completions") => Some(MockModelProtocol::OpenAi),
            path if path.ends_with("/v1/messages") => Some(MockModelProtocol::Anthropic),
            _ => None,
        }
    }

    pub(super) fn error(self, status: StatusCode, message: &str, code: &str) -> Value {
        match self {
            MockModelProtocol::OpenAi => {
                let error = Value::object([("message", message), ("type", "mock"), ("code", code)]);
                Value::object([("error", error)])
            }
            MockModelProtocol::Anthropic => {
                let kind = match status.as_u16() {
                    400 => "invalid_request_error",
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    _ => "api_error",
                };
                let error = Value::object([("type", kind), ("message", message), ("code", code)]);
                Value::object([("type", Value::from("error")), ("error", error)])
            }
        }
    }
}

impl ModelResponse<'_> {
    fn text(&self) -> &str {
        self.given_text().unwrap_or_default()
    }

    /// Returns the text of the reply. A refusal has always one: in OpenAI's protocol an empty refusal is none.
    fn given_text(&self) -> Option<&str> {
        match (self.reply.text.as_deref(), self.stop()) {
            (None | Some(""), ScriptedStop::Refusal) => Some(REFUSAL),
            (text, _) => text,
        }
    }

    /// Returns id, name and arguments of each call.
    fn calls(&self) -> Vec<(String, &str, String)> {
        let calls = self.reply.calls.iter().enumerate().map(|(index, call)| {
            let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{}", self.turn, index + 1));
            let mut arguments = to_json(&call.arguments);
            if self.reply.fault == Some(MockFault::Malformed) {
                arguments.pop();
            }
            (id, call.name.as_str(), arguments)
        });
        calls.collect()
    }

    /// Returns the field of a message that has the text: OpenAI's protocol separates refusals from content.
    fn text_field(&self) -> &'static str {
        if self.stop() == ScriptedStop::Refusal { "refusal" } else { "content" }
    }

    fn stop(&self) -> ScriptedStop {
        self.reply.stop.unwrap_or(if self.reply.calls.is_empty() { ScriptedStop::End } else { ScriptedStop::Tools })
    }

    pub(super) fn to_value(&self) -> Value {
        match self.protocol {
            MockModelProtocol::OpenAi => self.completion(),
            MockModelProtocol::Anthropic => self.message(),
        }
    }

    pub(super) fn stream(&self, with_usage: bool) -> ModelStream {
        match self.protocol {
            MockModelProtocol::OpenAi => self.chunks(with_usage),
            MockModelProtocol::Anthropic => self.events(),
        }
    }

    fn completion(&self) -> Value {
        let calls = self.calls();
        let mut message = Map::new();
        message.insert("role", "assistant");
        let none = self.reply.text.is_none() && !calls.is_empty();
        match self.text_field() {
            "refusal" => {
                message.insert("content", Value::Null);
                message.insert("refusal", self.text());
            }
            name => _ = message.insert(name, if none { Value::Null } else { Value::from(self.text()) }),
        }
        if !calls.is_empty() {
            let calls = calls.into_iter().map(|(id, name, arguments)| {
                let function = Value::object([("name", Value::from(name)), ("arguments", arguments.into())]);
                Value::object([("id", Value::from(id)), ("type", "function".into()), ("function", function)])
            });
            message.insert("tool_calls", Value::list(calls.collect()));
        }
        let choice = Value::object([
            ("index", Value::Int(0)),
            ("message", Value::map(message)),
            ("finish_reason", Value::from(finish_reason(self.stop()))),
        ]);
        let mut body = self.head("chat.completion");
        body.insert("choices", Value::list(vec![choice]));
        if let Some(usage) = &self.reply.usage {
            body.insert("usage", openai_usage(usage));
        }
        Value::map(body)
    }

    fn head(&self, object: &str) -> Map {
        let entries = [("id", Value::from("mock")), ("object", Value::from(object)), ("model", self.model.clone())];
        entries.into_iter().collect()
    }

    fn chunks(&self, with_usage: bool) -> ModelStream {
        let chunk = |delta: Value, reason: Option<&str>| {
            let choice =
                Value::object([("index", Value::Int(0)), ("delta", delta), ("finish_reason", Value::from(reason))]);
            let mut body = self.head("chat.completion.chunk");
            body.insert("choices", Value::list(vec![choice]));
            data(&Value::map(body))
        };
        let mut events = vec![chunk(Value::object([("role", "assistant"), ("content", "")]), None)];
        let field = self.text_field();
        events.extend(split_text(self.text(), TEXT_CHARS).map(|text| chunk(Value::object([(field, text)]), None)));
        for (index, (id, name, arguments)) in self.calls().into_iter().enumerate() {
            let piece = |mut entries: Vec<(&str, Value)>| {
                entries.insert(0, ("index", Value::Int(i64::try_from(index).unwrap_or_default())));
                let calls = Value::list(vec![Value::object(entries)]);
                chunk(Value::object([("tool_calls", calls)]), None)
            };
            let function = Value::object([("name", name), ("arguments", "")]);
            events.push(piece(vec![("id", id.into()), ("type", "function".into()), ("function", function)]));
            events.extend(
                split_text(&arguments, ARGUMENT_CHARS)
                    .map(|text| piece(vec![("function", Value::object([("arguments", text)]))])),
            );
        }
        let before = events.len();
        events.push(chunk(Value::map(Map::new()), Some(finish_reason(self.stop()))));
        if let Some(usage) = self.reply.usage.filter(|_| with_usage) {
            let mut body = self.head("chat.completion.chunk");
            body.insert("choices", Value::list(Vec::new()));
            body.insert("usage", openai_usage(&usage));
            events.push(data(&Value::map(body)));
        }
        events.push("data: [DONE]\n\n".to_owned());
        ModelStream { tail: events.len() - before, events }
    }

    fn message(&self) -> Value {
        let text_block = self.given_text().map(|text| Value::object([("type", "text"), ("text", text)]));
        let calls = self.reply.calls.iter().zip(self.calls()).map(|(call, (id, name, _))| {
            // A complete message cannot contain malformed JSON, so the arguments get another type instead.
            let input = match self.reply.fault {
                Some(MockFault::Malformed) => Value::from(to_json(&call.arguments)),
                _ => call.arguments.clone(),
            };
            Value::object([("type", "tool_use".into()), ("id", id.into()), ("name", name.into()), ("input", input)])
        });
        let mut body = self.message_head(text_block.into_iter().chain(calls).collect());
        body.insert("stop_reason", stop_reason(self.stop()));
        if let Some(usage) = &self.reply.usage {
            body.insert("usage", anthropic_usage(usage));
        }
        Value::map(body)
    }

    fn message_head(&self, content: Vec<Value>) -> Map {
        let entries = [
            ("id", Value::from("mock")),
            ("type", Value::from("message")),
            ("role", Value::from("assistant")),
            ("model", self.model.clone()),
            ("content", Value::list(content)),
        ];
        entries.into_iter().collect()
    }

    fn events(&self) -> ModelStream {
        let mut start = self.message_head(Vec::new());
        start.insert("stop_reason", Value::Null);
        if let Some(usage) = &self.reply.usage {
            let begun = ScriptedUsage { output: 1, ..*usage };
            start.insert("usage", anthropic_usage(&begun));
        }
        let mut events =
            vec![named_event("message_start", vec![("message", Value::map(start))]), named_event("ping", Vec::new())];
        let mut index = 0;
        if self.given_text().is_some() {
            let deltas = split_text(self.text(), TEXT_CHARS)
                .map(|text| Value::object([("type", "text_delta"), ("text", &text)]));
            events.extend(block(index, Value::object([("type", "text"), ("text", "")]), deltas));
            index += 1;
        }
        for (id, name, arguments) in self.calls() {
            let empty = Value::map(Map::new());
            let start = Value::object([
                ("type", "tool_use".into()),
                ("id", id.into()),
                ("name", name.into()),
                ("input", empty),
            ]);
            let deltas = split_text(&arguments, ARGUMENT_CHARS)
                .map(|text| Value::object([("type", "input_json_delta"), ("partial_json", &text)]));
            events.extend(block(index, start, deltas));
            index += 1;
        }
        let before = events.len();
        let delta = Value::object([("stop_reason", stop_reason(self.stop()))]);
        let mut ending = vec![("delta", delta)];
        if let Some(usage) = &self.reply.usage {
            ending.push(("usage", Value::object([("output_tokens", to_i64(usage.output))])));
        }
        events.push(named_event("message_delta", ending));
        events.push(named_event("message_stop", Vec::new()));
        ModelStream { tail: events.len() - before, events }
    }
}

fn block(index: i64, start: Value, deltas: impl Iterator<Item = Value>) -> Vec<String> {
    let at = |kind: &str, field: Option<(&'static str, Value)>| {
        named_event(kind, [("index", Value::Int(index))].into_iter().chain(field).collect())
    };
    let mut events = vec![at("content_block_start", Some(("content_block", start)))];
    events.extend(deltas.map(|delta| at("content_block_delta", Some(("delta", delta)))));
    events.push(at("content_block_stop", None));
    events
}

fn named_event(kind: &str, fields: Vec<(&'static str, Value)>) -> String {
    let body: Map = [("type", Value::from(kind))].into_iter().chain(fields).collect();
    format!("event: {kind}\n{}", data(&Value::map(body)))
}

fn data(body: &Value) -> String {
    format!("data: {}\n\n", to_json(body))
}

fn split_text(text: &str, chars: usize) -> impl Iterator<Item = String> {
    let all: Vec<char> = text.chars().collect();
    // A long text is split into longer pieces, so that the event overhead does not multiply its size.
    let chars = chars.max(all.len() / MAX_PIECES);
    let pieces: Vec<String> = all.chunks(chars).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

fn finish_reason(stop: ScriptedStop) -> &'static str {
    match stop {
        ScriptedStop::End => "stop",
        ScriptedStop::Tools => "tool_calls",
        ScriptedStop::Length => "length",
        // A refusal is a field of the message.
        ScriptedStop::Refusal => "stop",
        ScriptedStop::Filtered => "content_filter",
    }
}

fn stop_reason(stop: ScriptedStop) -> &'static str {
    match stop {
        ScriptedStop::End => "end_turn",
        ScriptedStop::Tools => "tool_use",
        ScriptedStop::Length => "max_tokens",
        ScriptedStop::Refusal | ScriptedStop::Filtered => "refusal",
    }
}

fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn openai_usage(usage: &ScriptedUsage) -> Value {
    let sum = usage.input.saturating_add(usage.output);
    let mut map = Map::new();
    map.insert("prompt_tokens", to_i64(usage.input));
    map.insert("completion_tokens", to_i64(usage.output));
    map.insert("total_tokens", to_i64(usage.total.unwrap_or(sum)));
    if usage.cache_read > 0 || usage.cache_write > 0 {
        let cached = [("cached_tokens", to_i64(usage.cache_read)), ("cache_write_tokens", to_i64(usage.cache_write))];
        map.insert("prompt_tokens_details", Value::object(cached));
    }
    if usage.reasoning > 0 {
        let reasoning = [("reasoning_tokens", to_i64(usage.reasoning))];
        map.insert("completion_tokens_details", Value::object(reasoning));
    }
    Value::map(map)
}

/// Formats usage in the Anthropic format, where cached tokens are not part of the input tokens.
fn anthropic_usage(usage: &ScriptedUsage) -> Value {
    let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
    Value::object([
        ("input_tokens", to_i64(plain)),
        ("output_tokens", to_i64(usage.output)),
        ("cache_read_input_tokens", to_i64(usage.cache_read)),
        ("cache_creation_input_tokens", to_i64(usage.cache_write)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_split_into_long_pieces() {
        assert_eq!(split_text("abcdefghi", 7).collect::<Vec<_>>(), ["abcdefg", "hi"]);
        let long = "ü".repeat(1 << 20);
        let all: Vec<String> = split_text(&long, 7).collect();
        assert!(all.len() <= MAX_PIECES + 1 && all.concat() == long);
    }
}
