//! The complete state of a run, as a snapshot stores it.
//!
//! The reducer keeps no information outside of it: delayed retries, deadlines, waits, attempt counts and slots are
//! all included. Only the reducer changes it; all other code only reads it.

mod check;
mod fan_out;
mod fork;
mod frame;
mod mail;
mod quiet_steps;
mod slab;
mod wait_frame;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, RunView, Timestamp, Value};

pub use fan_out::{FanOut, FanOutMember, RegionActivation};
pub use fork::{ForkOrigin, SetVariableError};
pub use frame::{
    BudgetUsage, ChildState, Closing, Firing, Frame, FrameBody, GraphFrame, ItemStorage, LiveIteration, LoopFrame,
    LoopItems, LoopResults, NetFrame, NetToken, PendingWait, PipelineFrame, PlaceFrame, SlotState, UsageAccount,
};
pub use mail::{MailState, MailWait, MailboxFrame};
pub use quiet_steps::QuietSteps;
pub use slab::{Slab, SlabId};
pub use wait_frame::{ApprovalForm, WaitFrame};

use crate::plan::{NodeId, VariableKind};
use crate::{CallOrigin, EffectKey, ErrorInfo, Job, Outcome, RunReply, RunResult, Status, TaskOutcome};

/// The version of a snapshot's encoding. It is raised when a program that does not know the new form would misread it.
pub const STATE_FORMAT: u16 = 1;

/// The id of a frame. It never refers to a later frame in the same entry.
pub type FrameId = SlabId<Frame>;
/// The id of a scope.
pub type ScopeId = SlabId<Scope>;

/// The key of a timer in the queue: due time, then creation order.
pub type TimerKey = (Timestamp, u64);

/// The complete state of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The version of its encoding; see [`STATE_FORMAT`].
    pub format: u16,
    /// The facts about the run that expressions can read: id, name, times, input.
    pub run: RunView,
    /// The part of its life that the run is in.
    pub phase: Phase,
    /// Nothing new begins until the run is resumed.
    pub paused: bool,
    /// Ticks reduced so far.
    pub ticks: u64,
    /// Iterations begun so far, over all loops.
    pub iterations: u64,
    /// The number of the newest event.
    pub events: u64,
    /// The time of the last tick.
    pub now: Timestamp,
    /// The entropy of the current tick.
    pub seed: u64,
    /// Random values drawn in this tick.
    pub draws: u64,
    /// The time the run has been alive, for its timeout.
    pub alive_time: Duration,
    /// The frame of the plan's root; None before the start and after the end.
    pub root: Option<FrameId>,
    /// The scope of the run's own variables.
    pub root_scope: ScopeId,
    /// All live frames.
    pub frames: Slab<Frame>,
    /// All live scopes.
    pub scopes: Slab<Scope>,
    /// Work that the reducer has yet to do, in order. Empty between ticks, unless a tick yielded or the run is paused.
    pub agenda: VecDeque<AgendaItem>,
    /// Boxed: most runs have one entry or none, and the first leaf of a tree reserves space for eleven.
    pub jobs: BTreeMap<u64, Box<OpenJob>>,
    /// Child runs that have not ended, by the number of their call.
    pub calls: BTreeMap<u64, OpenCall>,
    /// All timers, earliest first.
    pub timers: BTreeMap<TimerKey, Timer>,
    /// Frames that wait for an outside event, by name, oldest first.
    pub waits: BTreeMap<Arc<str>, VecDeque<FrameId>>,
    /// Buffered outside events that no frame waits for yet.
    pub signals: BTreeMap<Arc<str>, VecDeque<Value>>,
    /// Live nets, which accept outside events.
    pub nets: Vec<FrameId>,
    /// Worker numbers below `workers` that no job has.
    pub free_workers: BTreeSet<u32>,
    /// The number of worker numbers that were handed out.
    pub workers: u32,
    /// The number of the next job.
    pub next_job: u64,
    /// The number of the next call.
    pub next_call: u64,
    /// The number of the next timer, which orders timers of the same time.
    pub next_timer: u64,
    /// The generation of the newest entry of a frame; the next entry gets the number after it.
    pub next_generation: u32,
    /// An end that was decided before the root has ended: by a cancellation, a terminate action or a timeout.
    pub decided_end: Option<Closing>,
    /// The reply the run has given; from then on its caller cannot cancel it.
    pub reply: Option<RunReply>,
    /// The node whose output is the run's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_node: Option<Arc<str>>,
    /// The idle event was published and the run has not moved since.
    pub idle_published: bool,
    /// Pipelines whose next call waits for amounts that other calls have reserved.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub waiting_for_budget: VecDeque<FrameId>,
    /// A reserved amount was freed, and the waiting pipelines have not been checked yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub budget_freed: bool,
    /// Mailboxes and waits for mail.
    #[serde(default, skip_serializing_if = "MailState::is_unused")]
    pub mail: MailState,
    /// Set when the run was forked from another run and has not published that yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_origin: Option<Box<ForkOrigin>>,
    /// The open waits that show a form to people.
    #[serde(default, skip_serializing_if = "OpenForms::is_unused")]
    pub forms: OpenForms,
    /// A start that was received and is held until the run is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_start: Option<Box<HeldStart>>,
}

