//! Error messages of all failures of a call. They contain only the non-secret parts of the request.

use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode, Uri};
use windlass_core::ErrorInfo;
use windlass_value::Value;

use super::request::HttpRequest;
use super::uri::display_uri;
use crate::destinations::NotSent;
use crate::outbound::OutboundRefusal;

/// Returns the error of a request that cannot be sent; `what` completes the code `BadRequest…`.
pub(super) fn bad_request(what: &str, message: impl Display, hint: impl Into<Arc<str>>) -> ErrorInfo {
    ErrorInfo::new(format!("BadRequest{what}"), "input", message.to_string()).hint(hint)
}

pub(super) fn cancelled(method: &Method, uri: &Uri) -> ErrorInfo {
    ErrorInfo::new("Cancelled", "cancelled", format!("{method} {} was cancelled", display_uri(uri)))
}

pub(super) fn timeout(method: &Method, uri: &Uri, limit: Duration, by_default: bool) -> ErrorInfo {
    let message = format!("{method} {} gave no complete reply within {limit:?}", display_uri(uri));
    let error = ErrorInfo::new("timeout", "timeout", message);
    match by_default {
        true => error.hint("give a `timeout`, or raise `limits.default_http_time` in windlass.toml"),
        false => error,
    }
}

/// Returns the error of an unsuccessful status; `body` is the part of the body that may be displayed.
pub(super) fn status(request: &HttpRequest, status: StatusCode, body: &str) -> ErrorInfo {
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let body = if body.is_empty() { String::new() } else { format!(": {body}") };
    let message =
        format!("{} {} answered {}{reason}{body}", request.method, display_uri(&request.uri), status.as_str());
    ErrorInfo::new(status.as_str(), "http", message).replied()
}

pub(super) fn bad_json(request: &HttpRequest, problem: &str, excerpt: &str) -> ErrorInfo {
    let address = display_uri(&request.uri);
    let message =
        format!("{} {address} answered with a JSON content type, but {problem}; it begins: {excerpt}", request.method);
    ErrorInfo::new("BadJson", "http", message)
        .hint("the server should send JSON, or another content-type: then the body is returned as text")
        .replied()
}

pub(super) fn too_large(request: &HttpRequest, max: usize) -> ErrorInfo {
    let message = format!("{} {} sent a body of more than {max} bytes", request.method, display_uri(&request.uri));
    ErrorInfo::new("ReplyTooLarge", "limit", message)
        .hint("ask for less at a time (a page, a filter), or raise `limits.max_tool_reply_bytes` in windlass.toml")
        .replied()
}

pub(super) fn bad_encoding(request: &HttpRequest, problem: &str) -> ErrorInfo {
    let message =
        format!("{} {} sent a body that cannot be decoded: {problem}", request.method, display_uri(&request.uri));
    ErrorInfo::new("BadEncoding", "http", message).hint("supported are gzip, deflate and identity").replied()
}

pub(super) fn too_many_redirects(request: &HttpRequest, max: usize) -> ErrorInfo {
    let message = format!("{} {} redirects again after {max} redirects", request.method, display_uri(&request.uri));
    ErrorInfo::new("TooManyRedirects", "http", message)
        .hint(
            "`redirect: manual` returns the redirect itself as the reply; `limits.max_http_redirects` in windlass.toml",
        )
        .replied()
}

pub(super) fn foreign_redirect(request: &HttpRequest, target: &Uri) -> ErrorInfo {
    let message = format!(
        "{} {} redirects to another server, {}; the request is not sent there",
        request.method,
        display_uri(&request.uri),
        display_uri(target)
    );
    ErrorInfo::new("ForeignRedirect", "http", message)
        .hint("if it has moved, give its new address as `base_url` in windlass.toml")
        .replied()
}

