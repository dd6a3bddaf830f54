//! The tool `http`: one request including its redirects, one outcome.
//!
//! Every reply of the server becomes data, and every failure becomes an error with a code that retries can match.
//! Error texts contain no query strings, user names or values of request headers.

mod body;
mod call;
mod client;
mod connect;
mod content;
mod failure;
mod mocked;
pub(crate) mod pages;
mod poll;
mod read;
mod redirect;
mod reply;
mod request;
mod stream;
pub(crate) mod uri;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::body::Incoming;
use windlass_core::{ErrorInfo, ProcessLimits};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::Duration;

pub use call::HttpCallTool;
pub(crate) use call::REGISTRATION as CALL_REGISTRATION;

use crate::destinations::{CallHealth, Destinations};
use crate::info::{ToolInfo, field, required};
use crate::outbound::Outbound;
use crate::registry::ToolRegistration;
use crate::tls::AcceptedCertificates;
use client::HttpClient;
pub use mocked::MockedResponse;
pub use poll::{follow_up_input, parse_retry_after};
pub(crate) use reply::HttpToolReply;
pub use request::ConfiguredRequest;
pub use request::escaped_header;
pub use request::is_secret_name;
use request::{HttpRequest, RequestDefaults};
pub use stream::StreamedReply;

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "http",
    description: "Sends one HTTP request, follows redirects and polls accepted (202) requests, and returns the reply.",
    inputs: &[
        required("uri", "text", "the address; `url` is the same"),
        field("method", "text", "GET if not given"),
        field("queries", "object", "added to the address"),
        field("headers", "object", "names and values"),
        field("cookie", "text", "the header of that name"),
        field("body", "any", "text as it is, anything else as JSON; $content, $formdata, $multipart"),
        field("authentication", "object", "{type: Basic, username, password} or {type: Raw, value}"),
        field("timeout", "number | text", "seconds or PT30S"),
        field("redirect", "text | number", "follow, manual, or the maximum number"),
        field("async", "boolean", "false: a 202 is an ordinary reply"),
        field("pages", "boolean", "true: the reply is a page of a list; `facts.page` has its size and the next link"),
        field("link", "text", "the next link of a page: it is called instead, with what is meant for its server"),
    ],
    outputs: &[
        field("statusCode", "number", "200"),
        field("headers", "object", "names in lower case"),
        field("body", "any", "JSON as data, text as text, bytes as {$content-type, $content}"),
    ],
    errors: &[
        ("http", "the code is a status that is not a success; the reply is kept"),
        ("connection", "no reply"),
        ("timeout", "no complete reply in time"),
        ("input", "the request cannot be sent"),
    ],
};

pub(crate) const REGISTRATION: ToolRegistration =
    ToolRegistration { info: &INFO, build: |setup| Arc::new(setup.http.clone()) };

/// Limits and rules of the HTTP calls of one engine.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Maximum number of decoded body bytes read from a reply.
    pub max_reply_bytes: usize,
    /// The allowed addresses: `windlass run` trusts its file, a server does not.
    pub outbound: Outbound,
    /// The health of the servers that are called, shared by tools with the same options.
    pub destinations: Destinations,
    /// The certificates of servers that are accepted, unless the call disables their verification.
    pub certificates: AcceptedCertificates,
    pub user_agent: String,
    /// Timeout of calls that specify none.
    pub default_timeout: Duration,
    /// Timeout for establishing a connection, unless the call specifies one.
    pub connect_timeout: Duration,
    /// Maximum number of redirects that one request follows.
    pub max_redirects: usize,
    /// Delay before an accepted request is polled for its result, if its server does not specify one.
    pub poll_wait: Duration,
    /// Maximum poll delay that a server may request.
    pub max_poll_wait: Duration,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions::from_limits(&ProcessLimits::default())
    }
}

impl HttpOptions {
    /// Public addresses only, with these limits.
    pub fn from_limits(limits: &ProcessLimits) -> HttpOptions {
        HttpOptions {
            max_reply_bytes: limits.max_tool_reply_bytes,
            outbound: Outbound::default(),
            destinations: Destinations::from_limits(limits),
            certificates: AcceptedCertificates::default(),
            user_agent: concat!("windlass/", env!("CARGO_PKG_VERSION")).to_owned(),
            default_timeout: limits.default_http_time,
            connect_timeout: limits.max_connect_time,
            max_redirects: limits.max_http_redirects,
            poll_wait: limits.default_http_poll_wait,
            max_poll_wait: limits.max_retry_after,
        }
    }
}

