//! Selects and builds the response to a request.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use windlass_value::{Value, to_json};

use super::ServedRequest;
use super::answers::{MockAnswer, MockFault};
use super::body::ChunkedBody;
use super::counts::MatchCounts;
use super::file::MockFile;
use super::log::ModelLog;
use super::model::{ModelAnswer, ModelMemory, ModelQuery};
use super::patterns::{innermost_iteration, matches_glob, url_path};
use super::received::{ReceivedRequest, header_text};
use super::rules::{MockCondition, MockRule, query_has};
use super::wire::ModelResponse;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A mock file and its progress.
pub(super) struct MockState {
    file: RwLock<Arc<MockFile>>,
    counts: Mutex<MatchCounts>,
    memory: Mutex<ModelMemory>,
    pub(super) model_requests: AtomicU64,
    pub(super) log: ModelLog,
    on_request: Box<dyn Fn(&ServedRequest) + Send + Sync>,
}

impl MockState {
    pub(super) fn new(
        file: MockFile,
        log: ModelLog,
        on_request: Box<dyn Fn(&ServedRequest) + Send + Sync>,
    ) -> MockState {
        MockState {
            file: RwLock::new(Arc::new(file)),
            counts: Mutex::default(),
            memory: Mutex::default(),
            model_requests: AtomicU64::new(0),
            log,
            on_request,
        }
    }

    /// Replaces the rules. Calls are counted anew.
    pub(super) fn replace(&self, file: MockFile) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(file);
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = MatchCounts::default();
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = ModelMemory::default();
    }

    fn respond(&self, request: &ReceivedRequest) -> MockResponse {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner).clone();
        if file.may_answer_models()
            && let Some(question) = ModelQuery::from_request(request)
        {
            return self.respond_as_model(&file, &question);
        }
        match self.answer(&file, request) {
            Some((answer, by)) => from_answer(answer, request, by),
            None => unmatched(&file, request),
        }
    }

    /// Returns the answer of the first matching rule.
    fn answer<'f>(&self, file: &'f MockFile, request: &ReceivedRequest) -> Option<(&'f MockAnswer, String)> {
        let rules = file.rules.iter().enumerate().filter(|(_, rule)| rule.targets.requests);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.count(rules.clone().map(|(_, rule)| rule), |rule| matches(&rule.when, request));
        let attempt = header_text(&request.headers, "x-windlass-attempt").and_then(|text| text.parse().ok());
        let mut due = rules.filter(|(_, rule)| matches(&rule.when, request));
        due.find_map(|(index, rule)| {
            let call = counts.call_number(rule);
            if !has_numbers(rule, request, call, attempt.unwrap_or(1)) {
                return None;
            }
            let (answer, place) = rule.answers.pick(call, attempt.unwrap_or(1))?;
            let place = place.map(|place| format!(", answer {place}")).unwrap_or_default();
            Some((answer, format!("rule {}{place}", index + 1)))
        })
    }

    fn respond_as_model(&self, file: &MockFile, question: &ModelQuery) -> MockResponse {
        self.model_requests.fetch_add(1, Ordering::Relaxed);
        let answer = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            question.answer(&file.rules, &mut memory)
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
}

fn unmatched(file: &MockFile, request: &ReceivedRequest) -> MockResponse {
    let rules = file.rules.iter().filter(|rule| rule.targets.requests).map(|rule| {
        let when = &rule.when;
        let step = when.step.iter().map(|step| format!(" from step {}", step.text())).next().unwrap_or_default();
        let method = when.method.as_deref().unwrap_or("any");
        Value::from(format!("{method} {}{step}", when.url.as_deref().unwrap_or("*")))
    });
    let message = format!("no rule of the mock file matches {} {}", request.method, request.target);
    let body = Value::object([("error", Value::from(message)), ("rules", Value::list(rules.collect()))]);
    let mut answer = MockResponse::json(StatusCode::INTERNAL_SERVER_ERROR, &body);
    answer.by = "no rule matches".to_owned();
    answer
}

