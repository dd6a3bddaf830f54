//! The drawing model: nested boxes with arrows between them. The formats only serialize it.

use std::sync::Arc;

use windlass_core::plan::FAILED_KIND;
use windlass_core::{Status, StatusSet};
use windlass_value::{Duration, Timestamp};

use crate::text;

/// Boxes, and arrows between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    pub title: Arc<str>,
    /// Text outside the boxes: the status of a run, what was omitted.
    pub notes: Vec<String>,
    pub items: Vec<DrawingItem>,
    pub arrows: Vec<Arrow>,
    /// The activity of the whole run; `None` for a plan.
    pub activity: Option<NodeActivity>,
}

/// A box.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawingItem {
    /// Consists of letters, digits and underscores; unique in the drawing.
    pub id: String,
    pub title: String,
    /// The dialect's word for it; `choice` at a branching point, `event`, `outside`.
    pub kind: String,
    /// The kind, and further details for the second line.
    pub detail: String,
    pub shape: ItemShape,
    /// Nested boxes; only a group has any.
    pub items: Vec<DrawingItem>,
    /// The activity of the box in a run; `None` in the drawing of a plan.
    pub activity: Option<NodeActivity>,
    /// The path of its events, with `[]` for any iteration of a loop. `None` for boxes without events.
    pub path: Option<String>,
    /// The box is a loop: its iterations are recorded under its path.
    pub is_loop: bool,
}

/// The meaning of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemShape {
    Plain,
    /// A branching point.
    Choice,
    /// A container of boxes: a scope, a loop, a pipeline.
    Group,
    /// An event that steps accept or produce.
    Event(EventRole),
    /// An actor outside the workflow: the caller that starts it, a person who answers.
    Outside,
}

/// The role of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRole {
    Start,
    Stop,
    InputRequired,
    HumanResponse,
    Plain,
}

impl EventRole {
    /// Returns its name in plans and JSON.
    ///
    /// ```
    /// use windlass_draw::EventRole;
    ///
    /// assert_eq!(EventRole::InputRequired.as_str(), "input_required");
    /// assert_eq!(EventRole::from_name("stop"), EventRole::Stop);
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            EventRole::Start => "start",
            EventRole::Stop => "stop",
            EventRole::InputRequired => "input_required",
            EventRole::HumanResponse => "human_response",
            EventRole::Plain => "event",
        }
    }

    /// Returns the role of this name; any other name is a plain event.
    pub fn from_name(name: &str) -> EventRole {
        let all = [EventRole::Start, EventRole::Stop, EventRole::InputRequired, EventRole::HumanResponse];
        all.into_iter().find(|role| role.as_str() == name).unwrap_or(EventRole::Plain)
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            EventRole::Start => "start event",
            EventRole::Stop => "stop event",
            EventRole::InputRequired => "input required",
            EventRole::HumanResponse => "human response",
            EventRole::Plain => "event",
        }
    }
}

/// An arrow between two boxes; dashed when it follows a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrow {
    pub from: String,
    pub to: String,
    /// Empty for the default: after success.
    pub label: String,
    pub reason: ArrowReason,
}

/// The reason for an arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrowReason {
    /// The target waits for the source and runs after these statuses.
    After(StatusSet),
    /// The label is the condition; empty: always.
    When,
    /// A step accepts or produces an event; the label describes the join of several.
    Event,
    /// A handler runs when the step has failed.
    Failure,
    /// In a run: this event caused the target `times` times.
    CausedBy { event: Arc<str>, times: u64 },
}

/// The activity of a box in a run, over all its executions.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeActivity {
    pub state: ActivityState,
    /// The number of starts.
    pub runs: u64,
    /// The number of ended runs by status, in the order of [`Status::ALL`].
    pub ends: [u64; 5],
    pub started_at: Option<Timestamp>,
    /// The total duration of all its runs, until now for those that are still running.
    pub took: Option<Duration>,
    /// The highest number of attempts that one of its runs has needed.
    pub attempts: u32,
    pub iterations: Option<IterationCounts>,
    /// The code of the error of its last failure.
    pub error: Option<Arc<str>>,
    /// The number of the step run, and of the worker that executed it.
    pub firing: Option<u64>,
    pub worker: Option<u64>,
    /// The event that triggered it.
    pub event: Option<Arc<str>>,
}

