//! The Anthropic messages protocol: requests, and replies whole or streamed.

use windlass_value::{Map, Value, to_json};

use super::ToolSpec;
use super::openai::ReplyDelta;
use super::reasoning::{ContentBlock, ThinkingBlock, blocks_state, open_state};
use super::reply::{ModelReply, ModelUsage, StopReason, ToolUse, past_arguments};
use super::request::{ChatMessage, ChatRequest, MessagePart, PastCall};
use super::service::ModelEndpoint;
use crate::reply_limit::max_reply_tokens;

/// The protocol requires a maximum length; all newer models support this one.
const DEFAULT_MAX_TOKENS: u64 = 16_384;

pub(super) fn request_body(
    chosen: &ModelEndpoint,
    request: &ChatRequest<'_>,
    tools: &[ToolSpec],
    max_tokens: Option<u64>,
) -> Value {
    let mut body = Map::new();
    body.insert("model", chosen.model.as_str());
    let usual = || max_reply_tokens(&chosen.model).unwrap_or(DEFAULT_MAX_TOKENS);
    let max_tokens = max_tokens.unwrap_or_else(usual);
    body.insert("max_tokens", i64::try_from(max_tokens).unwrap_or(i64::MAX));
    if let Some(system) = request.system {
        body.insert("system", system);
    }
    body.insert("messages", messages(chosen, request));
    if !tools.is_empty() {
        body.insert("tools", Value::list(tools.iter().map(tool).collect()));
    }
    if let Some(name) = request.require {
        body.insert("tool_choice", Value::object([("type", "tool"), ("name", name)]));
    }
    for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
        if let Some(value) = value {
            body.insert(name, value.clone());
        }
    }
    if chosen.stream {
        body.insert("stream", true);
    }
    Value::map(body)
}