/// A held start: its parameters other than the input, and the events received since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldStart {
    /// For a child run: the run that called it.
    pub origin: Option<Box<CallOrigin>>,
    /// Values that replace the plan's defaults, as an object.
    pub defaults: Value,
    /// Events from outside, in order of arrival.
    pub events: Vec<HeldEvent>,
}

/// An event that was received while the start was held.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldEvent {
    /// The name of the event.
    pub name: Arc<str>,
    /// The data of the event.
    pub payload: Value,
    /// The only place that receives it.
    pub to: Option<Arc<str>>,
}

/// The open waits that show a form to people.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpenForms {
    /// The frames of these waits.
    pub open: BTreeSet<FrameId>,
    /// Increases whenever a form opens or closes.
    pub changes: u64,
}

impl OpenForms {
    fn is_unused(&self) -> bool {
        self.changes == 0
    }
}

/// The part of its life that a run is in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// Created, not started.
    Created,
    /// Started and not ended.
    Running,
    /// Ended with this result.
    Ended(RunResult),
}

/// The variables a frame can see: one scope for the run, one for each iteration and each node that opens one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scope {
    /// The scope around it, whose variables are visible too.
    pub parent: Option<ScopeId>,
    /// The loop, net place or node this scope belongs to; None for the run.
    pub owner: Option<NodeId>,
    /// Its own variables.
    pub variables: BTreeMap<Arc<str>, Variable>,
    /// Outcomes of the nodes that belong to this scope, sorted by node.
    pub outcomes: Vec<(NodeId, Arc<Outcome>)>,
    /// In a loop's body: the iteration.
    pub iteration: Option<Iteration>,
    /// The token of a place's body. It is not a variable, so no write can use its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenContext>,
}

/// A token as the body of its place sees it: `kind` and `args`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenContext {
    /// The kind of the token.
    pub kind: Arc<str>,
    /// The payload of the token.
    pub args: Value,
}

impl TokenContext {
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        match name {
            "args" => Some(self.args.clone()),
            "kind" => Some(Value::Str(self.kind.clone())),
            _ => None,
        }
    }
}

/// A variable of a scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// The type of value that it may hold.
    pub kind: VariableKind,
    /// The current value.
    pub value: Value,
}

/// An iteration, as expressions in its body see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Iteration {
    /// The loop that it belongs to.
    pub loop_node: NodeId,
    /// The index of the iteration, counted from 0.
    pub index: u64,
    /// The item, in a loop over items; else the item of a loop around it.
    pub item: Value,
    /// The output of the iteration before; null in the first.
    pub previous: Value,
    /// The time at which the loop began.
    pub loop_started_at: Timestamp,
    /// The time at which the iteration began.
    pub started_at: Timestamp,
    /// The number of items of its loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// A job that a worker holds: the job as it was last dispatched, and the reducer's own data about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenJob {
    /// The pipeline that the job belongs to.
    pub frame: FrameId,
    /// Its input is null while the job is resting.
    pub job: Job,
    /// Set when the job is cancelled; it keeps its slot until its worker confirms or this timer fires.
    pub cancelled: Option<TimerKey>,
    /// Its worker has reported and keeps the lease until the pipeline determines the next task.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resting: bool,
    /// The amounts that the call has reserved from the surrounding budgets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<(Arc<str>, u64)>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl OpenJob {
    /// Returns true if a worker currently executes the job under this lease epoch, so that its reports count.
    pub fn is_dispatched_under(&self, lease_epoch: u32) -> bool {
        self.job.lease_epoch == lease_epoch && !self.resting
    }
}

