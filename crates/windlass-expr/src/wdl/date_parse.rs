//! Parses text to moments: exactly by a given format, or in the notation of the locale.

use super::calendar::{CivilDateTime, DateReader, WdlMoment};
use super::date_format::{DatePatternPart, each_part, resolve_pattern};
use super::locale::Locale;

/// Two-digit years mean 1950 to 2049.
const MAX_TWO_DIGIT_YEAR: i64 = 49;

fn full_year(year: i64) -> i64 {
    year + if year <= MAX_TWO_DIGIT_YEAR { 2000 } else { 1900 }
}

/// The date and time fields parsed so far.
#[derive(Default)]
struct ParsedDate {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    weekday: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
    afternoon: Option<bool>,
    offset: Option<i64>,
}

impl ParsedDate {
    /// Returns the moment. Missing parts of the date are today's; a month without a day starts on its first day.
    fn moment(self, today: Option<CivilDateTime>) -> Option<WdlMoment> {
        let hour = match self.afternoon {
            None => self.hour,
            Some(afternoon) if (1..=12).contains(&self.hour) => self.hour % 12 + if afternoon { 12 } else { 0 },
            Some(_) => return None,
        };
        let no_date = self.year.is_none() && self.month.is_none() && self.day.is_none();
        let civil = CivilDateTime {
            year: self.year.or(today.map(|today| today.year))?,
            month: match (self.month, self.year) {
                (Some(month), _) => month,
                (None, Some(_)) => 1,
                (None, None) => today?.month,
            },
            day: match self.day {
                Some(day) => day,
                None if no_date => today?.day,
                None => 1,
            },
            hour,
            minute: self.minute,
            second: self.second,
            fraction: self.fraction,
        };
        let shown = civil.moment(None)?;
        if self.weekday.is_some_and(|weekday| weekday != shown.day_of_week()) {
            return None;
        }
        civil.moment(self.offset)
    }
}

/// Parses a text that follows the format exactly.
pub(crate) fn parse_exact(
    text: &str,
    pattern: &str,
    locale: &Locale,
    today: Option<CivilDateTime>,
) -> Option<WdlMoment> {
    let zulu = pattern == "u" || pattern == "r" || pattern == "R";
    let (pattern, locale) = resolve_pattern(pattern, locale)?;
    let mut reader = ExactDateParser {
        reader: DateReader { rest: text.trim() },
        locale,
        parsed: ParsedDate::default(),
        point_missing: false,
    };
    each_part(&pattern, &mut |part| reader.part(part))?;
    if zulu {
        reader.parsed.offset = Some(0);
    }
    (reader.reader.rest.is_empty() && !reader.point_missing).then_some(())?;
    reader.parsed.moment(today)
}

struct ExactDateParser<'a> {
    reader: DateReader<'a>,
    locale: &'a Locale,
    parsed: ParsedDate,
    /// The decimal point before a fraction is missing, so the fraction must be missing too.
    point_missing: bool,
}

