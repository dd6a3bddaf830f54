//! Conversion of a response to an outcome. The body is read in chunks and counted after decoding, so neither a long
//! reply nor a small one that decompresses to a huge one uses more memory than the limit allows.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::{Response, StatusCode};
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_value::{Map, Timestamp, Value, to_json};

use super::HttpOptions;
use super::content::{InvalidJson, parse_body};
use super::failure;
use super::pages::with_page;
use super::poll::AcceptedRequest;
use super::request::HttpRequest;

/// Larger bodies are parsed off the async threads, so that other calls need not wait.
const PARSE_INLINE_BYTES: usize = 256 << 10;
const EXCERPT_CHARS: usize = 80;

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
        Ok(bytes) => match parse(content_type, bytes).await {
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

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
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

async fn parse(content_type: Option<String>, bytes: Vec<u8>) -> Result<Value, InvalidJson> {
    if bytes.len() <= PARSE_INLINE_BYTES {
        return parse_body(content_type.as_deref(), bytes);
    }
    let parsing = tokio::task::spawn_blocking(move || parse_body(content_type.as_deref(), bytes));
    // The task is dropped only when the runtime shuts down.
    parsing.await.unwrap_or(Ok(Value::Null))
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

pub(super) async fn read_body(
    request: &HttpRequest,
    headers: &HeaderMap,
    mut body: Incoming,
    max: usize,
) -> Result<Vec<u8>, ErrorInfo> {
    let mut sink = BodySink::new(header_text(headers, header::CONTENT_ENCODING).as_deref(), max);
    if matches!(sink, BodySink::Plain(_)) && body.size_hint().lower() > max as u64 {
        return Err(failure::too_large(request, max));
    }
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::FileTooLarge => failure::too_large(request, max),
        _ => failure::bad_encoding(request, &error.to_string()),
    };
    let (mut is_empty, mut wire_bytes) = (true, 0usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure::connection(&request.method, &request.uri, &error))?;
        if let Some(bytes) = frame.data_ref().filter(|bytes| !bytes.is_empty()) {
            is_empty = false;
            // An endless stream of compressed bytes may decompress to nothing, so the received bytes are limited too.
            wire_bytes = wire_bytes.saturating_add(bytes.len());
            if wire_bytes > max {
                return Err(failure::too_large(request, max));
            }
            sink.write(bytes).map_err(refused)?;
        }
    }
    // Without a body (HEAD, 304) there is nothing to decompress.
    if is_empty { Ok(Vec::new()) } else { sink.finish().map_err(refused) }
}

/// The decoder of a body.
enum BodySink {
    Plain(BoundedBuffer),
    Gzip(Box<MultiGzDecoder<BoundedBuffer>>),
    Zlib(Box<ZlibDecoder<BoundedBuffer>>),
    Unknown(String),
}

impl BodySink {
    fn new(encoding: Option<&str>, max: usize) -> BodySink {
        let room = BoundedBuffer { bytes: Vec::new(), max };
        match encoding.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | "identity" => BodySink::Plain(room),
            "gzip" | "x-gzip" => BodySink::Gzip(Box::new(MultiGzDecoder::new(room))),
            "deflate" => BodySink::Zlib(Box::new(ZlibDecoder::new(room))),
            other => BodySink::Unknown(other.chars().take(40).collect()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            BodySink::Plain(room) => room.write_all(bytes),
            BodySink::Gzip(decoder) => decoder.write_all(bytes),
            BodySink::Zlib(decoder) => decoder.write_all(bytes),
            BodySink::Unknown(name) => Err(io::Error::other(format!("its encoding is `{name}`"))),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            BodySink::Plain(room) => Ok(room.bytes),
            BodySink::Gzip(decoder) => Ok(decoder.finish()?.bytes),
            BodySink::Zlib(decoder) => Ok(decoder.finish()?.bytes),
            BodySink::Unknown(_) => Ok(Vec::new()),
        }
    }
}

/// A buffer that rejects bytes beyond its limit.
struct BoundedBuffer {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
