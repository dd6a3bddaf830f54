//! Functions of the standard library.

use std::sync::Arc;

use regex::Regex;
use windlass_value::EvalError;

use super::eval::Eval;
use super::kinds::{for_texts, instead_of_text};
use super::lower::pattern;
use super::node::Function;
use super::time::{Moment, Span, getter};
use super::value::{Kind, Number, Outcome, Val, short, tell, type_error};
use crate::wdl::functions::encoding::to_base64;

/// Building a pattern is dear: one that is computed is built once for each text.
const PATTERN_COST: u64 = 100;
const MAX_PATTERN_LENGTH: usize = 1_000;

impl Eval<'_> {
    pub(crate) fn call(&mut self, function: Function, arguments: &[Val]) -> Outcome {
        let Some(first) = arguments.first() else { return Err(type_error("an argument is missing")) };
        if function == Function::Size {
            return self.size(first);
        }
        let first = self.content(first.clone())?;
        match function {
            Function::Contains | Function::StartsWith | Function::EndsWith | Function::Matches => {
                let second = match arguments.get(1) {
                    Some(second) => self.content(second.clone())?,
                    None => Val::Null,
                };
                self.text(function, &first, &second)
            }
            Function::Type => match first.kind() {
                Some(kind) => Ok(Val::Type(kind)),
                None => Err(type_error("the type is not known")),
            },
            Function::Getter(name) => {
                let zone = match arguments.get(1) {
                    Some(zone) => Some(self.content(zone.clone())?),
                    None => None,
                };
                getter(name, &first, zone.as_ref())
            }
            Function::Dyn | Function::Size => Ok(first),
            Function::Int => int(first),
            Function::Uint => uint(first),
            Function::Double => double(first),
            Function::Bool => boolean(first),
            Function::Str => self.string(first),
            Function::Bytes => match first {
                Val::Str(text) => {
                    self.makes(text.len())?;
                    Ok(Val::Bytes(text.as_bytes().into()))
                }
                Val::Bytes(_) => Ok(first),
                other => Err(cannot("bytes", &other)),
            },
            Function::Timestamp => match first {
                Val::Time(_) => Ok(first),
                Val::Str(text) => Moment::read(&text).map(Val::Time),
                Val::Int(seconds) => Moment::from_seconds(seconds).map(Val::Time),
                other => Err(cannot("timestamp", &other)),
            },
            Function::Duration => match first {
                Val::Span(_) => Ok(first),
                Val::Str(text) => Span::read(&text).map(Val::Span),
                other => Err(cannot("duration", &other)),
            },
        }
    }

    fn text(&mut self, function: Function, text: &Val, other: &Val) -> Outcome {
        let name = match function {
            Function::Contains => "contains",
            Function::StartsWith => "startsWith",
            Function::EndsWith => "endsWith",
            _ => "matches",
        };
        let (Val::Str(hay), Val::Str(needle)) = (text, other) else {
            let wrong = if matches!(text, Val::Str(_)) { other } else { text };
            let kind = wrong.kind().unwrap_or(Kind::Null);
            let error = type_error(format!("{}: it got {}", for_texts(name, kind), tell(wrong)));
            return Err(match instead_of_text(function, kind) {
                Some(hint) => error.hint(hint),
                None => error,
            });
        };
        match function {
            Function::Contains => {
                self.reads(hay.len())?;
                Ok(Val::Bool(hay.contains(&**needle)))
            }
            Function::StartsWith => {
                self.reads(needle.len())?;
                Ok(Val::Bool(hay.starts_with(&**needle)))
            }
            Function::EndsWith => {
                self.reads(needle.len())?;
                Ok(Val::Bool(hay.ends_with(&**needle)))
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
        let regex = pattern(text).map_err(|why| type_error(why).hint(format!("the pattern is {}", short(text))))?;
        self.patterns.insert(text.clone(), regex.clone());
        Ok(regex)
    }

    /// Whether a pattern is found somewhere in a text. Time grows with both.
    pub(crate) fn matches(&mut self, text: &Val, regex: &Regex, length: usize) -> Outcome {
        let Val::Str(text) = text else {
            let kind = text.kind().unwrap_or(Kind::Null);
            let error = type_error(format!("{}: it got {}", for_texts("matches", kind), tell(text)));
            return Err(match instead_of_text(Function::Matches, kind) {
                Some(hint) => error.hint(hint),
                None => error,
            });
        };
        self.reads(text.len().saturating_mul(1 + length / 20))?;
        Ok(Val::Bool(regex.is_match(text)))
    }

    fn string(&mut self, value: Val) -> Outcome {
        let text = match &value {
            Val::Str(_) => return Ok(value),
            Val::Int(number) => number.to_string(),
            Val::Uint(number) => number.to_string(),
            Val::Double(number) => double_text(*number),
            Val::Big(text) => text.to_string(),
            Val::Bool(flag) => flag.to_string(),
            Val::Time(moment) => moment.to_string(),
            Val::Span(span) => span.to_string(),
            Val::Bytes(bytes) => {
                self.makes(bytes.len())?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => text.to_owned(),
                    Err(_) => return Err(type_error("the bytes are not a text in UTF-8")),
                }
            }
            other => return Err(cannot("string", other)),
        };
        Ok(Val::Str(text.into()))
    }

    pub(crate) fn base64(&mut self, bytes: &[u8]) -> Result<String, EvalError> {
        self.makes(bytes.len().div_ceil(3).saturating_mul(4))?;
        Ok(to_base64(bytes))
    }
}

