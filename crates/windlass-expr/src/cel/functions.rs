//! Functions of the CEL standard library.

use std::sync::Arc;

use regex::Regex;
use windlass_value::EvalError;

use super::eval::CelEvaluator;
use super::lower::compile_pattern;
use super::node::CelFunction;
use super::time::{CelDuration, CelTimestamp, time_component};
use super::types::{string_function_hint, strings_only_message};
use super::value::{CelNumber, CelResult, CelType, CelValue, describe, truncate, type_error};
use crate::wdl::functions::encoding::to_base64;

/// Compiling a pattern is expensive: a computed pattern is compiled once per distinct text.
const PATTERN_COST: u64 = 100;
const MAX_PATTERN_LENGTH: usize = 1_000;

impl CelEvaluator<'_> {
    pub(crate) fn call(&mut self, function: CelFunction, arguments: &[CelValue]) -> CelResult {
        let Some(first) = arguments.first() else { return Err(type_error("an argument is missing")) };
        if function == CelFunction::Size {
            return self.size(first);
        }
        let first = self.content(first.clone())?;
        match function {
            CelFunction::Contains | CelFunction::StartsWith | CelFunction::EndsWith | CelFunction::Matches => {
                let second = match arguments.get(1) {
                    Some(second) => self.content(second.clone())?,
                    None => CelValue::Null,
                };
                self.text(function, &first, &second)
            }
            CelFunction::Type => match first.kind() {
                Some(kind) => Ok(CelValue::Type(kind)),
                None => Err(type_error("the type is not known")),
            },
            CelFunction::Getter(name) => {
                let zone = match arguments.get(1) {
                    Some(zone) => Some(self.content(zone.clone())?),
                    None => None,
                };
                time_component(name, &first, zone.as_ref())
            }
            CelFunction::Dyn | CelFunction::Size => Ok(first),
            CelFunction::Int => int(first),
            CelFunction::Uint => uint(first),
            CelFunction::Double => double(first),
            CelFunction::Bool => boolean(first),
            CelFunction::Str => self.string(first),
            CelFunction::Bytes => match first {
                CelValue::Str(text) => {
                    self.charge_created(text.len())?;
                    Ok(CelValue::Bytes(text.as_bytes().into()))
                }
                CelValue::Bytes(_) => Ok(first),
                other => Err(conversion_error("bytes", &other)),
            },
            CelFunction::Timestamp => match first {
                CelValue::Time(_) => Ok(first),
                CelValue::Str(text) => CelTimestamp::parse(&text).map(CelValue::Time),
                CelValue::Int(seconds) => CelTimestamp::from_seconds(seconds).map(CelValue::Time),
                other => Err(conversion_error("timestamp", &other)),
            },
            CelFunction::Duration => match first {
                CelValue::Span(_) => Ok(first),
                CelValue::Str(text) => CelDuration::parse(&text).map(CelValue::Span),
                other => Err(conversion_error("duration", &other)),
            },
        }
    }

    fn text(&mut self, function: CelFunction, text: &CelValue, other: &CelValue) -> CelResult {
        let name = match function {
            CelFunction::Contains => "contains",
            CelFunction::StartsWith => "startsWith",
            CelFunction::EndsWith => "endsWith",
            _ => "matches",
        };
        let (CelValue::Str(hay), CelValue::Str(needle)) = (text, other) else {
            let wrong = if matches!(text, CelValue::Str(_)) { other } else { text };
            let kind = wrong.kind().unwrap_or(CelType::Null);
            let error = type_error(format!("{}: it got {}", strings_only_message(name, kind), describe(wrong)));
            return Err(match string_function_hint(function, kind) {
                Some(hint) => error.with_hint(hint),
                None => error,
            });
        };
        match function {
            CelFunction::Contains => {
                self.charge_read(hay.len())?;
                Ok(CelValue::Bool(hay.contains(&**needle)))
            }
            CelFunction::StartsWith => {
                self.charge_read(needle.len())?;
                Ok(CelValue::Bool(hay.starts_with(&**needle)))
            }
            CelFunction::EndsWith => {
                self.charge_read(needle.len())?;
                Ok(CelValue::Bool(hay.ends_with(&**needle)))
            }
            _ => {
                let regex = self.pattern(needle)?;
                self.matches(text, &regex, needle.len())
            }
        }
    }

    fn pattern(&mut self, text: &Arc<str>) -> Result<Regex, EvalError> {
        if let Some(regex) = self.patterns.get(text) {
            return Ok(regex.clone());
        }
        self.spend(PATTERN_COST)?;
        if text.len() > MAX_PATTERN_LENGTH {
            return Err(type_error(format!("a pattern that is computed has at most {MAX_PATTERN_LENGTH} bytes")));
        }
        let regex = compile_pattern(text)
            .map_err(|why| type_error(why).with_hint(format!("the pattern is {}", truncate(text))))?;
        self.patterns.insert(text.clone(), regex.clone());
        Ok(regex)
    }

    /// Returns whether a pattern matches anywhere in a string. The time grows with the length of both.
    pub(crate) fn matches(&mut self, text: &CelValue, regex: &Regex, length: usize) -> CelResult {
        let CelValue::Str(text) = text else {
            let kind = text.kind().unwrap_or(CelType::Null);
            let error = type_error(format!("{}: it got {}", strings_only_message("matches", kind), describe(text)));
            return Err(match string_function_hint(CelFunction::Matches, kind) {
                Some(hint) => error.with_hint(hint),
                None => error,
            });
        };
        self.charge_read(text.len().saturating_mul(1 + length / 20))?;
        Ok(CelValue::Bool(regex.is_match(text)))
    }

    fn string(&mut self, value: CelValue) -> CelResult {
        let text = match &value {
            CelValue::Str(_) => return Ok(value),
            CelValue::Int(number) => number.to_string(),
            CelValue::Uint(number) => number.to_string(),
            CelValue::Double(number) => format_double(*number),
            CelValue::Big(text) => text.to_string(),
            CelValue::Bool(flag) => flag.to_string(),
            CelValue::Time(moment) => moment.to_string(),
            CelValue::Span(span) => span.to_string(),
            CelValue::Bytes(bytes) => {
                self.charge_created(bytes.len())?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => text.to_owned(),
                    Err(_) => return Err(type_error("the bytes are not valid UTF-8")),
                }
            }
            other => return Err(conversion_error("string", other)),
        };
        Ok(CelValue::Str(text.into()))
    }

    pub(crate) fn base64(&mut self, bytes: &[u8]) -> Result<String, EvalError> {
        self.charge_created(bytes.len().div_ceil(3).saturating_mul(4))?;
        Ok(to_base64(bytes))
    }
}

