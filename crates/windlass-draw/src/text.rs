//! Compact formatting of values and times.

use windlass_value::{Duration, Value, to_json};

/// Formats a value on one line, truncated if it is long.
///
/// ```
/// use windlass_draw::text::format_value;
/// use windlass_value::Value;
///
/// assert_eq!(format_value(&Value::from("one\ntwo and three"), 10), "one two a…");
/// ```
pub fn format_value(value: &Value, max: usize) -> String {
    // Do not serialize a value that is far too long, only to truncate it.
    if value.size_up_to(64 * 1024) > 64 * 1024 {
        return format!("({}, too long to show)", value.kind());
    }
    let text = value.as_str().map_or_else(|| one_line(&to_json(value)), one_line);
    truncate(&text, max)
}

/// Replaces characters that move the cursor, end a line or change the writing direction.
///
/// ```
/// assert_eq!(windlass_draw::text::one_line("a\nb\u{1b}[31m"), "a b [31m");
/// ```
pub fn one_line(text: &str) -> String {
    text.chars().map(|letter| if is_unprintable(letter) { ' ' } else { letter }).collect()
}

fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(letter, '\u{fffe}' | '\u{ffff}')
}

/// Truncates to `max` characters; the last one is `…` if there were more.
///
/// ```
/// assert_eq!(windlass_draw::text::truncate("äöüß", 3), "äö…");
/// ```
pub fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Formats a duration as `45s`, `2m 05s`, `3h 20m`, `4d 02h`.
///
/// ```
/// use windlass_value::Duration;
///
/// assert_eq!(windlass_draw::text::format_duration(Duration::from_secs(125)), "2m 05s");
/// ```
pub fn format_duration(duration: Duration) -> String {
    let secs = duration.0 / 1_000_000;
    match secs {
        0 => format!("{}ms", duration.as_ms()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{secs}s"),
        60..3_600 => format!("{}m {:02}s", secs / 60, secs % 60),
        3_600..86_400 => format!("{}h {:02}m", secs / 3_600, secs / 60 % 60),
        _ => format!("{}d {:02}h", secs / 86_400, secs / 3_600 % 24),
    }
}

/// Formats a number with its noun: `1 run`, `2 runs`.
///
/// ```
/// assert_eq!(windlass_draw::text::pluralize(2, "run"), "2 runs");
/// ```
pub fn pluralize(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let secs = |secs| format_duration(Duration::from_secs(secs));
        assert_eq!(format_duration(Duration::from_ms(12)), "12ms");
        assert_eq!(format_duration(Duration::from_ms(1_250)), "1.2s");
        assert_eq!((secs(45), secs(125), secs(12_000)), ("45s".into(), "2m 05s".into(), "3h 20m".into()));
        assert_eq!(secs(4 * 86_400 + 7_200), "4d 02h");
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöüß", 3), "äö…");
        assert_eq!(format_value(&Value::from("a\nb\u{1b}[31m"), 20), "a b [31m");
        assert_eq!(one_line("a\u{202e}b\u{2028}c\0"), "a b c ");
    }
}
