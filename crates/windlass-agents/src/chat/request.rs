//! Parses the input of an `agent_model` call. The plan's compiler generates it, so every error names the path of the
//! wrong value.

use windlass_core::ErrorInfo;
use windlass_syntax::{did_you_mean, format_names};
use windlass_value::{Map, Value};

use super::ToolSpec;
use super::price::TokenPrice;

const KNOWN_KEYS: [&str; 12] = [
    "model",
    "system",
    "messages",
    "tools",
    "require",
    "result",
    "temperature",
    "top_p",
    "max_tokens",
    "price",
    "role",
    "turn",
];

pub(super) struct ChatRequest<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) system: Option<&'a str>,
    pub(super) messages: Vec<ChatMessage<'a>>,
    pub(super) tools: ToolOffer<'a>,
    pub(super) require: Option<&'a str>,
    pub(super) result: Option<ResultTool<'a>>,
    pub(super) temperature: Option<&'a Value>,
    pub(super) top_p: Option<&'a Value>,
    max_tokens: Option<u64>,
    pub(super) price: Option<TokenPrice>,
    pub(super) role: Option<&'a str>,
    pub(super) turn: Option<i64>,
}

pub(super) enum ChatMessage<'a> {
    User(Vec<MessagePart<'a>>),
    /// The state is the reasoning of a service.
    Assistant {
        content: &'a str,
        calls: Vec<PastCall<'a>>,
        state: Option<&'a Value>,
    },
    Results(Vec<PastResult<'a>>),
}

pub(super) enum MessagePart<'a> {
    Text(&'a str),
    /// The data is base64.
    Image {
        media: &'a str,
        data: &'a str,
    },
    File {
        media: &'a str,
        data: &'a str,
        name: &'a str,
    },
}

pub(super) struct PastCall<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a Value,
}

pub(super) struct PastResult<'a> {
    pub(super) id: &'a str,
    pub(super) content: &'a str,
    pub(super) error: bool,
}

/// The tools that the model is offered.
#[derive(Default)]
pub(super) struct ToolOffer<'a> {
    /// `None`: all.
    pub(super) allow: Option<Vec<&'a str>>,
    pub(super) deny: Vec<&'a str>,
    pub(super) own: Vec<ToolSpec>,
}

impl ToolOffer<'_> {
    pub(super) fn allows(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(&name)) && !self.deny.contains(&name)
    }
}

pub(super) struct ResultTool<'a> {
    pub(super) tool: &'a str,
    pub(super) schema: &'a Value,
}

impl<'a> ChatRequest<'a> {
    pub(super) fn parse(input: &'a Value) -> Result<ChatRequest<'a>, ErrorInfo> {
        let map = object(input, "the input")?;
        if let Some(name) = map.keys().find(|name| !KNOWN_KEYS.contains(&&***name)) {
            let hint = did_you_mean(name, KNOWN_KEYS)
                .unwrap_or_else(|| format!("supported keys: {}", format_names(KNOWN_KEYS)));
            return Err(bad(format!("a model call has no `{name}`")).hint(hint));
        }
        let messages = non_null(map, "messages").ok_or_else(|| bad("there are no `messages`"))?;
        let messages = each(messages, "messages", message)?;
        if messages.is_empty() {
            return Err(bad("`messages` is empty: a model call needs at least one message"));
        }
        Ok(ChatRequest {
            model: optional_text(map, "model")?,
            system: optional_text(map, "system")?.filter(|text| !text.is_empty()),
            messages,
            tools: non_null(map, "tools").map(offer).transpose()?.unwrap_or_default(),
            require: optional_text(map, "require")?,
            result: non_null(map, "result").map(result_tool).transpose()?,
            temperature: number(map, "temperature")?,
            top_p: number(map, "top_p")?,
            max_tokens: unsigned(map, "max_tokens", "max_tokens")?.filter(|max| *max > 0),
            price: non_null(map, "price").map(price).transpose()?,
            role: optional_text(map, "role")?,
            turn: non_null(map, "turn")
                .map(|turn| turn.as_int().ok_or_else(|| bad("`turn` is not a whole number")))
                .transpose()?,
        })
    }
}

impl ChatRequest<'_> {
    /// Returns the maximum tokens of the answer: of the request, which a budget may limit, and of the settings.
    pub(super) fn max_tokens(&self, configured: Option<u64>) -> Option<u64> {
        self.max_tokens.into_iter().chain(configured).min()
    }

    /// Returns whether the request itself limits the answer, as under a budget.
    pub(super) fn limits_reply(&self) -> bool {
        self.max_tokens.is_some()
    }
}

pub(super) fn bad(message: impl Into<String>) -> ErrorInfo {
    ErrorInfo::new("BadModelInput", "input", message.into())
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> ErrorInfo {
    bad(format!("`{path}` is {}, not {expected}", value.kind()))
}

fn non_null<'a>(map: &'a Map, name: &str) -> Option<&'a Value> {
    map.get(name).filter(|value| !value.is_null())
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map, ErrorInfo> {
    value.as_map().ok_or_else(|| wrong_type(path, value, "an object"))
}

fn text<'a>(map: &'a Map, name: &str, path: &str) -> Result<&'a str, ErrorInfo> {
    match non_null(map, name) {
        Some(Value::Str(text)) => Ok(text),
        Some(other) => Err(wrong_type(&format!("{path}.{name}"), other, "a text")),
        None => Err(bad(format!("`{path}` has no `{name}`"))),
    }
}

fn optional_text<'a>(map: &'a Map, name: &str) -> Result<Option<&'a str>, ErrorInfo> {
    non_null(map, name).map(|value| value.as_str().ok_or_else(|| wrong_type(name, value, "a text"))).transpose()
}

