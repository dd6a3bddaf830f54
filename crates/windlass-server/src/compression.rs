//! Compression of responses that are not event streams. Event streams are not compressed: the compressor would hold
//! events back.

use std::io::Write;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::Body as _;

use crate::ApiProblem;

/// Smaller bodies fit into one packet anyway.
pub(crate) const MIN_BYTES: usize = 1_024;

/// Larger bodies are sent as they are, since compressing one needs it twice in memory.
const MAX_BYTES: usize = 32 * 1_024 * 1_024;

/// Larger bodies are compressed on another thread, so that no other request waits.
const MAX_INLINE_BYTES: usize = 64 * 1_024;

/// Returns whether the client accepts this content coding.
pub(crate) fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let mut by_wildcard = false;
    for one in lines.flat_map(|line| line.split(',')) {
        let mut parts = one.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")).map(|text| text.trim().parse::<f32>());
        let is_accepted = quality.is_none_or(|quality| quality.is_ok_and(|quality| quality > 0.0));
        if name.eq_ignore_ascii_case(coding) {
            return is_accepted;
        }
        by_wildcard |= name == "*" && is_accepted;
    }
    by_wildcard
}

/// Compresses a response, if it is worth it.
pub(crate) async fn compress(mut answer: Response, wants_gzip: bool) -> Response {
    if !is_compressible(&answer) {
        return answer;
    }
    answer.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !wants_gzip {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // A body of known size is in memory already, so reading it cannot fail.
    let Ok(bytes) = to_bytes(body, MAX_BYTES).await else {
        return ApiProblem::defect("the response could not be read").into_response();
    };
    let compressed = match bytes.len() > MAX_INLINE_BYTES {
        true => {
            let source = bytes.clone();
            tokio::task::spawn_blocking(move || gzip(&source, Compression::fast())).await.ok().flatten()
        }
        false => gzip(&bytes, Compression::fast()),
    };
    let Some(compressed) = compressed else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(compressed))
}

fn is_compressible(answer: &Response) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = kind.starts_with("application/json")
        || kind.starts_with("application/openmetrics-text")
        || kind.starts_with("text/") && !kind.starts_with("text/event-stream");
    // The size of a stream is unknown.
    let size = answer.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    // An asset of the web UI is encoded already, or the client accepts no coding.
    let is_encoded = answer.headers().contains_key(header::VARY);
    answer.status() == StatusCode::OK
        && is_text
        && !is_encoded
        && size.is_some_and(|size| (MIN_BYTES..=MAX_BYTES).contains(&size))
}

/// Returns the compressed bytes. None: they are not smaller.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), level);
    // Writing to memory does not fail.
    encoder.write_all(bytes).ok()?;
    let compressed = encoder.finish().ok()?;
    (compressed.len() < bytes.len()).then(|| compressed.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn accepted_codings_follow_the_header() {
        let table = [
            ("", "gzip", false),
            ("gzip", "gzip", true),
            ("gzip, deflate, br, zstd", "br", true),
            ("GZIP;q=0.5", "gzip", true),
            ("gzip;q=0, *", "gzip", false),
            ("gzip; q=0.000", "gzip", false),
            ("gzip;q=x", "gzip", false),
            ("deflate", "gzip", false),
            ("*", "gzip", true),
            ("*;q=0", "gzip", false),
            ("identity, x-gzip", "gzip", false),
        ];
        for (line, coding, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, line.parse().unwrap());
            assert_eq!(accepts(&headers, coding), expected, "{line}");
        }
        assert!(!accepts(&HeaderMap::new(), "gzip"));
    }
}