/// The iterations of a loop, over all its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterationCounts {
    pub ended: u64,
    pub failed: u64,
    /// The maximum number of iterations, if it is known.
    pub max: Option<u64>,
    /// The number of times the loop was entered.
    pub entries: u64,
    /// The reason of its last end; `None` while it is running.
    pub reason: Option<Arc<str>>,
}

/// The state of a box in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    /// No worker is free.
    Queued,
    Running,
    /// Waiting for an event, a time or an external answer.
    Waiting,
    /// Between two attempts.
    Retrying,
    Paused,
    /// No process runs the run any more.
    Interrupted,
    Ended(Status),
}

impl Arrow {
    /// Returns whether the arrow follows a failure.
    pub(crate) fn is_dashed(&self) -> bool {
        match &self.reason {
            ArrowReason::Failure => true,
            ArrowReason::CausedBy { event, .. } => **event == *FAILED_KIND,
            ArrowReason::After(_) | ArrowReason::When | ArrowReason::Event => false,
        }
    }
}

impl ActivityState {
    pub(crate) const ALL: [ActivityState; 11] = [
        ActivityState::Queued,
        ActivityState::Running,
        ActivityState::Waiting,
        ActivityState::Retrying,
        ActivityState::Paused,
        ActivityState::Interrupted,
        ActivityState::Ended(Status::Succeeded),
        ActivityState::Ended(Status::Failed),
        ActivityState::Ended(Status::Skipped),
        ActivityState::Ended(Status::Cancelled),
        ActivityState::Ended(Status::TimedOut),
    ];

    /// Returns its name, which is also its class in Mermaid and SVG.
    ///
    /// ```
    /// use windlass_core::Status;
    /// use windlass_draw::ActivityState;
    ///
    /// assert_eq!(ActivityState::Ended(Status::TimedOut).as_str(), "timed_out");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            ActivityState::Queued => "queued",
            ActivityState::Running => "running",
            ActivityState::Waiting => "waiting",
            ActivityState::Retrying => "retrying",
            ActivityState::Paused => "paused",
            ActivityState::Interrupted => "interrupted",
            ActivityState::Ended(status) => status.as_str(),
        }
    }

    /// Returns the fill and line colours.
    pub(crate) fn colours(self) -> (&'static str, &'static str) {
        match self {
            ActivityState::Ended(Status::Succeeded) => ("#e3f5e6", "#2b7a3d"),
            ActivityState::Ended(Status::Failed | Status::TimedOut) => ("#fde4e1", "#b3261e"),
            ActivityState::Ended(Status::Cancelled) => ("#fdf0d5", "#96690a"),
            ActivityState::Ended(Status::Skipped) => ("#f1f1f1", "#8a8a8a"),
            ActivityState::Running => ("#e0effc", "#1c64a8"),
            ActivityState::Waiting | ActivityState::Paused | ActivityState::Queued => ("#ece7f8", "#5b3fa0"),
            ActivityState::Retrying | ActivityState::Interrupted => ("#fdf0d5", "#96690a"),
        }
    }
}

impl NodeActivity {
    pub(crate) fn new(state: ActivityState) -> NodeActivity {
        NodeActivity {
            state,
            runs: 0,
            ends: [0; 5],
            started_at: None,
            took: None,
            attempts: 0,
            iterations: None,
            error: None,
            firing: None,
            worker: None,
            event: None,
        }
    }

    /// Notes that no process runs the box any more. What waits for something outside still waits.
    pub(crate) fn interrupt(&mut self) {
        if matches!(self.state, ActivityState::Running | ActivityState::Retrying | ActivityState::Queued) {
            self.state = ActivityState::Interrupted;
        }
    }

