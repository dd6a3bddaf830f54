//! Outcomes of calls that a mock answers in place of a server.

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_value::Value;

use super::HttpTool;
use super::call::{playbook_outcome, to_http_input};
use super::pages::with_page;
use super::reply::{reply_outcome, status_outcome};
use super::request::HttpRequest;
use crate::endpoint::endpoint_outcome;
use crate::input::ToolInput;

/// A response that stands for that of a server.
pub struct MockedResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The decoded body. `$echo` stands for the input of the call.
    pub body: Value,
}

impl HttpTool {
    /// Returns the outcome of a call as if its server had sent this response: of `http`, of `http_call`, and of every
    /// other tool as if it were a service that returns its result as the body.
    pub fn mocked_outcome(&self, mut call: ToolCall, response: MockedResponse) -> TaskOutcome {
        let body = match response.body.as_str() {
            Some("$echo") => call.input.clone(),
            _ => response.body,
        };
        let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::OK);
        let headers = header_map(&response.headers, &body);
        let is_playbook = &*call.tool == "http_call";
        if &*call.tool != "http" && !is_playbook {
            let shown = format!("the mocked call of `{}`", call.tool);
            return endpoint_outcome(status_outcome(&shown, status, &headers, body));
        }
        if is_playbook {
            let input = ToolInput::parse("http_call", &call.input).and_then(|input| to_http_input(&input));
            match input {
                Ok(input) => call.input = Value::map(input),
                Err(error) => return playbook_outcome(TaskOutcome::failure(error)),
            }
        }
        match HttpRequest::from_call(&call, &self.0.defaults) {
            Err(error) => TaskOutcome::failure(error),
            Ok(request) => {
                let outcome = reply_outcome(&request, status, &headers, body, None);
                let outcome = match &request.page_address {
                    Some(requested) => with_page(&request, requested, outcome),
                    None => outcome,
                };
                if is_playbook { playbook_outcome(outcome) } else { outcome }
            }
        }
    }

    /// Returns the outcome of a call whose connection breaks before the response is complete.
    pub fn mocked_break(call: &ToolCall) -> TaskOutcome {
        let message = format!("the mocked connection of `{}` broke before the response was complete", call.tool);
        TaskOutcome::failure(ErrorInfo::new("ConnectionClosed", "connection", message))
    }
}

fn header_map(given: &[(String, String)], body: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    let content_type = match body {
        Value::Null => None,
        Value::Str(_) => Some("text/plain; charset=utf-8"),
        body => Some(body.get("$content-type").and_then(Value::as_str).unwrap_or("application/json")),
    };
    if let Some(value) = content_type.and_then(|text| HeaderValue::from_str(text).ok()) {
        headers.entry(header::CONTENT_TYPE).or_insert(value);
    }
    headers
}
