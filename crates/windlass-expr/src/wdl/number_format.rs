//! Numbers as text, by the formats of .NET in their English form. Halves round away from zero.

use windlass_value::Value;

use super::values::float_text;

const PRECISION_MAX: usize = 99;

/// None when the format is not one, or not one for this number.
pub(crate) fn format(number: &Value, pattern: &str) -> Option<String> {
    let mut letters = pattern.chars();
    match letters.next() {
        None => general(number),
        Some(letter) if letter.is_ascii_alphabetic() && letters.clone().all(|c| c.is_ascii_digit()) => {
            let digits = letters.as_str();
            let precision = if digits.is_empty() { None } else { Some(digits.parse().ok()?) };
            (precision.unwrap_or(0) <= PRECISION_MAX).then(|| standard(number, letter, precision)).flatten()
        }
        Some(_) => custom(number, pattern),
    }
}

fn general(number: &Value) -> Option<String> {
    match number {
        Value::Int(int) => Some(int.to_string()),
        other => other.as_f64().map(float_text),
    }
}

fn standard(number: &Value, letter: char, precision: Option<usize>) -> Option<String> {
    let places = precision.unwrap_or(2);
    let signed = |negative: bool, text: String| if negative { format!("-{text}") } else { text };
    match letter.to_ascii_uppercase() {
        'N' => Decimal::round(number, 0, places).map(|decimal| signed(decimal.negative, decimal.text(true))),
        'F' => Decimal::round(number, 0, places).map(|decimal| signed(decimal.negative, decimal.text(false))),
        'C' => Decimal::round(number, 0, places)
            .map(|decimal| signed(decimal.negative, format!("${}", decimal.text(true)))),
        'P' => Decimal::round(number, 2, places)
            .map(|decimal| signed(decimal.negative, format!("{}%", decimal.text(true)))),
        'D' => {
            let int = number.as_int()?;
            Some(signed(int < 0, format!("{:0>1$}", int.unsigned_abs(), precision.unwrap_or(0))))
        }
        'X' => {
            let (int, width) = (number.as_int()?, precision.unwrap_or(0));
            Some(if letter == 'X' { format!("{int:0>width$X}") } else { format!("{int:0>width$x}") })
        }
        'E' => {
            let text = format!("{:.*E}", precision.unwrap_or(6), number.as_f64()?);
            let (digits, exponent) = text.split_once('E')?;
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
            Some(format!("{digits}{letter}{sign}{exponent:0>3}"))
        }
        'G' | 'R' if precision.unwrap_or(0) == 0 => general(number),
        _ => None,
    }
}