/// A child run that has not ended, with everything needed to request it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenCall {
    /// The frame that waits for its end: a call, or a pipeline with a suspended task.
    pub frame: FrameId,
    /// The name of the definition.
    pub definition: Arc<str>,
    /// The input of the child run.
    pub input: Value,
    /// The idempotency key of the call.
    pub key: EffectKey,
}

/// The consequence of a timer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Timer {
    /// The node's timeout expired.
    Deadline(FrameId),
    /// The loop's time limit expired.
    LoopTime(FrameId),
    /// A delay, wait or backoff is over.
    Alarm(FrameId),
    /// A cancelled job has not confirmed in time.
    Grace(u64),
    /// The node's budget of time is used up.
    Budget(FrameId),
    /// The run's timeout expired.
    Run,
}

/// A unit of work for the reducer. An item evaluates before it changes anything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AgendaItem {
    /// Begins a frame, or begins it again after a failure.
    Enter(FrameId),
    /// Runs the pipeline's current task.
    Task(FrameId),
    /// Continues a pipeline with the outcome of its current task.
    TaskEnded(FrameId, Box<TaskOutcome>),
    /// Continues a frame after the end of a frame inside it.
    ChildEnded {
        /// The frame to continue.
        parent: FrameId,
        /// The slot of the ended frame; see [`Frame::slot`].
        slot: u64,
        /// The outcome of the ended frame.
        outcome: Arc<Outcome>,
        /// The scope that the ended frame used.
        scope: ScopeId,
    },
    /// Starts a child of a graph whose dependencies are met.
    StartChild {
        /// The frame of the graph.
        graph: FrameId,
        /// The index of the child in the graph.
        child: u32,
    },
    /// Evaluates a loop's condition before its first iteration.
    FirstCheck(FrameId),
    /// Begins as many iterations of a loop as its concurrency allows.
    NextIteration(FrameId),
    /// Looks for tokens that can fire.
    Fire(FrameId),
    /// Ends a frame.
    Finish(FrameId, Box<FrameEnd>),
    /// Ends the run with the outcome of its root.
    EndRun(Arc<Outcome>),
    /// Computes the defaults of parameters that were not supplied.
    Parameters,
    /// A token from outside, part of which must be loaded before it can be routed.
    Token(FrameId, Box<NetToken>),
    /// Mail from outside, which may have to be loaded before it can be routed.
    Mail(Value),
}

/// The pending end of a frame.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FrameEnd {
    /// The final status.
    pub status: Status,
    /// The output before the node's output expression.
    pub output: Value,
    /// The error, or the reason why the node was skipped.
    pub error: Option<ErrorInfo>,
    /// The evaluated inputs.
    pub inputs: Value,
    /// The number of attempts.
    pub attempts: u32,
    /// On a loop: a summary of its end.
    pub loop_summary: Option<crate::LoopSummary>,
}

impl FrameEnd {
    pub(crate) fn into_outcome(self, started_at: Timestamp, ended_at: Timestamp) -> Outcome {
        let FrameEnd { status, output, error, inputs, attempts, loop_summary } = self;
        Outcome { status, output, error, inputs, attempts, started_at, ended_at, loop_summary, usage: Value::Null }
    }
}

impl State {
    /// Creates the state of a run that has not started.
    pub fn new(run: RunView) -> State {
        let mut scopes = Slab::default();
        let root_scope = scopes.insert(Scope::new(None, None));
        let now = run.started_at;
        State {
            format: STATE_FORMAT,
            run,
            phase: Phase::Created,
            paused: false,
            ticks: 0,
            iterations: 0,
            events: 0,
            now,
            seed: 0,
            draws: 0,
            alive_time: Duration::ZERO,
            root: None,
            root_scope,
            frames: Slab::default(),
            scopes,
            agenda: VecDeque::new(),
            jobs: BTreeMap::new(),
            calls: BTreeMap::new(),
            timers: BTreeMap::new(),
            waits: BTreeMap::new(),
            signals: BTreeMap::new(),
            nets: Vec::new(),
            free_workers: BTreeSet::new(),
            workers: 0,
            next_job: 0,
            next_call: 0,
            next_timer: 0,
            next_generation: 0,
            decided_end: None,
            reply: None,
            output_node: None,
            idle_published: false,
            waiting_for_budget: VecDeque::new(),
            budget_freed: false,
            mail: MailState::default(),
            fork_origin: None,
            forms: OpenForms::default(),
            held_start: None,
        }
    }

