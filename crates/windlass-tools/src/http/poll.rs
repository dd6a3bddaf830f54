//! Requests that a server has accepted and not yet answered: 202, and where the result will be.

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

/// A poll should not hammer a server that asks for it.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// Where the result of an accepted request will be, and when to look for it.
pub(crate) struct AcceptedRequest {
    /// A whole address, as the server gave it: not yet known to be usable.
    location: String,
    after: Duration,
    /// Who said so.
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
            // Where it was asked for it is still to be found.
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

    /// To be written down until it is asked, and so without secrets. One that holds a secret cannot be asked later.
    pub(crate) fn location(&self) -> Result<&str, ErrorInfo> {
        match self.redaction.is_contained_in(&self.location) {
            true => Err(failure::secret_location(&self.answered_by)),
            false => Ok(&self.location),
        }
    }

    /// The outcome of a call that is to be made again. What else there is to a 202 does not matter, nor whether its body
    /// can be read.
    pub(crate) fn outcome(&self, input: Result<Value, ErrorInfo>) -> TaskOutcome {
        input.map_or_else(TaskOutcome::failure, |input| TaskOutcome::call_again(input, self.after))
    }

    /// Whether the result is where the request first went, so that what was meant for that server may go along.
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

    /// The http input that asks for the result: a GET with the headers and the login of the request, as far as they are
    /// for that server.
    pub(super) fn input(&self, input: &Value) -> Result<Value, ErrorInfo> {
        let Some(input) = input.as_map() else { return Ok(Value::Null) };
        let same = self.is_same_origin(address(input))?;
        build_follow_up(input, &self.location, same)
    }
}

fn address(input: &Map) -> &str {
    non_null(input, "uri").or_else(|| non_null(input, "url")).and_then(Value::as_str).unwrap_or_default()
}

/// The http input that asks at a place which the answer to another request has named, as [`Pending::input`] does; for those
/// who ask in their own time. The place may be relative to where the request went.
pub fn follow_up_input(input: &Value, location: &str) -> Result<Value, ErrorInfo> {
    let Some(input) = input.as_map() else { return Ok(Value::Null) };
    let first = uri::parse(address(input), None)?;
    let location = join(&first.uri, location);
    let target = uri::parse(&location, None)?;
    build_follow_up(input, &location, origin(&target.uri) == origin(&first.uri))
}

/// How long whoever answers with this `Retry-After` wants to be left alone.
pub fn parse_retry_after(retry_after: &str) -> Option<Duration> {
    retry_after_ms(retry_after).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_ms)
}

fn build_follow_up(input: &Map, location: &str, same: bool) -> Result<Value, ErrorInfo> {
    let first = address(input);
    let mut next = Map::new();
    next.insert("method", "GET");
    next.insert("uri", location);
    if let Some(headers) = non_null(input, "headers").and_then(Value::as_map) {
        let kept = headers.iter().filter(|(name, _)| is_forwarded(name, same));
        next.insert("headers", kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Map>());
    }
    let rest = ["timeout", "redirect"].iter().chain(["cookie", "authentication"].iter().filter(|_| same));
    for name in rest {
        if let Some(value) = non_null(input, name) {
            next.insert(*name, value.clone());
        }
    }
    if same && !next.contains_key("authentication") {
        add_login(first, &mut next)?;
    }
    Ok(Value::map(next))
}

/// Headers of the body stay behind. So does a key of the definition's own: a server that knows it would give its first
/// answer again.
fn is_forwarded(name: &str, same_server: bool) -> bool {
    let Ok(name) = HeaderName::from_bytes(name.trim().as_bytes()) else { return false };
    let of_body = name.as_str().starts_with("content-");
    !of_body && name != IDEMPOTENCY_KEY && (same_server || (name != header::HOST && !is_secret_header_name(&name)))
}

/// A login that stood in the address.
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

/// Whether the definition wants an accepted request to be followed up.
pub(super) fn is_follow_up_enabled(input: &Map) -> Result<bool, ErrorInfo> {
    match non_null(input, "async") {
        None => Ok(true),
        Some(Value::Bool(enabled)) => Ok(*enabled),
        Some(other) => {
            let message = format!("`async` is {}, not a boolean", other.kind());
            Err(bad_request("Async", message, "false takes a 202 as the answer; true or nothing asks for the result"))
        }
    }
}
