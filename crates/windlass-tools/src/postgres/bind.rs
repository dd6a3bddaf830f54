//! Conversion of values to parameters. All parameters are sent as text, which the server parses by the parameter's
//! type. Values that are obviously wrong are rejected here, with the number of the parameter.

use std::error::Error;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};
use windlass_core::ErrorInfo;
use windlass_value::{Value, parse_json, to_json};

use crate::input::{bad_input, plain_text};

/// The text of a parameter; `None` is NULL.
#[derive(Debug)]
pub(super) struct BoundParameter(Option<String>);

impl ToSql for BoundParameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.put_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// Binds a value. `alone` marks a list that is the sole operand of `IN ($1)`. It is rejected for text types although it
/// could be converted to text, because no value would ever equal that text.
pub(super) fn bind(value: &Value, kind: &Type, number: usize, alone: bool) -> Result<BoundParameter, ErrorInfo> {
    let text = match *kind {
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME if alone => {
            Err("pass a text, or compare with `= ANY(…)`")
        }
        _ => to_text(value, kind),
    };
    match text {
        Ok(Some(text)) if text.contains('\0') => Err(bad_input(format!(
            "{} contains a NUL character, which Postgres text cannot",
            describe_parameter(number)
        ))),
        Ok(text) => Ok(BoundParameter(text)),
        Err(hint) => {
            let message = format!(
                "{} is {}, which is not a valid {}",
                describe_parameter(number),
                describe_value(value),
                kind.name()
            );
            Err(bad_input(message).hint(cast_hint(value, kind).unwrap_or_else(|| hint.to_owned())))
        }
    }
}

/// Describes a parameter by its number. Each template of a playbook becomes a parameter, and authors count those.
fn describe_parameter(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("the {number}{ending} value of the statement (${number})")
}

/// Suggests a cast, because the type comes from the context of the parameter and the statement can specify another.
fn cast_hint(value: &Value, kind: &Type) -> Option<String> {
    let whole = matches!(*kind, Type::INT2 | Type::INT4 | Type::INT8);
    match value {
        Value::List(_) if !matches!(kind.kind(), Kind::Array(_)) => Some(
            "for a list write `= ANY({{ … }})` in place of `IN ({{ … }})`, or make it text with `| tojson`".to_owned(),
        ),
        Value::Float(number) if whole && number.fract() != 0.0 => {
            Some("the place takes whole numbers: write `{{ … }}::numeric`, or round the value".to_owned())
        }
        _ => None,
    }
}

/// Returns the type for a parameter whose type is ambiguous.
pub(super) fn natural_type(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::BOOL,
        Value::Int(_) => Type::INT8,
        Value::Float(_) => Type::FLOAT8,
        Value::Big(_) => Type::NUMERIC,
        Value::List(_) | Value::Map(_) => Type::JSONB,
        Value::Null | Value::Str(_) | Value::Stored(_) => Type::TEXT,
    }
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::List(_) | Value::Map(_) | Value::Stored(_) => format!("an {}", value.kind()),
        scalar => {
            let json = to_json(scalar);
            let cut: String = json.chars().take(60).collect();
            let more = if cut.len() < json.len() { "…" } else { "" };
            format!("the {} {cut}{more}", scalar.kind())
        }
    }
}

/// Returns the text, or a hint why there is none.
fn to_text(value: &Value, kind: &Type) -> Result<Option<String>, &'static str> {
    if value.is_null() {
        return Ok(None);
    }
    let text = match kind.kind() {
        Kind::Domain(inner) => return to_text(value, inner),
        Kind::Array(item) => array(value, item)?,
        Kind::Enum(labels) => {
            let label = plain_text(value);
            if !labels.contains(&label) {
                return Err("it must be one of the labels of that type");
            }
            label
        }
        _ => scalar_text(value, kind)?,
    };
    Ok(Some(text))
}

fn scalar_text(value: &Value, kind: &Type) -> Result<String, &'static str> {
    match *kind {
        Type::INT2 => integer(value, i64::from(i16::MIN), i64::from(i16::MAX)),
        Type::INT4 => integer(value, i64::from(i32::MIN), i64::from(i32::MAX)),
        Type::INT8 => integer(value, i64::MIN, i64::MAX),
        Type::OID => integer(value, 0, i64::from(u32::MAX)),
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => number(value),
        Type::BOOL => boolean(value),
        Type::JSON | Type::JSONB => json(value),
        Type::UUID => uuid(value),
        Type::BYTEA => bytes(value),
        Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::DATE | Type::TIME | Type::TIMETZ => match value {
            Value::Str(text) if !text.trim().is_empty() => Ok(text.to_string()),
            _ => Err("give text such as 2026-01-31T12:00:00Z, 2026-01-31 or 12:00; null is NULL"),
        },
        _ => Ok(plain_text(value)),
    }
}

fn integer(value: &Value, min: i64, max: i64) -> Result<String, &'static str> {
    let number = match value {
        Value::Int(number) => Some(*number),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
        Value::Str(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number.to_string()),
        Some(_) => Err("the number is too large for that type"),
        None => Err("give a whole number, or text that is one; null is NULL"),
    }
}

fn number(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Int(_) | Value::Float(_) | Value::Big(_) => Ok(to_json(value)),
        Value::Str(text) if text.trim().parse::<f64>().is_ok() => Ok(text.trim().to_owned()),
        _ => Err("give a number, or text that is one; null is NULL"),
    }
}

fn boolean(value: &Value) -> Result<String, &'static str> {
    let text = plain_text(value).trim().to_ascii_lowercase();
    let known = ["true", "t", "yes", "y", "on", "1", "false", "f", "no", "n", "off", "0"];
    let fits = matches!(value, Value::Bool(_) | Value::Str(_) | Value::Int(_));
    if fits && known.contains(&text.as_str()) { Ok(text) } else { Err("give true or false; null is NULL") }
}

/// Converts a value to JSON. As in a statement, text must already be JSON: `'{"a": 1}'::jsonb`.
fn json(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Str(text) if parse_json(text).is_err() => Err("text for JSON must be JSON: `| tojson` makes it so"),
        Value::Str(text) => Ok(text.to_string()),
        other => Ok(to_json(other)),
    }
}

fn uuid(value: &Value) -> Result<String, &'static str> {
    let text = value.as_str().map(|text| text.trim().trim_start_matches('{').trim_end_matches('}').replace('-', ""));
    match text {
        Some(text) if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(text),
        _ => Err("give text such as 018f2f6e-7c4b-7000-8000-000000000000"),
    }
}

fn bytes(value: &Value) -> Result<String, &'static str> {
    let decoded = match value {
        Value::Str(text) => BASE64.decode(text.trim()).ok(),
        _ => None,
    };
    let mut hex = "\\x".to_owned();
    for byte in decoded.ok_or("give bytes as base64 text")? {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}

/// Formats an array as `{1,2,NULL}`. Text that already has this form is passed on.
fn array(value: &Value, item: &Type) -> Result<String, &'static str> {
    let items = match value {
        Value::List(items) => items,
        Value::Str(text) if text.trim().starts_with('{') => return Ok(text.to_string()),
        _ => return Err("give an array"),
    };
    let mut parts = Vec::with_capacity(items.len());
    for value in items.iter() {
        parts.push(match value {
            // Nested lists are multidimensional arrays, unless the items themselves are JSON.
            Value::List(_) if !matches!(*item, Type::JSON | Type::JSONB) => array(value, item)?,
            value => match to_text(value, item)? {
                None => "NULL".to_owned(),
                Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            },
        });
    }
    Ok(format!("{{{}}}", parts.join(",")))
}
