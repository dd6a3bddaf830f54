//! The outermost layer of requests and responses: host checks, limits, the audit log, metrics, response headers.

mod bodies;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::RequestExt;
use axum::body::Body;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, error, info_span};
use windlass_runtime::real_now;
use windlass_value::Timestamp;

use crate::audit::{AuditActor, AuditEntry, BodyFacts, PendingEntry};
use crate::auth::gate::AuthContext;
use crate::auth::sessions::Session;
use crate::auth::{AccessRule, Peer, TokenActivity, TokenScope};
use crate::problem::codes;
use crate::proxies::OverTls;
use crate::rate::rate_limited;
use crate::{ApiProblem, App, compression, proxies, space};
use bodies::{ClosableStreamBody, MeasuredBody, OnBodyEnd};

/// Retry-After, in seconds, while the server shuts down.
const RETRY_AFTER_S: u64 = 5;

/// Interval of token checks: a stream of a revoked token ends within this time.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum length of a path parameter in the audit log.
const MAX_PARAMETER_CHARS: usize = 300;

/// Maximum number of bytes taken over from a plain-text error response into a problem document.
const MAX_REASON_BYTES: usize = 4 * 1024;

const SSE: &str = "text/event-stream";

/// The last message of a stream that the server closes; the reader reconnects.
const CLOSING_SSE: &[u8] = b"event: closing\ndata: {\"type\":\"closing\"}\n\n";
const CLOSING_LINE: &[u8] = b"{\"type\":\"closing\"}\n";

/// The outermost middleware.
pub(crate) async fn handle(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let request_info = Arc::new(RequestInfo::from_request(&app, &mut request).await);
    // The route pattern and never the path: its parameters may contain anything.
    let span =
        info_span!("request", method = request_info.method.as_str(), route = request_info.route(), status = Empty);
    async move {
        let answer = respond(&app, request_info, request, next, began).await;
        let (status, took_ms) = (answer.status().as_u16(), began.elapsed().as_millis() as u64);
        Span::current().record("status", status);
        debug!(status, took_ms, "request answered");
        answer
    }
    .instrument(span)
    .await
}

