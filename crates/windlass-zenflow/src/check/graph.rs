//! Who waits for whom in one list of steps.

use std::collections::{HashMap, HashSet};

use windlass_syntax::Diagnostic;

use crate::codes;
use crate::document::Step;
use crate::read::Reader;

/// One list of steps, and who comes before whom.
pub(crate) struct Family<'d> {
    steps: &'d [Step],
    places: HashMap<&'d str, usize>,
}

impl<'d> Family<'d> {
    pub(crate) fn new(steps: &'d [Step]) -> Family<'d> {
        let mut places = HashMap::new();
        for (place, step) in steps.iter().enumerate() {
            places.entry(step.id.as_str()).or_insert(place);
        }
        Family { steps, places }
    }

    fn before(&self, place: usize) -> impl Iterator<Item = usize> {
        self.steps[place].depends_on.iter().filter_map(|id| self.places.get(id.as_str()).copied())
    }

    /// Everything that has ended when a step starts, in the order of the file.
    pub(crate) fn ancestors(&self, id: &str) -> Vec<&'d str> {
        let Some(own) = self.places.get(id) else { return Vec::new() };
        let mut seen = vec![false; self.steps.len()];
        let mut open: Vec<usize> = self.before(*own).collect();
        while let Some(place) = open.pop() {
            if !std::mem::replace(&mut seen[place], true) {
                open.extend(self.before(place));
            }
        }
        let found = seen.iter().enumerate().filter(|(place, seen)| **seen && place != own);
        found.map(|(place, _)| self.steps[place].id.as_str()).collect()
    }

    /// A step and everything that waits for it.
    pub(crate) fn and_after(&self, id: &'d str) -> HashSet<&'d str> {
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

impl Reader<'_> {
    /// Each circle of dependencies once, at the step of it that comes first.
    pub(crate) fn cycles(&mut self, steps: &[Step]) {
        // Such a list is refused anyway.
        if steps.len() > self.options.limits.max_steps_zenflow {
            return;
        }
        let family = Family::new(steps);
        let mut told = vec![false; steps.len()];
        for place in 0..steps.len() {
            if told[place] || family.places.get(steps[place].id.as_str()) != Some(&place) {
                continue;
            }
            let Some(circle) = circle(&family, place) else { continue };
            circle.iter().for_each(|place| told[*place] = true);
            let names = circle.iter().chain([&place]).map(|place| steps[*place].id.as_str());
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let next = circle.get(1).unwrap_or(&place);
            let edge = steps[place].depends_on.iter().find(|id| id.value == *steps[*next].id);
            let span = edge.map_or(steps[place].id.span, |edge| edge.span);
            let message = format!("these steps wait for each other: {}", names.join(" → "));
            let problem = Diagnostic::error(codes::CYCLE, span, message);
            self.found.push(problem.hint("none of them could ever start: remove one of the dependencies"));
        }
    }
}

/// The shortest way from a step back to itself.
fn circle(family: &Family, from: usize) -> Option<Vec<usize>> {
    let mut came: HashMap<usize, usize> = HashMap::new();
    let mut open = std::collections::VecDeque::from([from]);
    while let Some(place) = open.pop_front() {
        for next in family.before(place) {
            if next == from {
                let mut way = vec![place];
                while way.last() != Some(&from) {
                    way.push(came[&way[way.len() - 1]]);
                }
                way.reverse();
                return Some(way);
            }
            if let std::collections::hash_map::Entry::Vacant(entry) = came.entry(next) {
                entry.insert(place);
                open.push_back(next);
            }
        }
    }
    None
}