/// Converts the messages. Tool results have the role `user` here, and roles must alternate.
fn messages(chosen: &ModelEndpoint, request: &ChatRequest<'_>) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::with_capacity(request.messages.len());
    for one in &request.messages {
        let (role, blocks) = match one {
            ChatMessage::User(parts) => ("user", parts.iter().filter_map(part).collect()),
            ChatMessage::Assistant { content, calls, state } => {
                let blocks = open_state(chosen, *state).and_then(|state| state.get("blocks")?.as_list());
                ("assistant", blocks.map_or_else(|| assistant(content, calls), |blocks| restored(blocks, calls)))
            }
            ChatMessage::Results(results) => ("user", results.iter().map(result).collect::<Vec<Value>>()),
        };
        // An empty assistant message is left out.
        if role == "assistant" && blocks.is_empty() {
            continue;
        }
        match messages.last_mut() {
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    // The service rejects empty texts and messages without content.
    let filled = messages.into_iter().map(|(role, mut blocks)| {
        if blocks.is_empty() {
            blocks.push(text("(empty)"));
        }
        Value::object([("role", Value::from(role)), ("content", Value::list(blocks))])
    });
    Value::list(filled.collect())
}

fn text(text: &str) -> Value {
    Value::object([("type", "text"), ("text", text)])
}

fn part(part: &MessagePart<'_>) -> Option<Value> {
    let source = |media: &str, data: &str| Value::object([("type", "base64"), ("media_type", media), ("data", data)]);
    match part {
        MessagePart::Text(text_part) => (!text_part.trim().is_empty()).then(|| text(text_part)),
        MessagePart::Image { media, data } => {
            Some(Value::object([("type", Value::from("image")), ("source", source(media, data))]))
        }
        MessagePart::File { media, data, name } => Some(Value::object([
            ("type", Value::from("document")),
            ("source", source(media, data)),
            ("title", Value::from(*name)),
        ])),
    }
}

fn assistant(content: &str, calls: &[PastCall<'_>]) -> Vec<Value> {
    // The service also rejects trailing blanks.
    let spoken_text = Some(content.trim_end()).filter(|text| !text.is_empty()).map(text);
    spoken_text.into_iter().chain(calls.iter().map(past_call)).collect()
}

fn past_call(call: &PastCall<'_>) -> Value {
    Value::object([
        ("type", Value::from("tool_use")),
        ("id", Value::from(call.id)),
        ("name", Value::from(call.name)),
        ("input", past_arguments(call.arguments)),
    ])
}

/// Returns the blocks of a reply with reasoning in their order. Calls have the ids under which they are answered.
fn restored(blocks: &[Value], calls: &[PastCall<'_>]) -> Vec<Value> {
    let call_of = |block: &Value| {
        let index = block.get("call").and_then(Value::as_int).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| calls.get(index)).map(past_call)
    };
    let one = |block: &Value| match (block.get("block"), block.get("text").and_then(Value::as_str)) {
        (Some(opaque), _) => Some(opaque.clone()),
        (None, Some(spoken)) => Some(spoken.trim_end()).filter(|spoken| !spoken.is_empty()).map(text),
        (None, None) => call_of(block),
    };
    blocks.iter().filter_map(one).collect()
}

fn result(result: &super::request::PastResult<'_>) -> Value {
    let mut map = Map::new();
    map.insert("type", "tool_result");
    map.insert("tool_use_id", result.id);
    if !result.content.is_empty() {
        map.insert("content", result.content);
    }
    if result.error {
        map.insert("is_error", true);
    }
    Value::map(map)
}

fn tool(spec: &ToolSpec) -> Value {
    Value::object([
        ("name", Value::from(spec.name.as_str())),
        ("description", Value::from(spec.description.as_str())),
        ("input_schema", spec.parameters.clone()),
    ])
}

/// Parses a whole reply. The error says what is missing.
pub(super) fn parse_reply(body: &Value) -> Result<ModelReply, String> {
    let blocks = body.get("content").and_then(Value::as_list).ok_or("sent a reply without `content`")?;
    let mut assembly = AnthropicAssembly::default();
    assembly.head(body);
    for (index, block) in blocks.iter().enumerate() {
        assembly.block(i64::try_from(index).ok(), block);
    }
    assembly.stop(body.get("stop_reason"));
    assembly.is_done = true;
    assembly.finish().ok_or_else(|| "sent a reply that is not complete".to_owned())
}

/// A reply that is assembled from the events of a stream.
#[derive(Default)]
pub(super) struct AnthropicAssembly {
    content: String,
    calls: Vec<(Option<i64>, ToolUse)>,
    /// All blocks in order, with their index in the stream.
    blocks: Vec<(Option<i64>, ContentBlock)>,
    stop: Option<StopReason>,
    model: Option<String>,
    usage: UsageCounts,
    is_done: bool,
}

/// The usage as the service counts it: cache tokens separate from the input.
#[derive(Default)]
struct UsageCounts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl AnthropicAssembly {
    pub(super) fn usage(&self) -> ModelUsage {
        let UsageCounts { input, output, cache_read, cache_write } = self.usage;
        let input = input.saturating_add(cache_read).saturating_add(cache_write);
        ModelUsage {
            input,
            output,
            total: input.saturating_add(output),
            cache_read,
            cache_write,
            ..ModelUsage::default()
        }
    }

    pub(super) fn event(&mut self, event: &Value) -> ReplyDelta {
        let index = event.get("index").and_then(Value::as_int);
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => {
                self.head(event.get("message").unwrap_or(&Value::Null));
                ReplyDelta::default()
            }
            "content_block_start" => self.block(index, event.get("content_block").unwrap_or(&Value::Null)),
            "content_block_delta" => self.delta(index, event.get("delta").unwrap_or(&Value::Null)),
            "message_delta" => {
                self.count(event.get("usage"));
                self.stop(event.get("delta").and_then(|delta| delta.get("stop_reason")));
                ReplyDelta::default()
            }
            "message_stop" => {
                self.is_done = true;
                ReplyDelta::default()
            }
            // Pings, and events of later versions.
            _ => ReplyDelta::default(),
        }
    }

    fn head(&mut self, message: &Value) {
        self.model = message.get("model").and_then(Value::as_str).map(str::to_owned).or(self.model.take());
        self.count(message.get("usage"));
    }

    /// Takes over the usage. Each number replaces the previous one.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let set = |target: &mut u64, name: &str| {
            if let Some(count) = ModelUsage::count(usage, &[name]) {
                *target = count;
            }
        };
        set(&mut self.usage.input, "input_tokens");
        set(&mut self.usage.output, "output_tokens");
        set(&mut self.usage.cache_read, "cache_read_input_tokens");
        set(&mut self.usage.cache_write, "cache_creation_input_tokens");
    }

    fn block(&mut self, index: Option<i64>, block: &Value) -> ReplyDelta {
        let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match field("type") {
            "text" => {
                self.content.push_str(field("text"));
                self.blocks.push((index, ContentBlock::Text(field("text").to_owned())));
                ReplyDelta { text: field("text").to_owned(), ..ReplyDelta::default() }
            }
            "tool_use" => {
                // In a stream the arguments follow in pieces.
                let input = block.get("input").filter(|input| !input.as_map().is_some_and(Map::is_empty));
                let arguments = input.map(to_json).unwrap_or_default();
                let call = ToolUse {
                    id: field("id").to_owned(),
                    name: field("name").to_owned(),
                    arguments,
                    extra: Value::Null,
                };
                self.blocks.push((index, ContentBlock::Call(self.calls.len())));
                self.calls.push((index, call));
                ReplyDelta::default()
            }
            "thinking" | "redacted_thinking" => {
                let thinking = block.as_map().map(|map| ContentBlock::Thinking(ThinkingBlock::new(map)));
                self.blocks.extend(thinking.map(|thinking| (index, thinking)));
                ReplyDelta { reasoning: field("thinking").to_owned(), ..ReplyDelta::default() }
            }
            _ => ReplyDelta::default(),
        }
    }

    fn delta(&mut self, index: Option<i64>, delta: &Value) -> ReplyDelta {
        let field = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match field("type") {
            "text_delta" => {
                self.content.push_str(field("text"));
                if let Some(ContentBlock::Text(text)) = self.block_at(index) {
                    text.push_str(field("text"));
                }
                ReplyDelta { text: field("text").to_owned(), ..ReplyDelta::default() }
            }
            "input_json_delta" => {
                if let Some((_, call)) = self.calls.iter_mut().rfind(|(at, _)| *at == index) {
                    call.arguments.push_str(field("partial_json"));
                }
                ReplyDelta::default()
            }
            "thinking_delta" => {
                if let Some(ContentBlock::Thinking(block)) = self.block_at(index) {
                    block.thinking.push_str(field("thinking"));
                }
                ReplyDelta { reasoning: field("thinking").to_owned(), ..ReplyDelta::default() }
            }
            "signature_delta" => {
                if let Some(ContentBlock::Thinking(block)) = self.block_at(index) {
                    block.signature.push_str(field("signature"));
                }
                ReplyDelta::default()
            }
            _ => ReplyDelta::default(),
        }
    }

    fn block_at(&mut self, index: Option<i64>) -> Option<&mut ContentBlock> {
        self.blocks.iter_mut().rfind(|(at, _)| *at == index).map(|(_, block)| block)
    }

    fn stop(&mut self, reason: Option<&Value>) {
        if let Some(reason) = reason.and_then(Value::as_str) {
            self.stop = Some(match reason {
                "tool_use" => StopReason::Tools,
                // A paused turn, as of the service's own tools, is as incomplete as a cut one and continues.
                "max_tokens" | "pause_turn" => StopReason::Length,
                "model_context_window_exceeded" => StopReason::ContextFull,
                "refusal" => StopReason::Refusal,
                // `end_turn`, `stop_sequence`, and those of later versions.
                _ => StopReason::End,
            });
        }
    }

    /// Returns `None` if the reply is not complete.
    pub(super) fn finish(self) -> Option<ModelReply> {
        if self.stop.is_none() && !self.is_done {
            return None;
        }
        let usage = self.usage();
        let calls = self.calls.into_iter().map(|(_, call)| call).collect();
        let state = blocks_state(self.blocks.into_iter().map(|(_, block)| block).collect());
        let AnthropicAssembly { content, stop, model, .. } = self;
        Some(ModelReply { content, calls, stop, model, usage, state, interrupted: None })
    }
}
