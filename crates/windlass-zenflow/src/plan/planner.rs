//! What makes a plan: nodes, expressions, and where in a document something stands.

use std::path::Path;
use std::sync::Arc;

use windlass_core::Status;
use windlass_core::plan::{
    Action, Amount, Backoff, Directive, ExprId, Growth, Jitter, Node, NodeId, NodeKind, NodeTimeout, Pipeline, Plan,
    Retry, SourceSpan, Task, TaskRule, VariableUpdate, WriteOp,
};
use windlass_dialect::{add_expression, source_span};
use windlass_syntax::{Diagnostic, Diagnostics, Span};
use windlass_value::{Duration, ExpressionMode, Level, Map, Value};

use super::UnregisteredCalls;
use crate::ZenflowOptions;
use crate::document::{CelSource, WorkflowDocument};

pub(super) struct Planner<'a> {
    pub plan: Plan,
    pub options: &'a ZenflowOptions,
    pub diagnostics: &'a mut Diagnostics,
    /// There is somebody who reads what agents write.
    pub coordinated: bool,
    /// The include step of the document's own file that is being read: what it includes has no place in that file.
    pub include_span: Option<Span>,
    /// Definitions that are called and not registered, each once.
    pub calls: UnregisteredCalls,
}

/// Where steps stand.
#[derive(Clone)]
pub(super) struct StepContext<'d> {
    pub document: &'d WorkflowDocument,
    /// How many nodes around them have opened a scope.
    pub depth: usize,
    /// What steps that depend on nothing are told.
    pub context: PromptContext,
    pub enclosing_loop: Option<EnclosingStepLoop>,
    /// Tokens that one reply may have, where tokens or money are counted: what is set aside for a call must be enough.
    pub reply: Option<u64>,
}

#[derive(Clone, Default)]
pub(super) struct PromptContext {
    /// None is the usual one.
    pub heading: Option<&'static str>,
    pub dependencies: Vec<DependencyRef>,
    /// What the previous turn of the loop around gave is told as well.
    pub previous: bool,
}

/// A step whose outcome is told.
#[derive(Clone)]
pub(super) struct DependencyRef {
    pub id: String,
    pub depth: usize,
    pub whole: bool,
}

