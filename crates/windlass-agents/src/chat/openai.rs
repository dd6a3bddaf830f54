//! The OpenAI chat completions protocol: requests, and replies whole or streamed.

use windlass_value::{Map, Value, to_json};

use super::ToolSpec;
use super::reasoning::{
    REASONING_CONTENT, ReasoningFields, extra_of_call, has_reasoning_content, open_state, restore_fields,
};
use super::reply::{ModelReply, ModelUsage, StopReason, ToolUse, past_arguments};
use super::request::{ChatMessage, ChatRequest, MessagePart, PastCall};
use super::service::ModelEndpoint;

pub(super) fn request_body(
    chosen: &ModelEndpoint,
    request: &ChatRequest<'_>,
    tools: &[ToolSpec],
    max_tokens: Option<u64>,
) -> Value {
    let mut body = Map::new();
    body.insert("model", chosen.model.as_str());
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    messages.extend(request.system.map(|text| message("system", text.into())));
    let wants_reasoning = request.messages.iter().any(|message| match message {
        ChatMessage::Assistant { state, .. } => has_reasoning_content(open_state(chosen, *state)),
        ChatMessage::User(_) | ChatMessage::Results(_) => false,
    });
    for one in &request.messages {
        add_message(&mut messages, one, chosen, wants_reasoning);
    }
    body.insert("messages", Value::list(messages));
    if !tools.is_empty() {
        body.insert("tools", Value::list(tools.iter().map(tool).collect()));
    }
    if let Some(name) = request.require {
        let function = Value::object([("name", name)]);
        body.insert("tool_choice", Value::object([("type", Value::from("function")), ("function", function)]));
    }
    for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
        if let Some(value) = value {
            body.insert(name, value.clone());
        }
    }
    if let Some(max_tokens) = max_tokens {
        let name = if chosen.quirks.uses_max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body.insert(name, i64::try_from(max_tokens).unwrap_or(i64::MAX));
    }
    if chosen.stream {
        body.insert("stream", true);
        if !chosen.quirks.sends_usage_unasked {
            body.insert("stream_options", Value::object([("include_usage", true)]));
        }
    }
    Value::map(body)
}

fn message(role: &str, content: Value) -> Value {
    Value::object([("role", Value::from(role)), ("content", content)])
}

fn add_message(messages: &mut Vec<Value>, one: &ChatMessage<'_>, chosen: &ModelEndpoint, wants_reasoning: bool) {
    match one {
        ChatMessage::User(parts) => match parts.as_slice() {
            [MessagePart::Text(text)] => messages.push(message("user", (*text).into())),
            parts => messages.push(message("user", Value::list(parts.iter().map(part).collect()))),
        },
        ChatMessage::Assistant { content, calls, state } => {
            let state = open_state(chosen, *state);
            let mut map = Map::new();
            map.insert("role", "assistant");
            // With calls, missing text is null, not empty.
            let none = content.is_empty() && !calls.is_empty();
            map.insert("content", if none { Value::Null } else { Value::from(*content) });
            if wants_reasoning && !calls.is_empty() {
                map.insert(REASONING_CONTENT, "");
            }
            restore_fields(chosen, state, !calls.is_empty(), &mut map);
            if !calls.is_empty() {
                let calls = calls.iter().enumerate().map(|(index, call)| past_call(call, extra_of_call(state, index)));
                map.insert("tool_calls", Value::list(calls.collect()));
            }
            messages.push(Value::map(map));
        }
        ChatMessage::Results(results) => {
            messages.extend(results.iter().map(|result| {
                Value::object([("role", "tool"), ("tool_call_id", result.id), ("content", result.content)])
            }))
        }
    }
}

fn past_call(call: &PastCall<'_>, extra: Option<&Value>) -> Value {
    let arguments = to_json(&past_arguments(call.arguments));
    let function = Value::object([("name", Value::from(call.name)), ("arguments", arguments.into())]);
    let own = [("id", Value::from(call.id)), ("type", "function".into()), ("function", function)];
    Value::object(own.into_iter().chain(extra.map(|extra| ("extra_content", extra.clone()))))
}

