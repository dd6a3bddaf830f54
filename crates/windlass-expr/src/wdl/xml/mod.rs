//! XML as a value: `{"$content-type": "application/xml;charset=utf-8", "$content": base64}`.
//!
//! - `document`: text to a tree · `write`: a tree to text · `json`: XML to JSON and back · `xpath`: queries on a
//!   tree.

pub(crate) mod document;
pub(crate) mod json;
mod write;
pub(crate) mod xpath;

use windlass_value::{EvalError, Value};

use super::functions::{base64_text, binary_text};
use super::values::{WdlContext, WdlResult, describe, type_error};

pub(crate) use document::XmlDocument;
pub(crate) use write::outer_xml;

pub(crate) const CONTENT_TYPE: &str = "application/xml;charset=utf-8";

/// Returns whether the value carries XML.
pub(crate) fn is_xml(value: &Value) -> bool {
    content_type(value).is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind == "application/xml" || kind == "text/xml" || kind.ends_with("+xml")
    })
}

/// Returns the content type of a value that carries binary content.
pub(crate) fn content_type(value: &Value) -> Option<&str> {
    value.get("$content")?;
    value.get("$content-type").and_then(Value::as_str)
}

/// Returns the value that carries this XML.
pub(crate) fn xml_value(context: &mut WdlContext, text: &str) -> WdlResult {
    let content = base64_text(context, text.as_bytes())?;
    Ok(Value::object([("$content-type", Value::from(CONTENT_TYPE)), ("$content", Value::from(content))]))
}

/// Returns the XML text of a value that carries XML, or a plain text itself.
pub(crate) fn xml_text(function: &str, context: &mut WdlContext, value: &Value) -> Result<String, EvalError> {
    match value {
        Value::Str(text) => Ok(text.to_string()),
        Value::Map(map) if map.contains_key("$content") => binary_text(&format!("`{function}`"), context, value),
        other => Err(type_error(format!("`{function}` needs XML, got {}", describe(other)))
            .with_hint("xml(…) converts a text, or an object with one property, to XML")),
    }
}