async fn respond(app: &App, request_info: Arc<RequestInfo>, request: Request, next: Next, began: Instant) -> Response {
    let in_chunks = request.headers().contains_key(header::TRANSFER_ENCODING);
    let wants_gzip = compression::accepts(request.headers(), "gzip");
    let answer = match admit(app, &request, &request_info) {
        Ok(()) => run_handler(app, &request_info, request, next).await,
        Err(problem) => problem.into_response(),
    };
    let mut answer = as_problem(answer).await;
    app.metrics.record_request(request_info.route(), &request_info.method, answer.status(), began.elapsed());
    add_headers(&mut answer);
    if request_info.may_be_compressed() {
        answer = compression::compress(answer, wants_gzip).await;
    }
    if in_chunks {
        // A `Content-Length` sent in addition to chunks is dropped before this code sees it. A proxy may have used that
        // length: the bytes that follow on this connection could be part of the body to the proxy and a request to us
        // (request smuggling).
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Facts of a request for metrics and the audit log.
struct RequestInfo {
    at: Timestamp,
    method: Method,
    route: Option<MatchedPath>,
    parameters: Vec<(String, String)>,
    from: Option<Peer>,
    /// The proxy that reported `from`.
    via: Option<Peer>,
}

impl RequestInfo {
    async fn from_request(app: &App, request: &mut Request) -> RequestInfo {
        let peer = request.extensions().get::<Peer>().copied();
        let client = peer.and_then(|peer| proxies::client(&app.options.proxies, peer.0.ip(), request.headers()));
        if let Some(peer) = peer {
            let connection = request.extensions().get::<OverTls>().copied().unwrap_or(OverTls(false));
            let over_tls = OverTls::from_request(&app.options.proxies, peer.0.ip(), request.headers(), connection);
            request.extensions_mut().insert(over_tls);
        }
        if let Some(client) = client {
            // Rate limits, the audit log and all other users of the address mean the client.
            request.extensions_mut().insert(Peer(client));
        }
        let parameters = match request.extract_parts::<RawPathParams>().await {
            Ok(parameters) => parameters
                .iter()
                .map(|(name, value)| (name.to_owned(), value.chars().take(MAX_PARAMETER_CHARS).collect()))
                .collect(),
            Err(_) => Vec::new(),
        };
        RequestInfo {
            at: real_now(),
            method: request.method().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
            parameters,
            from: client.map(Peer).or(peer),
            via: peer.filter(|_| client.is_some()),
        }
    }

    /// Returns the route pattern. The set of values is bounded: a request without a matching route has an empty name.
    fn route(&self) -> &str {
        self.route.as_ref().map_or("", MatchedPath::as_str)
    }

    fn is_delivery(&self) -> bool {
        self.route().contains("/hooks/{")
    }

    fn starts_work(&self) -> bool {
        self.is_delivery() || (!self.method.is_safe() && space::starts_work(self.route()))
    }

    /// A webhook delivery starts a run, whatever its method.
    fn may_change(&self) -> bool {
        !self.method.is_safe() || self.is_delivery()
    }

    /// Whether the response may be compressed. It must not be if it contains a secret: its size would reveal how
    /// similar the secret is to text of the caller beside it (BREACH). New tokens are in responses to POST.
    fn may_be_compressed(&self) -> bool {
        self.method == Method::GET && self.route() != "/api/v1/session" && !self.is_delivery()
    }

    /// Whether a worker reports a result or returns jobs. Such requests shorten a shutdown.
    fn reports_job_result(&self) -> bool {
        matches!(self.route(), "/api/v1/worker/complete" | "/api/v1/worker/fail" | "/api/v1/worker/deregister")
    }

    fn audit_entry(&self, auth: &AuthContext, status: Option<StatusCode>, body: Option<BodyFacts>) -> AuditEntry {
        let actor = auth.identity().map(|identity| AuditActor { id: identity.id.clone(), name: identity.name.clone() });
        let signed = auth.is_signed().then(|| AuditActor { id: "signature".to_owned(), name: "signature".to_owned() });
        AuditEntry {
            at: self.at,
            actor: actor.or(signed),
            from: self.from.map(|peer| peer.to_string()),
            via: self.via.map(|peer| peer.to_string()),
            method: self.method.to_string(),
            route: self.route().to_owned(),
            path: self.parameters.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect(),
            status: status.map(|status| status.as_u16()),
            // The hash of a short secret would let a reader of the log try values.
            body: body.filter(|_| !self.sets_credential()),
        }
    }

    fn sets_credential(&self) -> bool {
        self.route().starts_with("/api/v1/credentials/")
    }
}

/// Checks that precede everything else.
fn admit(app: &App, request: &Request, request_info: &RequestInfo) -> Result<(), ApiProblem> {
    check_framing(request.headers())?;
    if request.version() == Version::HTTP_11 && !request.headers().contains_key(header::HOST) {
        return Err(ApiProblem::bad_request("the request has no `Host` header").hint("send `Host: NAME`"));
    }
    app.controls().hosts.check(request.method(), request.uri(), request.headers())?;
    if app.is_draining() && request_info.may_change() && !request_info.reports_job_result() {
        return Err(ApiProblem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            codes::UNAVAILABLE,
            "the server is shutting down",
        )
        .hint("nothing was changed: retry later")
        .retry_after(RETRY_AFTER_S));
    }
    if app.audit.is_broken() && request_info.may_change() {
        let detail = "the audit log cannot be written: the server rejects changes until it can";
        return Err(ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail)
            .hint("check the disk, then restart the server"));
    }
    match request_info.starts_work() {
        true => space::refuse_new_work(app),
        false => Ok(()),
    }
}

/// Accepts no transfer coding but `chunked`: this server does not decode others, but a proxy on the way might.
fn check_framing(headers: &HeaderMap) -> Result<(), ApiProblem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    match codings.next().is_none() && coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        true => Ok(()),
        false => Err(ApiProblem::bad_request("unsupported Transfer-Encoding; only `chunked` is accepted")
            .hint("send `Content-Length`, or only `Transfer-Encoding: chunked`")),
    }
}

