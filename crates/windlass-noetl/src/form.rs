//! What every way of writing a step becomes: a guard, a loop, labelled tasks with rules, arcs.

use std::sync::Arc;

use windlass_core::plan::{Amount, ExprId, IterationFailure, LoopCheck, LoopSource, Retry, ToolName, VariableUpdate};
use windlass_syntax::Span;
use windlass_value::Duration;

pub(crate) struct NoetlStep {
    pub name: Arc<str>,
    pub span: Span,
    pub guard: Option<ExprId>,
    /// Waits for a token of every arc that leads here.
    pub joins: bool,
    pub timeout: Option<Amount<Duration>>,
    /// All arcs that match fire, not only the first.
    pub inclusive: bool,
    pub looping: Option<NoetlLoop>,
    /// The body: once, or once a turn.
    pub tasks: Vec<NoetlTask>,
    /// After the body has ended well, once.
    pub after: Vec<NoetlTask>,
    pub arcs: Vec<StepArc>,
}

pub(crate) struct NoetlLoop {
    /// How many turns at most, if the file says so.
    pub max_iterations: Option<Amount<u64>>,
    pub kind: &'static str,
    pub source: LoopSource,
    pub check: LoopCheck,
    pub item: Option<Arc<str>>,
    pub in_flight: Amount<u64>,
    pub on_iteration_failure: IterationFailure,
    /// What is kept of each turn; None: what it gave.
    pub entry: Option<ExprId>,
    pub span: Span,
}

pub(crate) struct NoetlTask {
    pub label: Arc<str>,
    /// The author gave it its label, so templates may read it by that.
    pub labelled: bool,
    pub span: Span,
    pub work: TaskWork,
    pub rules: Vec<NoetlRule>,
    /// Before the rules: part of the tool's own affairs.
    pub retry: Option<Retry>,
    pub timeout: Option<Amount<Duration>>,
    pub hidden: bool,
    /// Made when the task goes on, whichever rule says so.
    pub writes: Vec<VariableUpdate>,
    /// `_prev` stays what it was: what a sink gives is not the step's result.
    pub keeps_previous: bool,
    /// What `_prev` becomes instead of the result.
    pub select: Option<ExprId>,
    /// Selects from the step's result, before anything else looks at it.
    pub selects: bool,
}

pub(crate) enum TaskWork {
    Evaluate(ExprId),
    Effect {
        tool: ToolName,
        input: ExprId,
    },
    Call {
        definition: ExprId,
        input: ExprId,
    },
    /// Waits for somebody's answer.
    Ask {
        name: Arc<str>,
        form: ExprId,
        deadline: Option<Amount<Duration>>,
    },
}

pub(crate) struct NoetlRule {
    pub when: Option<ExprId>,
    pub then: RuleAction,
    pub writes: Vec<VariableUpdate>,
    pub previous: Option<ExprId>,
    pub times: Option<Amount<u64>>,
}

pub(crate) enum RuleAction {
    Continue,
    Retry(Retry),
    /// To the task of this label.
    Jump(String, Span),
    /// To the task before this one.
    JumpToPrevious(Span),
    /// To the task at this place, chosen by the front.
    JumpToIndex(usize),
    Break,
    Fail,
}

impl RuleAction {
    /// Whether the task is left in good order, so that what it wrote counts.
    pub(crate) fn continues(&self) -> bool {
        matches!(
            self,
            RuleAction::Continue
                | RuleAction::Jump(..)
                | RuleAction::JumpToPrevious(_)
                | RuleAction::JumpToIndex(_)
                | RuleAction::Break
        )
    }
}

/// An arc to another step.
pub(crate) struct StepArc {
    pub step: Arc<str>,
    pub span: Span,
    /// The same condition for an end that is good, and for one that is not.
    pub when: Option<(ExprId, ExprId)>,
    pub payload: Option<ExprId>,
    pub writes: Vec<VariableUpdate>,
    /// The names that the token carries, as far as they are written down.
    pub keys: Vec<String>,
}

impl NoetlTask {
    pub(crate) fn new(label: impl Into<Arc<str>>, work: TaskWork, span: Span) -> NoetlTask {
        NoetlTask {
            label: label.into(),
            labelled: false,
            span,
            work,
            rules: Vec::new(),
            retry: None,
            timeout: None,
            hidden: false,
            writes: Vec::new(),
            keeps_previous: false,
            select: None,
            selects: false,
        }
    }
}

impl NoetlRule {
    pub(crate) fn new(when: Option<ExprId>, then: RuleAction) -> NoetlRule {
        NoetlRule { when, then, writes: Vec::new(), previous: None, times: None }
    }
}
