//! Timestamps and durations in nanoseconds: written as RFC 3339 and as `1h30m`, read in any time zone. The time zone
//! rules are built into the program.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};
use windlass_value::{EvalError, nearest};

use super::value::{CelType, CelValue, describe, truncate, type_error};
use crate::wdl::zones;

const SECOND: i128 = 1_000_000_000;
/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59.999999999Z.
const FIRST: i128 = -62_135_596_800 * SECOND;
const LAST: i128 = 253_402_300_800 * SECOND - 1;

/// Nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct CelTimestamp(i128);

/// Nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct CelDuration(pub i64);

fn out_of_range() -> EvalError {
    type_error("the timestamp is out of range: years are 1 to 9999")
}

fn span_out_of_range() -> EvalError {
    type_error("the duration is out of range: the limit is about 292 years")
}

impl CelTimestamp {
    fn new(nanoseconds: i128) -> Result<CelTimestamp, EvalError> {
        if (FIRST..=LAST).contains(&nanoseconds) { Ok(CelTimestamp(nanoseconds)) } else { Err(out_of_range()) }
    }

    pub(crate) fn from_seconds(seconds: i64) -> Result<CelTimestamp, EvalError> {
        CelTimestamp::new(i128::from(seconds) * SECOND)
    }

    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(self.0.div_euclid(SECOND)).unwrap_or(i64::MAX)
    }

    pub(crate) fn add(self, span: CelDuration, sign: i128) -> Result<CelTimestamp, EvalError> {
        CelTimestamp::new(self.0 + sign * i128::from(span.0))
    }

    pub(crate) fn since(self, other: CelTimestamp) -> Result<CelDuration, EvalError> {
        i64::try_from(self.0 - other.0).map(CelDuration).map_err(|_| span_out_of_range())
    }

    /// Parses an RFC 3339 timestamp with an offset.
    pub(crate) fn parse(text: &str) -> Result<CelTimestamp, EvalError> {
        match parse_rfc3339(text) {
            Some(nanoseconds) => CelTimestamp::new(nanoseconds),
            None => {
                let message = format!("{:?} is not a timestamp", truncate(text));
                Err(type_error(message).with_hint("write it as 2026-11-15T09:30:00Z, or with an offset such as +01:00"))
            }
        }
    }

    /// Returns the civil date and time at the given offset from UTC in seconds.
    fn to_civil(self, offset: i64) -> Option<DateTime> {
        let shifted = self.0 + i128::from(offset) * SECOND;
        let seconds = i64::try_from(shifted.div_euclid(SECOND)).ok()?;
        let rest = i32::try_from(shifted.rem_euclid(SECOND)).ok()?;
        epoch().checked_add(SignedDuration::new(seconds, rest)).ok()
    }
}

fn epoch() -> DateTime {
    Date::constant(1970, 1, 1).at(0, 0, 0, 0)
}

fn parse_rfc3339(text: &str) -> Option<i128> {
    let bytes = text.as_bytes();
    let shape = |at: usize, sign: u8| bytes.get(at) == Some(&sign);
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<i32>().ok()
    };
    let dashes = shape(4, b'-') && shape(7, b'-') && (shape(10, b'T') || shape(10, b't'));
    if !(dashes && shape(13, b':') && shape(16, b':')) {
        return None;
    }
    let small = |from: usize| i8::try_from(number(from, from + 2)?).ok();
    let year = i16::try_from(number(0, 4)?).ok()?;
    let civil = DateTime::new(year, small(5)?, small(8)?, small(11)?, small(14)?, small(17)?, 0).ok()?;
    let mut rest = text.get(19..)?;
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let end = after.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(after.len());
        if end == 0 {
            return None;
        }
        let digits: String = after[..end].chars().chain("000000000".chars()).take(9).collect();
        fraction = digits.parse::<i128>().ok()?;
        rest = &after[end..];
    }
    let offset = match rest {
        "Z" | "z" => 0,
        rest => clock_offset(rest).filter(|_| rest.starts_with(['+', '-']))?,
    };
    let since = civil.duration_since(epoch());
    Some((i128::from(since.as_secs()) - i128::from(offset)) * SECOND + fraction)
}

/// Parses `+01:30`, `-01:30` or `01:30` into an offset from UTC in seconds.
fn clock_offset(text: &str) -> Option<i64> {
    let (sign, clock) = match text.strip_prefix('-') {
        Some(clock) => (-1, clock),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = clock.split_once(':')?;
    let part = |text: &str, max: i64| {
        let plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| plain && *number <= max)
    };
    Some(sign * (part(hours, 23)? * 3600 + part(minutes, 59)? * 60))
}

impl fmt::Display for CelTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(civil) = self.to_civil(0) else { return f.write_str("a timestamp") };
        let (date, time) = (civil.date(), civil.time());
        write!(f, "{:04}-{:02}-{:02}T", date.year(), date.month(), date.day())?;
        write!(f, "{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        write_fraction(f, time.subsec_nanosecond().unsigned_abs())?;
        f.write_str("Z")
    }
}