/// The innermost loop.
#[derive(Clone)]
pub(super) struct EnclosingStepLoop {
    pub name: String,
    pub items: bool,
    pub steps: Vec<String>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        document: &WorkflowDocument,
        options: &'a ZenflowOptions,
        diagnostics: &'a mut Diagnostics,
    ) -> Planner<'a> {
        let plan = Plan::new(document.name.as_str(), "zenflow", document.source.text.clone());
        Planner { plan, options, diagnostics, coordinated: false, include_span: None, calls: Vec::new() }
    }

    /// The place in the document's own file.
    pub(crate) fn span(&self, span: Span) -> SourceSpan {
        source_span(self.include_span.unwrap_or(span))
    }

    pub(crate) fn problem(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let span = self.include_span.unwrap_or(span);
        self.diagnostics.push(Diagnostic::error(code, span, message).with_hint(hint));
    }

    pub(crate) fn warning(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        let span = self.include_span.unwrap_or(span);
        self.diagnostics.push(Diagnostic::warning(code, span, message));
    }

    /// A node whose kind is filled in when what is inside it is known.
    pub(crate) fn add_node(&mut self, name: &str, label: &str, parent: Option<NodeId>, span: Span) -> NodeId {
        let empty = NodeKind::Pipeline(Pipeline { tasks: Vec::new() });
        let span = self.span(span);
        self.plan.add_node(Node { span, ..Node::new(name, label, parent, empty) })
    }

    /// A node that the author did not write.
    pub(crate) fn add_hidden_node(&mut self, name: &str, label: &str, parent: Option<NodeId>, span: Span) -> NodeId {
        let id = self.add_node(name, label, parent, span);
        self.get(id).hidden = true;
        id
    }

    pub(crate) fn get(&mut self, id: NodeId) -> &mut Node {
        &mut self.plan.nodes[id.0 as usize]
    }

    pub(crate) fn pipeline(&mut self, id: NodeId, tasks: Vec<Task>) {
        self.get(id).kind = NodeKind::Pipeline(Pipeline { tasks });
    }

    /// How long the texts of prompts may be.
    pub(crate) fn caps(&self) -> Value {
        let limits = &self.options.limits;
        Value::object([
            ("dependency", Value::from(limits.max_prompt_dependency_bytes)),
            ("prompt", Value::from(limits.max_prompt_bytes)),
            ("whole", Value::from(limits.max_whole_prompt_bytes)),
        ])
    }

    /// An expression of the language of agents.
    pub(crate) fn agent_expression<K: Into<Arc<str>>>(
        &mut self,
        function: &str,
        settings: impl IntoIterator<Item = (K, Value)>,
        mode: ExpressionMode,
        span: Span,
    ) -> ExprId {
        let mut source = Map::new();
        source.insert("agent", function);
        for (name, value) in settings {
            source.insert(name, value);
        }
        self.expression("agent", Value::map(source), mode, span)
    }

    /// A function without settings.
    pub(crate) fn agent_function(&mut self, function: &str, span: Span) -> ExprId {
        self.agent_expression::<&str>(function, [], ExpressionMode::Value, span)
    }

    pub(crate) fn condition<K: Into<Arc<str>>>(
        &mut self,
        function: &str,
        settings: impl IntoIterator<Item = (K, Value)>,
        span: Span,
    ) -> ExprId {
        self.agent_expression(function, settings, ExpressionMode::Condition, span)
    }

    pub(crate) fn value(&mut self, value: Value, span: Span) -> ExprId {
        self.agent_expression("value", [("value", value)], ExpressionMode::Value, span)
    }

    pub(crate) fn cel(&mut self, cel: &CelSource, mode: ExpressionMode) -> ExprId {
        self.expression("cel", cel.source(), mode, cel.span)
    }

    fn expression(&mut self, language: &str, source: Value, mode: ExpressionMode, span: Span) -> ExprId {
        add_expression(&mut self.plan, language, source, mode, self.include_span.unwrap_or(span))
    }

    /// A rule that fails a step for a reason of its own.
    pub(crate) fn failure(&mut self, code: &str, message: String, span: Span) -> Directive {
        let error = Value::object([("code", Value::from(code)), ("message", Value::from(message))]);
        Directive::Fail { status: Status::Failed, error: Some(self.value(error, span)) }
    }
}

/// A change of a variable of the node around that has a scope.
pub(super) fn set_variable(name: &str, op: WriteOp, value: ExprId) -> VariableUpdate {
    VariableUpdate { ignores_input: true, hidden: true, ..VariableUpdate::new(Level::Step, name, op, Some(value)) }
}

/// A task that nobody is told of.
pub(super) fn hidden_task(label: &str, action: Action) -> Task {
    Task { label: label.into(), hidden: true, ..Task::new(action) }
}

pub(super) fn rule(when: Option<ExprId>, directive: Directive, writes: Vec<VariableUpdate>) -> TaskRule {
    TaskRule { when, writes, ..TaskRule::new(directive) }
}

/// A node that takes longer has failed.
pub(super) fn step_timeout(after: Duration) -> Option<NodeTimeout> {
    (after > Duration::ZERO).then_some(NodeTimeout { after: Amount::Fixed(after), status: Status::Failed })
}

/// Tries of a whole node, one right after the other.
pub(super) fn step_retry(retries: u64) -> Option<Retry> {
    let backoff = Backoff {
        interval: Amount::Fixed(Duration::ZERO),
        growth: Growth::Fixed,
        min: None,
        max: None,
        jitter: Jitter::None,
    };
    let attempts = Amount::Fixed(retries.saturating_add(1));
    (retries > 0).then_some(Retry { attempts, backoff, on: Vec::new(), window: None })
}

pub(super) fn text_list<'t>(texts: impl IntoIterator<Item = &'t String>) -> Value {
    Value::list(texts.into_iter().map(|text| Value::from(text.as_str())).collect())
}

pub(super) fn path_value(path: Option<&Path>) -> Value {
    path.map_or(Value::Null, |path| Value::from(path.to_string_lossy().into_owned()))
}