fn each<'a, T>(
    value: &'a Value,
    path: &str,
    read: impl Fn(&'a Value, &str) -> Result<T, ErrorInfo>,
) -> Result<Vec<T>, ErrorInfo> {
    let items = value.as_list().ok_or_else(|| wrong_type(path, value, "an array"))?;
    items.iter().enumerate().map(|(index, item)| read(item, &format!("{path}[{index}]"))).collect()
}

fn texts<'a>(value: &'a Value, path: &str) -> Result<Vec<&'a str>, ErrorInfo> {
    each(value, path, |item, path| item.as_str().ok_or_else(|| wrong_type(path, item, "a text")))
}

fn number<'a>(map: &'a Map, name: &str) -> Result<Option<&'a Value>, ErrorInfo> {
    let fits = |value: &&Value| value.as_f64().is_some_and(|number| number >= 0.0);
    match non_null(map, name) {
        Some(value) if !fits(&value) => Err(wrong_type(name, value, "a number, 0 or more")),
        value => Ok(value),
    }
}

fn unsigned(map: &Map, name: &str, path: &str) -> Result<Option<u64>, ErrorInfo> {
    let count = |value: &Value| value.as_int().and_then(|count| u64::try_from(count).ok());
    non_null(map, name)
        .map(|value| count(value).ok_or_else(|| wrong_type(path, value, "a whole number, 0 or more")))
        .transpose()
}

fn message<'a>(value: &'a Value, path: &str) -> Result<ChatMessage<'a>, ErrorInfo> {
    let map = object(value, path)?;
    match text(map, "role", path)? {
        "user" => Ok(ChatMessage::User(match non_null(map, "content") {
            Some(Value::Str(text)) => vec![MessagePart::Text(text)],
            Some(parts) => each(parts, &format!("{path}.content"), part)?,
            None => return Err(bad(format!("`{path}` has no `content`"))),
        })),
        "assistant" => Ok(ChatMessage::Assistant {
            content: non_null(map, "content").map(|_| text(map, "content", path)).transpose()?.unwrap_or_default(),
            calls: non_null(map, "calls")
                .map(|calls| each(calls, &format!("{path}.calls"), past_call))
                .transpose()?
                .unwrap_or_default(),
            state: non_null(map, "state"),
        }),
        "tool" => {
            let results = non_null(map, "results").ok_or_else(|| bad(format!("`{path}` has no `results`")))?;
            Ok(ChatMessage::Results(each(results, &format!("{path}.results"), past_result)?))
        }
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(bad(format!("`{path}.role` is `{shown}`")).hint("user, assistant or tool; `system` has its own field"))
        }
    }
}

fn part<'a>(value: &'a Value, path: &str) -> Result<MessagePart<'a>, ErrorInfo> {
    let map = object(value, path)?;
    match text(map, "type", path)? {
        "text" => Ok(MessagePart::Text(text(map, "text", path)?)),
        "image" => Ok(MessagePart::Image { media: text(map, "media", path)?, data: text(map, "data", path)? }),
        "file" => Ok(MessagePart::File {
            media: text(map, "media", path)?,
            data: text(map, "data", path)?,
            name: non_null(map, "name").and_then(Value::as_str).unwrap_or("file"),
        }),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(bad(format!("`{path}.type` is `{shown}`")).hint("text, image or file"))
        }
    }
}

fn past_call<'a>(value: &'a Value, path: &str) -> Result<PastCall<'a>, ErrorInfo> {
    let map = object(value, path)?;
    let arguments = map.get("arguments").unwrap_or(&Value::Null);
    Ok(PastCall { id: text(map, "id", path)?, name: text(map, "name", path)?, arguments })
}

fn past_result<'a>(value: &'a Value, path: &str) -> Result<PastResult<'a>, ErrorInfo> {
    let map = object(value, path)?;
    let error = non_null(map, "error").and_then(Value::as_bool).unwrap_or(false);
    Ok(PastResult { id: text(map, "id", path)?, content: text(map, "content", path)?, error })
}

fn offer(value: &Value) -> Result<ToolOffer<'_>, ErrorInfo> {
    let map = object(value, "tools")?;
    Ok(ToolOffer {
        allow: non_null(map, "allow").map(|names| texts(names, "tools.allow")).transpose()?,
        deny: non_null(map, "deny").map(|names| texts(names, "tools.deny")).transpose()?.unwrap_or_default(),
        own: non_null(map, "own").map(|own| each(own, "tools.own", spec)).transpose()?.unwrap_or_default(),
    })
}

fn spec(value: &Value, path: &str) -> Result<ToolSpec, ErrorInfo> {
    let map = object(value, path)?;
    let parameters = non_null(map, "parameters").ok_or_else(|| bad(format!("`{path}` has no `parameters`")))?;
    object(parameters, &format!("{path}.parameters"))?;
    Ok(ToolSpec {
        name: text(map, "name", path)?.to_owned(),
        description: non_null(map, "description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        parameters: parameters.clone(),
    })
}

fn result_tool(value: &Value) -> Result<ResultTool<'_>, ErrorInfo> {
    let map = object(value, "result")?;
    let schema = non_null(map, "schema").ok_or_else(|| bad("`result` has no `schema`"))?;
    Ok(ResultTool { tool: text(map, "tool", "result")?, schema })
}

fn price(value: &Value) -> Result<TokenPrice, ErrorInfo> {
    let map = object(value, "price")?;
    let part = |name: &str| unsigned(map, name, &format!("price.{name}"));
    Ok(TokenPrice {
        input: part("input")?.unwrap_or(0),
        output: part("output")?.unwrap_or(0),
        cache_read: part("cache_read")?,
        cache_write: part("cache_write")?,
    })
}
