//! Variables: declared at the top, written anywhere, shared by the whole run.

use windlass_core::plan::{Action, NodeKind, Pipeline, Task, VariableKind, Write, WriteOp};
use windlass_dialect::Findings;
use windlass_syntax::{Diagnostic, Kind, Node, Object, Span, did_you_mean, expect_text, list_of, to_value};
use windlass_value::{Level, Value};

use crate::actions::Current;
use crate::codes;
use crate::compiler::{Compiler, Variable, VariableWrite};
use crate::expr;
use crate::scopes::ScopeId;
use crate::types::ActionType;

const KINDS: &[(&str, VariableKind)] = &[
    ("array", VariableKind::Array),
    ("bool", VariableKind::Boolean),
    ("boolean", VariableKind::Boolean),
    ("float", VariableKind::Float),
    ("int", VariableKind::Integer),
    ("integer", VariableKind::Integer),
    ("object", VariableKind::Object),
    ("string", VariableKind::String),
];

impl Compiler<'_> {
    pub(crate) fn initialize_variable(&mut self, current: &mut Current) -> Option<NodeKind> {
        if !current.place.top {
            let hint = "move it out; a `setVariable` in here can give the value";
            let span = current.fields.span();
            let at = Span::new(span.start, span.start + 1);
            self.error(codes::DECLARED_INSIDE, at, "variables are initialised at the top level only", hint);
        }
        let scope = current.place.scope;
        let tasks: Vec<Task> = match current.fields.take("variables", &mut self.diagnostics) {
            Some(node) => self.declarations(node, scope),
            None => {
                let name = current.fields.require("name", &mut self.diagnostics)?;
                let kind = current.fields.inputs().and_then(|inputs| inputs.take("type"));
                let kind = kind.or_else(|| current.fields.action().take("variableType"));
                let value = current.fields.take("value", &mut self.diagnostics);
                self.declare(name, kind, value, scope).into_iter().collect()
            }
        };
        Some(NodeKind::Pipeline(labelled(tasks)?))
    }

    fn declarations(&mut self, node: &Node, scope: ScopeId) -> Vec<Task> {
        let one = std::slice::from_ref(node);
        let items = node.as_list().unwrap_or(one);
        if items.is_empty() {
            self.error(codes::BAD_VALUE, node.span, "`variables` is empty", "add {\"name\", \"type\", \"value\"}");
        }
        let declaration = |item: &Node| {
            let mut object = Object::read(item, "a variable", &mut self.diagnostics)?;
            let (name, kind, value) = (object.take("name"), object.take("type"), object.take("value"));
            object.ignore(&["description"]);
            object.finish(codes::UNKNOWN_KEY, "a variable", &mut self.diagnostics);
            if name.is_none() {
                self.error(codes::MISSING_KEY, item.span, "the variable has no `name`", "add a `name`");
            }
            self.declare(name?, kind, value, scope)
        };
        items.iter().filter_map(declaration).collect()
    }

    fn declare(&mut self, name: &Node, kind: Option<&Node>, value: Option<&Node>, scope: ScopeId) -> Option<Task> {
        let written = self.variable_name(name)?;
        let kind = kind.map_or(Some(VariableKind::Any), |node| self.variable_kind(node)).unwrap_or(VariableKind::Any);
        if let Some(node) = value {
            self.check_literal(&written, kind, literal(node), node.span);
        }
        let lower = written.to_lowercase();
        let declared = Variable { name: written.clone(), kind, span: name.span };
        if let Some(first) = self.variables.insert(lower.clone(), declared) {
            let message = format!("the variable `{written}` is declared twice");
            let problem = Diagnostic::error(codes::DECLARED_TWICE, name.span, message);
            self.push(
                problem.label(first.span, "first here").hint("names differ in more than letter case; rename one"),
            );
        }
        let value = value.map(|node| self.value(node, scope));
        let write = Write::new(Level::Run, lower, WriteOp::Declare(kind), value);
        Some(Task::new(Action::Write(write)))
    }

    fn variable_name(&mut self, node: &Node) -> Option<String> {
        let text = expect_text(node, "a variable's name", &mut self.diagnostics)?;
        if expr::is_expression(&text.text) {
            let hint = "write the name down; a `switch` can choose between variables";
            self.error(codes::NOT_SUPPORTED, node.span, "a computed variable name is not supported", hint);
            return None;
        }
        if text.text.trim().is_empty() {
            self.error(codes::BAD_VALUE, node.span, "a variable's name is empty", "give it a name");
            return None;
        }
        Some(text.text.clone())
    }

    pub(crate) fn variable_kind(&mut self, node: &Node) -> Option<VariableKind> {
        let text = &expect_text(node, "`type`", &mut self.diagnostics)?.text;
        let plain = text.to_lowercase();
        let plain = plain.strip_prefix("secure").unwrap_or(&plain);
        let found = KINDS.iter().find(|(name, _)| *name == plain).map(|(_, kind)| *kind);
        if found.is_none() {
            let names = || KINDS.iter().map(|(name, _)| *name);
            let hint = did_you_mean(text, names()).unwrap_or_else(|| format!("types: {}", list_of(names())));
            self.error(codes::BAD_VALUE, node.span, format!("there is no type `{text}`"), hint);
        }
        found
    }

    pub(crate) fn change_variable(&mut self, current: &mut Current, kind: ActionType) -> Option<NodeKind> {
        let scope = current.place.scope;
        // Under `inputs` the variable's name leaves the action's own `name` free.
        let inner = current.fields.inputs().and_then(|inputs| inputs.take("name"));
        let outer = current.fields.action().take("name");
        let Some(name) = inner.or(outer) else {
            current.fields.missing("name", &mut self.diagnostics);
            return None;
        };
        let op = operation(kind);
        let value = match op {
            WriteOp::Add | WriteOp::Subtract => current.fields.take("value", &mut self.diagnostics),
            _ => current.fields.require("value", &mut self.diagnostics),
        };
        let written = self.variable_name(name)?;
        let lower = written.to_lowercase();
        self.writes.push(VariableWrite {
            name: lower.clone(),
            written,
            span: name.span,
            op,
            literal: value.and_then(|node| literal(node).map(|value| (value, node.span))),
            scope,
        });
        let value = value.map(|node| self.value(node, scope));
        Some(NodeKind::lone(Action::Write(Write::new(Level::Run, lower, op, value))))
    }

    /// A literal must be of the variable's kind; null is left to the engine.
    pub(crate) fn check_literal(&mut self, name: &str, kind: VariableKind, value: Option<Value>, span: Span) {
        let Some(value) = value else { return };
        if !holds(kind, &value) {
            let message = format!("the variable `{name}` holds {}, not {}", kind_name(kind), described(&value));
            self.error(codes::VARIABLE_TYPE, span, message, "change the value or the variable's `type`");
        }
    }
}

