//! Converts errors of model services to error codes and messages that retries can match.

use hyper::StatusCode;
use windlass_core::ErrorInfo;
use windlass_value::{Duration, Value, parse_json, to_json};

use super::service::ModelEndpoint;

const KIND: &str = "model";
/// The maximum length of a service's own message.
const MAX_MESSAGE_CHARS: usize = 1_000;
const MAX_EXCERPT_CHARS: usize = 120;
/// How much of a body is read for the excerpt.
const MAX_READ_CHARS: usize = 16 << 10;
/// The code in the replies of a mock file that has no matching rule.
const SCRIPT_UNMATCHED: &str = "MockUnmatched";

/// Describes the service by its name and its URL without the query.
fn describe_service(chosen: &ModelEndpoint) -> String {
    let address = chosen.url.split('?').next().unwrap_or_default();
    // A login is not shown.
    let shown = match address.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host)),
        None => address.to_owned(),
    };
    format!("the model service `{}` ({shown})", chosen.provider)
}

/// An error body of a service: both protocols have `error: {message, type, code}`, others less.
struct ServiceError {
    message: String,
    code: String,
    kind: String,
}

impl ServiceError {
    fn parse(chosen: &ModelEndpoint, body: &Value) -> Option<ServiceError> {
        let error = body.get("error").filter(|error| !error.is_null());
        let text = |value: Option<&Value>| match value {
            Some(Value::Str(text)) => text.to_string(),
            Some(Value::Int(number)) => number.to_string(),
            _ => String::new(),
        };
        let part = |name: &str| text(error.and_then(|error| error.get(name)).or_else(|| body.get(name)));
        let message = match (error, body.get("message"), body.get("detail")) {
            (Some(Value::Str(text)), _, _) => text.to_string(),
            (Some(error), _, _) => match error.get("message") {
                Some(Value::Str(text)) => text.to_string(),
                _ => to_json(error),
            },
            (None, Some(Value::Str(text)), _) => text.to_string(),
            (None, Some(other), _) | (None, None, Some(other)) => to_json(other),
            (None, None, None) => return None,
        };
        let message = one_line(chosen, &message, MAX_MESSAGE_CHARS);
        Some(ServiceError { message, code: part("code"), kind: part("type") })
    }
}

/// A reply with a status other than success.
pub(super) struct RefusedRequest {
    pub(super) error: ErrorInfo,
    /// The service rejects the maximum tokens of the answer.
    pub(super) rejects_max_tokens: bool,
}

/// Reads a reply with a status other than success.
pub(super) fn refused(chosen: &ModelEndpoint, status: StatusCode, body: &[u8]) -> RefusedRequest {
    let text = String::from_utf8_lossy(body);
    let body = parse_json(text.trim()).unwrap_or_default();
    // Google sends its errors in a list.
    let body = body.as_list().and_then(<[Value]>::first).cloned().unwrap_or(body);
    let service_error = ServiceError::parse(chosen, &body);
    let detail = service_error
        .as_ref()
        .map_or_else(|| one_line(chosen, &text, MAX_EXCERPT_CHARS), |error| error.message.clone());
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let message = format!("{} answered {}{reason}{detail}", describe_service(chosen), status.as_str());
    let service_error =
        service_error.unwrap_or(ServiceError { message: String::new(), code: String::new(), kind: String::new() });
    let rejects_max_tokens = rejects_max_tokens(status.as_u16(), &service_error);
    RefusedRequest { error: classify(chosen, status.as_u16(), "http", message, &service_error), rejects_max_tokens }
}

/// The error for a failure reported in a successful reply or in the middle of a stream.
pub(super) fn reported(chosen: &ModelEndpoint, body: &Value) -> Option<ErrorInfo> {
    body.get("error").filter(|error| !error.is_null())?;
    let service_error = ServiceError::parse(chosen, body)?;
    let message = format!("{} answered with an error: {}", describe_service(chosen), service_error.message);
    let status = service_error.code.parse().ok().filter(|code| (400..600).contains(code)).unwrap_or(
        match service_error.kind.as_str() {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" | "rate_limit_exceeded" => 429,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            // A service that fails in the middle can usually be called again.
            _ => 500,
        },
    );
    Some(classify(chosen, status, "http", message, &service_error))
}

