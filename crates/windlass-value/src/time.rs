//! Points and spans of time, in microseconds. There is no clock here: callers that have one create the values.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Timestamp(pub i64);

/// A span of time in microseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Duration(pub u64);

impl Duration {
    pub const ZERO: Duration = Duration(0);

    pub const fn from_ms(ms: u64) -> Duration {
        Duration(ms.saturating_mul(1_000))
    }

    pub const fn from_secs(secs: u64) -> Duration {
        Duration(secs.saturating_mul(1_000_000))
    }

    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub fn saturating_add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }

    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }
}

impl Timestamp {
    pub const fn as_ms(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Parses RFC 3339: a date, `T` or a space, a time with optional seconds and fraction, `Z` or an offset.
    ///
    /// Without an offset the time is UTC. Returns `None` for any other text.
    pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
        let text = text.trim();
        let (date, rest) = text.split_at_checked(10)?;
        let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let days = days_from_civil(year, month, day)?;
        let rest = rest.strip_prefix(['T', 't', ' ']).or(rest.is_empty().then_some("00:00"))?;
        let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
        let (clock, zone) = rest.split_at(zone_at);
        let mut parts = clock.splitn(3, ':');
        let (hour, minute) = (two_digits(parts.next()?, 24)?, two_digits(parts.next()?, 59)?);
        let seconds =
            parts.next().map_or(Some(0), |part| scaled(part, 1_000_000, true).filter(|us| *us < 61_000_000))?;
        let offset = match zone {
            "" | "Z" | "z" => 0,
            zone => {
                let (hours, minutes) = zone[1..].split_once(':')?;
                let minutes = two_digits(hours, 23)? * 60 + two_digits(minutes, 59)?;
                if zone.starts_with('-') { -minutes } else { minutes }
            }
        };
        let micros = ((days * 24 + hour) * 60 + minute - offset) * 60_000_000 + seconds as i64;
        Some(Timestamp(micros))
    }

    /// Returns the span since an earlier point; zero if that point is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub_unsigned(span.0))
    }
}

/// RFC 3339 in UTC with milliseconds: `2026-11-15T09:30:00.125Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, of_day) = (self.0.div_euclid(86_400_000_000), self.0.rem_euclid(86_400_000_000));
        let (year, month, day) = civil_from_days(days);
        let ms = of_day / 1_000;
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
    }
}

fn two_digits(text: &str, max: i64) -> Option<i64> {
    let plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| plain && *number <= max)
}

/// Returns the day number of a date; `None` if the date does not exist.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted_year.div_euclid(400), shifted_year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

/// Returns the proleptic Gregorian date of a day number, using eras of 400 years that begin in March.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

impl Duration {
    /// Parses an ISO 8601 duration of fixed length: weeks, days (24 h each), hours, minutes, seconds, with a fraction
    /// on the last part (`PT1.5S`).
    ///
    /// Years and months have no fixed length and are refused. Returns `None` for any other text.
    pub fn parse_iso(text: &str) -> Option<Duration> {
        let rest = text.trim().strip_prefix(['P', 'p'])?;
        let (date, time) = match rest.split_once(['T', 't']) {
            Some((date, time)) if !time.is_empty() => (date, time),
            Some(_) => return None,
            None => (rest, ""),
        };
        if date.is_empty() && time.is_empty() {
            return None;
        }
        let days = sum_parts(date, &[('W', 604_800_000_000), ('D', 86_400_000_000)])?;
        let clock = sum_parts(time, &[('H', 3_600_000_000), ('M', 60_000_000), ('S', 1_000_000)])?;
        days.checked_add(clock).map(Duration)
    }
}

/// Adds up `<number><unit>` parts; units must come in the given order, a fraction only in the last part.
fn sum_parts(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut total = 0u64;
    for (unit, micros) in units {
        let Some(end) = text.find([*unit, unit.to_ascii_lowercase()]) else { continue };
        let (number, rest) = (&text[..end], &text[end + 1..]);
        total = total.checked_add(scaled(number, *micros, rest.is_empty())?)?;
        text = rest;
    }
    text.is_empty().then_some(total)
}

