//! Conversion of a call's input to a request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use windlass_core::ErrorInfo;
use windlass_runtime::{ReplyMemory, ToolCall};
use windlass_value::{Duration, Map, Value, to_json};

use super::body;
use super::client::ConnectionMode;
use super::content::binary_text;
use super::failure::bad_request;
use super::pages;
use super::poll;
use super::uri::{self, ParsedUrl};
use crate::secret::{Redactor, Secret};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const RUN: HeaderName = HeaderName::from_static("x-windlass-run");
const PATH: HeaderName = HeaderName::from_static("x-windlass-path");
const ATTEMPT: HeaderName = HeaderName::from_static("x-windlass-attempt");

/// Defaults of a client for requests.
pub(super) struct RequestDefaults {
    pub(super) user_agent: HeaderValue,
    /// Also the maximum that a request may specify.
    pub(super) max_redirects: usize,
}

pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) timeout: Option<Duration>,
    /// `None` treats a redirect as an ordinary reply.
    pub(super) max_redirects: Option<usize>,
    /// Rejects a redirect to another origin, because the request is meant for this one only.
    pub(super) same_origin_only: bool,
    /// Follows up an accepted request at the address its server names.
    pub(super) follows_up: bool,
    /// True if the request polls for the result of an accepted request.
    pub(super) is_poll: bool,
    /// The attempt of the task, counted from 1. A poll is no retry.
    pub(super) attempt: u32,
    pub(super) mode: ConnectionMode,
    /// Headers from the settings, which are meant for one server whatever their names.
    pub(super) configured_headers: Vec<HeaderName>,
    /// The address as requested, if the call asks for the fact about its page.
    pub(super) page_address: Option<String>,
    /// Redacts every secret of this request that a server repeats.
    pub(super) redaction: Redactor,
    /// The memory of the reply.
    pub(super) memory: ReplyMemory,
}

/// A request whose address comes from the settings, not from a definition.
pub struct ConfiguredRequest<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: &'a [(String, Secret)],
    /// Redacts every configured secret, whether this request contains it or not.
    pub redaction: &'a Redactor,
    /// Sent as JSON.
    pub body: Option<&'a Value>,
    pub timeout: Option<Duration>,
    /// Rejects redirects to another origin.
    pub same_origin_only: bool,
}

impl HttpRequest {
    pub(super) fn from_call(call: &ToolCall, defaults: &RequestDefaults) -> Result<HttpRequest, ErrorInfo> {
        let Some(input) = call.input.as_map() else {
            let message = format!("the input is {}, not an object", call.input.kind());
            return Err(bad_request("Input", message, "an http call takes an object with at least `uri`"));
        };
        let linked = pages::linked_input(input)?;
        let input = linked.as_ref().unwrap_or(input);
        let ParsedUrl { uri, login } = parse_target(input)?;
        let mut headers = headers(input)?;
        let body = non_null(input, "body")
            .map(|value| body::encode_body(value, &mut headers))
            .transpose()?
            .unwrap_or_default();
        add_cookie(input, &mut headers)?;
        add_authentication(input, login, &mut headers)?;
        headers.entry(header::USER_AGENT).or_insert_with(|| defaults.user_agent.clone());
        add_identity(call, &mut headers);
        let redaction = header_redaction(&headers);
        Ok(HttpRequest {
            method: method(input)?,
            page_address: pages::reports_page(input)?.then(|| uri.to_string()),
            uri,
            headers,
            body,
            timeout: timeout(input)?.into_iter().chain(call.timeout).min(),
            max_redirects: parse_max_redirects(input, defaults.max_redirects)?,
            same_origin_only: false,
            follows_up: poll::is_follow_up_enabled(input)?,
            is_poll: call.is_continuation,
            attempt: if call.is_continuation { 1 } else { call.attempt },
            mode: ConnectionMode::default(),
            configured_headers: Vec::new(),
            redaction,
            memory: call.memory.clone(),
        })
    }

