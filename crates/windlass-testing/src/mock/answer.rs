//! From a request to the script's answer.

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

use super::Served;
use super::asked::Asked;
use super::body::ChunkedBody;
use super::log::Log;
use super::model::{Memory, Question, Said};
use super::rules::{Fault, Rule};
use super::script::{Route, Script, Scripted};
use super::wire::ModelResponse;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A script and how far it has got.
pub(super) struct Answering {
    script: Script,
    /// How often each route has answered.
    answered: Vec<AtomicU64>,
    memory: Mutex<Memory>,
    pub(super) model_requests: AtomicU64,
    pub(super) log: Log,
    watch: Box<dyn Fn(&Served) + Send + Sync>,
}

impl Answering {
    pub(super) fn new(script: Script, log: Log, watch: Box<dyn Fn(&Served) + Send + Sync>) -> Answering {
        let answered = script.routes.iter().map(|_| AtomicU64::new(0)).collect();
        Answering { script, answered, memory: Mutex::default(), model_requests: AtomicU64::new(0), log, watch }
    }

    /// The route for a request, and which of its replies is due.
    fn route(&self, asked: &Asked) -> Option<(usize, usize)> {
        let index = self.script.routes.iter().position(|route| fits(route, asked))?;
        let times = self.answered[index].fetch_add(1, Ordering::Relaxed);
        let last = self.script.routes[index].replies.len().saturating_sub(1);
        Some((index, usize::try_from(times).unwrap_or(last).min(last)))
    }

    fn answer(&self, asked: &Asked) -> Answer {
        if let Some(rules) = &self.script.model
            && let Some(question) = Question::of(asked)
        {
            return self.model_answer(rules, &question);
        }
        match self.route(asked) {
            Some((route, reply)) => {
                let by = format!("route {}, reply {}", route + 1, reply + 1);
                from_script(&self.script.routes[route].replies[reply], asked, by)
            }
            None => self.unforeseen(asked),
        }
    }

    fn model_answer(&self, rules: &[Rule], question: &Question) -> Answer {
        self.model_requests.fetch_add(1, Ordering::Relaxed);
        let said = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            question.answer(rules, &mut memory)
        };
        let answer = match said {
            Said::Reply { reply, turn, by } => scripted_answer(question, reply, turn, by),
            Said::Refused { status, message, code, by } => {
                Answer { by, ..Answer::json(status, &question.wire.error(status, &message, code)) }
            }
        };
        self.log.note(question, answer.status.as_u16(), &answer.by);
        answer
    }

    fn unforeseen(&self, asked: &Asked) -> Answer {
        let paths = self.script.routes.iter().map(|route| {
            let method = route.method.as_ref().map_or("any", Method::as_str);
            Value::from(format!("{method} {}", route.path))
        });
        let message = format!("no route of the script fits {} {}", asked.method, asked.target);
        let body = Value::object([("error", Value::from(message)), ("routes", Value::list(paths.collect()))]);
        let mut answer = Answer::json(StatusCode::INTERNAL_SERVER_ERROR, &body);
        answer.by = "no route fits".to_owned();
        answer
    }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: ChunkedBody,
    /// None: never.
    after: Option<Duration>,
    by: String,
}

impl Answer {
    fn json(status: StatusCode, body: &Value) -> Answer {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, JSON)]);
        let body = ChunkedBody::whole(to_json(body).into());
        Answer { status, headers, body, after: Some(Duration::ZERO), by: String::new() }
    }
}

fn fits(route: &Route, asked: &Asked) -> bool {
    let path = match route.path.strip_suffix('*') {
        Some(start) => asked.path.starts_with(start),
        None => asked.path == route.path,
    };
    let method = route.method.as_ref().is_none_or(|method| *method == asked.method);
    path && method && route.query.iter().all(|(name, value)| asked.query.get(name) == Some(value))
}

fn from_script(scripted: &Scripted, asked: &Asked, by: String) -> Answer {
    let (body, content_type) = match &scripted.body {
        Value::Null => (Bytes::new(), None),
        Value::Str(text) if &**text == "$echo" => (to_json(&asked.echo()).into(), Some(JSON)),
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
    Answer { status: scripted.status, headers, body: ChunkedBody::whole(body), after, by }
}

fn binary(body: &Value) -> Option<(Bytes, HeaderValue)> {
    let content_type = body.get("$content-type").and_then(Value::as_str)?;
    let bytes = BASE64.decode(body.get("$content").and_then(Value::as_str)?).ok()?;
    Some((bytes.into(), HeaderValue::from_str(content_type).ok()?))
}

fn scripted_answer(question: &Question, reply: &super::rules::Reply, turn: u64, by: String) -> Answer {
    let status = reply.status.unwrap_or(StatusCode::OK);
    let mut answer = if status.is_success() {
        success(question, reply, turn)
    } else {
        let message = reply.text.as_deref().or(status.canonical_reason()).unwrap_or_default();
        Answer::json(status, &question.wire.error(status, message, "mock"))
    };
    if let Some(seconds) = reply.retry_after {
        answer.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    let after = (reply.fault != Some(Fault::Hang)).then(|| Duration::from_millis(reply.after_ms));
    Answer { status, after, by, ..answer }
}

fn success(question: &Question, reply: &super::rules::Reply, turn: u64) -> Answer {
    let model = question.body.get("model").cloned().unwrap_or_default();
    let sent = ModelResponse { wire: question.wire, model, reply, turn };
    let is_cut = reply.fault == Some(Fault::Truncated);
    let flag = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or(false);
    if !flag(question.body.get("stream")) {
        let body = to_json(&sent.whole());
        let mut answer = Answer::json(StatusCode::OK, &Value::Null);
        answer.body = match is_cut {
            true => ChunkedBody::from_events(vec![body.chars().take(body.chars().count() / 2).collect()]).broken(),
            false => ChunkedBody::whole(body.into()),
        };
        return answer;
    }
    let with_usage = question.body.get("stream_options").is_none_or(|options| flag(options.get("include_usage")));
    let mut stream = sent.stream(with_usage);
    if is_cut {
        // Something has come, and never what says that it was all.
        stream.events.truncate((stream.events.len() - stream.tail).div_ceil(2).max(1));
    }
    let body = ChunkedBody::from_events(stream.events);
    Answer {
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, EVENTS)]),
        body: if is_cut { body.broken() } else { body },
        after: Some(Duration::ZERO),
        by: String::new(),
    }
}

pub(super) async fn answer(request: Request<Incoming>, answering: Arc<Answering>) -> io::Result<Response<ChunkedBody>> {
    let asked = Asked::read(request).await?;
    let answer = answering.answer(&asked);
    match answer.after {
        Some(after) if after.is_zero() => {}
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
    (answering.watch)(&Served {
        method: asked.method.to_string(),
        path: asked.target,
        status: answer.status.as_u16(),
        by: answer.by,
    });
    let mut response = Response::new(answer.body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}
