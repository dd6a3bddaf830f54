//! Selects and builds the response to a request.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use windlass_value::{Value, to_json};

use super::ServedRequest;
use super::body::ChunkedBody;
use super::log::ModelLog;
use super::model::{ModelAnswer, ModelQuery, ScriptMemory};
use super::received::ReceivedRequest;
use super::rules::{ModelRule, ScriptedFault};
use super::script::{MockRoute, RouteReply, Script};
use super::wire::ModelResponse;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A script and its progress.
pub(super) struct ScriptState {
    script: Script,
    /// The number of replies of each route.
    answered: Vec<AtomicU64>,
    memory: Mutex<ScriptMemory>,
    pub(super) model_requests: AtomicU64,
    pub(super) log: ModelLog,
    on_request: Box<dyn Fn(&ServedRequest) + Send + Sync>,
}

impl ScriptState {
    pub(super) fn new(
        script: Script,
        log: ModelLog,
        on_request: Box<dyn Fn(&ServedRequest) + Send + Sync>,
    ) -> ScriptState {
        let answered = script.routes.iter().map(|_| AtomicU64::new(0)).collect();
        ScriptState { script, answered, memory: Mutex::default(), model_requests: AtomicU64::new(0), log, on_request }
    }

    /// Returns the route of a request and the index of its next reply.
    fn route(&self, request: &ReceivedRequest) -> Option<(usize, usize)> {
        let index = self.script.routes.iter().position(|route| fits(route, request))?;
        let times = self.answered[index].fetch_add(1, Ordering::Relaxed);
        let last = self.script.routes[index].replies.len().saturating_sub(1);
        Some((index, usize::try_from(times).unwrap_or(last).min(last)))
    }

    fn respond(&self, request: &ReceivedRequest) -> MockResponse {
        if let Some(rules) = &self.script.model
            && let Some(question) = ModelQuery::from_request(request)
        {
            return self.respond_as_model(rules, &question);
        }
        match self.route(request) {
            Some((route, reply)) => {
                let by = format!("route {}, reply {}", route + 1, reply + 1);
                from_route(&self.script.routes[route].replies[reply], request, by)
            }
            None => self.no_route(request),
        }
    }

    fn respond_as_model(&self, rules: &[ModelRule], question: &ModelQuery) -> MockResponse {
        self.model_requests.fetch_add(1, Ordering::Relaxed);
        let answer = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            question.answer(rules, &mut memory)
        };
        let answer = match answer {
            ModelAnswer::Reply { reply, turn, by } => from_model_reply(question, reply, turn, by),
            ModelAnswer::Refused { status, message, code, by } => {
                MockResponse { by, ..MockResponse::json(status, &question.wire.error(status, &message, code)) }
            }
        };
        self.log.append(question, answer.status.as_u16(), &answer.by);
        answer
    }

    fn no_route(&self, request: &ReceivedRequest) -> MockResponse {
        let paths = self.script.routes.iter().map(|route| {
            let method = route.method.as_ref().map_or("any", Method::as_str);
            Value::from(format!("{method} {}", route.path))
        });
        let message = format!("no route of the script matches {} {}", request.method, request.target);
        let body = Value::object([("error", Value::from(message)), ("routes", Value::list(paths.collect()))]);
        let mut answer = MockResponse::json(StatusCode::INTERNAL_SERVER_ERROR, &body);
        answer.by = "no route matches".to_owned();
        answer
    }
}

struct MockResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: ChunkedBody,
    /// The delay; `None` never responds.
    after: Option<Duration>,
    by: String,
}

impl MockResponse {
    fn json(status: StatusCode, body: &Value) -> MockResponse {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, JSON)]);
        let body = ChunkedBody::from_bytes(to_json(body).into());
        MockResponse { status, headers, body, after: Some(Duration::ZERO), by: String::new() }
    }
}

fn fits(route: &MockRoute, request: &ReceivedRequest) -> bool {
    let path = match route.path.strip_suffix('*') {
        Some(start) => request.path.starts_with(start),
        None => request.path == route.path,
    };
    let method = route.method.as_ref().is_none_or(|method| *method == request.method);
    path && method && route.query.iter().all(|(name, value)| request.query.get(name) == Some(value))
}

