//! Conversion of a response to an outcome.

use std::time::{SystemTime, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Response, StatusCode};
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ReplyPermit;
use windlass_value::{Map, Timestamp, Value, to_json};

use super::HttpOptions;
use super::content::{InvalidJson, parse_body};
use super::failure;
use super::pages::with_page;
use super::poll::AcceptedRequest;
use super::read::{ReadBody, read_body};
use super::request::HttpRequest;

/// Larger bodies are parsed off the async threads, so that other calls need not wait.
const PARSE_INLINE_BYTES: usize = 256 << 10;
const EXCERPT_CHARS: usize = 80;

/// Bytes of one parsed value besides its text: the value itself and its share of a list or an object.
const VALUE_BYTES: usize = 48;

/// Maximum length of the displayed body of an unsuccessful reply, and of the part that is examined for it.
const MAX_SHOWN_BODY_CHARS: usize = 200;
const MAX_EXAMINED_BODY: usize = 16 << 10;

/// The result of a request.
pub(crate) struct HttpToolReply {
    /// Its output is `{statusCode, headers, body}` if there was a reply.
    pub(crate) outcome: TaskOutcome,
    /// Set if the server accepted the request and named the address of its result.
    pub(crate) pending: Option<AcceptedRequest>,
}

pub(super) async fn read_reply(
    request: &HttpRequest,
    response: Response<Incoming>,
    options: &HttpOptions,
) -> HttpToolReply {
    let pending = AcceptedRequest::from_response(request, &response, options);
    let outcome = outcome(request, response, options.max_reply_bytes).await;
    let outcome = match &request.page_address {
        Some(requested) if pending.is_none() => with_page(request, requested, outcome),
        _ => outcome,
    };
    // A reply that broke off is not a reply, so it names no address to poll.
    let broken = outcome.error.as_ref().is_some_and(|error| !error.replied);
    HttpToolReply { pending: pending.filter(|_| !broken), outcome }
}

impl HttpToolReply {
    pub(super) fn from_error(error: ErrorInfo) -> HttpToolReply {
        HttpToolReply { outcome: TaskOutcome::failure(error), pending: None }
    }
}

async fn outcome(request: &HttpRequest, response: Response<Incoming>, max_bytes: usize) -> TaskOutcome {
    let (head, body) = response.into_parts();
    let content_type = header_text(&head.headers, header::CONTENT_TYPE);
    let (body, problem) = match read_body(request, &head.headers, body, max_bytes).await {
        Ok(ReadBody { bytes, permit }) => match parse(request, content_type, bytes, permit).await {
            Ok(body) => (body, None),
            Err(bad) => {
                let excerpt = excerpt(request, &bad.start);
                // A failing server often sends an HTML page instead of JSON; then the status says more.
                let error = head.status.is_success().then(|| failure::bad_json(request, &bad.problem, &excerpt));
                (bad.body, error)
            }
        },
        Err(error) if !error.replied => return TaskOutcome::failure(error),
        Err(error) => (Value::Null, Some(error)),
    };
    reply_outcome(request, head.status, &head.headers, body, problem)
}

/// Returns the outcome of a complete reply: with this problem, or with an error for a status that is no success.
pub(super) fn reply_outcome(
    request: &HttpRequest,
    status: StatusCode,
    headers: &HeaderMap,
    body: Value,
    problem: Option<ErrorInfo>,
) -> TaskOutcome {
    let status_error = || failure::status(request, status, &body_excerpt(request, &body));
    let error = problem.or_else(|| (!status.is_success()).then(status_error));
    TaskOutcome { error, ..success_outcome(status, headers, body) }
}

/// Returns the outcome of a reply to something that is no request, for which the error has this name.
pub(super) fn status_outcome(shown: &str, status: StatusCode, headers: &HeaderMap, body: Value) -> TaskOutcome {
    let reason = status.canonical_reason().unwrap_or_default();
    let message = format!("{shown} answered {} {reason}", status.as_str());
    let error = (!status.is_success()).then(|| ErrorInfo::new(status.as_str(), "http", message).replied());
    TaskOutcome { error, ..success_outcome(status, headers, body) }
}

