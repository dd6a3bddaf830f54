//! What the service answers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use windlass_value::{Value, to_json};

use super::body::{Repeated, Reply, gzip, whole};
use super::{State, lock};
use crate::mock::asked::Asked;

fn text<'a>(asked: &'a Asked, name: &str) -> Option<&'a str> {
    asked.query.get(name).and_then(Value::as_str)
}

fn number(asked: &Asked, name: &str, otherwise: u64) -> u64 {
    text(asked, name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

pub(super) async fn answer(request: Request<Incoming>, state: Arc<State>) -> io::Result<Response<Reply>> {
    let asked = Asked::read(request).await?;
    let path = asked.path.clone();
    let (route, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let response = match route {
        "json" => json(&asked.echo()),
        "status" => status(&asked, rest),
        "flaky" => flaky(&asked, &state),
        "slow" => slow(&asked).await,
        "pages" => json(&page(&asked)),
        "big" => big(&asked, &state),
        "gzip" => packed(&asked, &state),
        "bad-json" => typed("application/json", "{\"status\": \"ok\", \"items\": [1, 2, oops]}"),
        "echo-bad-json" => {
            typed("application/json", format!("no JSON: {:?}", asked.headers.get(header::AUTHORIZATION)))
        }
        "text" => typed("text/plain", "hello"),
        "latin1" => typed("text/plain; charset=iso-8859-1", &b"Gr\xfc\xdfe"[..]),
        "form" => typed("application/x-www-form-urlencoded", "name=a+b&note=%26"),
        "raw" => raw(&asked),
        "binary" => typed("application/octet-stream", &b"\x00\xff"[..]),
        "empty" => with_status(typed("application/json", ""), StatusCode::OK),
        "redirect" => redirect(&asked),
        "hops" => hops(rest),
        "count" => count(&asked, &state),
        "effects" => effects(&asked, &state),
        "async" => accepted(&asked, rest, &state),
        "jobs" => json(&job(&asked, rest, &state)),
        "close" => return Err(io::ErrorKind::ConnectionAborted.into()),
        _ => with_status(json(&Value::object([("error", "there is no such route")])), StatusCode::NOT_FOUND),
    };
    Ok(response)
}

fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(whole(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json(value: &Value) -> Response<Reply> {
    typed("application/json", to_json(value))
}

fn with_status(mut response: Response<Reply>, status: StatusCode) -> Response<Reply> {
    *response.status_mut() = status;
    response
}

fn with_header(mut response: Response<Reply>, name: HeaderName, value: Option<&str>) -> Response<Reply> {
    if let Some(value) = value.and_then(|text| HeaderValue::from_str(text).ok()) {
        response.headers_mut().append(name, value);
    }
    response
}

fn status(asked: &Asked, code: &str) -> Response<Reply> {
    let status =
        code.parse().ok().and_then(|code: u16| StatusCode::from_u16(code).ok()).filter(|status| status.as_u16() >= 200);
    let status = status.unwrap_or(StatusCode::BAD_REQUEST);
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let body = Value::object([("status", i64::from(status.as_u16()))]);
    let response = if has_body { json(&body) } else { Response::new(whole("")) };
    let response = with_header(response, header::RETRY_AFTER, text(asked, "retry-after"));
    // Twice the same header, as some servers do.
    let response = with_header(response, header::VARY, Some("accept"));
    with_status(with_header(response, header::VARY, Some("origin")), status)
}

fn flaky(asked: &Asked, state: &State) -> Response<Reply> {
    let times = state.count(format!("flaky/{}", text(asked, "key").unwrap_or_default()));
    let body = json(&Value::object([("times", times)]));
    let fails = times <= number(asked, "fail", 1);
    with_status(body, if fails { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK })
}

async fn slow(asked: &Asked) -> Response<Reply> {
    let ms = number(asked, "ms", 0);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    json(&Value::object([("ms", ms)]))
}

fn page(asked: &Asked) -> Value {
    let (page, pages, size) =
        (number(asked, "page", 1), number(asked, "pages", 5), number(asked, "size", 10).min(10_000));
    let first = page.saturating_sub(1).saturating_mul(size);
    let exists = (1..=pages).contains(&page);
    let ids = if exists { first..first.saturating_add(size) } else { 0..0 };
    let items = ids.map(|id| Value::object([("id", id)])).collect();
    let has_more = exists && page < pages;
    Value::object([
        ("page", Value::from(page)),
        ("items", Value::list(items)),
        ("hasMore", Value::from(has_more)),
        ("nextPage", Value::from(has_more.then(|| page + 1))),
    ])
}

fn big(asked: &Asked, state: &State) -> Response<Reply> {
    let announced = text(asked, "length").is_some();
    let body = Repeated::text(number(asked, "mb", 1), announced, state.bytes_sent.clone());
    typed("text/plain", "").map(|_| Either::Right(body))
}

fn packed(asked: &Asked, state: &State) -> Response<Reply> {
    let response = match number(asked, "mb", 0) {
        0 => typed("application/json", gzip(b"{\"packed\": true}")),
        mib => typed("text/plain", "").map(|_| Either::Right(Repeated::packed(mib, state.bytes_sent.clone()))),
    };
    with_header(response, header::CONTENT_ENCODING, Some(text(asked, "as").unwrap_or("gzip")))
}

fn redirect(asked: &Asked) -> Response<Reply> {
    let status = text(asked, "code").and_then(|code| code.parse().ok()).unwrap_or(StatusCode::FOUND);
    with_status(with_header(typed("text/plain", "elsewhere"), header::LOCATION, text(asked, "to")), status)
}

fn hops(left: &str) -> Response<Reply> {
    let left: u64 = left.parse().unwrap_or(0);
    let target = if left > 1 { (left - 1).to_string() } else { "../json/end".to_owned() };
    with_status(with_header(typed("text/plain", ""), header::LOCATION, Some(&target)), StatusCode::FOUND)
}

fn count(asked: &Asked, state: &State) -> Response<Reply> {
    let key = asked.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let times = state.count_effect(key, &asked.path);
    json(&Value::object([("key", Value::from(key)), ("times", Value::from(times))]))
}

fn effects(asked: &Asked, state: &State) -> Response<Reply> {
    if asked.method == Method::DELETE {
        lock(&state.effects).clear();
    }
    let effects = state.effects().into_iter().map(|effect| {
        let times = Value::from(effect.times);
        Value::object([("key", Value::from(effect.key)), ("path", Value::from(effect.path)), ("times", times)])
    });
    json(&Value::list(effects.collect()))
}

fn job(asked: &Asked, id: &str, state: &State) -> Value {
    let polls = state.count(format!("jobs/{id}"));
    let status = if polls > number(asked, "polls", 3) { "complete" } else { "running" };
    Value::object([("id", Value::from(id)), ("status", Value::from(status)), ("polls", Value::from(polls))])
}

/// 202 with where to ask next, as often as `times` says; then the request that has asked.
fn accepted(asked: &Asked, id: &str, state: &State) -> Response<Reply> {
    if state.count(format!("async/{id}")) > number(asked, "times", 2) {
        return with_status(json(&asked.echo()), status_of(asked, "end"));
    }
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    let target = text(asked, "to").map_or_else(|| format!("/async/{id}?{query}"), str::to_owned);
    let response = with_header(json(&asked.echo()), header::LOCATION, Some(&target));
    let response = with_header(response, header::RETRY_AFTER, text(asked, "retry-after"));
    with_status(response, StatusCode::ACCEPTED)
}

fn status_of(asked: &Asked, name: &str) -> StatusCode {
    text(asked, name).and_then(|code| code.parse().ok()).unwrap_or(StatusCode::OK)
}

/// The body as it came, under its own type.
fn raw(asked: &Asked) -> Response<Reply> {
    let content_type =
        asked.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let value = Value::object([
        ("contentType", content_type.to_owned()),
        ("text", String::from_utf8_lossy(&asked.body).into_owned()),
    ]);
    json(&value)
}
