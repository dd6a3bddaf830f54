//! Activities served over HTTP at an address in the settings.

use std::sync::Arc;

use hyper::Method;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::{Duration, Value};

use crate::http::{ConfiguredRequest, HttpTool};
use crate::secret::{Redactor, Secret};

/// The address of an activity. The caller has already substituted values from the environment.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub url: String,
    pub method: String,
    /// Sent only to the endpoint's own origin. Values that are not plain are never displayed.
    pub headers: Vec<(String, Secret)>,
    /// Timeout of one request; the client's default if `None`.
    pub timeout: Option<Duration>,
}

impl Endpoint {
    /// Creates an endpoint that receives inputs by POST.
    pub fn new(url: impl Into<String>) -> Endpoint {
        Endpoint { url: url.into(), method: "POST".to_owned(), headers: Vec::new(), timeout: None }
    }
}

/// Sends its input as JSON to an endpoint and returns the body of the reply. Its requests use the connections and the
/// outbound rules of an [`HttpTool`].
#[derive(Clone)]
pub struct EndpointTool(Arc<Inner>);

struct Inner {
    http: HttpTool,
    endpoint: Endpoint,
    method: Result<Method, ErrorInfo>,
    redaction: Redactor,
}

impl EndpointTool {
    pub fn new(endpoint: Endpoint, http: HttpTool) -> EndpointTool {
        let redaction = Redactor::from_headers(&endpoint.headers).with_login(&endpoint.url);
        let method = parse_method(&endpoint.method);
        EndpointTool(Arc::new(Inner { http, endpoint, method, redaction }))
    }
}

fn parse_method(name: &str) -> Result<Method, ErrorInfo> {
    let usable = Method::from_bytes(name.trim().to_ascii_uppercase().as_bytes()).ok();
    usable.filter(|method| *method != Method::CONNECT).ok_or_else(|| {
        let message = "the endpoint's `method` in the settings is not an HTTP method";
        ErrorInfo::new("BadEndpoint", "input", message).hint("POST, PUT, PATCH, GET or DELETE")
    })
}

impl Tool for EndpointTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let inner = self.0.clone();
        Box::pin(
            async move { inner.redaction.redact_outcome(inner.run(&call).await.unwrap_or_else(TaskOutcome::failure)) },
        )
    }
}

impl Inner {
    async fn run(&self, call: &ToolCall) -> Result<TaskOutcome, ErrorInfo> {
        let endpoint = &self.endpoint;
        let request = match call.is_continuation {
            true => self.poll(&call.input)?,
            false => ConfiguredRequest {
                method: self.method.clone()?,
                url: &endpoint.url,
                headers: &endpoint.headers,
                redaction: &self.redaction,
                body: Some(&call.input),
                timeout: endpoint.timeout,
                same_origin_only: false,
            },
        };
        let reply = self.http.send(call, &request).await;
        match reply.pending {
            Some(pending) => {
                let own = pending.is_same_origin(&endpoint.url)?;
                let input = Value::object([("at", Value::from(pending.location()?)), ("own", own.into())]);
                Ok(pending.outcome(Ok(input)))
            }
            None => Ok(endpoint_outcome(reply.outcome)),
        }
    }

    /// Builds the request for the result of an accepted request. The endpoint's headers are read from the settings
    /// again; only the address of the result is persisted in between.
    fn poll<'a>(&'a self, input: &'a Value) -> Result<ConfiguredRequest<'a>, ErrorInfo> {
        let url = input.get("at").and_then(Value::as_str).ok_or_else(|| {
            ErrorInfo::new("BadEndpoint", "tool", "the follow-up address is missing; this is a bug in the engine")
        })?;
        let own = input.get("own").and_then(Value::as_bool) == Some(true);
        let headers = if own { self.endpoint.headers.as_slice() } else { &[] };
        let (redaction, timeout) = (&self.redaction, self.endpoint.timeout);
        Ok(ConfiguredRequest {
            method: Method::GET,
            url,
            headers,
            redaction,
            body: None,
            timeout,
            same_origin_only: false,
        })
    }
}

/// Returns only the body for a success; a failure has the whole reply, as for an `http` call.
pub(crate) fn endpoint_outcome(http: TaskOutcome) -> TaskOutcome {
    let TaskOutcome { output, error, meta, .. } = http;
    let body = output.get("body").cloned().unwrap_or_default();
    let output = if error.is_none() { body } else { output };
    TaskOutcome { error, meta, ..TaskOutcome::success(output) }
}
