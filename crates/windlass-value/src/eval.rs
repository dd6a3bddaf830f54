//! The interface between expressions and the state they read. An expression sees an [`EvalScope`] and nothing else:
//! no host object, no clock and no randomness except the tick's.

use std::sync::Arc;

use crate::{BlobHash, StoredValue, Timestamp, Value};

/// The way in which an expression's source is interpreted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum ExpressionMode {
    /// A tree of literals with expressions at its leaves; the result keeps its type.
    Value,
    /// Must evaluate to a boolean.
    Condition,
    /// A loop's own condition: results of nodes that have not run yet, and their properties, are null.
    LoopCondition,
    /// A condition over optional data: anything missing makes the whole condition false. A language compiles it as a
    /// condition and reports [`EvalErrorKind::Missing`]; the evaluator treats that as false.
    Guard,
}

/// An expression language: compiles text into an expression. Pure; parses once.
pub trait Language: Send + Sync {
    fn name(&self) -> &'static str;

    /// Compiles a source. The error holds all problems.
    fn compile(&self, source: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>>;
}

/// A compiled expression.
pub trait Expression: Send + Sync {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError>;
}

/// The remaining budget of an evaluation. Fuel counts steps, never time, so that a replay stops at the same step.
#[derive(Debug, Clone)]
pub struct Meter {
    pub fuel: u64,
    /// Maximum size of one result, in approximate bytes.
    pub max_output_bytes: usize,
    pub caps: MeterCaps,
}

/// Additional caps of single functions and languages. The default is no cap: fuel is spent on all of them.
#[derive(Debug, Clone, Copy)]
pub struct MeterCaps {
    /// Maximum cost of one evaluation of a CEL expression.
    pub max_cel_cost: u64,
    /// Maximum number of numbers that `range` returns.
    pub max_range_items: usize,
    /// Maximum number of nodes of a parsed XML text.
    pub max_xml_nodes: u32,
}

impl Default for MeterCaps {
    fn default() -> MeterCaps {
        MeterCaps { max_cel_cost: u64::MAX, max_range_items: usize::MAX, max_xml_nodes: u32::MAX }
    }
}

impl Meter {
    pub fn new(fuel: u64, max_output_bytes: usize) -> Meter {
        Meter { fuel, max_output_bytes, caps: MeterCaps::default() }
    }

    #[must_use]
    pub fn with_caps(self, caps: MeterCaps) -> Meter {
        Meter { caps, ..self }
    }

    /// Takes `amount` from the fuel, or fails if it has run out.
    pub fn spend(&mut self, amount: u64) -> Result<(), EvalError> {
        match self.fuel.checked_sub(amount) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => {
                self.fuel = 0;
                Err(EvalError::new(
                    EvalErrorKind::Limit,
                    "the expression needs more steps than one evaluation may take",
                )
                .with_hint("process fewer items in one expression, or raise `limits.expression_fuel` in windlass.toml"))
            }
        }
    }

    pub fn check_size(&self, bytes: usize) -> Result<(), EvalError> {
        match bytes <= self.max_output_bytes {
            true => Ok(()),
            false => Err(EvalError::new(
                EvalErrorKind::Limit,
                format!("the expression gives a value of more than {} bytes", self.max_output_bytes),
            )
            .with_hint("raise `limits.max_expression_output_bytes` in windlass.toml if this is intended")),
        }
    }
}

/// The variables in which a name is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Level {
    /// Variables of the run: declared variables, `ctx`.
    Run,
    /// Variables of the running step: `vars`.
    Step,
    /// Variables of the loop iteration: `iter`.
    Iteration,
    /// All levels, innermost first.
    Any,
}

/// The state visible to an expression. Getting a value costs a reference count.
pub trait EvalScope {
    fn variable(&self, level: Level, name: &str) -> Option<Value>;
    /// Returns the innermost variable whose name differs at most in letter case, for languages in which that is the
    /// same name; `lower` is in lower case.
    fn variable_ignoring_case(&self, lower: &str) -> Option<Value> {
        self.variables(Level::Any).into_iter().find(|(name, _)| name.to_lowercase() == lower).map(|(_, value)| value)
    }
    /// Returns the value of a name that the position of the expression defines, such as `outcome` in a task's rules.
    ///
    /// Such names and variables do not hide each other: each language defines which of its names are looked up here.
    /// For languages without such names, [`Level::Any`] includes them.
    fn local(&self, _name: &str) -> Option<Value> {
        None
    }
    /// Returns a node that has ended in this scope or an enclosing one: the exact name first, then ignoring case.
    fn node(&self, name: &str) -> Option<NodeView>;
    /// Returns a node as seen from outside the `_scope_owners` innermost nodes that have opened a scope: nodes inside
    /// them hide nothing.
    fn node_outside(&self, _scope_owners: usize, name: &str) -> Option<NodeView> {
        self.node(name)
    }
    /// Returns a node inside a loop that has ended, if the loop recorded it.
    ///
    /// It is consulted after [`EvalScope::node`]; a name that means a node of this scope or an enclosing one never
    /// means another inside a loop.
    fn node_in_loop(&self, _name: &str) -> Option<LoopInnerNode> {
        None
    }
    /// Returns the direct children of a node that have ended, in declaration order.
    fn children(&self, name: &str) -> Option<Vec<(Arc<str>, NodeView)>>;
    /// Returns the innermost loop, or the enclosing loop of that name (ignoring case).
    fn iteration(&self, loop_name: Option<&str>) -> Option<IterationView>;
    fn run(&self) -> &RunView;
    /// Returns the name of the trigger, if there is exactly one.
    fn trigger(&self) -> Option<Arc<str>> {
        None
    }
    fn now(&self) -> Timestamp;
    /// Returns the next random number of this tick. The same tick yields the same numbers.
    fn random(&self) -> u64;
    /// Returns the content of a stored value, for a chunked list the table of its chunks; fails with
    /// [`EvalErrorKind::NeedBlobs`] when it is not loaded.
    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError>;
    /// Returns all variables of a level, for languages in which the level itself is a value, and for messages.
    fn variables(&self, _level: Level) -> Vec<(Arc<str>, Value)> {
        Vec::new()
    }
}

