//! Dates and times. Timestamps are texts; results are texts in the round-trip format unless another is given.

use windlass_value::{EvalError, Value};

use super::{Function, check_locale, int_at, pure, state, text_at, wrong};
use crate::wdl::calendar::{self, Civil, Moment, TICKS_PER_DAY, TICKS_PER_SECOND};
use crate::wdl::date_format::{self, ROUND_TRIP};
use crate::wdl::values::{Context, Outcome, type_error};

pub(crate) const FUNCTIONS: &[Function] = &[
    state("utcNow", 0, 1, utc_now),
    pure("addSeconds", 2, 3, add_seconds),
    pure("addMinutes", 2, 3, add_minutes),
    pure("addHours", 2, 3, add_hours),
    pure("addDays", 2, 3, add_days),
    pure("addToTime", 3, 4, add_to_time),
    pure("subtractFromTime", 3, 4, subtract_from_time),
    state("getFutureTime", 2, 3, get_future_time),
    state("getPastTime", 2, 3, get_past_time),
    pure("formatDateTime", 1, 3, format_date_time),
    pure("parseDateTime", 1, 2, parse_date_time),
    pure("startOfDay", 1, 2, start_of_day),
    pure("startOfHour", 1, 2, start_of_hour),
    pure("startOfMonth", 1, 2, start_of_month),
    pure("dayOfMonth", 1, 1, day_of_month),
    pure("dayOfWeek", 1, 1, day_of_week),
    pure("dayOfYear", 1, 1, day_of_year),
    pure("ticks", 1, 1, ticks),
    pure("dateDifference", 2, 2, date_difference),
];

fn moment_at(function: &str, arguments: &[Value], index: usize) -> Result<Moment, EvalError> {
    let text = text_at(function, arguments, index)?;
    calendar::parse(text).ok_or_else(|| {
        wrong(function, arguments, index, "a timestamp").hint("timestamps are such as '2026-11-15T09:30:00Z'")
    })
}

fn now(context: &Context) -> Result<Moment, EvalError> {
    Moment::from_timestamp(context.scope.now()).ok_or_else(|| type_error("the time of the tick is out of range"))
}

fn shown(function: &str, context: &mut Context, moment: Moment, arguments: &[Value], index: usize) -> Outcome {
    let pattern = match arguments.get(index) {
        None | Some(Value::Null) => ROUND_TRIP,
        Some(_) => text_at(function, arguments, index)?,
    };
    context.room_for_bytes(pattern.len().saturating_mul(4))?;
    date_format::format(moment, pattern).map(Value::from).ok_or_else(|| {
        type_error(format!("`{function}`: '{pattern}' is not a format for times"))
            .hint("formats are such as 'yyyy-MM-dd', 'HH:mm', 'o', 's', 'r'")
    })
}

fn out_of_range(function: &str) -> EvalError {
    type_error(format!("the result of `{function}` lies outside the years 1 to 9999"))
}

fn utc_now(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = now(context)?;
    shown("utcNow", context, moment, arguments, 0)
}

fn shift(function: &str, context: &mut Context, arguments: &[Value], unit: i64) -> Outcome {
    let moment = moment_at(function, arguments, 0)?;
    let span = int_at(function, arguments, 1)?.checked_mul(unit);
    let moved = span.and_then(|span| moment.add_ticks(span)).ok_or_else(|| out_of_range(function))?;
    shown(function, context, moved, arguments, 2)
}

fn add_seconds(context: &mut Context, arguments: &[Value]) -> Outcome {
    shift("addSeconds", context, arguments, TICKS_PER_SECOND)
}

fn add_minutes(context: &mut Context, arguments: &[Value]) -> Outcome {
    shift("addMinutes", context, arguments, 60 * TICKS_PER_SECOND)
}

fn add_hours(context: &mut Context, arguments: &[Value]) -> Outcome {
    shift("addHours", context, arguments, 3_600 * TICKS_PER_SECOND)
}

fn add_days(context: &mut Context, arguments: &[Value]) -> Outcome {
    shift("addDays", context, arguments, TICKS_PER_DAY)
}