/// Calls HTTP services. All calls of one tool share its connections.
#[derive(Clone)]
pub struct HttpTool(Arc<Inner>);

struct Inner {
    client: HttpClient,
    options: HttpOptions,
    defaults: RequestDefaults,
    max_reply_bytes: usize,
    default_timeout: Duration,
}

impl HttpTool {
    pub fn new(options: HttpOptions) -> HttpTool {
        HttpTool(Arc::new(Inner {
            client: HttpClient::new(&options),
            defaults: RequestDefaults {
                user_agent: escaped_header(&options.user_agent),
                max_redirects: options.max_redirects,
            },
            max_reply_bytes: options.max_reply_bytes,
            default_timeout: options.default_timeout,
            options,
        }))
    }

    /// Returns a tool with separate connections that may also reach the hosts of these URLs, which the operator
    /// configured. Calls of definitions cannot use these connections: a definition that names the same host is subject
    /// to its own rules.
    #[must_use]
    pub fn with_trusted<'a>(&self, urls: impl IntoIterator<Item = &'a str>) -> HttpTool {
        let options = &self.0.options;
        HttpTool::new(HttpOptions { outbound: options.outbound.with_trusted_urls(urls), ..options.clone() })
    }
}

impl Tool for HttpTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let inner = self.0.clone();
        Box::pin(async move {
            let request = HttpRequest::from_call(&call, &inner.defaults);
            let mut cancelled = call.cancelled.clone();
            let reply = inner.run(request, cancelled.wait()).await;
            match reply.pending {
                Some(pending) => pending.outcome(pending.input(&call.input)),
                None => reply.outcome,
            }
        })
    }
}

impl HttpTool {
    /// Sends one request and returns its reply as a stream, for protocols over HTTP. The outbound rules apply;
    /// redirects are ordinary replies. The caller enforces the timeout.
    pub async fn open(&self, request: hyper::Request<Bytes>) -> Result<Response<Incoming>, ErrorInfo> {
        self.0.client.send(&HttpRequest::from_hyper(request, &self.0.defaults)?).await
    }

    /// Sends one request to a configured address under the same rules, for the other tools of this crate. Secrets are
    /// redacted from the outcome.
    pub(crate) async fn send(&self, call: &ToolCall, configured: &ConfiguredRequest<'_>) -> HttpToolReply {
        let request = HttpRequest::from_configured(call, configured, &self.0.defaults);
        let mut cancelled = call.cancelled.clone();
        let reply = self.0.run(request, cancelled.wait()).await;
        HttpToolReply { outcome: configured.redaction.redact_outcome(reply.outcome), ..reply }
    }
}

impl Inner {
    /// Sends the request unless `stop` completes first, and gives up at the timeout.
    async fn run(&self, request: Result<HttpRequest, ErrorInfo>, stop: impl Future<Output = ()>) -> HttpToolReply {
        let request = match request {
            Ok(request) => request,
            Err(error) => return HttpToolReply::from_error(error),
        };
        let (method, shown) = (request.method.clone(), request.uri.clone());
        let by_default = request.timeout.is_none();
        let limit = request.timeout.unwrap_or(self.default_timeout).to_std();
        let destinations = &self.options.destinations;
        tokio::select! {
            biased;
            () = stop => HttpToolReply::from_error(failure::cancelled(&method, &shown)),
            reply = self.exchange(request) => reply,
            () = tokio::time::sleep(limit) => {
                destinations.record(&shown, CallHealth::Failed);
                HttpToolReply::from_error(failure::timeout(&method, &shown, limit, by_default))
            }
        }
    }

    async fn exchange(&self, request: HttpRequest) -> HttpToolReply {
        match self.follow(request).await {
            Ok((request, response)) => reply::read_reply(&request, response, &self.options).await,
            Err(error) => HttpToolReply::from_error(error),
        }
    }

    /// Follows redirects. Every hop passes the same address check as the first request.
    async fn follow(&self, mut request: HttpRequest) -> Result<(HttpRequest, Response<Incoming>), ErrorInfo> {
        let mut hops = 0;
        loop {
            let response = self.client.send(&request).await?;
            let Some(max) = request.max_redirects else { return Ok((request, response)) };
            let Some(location) = redirect::redirect_target(&response) else { return Ok((request, response)) };
            if hops == max {
                return Err(failure::too_many_redirects(&request, max));
            }
            hops += 1;
            request = redirect::follow(request, response.status(), &location)?;
        }
    }
}

#[cfg(test)]
mod tests;
