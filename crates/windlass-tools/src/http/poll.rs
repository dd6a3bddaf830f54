//! Requests that a server has accepted but not yet answered: 202 with the address of the result.

use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::{Response, StatusCode, Uri};
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_value::{Duration, Map, Value};

use super::HttpOptions;
use super::failure::{self, bad_request};
use super::redirect::{join, origin};
use super::reply::{retry_after, retry_after_ms};
use super::request::{HttpRequest, IDEMPOTENCY_KEY, is_secret_header_name, non_null};
use super::uri;
use crate::secret::Redactor;

/// Minimum delay between polls, so that a server that asks for less is not flooded.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The address of the result of an accepted request, and when to poll it.
pub(crate) struct AcceptedRequest {
    /// An absolute address as the server gave it; not yet checked.
    location: String,
    after: Duration,
    /// The address that answered 202.
    answered_by: Uri,
    redaction: Redactor,
}

impl AcceptedRequest {
    pub(super) fn from_response(
        request: &HttpRequest,
        response: &Response<Incoming>,
        options: &HttpOptions,
    ) -> Option<AcceptedRequest> {
        if !request.follows_up || response.status() != StatusCode::ACCEPTED {
            return None;
        }
        let location = match response.headers().get(header::LOCATION) {
            Some(location) => join(&request.uri, &String::from_utf8_lossy(location.as_bytes())),
            // A poll without a new `Location` continues at its own address.
            None if request.is_poll => request.uri.to_string(),
            None => return None,
        };
        let wait = retry_after(response.headers()).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_ms);
        let after = wait.unwrap_or(options.poll_wait).min(options.max_poll_wait).max(MIN_WAIT);
        Some(AcceptedRequest {
            location,
            after,
            answered_by: request.uri.clone(),
            redaction: request.redaction.clone(),
        })
    }

    /// Returns the address, which is persisted until the poll. An address that contains a secret is an error: it must
    /// not be persisted, and so cannot be polled later.
    pub(crate) fn location(&self) -> Result<&str, ErrorInfo> {
        match self.redaction.is_contained_in(&self.location) {
            true => Err(failure::secret_location(&self.answered_by)),
            false => Ok(&self.location),
        }
    }

    /// Returns the outcome of a call that must be repeated. Nothing else of a 202 matters, not even whether its body
    /// can be read.
    pub(crate) fn outcome(&self, input: Result<Value, ErrorInfo>) -> TaskOutcome {
        input.map_or_else(TaskOutcome::failure, |input| TaskOutcome::call_again(input, self.after))
    }

    /// Returns true if the result has the origin of the first request, so that its credentials may be sent along.
    pub(crate) fn is_same_origin(&self, first: &str) -> Result<bool, ErrorInfo> {
        let target = uri::parse(&self.location, None);
        let target = target.map_err(|_| {
            failure::bad_location(
                &self.answered_by,
                &uri::describe_problem(&self.redaction.redact_text(&self.location)),
            )
        })?;
        let first = uri::parse(first, None)?;
        Ok(origin(&target.uri) == origin(&first.uri))
    }

    /// Returns the `http` input that polls for the result: a GET with those headers and the login of the request that
    /// are meant for that server.
    pub(super) fn input(&self, input: &Value) -> Result<Value, ErrorInfo> {
        let Some(input) = input.as_map() else { return Ok(Value::Null) };
        let same = self.is_same_origin(address(input))?;
        build_follow_up(input, &self.location, same).map(Value::map)
    }
}

fn address(input: &Map) -> &str {
    non_null(input, "uri").or_else(|| non_null(input, "url")).and_then(Value::as_str).unwrap_or_default()
}

/// Builds the `http` input that polls an address named by the reply to another request, as `AcceptedRequest::input`
/// does, for callers that poll on their own schedule. The address may be relative to that of the request.
pub fn follow_up_input(input: &Value, location: &str) -> Result<Value, ErrorInfo> {
    let Some(input) = input.as_map() else { return Ok(Value::Null) };
    let first = uri::parse(address(input), None)?;
    let location = join(&first.uri, location);
    let target = uri::parse(&location, None)?;
    build_follow_up(input, &location, origin(&target.uri) == origin(&first.uri)).map(Value::map)
}

/// Parses the delay requested by a `Retry-After` header.
pub fn parse_retry_after(retry_after: &str) -> Option<Duration> {
    retry_after_ms(retry_after).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_ms)
}

/// Builds the `http` input of a GET at an address that a server named: with those headers and the login of the first
/// request that are meant for that server.
pub(super) fn build_follow_up(input: &Map, location: &str, same: bool) -> Result<Map, ErrorInfo> {
    let first = address(input);
    let mut next = Map::new();
    next.insert("method", "GET");
    next.insert("uri", location);
    if let Some(headers) = non_null(input, "headers").and_then(Value::as_map) {
        let kept = headers.iter().filter(|(name, _)| is_forwarded(name, same));
        next.insert("headers", kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Map>());
    }
    let rest = ["timeout", "redirect", "pages"].iter().chain(["cookie", "authentication"].iter().filter(|_| same));
    for name in rest {
        if let Some(value) = non_null(input, name) {
            next.insert(*name, value.clone());
        }
    }
    if same && !next.contains_key("authentication") {
        add_login(first, &mut next)?;
    }
    Ok(next)
}

/// Returns true if the header is sent with the poll. Headers that describe the body are dropped. So is an idempotency
/// key of the definition: a server that knows it would repeat its first answer.
fn is_forwarded(name: &str, same_server: bool) -> bool {
    let Ok(name) = HeaderName::from_bytes(name.trim().as_bytes()) else { return false };
    let of_body = name.as_str().starts_with("content-");
    !of_body && name != IDEMPOTENCY_KEY && (same_server || (name != header::HOST && !is_secret_header_name(&name)))
}

/// Adds the login of the original address.
fn add_login(first: &str, next: &mut Map) -> Result<(), ErrorInfo> {
    let has_own = next.get("headers").and_then(Value::as_map).is_some_and(|headers| {
        headers.keys().any(|name| name.trim().eq_ignore_ascii_case(header::AUTHORIZATION.as_str()))
    });
    if let Some((user, password)) = uri::parse(first, None)?.login.filter(|_| !has_own) {
        let login = [("type", "Basic".to_owned()), ("username", user), ("password", password)];
        next.insert("authentication", Value::object(login));
    }
    Ok(())
}

/// Returns true if the definition lets an accepted request be followed up.
pub(super) fn is_follow_up_enabled(input: &Map) -> Result<bool, ErrorInfo> {
    match non_null(input, "async") {
        None => Ok(true),
        Some(Value::Bool(enabled)) => Ok(*enabled),
        Some(other) => {
            let message = format!("`async` is {}, not a boolean", other.kind());
            Err(bad_request(
                "Async",
                message,
                "false accepts a 202 as the reply; true, or no value, polls for the result",
            ))
        }
    }
}
