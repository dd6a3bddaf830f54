//! The functions, one file per family. Each file begins with its table: name, fewest and most arguments, function.

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
use super::node::Node;
use super::values::{Context, Outcome, describe, short, type_error, whole, whole_big};
use super::{date_format, number_format, zones};

pub(crate) use encoding::{base64_text, binary_text};
pub(crate) use workflow::is_node_result;

/// As many arguments as wanted.
pub(crate) const ANY: usize = usize::MAX;

pub(crate) type Eager = fn(&mut Context, &[Value]) -> Outcome;
/// A function for one call, with what was worked out of its constant arguments.
pub(crate) type Prepared = Box<dyn Fn(&mut Context, &[Value]) -> Outcome + Send + Sync>;
/// Looks at the arguments when a call is compiled: None leaves everything to evaluation.
pub(crate) type Prepare = fn(&[Node]) -> Result<Option<Prepared>, BadArgument>;
pub(crate) type Lazy = fn(&mut Context, &[Node]) -> Outcome;

/// A constant argument that can never be right.
pub(crate) struct BadArgument {
    pub index: usize,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Arguments are evaluated first, from left to right.
    Eager(Eager),
    /// The function evaluates what it needs.
    Lazy(Lazy),
}

/// Which stored arguments are loaded before the call; the others are handed on as they are.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Content {
    All,
    First,
    None,
}

pub(crate) struct Function {
    pub name: &'static str,
    pub least: usize,
    pub max_arguments: usize,
    pub run: Run,
    pub content: Content,
    /// The same arguments always give the same result, so that calls with constants are done when compiling.
    pub pure: bool,
    /// Hands on a value that was there before; such results need no check of size and depth.
    pub reads: bool,
    pub prepare: Option<Prepare>,
    /// Arguments that are looked at when compiling, if they are literal.
    pub literals: &'static [(usize, Literal)],
    /// Only a loop's own condition may call it.
    pub of_loop: bool,
}

/// What a literal argument has to be.
#[derive(Clone, Copy)]
pub(crate) enum Literal {
    Zone,
    Locale,
    TimeFormat,
    NumberFormat,
}

impl Literal {
    /// What is wrong with the text, and what to do.
    pub(crate) fn problem(self, text: &str) -> Option<(String, String)> {
        match self {
            Literal::Zone => zones::find(text).is_none().then(|| zones::unknown(text)),
            Literal::Locale => locale::find(text).is_none().then(|| locale::unknown(text)),
            Literal::TimeFormat => (!date_format::is_format(text)).then(|| {
                let hint = "formats are such as 'yyyy-MM-dd', 'HH:mm', 'o', 's', 'r'";
                (format!("'{}' is not a format for times", short(text)), hint.to_owned())
            }),
            Literal::NumberFormat => (!number_format::is_format(text)).then(|| {
                let hint = "formats are such as 'N2', 'F1', 'C', 'P0', 'D5', 'X', 'E2', '0.00', '#,##0.0'";
                (format!("'{}' is not a format for numbers", short(text)), hint.to_owned())
            }),
        }
    }
}

const PLAIN: Function = Function {
    name: "",
    least: 0,
    max_arguments: 0,
    run: Run::Eager(|_, _| Ok(Value::Null)),
    content: Content::All,
    pure: false,
    reads: false,
    prepare: None,
    literals: &[],
    of_loop: false,
};

pub(crate) const fn pure(name: &'static str, least: usize, max_arguments: usize, run: Eager) -> Function {
    Function { name, least, max_arguments: most: max_arguments, run: Run::Eager(run), pure: true, ..PLAIN }
}

/// A function that reads the run, the clock or the random numbers.
pub(crate) const fn state(name: &'static str, least: usize, max_arguments: usize, run: Eager) -> Function {
    Function { name, least, max_arguments: most: max_arguments, run: Run::Eager(run), ..PLAIN }
}

