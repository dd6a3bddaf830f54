//! The web UI: built from `ui/` (`cargo xtask ui`) and embedded in the binary.
//!
//! The web UI is public: it contains no data and calls the API with the user's token. All of its routes serve the
//! same document; a path that is neither an asset nor a route of the server is not found.
//!
//! Assets are sent compressed: with Brotli as the build has written them beside the originals (`NAME.br`), or with
//! gzip, which is computed at the first request.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::{ApiProblem, compression};

#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
struct UiAssets;

const DOCUMENT: &str = "index.html";

/// Ending of the names of compressed assets, which have no address of their own.
const BROTLI_SUFFIX: &str = ".br";

/// Content security policy: no external resources, no inline code, no embedding in frames.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                          font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A browser enforces the policy of the document that loads an asset. On its own, an asset may load nothing.
const ASSET_POLICY: &str = "default-src 'none'";

/// For assets whose name contains their hash: they never change.
const CACHE_IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// May be cached, but must be revalidated each time.
const CACHE_REVALIDATE: &str = "no-cache";

/// First path segments of the web UI routes (`view` in `ui/src/app.tsx`). The first one is also served at `/`.
const VIEWS: [&str; 9] =
    ["runs", "definitions", "check", "approvals", "triggers", "workers", "tokens", "audit", "about"];

/// Handles requests that match no other route.
pub(crate) async fn serve_web_ui(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    // `*` and absolute-form addresses of other hosts have no leading slash.
    let Some(path) = uri.path().strip_prefix('/') else { return not_found() };
    let first = path.split('/').next().unwrap_or_default();
    let asset = match UiAssets::get(path).filter(|_| !path.ends_with(BROTLI_SUFFIX)) {
        Some(file) => Some((path, file)),
        None if path.is_empty() || VIEWS.contains(&first) => UiAssets::get(DOCUMENT).map(|file| (DOCUMENT, file)),
        None => None,
    };
    match asset {
        Some((name, file)) if method == Method::GET || method == Method::HEAD => asset_response(name, &file, &headers),
        _ => not_found(),
    }
}

fn not_found() -> Response {
    ApiProblem::not_found("there is no such page or route")
        .hint("GET /api/v1/openapi.json lists the routes")
        .into_response()
}