async fn run_handler(app: &App, request_info: &Arc<RequestInfo>, mut request: Request, next: Next) -> Response {
    let auth = AuthContext::default();
    request.extensions_mut().insert(auth.clone());
    let (parts, body) = request.into_parts();
    let (pending_entry, limits) = (PendingAuditEntry::default(), &app.options.limits);
    let (body, digest) =
        MeasuredBody::new(body, limits.max_request_time.to_std(), pending_entry.on_body_end(app, request_info, &auth));
    let mut guard = AbandonedCallGuard {
        app,
        request_info,
        auth: &auth,
        body: &digest,
        pending_entry: &pending_entry,
        is_answered: false,
    };
    let request = Request::from_parts(parts, Body::new(body));
    let answered = tokio::time::timeout(limits.max_response_time.to_std(), next.run(request)).await;
    let mut answer = answered.unwrap_or_else(|_| {
        too_slow("the response took too long; the requested change may still happen", "max_response_time")
    });
    if digest.was_late() {
        answer = too_slow("the request did not arrive in time", "max_request_time");
    }
    guard.is_answered = true;
    if request_info.may_change() {
        answer = write_audit_entry(app, request_info, &auth, (&digest, pending_entry.take()), answer).await;
    }
    match is_stream(&answer) {
        true => stream(app, &auth, answer),
        false => answer,
    }
}

/// An audit entry that is being written while the call runs: both are awaited together, which costs one sync.
#[derive(Clone, Default)]
struct PendingAuditEntry(Arc<Mutex<Option<PendingEntry>>>);

impl PendingAuditEntry {
    /// Begins the entry when the request body is complete, since the caller and the request are known then. Calls that
    /// are only signed are not verified at this point and get no entry yet.
    fn on_body_end(&self, app: &App, request_info: &Arc<RequestInfo>, auth: &AuthContext) -> OnBodyEnd {
        let (begun, app, asked, passed) = (self.clone(), app.clone(), request_info.clone(), auth.clone());
        Box::new(move |body| {
            let by_token = matches!(
                passed.declared(),
                Some(AccessRule::Scope(TokenScope::Run | TokenScope::Control | TokenScope::Admin))
            );
            if by_token && asked.may_change() && passed.identity().is_some() {
                let entry = app.audit.begin_write(&asked.audit_entry(&passed, None, body));
                *begun.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
            }
        })
    }

    fn take(&self) -> Option<PendingEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Writes the audit entry of a call whose client disconnects before the response: the requested change may still
/// happen.
struct AbandonedCallGuard<'a> {
    app: &'a App,
    request_info: &'a RequestInfo,
    auth: &'a AuthContext,
    body: &'a bodies::BodyDigest,
    pending_entry: &'a PendingAuditEntry,
    is_answered: bool,
}

impl Drop for AbandonedCallGuard<'_> {
    fn drop(&mut self) {
        let may = |scope: TokenScope| self.auth.identity().is_some_and(|who| who.may(scope));
        let changes = match self.auth.declared() {
            Some(AccessRule::Scope(scope @ (TokenScope::Run | TokenScope::Control | TokenScope::Admin))) => may(scope),
            Some(AccessRule::Signed) => self.auth.is_admitted(),
            _ => false,
        };
        if !self.is_answered && changes && self.request_info.may_change() && self.pending_entry.take().is_none() {
            // The client is gone, so the entry is not awaited.
            drop(self.app.audit.begin_write(&self.request_info.audit_entry(self.auth, None, self.body.facts())));
        }
    }
}

/// Writes the audit entry before the client receives the response.
async fn write_audit_entry(
    app: &App,
    request_info: &RequestInfo,
    auth: &AuthContext,
    (body, pending_entry): (&bodies::BodyDigest, Option<PendingEntry>),
    answer: Response,
) -> Response {
    let status = answer.status();
    if let Some(pending_entry) = pending_entry {
        let written = match pending_entry.number().await {
            Some(_) if status.is_success() => true,
            Some(number) => app.audit.write_outcome(number, status.as_u16()).await,
            None => false,
        };
        return if written { answer } else { audit_write_failed(status) };
    }
    let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    let changes = match auth.declared() {
        // Worker reports are in the journals of the runs; this log covers people and programs acting for them.
        Some(AccessRule::Scope(TokenScope::Work)) => refused,
        Some(AccessRule::Public | AccessRule::Scope(TokenScope::Read)) => false,
        Some(AccessRule::Scope(TokenScope::Run | TokenScope::Control | TokenScope::Admin) | AccessRule::Signed) => true,
        // An authorisation type that declares no access rule: once it was extracted, the call counts as a change.
        None => auth.is_authorized(),
    };
    if !changes {
        return answer;
    }
    let entry = request_info.audit_entry(auth, Some(status), body.facts());
    if refused {
        if app.controls().refusal_log_bucket.take(app.controls().rates.refusals).is_ok() {
            app.audit.write_refusal(&entry);
        }
        return answer;
    }
    match app.audit.write(&entry).await {
        true => answer,
        false => audit_write_failed(status),
    }
}

