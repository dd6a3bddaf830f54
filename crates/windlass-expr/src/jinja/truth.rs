//! The truth table, used wherever a truth value is needed: a condition, `if`, `not`, `and`, `or`.
//!
//! | value | false | true |
//! |---|---|---|
//! | boolean | `false` | `true` |
//! | null | always | |
//! | number | 0, 0.0 | any other |
//! | string, trimmed, in any letter case | empty, `false`, `no`, `off`, `0`, `none`, `null` | any other |
//! | list, object | empty | any other |
//!
//! Only where `and` and `or` choose between two values (`"{{ name or 'anonymous' }}"`), a string is false when it is
//! empty and otherwise true, as everywhere in Jinja.

use minijinja::Value as Inner;
use minijinja::value::ValueKind;
use windlass_value::Value;

const FALSE_WORDS: [&str; 7] = ["", "false", "no", "off", "0", "none", "null"];

pub(super) fn text_is_true(text: &str) -> bool {
    let text = text.trim();
    !FALSE_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Big(text) => text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)),
        Value::Str(text) => text_is_true(text),
        Value::List(items) => !items.is_empty(),
        Value::Map(map) => !map.is_empty(),
        Value::Stored(_) => true,
    }
}

pub(super) fn inner_is_true(value: &Inner) -> bool {
    match (value.kind(), value.as_str()) {
        (ValueKind::String, Some(text)) => text_is_true(text),
        _ => value.is_true(),
    }
}

/// Parses text that means true or false without a template.
pub(super) fn parse_bool_word(text: &str) -> Option<bool> {
    let text = text.trim();
    let among = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if among(&["true", "yes", "on", "1"]) {
        return Some(true);
    }
    among(&FALSE_WORDS[1..]).then_some(false)
}