fn asset_response(name: &str, file: &EmbeddedFile, request_headers: &HeaderMap) -> Response {
    let (coding, data) = encoded(name, file, request_headers);
    let etag_value = etag(file, coding);
    let if_none_match =
        request_headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let same =
        if_none_match == "*" || if_none_match.split(',').any(|one| one.trim().trim_start_matches("W/") == etag_value);
    let body = if same { Body::empty() } else { Body::from(data) };
    let mut answer = Response::new(body);
    if same {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let keep = if name.starts_with("assets/") { CACHE_IMMUTABLE } else { CACHE_REVALIDATE };
    let response_headers = [
        (header::CONTENT_TYPE, content_type(name)),
        (header::CACHE_CONTROL, keep),
        (header::CONTENT_SECURITY_POLICY, if name == DOCUMENT { POLICY } else { ASSET_POLICY }),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::VARY, "accept-encoding"),
    ];
    for (name, value) in response_headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Some(coding) = coding {
        answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    if let Ok(tag) = HeaderValue::from_str(&etag_value) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    answer
}

/// Returns the content in the best coding that the client accepts.
fn encoded(name: &str, file: &EmbeddedFile, request_headers: &HeaderMap) -> (Option<&'static str>, Bytes) {
    let accepts = |coding: &str| compression::accepts(request_headers, coding);
    let brotli = || UiAssets::get(&format!("{name}{BROTLI_SUFFIX}"));
    if let Some(compressed) = Some("br").filter(|coding| accepts(coding)).and_then(|_| brotli()) {
        return (Some("br"), embedded_bytes(compressed));
    }
    match Some("gzip").filter(|coding| accepts(coding)).and_then(|_| gzipped(name, file)) {
        Some(compressed) => (Some("gzip"), compressed),
        None => (None, embedded_bytes(file.clone())),
    }
}

/// Returns the gzipped content. It is computed once; the number of assets bounds what is kept.
fn gzipped(name: &str, file: &EmbeddedFile) -> Option<Bytes> {
    static KEPT: LazyLock<Mutex<HashMap<String, Option<Bytes>>>> = LazyLock::new(Mutex::default);
    if file.data.len() < compression::MIN_BYTES || content_type(name).starts_with("image/png") {
        return None;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let compress = || compression::gzip(&file.data, Compression::best());
    kept.entry(name.to_owned()).or_insert_with(compress).clone()
}

fn embedded_bytes(file: EmbeddedFile) -> Bytes {
    match file.data {
        std::borrow::Cow::Borrowed(data) => Bytes::from_static(data),
        std::borrow::Cow::Owned(data) => data.into(),
    }
}

/// Returns an ETag computed from the file's content, so that two binaries of one build agree.
fn etag(file: &EmbeddedFile, coding: Option<&str>) -> String {
    let hash = file.metadata.sha256_hash();
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    match coding {
        Some(coding) => format!("\"{hex}-{coding}\""),
        None => format!("\"{hex}\""),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(path: &str, headers: &[(header::HeaderName, &str)]) -> Response {
        let uri = Uri::try_from(path).expect("a path");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name.clone(), HeaderValue::from_str(value).expect("a value"));
        }
        serve_web_ui(Method::GET, uri, map).await
    }

    fn header_value(answer: &Response, name: header::HeaderName) -> String {
        answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn every_web_ui_route_serves_the_document() {
        let views = VIEWS.map(|view| format!("/{view}"));
        let deeper = ["/", "/runs/", "/runs/01m7/loop?path=a", "/definitions/a%2Fb", "/runs/a/b/c"].map(str::to_owned);
        for path in views.iter().chain(&deeper) {
            let answer = get(path, &[]).await;
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert_eq!(header_value(&answer, header::CONTENT_TYPE), "text/html; charset=utf-8", "{path}");
            assert_eq!(header_value(&answer, header::CONTENT_SECURITY_POLICY), POLICY, "{path}");
            assert_eq!(header_value(&answer, header::CACHE_CONTROL), CACHE_REVALIDATE, "{path}");
            assert_eq!(header_value(&answer, header::X_CONTENT_TYPE_OPTIONS), "nosniff");
            assert_eq!(header_value(&answer, header::REFERRER_POLICY), "no-referrer");
        }
    }

    /// Compares the list with the views of the web UI's router.
    #[test]
    fn views_match_the_web_ui_router() {
        let router = include_str!("../../../ui/src/app.tsx");
        let begin = router.find("function view(").expect("the router");
        let body = &router[begin..begin + router[begin..].find("default:").expect("its end")];
        let cases: Vec<&str> = body.split("case \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(cases, VIEWS);
    }

    #[tokio::test]
    async fn unknown_paths_are_not_found() {
        let paths = [
            "/api",
            "/api/",
            "/api/v1/nothing",
            "/api/v2/runs",
            "/API/v1/runs",
            "/Runs",
            "/hooks/a/b/c",
            "/metrics/x",
            "/assets/gone.js",
            "/assets",
            "/no/such/view",
            "//runs",
            "//assets",
            "/%72uns",
            "/runs%2Fx",
            "/index.htm",
            "*",
        ];
        for path in paths {
            let answer = get(path, &[]).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
            assert_eq!(header_value(&answer, header::CONTENT_TYPE), "application/problem+json", "{path}");
        }
        let posted = serve_web_ui(Method::POST, Uri::from_static("/runs"), HeaderMap::new()).await;
        assert_eq!(posted.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn referenced_assets_exist_and_are_immutable() {
        let document = UiAssets::get(DOCUMENT).expect("the web UI is built");
        let text = String::from_utf8_lossy(&document.data).into_owned();
        let names: Vec<&str> = text.split('"').filter(|part| part.starts_with("/assets/")).collect();
        assert!(names.iter().any(|name| name.ends_with(".js")), "{names:?}");
        assert!(names.iter().any(|name| name.ends_with(".css")), "{names:?}");
        for name in names {
            let answer = get(name, &[]).await;
            assert_eq!(answer.status(), StatusCode::OK, "{name}");
            assert_eq!(header_value(&answer, header::CACHE_CONTROL), CACHE_IMMUTABLE, "{name}");
            let tag = header_value(&answer, header::ETAG);
            let again = get(name, &[(header::IF_NONE_MATCH, &tag)]).await;
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{name}");
            let other = get(name, &[(header::IF_NONE_MATCH, "\"other\"")]).await;
            assert_eq!(other.status(), StatusCode::OK, "{name}");
        }
    }

    #[tokio::test]
    async fn assets_are_sent_in_the_best_accepted_coding() {
        let large = UiAssets::iter().find(|name| name.ends_with(".js") && UiAssets::get(name).is_some_and(is_large));
        let path = format!("/{}", large.expect("a script"));
        let plain = get(&path, &[]).await;
        let mut tags = vec![header_value(&plain, header::ETAG)];
        let plain_size = size(&plain);
        for (accepted, coding) in [("gzip, deflate, br, zstd", "br"), ("gzip, deflate", "gzip")] {
            let accepted = [(header::ACCEPT_ENCODING, accepted)];
            let answer = get(&path, &accepted).await;
            assert_eq!(header_value(&answer, header::CONTENT_ENCODING), coding);
            assert_eq!(header_value(&answer, header::VARY), "accept-encoding");
            assert!(size(&answer) * 2 < plain_size, "{coding}: {} of {plain_size}", size(&answer));
            let tag = header_value(&answer, header::ETAG);
            let again = get(&path, &[accepted[0].clone(), (header::IF_NONE_MATCH, &tag)]).await;
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
            tags.push(tag);
        }
        tags.dedup();
        assert_eq!(tags.len(), 3, "each coding has its own tag: {tags:?}");
        for (accepted, coding) in [("", ""), ("br;q=0, gzip;q=0", ""), ("identity", "")] {
            let answer = get(&path, &[(header::ACCEPT_ENCODING, accepted)]).await;
            assert_eq!(header_value(&answer, header::CONTENT_ENCODING), coding, "{accepted}");
        }
        let compressed = get(&format!("{path}{BROTLI_SUFFIX}"), &[]).await;
        assert_eq!(compressed.status(), StatusCode::NOT_FOUND, "it has no address of its own");
    }

    fn is_large(file: EmbeddedFile) -> bool {
        file.data.len() > 100_000
    }

    fn size(answer: &Response) -> u64 {
        use http_body::Body as _;
        answer.body().size_hint().exact().expect("its size is known")
    }

    /// The policy forbids inline code and other hosts; nothing in the document may rely on them.
    #[test]
    fn the_document_holds_no_script_style_or_foreign_address() {
        let document = UiAssets::get(DOCUMENT).expect("the web UI is built");
        let text = String::from_utf8_lossy(&document.data).into_owned();
        for (at, _) in text.match_indices("<script") {
            let end = text[at..].find('>').map_or(text.len(), |end| at + end);
            assert!(text[at..end].contains("src=\"/"), "{}", &text[at..end]);
        }
        assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" onload="), "{text}");
        assert!(!text.contains("http://") && !text.contains("https://"), "{text}");
    }
}
