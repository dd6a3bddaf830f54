//! Base64, data URIs, percent-encoding, and binary values: objects `{"$content-type", "$content"}` in base64.

use windlass_value::{EvalError, Map, Value, content_type_parameter, decode_text};

use super::{WdlFunction, pure, text_at, wrong_argument};
use crate::wdl::values::{WdlContext, WdlResult, to_text, truncate, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("base64", 1, 1, base64),
    pure("base64ToString", 1, 1, base64_to_string),
    pure("decodeBase64", 1, 1, decode_base64),
    pure("base64ToBinary", 1, 1, base64_to_binary),
    pure("binary", 1, 1, binary),
    pure("dataUri", 1, 1, data_uri),
    pure("encodeDataUri", 1, 1, encode_data_uri),
    pure("dataUriToBinary", 1, 1, data_uri_to_binary),
    pure("decodeDataUri", 1, 1, decode_data_uri),
    pure("dataUriToString", 1, 1, data_uri_to_string),
    pure("uriComponent", 1, 1, uri_component),
    pure("encodeUriComponent", 1, 1, encode_uri_component),
    pure("uriComponentToString", 1, 1, uri_component_to_string),
    pure("decodeUriComponent", 1, 1, decode_uri_component),
    pure("uriComponentToBinary", 1, 1, uri_component_to_binary),
];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const OCTETS: &str = "application/octet-stream";
const TEXT: &str = "text/plain;charset=utf-8";
const JSON: &str = "application/json;charset=utf-8";

pub(super) fn encode(context: &mut WdlContext, bytes: &[u8]) -> Result<String, EvalError> {
    context.reserve_bytes(bytes.len().div_ceil(3).saturating_mul(4))?;
    Ok(to_base64(bytes))
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let part = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place) & 63) as usize;
            out.push(if place <= group.len() { ALPHABET[sextet] as char } else { '=' });
        }
    }
    out
}

/// Decodes base64. Padding may be missing and whitespace is skipped; any other invalid character is rejected.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0u32, 0, false);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let sextet = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                padding = true;
                continue;
            }
            _ => return None,
        };
        if padding {
            return None;
        }
        bits = bits << 6 | u32::from(sextet);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    match count {
        0 => {}
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(out)
}

fn decode_at(function: &str, context: &mut WdlContext, text: &str) -> Result<Vec<u8>, EvalError> {
    context.reserve_bytes(text.len())?;
    decode(text).ok_or_else(|| type_error(format!("`{function}`: the text is not base64")))
}

pub(super) fn utf8_text(function: &str, bytes: Vec<u8>) -> WdlResult {
    String::from_utf8(bytes).map(Value::from).map_err(|_| {
        type_error(format!("`{function}`: the bytes are not UTF-8 text"))
            .with_hint("keep them as binary: base64ToBinary(…)")
    })
}

pub(super) fn binary_value(content_type: &str, content: String) -> Value {
    Value::object([("$content-type", Value::from(content_type)), ("$content", Value::from(content))])
}

/// Returns whether an object is a binary value.
pub(crate) fn is_binary(map: &Map) -> bool {
    let has_text = |key: &str| map.get(key).is_some_and(|value| value.as_str().is_some());
    has_text("$content") && has_text("$content-type")
}

/// Returns the bytes of an object that is a binary value; None for any other object.
pub(super) fn content_bytes(function: &str, context: &mut WdlContext, map: &Map) -> Option<Result<Vec<u8>, EvalError>> {
    let content = map.get("$content")?.as_str()?;
    map.get("$content-type")?.as_str()?;
    Some(decode_at(function, context, content))
}

/// Returns the bytes of a text or of a binary value.
fn bytes_at(function: &str, context: &mut WdlContext, arguments: &[Value]) -> Result<Vec<u8>, EvalError> {
    match &arguments[0] {
        Value::Str(text) => {
            context.reserve_bytes(text.len())?;
            Ok(text.as_bytes().to_vec())
        }
        other => match other.as_map().and_then(|map| content_bytes(function, context, map)) {
            Some(bytes) => bytes,
            None => Err(wrong_argument(function, arguments, 0, "a string or a binary value")),
        },
    }
}

