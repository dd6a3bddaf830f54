//! Walks a source tree without compiling it: collects its references, and warnings about style.

use std::ops::Range;
use std::sync::Arc;

use windlass_value::{CompileError, PathPart, Value};

use super::syntax::{CallSyntax, StepKey, WdlSyntax, WdlSyntaxKind, WdlText, WdlTextPart, parse_text};

/// The maximum nesting depth of a source tree.
pub(crate) const MAX_TREE_DEPTH: usize = 120;

/// A literal name in a source, with its location.
#[derive(Clone, Debug, PartialEq)]
pub struct WdlReference {
    pub name: Arc<str>,
    /// Keys and indexes from the root to the string.
    pub pointer: Vec<PathPart>,
    /// The byte range in that string: the name with its quotes.
    pub range: Range<usize>,
}

/// The names that a source uses, as far as they are literal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WdlReferences {
    /// `variables('x')`
    pub variables: Vec<WdlReference>,
    /// `outputs`, `body`, `actions`, `actionOutputs`, `actionBody`, and the form functions of `'x'`
    pub nodes: Vec<WdlReference>,
    /// `result('x')`
    pub results: Vec<WdlReference>,
    /// `iterationIndexes('x')`
    pub loops: Vec<WdlReference>,
    /// `items('x')`
    pub items: Vec<WdlReference>,
    /// `item()`, with the location of each call
    pub elements: Vec<WdlReference>,
    /// `parameters('x')`
    pub parameters: Vec<WdlReference>,
    /// `appsetting('x')`
    pub settings: Vec<WdlReference>,
    /// True if a node name is computed: the expression may refer to any node.
    pub any_node: bool,
}

/// Returns everything that a source tree refers to by a literal name. Strings that are not valid expressions are
/// skipped.
pub fn references(source: &Value) -> WdlReferences {
    let mut found = WdlReferences::default();
    each_call(source, &mut |pointer, call| {
        let (list, of_node) = match call.name.to_ascii_lowercase().as_str() {
            "variables" => (&mut found.variables, false),
            "outputs" | "body" | "actions" | "actionoutputs" | "actionbody" => (&mut found.nodes, true),
            "formdatavalue" | "formdatamultivalues" | "multipartbody" => (&mut found.nodes, true),
            "result" => (&mut found.results, true),
            "iterationindexes" => (&mut found.loops, false),
            "items" => (&mut found.items, false),
            "item" => {
                let (name, range) = (Arc::from("item"), call.name_range.clone());
                found.elements.push(WdlReference { name, pointer: pointer.to_vec(), range });
                return;
            }
            "parameters" => (&mut found.parameters, false),
            "appsetting" => (&mut found.settings, false),
            _ => return,
        };
        match call.arguments.first() {
            Some(WdlSyntax { range, kind: WdlSyntaxKind::Literal(Value::Str(name)) }) => {
                list.push(WdlReference { name: name.clone(), pointer: pointer.to_vec(), range: range.clone() });
            }
            _ => found.any_node |= of_node,
        }
    });
    found
}

/// Returns warnings about expressions that work but should be written differently: an `@` inside an expression.
pub fn warnings(source: &Value) -> Vec<CompileError> {
    let mut found = Vec::new();
    each_call(source, &mut |pointer, call| {
        if let Some(at) = call.inner_at {
            found.push(CompileError {
                message: format!("the `@` before `{}` is not needed inside an expression", call.name),
                hint: Some(format!("write `{}(…)`; only the whole expression begins with `@`", call.name)),
                pointer: pointer.to_vec(),
                range: at..call.name_range.end,
            });
        }
    });
    found
}

/// Returns whether a text calls the function of that name.
pub(crate) fn calls(text: &str, function: &str) -> bool {
    let mut found = false;
    walk_text(text, &[], &mut |_, call| found |= call.name.eq_ignore_ascii_case(function));
    found
}

type Visit<'a> = &'a mut dyn FnMut(&[PathPart], &CallSyntax);

fn each_call(source: &Value, visit: Visit) {
    walk(source, &mut Vec::new(), visit);
}

fn walk(source: &Value, pointer: &mut Vec<PathPart>, visit: Visit) {
    if pointer.len() > MAX_TREE_DEPTH {
        return;
    }
    match source {
        Value::Str(text) => walk_text(text, pointer, visit),
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push(PathPart::Index(index));
                walk(item, pointer, visit);
                pointer.pop();
            }
        }
        Value::Map(map) => {
            for (key, item) in map.iter() {
                pointer.push(PathPart::Key(key.clone()));
                walk_text(key, pointer, visit);
                walk(item, pointer, visit);
                pointer.pop();
            }
        }
        _ => {}
    }
}

fn walk_text(text: &str, pointer: &[PathPart], visit: Visit) {
    match parse_text(text) {
        Ok(WdlText::Whole(syntax)) => walk_syntax(&syntax, pointer, visit),
        Ok(WdlText::Mixed(pieces)) => {
            for piece in &pieces {
                if let WdlTextPart::Expression(syntax) = piece {
                    walk_syntax(syntax, pointer, visit);
                }
            }
        }
        _ => {}
    }
}

fn walk_syntax(syntax: &WdlSyntax, pointer: &[PathPart], visit: Visit) {
    match &syntax.kind {
        WdlSyntaxKind::Literal(_) => {}
        WdlSyntaxKind::Call(call) => {
            visit(pointer, call);
            for argument in &call.arguments {
                walk_syntax(argument, pointer, visit);
            }
        }
        WdlSyntaxKind::Path { root, steps } => {
            walk_syntax(root, pointer, visit);
            for step in steps {
                if let StepKey::Index(index) = &step.key {
                    walk_syntax(index, pointer, visit);
                }
            }
        }
    }
}
