//! Jinja, the template language of playbooks: `"{{ iter.page + 1 }}"`. It is minijinja's dialect, with these rules:
//!
//! - A string that is exactly one template keeps the type of its value; text around a template makes the result a
//!   string; a string without a template is itself. Line breaks at the end of a block do not count as surrounding
//!   text.
//! - A missing name or property is an error that lists the existing ones, unless `default` or `is defined` handles
//!   it. Null counts as existing. In a loop's own condition a missing value is null; a guard reports
//!   [`windlass_value::EvalErrorKind::Missing`], which counts as false.
//! - Filters, tests, functions and methods are looked up when a template is compiled. Nothing reads a clock or is
//!   random: `now()` and `uuid()` derive from the tick.
//! - Values enter the engine by reference and return without loss; stored values are loaded on access. Steps, items
//!   and bytes are counted.
//! - `truth` defines which values are true; `roots` defines the meaning of names.
//!
//! `tables`: the supported names · `lower`: syntax to the template that the engine runs · `path`: names with their
//! properties · `engine`, `session`, `object`: evaluation · `filters`: our own filters · `source`: references of a
//! source tree · `sql`: templates in SQL.

mod engine;
mod filters;
mod lists;
mod lower;
mod object;
mod outcome;
mod path;
mod roots;
mod session;
mod source;
mod sql;
mod tables;
mod task_results;
mod text;
mod truth;

use windlass_value::{
    BlobHash, CompileError, EvalError, EvalErrorKind, EvalScope, Expression, ExpressionMode, Language, Meter, PathPart,
    Value, to_json,
};

pub use source::{JinjaReference, references};
pub use sql::{NameQuote, SqlLoop, SqlParam, SqlStatement, split_sql};

use engine::JinjaProgram;
use path::JinjaPath;
use text::{CompiledText, compile_condition, compile_text};
use truth::is_true;

use crate::wdl::values::WdlContext;

/// The maximum nesting depth of a source tree.
const MAX_TREE_DEPTH: usize = 120;

/// The Jinja language.
#[derive(Clone, Copy, Debug, Default)]
pub struct JinjaLanguage;

/// Returns the names of all filters, tests, functions and methods, for documentation.
pub fn names() -> [(&'static str, &'static [&'static str]); 4] {
    [("filter", tables::FILTERS), ("test", tables::TESTS), ("function", tables::FUNCTIONS), ("method", tables::METHODS)]
}

impl Language for JinjaLanguage {
    fn name(&self) -> &'static str {
        "jinja"
    }

    fn compile(&self, source: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let mut compiler = JinjaCompiler { errors: Vec::new(), pointer: Vec::new(), mode };
        let node = match mode {
            ExpressionMode::Value => compiler.tree(source),
            ExpressionMode::Condition | ExpressionMode::LoopCondition | ExpressionMode::Guard => {
                compiler.condition(source)
            }
        };
        match compiler.errors.is_empty() {
            true => Ok(Box::new(node)),
            false => Err(compiler.errors),
        }
    }
}

enum JinjaNode {
    Constant(Value),
    /// A single path, and the text of the template for messages.
    Path {
        path: JinjaPath,
        text: String,
        lenient: bool,
    },
    Program {
        program: Box<JinjaProgram>,
        text: String,
    },
    Truth(Box<JinjaNode>),
    List(Vec<JinjaNode>),
    Object(Vec<(JinjaNode, JinjaNode)>),
}

impl Expression for JinjaNode {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let value = self.value(scope, meter)?;
        if matches!(self, JinjaNode::List(_) | JinjaNode::Object(_)) {
            meter.check_size(value.size_up_to(meter.max_output_bytes))?;
        }
        Ok(value)
    }
}

impl JinjaNode {
    fn value(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        match self {
            JinjaNode::Constant(value) => {
                meter.spend(1)?;
                Ok(value.clone())
            }
            JinjaNode::Path { path, text, lenient } => match path.value(scope, meter) {
                Err(error) if *lenient && error.kind == EvalErrorKind::Missing => Ok(Value::Null),
                result => result.map_err(|error| error.with_expression(text)),
            },
            JinjaNode::Program { program, text } => {
                program.eval(scope, meter).map_err(|error| error.with_expression(text))
            }
            JinjaNode::Truth(node) => {
                let value = node.value(scope, meter)?;
                let content = WdlContext::new(scope, meter).content(value)?;
                Ok(Value::Bool(is_true(&content)))
            }
            JinjaNode::List(nodes) => {
                let mut gathered = Vec::new();
                let items: Vec<Value> = gather(nodes.iter().map(|node| node.value(scope, meter)), &mut gathered)?;
                require_blobs(gathered)?;
                Ok(Value::list(items))
            }
            JinjaNode::Object(entries) => {
                let mut gathered = Vec::new();
                let pairs = entries.iter().map(|(key, node)| {
                    let key = key.value(scope, meter)?;
                    Ok((key_text(&key), node.value(scope, meter)?))
                });
                let pairs: Vec<(String, Value)> = gather(pairs, &mut gathered)?;
                require_blobs(gathered)?;
                Ok(Value::object(pairs))
            }
        }
    }
}

