//! Resolution of plain scalars. Only these three tables differ between the rule sets.
//!
//! | | `Yaml11` | `Core` | `Go` |
//! |---|---|---|---|
//! | null | empty, `~`, `null`, `Null`, `NULL` | the same | the same |
//! | booleans | `true`, `false`, `yes`, `no`, `on`, `off`: lower case, capitalised, upper case | `true`, `false` | as `Core` |
//! | integers | `10`, `1_000`, `0b11`, `017`, `0o17`, `0x1f` | `10`, `0o17`, `0x1f`; `017` is 17 | as `Yaml11`; `08` is 8 |
//! | floats | need a point; an exponent needs its sign: `1.5e+3` | `1.5`, `1e3`, `1.` | as `Core`, with underscores |
//!
//! Dates and sexagesimal numbers stay text in all of them.

use windlass_value::{Digits, Value};

use crate::json::to_number;

const MAX_RADIX_DIGITS: usize = 256;

/// The rules by which plain scalars are typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScalarRules {
    /// YAML 1.1 as PyYAML reads it.
    Yaml11,
    /// The core schema of YAML 1.2.
    Core,
    /// Rules of most programs in Go: YAML 1.2, with the integers of 1.1.
    Go,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScalarValue {
    Text,
    Null,
    Bool(bool),
    Number(Value),
    /// Infinity or NaN, which no value can hold.
    NoSuchNumber,
}

pub(super) fn resolve(text: &str, scalars: ScalarRules) -> ScalarValue {
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return ScalarValue::Null;
    }
    if let Some(flag) = boolean(text, scalars) {
        return ScalarValue::Bool(flag);
    }
    // Nearly all scalars are words.
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return ScalarValue::Text;
    }
    number(text, scalars)
}

/// Resolves a scalar that carries a tag of the core schema; `None` if tag and text do not fit.
pub(super) fn tagged(tag: &str, text: &str, scalars: ScalarRules) -> Option<ScalarValue> {
    let plain = resolve(text, scalars);
    match (tag, plain) {
        ("str", _) => Some(ScalarValue::Text),
        ("null", ScalarValue::Null) => Some(ScalarValue::Null),
        ("bool", ScalarValue::Bool(flag)) => Some(ScalarValue::Bool(flag)),
        ("int", ScalarValue::Number(number)) if !matches!(number, Value::Float(_)) => Some(ScalarValue::Number(number)),
        ("float", ScalarValue::Number(number)) => Some(ScalarValue::Number(match number {
            Value::Int(whole) => Value::float(whole as f64)?,
            other => other,
        })),
        _ => None,
    }
}