/// A number in decimal digits, rounded.
struct Decimal {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    /// The number times ten to the power of `shift`, with so many places after the point.
    fn round(number: &Value, shift: i32, places: usize) -> Option<Decimal> {
        let (negative, text) = match number {
            Value::Int(int) => (*int < 0, int.unsigned_abs().to_string()),
            // Far more digits than needed, so that what follows the rounding place is known.
            other => {
                let float = other.as_f64()?;
                let digits = places + 30 + shift.unsigned_abs() as usize;
                (float.is_sign_negative(), format!("{:.digits$}", float.abs()))
            }
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
        for _ in 0..shift.max(0) {
            whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
        }
        for _ in 0..(-shift).max(0) {
            fraction.insert(0, whole.pop().unwrap_or('0'));
        }
        let up = fraction.as_bytes().get(places).is_some_and(|digit| *digit >= b'5');
        fraction.truncate(places);
        fraction.extend(std::iter::repeat_n('0', places - fraction.len()));
        let mut digits = format!("0{whole}{fraction}").into_bytes();
        if up {
            for digit in digits.iter_mut().rev() {
                *digit = if *digit == b'9' { b'0' } else { *digit + 1 };
                if *digit != b'0' {
                    break;
                }
            }
        }
        let digits = String::from_utf8(digits).ok()?;
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let whole = whole.trim_start_matches('0');
        let zero = whole.is_empty() && fraction.bytes().all(|digit| digit == b'0');
        Some(Decimal { negative: negative && !zero, whole: whole.to_owned(), fraction: fraction.to_owned() })
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.bytes().all(|digit| digit == b'0')
    }

    fn text(&self, grouped: bool) -> String {
        let whole = if self.whole.is_empty() { "0" } else { &self.whole };
        let whole = if grouped { group(whole) } else { whole.to_owned() };
        if self.fraction.is_empty() { whole } else { format!("{whole}.{}", self.fraction) }
    }
}

fn group(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A section of a custom format such as `#,##0.00%`.
#[derive(Default)]
struct Section {
    before: String,
    after: String,
    whole_least: usize,
    fraction_least: usize,
    fraction_most: usize,
    grouped: bool,
    has_digits: bool,
    shift: i32,
}

fn custom(number: &Value, pattern: &str) -> Option<String> {
    if pattern.len() > 4 * PRECISION_MAX {
        return None;
    }
    let sections: Vec<Section> =
        split_sections(pattern)?.iter().map(|text| read_section(text)).collect::<Option<_>>()?;
    let negative = number.as_f64()? < 0.0;
    let (mut section, mut sign) = (sections.first()?, negative);
    if let (true, Some(second)) = (negative, sections.get(1)) {
        (section, sign) = (second, false);
    }
    let mut decimal = Decimal::round(number, section.shift, section.fraction_most)?;
    if let (true, Some(third)) = (decimal.is_zero(), sections.get(2)) {
        section = third;
        decimal = Decimal::round(number, section.shift, section.fraction_most)?;
    }
    let mut out = String::new();
    if sign && !decimal.is_zero() {
        out.push('-');
    }
    out.push_str(&section.before);
    if section.has_digits {
        let padded = format!("{:0>1$}", decimal.whole, section.whole_least);
        out.push_str(&if section.grouped { group(&padded) } else { padded });
        let mut fraction = decimal.fraction.as_str();
        while fraction.len() > section.fraction_least && fraction.ends_with('0') {
            fraction = &fraction[..fraction.len() - 1];
        }
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
    }
    out.push_str(&section.after);
    Some(out)
}

/// Splits at semicolons that are not quoted.
fn split_sections(pattern: &str) -> Option<Vec<String>> {
    let (mut sections, mut quote, mut escaped) = (vec![String::new()], None, false);
    for c in pattern.chars() {
        let separates = c == ';' && quote.is_none() && !escaped;
        escaped = c == '\\' && !escaped;
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            _ => {}
        }
        match separates {
            true => sections.push(String::new()),
            false => sections.last_mut()?.push(c),
        }
    }
    Some(sections)
}

fn read_section(pattern: &str) -> Option<Section> {
    let mut section = Section::default();
    let (mut letters, mut point, mut commas) = (pattern.chars(), false, 0);
    while let Some(c) = letters.next() {
        match c {
            '0' | '#' => {
                section.has_digits = true;
                // A comma between digits groups; commas after the last digit divide by a thousand each.
                section.grouped |= commas > 0 && !point;
                commas = 0;
                match point {
                    true => {
                        section.fraction_most += 1;
                        section.fraction_least = if c == '0' { section.fraction_most } else { section.fraction_least };
                    }
                    false => section.whole_least += usize::from(c == '0' || section.whole_least > 0),
                }
            }
            ',' if section.has_digits => commas += 1,
            ',' => {}
            '.' => {
                section.shift -= 3 * std::mem::take(&mut commas);
                (point, section.has_digits) = (true, true);
            }
            literal => {
                let mut text = String::new();
                match literal {
                    '%' => {
                        section.shift += 2;
                        text.push('%');
                    }
                    '\\' => text.push(letters.next()?),
                    '\'' | '"' => {
                        let (quoted, rest) = letters.as_str().split_once(literal)?;
                        text.push_str(quoted);
                        letters = rest.chars();
                    }
                    // Exponents in custom formats are not supported.
                    'e' | 'E' if section.has_digits => return None,
                    other => text.push(other),
                }
                if section.has_digits { section.after.push_str(&text) } else { section.before.push_str(&text) }
            }
        }
    }
    section.shift -= 3 * commas;
    Some(section)
}
