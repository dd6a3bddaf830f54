//! The outcomes of tasks, nodes and runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, IterationRecords, Map, Timestamp, Value};

use crate::Status;
use crate::plan::WriteOp;
use crate::state::BudgetUsage;

/// The reason of a failure. Never contains a secret: tools remove secrets before they report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// For programs: `503`, `LoopCountExceeded`, `InvalidTemplate`.
    pub code: Arc<str>,
    /// A coarse class that retries match: `timeout`, `connection`, `http`, `expression`, `limit`, `tool`.
    pub kind: Arc<str>,
    /// A description for people.
    pub message: Arc<str>,
    /// Advice on how to fix it.
    pub hint: Option<Arc<str>>,
    /// The path where it happened first.
    pub path: Arc<str>,
    /// A reply was received: the receiver has seen the request, so another attempt is a new request.
    pub replied: bool,
    /// Further facts about the failed attempt that the tool reported, for later inspection of the error: `http`, `pg`.
    /// Not part of its value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}

impl ErrorInfo {
    /// Creates an error without a hint and without a path.
    pub fn new(code: impl Into<Arc<str>>, kind: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> ErrorInfo {
        ErrorInfo {
            code: code.into(),
            kind: kind.into(),
            message: message.into(),
            hint: None,
            path: "".into(),
            replied: false,
            facts: Value::Null,
        }
    }

    /// Returns the error without the parts that may contain values.
    #[must_use]
    pub(crate) fn redacted(self) -> ErrorInfo {
        let message = "it failed; its input and output are redacted".into();
        ErrorInfo { message, hint: None, facts: Value::Null, ..self }
    }

    /// Sets the advice on how to fix it.
    pub fn hint(mut self, hint: impl Into<Arc<str>>) -> ErrorInfo {
        self.hint = Some(hint.into());
        self
    }

    /// Marks that a reply was received.
    pub fn replied(mut self) -> ErrorInfo {
        self.replied = true;
        self
    }

    /// Returns the error as expressions see it: an object without the facts.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("code", self.code.clone());
        map.insert("kind", self.kind.clone());
        map.insert("message", self.message.clone());
        if let Some(hint) = &self.hint {
            map.insert("hint", hint.clone());
        }
        if !self.path.is_empty() {
            map.insert("path", self.path.clone());
        }
        Value::map(map)
    }
}

/// The final outcome of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The final status.
    pub status: Status,
    /// The output; null if there is none.
    pub output: Value,
    /// The error, or the reason why the node was skipped.
    pub error: Option<ErrorInfo>,
    /// The evaluated inputs of the node; null if it has none.
    pub inputs: Value,
    /// Zero for a node that never ran.
    pub attempts: u32,
    /// The time at which the node began.
    pub started_at: Timestamp,
    /// The time at which the node ended.
    pub ended_at: Timestamp,
    /// On a loop: a summary of its end.
    pub loop_summary: Option<LoopSummary>,
    /// On a node that meters it: the resources used by the jobs inside, by name.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
}

impl Outcome {
    /// Returns true if the node had a frame, however that ended.
    pub(crate) fn ran(&self) -> bool {
        self.attempts > 0
    }
}

/// A summary of a loop with the records of its iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopSummary {
    /// The dialect's name of the loop, as in the plan.
    pub kind: Arc<str>,
    /// The number of iterations that have begun.
    pub iterations: u64,
    /// The number of iterations that failed.
    pub failed: u64,
    /// The reason why the loop ended.
    pub reason: LoopEndReason,
    /// The amounts used of its budget.
    pub usage: Vec<BudgetUsage>,
    /// The records of its iterations, as far as the plan keeps them.
    pub records: IterationRecords,
    /// Iterations whose judge gave no verdict.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unjudged: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A worker's report about one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskOutcome {
    /// A failed task may have an output too: the reply of a server that refused the request.
    pub output: Value,
    /// The error, if the task failed.
    pub error: Option<ErrorInfo>,
    /// Attempt, duration and further facts the tool reports.
    pub meta: Value,
    /// Set when the operation has begun and is not finished. An error takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
    /// An object with further facts. Rules see them next to `status`, `result`, `error` and `meta`: `http {status,
    /// headers}`, `pg {code, message}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
    /// State that the tool wants to see again, such as a model's reasoning. It is journaled, rules see it as
    /// `outcome.private`, and it appears in no event and in no view of the run.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub private: Value,
    /// The task's side outputs. They apply completely, or not at all if the task has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_outputs: Option<Box<SideOutputs>>,
    /// Set when the task is suspended and resumes once its wait is over. An error takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Box<Suspension>>,
    /// The result was reused: the run that this one retries has it, in its tick of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<u64>,
}

/// Effects of a task on its own run, applied in the tick of its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideOutputs {
    /// Tokens for the net around the task; they precede the tokens it returns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SentToken>,
    /// Changes of the run's variables, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state_changes: Vec<StateChange>,
}

/// A token that a task sends into the net around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentToken {
    /// The kind of the token, which decides the places that accept it.
    pub kind: Arc<str>,
    /// The content of the token.
    pub payload: Value,
    /// The only place that receives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Arc<str>>,
}

/// A change of a variable of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// The name of the variable.
    pub name: Arc<str>,
    /// The way in which the value is applied.
    pub op: WriteOp,
    /// The operand of the change.
    pub value: Value,
    /// The value the task has read: if the variable has another value by now, the task fails and nothing is changed.
    #[serde(default, skip_serializing_if = "ExpectedValue::is_any")]
    pub expected: ExpectedValue,
    /// The initial value of a variable that does not exist.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub initial: Value,
}