fn write_fraction(f: &mut fmt::Formatter<'_>, nanoseconds: u32) -> fmt::Result {
    if nanoseconds == 0 {
        return Ok(());
    }
    let digits = format!("{nanoseconds:09}");
    write!(f, ".{}", digits.trim_end_matches('0'))
}

/// Formats the duration in seconds with as many digits as needed: `5400s`, `1.5s`.
impl fmt::Display for CelDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0.unsigned_abs() / 1_000_000_000, self.0.unsigned_abs() % 1_000_000_000);
        write!(f, "{}{seconds}", if self.0 < 0 { "-" } else { "" })?;
        write_fraction(f, rest as u32)?;
        f.write_str("s")
    }
}

impl CelDuration {
    /// Parses `1h30m`, `1.5s`, `-20ms`: a sequence of numbers with units.
    pub(crate) fn parse(text: &str) -> Result<CelDuration, EvalError> {
        parse_duration(text).map(CelDuration).ok_or_else(|| {
            let message = format!("{:?} is not a duration", truncate(text));
            type_error(message).with_hint("write it as 1h30m, 90s or 250ms; units are h, m, s, ms, us and ns")
        })
    }

    pub(crate) fn add(self, other: CelDuration) -> Result<CelDuration, EvalError> {
        self.0.checked_add(other.0).map(CelDuration).ok_or_else(span_out_of_range)
    }

    pub(crate) fn minus(self, other: CelDuration) -> Result<CelDuration, EvalError> {
        self.0.checked_sub(other.0).map(CelDuration).ok_or_else(span_out_of_range)
    }

    pub(crate) fn negate(self) -> Result<CelDuration, EvalError> {
        self.0.checked_neg().map(CelDuration).ok_or_else(span_out_of_range)
    }

    fn component(self, name: &str) -> Option<i64> {
        Some(match name {
            "getHours" => self.0 / 3_600_000_000_000,
            "getMinutes" => self.0 / 60_000_000_000,
            "getSeconds" => self.0 / 1_000_000_000,
            "getMilliseconds" => self.0 / 1_000_000,
            _ => return None,
        })
    }
}

fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() || rest.len() > 200 {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|sign: char| sign.is_ascii_digit() || sign == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let size: i128 = match unit {
            "h" => 3600 * SECOND,
            "m" => 60 * SECOND,
            "s" => SECOND,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 19 {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let digits = &fraction[..fraction.len().min(15)];
        let part: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        total += whole * size + part * size / 10i128.pow(digits.len() as u32);
        rest = after;
    }
    i64::try_from(sign * total).ok()
}

/// Evaluates `getHours` and similar functions.
pub(super) fn time_component(name: &str, target: &CelValue, zone: Option<&CelValue>) -> Result<CelValue, EvalError> {
    let moment = match (target, zone) {
        (CelValue::Time(moment), _) => *moment,
        (CelValue::Span(span), None) => {
            let part = span.component(name).map(CelValue::Int);
            return part.ok_or_else(|| type_error(format!("{name}() needs a timestamp, a duration has none")));
        }
        (CelValue::Span(_), Some(_)) => return Err(type_error(format!("{name}() of a duration has no time zone"))),
        (other, _) => {
            let message = format!("{name}() needs a timestamp, not {}", describe(other));
            let error = type_error(message);
            return Err(match other.kind() {
                Some(CelType::Str) => error.with_hint(format!("write timestamp(…).{name}()")),
                _ => error,
            });
        }
    };
    let offset = match zone {
        None => 0,
        Some(CelValue::Str(zone)) => zone_offset(zone, moment)?,
        Some(other) => return Err(type_error(format!("a time zone is a string, not {}", describe(other)))),
    };
    let civil = moment.to_civil(offset).ok_or_else(out_of_range)?;
    let (date, time) = (civil.date(), civil.time());
    Ok(CelValue::Int(match name {
        "getFullYear" => i64::from(date.year()),
        "getMonth" => i64::from(date.month()) - 1,
        "getDate" => i64::from(date.day()),
        "getDayOfMonth" => i64::from(date.day()) - 1,
        "getDayOfWeek" => i64::from(date.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(date.day_of_year()) - 1,
        "getHours" => i64::from(time.hour()),
        "getMinutes" => i64::from(time.minute()),
        "getSeconds" => i64::from(time.second()),
        _ => i64::from(time.millisecond()),
    }))
}

fn zone_offset(zone: &str, moment: CelTimestamp) -> Result<i64, EvalError> {
    if let Some(offset) = clock_offset(zone) {
        return Ok(offset);
    }
    let Some(found) = zones::find(zone) else {
        let hint = match nearest(zone, ["UTC", "Europe/Berlin", "Europe/London", "America/New_York", "Asia/Tokyo"]) {
            Some(close) => format!("did you mean '{close}'?"),
            None => "zones are such as 'Europe/Berlin', 'UTC' or '+01:00'".to_owned(),
        };
        return Err(type_error(format!("there is no time zone {:?}", truncate(zone))).with_hint(hint));
    };
    let seconds = moment.seconds().clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    let at = jiff::Timestamp::from_second(seconds).map_err(|_| out_of_range())?;
    Ok(i64::from(found.to_offset(at).seconds()))
}
