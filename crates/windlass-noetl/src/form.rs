//! What every way of writing a step becomes: a guard, a loop, labelled tasks with rules, arcs.

use std::sync::Arc;

use windlass_core::plan::{Amount, Check, ExprId, Name, Retry, Source, IterationFailure, Write};
use windlass_syntax::Span;
use windlass_value::Duration;

pub(crate) struct Step {
    pub name: Arc<str>,
    pub span: Span,
    pub guard: Option<ExprId>,
    /// Waits for a token of every arc that leads here.
    pub joins: bool,
    pub timeout: Option<Amount<Duration>>,
    /// All arcs that match fire, not only the first.
    pub inclusive: bool,
    pub looping: Option<Looping>,
    /// The body: once, or once a turn.
    pub tasks: Vec<Task>,
    /// After the body has ended well, once.
    pub after: Vec<Task>,
    pub arcs: Vec<Route>,
}

pub(crate) struct Looping {
    /// How many turns at most, if the file says so.
    pub max_iterations: Option<Amount<u64>>,
    pub kind: &'static str,
    pub source: Source,
    pub check: Check,
    pub item: Option<Arc<str>>,
    pub in_flight: Amount<u64>,
    pub on_iteration_failure: IterationFailure,
    /// What is kept of each turn; None: what it gave.
    pub entry: Option<ExprId>,
    pub span: Span,
}

pub(crate) struct Task {
    pub label: Arc<str>,
    /// The author gave it its label, so templates may read it by that.
    pub labelled: bool,
    pub span: Span,
    pub work: Work,
    pub rules: Vec<Rule>,
    /// Before the rules: part of the tool's own affairs.
    pub retry: Option<Retry>,
    pub timeout: Option<Amount<Duration>>,
    pub hidden: bool,
    /// Made when the task goes on, whichever rule says so.
    pub writes: Vec<Write>,
    /// `_prev` stays what it was: what a sink gives is not the step's result.
    pub keeps_previous: bool,
    /// What `_prev` becomes instead of the result.
    pub select: Option<ExprId>,
    /// Selects from the step's result, before anything else looks at it.
    pub selects: bool,
}

pub(crate) enum Work {
    Evaluate(ExprId),
    Effect {
        tool: Name,
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

pub(crate) struct Rule {
    pub when: Option<ExprId>,
    pub then: Then,
    pub writes: Vec<Write>,
    pub previous: Option<ExprId>,
    pub times: Option<Amount<u64>>,
}

pub(crate) enum Then {
    Continue,
    Retry(Retry),
    /// To the task of this label.
    Jump(String, Span),
    /// To the task before this one.
    Back(Span),
    /// To the task at this place, chosen by the front.
    To(usize),
    Break,
    Fail,
}

impl Then {
    /// Whether the task is left in good order, so that what it wrote counts.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self, Then::Continue | Then::Jump(..) | Then::Back(_) | Then::To(_) | Then::Break)
    }
}

/// An arc to another step.
pub(crate) struct Route {
    pub step: Arc<str>,
    pub span: Span,
    /// The same condition for an end that is good, and for one that is not.
    pub when: Option<(ExprId, ExprId)>,
    pub payload: Option<ExprId>,
    pub writes: Vec<Write>,
    /// The names that the token carries, as far as they are written down.
    pub keys: Vec<String>,
}

impl Task {
    pub(crate) fn new(label: impl Into<Arc<str>>, work: Work, span: Span) -> Task {
        Task {
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

impl Rule {
    pub(crate) fn new(when: Option<ExprId>, then: Then) -> Rule {
        Rule { when, then, writes: Vec::new(), previous: None, times: None }
    }
}
