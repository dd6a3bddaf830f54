//! Checks of a workflow at build time. All problems are reported together.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{EventKind as RunEventKind, START_EVENT};

use crate::builder::{StepDef, WorkflowBuilder};
use crate::event::{EventRole, EventType};
use crate::graph::WorkflowGraph;
use crate::nearest::{list_names, suggest};
use crate::problem::{Check, Problem};
use crate::signature::JoinKind;

fn is_reserved_event(name: &str) -> bool {
    name == START_EVENT || RunEventKind::TYPES.contains(&name)
}

pub(crate) fn check(workflow: &WorkflowBuilder) -> Vec<Problem> {
    let mut checks = BuildChecks { workflow, problems: Vec::new() };
    checks.names();
    if workflow.steps.is_empty() {
        checks.add(Problem::new("no_steps", "it has no steps", "add one: `.step(\"name\", function)` or `#[step]`"));
        return checks.problems;
    }
    checks.signatures();
    checks.events();
    checks.start_and_stop();
    checks.handlers();
    checks.resources();
    checks.states();
    checks.flow();
    checks.problems
}

struct BuildChecks<'w> {
    workflow: &'w WorkflowBuilder,
    problems: Vec<Problem>,
}

impl<'w> BuildChecks<'w> {
    fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn steps(&self) -> impl Iterator<Item = &'w StepDef> + use<'w> {
        self.workflow.steps.iter()
    }

    fn allowed(&self, step: &StepDef, check: Check) -> bool {
        self.workflow.allow.contains(&check) || step.allow.contains(&check)
    }

    /// Reports a problem that a step or the whole workflow may allow explicitly.
    fn add_unless_allowed(&mut self, check: Check, step: &StepDef, message: String, hint: &str) {
        if !self.allowed(step, check) {
            let hint = format!("{hint}; if this is intended, allow it: `allow = [\"{}\"]`", check.as_str());
            self.add(Problem::new(check.as_str(), message, hint).at(&step.name));
        }
    }

    fn names(&mut self) {
        let wrong = |name: &str| {
            name.is_empty() || name.chars().any(|one| one.is_whitespace() || matches!(one, '/' | '#' | '[' | ']'))
        };
        let hint = "a name has no spaces and none of / # [ ]";
        if wrong(&self.workflow.name) {
            self.add(Problem::new("name", format!("`{}` cannot be the name of a workflow", self.workflow.name), hint));
        }
        let mut seen = BTreeSet::new();
        for step in self.steps() {
            if wrong(&step.name) {
                self.add(
                    Problem::new("name", format!("`{}` cannot be the name of a step", step.name), hint).at(&step.name),
                );
            }
            if !seen.insert(&step.name) {
                let message = format!("two steps are called `{}`", step.name);
                self.add(Problem::new("duplicate_step", message, "give one of them another name").at(&step.name));
            }
        }
    }

    fn signatures(&mut self) {
        for step in self.steps() {
            let name = &step.name;
            if step.shape.events != 1 {
                let message = format!("the step `{name}` has {} event parameters", step.shape.events);
                let hint = "a step takes exactly one; to wait for several kinds, take `Collect<(A, B)>`";
                self.add(Problem::new("parameters", message, hint).at(name));
            }
            if step.workers == 0 {
                let message = format!("the step `{name}` has no workers: it would never run");
                self.add(Problem::new("workers", message, "give it at least 1").at(name));
            }
            if step.shape.join != JoinKind::Collect && (step.key.is_some() || step.surplus.is_some()) {
                let message = format!("the step `{name}` has a `key` or a `surplus` and collects nothing");
                self.add(
                    Problem::new("options", message, "these belong to a step that takes `Collect<(A, B)>`").at(name),
                );
            }
        }
    }

    /// Checks that each event name stands for one type and is not reserved.
    fn events(&mut self) {
        let mut known: BTreeMap<&str, EventType> = BTreeMap::new();
        let all = self.steps().flat_map(|step| step.shape.accepts.iter().chain(step.outputs()).chain(&step.waits));
        let all: Vec<EventType> = all.chain(&self.workflow.events).copied().collect();
        let mut reported = BTreeSet::new();
        for event in all {
            let meant_as_start = event.name == "start" && event.role == EventRole::Start;
            if is_reserved_event(event.name) && !meant_as_start && reported.insert(event.name) {
                let message = format!("the event name `{}` is reserved by the engine", event.name);
                let hint = "subscribers could not distinguish it from the engine's events: give it another name";
                self.add(Problem::new("reserved_event", message, hint));
            }
            let first = *known.entry(event.name).or_insert(event);
            if first != event && reported.insert(event.name) {
                let message = format!(
                    "two types have the event name `{}`: `{}` and `{}`",
                    event.name, first.type_name, event.type_name
                );
                self.add(Problem::new(
                    "duplicate_event",
                    message,
                    "an event name identifies one type; rename one of them",
                ));
            }
        }
    }

