//! Frames: live instances of nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{StoredValue, Timestamp, Value};

use super::{FrameId, MailWait, ScopeId, TimerKey};
use crate::plan::NodeId;
use crate::{ErrorInfo, LoopEndReason, LoopSummary, PreviousAttempts, ResumeData, SentToken, Status};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frame {
    pub node: NodeId,
    pub parent: Option<FrameId>,
    /// The index of this frame among the parent's children: a graph's child, a loop's iteration (its body or its
    /// judge), a net's firing, a pipeline's task.
    pub slot: u64,
    pub scope: ScopeId,
    pub generation: u32,
    /// Entries of this frame by node-level retry, the first included.
    pub attempt: u32,
    pub started_at: Timestamp,
    /// Children that have not ended.
    pub live: u32,
    /// Publishes no events: an iteration far into a loop that only computes.
    pub quiet: bool,
    pub deadline: Option<TimerKey>,
    /// A delay, a wait, a backoff.
    pub alarm: Option<TimerKey>,
    /// Set while the frame is being cancelled: its pending end.
    pub closing: Option<Box<Closing>>,
    pub body: FrameBody,
    /// Usage counters of everything inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Box<UsageAccount>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UsageAccount {
    /// The budgets of the frame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<BudgetUsage>,
    /// Amounts used, by name, on a node that meters them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<Arc<str>, u64>,
    /// The timer of its budget of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimerKey>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Closing {
    pub status: Status,
    pub error: Option<ErrorInfo>,
    pub output: Value,
    /// The frame ends by itself and not by a cancellation from outside: its retry and its output expression still
    /// apply.
    pub own_end: bool,
}

impl Closing {
    /// Returns the end of a frame that is cancelled by something around it.
    pub(crate) fn cancelled() -> Closing {
        Closing { status: Status::Cancelled, error: None, output: Value::Null, own_end: false }
    }

    /// Returns true for a deadline that ends the node as failed: nothing around it requested that.
    pub(crate) fn is_expired_deadline(&self) -> bool {
        !self.own_end && self.status == Status::Failed
    }

