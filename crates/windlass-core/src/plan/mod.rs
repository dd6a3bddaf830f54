//! The plan: the compiled form of a definition. Immutable, addressed by its hash, the same for every dialect.
//!
//! A plan holds its expressions as source. [`Program`](crate::Program) is a plan with its expressions parsed.

mod graph;
mod looping;
mod mail;
mod net;
mod pipeline;
mod retry;
mod trigger;
mod wait;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{BlobHash, Duration, ExpressionMode, Value};

pub use graph::{
    Branch, BranchCase, BranchTest, Graph, GraphChild, GraphDependency, GraphFailurePolicy, GraphStatusRule, PickPolicy,
};
pub use looping::{
    Budget, CALLS, CollectMode, ExhaustedPolicy, IterationFailure, Loop, LoopCheck, LoopLimits, LoopSource, MONEY,
    RecordRetention, RecordingSpec, StallCheck, TIME, iteration_suffix,
};
pub use mail::{Mailbox, SendMail};
pub use net::{ArcTrigger, FAILED_KIND, FailureHandler, Join, Net, NetArc, NetEnd, Place, SurplusPolicy};
pub use pipeline::{
    Action, Directive, Effect, Pipeline, Task, TaskRule, ToolName, VariableKind, VariableUpdate, WriteOp,
};
pub use retry::{Backoff, Growth, Jitter, Retry, RetryWindow};
pub use trigger::Trigger;
pub use wait::{ChildRunCall, Wait};

use crate::{ErrorInfo, Limits, Status};

/// The version of a plan's encoding. It is raised when a program that does not know the new form would misread it.
pub const ENCODING_VERSION: u16 = 1;

/// The version of a plan's semantics. It is raised when the same plan would run differently, because a journal is
/// replayed with the semantics it was written with.
pub const SEMANTICS_VERSION: u16 = 1;

/// A node of the plan, by its index in [`Plan::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// An expression of the plan, by its index in [`Plan::expressions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ExprId(pub u32);

/// A byte range of the source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SourceSpan {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

/// A compiled definition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The version of its encoding; see [`ENCODING_VERSION`].
    pub encoding: u16,
    /// The version of its semantics; see [`SEMANTICS_VERSION`].
    pub semantics: u16,
    /// The name of the definition.
    pub name: Arc<str>,
    /// The name of the dialect.
    pub dialect: Arc<str>,
    /// The definition's text, so that a run can always show its source.
    pub source: Arc<str>,
    /// Parents before their children.
    pub nodes: Vec<Node>,
    /// The node that a run enters first.
    pub root: NodeId,
    /// All expressions, by [`ExprId`].
    pub expressions: Vec<ExpressionSource>,
    /// The inputs that the definition declares.
    pub parameters: Vec<Parameter>,
    /// The run's output, by name. None: the dialect declares no outputs, and the output is the root's.
    pub outputs: Option<Vec<(Arc<str>, ExprId)>>,
    /// The timeout of the whole run; counts only time in which the run is alive.
    pub timeout: Option<Duration>,
    /// The limits of its runs, fixed when the plan is stored: a configuration change must not affect a run that has
    /// already begun.
    pub limits: Option<Limits>,
    /// The triggers that may start a run, with the conditions under which they do; see [`admit`](crate::admit).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// Labels that the definition gives its runs, by name. They are evaluated when a run is created; see
    /// [`definition_labels`](crate::definition_labels).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(Arc<str>, ExprId)>,
    /// Metadata that the server needs and the reducer does not.
    pub metadata: Value,
    /// Definitions that its calls may name, by the hash of their plan: a run that has begun keeps using these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<(Arc<str>, BlobHash)>,
    /// The dialect's hints for the reducer's own errors, by error code. They replace the reducer's hints, which fit
    /// another dialect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<(Arc<str>, Arc<str>)>,
    /// The dialect's wording of the reducer's own errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_wordings: Vec<ErrorWording>,
    /// Records children that never began in a cancelled graph as cancelled; otherwise they have no outcome at all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub records_unstarted: bool,
    /// Redaction of the run's own input and output.
    #[serde(default, skip_serializing_if = "Redaction::is_none")]
    pub redaction: Redaction,
}

/// An expression before it is parsed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExpressionSource {
    /// The name of the expression language.
    pub language: Arc<str>,
    /// The source, in the form that the language expects: a text, or a structure with texts inside.
    pub source: Value,
    /// The way in which the source is read: as an expression or as a template.
    pub mode: ExpressionMode,
    /// The place in the definition; empty for an expression that the compiler generated.
    pub span: SourceSpan,
}

impl ExpressionSource {
    /// Returns the expression as the author wrote it. A language whose sources contain more than that stores it under
    /// its own name.
    pub fn as_written(&self) -> &Value {
        self.source.get(&self.language).unwrap_or(&self.source)
    }
}

