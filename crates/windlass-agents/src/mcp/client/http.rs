//! A server behind a URL. The `rmcp` crate handles sessions and streams. This module sends its requests over the
//! engine's own client, with its address rules and its TLS.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::{ExponentialBackoff, SseRetryPolicy};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use windlass_core::ErrorInfo;
use windlass_tools::{HttpTool, Secret};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
/// Headers that the protocol itself sets.
const RESERVED: [&str; 4] = ["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];

pub(super) fn transport(
    url: &str,
    headers: &[(String, Secret)],
    http: HttpTool,
) -> Result<StreamableHttpClientTransport<McpHttpClient>, String> {
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.trim().as_bytes()).ok();
        let key = key.filter(|key| !RESERVED.contains(&key.as_str()));
        let key = key.ok_or_else(|| format!("its settings have a header `{name}`, which cannot be sent"))?;
        let mut value = HeaderValue::from_str(value.reveal().trim())
            .map_err(|_| format!("the value of its header `{name}` cannot be sent"))?;
        value.set_sensitive(true);
        custom.insert(key, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom);
    config.max_sse_event_size = http.max_reply_bytes();
    config.retry_config = Arc::new(SseRetry(ExponentialBackoff::default()));
    Ok(StreamableHttpClientTransport::with_client(McpHttpClient(http), config))
}

/// The retry policy of a broken stream: at most 5 retries, so that the exponential delays stay short.
#[derive(Debug)]
struct SseRetry(ExponentialBackoff);

impl SseRetryPolicy for SseRetry {
    fn retry(&self, times: usize) -> Option<Duration> {
        self.0.retry(times).filter(|_| times < 5)
    }
}

#[derive(Clone)]
pub(super) struct McpHttpClient(HttpTool);

/// A request without a reply.
#[derive(Debug)]
pub(super) struct HttpTransportError(String);

impl fmt::Display for HttpTransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HttpTransportError {}

type McpHttpFailure = StreamableHttpError<HttpTransportError>;

impl From<ErrorInfo> for HttpTransportError {
    fn from(error: ErrorInfo) -> HttpTransportError {
        let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        HttpTransportError(format!("{}{hint}", error.message))
    }
}

/// One request and its parts.
struct McpHttpRequest {
    method: Method,
    session: Option<Arc<str>>,
    last_event: Option<String>,
    token: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
    body: Option<Bytes>,
}

impl McpHttpClient {
    async fn send(&self, uri: &str, sent: McpHttpRequest) -> Result<Response<Incoming>, McpHttpFailure> {
        let bad = |what: &str| StreamableHttpError::Client(HttpTransportError(format!("the {what} cannot be sent")));
        let mut headers: HeaderMap = sent.headers.into_iter().collect();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(session) = sent.session {
            headers.insert(SESSION, HeaderValue::from_str(&session).map_err(|_| bad("session's id"))?);
        }
        if let Some(last) = sent.last_event {
            headers.insert(LAST_EVENT, HeaderValue::from_str(&last).map_err(|_| bad("last event's id"))?);
        }
        if let Some(token) = sent.token {
            let token = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| bad("token"))?;
            headers.insert(AUTHORIZATION, token);
        }
        if sent.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        let mut request = Request::new(sent.body.unwrap_or_default());
        *request.method_mut() = sent.method;
        *request.uri_mut() = uri.parse().map_err(|_| bad("request to such an address"))?;
        *request.headers_mut() = headers;
        self.0.open(request).await.map_err(|error| StreamableHttpError::Client(error.into()))
    }
}

