//! What every request meets first and every answer last: names, bounds, the audit log, figures, headers.

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

use crate::audit::{BodyFacts, Line, Noted, Who};
use crate::auth::gate::Passed;
use crate::auth::{Declared, Peer, Scope, Seat};
use crate::problem::codes;
use crate::rate::too_many;
use crate::{App, Problem, proxies};
use bodies::{AtEnd, ClosableStreamBody, Watched};

/// When a server that stops may be back.
const RETRY_AFTER_S: u64 = 5;

/// How long the stream of a token that was taken away may go on.
const TOKENS_LOOKED_AT_EVERY: Duration = Duration::from_secs(5);

/// Path parameters in the audit log.
const MAX_PARAMETER_CHARS: usize = 300;

/// How much of an answer that is no problem document is put into one.
const MAX_REASON_BYTES: usize = 4 * 1024;

const SSE: &str = "text/event-stream";

/// The last thing in a stream that the server ends: whoever reads asks again.
const CLOSING_SSE: &[u8] = b"event: closing\ndata: {\"type\":\"closing\"}\n\n";
const CLOSING_LINE: &[u8] = b"{\"type\":\"closing\"}\n";

/// The outermost layer.
pub(crate) async fn edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let asked = Arc::new(Asked::of(&app, &mut request).await);
    // The route and never the path: what stands in its place may be anything.
    let span = info_span!("request", method = asked.method.as_str(), route = asked.route(), status = Empty);
    async move {
        let answer = answered(&app, asked, request, next, began).await;
        let (status, took_ms) = (answer.status().as_u16(), began.elapsed().as_millis() as u64);
        Span::current().record("status", status);
        debug!(status, took_ms, "request answered");
        answer
    }
    .instrument(span)
    .await
}

async fn answered(app: &App, asked: Arc<Asked>, request: Request, next: Next, began: Instant) -> Response {
    let in_chunks = request.headers().contains_key(header::TRANSFER_ENCODING);
    let answer = match admit(app, &request, &asked) {
        Ok(()) => answer(app, &asked, request, next).await,
        Err(problem) => problem.into_response(),
    };
    let mut answer = as_problem(answer).await;
    app.metrics.record_request(asked.route(), &asked.method, answer.status(), began.elapsed());
    add_headers(&mut answer);
    if in_chunks {
        // A length beside the chunks is dropped before anybody here sees it. Whoever passes requests on may have gone by
        // the length: what follows on this connection could be a part of the body to him and a request to us.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// A request, as it is counted and noted.
struct Asked {
    at: Timestamp,
    method: Method,
    route: Option<MatchedPath>,
    parameters: Vec<(String, String)>,
    from: Option<Peer>,
    /// The proxy that says so.
    via: Option<Peer>,
}

impl Asked {
    async fn of(app: &App, request: &mut Request) -> Asked {
        let peer = request.extensions().get::<Peer>().copied();
        let client = peer.and_then(|peer| proxies::client(&app.options.proxies, peer.0.ip(), request.headers()));
        if let Some(client) = client {
            // Limits, the log and all others mean whoever asks.
            request.extensions_mut().insert(Peer(client));
        }
        let parameters = match request.extract_parts::<RawPathParams>().await {
            Ok(parameters) => parameters
                .iter()
                .map(|(name, value)| (name.to_owned(), value.chars().take(MAX_PARAMETER_CHARS).collect()))
                .collect(),
            Err(_) => Vec::new(),
        };
        Asked {
            at: real_now(),
            method: request.method().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
            parameters,
            from: client.map(Peer).or(peer),
            via: peer.filter(|_| client.is_some()),
        }
    }

    /// Few are possible: what matches no route has no name.
    fn route(&self) -> &str {
        self.route.as_ref().map_or("", MatchedPath::as_str)
    }

    fn is_delivery(&self) -> bool {
        self.route().contains("/hooks/{")
    }

    /// A delivery starts something, whatever its method.
    fn may_change(&self) -> bool {
        !self.method.is_safe() || self.is_delivery()
    }

    /// What a worker has done, or gives back: that makes a stop shorter, not longer.
    fn brings_back(&self) -> bool {
        matches!(self.route(), "/api/v1/worker/complete" | "/api/v1/worker/fail" | "/api/v1/worker/leave")
    }

    fn line(&self, passed: &Passed, status: Option<StatusCode>, body: Option<BodyFacts>) -> Line {
        let who = passed.who().map(|who| Who { id: who.id.clone(), name: who.name.clone() });
        let signed = passed.is_signed().then(|| Who { id: "signature".to_owned(), name: "signature".to_owned() });
        Line {
            at: self.at,
            who: who.or(signed),
            from: self.from.map(|peer| peer.to_string()),
            via: self.via.map(|peer| peer.to_string()),
            method: self.method.to_string(),
            route: self.route().to_owned(),
            path: self.parameters.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect(),
            status: status.map(|status| status.as_u16()),
            body,
        }
    }
}

/// Before anything of the request is looked at.
fn admit(app: &App, request: &Request, asked: &Asked) -> Result<(), Problem> {
    check_framing(request.headers())?;
    if request.version() == Version::HTTP_11 && !request.headers().contains_key(header::HOST) {
        return Err(Problem::bad_request("there is no `Host`").hint("say whom you ask: `Host: NAME`"));
    }
    app.watch().hosts.check(request.method(), request.uri(), request.headers())?;
    if app.is_draining() && asked.may_change() && !asked.brings_back() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, "the server is about to stop")
            .hint("nothing was done: ask again in a while")
            .retry_after(RETRY_AFTER_S));
    }
    if app.audit.is_broken() && asked.may_change() {
        let detail = "the audit log cannot be written: nothing is changed until it can";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail)
            .hint("look at the disk, then start the server again"));
    }
    Ok(())
}