pub(crate) fn base64_text(context: &mut WdlContext, bytes: &[u8]) -> Result<String, EvalError> {
    encode(context, bytes)
}

/// Returns the text of a binary value in the charset of its type.
///
/// Bytes that are not text fail: Azure replaces them with U+FFFD, which loses them silently.
pub(crate) fn binary_text(what: &str, context: &mut WdlContext, value: &Value) -> Result<String, EvalError> {
    let content = value.get("$content").and_then(Value::as_str);
    let content = content.ok_or_else(|| type_error(format!("{what} has no `$content`")))?;
    context.reserve_bytes(content.len())?;
    let content_type = value.get("$content-type").and_then(Value::as_str).unwrap_or_default();
    content_text(what, content, content_type)
}

/// Returns the text of base64 content in the charset of its type.
pub(crate) fn content_text(what: &str, content: &str, content_type: &str) -> Result<String, EvalError> {
    let bytes = decode(content).ok_or_else(|| type_error(format!("{what}: `$content` is not base64")))?;
    bytes_to_text(what, content_type, bytes)
}

fn bytes_to_text(what: &str, content_type: &str, bytes: Vec<u8>) -> Result<String, EvalError> {
    decode_text(content_type, bytes).map_err(|undecodable| match undecodable.unsupported_charset {
        Some(charset) => type_error(format!("{what}: the charset `{}` is not supported", truncate(&charset)))
            .with_hint("charsets: utf-8, us-ascii, iso-8859-1, utf-16; base64(…) gives the bytes"),
        None => {
            let charset = content_type_parameter(content_type, "charset").unwrap_or_else(|| "UTF-8".to_owned());
            let message = format!("{what}: the bytes are not {} text", truncate(&charset));
            type_error(match content_type {
                "" => message,
                content_type => format!("{message}; their type is `{}`", truncate(content_type)),
            })
            .with_hint("use base64(…) to put the bytes into a text")
        }
    })
}

fn base64(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = bytes_at("base64", context, arguments)?;
    encode(context, &bytes).map(Value::from)
}

/// Decodes a base64 text; for a binary value returns its bytes as text.
fn base64_to_text(function: &str, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match &arguments[0] {
        Value::Str(text) => utf8_text(function, decode_at(function, context, text)?),
        Value::Map(map) if is_binary(map) => {
            binary_text(&format!("`{function}`"), context, &arguments[0]).map(Value::from)
        }
        _ => Err(wrong_argument(function, arguments, 0, "a string or a binary value")),
    }
}

fn base64_to_string(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    base64_to_text("base64ToString", context, arguments)
}

fn decode_base64(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    base64_to_text("decodeBase64", context, arguments)
}

fn base64_to_binary(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = decode_at("base64ToBinary", context, text_at("base64ToBinary", arguments, 0)?)?;
    Ok(binary_value(OCTETS, encode(context, &bytes)?))
}

/// Converts any value but null: a text or a binary value by its bytes, anything else by its text.
fn binary(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (_, bytes) = typed_bytes("binary", context, arguments)?;
    Ok(binary_value(OCTETS, encode(context, &bytes)?))
}

fn data_uri(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    value_to_uri("dataUri", context, arguments)
}

fn encode_data_uri(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    value_to_uri("encodeDataUri", context, arguments)
}

fn value_to_uri(function: &str, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (content_type, bytes) = typed_bytes(function, context, arguments)?;
    Ok(Value::from(format!("data:{content_type};base64,{}", encode(context, &bytes)?)))
}

/// Returns the content type and the bytes of any value but null.
fn typed_bytes<'a>(
    function: &str,
    context: &mut WdlContext,
    arguments: &'a [Value],
) -> Result<(&'a str, Vec<u8>), EvalError> {
    match &arguments[0] {
        Value::Null => Err(wrong_argument(function, arguments, 0, "a value")),
        Value::Map(map) if is_binary(map) => {
            let content_type = map.get("$content-type").and_then(Value::as_str).unwrap_or(OCTETS);
            Ok((content_type, bytes_at(function, context, arguments)?))
        }
        Value::Str(_) => Ok((TEXT, bytes_at(function, context, arguments)?)),
        other => Ok((JSON, to_text(context, other)?.as_bytes().to_vec())),
    }
}