    pub(crate) fn failed(status: Status, error: ErrorInfo) -> Closing {
        Closing { status, error: Some(error), output: Value::Null, own_end: false }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FrameBody {
    /// On the agenda, not entered yet.
    New,
    /// Failed, and waiting to be entered again.
    Backoff,
    Pipeline(Box<PipelineFrame>),
    Graph(GraphFrame),
    Branch {
        child: FrameId,
    },
    Loop(Box<LoopFrame>),
    Net(Box<NetFrame>),
    Wait(WaitFrame),
    Call {
        call: u64,
    },
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PipelineFrame {
    pub pc: u32,
    /// Task runs so far, jumps and retries included.
    pub runs: u64,
    /// Attempts of the current task, the running one included.
    pub attempt: u32,
    /// How often each task was reached; only filled when a task is reached again.
    pub visits: BTreeMap<u32, u32>,
    pub group: u32,
    pub task_started_at: Timestamp,
    pub previous: Value,
    pub inputs: Value,
    /// A request was sent under the current key, with these inputs; another attempt under the same key sends the same.
    pub sent: bool,
    /// The tool that received it, if its name is computed.
    pub tool: Option<Arc<str>>,
    /// The input of the operation's next call, made when the alarm fires.
    pub next_call_input: Option<Value>,
    /// Calls of the current key's group that continued an operation. An attempt that begins the operation again under
    /// the same key does not reset the count: the tool may request another continuation.
    pub call: u32,
    /// The job that a worker holds, running or resting.
    pub job: Option<u64>,
    /// The job's number and its last lease epoch, while the lease is returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_lease: Option<(u64, u32)>,
    /// The frame of the node that the current task has entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<FrameId>,
    /// How often a rule has requested the current task again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounds: u32,
    /// Attempts of the current task before a rule last requested it again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries_before: u32,
    /// How often rules with a maximum number of matches have matched, by task and rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub matched: BTreeMap<(u32, u32), u64>,
    /// The summary of the last hidden loop among its tasks, which is shown as the pipeline's own loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_summary: Option<LoopSummary>,
    /// The start of the first attempt of the current task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_try_at: Option<Timestamp>,
    /// The failure of the last attempt, for a task that needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_attempts: Option<Arc<PreviousAttempts>>,
    /// The pending wait of the current task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_wait: Option<Box<PendingWait>>,
    /// The results of the current task's waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Arc<ResumeData>>,
}

/// The wait of a suspended task, which has no worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PendingWait {
    Event {
        name: Arc<str>,
        requirements: Value,
    },
    Time,
    Child {
        call: u64,
    },
    /// The wait is over: the task is to be dispatched again, as the same attempt.
    Resolved,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GraphFrame {
    pub children: Vec<ChildState>,
    pub ended: u32,
    pub running: u32,
    /// Children that could start but for the concurrency limit.
    pub ready: VecDeque<u32>,
    pub error: Option<ErrorInfo>,
    /// Groups that were picked before, least recently picked first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent_groups: Vec<Option<Arc<str>>>,
    /// How many children of each group are running.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub busy: BTreeMap<Option<Arc<str>>, u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildState {
    /// Dependencies that have not ended.
    pub missing: u32,
    /// A dependency ended with a status that this child does not accept.
    pub unmet: bool,
    pub status: Option<Status>,
    pub frame: Option<FrameId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopFrame {
    pub path: Arc<str>,
    pub items: Option<LoopItems>,
    pub max_iterations: Option<u64>,
    pub max_concurrency: u64,
    /// The time at which the time limit is reached.
    pub time_at: Option<Timestamp>,
    pub time_key: Option<TimerKey>,
    /// Iterations begun; the next iteration's index.
    pub begun: u64,
    pub ended: u64,
    pub failed: u64,
    /// Iterations that were cancelled with or by the loop; neither successes nor failures.
    pub cancelled: u64,
    /// The iterations that have not ended, by index.
    pub iterations: BTreeMap<u64, LiveIteration>,
    pub last_index: Option<u64>,
    pub last_status: Option<Status>,
    pub last_error: Option<ErrorInfo>,
    pub first_error: Option<ErrorInfo>,
    /// The error of a loop that stops as failed.
    pub cause: Option<ErrorInfo>,
    pub previous: Value,
    pub results: LoopResults,
    pub condition_met: bool,
    /// No further iteration begins; the loop ends when the live ones have ended.
    pub stopping: Option<LoopEndReason>,
    pub stall: Option<(Value, u64)>,
    /// Quiet iterations that no event has reported yet: the first, and how many of them failed.
    pub unpublished: Option<(u64, u64)>,
    /// Its end has been decided and published.
    pub concluded: bool,
    /// `break_when` ended the loop.
    pub broken_off: bool,
    pub budget: Vec<BudgetUsage>,
    /// The record of the last iteration, by index.
    pub record: Value,
    /// The records of all iterations.
    pub records: LoopResults,
    /// The key of its history, if it was entered before under its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Arc<str>>,
    /// Iterations whose judge gave no verdict.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub unjudged: u64,
}

/// The phase of a live iteration: its body runs, or its judge does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveIteration {
    Body(FrameId),
    Judge(FrameId),
}

impl LiveIteration {
    /// Returns the frame that runs for it.
    pub fn frame(&self) -> FrameId {
        match self {
            LiveIteration::Body(frame) | LiveIteration::Judge(frame) => *frame,
        }
    }
}

fn is_zero_u64(number: &u64) -> bool {
    *number == 0
}

/// The used part of a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetUsage {
    pub what: Arc<str>,
    pub used: u64,
    pub max: u64,
    /// Reserved by calls in flight.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub reserved: u64,
    /// The amount requested by the call for which the budget did not suffice.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub refused: u64,
}

impl LoopFrame {
    pub(crate) fn new(
        path: Arc<str>,
        items: Option<LoopItems>,
        max_iterations: Option<u64>,
        max_concurrency: u64,
        time_at: Option<Timestamp>,
        time_key: Option<TimerKey>,
        budget: Vec<BudgetUsage>,
    ) -> LoopFrame {
        LoopFrame {
            path,
            items,
            max_iterations,
            max_concurrency: max_concurrency.max(1),
            time_at,
            time_key,
            begun: 0,
            ended: 0,
            failed: 0,
            cancelled: 0,
            iterations: BTreeMap::new(),
            last_index: None,
            last_status: None,
            last_error: None,
            first_error: None,
            cause: None,
            previous: Value::Null,
            results: LoopResults::default(),
            condition_met: false,
            stopping: None,
            stall: None,
            unpublished: None,
            concluded: false,
            broken_off: false,
            budget,
            record: Value::Null,
            records: LoopResults::default(),
            history: None,
            unjudged: 0,
        }
    }
}

/// A loop's collection, evaluated once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopItems {
    pub count: u64,
    pub storage: ItemStorage,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ItemStorage {
    Inline(Value),
    /// Lists of equal length, except for the last.
    Chunks {
        chunks: Vec<StoredValue>,
        chunk_items: u64,
    },
}

/// Results or records, collected until the loop ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoopResults {
    /// Full chunks, in index order.
    pub chunks: Vec<StoredValue>,
    pub stored_items: u64,
    /// Contiguous results after the chunks; for a condition loop, the newest ones.
    pub tail: VecDeque<Value>,
    /// Results that arrived before those of an earlier iteration.
    pub early: BTreeMap<u64, Value>,
    pub dropped: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WaitFrame {
    Time,
    Signal {
        name: Arc<str>,
        requirements: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Box<ApprovalForm>>,
    },
    Mail(MailWait),
}

/// A form to be answered by a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalForm {
    /// The wait's path; with `#` and a number if that path was used before, so that no two waits of a run share an
    /// address.
    pub address: Arc<str>,
    /// `{title, message, schema, assignees}`, as far as they were supplied.
    pub content: Value,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetFrame {
    pub places: Vec<PlaceFrame>,
    /// Running bodies, by slot, with their place and the fan-outs of their token.
    pub firings: BTreeMap<u64, Box<Firing>>,
    pub next_slot: u64,
    pub tokens: u64,
    pub next_fan_out: u64,
    /// Open work of each fan-out.
    pub fan_outs: BTreeMap<u64, FanOut>,
    pub last_output: Value,
    pub error: Option<ErrorInfo>,
    pub failed: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlaceFrame {
    pub running: u32,
    pub queue: VecDeque<NetToken>,
    /// Tokens that a join holds, by accepted kind.
    pub held: Vec<VecDeque<NetToken>>,
    pub visits: u32,
    /// Tokens that a join of several kinds holds, by the value of its key; one queue for each need.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sets: BTreeMap<Arc<str>, Vec<VecDeque<NetToken>>>,
    /// Bodies, by slot, that have waited and can resume.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub awaiting_slot: VecDeque<u64>,
    /// Worker numbers that were in use and are free.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub free: BTreeSet<u32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetToken {
    pub kind: Arc<str>,
    pub payload: Value,
    /// The fan-outs it belongs to, innermost last.
    pub lineage: Vec<u64>,
    /// The only place that receives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Arc<str>>,
    /// The bodies, by slot, that it comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u64>,
    /// How often the tokens that led to it have reached each handler.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<u32, u32>,
    /// The member of each of its fan-outs that it comes from, for fan-outs that keep their members' order; 0 where
    /// missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Firing {
    pub place: u32,
    pub frame: FrameId,
    pub lineage: Vec<u64>,
    /// How often the place has run its body, this time included.
    pub visit: u32,
    /// The kind of the token that it runs for.
    pub token: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<u32, u32>,
    /// The number of its slot at the place; None while it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// The tokens its tasks have sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SentToken>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u64>,
    #[serde(default, skip_serializing_if = "SlotState::has_slot")]
    pub slot_state: SlotState,
}

/// Whether a body holds one of its place's slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotState {
    #[default]
    Running,
    /// It waits and has given up its slot.
    Suspended,
    /// It can resume and waits for a slot.
    AwaitingSlot,
}

impl SlotState {
    pub(crate) fn has_slot(&self) -> bool {
        *self == SlotState::Running
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FanOut {
    pub open: u64,
    pub parent: Vec<u64>,
    /// Tokens that joins hold for it: place, then members in arrival order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<u32, Vec<FanOutMember>>,
    /// The place whose body created it, if that is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// The order of the body that created it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<u32, u32>,
}

/// A token that a join holds for a fan-out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FanOutMember {
    /// Which member of the fan-out it comes from.
    pub at: u64,
    pub payload: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<u32, u32>,
}