fn operation(kind: ActionType) -> WriteOp {
    match kind {
        ActionType::Increment => WriteOp::Add,
        ActionType::Decrement => WriteOp::Subtract,
        ActionType::AppendToArray => WriteOp::AppendItem,
        ActionType::AppendToString => WriteOp::AppendText,
        _ => WriteOp::Set,
    }
}

/// The tasks of one action; the only one has no label.
fn labelled(mut tasks: Vec<Task>) -> Option<Pipeline> {
    if tasks.len() > 1 {
        for task in &mut tasks {
            if let Action::Write(write) = &task.action {
                task.label = write.name.clone();
            }
        }
    }
    (!tasks.is_empty()).then_some(Pipeline { tasks })
}

/// The value of a node without expressions at its root; inside of arrays and objects only the kind matters.
fn literal(node: &Node) -> Option<Value> {
    match &node.kind {
        Kind::Str(text) if expr::is_whole_expression(&text.text) => None,
        _ => Some(to_value(node)),
    }
}

pub(crate) fn holds(kind: VariableKind, value: &Value) -> bool {
    match kind {
        VariableKind::Any => true,
        _ if value.is_null() => true,
        VariableKind::Boolean => matches!(value, Value::Bool(_)),
        VariableKind::Integer => matches!(value, Value::Int(_)),
        VariableKind::Float => matches!(value, Value::Int(_) | Value::Float(_)),
        VariableKind::String => matches!(value, Value::Str(_)),
        VariableKind::Array => matches!(value, Value::List(_)),
        VariableKind::Object => matches!(value, Value::Map(_)),
    }
}

pub(crate) fn kind_name(kind: VariableKind) -> &'static str {
    match kind {
        VariableKind::Any => "anything",
        VariableKind::Boolean => "a boolean",
        VariableKind::Integer => "an integer",
        VariableKind::Float => "a float",
        VariableKind::String => "a string",
        VariableKind::Array => "an array",
        VariableKind::Object => "an object",
    }
}

pub(crate) fn described(value: &Value) -> String {
    match value {
        Value::List(_) => "an array".to_owned(),
        Value::Map(_) => "an object".to_owned(),
        other => format!("{} ({other:?})", other.kind()),
    }
}
