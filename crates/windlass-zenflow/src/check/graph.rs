//! Dependencies within one list of steps.

use std::collections::{HashMap, HashSet};

use windlass_syntax::Diagnostic;

use crate::codes;
use crate::document::ZenflowStep;
use crate::read::DocumentReader;

/// One list of steps and its dependency graph.
pub(crate) struct DependencyGraph<'d> {
    steps: &'d [ZenflowStep],
    positions: HashMap<&'d str, usize>,
}

impl<'d> DependencyGraph<'d> {
    pub(crate) fn new(steps: &'d [ZenflowStep]) -> DependencyGraph<'d> {
        let mut positions = HashMap::new();
        for (position, step) in steps.iter().enumerate() {
            positions.entry(step.id.as_str()).or_insert(position);
        }
        DependencyGraph { steps, positions }
    }

    fn dependencies(&self, position: usize) -> impl Iterator<Item = usize> {
        self.steps[position].depends_on.iter().filter_map(|id| self.positions.get(id.as_str()).copied())
    }

    /// Returns all steps that have ended when a step starts, in file order.
    pub(crate) fn ancestors(&self, id: &str) -> Vec<&'d str> {
        let Some(own) = self.positions.get(id) else { return Vec::new() };
        let mut seen = vec![false; self.steps.len()];
        let mut open: Vec<usize> = self.dependencies(*own).collect();
        while let Some(position) = open.pop() {
            if !std::mem::replace(&mut seen[position], true) {
                open.extend(self.dependencies(position));
            }
        }
        let found = seen.iter().enumerate().filter(|(position, seen)| **seen && position != own);
        found.map(|(position, _)| self.steps[position].id.as_str()).collect()
    }

    /// Returns a step and all its direct and indirect dependents.
    pub(crate) fn with_dependents(&self, id: &'d str) -> HashSet<&'d str> {
        let mut found = HashSet::from([id]);
        loop {
            let more =
                self.steps.iter().filter(|step| step.depends_on.iter().any(|before| found.contains(before.as_str())));
            let more: Vec<&str> = more.map(|step| step.id.as_str()).filter(|id| !found.contains(id)).collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &'d str> {
        self.steps.iter().map(|step| step.id.as_str())
    }
}

impl DocumentReader<'_> {
    /// Reports each dependency cycle once, at its first step.
    pub(crate) fn cycles(&mut self, steps: &[ZenflowStep]) {
        // A list above the limit is rejected anyway, so its cycles are not searched.
        if steps.len() > self.options.limits.max_steps_zenflow {
            return;
        }
        let graph = DependencyGraph::new(steps);
        let mut reported = vec![false; steps.len()];
        for position in 0..steps.len() {
            if reported[position] || graph.positions.get(steps[position].id.as_str()) != Some(&position) {
                continue;
            }
            let Some(circle) = find_cycle(&graph, position) else { continue };
            circle.iter().for_each(|position| reported[*position] = true);
            let names = circle.iter().chain([&position]).map(|position| steps[*position].id.as_str());
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let next = circle.get(1).unwrap_or(&position);
            let edge = steps[position].depends_on.iter().find(|id| id.value == *steps[*next].id);
            let span = edge.map_or(steps[position].id.span, |edge| edge.span);
            let message = format!("these steps wait for each other: {}", names.join(" → "));
            let problem = Diagnostic::error(codes::CYCLE, span, message);
            self.found.push(problem.with_hint("none of them could ever start: remove one of the dependencies"));
        }
    }
}

/// Returns the shortest path from a step back to itself.
fn find_cycle(graph: &DependencyGraph, from: usize) -> Option<Vec<usize>> {
    let mut came: HashMap<usize, usize> = HashMap::new();
    let mut open = std::collections::VecDeque::from([from]);
    while let Some(position) = open.pop_front() {
        for next in graph.dependencies(position) {
            if next == from {
                let mut way = vec![position];
                while way.last() != Some(&from) {
                    way.push(came[&way[way.len() - 1]]);
                }
                way.reverse();
                return Some(way);
            }
            if let std::collections::hash_map::Entry::Vacant(entry) = came.entry(next) {
                entry.insert(position);
                open.push_back(next);
            }
        }
    }
    None
}