    pub(super) fn from_configured(
        call: &ToolCall,
        from: &ConfiguredRequest<'_>,
        defaults: &RequestDefaults,
    ) -> Result<HttpRequest, ErrorInfo> {
        let ParsedUrl { uri, login } = uri::parse(from.url, None)?;
        let mut headers = HeaderMap::new();
        for (name, value) in from.headers {
            headers.append(header_name(name)?, header_value(name, &value.reveal().into())?);
        }
        let configured = headers.keys().cloned().collect();
        add_authentication(&Map::new(), login, &mut headers)?;
        let body = from.body.map(|value| Bytes::from(to_json(value))).unwrap_or_default();
        if from.body.is_some() {
            headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        headers.entry(header::USER_AGENT).or_insert_with(|| defaults.user_agent.clone());
        add_identity(call, &mut headers);
        Ok(HttpRequest {
            method: from.method.clone(),
            uri,
            headers,
            body,
            timeout: from.timeout.into_iter().chain(call.timeout).min(),
            max_redirects: Some(defaults.max_redirects),
            same_origin_only: from.same_origin_only,
            follows_up: true,
            is_poll: call.is_continuation,
            attempt: if call.is_continuation { 1 } else { call.attempt },
            mode: ConnectionMode::default(),
            configured_headers: configured,
            page_address: None,
            redaction: from.redaction.clone(),
            memory: call.memory.clone(),
        })
    }

    /// Converts a request that a program built.
    pub(super) fn from_hyper(
        request: hyper::Request<Bytes>,
        defaults: &RequestDefaults,
    ) -> Result<HttpRequest, ErrorInfo> {
        let (head, body) = request.into_parts();
        let ParsedUrl { uri, login } = uri::parse(&head.uri.to_string(), None)?;
        let mut headers = head.headers;
        add_authentication(&Map::new(), login, &mut headers)?;
        headers.entry(header::USER_AGENT).or_insert_with(|| defaults.user_agent.clone());
        let redaction = header_redaction(&headers);
        Ok(HttpRequest {
            method: head.method,
            uri,
            headers,
            body,
            timeout: None,
            max_redirects: None,
            same_origin_only: false,
            follows_up: false,
            is_poll: false,
            attempt: 1,
            mode: ConnectionMode::default(),
            configured_headers: Vec::new(),
            page_address: None,
            redaction,
            memory: ReplyMemory::default(),
        })
    }

    /// Builds the message for the wire. The request keeps its parts because a redirect may need them again.
    pub(super) fn to_hyper(&self) -> hyper::Request<Full<Bytes>> {
        let mut message = hyper::Request::new(Full::new(self.body.clone()));
        *message.method_mut() = self.method.clone();
        *message.uri_mut() = self.uri.clone();
        *message.headers_mut() = self.headers.clone();
        message
    }

    /// Returns true if the header must not be sent to another server.
    pub(super) fn is_secret_header(&self, name: &HeaderName) -> bool {
        is_secret_header_name(name) || self.configured_headers.contains(name)
    }
}

/// Returns true for headers whose values are, or may be, secrets.
pub(super) fn is_secret_header_name(name: &HeaderName) -> bool {
    let words = ["auth", "cookie", "key", "secret", "token", "passw", "signature", "session", "credential"];
    *name != IDEMPOTENCY_KEY && words.iter().any(|word| name.as_str().contains(word))
}

/// Returns true if a header or variable of this name is or may be a secret.
pub fn is_secret_name(name: &str) -> bool {
    HeaderName::from_bytes(name.trim().to_ascii_lowercase().as_bytes()).is_ok_and(|name| is_secret_header_name(&name))
}

fn header_redaction(headers: &HeaderMap) -> Redactor {
    let secret = headers.iter().filter(|(name, _)| is_secret_header_name(name));
    let values: Vec<_> = secret.map(|(_, value)| String::from_utf8_lossy(value.as_bytes())).collect();
    Redactor::from_header_values(values.iter().map(AsRef::as_ref))
}

/// Returns the text of a scalar; `None` for objects, arrays and values that are not loaded.
pub(super) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.to_string()),
        Value::Null => Some(String::new()),
        Value::Map(_) => binary_text(value),
        Value::List(_) | Value::Stored(_) => None,
        number_or_bool => Some(to_json(number_or_bool)),
    }
}

