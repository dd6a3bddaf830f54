//! Values of databases as data: numbers stay exact, times become ISO text.

use jiff::civil::{Date, Time};
use jiff::{SignedDuration, Span, Timestamp};
use windlass_value::Value;

/// There is no such number in JSON as NaN: it becomes its name.
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

/// By its text: 0.1 stays 0.1.
pub(crate) fn short_float(number: f32) -> Value {
    float(number.to_string().parse().unwrap_or(f64::from(number)))
}

/// A whole number as such if it is not too large; anything else exactly as it is written.
pub(crate) fn number(text: String) -> Value {
    text.parse().map_or_else(|_| Value::Big(text.into()), Value::Int)
}

pub(crate) fn infinity(positive: bool, negative: bool) -> Option<Value> {
    if positive { Some("infinity".into()) } else { negative.then(|| "-infinity".into()) }
}

/// So many units of time, `per_second` of which are a second.
fn duration_from_units(units: i64, per_second: i64) -> SignedDuration {
    let nanos = units.rem_euclid(per_second) * (1_000_000_000 / per_second);
    SignedDuration::from_secs(units.div_euclid(per_second)) + SignedDuration::from_nanos(nanos)
}

/// Since 1970, in the zone of the world.
pub(crate) fn instant(units: i64, per_second: i64) -> Option<Value> {
    Some(Timestamp::UNIX_EPOCH.checked_add(duration_from_units(units, per_second)).ok()?.to_string().into())
}

/// Without a zone, as there is none.
pub(crate) fn date_time(units: i64, per_second: i64) -> Option<Value> {
    let begin = EPOCH.at(0, 0, 0, 0);
    Some(begin.checked_add(duration_from_units(units, per_second)).ok()?.to_string().into())
}

pub(crate) fn date(days: i64) -> Option<Value> {
    let days = Span::new().try_days(days).ok()?;
    Some(EPOCH.checked_add(days).ok()?.to_string().into())
}

/// Of a day. Its end is a time too.
pub(crate) fn time(units: i64, per_second: i64) -> Option<Value> {
    if units == 86_400 * per_second {
        return Some("24:00:00".into());
    }
    Some(Time::midnight().checked_add(duration_from_units(units, per_second)).ok()?.to_string().into())
}

const EPOCH: Date = Date::constant(1970, 1, 1);
