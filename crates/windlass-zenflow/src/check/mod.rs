//! Checks the internal consistency of a document: steps, agents, tools, files, expressions. Each list of steps is
//! checked in its context.
//!
//! `graph`: dependencies, cycles, ancestors · `judges`: agents that end loops · `cel`: expressions and the names in
//! their scope · `tools` · `files` · `models` · `money`

mod cel;
mod files;
mod graph;
mod judges;
mod models;
mod money;
mod tools;

use std::collections::{HashMap, HashSet};

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, Span, did_you_mean, format_names};

use crate::codes;
use crate::document::{WorkflowDocument, ZenflowStep};
use crate::read::DocumentReader;
pub(crate) use graph::DependencyGraph;
pub(crate) use models::check_models;
pub(crate) use money::check_prices;

/// No suggestions are computed beyond this number of problems, because more problems are not kept.
const MAX_HINTS: usize = 500;
/// Suggestions search at most this many names.
const MAX_NAMES: usize = 500;

impl DocumentReader<'_> {
    /// Checks everything except included files.
    pub(crate) fn check(&mut self, document: &mut WorkflowDocument) {
        self.tools(document);
        self.files(document);
        self.agents_of_steps(document);
        self.check_step_list(&document.steps, document, None);
        for step in &document.steps {
            self.check_judge(step, document);
            if !step.inner().is_empty() {
                self.check_step_list(step.inner(), document, Some(step));
            }
        }
        if !self.is_truncated {
            self.expressions(document);
        }
    }

    /// Checks one list of steps: ids, dependencies, cycles.
    fn check_step_list(&mut self, steps: &[ZenflowStep], document: &WorkflowDocument, owner: Option<&ZenflowStep>) {
        let mut first: HashMap<&str, &ZenflowStep> = HashMap::new();
        for step in steps.iter().filter(|step| !step.id.is_empty()) {
            match first.get(step.id.as_str()) {
                None => drop(first.insert(step.id.as_str(), step)),
                Some(other) => {
                    // A YAML alias repeats the same text: then the location is that of the alias.
                    let same = other.id.span == step.id.span;
                    let span = if same { step.span } else { step.id.span };
                    let message = format!("there are two steps `{}`", *step.id);
                    let problem = Diagnostic::error(codes::DUPLICATE_STEP, span, message);
                    let problem = problem.with_label(if same { other.span } else { other.id.span }, "the first");
                    self.found.push(problem.with_hint("give one of them another id"));
                }
            }
        }
        for step in steps.iter().filter(|_| !self.is_truncated).collect::<Vec<_>>() {
            for id in &step.depends_on {
                if !first.contains_key(id.as_str()) {
                    self.missing_dep(id, id.span, steps, document, owner);
                }
            }
        }
        self.cycles(steps);
    }

    fn missing_dep(
        &mut self,
        id: &str,
        span: Span,
        steps: &[ZenflowStep],
        document: &WorkflowDocument,
        owner: Option<&ZenflowStep>,
    ) {
        let elsewhere = || document.steps.iter().find(|step| step.inner().iter().any(|inner| *inner.id == id));
        let elsewhere = if self.found.len() > MAX_HINTS { None } else { elsewhere() };
        let hint = match (owner, elsewhere) {
            (Some(owner), _) if document.step(id).is_some() => {
                format!("steps inside a loop can depend only on each other: let `{}` depend on `{id}`", *owner.id)
            }
            (None, Some(other)) => {
                format!("`{id}` is inside the loop `{}`: depend on `{}`", *other.id, *other.id)
            }
            _ => self.suggestion(id, steps.iter().map(|step| step.id.as_str())),
        };
        self.error(codes::MISSING_DEP, span, format!("there is no step `{id}` to depend on"), hint);
    }

    fn agents_of_steps(&mut self, document: &WorkflowDocument) {
        let names: HashSet<&str> = document.agents.iter().map(|agent| agent.name.as_str()).collect();
        for agent in document.all_steps().filter_map(|step| step.agent.as_ref()) {
            if names.contains(agent.as_str()) {
                continue;
            }
            let hint = match document.agents.is_empty() {
                true => "this file has no agents: add `agents:`, or omit `agent` to use the default one".to_owned(),
                false => self.suggestion(agent, document.agents.iter().map(|agent| agent.name.as_str())),
            };
            self.error(codes::MISSING_AGENT, agent.span, format!("there is no agent `{}`", agent.value), hint);
        }
    }

    /// Returns a hint with the most similar name, or with all names.
    fn suggestion<'n>(&self, name: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
        if self.found.len() > MAX_HINTS {
            return "see the earlier problems".to_owned();
        }
        let names = names.filter(|name| !name.is_empty()).take(MAX_NAMES);
        did_you_mean(name, names.clone()).unwrap_or_else(|| format!("there are {}", format_names(names)))
    }
}
