//! Conversion of the service's reply to an outcome.

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_value::{Map, Value, parse_json};

const KIND: &str = "model";
/// Maximum number of characters displayed from an unexpected reply.
const MAX_EXCERPT_CHARS: usize = 120;
/// Maximum length of a service's error message.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// Converts the outcome of the request, from which secrets are already redacted. Text joined here from parts may
/// contain a secret again.
pub(super) fn model_outcome(http: TaskOutcome, accept: &[String]) -> TaskOutcome {
    let TaskOutcome { output, error, meta, .. } = http;
    let body = output.get("body").cloned().unwrap_or_default();
    // A service may declare its JSON as text.
    let body = body.as_str().and_then(|text| parse_json(text).ok()).unwrap_or(body);
    let status = output.get("statusCode").and_then(Value::as_int);
    let usage = ReplyUsage::from_body(&body);
    let failed = |error: ErrorInfo| {
        let meta = with_usage(meta.clone(), &usage);
        TaskOutcome { meta, ..TaskOutcome::failure(error) }
    };
    match (error, status) {
        // No reply, or a partial one: the client has already reported the cause.
        (Some(error), None) => TaskOutcome::failure(error),
        (Some(error), Some(_)) if &*error.kind == "limit" => failed(error),
        (Some(error), Some(200..=299)) => failed(with_model_kind(error)),
        (Some(error), Some(status)) => failed(service_error(error, status, &body)),
        (None, _) => match parse_reply(&body, &usage) {
            Ok((output, stop)) => {
                let error = stop.error(&output).filter(|_| !accept.iter().any(|accepted| accepted == stop.name()));
                TaskOutcome { error, meta: with_usage(Value::Null, &usage), ..TaskOutcome::success(output) }
            }
            Err(error) => failed(error),
        },
    }
}

/// Marks the error of an unreadable reply as a model error.
fn with_model_kind(error: ErrorInfo) -> ErrorInfo {
    ErrorInfo { kind: KIND.into(), ..error }
}

/// Returns the error of an unsuccessful status.
fn service_error(error: ErrorInfo, status: i64, body: &Value) -> ErrorInfo {
    let own = service_message(body).or_else(|| body.as_str().map(excerpt));
    let message = match own {
        // The service's message replaces the raw body.
        Some(own) => format!("{}: {own}", without_body(&error.message)),
        None => error.message.to_string(),
    };
    let refused = ErrorInfo::new(error.code, KIND, message).replied();
    match hint_for(status) {
        Some(hint) => refused.hint(hint),
        None => refused,
    }
}

/// Returns the message up to the status: `POST … answered 429 Too Many Requests`.
fn without_body(message: &str) -> &str {
    let answered = message.find(" answered ").unwrap_or(0);
    message[answered..].find(": ").map_or(message, |body| &message[..answered + body])
}

fn hint_for(status: i64) -> Option<&'static str> {
    match status {
        401 | 403 => Some(
            "the service does not accept the key: check OPENAI_API_KEY, or `key_env` under `[model]` in windlass.toml",
        ),
        404 => Some("is `base_url` right (it often ends in `/v1`), and does the service have this model?"),
        429 => {
            Some("too many requests, or the account has no credit left; a `retry` waits as long as the service asks")
        }
        _ => None,
    }
}

fn service_message(body: &Value) -> Option<String> {
    let error = body.get("error")?;
    let text = error.get("message").and_then(Value::as_str).or_else(|| error.as_str())?;
    Some(text.chars().take(MAX_MESSAGE_CHARS).collect())
}

/// How the reply ended. All but the first are no answer: they fail the call unless it accepts them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelStop {
    Complete,
    Length,
    Refusal,
    Filtered,
    Empty,
}

impl ModelStop {
    fn from_choice(choice: &Value, content: &str) -> ModelStop {
        let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
        let refusal = choice.get("message").and_then(|message| message.get("refusal")).and_then(Value::as_str);
        match reason.split(':').next().unwrap_or_default() {
            "length" | "max_tokens" | "model_length" => ModelStop::Length,
            "content_filter" => ModelStop::Filtered,
            _ if refusal.is_some_and(|refusal| !refusal.is_empty()) => ModelStop::Refusal,
            _ if content.trim().is_empty() => ModelStop::Empty,
            _ => ModelStop::Complete,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ModelStop::Complete => "end",
            ModelStop::Length => "length",
            ModelStop::Refusal => "refusal",
            ModelStop::Filtered => "filtered",
            ModelStop::Empty => "empty",
        }
    }

