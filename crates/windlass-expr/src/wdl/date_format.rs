//! Moments as text, by the formats of .NET in their English form.

use super::calendar::{MONTHS, Moment};
use super::values::push;

pub(crate) const ROUND_TRIP: &str = "yyyy-MM-dd'T'HH:mm:ss.fffffffK";
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// None when the format is not one.
pub(crate) fn format(moment: Moment, pattern: &str) -> Option<String> {
    let mut letters = pattern.chars();
    match (letters.next(), letters.next()) {
        (None, _) => custom(moment, ROUND_TRIP),
        (Some(letter), None) => custom(moment, standard(letter)?),
        _ => custom(moment, pattern),
    }
}

fn standard(letter: char) -> Option<&'static str> {
    Some(match letter {
        'o' | 'O' => ROUND_TRIP,
        's' => "yyyy-MM-dd'T'HH:mm:ss",
        'u' => "yyyy-MM-dd HH:mm:ss'Z'",
        'r' | 'R' => "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
        'd' => "M/d/yyyy",
        'D' => "dddd, MMMM d, yyyy",
        't' => "h:mm tt",
        'T' => "h:mm:ss tt",
        'f' => "dddd, MMMM d, yyyy h:mm tt",
        'F' | 'U' => "dddd, MMMM d, yyyy h:mm:ss tt",
        'g' => "M/d/yyyy h:mm tt",
        'G' => "M/d/yyyy h:mm:ss tt",
        'm' | 'M' => "MMMM d",
        'y' | 'Y' => "MMMM yyyy",
        _ => return None,
    })
}

fn custom(moment: Moment, pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let run = rest.chars().take_while(|c| *c == letter).count();
        rest = match letter {
            '\'' | '"' => {
                let (quoted, after) = rest[1..].split_once(letter)?;
                out.push_str(quoted);
                after
            }
            '\\' => {
                let escaped = rest[1..].chars().next()?;
                out.push(escaped);
                &rest[1 + escaped.len_utf8()..]
            }
            '%' => {
                let single = rest[1..].chars().next().filter(|single| *single != '%')?;
                specifier(&mut out, moment, single, 1)?;
                &rest[1 + single.len_utf8()..]
            }
            _ => {
                specifier(&mut out, moment, letter, run)?;
                &rest[run * letter.len_utf8()..]
            }
        };
    }
    Some(out)
}

/// A letter, so many times. Letters without a meaning stand for themselves.
fn specifier(out: &mut String, moment: Moment, letter: char, run: usize) -> Option<()> {
    let civil = moment.civil();
    let half_day = (civil.hour + 11) % 12 + 1;
    let month = MONTHS[(civil.month - 1) as usize];
    let day = DAYS[moment.day_of_week() as usize];
    let width = run.min(2);
    match (letter, run) {
        ('d', 1 | 2) => push(out, format_args!("{:0width$}", civil.day)),
        ('d', 3) => out.push_str(&day[..3]),
        ('d', _) => out.push_str(day),
        ('M', 1 | 2) => push(out, format_args!("{:0width$}", civil.month)),
        ('M', 3) => out.push_str(&month[..3]),
        ('M', _) => out.push_str(month),
        ('y', 1 | 2) => push(out, format_args!("{:0width$}", civil.year % 100)),
        ('y', 3..=20) => push(out, format_args!("{:0run$}", civil.year)),
        ('H', _) => push(out, format_args!("{:0width$}", civil.hour)),
        ('h', _) => push(out, format_args!("{half_day:0width$}")),
        ('m', _) => push(out, format_args!("{:0width$}", civil.minute)),
        ('s', _) => push(out, format_args!("{:0width$}", civil.second)),
        ('f', 1..=7) => out.push_str(&format!("{:07}", civil.fraction)[..run]),
        ('F', 1..=7) => {
            let digits = format!("{:07}", civil.fraction);
            match digits[..run].trim_end_matches('0') {
                // Without digits the point before them goes as well.
                "" if out.ends_with('.') => drop(out.pop()),
                shown => out.push_str(shown),
            }
        }
        ('t', 1) => out.push(if civil.hour < 12 { 'A' } else { 'P' }),
        ('t', _) => out.push_str(if civil.hour < 12 { "AM" } else { "PM" }),
        ('K', _) => (0..run).for_each(|_| out.push_str(if moment.utc { "Z" } else { "" })),
        ('z', 1) => out.push_str("+0"),
        ('z', 2) => out.push_str("+00"),
        ('z', _) => out.push_str("+00:00"),
        ('g', _) => out.push_str("A.D."),
        ('y' | 'f' | 'F', _) => return None,
        _ => out.extend(std::iter::repeat_n(letter, run)),
    }
    Some(())
}
