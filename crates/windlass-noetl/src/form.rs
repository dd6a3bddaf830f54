//! The common form of all step spellings: a guard, a loop, labelled tasks with rules, arcs.

use std::sync::Arc;

use windlass_core::plan::{Amount, ExprId, IterationFailure, LoopCheck, LoopSource, Retry, ToolName, VariableUpdate};
use windlass_syntax::Span;
use windlass_value::Duration;

use crate::failure_arcs::ArcEnds;
use crate::steps::StepForm;

pub(crate) struct NoetlStep {
    pub name: Arc<str>,
    pub span: Span,
    pub guard: Option<ExprId>,
    /// The spelling of the step.
    pub form: StepForm,
    pub join: StepJoin,
    pub timeout: Option<Amount<Duration>>,
    /// All matching arcs fire, not only the first.
    pub inclusive: bool,
    pub looping: Option<NoetlLoop>,
    /// The body: runs once, or once per iteration.
    pub tasks: Vec<NoetlTask>,
    /// Runs once, after the body has ended successfully.
    pub after: Vec<NoetlTask>,
    pub arcs: Vec<StepArc>,
}

/// `spec.join` of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StepJoin {
    #[default]
    Unset,
    /// Each token runs the step.
    None,
    /// All tokens of a fan-out run it once; every step with an arc to it must send one.
    All,
}

pub(crate) struct NoetlLoop {
    /// The maximum number of iterations, if the file sets one.
    pub max_iterations: Option<Amount<u64>>,
    pub kind: &'static str,
    pub source: LoopSource,
    pub check: LoopCheck,
    pub item: Option<Arc<str>>,
    pub in_flight: Amount<u64>,
    pub on_iteration_failure: IterationFailure,
    /// The entry of each iteration in the loop's results; `None` for the iteration's result.
    pub entry: Option<ExprId>,
    pub span: Span,
}

pub(crate) struct NoetlTask {
    pub label: Arc<str>,
    /// The author gave the label, so templates may read the task by it.
    pub labelled: bool,
    pub span: Span,
    pub work: TaskWork,
    pub rules: Vec<NoetlRule>,
    /// Applied before the rules: retries of the tool itself.
    pub retry: Option<Retry>,
    pub timeout: Option<Amount<Duration>>,
    pub hidden: bool,
    /// Writes made when the task continues, whichever rule applies.
    pub writes: Vec<VariableUpdate>,
    /// `_prev` does not change: the result of a sink is not the step's result.
    pub keeps_previous: bool,
    /// The value of `_prev` instead of the result.
    pub select: Option<ExprId>,
    /// Selects from the step's result before any other task reads it.
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
    /// Waits for a person's answer.
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
    /// Jumps to the task with this label.
    Jump(String, Span),
    /// Jumps to the previous task.
    JumpToPrevious(Span),
    /// Jumps to the task at this index, chosen by the compiler.
    JumpToIndex(usize),
    Break,
    Fail,
}

impl RuleAction {
    /// Reports whether the task ends successfully, so that its writes take effect.
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
    /// The ends of the step after which the arc may fire.
    pub ends: ArcEnds,
    /// The condition after a success.
    pub when: Option<ExprId>,
    /// The same condition after a failure: a missing value counts as false.
    pub when_failed: Option<ExprId>,
    /// After a failure the condition is about variables that a `do: fail` rule must have written.
    pub needs_writes: bool,
    /// The span of a condition that may be meant for a failure and does not look at it.
    pub blind: Option<Span>,
    pub payload: Option<ExprId>,
    pub writes: Vec<VariableUpdate>,
    /// The names that the token carries, as far as they are literal.
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
