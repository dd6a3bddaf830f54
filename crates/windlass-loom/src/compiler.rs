//! What the compiler knows while it walks the tree, and how expressions enter the plan.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use windlass_core::plan::{
    Ending, ExprId, ExpressionSource, Graph, Node as PlanNode, NodeId, NodeKind, OnFailure, Plan, SourceSpan,
    VariableKind, WriteOp,
};
use windlass_core::{Limits, Status};
use windlass_syntax::{Diagnostic, Diagnostics, Kind, Node, Source, Span, to_value};
use windlass_value::{CompileError, Mode, PathPart, Value};

use crate::expr::{self, Refers};
use crate::scopes::{Named, Place, ScopeId, Scopes};
use crate::{Options, codes};

pub(crate) struct Compiler<'a> {
    pub options: &'a Options,
    pub diagnostics: Diagnostics,
    pub plan: Plan,
    pub scopes: Scopes,
    /// Names that expressions use, checked when everything is known.
    pub uses: Vec<Use>,
    pub variables: BTreeMap<String, Variable>,
    pub writes: Vec<VariableWrite>,
    pub conditions: Vec<LoopCondition>,
    /// A whole workflow declares all its variables; a bare action gets them from the run's input.
    pub whole: bool,
    /// Parameters may be given outside of the file, as in a Logic Apps Standard project.
    pub outside_parameters: bool,
    /// The definition carries Azure's `$schema`, and with it Azure's default retry.
    pub azure: bool,
    pub actions: usize,
    /// How many of the plan's parameters the author declared; the others were taken in from expressions.
    pub declared_parameters: usize,
    /// The action that is being compiled.
    pub current: Option<NodeId>,
}

/// A name in an expression, and from where it is looked up.
pub(crate) struct Use {
    pub refers: Refers,
    pub name: String,
    pub span: Span,
    pub scope: ScopeId,
    /// The action that the expression belongs to; None for the workflow's outputs.
    pub node: Option<NodeId>,
}

pub(crate) struct Variable {
    pub name: String,
    pub kind: VariableKind,
    pub span: Span,
}

pub(crate) struct VariableWrite {
    /// In lower case.
    pub name: String,
    pub written: String,
    pub span: Span,
    pub op: WriteOp,
    /// The value, if it is a literal.
    pub literal: Option<(Value, Span)>,
    pub scope: ScopeId,
}

/// A condition loop, for the warning that its condition can never change.
pub(crate) struct LoopCondition {
    pub name: Arc<str>,
    pub source: Value,
    pub span: Span,
    pub body: ScopeId,
}