    /// Returns the forms that the run shows to people now, with the name of the signal that answers each.
    pub fn open_forms(&self) -> impl Iterator<Item = (&Arc<str>, &ApprovalForm)> {
        self.forms.open.iter().filter_map(|id| match self.frames.get(*id).map(|frame| &frame.body) {
            Some(FrameBody::Wait(WaitFrame::Signal { name, form: Some(form), .. })) => Some((name, &**form)),
            _ => None,
        })
    }

    /// Returns the due time of the earliest timer.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    /// Returns the result, once the run has ended.
    pub fn result(&self) -> Option<&RunResult> {
        match &self.phase {
            Phase::Ended(result) => Some(result),
            Phase::Created | Phase::Running => None,
        }
    }

    /// Returns true if there is work that needs neither time nor input.
    pub(crate) fn has_work(&self) -> bool {
        !self.agenda.is_empty() && !self.paused
    }

    /// Returns true if no work is in progress: only time, a signal or the end of a child run can make the run proceed.
    pub fn is_quiet(&self) -> bool {
        self.jobs.is_empty() && !self.has_work()
    }

    /// Returns true if only an outside event can make the run proceed.
    pub fn is_idle(&self) -> bool {
        let waiting = !self.waits.is_empty() || !self.nets.is_empty();
        waiting && self.agenda.is_empty() && self.phase == Phase::Running && !self.moves_by_itself()
    }

    /// Returns the time until which nothing happens by itself: a step waits for it, a loop between two iterations, or
    /// a retry.
    pub fn waits_until(&self) -> Option<Timestamp> {
        if !self.is_quiet() || !self.calls.is_empty() {
            return None;
        }
        self.timers.iter().find_map(|((at, _), timer)| matches!(timer, Timer::Alarm(_)).then_some(*at))
    }

    /// Returns true if a worker, a child run or a delay will make the run proceed, regardless of the agenda. (A wait's
    /// deadline is not work.)
    pub fn moves_by_itself(&self) -> bool {
        self.moves_ignoring(|_| false)
    }

    /// Returns the same as [`State::moves_by_itself`], ignoring the timers of waits for mail: such a wait waits for
    /// another node to become idle, which does not happen if nothing else proceeds.
    pub(crate) fn moves_without_mail(&self) -> bool {
        self.moves_ignoring(|wait| matches!(wait, WaitFrame::Mail(_)))
    }

    fn moves_ignoring(&self, is_ignored: impl Fn(&WaitFrame) -> bool) -> bool {
        let delayed = |timer: &Timer| match timer {
            Timer::Alarm(frame) => match self.frames.get(*frame).map(|frame| &frame.body) {
                Some(FrameBody::Wait(WaitFrame::Signal { .. })) => false,
                Some(FrameBody::Wait(wait)) => !is_ignored(wait),
                Some(FrameBody::Pipeline(body)) => {
                    !matches!(body.pending_wait.as_deref(), Some(PendingWait::Event { .. }))
                }
                _ => true,
            },
            Timer::Grace(_) => true,
            Timer::Deadline(_) | Timer::LoopTime(_) | Timer::Budget(_) | Timer::Run => false,
        };
        !self.jobs.is_empty() || !self.calls.is_empty() || self.timers.values().any(delayed)
    }
}

impl Scope {
    pub(crate) fn new(parent: Option<ScopeId>, owner: Option<NodeId>) -> Scope {
        Scope { parent, owner, variables: BTreeMap::new(), outcomes: Vec::new(), iteration: None, token: None }
    }

    /// Returns the outcome of a node that has ended in this scope.
    pub fn outcome(&self, node: NodeId) -> Option<&Arc<Outcome>> {
        let at = self.outcomes.binary_search_by_key(&node, |(id, _)| *id).ok()?;
        Some(&self.outcomes[at].1)
    }

    pub(crate) fn record(&mut self, node: NodeId, outcome: Arc<Outcome>) {
        match self.outcomes.binary_search_by_key(&node, |(id, _)| *id) {
            Ok(at) => self.outcomes[at].1 = outcome,
            Err(at) => self.outcomes.insert(at, (node, outcome)),
        }
    }
}
