//! Conversion of a call's input to the request body.

use windlass_core::ErrorInfo;
use windlass_syntax::{did_you_mean, format_names};
use windlass_value::{Map, Value, to_json};

const KNOWN_KEYS: [&str; 9] =
    ["prompt", "systemPrompt", "messages", "model", "temperature", "topP", "maxTokens", "responseFormat", "accept"];

/// The replies that are no answer.
const STOPS: [&str; 4] = ["length", "refusal", "filtered", "empty"];

/// Numeric settings of a request: the name in the input and the name in the protocol.
const NUMBERS: [(&str, &str); 3] = [("temperature", "temperature"), ("topP", "top_p"), ("maxTokens", "max_tokens")];

/// Builds the body of the request. The messages are `systemPrompt`, then `messages`, then `prompt`.
pub(super) fn from_input(input: &Value, default_model: Option<&str>) -> Result<Value, ErrorInfo> {
    let Some(input) = input.as_map() else {
        let message = format!("the input is {}, not an object", input.kind());
        return Err(bad("Input", message, "a model call takes an object with at least `prompt` or `messages`"));
    };
    refuse_unknown(input)?;
    let mut body = Map::new();
    body.insert("model", model(input, default_model)?);
    body.insert("messages", messages(input)?);
    for (name, field) in NUMBERS {
        if let Some(value) = non_null(input, name) {
            body.insert(field, number(name, value)?);
        }
    }
    if let Some(format) = non_null(input, "responseFormat") {
        body.insert("response_format", response_format(format)?);
    }
    Ok(Value::map(body))
}

/// Returns the replies that are no answer and that the caller takes nevertheless.
pub(super) fn accepted_stops(input: &Value) -> Result<Vec<String>, ErrorInfo> {
    let Some(accept) = input.get("accept").filter(|accept| !accept.is_null()) else { return Ok(Vec::new()) };
    let known = |stop: &Value| stop.as_str().filter(|stop| STOPS.contains(stop)).map(str::to_owned);
    let stops: Option<Vec<String>> = accept.as_list().and_then(|stops| stops.iter().map(known).collect());
    let hint = format!("it is a list of {}", format_names(STOPS));
    stops.ok_or_else(|| bad("Setting", "`accept` is not a list of replies that are no answer", hint))
}

fn bad(what: &str, message: impl Into<String>, hint: impl Into<String>) -> ErrorInfo {
    ErrorInfo::new(format!("BadModel{what}"), "input", message.into()).hint(hint.into())
}

fn non_null<'a>(input: &'a Map, name: &str) -> Option<&'a Value> {
    input.get(name).filter(|value| !value.is_null())
}

fn refuse_unknown(input: &Map) -> Result<(), ErrorInfo> {
    let Some(name) = input.keys().find(|name| !KNOWN_KEYS.contains(&&***name)) else { return Ok(()) };
    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    let hint =
        did_you_mean(name, KNOWN_KEYS).unwrap_or_else(|| format!("supported keys: {}", format_names(KNOWN_KEYS)));
    Err(bad("Input", format!("a model call has no `{shown}`"), hint))
}

fn model(input: &Map, default_model: Option<&str>) -> Result<Value, ErrorInfo> {
    match non_null(input, "model") {
        Some(Value::Str(name)) => Ok(Value::Str(name.clone())),
        Some(other) => Err(bad("Name", format!("`model` is {}, not a string", other.kind()), "give the model's name")),
        None => default_model.map(Value::from).ok_or_else(|| {
            let hint = "give `model`, or add `model` under `[model]` in windlass.toml";
            bad("Name", "no model is named, and the settings have no default", hint)
        }),
    }
}

fn messages(input: &Map) -> Result<Value, ErrorInfo> {
    let mut messages: Vec<Value> =
        non_null(input, "systemPrompt").map(|text| message("system", text)).into_iter().collect();
    if let Some(list) = non_null(input, "messages") {
        messages.extend(parse_messages(list)?);
    }
    messages.extend(non_null(input, "prompt").map(|text| message("user", text)));
    if non_null(input, "prompt").is_none() && non_null(input, "messages").is_none() {
        return Err(bad("Prompt", "there is neither a `prompt` nor `messages`", "give the question as `prompt`"));
    }
    Ok(Value::list(messages))
}

/// Builds a message. Content that is not text is sent as JSON.
fn message(role: &str, content: &Value) -> Value {
    let content = content.as_str().map_or_else(|| to_json(content), str::to_owned);
    Value::object([("role", role.to_owned()), ("content", content)])
}

fn parse_messages(list: &Value) -> Result<Vec<Value>, ErrorInfo> {
    let problem = |message: String| {
        bad(
            "Messages",
            message,
            "it is an array: [{\"role\": \"user\", \"content\": \"text\"}]; role and content are required",
        )
    };
    let list = list.as_list().ok_or_else(|| problem(format!("`messages` is {}, not an array", list.kind())))?;
    if list.is_empty() {
        return Err(problem("`messages` is empty".to_owned()));
    }
    for (index, item) in list.iter().enumerate() {
        let has_role = item.get("role").and_then(Value::as_str).is_some();
        if !has_role {
            return Err(problem(format!("`messages[{index}]` has no `role`")));
        }
    }
    Ok(list.to_vec())
}

fn number(name: &str, value: &Value) -> Result<Value, ErrorInfo> {
    let fits = match name {
        "maxTokens" => value.as_int().is_some_and(|max| max > 0),
        _ => value.as_f64().is_some_and(|number| number >= 0.0),
    };
    let expected = if name == "maxTokens" { "a whole number above 0" } else { "a number, 0 or more" };
    match fits {
        true => Ok(value.clone()),
        false => Err(bad("Setting", format!("`{name}` is not a usable {}", value.kind()), format!("it is {expected}"))),
    }
}

/// Parses a keyword, or passes on an object of the service's protocol.
fn response_format(format: &Value) -> Result<Value, ErrorInfo> {
    match format {
        Value::Map(_) => Ok(format.clone()),
        Value::Str(word) => match word.to_ascii_lowercase().as_str() {
            "json" | "json_object" => Ok(Value::object([("type", "json_object")])),
            "text" => Ok(Value::object([("type", "text")])),
            _ => Err(bad_format(&format!("`{}`", word.chars().take(40).collect::<String>()))),
        },
        other => Err(bad_format(other.kind())),
    }
}

fn bad_format(found: &str) -> ErrorInfo {
    bad("Setting", format!("`responseFormat` is {found}"), "it is `json`, `text`, or an object that the service knows")
}