fn cannot(name: &str, value: &Val) -> EvalError {
    let error = type_error(format!("{name}(…) cannot be made of {}", tell(value)));
    match value.kind() {
        Some(Kind::List | Kind::Map) if name == "string" => error.hint("take what is needed out of it: x.field, x[0]"),
        _ => error,
    }
}

fn unreadable(name: &str, text: &str) -> EvalError {
    type_error(format!(
        "{:?} is not {}",
        short(text),
        if name == "int" { "an int".to_owned() } else { format!("a {name}") }
    ))
}

fn out_of_range(name: &str, number: impl std::fmt::Display) -> EvalError {
    type_error(format!("{number} is out of the range of {name}"))
}

fn int(value: Val) -> Outcome {
    Ok(Val::Int(match (&value, value.number()) {
        (_, Some(Number::Int(number))) => number,
        (_, Some(Number::Uint(number))) => i64::try_from(number).map_err(|_| out_of_range("int", number))?,
        // The ends of the range are no doubles: what is strictly between them fits.
        (_, Some(Number::Double(number))) => {
            match number > -9_223_372_036_854_775_808.0 && number < 9_223_372_036_854_775_808.0 {
                true => number as i64,
                false => return Err(out_of_range("int", number)),
            }
        }
        (Val::Str(text), _) => text.parse().map_err(|_| unreadable("int", text))?,
        (Val::Time(moment), _) => moment.seconds(),
        _ => return Err(cannot("int", &value)),
    }))
}

fn uint(value: Val) -> Outcome {
    Ok(Val::Uint(match (&value, value.number()) {
        (_, Some(Number::Uint(number))) => number,
        (_, Some(Number::Int(number))) => u64::try_from(number).map_err(|_| out_of_range("uint", number))?,
        (_, Some(Number::Double(number))) => match (0.0..18_446_744_073_709_551_616.0).contains(&number) {
            true => number as u64,
            false => return Err(out_of_range("uint", number)),
        },
        (Val::Str(text), _) => text.parse().map_err(|_| unreadable("uint", text))?,
        _ => return Err(cannot("uint", &value)),
    }))
}

fn double(value: Val) -> Outcome {
    Ok(Val::Double(match (&value, value.number()) {
        (_, Some(number)) => number.as_f64(),
        (Val::Str(text), _) => text.parse().map_err(|_| unreadable("double", text))?,
        _ => return Err(cannot("double", &value)),
    }))
}

fn boolean(value: Val) -> Outcome {
    match &value {
        Val::Bool(_) => Ok(value),
        Val::Str(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            text => Err(unreadable("bool", text)),
        },
        other => Err(cannot("bool", other)),
    }
}

/// The shortest text that reads back; with a power of ten from a million on, and below a ten-thousandth:
/// `1e+06`, `1.5`, `2`.
fn double_text(number: f64) -> String {
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