pub(crate) const fn lazy(name: &'static str, least: usize, max_arguments: usize, run: Lazy) -> Function {
    Function { name, least, max_arguments: most: max_arguments, run: Run::Lazy(run), content: Content::None, ..PLAIN }
}

impl Function {
    const fn loading(mut self, content: Content) -> Function {
        self.content = content;
        self
    }

    const fn preparing(mut self, prepare: Prepare) -> Function {
        self.prepare = Some(prepare);
        self
    }

    const fn reading(mut self) -> Function {
        self.reads = true;
        self
    }

    const fn checking(mut self, literals: &'static [(usize, Literal)]) -> Function {
        self.literals = literals;
        self
    }

    const fn of_loop(mut self) -> Function {
        self.of_loop = true;
        self
    }
}

const FAMILIES: &[&[Function]] = &[
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

/// Functions of the language that are known by name only, and what to do instead.
const UNSUPPORTED: &[(&str, &str)] = &[("secret", "declare a parameter")];

pub(crate) fn all() -> impl Iterator<Item = &'static Function> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name.eq_ignore_ascii_case(name))
}

/// What to do instead of a function that exists elsewhere only.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    UNSUPPORTED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, instead)| *instead)
}

/// The complaint that an argument is of the wrong kind.
pub(crate) fn wrong(function: &str, arguments: &[Value], index: usize, wanted: &str) -> EvalError {
    let which = ["first", "second", "third", "fourth", "fifth"].get(index).copied().unwrap_or("next");
    let got = arguments.get(index).map_or_else(|| "nothing".to_owned(), describe);
    let error = type_error(format!("`{function}` needs {wanted} as its {which} argument, got {got}"));
    match arguments.get(index) {
        Some(Value::Null) => error.hint("use coalesce(value, default) if it may be null"),
        // Whoever calls one of these need not be told to call it.
        Some(Value::Str(_)) if function == "int" => {
            error.hint("ask isInt(…) first if the text may hold something else")
        }
        Some(Value::Str(_)) if ["float", "decimal"].contains(&function) => {
            error.hint("ask isFloat(…) first if the text may hold something else")
        }
        Some(Value::Str(_)) if function == "bool" => error.hint("compare other words, such as equals(value, 'yes')"),
        Some(Value::Str(_)) if wanted.contains("number") || wanted.contains("integer") => {
            error.hint("use int(…) or float(…) to read a number from a text")
        }
        _ => error,
    }
}

pub(crate) fn text_at<'a>(function: &str, arguments: &'a [Value], index: usize) -> Result<&'a str, EvalError> {
    arguments.get(index).and_then(Value::as_str).ok_or_else(|| wrong(function, arguments, index, "a string"))
}

/// An integer; a float that is whole counts.
pub(crate) fn int_at(function: &str, arguments: &[Value], index: usize) -> Result<i64, EvalError> {
    let number = match arguments.get(index) {
        Some(Value::Int(number)) => Some(*number),
        Some(Value::Float(number)) => whole(*number),
        Some(Value::Big(text)) => whole_big(text),
        _ => None,
    };
    number.ok_or_else(|| wrong(function, arguments, index, "an integer"))
}

pub(crate) fn list_at<'a>(function: &str, arguments: &'a [Value], index: usize) -> Result<&'a [Value], EvalError> {
    arguments.get(index).and_then(Value::as_list).ok_or_else(|| wrong(function, arguments, index, "an array"))
}

/// The locale that is named, or the usual one.
pub(crate) fn locale_at(function: &str, arguments: &[Value], index: usize) -> Result<&'static Locale, EvalError> {
    match arguments.get(index) {
        None | Some(Value::Null) => Ok(locale::usual()),
        Some(_) => {
            let name = text_at(function, arguments, index)?;
            locale::find(name).ok_or_else(|| problem(function, locale::unknown(name)))
        }
    }
}

/// A message and its hint as the error of a call.
pub(crate) fn problem(function: &str, (message, hint): (String, String)) -> EvalError {
    type_error(format!("`{function}`: {message}")).hint(hint)
}
