//! From one kind of value to another.

use windlass_value::{Map, Value, parse_json};

use super::{ANY, Content, Function, binary_text, check_locale, pure, wrong};
use crate::wdl::values::{Context, Outcome, describe, preview, text_of, type_error, whole};
use crate::wdl::xml;

pub(crate) const FUNCTIONS: &[Function] = &[
    pure("array", 1, 1, array).loading(Content::None),
    pure("createArray", 1, ANY, create_array).loading(Content::None),
    pure("bool", 1, 1, bool),
    pure("int", 1, 1, int),
    pure("float", 1, 2, float),
    pure("decimal", 1, 1, decimal),
    pure("string", 1, 1, string).loading(Content::None),
    pure("json", 1, 1, json),
];

fn array(_context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::list(vec![arguments[0].clone()]))
}

fn create_array(context: &mut Context, arguments: &[Value]) -> Outcome {
    context.room_for_items(arguments.len())?;
    Ok(Value::list(arguments.to_vec()))
}

fn bool(_context: &mut Context, arguments: &[Value]) -> Outcome {
    let flag = match &arguments[0] {
        Value::Bool(flag) => Some(*flag),
        Value::Int(number) => Some(*number != 0),
        Value::Float(number) => Some(*number != 0.0),
        Value::Str(text) if text.trim().eq_ignore_ascii_case("true") => Some(true),
        Value::Str(text) if text.trim().eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    };
    flag.map(Value::Bool).ok_or_else(|| wrong("bool", arguments, 0, "a boolean, a number, 'true' or 'false'"))
}

/// Digits with an optional sign, spaces around them.
pub(super) fn parse_plain_int(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// The text with its thousands separators removed; they may stand between digits before the point only.
fn without_separators(text: &str) -> Option<String> {
    let text = text.trim();
    let whole_end = text.find(['.', 'e', 'E']).unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole_end);
    if whole.starts_with(',') || whole.ends_with(',') || whole.contains(",,") || rest.contains(',') {
        return None;
    }
    Some(whole.replace(',', "") + rest)
}

pub(super) fn parse_float(text: &str) -> Option<f64> {
    let text = without_separators(text)?;
    // Words such as `inf` and `nan` are numbers to Rust, not here.
    let plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

fn parse_int(text: &str) -> Option<i64> {
    let text = without_separators(text)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    fraction.bytes().all(|byte| byte == b'0').then(|| whole.parse().ok()).flatten()
}

fn int(context: &mut Context, arguments: &[Value]) -> Outcome {
    let number = match &arguments[0] {
        Value::Int(number) => Some(*number),
        Value::Float(number) => whole(*number),
        Value::Str(text) => {
            context.bytes(text.len())?;
            parse_int(text)
        }
        _ => None,
    };
    number.map(Value::Int).ok_or_else(|| wrong("int", arguments, 0, "a whole number of 64 bits, or the text of one,"))
}

fn float(context: &mut Context, arguments: &[Value]) -> Outcome {
    check_locale("float", arguments, 1)?;
    real("float", context, arguments)
}

/// There is no decimal kind of number: a whole one stays an integer, others are floats.
fn decimal(context: &mut Context, arguments: &[Value]) -> Outcome {
    if let Value::Str(text) = &arguments[0]
        && let Some(number) = parse_plain_int(text)
    {
        return Ok(Value::Int(number));
    }
    if let Value::Int(_) = &arguments[0] {
        return Ok(arguments[0].clone());
    }
    real("decimal", context, arguments)
}

fn real(function: &str, context: &mut Context, arguments: &[Value]) -> Outcome {
    let number = match &arguments[0] {
        Value::Str(text) => {
            context.bytes(text.len())?;
            parse_float(text)
        }
        other => other.as_f64(),
    };
    let number = number.and_then(Value::float);
    number.ok_or_else(|| wrong(function, arguments, 0, "a number, or the text of one,"))
}

fn string(context: &mut Context, arguments: &[Value]) -> Outcome {
    text_of(context, &arguments[0]).map(Value::Str)
}

/// Text is read as JSON, XML is turned into it; what is JSON already stays. Null gives an empty object.
fn json(context: &mut Context, arguments: &[Value]) -> Outcome {
    match &arguments[0] {
        Value::Null => Ok(Value::map(Map::new())),
        Value::Str(text) => read_json(context, text),
        value if xml::is_xml(value) => {
            let text = xml::text_at("json", context, value)?;
            let document = xml::Document::parse(context, &text)?;
            xml::json::to_json(context, &document)
        }
        value if xml::content_type(value).is_some_and(|kind| kind.to_ascii_lowercase().contains("json")) => {
            let text = binary_text("json", context, value)?;
            read_json(context, &text)
        }
        Value::Stored(_) => Err(type_error(format!("`json` cannot read {}", describe(&arguments[0])))),
        other => Ok(other.clone()),
    }
}

fn read_json(context: &mut Context, text: &str) -> Outcome {
    context.room_for_bytes(text.len())?;
    context.items(text.len() / 8)?;
    parse_json(text).map_err(|error| {
        type_error(format!("`json` cannot read {}: {error}", preview(&Value::from(text))))
            .hint("the text must be JSON; a text value needs double quotes in it")
    })
}
