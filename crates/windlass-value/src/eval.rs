//! The door between expressions and the state they read. An expression sees a [`Scope`] and nothing else: no host object,
//! no clock but the tick's, no randomness but the tick's.

use std::sync::Arc;

use crate::{BlobHash, StoredValue, Timestamp, Value};

/// How an expression's source is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum ExpressionMode {
    /// A tree of literals with expressions at its leaves; the result keeps its type.
    Value,
    /// Must give a boolean.
    Condition,
    /// A loop's own condition: results of nodes that have not run yet, and their properties, are null.
    LoopCondition,
    /// A condition over what may not be there: whatever is missing makes the whole of it false. A language compiles it as a
    /// condition and reports [`EvalErrorKind::Missing`]; whoever evaluates it takes that for a no.
    Guard,
}

/// An expression language: text to something that can be evaluated. Pure, parses once.
pub trait Language: Send + Sync {
    fn name(&self) -> &'static str;

    /// All problems at once.
    fn compile(&self, source: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>>;
}

/// A compiled expression.
pub trait Expression: Send + Sync {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError>;
}

/// What an expression may still spend. Fuel is counted, never time, so that a replay stops at the same place.
#[derive(Debug, Clone)]
pub struct Meter {
    pub fuel: u64,
    /// The most bytes that one result may have, roughly.
    pub max_output_bytes: usize,
    pub caps: MeterCaps,
}

/// What single functions and languages are held to besides. The default is no cap: fuel is spent on all of it.
#[derive(Debug, Clone, Copy)]
pub struct MeterCaps {
    /// What one evaluation of a CEL expression may cost.
    pub max_cel_cost: u64,
    /// Numbers that `range` may give.
    pub max_range_items: usize,
    /// Nodes of an XML text that is read.
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

    /// Takes `amount`, or says that it has run out.
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
                .with_hint("work on fewer items at once, or raise `limits.expression_fuel` in windlass.toml"))
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
            .with_hint("raise `limits.expression_output_bytes_max` in windlass.toml if this is meant")),
        }
    }
}

/// Which variables a name is looked up in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Level {
    /// The run's own: declared variables, `ctx`.
    Run,
    /// The step that is being run: `vars`.
    Step,
    /// The loop turn: `iter`.
    Iteration,
    /// Innermost first, through all of them.
    Any,
}

/// What an expression can see. Getting a value costs a reference count.
pub trait EvalScope {
    fn variable(&self, level: Level, name: &str) -> Option<Value>;
    /// A name that the place of the expression gives a meaning: no variable can hide it, and it hides none, since a
    /// language says which of its words mean such a name. [`Level::Any`] has them too, for languages without such words.
    fn local(&self, _name: &str) -> Option<Value> {
        None
    }
    /// A node that has ended in this scope or an enclosing one: the exact name first, then in any letter case.
    fn node(&self, name: &str) -> Option<NodeView>;
    /// The same, seen from outside of the `owners` innermost nodes that have opened a scope: what is inside of them hides
    /// nothing.
    fn node_outside(&self, _scope_owners: usize, name: &str) -> Option<NodeView> {
        self.node(name)
    }
    /// A node inside a loop that has ended, if the loop wrote it down. Asked after [`Scope::node`]; a name that means a
    /// node of this scope or an enclosing one never means another inside a loop.
    fn node_in_loop(&self, _name: &str) -> Option<LoopInnerNode> {
        None
    }
    /// The direct children of a node that have ended, in declaration order.
    fn children(&self, name: &str) -> Option<Vec<(Arc<str>, NodeView)>>;
    /// The innermost loop, or the enclosing loop of that name (any letter case).
    fn iteration(&self, loop_name: Option<&str>) -> Option<IterationView>;
    fn run(&self) -> &RunView;
    /// The name of what starts runs, if there is just one.
    fn trigger(&self) -> Option<Arc<str>> {
        None
    }
    fn now(&self) -> Timestamp;
    /// The next random number of this tick. The same tick gives the same numbers.
    fn random(&self) -> u64;
    /// The content of a stored value, for a chunked list the table of its chunks; [`EvalErrorKind::NeedBlobs`] when it is
    /// not at hand.
    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError>;
    /// All variables of a level, for languages in which the level itself is a value, and for messages.
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
    /// For a loop: what it wrote down of its turns.
    pub iteration_records: IterationRecords,
    /// How many entries of a record are the body's own nodes, in order; all if nothing is said. Others follow them.
    pub body_nodes: Option<usize>,
    /// What the jobs inside have used, if that was counted.
    pub usage: Value,
}

/// Where a loop that has ended wrote a node of its turns down.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopInnerNode {
    pub name: Arc<str>,
    pub loop_node: NodeView,
    /// Which entry of each record it is.
    pub record_index: usize,
}

/// What a loop wrote down of its turns, if it was asked to.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum IterationRecords {
    #[default]
    None,
    /// The last turn's record.
    Last(Value),
    /// A list, perhaps a stored one, with a record of each turn.
    All(Value),
}

/// A loop turn as expressions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationView {
    pub loop_name: Arc<str>,
    /// In the body the 0-based turn; in a condition the number of turns completed.
    pub iteration_index: u64,
    pub item: Value,
    /// What the previous turn gave; null at first.
    pub previous: Value,
    pub loop_started_at: Timestamp,
    /// What the definition calls the item.
    pub item_name: Option<Arc<str>>,
    /// How many items there are in all; None for a loop without any.
    pub count: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunView {
    pub id: Arc<str>,
    pub name: Arc<str>,
    /// What the run was started with.
    pub input: Value,
    /// What came with the input, when a trigger was told of it: `headers`, `queries`. Null if nothing did.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub trigger_metadata: Value,
    /// Declared parameters with their values.
    pub parameters: Value,
    pub started_at: Timestamp,
    /// The run that called this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
    /// What it shares with its parent and all other runs that come from the same one; None is its own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
}

impl RunView {
    pub fn new(id: impl Into<Arc<str>>, name: impl Into<Arc<str>>, started_at: Timestamp) -> RunView {
        RunView {
            id: id.into(),
            name: name.into(),
            input: Value::Null,
            trigger_metadata: Value::Null,
            parameters: Value::Null,
            started_at,
            parent: None,
            trace: None,
        }
    }

    pub fn trace(&self) -> &Arc<str> {
        self.trace.as_ref().unwrap_or(&self.id)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvalErrorKind {
    /// A property, variable, node or loop that is not there.
    Missing,
    /// A value of the wrong kind, or out of range.
    Type,
    /// Content that a schema does not allow.
    Invalid,
    /// Fuel, depth or size.
    Limit,
    /// Not an error of the expression: blobs must be loaded first, then the evaluation is repeated.
    NeedBlobs,
}

/// Why an evaluation gave no value: a kind, a sentence, the expression, a hint.
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

    /// The innermost expression that set itself stays.
    pub fn with_expression(mut self, expression: &str) -> EvalError {
        self.expression.get_or_insert_with(|| expression.to_owned());
        self
    }
}

/// Why a source is not an expression of its language.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileError {
    pub message: String,
    pub hint: Option<String>,
    /// Where in the source tree: keys and indexes from the root to the string.
    pub pointer: Vec<PathPart>,
    /// Bytes of that string's text.
    pub range: std::ops::Range<usize>,
}

/// A step into a source tree.
#[derive(Clone, Debug, PartialEq)]
pub enum PathPart {
    Key(Arc<str>),
    Index(usize),
}
