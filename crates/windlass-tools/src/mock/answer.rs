//! From a request to the script's answer.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use windlass_value::{Value, to_json};

use super::Served;
use super::asked::Asked;
use super::model::{self, Turns};
use super::script::{Route, Script, Scripted};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A script and how far it has got.
pub(super) struct Answering {
    script: Script,
    /// How often each route has answered.
    answered: Vec<AtomicU64>,
    turns: Mutex<Turns>,
    pub(super) model_requests: AtomicU64,
    watch: Box<dyn Fn(&Served) + Send + Sync>,
}

impl Answering {
    pub(super) fn new(script: Script, watch: Box<dyn Fn(&Served) + Send + Sync>) -> Answering {
        let answered = script.routes.iter().map(|_| AtomicU64::new(0)).collect();
        Answering { script, answered, turns: Mutex::default(), model_requests: AtomicU64::new(0), watch }
    }

    /// The route for a request, and which of its replies is due.
    fn route(&self, asked: &Asked) -> Option<(usize, usize)> {
        let index = self.script.routes.iter().position(|route| fits(route, asked))?;
        let times = self.answered[index].fetch_add(1, Ordering::Relaxed);
        let last = self.script.routes[index].replies.len().saturating_sub(1);
        Some((index, usize::try_from(times).unwrap_or(last).min(last)))
    }

    fn answer(&self, asked: &Asked) -> Answer {
        let is_model = asked.method == Method::POST && asked.path.ends_with("/chat/completions");
        if let Some(rules) = self.script.model.as_ref().filter(|_| is_model) {
            self.model_requests.fetch_add(1, Ordering::Relaxed);
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            return from_model(model::answer(rules, &mut turns, &asked.body));
        }
        match self.route(asked) {
            Some((route, reply)) => {
                let by = format!("route {}, reply {}", route + 1, reply + 1);
                from_script(&self.script.routes[route].replies[reply], asked, by)
            }
            None => self.unforeseen(asked),
        }
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
    body: Bytes,
    after: Duration,
    by: String,
}

impl Answer {
    fn json(status: StatusCode, body: &Value) -> Answer {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, JSON)]);
        Answer { status, headers, body: to_json(body).into(), after: Duration::ZERO, by: String::new() }
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
    Answer { status: scripted.status, headers, body, after: Duration::from_millis(scripted.after_ms), by }
}

fn binary(body: &Value) -> Option<(Bytes, HeaderValue)> {
    let content_type = body.get("$content-type").and_then(Value::as_str)?;
    let bytes = BASE64.decode(body.get("$content").and_then(Value::as_str)?).ok()?;
    Some((bytes.into(), HeaderValue::from_str(content_type).ok()?))
}

fn from_model(said: model::Said) -> Answer {
    let mut answer = Answer::json(said.status, &said.body);
    if let Some(seconds) = said.retry_after {
        answer.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer.by = said.by;
    answer
}

pub(super) async fn answer(request: Request<Incoming>, answering: Arc<Answering>) -> io::Result<Response<Full<Bytes>>> {
    let asked = Asked::read(request).await?;
    let answer = answering.answer(&asked);
    if !answer.after.is_zero() {
        tokio::time::sleep(answer.after).await;
    }
    (answering.watch)(&Served {
        method: asked.method.to_string(),
        path: asked.target,
        status: answer.status.as_u16(),
        by: answer.by,
    });
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}