/// The value that a variable must have for a change to apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum ExpectedValue {
    /// The task has not read the variable, or accepts any value.
    #[default]
    Any,
    /// The variable must not exist.
    Absent,
    /// The variable must have this value.
    Value(Value),
}

impl ExpectedValue {
    fn is_any(&self) -> bool {
        *self == ExpectedValue::Any
    }
}

/// The suspension of an unfinished task, which frees its worker. When the wait is over, the task is dispatched again
/// under the same key and as the same attempt, with the results of all its waits so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    /// The event, time or child run that ends the suspension.
    pub waits_for: SuspendedOn,
    /// Number of events it has published so far; it need not publish them again.
    pub published_events: u64,
}

/// The reason of a suspension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SuspendedOn {
    /// An event of this name, from outside or from inside the run.
    Event {
        /// The name of the event.
        name: Arc<str>,
        /// An object; the event's payload must have equal properties.
        requirements: Value,
        /// The maximum time to wait, from now on; None waits forever.
        deadline: Option<Duration>,
        /// Published when the wait begins.
        announcement: Option<WaitAnnouncement>,
    },
    /// A delay, from now on.
    Time(Duration),
    /// The end of a child run.
    Child {
        /// The name of the definition to run.
        definition: Arc<str>,
        /// The input of the child run.
        input: Value,
    },
    /// No wait: the task only wants this value stored and resumes immediately.
    Checkpoint(Value),
}

/// An event that announces a wait to observers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitAnnouncement {
    /// The type of the event.
    pub kind: Arc<str>,
    /// The data of the event.
    pub data: Value,
}

/// The result of a wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitResult {
    /// The thing waited for: `event NAME`, `time`, `child`, `checkpoint`. A resumed task can check that it waits for
    /// the same thing.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub waited_for: Arc<str>,
    /// The answer; null for a wait for time.
    pub value: Value,
    /// The error, if the wait failed or expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
}

/// The next call of an operation that takes longer than one call: the tool is called with this input after this
/// delay. It is the same attempt, but another effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextCall {
    /// The input of the next call.
    pub input: Value,
    /// The delay before the next call.
    pub after: Duration,
}

/// Maximum number of characters of a failed reply in an error message.
const MAX_REPLY_CHARS: usize = 200;

/// The reply of a run to the caller that started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReply {
    /// The content of the reply.
    pub value: Value,
    /// False if the run replied with a failure.
    pub success: bool,
}

impl RunReply {
    /// Returns the reply as the result of the call that waits for it.
    pub fn call_result(&self) -> (Status, TaskOutcome) {
        let output = TaskOutcome::success(self.value.clone());
        if self.success {
            return (Status::Succeeded, output);
        }
        let mut text = format!("{:?}", self.value);
        if let Some((at, _)) = text.char_indices().nth(MAX_REPLY_CHARS) {
            text.truncate(at);
            text.push('…');
        }
        let error = ErrorInfo::new("ChildReplied", "call", format!("the child run replied that it failed: {text}"));
        (Status::Failed, TaskOutcome { error: Some(error), ..output })
    }
}

impl TaskOutcome {
    /// Creates the outcome of a task that succeeded.
    pub fn success(output: impl Into<Value>) -> TaskOutcome {
        TaskOutcome {
            output: output.into(),
            error: None,
            meta: Value::Null,
            next_call: None,
            facts: Value::Null,
            private: Value::Null,
            side_outputs: None,
            suspension: None,
            reused: None,
        }
    }

    /// Returns the outcome of an unfinished operation that is to be called again.
    pub fn call_again(input: impl Into<Value>, after: Duration) -> TaskOutcome {
        TaskOutcome { next_call: Some(NextCall { input: input.into(), after }), ..TaskOutcome::success(Value::Null) }
    }

    /// Creates the outcome of a task that failed, without an output.
    pub fn failure(error: ErrorInfo) -> TaskOutcome {
        TaskOutcome { error: Some(error), ..TaskOutcome::success(Value::Null) }
    }
}

/// The reason why a loop ended. Every loop ends with one of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEndReason {
    /// The loop's condition or its `break_when` ended it.
    Condition,
    /// All items were processed.
    Items,
    /// The judge decided that the loop is done.
    Judge,
    /// The maximum number of iterations was reached.
    Count,
    /// The time limit of the loop, or a timeout around it, was reached.
    Timeout,
    /// A budget was used up.
    Budget,
    /// The watched value has been the same for too many iterations.
    Stalled,
    /// An iteration, a check or the judge failed, and the plan says that the loop fails with it.
    Failed,
    /// The loop was cancelled from outside.
    Cancelled,
}

impl LoopEndReason {
    /// All reasons, in the order of declaration.
    pub const ALL: [LoopEndReason; 9] = [
        LoopEndReason::Condition,
        LoopEndReason::Items,
        LoopEndReason::Judge,
        LoopEndReason::Count,
        LoopEndReason::Timeout,
        LoopEndReason::Budget,
        LoopEndReason::Stalled,
        LoopEndReason::Failed,
        LoopEndReason::Cancelled,
    ];

    /// Returns the name used in events and outputs.
    pub const fn as_str(self) -> &'static str {
        match self {
            LoopEndReason::Condition => "condition",
            LoopEndReason::Items => "items",
            LoopEndReason::Judge => "judge",
            LoopEndReason::Count => "count",
            LoopEndReason::Timeout => "timeout",
            LoopEndReason::Budget => "budget",
            LoopEndReason::Stalled => "stalled",
            LoopEndReason::Failed => "failed",
            LoopEndReason::Cancelled => "cancelled",
        }
    }
}
