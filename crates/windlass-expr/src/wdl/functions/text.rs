//! Text functions. Positions and lengths count characters (Unicode scalar values); searching ignores letter case
//! except where WDL defines otherwise.

use windlass_value::{EvalError, Value};

use super::conversion::{parse_float, parse_plain_int};
use super::{
    LiteralArgument, LoadedArguments, UNLIMITED, WdlFunction, int_at, locale_at, pure, state, text_at, wrong_argument,
};
use crate::wdl::number_format;
use crate::wdl::values::{WdlContext, WdlResult, to_text, truncate, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("concat", 1, UNLIMITED, concat).loading(LoadedArguments::None),
    pure("startsWith", 2, 2, starts_with),
    pure("endsWith", 2, 2, ends_with),
    pure("indexOf", 2, 2, index_of),
    pure("lastIndexOf", 2, 2, last_index_of),
    pure("nthIndexOf", 3, 3, nth_index_of),
    pure("replace", 3, 3, replace),
    pure("slice", 2, 3, slice),
    pure("split", 2, 2, split),
    pure("substring", 2, 3, substring),
    pure("toLower", 1, 1, to_lower),
    pure("toUpper", 1, 1, to_upper),
    pure("trim", 1, 1, trim),
    pure("isInt", 1, 1, is_int),
    pure("isFloat", 1, 2, is_float).checking(&[(1, LiteralArgument::Locale)]),
    pure("formatNumber", 2, 3, format_number)
        .checking(&[(1, LiteralArgument::NumberFormat), (2, LiteralArgument::Locale)]),
    state("guid", 0, 1, guid),
];

