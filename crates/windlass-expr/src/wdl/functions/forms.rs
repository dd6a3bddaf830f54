//! Form data and multipart bodies. A body is Azure's object (`$formdata`, `$multipart`), a binary value with its
//! content type, or the text itself.

use windlass_value::{EvalError, EvalErrorKind, Value, parse_json};

use super::encoding::{binary_value, content_bytes, encode, percent_decode};
use super::workflow::{body, trigger_body};
use super::{WdlFunction, int_at, state, text_at};
use crate::wdl::path::property;
use crate::wdl::values::{WdlContext, WdlResult, describe, truncate, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    state("formDataValue", 2, 2, form_data_value),
    state("formDataMultiValues", 2, 2, form_data_multi_values),
    state("multipartBody", 2, 2, multipart_body),
    state("triggerFormDataValue", 1, 1, trigger_form_data_value),
    state("triggerFormDataMultiValues", 1, 1, trigger_form_data_multi_values),
    state("triggerMultipartBody", 1, 1, trigger_multipart_body),
];

/// One part of a multipart body.
struct MultipartPart {
    /// The name of the form field, if any.
    name: Option<String>,
    body: Value,
}

fn form_data_value(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let found = action_values("formDataValue", context, arguments)?;
    single("formDataValue", text_at("formDataValue", arguments, 1)?, found)
}

fn form_data_multi_values(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    action_values("formDataMultiValues", context, arguments).map(|found| Value::list(found.values))
}

fn trigger_form_data_value(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let found = trigger_values("triggerFormDataValue", context, arguments)?;
    single("triggerFormDataValue", text_at("triggerFormDataValue", arguments, 0)?, found)
}

fn trigger_form_data_multi_values(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    trigger_values("triggerFormDataMultiValues", context, arguments).map(|found| Value::list(found.values))
}

fn multipart_body(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let body = body_of("multipartBody", context, arguments)?;
    part_at("multipartBody", context, &body, int_at("multipartBody", arguments, 1)?)
}

fn trigger_multipart_body(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let body = trigger_body(context, &[])?;
    let body = context.content(body)?;
    part_at("triggerMultipartBody", context, &body, int_at("triggerMultipartBody", arguments, 0)?)
}

/// The values of a key, and all existing keys.
struct FormValues {
    values: Vec<Value>,
    keys: Vec<String>,
}

fn action_values(function: &str, context: &mut WdlContext, arguments: &[Value]) -> Result<FormValues, EvalError> {
    let body = body_of(function, context, arguments)?;
    values(function, context, &body, text_at(function, arguments, 1)?)
}

fn trigger_values(function: &str, context: &mut WdlContext, arguments: &[Value]) -> Result<FormValues, EvalError> {
    let body = trigger_body(context, &[])?;
    let body = context.content(body)?;
    values(function, context, &body, text_at(function, arguments, 0)?)
}

fn body_of(function: &str, context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    text_at(function, arguments, 0)?;
    let body = body(context, &arguments[..1])?;
    context.content(body)
}

fn single(function: &str, key: &str, found: FormValues) -> WdlResult {
    match found.values.len() {
        1 => Ok(found.values.into_iter().next().unwrap_or_default()),
        0 => {
            let mut keys: Vec<String> = found.keys.iter().take(20).map(|key| format!("`{}`", truncate(key))).collect();
            keys.dedup();
            let keys = if keys.is_empty() { "no fields".to_owned() } else { keys.join(", ") };
            let message = format!("`{function}`: the form has no field `{}`; it has {keys}", truncate(key));
            Err(EvalError::new(EvalErrorKind::Missing, message)
                .with_hint("the …MultiValues function gives an empty array instead"))
        }
        count => Err(type_error(format!("`{function}`: the form has {count} fields `{}`", truncate(key)))
            .with_hint("the …MultiValues function gives all of them")),
    }
}

