//! Dates and times. Timestamps are texts; results are texts in the round-trip format unless another is given.

use windlass_value::{EvalError, Value};

use super::{LiteralArgument, WdlFunction, call_error, int_at, locale_at, pure, state, text_at, wrong_argument};
use crate::wdl::calendar::{self, CivilDateTime, TICKS_PER_DAY, TICKS_PER_SECOND, WdlMoment};
use crate::wdl::locale::{Locale, default_locale};
use crate::wdl::values::{WdlContext, WdlResult, truncate, type_error};
use crate::wdl::{date_format, date_parse};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    state("utcNow", 0, 1, utc_now).checking(&[(0, LiteralArgument::TimeFormat)]),
    pure("addSeconds", 2, 3, add_seconds).checking(&[(2, LiteralArgument::TimeFormat)]),
    pure("addMinutes", 2, 3, add_minutes).checking(&[(2, LiteralArgument::TimeFormat)]),
    pure("addHours", 2, 3, add_hours).checking(&[(2, LiteralArgument::TimeFormat)]),
    pure("addDays", 2, 3, add_days).checking(&[(2, LiteralArgument::TimeFormat)]),
    pure("addToTime", 3, 4, add_to_time).checking(&[(3, LiteralArgument::TimeFormat)]),
    pure("subtractFromTime", 3, 4, subtract_from_time).checking(&[(3, LiteralArgument::TimeFormat)]),
    state("getFutureTime", 2, 3, get_future_time).checking(&[(2, LiteralArgument::TimeFormat)]),
    state("getPastTime", 2, 3, get_past_time).checking(&[(2, LiteralArgument::TimeFormat)]),
    pure("formatDateTime", 1, 3, format_date_time)
        .checking(&[(1, LiteralArgument::TimeFormat), (2, LiteralArgument::Locale)]),
    state("parseDateTime", 1, 3, parse_date_time)
        .checking(&[(1, LiteralArgument::Locale), (2, LiteralArgument::TimeFormat)]),
    pure("startOfDay", 1, 2, start_of_day).checking(&[(1, LiteralArgument::TimeFormat)]),
    pure("startOfHour", 1, 2, start_of_hour).checking(&[(1, LiteralArgument::TimeFormat)]),
    pure("startOfMonth", 1, 2, start_of_month).checking(&[(1, LiteralArgument::TimeFormat)]),
    pure("dayOfMonth", 1, 1, day_of_month),
    pure("dayOfWeek", 1, 1, day_of_week),
    pure("dayOfYear", 1, 1, day_of_year),
    pure("ticks", 1, 1, ticks),
    pure("dateDifference", 2, 2, date_difference),
];

/// Reads a timestamp: ISO 8601, otherwise a date in the notation of the default locale.
pub(super) fn moment_at(function: &str, arguments: &[Value], index: usize) -> Result<WdlMoment, EvalError> {
    let text = text_at(function, arguments, index)?;
    let moment = calendar::parse_iso8601(text).or_else(|| date_parse::parse_general(text, default_locale(), None));
    moment.ok_or_else(|| {
        wrong_argument(function, arguments, index, "a timestamp")
            .with_hint("timestamps are such as '2026-11-15T09:30:00Z'")
    })
}

fn now(context: &WdlContext) -> Result<WdlMoment, EvalError> {
    WdlMoment::from_timestamp(context.scope.now()).ok_or_else(|| type_error("the time of the tick is out of range"))
}

/// Formats in the format given at `index`, otherwise in the round-trip format, which loses nothing.
pub(super) fn format_result(
    function: &str,
    context: &mut WdlContext,
    moment: WdlMoment,
    arguments: &[Value],
    index: usize,
) -> WdlResult {
    format_result_in(default_locale(), function, context, moment, arguments, index)
}

fn format_result_in(
    locale: &Locale,
    function: &str,
    context: &mut WdlContext,
    moment: WdlMoment,
    arguments: &[Value],
    index: usize,
) -> WdlResult {
    let pattern = match arguments.get(index) {
        None | Some(Value::Null) => "o",
        Some(_) => text_at(function, arguments, index)?,
    };
    context.reserve_bytes(pattern.len().saturating_mul(4))?;
    date_format::format(moment, pattern, locale)
        .map(Value::from)
        .ok_or_else(|| call_error(function, LiteralArgument::TimeFormat.problem(pattern).unwrap_or_default()))
}

pub(super) fn out_of_range(function: &str) -> EvalError {
    type_error(format!("the result of `{function}` lies outside the years 1 to 9999"))
}

fn utc_now(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = now(context)?;
    format_result("utcNow", context, moment, arguments, 0)
}