impl ExactDateParser<'_> {
    fn part(&mut self, part: DatePatternPart) -> Option<()> {
        if std::mem::take(&mut self.point_missing) {
            return matches!(part, DatePatternPart::Letter('F', 1..=7)).then_some(());
        }
        match part {
            DatePatternPart::Literal(text) => self.literal(text),
            DatePatternPart::Letter(letter, run) => self.letter(letter, run),
        }
    }

    fn literal(&mut self, text: &str) -> Option<()> {
        self.reader.rest = self.reader.rest.strip_prefix(text)?;
        Some(())
    }

    /// Reads a number. A single pattern letter accepts one or two digits, more letters require exactly two.
    fn digits(&mut self, run: usize) -> Option<i64> {
        if run == 1 { self.reader.number(1, 2) } else { self.reader.number(2, 2) }
    }

    fn name(&mut self, lists: &[&[&str]]) -> Option<i64> {
        let (index, rest) = longest_name(self.reader.rest, lists)?;
        self.reader.rest = rest;
        Some(index)
    }

    fn letter(&mut self, letter: char, run: usize) -> Option<()> {
        let locale = self.locale;
        match (letter, run) {
            ('d', 1 | 2) => self.parsed.day = Some(self.digits(run)?),
            ('d', 3) => self.parsed.weekday = Some(self.name(&[&locale.days_short])?),
            ('d', _) => self.parsed.weekday = Some(self.name(&[&locale.days])?),
            ('M', 1 | 2) => self.parsed.month = Some(self.digits(run)?),
            ('M', 3) => self.parsed.month = Some(self.name(&[&locale.months_short])? + 1),
            ('M', _) => self.parsed.month = Some(self.name(&[&locale.months, &locale.months_genitive])? + 1),
            ('y', 1 | 2) => self.parsed.year = Some(full_year(self.digits(run)?)),
            ('y', 3) => self.parsed.year = Some(self.reader.number(3, 4)?),
            ('y', _) => self.parsed.year = Some(self.reader.number(run, run)?),
            ('H' | 'h', _) => self.parsed.hour = self.digits(run)?,
            ('m', _) => self.parsed.minute = self.digits(run)?,
            ('s', _) => self.parsed.second = self.digits(run)?,
            ('f', 1..=7) => self.parsed.fraction = self.reader.number(run, run)? * 10i64.pow(7 - run as u32),
            ('F', 1..=7) => {
                let digits = self.reader.take(|byte| byte.is_ascii_digit(), run);
                self.parsed.fraction = format!("{digits:0<7}").parse().ok()?;
            }
            ('t', 1) => {
                let firsts: Vec<&str> = locale.halves.iter().map(|half| first_letter(half)).collect();
                self.parsed.afternoon = Some(self.name(&[&firsts])? == 1);
            }
            ('t', _) => self.parsed.afternoon = Some(self.name(&[&locale.halves])? == 1),
            ('K', _) => self.parsed.offset = self.zone(2, true)?,
            ('z', _) => self.parsed.offset = self.zone(run.min(2), run > 2)?,
            ('g', _) => self.literal(locale.era)?,
            ('/', _) => (0..run).try_for_each(|_| self.separator(locale.separators[0], "/"))?,
            (':', _) => (0..run).try_for_each(|_| self.separator(locale.separators[1], ":"))?,
            ('.', 1) if !self.reader.rest.starts_with('.') => self.point_missing = true,
            _ => (0..run).try_for_each(|_| self.reader.expect(letter))?,
        }
        Some(())
    }

    fn separator(&mut self, of_locale: &str, usual: &str) -> Option<()> {
        self.literal(of_locale).or_else(|| self.literal(usual))
    }

    /// Reads `Z`, `+h`, `+hh` or `+hh:mm`; an empty text states no zone.
    fn zone(&mut self, hour_digits: usize, minutes: bool) -> Option<Option<i64>> {
        if self.reader.expect('Z').is_some() {
            return Some(Some(0));
        }
        let sign = match self.reader.rest.bytes().next() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Some(None),
        };
        self.reader.rest = &self.reader.rest[1..];
        let hours = self.reader.number(hour_digits, 2)?;
        let minutes = match minutes {
            true => {
                self.reader.expect(':');
                self.reader.number(2, 2)?
            }
            false => 0,
        };
        (hours <= 14 && minutes < 60).then_some(Some(sign * (hours * 60 + minutes)))
    }
}

fn first_letter(text: &'static str) -> &'static str {
    text.chars().next().map_or("", |first| &text[..first.len_utf8()])
}

/// Finds the longest name that the text begins with, in any letter case. Returns its index in its list and the rest
/// of the text. The point of an abbreviation may be missing.
fn longest_name<'a>(text: &'a str, lists: &[&[&str]]) -> Option<(i64, &'a str)> {
    let mut best: Option<(usize, i64, &str)> = None;
    for (index, name) in lists.iter().flat_map(|list| list.iter().enumerate()) {
        let rest = after_name(text, name).or_else(|| after_name(text, name.trim_end_matches('.')));
        if let Some(rest) = rest
            && best.is_none_or(|(length, ..)| name.len() > length)
        {
            best = Some((name.len(), index as i64, rest));
        }
    }
    best.map(|(_, index, rest)| (index, rest))
}

