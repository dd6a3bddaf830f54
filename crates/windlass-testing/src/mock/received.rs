//! A request as the services of this crate receive it.

use std::io;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use percent_encoding::percent_decode_str;
use windlass_value::{Map, Value, parse_json};

/// A request whose body has been read.
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Path and query as received.
    pub(crate) target: String,
    /// A name that occurs more than once has an array.
    pub(crate) query: Map,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ReceivedRequest {
    pub(crate) async fn read(request: Request<Incoming>) -> io::Result<ReceivedRequest> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let path = head.uri.path().to_owned();
        let target = head.uri.path_and_query().map_or_else(|| path.clone(), |whole| whole.as_str().to_owned());
        Ok(ReceivedRequest {
            method: head.method,
            path,
            target,
            query: parse_query(head.uri.query()),
            headers: head.headers,
            body,
        })
    }

    /// Returns the request as a value: method, path, query, headers, body.
    pub(crate) fn echo(&self) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers: Map = self.headers.iter().map(|(name, value)| (name.as_str(), text(value.as_bytes()))).collect();
        let body = text(&self.body);
        let body = if body.is_empty() { Value::Null } else { parse_json(&body).unwrap_or_else(|_| Value::from(body)) };
        Value::object([
            ("method", Value::from(self.method.as_str())),
            ("path", Value::from(self.path.as_str())),
            ("query", Value::from(self.query.clone())),
            ("headers", Value::from(headers)),
            ("body", body),
        ])
    }
}

pub(super) fn parse_query(text: Option<&str>) -> Map {
    let mut query = Map::new();
    for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (unescape(name), Value::from(unescape(value)));
        let value = match query.get(&name) {
            None => value,
            Some(Value::List(items)) => Value::list(items.iter().cloned().chain([value]).collect()),
            Some(first) => Value::list(vec![first.clone(), value]),
        };
        query.insert(name, value);
    }
    query
}

/// Returns a header that the engine sends, decoded.
pub(super) fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| unescape(&String::from_utf8_lossy(value.as_bytes())))
}

/// Decodes the percent-encoding of a text; invalid escapes are kept.
fn unescape(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