/// Moves by so many units, given at `index` and the argument after it.
fn moved(function: &str, moment: Moment, arguments: &[Value], index: usize, sign: i64) -> Result<Moment, EvalError> {
    let count = int_at(function, arguments, index)?.checked_mul(sign).ok_or_else(|| out_of_range(function))?;
    let unit = text_at(function, arguments, index + 1)?;
    let by_ticks = |size: i64| count.checked_mul(size).and_then(|span| moment.add_ticks(span));
    let moved = match unit.to_ascii_lowercase().trim_end_matches('s') {
        "second" => by_ticks(TICKS_PER_SECOND),
        "minute" => by_ticks(60 * TICKS_PER_SECOND),
        "hour" => by_ticks(3_600 * TICKS_PER_SECOND),
        "day" => by_ticks(TICKS_PER_DAY),
        "week" => by_ticks(7 * TICKS_PER_DAY),
        "month" => moment.add_months(count),
        "year" => count.checked_mul(12).and_then(|months| moment.add_months(months)),
        _ => {
            return Err(wrong(function, arguments, index + 1, "a unit of time")
                .hint("units are Second, Minute, Hour, Day, Week, Month and Year"));
        }
    };
    moved.ok_or_else(|| out_of_range(function))
}

fn add_to_time(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = moved("addToTime", moment_at("addToTime", arguments, 0)?, arguments, 1, 1)?;
    shown("addToTime", context, moment, arguments, 3)
}

fn subtract_from_time(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = moved("subtractFromTime", moment_at("subtractFromTime", arguments, 0)?, arguments, 1, -1)?;
    shown("subtractFromTime", context, moment, arguments, 3)
}

fn get_future_time(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = moved("getFutureTime", now(context)?, arguments, 0, 1)?;
    shown("getFutureTime", context, moment, arguments, 2)
}

fn get_past_time(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = moved("getPastTime", now(context)?, arguments, 0, -1)?;
    shown("getPastTime", context, moment, arguments, 2)
}

fn format_date_time(context: &mut Context, arguments: &[Value]) -> Outcome {
    check_locale("formatDateTime", arguments, 2)?;
    let moment = moment_at("formatDateTime", arguments, 0)?;
    shown("formatDateTime", context, moment, arguments, 1)
}

fn parse_date_time(context: &mut Context, arguments: &[Value]) -> Outcome {
    check_locale("parseDateTime", arguments, 1)?;
    let moment = moment_at("parseDateTime", arguments, 0)?;
    shown("parseDateTime", context, moment, arguments, usize::MAX)
}

/// The beginning of the span the moment lies in.
fn start(function: &str, context: &mut Context, arguments: &[Value], cut: fn(&mut Civil)) -> Outcome {
    let moment = moment_at(function, arguments, 0)?;
    let mut civil = Civil { minute: 0, second: 0, fraction: 0, ..moment.civil() };
    cut(&mut civil);
    let moment = civil.ticks().and_then(|ticks| moment.at(ticks)).ok_or_else(|| out_of_range(function))?;
    shown(function, context, moment, arguments, 1)
}

fn start_of_hour(context: &mut Context, arguments: &[Value]) -> Outcome {
    start("startOfHour", context, arguments, |_| {})
}

fn start_of_day(context: &mut Context, arguments: &[Value]) -> Outcome {
    start("startOfDay", context, arguments, |civil| civil.hour = 0)
}

fn start_of_month(context: &mut Context, arguments: &[Value]) -> Outcome {
    start("startOfMonth", context, arguments, |civil| (civil.hour, civil.day) = (0, 1))
}

fn day_of_month(_context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(moment_at("dayOfMonth", arguments, 0)?.civil().day))
}

fn day_of_week(_context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(moment_at("dayOfWeek", arguments, 0)?.day_of_week()))
}

fn day_of_year(_context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(moment_at("dayOfYear", arguments, 0)?.day_of_year()))
}

fn ticks(_context: &mut Context, arguments: &[Value]) -> Outcome {
    Ok(Value::Int(moment_at("ticks", arguments, 0)?.ticks))
}

/// `[-][d.]hh:mm:ss[.fffffff]` from the first to the second.
fn date_difference(_context: &mut Context, arguments: &[Value]) -> Outcome {
    let from = moment_at("dateDifference", arguments, 0)?.ticks;
    let span = moment_at("dateDifference", arguments, 1)?.ticks - from;
    let (sign, size) = (if span < 0 { "-" } else { "" }, span.abs());
    let (days, seconds, fraction) =
        (size / TICKS_PER_DAY, size % TICKS_PER_DAY / TICKS_PER_SECOND, size % TICKS_PER_SECOND);
    let days = if days > 0 { format!("{days}.") } else { String::new() };
    let fraction = if fraction > 0 { format!(".{fraction:07}") } else { String::new() };
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Ok(Value::from(format!("{sign}{days}{hours:02}:{minutes:02}:{seconds:02}{fraction}")))
}