/// Chunks and nothing around them: what else there may be is not undone here, but perhaps by somebody on the way.
fn check_framing(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    match codings.next().is_none() && coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        true => Ok(()),
        false => Err(Problem::bad_request("the body comes in a coding other than chunks")
            .hint("send `Content-Length`, or `Transfer-Encoding: chunked` alone")),
    }
}

async fn answer(app: &App, asked: &Arc<Asked>, mut request: Request, next: Next) -> Response {
    let passed = Passed::default();
    request.extensions_mut().insert(passed.clone());
    let (parts, body) = request.into_parts();
    let (begun, limits) = (Begun::default(), &app.options.limits);
    let (body, watched) = Watched::new(body, limits.max_request_time.to_std(), begun.at_end(app, asked, &passed));
    let mut unheard = Unheard { app, asked, passed: &passed, body: &watched, begun: &begun, is_heard: false };
    let request = Request::from_parts(parts, Body::new(body));
    let answered = tokio::time::timeout(limits.max_response_time.to_std(), next.run(request)).await;
    let mut answer = answered
        .unwrap_or_else(|_| too_slow("the answer took too long; what was asked may yet happen", "max_answer_time"));
    if watched.was_late() {
        answer = too_slow("the request did not arrive in time", "max_request_time");
    }
    unheard.is_heard = true;
    if asked.may_change() {
        answer = noted(app, asked, &passed, (&watched, begun.take()), answer).await;
    }
    match is_stream(&answer) {
        true => stream(app, &passed, answer),
        false => answer,
    }
}

/// A call whose line is on its way to the disk while the call itself is: both are waited for, one sync long.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Option<Noted>>>);

impl Begun {
    /// When all of the request has come, it is known who wants what. Whoever has only signed it is not looked at yet.
    fn at_end(&self, app: &App, asked: &Arc<Asked>, passed: &Passed) -> AtEnd {
        let (begun, app, asked, passed) = (self.clone(), app.clone(), asked.clone(), passed.clone());
        Box::new(move |body| {
            let by_token =
                matches!(passed.declared(), Some(Declared::Scope(Scope::Run | Scope::Control | Scope::Admin)));
            if by_token && asked.may_change() && passed.who().is_some() {
                let noted = app.audit.begin(&asked.line(&passed, None, body));
                *begun.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(noted);
            }
        })
    }

    fn take(&self) -> Option<Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A call that is being done. Whoever hangs up before it is answered is noted all the same: what was asked may yet happen.
struct Unheard<'a> {
    app: &'a App,
    asked: &'a Asked,
    passed: &'a Passed,
    body: &'a bodies::Seen,
    begun: &'a Begun,
    is_heard: bool,
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        let may = |scope: Scope| self.passed.who().is_some_and(|who| who.may(scope));
        let changes = match self.passed.declared() {
            Some(Declared::Scope(scope @ (Scope::Run | Scope::Control | Scope::Admin))) => may(scope),
            Some(Declared::Signed) => self.passed.is_admitted(),
            _ => false,
        };
        if !self.is_heard && changes && self.asked.may_change() && self.begun.take().is_none() {
            // Nobody is left to wait for it.
            drop(self.app.audit.begin(&self.asked.line(self.passed, None, self.body.facts())));
        }
    }
}