fn shift(function: &str, context: &mut WdlContext, arguments: &[Value], unit: i64) -> WdlResult {
    let moment = moment_at(function, arguments, 0)?;
    let span = int_at(function, arguments, 1)?.checked_mul(unit);
    let moved = span.and_then(|span| moment.add_ticks(span)).ok_or_else(|| out_of_range(function))?;
    format_result(function, context, moved, arguments, 2)
}

fn add_seconds(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    shift("addSeconds", context, arguments, TICKS_PER_SECOND)
}

fn add_minutes(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    shift("addMinutes", context, arguments, 60 * TICKS_PER_SECOND)
}

fn add_hours(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    shift("addHours", context, arguments, 3_600 * TICKS_PER_SECOND)
}

fn add_days(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    shift("addDays", context, arguments, TICKS_PER_DAY)
}

/// Shifts by a number of units, given at `index` and the argument after it.
fn shift_by_units(
    function: &str,
    moment: WdlMoment,
    arguments: &[Value],
    index: usize,
    sign: i64,
) -> Result<WdlMoment, EvalError> {
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
            return Err(wrong_argument(function, arguments, index + 1, "a unit of time")
                .with_hint("units are Second, Minute, Hour, Day, Week, Month and Year"));
        }
    };
    moved.ok_or_else(|| out_of_range(function))
}

fn add_to_time(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = shift_by_units("addToTime", moment_at("addToTime", arguments, 0)?, arguments, 1, 1)?;
    format_result("addToTime", context, moment, arguments, 3)
}

fn subtract_from_time(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = shift_by_units("subtractFromTime", moment_at("subtractFromTime", arguments, 0)?, arguments, 1, -1)?;
    format_result("subtractFromTime", context, moment, arguments, 3)
}

fn get_future_time(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = shift_by_units("getFutureTime", now(context)?, arguments, 0, 1)?;
    format_result("getFutureTime", context, moment, arguments, 2)
}

fn get_past_time(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = shift_by_units("getPastTime", now(context)?, arguments, 0, -1)?;
    format_result("getPastTime", context, moment, arguments, 2)
}

fn format_date_time(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let locale = locale_at("formatDateTime", arguments, 2)?;
    let moment = moment_at("formatDateTime", arguments, 0)?;
    format_result_in(locale, "formatDateTime", context, moment, arguments, 1)
}

/// Parses a date. Missing parts of the date are taken from the time of the tick.
fn parse_date_time(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let function = "parseDateTime";
    let (text, locale) = (text_at(function, arguments, 0)?, locale_at(function, arguments, 1)?);
    context.charge_bytes(text.len())?;
    let today = Some(now(context)?.civil());
    let moment = match arguments.get(2) {
        None | Some(Value::Null) => date_parse::parse_general(text, locale, today).ok_or_else(|| {
            wrong_argument(function, arguments, 0, &format!("a date as `{}` writes it", locale.name))
                .with_hint(format!("such as in the format '{}', or name the format as the third argument", locale.date))
        })?,
        Some(_) => {
            let pattern = text_at(function, arguments, 2)?;
            if let Some(bad) = LiteralArgument::TimeFormat.problem(pattern) {
                return Err(call_error(function, bad));
            }
            date_parse::parse_exact(text, pattern, locale, today).ok_or_else(|| {
                wrong_argument(function, arguments, 0, &format!("a date in the format '{}'", truncate(pattern)))
            })?
        }
    };
    format_result(function, context, moment, arguments, usize::MAX)
}

/// Returns the start of the time span that contains the moment.
fn start_of_span(
    function: &str,
    context: &mut WdlContext,
    arguments: &[Value],
    cut: fn(&mut CivilDateTime),
) -> WdlResult {
    let moment = moment_at(function, arguments, 0)?;
    let mut civil = CivilDateTime { minute: 0, second: 0, fraction: 0, ..moment.civil() };
    cut(&mut civil);
    let moment = civil.ticks().and_then(|ticks| moment.with_ticks(ticks)).ok_or_else(|| out_of_range(function))?;
    format_result(function, context, moment, arguments, 1)
}

fn start_of_hour(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    start_of_span("startOfHour", context, arguments, |_| {})
}

fn start_of_day(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    start_of_span("startOfDay", context, arguments, |civil| civil.hour = 0)
}

fn start_of_month(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    start_of_span("startOfMonth", context, arguments, |civil| (civil.hour, civil.day) = (0, 1))
}

fn day_of_month(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Int(moment_at("dayOfMonth", arguments, 0)?.civil().day))
}

fn day_of_week(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Int(moment_at("dayOfWeek", arguments, 0)?.day_of_week()))
}

fn day_of_year(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Int(moment_at("dayOfYear", arguments, 0)?.day_of_year()))
}

fn ticks(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Int(moment_at("ticks", arguments, 0)?.ticks))
}

/// Formats the difference from the first to the second as `[-][d.]hh:mm:ss[.fffffff]`.
fn date_difference(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
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
