//! WDL, the expression language of Azure Logic Apps: `@equals(variables('status'), 'done')`.
//!
//! A string that begins with `@` is one expression and keeps its type; `@{…}` inside a text is replaced by the text
//! of its value; `@@` at the beginning stands for `@`. A source is compiled once: constants are folded, and function
//! names and literal variable names are resolved, so evaluation never looks them up again.
//!
//! - `syntax`: text to syntax · `source`: references of a tree · `compile`: syntax to nodes · `node`, `path`,
//!   `variable`: evaluation · `values`: operations on values · `functions`: one file per family · `data`: operations
//!   on whole lists, each a separate language · `xml`: XML and XPath · `settings`: app settings.
//! - `calendar`, `zones`, `locale`: times and locales · `date_…`, `number_…`: their text formats.

mod calendar;
mod compile;
mod data;
mod date_format;
mod date_parse;
pub(crate) mod functions;
mod locale;
mod node;
mod number_format;
mod number_pattern;
mod path;
mod settings;
mod source;
mod syntax;
pub(crate) mod values;
mod variable;
mod xml;
pub(crate) mod zones;

use windlass_value::{CompileError, EvalError, EvalScope, Expression, ExpressionMode, Language, Meter, Value};

pub use data::languages;
pub use settings::{setting_key, with_settings};
pub use source::{WdlReference, WdlReferences, references, warnings};

use compile::{WdlCompiler, truth};
use node::{WdlNode, eval};
use values::{WdlContext, check_result, describe, preview, type_error};

/// The WDL language.
#[derive(Clone, Copy, Debug, Default)]
pub struct WdlLanguage;

/// Returns the names of all functions, as the documentation writes them.
pub fn function_names() -> Vec<&'static str> {
    functions::all().map(|function| function.name).collect()
}

/// Returns the message and the hint for an unknown time zone; None if the zone exists.
pub fn zone_problem(name: &str) -> Option<(String, String)> {
    zones::find(name).is_none().then(|| zones::unknown_zone(name))
}

/// Returns the IANA name of a time zone, also for a Windows name.
pub fn zone_name(name: &str) -> Option<String> {
    zones::find(name)?.iana_name().map(str::to_owned)
}

impl Language for WdlLanguage {
    fn name(&self) -> &'static str {
        "wdl"
    }

    fn compile(&self, source: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let lenient = mode == ExpressionMode::LoopCondition;
        let mut compiler = WdlCompiler::new(lenient);
        let node = match mode {
            ExpressionMode::Value => compiler.tree(source),
            ExpressionMode::Condition | ExpressionMode::LoopCondition | ExpressionMode::Guard => {
                compiler.condition(source)
            }
        };
        if !compiler.errors.is_empty() {
            return Err(compiler.errors);
        }
        Ok(match (mode, node) {
            (ExpressionMode::Value, WdlNode::Constant(value)) => Box::new(ConstantExpression(value)),
            (ExpressionMode::Value, node) => Box::new(TreeExpression { creates_values: creates_values(&node), node }),
            (_, node) => {
                let text = source.as_str().map_or_else(|| preview(source), str::to_owned);
                Box::new(ConditionExpression { node, text, lenient })
            }
        })
    }
}

/// Returns whether evaluation can create a new value; a value that already existed needs no second check.
fn creates_values(node: &WdlNode) -> bool {
    match node {
        WdlNode::Source(_, inner) => creates_values(inner),
        WdlNode::Path(path) => creates_values(&path.root),
        WdlNode::Call(call) => !call.returns_existing,
        WdlNode::Constant(_) | WdlNode::Variable(_) | WdlNode::Join(_) => false,
        _ => true,
    }
}

struct ConstantExpression(Value);

impl Expression for ConstantExpression {
    fn eval(&self, _scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        meter.spend(1)?;
        Ok(self.0.clone())
    }
}

struct TreeExpression {
    node: WdlNode,
    creates_values: bool,
}

impl Expression for TreeExpression {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let value = eval(&self.node, &mut WdlContext::new(scope, meter))?;
        if self.creates_values {
            check_result(meter, &value)?;
        }
        Ok(value)
    }
}

struct ConditionExpression {
    node: WdlNode,
    text: String,
    lenient: bool,
}

impl Expression for ConditionExpression {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let value = eval(&self.node, &mut WdlContext { lenient: self.lenient, ..WdlContext::new(scope, meter) })?;
        match truth(&value) {
            Some(flag) => Ok(Value::Bool(flag)),
            None => {
                Err(type_error(format!("the condition gives {}, which is neither true nor false", describe(&value)))
                    .with_hint("compare it: equals(…), greater(…), empty(…), not(…)")
                    .with_expression(&self.text))
            }
        }
    }
}
