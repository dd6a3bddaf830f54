//! Times between zones. A time that the clocks of a zone skip is refused, and one that they show twice is taken as standard
//! time, as .NET does.

use jiff::tz::TimeZone;
use windlass_value::{EvalError, Value};

use super::date::{moment_at, out_of_range, shown};
use super::{Function, Literal, problem, pure, text_at};
use crate::wdl::calendar::Moment;
use crate::wdl::values::{Context, Outcome, preview, type_error};
use crate::wdl::zones::{self, Utc};

pub(crate) const FUNCTIONS: &[Function] = &[
    pure("convertFromUtc", 2, 3, convert_from_utc).checking(&[(1, Literal::Zone), (2, Literal::TimeFormat)]),
    pure("convertToUtc", 2, 3, convert_to_utc).checking(&[(1, Literal::Zone), (2, Literal::TimeFormat)]),
    pure("convertTimeZone", 3, 4, convert_time_zone).checking(&[
        (1, Literal::Zone),
        (2, Literal::Zone),
        (3, Literal::TimeFormat),
    ]),
];

fn zone_at(function: &str, arguments: &[Value], index: usize) -> Result<TimeZone, EvalError> {
    let name = text_at(function, arguments, index)?;
    zones::find(name).ok_or_else(|| problem(function, zones::unknown(name)))
}

/// The moment that the first argument names, a time in the zone that the second names.
fn utc_of(function: &str, arguments: &[Value]) -> Result<Moment, EvalError> {
    let (moment, zone) = (moment_at(function, arguments, 0)?, zone_at(function, arguments, 1)?);
    let (time, name) = (preview(&arguments[0]), preview(&arguments[1]));
    match zones::to_utc(Moment { utc: false, ..moment }, &zone) {
        // A time that states its own zone is none of another.
        _ if moment.utc && !zones::is_utc(&zone) => {
            Err(type_error(format!("`{function}`: {time} states its own zone, so it is no time in {name}"))
                .hint("leave out the `Z` or the offset, or use convertFromUtc(…)"))
        }
        Utc::At(utc) => Ok(utc),
        Utc::Never => Err(type_error(format!("`{function}`: {time} does not exist in {name}: the clocks skip it"))
            .hint("they are put forward there; take a time before or after")),
        Utc::OutOfRange => Err(out_of_range(function)),
    }
}

fn local(function: &str, moment: Moment, zone: &TimeZone) -> Result<Moment, EvalError> {
    zones::from_utc(moment, zone).ok_or_else(|| out_of_range(function))
}

fn convert_from_utc(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = moment_at("convertFromUtc", arguments, 0)?;
    let moment = local("convertFromUtc", moment, &zone_at("convertFromUtc", arguments, 1)?)?;
    shown("convertFromUtc", context, moment, arguments, 2)
}

fn convert_to_utc(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = utc_of("convertToUtc", arguments)?;
    shown("convertToUtc", context, moment, arguments, 2)
}

fn convert_time_zone(context: &mut Context, arguments: &[Value]) -> Outcome {
    let moment = utc_of("convertTimeZone", arguments)?;
    let moment = local("convertTimeZone", moment, &zone_at("convertTimeZone", arguments, 2)?)?;
    shown("convertTimeZone", context, moment, arguments, 3)
}
