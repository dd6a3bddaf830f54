//! An ordered list of labelled tasks with a program counter. A lone action is a pipeline of one task.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, Level};

use super::{Amount, ExprId, NodeId, Retry, SendMail};
use crate::Status;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pipeline {
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Empty for the only task of a lone action, whose expressions then see none of a task's names (`_task`, `_prev`, …).
    pub label: Arc<str>,
    pub action: Action,
    /// Looked at in order when the task has ended; the first that matches decides. None matches: success goes on,
    /// an error fails the pipeline.
    pub rules: Vec<TaskRule>,
    /// Looked at before the rules when the task has failed: they see an outcome only when these tries are spent.
    pub retry: Option<Retry>,
    pub timeout: Option<Amount<Duration>>,
    /// Made by the front: no events of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Task {
    pub fn new(action: Action) -> Task {
        Task { label: "".into(), action, rules: Vec::new(), retry: None, timeout: None, hidden: false }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    /// Gives the value of an expression. Runs inside the reducer.
    Evaluate(ExprId),
    /// Changes a variable. Runs inside the reducer.
    Write(VariableUpdate),
    /// Ends the whole run. Runs inside the reducer.
    End { status: Status, error: Option<ExprId> },
    /// Work in the world: a job for a worker.
    Effect(Effect),
    /// Answers whoever started the run, once; the run goes on. Runs inside the reducer.
    Reply {
        value: ExprId,
        /// A condition: whether this is a good answer. None is yes.
        good: Option<ExprId>,
    },
    /// Enters a node inside the pipeline. Its output and error are the task's; entered again, it is another entry with
    /// effects of its own.
    Node(NodeId),
    /// Sends mail to a node of the run. Runs inside the reducer.
    Post(SendMail),
    /// Publishes an event of this kind with an object as its data. Runs inside the reducer.
    PublishEvent { kind: Arc<str>, data: ExprId },
}

impl Action {
    /// The node that it enters, if it is one that does.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Action::Node(node) => Some(*node),
            Action::Evaluate(_)
            | Action::Write(_)
            | Action::End { .. }
            | Action::Effect(_)
            | Action::Reply { .. }
            | Action::Post(_)
            | Action::PublishEvent { .. } => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Effect {
    pub tool: ToolName,
    pub input: ExprId,
    /// Every try, and everyone that goes on after a wait, gets the input as it is by then. Else what was sent under a key is
    /// sent again as it was.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reevaluates_input: bool,
    /// An object: how much of each budget around it a call may use. It is taken before the call, and replaced by what was
    /// used when the call has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ExprId>,
}

impl Effect {
    pub fn new(tool: impl Into<ToolName>, input: ExprId) -> Effect {
        Effect { tool: tool.into(), input, reevaluates_input: false, reservation: None }
    }
}

/// A name that is written down, or computed when it is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolName {
    Fixed(Arc<str>),
    /// A text, one of these: what a model or a request has written must not reach anything else.
    Computed {
        computed: ExprId,
        among: Vec<Arc<str>>,
    },
}

impl From<&str> for ToolName {
    fn from(name: &str) -> ToolName {
        ToolName::Fixed(name.into())
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolName::Fixed(name) => f.write_str(name),
            ToolName::Computed { among, .. } => write!(f, "one of {}", among.join(", ")),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRule {
    /// None matches always.
    pub when: Option<ExprId>,
    pub directive: Directive,
    pub writes: Vec<VariableUpdate>,
    /// What `_prev` becomes; None leaves the task's result.
    pub previous: Option<ExprId>,
    /// How often it may match; spent, the next rule is looked at. Counted while the pipeline runs, for a retry while its
    /// task is not left. A retry that is bounded so counts its own matches as tries, not those of other rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_matches: Option<Amount<u64>>,
}

impl TaskRule {
    /// Matches always.
    pub fn new(directive: Directive) -> TaskRule {
        TaskRule { when: None, directive, writes: Vec::new(), previous: None, max_matches: None }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Directive {
    Continue,
    /// Runs the task again; when the attempts are spent, the next rule is looked at.
    Retry(Retry),
    /// To the task at this index.
    Jump(u32),
    /// Ends the pipeline as succeeded.
    Break,
    /// Ends the pipeline as failed, timed out or cancelled.
    Fail {
        status: Status,
        /// An object `{code, message}`, which sees the task's outcome; None leaves the task's own error.
        error: Option<ExprId>,
    },
}

/// A change of one variable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VariableUpdate {
    pub level: Level,
    /// The key under which expressions look the variable up.
    pub name: Arc<str>,
    pub op: WriteOp,
    pub value: Option<ExprId>,
    /// A variable that is not there starts from nothing. Else it starts from the run's input of that name.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignores_input: bool,
    /// Made by the front: no event tells of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
}

impl VariableUpdate {
    pub fn new(level: Level, name: impl Into<Arc<str>>, op: WriteOp, value: Option<ExprId>) -> VariableUpdate {
        VariableUpdate { level, name: name.into(), op, value, ignores_input: false, hidden: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteOp {
    /// Makes the variable; it must not exist yet.
    Declare(VariableKind),
    /// Replaces its value, keeping its kind.
    Set,
    /// Adds a number, 1 if none is given.
    Add,
    /// Subtracts a number, 1 if none is given.
    Subtract,
    /// One more item at the end of a list.
    AppendItem,
    /// More text at the end of a text.
    AppendText,
    /// The larger, the smaller of the two.
    Max,
    Min,
    /// Adds or replaces an object's properties.
    Merge,
    /// The elements of a list at the end of a list; anything else as one item.
    Extend,
}

/// What a variable may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VariableKind {
    Any,
    Boolean,
    Integer,
    Float,
    String,
    Array,
    Object,
}
