//! The one loop.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

use super::{Amount, ExprId, NodeId};
use crate::Limits;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loop {
    /// What the dialect calls it: `until`, `while`, `doUntil`, `foreach`, `repeat`.
    pub kind: Arc<str>,
    pub source: LoopSource,
    pub check: LoopCheck,
    /// A node that decides after a turn: an output with `done: true` ends the loop.
    pub judge: Option<NodeId>,
    pub limits: LoopLimits,
    pub on_exhausted: ExhaustedPolicy,
    /// Between turns: never before the first, never after the last.
    pub delay: Option<Amount<Duration>>,
    pub max_concurrency: Amount<u64>,
    pub on_iteration_failure: IterationFailure,
    pub body: NodeId,
    pub collect: CollectMode,
    /// Looked at after each turn, in the turn's scope: true ends the loop as succeeded. An extension.
    pub break_when: Option<ExprId>,
    pub stall: Option<StallCheck>,
    /// What is written down of each turn, for whoever asks the loop about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordingSpec>,
    /// What is kept of each turn in [`Collect::List`] and [`Collect::Stats`] instead of its output, failed turns too.
    /// Evaluated in the turn's scope when the turn has ended, with the names `status` (`success`, `error`), `output` and
    /// `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<ExprId>,
    /// What the definition calls the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "IterationPath::is_brackets")]
    pub iteration_path: IterationPath,
    /// No loop that people know of: neither it nor its turns are told or kept, what is inside is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub internal: bool,
    /// A judge that fails, fails the loop. Otherwise it has only not decided.
    #[serde(default, skip_serializing_if = "is_false")]
    pub judge_fails: bool,
}

/// Constructors. A dialect names the options that it knows (`Loop { delay, ..Loop::repeat(body, limits) }`); all others
/// have the defaults given here, so that a new option concerns the core and the dialects that offer it.
impl Loop {
    /// A loop over a list: one iteration at a time, the first failure ends it, and it gives the list of all results.
    pub fn each(items: ExprId, body: NodeId, limits: &Limits) -> Loop {
        Loop {
            kind: "foreach".into(),
            source: LoopSource::Each(items),
            limits: LoopLimits::for_items(limits),
            collect: CollectMode::List,
            ..Loop::repeat(body, limits)
        }
    }

    /// A loop that goes on until a check, a judge or a limit ends it: the first failure and an exhausted limit fail it, and
    /// it gives its report.
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
            iteration_path: IterationPath::Brackets,
            internal: false,
            judge_fails: false,
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Evaluated in a turn's scope when the turn has ended, well or badly.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordingSpec {
    pub value: ExprId,
    pub keep: RecordRetention,
    /// The nodes inside the loop whose records the value's entries are, in order: those can be read by name when the loop
    /// has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeId>,
    /// How many of the entries are shown when the loop is asked for all; the others are for those who name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<u32>,
}

impl RecordingSpec {
    /// Of nothing that has a name.
    pub fn new(value: ExprId, keep: RecordRetention) -> RecordingSpec {
        RecordingSpec { value, keep, nodes: Vec::new(), listed: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordRetention {
    /// Only the last turn's, by index.
    Last,
    /// Every turn's, in index order.
    All,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoopSource {
    Repeat,
    /// A list, evaluated once.
    Each(ExprId),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoopCheck {
    Never,
    /// Also before the first turn: no turn at all is possible.
    Before {
        condition: ExprId,
        stop_when: bool,
    },
    After {
        condition: ExprId,
        stop_when: bool,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopLimits {
    /// None only for a loop over items.
    pub iterations: Option<Amount<u64>>,
    pub time: Option<Amount<Duration>>,
    /// Whether a turn that outlives the time is cut off; else time is looked at between turns only.
    pub cancels_iterations_on_timeout: bool,
    /// More than this is refused when the limits are computed, as the compiler refuses it when they are written down.
    pub max_iterations: u64,
    pub max_time: Duration,
    /// What the turns may use up in all, worked out when the loop is entered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<Budget>,
}

impl LoopLimits {
    /// A loop over items ends with its items; their number is limited when they are known.
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

    /// The default number of iterations and the default time, neither above its maximum: an operator who lowers a maximum
    /// also means loops that name no limit.
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

/// An amount that the turns of a loop share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Budget {
    /// [`CALLS`] counts effects before they are handed out; any other name is summed from `meta.usage` of the jobs that
    /// have ended.
    pub what: Arc<str>,
    pub max: Amount<u64>,
}

/// The budget that the reducer counts itself.
pub const CALLS: &str = "calls";

/// The budget that the clock uses up, in milliseconds.
pub const TIME: &str = "time";

/// The budget that is kept in millionths.
pub const MONEY: &str = "money";

/// How a turn is written in paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IterationPath {
    /// `loop[3].inner`
    #[default]
    Brackets,
    /// `loop.3.inner`
    Dots,
}

impl IterationPath {
    /// What follows the loop's path.
    pub fn write(self, index: u64) -> String {
        match self {
            IterationPath::Brackets => format!("[{index}]"),
            IterationPath::Dots => format!(".{index}"),
        }
    }

    fn is_brackets(&self) -> bool {
        *self == IterationPath::Brackets
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExhaustedPolicy {
    Fail,
    Succeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IterationFailure {
    /// The loop fails at once; turns in flight are cancelled, unless they may finish.
    Stop { running_finish: bool },
    /// The other turns run; then the loop fails.
    FailAtEnd,
    /// Counted, nothing more.
    Count,
    /// Only the last turn's status matters.
    LastDecides,
    /// The loop fails when more turns than this have failed.
    Tolerate(u64),
}

/// What the loop gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CollectMode {
    /// `{status, reason, iterations, conditionMet, lastResult, results}`; results are the newest, with `resultsDropped`.
    Report,
    /// The list of the turns' results, in index order.
    List,
    /// `{results, stats: {total, success, failed}}`, in index order.
    Stats,
    /// What the last turn gave.
    Last,
}

/// The loop ends as `stalled` when the expression has given the same value this many turns in a row. An extension.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StallCheck {
    pub watch: ExprId,
    pub iterations: u64,
}
