//! The graph of steps: which step leads to which.

use std::collections::BTreeSet;

use crate::builder::StepDef;
use crate::event::{EventRole, EventType};
use crate::signature::JoinKind;

pub(crate) struct WorkflowGraph<'s> {
    steps: &'s [StepDef],
    produced: BTreeSet<&'static str>,
}

impl<'s> WorkflowGraph<'s> {
    pub(crate) fn new(steps: &'s [StepDef]) -> WorkflowGraph<'s> {
        let made = steps.iter().flat_map(StepDef::outputs).map(|event| event.name).collect();
        WorkflowGraph { steps, produced: made }
    }

    /// Reports whether the event has a source, inside or outside of the workflow.
    pub(crate) fn has_source(&self, event: &EventType) -> bool {
        matches!(event.role, EventRole::Start | EventRole::HumanResponse) || self.produced.contains(event.name)
    }

    /// Returns the steps that accept an event of this name.
    fn accepting_steps(&self, name: &str) -> impl Iterator<Item = usize> {
        let takes = |step: &StepDef| step.shape.accepts.iter().any(|event| event.name == name);
        let takers: Vec<usize> = (0..self.steps.len()).filter(|at| takes(&self.steps[*at])).collect();
        takers.into_iter()
    }

    /// Returns the handler of a step's failures: the one that names it, else the one for all steps.
    pub(crate) fn handler_for(&self, at: usize) -> Option<usize> {
        if self.steps[at].handler.is_some() {
            return None;
        }
        let named = |handler: &StepDef| {
            let of = handler.handler.as_ref().and_then(|handler| handler.steps.as_ref());
            of.is_some_and(|of| of.contains(&self.steps[at].name))
        };
        let for_all = |handler: &StepDef| handler.handler.as_ref().is_some_and(|handler| handler.steps.is_none());
        let find = |test: &dyn Fn(&StepDef) -> bool| self.steps.iter().position(test);
        find(&named).or_else(|| find(&for_all))
    }

    /// Returns the steps that may run or resume after a step: those that accept its events or wait for them, and its
    /// handler.
    fn successors(&self, at: usize) -> BTreeSet<usize> {
        let made = || self.steps[at].outputs().map(|event| event.name);
        let waits = |step: &StepDef| step.waits.iter().any(|event| made().any(|name| name == event.name));
        let waiting = (0..self.steps.len()).filter(|other| waits(&self.steps[*other]));
        made().flat_map(|name| self.accepting_steps(name)).chain(waiting).chain(self.handler_for(at)).collect()
    }

    /// Returns the steps that can run.
    pub(crate) fn reachable(&self) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        loop {
            let before = reached.len();
            let fed: BTreeSet<&str> =
                reached.iter().flat_map(|at: &usize| self.steps[*at].outputs()).map(|event| event.name).collect();
            let comes = |event: &EventType| {
                matches!(event.role, EventRole::Start | EventRole::HumanResponse) || fed.contains(event.name)
            };
            let handlers: BTreeSet<usize> = reached.iter().filter_map(|at| self.handler_for(*at)).collect();
            for (at, step) in self.steps.iter().enumerate() {
                let runs = match step.shape.join {
                    JoinKind::One | JoinKind::All => step.shape.accepts.iter().any(comes),
                    JoinKind::Collect => step.shape.accepts.iter().all(comes),
                    JoinKind::Failure => handlers.contains(&at),
                };
                if runs {
                    reached.insert(at);
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }

    /// Returns the steps from which a path leads to a stop event or to an event that requests input from outside.
    pub(crate) fn reaches_end(&self) -> BTreeSet<usize> {
        let ends = |event: &EventType| matches!(event.role, EventRole::Stop | EventRole::InputRequired);
        let mut out: BTreeSet<usize> = (0..self.steps.len()).filter(|at| self.steps[*at].outputs().any(ends)).collect();
        loop {
            let before = out.len();
            for at in 0..self.steps.len() {
                if !out.contains(&at) && self.successors(at).iter().any(|next| out.contains(next)) {
                    out.insert(at);
                }
            }
            if out.len() == before {
                return out;
            }
        }
    }

    /// Returns the joins that close a fan-out of this step. A nested fan-out has its own joins, which are not among
    /// them: the search counts the nesting level, up at each nested fan-out and down at its join.
    pub(crate) fn fans_into(&self, from: usize) -> Option<Vec<u32>> {
        if !self.steps[from].shape.fans_out {
            return None;
        }
        let deepest = self.steps.iter().filter(|step| step.shape.fans_out).count();
        let mut joins = BTreeSet::new();
        let mut seen: BTreeSet<(usize, usize)> = BTreeSet::new();
        let returned = self.steps[from].shape.produces.iter().flat_map(|event| self.accepting_steps(event.name));
        let mut open: Vec<(usize, usize)> = returned.map(|at| (at, 0)).collect();
        while let Some((at, level)) = open.pop() {
            if level > deepest || !seen.insert((at, level)) {
                continue;
            }
            let step = &self.steps[at];
            let level = match (step.shape.join, level) {
                (JoinKind::All, 0) => {
                    joins.insert(at as u32);
                    continue;
                }
                (JoinKind::All, level) => level - 1,
                (JoinKind::One | JoinKind::Collect | JoinKind::Failure, level) => level,
            };
            let inside = if step.shape.fans_out { level + 1 } else { level };
            let returned = step
                .shape
                .produces
                .iter()
                .flat_map(|event| self.accepting_steps(event.name))
                .map(|next| (next, inside));
            let sent = step.sends.iter().flat_map(|event| self.accepting_steps(event.name)).map(|next| (next, level));
            open.extend(returned.chain(sent).chain(self.handler_for(at).map(|handler| (handler, level))));
        }
        Some(joins.into_iter().collect())
    }

    /// Reports whether some fan-out ends in this join.
    pub(crate) fn closes_fan_out(&self, join: usize) -> bool {
        (0..self.steps.len()).filter_map(|at| self.fans_into(at)).any(|joins| joins.contains(&(join as u32)))
    }
}