/// Matches a request. Of a pattern with a host only the path counts: requests to it come here.
fn matches(when: &MockCondition, request: &ReceivedRequest) -> bool {
    let step = || header_text(&request.headers, "x-windlass-path");
    let run = || header_text(&request.headers, "x-windlass-run");
    when.url.as_ref().is_none_or(|url| matches_glob(url_path(url), &request.path))
        && when.method.as_ref().is_none_or(|method| *method == *request.method.as_str())
        && when.query.iter().all(|(name, value)| query_has(&request.query, name, value))
        && when.step.as_ref().is_none_or(|pattern| step().is_some_and(|path| pattern.matches_task(&path)))
        && when.run.as_ref().is_none_or(|wanted| run().is_some_and(|run| matches_glob(wanted, &run)))
        && when.contains.as_ref().is_none_or(|text| String::from_utf8_lossy(&request.body).contains(text.as_str()))
}

fn has_numbers(rule: &MockRule, request: &ReceivedRequest, call: u64, attempt: u64) -> bool {
    let numbers = &rule.numbers;
    let iteration = || header_text(&request.headers, "x-windlass-path").as_deref().and_then(innermost_iteration);
    numbers.call.is_none_or(|wanted| wanted == call)
        && numbers.attempt.is_none_or(|wanted| wanted == attempt)
        && numbers.iteration.is_none_or(|wanted| iteration() == Some(wanted))
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

fn from_answer(answer: &MockAnswer, request: &ReceivedRequest, by: String) -> MockResponse {
    let (body, content_type) = match answer.body.as_ref().unwrap_or(&Value::Null) {
        Value::Null => (Bytes::new(), None),
        Value::Str(text) if &**text == "$echo" => (to_json(&request.echo()).into(), Some(JSON)),
        Value::Str(text) => (text.to_string().into(), Some(HeaderValue::from_static("text/plain; charset=utf-8"))),
        body => match binary(body) {
            Some((bytes, content_type)) => (bytes, Some(content_type)),
            None => (to_json(body).into(), Some(JSON)),
        },
    };
    let mut headers = answer.headers.clone();
    if let Some(content_type) = content_type {
        headers.entry(header::CONTENT_TYPE).or_insert(content_type);
    }
    if let Some(seconds) = answer.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    let body = match answer.fault == Some(MockFault::Truncated) {
        true => ChunkedBody::from_bytes(body.slice(..body.len() / 2)).then_abort(),
        false => ChunkedBody::from_bytes(body),
    };
    MockResponse { status: answer.status.unwrap_or(StatusCode::OK), headers, body, after: delay(answer), by }
}

/// Returns the delay of an answer; `None` never responds.
fn delay(answer: &MockAnswer) -> Option<Duration> {
    (answer.fault != Some(MockFault::Hang)).then(|| Duration::from_millis(answer.delay_ms))
}

fn binary(body: &Value) -> Option<(Bytes, HeaderValue)> {
    let content_type = body.get("$content-type").and_then(Value::as_str)?;
    let bytes = BASE64.decode(body.get("$content").and_then(Value::as_str)?).ok()?;
    Some((bytes.into(), HeaderValue::from_str(content_type).ok()?))
}

fn from_model_reply(question: &ModelQuery, reply: &MockAnswer, turn: u64, by: String) -> MockResponse {
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
    MockResponse { status, after: delay(reply), by, ..answer }
}

fn model_success(question: &ModelQuery, reply: &MockAnswer, turn: u64) -> MockResponse {
    let model = question.body.get("model").cloned().unwrap_or_default();
    let sent = ModelResponse { protocol: question.wire, model, reply, turn };
    let is_cut = reply.fault == Some(MockFault::Truncated);
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

pub(super) async fn handle(request: Request<Incoming>, state: Arc<MockState>) -> io::Result<Response<ChunkedBody>> {
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