fn from_route(scripted: &RouteReply, request: &ReceivedRequest, by: String) -> MockResponse {
    let (body, content_type) = match &scripted.body {
        Value::Null => (Bytes::new(), None),
        Value::Str(text) if &**text == "$echo" => (to_json(&request.echo()).into(), Some(JSON)),
        Value::Str(text) => (text.to_string().into(), Some(HeaderValue::from_static("text/plain; charset=utf-8"))),
        body => match binary(body) {
            Some((bytes, content_type)) => (bytes, Some(content_type)),
            None => (to_json(body).into(), Some(JSON)),
        },
    };
    let mut headers = scripted.headers.clone();
    if let Some(content_type) = content_type {
        headers.entry(header::CONTENT_TYPE).or_insert(content_type);
    }
    let after = Some(Duration::from_millis(scripted.after_ms));
    MockResponse { status: scripted.status, headers, body: ChunkedBody::from_bytes(body), after, by }
}

fn binary(body: &Value) -> Option<(Bytes, HeaderValue)> {
    let content_type = body.get("$content-type").and_then(Value::as_str)?;
    let bytes = BASE64.decode(body.get("$content").and_then(Value::as_str)?).ok()?;
    Some((bytes.into(), HeaderValue::from_str(content_type).ok()?))
}

fn from_model_reply(
    question: &ModelQuery,
    reply: &super::rules::ScriptedModelReply,
    turn: u64,
    by: String,
) -> MockResponse {
    let status = reply.status.unwrap_or(StatusCode::OK);
    let mut answer = if status.is_success() {
        model_success(question, reply, turn)
    } else {
        let message = reply.text.as_deref().or(status.canonical_reason()).unwrap_or_default();
        MockResponse::json(status, &question.wire.error(status, message, "mock"))
    };
    if let Some(seconds) = reply.retry_after {
        answer.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    let after = (reply.fault != Some(ScriptedFault::Hang)).then(|| Duration::from_millis(reply.after_ms));
    MockResponse { status, after, by, ..answer }
}

fn model_success(question: &ModelQuery, reply: &super::rules::ScriptedModelReply, turn: u64) -> MockResponse {
    let model = question.body.get("model").cloned().unwrap_or_default();
    let sent = ModelResponse { protocol: question.wire, model, reply, turn };
    let is_cut = reply.fault == Some(ScriptedFault::Truncated);
    let flag = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
    if !flag(question.body.get("stream")) {
        let body = to_json(&sent.to_value());
        let mut answer = MockResponse::json(StatusCode::OK, &Value::Null);
        answer.body = match is_cut {
            true => ChunkedBody::from_events(vec![body.chars().take(body.chars().count() / 2).collect()]).then_abort(),
            false => ChunkedBody::from_bytes(body.into()),
        };
        return answer;
    }
    let with_usage = question.body.get("stream_options").is_none_or(|options| flag(options.get("include_usage")));
    let mut stream = sent.stream(with_usage);
    if is_cut {
        // Some events are sent, but never the one that ends the stream.
        stream.events.truncate((stream.events.len() - stream.tail).div_ceil(2).max(1));
    }
    let body = ChunkedBody::from_events(stream.events);
    MockResponse {
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, EVENTS)]),
        body: if is_cut { body.then_abort() } else { body },
        after: Some(Duration::ZERO),
        by: String::new(),
    }
}

pub(super) async fn handle(request: Request<Incoming>, state: Arc<ScriptState>) -> io::Result<Response<ChunkedBody>> {
    let received = ReceivedRequest::read(request).await?;
    let answer = state.respond(&received);
    match answer.after {
        Some(after) if after.is_zero() => {}
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
    (state.on_request)(&ServedRequest {
        method: received.method.to_string(),
        path: received.target,
        status: answer.status.as_u16(),
        by: answer.by,
    });
    let mut response = Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}
