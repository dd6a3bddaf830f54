//! Conversion of a reply's body to a value: JSON, text, a form, or bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use windlass_value::{Map, Value, decode_text, parse_json};

use super::uri::unescape;

/// A body that is declared as JSON but is not valid JSON.
pub(super) struct InvalidJson {
    pub(super) problem: String,
    pub(super) body: Value,
    /// The beginning of the body, as text.
    pub(super) start: String,
}

/// Long enough that a secret across the end of the displayed part is still recognized.
const START_BYTES: usize = 4096;

pub(super) fn parse_body(content_type: Option<&str>, bytes: Vec<u8>) -> Result<Value, InvalidJson> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let media = media_type(content_type);
    if is_json(&media) {
        return json(content_type, bytes);
    }
    if media == "application/x-www-form-urlencoded" {
        return Ok(form(content_type, &bytes));
    }
    if is_text(&media) || media.is_empty() {
        return Ok(text(content_type, bytes).map_or_else(|bytes| binary(content_type, &bytes), Value::from));
    }
    Ok(binary(content_type, &bytes))
}

fn media_type(content_type: Option<&str>) -> String {
    content_type.and_then(|full| full.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(media: &str) -> bool {
    matches!(media, "application/json" | "text/json") || media.ends_with("+json")
}

/// Returns true for text types. XML becomes tagged content, as in Azure; `xml(…)` and text functions read it.
fn is_text(media: &str) -> bool {
    let names = ["javascript", "yaml", "graphql", "ndjson", "jsonl", "sql", "toml"];
    let subtype = media.strip_prefix("application/").unwrap_or_default().trim_start_matches("x-");
    media.starts_with("text/") || media.ends_with("+yaml") || names.contains(&subtype)
}

/// Decodes text in the declared charset. Returns the bytes if that fails.
fn text(content_type: Option<&str>, bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    decode_text(content_type.unwrap_or_default(), bytes).map_err(|undecodable| undecodable.bytes)
}

fn json(content_type: Option<&str>, bytes: Vec<u8>) -> Result<Value, InvalidJson> {
    match text(content_type, bytes) {
        Ok(text) => parse_json(text.trim_start_matches('\u{feff}')).map_err(|error| {
            let start = text.as_bytes();
            invalid_json(error.to_string(), Value::from(text.as_str()), start)
        }),
        Err(bytes) => {
            let problem = match std::str::from_utf8(&bytes) {
                Err(error) => format!("it is not UTF-8 at byte {}", error.valid_up_to()),
                Ok(_) => "it is not in the charset that it names, or that charset is not known".to_owned(),
            };
            Err(invalid_json(problem, binary(content_type, &bytes), &bytes))
        }
    }
}

fn invalid_json(problem: String, body: Value, bytes: &[u8]) -> InvalidJson {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(START_BYTES)]).into_owned();
    InvalidJson { problem, body, start }
}

fn binary(content_type: Option<&str>, bytes: &[u8]) -> Value {
    Value::map(tagged(content_type, bytes))
}

fn tagged(content_type: Option<&str>, bytes: &[u8]) -> Map {
    let content_type = content_type.unwrap_or("application/octet-stream");
    [("$content-type", content_type.to_owned()), ("$content", BASE64.encode(bytes))].into_iter().collect()
}

/// Returns the text of tagged bytes; None for any other value, and for bytes that are not text.
pub(super) fn binary_text(value: &Value) -> Option<String> {
    let content_type = value.get("$content-type").and_then(Value::as_str)?;
    let bytes = BASE64.decode(value.get("$content").and_then(Value::as_str)?).ok()?;
    decode_text(content_type, bytes).ok()
}

/// Returns the tagged bytes together with the decoded form fields.
fn form(content_type: Option<&str>, bytes: &[u8]) -> Value {
    let mut form = tagged(content_type, bytes);
    let whole = String::from_utf8_lossy(bytes);
    let plain = |text: &str| unescape(&text.replace('+', " "));
    let fields = whole.trim().split('&').filter(|field| !field.is_empty()).map(|field| {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        Value::object([("key", plain(key)), ("value", plain(value))])
    });
    form.insert("$formdata", Value::list(fields.collect()));
    Value::map(form)
}

#[cfg(test)]
mod tests {
    use windlass_value::to_json;

    use super::*;

    fn value(content_type: &str, bytes: &[u8]) -> Value {
        parse_body(Some(content_type).filter(|name| !name.is_empty()), bytes.to_vec()).ok().unwrap()
    }

    #[test]
    fn bodies_are_parsed_by_content_type() {
        for (content_type, bytes, expected) in [
            ("application/problem+json; charset=utf-8", &b"{\"a\":1}"[..], r#"{"a":1}"#),
            ("Application/JSON", b"\xef\xbb\xbf[]", "[]"),
            ("application/json", b"", "null"),
            ("application/json; charset=latin1", b"\"\xfc\"", r#""ü""#),
            ("application/xml", b"<a/>", r#"{"$content-type":"application/xml","$content":"PGEvPg=="}"#),
            ("image/svg+xml", b"<a/>", r#"{"$content-type":"image/svg+xml","$content":"PGEvPg=="}"#),
            ("text/xml", b"<a/>", r#""<a/>""#),
            ("text/plain; charset=ISO-8859-1", b"\xfc", r#""ü""#),
            ("text/plain; Charset=\"utf-8\"", b"\xc3\xbc", r#""ü""#),
            ("text/plain; charset=utf-16", b"\xff\xfe\xfc\x00", r#""ü""#),
            ("text/plain; charset=utf-16be", b"\x00\xfc", r#""ü""#),
            ("text/plain; charset=koi8-r", b"a", r#"{"$content-type":"text/plain; charset=koi8-r","$content":"YQ=="}"#),
            ("", b"plain", r#""plain""#),
            ("image/png", b"\xff", r#"{"$content-type":"image/png","$content":"/w=="}"#),
            ("text/plain", b"\xff", r#"{"$content-type":"text/plain","$content":"/w=="}"#),
            (
                "application/x-www-form-urlencoded",
                b"a=1+2&b=%26&c",
                r#"{"$content-type":"application/x-www-form-urlencoded","$content":"YT0xKzImYj0lMjYmYw==","$formdata":[{"key":"a","value":"1 2"},{"key":"b","value":"&"},{"key":"c","value":""}]}"#,
            ),
        ] {
            assert_eq!(to_json(&value(content_type, bytes)), expected, "{content_type}");
        }
    }

    #[test]
    fn an_invalid_json_error_says_where() {
        let bad = parse_body(Some("application/json"), b"{\"a\": nope}".to_vec()).err().unwrap();
        assert_eq!(bad.problem, "not valid JSON at line 1, column 8: expected ident");
        let bad = parse_body(Some("application/json"), b"[\"\xff\"]".to_vec()).err().unwrap();
        assert_eq!(bad.problem, "it is not UTF-8 at byte 2");
    }
}