fn conversion_error(name: &str, value: &CelValue) -> EvalError {
    let error = type_error(format!("{name}(…) cannot convert {}", describe(value)));
    match value.kind() {
        Some(CelType::List | CelType::Map) if name == "string" => error.with_hint("select a part of it: x.field, x[0]"),
        _ => error,
    }
}

fn parse_error(name: &str, text: &str) -> EvalError {
    type_error(format!(
        "{:?} is not {}",
        truncate(text),
        if name == "int" { "an int".to_owned() } else { format!("a {name}") }
    ))
}

fn out_of_range(name: &str, number: impl std::fmt::Display) -> EvalError {
    type_error(format!("{number} is out of the range of {name}"))
}

fn int(value: CelValue) -> CelResult {
    Ok(CelValue::Int(match (&value, value.number()) {
        (_, Some(CelNumber::Int(number))) => number,
        (_, Some(CelNumber::Uint(number))) => i64::try_from(number).map_err(|_| out_of_range("int", number))?,
        // The bounds of the int range are not exact doubles: any double strictly between them fits.
        (_, Some(CelNumber::Double(number))) => {
            match number > -9_223_372_036_854_775_808.0 && number < 9_223_372_036_854_775_808.0 {
                true => number as i64,
                false => return Err(out_of_range("int", number)),
            }
        }
        (CelValue::Str(text), _) => text.parse().map_err(|_| parse_error("int", text))?,
        (CelValue::Time(moment), _) => moment.seconds(),
        _ => return Err(conversion_error("int", &value)),
    }))
}

fn uint(value: CelValue) -> CelResult {
    Ok(CelValue::Uint(match (&value, value.number()) {
        (_, Some(CelNumber::Uint(number))) => number,
        (_, Some(CelNumber::Int(number))) => u64::try_from(number).map_err(|_| out_of_range("uint", number))?,
        (_, Some(CelNumber::Double(number))) => match (0.0..18_446_744_073_709_551_616.0).contains(&number) {
            true => number as u64,
            false => return Err(out_of_range("uint", number)),
        },
        (CelValue::Str(text), _) => text.parse().map_err(|_| parse_error("uint", text))?,
        _ => return Err(conversion_error("uint", &value)),
    }))
}

fn double(value: CelValue) -> CelResult {
    Ok(CelValue::Double(match (&value, value.number()) {
        (_, Some(number)) => number.as_f64(),
        (CelValue::Str(text), _) => text.parse().map_err(|_| parse_error("double", text))?,
        _ => return Err(conversion_error("double", &value)),
    }))
}

fn boolean(value: CelValue) -> CelResult {
    match &value {
        CelValue::Bool(_) => Ok(value),
        CelValue::Str(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(CelValue::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(CelValue::Bool(false)),
            text => Err(parse_error("bool", text)),
        },
        other => Err(conversion_error("bool", other)),
    }
}

/// Formats a double as the shortest text that parses back to it. Uses an exponent from one million on and below one
/// ten-thousandth: `1e+06`, `1.5`, `2`.
fn format_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, power)) = scientific.split_once('e') else { return scientific };
    let power: i32 = power.parse().unwrap_or(0);
    if (-4..6).contains(&power) {
        return number.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}
