//! Operations on whole lists and documents: each is a language whose source is the action's input tree and whose
//! value is `{"body": result}`. Inside them `item()` is the current element.
//!
//! - `list`: query, select, join · `table`: CSV and HTML · `parse`: JSON against a schema · `schema`: JSON Schema,
//!   the only module that uses the crate for it · `cost`: the cost of a validation.

mod cost;
mod list;
mod parse;
mod schema;
mod table;

use std::sync::Arc;

use windlass_value::{
    CompileError, EvalError, EvalErrorKind, Expression, ExpressionMode, Language, Map, PathPart, Value, nearest,
};

use super::WdlLanguage;
use super::compile::WdlCompiler;
use super::node::{WdlNode, eval};
use super::values::{WdlContext, WdlResult, check_result, describe, type_error};

/// Returns the expression language and all data operations.
pub fn languages() -> Vec<Arc<dyn Language>> {
    let mut all: Vec<Arc<dyn Language>> = vec![Arc::new(WdlLanguage)];
    all.extend(OPERATIONS.iter().map(|operation| Arc::new(*operation) as Arc<dyn Language>));
    all
}

#[derive(Clone, Copy)]
struct DataOperation {
    name: &'static str,
    /// The required keys; `optional` lists the optional ones.
    keys: &'static [&'static str],
    optional: &'static [&'static str],
    compile: fn(&mut OperationParts) -> Option<Box<dyn Expression>>,
}

const OPERATIONS: &[DataOperation] = &[
    DataOperation { name: "wdl.query", keys: &["from", "where"], optional: &[], compile: list::query },
    DataOperation { name: "wdl.select", keys: &["from", "select"], optional: &[], compile: list::select },
    DataOperation { name: "wdl.join", keys: &["from", "joinWith"], optional: &[], compile: list::join },
    DataOperation { name: "wdl.table", keys: &["from", "format"], optional: &["columns"], compile: table::table },
    DataOperation { name: "wdl.parse", keys: &["content", "schema"], optional: &[], compile: parse::parse },
];

impl Language for DataOperation {
    fn name(&self) -> &'static str {
        self.name
    }

    fn compile(&self, source: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let mut parts = OperationParts::split(self, source);
        if mode != ExpressionMode::Value {
            parts.compiler.error(format!("`{}` gives a value, it cannot be a condition", self.name), None, 0..0);
        }
        let expression = (self.compile)(&mut parts);
        match (parts.compiler.errors.is_empty(), expression) {
            (true, Some(expression)) => Ok(expression),
            _ => Err(parts.compiler.errors),
        }
    }
}

/// The parts of an operation's source by their canonical names, whatever their letter case.
struct OperationParts<'a> {
    compiler: WdlCompiler,
    found: Vec<(&'static str, &'a Arc<str>, &'a Value)>,
}

impl<'a> OperationParts<'a> {
    fn split(operation: &DataOperation, source: &'a Value) -> OperationParts<'a> {
        let mut parts = OperationParts { compiler: WdlCompiler::new(false), found: Vec::new() };
        let known: Vec<&'static str> = operation.keys.iter().chain(operation.optional).copied().collect();
        let Value::Map(map) = source else {
            let message = format!("needs an object with {}, got {}", quoted(&known), describe(source));
            parts.compiler.error(message, None, 0..0);
            return parts;
        };
        parts.found = entries(&mut parts.compiler, map, &known);
        for key in operation.keys {
            if !parts.found.iter().any(|(name, _, _)| name == key) {
                parts.compiler.error(format!("`{key}` is missing"), None, 0..0);
            }
        }
        parts
    }

    /// Compiles one part with its key on the pointer; None if it is missing.
    fn part<T>(&mut self, name: &str, compile: impl FnOnce(&mut WdlCompiler, &'a Value) -> T) -> Option<T> {
        let (_, key, value) = self.found.iter().find(|(known, _, _)| *known == name)?;
        let (key, value) = (PathPart::Key(Arc::clone(key)), *value);
        Some(self.compiler.inside(key, |compiler| compile(compiler, value)))
    }

    fn tree(&mut self, name: &str) -> Option<WdlNode> {
        self.part(name, WdlCompiler::tree)
    }

    /// Compiles the list to work on. A literal must be a list.
    fn list(&mut self) -> Option<WdlNode> {
        self.part("from", |compiler, source| {
            let node = compiler.tree(source);
            if let WdlNode::Constant(value) = &node
                && !matches!(value, Value::List(_))
                && compiler.errors.is_empty()
            {
                let length = source.as_str().map_or(0, str::len);
                compiler.error(not_a_list(value), list_hint(), 0..length);
            }
            node
        })
    }
}

/// Returns the entries of an object by their known names; reports unknown and duplicate keys.
fn entries<'a>(
    compiler: &mut WdlCompiler,
    map: &'a Map,
    known: &[&'static str],
) -> Vec<(&'static str, &'a Arc<str>, &'a Value)> {
    let mut found: Vec<(&'static str, &Arc<str>, &Value)> = Vec::new();
    for (key, value) in map.iter() {
        let name = known.iter().find(|name| name.eq_ignore_ascii_case(key));
        let twice = name.is_some_and(|name| found.iter().any(|(other, _, _)| other == name));
        match name {
            Some(name) if !twice => found.push((name, key, value)),
            _ => compiler.inside(PathPart::Key(key.clone()), |compiler| {
                let (message, hint) = match twice {
                    true => (format!("`{key}` is given twice, in different letter case"), None),
                    false => {
                        let close = nearest(key, known.iter().copied());
                        let hint = close.map(|close| format!("did you mean `{close}`?"));
                        (format!("unknown key `{key}`"), hint.or_else(|| Some(format!("known are {}", quoted(known)))))
                    }
                };
                compiler.error(message, hint, 0..0);
            }),
        }
    }
    found
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn not_a_list(value: &Value) -> String {
    format!("`from` must be an array, got {}", describe(value))
}

fn list_hint() -> Option<String> {
    Some("coalesce(…, json('[]')) replaces null; createArray(…) makes an array of one value".to_owned())
}

/// Returns the items to work on, with their content loaded.
fn items(context: &mut WdlContext, from: &WdlNode) -> WdlResult {
    let value = eval(from, context)?;
    match context.content(value)? {
        list @ Value::List(_) => Ok(list),
        other => {
            let error = type_error(not_a_list(&other));
            Err(list_hint().into_iter().fold(error, EvalError::with_hint))
        }
    }
}

/// Evaluates with the element as `item()`; an error names the item's index.
fn for_item(context: &mut WdlContext, node: &WdlNode, index: usize, item: &Value) -> WdlResult {
    context.item = Some(item.clone());
    let outcome = eval(node, context);
    context.item = None;
    outcome.map_err(|error| at_item(error, index))
}

fn at_item(mut error: EvalError, index: usize) -> EvalError {
    if matches!(error.kind, EvalErrorKind::Missing | EvalErrorKind::Type) {
        error.message = format!("at item {index}: {}", error.message);
    }
    error
}

fn body(context: &WdlContext, result: Value) -> WdlResult {
    let value = Value::object([("body", result)]);
    check_result(context.meter, &value)?;
    Ok(value)
}
