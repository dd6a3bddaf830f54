//! What a document says about its own parts: steps, agents, tools, files, expressions. Each list of steps is checked with
//! what it stands in.
//!
//! `graph` dependencies, cycles, ancestors · `judges` agents that end loops · `cel` expressions and what they see · `tools`
//! · `files` · `models` · `money`

mod cel;
mod files;
mod graph;
mod judges;
mod models;
mod money;
mod tools;

use std::collections::{HashMap, HashSet};

use windlass_dialect::Findings;
use windlass_syntax::{Diagnostic, Span, did_you_mean, list_of};

use crate::codes;
use crate::document::{Document, Step};
use crate::read::Reader;
pub(crate) use graph::Family;
pub(crate) use models::unasked;
pub(crate) use money::unpriced;

/// More problems than these are not kept, so nobody looks for the names that were meant.
const MAX_HINTS: usize = 500;
/// More names than these are not searched for the one that was meant.
const MAX_NAMES: usize = 500;

impl Reader<'_> {
    /// Everything but what other files say.
    pub(crate) fn check(&mut self, document: &mut Document) {
        self.tools(document);
        self.files(document);
        self.agents_of_steps(document);
        self.family(&document.steps, document, None);
        for step in &document.steps {
            self.judge_of(step, document);
            if !step.inner().is_empty() {
                self.family(step.inner(), document, Some(step));
            }
        }
        if !self.cut {
            self.expressions(document);
        }
    }

    /// One list of steps: ids, dependencies, cycles.
    fn family(&mut self, steps: &[Step], document: &Document, owner: Option<&Step>) {
        let mut first: HashMap<&str, &Step> = HashMap::new();
        for step in steps.iter().filter(|step| !step.id.is_empty()) {
            match first.get(step.id.as_str()) {
                None => drop(first.insert(step.id.as_str(), step)),
                Some(other) => {
                    // What an alias repeats is written only once: then the alias is the place.
                    let same = other.id.span == step.id.span;
                    let span = if same { step.span } else { step.id.span };
                    let message = format!("there are two steps `{}`", *step.id);
                    let problem = Diagnostic::error(codes::DUPLICATE_STEP, span, message);
                    let problem = problem.label(if same { other.span } else { other.id.span }, "the first");
                    self.found.push(problem.hint("give one of them another id"));
                }
            }
        }
        for step in steps.iter().filter(|_| !self.cut).collect::<Vec<_>>() {
            for id in &step.depends_on {
                if !first.contains_key(id.as_str()) {
                    self.missing_dep(id, id.span, steps, document, owner);
                }
            }
        }
        self.cycles(steps);
    }

    fn missing_dep(&mut self, id: &str, span: Span, steps: &[Step], document: &Document, owner: Option<&Step>) {
        let elsewhere = || document.steps.iter().find(|step| step.inner().iter().any(|inner| *inner.id == id));
        let elsewhere = if self.found.len() > MAX_HINTS { None } else { elsewhere() };
        let hint = match (owner, elsewhere) {
            (Some(owner), _) if document.step(id).is_some() => {
                format!("steps inside of a loop depend on each other only: let `{}` depend on `{id}`", *owner.id)
            }
            (None, Some(other)) => {
                format!("`{id}` is inside of the loop `{}`: depend on `{}`", *other.id, *other.id)
            }
            _ => self.meant(id, steps.iter().map(|step| step.id.as_str())),
        };
        self.error(codes::MISSING_DEP, span, format!("there is no step `{id}` to depend on"), hint);
    }

    fn agents_of_steps(&mut self, document: &Document) {
        let names: HashSet<&str> = document.agents.iter().map(|agent| agent.name.as_str()).collect();
        for agent in document.all_steps().filter_map(|step| step.agent.as_ref()) {
            if names.contains(agent.as_str()) {
                continue;
            }
            let hint = match document.agents.is_empty() {
                true => "this file has no agents: add `agents:`, or leave `agent` out for the default one".to_owned(),
                false => self.meant(agent, document.agents.iter().map(|agent| agent.name.as_str())),
            };
            self.error(codes::MISSING_AGENT, agent.span, format!("there is no agent `{}`", agent.value), hint);
        }
    }

    /// The name that was probably meant, or all that there are.
    fn meant<'n>(&self, name: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
        if self.found.len() > MAX_HINTS {
            return "see the first problems".to_owned();
        }
        let names = names.filter(|name| !name.is_empty()).take(MAX_NAMES);
        did_you_mean(name, names.clone()).unwrap_or_else(|| format!("there are {}", list_of(names)))
    }
}
