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
mod types;
mod value;

use std::ops::Range;
use std::sync::Arc;

use windlass_value::{
    CompileError, EvalError, EvalErrorKind, EvalScope, Expression, ExpressionMode, Language, Meter, Value,
};

pub use source::source;

use eval::CelEvaluator;
use lower::CelLowering;
use node::CelNode;
use source::CelEnvironment;
use syntax::{CelLiteral, CelSyntax, CelSyntaxKind};

/// The language.
#[derive(Clone, Copy, Debug, Default)]
pub struct CelLanguage;

impl Language for CelLanguage {
    fn name(&self) -> &'static str {
        "cel"
    }

    fn compile(&self, source_value: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let (text, env) = source::parse_source(source_value).map_err(|error| vec![error])?;
        let syntax = parser::parse(&text, &env.steps)
            .map_err(|problem| vec![source::to_compile_error(problem, source_value)])?;
        let mut lower = CelLowering::new(&text, &env);
        let root = match mode {
            ExpressionMode::Value => lower.node(&syntax).0,
            ExpressionMode::Condition | ExpressionMode::LoopCondition | ExpressionMode::Guard => {
                lower.condition(&syntax)
            }
        };
        match lower.problems.is_empty() {
            true => Ok(Box::new(CelExpression { text, env, root, mode })),
            false => {
                Err(lower.problems.into_iter().map(|problem| source::to_compile_error(problem, source_value)).collect())
            }
        }
    }
}

struct CelExpression {
    text: Arc<str>,
    env: CelEnvironment,
    root: CelNode,
    mode: ExpressionMode,
}

impl Expression for CelExpression {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut eval = CelEvaluator::new(scope, meter, &self.text, &self.env, self.mode);
        eval.result(&self.root).map_err(|error| match error.kind {
            EvalErrorKind::NeedBlobs => error,
            _ => error.with_expression(&value::truncate(self.text.trim())),
        })
    }
}

/// The steps that an expression names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CelReferences {
    /// In the order in which they stand there, each time they do.
    pub steps: Vec<CelReference>,
    /// Some name of a step is computed, or all are looked at: any of them may be meant.
    pub any_step: bool,
    /// Parts of bare names, such as `inputs.list`, with the bare name: where they must be there.
    pub fields: Vec<(Arc<str>, CelReference)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CelReference {
    pub id: Arc<str>,
    /// The bytes of the id in the text, with its quotes if it has some.
    pub range: Range<usize>,
}

/// The steps that a text refers to, of those that there are; ones that are not there are found too. A text that is no
/// expression refers to none.
pub fn references(text: &str, steps: &[Arc<str>]) -> CelReferences {
    let mut found = CelReferences::default();
    if let Ok(syntax) = parser::parse(text, steps) {
        gather_references(&syntax, &mut Vec::new(), &mut found);
    }
    found
}

/// The part of a bare name that is no variable of a macro.
fn gather_field(operand: &CelSyntax, field: &Arc<str>, at: &Range<usize>, locals: &[&str], found: &mut CelReferences) {
    if let CelSyntaxKind::Name(name) = &operand.kind
        && !locals.contains(&&**name)
    {
        found.fields.push((name.clone(), CelReference { id: field.clone(), range: at.clone() }));
    }
}

fn gather_references<'s>(syntax: &'s CelSyntax, locals: &mut Vec<&'s str>, found: &mut CelReferences) {
    match &syntax.kind {
        CelSyntaxKind::Literal(_) | CelSyntaxKind::Negative(_) => {}
        CelSyntaxKind::Name(name) => found.any_step |= &**name == "steps" && !locals.contains(&"steps"),
        CelSyntaxKind::Step { id, at } => found.steps.push(CelReference { id: id.clone(), range: at.clone() }),
        CelSyntaxKind::Select { operand, field, at } => {
            gather_field(operand, field, at, locals, found);
            gather_references(operand, locals, found);
        }
        CelSyntaxKind::Unary { operand, .. } => gather_references(operand, locals, found),
        CelSyntaxKind::Index { operand: one, index: other } | CelSyntaxKind::Binary { left: one, right: other, .. } => {
            if let (CelSyntaxKind::Index { .. }, CelSyntaxKind::Literal(CelLiteral::Str(field))) =
                (&syntax.kind, &other.kind)
            {
                gather_field(one, field, &other.range, locals, found);
            }
            gather_references(one, locals, found);
            gather_references(other, locals, found);
        }
        // Whoever asks whether it is there knows that it need not be.
        CelSyntaxKind::Call { target: None, name, arguments, .. } if &**name == "has" => {
            for argument in arguments {
                match &argument.kind {
                    CelSyntaxKind::Select { operand, .. } => gather_references(operand, locals, found),
                    _ => gather_references(argument, locals, found),
                }
            }
        }
        CelSyntaxKind::Call { target, arguments, .. } => {
            let mut arguments = arguments.as_slice();
            if let Some(target) = target {
                gather_references(target, locals, found);
            }
            // The variable of a macro is no step, whatever it is called.
            let variable = match (target, arguments) {
                (Some(_), [CelSyntax { kind: CelSyntaxKind::Name(name), .. }, rest @ ..]) if !rest.is_empty() => {
                    arguments = rest;
                    Some(&**name)
                }
                _ => None,
            };
            locals.extend(variable);
            for argument in arguments {
                gather_references(argument, locals, found);
            }
            if variable.is_some() {
                locals.pop();
            }
        }
        CelSyntaxKind::Logic { parts, .. } | CelSyntaxKind::List(parts) => {
            for part in parts {
                gather_references(part, locals, found);
            }
        }
        CelSyntaxKind::Choice { test, yes, no } => {
            for part in [test, yes, no] {
                gather_references(part, locals, found);
            }
        }
        CelSyntaxKind::Map(entries) => {
            for (key, value) in entries {
                gather_references(key, locals, found);
                gather_references(value, locals, found);
            }
        }
    }
}
