//! The state of the compiler, and the compilation of expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::plan::{
    ExprId, Graph, GraphFailurePolicy, GraphStatusRule, Node as PlanNode, NodeId, NodeKind, Plan, VariableKind, WriteOp,
};
use windlass_core::{Limits, Status};
use windlass_dialect::{DiagnosticSink, add_expression, source_span};
use windlass_syntax::{Diagnostic, Diagnostics, SourceText, Span, SyntaxNode, span_at_pointer, to_value};
use windlass_value::{CompileError, ExpressionMode, Value};

use crate::expr::{self, ExprLanguage, Languages, ReferenceKind};
use crate::scopes::{ActionPosition, NameScopeId, NamedAction, Scopes};
use crate::statics::StaticResult;
use crate::{LoomOptions, codes};

pub(crate) struct LoomCompiler<'a> {
    pub options: &'a LoomOptions,
    pub diagnostics: Diagnostics,
    pub plan: Plan,
    pub scopes: Scopes,
    languages: Languages,
    /// Names used in expressions, checked after the whole file is read.
    pub uses: Vec<NameUse>,
    /// Some expression computes the name of the action that it reads.
    pub any_action_read: bool,
    pub variables: BTreeMap<String, LoomVariable>,
    pub writes: Vec<VariableWrite>,
    pub conditions: Vec<LoopCondition>,
    /// A whole workflow declares all its variables; a bare action gets them from the run's input.
    pub is_whole_workflow: bool,
    /// Parameters may be provided outside of the file, as in a Logic Apps Standard project.
    pub outside_parameters: bool,
    /// The definition carries Azure's `$schema`, and with it Azure's default retry.
    pub azure: bool,
    pub actions: usize,
    /// The number of the plan's parameters that the author declared; the others were derived from expressions.
    pub declared_parameters: usize,
    /// The action that is being compiled.
    pub current: Option<NodeId>,
    /// Static results by name, whether used or not.
    pub static_results: BTreeMap<String, StaticResult>,
    /// Actions whose static result has the status skipped.
    pub skipped: BTreeSet<NodeId>,
    /// Set if no trigger has a caller that could receive a `response`: the type of the first trigger.
    pub trigger_without_caller: Option<&'static str>,
    /// Definitions that are called by a literal name, each once.
    pub calls: Vec<(String, Span)>,
    /// Actions that only compute a value.
    pub pure: Vec<NodeId>,
}

/// A name in an expression, and the scope in which it is looked up.
pub(crate) struct NameUse {
    pub kind: ReferenceKind,
    pub name: String,
    pub span: Span,
    pub scope: NameScopeId,
    /// The action that contains the expression; `None` for the workflow's outputs.
    pub node: Option<NodeId>,
    /// Within an operation on a list: `item` is its element.
    pub element: bool,
}

pub(crate) struct LoomVariable {
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
    pub scope: NameScopeId,
}

/// A condition loop, for the warning that its condition can never change.
pub(crate) struct LoopCondition {
    pub name: Arc<str>,
    pub source: Value,
    pub span: Span,
    pub body: NameScopeId,
}

impl DiagnosticSink for LoomCompiler<'_> {
    fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.diagnostics
    }
}

