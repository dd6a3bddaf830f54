//! Encoding of request bodies: text unchanged, the tagged objects that replies use for bytes, forms and parts, and
//! anything else as JSON.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use windlass_core::ErrorInfo;
use windlass_value::{Map, Value, content_type_parameter, to_json};

use super::failure::bad_request;
use super::request::{header_name, header_value, scalar_text};
use super::uri::{escape, is_unreserved};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// Encodes a body. A content type of the definition is kept; a multipart type gets the boundary added.
pub(super) fn encode_body(value: &Value, headers: &mut HeaderMap) -> Result<Bytes, ErrorInfo> {
    if let Some(parts) = value.get("$multipart") {
        return multipart(parts, value, headers);
    }
    let (bytes, content_type) = encode_plain(value)?;
    headers.entry(header::CONTENT_TYPE).or_insert(content_type);
    Ok(bytes)
}

fn encode_plain(value: &Value) -> Result<(Bytes, HeaderValue), ErrorInfo> {
    if let Value::Str(text) = value {
        return Ok((Bytes::copy_from_slice(text.as_bytes()), TEXT));
    }
    if let Value::Stored(_) = value {
        let hint = "this is a bug in the engine, please report it";
        return Err(bad_request("Body", "the body is not loaded", hint));
    }
    // Bytes take precedence: the form of a reply has both, and is sent on unchanged.
    if let Some(binary) = binary(value)? {
        return Ok(binary);
    }
    match value.get("$formdata") {
        Some(fields) => Ok((form(fields)?.into(), tagged_type(value)?.unwrap_or(FORM))),
        None => Ok((to_json(value).into(), JSON)),
    }
}

/// Decodes a tagged binary body, as replies have it.
fn binary(value: &Value) -> Result<Option<(Bytes, HeaderValue)>, ErrorInfo> {
    let (Some(content_type), Some(content)) = (tagged_type(value)?, value.get("$content").and_then(Value::as_str))
    else {
        return Ok(None);
    };
    let bytes = BASE64.decode(content).map_err(|_| {
        bad_request("Body", "`$content` of the body is not base64", "use base64(…) or the body of another reply")
    })?;
    Ok(Some((bytes.into(), content_type)))
}

fn tagged_type(value: &Value) -> Result<Option<HeaderValue>, ErrorInfo> {
    let text = value.get("$content-type").filter(|value| value.as_str().is_some());
    text.map(|text| header_value("content-type", text)).transpose()
}

fn form(fields: &Value) -> Result<String, ErrorInfo> {
    let problem = || {
        let hint = "it is an array: [{\"key\": \"name\", \"value\": \"text\"}]";
        bad_request("Body", "`$formdata` of the body is not valid", hint)
    };
    let fields = fields.as_list().ok_or_else(problem)?;
    let encoded = fields.iter().map(|field| {
        let key = field.get("key").and_then(Value::as_str).ok_or_else(problem)?;
        let value = field.get("value").unwrap_or(&Value::Null);
        let value = scalar_text(value).unwrap_or_else(|| to_json(value));
        Ok(format!("{}={}", form_text(key), form_text(&value)))
    });
    Ok(encoded.collect::<Result<Vec<_>, ErrorInfo>>()?.join("&"))
}

fn form_text(text: &str) -> String {
    escape(text, |byte| is_unreserved(byte) || byte == b' ').replace(' ', "+")
}