/// The end of a node as expressions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    pub name: Arc<str>,
    /// `succeeded`, `failed`, `skipped`, `cancelled`, `timed_out`.
    pub status: &'static str,
    pub inputs: Value,
    pub output: Value,
    /// `{code, message}` or null.
    pub error: Value,
    pub attempts: u32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// For a loop: its recorded iterations.
    pub iteration_records: IterationRecords,
    /// The number of entries of a record that are nodes of the body, in order; `None` means all. Others follow them.
    pub body_nodes: Option<usize>,
    /// Usage of the jobs inside, if it was counted.
    pub usage: Value,
}

/// A node recorded by a loop that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopInnerNode {
    pub name: Arc<str>,
    pub loop_node: NodeView,
    /// The index of its entry in each record.
    pub record_index: usize,
}

/// The iterations that a loop has recorded, if it was configured to.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum IterationRecords {
    #[default]
    None,
    /// The last iteration's record.
    Last(Value),
    /// A list, perhaps a stored one, with a record of each iteration.
    All(Value),
}

/// A loop iteration as expressions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationView {
    pub loop_name: Arc<str>,
    /// In the body the 0-based iteration; in a condition the number of completed iterations.
    pub iteration_index: u64,
    pub item: Value,
    /// The result of the previous iteration; null at first.
    pub previous: Value,
    pub loop_started_at: Timestamp,
    /// The name that the definition gives the item.
    pub item_name: Option<Arc<str>>,
    /// The total number of items; `None` for a loop without items.
    pub count: Option<u64>,
    /// Other iterations of the loop may run at the same time.
    pub concurrent: bool,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunView {
    pub id: Arc<str>,
    /// The number that identifies the run besides its id; numbers of later runs are greater. 0 where there is no store,
    /// as in the check of a definition.
    pub execution_id: i64,
    pub name: Arc<str>,
    /// The input of the run.
    pub input: Value,
    /// Metadata that came with the input of a trigger: `headers`, `queries`. Null if there was none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub trigger_metadata: Value,
    /// Declared parameters with their values.
    pub parameters: Value,
    pub started_at: Timestamp,
    /// The parent run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
    /// The execution id of the parent run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<i64>,
    /// The id shared with the parent run and all other runs of the same run tree; `None` stands for the run's own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
}

impl RunView {
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>, started_at: Timestamp) -> RunView {
        RunView {
            id: id.into(),
            execution_id: 0,
            name: name.into(),
            input: Value::Null,
            trigger_metadata: Value::Null,
            parameters: Value::Null,
            started_at,
            parent: None,
            parent_execution_id: None,
            trace: None,
        }
    }

    pub fn trace(&self) -> &Arc<str> {
        self.trace.as_ref().unwrap_or(&self.id)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvalErrorKind {
    /// A property, variable, node or loop does not exist.
    Missing,
    /// A value has the wrong kind or is out of range.
    Type,
    /// A schema does not allow the content.
    Invalid,
    /// Fuel, depth or size is exhausted.
    Limit,
    /// Not an error of the expression: blobs must be loaded first, then the evaluation is repeated.
    NeedBlobs,
}

/// The reason why an evaluation gave no value: a kind, a message, the expression and a hint.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalError {
    pub kind: EvalErrorKind,
    pub message: String,
    /// The text of the expression, filled in by the outermost evaluator.
    pub expression: Option<String>,
    pub hint: Option<String>,
    pub blobs: Vec<BlobHash>,
}

impl EvalError {
    pub fn new(kind: EvalErrorKind, message: impl Into<String>) -> EvalError {
        EvalError { kind, message: message.into(), expression: None, hint: None, blobs: Vec::new() }
    }

    pub fn need_blobs(blobs: Vec<BlobHash>) -> EvalError {
        EvalError { blobs, ..EvalError::new(EvalErrorKind::NeedBlobs, "stored values are needed") }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> EvalError {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the expression unless an inner one has already set itself.
    pub fn with_expression(mut self, expression: &str) -> EvalError {
        self.expression.get_or_insert_with(|| expression.to_owned());
        self
    }
}

/// The reason why a source is not an expression of its language.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileError {
    pub message: String,
    pub hint: Option<String>,
    /// The location in the source tree: keys and indexes from the root to the string.
    pub pointer: Vec<PathPart>,
    /// Byte range within that string's text.
    pub range: std::ops::Range<usize>,
}

/// A step into a source tree.
#[derive(Clone, Debug, PartialEq)]
pub enum PathPart {
    Key(Arc<str>),
    Index(usize),
}
