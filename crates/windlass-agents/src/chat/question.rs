//! From a call's input to what a model is asked. The plan's machinery writes it, so whatever is wrong is said with its
//! place.

use windlass_core::ErrorInfo;
use windlass_syntax::{did_you_mean, list_of};
use windlass_value::{Map, Value};

use super::ToolSpec;
use super::price::Price;

const KNOWN: [&str; 12] = [
    "model",
    "system",
    "messages",
    "tools",
    "require",
    "result",
    "temperature",
    "topP",
    "maxTokens",
    "price",
    "role",
    "turn",
];

pub(super) struct Question<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) system: Option<&'a str>,
    pub(super) messages: Vec<Message<'a>>,
    pub(super) tools: Offer<'a>,
    pub(super) require: Option<&'a str>,
    pub(super) result: Option<ResultTool<'a>>,
    pub(super) temperature: Option<&'a Value>,
    pub(super) top_p: Option<&'a Value>,
    pub(super) max_tokens: Option<u64>,
    pub(super) price: Option<Price>,
    pub(super) role: Option<&'a str>,
    pub(super) turn: Option<i64>,
}

pub(super) enum Message<'a> {
    User(Vec<Part<'a>>),
    Assistant { content: &'a str, calls: Vec<PastCall<'a>> },
    Results(Vec<PastResult<'a>>),
}

pub(super) enum Part<'a> {
    Text(&'a str),
    /// Data are base64.
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

/// Which tools the model gets.
#[derive(Default)]
pub(super) struct Offer<'a> {
    /// None: all.
    pub(super) allow: Option<Vec<&'a str>>,
    pub(super) deny: Vec<&'a str>,
    pub(super) own: Vec<ToolSpec>,
}

impl Offer<'_> {
    pub(super) fn allows(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(&name)) && !self.deny.contains(&name)
    }
}

pub(super) struct ResultTool<'a> {
    pub(super) tool: &'a str,
    pub(super) schema: &'a Value,
}

impl<'a> Question<'a> {
    pub(super) fn of(input: &'a Value) -> Result<Question<'a>, ErrorInfo> {
        let map = object(input, "the input")?;
        if let Some(name) = map.keys().find(|name| !KNOWN.contains(&&***name)) {
            let hint = did_you_mean(name, KNOWN).unwrap_or_else(|| format!("known are {}", list_of(KNOWN)));
            return Err(bad(format!("a turn of a model has no `{name}`")).hint(hint));
        }
        let messages = given(map, "messages").ok_or_else(|| bad("there are no `messages`"))?;
        let messages = each(messages, "messages", message)?;
        if messages.is_empty() {
            return Err(bad("`messages` is empty: a model is asked something"));
        }
        Ok(Question {
            model: optional_text(map, "model")?,
            system: optional_text(map, "system")?.filter(|text| !text.is_empty()),
            messages,
            tools: given(map, "tools").map(offer).transpose()?.unwrap_or_default(),
            require: optional_text(map, "require")?,
            result: given(map, "result").map(result_tool).transpose()?,
            temperature: number(map, "temperature")?,
            top_p: number(map, "topP")?,
            max_tokens: whole(map, "maxTokens", "maxTokens")?.filter(|max| *max > 0),
            price: given(map, "price").map(price).transpose()?,
            role: optional_text(map, "role")?,
            turn: given(map, "turn")
                .map(|turn| turn.as_int().ok_or_else(|| bad("`turn` is no whole number")))
                .transpose()?,
        })
    }
}

pub(super) fn bad(message: impl Into<String>) -> ErrorInfo {
    ErrorInfo::new("BadModelInput", "input", message.into())
}

fn wrong(place: &str, value: &Value, wanted: &str) -> ErrorInfo {
    bad(format!("`{place}` is {}, not {wanted}", value.kind()))
}

fn given<'a>(map: &'a Map, name: &str) -> Option<&'a Value> {
    map.get(name).filter(|value| !value.is_null())
}

fn object<'a>(value: &'a Value, place: &str) -> Result<&'a Map, ErrorInfo> {
    value.as_map().ok_or_else(|| wrong(place, value, "an object"))
}

fn text<'a>(map: &'a Map, name: &str, place: &str) -> Result<&'a str, ErrorInfo> {
    match given(map, name) {
        Some(Value::Str(text)) => Ok(text),
        Some(other) => Err(wrong(&format!("{place}.{name}"), other, "a text")),
        None => Err(bad(format!("`{place}` has no `{name}`"))),
    }
}

fn optional_text<'a>(map: &'a Map, name: &str) -> Result<Option<&'a str>, ErrorInfo> {
    given(map, name).map(|value| value.as_str().ok_or_else(|| wrong(name, value, "a text"))).transpose()
}

fn each<'a, T>(
    value: &'a Value,
    place: &str,
    read: impl Fn(&'a Value, &str) -> Result<T, ErrorInfo>,
) -> Result<Vec<T>, ErrorInfo> {
    let items = value.as_list().ok_or_else(|| wrong(place, value, "an array"))?;
    items.iter().enumerate().map(|(index, item)| read(item, &format!("{place}[{index}]"))).collect()
}

