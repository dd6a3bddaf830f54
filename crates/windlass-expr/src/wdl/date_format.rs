//! Formats moments with .NET formats: a single letter selects a pattern of the locale, anything else is a pattern.

use std::borrow::Cow;

use super::calendar::{CivilDateTime, WdlMoment};
use super::locale::{Locale, default_locale};
use super::values::push;

const ROUND_TRIP: &str = "yyyy-MM-dd'T'HH:mm:ss.fffffffK";

/// Formats a moment; None when the format is invalid.
pub(crate) fn format(moment: WdlMoment, pattern: &str, locale: &Locale) -> Option<String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let (pattern, locale) = resolve_pattern(pattern, locale)?;
    let writer = Writer { moment, civil: moment.civil(), locale, has_day: has_day(&pattern) };
    each_part(&pattern, &mut |part| writer.part(&mut out, part))?;
    Some(out)
}

/// Returns whether a format is valid.
pub(crate) fn is_format(pattern: &str) -> bool {
    format(WdlMoment { ticks: 0, utc: true }, pattern, default_locale()).is_some()
}

/// An element of a date pattern.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum DatePatternPart<'a> {
    /// A letter, repeated the given number of times. A letter without a meaning stands for itself.
    Letter(char, usize),
    Literal(&'a str),
}

/// Returns the pattern that a standard letter stands for, and its locale; a longer pattern is returned unchanged.
pub(crate) fn resolve_pattern<'a>(pattern: &'a str, locale: &'a Locale) -> Option<(Cow<'a, str>, &'a Locale)> {
    let mut letters = pattern.chars();
    let letter = match (letters.next(), letters.next()) {
        (None, _) => 'o',
        (Some(letter), None) => letter,
        _ => return Some((pattern.into(), locale)),
    };
    // The first four are locale-independent.
    let fixed = match letter {
        'o' | 'O' => ROUND_TRIP,
        's' => "yyyy-MM-dd'T'HH:mm:ss",
        'u' => "yyyy-MM-dd HH:mm:ss'Z'",
        'r' | 'R' => "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
        _ => "",
    };
    if !fixed.is_empty() {
        return Some((fixed.into(), default_locale()));
    }
    let pattern = match letter {
        'd' => locale.date.into(),
        'D' => locale.long_date.into(),
        't' => locale.time.into(),
        'T' => locale.long_time.into(),
        'f' => format!("{} {}", locale.long_date, locale.time).into(),
        'F' | 'U' => format!("{} {}", locale.long_date, locale.long_time).into(),
        'g' => format!("{} {}", locale.date, locale.time).into(),
        'G' => format!("{} {}", locale.date, locale.long_time).into(),
        'm' | 'M' => locale.month_day.into(),
        'y' | 'Y' => locale.year_month.into(),
        _ => return None,
    };
    Some((pattern, locale))
}

/// Calls `visit` for each part in order; None if the pattern is incomplete.
pub(crate) fn each_part<'a>(pattern: &'a str, visit: &mut dyn FnMut(DatePatternPart<'a>) -> Option<()>) -> Option<()> {
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let run = rest.chars().take_while(|c| *c == letter).count();
        rest = match letter {
            '\'' | '"' => {
                let (quoted, after) = rest[1..].split_once(letter)?;
                visit(DatePatternPart::Literal(quoted))?;
                after
            }
            '\\' => {
                let escaped = rest[1..].chars().next()?;
                let end = 1 + escaped.len_utf8();
                visit(DatePatternPart::Literal(&rest[1..end]))?;
                &rest[end..]
            }
            '%' => {
                let single = rest[1..].chars().next().filter(|single| *single != '%')?;
                visit(DatePatternPart::Letter(single, 1))?;
                &rest[1 + single.len_utf8()..]
            }
            _ => {
                visit(DatePatternPart::Letter(letter, run))?;
                &rest[run * letter.len_utf8()..]
            }
        };
    }
    Some(())
}

/// Returns whether the pattern contains the day number. In some languages months take another form next to it.
fn has_day(pattern: &str) -> bool {
    let mut found = false;
    each_part(pattern, &mut |part| {
        found |= matches!(part, DatePatternPart::Letter('d', 1 | 2));
        Some(())
    });
    found
}

struct Writer<'a> {
    moment: WdlMoment,
    civil: CivilDateTime,
    locale: &'a Locale,
    has_day: bool,
}

impl Writer<'_> {
    fn part(&self, out: &mut String, part: DatePatternPart) -> Option<()> {
        match part {
            DatePatternPart::Literal(text) => {
                out.push_str(text);
                Some(())
            }
            DatePatternPart::Letter(letter, run) => self.letter(out, letter, run),
        }
    }

    fn letter(&self, out: &mut String, letter: char, run: usize) -> Option<()> {
        let (civil, locale) = (&self.civil, self.locale);
        let name = |names: &[&'static str], index: i64| names.get(index as usize).copied().unwrap_or_default();
        let (month, day) = (civil.month - 1, self.moment.day_of_week());
        let half = name(&locale.halves, civil.hour / 12);
        let width = run.min(2);
        match (letter, run) {
            ('d', 1 | 2) => push(out, format_args!("{:0width$}", civil.day)),
            ('d', 3) => out.push_str(name(&locale.days_short, day)),
            ('d', _) => out.push_str(name(&locale.days, day)),
            ('M', 1 | 2) => push(out, format_args!("{:0width$}", civil.month)),
            ('M', 3) => out.push_str(name(&locale.months_short, month)),
            ('M', _) if self.has_day => out.push_str(name(&locale.months_genitive, month)),
            ('M', _) => out.push_str(name(&locale.months, month)),
            ('y', 1 | 2) => push(out, format_args!("{:0width$}", civil.year % 100)),
            ('y', 3..=20) => push(out, format_args!("{:0run$}", civil.year)),
            ('H', _) => push(out, format_args!("{:0width$}", civil.hour)),
            ('h', _) => push(out, format_args!("{:0width$}", (civil.hour + 11) % 12 + 1)),
            ('m', _) => push(out, format_args!("{:0width$}", civil.minute)),
            ('s', _) => push(out, format_args!("{:0width$}", civil.second)),
            ('f', 1..=7) => out.push_str(&format!("{:07}", civil.fraction)[..run]),
            ('F', 1..=7) => match format!("{:07}", civil.fraction)[..run].trim_end_matches('0') {
                // Without digits, the decimal point before them is removed too.
                "" if out.ends_with('.') => drop(out.pop()),
                shown => out.push_str(shown),
            },
            ('t', 1) => out.extend(half.chars().next()),
            ('t', _) => out.push_str(half),
            ('K', _) => (0..run).for_each(|_| out.push_str(if self.moment.utc { "Z" } else { "" })),
            ('z', 1) => out.push_str("+0"),
            ('z', 2) => out.push_str("+00"),
            ('z', _) => out.push_str("+00:00"),
            ('g', _) => out.push_str(locale.era),
            ('/', _) => (0..run).for_each(|_| out.push_str(locale.separators[0])),
            (':', _) => (0..run).for_each(|_| out.push_str(locale.separators[1])),
            ('y' | 'f' | 'F', _) => return None,
            _ => out.extend(std::iter::repeat_n(letter, run)),
        }
        Some(())
    }
}
