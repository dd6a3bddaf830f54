//! What the compiler knows while it walks the tree, and how expressions enter the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::plan::{
    Ending, ExprId, Graph, Node as PlanNode, NodeId, NodeKind, OnFailure, Plan, VariableKind, WriteOp,
};
use windlass_core::{Limits, Status};
use windlass_dialect::{Findings, add_expression, source_span};
use windlass_syntax::{Diagnostic, Diagnostics, Node, Source, Span, locate, to_value};
use windlass_value::{CompileError, Mode, Value};

use crate::expr::{self, Languages, Refers, Tongue};
use crate::scopes::{Named, Place, ScopeId, Scopes};
use crate::statics::StaticResult;
use crate::{Options, codes};

pub(crate) struct Compiler<'a> {
    pub options: &'a Options,
    pub diagnostics: Diagnostics,
    pub plan: Plan,
    pub scopes: Scopes,
    languages: Languages,
    /// Names that expressions use, checked when everything is known.
    pub uses: Vec<Use>,
    /// Some expression computes the name of the action it reads.
    pub any_action_read: bool,
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
    /// By name; whether it is used.
    pub static_results: BTreeMap<String, StaticResult>,
    /// Actions whose static result is to be skipped.
    pub skipped: BTreeSet<NodeId>,
    /// Why no `response` can answer anybody: the triggers are of this kind only.
    pub nobody_to_answer: Option<&'static str>,
    /// Definitions that are called by a literal name, each once.
    pub calls: Vec<(String, Span)>,
    /// Actions that only give a value.
    pub pure: Vec<NodeId>,
}

/// A name in an expression, and from where it is looked up.
pub(crate) struct Use {
    pub refers: Refers,
    pub name: String,
    pub span: Span,
    pub scope: ScopeId,
    /// The action that the expression belongs to; None for the workflow's outputs.
    pub node: Option<NodeId>,
    /// Within an operation on a list: `item` is its element.
    pub element: bool,
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

impl Findings for Compiler<'_> {
    fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.diagnostics
    }
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(source: &'a Source, options: &'a Options, diagnostics: Diagnostics) -> Compiler<'a> {
        Compiler {
            options,
            diagnostics,
            plan: Plan::new("workflow", "loom", source.text.clone()),
            scopes: Scopes::new(),
            languages: Languages::new(),
            uses: Vec::new(),
            any_action_read: false,
            variables: BTreeMap::new(),
            writes: Vec::new(),
            conditions: Vec::new(),
            whole: true,
            outside_parameters: false,
            azure: false,
            actions: 0,
            declared_parameters: 0,
            current: None,
            static_results: BTreeMap::new(),
            skipped: BTreeSet::new(),
            nobody_to_answer: None,
            calls: Vec::new(),
            pure: Vec::new(),
        }
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        &self.options.limits
    }

    /// Takes a name in a scope; another action that has it already is a problem.
    pub(crate) fn register(&mut self, scope: ScopeId, name: &Arc<str>, span: Span) {
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
    pub(crate) fn reserve(&mut self, name: impl Into<Arc<str>>, label: &str, place: &Place, span: Span) -> NodeId {
        let mut node = PlanNode::new(name, label, Some(place.parent), NodeKind::Graph(graph_of(Vec::new())));
        node.span = source_span(span);
        self.plan.add_node(node)
    }

    /// A node that people do not see: a body, a branch.
    pub(crate) fn reserve_hidden(&mut self, name: String, label: &str, parent: NodeId, span: Span) -> NodeId {
        let place = Place { parent, scope: crate::scopes::RUN, top: false };
        let id = self.reserve(name, label, &place, span);
        self.node(id).hidden = true;
        id
    }

    pub(crate) fn node(&mut self, id: NodeId) -> &mut PlanNode {
        &mut self.plan.nodes[id.0 as usize]
    }

    /// Adds an expression, reports what is wrong with it, and notes what it refers to.
    pub(crate) fn expression(&mut self, node: &Node, mode: Mode, scope: ScopeId) -> ExprId {
        self.expression_in(Tongue::Wdl, node, mode, scope)
    }

    pub(crate) fn expression_in(&mut self, tongue: Tongue, node: &Node, mode: Mode, scope: ScopeId) -> ExprId {
        let source = self.look_at(tongue, node, mode, scope);
        self.add_expression(tongue, source, mode, node.span)
    }

    /// An expression that is not looked at again.
    pub(crate) fn add_expression(&mut self, tongue: Tongue, source: Value, mode: Mode, span: Span) -> ExprId {
        add_expression(&mut self.plan, tongue.name(), source, mode, span)
    }

    /// The problems and references of something that does not become part of the plan.
    pub(crate) fn look_at(&mut self, tongue: Tongue, node: &Node, mode: Mode, scope: ScopeId) -> Value {
        let source = to_value(node);
        for error in self.languages.errors(tongue, &source, mode) {
            self.expression_error(node, error, mode);
        }
        for warning in expr::warnings(&source) {
            let span = locate(node, &warning.pointer, warning.range);
            let problem = Diagnostic::warning(codes::EXPRESSION_STYLE, span, warning.message);
            self.push(problem.maybe_hint(warning.hint));
        }
        let found = expr::references(&source);
        self.any_action_read |= found.any_action;
        let node_of = self.current;
        for found in found.list {
            let element = tongue.has_element(&found.pointer);
            let span = locate(node, &found.pointer, found.range);
            self.uses.push(Use { refers: found.refers, name: found.name, span, scope, node: node_of, element });
        }
        source
    }

    pub(crate) fn value(&mut self, node: &Node, scope: ScopeId) -> ExprId {
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
    Graph {
        children,
        max_concurrency: None,
        ending: Ending::Leaves,
        on_failure: OnFailure::Continue,
        unmet: Status::Skipped,
        pick: Default::default(),
        spreads: false,
    }
}
