//! Drawing of one run from its events.
//!
//! Events are counted as they arrive: memory grows with the boxes of the drawing, and for each further step run
//! only its step is kept. A net whose events number its step runs is drawn run by run, with the event that caused
//! each; anything else is drawn like its plan, each box with all its runs, and so is a net with more runs than a
//! person can look at.

mod facts;
mod paint;

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use windlass_core::plan::{NodeKind, Plan};
use windlass_core::{Event, EventKind, IdleReason, Status, StepCounts, TaskStatus};
use windlass_value::{Timestamp, Value};

use crate::model::{ActivityState, Drawing, DrawingItem, EventRole, ItemShape};
use crate::plan::{PlanDrawing, draw_plan};
use crate::text;
use facts::ActivityFacts;

/// Above this number of boxes all runs of one step become one box. The same happens when the drawing exceeds the
/// usual limits of Mermaid renderers.
pub const MAX_NODES: usize = 500;

const MAX_MERMAID_ARROWS: usize = 500;
const MAX_MERMAID_LETTERS: usize = 50_000;

/// Maximum number of unhandled event kinds listed in the notes.
const MAX_UNHANDLED_SHOWN: usize = 5;

/// A box of the plan, and the step run it is for.
type BoxKey = (Option<u64>, Arc<str>);

/// The cause of a step run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StepRunCause {
    /// The run's start.
    Start,
    /// An event from outside.
    Outside,
    Step(BoxKey),
}

/// The drawing of a run, built event by event.
///
/// ```
/// use windlass_core::{Event, EventKind};
/// use windlass_core::plan::{ExpressionSource, Node, NodeKind, Plan};
/// use windlass_draw::RunDrawing;
/// use windlass_value::{ExpressionMode, Map, Timestamp};
///
/// let mut plan = Plan::new("hello", "loom", "{}");
/// let (language, source) = ("wdl".into(), "hello".into());
/// let mode = ExpressionMode::Value;
/// let greeting = plan.add_expression(ExpressionSource { language, source, mode, span: Default::default() });
/// plan.root = plan.add_node(Node::new("greet", "compose", None, NodeKind::evaluate(greeting)));
///
/// let kind = EventKind::with_defaults("step.started", Map::new());
/// let mut drawing = RunDrawing::new(&plan).with_run_name("r1");
/// drawing.event(&Event { seq: 1, at: Timestamp(0), path: "greet".into(), kind });
/// let drawing = drawing.as_of(Timestamp(5_000_000)).finish();
/// assert!(drawing.to_mermaid().contains("greet<br/>compose<br/>running, for 5.0s"));
/// ```
pub struct RunDrawing {
    plan_drawing: PlanDrawing,
    name: Option<String>,
    now: Option<Timestamp>,
    is_interrupted: bool,
    max_nodes: usize,
    facts: BTreeMap<BoxKey, ActivityFacts>,
    /// The place that each box belongs to, if any.
    places: BTreeMap<Arc<str>, Arc<str>>,
    /// The place of each step run.
    firings: BTreeMap<u64, Arc<str>>,
    /// Step runs that have not ended, by place, oldest first.
    open: BTreeMap<Arc<str>, BTreeSet<u64>>,
    causes: BTreeMap<(StepRunCause, BoxKey, Arc<str>), u64>,
    /// The roles of the plan's events.
    roles: BTreeMap<String, EventRole>,
    /// Steps that only wait.
    wait_steps: BTreeSet<Arc<str>>,
    /// Tokens that wait for a worker, by place.
    queued: BTreeMap<Arc<str>, u64>,
    /// Requests to an outside actor, by the step run that made them.
    outbound_requests: BTreeMap<(BoxKey, Arc<str>), u64>,
    folded: bool,
    /// Some events could belong to several step runs.
    ambiguous: bool,
    whole: ActivityFacts,
    state: Option<ActivityState>,
    waits: Vec<String>,
    last_end: Option<BoxKey>,
    stopped_by: Option<BoxKey>,
    unhandled: BTreeMap<Arc<str>, u64>,
    missing: Vec<(u64, u64)>,
    newest: Timestamp,
}