impl<'a> LoomCompiler<'a> {
    pub(crate) fn new(source: &'a SourceText, options: &'a LoomOptions, diagnostics: Diagnostics) -> LoomCompiler<'a> {
        LoomCompiler {
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
            is_whole_workflow: true,
            outside_parameters: false,
            azure: false,
            actions: 0,
            declared_parameters: 0,
            current: None,
            static_results: BTreeMap::new(),
            skipped: BTreeSet::new(),
            trigger_without_caller: None,
            calls: Vec::new(),
            pure: Vec::new(),
        }
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        &self.options.limits
    }

    /// Registers a name in a scope; a duplicate name is a problem.
    pub(crate) fn register(&mut self, scope: NameScopeId, name: &Arc<str>, span: Span) {
        let names = &mut self.scopes.get_mut(scope).names;
        let named = NamedAction { name: name.clone(), span, node: None };
        if let Some(first) = names.insert(name.to_lowercase(), named) {
            let problem = Diagnostic::error(
                codes::DUPLICATE_ACTION,
                span,
                format!("two actions in overlapping scopes are called `{name}`"),
            );
            self.push(problem.with_label(first.span, "the other").with_hint("give one of them another name"));
        }
    }

    /// Adds a node before its children; its kind is filled in later.
    pub(crate) fn reserve(
        &mut self,
        name: impl Into<Arc<str>>,
        label: &str,
        position: &ActionPosition,
        span: Span,
    ) -> NodeId {
        let mut node = PlanNode::new(name, label, Some(position.parent), NodeKind::Graph(new_graph(Vec::new())));
        node.span = source_span(span);
        self.plan.add_node(node)
    }

    /// Adds a hidden node: a body, a branch.
    pub(crate) fn reserve_hidden(&mut self, name: String, label: &str, parent: NodeId, span: Span) -> NodeId {
        let position = ActionPosition { parent, scope: crate::scopes::RUN, top: false };
        let id = self.reserve(name, label, &position, span);
        self.node(id).hidden = true;
        id
    }

    pub(crate) fn node(&mut self, id: NodeId) -> &mut PlanNode {
        &mut self.plan.nodes[id.0 as usize]
    }

    /// Adds an expression, reports its problems and records its references.
    pub(crate) fn expression(&mut self, node: &SyntaxNode, mode: ExpressionMode, scope: NameScopeId) -> ExprId {
        self.expression_in(ExprLanguage::Wdl, node, mode, scope)
    }

    pub(crate) fn expression_in(
        &mut self,
        language: ExprLanguage,
        node: &SyntaxNode,
        mode: ExpressionMode,
        scope: NameScopeId,
    ) -> ExprId {
        let source = self.check_expression(language, node, mode, scope);
        self.add_expression(language, source, mode, node.span)
    }

    /// Adds an expression without checking it.
    pub(crate) fn add_expression(
        &mut self,
        language: ExprLanguage,
        source: Value,
        mode: ExpressionMode,
        span: Span,
    ) -> ExprId {
        add_expression(&mut self.plan, language.name(), source, mode, span)
    }

    /// Reports the problems and records the references of an expression without adding it to the plan.
    pub(crate) fn check_expression(
        &mut self,
        language: ExprLanguage,
        node: &SyntaxNode,
        mode: ExpressionMode,
        scope: NameScopeId,
    ) -> Value {
        let source = to_value(node);
        for error in self.languages.errors(language, &source, mode) {
            self.expression_error(node, error, mode);
        }
        for warning in expr::warnings(&source) {
            let span = span_at_pointer(node, &warning.pointer, warning.range);
            let problem = Diagnostic::warning(codes::EXPRESSION_STYLE, span, warning.message);
            self.push(problem.with_optional_hint(warning.hint));
        }
        let found = expr::references(&source);
        self.any_action_read |= found.any_action;
        let node_of = self.current;
        for found in found.list {
            let element = language.has_element(&found.pointer);
            let span = span_at_pointer(node, &found.pointer, found.range);
            self.uses.push(NameUse { kind: found.kind, name: found.name, span, scope, node: node_of, element });
        }
        source
    }

    pub(crate) fn value(&mut self, node: &SyntaxNode, scope: NameScopeId) -> ExprId {
        self.expression(node, ExpressionMode::Value, scope)
    }

    fn expression_error(&mut self, node: &SyntaxNode, error: CompileError, mode: ExpressionMode) {
        let of_condition = mode != ExpressionMode::Value && error.message.contains("condition");
        let code = match (of_condition, error.message.contains("not supported")) {
            (_, true) => codes::NOT_SUPPORTED,
            (true, _) => codes::NOT_BOOLEAN,
            (false, _) => codes::BAD_EXPRESSION,
        };
        let span = span_at_pointer(node, &error.pointer, error.range);
        self.push(Diagnostic::error(code, span, error.message).with_optional_hint(error.hint));
    }
}

/// Returns a graph of actions with the settings that all of Loom's blocks share: a failure does not stop actions that
/// do not depend on it.
pub(crate) fn new_graph(children: Vec<windlass_core::plan::GraphChild>) -> Graph {
    Graph {
        children,
        max_concurrency: None,
        ending: GraphStatusRule::Leaves,
        on_failure: GraphFailurePolicy::Continue,
        unmet: Status::Skipped,
        pick: Default::default(),
        skips_transitively: false,
    }
}