/// The type and the content of a data URI.
struct DataUri<'a> {
    content_type: &'a str,
    bytes: Vec<u8>,
}

/// Parses a data URI. The scheme and `base64` may be in any letter case; `base64` counts only as the last parameter.
fn read_data_uri<'a>(
    function: &str,
    context: &mut WdlContext,
    arguments: &'a [Value],
) -> Result<DataUri<'a>, EvalError> {
    let text = text_at(function, arguments, 0)?;
    let bad = || type_error(format!("`{function}` needs a text such as 'data:text/plain;base64,aGVsbG8='"));
    let (scheme, rest) = text.split_at_checked("data:".len()).ok_or_else(bad)?;
    let (head, data) = rest.split_once(',').filter(|_| scheme.eq_ignore_ascii_case("data:")).ok_or_else(bad)?;
    let (before, last) = head.rsplit_once(';').unwrap_or(("", head));
    let (content_type, bytes) = match last.eq_ignore_ascii_case("base64") {
        true => (before, decode_at(function, context, data)?),
        // Azure reads `+` as a blank here.
        false => (head, percent_decode(context, &data.replace('+', " "))?),
    };
    if content_type.starts_with(';') {
        let message = format!("`{function}`: the data URI has parameters but no type");
        return Err(type_error(message).with_hint("write the type first: data:text/plain;charset=utf-8,…"));
    }
    Ok(DataUri { content_type: if content_type.is_empty() { "text/plain" } else { content_type }, bytes })
}

fn uri_to_binary_value(function: &str, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let DataUri { content_type, bytes } = read_data_uri(function, context, arguments)?;
    let media_type = content_type.split(';').next().unwrap_or_default();
    let parts: Vec<&str> = media_type.split('/').map(str::trim).collect();
    if parts.len() != 2 || parts.contains(&"") {
        let message = format!("`{function}`: `{}` is not a content type", truncate(media_type));
        return Err(type_error(message).with_hint("a type has two parts, as text/plain"));
    }
    Ok(binary_value(content_type, encode(context, &bytes)?))
}

fn data_uri_to_binary(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    uri_to_binary_value("dataUriToBinary", context, arguments)
}

fn decode_data_uri(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    uri_to_binary_value("decodeDataUri", context, arguments)
}

fn data_uri_to_string(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let DataUri { content_type, bytes } = read_data_uri("dataUriToString", context, arguments)?;
    bytes_to_text("`dataUriToString`", content_type, bytes).map(Value::from)
}

fn uri_component(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    percent_encode("uriComponent", context, arguments)
}

fn encode_uri_component(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    percent_encode("encodeUriComponent", context, arguments)
}

fn percent_encode(function: &str, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = bytes_at(function, context, arguments)?;
    context.reserve_bytes(bytes.len())?;
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => {
                let hex = |nibble: u8| b"0123456789ABCDEF"[nibble as usize] as char;
                out.extend(['%', hex(byte >> 4), hex(byte & 15)]);
            }
        }
    }
    Ok(Value::from(out))
}

/// Decodes percent-encoding. A `%` that is not followed by two hexadecimal digits stands for itself.
pub(super) fn percent_decode(context: &mut WdlContext, text: &str) -> Result<Vec<u8>, EvalError> {
    context.reserve_bytes(text.len())?;
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let nibble = |index: usize| bytes.get(index).and_then(|byte| (*byte as char).to_digit(16));
        match (bytes[at], nibble(at + 1), nibble(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, _, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Ok(out)
}

fn uri_component_to_string(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = percent_decode(context, text_at("uriComponentToString", arguments, 0)?)?;
    utf8_text("uriComponentToString", bytes)
}

fn decode_uri_component(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = percent_decode(context, text_at("decodeUriComponent", arguments, 0)?)?;
    utf8_text("decodeUriComponent", bytes)
}

fn uri_component_to_binary(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = percent_decode(context, text_at("uriComponentToBinary", arguments, 0)?)?;
    Ok(binary_value(OCTETS, encode(context, &bytes)?))
}
