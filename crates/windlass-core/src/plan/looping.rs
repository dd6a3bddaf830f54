//! The loop node, used for the loops of every dialect.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

use super::{Amount, ExprId, NodeId};
use crate::Limits;

/// A body that is repeated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loop {
    /// The dialect's name of the loop: `until`, `while`, `doUntil`, `foreach`, `repeat`.
    pub kind: Arc<str>,
    /// The source of the iterations: repetition or a list.
    pub source: LoopSource,
    /// The condition that ends the loop.
    pub check: LoopCheck,
    /// A node that decides after an iteration: an output with `done: true` ends the loop.
    pub judge: Option<NodeId>,
    /// Upper limits, which end every loop.
    pub limits: LoopLimits,
    /// The status of a loop that a limit has ended.
    pub on_exhausted: ExhaustedPolicy,
    /// The delay between iterations: never before the first, never after the last.
    pub delay: Option<Amount<Duration>>,
    /// The maximum number of concurrent iterations.
    pub max_concurrency: Amount<u64>,
    /// The effect of a failed iteration.
    pub on_iteration_failure: IterationFailure,
    /// The node that each iteration runs.
    pub body: NodeId,
    /// The form of the loop's output.
    pub collect: CollectMode,
    /// A condition evaluated after each iteration, in the iteration's scope: true ends the loop as succeeded. An
    /// extension.
    pub break_when: Option<ExprId>,
    /// Ends a loop that makes no progress.
    pub stall: Option<StallCheck>,
    /// The record kept of each iteration, for later queries about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordingSpec>,
    /// The entry kept of each iteration in [`CollectMode::List`] and [`CollectMode::Stats`] instead of its output, also
    /// of failed iterations. Evaluated in the iteration's scope when the iteration has ended, with the names `status`
    /// (`success`, `error`), `output` and `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<ExprId>,
    /// The definition's name for the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Arc<str>>,
    /// A loop the compiler generated. It publishes no events and keeps no history; the nodes inside it do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub internal: bool,
    /// A failed judge fails the loop. Otherwise it counts as undecided.
    #[serde(default, skip_serializing_if = "is_false")]
    pub judge_fails: bool,
    /// The number of iterations without a verdict that the loop tolerates; one more fails it. None means any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unjudged: Option<u64>,
}

/// Constructors. A dialect sets the options that it knows (`Loop { delay, ..Loop::repeat(body, limits) }`); all
/// others have the defaults given here, so that a new option affects only the core and the dialects that offer it.
impl Loop {
    /// Creates a loop over a list: one iteration at a time, the first failure ends it, and its output is the list of
    /// all results.
    pub fn each(items: ExprId, body: NodeId, limits: &Limits) -> Loop {
        Loop {
            kind: "foreach".into(),
            source: LoopSource::Each(items),
            limits: LoopLimits::for_items(limits),
            collect: CollectMode::List,
            ..Loop::repeat(body, limits)
        }
    }

    /// Creates a loop that repeats until a check, a judge or a limit ends it. The first failure and an exhausted limit
    /// fail it, and its output is its report.
    pub fn repeat(body: NodeId, limits: &Limits) -> Loop {
        Loop {
            kind: "repeat".into(),
            source: LoopSource::Repeat,
            check: LoopCheck::Never,
            judge: None,
            limits: LoopLimits::for_repeats(limits),
            on_exhausted: ExhaustedPolicy::Fail,
            delay: None,
            max_concurrency: Amount::Fixed(1),
            on_iteration_failure: IterationFailure::Stop { running_finish: false },
            body,
            collect: CollectMode::Report,
            break_when: None,
            stall: None,
            records: None,
            entry: None,
            item: None,
            internal: false,
            judge_fails: false,
            max_unjudged: None,
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Records of iterations. The expression is evaluated in an iteration's scope when the iteration has ended,
/// successfully or not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordingSpec {
    /// The expression that gives the record.
    pub value: ExprId,
    /// The records that are kept.
    pub keep: RecordRetention,
    /// The nodes inside the loop that the record's entries belong to, in order. They can be read by name when the loop
    /// has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeId>,
    /// The number of entries shown when all records of the loop are requested; the others are only read by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<u32>,
}

impl RecordingSpec {
    /// Creates records that belong to no named nodes.
    pub fn new(value: ExprId, keep: RecordRetention) -> RecordingSpec {
        RecordingSpec { value, keep, nodes: Vec::new(), listed: None }
    }
}

/// The records that a loop keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordRetention {
    /// Only the record of the last iteration, by index.
    Last,
    /// The records of all iterations, in index order.
    All,
}

/// The source of a loop's iterations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoopSource {
    /// The loop repeats until a check, a judge or a limit ends it.
    Repeat,
    /// A list, evaluated once.
    Each(ExprId),
}