fn after_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = text.chars();
    for expected in name.chars() {
        let next = rest.next()?;
        if next != expected && !next.to_lowercase().eq(expected.to_lowercase()) {
            return None;
        }
    }
    (!name.is_empty()).then_some(rest.as_str())
}

/// Like [`longest_name`], for whole words only.
fn longest_word<'a>(text: &'a str, lists: &[&[&str]]) -> Option<(i64, &'a str)> {
    longest_name(text, lists).filter(|(_, rest)| ends_word(text, rest))
}

/// Returns whether the text was cut at the end of a word. Scripts without spaces between words may be cut anywhere.
fn ends_word(text: &str, rest: &str) -> bool {
    let last = text[..text.len() - rest.len()].chars().next_back();
    last.is_none_or(|last| last >= '\u{2e80}') || !rest.starts_with(char::is_alphabetic)
}

/// Filler words between the parts of a date, which are ignored.
const FILLERS: &[&str] =
    &["de", "del", "den", "of", "the", "г", "р", "年", "月", "日", "년", "월", "일", "st", "nd", "rd", "th"];

/// Parses a date with or without a time in the locale's notation; plain numbers follow the locale's order.
pub(crate) fn parse_general(text: &str, locale: &Locale, today: Option<CivilDateTime>) -> Option<WdlMoment> {
    let text = text.trim();
    if text.is_empty() || text.len() > 200 {
        return None;
    }
    if let Some(moment) = super::calendar::parse_iso8601(text) {
        return Some(moment);
    }
    let mut reader = GeneralDateParser {
        rest: text,
        locale,
        parsed: ParsedDate::default(),
        numbers: Vec::new(),
        timed: false,
        after_digit: false,
        after_time: false,
    };
    while !reader.rest.is_empty() {
        reader.token()?;
    }
    reader.assign_numbers()?;
    reader.parsed.moment(today)
}

struct GeneralDateParser<'a> {
    rest: &'a str,
    locale: &'a Locale,
    parsed: ParsedDate,
    /// Numbers that are not part of a time: their value and their number of digits.
    numbers: Vec<(i64, usize)>,
    timed: bool,
    /// A number has just been read.
    after_digit: bool,
    /// A time of day has just been read, so that an offset may follow.
    after_time: bool,
}