    fn error(self, output: &Value) -> Option<ErrorInfo> {
        let content = output.get("content").and_then(Value::as_str).unwrap_or_default();
        let (code, message, fix) = match self {
            ModelStop::Complete => return None,
            ModelStop::Length => {
                ("AnswerCutOff", "the model's answer was cut off at its maximum length".to_owned(), "raise `maxTokens`")
            }
            ModelStop::Refusal => {
                let message = format!("the model refuses to answer: {}", excerpt(content));
                ("AnswerRefused", message, "change the prompt")
            }
            ModelStop::Filtered => {
                let message = "the model service withholds the answer: its content filter stopped it".to_owned();
                ("AnswerFiltered", message, "change the prompt")
            }
            ModelStop::Empty => ("AnswerEmpty", "the model's answer is empty".to_owned(), "say what to answer"),
        };
        let hint = format!("{fix}, or take what there is: `accept: [\"{}\"]`", self.name());
        Some(ErrorInfo::new(code, KIND, message).replied().hint(hint))
    }
}

fn parse_reply(body: &Value, usage: &Option<ReplyUsage>) -> Result<(Value, ModelStop), ErrorInfo> {
    // Some services report their errors with the status of a success.
    if let Some(message) = service_message(body) {
        let code = body.get("error").and_then(|error| error.get("code")).and_then(Value::as_int);
        let code = code.map_or_else(|| "ModelError".to_owned(), |code| code.to_string());
        return Err(ErrorInfo::new(code, KIND, format!("the model service answered: {message}")).replied());
    }
    if body.as_map().is_none() {
        let message =
            format!("the model service did not answer with a JSON object; the reply begins: {}", display_body(body));
        return Err(bad_reply(message).hint("is `base_url` the address of an OpenAI-compatible service?"));
    }
    let choice = body.get("choices").and_then(Value::as_list).and_then(<[Value]>::first);
    let choice = choice.ok_or_else(|| bad_reply("the reply of the model service has no `choices`".to_owned()))?;
    let content = content(choice)?;
    let stop = ModelStop::from_choice(choice, &content);
    let parsed = parse_json(content.trim()).ok();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let mut output = Map::with_capacity(5);
    output.insert("body", parsed.unwrap_or_else(|| Value::from(content.as_str())));
    output.insert("content", content);
    output.insert("model", text(body.get("model")));
    output.insert("finishReason", text(choice.get("finish_reason")));
    output.insert("usage", usage.as_ref().map(ReplyUsage::to_value));
    Ok((Value::map(output), stop))
}

/// Returns the text of a choice, which may consist of several parts. A refusal has its own field.
fn content(choice: &Value) -> Result<String, ErrorInfo> {
    let message = choice.get("message").filter(|message| message.as_map().is_some());
    let message = message.ok_or_else(|| bad_reply("the reply of the model service has no message".to_owned()))?;
    Ok(match message.get("content") {
        Some(Value::Str(text)) if !text.is_empty() => text.to_string(),
        Some(Value::List(parts)) => parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect(),
        _ => message.get("refusal").and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}

fn bad_reply(message: String) -> ErrorInfo {
    ErrorInfo::new("BadModelReply", KIND, message).replied()
}

fn display_body(body: &Value) -> String {
    body.as_str().map_or_else(|| excerpt(&format!("{body:?}")), excerpt)
}

fn excerpt(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_EXCERPT_CHARS).collect()
}

/// The token usage of a reply.
struct ReplyUsage {
    prompt: Option<i64>,
    completion: Option<i64>,
    total: Option<i64>,
}

impl ReplyUsage {
    fn from_body(body: &Value) -> Option<ReplyUsage> {
        let usage = body.get("usage").filter(|usage| usage.as_map().is_some())?;
        let count = |name: &str| usage.get(name).and_then(Value::as_int).filter(|count| *count >= 0);
        let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
        let sum = match (prompt, completion) {
            (None, None) => None,
            (prompt, completion) => Some(prompt.unwrap_or(0).saturating_add(completion.unwrap_or(0))),
        };
        Some(ReplyUsage { prompt, completion, total: count("total_tokens").or(sum) })
    }

    fn to_value(&self) -> Value {
        Value::object([
            ("promptTokens", self.prompt),
            ("completionTokens", self.completion),
            ("totalTokens", self.total),
        ])
    }
}

/// Adds the usage to `meta`, where budgets read it. An unusable reply is charged, too.
fn with_usage(meta: Value, usage: &Option<ReplyUsage>) -> Value {
    let Some(total) = usage.as_ref().and_then(|usage| usage.total) else { return meta };
    let mut map = meta.as_map().cloned().unwrap_or_default();
    map.insert("usage", Value::object([("tokens", total)]));
    Value::map(map)
}