fn part(part: &MessagePart<'_>) -> Value {
    match part {
        MessagePart::Text(text) => Value::object([("type", "text"), ("text", text)]),
        MessagePart::Image { media, data } => {
            let url = Value::object([("url", data_url(media, data))]);
            Value::object([("type", Value::from("image_url")), ("image_url", url)])
        }
        MessagePart::File { media, data, name } => {
            let file = Value::object([("filename", (*name).to_owned()), ("file_data", data_url(media, data))]);
            Value::object([("type", Value::from("file")), ("file", file)])
        }
    }
}

fn data_url(media: &str, data: &str) -> String {
    format!("data:{media};base64,{data}")
}

fn tool(spec: &ToolSpec) -> Value {
    let function = Value::object([
        ("name", Value::from(spec.name.as_str())),
        ("description", Value::from(spec.description.as_str())),
        ("parameters", spec.parameters.clone()),
    ]);
    Value::object([("type", Value::from("function")), ("function", function)])
}

/// Parses a whole reply. The error says what is missing.
pub(super) fn parse_reply(body: &Value) -> Result<ModelReply, String> {
    let choice = body.get("choices").and_then(Value::as_list).and_then(<[Value]>::first);
    let choice = choice.ok_or("sent a reply without `choices`")?;
    let message = choice.get("message").filter(|message| message.as_map().is_some());
    let message = message.ok_or("sent a choice without a `message`")?;
    let mut assembly = OpenAiAssembly::default();
    assembly.head(body);
    assembly.choice(choice, message);
    assembly.is_done = true;
    assembly.finish().ok_or_else(|| "sent a reply that is not complete".to_owned())
}

/// A reply that is assembled from the chunks of a stream.
#[derive(Default)]
pub(super) struct OpenAiAssembly {
    content: String,
    refusal: String,
    calls: Vec<(Option<i64>, ToolUse)>,
    stop: Option<StopReason>,
    model: Option<String>,
    usage: ModelUsage,
    is_done: bool,
    reasoning: ReasoningFields,
    /// The reason why the service gave up.
    interrupted: Option<String>,
}

/// The text that a chunk adds to the published output.
#[derive(Default)]
pub(super) struct ReplyDelta {
    pub(super) text: String,
    pub(super) reasoning: String,
}

impl OpenAiAssembly {
    pub(super) fn mark_done(&mut self) {
        self.is_done = true;
    }

    pub(super) fn usage(&self) -> ModelUsage {
        self.usage
    }

    pub(super) fn chunk(&mut self, chunk: &Value) -> ReplyDelta {
        self.head(chunk);
        let choice = chunk.get("choices").and_then(Value::as_list).and_then(<[Value]>::first);
        match choice {
            Some(choice) => self.choice(choice, choice.get("delta").unwrap_or(&Value::Null)),
            None => ReplyDelta::default(),
        }
    }

    fn head(&mut self, chunk: &Value) {
        if let Some(model) = chunk.get("model").and_then(Value::as_str).filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
        let own = chunk.get("usage").or_else(|| chunk.get("x_groq").and_then(|own| own.get("usage")));
        if let Some(usage) = own.filter(|usage| usage.as_map().is_some()) {
            self.usage = read_usage(usage);
        }
    }

    fn choice(&mut self, choice: &Value, delta: &Value) -> ReplyDelta {
        let text = text_of(delta.get("content"));
        self.content.push_str(&text);
        self.refusal.push_str(&text_of(delta.get("refusal")));
        self.reasoning.push(delta);
        for call in delta.get("tool_calls").and_then(Value::as_list).unwrap_or_default() {
            self.call(call);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            match reason {
                // The service gave up in the middle: some report it here, with the status of a success.
                "error" | "insufficient_system_resource" | "abort" => self.interrupted = Some(reason.to_owned()),
                reason => self.stop = Some(stop_reason(reason)),
            }
        }
        let reasoning = text_of(delta.get("reasoning_content").or_else(|| delta.get("reasoning")));
        ReplyDelta { text, reasoning }
    }

