//! CEL, the Common Expression Language, as conditions and lists of agent workflows are written in it:
//! `steps.review.content.contains('LGTM') && iteration >= 2`. Types, operators, functions and macros are those of the
//! standard library. These rules are its own:
//!
//! - `steps.<id>` is `{content, result, status}` of a step that has ended. Ids with hyphens are written as they are: the
//!   longest id that is known is meant, so `steps.a-b` is the step `a-b` where there is one, else a subtraction. Inside a
//!   loop a step that has not ended in this turn yet is that of the turn before.
//! - Names are checked when an expression is compiled: steps, variables, functions, and kinds of values that can never
//!   work together.
//! - Numbers of JSON behave: a whole one is an int, and an int that meets a double is promoted, so `n + 1`, `n * 2` and
//!   `n / 2.0` work whatever a model wrote. Whole doubles may be taken modulo. An int and a uint do not mix.
//! - What is missing is [`EvalErrorKind::Missing`] and says "no such key", in a loop's condition too. A condition must give
//!   true or false, nothing is taken for it.
//! - An evaluation costs at most what the meter's caps say: one for an operation, a field and an item that a macro looks at, one for ten
//!   items or ten bytes of what is made, one for a thousand bytes of text that are read. That is less than elsewhere for
//!   reading, so that the answer of a model may be long. Fuel is spent beside it.
//!
//! `lexer`, `parser`, `syntax` text to syntax · `lower`, `kinds`, `tables` names and kinds · `node`, `eval`, `operators`,
//! `functions`, `time`, `value` evaluation · `source` where an expression stands.

mod eval;
mod functions;
mod kinds;
mod lexer;
mod lower;
mod node;
mod operators;
mod parser;
mod scope;
mod source;
mod syntax;
mod tables;
mod time;
mod value;

use std::ops::Range;
use std::sync::Arc;

use windlass_value::{CompileError, EvalError, EvalErrorKind, Expression, Language, Meter, Mode, Scope, Value};

pub use source::source;

use eval::Eval;
use lower::Lower;
use node::Node;
use source::Place;
use syntax::{Kind, Literal, Syntax};

/// The language.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cel;

impl Language for Cel {
    fn name(&self) -> &'static str {
        "cel"
    }

    fn compile(&self, given: &Value, mode: Mode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let (text, place) = source::read(given).map_err(|error| vec![error])?;
        let syntax = parser::parse(&text, &place.steps).map_err(|problem| vec![source::outside(problem, given)])?;
        let mut lower = Lower::new(&text, &place);
        let root = match mode {
            Mode::Value => lower.node(&syntax).0,
            Mode::Condition | Mode::LoopCondition | Mode::Guard => lower.condition(&syntax),
        };
        match lower.problems.is_empty() {
            true => Ok(Box::new(Compiled { text, place, root, mode })),
            false => Err(lower.problems.into_iter().map(|problem| source::outside(problem, given)).collect()),
        }
    }
}

struct Compiled {
    text: Arc<str>,
    place: Place,
    root: Node,
    mode: Mode,
}

impl Expression for Compiled {
    fn eval(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut eval = Eval::new(scope, meter, &self.text, &self.place, self.mode);
        eval.result(&self.root).map_err(|error| match error.kind {
            EvalErrorKind::NeedBlobs => error,
            _ => error.within(&value::short(self.text.trim())),
        })
    }
}

/// The steps that an expression names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// In the order in which they stand there, each time they do.
    pub steps: Vec<Name>,
    /// Some name of a step is computed, or all are looked at: any of them may be meant.
    pub any_step: bool,
    /// Parts of bare names, such as `inputs.list`, with the bare name: where they must be there.
    pub parts: Vec<(Arc<str>, Name)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub id: Arc<str>,
    /// The bytes of the id in the text, with its quotes if it has some.
    pub range: Range<usize>,
}

/// The steps that a text refers to, of those that there are; ones that are not there are found too. A text that is no
/// expression refers to none.
pub fn names(text: &str, steps: &[Arc<str>]) -> Names {
    let mut found = Names::default();
    if let Ok(syntax) = parser::parse(text, steps) {
        gather(&syntax, &mut Vec::new(), &mut found);
    }
    found
}

/// The part of a bare name that is no variable of a macro.
fn part(operand: &Syntax, field: &Arc<str>, at: &Range<usize>, locals: &[&str], found: &mut Names) {
    if let Kind::Name(of) = &operand.kind
        && !locals.contains(&&**of)
    {
        found.parts.push((of.clone(), Name { id: field.clone(), range: at.clone() }));
    }
}

fn gather<'s>(syntax: &'s Syntax, locals: &mut Vec<&'s str>, found: &mut Names) {
    match &syntax.kind {
        Kind::Literal(_) | Kind::Negative(_) => {}
        Kind::Name(name) => found.any_step |= &**name == "steps" && !locals.contains(&"steps"),
        Kind::Step { id, at } => found.steps.push(Name { id: id.clone(), range: at.clone() }),
        Kind::Select { operand, field, at } => {
            part(operand, field, at, locals, found);
            gather(operand, locals, found);
        }
        Kind::Unary { operand, .. } => gather(operand, locals, found),
        Kind::Index { operand: one, index: other } | Kind::Binary { left: one, right: other, .. } => {
            if let (Kind::Index { .. }, Kind::Literal(Literal::Str(field))) = (&syntax.kind, &other.kind) {
                part(one, field, &other.range, locals, found);
            }
            gather(one, locals, found);
            gather(other, locals, found);
        }
        // Whoever asks whether it is there knows that it need not be.
        Kind::Call { target: None, name, arguments, .. } if &**name == "has" => {
            for argument in arguments {
                match &argument.kind {
                    Kind::Select { operand, .. } => gather(operand, locals, found),
                    _ => gather(argument, locals, found),
                }
            }
        }
        Kind::Call { target, arguments, .. } => {
            let mut arguments = arguments.as_slice();
            if let Some(target) = target {
                gather(target, locals, found);
            }
            // The variable of a macro is no step, whatever it is called.
            let variable = match (target, arguments) {
                (Some(_), [Syntax { kind: Kind::Name(name), .. }, rest @ ..]) if !rest.is_empty() => {
                    arguments = rest;
                    Some(&**name)
                }
                _ => None,
            };
            locals.extend(variable);
            for argument in arguments {
                gather(argument, locals, found);
            }
            if variable.is_some() {
                locals.pop();
            }
        }
        Kind::Logic { parts, .. } | Kind::List(parts) => {
            for part in parts {
                gather(part, locals, found);
            }
        }
        Kind::Choice { test, yes, no } => {
            for part in [test, yes, no] {
                gather(part, locals, found);
            }
        }
        Kind::Map(entries) => {
            for (key, value) in entries {
                gather(key, locals, found);
                gather(value, locals, found);
            }
        }
    }
}
