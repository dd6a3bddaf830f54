//! Time zone conversions. A local time that a zone's clocks skip is rejected, and one that occurs twice is taken as
//! standard time, as in .NET.

use jiff::tz::TimeZone;
use windlass_value::{EvalError, Value};

use super::date::{format_result, moment_at, out_of_range};
use super::{LiteralArgument, WdlFunction, call_error, pure, text_at};
use crate::wdl::calendar::WdlMoment;
use crate::wdl::values::{WdlContext, WdlResult, preview, type_error};
use crate::wdl::zones::{self, UtcConversion};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("convertFromUtc", 2, 3, convert_from_utc)
        .checking(&[(1, LiteralArgument::Zone), (2, LiteralArgument::TimeFormat)]),
    pure("convertToUtc", 2, 3, convert_to_utc)
        .checking(&[(1, LiteralArgument::Zone), (2, LiteralArgument::TimeFormat)]),
    pure("convertTimeZone", 3, 4, convert_time_zone).checking(&[
        (1, LiteralArgument::Zone),
        (2, LiteralArgument::Zone),
        (3, LiteralArgument::TimeFormat),
    ]),
];

fn zone_at(function: &str, arguments: &[Value], index: usize) -> Result<TimeZone, EvalError> {
    let name = text_at(function, arguments, index)?;
    zones::find(name).ok_or_else(|| call_error(function, zones::unknown_zone(name)))
}

/// Converts the first argument, a local time in the zone that the second argument names, to UTC.
fn utc_at(function: &str, arguments: &[Value]) -> Result<WdlMoment, EvalError> {
    let (moment, zone) = (moment_at(function, arguments, 0)?, zone_at(function, arguments, 1)?);
    let (time, name) = (preview(&arguments[0]), preview(&arguments[1]));
    match zones::to_utc(WdlMoment { utc: false, ..moment }, &zone) {
        // A time that states its own zone cannot be a local time of another.
        _ if moment.utc && !zones::is_utc(&zone) => {
            Err(type_error(format!("`{function}`: {time} states its own zone, so it is not a local time in {name}"))
                .with_hint("leave out the `Z` or the offset, or use convertFromUtc(…)"))
        }
        UtcConversion::Converted(utc) => Ok(utc),
        UtcConversion::Skipped => {
            Err(type_error(format!("`{function}`: {time} does not exist in {name}: the clocks skip it"))
                .with_hint("the clocks are set forward there; use a time before or after"))
        }
        UtcConversion::OutOfRange => Err(out_of_range(function)),
    }
}

fn to_local(function: &str, moment: WdlMoment, zone: &TimeZone) -> Result<WdlMoment, EvalError> {
    zones::from_utc(moment, zone).ok_or_else(|| out_of_range(function))
}

fn convert_from_utc(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = moment_at("convertFromUtc", arguments, 0)?;
    let moment = to_local("convertFromUtc", moment, &zone_at("convertFromUtc", arguments, 1)?)?;
    format_result("convertFromUtc", context, moment, arguments, 2)
}

fn convert_to_utc(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = utc_at("convertToUtc", arguments)?;
    format_result("convertToUtc", context, moment, arguments, 2)
}

fn convert_time_zone(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let moment = utc_at("convertTimeZone", arguments)?;
    let moment = to_local("convertTimeZone", moment, &zone_at("convertTimeZone", arguments, 2)?)?;
    format_result("convertTimeZone", context, moment, arguments, 3)
}
