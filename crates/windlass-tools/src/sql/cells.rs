//! Conversion of database values: numbers stay exact, times become ISO text.

use jiff::civil::{Date, Time};
use jiff::{SignedDuration, Span, Timestamp};
use windlass_value::Value;

/// Converts a float. JSON has no NaN and no infinities, so these become their names.
pub(crate) fn float(number: f64) -> Value {
    let name = || {
        if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
    };
    Value::float(number).unwrap_or_else(|| name().into())
}

/// Converts by text, so that 0.1 stays 0.1.
pub(crate) fn short_float(number: f32) -> Value {
    float(number.to_string().parse().unwrap_or(f64::from(number)))
}

/// Returns an integer if it fits, and anything else exactly as written.
pub(crate) fn number(text: String) -> Value {
    text.parse().map_or_else(|_| Value::Big(text.into()), Value::Int)
}

pub(crate) fn infinity(positive: bool, negative: bool) -> Option<Value> {
    if positive { Some("infinity".into()) } else { negative.then(|| "-infinity".into()) }
}

/// Converts units of time, `per_second` of which are one second.
fn duration_from_units(units: i64, per_second: i64) -> SignedDuration {
    let nanos = units.rem_euclid(per_second) * (1_000_000_000 / per_second);
    SignedDuration::from_secs(units.div_euclid(per_second)) + SignedDuration::from_nanos(nanos)
}

/// Formats a time since 1970 in UTC.
pub(crate) fn instant(units: i64, per_second: i64) -> Option<Value> {
    Some(Timestamp::UNIX_EPOCH.checked_add(duration_from_units(units, per_second)).ok()?.to_string().into())
}

/// Formats a time without a zone.
pub(crate) fn date_time(units: i64, per_second: i64) -> Option<Value> {
    let begin = EPOCH.at(0, 0, 0, 0);
    Some(begin.checked_add(duration_from_units(units, per_second)).ok()?.to_string().into())
}

pub(crate) fn date(days: i64) -> Option<Value> {
    let days = Span::new().try_days(days).ok()?;
    Some(EPOCH.checked_add(days).ok()?.to_string().into())
}

/// Formats a time of day; 24:00:00 is valid.
pub(crate) fn time(units: i64, per_second: i64) -> Option<Value> {
    if units == 86_400 * per_second {
        return Some("24:00:00".into());
    }
    Some(Time::midnight().checked_add(duration_from_units(units, per_second)).ok()?.to_string().into())
}

const EPOCH: Date = Date::constant(1970, 1, 1);
