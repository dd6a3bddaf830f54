//! Addresses: parsing for calls, and display in messages.

use std::fmt::Write;

use hyper::Uri;
use windlass_core::ErrorInfo;
use windlass_value::{Map, Value, to_json};

use super::failure::bad_request;
use super::request::scalar_text;

pub(super) struct ParsedUrl {
    pub(super) uri: Uri,
    /// User and password before the host. They are sent as a header, never in the address.
    pub(super) login: Option<(String, String)>,
}

pub(super) fn parse(text: &str, queries: Option<&Map>) -> Result<ParsedUrl, ErrorInfo> {
    let text = text.trim();
    let (scheme, rest) = split_scheme(text)?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(split_login(login)), host),
        None => (None, authority),
    };
    let slash = if tail.starts_with('/') { "" } else { "/" };
    let mut path = format!("{slash}{}", escape(tail, is_plain_in_address));
    append_queries(&mut path, queries);
    let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(path).build();
    let uri = uri.ok().filter(has_usable_host).ok_or_else(|| bad_uri(text, "it is not a valid address"))?;
    Ok(ParsedUrl { uri, login })
}

/// Describes the problem of an unusable address. The caller redacts secrets first, because part of it is displayed.
pub(super) fn describe_problem(redacted: &str) -> String {
    parse(redacted, None).map_or_else(|error| error.message.to_string(), |_| "it is not a valid address".to_owned())
}

/// Formats the address for messages, without the query. It contains no user.
pub(super) fn display_uri(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let query = if uri.query().is_some() { "?…" } else { "" };
    format!("{scheme}://{authority}{}{query}", uri.path())
}

/// Returns the user and the password in an address.
pub(crate) fn login_in_url(text: &str) -> Option<(String, String)> {
    parse(text, None).ok()?.login
}

/// Returns the host and the port of a URL; the port defaults to that of the scheme.
pub(crate) fn host_and_port(text: &str) -> Option<(String, u16)> {
    let uri = parse(text, None).ok()?.uri;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Some((uri.host()?.to_owned(), uri.port_u16().unwrap_or(usual)))
}

fn split_scheme(text: &str) -> Result<(&'static str, &str), ErrorInfo> {
    let known = ["http", "https"];
    let (scheme, rest) = text.split_once("://").ok_or_else(|| bad_uri(text, "it has no scheme"))?;
    let scheme = known.into_iter().find(|known| scheme.eq_ignore_ascii_case(known));
    Ok((scheme.ok_or_else(|| bad_uri(text, "its scheme is not http or https"))?, rest))
}

/// Returns true if the host and the port are usable. An invalid port would silently become the default port.
fn has_usable_host(uri: &Uri) -> bool {
    let Some(authority) = uri.authority() else { return false };
    let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    !authority.host().is_empty() && (after_host.is_empty() || authority.port_u16().is_some())
}

fn split_login(login: &str) -> (String, String) {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    (unescape(user), unescape(password))
}

/// Appends query parameters. A list repeats its name; null omits it.
fn append_queries(path: &mut String, queries: Option<&Map>) {
    for (name, value) in queries.into_iter().flat_map(Map::iter) {
        match value {
            Value::Null => {}
            Value::List(items) => items.iter().for_each(|item| append_query(path, name, item)),
            value => append_query(path, name, value),
        }
    }
}

fn append_query(path: &mut String, name: &str, value: &Value) {
    // A value that is not text becomes JSON, as in a header.
    let value = scalar_text(value).unwrap_or_else(|| to_json(value));
    let joint = if !path.contains('?') {
        "?"
    } else if path.ends_with(['?', '&']) {
        ""
    } else {
        "&"
    };
    let (name, value) = (escape(name, is_unreserved), escape(&value, is_unreserved));
    // Writing to a string cannot fail.
    let _ = write!(path, "{joint}{name}={value}");
}

fn bad_uri(text: &str, problem: &str) -> ErrorInfo {
    let message = format!("the address `{}` cannot be called: {problem}", display_unparsed(text));
    bad_request(
        "Uri",
        message,
        "write a whole address such as `https://host/path`; other alphabets in a host as punycode",
    )
}

/// Returns the part of an unusable address that is certainly not secret. If it cannot be parsed, user information may
/// be anywhere before the last `@`.
fn display_unparsed(text: &str) -> String {
    let scheme = text.find("://").map_or("", |at| &text[..at + 3]);
    let rest = match text.rsplit_once('@') {
        Some((_, rest)) => rest,
        None => &text[scheme.len()..],
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    scheme.chars().chain(rest.chars()).filter(|c| !c.is_control()).take(200).collect()
}

pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns true for bytes that stay unescaped. Existing escapes are kept; blanks and non-ASCII characters are
/// escaped.
fn is_plain_in_address(byte: u8) -> bool {
    is_unreserved(byte) || b"%/?:@!$&'()*+,;=[]".contains(&byte)
}

pub(crate) fn escape(text: &str, plain: fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

pub(crate) fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| first == b'%').and_then(hex_byte);
        out.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        parse(text, None).map(|target| target.uri.to_string()).unwrap_or_else(|error| error.message.to_string())
    }

    #[test]
    fn completes_addresses() {
        assert_eq!(parsed(" HTTP://h "), "http://h/");
        assert_eq!(parsed("http://h?a=b#c"), "http://h/?a=b");
        assert_eq!(parsed("http://h/a b/ü%20?q={x}"), "http://h/a%20b/%C3%BC%20?q=%7Bx%7D");
        assert_eq!(parsed("http://[::1]:8080/x"), "http://[::1]:8080/x");
    }

    #[test]
    fn takes_the_login_out() {
        let target = parse("https://me:p%40ss@h:8/x", None).ok().unwrap();
        assert_eq!(target.uri.to_string(), "https://h:8/x");
        assert_eq!(target.login, Some(("me".to_owned(), "p@ss".to_owned())));
    }

    #[test]
    fn adds_queries() {
        let queries: Map = [
            ("a b", Value::from("1&2")),
            ("n", Value::Null),
            ("l", Value::list(vec![Value::Int(1), Value::Bool(true)])),
            ("o", Value::object([("k", 1i64)])),
        ]
        .into_iter()
        .collect();
        let target = parse("http://h/p?x=1", Some(&queries)).ok().unwrap();
        assert_eq!(target.uri.to_string(), "http://h/p?x=1&a%20b=1%262&l=1&l=true&o=%7B%22k%22%3A1%7D");
        assert_eq!(display_uri(&target.uri), "http://h/p?…");
    }

    #[test]
    fn refuses_without_showing_secrets() {
        for text in [
            "h/x",
            "ftp://u:pw@h",
            "http://u:pw@/x",
            "http://u:pw@h:99999/",
            "http://h st/",
            "http://u:p?pw@h:x/?k=pw",
            "",
        ] {
            let error = parse(text, None).err().unwrap();
            assert_eq!(&*error.code, "BadRequestUri", "{text}");
            assert!(!error.message.contains("pw"), "{}", error.message);
        }
    }
}