/// Converts any text to a header value. Text that is not plain ASCII is percent-encoded, deterministically.
pub fn escaped_header(text: &str) -> HeaderValue {
    let is_plain = |byte: u8| matches!(byte, 0x20..=0x7e);
    let value = if text.bytes().all(is_plain) { text.to_owned() } else { uri::escape(text, is_plain) };
    HeaderValue::try_from(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

pub(super) fn non_null<'a>(input: &'a Map, name: &str) -> Option<&'a Value> {
    input.get(name).filter(|value| !value.is_null())
}

fn object<'a>(input: &'a Map, name: &str, code: &str) -> Result<Option<&'a Map>, ErrorInfo> {
    let Some(value) = non_null(input, name) else { return Ok(None) };
    let problem =
        || bad_request(code, format!("`{name}` is {}", value.kind()), "an object of names and values is expected");
    value.as_map().map(Some).ok_or_else(problem)
}

fn method(input: &Map) -> Result<Method, ErrorInfo> {
    let Some(value) = non_null(input, "method") else { return Ok(Method::GET) };
    let name = value.as_str().unwrap_or_default().trim().to_ascii_uppercase();
    let method = Method::from_bytes(name.as_bytes()).ok().filter(|method| method != Method::CONNECT);
    method.ok_or_else(|| {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
        bad_request(
            "Method",
            format!("`{shown}` is not an HTTP method"),
            "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS are usual",
        )
    })
}

pub(super) fn parse_target(input: &Map) -> Result<ParsedUrl, ErrorInfo> {
    let hint = "give the whole address as `uri`, for example `https://host/path`";
    let Some(value) = non_null(input, "uri").or_else(|| non_null(input, "url")) else {
        return Err(bad_request("Uri", "there is no `uri`", hint));
    };
    let problem = || bad_request("Uri", format!("`uri` is {}, not a string", value.kind()), hint);
    uri::parse(value.as_str().ok_or_else(problem)?, object(input, "queries", "Query")?)
}

fn headers(input: &Map) -> Result<HeaderMap, ErrorInfo> {
    let mut headers = HeaderMap::new();
    for (name, value) in object(input, "headers", "Header")?.into_iter().flat_map(Map::iter) {
        if value.is_null() {
            continue;
        }
        let key = header_name(name)?;
        // The client sets the length and the connection headers; copied definitions often contain them.
        if key != header::CONTENT_LENGTH && key != header::CONNECTION && key.as_str() != "keep-alive" {
            headers.append(key, header_value(name, value)?);
        }
    }
    Ok(headers)
}

pub(super) fn header_name(name: &str) -> Result<HeaderName, ErrorInfo> {
    let refused = [header::TRANSFER_ENCODING, header::UPGRADE, header::TE, header::TRAILER, header::EXPECT];
    let key = HeaderName::from_bytes(name.trim().as_bytes()).ok().filter(|key| !refused.contains(key));
    key.ok_or_else(|| {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
        bad_request(
            "Header",
            format!("a request cannot have the header `{shown}`"),
            "names are letters, digits and hyphens; the transfer of the body cannot be chosen",
        )
    })
}

