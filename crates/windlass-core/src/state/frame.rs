//! Frames: live instances of nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{StoredValue, Timestamp, Value};

use super::{FanOut, FrameId, QuietSteps, RegionActivation, ScopeId, TimerKey, WaitFrame};
use crate::plan::NodeId;
use crate::{ErrorInfo, IterationRecord, LoopEndReason, LoopSummary, PreviousAttempts, ResumeData, SentToken, Status};

/// A live instance of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// The node in the plan.
    pub node: NodeId,
    /// The frame around it; None for the root.
    pub parent: Option<FrameId>,
    /// The index of this frame among the parent's children: a graph's child, a loop's iteration (its body or its
    /// judge), a net's firing, a pipeline's task.
    pub slot: u64,
    /// The scope in which its expressions are evaluated.
    pub scope: ScopeId,
    /// Distinguishes entries of the same path; part of the idempotency keys of its effects.
    pub generation: u32,
    /// Entries of this frame by node-level retry, the first included.
    pub attempt: u32,
    /// The time at which it began.
    pub started_at: Timestamp,
    /// Children that have not ended.
    pub live: u32,
    /// Publishes no events: an iteration far into a loop that only computes.
    pub quiet: bool,
    /// The timer of its timeout.
    pub deadline: Option<TimerKey>,
    /// A delay, a wait, a backoff.
    pub alarm: Option<TimerKey>,
    /// Set while the frame is being cancelled: its pending end.
    pub closing: Option<Box<Closing>>,
    /// The part that depends on the kind of node.
    pub body: FrameBody,
    /// Usage counters of everything inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Box<UsageAccount>>,
}

/// The budgets of a frame and the amounts used inside it.
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

/// The end that a frame will have when everything inside it has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Closing {
    /// The final status.
    pub status: Status,
    /// The error.
    pub error: Option<ErrorInfo>,
    /// The output.
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

/// The part of a frame that depends on the kind of node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FrameBody {
    /// On the agenda, not entered yet.
    New,
    /// Failed, and waiting to be entered again.
    Backoff,
    /// Runs its tasks.
    Pipeline(Box<PipelineFrame>),
    /// Runs its children.
    Graph(GraphFrame),
    /// Runs the selected node.
    Branch {
        /// The frame of the selected node.
        child: FrameId,
    },
    /// Runs its iterations.
    Loop(Box<LoopFrame>),
    /// Runs the bodies of its places.
    Net(Box<NetFrame>),
    /// Waits for time, a signal or mail.
    Wait(WaitFrame),
    /// Waits for a child run.
    Call {
        /// The number of the call in the run.
        call: u64,
    },
}

/// A running pipeline.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PipelineFrame {
    /// The index of the current task.
    pub pc: u32,
    /// Task runs so far, jumps and retries included.
    pub runs: u64,
    /// Attempts of the current task, the running one included.
    pub attempt: u32,
    /// How often each task was reached; only filled when a task is reached again.
    pub visits: BTreeMap<u32, u32>,
    /// Increases when a retry follows a received reply; part of the idempotency key.
    pub group: u32,
    /// The time at which the current task began.
    pub task_started_at: Timestamp,
    /// The result of the task before: `_prev` in expressions.
    pub previous: Value,
    /// The evaluated input of the last effect.
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
    /// A wait for an event.
    Event {
        /// The name of the event.
        name: Arc<str>,
        /// An object; the event's payload must have equal properties.
        requirements: Value,
    },
    /// A wait for time. The alarm of the frame ends it.
    Time,
    /// A wait for a child run.
    Child {
        /// The number of the call in the run.
        call: u64,
    },
    /// The wait is over: the task is to be dispatched again, as the same attempt.
    Resolved,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A running graph.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GraphFrame {
    /// The progress of each child, by its index in the plan.
    pub children: Vec<ChildState>,
    /// The number of children that have ended.
    pub ended: u32,
    /// The number of children that are running.
    pub running: u32,
    /// Children that could start but for the concurrency limit.
    pub ready: VecDeque<u32>,
    /// The error that the graph ends with, if it fails.
    pub error: Option<ErrorInfo>,
    /// Groups that were picked before, least recently picked first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent_groups: Vec<Option<Arc<str>>>,
    /// How many children of each group are running.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub busy: BTreeMap<Option<Arc<str>>, u32>,
}

/// The progress of a child of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildState {
    /// Dependencies that have not ended.
    pub missing: u32,
    /// A dependency ended with a status that this child does not accept.
    pub unmet: bool,
    /// The final status, once it has ended.
    pub status: Option<Status>,
    /// The frame, while it is running.
    pub frame: Option<FrameId>,
}