impl GeneralDateParser<'_> {
    fn token(&mut self) -> Option<()> {
        let first = self.rest.chars().next()?;
        let read = match first {
            '0'..='9' => self.number(),
            '+' | '-' if self.after_time => self.offset(),
            ' ' | ',' | '/' | '-' | '.' | '\u{a0}' | '\u{202f}' => {
                self.after_time &= first == ' ';
                self.rest = &self.rest[first.len_utf8()..];
                Some(())
            }
            _ => self.word(),
        };
        self.after_digit = first.is_ascii_digit();
        read
    }

    fn number(&mut self) -> Option<()> {
        let mut reader = DateReader { rest: self.rest };
        let digits = reader.take(|byte| byte.is_ascii_digit(), 5);
        if digits.len() <= 2 && !self.timed && reader.rest.starts_with(':') {
            return self.time();
        }
        (self.rest, self.after_time) = (reader.rest, false);
        self.numbers.push((digits.parse().ok()?, digits.len()));
        (self.numbers.len() <= 3 && digits.len() <= 4).then_some(())
    }

    fn time(&mut self) -> Option<()> {
        let mut civil = CivilDateTime { year: 1, month: 1, day: 1, hour: 0, minute: 0, second: 0, fraction: 0 };
        let mut reader = DateReader { rest: self.rest };
        reader.clock(&mut civil)?;
        (self.rest, self.timed, self.after_time) = (reader.rest, true, true);
        let parsed = &mut self.parsed;
        (parsed.hour, parsed.minute, parsed.second, parsed.fraction) =
            (civil.hour, civil.minute, civil.second, civil.fraction);
        Some(())
    }

    fn offset(&mut self) -> Option<()> {
        let mut reader = DateReader { rest: self.rest };
        self.parsed.offset = reader.zone()?;
        self.rest = reader.rest;
        Some(())
    }

    fn word(&mut self) -> Option<()> {
        let locale = self.locale;
        let filler = longest_word(self.rest, &[FILLERS]).map(|(_, rest)| rest);
        if let (Some(rest), true) = (filler, self.after_digit) {
            self.rest = rest;
            return Some(());
        }
        let months: [&[&str]; 3] = [&locale.months, &locale.months_genitive, &locale.months_short];
        if let Some((index, rest)) = longest_word(self.rest, &months) {
            (self.parsed.month, self.rest) = (Some(index + 1), rest);
        } else if let Some((index, rest)) = longest_word(self.rest, &[&locale.days, &locale.days_short]) {
            (self.parsed.weekday, self.rest) = (Some(index), rest);
        } else if let Some((index, rest)) = longest_word(self.rest, &[&locale.halves, &["AM", "PM"]]) {
            (self.parsed.afternoon, self.rest) = (Some(index == 1), rest);
        } else if let Some((_, rest)) = longest_word(self.rest, &[&["Z", "GMT", "UTC"]]) {
            (self.parsed.offset, self.rest) = (Some(0), rest);
        } else {
            let rest = self.rest.strip_prefix(['T', 't']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            self.rest = rest.or(filler)?;
        }
        Some(())
    }

    /// Decides which number is the day, which the month, which the year.
    fn assign_numbers(&mut self) -> Option<()> {
        let date = self.locale.date;
        let position = |letter: char| date.find(letter).unwrap_or(usize::MAX);
        let long = |(_, digits): &(i64, usize)| *digits >= 3;
        let year_of = |(year, digits): (i64, usize)| if digits <= 2 { full_year(year) } else { year };
        let year_first = self.numbers.first().is_some_and(long);
        match (self.parsed.month.is_some(), self.numbers.as_slice()) {
            (_, []) => {}
            (true, [only]) if long(only) => self.parsed.year = Some(only.0),
            (true, [only]) => self.parsed.day = Some(only.0),
            (true, &[first, second]) => {
                let first_is_year = year_first || (!long(&second) && position('y') < position('d'));
                let (year, day) = if first_is_year { (first, second) } else { (second, first) };
                (self.parsed.year, self.parsed.day) = (Some(year_of(year)), Some(day.0));
            }
            (false, &[first, second]) if year_first => {
                (self.parsed.year, self.parsed.month) = (Some(first.0), Some(second.0));
            }
            (false, &[first, second]) if long(&second) => {
                (self.parsed.month, self.parsed.year) = (Some(first.0), Some(second.0));
            }
            (false, &[first, second]) => {
                let day_first = position('d') < position('M');
                let (day, month) = if day_first { (first, second) } else { (second, first) };
                (self.parsed.day, self.parsed.month) = (Some(day.0), Some(month.0));
            }
            (false, &[a, b, c]) => {
                let mut order = [(position('y'), 'y'), (position('M'), 'M'), (position('d'), 'd')];
                order.sort_unstable();
                if year_first {
                    order = [(0, 'y'), (1, 'M'), (2, 'd')];
                } else if long(&c) && order[2].1 != 'y' {
                    // Written in the reverse of the locale's order.
                    order.reverse();
                }
                for ((_, letter), number) in order.into_iter().zip([a, b, c]) {
                    match letter {
                        'y' => self.parsed.year = Some(year_of(number)),
                        'M' => self.parsed.month = Some(number.0),
                        _ => self.parsed.day = Some(number.0),
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }
}
