//! The reasoning state of a reply: what a service wants to see again, unmodified and in order, when its model continues
//! after tool calls. Without it some services reject the request, and others have lost the reasoning.
//!
//! The state belongs to one model of one service. It is opaque: no text of it is content, and it is never shown.
//!
//! | protocol | state | sent back |
//! |---|---|---|
//! | Anthropic | `thinking` and `redacted_thinking` blocks, with the order of all blocks | in every assistant message |
//! | OpenAI | `extra_content` of messages and calls (Google's thought signatures) | in every assistant message |
//! | OpenAI | `reasoning_details`, `thinking_blocks` (OpenRouter, proxies) | in every assistant message |
//! | OpenAI | `reasoning_content` (DeepSeek, Moonshot and others) | with calls; without calls some services reject it |
//! | OpenAI | `reasoning` (OpenRouter, if there are no `reasoning_details`) | in every assistant message |

use windlass_value::{Map, Value};

use super::service::ModelEndpoint;

/// The lists of reasoning parts that services send next to the content.
const LISTS: [&str; 2] = [REASONING_DETAILS, "thinking_blocks"];
const REASONING_DETAILS: &str = "reasoning_details";
/// The texts of a part, which arrive in pieces.
const PIECES: [&str; 3] = ["text", "summary", "thinking"];
pub(super) const REASONING_CONTENT: &str = "reasoning_content";
const REASONING: &str = "reasoning";
const EXTRA_CONTENT: &str = "extra_content";
/// The only service that takes a plain text of reasoning back; others reject the field.
const OPENROUTER: &str = "openrouter";

/// Marks a state with its service, because other services and models do not accept it.
pub(super) fn seal_state(endpoint: &ModelEndpoint, state: Map) -> Value {
    let mut sealed = Map::with_capacity(state.len() + 1);
    sealed.insert("of", service_of(endpoint));
    for (name, value) in state.iter() {
        sealed.insert(name.clone(), value.clone());
    }
    Value::map(sealed)
}

/// Returns the state if this service sent it.
pub(super) fn open_state<'a>(endpoint: &ModelEndpoint, state: Option<&'a Value>) -> Option<&'a Map> {
    let state = state?.as_map()?;
    let is_own = state.get("of").and_then(Value::as_str).is_some_and(|of| of == service_of(endpoint));
    is_own.then_some(state)
}

fn service_of(endpoint: &ModelEndpoint) -> String {
    format!("{}/{}", endpoint.provider, endpoint.model)
}

/// The reasoning fields of an OpenAI message, assembled from its chunks.
#[derive(Debug, Default)]
pub(super) struct ReasoningFields {
    /// By the name of their field.
    texts: Vec<(&'static str, String)>,
    lists: Vec<(&'static str, Vec<ReasoningPart>)>,
    extra: Option<Value>,
}

/// A part of a list, whose text is still growing.
#[derive(Debug)]
struct ReasoningPart {
    map: Map,
    text: Option<(&'static str, String)>,
}

impl ReasoningFields {
    /// Adds the fields of a message or of a piece of one.
    pub(super) fn push(&mut self, delta: &Value) {
        for name in [REASONING_CONTENT, REASONING] {
            if let Some(piece) = delta.get(name).and_then(Value::as_str) {
                entry(&mut self.texts, name).push_str(piece);
            }
        }
        for name in LISTS {
            for part in delta.get(name).and_then(Value::as_list).unwrap_or_default() {
                if let Some(part) = part.as_map() {
                    push_part(entry(&mut self.lists, name), part);
                }
            }
        }
        if let Some(extra) = delta.get(EXTRA_CONTENT).filter(|extra| !extra.is_null()) {
            self.extra = Some(extra.clone());
        }
    }

    /// Returns the state of the reply; `calls` are the `extra_content` of its calls, in order.
    pub(super) fn into_state(self, calls: Vec<Value>) -> Option<Map> {
        let mut fields = Map::new();
        let has_details = self.lists.iter().any(|(name, _)| *name == REASONING_DETAILS);
        for (name, text) in self.texts.into_iter().filter(|(name, _)| *name != REASONING || !has_details) {
            fields.insert(name, text);
        }
        for (name, parts) in self.lists {
            fields.insert(name, Value::list(parts.into_iter().map(ReasoningPart::into_value).collect()));
        }
        if let Some(extra) = self.extra {
            fields.insert(EXTRA_CONTENT, extra);
        }
        let has_extra = calls.iter().any(|extra| !extra.is_null());
        if fields.is_empty() && !has_extra {
            return None;
        }
        let mut state = Map::from_iter([("fields", Value::map(fields))]);
        if has_extra {
            state.insert("calls", Value::list(calls));
        }
        Some(state)
    }
}

/// Returns the entry of a name, which is added if it is missing.
fn entry<'a, T: Default>(entries: &'a mut Vec<(&'static str, T)>, name: &'static str) -> &'a mut T {
    let at = entries.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
        entries.push((name, T::default()));
        entries.len() - 1
    });
    &mut entries[at].1
}