pub(super) fn bad_redirect(request: &HttpRequest, problem: &str) -> ErrorInfo {
    let message =
        format!("{} {} redirects to an unusable address: {problem}", request.method, display_uri(&request.uri));
    ErrorInfo::new("BadRedirect", "http", message).replied()
}

pub(super) fn bad_location(by: &Uri, problem: &str) -> ErrorInfo {
    let message = format!("{} answered 202 with an unusable Location: {problem}", display_uri(by));
    ErrorInfo::new("BadLocation", "http", message)
        .hint("`operationOptions: DisableAsyncPattern` accepts the 202 itself as the reply")
        .replied()
}

pub(super) fn secret_location(by: &Uri) -> ErrorInfo {
    let message = format!("{} answered 202 with a Location that contains a configured secret", display_uri(by));
    ErrorInfo::new("BadLocation", "http", message)
        .hint(
            "the address is journaled until the next poll, and secrets are never journaled: have the service return \
             another Location",
        )
        .replied()
}

pub(super) fn not_a_page(request: &HttpRequest, body: &Value) -> ErrorInfo {
    let found = match body {
        Value::Null => "has no body".to_owned(),
        Value::Map(map) if map.contains_key("$content") => "has a body that is not JSON".to_owned(),
        Value::Map(_) => "has a body without an array `value`".to_owned(),
        other => format!("has a body that is {}", other.kind()),
    };
    let message = format!("the reply of {} {} is not a page: it {found}", request.method, display_uri(&request.uri));
    ErrorInfo::new("InvalidPageResponse", "http", message)
        .hint(
            "a page is a JSON array, or an object with an array `value`; remove `paginationPolicy` for other replies, \
             or get them in a loop",
        )
        .replied()
}

pub(super) fn bad_link(request: &HttpRequest, problem: &str) -> ErrorInfo {
    let message = format!("the page of {} {} is invalid: {problem}", request.method, display_uri(&request.uri));
    ErrorInfo::new("InvalidPageResponse", "http", message)
        .hint("a next link is an http or https address, absolute or relative to the page")
        .replied()
}

/// Returns the error of a call without a usable reply: refused, unknown host, broken connection, bad certificate.
pub(super) fn connection(method: &Method, uri: &Uri, error: &(dyn Error + 'static)) -> ErrorInfo {
    let chain = chain(error);
    if let Some(refused) = OutboundRefusal::find_in(&chain) {
        return refused.error(&format!("{method} {}", display_uri(uri)));
    }
    let reason = chain.last().map(ToString::to_string).unwrap_or_default();
    let info = ErrorInfo::new("connection", "connection", format!("{method} {}: {reason}", display_uri(uri)));
    match hint_for(&reason) {
        Some(hint) => info.hint(hint),
        None => info,
    }
}

/// Returns the error of a call that was not sent, which is that of a connection which could not be made.
pub(super) fn not_sent(method: &Method, uri: &Uri, reason: NotSent) -> ErrorInfo {
    ErrorInfo::new("connection", "connection", format!("{method} {}: {reason}", display_uri(uri))).hint(reason.hint())
}

fn hint_for(reason: &str) -> Option<&'static str> {
    let reason = reason.to_ascii_lowercase();
    let hints = [
        ("refused", "is the service running, and is the port right?"),
        ("lookup", "is the host name spelled right, and is there a network?"),
        ("deadline", "is the host reachable? `limits.max_connect_time` in windlass.toml sets the time limit"),
        ("certificate", "the certificate must be for this host, in date and signed by a root this machine trusts"),
    ];
    hints.into_iter().find(|(word, _)| reason.contains(word)).map(|(_, hint)| hint)
}

/// Returns the error and its causes. `io::Error` does not expose the error it wraps by `source`, so it is unwrapped
/// separately.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut links = vec![error];
    let mut last = error;
    while let Some(cause) = cause_of(last) {
        links.push(cause);
        last = cause;
    }
    links
}

fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>() {
        Some(wrapper) => wrapper.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}