/// An input that a definition declares.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parameter {
    /// The name under which callers supply it and expressions read it.
    pub name: Arc<str>,
    /// The type of value that is accepted.
    pub kind: VariableKind,
    /// The value if the caller supplies none. Without it and without `computed` the parameter is required.
    pub default: Option<Value>,
    /// The only values that are accepted; None accepts all of the kind.
    pub allowed: Option<Vec<Value>>,
    /// An object given as a value omits the properties that it does not change: it is merged over the default,
    /// recursively.
    #[serde(default, skip_serializing_if = "is_false")]
    pub merge: bool,
    /// The default, computed when the run starts, from the run's input and the preceding parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<ExprId>,
    /// The parameter holds a secret: the caller supplies a secret reference.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secure: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Parameter {
    /// Creates a required parameter.
    pub fn new(name: impl Into<Arc<str>>, kind: VariableKind) -> Parameter {
        Parameter { name: name.into(), kind, default: None, allowed: None, merge: false, computed: None, secure: false }
    }

    /// Returns true if an object given under this name is merged over the default object.
    pub fn merges_into(&self, name: &str) -> bool {
        self.merge && *self.name == *name && matches!(self.default, Some(Value::Map(_)))
    }
}

/// A node of the plan: a step, or a structure around steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Unique among the nodes that share a scope: the run's, or a loop body's.
    pub name: Arc<str>,
    /// The dialect's name of this kind of node: `http`, `until`, `compose`.
    pub label: Arc<str>,
    /// The node around it; None for the root.
    pub parent: Option<NodeId>,
    /// The work of the node.
    pub kind: NodeKind,
    /// The place in the definition.
    pub span: SourceSpan,
    /// The maximum duration of one entry of the node, and its status after that.
    pub timeout: Option<NodeTimeout>,
    /// Enters the node again when it fails. A single task has its retry on the task instead.
    pub retry: Option<Retry>,
    /// Replaces the output of the node's kind, on success and on failure; the expression sees the node's own outcome
    /// under its name.
    pub output: Option<ExprId>,
    /// Generated by the compiler: publishes no events and appears in no path and no output.
    pub hidden: bool,
    /// Opens a scope: its own variables ([`Level::Step`](windlass_value::Level::Step)) and outcomes of the nodes
    /// inside.
    #[serde(default, skip_serializing_if = "is_false")]
    pub scope: bool,
    /// The budget of everything inside it, shared by all entries that a retry makes. A loop's own budget is in its
    /// limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<Budget>,
    /// Sums up the resources that its jobs report and publishes them with its end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub meters_usage: bool,
    /// The node can receive mail, addressed by its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<Mailbox>,
    /// The mailbox that receives reports of its start and its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports_to: Option<Arc<str>>,
    /// As a child of a graph it does not delay the graph's end: when all other children have ended, it has this much
    /// time and is then cancelled. Its status does not count for the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_time: Option<Duration>,
    /// The parts that are redacted.
    #[serde(default, skip_serializing_if = "Redaction::is_none")]
    pub redaction: Redaction,
}

/// The parts of a node that are redacted in events and in every view of the run. Expressions still see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redaction {
    /// Redacts the evaluated inputs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inputs: bool,
    /// Redacts the output and the error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub outputs: bool,
}

impl Redaction {
    /// Returns true if nothing is redacted.
    pub fn is_none(&self) -> bool {
        *self == Redaction::default()
    }
}

/// The timeout of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeTimeout {
    /// The time after which it expires.
    pub after: Amount<Duration>,
    /// The status of the node when the timeout expires.
    pub status: Status,
}

/// The kinds of nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeKind {
    /// Tasks in sequence.
    Pipeline(Pipeline),
    /// Children that depend on each other.
    Graph(Graph),
    /// One of several nodes, selected by conditions.
    Branch(Branch),
    /// A node that is repeated.
    Loop(Box<Loop>),
    /// Places that exchange tokens.
    Net(Net),
    /// A wait for time, a signal or mail.
    Wait(Wait),
    /// A child run.
    Call(ChildRunCall),
}

/// The dialect's wording of an error of the reducer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorWording {
    /// The reducer's error code.
    pub reducer_code: Arc<str>,
    /// The dialect's error code.
    pub code: Arc<str>,
    /// With `{name}`, `{duration}`, `{ended}`, `{got}` where the error has them. None: the reducer's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

/// A fixed number or duration, or one that is computed when it is needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Amount<T> {
    /// The value itself.
    Fixed(T),
    /// Durations: ISO 8601 text, or a number of seconds.
    Computed(ExprId),
}

