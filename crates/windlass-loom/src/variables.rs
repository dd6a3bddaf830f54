//! Variables: declared at the top level, written anywhere, shared by the whole run.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::{Action, NodeKind, Pipeline, Task, VariableKind, VariableUpdate, WriteOp};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_text, format_names, to_value,
};
use windlass_value::{Level, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::{LoomCompiler, LoomVariable, VariableWrite};
use crate::expr;
use crate::scopes::NameScopeId;
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

impl LoomCompiler<'_> {
    pub(crate) fn initialize_variable(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        if !current.position.top {
            let hint = "move it out; a `setVariable` in here can give the value";
            let span = current.fields.span();
            let at = Span::new(span.start, span.start + 1);
            self.error(codes::DECLARED_INSIDE, at, "variables are initialised at the top level only", hint);
        }
        let scope = current.position.scope;
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
        Some(NodeKind::Pipeline(label_tasks(tasks)?))
    }

    fn declarations(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Vec<Task> {
        let one = std::slice::from_ref(node);
        let items = node.as_list().unwrap_or(one);
        if items.is_empty() {
            self.error(codes::BAD_VALUE, node.span, "`variables` is empty", "add {\"name\", \"type\", \"value\"}");
        }
        let declaration = |item: &SyntaxNode| {
            let mut object = ObjectReader::read(item, "a variable", &mut self.diagnostics)?;
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

    fn declare(
        &mut self,
        name: &SyntaxNode,
        kind: Option<&SyntaxNode>,
        value: Option<&SyntaxNode>,
        scope: NameScopeId,
    ) -> Option<Task> {
        let written = self.variable_name(name)?;
        let kind = kind.map_or(Some(VariableKind::Any), |node| self.variable_kind(node)).unwrap_or(VariableKind::Any);
        if let Some(node) = value {
            self.check_literal(&written, kind, literal(node), node.span);
        }
        let declared = LoomVariable { name: written.clone(), kind, span: name.span };
        if let Some(first) = self.variables.insert(written.to_lowercase(), declared) {
            let message = format!("the variable `{written}` is declared twice");
            let problem = Diagnostic::error(codes::DECLARED_TWICE, name.span, message);
            self.push(
                problem
                    .with_label(first.span, "first here")
                    .with_hint("names differ in more than letter case; rename one"),
            );
        }
        let value = value.map(|node| self.value(node, scope));
        let write = VariableUpdate::new(Level::Run, written, WriteOp::Declare(kind), value);
        Some(Task::new(Action::Write(write)))
    }

    fn variable_name(&mut self, node: &SyntaxNode) -> Option<String> {
        let text = expect_text(node, "a variable's name", &mut self.diagnostics)?;
        if expr::is_expression(&text.text) {
            let hint = "write a literal name; a `switch` can choose between variables";
            self.error(codes::NOT_SUPPORTED, node.span, "a computed variable name is not supported", hint);
            return None;
        }
        if text.text.trim().is_empty() {
            self.error(codes::BAD_VALUE, node.span, "a variable's name is empty", "give it a name");
            return None;
        }
        Some(text.text.clone())
    }

    pub(crate) fn variable_kind(&mut self, node: &SyntaxNode) -> Option<VariableKind> {
        let text = &expect_text(node, "`type`", &mut self.diagnostics)?.text;
        let plain = text.to_lowercase();
        let plain = plain.strip_prefix("secure").unwrap_or(&plain);
        let found = KINDS.iter().find(|(name, _)| *name == plain).map(|(_, kind)| *kind);
        if found.is_none() {
            let names = || KINDS.iter().map(|(name, _)| *name);
            let hint = did_you_mean(text, names()).unwrap_or_else(|| format!("types: {}", format_names(names())));
            self.error(codes::BAD_VALUE, node.span, format!("there is no type `{text}`"), hint);
        }
        found
    }

    pub(crate) fn change_variable(&mut self, current: &mut CurrentAction, kind: ActionType) -> Option<NodeKind> {
        let scope = current.position.scope;
        // Under `inputs`, the variable's name does not conflict with the action's own `name`.
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
        self.writes.push(VariableWrite {
            name: written.to_lowercase(),
            written: written.clone(),
            span: name.span,
            op,
            literal: value.and_then(|node| literal(node).map(|value| (value, node.span))),
            scope,
        });
        let value = value.map(|node| match op {
            WriteOp::AppendText => self.value(&as_text(node), scope),
            _ => self.value(node, scope),
        });
        Some(NodeKind::single_task(Action::Write(VariableUpdate::new(Level::Run, written, op, value))))
    }

    /// Gives every write the variable's one spelling: the declared one, else that of the first write. Expressions find
    /// a variable in any letter case.
    pub(crate) fn unify_variable_names(&mut self) {
        let mut spellings: BTreeMap<&str, Arc<str>> = BTreeMap::new();
        for write in &self.writes {
            spellings.entry(&write.name).or_insert_with(|| write.written.as_str().into());
        }
        spellings
            .extend(self.variables.iter().map(|(lower, variable)| (lower.as_str(), variable.name.as_str().into())));
        for node in &mut self.plan.nodes {
            let NodeKind::Pipeline(pipeline) = &mut node.kind else { continue };
            for task in &mut pipeline.tasks {
                if let Action::Write(write) = &mut task.action
                    && let Some(spelling) = spellings.get(write.name.to_lowercase().as_str())
                {
                    write.name = spelling.clone();
                }
            }
        }
    }

    /// Checks that a literal has the variable's kind; null is left to the engine.
    pub(crate) fn check_literal(&mut self, name: &str, kind: VariableKind, value: Option<Value>, span: Span) {
        let Some(value) = value else { return };
        if !kind_accepts(kind, &value) {
            let message = format!(
                "the variable `{name}` has the type {}, but the value is {}",
                kind_name(kind),
                describe_value(&value)
            );
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

/// Converts the result of an expression to text as the language does; the engine knows nothing of binary values.
fn as_text(node: &SyntaxNode) -> SyntaxNode {
    match &node.kind {
        SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
            SyntaxNode::new(node.span, SyntaxNodeKind::Str(text.wrap("@string(", 1, ")")))
        }
        _ => node.clone(),
    }
}

/// Labels the tasks of one action; a single task gets no label.
fn label_tasks(mut tasks: Vec<Task>) -> Option<Pipeline> {
    if tasks.len() > 1 {
        for task in &mut tasks {
            if let Action::Write(write) = &task.action {
                task.label = write.name.clone();
            }
        }
    }
    (!tasks.is_empty()).then_some(Pipeline { tasks })
}

/// Returns the value of a node, or `None` if it is an expression. Expressions inside arrays and objects stay text,
/// since only the kind of the value is checked.
fn literal(node: &SyntaxNode) -> Option<Value> {
    match &node.kind {
        SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => None,
        _ => Some(to_value(node)),
    }
}

pub(crate) fn kind_accepts(kind: VariableKind, value: &Value) -> bool {
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
        VariableKind::Any => "any",
        VariableKind::Boolean => "boolean",
        VariableKind::Integer => "integer",
        VariableKind::Float => "float",
        VariableKind::String => "string",
        VariableKind::Array => "array",
        VariableKind::Object => "object",
    }
}

pub(crate) fn describe_value(value: &Value) -> String {
    match value {
        Value::List(_) => "an array".to_owned(),
        Value::Map(_) => "an object".to_owned(),
        other => format!("{} ({other:?})", other.kind()),
    }
}