impl RunDrawing {
    /// Creates the drawing of a run without events.
    pub fn new(plan: &Plan) -> RunDrawing {
        let sheet = draw_plan(plan);
        let role = |item: &DrawingItem| match item.shape {
            ItemShape::Event(role) => Some((item.title.clone(), role)),
            _ => None,
        };
        let roles = sheet.drawing.all_items().into_iter().filter_map(role).collect();
        let mut places = BTreeMap::new();
        let of_places: BTreeSet<&Arc<str>> = sheet.net.iter().flat_map(|net| net.places.iter().flatten()).collect();
        for item in sheet.drawing.all_items() {
            if let Some(place) = of_places.get(&Arc::from(item.id.as_str())) {
                item.each(&mut |inner| {
                    places.insert(Arc::from(inner.id.as_str()), Arc::clone(place));
                });
            }
        }
        let waits = plan.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Wait(_)));
        let waiters = waits.map(|node| node.name.clone()).collect();
        RunDrawing {
            plan_drawing: sheet,
            wait_steps: waiters,
            name: None,
            now: None,
            is_interrupted: false,
            max_nodes: MAX_NODES,
            facts: BTreeMap::new(),
            places,
            firings: BTreeMap::new(),
            open: BTreeMap::new(),
            causes: BTreeMap::new(),
            roles,
            queued: BTreeMap::new(),
            outbound_requests: BTreeMap::new(),
            folded: false,
            ambiguous: false,
            whole: ActivityFacts::default(),
            state: None,
            waits: Vec::new(),
            last_end: None,
            stopped_by: None,
            unhandled: BTreeMap::new(),
            missing: Vec::new(),
            newest: Timestamp::default(),
        }
    }

    /// Sets the name of the run that the drawing shows.
    #[must_use]
    pub fn with_run_name(mut self, run: impl Into<String>) -> RunDrawing {
        self.name = Some(run.into());
        self
    }

    /// Sets the current time. Without it, open durations end at the newest event.
    #[must_use]
    pub fn as_of(mut self, now: Timestamp) -> RunDrawing {
        self.now = Some(now);
        self
    }

    /// Sets whether the run has work to do and no process that does it: nothing of it is running then.
    #[must_use]
    pub fn interrupted(mut self, is_interrupted: bool) -> RunDrawing {
        self.is_interrupted = is_interrupted;
        self
    }

    /// Folds the runs of a step into one box above this many boxes, instead of [`MAX_NODES`].
    #[must_use]
    pub fn with_max_nodes(mut self, boxes: usize) -> RunDrawing {
        self.max_nodes = boxes;
        self
    }

    /// Notes that these events are no longer stored.
    pub fn missing(&mut self, from: u64, to: u64) {
        self.missing.push((from, to));
    }

    /// Adds the next event of the run.
    pub fn event(&mut self, event: &Event) {
        self.newest = self.newest.max(event.at);
        match &event.kind {
            EventKind::StepQueued { .. }
            | EventKind::StepStarted { .. }
            | EventKind::StepIdle { .. }
            | EventKind::StepRunning { .. }
            | EventKind::StepDone { .. }
            | EventKind::StepFailed { .. }
            | EventKind::StepSkipped { .. } => self.step(event),
            EventKind::TaskStarted { .. }
            | EventKind::TaskProcessed { .. }
            | EventKind::TaskRetrying { .. }
            | EventKind::TaskWaiting { .. } => self.task(event),
            EventKind::LoopStarted { .. }
            | EventKind::IterationDone { .. }
            | EventKind::LoopProgress { .. }
            | EventKind::LoopDone { .. } => self.loop_event(event),
            EventKind::EventUnhandled { event: kind, .. } => {
                *self.unhandled.entry(kind.clone()).or_default() += 1;
            }
            // An event about the run has no path. A step may give its own events any name, but they have its path.
            _ if event.path.is_empty() => self.run_event(event),
            _ => self.record_outbound_request(event),
        }
        if !self.folded && self.facts.len() > self.max_nodes && !self.firings.is_empty() {
            self.fold();
        }
    }

    /// Records a request to an outside actor. Either the step publishes it, or the net on behalf of the step.
    fn record_outbound_request(&mut self, event: &Event) {
        let kind = match &event.kind {
            EventKind::InputRequired { event: kind, .. } => Some(kind.clone()),
            EventKind::Other { type_name, .. } => {
                Some(type_name.clone()).filter(|kind| self.role(kind) == Some(EventRole::InputRequired))
            }
            _ => None,
        };
        if let (Some(kind), Some(key)) = (kind, self.key(event)) {
            *self.outbound_requests.entry((key, kind)).or_default() += 1;
        }
    }

    /// Returns the role of an event of any version.
    fn role(&self, kind: &str) -> Option<EventRole> {
        let name = kind.rsplit_once('@').map_or(kind, |(name, _)| name);
        self.roles.get(kind).or_else(|| self.roles.get(name)).copied()
    }

    fn run_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ExecutionRequested { .. } | EventKind::WorkflowStarted { .. } => self.run_begins(event),
            EventKind::WorkflowFinished { status, error, .. } => {
                self.run_ends(event.at, *status, error.as_ref().map(|error| error.code.clone()));
            }
            EventKind::WorkflowPaused {} => self.state = Some(ActivityState::Paused),
            EventKind::WorkflowResumed {} => self.state = None,
            EventKind::WorkflowIdle { waits } => {
                self.state = Some(ActivityState::Waiting);
                self.waits = waits.iter().map(|name| name.to_string()).collect();
            }
            _ => {}
        }
    }

    /// Returns the drawing of all events.
    pub fn finish(mut self) -> Drawing {
        self.draw()
    }

    /// Returns the drawing of the events so far, as of a time. More events may follow.
    pub fn snapshot(&mut self, now: Timestamp) -> Drawing {
        self.now = Some(now);
        self.draw()
    }

    fn draw(&mut self) -> Drawing {
        let drawing = paint::paint(self);
        if self.folded || self.firings.is_empty() || fits_mermaid_limits(&drawing) {
            return drawing;
        }
        self.fold();
        paint::paint(self)
    }

    fn run_begins(&mut self, event: &Event) {
        if self.whole.started_at.is_none() {
            self.whole.record_start(event.at);
        }
    }

    fn run_ends(&mut self, at: Timestamp, status: Status, error: Option<Arc<str>>) {
        self.whole.record_end(at, status);
        self.whole.record_error(error);
        let stops = self.plan_drawing.net.as_ref().is_some_and(|net| net.stop.is_some());
        if stops && status == Status::Succeeded {
            self.stopped_by = self.stopped_by.take().or(self.last_end.take());
        }
    }

    fn facts_for(&mut self, key: &BoxKey, event: &Event) -> &mut ActivityFacts {
        if self.state == Some(ActivityState::Waiting) {
            self.state = None;
        }
        self.facts.entry(key.clone()).or_insert_with(|| ActivityFacts::new(event.seq))
    }

    /// Returns the box that an event belongs to; `None` if it is not drawn.
    fn key(&mut self, event: &Event) -> Option<BoxKey> {
        let id = self.plan_drawing.paths.find(&event.path)?.clone();
        let Some(place) = self.places.get(&id).filter(|_| !self.folded) else { return Some((None, id)) };
        if let Some(firing) = event.kind.firing() {
            return Some((Some(firing), id));
        }
        if did_not_run(&event.kind) {
            return Some((None, id));
        }
        let open = self.open.get(place).filter(|open| !open.is_empty());
        self.ambiguous |= open.is_some_and(|open| open.len() > 1);
        Some((open.and_then(|open| open.first().copied()), id))
    }

    fn step(&mut self, event: &Event) {
        // A queued token has no step run number yet.
        if let EventKind::StepQueued { .. } = event.kind {
            let id = self.plan_drawing.paths.find(&event.path).cloned();
            id.into_iter().for_each(|id| *self.queued.entry(id).or_default() += 1);
            return;
        }
        let Some(key) = self.key(event) else { return };
        let is_place = self.places.get(&key.1) == Some(&key.1);
        let firing = event.kind.firing().or(key.0);
        let waits = self.wait_steps.contains(event.path.rsplit('.').next().unwrap_or_default());
        let facts = self.facts_for(&key, event);
        match &event.kind {
            EventKind::StepStarted { token, worker, from, .. } => {
                facts.record_start(event.at);
                if waits {
                    facts.set_activity(ActivityState::Waiting);
                }
                facts.record_event(token.clone());
                facts.firing = key.0;
                facts.worker = worker.map(u64::from).filter(|_| key.0.is_some());
                // A queued token is taken before a new one, so each start takes one from the queue.
                if let Some(queued) = self.queued.get_mut(&key.1) {
                    *queued = queued.saturating_sub(1);
                }
                if let Some(firing) = firing.filter(|_| is_place) {
                    self.fired(key, firing, token.clone().unwrap_or_default(), from.as_deref().unwrap_or_default());
                }
            }
            // The error and the time of the retry were reported before.
            EventKind::StepIdle { reason: IdleReason::Retry, .. } => facts.set_activity(ActivityState::Retrying),
            EventKind::StepIdle { .. } => facts.set_activity(ActivityState::Waiting),
            EventKind::StepRunning { .. } => facts.set_activity(ActivityState::Running),
            EventKind::StepDone { status, output, error, .. }
            | EventKind::StepFailed { status, output, error, .. }
            | EventKind::StepSkipped { status, output, error, .. } => {
                match did_not_run(&event.kind) {
                    true => facts.record_not_run(*status),
                    false => facts.record_end(event.at, *status),
                }
                facts.record_error(error.as_ref().map(|error| error.code.clone()));
                if is_place {
                    self.step_ended(output.as_ref(), key, firing);
                }
            }
            _ => {}
        }
    }

    /// Records a numbered step run and its causes.
    fn fired(&mut self, key: BoxKey, firing: u64, token: Arc<str>, from: &[u64]) {
        self.firings.insert(firing, key.1.clone());
        if !self.folded {
            self.open.entry(key.1.clone()).or_default().insert(firing);
        }
        let mut causes: Vec<StepRunCause> = Vec::new();
        for number in from {
            if let Some(place) = self.firings.get(number) {
                causes.push(StepRunCause::Step(((!self.folded).then_some(*number), place.clone())));
            }
        }
        if from.is_empty() {
            let starts = self.plan_drawing.net.as_ref().is_some_and(|net| net.start == token);
            causes.push(if starts { StepRunCause::Start } else { StepRunCause::Outside });
        }
        for cause in causes {
            *self.causes.entry((cause, key.clone(), token.clone())).or_default() += 1;
        }
    }

    fn step_ended(&mut self, output: Option<&Value>, key: BoxKey, firing: Option<u64>) {
        if let (Some(open), Some(firing)) = (self.open.get_mut(&key.1), firing) {
            open.remove(&firing);
        }
        for kind in returned_kinds(output) {
            let net = self.plan_drawing.net.as_ref();
            if net.is_some_and(|net| net.stop.as_ref() == Some(&kind)) && self.stopped_by.is_none() {
                self.stopped_by = Some(key.clone());
            }
            let published_later = net.is_some_and(|net| net.outbound_kinds.contains(&kind));
            if !published_later && self.role(&kind) == Some(EventRole::InputRequired) {
                *self.outbound_requests.entry((key.clone(), kind)).or_default() += 1;
            }
        }
        self.last_end = Some(key);
    }

    fn task(&mut self, event: &Event) {
        let Some(key) = self.key(event) else { return };
        let is_task = self.plan_drawing.paths.tasks.contains(&key.1);
        let facts = self.facts_for(&key, event);
        match &event.kind {
            EventKind::TaskStarted { attempt, call, .. } => {
                // A further call is part of the running task.
                if is_task && *call == 0 && (*attempt <= 1 || !facts.is_open()) {
                    facts.record_start(event.at);
                }
                facts.set_activity(ActivityState::Running);
                facts.record_attempt(*attempt);
            }
            EventKind::TaskProcessed { outcome, .. } if is_task => {
                let good = outcome.status == TaskStatus::Success;
                facts.record_end(event.at, if good { Status::Succeeded } else { Status::Failed });
                facts.record_error(outcome.error.as_ref().map(|error| error.code.clone()));
            }
            EventKind::TaskRetrying { attempt, .. } => facts.record_retry(event.at, *attempt, is_task),
            EventKind::TaskWaiting { .. } => facts.set_activity(ActivityState::Waiting),
            _ => {}
        }
    }

    fn loop_event(&mut self, event: &Event) {
        if let EventKind::LoopProgress { steps, .. } = &event.kind {
            steps.iter().for_each(|counts| self.quiet_steps(event, counts));
        }
        let Some(key) = self.key(event) else { return };
        let facts = self.facts_for(&key, event);
        match &event.kind {
            EventKind::LoopStarted { limits, .. } => facts.record_loop_start(limits.items.or(limits.count)),
            EventKind::IterationDone { status, .. } => facts.record_iterations(1, u64::from(status.is_bad())),
            EventKind::LoopProgress { from, to, failed, .. } => {
                facts.record_iterations(to.saturating_add(1).saturating_sub(*from), *failed);
            }
            EventKind::LoopDone { iterations, reason, stats, .. } => {
                facts.record_loop_end(*iterations, stats.failed, Some(reason.as_str().into()));
            }
            _ => {}
        }
    }

    /// Counts the runs of a step inside quiet iterations.
    fn quiet_steps(&mut self, event: &Event, counts: &StepCounts) {
        let Some(id) = self.plan_drawing.paths.find(&counts.path).cloned() else { return };
        let place = self.places.get(&id).filter(|_| !self.folded);
        let firing = place.and_then(|place| self.open.get(place)?.first().copied());
        self.facts_for(&(firing, id), event).record_quiet_runs(counts);
    }

    /// Folds the runs of each step into one box from now on.
    fn fold(&mut self) {
        self.folded = true;
        self.open.clear();
        for ((_, id), facts) in std::mem::take(&mut self.facts) {
            let facts = facts.without_single_run();
            match self.facts.entry((None, id)) {
                Entry::Vacant(place) => drop(place.insert(facts)),
                Entry::Occupied(mut there) => there.get_mut().add(facts),
            }
        }
        let whole = |key: BoxKey| (None, key.1);
        for ((cause, key, token), times) in std::mem::take(&mut self.causes) {
            let cause = if let StepRunCause::Step(key) = cause { StepRunCause::Step(whole(key)) } else { cause };
            *self.causes.entry((cause, whole(key), token)).or_default() += times;
        }
        for ((key, kind), times) in std::mem::take(&mut self.outbound_requests) {
            *self.outbound_requests.entry((whole(key), kind)).or_default() += times;
        }
        self.last_end = self.last_end.take().map(whole);
        self.stopped_by = self.stopped_by.take().map(whole);
    }

    /// Returns the notes next to the boxes.
    fn notes(&self, plan: &str, now: Timestamp) -> Vec<String> {
        let run = self.name.as_ref().map(|name| format!("run {name} of ")).unwrap_or_else(|| "a run of ".to_owned());
        let mut notes = Vec::new();
        let whole = self.run_activity(now);
        let waits = match (whole.state, self.waits.is_empty()) {
            (ActivityState::Waiting, false) => format!(" (for {})", text::truncate(&self.waits.join(", "), 60)),
            _ => String::new(),
        };
        notes.push(format!("{run}{plan}: {}{waits}", whole.summary()));
        if self.folded {
            let runs = self.firings.len();
            notes.push(format!("{runs} step runs are too many to draw one by one: all runs of a step share one box"));
        }
        if self.ambiguous {
            notes.push("a step has concurrent runs: which of them ended first is not recorded".to_owned());
        }
        for (from, to) in &self.missing {
            notes.push(format!("events {from} to {to} are no longer retained: their content is missing here"));
        }
        if !self.unhandled.is_empty() {
            let shown = self.unhandled.iter().take(MAX_UNHANDLED_SHOWN).map(|(kind, times)| match times {
                1 => kind.to_string(),
                times => format!("{kind} (× {times})"),
            });
            let more = self.unhandled.len().saturating_sub(MAX_UNHANDLED_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!("unhandled events: {}{more}", shown.collect::<Vec<_>>().join(", ")));
        }
        notes
    }

    fn run_activity(&self, now: Timestamp) -> crate::NodeActivity {
        let mut whole = self.whole.to_activity(now, false);
        if whole.runs == 0 && !self.facts.is_empty() {
            // The run's start event is no longer stored.
            whole.state = ActivityState::Running;
        }
        if let (Some(state), ActivityState::Running | ActivityState::Queued) = (self.state, whole.state) {
            whole.state = state;
        }
        if self.is_interrupted && !matches!(whole.state, ActivityState::Ended(_)) {
            whole.state = ActivityState::Interrupted;
        }
        // A run has no attempts.
        whole.attempts = 0;
        whole
    }
}

/// Returns whether the drawing is within the default limits of Mermaid renderers on text length and arrows.
fn fits_mermaid_limits(drawing: &Drawing) -> bool {
    drawing.arrows.len() <= MAX_MERMAID_ARROWS && drawing.to_mermaid().chars().count() <= MAX_MERMAID_LETTERS
}

/// Returns the kinds of the events that a step has returned: one, or a list of them.
fn returned_kinds(output: Option<&Value>) -> Vec<Arc<str>> {
    match output {
        Some(Value::List(items)) => items.iter().filter_map(|item| text_field(item, "kind")).collect(),
        Some(one) => text_field(one, "kind").into_iter().collect(),
        None => Vec::new(),
    }
}

fn text_field(data: &Value, key: &str) -> Option<Arc<str>> {
    data.get(key).and_then(Value::as_str).map(Into::into)
}

/// Returns whether the step never ran: only the event of such a step has a reason.
fn did_not_run(kind: &EventKind) -> bool {
    matches!(kind, EventKind::StepFailed { reason: Some(_), .. } | EventKind::StepSkipped { reason: Some(_), .. })
}
