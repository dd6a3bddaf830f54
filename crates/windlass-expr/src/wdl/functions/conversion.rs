//! Conversions between types of values.

use std::str::FromStr;

use rust_decimal::Decimal;
use windlass_value::{Digits, Map, Value, parse_json};

use super::encoding::{binary_text, is_binary};
use super::{LiteralArgument, LoadedArguments, UNLIMITED, WdlFunction, locale_at, pure, wrong_argument};
use crate::wdl::locale::{Locale, default_locale};
use crate::wdl::values::{
    WdlContext, WdlResult, describe, exact_int, exact_int_from_decimal, preview, to_text, type_error,
};
use crate::wdl::xml;

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("array", 1, 1, array).loading(LoadedArguments::None),
    pure("createArray", 1, UNLIMITED, create_array).loading(LoadedArguments::None),
    pure("bool", 1, 1, bool),
    pure("int", 1, 1, int),
    pure("float", 1, 2, float).checking(&[(1, LiteralArgument::Locale)]),
    pure("decimal", 1, 1, decimal),
    pure("string", 1, 1, string).loading(LoadedArguments::None),
    pure("json", 1, 1, json),
];

fn array(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::list(vec![arguments[0].clone()]))
}

fn create_array(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    context.reserve_items(arguments.len())?;
    Ok(Value::list(arguments.to_vec()))
}

fn bool(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let flag = match &arguments[0] {
        Value::Bool(flag) => Some(*flag),
        Value::Int(number) => Some(*number != 0),
        Value::Float(number) => Some(*number != 0.0),
        Value::Big(_) => Some(arguments[0] != Value::Int(0)),
        Value::Str(text) if text.trim().eq_ignore_ascii_case("true") => Some(true),
        Value::Str(text) if text.trim().eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    };
    flag.map(Value::Bool).ok_or_else(|| wrong_argument("bool", arguments, 0, "a boolean, a number, 'true' or 'false'"))
}

/// Parses digits with an optional sign and surrounding spaces.
pub(super) fn parse_plain_int(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// Normalizes a number's text: removes the locale's thousands separators, which are allowed only between digits
/// before the decimal separator, and replaces the decimal separator with a point.
fn normalize_number(text: &str, locale: &Locale) -> Option<String> {
    let text = text.trim();
    let whole_end = text.find(locale.decimal).or_else(|| text.find(['e', 'E'])).unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole_end);
    let separates = |c: char| match locale.group {
        "\u{a0}" => matches!(c, ' ' | '\u{a0}' | '\u{202f}'),
        group => group.starts_with(c),
    };
    let mut out = String::with_capacity(text.len());
    let mut after_digit = false;
    for c in whole.chars() {
        match separates(c) {
            true if after_digit => after_digit = false,
            true => return None,
            false => {
                out.push(c);
                after_digit = c.is_ascii_digit();
            }
        }
    }
    if whole.ends_with(separates) {
        return None;
    }
    match rest.strip_prefix(locale.decimal) {
        Some(fraction) => out.extend([".", fraction]),
        None => out.push_str(rest),
    }
    // Rust parses words such as `inf` and `nan` as numbers; WDL does not.
    out.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')).then_some(out)
}

pub(super) fn parse_float(text: &str, locale: &Locale) -> Option<f64> {
    normalize_number(text, locale)?.parse().ok().filter(|number: &f64| number.is_finite())
}

fn parse_int(text: &str) -> Option<i64> {
    let text = normalize_number(text, default_locale())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    fraction.bytes().all(|byte| byte == b'0').then(|| whole.parse().ok()).flatten()
}