/// Adds a part, or a piece that continues the last one.
fn push_part(parts: &mut Vec<ReasoningPart>, piece: &Map) {
    match parts.last_mut().filter(|last| last.continues_with(piece)) {
        Some(last) => last.extend(piece),
        None => parts.push(ReasoningPart::new(piece)),
    }
}

impl ReasoningPart {
    fn new(part: &Map) -> ReasoningPart {
        let text = PIECES.into_iter().find_map(|name| Some((name, part.get(name)?.as_str()?.to_owned())));
        ReasoningPart { map: part.clone(), text }
    }

    /// Returns whether a piece belongs to this part: it has more of the same text, or its signature.
    fn continues_with(&self, piece: &Map) -> bool {
        let Some((name, _)) = &self.text else { return false };
        let same = |key: &str| self.map.get(key) == piece.get(key);
        let is_present = |key: &str| piece.get(key).is_some_and(|value| !value.is_null());
        same("type") && same("index") && (is_present(name) || is_present("signature"))
    }

    fn extend(&mut self, piece: &Map) {
        for (key, value) in piece.iter().filter(|(_, value)| !value.is_null()) {
            match (&mut self.text, value.as_str()) {
                (Some((name, text)), Some(more)) if **key == **name => text.push_str(more),
                (_, Some("")) => {}
                _ => _ = self.map.insert(key.clone(), value.clone()),
            }
        }
    }

    fn into_value(self) -> Value {
        let mut map = self.map;
        if let Some((name, text)) = self.text {
            map.insert(name, text);
        }
        Value::map(map)
    }
}

/// Adds the fields to an assistant message that is sent back.
pub(super) fn restore_fields(endpoint: &ModelEndpoint, state: Option<&Map>, has_calls: bool, message: &mut Map) {
    let fields = state.and_then(|state| state.get("fields")).and_then(Value::as_map);
    for (name, value) in fields.into_iter().flat_map(Map::iter) {
        let is_sent = match &**name {
            REASONING_CONTENT => has_calls,
            REASONING => endpoint.provider == OPENROUTER,
            _ => true,
        };
        if is_sent {
            message.insert(name.clone(), value.clone());
        }
    }
}

/// Returns the `extra_content` of a call that is sent back.
pub(super) fn extra_of_call(state: Option<&Map>, index: usize) -> Option<&Value> {
    let calls = state?.get("calls")?.as_list()?;
    calls.get(index).filter(|extra| !extra.is_null())
}

/// Returns whether a conversation with this state has `reasoning_content`: the services that send it want it with every
/// message that has calls, even if it is empty.
pub(super) fn has_reasoning_content(state: Option<&Map>) -> bool {
    state.and_then(|state| state.get("fields")).is_some_and(|fields| fields.get(REASONING_CONTENT).is_some())
}

/// A block of an Anthropic message, in the order of the reply.
#[derive(Debug)]
pub(super) enum ContentBlock {
    Text(String),
    /// The call of this number.
    Call(usize),
    Thinking(ThinkingBlock),
}

/// A block of reasoning, whose text and signature are still growing. Anything else in it is kept as it is.
#[derive(Debug)]
pub(super) struct ThinkingBlock {
    block: Map,
    pub(super) thinking: String,
    pub(super) signature: String,
}

impl ThinkingBlock {
    pub(super) fn new(block: &Map) -> ThinkingBlock {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        ThinkingBlock { thinking: text("thinking"), signature: text("signature"), block: block.clone() }
    }

    /// Returns the complete block. One that was cut off has no signature, and the service rejects it.
    fn into_value(self) -> Option<Value> {
        let mut block = self.block;
        if block.get("type").and_then(Value::as_str) == Some("thinking") {
            if self.signature.is_empty() {
                return None;
            }
            block.insert("thinking", self.thinking);
            block.insert("signature", self.signature);
        }
        Some(Value::map(block))
    }
}

/// Returns the state of a reply: all its blocks in order, if some of them are reasoning.
pub(super) fn blocks_state(blocks: Vec<ContentBlock>) -> Option<Map> {
    let mut has_reasoning = false;
    let mut entries = Vec::with_capacity(blocks.len());
    for block in blocks {
        entries.extend(match block {
            ContentBlock::Text(text) => Some(Value::object([("text", text)])),
            ContentBlock::Call(index) => Some(Value::object([("call", index)])),
            ContentBlock::Thinking(block) => block.into_value().map(|block| {
                has_reasoning = true;
                Value::object([("block", block)])
            }),
        });
    }
    has_reasoning.then(|| Map::from_iter([("blocks", Value::list(entries))]))
}
