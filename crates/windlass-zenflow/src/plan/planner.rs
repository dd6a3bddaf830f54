//! The planner: builds nodes and expressions, and tracks the context of steps in a document.

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
use crate::document::{CallInput, CelSource, WorkflowDocument};

pub(super) struct Planner<'a> {
    pub plan: Plan,
    pub options: &'a ZenflowOptions,
    pub diagnostics: &'a mut Diagnostics,
    /// A coordinator reads the messages of agents.
    pub coordinated: bool,
    /// The include step of the main file that is being compiled: included parts have no location in that file.
    pub include_span: Option<Span>,
    /// The called definitions that are not registered, each once.
    pub calls: UnregisteredCalls,
}

/// The context of steps.
#[derive(Clone)]
pub(super) struct StepContext<'d> {
    pub document: &'d WorkflowDocument,
    /// The number of enclosing nodes that have opened a scope.
    pub depth: usize,
    /// The prompt context of steps without dependencies.
    pub context: PromptContext,
    pub enclosing_loop: Option<EnclosingStepLoop>,
    /// There is a budget of tokens or money, so that calls reserve what they may use.
    pub counted: bool,
    /// The maximum tokens of one reply that a budget sets.
    pub reply: Option<u64>,
}

#[derive(Clone, Default)]
pub(super) struct PromptContext {
    /// The heading above the outputs of other steps. `None`: the usual one.
    pub heading: Option<&'static str>,
    pub dependencies: Vec<DependencyRef>,
    /// The prompt includes the output of the previous iteration of the enclosing loop.
    pub previous: bool,
}

/// A step whose output is part of the prompt.
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

    /// Returns the location in the main file.
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

    /// Adds a node whose kind is set when its content is known.
    pub(crate) fn add_node(&mut self, name: &str, label: &str, parent: Option<NodeId>, span: Span) -> NodeId {
        let empty = NodeKind::Pipeline(Pipeline { tasks: Vec::new() });
        let span = self.span(span);
        self.plan.add_node(Node { span, ..Node::new(name, label, parent, empty) })
    }

    /// Adds a node that the author did not write.
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

    /// Returns the maximum lengths of prompt texts.
    pub(crate) fn caps(&self) -> Value {
        let limits = &self.options.limits;
        Value::object([
            ("dependency", Value::from(limits.max_prompt_dependency_bytes)),
            ("prompt", Value::from(limits.max_prompt_bytes)),
            ("whole", Value::from(limits.max_whole_prompt_bytes)),
        ])
    }

    /// Adds an expression of the language `agent`.
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

    /// Adds a call of a function without settings.
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

    /// Adds a value that is written as it is, or computed by an expression.
    pub(crate) fn call_input(&mut self, input: &CallInput) -> ExprId {
        match input {
            CallInput::Literal(input) => self.value(input.value.clone(), input.span),
            CallInput::Cel(cel) => self.cel(cel, ExpressionMode::Value),
        }
    }

    fn expression(&mut self, language: &str, source: Value, mode: ExpressionMode, span: Span) -> ExprId {
        add_expression(&mut self.plan, language, source, mode, self.include_span.unwrap_or(span))
    }

    /// Returns a directive that fails a step with a specific error.
    pub(crate) fn failure(&mut self, code: &str, message: String, span: Span) -> Directive {
        let error = Value::object([("code", Value::from(code)), ("message", Value::from(message))]);
        Directive::Fail { status: Status::Failed, error: Some(self.value(error, span)) }
    }
}

/// Writes a variable of the nearest enclosing node with a scope.
pub(super) fn set_variable(name: &str, op: WriteOp, value: ExprId) -> VariableUpdate {
    VariableUpdate { ignores_input: true, hidden: true, ..VariableUpdate::new(Level::Step, name, op, Some(value)) }
}

/// Creates a task that publishes no events.
pub(super) fn hidden_task(label: &str, action: Action) -> Task {
    Task { label: label.into(), hidden: true, ..Task::new(action) }
}

pub(super) fn rule(when: Option<ExprId>, directive: Directive, writes: Vec<VariableUpdate>) -> TaskRule {
    TaskRule { when, writes, ..TaskRule::new(directive) }
}

/// Returns a timeout that fails the node.
pub(super) fn step_timeout(after: Duration) -> Option<NodeTimeout> {
    (after > Duration::ZERO).then_some(NodeTimeout { after: Amount::Fixed(after), status: Status::Failed })
}

/// Returns a retry policy of a whole node, without delays.
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
