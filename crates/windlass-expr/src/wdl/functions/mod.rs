//! The functions, one file per family. Each file begins with its table: name, minimum and maximum arguments,
//! function.

mod collection;
mod conversion;
mod date;
pub(crate) mod encoding;
mod forms;
mod logical;
mod math;
mod object;
mod text;
mod uri;
mod workflow;
mod xml;
mod zone;

use windlass_value::{EvalError, Value};

use super::locale::{self, Locale};
use super::node::WdlNode;
use super::values::{WdlContext, WdlResult, describe, exact_int, exact_int_from_decimal, truncate, type_error};
use super::{date_format, number_format, zones};

pub(crate) use encoding::{base64_text, binary_text, is_binary};
pub(crate) use workflow::is_node_result;

/// No maximum number of arguments.
pub(crate) const UNLIMITED: usize = usize::MAX;

pub(crate) type EagerFunction = fn(&mut WdlContext, &[Value]) -> WdlResult;
/// A function for one call, with precomputed constant arguments.
pub(crate) type PreparedFunction = Box<dyn Fn(&mut WdlContext, &[Value]) -> WdlResult + Send + Sync>;
/// Inspects the arguments when a call is compiled; None leaves everything to evaluation.
pub(crate) type PrepareFunction = fn(&[WdlNode]) -> Result<Option<PreparedFunction>, BadArgument>;
pub(crate) type LazyFunction = fn(&mut WdlContext, &[WdlNode]) -> WdlResult;

/// A constant argument that can never be valid.
pub(crate) struct BadArgument {
    pub index: usize,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Clone, Copy)]
pub(crate) enum FunctionImpl {
    /// Arguments are evaluated first, from left to right.
    Eager(EagerFunction),
    /// The function evaluates what it needs.
    Lazy(LazyFunction),
}

/// Which stored arguments are loaded before the call; the others are passed on unloaded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum LoadedArguments {
    All,
    First,
    None,
}

pub(crate) struct WdlFunction {
    pub name: &'static str,
    pub min_arguments: usize,
    pub max_arguments: usize,
    pub run: FunctionImpl,
    pub content: LoadedArguments,
    /// The same arguments always return the same result, so calls with constants are evaluated at compile time.
    pub pure: bool,
    /// Returns a value that already existed; such results need no check of size and depth.
    pub returns_existing: bool,
    pub prepare: Option<PrepareFunction>,
    /// Arguments that are checked at compile time if they are literal.
    pub literals: &'static [(usize, LiteralArgument)],
    /// Only a loop's own condition may call it.
    pub loop_condition_only: bool,
}

/// The required content of a literal argument.
#[derive(Clone, Copy)]
pub(crate) enum LiteralArgument {
    Zone,
    Locale,
    TimeFormat,
    NumberFormat,
}

impl LiteralArgument {
    /// Returns the message and the hint if the text is invalid.
    pub(crate) fn problem(self, text: &str) -> Option<(String, String)> {
        match self {
            LiteralArgument::Zone => zones::find(text).is_none().then(|| zones::unknown_zone(text)),
            LiteralArgument::Locale => locale::find(text).is_none().then(|| locale::unknown_locale(text)),
            LiteralArgument::TimeFormat => (!date_format::is_format(text)).then(|| {
                let hint = "formats are such as 'yyyy-MM-dd', 'HH:mm', 'o', 's', 'r'";
                (format!("'{}' is not a format for times", truncate(text)), hint.to_owned())
            }),
            LiteralArgument::NumberFormat => (!number_format::is_format(text)).then(|| {
                let hint = "formats are such as 'N2', 'F1', 'C', 'P0', 'D5', 'X', 'E2', '0.00', '#,##0.0'";
                (format!("'{}' is not a format for numbers", truncate(text)), hint.to_owned())
            }),
        }
    }
}

const DEFAULT_FUNCTION: WdlFunction = WdlFunction {
    name: "",
    min_arguments: 0,
    max_arguments: 0,
    run: FunctionImpl::Eager(|_, _| Ok(Value::Null)),
    content: LoadedArguments::All,
    pure: false,
    returns_existing: false,
    prepare: None,
    literals: &[],
    loop_condition_only: false,
};

pub(crate) const fn pure(
    name: &'static str,
    min_arguments: usize,
    max_arguments: usize,
    run: EagerFunction,
) -> WdlFunction {
    WdlFunction { name, min_arguments, max_arguments, run: FunctionImpl::Eager(run), pure: true, ..DEFAULT_FUNCTION }
}

/// A function that reads the run, the clock or the random numbers.
pub(crate) const fn state(
    name: &'static str,
    min_arguments: usize,
    max_arguments: usize,
    run: EagerFunction,
) -> WdlFunction {
    WdlFunction { name, min_arguments, max_arguments, run: FunctionImpl::Eager(run), ..DEFAULT_FUNCTION }
}

