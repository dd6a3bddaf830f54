//! CEL, the Common Expression Language, used for conditions and lists of agent workflows:
//! `steps.review.content.contains('LGTM') && iteration >= 2`. Types, operators, functions and macros are those of the
//! CEL standard library. Windlass adds these rules:
//!
//! - `steps.<id>` is `{content, result, status}` of a step that has ended. Ids with hyphens are written as they are:
//!   the longest known id wins, so `steps.a-b` is the step `a-b` if that step exists, otherwise a subtraction. Inside
//!   a loop, a step that has not ended yet in this iteration resolves to its result in the previous iteration.
//! - Names are checked when an expression is compiled: steps, variables, functions, and types that can never work
//!   together.
//! - JSON numbers convert implicitly: an integral number is an int, and an int combined with a double is promoted, so
//!   `n + 1`, `n * 2` and `n / 2.0` work whichever form a model wrote. The remainder operator accepts integral
//!   doubles. An int and a uint do not mix.
//! - A missing value is [`EvalErrorKind::Missing`] with the message "no such key", in a loop's condition too. A
//!   condition must evaluate to true or false; no other value is converted to a bool.
//! - An evaluation costs at most what the meter's caps allow: one for an operation, a field and an item that a macro
//!   visits, one for ten items or ten bytes of a created value, one for a thousand bytes of text that are read.
//!   Reading is cheaper than in other CEL implementations, so that a model's reply may be long. Fuel is spent in
//!   addition.
//!
//! `lexer`, `parser`, `syntax`: text to syntax · `lower`, `types`, `tables`: names and types · `node`, `eval`,
//! `operators`, `functions`, `time`, `value`: evaluation · `source`: the environment of an expression.

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

/// The CEL language.
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

/// The steps that an expression refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CelReferences {
    /// One entry per occurrence, in source order.
    pub steps: Vec<CelReference>,
    /// True if a step name is computed or all steps are read: the expression may refer to any step.
    pub any_step: bool,
    /// Fields of bare names, such as `inputs.list`, with the bare name, in positions where the field must exist.
    pub fields: Vec<(Arc<str>, CelReference)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CelReference {
    pub id: Arc<str>,
    /// The byte range of the id in the text, including its quotes if there are any.
    pub range: Range<usize>,
}

/// Returns the steps that a text refers to. `steps` are the existing steps; references to unknown steps are included.
/// A text that is not an expression refers to none.
pub fn references(text: &str, steps: &[Arc<str>]) -> CelReferences {
    let mut found = CelReferences::default();
    if let Ok(syntax) = parser::parse(text, steps) {
        gather_references(&syntax, &mut Vec::new(), &mut found);
    }
    found
}

/// Records a field of a bare name that is not a macro variable.
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
        // `has(…)` tests for the field, so the field need not exist.
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
            // The variable of a macro is not a step, whatever its name.
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