fn key_text(key: &Value) -> String {
    key.as_str().map_or_else(|| to_json(key), str::to_owned)
}

fn constant(node: &JinjaNode) -> Option<Value> {
    match node {
        JinjaNode::Constant(value) => Some(value.clone()),
        _ => None,
    }
}

/// Collects results. It continues past blobs that are not loaded, so that all of them are requested together.
fn gather<T>(
    results: impl Iterator<Item = Result<T, EvalError>>,
    blobs: &mut Vec<BlobHash>,
) -> Result<Vec<T>, EvalError> {
    let mut values = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) if error.kind == EvalErrorKind::NeedBlobs => blobs.extend(error.blobs),
            Err(error) => return Err(error),
        }
    }
    Ok(values)
}

fn require_blobs(blobs: Vec<BlobHash>) -> Result<(), EvalError> {
    if blobs.is_empty() { Ok(()) } else { Err(EvalError::need_blobs(blobs)) }
}

struct JinjaCompiler {
    errors: Vec<CompileError>,
    pointer: Vec<PathPart>,
    mode: ExpressionMode,
}

impl JinjaCompiler {
    fn error(&mut self, message: impl Into<String>, hint: Option<String>, range: std::ops::Range<usize>) {
        self.errors.push(CompileError { message: message.into(), hint, pointer: self.pointer.clone(), range });
    }

    fn problems(&mut self, problems: Vec<lower::JinjaProblem>) -> JinjaNode {
        for problem in problems {
            self.error(problem.message, problem.hint, problem.range);
        }
        JinjaNode::Constant(Value::Null)
    }

    fn tree(&mut self, source: &Value) -> JinjaNode {
        if self.pointer.len() > MAX_TREE_DEPTH {
            self.error(format!("the value nests deeper than {MAX_TREE_DEPTH}"), None, 0..0);
            return JinjaNode::Constant(Value::Null);
        }
        match source {
            Value::Str(text) => self.text(text),
            Value::List(items) => {
                let nodes: Vec<JinjaNode> =
                    items.iter().enumerate().map(|(index, item)| self.child(PathPart::Index(index), item)).collect();
                match nodes.iter().map(constant).collect::<Option<Vec<Value>>>() {
                    Some(values) => JinjaNode::Constant(Value::list(values)),
                    None => JinjaNode::List(nodes),
                }
            }
            Value::Map(map) => {
                let mut entries = Vec::with_capacity(map.len());
                for (key, item) in map.iter() {
                    self.pointer.push(PathPart::Key(key.clone()));
                    let name = self.text(key);
                    self.pointer.pop();
                    entries.push((name, self.child(PathPart::Key(key.clone()), item)));
                }
                let constants = entries.iter().map(|(key, node)| Some((key_text(&constant(key)?), constant(node)?)));
                match constants.collect::<Option<Vec<(String, Value)>>>() {
                    Some(values) => JinjaNode::Constant(Value::object(values)),
                    None => JinjaNode::Object(entries),
                }
            }
            other => JinjaNode::Constant(other.clone()),
        }
    }

    fn child(&mut self, part: PathPart, source: &Value) -> JinjaNode {
        self.pointer.push(part);
        let node = self.tree(source);
        self.pointer.pop();
        node
    }

    fn text(&mut self, text: &str) -> JinjaNode {
        match compile_text(text) {
            Ok(compiled) => to_node(compiled, text, false),
            Err(problems) => self.problems(problems),
        }
    }

    fn condition(&mut self, source: &Value) -> JinjaNode {
        let lenient = self.mode == ExpressionMode::LoopCondition;
        match source {
            Value::Str(text) => match compile_condition(text, lenient) {
                Ok(CompiledText::Constant(value)) => JinjaNode::Constant(Value::Bool(is_true(&value))),
                Ok(compiled) => JinjaNode::Truth(Box::new(to_node(compiled, text, lenient))),
                Err(problems) => self.problems(problems),
            },
            Value::List(_) | Value::Map(_) => {
                let hint = "write it as a text: \"{{ a == b }}\"".to_owned();
                self.error(format!("a condition is a template, got {}", source.kind()), Some(hint), 0..0);
                JinjaNode::Constant(Value::Null)
            }
            other => JinjaNode::Constant(Value::Bool(is_true(other))),
        }
    }
}

fn to_node(compiled: CompiledText, text: &str, lenient: bool) -> JinjaNode {
    let text = text.trim_end().to_owned();
    match compiled {
        CompiledText::Constant(value) => JinjaNode::Constant(value),
        CompiledText::Path(path) => JinjaNode::Path { path, text, lenient },
        CompiledText::Program(program) => JinjaNode::Program { program, text },
    }
}