fn concat(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let mut out = String::new();
    for argument in arguments {
        let text = to_text(context, argument)?;
        context.charge_bytes(text.len())?;
        context.meter.check_size(out.len() + text.len())?;
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

/// Maps one character to one character, as .NET does without a culture. A character without a single counterpart
/// stays, and so do the dotted and the dotless i and the long s, whose counterparts would not map back.
fn to_lower_char(letter: char) -> char {
    single_or_same(letter, letter.to_lowercase())
}

fn to_upper_char(letter: char) -> char {
    match letter {
        'ı' | 'ſ' => letter,
        _ => single_or_same(letter, letter.to_uppercase()),
    }
}

fn single_or_same(letter: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => letter,
    }
}

/// Lowercases character by character, so that positions in the folded text are positions in the text.
fn fold(context: &mut WdlContext, text: &str) -> Result<String, EvalError> {
    context.reserve_bytes(text.len())?;
    Ok(text.chars().map(to_lower_char).collect())
}

fn both_folded(function: &str, context: &mut WdlContext, arguments: &[Value]) -> Result<(String, String), EvalError> {
    let text = fold(context, text_at(function, arguments, 0)?)?;
    let search = fold(context, text_at(function, arguments, 1)?)?;
    Ok((text, search))
}

fn starts_with(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (text, search) = both_folded("startsWith", context, arguments)?;
    Ok(Value::Bool(text.starts_with(&search)))
}

fn ends_with(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (text, search) = both_folded("endsWith", context, arguments)?;
    Ok(Value::Bool(text.ends_with(&search)))
}

/// Returns the number of characters before a byte offset, or -1 when nothing was found.
fn position(text: &str, found: Option<usize>) -> Value {
    found.map_or(Value::Int(-1), |byte| Value::from(text[..byte].chars().count()))
}

fn index_of(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (text, search) = both_folded("indexOf", context, arguments)?;
    Ok(position(&text, text.find(&search)))
}

fn last_index_of(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (text, search) = both_folded("lastIndexOf", context, arguments)?;
    if search.is_empty() {
        let last = text.chars().count() as i64 - 1;
        return Ok(Value::Int(if text.is_empty() { 0 } else { last }));
    }
    Ok(position(&text, text.rfind(&search)))
}

fn nth_index_of(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (text, search) = both_folded("nthIndexOf", context, arguments)?;
    let nth = int_at("nthIndexOf", arguments, 2)?;
    if nth == 0 || search.is_empty() {
        return Err(type_error("`nthIndexOf` needs a text to look for, and a number that is not 0"));
    }
    let skipped = usize::try_from(nth.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let found = match nth > 0 {
        true => text.match_indices(&search).nth(skipped),
        false => text.rmatch_indices(&search).nth(skipped),
    };
    Ok(position(&text, found.map(|(byte, _)| byte)))
}

fn replace(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (text, old) = (text_at("replace", arguments, 0)?, text_at("replace", arguments, 1)?);
    let new = text_at("replace", arguments, 2)?;
    if old.is_empty() {
        return Err(type_error("`replace` cannot look for an empty string"));
    }
    context.charge_bytes(text.len())?;
    let count = text.matches(old).count();
    if count == 0 {
        return Ok(arguments[0].clone());
    }
    context
        .reserve_bytes(text.len().saturating_sub(count * old.len()).saturating_add(count.saturating_mul(new.len())))?;
    Ok(Value::from(text.replace(old, new)))
}

/// Returns the characters from one position to another, both within the text.
fn characters(context: &mut WdlContext, text: &str, from: usize, to: usize) -> WdlResult {
    context.reserve_bytes(text.len())?;
    let byte = |position: usize| text.char_indices().nth(position).map_or(text.len(), |(byte, _)| byte);
    Ok(Value::from(&text[byte(from)..byte(to.max(from))]))
}

/// Returns a part of the text. Negative positions count from the end; positions beyond the text are clamped.
fn slice(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let text = text_at("slice", arguments, 0)?;
    context.charge_bytes(text.len())?;
    let length = text.chars().count();
    let clamp = |position: i64| {
        let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
        if position < 0 { length.saturating_sub(distance) } else { distance.min(length) }
    };
    let from = clamp(int_at("slice", arguments, 1)?);
    let to = match arguments.len() {
        3 => clamp(int_at("slice", arguments, 2)?),
        _ => length,
    };
    characters(context, text, from, to)
}

fn substring(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let text = text_at("substring", arguments, 0)?;
    context.charge_bytes(text.len())?;
    let length = text.chars().count();
    let start = int_at("substring", arguments, 1)?;
    let count = match arguments.len() {
        3 => int_at("substring", arguments, 2)?,
        _ => (length as i64).saturating_sub(start),
    };
    let from = usize::try_from(start).ok().filter(|from| *from <= length);
    let to = start.checked_add(count).and_then(|to| usize::try_from(to).ok()).filter(|to| *to <= length);
    match (from, to) {
        (Some(from), Some(to)) if count >= 0 => characters(context, text, from, to),
        _ => Err(type_error(format!(
            "`substring` from {start} with length {count} lies outside the text, which has {length} characters"
        ))
        .with_hint("slice(text, start, end) stops at the ends of the text")),
    }
}

fn split(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (text, delimiter) = (text_at("split", arguments, 0)?, text_at("split", arguments, 1)?);
    context.reserve_bytes(text.len())?;
    if delimiter.is_empty() {
        return Ok(Value::list(vec![arguments[0].clone()]));
    }
    context.reserve_items(text.matches(delimiter).count() + 1)?;
    Ok(Value::list(text.split(delimiter).map(Value::from).collect()))
}

fn to_lower(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let text = text_at("toLower", arguments, 0)?;
    context.reserve_bytes(text.len())?;
    Ok(Value::from(text.chars().map(to_lower_char).collect::<String>()))
}

fn to_upper(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let text = text_at("toUpper", arguments, 0)?;
    context.reserve_bytes(text.len())?;
    Ok(Value::from(text.chars().map(to_upper_char).collect::<String>()))
}

fn trim(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let text = text_at("trim", arguments, 0)?;
    context.charge_bytes(text.len())?;
    let trimmed = text.trim();
    Ok(if trimmed.len() == text.len() { arguments[0].clone() } else { Value::from(trimmed) })
}

fn is_int(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let text = text_at("isInt", arguments, 0)?;
    context.charge_bytes(text.len())?;
    Ok(Value::Bool(parse_plain_int(text).is_some()))
}

fn is_float(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let locale = locale_at("isFloat", arguments, 1)?;
    let text = text_at("isFloat", arguments, 0)?;
    context.charge_bytes(text.len())?;
    Ok(Value::Bool(parse_float(text, locale).is_some()))
}

fn format_number(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let locale = locale_at("formatNumber", arguments, 2)?;
    let format = text_at("formatNumber", arguments, 1)?;
    context.charge_bytes(format.len())?;
    if !matches!(arguments[0], Value::Int(_) | Value::Float(_) | Value::Big(_)) {
        return Err(wrong_argument("formatNumber", arguments, 0, "a number"));
    }
    number_format::format(&arguments[0], format, locale).map(Value::from).ok_or_else(|| {
        type_error(format!("`formatNumber` cannot use the format '{}' for this number", truncate(format)))
            .with_hint("formats are such as 'N2', 'F1', 'C', 'P0', 'D5', 'X', 'E2', '0.00', '#,##0.0'")
    })
}

/// Returns a version 4 GUID from the tick's random numbers.
fn guid(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let format = if arguments.is_empty() { "D" } else { text_at("guid", arguments, 0)? };
    let high = (context.scope.random() & !0xf000) | 0x4000;
    let low = (context.scope.random() & !(0b11 << 62)) | (0b10 << 62);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    let (d, e) = (low >> 48, low & 0xffff_ffff_ffff);
    let dashed = format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}");
    Ok(Value::from(match format {
        "" | "D" | "d" => dashed,
        "N" | "n" => dashed.replace('-', ""),
        "B" | "b" => format!("{{{dashed}}}"),
        "P" | "p" => format!("({dashed})"),
        "X" | "x" => {
            let bytes: Vec<String> = low.to_be_bytes().iter().map(|byte| format!("0x{byte:02x}")).collect();
            format!("{{0x{a:08x},0x{b:04x},0x{c:04x},{{{}}}}}", bytes.join(","))
        }
        _ => {
            return Err(
                type_error(format!("`guid` has no format '{format}'")).with_hint("formats are N, D, B, P and X")
            );
        }
    }))
}