/// The line in the audit log is written before whoever asked hears anything.
async fn noted(
    app: &App,
    asked: &Asked,
    passed: &Passed,
    (body, begun): (&bodies::Seen, Option<Noted>),
    answer: Response,
) -> Response {
    let status = answer.status();
    if let Some(begun) = begun {
        let written = match begun.number().await {
            Some(_) if status.is_success() => true,
            Some(number) => app.audit.note_outcome(number, status.as_u16()).await,
            None => false,
        };
        return if written { answer } else { not_noted(status) };
    }
    let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    let changes = match passed.declared() {
        // What workers say is in the journals of the runs; this log is about people and what acts for them.
        Some(Declared::Scope(Scope::Work)) => refused,
        Some(Declared::Public | Declared::Scope(Scope::Read)) => false,
        Some(Declared::Scope(Scope::Run | Scope::Control | Scope::Admin) | Declared::Signed) => true,
        // An authorisation type of another module says no more than that it was there.
        None => passed.is_passed(),
    };
    if !changes {
        return answer;
    }
    let line = asked.line(passed, Some(status), body.facts());
    if refused {
        if app.watch().refusals_noted.take(app.watch().rates.refusals).is_ok() {
            app.audit.note_refused(&line);
        }
        return answer;
    }
    match app.audit.note(&line).await {
        true => answer,
        false => not_noted(status),
    }
}

fn not_noted(status: StatusCode) -> Response {
    let detail = format!("it was answered with {status}, and could not be noted in the audit log");
    Problem::unavailable(detail).hint("look at the disk, then start the server again").into_response()
}

fn too_slow(detail: &str, setting: &str) -> Response {
    let hint = format!("the operator can raise `server.{setting}` in windlass.toml");
    Problem::new(StatusCode::REQUEST_TIMEOUT, codes::TOO_SLOW, detail).hint(hint).into_response()
}

fn kind(answer: &Response) -> &str {
    answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

fn is_stream(answer: &Response) -> bool {
    let kind = kind(answer);
    kind.starts_with(SSE) || kind.starts_with("application/x-ndjson")
}

/// Streams are counted, and end when the server does.
fn stream(app: &App, passed: &Passed, answer: Response) -> Response {
    let seat = passed.who().map_or_else(|| app.keys.anybody().seat.clone(), |who| who.seat.clone());
    let Some(counted) = bodies::StreamSlot::new(&seat, app.options.limits.max_streams_per_token, &app.metrics) else {
        return too_many("streams with this token", Duration::from_secs(5), "max_streams_per_token").into_response();
    };
    let notice = Bytes::from_static(if kind(&answer).starts_with(SSE) { CLOSING_SSE } else { CLOSING_LINE });
    let end_signal = Box::pin(until_stream_must_end(app.clone(), seat));
    answer.map(|body| Body::new(ClosableStreamBody::new(body, notice, end_signal, counted)))
}

/// Until the server wants to stop, or the token is nobody's any more: a stream lives no longer than what opened it.
async fn until_stream_must_end(app: App, seat: Arc<Seat>) {
    let mut draining = app.draining();
    loop {
        let drained = draining.wait_for(|draining| *draining);
        if tokio::time::timeout(TOKENS_LOOKED_AT_EVERY, drained).await.is_ok() {
            return;
        }
        app.keys.look_again();
        if !seat.is_taken(real_now()) {
            return;
        }
    }
}

/// Errors of the routes' crate are texts: they become problems as well.
async fn as_problem(answer: Response) -> Response {
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || kind(&answer).starts_with("application/problem+json") {
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
    let reason = status.canonical_reason().unwrap_or("it did not work");
    let mut problem = Problem::new(status, code, if text.is_empty() { reason } else { text.trim() }).into_response();
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}

/// What is said with every answer, unless the route says otherwise.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

fn add_headers(answer: &mut Response) {
    for (name, value) in HEADERS {
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    if answer.status() == StatusCode::UNAUTHORIZED {
        answer.headers_mut().entry(header::WWW_AUTHENTICATE).or_insert(HeaderValue::from_static("Bearer"));
    }
}

/// A handler that panics answers with a problem, and what it was about is not told.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    // The panic's own message may hold values: it is on stderr, where panics go.
    error!("request panicked");
    let detail = "the server has a defect and stopped in the middle of this request";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail).into_response()
}