fn success_outcome(status: StatusCode, headers: &HeaderMap, body: Value) -> TaskOutcome {
    let mut output = Map::with_capacity(3);
    output.insert("statusCode", i64::from(status.as_u16()));
    output.insert("headers", headers_value(headers));
    output.insert("body", body);
    TaskOutcome { meta: meta(headers), ..TaskOutcome::success(Value::map(output)) }
}

pub(super) fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn headers_value(headers: &HeaderMap) -> Value {
    let mut map = Map::with_capacity(headers.keys_len());
    for name in headers.keys() {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        map.insert(name.as_str(), values.join(", "));
    }
    Value::map(map)
}

/// Parses a body. The memory of the value is reserved before; that of the body is returned afterwards.
async fn parse(
    request: &HttpRequest,
    content_type: Option<String>,
    bytes: Vec<u8>,
    permit: Option<ReplyPermit>,
) -> Result<Value, InvalidJson> {
    request.memory.reserve_value(parsed_bytes(&bytes)).await;
    if bytes.len() <= PARSE_INLINE_BYTES {
        return parse_body(content_type.as_deref(), bytes);
    }
    let parsing = tokio::task::spawn_blocking(move || {
        let _body = permit;
        parse_body(content_type.as_deref(), bytes)
    });
    // The task is dropped only when the runtime shuts down.
    parsing.await.unwrap_or(Ok(Value::Null))
}

/// Estimates the memory of the value in a body from above: its bytes, and a value for each separator of JSON.
fn parsed_bytes(bytes: &[u8]) -> usize {
    let values = bytes.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    bytes.len().saturating_add(values.saturating_mul(VALUE_BYTES))
}

fn excerpt(request: &HttpRequest, start: &str) -> String {
    one_line(request, start).take(EXCERPT_CHARS).collect()
}

fn one_line(request: &HttpRequest, text: &str) -> impl Iterator<Item = char> {
    let clean: Vec<char> =
        request.redaction.redact_text(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.into_iter()
}

/// Returns the beginning of an error body, which mostly states the reason. Bytes and very long bodies yield nothing.
fn body_excerpt(request: &HttpRequest, body: &Value) -> String {
    let whole = match body {
        Value::Str(text) => text.trim().to_owned(),
        Value::List(_) | Value::Map(_)
            if body.get("$content").is_none() && body.size_up_to(MAX_EXAMINED_BODY) <= MAX_EXAMINED_BODY =>
        {
            to_json(body)
        }
        _ => return String::new(),
    };
    // Secrets are redacted before the cut: half of a secret is still a secret.
    let read: String = whole.chars().take(MAX_EXAMINED_BODY).collect();
    let mut shown: String = one_line(request, &read).take(MAX_SHOWN_BODY_CHARS + 1).collect();
    if let Some((at, _)) = shown.char_indices().nth(MAX_SHOWN_BODY_CHARS) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

/// Returns the delay requested by the server, for the retry policy.
fn meta(headers: &HeaderMap) -> Value {
    retry_after(headers).map_or(Value::Null, |ms| Value::object([("retry_after_ms", ms)]))
}

/// Returns the delay of the `Retry-After` header in milliseconds.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<i64> {
    headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(retry_after_ms)
}

/// Parses seconds or a date.
pub(super) fn retry_after_ms(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.trim().parse::<u32>() {
        return Some(i64::from(seconds) * 1000);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let ms = http_date(text)?.as_ms() - i64::try_from(now.as_millis()).ok()?;
    Some(ms.max(0))
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`; the two formats that became obsolete in 1997 are not supported.
fn http_date(text: &str) -> Option<Timestamp> {
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.trim().strip_suffix(" GMT")?.split_once(", ")?.1.split(' ');
    let (day, month, year, clock) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = months.iter().position(|name| *name == month)? + 1;
    Timestamp::parse_rfc3339(&format!("{year}-{month:02}-{day}T{clock}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_retry_after() {
        assert_eq!(retry_after_ms("120"), Some(120_000));
        assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert!(retry_after_ms("Sat, 01 Jan 2400 00:00:00 GMT").unwrap() > 1_000_000_000);
        assert_eq!(retry_after_ms("-1"), None);
        assert_eq!(retry_after_ms("soon"), None);
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Timestamp::parse_rfc3339("1994-11-06T08:49:37Z"));
    }
}
