//! Parts of a URI.

use windlass_value::{EvalError, Value};

use super::{WdlFunction, pure, text_at};
use crate::wdl::values::{WdlContext, WdlResult, preview, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("uriHost", 1, 1, host),
    pure("uriPath", 1, 1, path),
    pure("uriPathAndQuery", 1, 1, path_and_query),
    pure("uriPort", 1, 1, port),
    pure("uriQuery", 1, 1, query),
    pure("uriScheme", 1, 1, scheme),
];

struct Uri<'a> {
    scheme: String,
    host: &'a str,
    port: Option<i64>,
    path: &'a str,
    /// With its `?`, or empty.
    query: &'a str,
}

fn uri_at<'a>(function: &str, context: &mut WdlContext, arguments: &'a [Value]) -> Result<Uri<'a>, EvalError> {
    let text = text_at(function, arguments, 0)?;
    context.charge_bytes(text.len())?;
    parse_uri(text.trim()).ok_or_else(|| {
        type_error(format!("`{function}` needs an absolute URI, got {}", preview(&arguments[0])))
            .with_hint("such as 'https://example.com:8080/path?query'")
    })
}

fn parse_uri(text: &str) -> Option<Uri<'_>> {
    let (scheme, rest) = text.split_once("://")?;
    let mut letters = scheme.chars();
    let begins_well = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    if !begins_well || !letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = after.split_at(after.find('?').unwrap_or(after.len()));
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    // The colons of an IPv6 address are inside brackets.
    let colon =
        host_and_port.rfind(':').filter(|colon| host_and_port.rfind(']').is_none_or(|bracket| bracket < *colon));
    let (host, port) = match colon {
        Some(colon) => (&host_and_port[..colon], Some(host_and_port[colon + 1..].parse::<u16>().ok()?.into())),
        None => (host_and_port, None),
    };
    let scheme = scheme.to_ascii_lowercase();
    let path = if path.is_empty() { "/" } else { path };
    (!host.is_empty() || scheme == "file").then_some(Uri { scheme, host, port, path, query })
}

fn host(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::from(uri_at("uriHost", context, arguments)?.host.to_lowercase()))
}

fn path(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::from(uri_at("uriPath", context, arguments)?.path))
}

fn path_and_query(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let uri = uri_at("uriPathAndQuery", context, arguments)?;
    Ok(Value::from(format!("{}{}", uri.path, uri.query)))
}

fn port(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let uri = uri_at("uriPort", context, arguments)?;
    let default_port = match uri.scheme.as_str() {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        "ftp" => 21,
        _ => -1,
    };
    Ok(Value::Int(uri.port.unwrap_or(default_port)))
}

fn query(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::from(uri_at("uriQuery", context, arguments)?.query))
}

fn scheme(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::from(uri_at("uriScheme", context, arguments)?.scheme))
}