/// The condition that ends a loop, and when it is evaluated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoopCheck {
    /// The loop has no condition.
    Never,
    /// Also before the first iteration, so there may be no iteration at all.
    Before {
        /// The condition.
        condition: ExprId,
        /// The value of the condition that ends the loop.
        stop_when: bool,
    },
    /// After each iteration, so there is at least one.
    After {
        /// The condition.
        condition: ExprId,
        /// The value of the condition that ends the loop.
        stop_when: bool,
    },
}

/// The limits of a loop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopLimits {
    /// None only for a loop over items.
    pub iterations: Option<Amount<u64>>,
    /// The maximum time from the loop's beginning; None is no limit.
    pub time: Option<Amount<Duration>>,
    /// Cancels an iteration that outlives the time limit; otherwise the time is checked between iterations only.
    pub cancels_iterations_on_timeout: bool,
    /// Computed limits above this maximum are rejected, as the compiler rejects them when they are written in the
    /// definition.
    pub max_iterations: u64,
    /// The same for a computed time.
    pub max_time: Duration,
    /// The budget that all iterations share, evaluated when the loop is entered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<Budget>,
}

impl LoopLimits {
    /// Returns the limits of a loop over items, which ends with its items; their number is limited once they are known.
    pub fn for_items(limits: &Limits) -> LoopLimits {
        LoopLimits {
            iterations: None,
            time: None,
            cancels_iterations_on_timeout: false,
            max_iterations: limits.max_loop_items,
            max_time: limits.max_loop_time,
            budget: Vec::new(),
        }
    }

    /// Returns the default number of iterations and the default time, neither above its maximum: an operator who lowers
    /// a maximum also affects loops that specify no limit.
    pub fn for_repeats(limits: &Limits) -> LoopLimits {
        LoopLimits {
            iterations: Some(Amount::Fixed(limits.default_loop_iterations.min(limits.max_loop_iterations))),
            time: Some(Amount::Fixed(limits.default_loop_time.min(limits.max_loop_time))),
            cancels_iterations_on_timeout: true,
            max_iterations: limits.max_loop_iterations,
            ..LoopLimits::for_items(limits)
        }
    }
}

/// An amount that the iterations of a loop share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Budget {
    /// [`CALLS`] counts effects before they are dispatched; any other name is summed from `meta.usage` of finished
    /// jobs.
    pub what: Arc<str>,
    /// The maximum amount.
    pub max: Amount<u64>,
}

/// The budget that the reducer counts itself.
pub const CALLS: &str = "calls";

/// The budget of elapsed time, in milliseconds.
pub const TIME: &str = "time";

/// The budget of money, in millionths.
pub const MONEY: &str = "money";

/// Returns an iteration as paths write it, after the path of its loop: `loop[3].inner`.
pub fn iteration_suffix(index: u64) -> String {
    format!("[{index}]")
}

/// The status of a loop whose iterations, time or budget are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExhaustedPolicy {
    /// The loop fails with the code of the limit.
    Fail,
    /// The loop ends as its iterations did.
    Succeed,
}

/// The effect of a failed iteration on its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IterationFailure {
    /// The loop fails immediately; iterations in flight are cancelled, unless they may finish.
    Stop {
        /// Lets iterations in flight finish.
        running_finish: bool,
    },
    /// The other iterations run; then the loop fails.
    FailAtEnd,
    /// Failures are counted and have no other effect.
    Count,
    /// Only the status of the last iteration matters.
    LastDecides,
    /// The loop fails when more iterations than this have failed.
    Tolerate(u64),
}

/// The output of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CollectMode {
    /// `{status, reason, iterations, conditionMet, lastResult, results}`; `results` holds the newest, and
    /// `resultsDropped` counts the others.
    Report,
    /// The list of the iterations' results, in index order.
    List,
    /// `{results, stats: {total, success, failed}}`, in index order.
    Stats,
    /// The output of the last iteration.
    Last,
}

/// The loop ends as `stalled` when the expression has returned the same value this many iterations in a row. An
/// extension.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StallCheck {
    /// The expression whose value is compared.
    pub watch: ExprId,
    /// The number of iterations after which the loop has stalled.
    pub iterations: u64,
}
