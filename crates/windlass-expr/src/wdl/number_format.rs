//! Formats numbers with .NET formats. A number is represented by its shortest digits; halves round away from zero.

use windlass_value::{Digits, Value, format_float};

use super::locale::Locale;
use super::number_pattern;

const MAX_PRECISION: usize = 99;
/// The maximum distance of a digit from the decimal point: beyond that of any float, small enough to be written out.
const MAX_POINT_DISTANCE: i64 = 400;

/// Formats a number; None when the format is invalid, or invalid for this number.
pub(crate) fn format(number: &Value, pattern: &str, locale: &Locale) -> Option<String> {
    if Digits::from_value(number)?.point.abs() > MAX_POINT_DISTANCE {
        return None;
    }
    let mut letters = pattern.chars();
    match letters.next() {
        None => general(number, 'G', None, locale),
        Some(letter) if letter.is_ascii_alphabetic() && letters.clone().all(|c| c.is_ascii_digit()) => {
            let digits = letters.as_str();
            let precision = if digits.is_empty() { None } else { Some(digits.parse().ok()?) };
            let fits = precision.unwrap_or(0) <= MAX_PRECISION;
            fits.then(|| standard(number, letter, precision, locale)).flatten()
        }
        Some(_) if pattern.len() > 4 * MAX_PRECISION => None,
        Some(_) => number_pattern::format(Digits::from_value(number)?, pattern, locale),
    }
}

/// Returns whether a format is valid for some number.
pub(crate) fn is_format(pattern: &str) -> bool {
    [Value::Int(1), Value::Float(1.5)]
        .iter()
        .any(|number| format(number, pattern, super::locale::default_locale()).is_some())
}

fn standard(number: &Value, letter: char, precision: Option<usize>, locale: &Locale) -> Option<String> {
    let fixed = |places: usize, grouped: bool| {
        let mut digits = Digits::from_value(number)?;
        digits.round(places as i64);
        Some((digits.negative, places_text(&digits, places, grouped, locale)))
    };
    let signed = |(negative, text): (bool, String)| if negative { format!("-{text}") } else { text };
    match letter.to_ascii_uppercase() {
        'N' => fixed(precision.unwrap_or(2), true).map(signed),
        'F' => fixed(precision.unwrap_or(2), false).map(signed),
        'C' => {
            let (negative, text) = fixed(precision.unwrap_or(locale.currency_digits), true)?;
            let pattern = locale.currency_pattern[usize::from(negative)];
            Some(pattern.replace('n', &text).replace('¤', locale.currency))
        }
        'P' => {
            let mut digits = Digits::from_value(number)?;
            digits.point = if digits.is_zero() { 0 } else { digits.point + 2 };
            let places = precision.unwrap_or(2);
            digits.round(places as i64);
            let text = places_text(&digits, places, true, locale);
            Some(signed((digits.negative, locale.percent.replace('n', &text))))
        }
        'D' => {
            let int = number.as_int()?;
            Some(signed((int < 0, format!("{:0>1$}", int.unsigned_abs(), precision.unwrap_or(0)))))
        }
        'X' => {
            let (int, width) = (number.as_int()?, precision.unwrap_or(0));
            Some(if letter == 'X' { format!("{int:0>width$X}") } else { format!("{int:0>width$x}") })
        }
        'B' => Some(format!("{:0>1$b}", number.as_int()?, precision.unwrap_or(0))),
        'E' => {
            let mut digits = Digits::from_value(number)?;
            let places = precision.unwrap_or(6);
            digits.round(places as i64 + 1 - digits.point);
            let text = scientific(&digits, letter, 3, locale, Some(places));
            Some(signed((digits.negative, text)))
        }
        'G' => general(number, letter, precision.filter(|precision| *precision > 0), locale),
        'R' => general(number, 'G', None, locale),
        _ => None,
    }
}

/// Formats with the shortest text, or with the given number of digits; uses an exponent where that is shorter.
fn general(number: &Value, letter: char, precision: Option<usize>, locale: &Locale) -> Option<String> {
    let Some(precision) = precision else {
        let text = match number {
            Value::Float(float) => format_float(*float),
            Value::Big(text) => text.as_ref().to_owned(),
            other => other.as_int()?.to_string(),
        };
        let text = if letter == 'g' { text.replace('E', "e") } else { text };
        return Some(text.replace('.', locale.decimal));
    };
    let mut digits = Digits::from_value(number)?;
    digits.round(precision as i64 - digits.point);
    let exponent = digits.point - 1;
    let sign = if digits.negative { "-" } else { "" };
    if !digits.is_zero() && (exponent >= precision as i64 || exponent < -4) {
        let letter = if letter == 'g' { 'e' } else { 'E' };
        return Some(format!("{sign}{}", scientific(&digits, letter, 2, locale, None)));
    }
    let places = usize::try_from(digits.digits.len() as i64 - digits.point).unwrap_or(0);
    Some(format!("{sign}{}", places_text(&digits, places, false, locale)))
}

/// Formats with one digit before the decimal point and `places` after it, or all of them.
fn scientific(digits: &Digits, letter: char, width: usize, locale: &Locale, places: Option<usize>) -> String {
    let digit = |index: usize| char::from(b'0' + digits.digits.get(index).copied().unwrap_or(0));
    let places = places.unwrap_or(digits.digits.len().saturating_sub(1));
    let mut out = String::from(digit(0));
    if places > 0 {
        out.push_str(locale.decimal);
        out.extend((1..=places).map(digit));
    }
    let exponent = if digits.is_zero() { 0 } else { digits.point - 1 };
    let sign = if exponent < 0 { '-' } else { '+' };
    out + &format!("{letter}{sign}{:0>width$}", exponent.unsigned_abs())
}

/// Formats the digits without a sign, with the given number of decimal places.
fn places_text(digits: &Digits, places: usize, grouped: bool, locale: &Locale) -> String {
    let whole = usize::try_from(digits.point).unwrap_or(0).max(1);
    // The offset of the first digit from the first place before the decimal point.
    let skip = whole as i64 - digits.point;
    let digit = |place: usize| {
        let index = usize::try_from(place as i64 - skip).ok();
        char::from(b'0' + index.and_then(|index| digits.digits.get(index).copied()).unwrap_or(0))
    };
    let mut out = String::with_capacity(whole * 4 / 3 + places + 2);
    for place in 0..whole {
        if grouped && place > 0 && (whole - place).is_multiple_of(3) {
            out.push_str(locale.group);
        }
        out.push(digit(place));
    }
    if places > 0 {
        out.push_str(locale.decimal);
        out.extend((whole..whole + places).map(digit));
    }
    out
}
