//! Base64, data URIs, percent-encoding, and binary values: objects `{"$content-type", "$content"}` in base64.

use windlass_value::{EvalError, Map, Value};

use super::{WdlFunction, pure, text_at, wrong_argument};
use crate::wdl::values::{WdlContext, WdlResult, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("base64", 1, 1, base64),
    pure("base64ToString", 1, 1, base64_to_string),
    pure("decodeBase64", 1, 1, decode_base64),
    pure("base64ToBinary", 1, 1, base64_to_binary),
    pure("binary", 1, 1, binary),
    pure("dataUri", 1, 1, data_uri),
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

/// Returns the text of a binary value.
pub(crate) fn binary_text(what: &str, context: &mut WdlContext, value: &Value) -> Result<String, EvalError> {
    let content = value.get("$content").and_then(Value::as_str);
    let content = content.ok_or_else(|| type_error(format!("{what} has no `$content`")))?;
    let bytes = decode_at(what, context, content)?;
    String::from_utf8(bytes).map_err(|_| type_error(format!("{what}: the bytes are not UTF-8 text")))
}

fn base64(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = bytes_at("base64", context, arguments)?;
    encode(context, &bytes).map(Value::from)
}

/// Decodes a base64 text; for a binary value returns its bytes as text.
fn base64_to_text(function: &str, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = match &arguments[0] {
        Value::Str(text) => decode_at(function, context, text)?,
        _ => bytes_at(function, context, arguments)?,
    };
    utf8_text(function, bytes)
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

fn binary(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = bytes_at("binary", context, arguments)?;
    Ok(binary_value(OCTETS, encode(context, &bytes)?))
}

fn data_uri(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let bytes = bytes_at("dataUri", context, arguments)?;
    let kind = arguments[0].get("$content-type").and_then(Value::as_str).unwrap_or("text/plain;charset=utf-8");
    Ok(Value::from(format!("data:{kind};base64,{}", encode(context, &bytes)?)))
}

/// Returns the type and the bytes of a data URI.
fn read_data_uri(
    function: &str,
    context: &mut WdlContext,
    arguments: &[Value],
) -> Result<(String, Vec<u8>), EvalError> {
    let text = text_at(function, arguments, 0)?;
    let bad = || type_error(format!("`{function}` needs a text such as 'data:text/plain;base64,aGVsbG8='"));
    let (head, data) = text.strip_prefix("data:").and_then(|rest| rest.split_once(',')).ok_or_else(bad)?;
    let (kind, bytes) = match head.strip_suffix(";base64") {
        Some(kind) => (kind, decode_at(function, context, data)?),
        None => (head, percent_decode(context, data)?),
    };
    let kind = if kind.is_empty() { "text/plain;charset=us-ascii" } else { kind };
    Ok((kind.to_owned(), bytes))
}

fn uri_to_binary_value(function: &str, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (kind, bytes) = read_data_uri(function, context, arguments)?;
    Ok(binary_value(&kind, encode(context, &bytes)?))
}

fn data_uri_to_binary(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    uri_to_binary_value("dataUriToBinary", context, arguments)
}

fn decode_data_uri(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    uri_to_binary_value("decodeDataUri", context, arguments)
}

fn data_uri_to_string(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (_, bytes) = read_data_uri("dataUriToString", context, arguments)?;
    utf8_text("dataUriToString", bytes)
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
