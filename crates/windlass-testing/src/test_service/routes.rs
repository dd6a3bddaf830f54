//! The routes of the service.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use windlass_value::{Value, to_json};

use super::body::{RepeatedBody, ServiceBody, full_body, gzip};
use super::{ServiceState, lock};
use crate::mock::received::ReceivedRequest;

fn query_text<'a>(request: &'a ReceivedRequest, name: &str) -> Option<&'a str> {
    request.query.get(name).and_then(Value::as_str)
}

fn query_number(request: &ReceivedRequest, name: &str, default: u64) -> u64 {
    query_text(request, name).and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub(super) async fn handle(request: Request<Incoming>, state: Arc<ServiceState>) -> io::Result<Response<ServiceBody>> {
    let received = ReceivedRequest::read(request).await?;
    let path = received.path.clone();
    let (route, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let response = match route {
        "json" => json(&received.echo()),
        "status" => status(&received, rest),
        "flaky" => flaky(&received, &state),
        "slow" => slow(&received).await,
        "pages" => json(&page(&received)),
        "big" => big(&received, &state),
        "gzip" => gzipped(&received, &state),
        "bad-json" => typed("application/json", "{\"status\": \"ok\", \"items\": [1, 2, oops]}"),
        "echo-bad-json" => {
            typed("application/json", format!("no JSON: {:?}", received.headers.get(header::AUTHORIZATION)))
        }
        "text" => typed("text/plain", "hello"),
        "latin1" => typed("text/plain; charset=iso-8859-1", &b"Gr\xfc\xdfe"[..]),
        "form" => typed("application/x-www-form-urlencoded", "name=a+b&note=%26"),
        "raw" => raw(&received),
        "binary" => typed("application/octet-stream", &b"\x00\xff"[..]),
        "empty" => with_status(typed("application/json", ""), StatusCode::OK),
        "redirect" => redirect(&received),
        "hops" => hops(rest),
        "count" => count(&received, &state),
        "effects" => effects(&received, &state),
        "async" => accepted(&received, rest, &state),
        "jobs" => json(&job(&received, rest, &state)),
        "close" => return Err(io::ErrorKind::ConnectionAborted.into()),
        _ => with_status(json(&Value::object([("error", "there is no such route")])), StatusCode::NOT_FOUND),
    };
    Ok(response)
}

fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Response<ServiceBody> {
    let mut response = Response::new(full_body(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json(value: &Value) -> Response<ServiceBody> {
    typed("application/json", to_json(value))
}

fn with_status(mut response: Response<ServiceBody>, status: StatusCode) -> Response<ServiceBody> {
    *response.status_mut() = status;
    response
}

fn with_header(mut response: Response<ServiceBody>, name: HeaderName, value: Option<&str>) -> Response<ServiceBody> {
    if let Some(value) = value.and_then(|text| HeaderValue::from_str(text).ok()) {
        response.headers_mut().append(name, value);
    }
    response
}

fn status(request: &ReceivedRequest, code: &str) -> Response<ServiceBody> {
    let status =
        code.parse().ok().and_then(|code: u16| StatusCode::from_u16(code).ok()).filter(|status| status.as_u16() >= 200);
    let status = status.unwrap_or(StatusCode::BAD_REQUEST);
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let body = Value::object([("status", i64::from(status.as_u16()))]);
    let response = if has_body { json(&body) } else { Response::new(full_body("")) };
    let response = with_header(response, header::RETRY_AFTER, query_text(request, "retry-after"));
    // The same header twice, as some servers send it.
    let response = with_header(response, header::VARY, Some("accept"));
    with_status(with_header(response, header::VARY, Some("origin")), status)
}

fn flaky(request: &ReceivedRequest, state: &ServiceState) -> Response<ServiceBody> {
    let times = state.count(format!("flaky/{}", query_text(request, "key").unwrap_or_default()));
    let body = json(&Value::object([("times", times)]));
    let fails = times <= query_number(request, "fail", 1);
    with_status(body, if fails { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK })
}

async fn slow(request: &ReceivedRequest) -> Response<ServiceBody> {
    let ms = query_number(request, "ms", 0);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    json(&Value::object([("ms", ms)]))
}

fn page(request: &ReceivedRequest) -> Value {
    let (page, pages, size) = (
        query_number(request, "page", 1),
        query_number(request, "pages", 5),
        query_number(request, "size", 10).min(10_000),
    );
    let first = page.saturating_sub(1).saturating_mul(size);
    let exists = (1..=pages).contains(&page);
    let ids = if exists { first..first.saturating_add(size) } else { 0..0 };
    let items = ids.map(|id| Value::object([("id", id)])).collect();
    let has_more = exists && page < pages;
    Value::object([
        ("page", Value::from(page)),
        ("items", Value::list(items)),
        ("has_more", Value::from(has_more)),
        ("next_page", Value::from(has_more.then(|| page + 1))),
    ])
}

fn big(request: &ReceivedRequest, state: &ServiceState) -> Response<ServiceBody> {
    let announced = query_text(request, "length").is_some();
    let body = RepeatedBody::text(query_number(request, "mb", 1), announced, state.bytes_sent.clone());
    typed("text/plain", "").map(|_| Either::Right(body))
}

fn gzipped(request: &ReceivedRequest, state: &ServiceState) -> Response<ServiceBody> {
    let response = match query_number(request, "mb", 0) {
        0 => typed("application/json", gzip(b"{\"packed\": true}")),
        mib => typed("text/plain", "").map(|_| Either::Right(RepeatedBody::gzipped(mib, state.bytes_sent.clone()))),
    };
    with_header(response, header::CONTENT_ENCODING, Some(query_text(request, "as").unwrap_or("gzip")))
}

fn redirect(request: &ReceivedRequest) -> Response<ServiceBody> {
    let status = query_text(request, "code").and_then(|code| code.parse().ok()).unwrap_or(StatusCode::FOUND);
    with_status(with_header(typed("text/plain", "elsewhere"), header::LOCATION, query_text(request, "to")), status)
}

fn hops(left: &str) -> Response<ServiceBody> {
    let left: u64 = left.parse().unwrap_or(0);
    let target = if left > 1 { (left - 1).to_string() } else { "../json/end".to_owned() };
    with_status(with_header(typed("text/plain", ""), header::LOCATION, Some(&target)), StatusCode::FOUND)
}

fn count(request: &ReceivedRequest, state: &ServiceState) -> Response<ServiceBody> {
    let key = request.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let times = state.count_effect(key, &request.path);
    json(&Value::object([("key", Value::from(key)), ("times", Value::from(times))]))
}

fn effects(request: &ReceivedRequest, state: &ServiceState) -> Response<ServiceBody> {
    if request.method == Method::DELETE {
        lock(&state.effects).clear();
    }
    let effects = state.effects().into_iter().map(|effect| {
        let times = Value::from(effect.times);
        Value::object([("key", Value::from(effect.key)), ("path", Value::from(effect.path)), ("times", times)])
    });
    json(&Value::list(effects.collect()))
}

fn job(request: &ReceivedRequest, id: &str, state: &ServiceState) -> Value {
    let polls = state.count(format!("jobs/{id}"));
    let status = if polls > query_number(request, "polls", 3) { "complete" } else { "running" };
    Value::object([("id", Value::from(id)), ("status", Value::from(status)), ("polls", Value::from(polls))])
}

/// Returns 202 with the next address `times` times; then echoes the polling request.
fn accepted(request: &ReceivedRequest, id: &str, state: &ServiceState) -> Response<ServiceBody> {
    if state.count(format!("async/{id}")) > query_number(request, "times", 2) {
        return with_status(json(&request.echo()), query_status(request, "end"));
    }
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    let target = query_text(request, "to").map_or_else(|| format!("/async/{id}?{query}"), str::to_owned);
    let response = with_header(json(&request.echo()), header::LOCATION, Some(&target));
    let response = with_header(response, header::RETRY_AFTER, query_text(request, "retry-after"));
    with_status(response, StatusCode::ACCEPTED)
}

fn query_status(request: &ReceivedRequest, name: &str) -> StatusCode {
    query_text(request, name).and_then(|code| code.parse().ok()).unwrap_or(StatusCode::OK)
}

/// Returns the body as received, with its content type.
fn raw(request: &ReceivedRequest) -> Response<ServiceBody> {
    let content_type =
        request.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let value = Value::object([
        ("content_type", content_type.to_owned()),
        ("text", String::from_utf8_lossy(&request.body).into_owned()),
    ]);
    json(&value)
}