pub(super) fn header_value(name: &str, value: &Value) -> Result<HeaderValue, ErrorInfo> {
    let text = scalar_text(value).unwrap_or_else(|| to_json(value));
    let mut value = HeaderValue::from_bytes(text.trim().as_bytes()).map_err(|_| {
        let message = format!("the value of the header `{name}` cannot be sent");
        bad_request("Header", message, "header values are one line, without control characters")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn add_cookie(input: &Map, headers: &mut HeaderMap) -> Result<(), ErrorInfo> {
    if let Some(cookie) = non_null(input, "cookie") {
        headers.insert(header::COOKIE, header_value("cookie", cookie)?);
    }
    Ok(())
}

/// Adds the authorization. `authentication` overrides a login in the address; an `authorization` header of the
/// definition overrides that login, too.
fn add_authentication(input: &Map, login: Option<(String, String)>, headers: &mut HeaderMap) -> Result<(), ErrorInfo> {
    let from_input = object(input, "authentication", "Authentication")?.map(authentication).transpose()?.flatten();
    let value = match (from_input, login) {
        (Some(value), _) => value,
        (None, Some((user, password))) if !headers.contains_key(header::AUTHORIZATION) => basic(&user, &password),
        _ => return Ok(()),
    };
    headers.insert(header::AUTHORIZATION, header_value("authorization", &value.into())?);
    Ok(())
}

fn authentication(map: &Map) -> Result<Option<String>, ErrorInfo> {
    let field = |name: &str| {
        let text = map.get(name).and_then(scalar_text);
        text.ok_or_else(|| bad_auth(format!("`authentication` has no usable `{name}`")))
    };
    let kind = field("type")?;
    match kind.to_ascii_lowercase().as_str() {
        "none" => Ok(None),
        "basic" => Ok(Some(basic(&field("username")?, &field("password")?))),
        "raw" => Ok(Some(field("value")?)),
        "clientcertificate" | "activedirectoryoauth" | "managedserviceidentity" => {
            Err(bad_auth(format!("authentication of type `{kind}` is not supported")))
        }
        _ => {
            Err(bad_auth(format!("there is no authentication of type `{}`", kind.chars().take(40).collect::<String>())))
        }
    }
}

fn bad_auth(message: String) -> ErrorInfo {
    bad_request("Authentication", message, "supported types: Basic (username, password), Raw (value) and None")
}

pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}")))
}

/// Adds headers that identify the caller and the effect. A receiver that remembers the keys executes the effect once.
fn add_identity(call: &ToolCall, headers: &mut HeaderMap) {
    headers.entry(IDEMPOTENCY_KEY).or_insert_with(|| escaped_header(&call.key));
    headers.insert(RUN, escaped_header(&call.run));
    headers.insert(PATH, escaped_header(&call.path));
    headers.insert(ATTEMPT, HeaderValue::from(call.attempt));
}

fn timeout(input: &Map) -> Result<Option<Duration>, ErrorInfo> {
    let Some(value) = non_null(input, "timeout") else { return Ok(None) };
    let seconds = |seconds: f64| Duration((seconds * 1e6) as u64);
    let timeout = match value {
        Value::Str(text) => Duration::parse_iso(text).or_else(|| text.trim().parse().ok().map(seconds)),
        value => value.as_f64().map(seconds),
    };
    let problem = || bad_request("Timeout", "`timeout` is not a duration", "give seconds, or `PT30S`; more than zero");
    timeout.filter(|timeout| *timeout > Duration::ZERO).map(Some).ok_or_else(problem)
}

fn parse_max_redirects(input: &Map, limit: usize) -> Result<Option<usize>, ErrorInfo> {
    let problem = || {
        let hint = format!(
            "`follow`, `manual`, or the maximum number (up to {limit}: `limits.max_http_redirects` in windlass.toml)"
        );
        bad_request("Redirect", "`redirect` is not valid", hint)
    };
    match non_null(input, "redirect") {
        None | Some(Value::Bool(true)) => Ok(Some(limit)),
        Some(Value::Bool(false)) => Ok(None),
        Some(Value::Str(word)) if word.eq_ignore_ascii_case("follow") => Ok(Some(limit)),
        Some(Value::Str(word)) if word.eq_ignore_ascii_case("manual") => Ok(None),
        Some(Value::Int(max)) => usize::try_from(*max).ok().filter(|max| *max <= limit).map(Some).ok_or_else(problem),
        Some(_) => Err(problem()),
    }
}
