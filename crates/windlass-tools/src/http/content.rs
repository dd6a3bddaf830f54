//! What a body is: JSON, text, or bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use windlass_value::{Value, parse_json};

/// A body that its server calls JSON, and what is wrong with it.
pub(super) struct NotJson {
    pub(super) problem: String,
    pub(super) body: Value,
    /// The beginning, as text.
    pub(super) start: String,
}

/// Enough that a secret across the edge of the shown part is still seen whole.
const START_BYTES: usize = 4096;

pub(super) fn body_value(content_type: Option<&str>, bytes: Vec<u8>) -> Result<Value, NotJson> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let media = media_type(content_type);
    if is_json(&media) {
        return json(bytes, content_type);
    }
    let is_latin1 = content_type.is_some_and(|full| full.to_ascii_lowercase().contains("charset=iso-8859-1"));
    if is_text(&media) && is_latin1 {
        return Ok(Value::from(bytes.into_iter().map(char::from).collect::<String>()));
    }
    if is_text(&media) || media.is_empty() {
        return Ok(String::from_utf8(bytes).map_or_else(|error| binary(content_type, error.as_bytes()), Value::from));
    }
    Ok(binary(content_type, &bytes))
}

fn media_type(content_type: Option<&str>) -> String {
    content_type.and_then(|full| full.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(media: &str) -> bool {
    matches!(media, "application/json" | "text/json") || media.ends_with("+json")
}

fn is_text(media: &str) -> bool {
    let names = ["xml", "javascript", "yaml", "www-form-urlencoded", "graphql", "ndjson", "jsonl", "sql", "toml"];
    let subtype = media.strip_prefix("application/").unwrap_or_default().trim_start_matches("x-");
    media.starts_with("text/") || media.ends_with("+xml") || media.ends_with("+yaml") || names.contains(&subtype)
}

fn json(bytes: Vec<u8>, content_type: Option<&str>) -> Result<Value, NotJson> {
    match std::str::from_utf8(&bytes) {
        Ok(text) => {
            let json = text.trim_start_matches('\u{feff}');
            parse_json(json).map_err(|error| not_json(error.to_string(), Value::from(text), &bytes))
        }
        Err(error) => {
            let problem = format!("it is not UTF-8 at byte {}", error.valid_up_to());
            Err(not_json(problem, binary(content_type, &bytes), &bytes))
        }
    }
}

fn not_json(problem: String, body: Value, bytes: &[u8]) -> NotJson {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(START_BYTES)]).into_owned();
    NotJson { problem, body, start }
}

fn binary(content_type: Option<&str>, bytes: &[u8]) -> Value {
    let content_type = content_type.unwrap_or("application/octet-stream");
    Value::object([("$content-type", content_type.to_owned()), ("$content", BASE64.encode(bytes))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(content_type: &str, bytes: &[u8]) -> Value {
        body_value(Some(content_type).filter(|name| !name.is_empty()), bytes.to_vec()).ok().unwrap()
    }

    #[test]
    fn goes_by_the_content_type() {
        assert_eq!(value("application/problem+json; charset=utf-8", b"{\"a\":1}"), Value::object([("a", 1i64)]));
        assert_eq!(value("Application/JSON", b"\xef\xbb\xbf[]"), Value::list(vec![]));
        assert_eq!(value("application/json", b""), Value::Null);
        assert_eq!(value("application/xml", b"<a/>"), Value::from("<a/>"));
        assert_eq!(value("image/svg+xml", b"<a/>"), Value::from("<a/>"));
        assert_eq!(value("text/plain; charset=ISO-8859-1", b"\xfc"), Value::from("ü"));
        assert_eq!(value("", b"plain"), Value::from("plain"));
        let bytes = Value::object([("$content-type", "image/png"), ("$content", "/w==")]);
        assert_eq!(value("image/png", b"\xff"), bytes);
        assert_eq!(value("text/plain", b"\xff").get("$content"), bytes.get("$content"));
    }

    #[test]
    fn says_where_json_ends_being_json() {
        let bad = body_value(Some("application/json"), b"{\"a\": nope}".to_vec()).err().unwrap();
        assert_eq!(bad.problem, "not valid JSON at line 1, column 8: expected ident");
        let bad = body_value(Some("application/json"), b"[\"\xff\"]".to_vec()).err().unwrap();
        assert_eq!(bad.problem, "it is not UTF-8 at byte 2");
    }
}