impl Plan {
    /// Returns the required tools that are not available. For a computed name, one available tool of those it may name
    /// is enough.
    pub fn missing_tools(&self, is_available: impl Fn(&str) -> bool) -> Vec<&str> {
        let tasks = self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Pipeline(pipeline) => Some(&pipeline.tasks),
            _ => None,
        });
        let tools = tasks.flatten().filter_map(|task| match &task.action {
            Action::Effect(effect) => Some(&effect.tool),
            _ => None,
        });
        tools
            .flat_map(|tool| match tool {
                ToolName::Fixed(name) => std::slice::from_ref(name),
                ToolName::Computed { among, .. } if among.iter().any(|name| is_available(name)) => &[],
                ToolName::Computed { among, .. } => among,
            })
            .map(|name| &**name)
            .filter(|name| !is_available(name))
            .collect()
    }

    /// Returns the node with this id, which must belong to the plan.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Returns the error with the plan's wording, if it has one for this code, and with the plan's hint. `{name}` in a
    /// message is replaced by the value of that name.
    pub(crate) fn apply_wording(&self, error: ErrorInfo, values: &[(&str, &str)]) -> ErrorInfo {
        let Some(wording) = self.error_wordings.iter().find(|wording| wording.reducer_code == error.code) else {
            return error;
        };
        let fill = |text: &Arc<str>| {
            let filled = |text: String, (name, value): &(&str, &str)| text.replace(&format!("{{{name}}}"), value);
            values.iter().fold(text.to_string(), filled)
        };
        let message = wording.message.as_ref().map_or(error.message, |text| fill(text).into());
        self.apply_hint(ErrorInfo { code: wording.code.clone(), message, ..error })
    }

    /// Returns the error with the plan's hint for its code, if there is one.
    pub(crate) fn apply_hint(&self, error: ErrorInfo) -> ErrorInfo {
        let own = self.hints.iter().find(|(code, _)| *code == error.code).map(|(_, hint)| hint.clone());
        ErrorInfo { hint: own.or(error.hint), ..error }
    }

    /// Creates an empty plan of a dialect, to be filled by its compiler.
    pub fn new(name: impl Into<Arc<str>>, dialect: impl Into<Arc<str>>, source: impl Into<Arc<str>>) -> Plan {
        Plan {
            encoding: ENCODING_VERSION,
            semantics: SEMANTICS_VERSION,
            name: name.into(),
            dialect: dialect.into(),
            source: source.into(),
            nodes: Vec::new(),
            root: NodeId(0),
            expressions: Vec::new(),
            parameters: Vec::new(),
            outputs: None,
            timeout: None,
            limits: None,
            triggers: Vec::new(),
            labels: Vec::new(),
            metadata: Value::Null,
            pins: Vec::new(),
            hints: Vec::new(),
            error_wordings: Vec::new(),
            records_unstarted: false,
            redaction: Redaction::default(),
        }
    }

    /// Appends a node. A compiler reserves the parent first and fills in its kind when the children are known.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Appends an expression.
    pub fn add_expression(&mut self, expression: ExpressionSource) -> ExprId {
        self.expressions.push(expression);
        ExprId(self.expressions.len() as u32 - 1)
    }
}

impl Node {
    /// Creates a node with default options and without a place in the definition.
    pub fn new(name: impl Into<Arc<str>>, label: impl Into<Arc<str>>, parent: Option<NodeId>, kind: NodeKind) -> Node {
        Node {
            name: name.into(),
            label: label.into(),
            parent,
            kind,
            span: SourceSpan::default(),
            timeout: None,
            retry: None,
            output: None,
            hidden: false,
            scope: false,
            budget: Vec::new(),
            meters_usage: false,
            mailbox: None,
            reports_to: None,
            linger_time: None,
            redaction: Redaction::default(),
        }
    }
}

impl NodeKind {
    /// Returns a pipeline with one task that only evaluates: the simplest node there is.
    pub fn evaluate(expression: ExprId) -> NodeKind {
        NodeKind::single_task(Action::Evaluate(expression))
    }

    /// Returns a pipeline with one task.
    pub fn single_task(action: Action) -> NodeKind {
        NodeKind::Pipeline(Pipeline { tasks: vec![Task::new(action)] })
    }

    /// Returns the nodes directly inside this one, in declaration order.
    pub fn children(&self) -> Vec<NodeId> {
        match self {
            NodeKind::Wait(_) | NodeKind::Call(_) => Vec::new(),
            NodeKind::Pipeline(pipeline) => pipeline.tasks.iter().filter_map(|task| task.action.node()).collect(),
            NodeKind::Graph(graph) => graph.children.iter().map(|child| child.node).collect(),
            NodeKind::Branch(branch) => branch.cases.iter().map(|case| case.node).chain(branch.otherwise).collect(),
            NodeKind::Loop(looping) => std::iter::once(looping.body).chain(looping.judge).collect(),
            NodeKind::Net(net) => net.places.iter().map(|place| place.body).collect(),
        }
    }
}
