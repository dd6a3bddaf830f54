//! Redirects: their target, and which parts of the request are sent there.

use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::{Method, Response, StatusCode, Uri};
use windlass_core::ErrorInfo;

use super::failure;
use super::request::HttpRequest;
use super::uri;

/// Returns the target of a redirect, or `None` if the reply is not one.
pub(super) fn redirect_target(response: &Response<Incoming>) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Returns the request that follows a redirect.
pub(super) fn follow(mut request: HttpRequest, status: StatusCode, location: &str) -> Result<HttpRequest, ErrorInfo> {
    let address = join(&request.uri, location);
    let target = uri::parse(&address, None).map_err(|_| {
        failure::bad_redirect(&request, &uri::describe_problem(&request.redaction.redact_text(&address)))
    })?;
    if request.same_origin_only && origin(&request.uri) != origin(&target.uri) {
        return Err(failure::foreign_redirect(&request, &target.uri));
    }
    if changes_to_get(&request.method, status) {
        request.method = Method::GET;
        request.body.clear();
        request.headers.remove(header::CONTENT_TYPE);
    }
    // Secrets and a `host` header were meant for the first server.
    if origin(&request.uri) != origin(&target.uri) {
        let stays = |name: &&HeaderName| **name == header::HOST || request.is_secret_header(name);
        let names: Vec<HeaderName> = request.headers.keys().filter(stays).cloned().collect();
        names.iter().for_each(|name| drop(request.headers.remove(name)));
    }
    request.uri = target.uri;
    Ok(request)
}

/// Returns true if the method changes to GET, as in browsers: always for 303, for a POST also with 301 and 302.
fn changes_to_get(method: &Method, status: StatusCode) -> bool {
    match status.as_u16() {
        303 => method != Method::HEAD,
        301 | 302 => method == Method::POST,
        _ => false,
    }
}

pub(super) fn origin(uri: &Uri) -> (Option<&str>, Option<&str>, Option<u16>) {
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    (uri.scheme_str(), uri.host(), uri.port_u16().or(Some(usual)))
}

/// Resolves a reference against a base address (RFC 3986, section 5).
pub(super) fn join(base: &Uri, location: &str) -> String {
    let location = location.trim().split('#').next().unwrap_or_default();
    if has_scheme(location) {
        return location.to_owned();
    }
    let scheme = base.scheme_str().unwrap_or("http");
    if location.starts_with("//") {
        return format!("{scheme}:{location}");
    }
    let authority = base.authority().map_or("", |authority| authority.as_str());
    let (path, query) = location.split_once('?').map_or((location, None), |(path, query)| (path, Some(query)));
    let folder = &base.path()[..base.path().rfind('/').map_or(0, |at| at + 1)];
    let path = match path {
        "" => base.path().to_owned(),
        path if path.starts_with('/') => without_dots(path),
        path => without_dots(&format!("{folder}{path}")),
    };
    let query = query.or(if location.is_empty() { base.query() } else { None });
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}{path}{query}")
}

fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(plain)
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." => {}
            ".." => drop(kept.pop()),
            part => {
                kept.push(part);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_references() {
        let base = Uri::from_static("http://h:81/a/b/c?q=1");
        for (location, expected) in [
            ("https://other/x?y", "https://other/x?y"),
            ("//other/x", "http://other/x"),
            ("/x#part", "http://h:81/x"),
            ("x", "http://h:81/a/b/x"),
            ("../x?z=2", "http://h:81/a/x?z=2"),
            ("../../../x", "http://h:81/x"),
            ("./", "http://h:81/a/b/"),
            ("..", "http://h:81/a/"),
            ("?z=2", "http://h:81/a/b/c?z=2"),
            ("", "http://h:81/a/b/c?q=1"),
            ("mailto:me", "mailto:me"),
        ] {
            assert_eq!(join(&base, location), expected, "{location}");
        }
    }
}