fn audit_write_failed(status: StatusCode) -> Response {
    let detail = format!("the call ended with {status}, but could not be recorded in the audit log");
    let hint = "check the disk, then restart the server";
    // Only a call without an effect is answered as unavailable.
    match status.is_success() {
        true => ApiProblem::defect(detail).hint(hint).into_response(),
        false => ApiProblem::unavailable(detail).hint(hint).into_response(),
    }
}

fn too_slow(detail: &str, setting: &str) -> Response {
    let hint = format!("the operator can raise `server.{setting}` in windlass.toml");
    ApiProblem::new(StatusCode::REQUEST_TIMEOUT, codes::TOO_SLOW, detail).hint(hint).into_response()
}

fn content_type(answer: &Response) -> &str {
    answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

fn is_stream(answer: &Response) -> bool {
    let kind = content_type(answer);
    kind.starts_with(SSE) || kind.starts_with("application/x-ndjson")
}

/// Counts an event stream and ends it when the server shuts down.
fn stream(app: &App, auth: &AuthContext, answer: Response) -> Response {
    let usage = auth.identity().map_or_else(|| app.keys.anonymous().usage.clone(), |who| who.usage.clone());
    let Some(counted) = bodies::StreamSlot::new(&usage, app.options.limits.max_streams_per_token, &app.metrics) else {
        return rate_limited("streams with this token", Duration::from_secs(5), "max_streams_per_token")
            .into_response();
    };
    let notice = Bytes::from_static(if content_type(&answer).starts_with(SSE) { CLOSING_SSE } else { CLOSING_LINE });
    let end_signal = Box::pin(until_stream_must_end(app.clone(), usage, auth.session().cloned()));
    answer.map(|body| Body::new(ClosableStreamBody::new(body, notice, end_signal, counted)))
}

/// Completes when the server shuts down, or the token or session ends: a stream lives no longer than these.
async fn until_stream_must_end(app: App, usage: Arc<TokenActivity>, session: Option<Arc<Session>>) {
    let mut draining = app.draining();
    loop {
        let drained = draining.wait_for(|draining| *draining);
        if tokio::time::timeout(TOKEN_CHECK_INTERVAL, drained).await.is_ok() {
            return;
        }
        app.keys.reload_if_due();
        let now = real_now();
        if !usage.is_valid(now) || session.as_ref().is_some_and(|session| !session.is_valid(now)) {
            return;
        }
    }
}

/// Converts the plain-text errors of the routing crate into problem documents.
async fn as_problem(answer: Response) -> Response {
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || content_type(&answer).starts_with("application/problem+json") {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let text = axum::body::to_bytes(body, MAX_REASON_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let code = match status {
        StatusCode::METHOD_NOT_ALLOWED => codes::METHOD,
        StatusCode::NOT_FOUND => codes::NOT_FOUND,
        StatusCode::PAYLOAD_TOO_LARGE => codes::TOO_LARGE,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => codes::MEDIA_TYPE,
        _ if status.is_client_error() => codes::BAD_REQUEST,
        _ => codes::INTERNAL,
    };
    let reason = status.canonical_reason().unwrap_or("request failed");
    let mut problem = ApiProblem::new(status, code, if text.is_empty() { reason } else { text.trim() }).into_response();
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}

/// Default response headers; a route may override them.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Pages of other origins cannot load a response as a script, an image or a style either.
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn add_headers(answer: &mut Response) {
    for (name, value) in HEADERS {
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    if answer.status() == StatusCode::UNAUTHORIZED {
        answer.headers_mut().entry(header::WWW_AUTHENTICATE).or_insert(HeaderValue::from_static("Bearer"));
    }
}

/// Answers for a handler that panicked, with a problem document that does not contain the panic message.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    // The panic message may contain values. It goes to stderr, as usual for panics.
    error!("request panicked");
    let detail = "internal error: the handler of this request panicked";
    ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail).into_response()
}
