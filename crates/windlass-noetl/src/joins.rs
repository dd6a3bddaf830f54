//! Checks of steps that wait for a token of each preceding step.

use std::collections::BTreeMap;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::form::NoetlStep;
use windlass_dialect::DiagnosticSink;

impl NoetlCompiler<'_> {
    pub(crate) fn check_joins(&mut self, steps: &[NoetlStep]) {
        for target in steps.iter().filter(|step| step.joins) {
            self.check_same_names(steps, target);
            self.check_exclusive_sources(steps, target);
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
