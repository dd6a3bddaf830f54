//! Dates and times. Timestamps are texts; results are texts in the round-trip format unless another is given.

use windlass_value::{EvalError, Value};

use super::{Function, Literal, int_at, locale_at, problem, pure, state, text_at, wrong};
use crate::wdl::calendar::{self, Civil, Moment, TICKS_PER_DAY, TICKS_PER_SECOND};
use crate::wdl::locale::{Locale, usual};
use crate::wdl::values::{Context, Outcome, short, type_error};
use crate::wdl::{date_format, date_parse};

pub(crate) const FUNCTIONS: &[Function] = &[
    state("utcNow", 0, 1, utc_now).checking(&[(0, Literal::TimeFormat)]),
    pure("addSeconds", 2, 3, add_seconds).checking(&[(2, Literal::TimeFormat)]),
    pure("addMinutes", 2, 3, add_minutes).checking(&[(2, Literal::TimeFormat)]),
    pure("addHours", 2, 3, add_hours).checking(&[(2, Literal::TimeFormat)]),
    pure("addDays", 2, 3, add_days).checking(&[(2, Literal::TimeFormat)]),
    pure("addToTime", 3, 4, add_to_time).checking(&[(3, Literal::TimeFormat)]),
    pure("subtractFromTime", 3, 4, subtract_from_time).checking(&[(3, Literal::TimeFormat)]),
    state("getFutureTime", 2, 3, get_future_time).checking(&[(2, Literal::TimeFormat)]),
    state("getPastTime", 2, 3, get_past_time).checking(&[(2, Literal::TimeFormat)]),
    pure("formatDateTime", 1, 3, format_date_time).checking(&[(1, Literal::TimeFormat), (2, Literal::Locale)]),
    state("parseDateTime", 1, 3, parse_date_time).checking(&[(1, Literal::Locale), (2, Literal::TimeFormat)]),
    pure("startOfDay", 1, 2, start_of_day).checking(&[(1, Literal::TimeFormat)]),
    pure("startOfHour", 1, 2, start_of_hour).checking(&[(1, Literal::TimeFormat)]),
    pure("startOfMonth", 1, 2, start_of_month).checking(&[(1, Literal::TimeFormat)]),
    pure("dayOfMonth", 1, 1, day_of_month),
    pure("dayOfWeek", 1, 1, day_of_week),
    pure("dayOfYear", 1, 1, day_of_year),
    pure("ticks", 1, 1, ticks),
    pure("dateDifference", 2, 2, date_difference),
];

/// ISO 8601 mostly, otherwise a date as the usual locale writes it.
pub(super) fn moment_at(function: &str, arguments: &[Value], index: usize) -> Result<Moment, EvalError> {
    let text = text_at(function, arguments, index)?;
    let moment = calendar::parse(text).or_else(|| date_parse::general(text, usual(), None));
    moment.ok_or_else(|| {
        wrong(function, arguments, index, "a timestamp").hint("timestamps are such as '2026-11-15T09:30:00Z'")
    })
}

fn now(context: &Context) -> Result<Moment, EvalError> {
    Moment::from_timestamp(context.scope.now()).ok_or_else(|| type_error("the time of the tick is out of range"))
}

/// In the format that is given at `index`, else in the one that loses nothing.
pub(super) fn shown(
    function: &str,
    context: &mut Context,
    moment: Moment,
    arguments: &[Value],
    index: usize,
) -> Outcome {
    shown_in(usual(), function, context, moment, arguments, index)
}

fn shown_in(
    locale: &Locale,
    function: &str,
    context: &mut Context,
    moment: Moment,
    arguments: &[Value],
    index: usize,
) -> Outcome {
    let pattern = match arguments.get(index) {
        None | Some(Value::Null) => "o",
        Some(_) => text_at(function, arguments, index)?,
    };
    context.room_for_bytes(pattern.len().saturating_mul(4))?;
    date_format::format(moment, pattern, locale)
        .map(Value::from)
        .ok_or_else(|| problem(function, Literal::TimeFormat.problem(pattern).unwrap_or_default()))
}

pub(super) fn out_of_range(function: &str) -> EvalError {
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
    let locale = locale_at("formatDateTime", arguments, 2)?;
    let moment = moment_at("formatDateTime", arguments, 0)?;
    shown_in(locale, "formatDateTime", context, moment, arguments, 1)
}

/// What a text leaves open of its date is that of the tick.
fn parse_date_time(context: &mut Context, arguments: &[Value]) -> Outcome {
    let function = "parseDateTime";
    let (text, locale) = (text_at(function, arguments, 0)?, locale_at(function, arguments, 1)?);
    context.bytes(text.len())?;
    let today = Some(now(context)?.civil());
    let moment = match arguments.get(2) {
        None | Some(Value::Null) => date_parse::general(text, locale, today).ok_or_else(|| {
            wrong(function, arguments, 0, &format!("a date as `{}` writes it", locale.name))
                .hint(format!("such as in the format '{}', or name the format as the third argument", locale.date))
        })?,
        Some(_) => {
            let pattern = text_at(function, arguments, 2)?;
            if let Some(bad) = Literal::TimeFormat.problem(pattern) {
                return Err(problem(function, bad));
            }
            date_parse::exact(text, pattern, locale, today)
                .ok_or_else(|| wrong(function, arguments, 0, &format!("a date in the format '{}'", short(pattern))))?
        }
    };
    shown(function, context, moment, arguments, usize::MAX)
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