fn texts<'a>(value: &'a Value, place: &str) -> Result<Vec<&'a str>, ErrorInfo> {
    each(value, place, |item, place| item.as_str().ok_or_else(|| wrong(place, item, "a text")))
}

fn number<'a>(map: &'a Map, name: &str) -> Result<Option<&'a Value>, ErrorInfo> {
    let fits = |value: &&Value| value.as_f64().is_some_and(|number| number >= 0.0);
    match given(map, name) {
        Some(value) if !fits(&value) => Err(wrong(name, value, "a number, 0 or more")),
        value => Ok(value),
    }
}

fn whole(map: &Map, name: &str, place: &str) -> Result<Option<u64>, ErrorInfo> {
    let count = |value: &Value| value.as_int().and_then(|count| u64::try_from(count).ok());
    given(map, name)
        .map(|value| count(value).ok_or_else(|| wrong(place, value, "a whole number, 0 or more")))
        .transpose()
}

fn message<'a>(value: &'a Value, place: &str) -> Result<Message<'a>, ErrorInfo> {
    let map = object(value, place)?;
    match text(map, "role", place)? {
        "user" => Ok(Message::User(match given(map, "content") {
            Some(Value::Str(text)) => vec![Part::Text(text)],
            Some(parts) => each(parts, &format!("{place}.content"), part)?,
            None => return Err(bad(format!("`{place}` has no `content`"))),
        })),
        "assistant" => Ok(Message::Assistant {
            content: given(map, "content").map(|_| text(map, "content", place)).transpose()?.unwrap_or_default(),
            calls: given(map, "calls")
                .map(|calls| each(calls, &format!("{place}.calls"), past_call))
                .transpose()?
                .unwrap_or_default(),
        }),
        "tool" => {
            let results = given(map, "results").ok_or_else(|| bad(format!("`{place}` has no `results`")))?;
            Ok(Message::Results(each(results, &format!("{place}.results"), past_result)?))
        }
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(bad(format!("`{place}.role` is `{shown}`")).hint("user, assistant or tool; `system` has its own field"))
        }
    }
}

fn part<'a>(value: &'a Value, place: &str) -> Result<Part<'a>, ErrorInfo> {
    let map = object(value, place)?;
    match text(map, "type", place)? {
        "text" => Ok(Part::Text(text(map, "text", place)?)),
        "image" => Ok(Part::Image { media: text(map, "media", place)?, data: text(map, "data", place)? }),
        "file" => Ok(Part::File {
            media: text(map, "media", place)?,
            data: text(map, "data", place)?,
            name: given(map, "name").and_then(Value::as_str).unwrap_or("file"),
        }),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(bad(format!("`{place}.type` is `{shown}`")).hint("text, image or file"))
        }
    }
}

fn past_call<'a>(value: &'a Value, place: &str) -> Result<PastCall<'a>, ErrorInfo> {
    let map = object(value, place)?;
    let arguments = map.get("arguments").unwrap_or(&Value::Null);
    Ok(PastCall { id: text(map, "id", place)?, name: text(map, "name", place)?, arguments })
}

fn past_result<'a>(value: &'a Value, place: &str) -> Result<PastResult<'a>, ErrorInfo> {
    let map = object(value, place)?;
    let error = given(map, "error").and_then(Value::as_bool).unwrap_or(false);
    Ok(PastResult { id: text(map, "id", place)?, content: text(map, "content", place)?, error })
}

fn offer(value: &Value) -> Result<Offer<'_>, ErrorInfo> {
    let map = object(value, "tools")?;
    Ok(Offer {
        allow: given(map, "allow").map(|names| texts(names, "tools.allow")).transpose()?,
        deny: given(map, "deny").map(|names| texts(names, "tools.deny")).transpose()?.unwrap_or_default(),
        own: given(map, "own").map(|own| each(own, "tools.own", spec)).transpose()?.unwrap_or_default(),
    })
}

fn spec(value: &Value, place: &str) -> Result<ToolSpec, ErrorInfo> {
    let map = object(value, place)?;
    let parameters = given(map, "parameters").ok_or_else(|| bad(format!("`{place}` has no `parameters`")))?;
    object(parameters, &format!("{place}.parameters"))?;
    Ok(ToolSpec {
        name: text(map, "name", place)?.to_owned(),
        description: given(map, "description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        parameters: parameters.clone(),
    })
}

fn result_tool(value: &Value) -> Result<ResultTool<'_>, ErrorInfo> {
    let map = object(value, "result")?;
    let schema = given(map, "schema").ok_or_else(|| bad("`result` has no `schema`"))?;
    Ok(ResultTool { tool: text(map, "tool", "result")?, schema })
}

fn price(value: &Value) -> Result<Price, ErrorInfo> {
    let map = object(value, "price")?;
    let part = |name: &str| whole(map, name, &format!("price.{name}"));
    Ok(Price {
        input: part("input")?.unwrap_or(0),
        output: part("output")?.unwrap_or(0),
        cache_read: part("cacheRead")?,
        cache_write: part("cacheWrite")?,
    })
}