fn values(function: &str, context: &mut WdlContext, body: &Value, key: &str) -> Result<FormValues, EvalError> {
    let fields = fields(function, context, body)?;
    let mut found = FormValues { values: Vec::new(), keys: Vec::new() };
    for (name, value) in fields {
        context.charge_items(1)?;
        if name == key {
            found.values.push(value);
        }
        found.keys.push(name);
    }
    Ok(found)
}

/// Returns the fields of a form in their order.
fn fields(function: &str, context: &mut WdlContext, body: &Value) -> Result<Vec<(String, Value)>, EvalError> {
    if let Some(entries) = body.get("$formdata").and_then(Value::as_list) {
        let field = |entry: &Value| {
            let part = |name: &str| entry.as_map().and_then(|map| property(map, name));
            Some((part("key")?.as_str()?.to_owned(), part("value").cloned().unwrap_or_default()))
        };
        return Ok(entries.iter().filter_map(field).collect());
    }
    let (kind, text) = source(function, context, body)?;
    if let Some(parts) = parts(context, body, kind.as_deref(), text.as_deref())? {
        return Ok(parts.into_iter().filter_map(|part| Some((part.name?, part.body))).collect());
    }
    let Some(bytes) = text.filter(|_| kind.is_none_or(|kind| kind.contains("form-urlencoded"))) else {
        return Err(no_form(function, body));
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut fields = Vec::new();
    for pair in text.trim().split('&').filter(|pair| !pair.is_empty()) {
        context.charge_items(1)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let mut plain = |text: &str| -> Result<String, EvalError> {
            let bytes = percent_decode(context, &text.replace('+', " "))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        fields.push((plain(key)?, Value::from(plain(value)?)));
    }
    Ok(fields)
}

fn no_form(function: &str, body: &Value) -> EvalError {
    type_error(format!("`{function}`: the body is not a form but {}", describe(body)))
        .with_hint("properties of an object are read directly: body('action')?['name']")
}

type BodySource = (Option<String>, Option<Vec<u8>>);

/// Returns the content type, if known, and the bytes; neither for an object that is not a binary value.
fn source(function: &str, context: &mut WdlContext, body: &Value) -> Result<BodySource, EvalError> {
    match body {
        Value::Str(text) => {
            context.reserve_bytes(text.len())?;
            Ok((None, Some(text.as_bytes().to_vec())))
        }
        Value::Map(map) => match content_bytes(function, context, map) {
            Some(bytes) => {
                let kind = map.get("$content-type").and_then(Value::as_str).map(str::to_owned);
                Ok((kind, Some(bytes?)))
            }
            None => Ok((None, None)),
        },
        _ => Ok((None, None)),
    }
}

fn part_at(function: &str, context: &mut WdlContext, body: &Value, index: i64) -> WdlResult {
    let (kind, text) = source(function, context, body)?;
    let Some(parts) = parts(context, body, kind.as_deref(), text.as_deref())? else {
        return Err(type_error(format!("`{function}`: the body has no parts, it is {}", describe(body)))
            .with_hint("a multipart body is an object with `$multipart`, or a text or binary value of that type"));
    };
    let count = parts.len();
    let part = usize::try_from(index).ok().and_then(|index| parts.into_iter().nth(index));
    part.map(|part| part.body).ok_or_else(|| {
        let message = format!("`{function}`: the body has no part {index}; it has {count}, counted from 0");
        EvalError::new(EvalErrorKind::Missing, message)
    })
}

/// Returns the parts of a multipart body; None for any other body.
fn parts(
    context: &mut WdlContext,
    body: &Value,
    kind: Option<&str>,
    bytes: Option<&[u8]>,
) -> Result<Option<Vec<MultipartPart>>, EvalError> {
    if let Some(entries) = body.get("$multipart").and_then(Value::as_list) {
        let part = |entry: &Value| {
            let of = |name: &str| entry.as_map().and_then(|map| property(map, name));
            let header = |name: &str| of("headers")?.as_map().and_then(|map| property(map, name))?.as_str();
            let name = header("Content-Disposition").and_then(|text| parameter(text, "name"));
            MultipartPart { name, body: of("body").cloned().unwrap_or_default() }
        };
        return Ok(Some(entries.iter().map(part).collect()));
    }
    let Some(bytes) = bytes else { return Ok(None) };
    let boundary = match kind {
        Some(kind) if !kind.to_ascii_lowercase().starts_with("multipart/") => return Ok(None),
        Some(kind) => parameter(kind, "boundary"),
        // Without a content type, the first line contains the boundary.
        None => bytes.strip_prefix(b"--").and_then(|rest| {
            let line = rest.split(|byte| *byte == b'\n').next()?;
            let line = std::str::from_utf8(line).ok()?.trim_end();
            (!line.is_empty()).then(|| line.to_owned())
        }),
    };
    let Some(boundary) = boundary else { return Ok(None) };
    let mark = format!("--{boundary}");
    let mut found = Vec::new();
    context.charge_bytes(bytes.len())?;
    for piece in split(bytes, mark.as_bytes()).into_iter().skip(1) {
        context.charge_items(1)?;
        if piece.starts_with(b"--") {
            break;
        }
        found.push(read_part(context, piece)?);
    }
    Ok(Some(found))
}

/// Returns the bytes between the boundary marks.
fn split<'a>(bytes: &'a [u8], mark: &[u8]) -> Vec<&'a [u8]> {
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while at + mark.len() <= bytes.len() {
        let begins_line = at == 0 || bytes[at - 1] == b'\n';
        if begins_line && bytes[at..].starts_with(mark) {
            pieces.push(&bytes[start..at]);
            at += mark.len();
            start = at;
        } else {
            at += 1;
        }
    }
    pieces.push(&bytes[start..]);
    pieces
}