fn scaled(number: &str, micros: u64, fraction_allowed: bool) -> Option<u64> {
    let (whole, fraction) = number.split_once(['.', ',']).map_or((number, None), |(w, f)| (w, Some(f)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || fraction.is_some_and(|part| !digits(part) || !fraction_allowed || part.len() > 9) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part = fraction.map_or(Some(0), |part| {
        let scale = 10u128.pow(part.len() as u32);
        u64::try_from(u128::from(part.parse::<u64>().ok()?) * u128::from(micros) / scale).ok()
    })?;
    whole.checked_mul(micros)?.checked_add(part)
}

/// ISO 8601, in the largest units that fit: `PT1H30M`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, of_day) = (self.0 / 86_400_000_000, self.0 % 86_400_000_000);
        let (hours, minutes, micros) = (of_day / 3_600_000_000, of_day / 60_000_000 % 60, of_day % 60_000_000);
        f.write_str("P")?;
        if days > 0 {
            write!(f, "{days}D")?;
        }
        if of_day == 0 && days > 0 {
            return Ok(());
        }
        f.write_str("T")?;
        if hours > 0 {
            write!(f, "{hours}H")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}M")?;
        }
        if micros > 0 || of_day == 0 {
            write!(f, "{}S", micros as f64 / 1e6)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the program as well as here: the release profile of this crate has overflow checks.
    #[test]
    fn arithmetic_does_not_wrap_around() {
        let later = std::panic::catch_unwind(|| std::hint::black_box(i64::MAX) + std::hint::black_box(1));
        assert!(later.is_err(), "{later:?}");
    }

    #[test]
    fn iso_durations() {
        let table = [
            ("PT1.5S", Some(1_500_000)),
            ("PT0.25H", Some(900_000_000)),
            ("P1D", Some(86_400_000_000)),
            ("P1DT1S", Some(86_401_000_000)),
            ("P2W", Some(1_209_600_000_000)),
            ("PT900M", Some(54_000_000_000)),
            ("PT1H30M", Some(5_400_000_000)),
            ("pt5s", Some(5_000_000)),
            ("P", None),
            ("PT", None),
            ("P1DT", None),
            ("P1Y", None),
            ("P1M", None),
            ("PT1S1M", None),
            ("PT1.5M1S", None),
            ("PT-1S", None),
            ("5s", None),
            ("", None),
            ("PTS", None),
            ("PT99999999999999999999S", None),
        ];
        for (text, expected) in table {
            assert_eq!(Duration::parse_iso(text), expected.map(Duration), "{text}");
        }
    }

    #[test]
    fn printed_durations_read_back() {
        for micros in [0, 1_000, 1_500_000, 60_000_000, 5_400_000_000, 86_400_000_000, 90_061_000_000] {
            let text = Duration(micros).to_string();
            assert_eq!(Duration::parse_iso(&text), Some(Duration(micros)), "{text}");
        }
    }

    #[test]
    fn timestamps_read_back() {
        for micros in [0, 951_782_400_000_000, 1_763_197_800_125_000, -1_000] {
            let text = Timestamp(micros).to_string();
            assert_eq!(Timestamp::parse_rfc3339(&text), Some(Timestamp(micros)), "{text}");
        }
        assert_eq!(Timestamp::parse_rfc3339("1970-01-01T01:00:00+01:00"), Some(Timestamp(0)));
        assert_eq!(Timestamp::parse_rfc3339("1970-01-02"), Some(Timestamp(86_400_000_000)));
        for wrong in
            ["", "1970-02-30T00:00:00Z", "1970-01-01T00", "1970-01-01X00:00:00Z", "1970-01-01T00:00:00+1", "é970-01-01"]
        {
            assert_eq!(Timestamp::parse_rfc3339(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn timestamps_print_as_rfc_3339() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(951_782_400_000_000).to_string(), "2000-02-29T00:00:00.000Z");
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }
}