impl StreamableHttpClient for McpHttpClient {
    type Error = HttpTransportError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, McpHttpFailure> {
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        let in_session = session.is_some();
        let body = Some(Bytes::from(serde_json::to_vec(&message)?));
        let sent = McpHttpRequest { method: Method::POST, session, last_event: None, token, headers, body };
        let response = self.send(&uri, sent).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if !status.is_success() {
            return refusal_reply(response, session, self.0.max_reply_bytes()).await;
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let kind = content_type(response.headers());
        if kind.starts_with(STREAM) {
            return Ok(StreamableHttpPostResponse::Sse(event_stream(response, self.0.max_reply_bytes()), session));
        }
        let body = read_body(response, self.0.max_reply_bytes()).await?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // A notification needs no reply, whatever it looks like.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) if !kind.starts_with(JSON) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), McpHttpFailure> {
        let session = Some(session);
        let sent = McpHttpRequest { method: Method::DELETE, session, last_event: None, token, headers, body: None };
        // The reply does not matter: a server that keeps the session does no harm.
        self.send(&uri, sent).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>>, McpHttpFailure> {
        let sent = McpHttpRequest { method: Method::GET, session, last_event, token, headers, body: None };
        let response = self.send(&uri, sent).await?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let kind = content_type(response.headers());
        match (status.is_success(), kind.starts_with(STREAM)) {
            (true, true) => Ok(event_stream(response, self.0.max_reply_bytes())),
            (true, false) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
            (false, _) => Err(error_from_status(status, response.headers())),
        }
    }
}

fn content_type(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase());
    kind.unwrap_or_default().trim_start().to_owned()
}

/// Reads the protocol's own error from a refusal, if it has one.
async fn refusal_reply(
    response: Response<Incoming>,
    session: Option<String>,
    max_bytes: usize,
) -> Result<StreamableHttpPostResponse, McpHttpFailure> {
    let (status, failure) = (response.status(), error_from_status(response.status(), response.headers()));
    let closed = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    if closed || !content_type(response.headers()).starts_with(JSON) {
        return Err(failure);
    }
    let body = read_body(response, max_bytes).await.unwrap_or_default();
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(error @ ServerJsonRpcMessage::Error(_)) => Ok(StreamableHttpPostResponse::Json(error, session)),
        _ => Err(failure),
    }
}

fn error_from_status(status: StatusCode, headers: &HeaderMap) -> McpHttpFailure {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::to_owned);
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let challenge = text(WWW_AUTHENTICATE).unwrap_or_else(|| format!("HTTP {status}"));
            StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge))
        }
        status if status.is_redirection() => {
            let to = text(http::header::LOCATION).unwrap_or_default();
            let message = format!("HTTP {status}: it has moved to `{to}`; the settings must name that address");
            StreamableHttpError::UnexpectedServerResponse(Cow::Owned(message))
        }
        status => HttpStatusError::new(status.as_u16(), text(http::header::RETRY_AFTER)).into(),
    }
}

async fn read_body(response: Response<Incoming>, max_bytes: usize) -> Result<Bytes, McpHttpFailure> {
    let read = Limited::new(response.into_body(), max_bytes).collect().await;
    let read = read.map_err(|error| {
        StreamableHttpError::Client(HttpTransportError(format!("the connection was lost during the reply: {error}")))
    })?;
    Ok(read.to_bytes())
}

fn event_stream(
    response: Response<Incoming>,
    max_bytes: usize,
) -> Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>> {
    Box::pin(SseStream::from_bytes_stream(LimitedBody { body: response.into_body(), max_bytes, event: 0, line: 0 }))
}

/// The bytes of an event stream. One event must not be longer than a whole reply.
struct LimitedBody {
    body: Incoming,
    max_bytes: usize,
    event: usize,
    line: usize,
}

impl LimitedBody {
    fn is_within_limit(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            self.event += 1;
            match byte {
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            if self.event > self.max_bytes {
                return false;
            }
        }
        true
    }
}

impl Stream for LimitedBody {
    type Item = Result<Bytes, HttpTransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(HttpTransportError(format!(
                        "the connection was lost during the stream: {error}"
                    )))));
                }
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        let fits = self.is_within_limit(&bytes);
                        let long = || HttpTransportError("an event of the stream is too long".to_owned());
                        return Poll::Ready(Some(if fits { Ok(bytes) } else { Err(long()) }));
                    }
                }
            }
        }
    }
}