impl<'a> Compiler<'a> {
    pub fn new(source: &'a Source, options: &'a Options, diagnostics: Diagnostics) -> Compiler<'a> {
        Compiler {
            options,
            diagnostics,
            plan: Plan::new("workflow", "loom", source.text.clone()),
            scopes: Scopes::new(),
            uses: Vec::new(),
            variables: BTreeMap::new(),
            writes: Vec::new(),
            conditions: Vec::new(),
            whole: true,
            outside_parameters: false,
            azure: false,
            actions: 0,
            declared_parameters: 0,
            current: None,
        }
    }

    pub fn finish(self) -> (Plan, Diagnostics) {
        (self.plan, self.diagnostics)
    }

    pub fn limits(&self) -> &'a Limits {
        &self.options.limits
    }

    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(Diagnostic::error(code, span, message).hint(hint));
    }

    /// Takes a name in a scope; another action that has it already is a problem.
    pub fn register(&mut self, scope: ScopeId, name: &Arc<str>, span: Span) {
        let names = &mut self.scopes.get_mut(scope).names;
        let named = Named { name: name.clone(), span, node: None };
        if let Some(first) = names.insert(name.to_lowercase(), named) {
            let problem = Diagnostic::error(
                codes::DUPLICATE_ACTION,
                span,
                format!("there are two actions called `{name}` where each can see the other"),
            );
            self.push(problem.label(first.span, "the other").hint("give one of them another name"));
        }
    }

    /// Reserves a node's place before its children; its kind is filled in later.
    pub fn reserve(&mut self, name: impl Into<Arc<str>>, label: &str, place: &Place, span: Span) -> NodeId {
        let mut node = PlanNode::new(name, label, Some(place.parent), NodeKind::Graph(graph_of(Vec::new())));
        node.span = source_span(span);
        self.plan.add_node(node)
    }

    /// A node that people do not see: a body, a branch.
    pub fn reserve_hidden(&mut self, name: String, label: &str, parent: NodeId, span: Span) -> NodeId {
        let place = Place { parent, scope: crate::scopes::RUN, top: false };
        let id = self.reserve(name, label, &place, span);
        self.node(id).hidden = true;
        id
    }

    pub fn node(&mut self, id: NodeId) -> &mut PlanNode {
        &mut self.plan.nodes[id.0 as usize]
    }

    /// Adds an expression, reports what is wrong with it, and notes what it refers to.
    pub fn expression(&mut self, node: &Node, mode: Mode, scope: ScopeId) -> ExprId {
        let source = to_value(node);
        for error in expr::errors(&source, mode) {
            self.expression_error(node, error, mode);
        }
        for warning in expr::warnings(&source) {
            let span = locate(node, &warning.pointer, warning.range);
            let problem = Diagnostic::warning(codes::EXPRESSION_STYLE, span, warning.message);
            self.push(problem.maybe_hint(warning.hint));
        }
        for found in expr::references(&source) {
            let span = locate(node, &found.pointer, found.range);
            self.uses.push(Use { refers: found.refers, name: found.name, span, scope, node: self.current });
        }
        self.plan.add_expression(ExpressionSource {
            language: expr::LANGUAGE.into(),
            source,
            mode,
            span: source_span(node.span),
        })
    }

    pub fn value(&mut self, node: &Node, scope: ScopeId) -> ExprId {
        self.expression(node, Mode::Value, scope)
    }

    fn expression_error(&mut self, node: &Node, error: CompileError, mode: Mode) {
        let of_condition = mode != Mode::Value && error.message.contains("condition");
        let code = match (of_condition, error.message.contains("not supported")) {
            (_, true) => codes::NOT_SUPPORTED,
            (true, _) => codes::NOT_BOOLEAN,
            (false, _) => codes::BAD_EXPRESSION,
        };
        let span = locate(node, &error.pointer, error.range);
        self.push(Diagnostic::error(code, span, error.message).maybe_hint(error.hint));
    }
}

/// The graph of actions that all dialects of this family share: failures do not stop what does not depend on them.
pub(crate) fn graph_of(children: Vec<windlass_core::plan::Child>) -> Graph {
    Graph { children, in_flight: None, ending: Ending::Leaves, on_failure: OnFailure::Continue, unmet: Status::Skipped }
}

pub(crate) fn source_span(span: Span) -> SourceSpan {
    SourceSpan { start: span.start as u32, end: span.end as u32 }
}

/// The place of a range of a string somewhere below a node. A pointer may end at a key whose own text is meant.
fn locate(node: &Node, pointer: &[PathPart], range: Range<usize>) -> Span {
    let (mut at, mut key) = (node, None);
    for part in pointer {
        let found = match (part, &at.kind) {
            (PathPart::Key(name), Kind::Map(entries)) => {
                entries.iter().find(|(entry, _)| entry.text == **name).map(|(entry, below)| (Some(entry), below))
            }
            (PathPart::Index(index), Kind::List(items)) => items.get(*index).map(|below| (None, below)),
            _ => None,
        };
        let Some(step) = found else { break };
        (key, at) = step;
    }
    match (&at.kind, key) {
        (Kind::Str(text), _) if range.end <= text.text.len() => text.span_of(range, at.span),
        (_, Some(key)) => key.span,
        _ => at.span,
    }
}