    /// Checks that exactly one start event is accepted and exactly one stop event is produced.
    fn start_and_stop(&mut self) {
        let names = |events: Vec<&EventType>, role: EventRole| -> BTreeSet<&'static str> {
            events.into_iter().filter(|event| event.role == role).map(|event| event.name).collect()
        };
        let starts = names(self.steps().flat_map(|step| &step.shape.accepts).collect(), EventRole::Start);
        let stops = names(self.steps().flat_map(StepDef::outputs).collect(), EventRole::Stop);
        match starts.len() {
            1 => {}
            0 => self.add(Problem::new(
                "no_start",
                "no step accepts a start event",
                "mark the event that a run begins with: `#[event(name = \"…\", start)]`",
            )),
            _ => {
                let message = format!("there is more than one start event, {}", list_names("accepted", starts));
                self.add(Problem::new("many_starts", message, "a run begins with one: remove `start` from the others"));
            }
        }
        match stops.len() {
            1 => {}
            0 => self.add(Problem::new(
                "no_stop",
                "no step returns or sends a stop event",
                "mark the event that ends a run: `#[event(name = \"…\", stop)]`",
            )),
            _ => {
                let message = format!("there is more than one stop event, {}", list_names("produced", stops));
                self.add(Problem::new(
                    "many_stops",
                    message,
                    "a run ends with one: add a field to it that distinguishes the cases",
                ));
            }
        }
        for step in self.steps() {
            for event in step.shape.accepts.iter().filter(|event| event.role == EventRole::Stop) {
                let message = format!("the step `{}` accepts the stop event `{}`", step.name, event.name);
                let hint = "a stop event ends the run: nothing comes after it. Use an event of another role";
                self.add(Problem::new("accepts_stop", message, hint).at(&step.name));
            }
        }
    }

    fn handlers(&mut self) {
        let mut wildcard: Option<&str> = None;
        let mut claimed: BTreeMap<&str, &str> = BTreeMap::new();
        let workflow = self.workflow;
        for step in &workflow.steps {
            let takes_failures = step.shape.join == JoinKind::Failure;
            let Some(handler) = &step.handler else {
                if takes_failures {
                    let message = format!("the step `{}` takes failures but is not an error handler", step.name);
                    let hint = "add it with `.on_failure(…)` or `#[on_failure]`";
                    self.add(Problem::new("handler", message, hint).at(&step.name));
                }
                continue;
            };
            let mut wrong =
                |message: String, hint: String| self.add(Problem::new("handler", message, hint).at(&step.name));
            if !takes_failures {
                let message = format!("the error handler `{}` does not take a failure", step.name);
                wrong(message, "its event parameter must be `StepFailed`".to_owned());
            }
            if handler.times == 0 {
                let message = format!("the error handler `{}` may never run", step.name);
                wrong(message, "`times` must be at least 1".to_owned());
            }
            let Some(of) = &handler.steps else {
                match wildcard.replace(&step.name) {
                    Some(first) => wrong(
                        format!("`{first}` and `{}` both handle all steps", step.name),
                        "only one handler may handle all steps; name the steps of the other with `of`".to_owned(),
                    ),
                    None => continue,
                }
                continue;
            };
            for target in of {
                match workflow.steps.iter().find(|one| one.name == *target) {
                    None => {
                        let names =
                            workflow.steps.iter().filter(|one| one.handler.is_none()).map(|one| one.name.as_str());
                        let message =
                            format!("the error handler `{}` handles `{target}`, which is not a step", step.name);
                        wrong(message, suggest(target, names.collect::<Vec<_>>()));
                    }
                    Some(one) if one.handler.is_some() => wrong(
                        format!("the error handler `{}` handles `{target}`, which is a handler itself", step.name),
                        "a failure of a handler fails the run".to_owned(),
                    ),
                    Some(_) => {
                        if let Some(first) = claimed.insert(target, &step.name) {
                            let message = format!("`{first}` and `{}` both handle `{target}`", step.name);
                            wrong(message, "a step has one error handler".to_owned());
                        }
                    }
                }
            }
        }
    }

    fn resources(&mut self) {
        for step in self.steps() {
            for needed in step.shape.resources.iter().filter(|needed| !self.workflow.resources.contains(needed)) {
                let message = format!(
                    "the step `{}` takes the resource `{}`, which the workflow does not have",
                    step.name, needed.name
                );
                let hint =
                    format!("add it with `.resource(…)`; {}", list_names("there are", self.workflow.resources.names()));
                self.problems.push(Problem::new("missing_resource", message, hint).at(&step.name));
            }
        }
    }

    fn states(&mut self) {
        let all = self.steps().flat_map(|step| step.shape.states.iter().map(move |state| (step, state)));
        let mut first = None;
        let mut reported = BTreeSet::new();
        for (step, state) in all {
            let (before, known) = *first.get_or_insert((step, state));
            if known.type_id != state.type_id && reported.insert(state.name) {
                let message = format!(
                    "`{}` has the state `{}`, and `{}` has `{}`",
                    before.name, known.name, step.name, state.name
                );
                self.add(
                    Problem::new("state", message, "a run has one state: use the same type in every `Context`")
                        .at(&step.name),
                );
            }
        }
    }

    /// Checks which steps produce which events and where those lead.
    fn flow(&mut self) {
        let graph = WorkflowGraph::new(&self.workflow.steps);
        self.never_produced(&graph);
        self.never_consumed();
        let reached = graph.reachable();
        let leads_out = graph.reaches_end();
        for (at, step) in self.steps().enumerate() {
            let name = &step.name;
            let (produced, fed): (Vec<&EventType>, Vec<&EventType>) =
                step.shape.accepts.iter().partition(|event| graph.has_source(event));
            // A step whose event no step produces has been reported already.
            let already_reported = !fed.is_empty() && (produced.is_empty() || step.shape.join == JoinKind::Collect);
            if !reached.contains(&at) && !already_reported && step.shape.events > 0 {
                let message = match step.handler.is_some() {
                    true => format!("the error handler `{name}` handles no step that can run"),
                    false => format!("the step `{name}` can never run: nothing leads to it from the start"),
                };
                self.add_unless_allowed(
                    Check::Unreachable,
                    step,
                    message,
                    "let a step that can run return or send one of its events",
                );
            }
            if reached.contains(&at) && !leads_out.contains(&at) {
                let message =
                    format!("the step `{name}` is a dead end: nothing that it produces leads to the run's end");
                let hint = "let it return or send the stop event, an event that requests input from outside, or one \
                            that leads to those";
                self.add_unless_allowed(Check::DeadEnd, step, message, hint);
            }
            if step.shape.join == JoinKind::All
                && produced.len() == step.shape.accepts.len()
                && !graph.closes_fan_out(at)
            {
                let events = list_names("all", step.shape.accepts.iter().map(|event| event.name));
                let message = format!("the step `{name}` waits for {events} of a fan-out, and none leads there");
                self.add_unless_allowed(Check::Join, step, message, "let a step before it return a `Vec` of events");
            }
        }
    }

    fn never_produced(&mut self, graph: &WorkflowGraph<'_>) {
        let mut reported = BTreeSet::new();
        for step in self.steps() {
            let collects = step.shape.join == JoinKind::Collect;
            for event in step.shape.accepts.iter().filter(|event| !graph.has_source(event)) {
                if !reported.insert((event.name, collects)) {
                    continue;
                }
                let (check, why) = match collects {
                    true => (
                        Check::Join,
                        format!("collects `{}`, which no step produces, so the join can never be complete", event.name),
                    ),
                    false => (Check::NeverProduced, format!("accepts `{}`, which no step produces", event.name)),
                };
                let hint =
                    "let a step return or send it, or mark it as coming from outside: `#[event(human_response)]`";
                self.add_unless_allowed(check, step, format!("the step `{}` {why}", step.name), hint);
            }
        }
    }

    fn never_consumed(&mut self) {
        let consumed: BTreeSet<&str> = self
            .steps()
            .flat_map(|step| step.shape.accepts.iter().chain(&step.waits))
            .map(|event| event.name)
            .collect();
        let mut reported = BTreeSet::new();
        for step in self.steps() {
            let ends = |event: &&EventType| matches!(event.role, EventRole::Stop | EventRole::InputRequired);
            for event in step.outputs().filter(|event| !ends(event) && !consumed.contains(event.name)) {
                if reported.insert(event.name) {
                    let message = format!("the step `{}` produces `{}`, which no step accepts", step.name, event.name);
                    let hint = "add a step that takes it, or declare the step that waits for it: `waits = [Event]`";
                    self.add_unless_allowed(Check::NeverConsumed, step, message, hint);
                }
            }
        }
    }
}
