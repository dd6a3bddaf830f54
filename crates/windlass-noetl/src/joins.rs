//! Steps at which the branches of a fan-out meet: they run once for all tokens of the fan-out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_dialect::DiagnosticSink;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::failure_arcs::ArcEnds;
use crate::form::{NoetlStep, StepJoin};
use crate::playbook::token_kind;
use crate::steps::StepForm;

/// The steps at which tokens meet, by name.
pub(crate) type Meetings = BTreeMap<String, Meeting>;

pub(crate) struct Meeting {
    /// The kinds of the tokens, in the order of the steps that send them.
    pub kinds: Vec<Arc<str>>,
    /// Each of these steps must send one.
    pub needs_all: bool,
}

impl NoetlCompiler<'_> {
    /// Returns the steps at which tokens meet: those with `join: all`, and in a v10 playbook also those at which the
    /// branches of a fan-out meet again. In any other playbook each token runs such a step, and `check` says so.
    pub(crate) fn meetings(&mut self, steps: &[NoetlStep], entry: &str) -> Meetings {
        let has = |form: StepForm| steps.iter().any(|step| step.form == form);
        let is_v10 = has(StepForm::V10) && !has(StepForm::Eval);
        let mut meetings = Meetings::new();
        for step in steps {
            let split = (step.join == StepJoin::Unset).then(|| fan_out_before(steps, &step.name)).flatten();
            match (step.join, split) {
                (StepJoin::Unset, Some(split)) if !is_v10 => self.warn_repeated_step(step, split),
                (StepJoin::All, _) | (StepJoin::Unset, Some(_)) => {
                    let needs_all = step.join == StepJoin::All;
                    let mut kinds: Vec<Arc<str>> =
                        sources(steps, &step.name).map(|from| token_kind(&from.name, &step.name).into()).collect();
                    if *step.name == *entry && !needs_all {
                        kinds.push(step.name.clone());
                    }
                    meetings.insert(step.name.to_string(), Meeting { kinds, needs_all });
                }
                (StepJoin::None, _) | (StepJoin::Unset, None) => {}
            }
        }
        meetings
    }

    fn warn_repeated_step(&mut self, step: &NoetlStep, split: &NoetlStep) {
        let span = self.steps.get(&*step.name).copied().unwrap_or(step.span);
        let message = format!(
            "the branches of `{}` meet at `{}`, which runs once for each token that arrives",
            split.name, step.name
        );
        let hint = "write `spec: {join: all}` here to run it once, after all of them; `join: none` keeps it as it is";
        self.warning(codes::REPEATED_STEP, span, message, hint);
    }

    pub(crate) fn check_joins(&mut self, steps: &[NoetlStep], meetings: &Meetings) {
        for target in steps.iter().filter(|step| meetings.contains_key(&*step.name)) {
            self.check_same_names(steps, target);
            if target.join == StepJoin::All {
                self.check_exclusive_sources(steps, target);
            }
        }
    }

    /// Warns about two tokens that carry a value of the same name: `args` has the value of the later one.
    fn check_same_names(&mut self, steps: &[NoetlStep], target: &NoetlStep) {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        let mut problems = Vec::new();
        for step in steps {
            for arc in step.arcs.iter().filter(|arc| arc.step == target.name) {
                for key in &arc.keys {
                    match first.get(key.as_str()) {
                        Some(other) if *other != &*step.name => {
                            let message =
                                format!("`{other}` and `{}` both pass `{key}` to `{}`", step.name, target.name);
                            problems.push((arc.span, message, step.name.clone()));
                        }
                        _ => _ = first.insert(key, &step.name),
                    }
                }
            }
        }
        for (span, message, winner) in problems {
            let hint = format!("`args` has the value that `{winner}` passes: rename one of the two");
            self.warning(codes::NAME_CLASH, span, message, hint);
        }
    }

    /// Warns about preceding steps that can never all run, because one step leads to them by exclusive arcs.
    fn check_exclusive_sources(&mut self, steps: &[NoetlStep], target: &NoetlStep) {
        let leads = |from: &NoetlStep, to: &str| from.arcs.iter().any(|arc| *arc.step == *to);
        let before: Vec<&NoetlStep> = steps.iter().filter(|step| leads(step, &target.name)).collect();
        for split in steps.iter().filter(|step| !step.inclusive) {
            // Only steps to which no other step leads: any other may also be started by another token.
            let only = |step: &&&NoetlStep| {
                let sources: Vec<&NoetlStep> = steps.iter().filter(|from| leads(from, &step.name)).collect();
                matches!(sources.as_slice(), [one] if one.name == split.name) && step.name != split.name
            };
            let apart: Vec<&&NoetlStep> = before.iter().filter(only).collect();
            if let [one, other, ..] = apart.as_slice() {
                let message = format!(
                    "`{}` waits for `{}` and `{}`, and only one of them runs",
                    target.name, one.name, other.name
                );
                let hint = format!(
                    "`{}` takes the first arc that matches: set `inclusive` there, or leave `join` out here",
                    split.name
                );
                let span = self.steps.get(&*target.name).copied().unwrap_or(target.span);
                self.warning(codes::NEVER_REACHED, span, message, hint);
            }
        }
    }
}

/// Returns the steps with an arc to a step.
fn sources<'s>(steps: &'s [NoetlStep], to: &str) -> impl Iterator<Item = &'s NoetlStep> {
    steps.iter().filter(move |step| step.arcs.iter().any(|arc| *arc.step == *to))
}

/// Returns a step of which two arcs can fire and lead to a step on different paths. Several arcs of one step straight
/// to another are no branches: they run it with their own arguments.
fn fan_out_before<'s>(steps: &'s [NoetlStep], to: &str) -> Option<&'s NoetlStep> {
    sources(steps, to).nth(1)?;
    let mut leading = BTreeSet::from([to]);
    let mut open = vec![to];
    while let Some(name) = open.pop() {
        let before = sources(steps, name).filter(|step| leading.insert(&step.name));
        // Where tokens have been joined, there is one left.
        open.extend(before.filter(|step| step.join != StepJoin::All).map(|step| &*step.name));
    }
    let branches = |step: &NoetlStep, can_fire: fn(&ArcEnds) -> bool| {
        step.arcs.iter().filter(|arc| can_fire(&arc.ends) && leading.contains(&*arc.step)).count()
    };
    let fans_out = |step: &&NoetlStep| branches(step, |ends| ends.done) > 1 || branches(step, |ends| ends.failed) > 1;
    steps.iter().filter(|step| step.inclusive).find(fans_out)
}
