//! Formats amounts for people.

use windlass_value::Duration;

use crate::plan::{MONEY, TIME};

/// Formats an amount of a budget without its name: `4,212`, `0.008`, `1m30s`.
pub fn format_amount(what: &str, amount: u64) -> String {
    match what {
        MONEY => format_money(amount),
        TIME => format_duration(Duration::from_ms(amount)),
        _ => group_digits(amount),
    }
}

/// Returns the unit that follows an amount, with a leading space; empty for money and durations, which carry their
/// own unit.
pub(crate) fn unit_suffix(what: &str) -> String {
    match what {
        MONEY | TIME => String::new(),
        other => format!(" {other}"),
    }
}

/// Groups the digits of a number: `4,212`.
pub(crate) fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats an amount of money given in millionths: 8000 is `0.008`.
pub(crate) fn format_money(millionths: u64) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a duration: `1h30m`, `20s`, `500ms`.
pub(crate) fn format_duration(span: Duration) -> String {
    let ms = span.as_ms();
    let parts = [(ms / 3_600_000, "h"), (ms / 60_000 % 60, "m"), (ms / 1_000 % 60, "s"), (ms % 1_000, "ms")];
    let text: String = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_their_units() {
        let cases = [
            ("tokens", 1_234_567, "1,234,567"),
            ("calls", 12, "12"),
            (MONEY, 8_000, "0.008"),
            (MONEY, 2_000_000, "2"),
            (MONEY, 0, "0"),
            (TIME, 1_000, "1s"),
            (TIME, 5_400_500, "1h30m500ms"),
            (TIME, 0, "0s"),
        ];
        for (what, number, expected) in cases {
            assert_eq!(format_amount(what, number), expected);
        }
    }
}
