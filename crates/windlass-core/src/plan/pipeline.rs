//! An ordered list of labelled tasks with a program counter. A lone action is a pipeline of one task.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, Level};

use super::{Amount, ExprId, Retry};
use crate::Status;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pipeline {
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Empty for the only task of a lone action.
    pub label: Arc<str>,
    pub action: Action,
    /// Looked at in order when the task has ended; the first that matches decides. None matches: success goes on,
    /// an error fails the pipeline.
    pub rules: Vec<Rule>,
    /// Looked at when no rule matches an error.
    pub retry: Option<Retry>,
    pub timeout: Option<Amount<Duration>>,
}

impl Task {
    pub fn new(action: Action) -> Task {
        Task { label: "".into(), action, rules: Vec::new(), retry: None, timeout: None }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    /// Gives the value of an expression. Runs inside the reducer.
    Evaluate(ExprId),
    /// Changes a variable. Runs inside the reducer.
    Write(Write),
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
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Effect {
    pub tool: Name,
    pub input: ExprId,
}

/// A name that is written down, or computed when it is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Name {
    Fixed(Arc<str>),
    /// A text, one of these: what a model or a request has written must not reach anything else.
    Computed {
        computed: ExprId,
        among: Vec<Arc<str>>,
    },
}

impl From<&str> for Name {
    fn from(name: &str) -> Name {
        Name::Fixed(name.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Fixed(name) => f.write_str(name),
            Name::Computed { among, .. } => write!(f, "one of {}", among.join(", ")),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// None matches always.
    pub when: Option<ExprId>,
    pub directive: Directive,
    pub writes: Vec<Write>,
    /// What `_prev` becomes; None leaves the task's result.
    pub previous: Option<ExprId>,
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
pub struct Write {
    pub level: Level,
    /// The key under which expressions look the variable up.
    pub name: Arc<str>,
    pub op: WriteOp,
    pub value: Option<ExprId>,
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