/// Reads headers, an empty line and the content: text as text, JSON as its value, anything else as a binary value.
fn read_part(context: &mut WdlContext, piece: &[u8]) -> Result<MultipartPart, EvalError> {
    let (mut name, mut kind) = (None, None);
    let mut rest = after_line(piece).1;
    loop {
        let (line, after) = after_line(rest);
        rest = after;
        if line.is_empty() {
            break;
        }
        let line = String::from_utf8_lossy(line);
        match line.split_once(':') {
            Some((header, value)) if header.eq_ignore_ascii_case("content-disposition") => {
                name = parameter(value, "name");
            }
            Some((header, value)) if header.eq_ignore_ascii_case("content-type") => {
                kind = Some(value.trim().to_owned());
            }
            _ => {}
        }
    }
    let content = rest.strip_suffix(b"\n").unwrap_or(rest);
    let content = content.strip_suffix(b"\r").unwrap_or(content);
    let kind = kind.unwrap_or_else(|| "text/plain".to_owned());
    let lower = kind.to_ascii_lowercase();
    let text = std::str::from_utf8(content).ok();
    let json = text.filter(|_| lower.contains("json")).and_then(|text| parse_json(text).ok());
    let body = match (json, text) {
        (Some(json), _) => json,
        (None, Some(text)) if lower.starts_with("text/") => Value::from(text),
        _ => {
            let content = encode(context, content)?;
            binary_value(&kind, content)
        }
    };
    Ok(MultipartPart { name, body })
}

/// Returns the first line without its line break, and the rest.
fn after_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let line = &bytes[..end];
    (line.strip_suffix(b"\r").unwrap_or(line), bytes.get(end + 1..).unwrap_or_default())
}

/// Returns the parameter `name="value"` of a header.
fn parameter(header: &str, name: &str) -> Option<String> {
    let each = header.split(';').skip(1).filter_map(|part| part.split_once('='));
    let mut found = each.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim().trim_matches('"').to_owned())
}