fn classify(
    chosen: &ModelEndpoint,
    status: u16,
    kind: &str,
    message: String,
    service_error: &ServiceError,
) -> ErrorInfo {
    let own = |code: &str| ErrorInfo::new(code.to_owned(), KIND, message.clone()).replied();
    if service_error.code == SCRIPT_UNMATCHED {
        return own(SCRIPT_UNMATCHED)
            .hint("add a rule for it to the mock file: step, role and turn are those of its `when`");
    }
    if is_too_long(status, service_error) {
        return own("ContextTooLong").hint("give the step less to read, or a model with a longer context");
    }
    if is_refusal(status, service_error) {
        return own("Refused").hint("the service refuses this request: change the prompt");
    }
    let error = ErrorInfo::new(status.to_string(), kind, message).replied();
    match hint(chosen, status, service_error) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn is_too_long(status: u16, service_error: &ServiceError) -> bool {
    let message = service_error.message.to_ascii_lowercase();
    let phrases = [
        "prompt is too long",
        "input is too long",
        "maximum context length",
        "context length exceeded",
        "exceeds the context",
        "exceed context limit",
        "context window",
        "maximum number of tokens allowed",
        "reduce the length of the messages",
        "too large for model with",
    ];
    let has_code = service_error.code == "context_length_exceeded" || service_error.kind == "context_length_exceeded";
    has_code
        || (matches!(status, 400 | 413 | 422)
            && (status == 413 || phrases.iter().any(|phrase| message.contains(phrase))))
}

fn is_refusal(status: u16, service_error: &ServiceError) -> bool {
    let codes = ["content_policy_violation", "content_filter", "ResponsibleAIPolicyViolation", "moderation_blocked"];
    matches!(status, 400 | 403 | 422)
        && codes.iter().any(|code| service_error.code == *code || service_error.kind == *code)
}

fn hint(chosen: &ModelEndpoint, status: u16, service_error: &ServiceError) -> Option<String> {
    let provider = &chosen.provider;
    match status {
        401 | 403 if chosen.key_variable.is_empty() => {
            Some(format!("the service requires a key: name its variable as `key_env` under `[models.{provider}]`"))
        }
        401 | 403 => Some(format!("the service does not accept the key: check {}", chosen.key_variable)),
        404 => Some(format!(
            "does the service have the model `{}`, and is its address right? `base_url` under `[models.{provider}]` changes it",
            chosen.model
        )),
        402 => Some("the account has no credit left".to_owned()),
        429 if service_error.code == "insufficient_quota" || service_error.kind == "insufficient_quota" => {
            Some("the account has no credit left".to_owned())
        }
        429 => Some("too many requests; the call is retried when the service allows".to_owned()),
        _ if rejects_max_tokens(status, service_error) => Some(format!(
            "the budget leaves more than the model may answer: set `reply` in the budget, or `max_tokens` under \
             `[models.{provider}]` in windlass.toml, to the model's maximum"
        )),
        400 | 422 if service_error.message.contains("stream_options") => {
            Some(format!("`stream_usage = false` under `[models.{provider}]` in windlass.toml leaves it out"))
        }
        _ => None,
    }
}

fn rejects_max_tokens(status: u16, service_error: &ServiceError) -> bool {
    let names = ["max_tokens", "max_completion_tokens"];
    matches!(status, 400 | 422) && names.iter().any(|name| service_error.message.contains(name))
}

/// The error for a reply that is no answer.
pub(super) fn bad_reply(chosen: &ModelEndpoint, problem: &str) -> ErrorInfo {
    ErrorInfo::new("BadModelReply", KIND, format!("{} {problem}", describe_service(chosen))).replied()
}

/// The error for a reply that does not even follow the protocol.
pub(super) fn not_json(chosen: &ModelEndpoint, body: &[u8]) -> ErrorInfo {
    let start = String::from_utf8_lossy(&body[..body.len().min(MAX_READ_CHARS)]);
    let problem =
        format!("did not answer with a JSON object; the reply begins: {}", one_line(chosen, &start, MAX_EXCERPT_CHARS));
    let hint = format!("is this the address of a service with the `{}` protocol?", chosen.protocol.name());
    bad_reply(chosen, &problem).hint(hint)
}

/// The error for a complete reply without content.
pub(super) fn empty_reply(chosen: &ModelEndpoint) -> ErrorInfo {
    bad_reply(chosen, "sent a reply without an answer: no text, no call, no reason to stop")
}

/// The error for a service that gave up in the middle of its answer; it can usually be called again.
pub(super) fn interrupted(chosen: &ModelEndpoint, reason: &str) -> ErrorInfo {
    let reason = one_line(chosen, reason, MAX_EXCERPT_CHARS);
    let message =
        format!("{} gave up in the middle of its answer (finish reason `{reason}`)", describe_service(chosen));
    ErrorInfo::new("500", "http", message).replied()
}

/// The error for a requested retry delay that is longer than a step should wait.
pub(super) fn retry_after_too_long(refused: ErrorInfo, wait: Duration, max: Duration) -> ErrorInfo {
    let (wait, max) = (wait.to_std(), max.to_std());
    let message =
        format!("{}; it requests a retry after {wait:?}, longer than the maximum of {max:?}", refused.message);
    ErrorInfo::new("RetryAfterTooLong", KIND, message)
        .replied()
        .hint("retry after that time, use another model, or raise `limits.max_retry_after` in windlass.toml")
}

/// The error for a stream that ended before the answer did.
pub(super) fn truncated(chosen: &ModelEndpoint) -> ErrorInfo {
    let message = format!("{} closed the connection in the middle of its answer", describe_service(chosen));
    ErrorInfo::new("connection", "connection", message)
}

/// Puts a text on one line. Cuts only after redaction: half of a secret is still a secret.
fn one_line(chosen: &ModelEndpoint, text: &str, max_chars: usize) -> String {
    let read: String = text.trim().chars().take(MAX_READ_CHARS).collect();
    let clean = chosen.redaction.redact_text(&read);
    clean.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max_chars).collect()
}