    /// Adds a call or a piece of one. Pieces belong to the same call if their indexes are equal and their ids do not
    /// differ. If the service sends no index, a piece with a name begins a new call.
    fn call(&mut self, piece: &Value) {
        let index = piece.get("index").and_then(Value::as_int);
        let id = piece.get("id").and_then(Value::as_str).unwrap_or_default();
        let function = piece.get("function").unwrap_or(&Value::Null);
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_same = |(at, call): &(Option<i64>, ToolUse)| {
            let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
            same_id && (index.is_none() || *at == index) && (index.is_some() || name.is_empty())
        };
        let found = self.calls.iter().rposition(is_same);
        let at = found.unwrap_or_else(|| {
            self.calls.push((index, ToolUse::default()));
            self.calls.len() - 1
        });
        let Some((_, call)) = self.calls.get_mut(at) else { return };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if let Some(extra) = piece.get("extra_content").filter(|extra| !extra.is_null()) {
            call.extra = extra.clone();
        }
        match function.get("arguments") {
            Some(Value::Str(text)) => call.arguments.push_str(text),
            // Some services send an object instead of a text.
            Some(whole @ Value::Map(_)) => call.arguments = to_json(whole),
            _ => {}
        }
    }

    /// Returns `None` if the reply is not complete.
    pub(super) fn finish(self) -> Option<ModelReply> {
        if self.stop.is_none() && self.interrupted.is_none() && !self.is_done {
            return None;
        }
        let refused = !self.refusal.is_empty();
        let stop = if refused { Some(StopReason::Refusal) } else { self.stop };
        let content = if refused && self.content.is_empty() { self.refusal } else { self.content };
        let calls: Vec<ToolUse> = self.calls.into_iter().map(|(_, call)| call).collect();
        let state = self.reasoning.into_state(calls.iter().map(|call| call.extra.clone()).collect());
        let OpenAiAssembly { model, usage, interrupted, .. } = self;
        Some(ModelReply { content, calls, stop, model, usage, state, interrupted })
    }
}

/// Converts a finish reason. Google appends the details to it: `content_filter: RECITATION`. Unknown reasons are
/// those of complete replies: `stop`, `eos`, `end_turn`.
fn stop_reason(reason: &str) -> StopReason {
    match reason.split(':').next().unwrap_or_default() {
        "tool_calls" | "function_call" => StopReason::Tools,
        "length" | "max_tokens" => StopReason::Length,
        "model_length" => StopReason::ContextFull,
        "content_filter" | "safety" | "guardrail_intervened" => StopReason::Filtered,
        "refusal" => StopReason::Refusal,
        _ => StopReason::End,
    }
}

/// Returns the text of a content that is one text or a list of parts.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::Str(text)) => text.to_string(),
        Some(Value::List(parts)) => parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect(),
        _ => String::new(),
    }
}

fn read_usage(usage: &Value) -> ModelUsage {
    let count = |path: &[&str]| ModelUsage::count(usage, path);
    let input = count(&["prompt_tokens"]).unwrap_or(0);
    let output = count(&["completion_tokens"]).unwrap_or(0);
    let total = count(&["total_tokens"]).unwrap_or(0);
    let reasoning = count(&["completion_tokens_details", "reasoning_tokens"]).unwrap_or(0);
    let cached = count(&["prompt_tokens_details", "cached_tokens"]).or_else(|| count(&["prompt_cache_hit_tokens"]));
    // Some services count reasoning only in the total; it is charged as output.
    let output = output.max(total.saturating_sub(input));
    ModelUsage {
        input,
        output,
        total: total.max(input.saturating_add(output)),
        reasoning,
        cache_read: cached.unwrap_or(0).min(input),
        cache_write: count(&["prompt_tokens_details", "cache_write_tokens"]).unwrap_or(0),
        estimated: false,
    }
}