/// A running loop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopFrame {
    /// The path of the loop in the run.
    pub path: Arc<str>,
    /// The items, in a loop over items.
    pub items: Option<LoopItems>,
    /// The maximum number of iterations, evaluated when the loop began.
    pub max_iterations: Option<u64>,
    /// The maximum number of concurrent iterations, at least 1.
    pub max_concurrency: u64,
    /// The time at which the time limit is reached.
    pub time_at: Option<Timestamp>,
    /// The timer of the time limit.
    pub time_key: Option<TimerKey>,
    /// Iterations begun; the next iteration's index.
    pub begun: u64,
    /// Iterations ended.
    pub ended: u64,
    /// Iterations that failed.
    pub failed: u64,
    /// Iterations that were cancelled with or by the loop; neither successes nor failures.
    pub cancelled: u64,
    /// The iterations that have not ended, by index.
    pub iterations: BTreeMap<u64, LiveIteration>,
    /// The highest index of an iteration that has ended and was not cancelled.
    pub last_index: Option<u64>,
    /// The status of that iteration.
    pub last_status: Option<Status>,
    /// The error of that iteration.
    pub last_error: Option<ErrorInfo>,
    /// The error of the iteration that failed first.
    pub first_error: Option<ErrorInfo>,
    /// The error of a loop that stops as failed.
    pub cause: Option<ErrorInfo>,
    /// The output of the iteration with `last_index`.
    pub previous: Value,
    /// The results collected so far.
    pub results: LoopResults,
    /// The condition has ended the loop.
    pub condition_met: bool,
    /// No further iteration begins; the loop ends when the live ones have ended.
    pub stopping: Option<LoopEndReason>,
    /// The last value that the stall check has seen, and how often in a row.
    pub stall: Option<(Value, u64)>,
    /// Quiet iterations that no event has reported yet: the first, and how many of them failed.
    pub unpublished: Option<(u64, u64)>,
    /// The steps inside quiet iterations that have ended and that no event has reported yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet_steps: Vec<QuietSteps>,
    /// Its end has been decided and published.
    pub concluded: bool,
    /// `break_when` ended the loop.
    pub broken_off: bool,
    /// The budget that all iterations share.
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
    /// The history of iterations whose judge runs, by index. They are recorded with its verdict.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judging: BTreeMap<u64, IterationRecord>,
}

/// The phase of a live iteration: its body runs, or its judge does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveIteration {
    /// The body runs in this frame.
    Body(FrameId),
    /// The judge runs in this frame.
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
    /// The name of the resource.
    pub what: Arc<str>,
    /// The amount used so far.
    pub used: u64,
    /// The maximum amount.
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
            quiet_steps: Vec::new(),
            concluded: false,
            broken_off: false,
            budget,
            record: Value::Null,
            records: LoopResults::default(),
            history: None,
            unjudged: 0,
            judging: BTreeMap::new(),
        }
    }
}

/// A loop's collection, evaluated once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopItems {
    /// The number of items.
    pub count: u64,
    /// The items themselves.
    pub storage: ItemStorage,
}

/// The storage of a loop's items: in the state, or outside for a long list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ItemStorage {
    /// The list itself, in the state.
    Inline(Value),
    /// Lists of equal length, except for the last.
    Chunks {
        /// The stored lists, in order.
        chunks: Vec<StoredValue>,
        /// The number of items in each list but the last.
        chunk_items: u64,
    },
}

/// Results or records, collected until the loop ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoopResults {
    /// Full chunks, in index order.
    pub chunks: Vec<StoredValue>,
    /// The number of results in the chunks.
    pub stored_items: u64,
    /// Contiguous results after the chunks; for a condition loop, the newest ones.
    pub tail: VecDeque<Value>,
    /// Results that arrived before those of an earlier iteration.
    pub early: BTreeMap<u64, Value>,
    /// The number of results that were dropped because there were too many.
    pub dropped: u64,
}

/// A running net.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetFrame {
    /// The progress of each place, by its index in the plan.
    pub places: Vec<PlaceFrame>,
    /// Running bodies, by slot, with their place and the fan-outs of their token.
    pub firings: BTreeMap<u64, Box<Firing>>,
    /// The slot of the next body.
    pub next_slot: u64,
    /// The number of tokens made so far.
    pub tokens: u64,
    /// The number of the next fan-out.
    pub next_fan_out: u64,
    /// Open work of each fan-out.
    pub fan_outs: BTreeMap<u64, FanOut>,
    /// Activations of the net's regions, by number, with the tokens that meet in them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub activations: BTreeMap<u64, RegionActivation>,
    /// The number of the activation that was made last.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub next_activation: u64,
    /// The output of the body that ended last.
    pub last_output: Value,
    /// Always None: a failed net ends at once, and its error is in [`Frame::closing`]. Part of the encoding.
    pub error: Option<ErrorInfo>,
    /// Always false, like `error` part of the encoding.
    pub failed: bool,
}

/// The progress of a place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlaceFrame {
    /// The number of running bodies that hold a slot.
    pub running: u32,
    /// Tokens that wait for a slot, oldest first.
    pub queue: VecDeque<NetToken>,
    /// Tokens that a join holds, by accepted kind.
    pub held: Vec<VecDeque<NetToken>>,
    /// How often the place has run its body.
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

/// A token on its way to a place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetToken {
    /// The kind of the token.
    pub kind: Arc<str>,
    /// The content of the token.
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
    /// The activation that it belongs to, of each region around its place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub regions: BTreeMap<u32, u64>,
}

/// A running body of a place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Firing {
    /// The index of the place in the plan.
    pub place: u32,
    /// The frame of the body.
    pub frame: FrameId,
    /// The fan-outs of its token, innermost last.
    pub lineage: Vec<u64>,
    /// How often the place has run its body, this time included.
    pub visit: u32,
    /// The kind of the token that it runs for.
    pub token: Arc<str>,
    /// The bodies, by slot, that its token comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u64>,
    /// The counts of its token; see [`NetToken::handled`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<u32, u32>,
    /// The number of its slot at the place; None while it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// The tokens its tasks have sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SentToken>,
    /// The order of its token; see [`NetToken::order`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u64>,
    /// The activations of its token; see [`NetToken::regions`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub regions: BTreeMap<u32, u64>,
    /// Whether the body holds a slot.
    #[serde(default, skip_serializing_if = "SlotState::has_slot")]
    pub slot_state: SlotState,
}

/// Whether a body holds one of its place's slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotState {
    /// It holds a slot.
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
