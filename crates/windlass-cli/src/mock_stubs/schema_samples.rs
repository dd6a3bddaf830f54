//! Numbers and texts within the bounds of a JSON Schema.

use regex_syntax::hir::{Class, Hir, HirKind};
use windlass_value::Value;

/// Maximum length of a text for a pattern or a minimum length.
const MAX_TEXT_CHARS: usize = 1_000;

/// Returns a number within the bounds of a schema: 1, if it is.
pub(super) fn schema_number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).filter(|bound| matches!(bound, Value::Int(_) | Value::Float(_)));
    let above = |bound: &Value| match bound {
        Value::Int(number) => Value::Int(number.saturating_add(1)),
        other => other.clone(),
    };
    let below = |bound: &Value| match bound {
        Value::Int(number) => Value::Int(number.saturating_sub(1)),
        other => other.clone(),
    };
    let is_more_than_one = |bound: &Value| as_number(bound).is_some_and(|number| number > 1.0);
    let is_less_than_one = |bound: &Value| as_number(bound).is_some_and(|number| number < 1.0);
    let lowest = bound("minimum").cloned().or_else(|| bound("exclusiveMinimum").map(above));
    let highest = bound("maximum").cloned().or_else(|| bound("exclusiveMaximum").map(below));
    lowest.filter(is_more_than_one).or(highest.filter(is_less_than_one)).unwrap_or(Value::Int(1))
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// Returns a text that a schema accepts, as far as its pattern, format and length say.
pub(super) fn schema_text(schema: &Value) -> Value {
    if let Some(text) = schema.get("pattern").and_then(Value::as_str).and_then(pattern_sample) {
        return text.into();
    }
    match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-31T12:00:00Z".into(),
        Some("date") => "2026-01-31".into(),
        Some("uri") => "https://example.com".into(),
        Some("email") => "someone@example.com".into(),
        Some("uuid") => "00000000-0000-4000-8000-000000000000".into(),
        _ => text_of_length(schema).into(),
    }
}

/// Returns a text as long as a schema requires.
fn text_of_length(schema: &Value) -> String {
    let length = |name: &str| schema.get(name).and_then(Value::as_int).and_then(|number| usize::try_from(number).ok());
    let shortest = length("minLength").unwrap_or(0).min(MAX_TEXT_CHARS);
    let longest = length("maxLength").unwrap_or(usize::MAX).max(shortest);
    let text = "text ".repeat(shortest.div_ceil(5).max(1));
    let end = shortest.max(4).min(longest).min(text.len());
    text[..end].to_owned()
}

/// Returns a text that matches a regular expression: the shortest, with the first of all alternatives.
fn pattern_sample(pattern: &str) -> Option<String> {
    let mut text = String::new();
    add_pattern(&regex_syntax::parse(pattern).ok()?, &mut text).then_some(text)
}

/// Adds a text that matches. Returns false if it becomes too long.
fn add_pattern(pattern: &Hir, text: &mut String) -> bool {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => {
            text.push_str(&String::from_utf8_lossy(&literal.0));
            text.len() <= MAX_TEXT_CHARS
        }
        HirKind::Class(Class::Unicode(class)) => {
            let first = class.iter().map(|range| range.start()..=range.end()).find_map(readable);
            first.is_some_and(|first| {
                text.push(first);
                text.len() <= MAX_TEXT_CHARS
            })
        }
        HirKind::Class(Class::Bytes(_)) => false,
        HirKind::Repetition(repeated) => (0..repeated.min).all(|_| add_pattern(&repeated.sub, text)),
        HirKind::Capture(group) => add_pattern(&group.sub, text),
        HirKind::Concat(parts) => parts.iter().all(|part| add_pattern(part, text)),
        HirKind::Alternation(parts) => parts.first().is_some_and(|part| add_pattern(part, text)),
    }
}

/// Returns a character of a range: a letter or a digit, if it has one.
fn readable(range: std::ops::RangeInclusive<char>) -> Option<char> {
    ['a', 'A', '0'].into_iter().find(|letter| range.contains(letter)).or(Some(*range.start()))
}

#[cfg(test)]
mod tests {
    use windlass_value::parse_json;

    use super::*;

    #[test]
    fn samples_are_within_their_bounds() {
        for (schema, expected) in [
            (r#"{"pattern": "^[A-Z]{2}-[0-9]+$"}"#, "AA-0"),
            (r#"{"pattern": "(yes|no) \\d?x*"}"#, "yes "),
            (r#"{"minLength": 12}"#, "text text te"),
            (r#"{"maxLength": 2}"#, "te"),
            (r#"{"format": "date"}"#, "2026-01-31"),
            (r#"{"pattern": "("}"#, "text"),
        ] {
            let schema = parse_json(schema).expect("a schema");
            assert_eq!(schema_text(&schema), Value::from(expected), "{schema:?}");
        }
        for (schema, expected) in [
            ("{}", 1),
            (r#"{"minimum": 0}"#, 1),
            (r#"{"minimum": 18, "maximum": 99}"#, 18),
            (r#"{"exclusiveMinimum": 3}"#, 4),
            (r#"{"maximum": -5}"#, -5),
        ] {
            let schema = parse_json(schema).expect("a schema");
            assert_eq!(schema_number(&schema), Value::Int(expected), "{schema:?}");
        }
    }
}
