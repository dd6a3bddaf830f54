//! Parts of a URI.

use windlass_value::{EvalError, Value};

use super::{Function, pure, text_at};
use crate::wdl::values::{Context, Outcome, preview, type_error};

pub(crate) const FUNCTIONS: &[Function] = &[
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

fn uri_at<'a>(function: &str, context: &mut Context, arguments: &'a [Value]) -> Result<Uri<'a>, EvalError> {
    let text = text_at(function, arguments, 0)?;
    context.bytes(text.len())?;
    read(text.trim()).ok_or_else(|| {
        type_error(format!("`{function}` needs an absolute URI, got {}", preview(&arguments[0])))
            .hint("such as 'https://example.com:8080/path?query'")
    })
}

fn read(text: &str) -> Option<Uri<'_>> {
    let (scheme, rest) = text.split_once("://")?;
    let mut letters = scheme.chars();
    let begins_well = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    if !begins_well || !letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = after.split_at(after.find('?').unwrap_or(after.len()));
    let place = authority.rsplit('@').next().unwrap_or_default();
    // The colons of an IPv6 address are inside brackets.
    let colon = place.rfind(':').filter(|colon| place.rfind(']').is_none_or(|bracket| bracket < *colon));
    let (host, port) = match colon {
        Some(colon) => (&place[..colon], Some(place[colon + 1..].parse::<u16>().ok()?.into())),
        None => (place, None),
    };
    let scheme = scheme.to_ascii_lowercase();
    let path = if path.is_empty() { "/" } else { path };
    (!host.is_empty() || scheme == "file").then_some(Uri { scheme, host, port, path, query })
}

fn host(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::from(uri_at("uriHost", context, arguments)?.host.to_lowercase()))
}

fn path(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::from(uri_at("uriPath", context, arguments)?.path))
}

fn path_and_query(context: &mut Context, arguments: &[Value]) -> Outcome {
    let uri = uri_at("uriPathAndQuery", context, arguments)?;
    Ok(Value::from(format!("{}{}", uri.path, uri.query)))
}

fn port(context: &mut Context, arguments: &[Value]) -> Outcome {
    let uri = uri_at("uriPort", context, arguments)?;
    let usual = match uri.scheme.as_str() {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        "ftp" => 21,
        _ => -1,
    };
    Ok(Value::Int(uri.port.unwrap_or(usual)))
}

fn query(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::from(uri_at("uriQuery", context, arguments)?.query))
}

fn scheme(context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::from(uri_at("uriScheme", context, arguments)?.scheme))
}