pub(crate) const fn lazy(
    name: &'static str,
    min_arguments: usize,
    max_arguments: usize,
    run: LazyFunction,
) -> WdlFunction {
    WdlFunction {
        name,
        min_arguments,
        max_arguments,
        run: FunctionImpl::Lazy(run),
        content: LoadedArguments::None,
        ..DEFAULT_FUNCTION
    }
}

impl WdlFunction {
    const fn loading(mut self, content: LoadedArguments) -> WdlFunction {
        self.content = content;
        self
    }

    const fn preparing(mut self, prepare: PrepareFunction) -> WdlFunction {
        self.prepare = Some(prepare);
        self
    }

    const fn returning_existing(mut self) -> WdlFunction {
        self.returns_existing = true;
        self
    }

    const fn checking(mut self, literals: &'static [(usize, LiteralArgument)]) -> WdlFunction {
        self.literals = literals;
        self
    }

    const fn in_loop_condition_only(mut self) -> WdlFunction {
        self.loop_condition_only = true;
        self
    }
}

const FAMILIES: &[&[WdlFunction]] = &[
    logical::FUNCTIONS,
    math::FUNCTIONS,
    text::FUNCTIONS,
    collection::FUNCTIONS,
    conversion::FUNCTIONS,
    encoding::FUNCTIONS,
    object::FUNCTIONS,
    uri::FUNCTIONS,
    date::FUNCTIONS,
    zone::FUNCTIONS,
    forms::FUNCTIONS,
    workflow::FUNCTIONS,
    xml::FUNCTIONS,
];

/// Functions of WDL that are known by name only, with the alternative to use.
const UNSUPPORTED: &[(&str, &str)] = &[("secret", "declare a parameter")];

pub(crate) fn all() -> impl Iterator<Item = &'static WdlFunction> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

pub(crate) fn find(name: &str) -> Option<&'static WdlFunction> {
    all().find(|function| function.name.eq_ignore_ascii_case(name))
}

/// Returns the alternative to a function that exists only elsewhere.
pub(crate) fn replacement_hint(name: &str) -> Option<&'static str> {
    UNSUPPORTED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, instead)| *instead)
}

/// Returns the error for an argument of the wrong type.
pub(crate) fn wrong_argument(function: &str, arguments: &[Value], index: usize, expected: &str) -> EvalError {
    let which = ["first", "second", "third", "fourth", "fifth"].get(index).copied().unwrap_or("next");
    let got = arguments.get(index).map_or_else(|| "nothing".to_owned(), describe);
    let error = type_error(format!("`{function}` needs {expected} as its {which} argument, got {got}"));
    match arguments.get(index) {
        Some(Value::Null) => error.with_hint("use coalesce(value, default) if it may be null"),
        // The hint must not suggest the function that is being called.
        Some(Value::Str(_)) if function == "int" => {
            error.with_hint("check isInt(…) first if the text may hold something else")
        }
        Some(Value::Str(_)) if ["float", "decimal"].contains(&function) => {
            error.with_hint("check isFloat(…) first if the text may hold something else")
        }
        Some(Value::Str(_)) if function == "bool" => {
            error.with_hint("compare other words, such as equals(value, 'yes')")
        }
        Some(Value::Str(_)) if expected.contains("number") || expected.contains("integer") => {
            error.with_hint("use int(…) or float(…) to read a number from a text")
        }
        _ => error,
    }
}

pub(crate) fn text_at<'a>(function: &str, arguments: &'a [Value], index: usize) -> Result<&'a str, EvalError> {
    arguments.get(index).and_then(Value::as_str).ok_or_else(|| wrong_argument(function, arguments, index, "a string"))
}

/// Returns an integer argument; a float with an integral value counts.
pub(crate) fn int_at(function: &str, arguments: &[Value], index: usize) -> Result<i64, EvalError> {
    let number = match arguments.get(index) {
        Some(Value::Int(number)) => Some(*number),
        Some(Value::Float(number)) => exact_int(*number),
        Some(Value::Big(text)) => exact_int_from_decimal(text),
        _ => None,
    };
    number.ok_or_else(|| wrong_argument(function, arguments, index, "an integer"))
}

pub(crate) fn list_at<'a>(function: &str, arguments: &'a [Value], index: usize) -> Result<&'a [Value], EvalError> {
    arguments.get(index).and_then(Value::as_list).ok_or_else(|| wrong_argument(function, arguments, index, "an array"))
}

/// Returns the named locale, or the default.
pub(crate) fn locale_at(function: &str, arguments: &[Value], index: usize) -> Result<&'static Locale, EvalError> {
    match arguments.get(index) {
        None | Some(Value::Null) => Ok(locale::default_locale()),
        Some(_) => {
            let name = text_at(function, arguments, index)?;
            locale::find(name).ok_or_else(|| call_error(function, locale::unknown_locale(name)))
        }
    }
}

/// Converts a message and its hint to the error of a call.
pub(crate) fn call_error(function: &str, (message, hint): (String, String)) -> EvalError {
    type_error(format!("`{function}`: {message}")).with_hint(hint)
}
