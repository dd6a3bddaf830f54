//! What a task, a node or a run ended with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, IterationRecords, Map, Timestamp, Value};

use crate::Status;
use crate::plan::WriteOp;
use crate::state::BudgetUsage;

/// Why something failed. Never holds a secret: tools take those out before they report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// For programs: `503`, `LoopCountExceeded`, `InvalidTemplate`.
    pub code: Arc<str>,
    /// A coarse class that retries match: `timeout`, `connection`, `http`, `expression`, `limit`, `tool`.
    pub kind: Arc<str>,
    pub message: Arc<str>,
    pub hint: Option<Arc<str>>,
    /// Where it happened first.
    pub path: Arc<str>,
    /// A reply was received: the receiver has seen the request, so another try is a new one.
    pub replied: bool,
    /// What else the tool has told of the failed try, for whoever looks at the error later: `http`, `pg`. No part of its
    /// value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}

impl ErrorInfo {
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

    /// The same without what it says of values.
    #[must_use]
    pub(crate) fn redacted(self) -> ErrorInfo {
        let message = "it failed; what it got and what it gave is not shown".into();
        ErrorInfo { message, hint: None, facts: Value::Null, ..self }
    }

    pub fn hint(mut self, hint: impl Into<Arc<str>>) -> ErrorInfo {
        self.hint = Some(hint.into());
        self
    }

    pub fn replied(mut self) -> ErrorInfo {
        self.replied = true;
        self
    }

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

/// The end of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub status: Status,
    pub output: Value,
    pub error: Option<ErrorInfo>,
    pub inputs: Value,
    /// Zero for a node that never ran.
    pub attempts: u32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// For a loop: how it ended.
    pub loop_summary: Option<LoopSummary>,
    /// For a node that counts it: what the jobs inside have used, by name.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
}

impl Outcome {
    /// It had a frame, however that ended.
    pub(crate) fn ran(&self) -> bool {
        self.attempts > 0
    }
}

/// A loop in one line, and what it wrote down of its turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopSummary {
    pub kind: Arc<str>,
    pub iterations: u64,
    pub failed: u64,
    pub reason: LoopEndReason,
    /// What it has used of its budget.
    pub usage: Vec<BudgetUsage>,
    pub records: IterationRecords,
    /// Turns whose judge gave no verdict.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unjudged: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a worker reports of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskOutcome {
    /// Also a failed task may have an output: the reply of a server that refused.
    pub output: Value,
    pub error: Option<ErrorInfo>,
    /// Attempt, duration and what else the tool wants known.
    pub meta: Value,
    /// The operation has begun and is not finished. An error counts more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
    /// An object with what else is known of it, laid beside `status`, `result`, `error` and `meta` where rules look:
    /// `http {status, headers}`, `pg {code, message}`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
    /// What the task does besides giving its output: all of it or, if it has failed, nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_outputs: Option<Box<SideOutputs>>,
    /// The task waits for something and goes on when it has come. An error counts more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Box<Suspension>>,
    /// It was not done anew: the run that this one mends has it, in its tick of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<u64>,
}

/// Effects of a task on its own run, in the tick of its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideOutputs {
    /// Tokens for the net around it, before those that it returns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SentToken>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state_changes: Vec<StateChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentToken {
    pub kind: Arc<str>,
    pub payload: Value,
    /// The only place that gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Arc<str>>,
}

/// A change of a variable of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    pub name: Arc<str>,
    pub op: WriteOp,
    pub value: Value,
    /// What the task has seen: if it is something else by now, the task has failed and nothing is changed.
    #[serde(default, skip_serializing_if = "ExpectedValue::is_any")]
    pub expected: ExpectedValue,
    /// What a variable that is not there begins with.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub initial: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum ExpectedValue {
    /// The task has not looked, or does not mind.
    #[default]
    Any,
    Absent,
    Value(Value),
}

impl ExpectedValue {
    fn is_any(&self) -> bool {
        *self == ExpectedValue::Any
    }
}

/// A task that is not finished lets its worker go. When the answer is there it is handed out again, under the same key
/// and as the same attempt, with all answers that it has got so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    pub waits_for: SuspendedOn,
    /// Events it has published so far: it need not publish them again.
    pub published_events: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SuspendedOn {
    /// An event of this name, from outside or from inside.
    Event {
        name: Arc<str>,
        /// An object; the event's payload must have equal properties.
        requirements: Value,
        deadline: Option<Duration>,
        /// Published when the wait begins.
        announcement: Option<WaitAnnouncement>,
    },
    Time(Duration),
    /// The end of a child run.
    Child {
        definition: Arc<str>,
        input: Value,
    },
    /// Nothing: it only wants this kept, and goes on at once.
    Checkpoint(Value),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitAnnouncement {
    pub kind: Arc<str>,
    pub data: Value,
}

/// What a wait has brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitResult {
    /// What was waited for: `event NAME`, `time`, `child`, `kept`. Whoever goes on can tell whether it asks for the same.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub waited_for: Arc<str>,
    pub value: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
}

/// How to go on with an operation that takes longer than one call: the tool is called with this input after this time.
/// It is the same attempt, but another effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextCall {
    pub input: Value,
    pub after: Duration,
}

/// How much of a bad answer an error message shows.
const MAX_REPLY_CHARS: usize = 200;

/// What a run has answered to whoever started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReply {
    pub value: Value,
    pub good: bool,
}

impl RunReply {
    /// The answer as the end of the call that waits for it.
    pub fn call_result(&self) -> (Status, TaskOutcome) {
        let output = TaskOutcome::success(self.value.clone());
        if self.good {
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
    pub fn success(output: impl Into<Value>) -> TaskOutcome {
        TaskOutcome {
            output: output.into(),
            error: None,
            meta: Value::Null,
            next_call: None,
            facts: Value::Null,
            side_outputs: None,
            suspension: None,
            reused: None,
        }
    }

    /// Not finished: to be called again.
    pub fn call_again(input: impl Into<Value>, after: Duration) -> TaskOutcome {
        TaskOutcome { next_call: Some(NextCall { input: input.into(), after }), ..TaskOutcome::success(Value::Null) }
    }

    pub fn failure(error: ErrorInfo) -> TaskOutcome {
        TaskOutcome { error: Some(error), ..TaskOutcome::success(Value::Null) }
    }
}

/// Why a loop stopped. Every loop ends with one of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEndReason {
    Condition,
    Items,
    Judge,
    Count,
    Timeout,
    Budget,
    Stalled,
    Failed,
    Cancelled,
}

impl LoopEndReason {
    pub(crate) const ALL: [LoopEndReason; 9] = [
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