/// Parses a decimal. Digits beyond the 28th are rounded off; None for a number that is too large.
fn parse_decimal(text: &str) -> Option<Decimal> {
    if !text.contains(['e', 'E']) {
        return Decimal::from_str(text).ok();
    }
    let mut digits = Digits::parse(text)?;
    digits.round(28);
    if digits.point > 29 {
        return None;
    }
    let (places, before) = (digits.digits.iter().map(|digit| char::from(b'0' + digit)), digits.point);
    let zeros = usize::try_from(-before).unwrap_or(0);
    let mut out = String::from(if digits.negative { "-0" } else { "0" });
    if before <= 0 {
        out.push('.');
        out.extend(std::iter::repeat_n('0', zeros));
    }
    for (index, digit) in places.enumerate() {
        if index as i64 == before && before > 0 {
            out.push('.');
        }
        out.push(digit);
    }
    let missing = usize::try_from(before - digits.digits.len() as i64).unwrap_or(0);
    out.extend(std::iter::repeat_n('0', missing));
    Decimal::from_str(&out).ok()
}

/// Converts a number to a decimal, if it fits.
pub(super) fn decimal_of(number: &Value) -> Option<Decimal> {
    match number {
        Value::Int(int) => Some(Decimal::from(*int)),
        Value::Float(float) => parse_decimal(&format!("{float:e}")),
        Value::Big(text) => parse_decimal(text),
        _ => None,
    }
}

fn int(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let number = match &arguments[0] {
        Value::Int(number) => Some(*number),
        Value::Float(number) => exact_int(*number),
        Value::Big(text) => exact_int_from_decimal(text),
        Value::Str(text) => {
            context.charge_bytes(text.len())?;
            parse_int(text)
        }
        _ => None,
    };
    number
        .map(Value::Int)
        .ok_or_else(|| wrong_argument("int", arguments, 0, "a whole number of 64 bits, or the text of one,"))
}

fn float(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let locale = locale_at("float", arguments, 1)?;
    let number = match &arguments[0] {
        Value::Str(text) => {
            context.charge_bytes(text.len())?;
            parse_float(text, locale)
        }
        Value::Big(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    let number = number.and_then(Value::float);
    number.ok_or_else(|| wrong_argument("float", arguments, 0, "a number, or the text of one,"))
}

/// Converts to a decimal, which keeps its digits, so that 0.1 and 0.2 add up to 0.3; it is carried as its text.
fn decimal(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let number = match &arguments[0] {
        Value::Str(text) => {
            context.charge_bytes(text.len())?;
            normalize_number(text, default_locale()).and_then(|text| parse_decimal(&text))
        }
        other => decimal_of(other),
    };
    match number {
        Some(number) => Ok(Value::Big(number.to_string().into())),
        None => Err(wrong_argument("decimal", arguments, 0, "a number that fits into a decimal, or the text of one,")),
    }
}

/// Converts to a string. A binary value is decoded as text.
fn string(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    to_text(context, &arguments[0]).map(Value::Str)
}

/// Parses text or a binary value as JSON and converts XML to JSON. A JSON value is returned unchanged. Null becomes
/// an empty object.
fn json(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match &arguments[0] {
        Value::Null => Ok(Value::map(Map::new())),
        Value::Str(text) => read_json(context, text),
        value if xml::is_xml(value) => {
            let text = xml::xml_text("json", context, value)?;
            let document = xml::XmlDocument::parse(context, &text)?;
            xml::json::to_json(context, &document)
        }
        Value::Stored(_) => Err(type_error(format!("`json` cannot read {}", describe(&arguments[0])))),
        Value::Map(map) if is_binary(map) => {
            let text = binary_text("`json`", context, &arguments[0])?;
            read_json(context, &text)
        }
        other => Ok(other.clone()),
    }
}

fn read_json(context: &mut WdlContext, text: &str) -> WdlResult {
    context.reserve_bytes(text.len())?;
    context.charge_items(text.len() / 8)?;
    parse_json(text).map_err(|error| {
        type_error(format!("`json` cannot read {}: {error}", preview(&Value::from(text))))
            .with_hint("the text must be JSON; a text value needs double quotes in it")
    })
}