fn boolean(text: &str, scalars: ScalarRules) -> Option<bool> {
    if text.len() > "false".len() {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let capitalised = || text.starts_with(|c: char| c.is_ascii_uppercase()) && text[1..] == lower[1..];
    if text != lower && text.bytes().any(|byte| byte.is_ascii_lowercase()) && !capitalised() {
        return None;
    }
    match (lower.as_str(), scalars) {
        ("true", _) | ("yes" | "on", ScalarRules::Yaml11) => Some(true),
        ("false", _) | ("no" | "off", ScalarRules::Yaml11) => Some(false),
        _ => None,
    }
}

fn number(text: &str, scalars: ScalarRules) -> ScalarValue {
    let (sign, unsigned) = match text.as_bytes()[0] {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return ScalarValue::NoSuchNumber;
    }
    let found = match scalars {
        ScalarRules::Yaml11 => yaml11(unsigned),
        ScalarRules::Core => core(unsigned),
        ScalarRules::Go => go(unsigned),
    };
    match found {
        // A text with more digits than that is not meant as a number.
        Some(NumberNotation::Radix(digits, _)) if digits.len() > MAX_RADIX_DIGITS => ScalarValue::Text,
        Some(NumberNotation::Radix(digits, radix)) => ScalarValue::Number(with_radix(sign, &digits, radix)),
        Some(NumberNotation::Decimal(digits)) => ScalarValue::Number(decimal(sign, &digits)),
        None => ScalarValue::Text,
    }
}

/// The notation of a number, without its sign and its underscores.
enum NumberNotation {
    Radix(String, u32),
    Decimal(String),
}

fn yaml11(text: &str) -> Option<NumberNotation> {
    let digits = |text: &str, radix: u32| {
        let plain: String = text.chars().filter(|c| *c != '_').collect();
        (!plain.is_empty() && plain.chars().all(|c| c.is_digit(radix))).then_some(plain)
    };
    if let Some(rest) = text.strip_prefix("0b") {
        return digits(rest, 2).map(|digits| NumberNotation::Radix(digits, 2));
    }
    if let Some(rest) = text.strip_prefix("0x") {
        return digits(rest, 16).map(|digits| NumberNotation::Radix(digits, 16));
    }
    if let Some(rest) = text.strip_prefix("0o") {
        return digits(rest, 8).map(|digits| NumberNotation::Radix(digits, 8));
    }
    if text == "0" {
        return Some(NumberNotation::Decimal("0".to_owned()));
    }
    if let Some(rest) = text.strip_prefix('0')
        && !text.contains('.')
    {
        return digits(rest, 8).map(|digits| NumberNotation::Radix(digits, 8));
    }
    if text.starts_with('_') {
        return None;
    }
    let Some((whole, rest)) = text.split_once('.') else { return digits(text, 10).map(NumberNotation::Decimal) };
    let (fraction, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let all_digits = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '_');
    let signed = |text: &str| {
        text.strip_prefix(['+', '-'])
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let good = all_digits(whole)
        && all_digits(fraction)
        && (!whole.is_empty() || fraction.starts_with(|c: char| c.is_ascii_digit()))
        && exponent.is_none_or(signed);
    good.then(|| NumberNotation::Decimal(text.chars().filter(|c| *c != '_').collect()))
}

fn core(text: &str) -> Option<NumberNotation> {
    let all = |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    if let Some(rest) = text.strip_prefix("0o") {
        return all(rest, 8).then(|| NumberNotation::Radix(rest.to_owned(), 8));
    }
    if let Some(rest) = text.strip_prefix("0x") {
        return all(rest, 16).then(|| NumberNotation::Radix(rest.to_owned(), 16));
    }
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(whole, rest)| (whole, Some(rest)));
    let digits_or_none = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let good = digits_or_none(whole)
        && fraction.is_none_or(digits_or_none)
        && (!whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty()))
        && exponent.is_none_or(|exponent| all(exponent.strip_prefix(['+', '-']).unwrap_or(exponent), 10));
    good.then(|| NumberNotation::Decimal(text.to_owned()))
}

fn go(text: &str) -> Option<NumberNotation> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let all = |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    for (letter, radix) in [('x', 16), ('o', 8), ('b', 2)] {
        if let Some(rest) = plain.strip_prefix('0')
            && let Some(rest) = rest.strip_prefix([letter, letter.to_ascii_uppercase()])
        {
            return all(rest, radix).then(|| NumberNotation::Radix(rest.to_owned(), radix));
        }
    }
    match plain.strip_prefix('0') {
        Some(rest) if all(rest, 8) => Some(NumberNotation::Radix(rest.to_owned(), 8)),
        _ => core(&plain),
    }
}

fn with_radix(sign: &str, digits: &str, radix: u32) -> Value {
    if let Ok(number) = i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        return Value::Int(number);
    }
    // Longer than 64 bits: converted to decimal, digit by digit.
    let mut decimal: Vec<u8> = vec![0];
    for digit in digits.chars().filter_map(|c| c.to_digit(radix)) {
        let mut carry = digit;
        for place in &mut decimal {
            let value = u32::from(*place) * radix + carry;
            *place = (value % 10) as u8;
            carry = value / 10;
        }
        while carry > 0 {
            decimal.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    let text: String = decimal.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
    Value::Big(format!("{sign}{text}").into())
}

/// Converts the number to JSON notation.
fn decimal(sign: &str, text: &str) -> Value {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(whole, rest)| (whole, Some(rest)));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = fraction.map(|digits| format!(".{}", if digits.is_empty() { "0" } else { digits }));
    let number = to_number(&format!("{sign}{whole}{}{exponent}", fraction.unwrap_or_default()));
    debug_assert!(Digits::from_value(&number).is_some(), "{text} is a number");
    number
}