    /// Formats `succeeded, 1.2s, 3 attempts`, or for several runs `× 9: 8 succeeded, 1 failed, 4.0s in total`.
    pub(crate) fn summary(&self) -> String {
        let mut parts = vec![self.status_text()];
        parts.extend(self.took.map(|took| match (self.runs, self.state) {
            (2.., _) => format!("{} in total", text::format_duration(took)),
            (_, ActivityState::Ended(_)) => text::format_duration(took),
            _ => format!("for {}", text::format_duration(took)),
        }));
        if self.attempts > 1 {
            parts.push(format!("{}{} attempts", if self.runs > 1 { "up to " } else { "" }, self.attempts));
        }
        parts.extend(self.iterations.as_ref().map(IterationCounts::summary));
        parts.extend(self.worker.map(|worker| format!("worker {worker}")));
        parts.join(", ")
    }

    fn status_text(&self) -> String {
        let error = self.error.as_ref().map(|code| format!(": {}", text::truncate(code, 40))).unwrap_or_default();
        if self.runs <= 1 {
            return format!("{}{error}", state_text(self.state));
        }
        let ended: u64 = self.ends.iter().sum();
        let open = (self.runs > ended).then(|| format!("{} {}", self.runs - ended, state_text(self.open_state())));
        let ends = Status::ALL.iter().zip(self.ends).filter(|(_, times)| *times > 0);
        let mut counts: Vec<String> = open.into_iter().collect();
        counts.extend(ends.map(|(status, times)| format!("{times} {}", state_text(ActivityState::Ended(*status)))));
        match counts.len() {
            1 => format!("× {}, {}{error}", self.runs, state_text(self.state)),
            _ => format!("× {}: {}{error}", self.runs, counts.join(", ")),
        }
    }

    fn open_state(&self) -> ActivityState {
        if let ActivityState::Ended(_) = self.state { ActivityState::Running } else { self.state }
    }
}

fn state_text(state: ActivityState) -> String {
    state.as_str().replace('_', " ")
}

impl IterationCounts {
    /// Formats `15 iterations, condition`; `15 of 100 iterations` while it is running.
    fn summary(&self) -> String {
        let failed = if self.failed > 0 { format!(" ({} failed)", self.failed) } else { String::new() };
        match (&self.reason, self.max) {
            _ if self.entries > 1 => {
                format!("{} over {} entries{failed}", text::pluralize(self.ended, "iteration"), self.entries)
            }
            (Some(reason), _) => format!("{}{failed}, {reason}", text::pluralize(self.ended, "iteration")),
            (None, Some(max)) => format!("{} of {}{failed}", self.ended, text::pluralize(max, "iteration")),
            (None, None) => format!("{}{failed}", text::pluralize(self.ended, "iteration")),
        }
    }
}

impl DrawingItem {
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, kind: &str, shape: ItemShape) -> DrawingItem {
        DrawingItem {
            id: id.into(),
            title: title.into(),
            kind: kind.to_owned(),
            detail: String::new(),
            shape,
            items: Vec::new(),
            activity: None,
            path: None,
            is_loop: false,
        }
    }

    /// Returns the text in the box, line by line.
    pub(crate) fn label_lines(&self) -> Vec<String> {
        let passage = self.activity.as_ref().map(NodeActivity::summary).unwrap_or_default();
        let lines = [self.title.as_str(), self.detail.as_str(), passage.as_str()];
        let mut lines: Vec<String> =
            lines.iter().filter(|line| !line.is_empty()).map(|line| text::one_line(line)).collect();
        if lines.is_empty() {
            // Not all renderers draw a box without text.
            lines.push("?".to_owned());
        }
        lines
    }

    pub(crate) fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a DrawingItem)) {
        visit(self);
        self.items.iter().for_each(|item| item.each(visit));
    }
}

impl Drawing {
    /// Returns all boxes, a group before its content.
    pub(crate) fn all_items(&self) -> Vec<&DrawingItem> {
        let mut all = Vec::new();
        self.items.iter().for_each(|item| item.each(&mut |item| all.push(item)));
        all
    }
}
