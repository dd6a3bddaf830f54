//! The cookie of a session: its name, its attributes, and its value in a request.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};

use super::sessions::SessionCookie;
use crate::proxies::OverTls;

/// Browsers accept such a cookie only over TLS, for the whole host and for no other host: no subdomain can set it.
const SECURE_PREFIX: &str = "__Host-";

/// Returns the values of the session cookie. There may be several, since other servers of the host can set cookies of
/// any name; at most one is valid.
pub(crate) fn session_values<'p>(parts: &'p Parts, name: &str) -> Vec<&'p str> {
    let secure = format!("{SECURE_PREFIX}{name}");
    let over_tls = parts.extensions.get::<OverTls>().is_some_and(|over_tls| over_tls.0);
    // Over TLS the cookie always has the prefix: another one was not set by this server.
    let is_named = |one: &str| one == secure || (one == name && !over_tls);
    let lines = parts.headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(one, _)| is_named(one)).map(|(_, value)| value).collect()
}

/// Returns whether the browser reached the server over TLS: according to a trusted proxy, or to the browser itself,
/// whose `Origin` was compared with the host.
pub(crate) fn is_over_tls(parts: &Parts) -> bool {
    let by_proxy = parts.extensions.get::<OverTls>().is_some_and(|over_tls| over_tls.0);
    by_proxy || parts.headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

/// Sets the cookie of a new session.
///
/// `SameSite=Strict` suits links from other sites: they lead to the web UI's document, which needs no cookie, and its
/// own requests are same-site.
pub(crate) fn set(headers: &mut HeaderMap, cookie: &SessionCookie, max_age_seconds: u64, is_over_tls: bool) {
    let (name, secret) = (&cookie.name, &cookie.secret);
    let attributes = format!("Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_seconds}");
    append(
        headers,
        &match is_over_tls {
            true => format!("{SECURE_PREFIX}{name}={secret}; {attributes}; Secure"),
            false => format!("{name}={secret}; {attributes}"),
        },
    );
}

/// Removes the cookie from the browser.
pub(crate) fn clear(headers: &mut HeaderMap, name: &str, is_over_tls: bool) {
    append(headers, &format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"));
    if is_over_tls {
        append(headers, &format!("{SECURE_PREFIX}{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure"));
    }
}

fn append(headers: &mut HeaderMap, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        headers.append(header::SET_COOKIE, value);
    }
}