/// Encodes a body in parts, each `{headers, body}`. The boundary is the first candidate that no part contains, so a
/// repeated request sends the same bytes.
fn multipart(parts: &Value, value: &Value, headers: &mut HeaderMap) -> Result<Bytes, ErrorInfo> {
    let problem = || {
        let hint =
            "it is an array: [{\"headers\": {\"Content-Disposition\": \"form-data; name=x\"}, \"body\": \"text\"}]";
        bad_request("Body", "`$multipart` of the body is not valid", hint)
    };
    let parts = parts.as_list().ok_or_else(problem)?;
    let parts: Vec<(HeaderMap, Bytes)> =
        parts.iter().map(|part| part.as_map().ok_or_else(problem).and_then(parse_part)).collect::<Result<_, _>>()?;
    let content_type = multipart_type(headers, value)?;
    let boundary = match content_type_parameter(&content_type, "boundary") {
        Some(boundary) => boundary,
        None => unused_boundary(&parts),
    };
    let mut bytes = Vec::new();
    for (headers, body) in &parts {
        bytes.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        for (name, value) in headers {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = match content_type_parameter(&content_type, "boundary") {
        Some(_) => content_type,
        None => format!("{content_type}; boundary={boundary}"),
    };
    headers.insert(header::CONTENT_TYPE, header_value("content-type", &content_type.into())?);
    Ok(bytes.into())
}

/// Returns the type of the header if it is a multipart type, else that of the body.
fn multipart_type(headers: &HeaderMap, value: &Value) -> Result<String, ErrorInfo> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok());
    let own = value.get("$content-type").and_then(Value::as_str);
    let fits = |text: &&str| text.trim_start().to_ascii_lowercase().starts_with("multipart/");
    let found = given.into_iter().chain(own).find(fits);
    match (found, own) {
        (Some(found), _) => Ok(found.trim().trim_end_matches(';').to_owned()),
        (None, None) => Ok("multipart/form-data".to_owned()),
        (None, Some(_)) => {
            let message = "`$content-type` of a body with `$multipart` is not a type with parts";
            Err(bad_request("Body", message, "such as `multipart/form-data` or `multipart/mixed`"))
        }
    }
}

fn parse_part(part: &Map) -> Result<(HeaderMap, Bytes), ErrorInfo> {
    let mut headers = HeaderMap::new();
    let given = part.get("headers").and_then(Value::as_map);
    for (name, value) in given.into_iter().flat_map(Map::iter) {
        headers.append(header_name(name)?, header_value(name, value)?);
    }
    let body = part.get("body").unwrap_or(&Value::Null);
    let bytes = match body {
        Value::Null => Bytes::new(),
        // A form field is text without a content type.
        Value::Str(text) => Bytes::copy_from_slice(text.as_bytes()),
        body => encode_body(body, &mut headers)?,
    };
    Ok((headers, bytes))
}

/// Returns a boundary that no part contains, in one pass over the parts.
fn unused_boundary(parts: &[(HeaderMap, Bytes)]) -> String {
    let (prefix, digits) = (&b"windlass-part-"[..], 8);
    let found = parts.iter().flat_map(|(_, body)| body.windows(prefix.len() + digits));
    let found = found.filter(|window| window.starts_with(prefix));
    let used: BTreeSet<&str> = found.filter_map(|window| std::str::from_utf8(window).ok()).collect();
    let mut names = (0u64..).map(|number| format!("windlass-part-{number:08}"));
    names.find(|name| !used.contains(name.as_str())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use windlass_value::parse_json;

    use super::*;

    fn sent(body: &str, content_type: &str) -> (String, String) {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        let bytes = encode_body(&parse_json(body).unwrap(), &mut headers).unwrap();
        let content_type = headers[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        (String::from_utf8(bytes.to_vec()).unwrap(), content_type)
    }

    #[test]
    fn forms_are_encoded() {
        let body = r#"{"$formdata": [{"key": "a b", "value": "1&2"}, {"key": "ü", "value": 3}, {"key": "n"}]}"#;
        let form = "a+b=1%262&%C3%BC=3&n=";
        assert_eq!(sent(body, ""), (form.to_owned(), "application/x-www-form-urlencoded".to_owned()));
        assert_eq!(sent(body, "x/y"), (form.to_owned(), "x/y".to_owned()));
    }

    #[test]
    fn a_boundary_is_in_no_part() {
        let body = r#"{"$content-type": "multipart/mixed", "$multipart": [{"body": "windlass-part-00000000"}]}"#;
        let (text, content_type) = sent(body, "");
        assert_eq!(content_type, "multipart/mixed; boundary=windlass-part-00000001");
        assert_eq!(text, "--windlass-part-00000001\r\n\r\nwindlass-part-00000000\r\n--windlass-part-00000001--\r\n");
        let (text, content_type) = sent(body, "Multipart/Form-Data; boundary=\"own\"");
        assert_eq!(content_type, "Multipart/Form-Data; boundary=\"own\"");
        assert!(text.starts_with("--own\r\n"), "{text}");
    }
}
