//! JSON input and output, and serde for values: plain JSON for readers, the canonical encoding for the journal.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ContentKind, Map, StoredValue, Value, codec};

pub(crate) const PRIVATE_NUMBER: &str = "$serde_json::private::Number";

/// A JSON syntax error and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid JSON at line {line}, column {column}: {message}")]
pub struct JsonError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Parses JSON; nesting beyond 128 is refused.
pub fn parse_json(text: &str) -> Result<Value, JsonError> {
    serde_json::from_str(text).map_err(|error| JsonError {
        line: error.line(),
        column: error.column(),
        message: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
    })
}

/// Formats compact JSON. A stored value is shown as `{"ref": {…}}`.
pub fn to_json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Writes the JSON of [`to_json`].
///
/// # Errors
///
/// Fails if the writer does.
pub fn write_json(value: &Value, out: impl Write) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

pub fn to_json_pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| "null".to_owned())
}

/// Formats a float outside of JSON: the shortest text that parses to the same number.
///
/// Whole numbers have no point, and there is an exponent where .NET has one.
pub fn format_float(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-4..1e15).contains(&size) {
        return format!("{number}");
    }
    let text = format!("{number:E}");
    let (digits, exponent) = text.split_once('E').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}E{sign}{exponent:0>2}")
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&codec::encode(self));
        }
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Big(text) => match text.parse::<serde_json::Number>() {
                Ok(number) => number.serialize(serializer),
                Err(_) => serializer.serialize_str(text),
            },
            Value::Str(text) => serializer.serialize_str(text),
            Value::List(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| seq.serialize_element(item))?;
                seq.end()
            }
            Value::Map(map) => {
                let mut out = serializer.serialize_map(Some(map.len()))?;
                map.iter().try_for_each(|(key, value)| out.serialize_entry(&**key, value))?;
                out.end()
            }
            Value::Stored(stored) => {
                let mut out = serializer.serialize_map(Some(1))?;
                let (key, content) = (stored.hash.to_string(), &stored.summary);
                out.serialize_entry(
                    "ref",
                    &serde_json::json!({
                        "store": "blobs", "key": key, "checksum": format!("blake3:{}", content.checksum),
                        "size": content.size, "schema_hint": schema_hint(stored),
                    }),
                )?;
                out.end()
            }
        }
    }
}

/// Returns the type of a stored value, with its number of items or its top-level keys.
fn schema_hint(stored: &StoredValue) -> serde_json::Value {
    let mut hint = serde_json::json!({"type": stored.summary.kind.as_str()});
    match stored.summary.kind {
        ContentKind::Array => {
            hint["items"] = stored.items.into();
            if stored.chunked {
                hint["chunked"] = true.into();
            }
        }
        ContentKind::Object => {
            hint["keys"] = stored.summary.keys.iter().map(|key| &**key).collect();
            if stored.summary.more_keys > 0 {
                hint["more_keys"] = stored.summary.more_keys.into();
            }
        }
        ContentKind::Null | ContentKind::Boolean | ContentKind::Number | ContentKind::String => {}
    }
    hint
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(JsonVisitor),
            false => deserializer.deserialize_bytes(CodecVisitor),
        }
    }
}

struct CodecVisitor;

impl<'de> Visitor<'de> for CodecVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an encoded value")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Value, E> {
        codec::decode(bytes).map_err(E::custom)
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Value, E> {
        self.visit_bytes(&bytes)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Value::float(number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<Arc<str>>()? {
            // With arbitrary precision, serde_json passes a number as a map with this one private key.
            if &*key == PRIVATE_NUMBER && map.is_empty() {
                let text: String = access.next_value()?;
                return number_from_text(&text).ok_or_else(|| de::Error::custom("an invalid number"));
            }
            map.insert(key, access.next_value::<Value>()?);
        }
        Ok(Value::map(map))
    }
}

/// Parses a number: integers within i64, finite floats; any other number keeps its text.
///
/// Returns `None` if it is not a number: a document can contain the private key, too.
pub(crate) fn number_from_text(text: &str) -> Option<Value> {
    let number = match text.contains(['.', 'e', 'E']) {
        false => text.parse().ok().map(Value::Int),
        true => text.parse::<f64>().ok().and_then(Value::float),
    };
    number.or_else(|| text.parse::<serde_json::Number>().is_ok().then(|| Value::Big(text.into())))
}
