//! Checks that the names used in templates can exist. Only names that no run could ever provide are rejected.

use std::collections::{BTreeMap, BTreeSet};

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, Span, did_you_mean, format_names, nearest};

use crate::codes;
use crate::compiler::{NoetlCompiler, TemplateContext, TemplatePosition};
use crate::task_results::RESULTS;

/// A name in a template, and its context.
pub(crate) struct TemplateNameUse {
    pub name: String,
    pub path: Vec<String>,
    pub guarded: bool,
    pub span: Span,
    pub context: TemplateContext,
}

/// Names to which the language gives a meaning, at any position.
const WORDS: [&str; 26] = [
    "workload",
    "ctx",
    "vars",
    "iter",
    "args",
    "input",
    "step",
    "_prev",
    "_task",
    "_attempt",
    "_visit",
    "outcome",
    "output",
    "event",
    "result",
    "this",
    "error",
    "response",
    "_loop",
    "loop_index",
    "execution_id",
    "job",
    "parent_execution_id",
    "trace_id",
    "catalog_id",
    "payload",
];

/// Names that hide a name of the author at positions where they have a meaning.
const POSITION_WORDS: [&str; 13] = [
    "args", "input", "event", "outcome", "output", "error", "response", "result", "this", "_prev", "_task", "_attempt",
    "_visit",
];

impl NoetlCompiler<'_> {
    pub(crate) fn check_names(&mut self) {
        self.warn_clashes();
        self.warn_reserved_words();
        let uses = std::mem::take(&mut self.uses);
        let mut reported: BTreeSet<(usize, usize)> = BTreeSet::new();
        for found in uses.iter().filter(|found| !found.guarded) {
            if reported.insert((found.span.start, found.span.end)) {
                self.check_name(found);
            }
        }
        self.check_guarded(&uses);
        self.uses = uses;
    }

    /// Warns about a name with a default that nothing writes, so that it always has its default: probably a typo. Only
    /// variables are checked, whose writes are all in the file. A workbook task is compiled wherever it is used, and
    /// one use in which the name exists is enough.
    fn check_guarded(&mut self, uses: &[TemplateNameUse]) {
        let mut missed: BTreeMap<(usize, usize), Option<&TemplateNameUse>> = BTreeMap::new();
        for found in uses.iter().filter(|found| found.guarded) {
            let missing = (!self.can_be_written(found)).then_some(found);
            missed
                .entry((found.span.start, found.span.end))
                .and_modify(|one| *one = one.and(missing))
                .or_insert(missing);
        }
        for found in missed.into_values().flatten() {
            let Some(key) = found.path.first() else { continue };
            let whose = if found.name == "ctx" { "no step" } else { "no task of this step" };
            let message = format!("{whose} writes `{}.{key}`: it never exists", found.name);
            let known = if found.name == "ctx" {
                self.declared_names.ctx.clone()
            } else {
                self.step_names(&found.context, true)
            };
            let hint = did_you_mean(key, known.iter().map(String::as_str)).or_else(|| self.suggest_iteration_name(key));
            let hint = hint.unwrap_or_else(|| "write it where its value is known, or leave it out".to_owned());
            self.warning(codes::NEVER_WRITTEN, found.span, message, hint);
        }
    }

    fn can_be_written(&self, found: &TemplateNameUse) -> bool {
        // Names with a leading underscore belong to the compiler.
        let Some(key) = found.path.first().filter(|key| !key.starts_with('_')) else { return true };
        match found.name.as_str() {
            "ctx" => self.declared_names.ctx.contains(key),
            "iter" if found.context.in_iteration => {
                let given = found.context.iterator.as_deref() == Some(key) || matches!(key.as_str(), "index" | "count");
                given || self.step_names(&found.context, true).contains(key)
            }
            _ => true,
        }
    }

    /// For a name similar to one of a loop's iterations, suggests what exists after the loop.
    fn suggest_iteration_name(&self, key: &str) -> Option<String> {
        self.declared_names.iteration.iter().find_map(|(step, names)| {
            let close = nearest(key, names.iter().map(String::as_str))?;
            Some(format!("`{close}` is a name of the iterations of `{step}`: after the loop there is `{step}.results`"))
        })
    }

    fn check_name(&mut self, found: &TemplateNameUse) {
        if !self.check_at_start(found) {
            return;
        }
        let first = found.path.first().map(String::as_str);
        match (found.name.as_str(), first) {
            ("workload", Some(key)) => self.check_workload(found, key),
            ("ctx", Some(key)) => self.check_in(found, key, &self.declared_names.ctx.clone(), "no step writes it"),
            ("iter", Some(key)) => self.check_iter(found, key),
            ("vars" | "step", Some(key)) => self.check_vars(found, key),
            ("args" | "input", Some(key)) => self.check_args(found, key),
            ("_loop", key) => self.check_loop(found, key),
            (RESULTS, _) if !self.known_bare(&found.context).contains(RESULTS) => self.check_task_results(found),
            (name, _) if WORDS.contains(&name) => self.check_word(found, name),
            (name, _) => self.check_bare(found, name),
        }
    }

    /// Reports a reserved name that does not exist at its position, unless the author has declared the same name.
    fn check_word(&mut self, found: &TemplateNameUse, name: &str) {
        let task =
            "_prev and the like exist only inside tasks: after the step its result is `output`, or the step's name";
        let hint = match (found.context.position, name) {
            (TemplatePosition::Arc, "_prev") => "after a step its result is `output`, or the step's name",
            (TemplatePosition::Arc, "_task" | "_attempt" | "_visit") => task,
            (TemplatePosition::Guard, "_prev" | "_task" | "_attempt" | "_visit" | "outcome" | "output" | "this") => {
                "nothing of the step has run yet: read `args`, `ctx`, or an earlier step by its name"
            }
            (TemplatePosition::Input, "outcome") => {
                "it exists in the rules of a task; the previous task is `_prev`, or its label"
            }
            (TemplatePosition::Guard | TemplatePosition::Input, "event") => {
                "it exists in the arcs of a step: `next: [{step: …, when: …}]`"
            }
            _ => return,
        };
        if !self.known_bare(&found.context).contains(name) {
            self.error(codes::UNKNOWN_NAME, found.span, format!("there is no `{name}` here"), hint);
        }
    }

    /// Returns all names that can be used bare, besides reserved ones.
    fn known_bare(&self, context: &TemplateContext) -> BTreeSet<String> {
        let mut known = self.step_names(context, false);
        if context.in_iteration {
            known.extend(self.step_names(context, true));
            known.extend(context.iterator.iter().map(|name| name.to_string()));
        }
        known.extend(self.declared_names.ctx.iter().cloned());
        known.extend(self.steps.keys().cloned());
        known.extend(self.workload.iter().flat_map(|workload| workload.keys().cloned()));
        let args = context.step.as_ref().and_then(|step| self.declared_names.args.get(&**step));
        known.extend(args.into_iter().flatten().flatten().cloned());
        known
    }

    /// Explains that a name belongs to an iteration or to another step, if it does.
    fn explain_other_scope(&self, context: &TemplateContext, name: &str) -> Option<String> {
        if !context.in_iteration && self.step_names(context, true).contains(name) {
            return Some(format!("`{name}` is a name of the loop's iterations: after the loop, read its `results`"));
        }
        let has = |names: &BTreeMap<String, BTreeSet<String>>| {
            names.iter().find(|(_, names)| names.contains(name)).map(|(step, _)| step.clone())
        };
        let step = has(&self.declared_names.step).or_else(|| has(&self.declared_names.iteration))?;
        Some(format!(
            "`{name}` is a name of the step `{step}`: read the step's result as `{step}`, or write it there with `set_ctx`"
        ))
    }

    fn check_workload(&mut self, found: &TemplateNameUse, key: &str) {
        let Some(known) = &self.workload else { return };
        if known.contains_key(key) {
            return;
        }
        match did_you_mean(key, known.keys().map(String::as_str)) {
            Some(hint) => {
                let message = format!("`workload` has no `{key}`");
                self.error(codes::UNKNOWN_NAME, found.span, message, hint);
            }
            None => self.warn_outside_name(found.span, &format!("workload.{key}"), key),
        }
    }

    fn warn_outside_name(&mut self, span: Span, shown: &str, key: &str) {
        let message = format!("`{shown}` is not declared: the run's input must provide it");
        self.warning(codes::OUTSIDE_NAME, span, message, format!("add `{key}` under `workload`"));
    }

    fn check_in(&mut self, found: &TemplateNameUse, key: &str, known: &BTreeSet<String>, why: &str) {
        if known.contains(key) {
            return;
        }
        let hint = did_you_mean(key, known.iter().map(String::as_str)).unwrap_or_else(|| match known.is_empty() {
            true => format!("`{}.{key} | default(…)` provides a value when it is missing", found.name),
            false => format!("`{}` has {}", found.name, format_names(known.iter().map(String::as_str))),
        });
        let message = format!("there is no `{}.{key}`: {why}", found.name);
        self.push(Diagnostic::error(codes::UNKNOWN_NAME, found.span, message).with_hint(hint));
    }

    fn check_iter(&mut self, found: &TemplateNameUse, key: &str) {
        if !found.context.in_iteration {
            let hint = "`iter` exists in the iterations of a `loop`; after the loop, read the results of the step";
            self.error(codes::UNKNOWN_NAME, found.span, format!("`iter.{key}` is used outside of any loop"), hint);
            return;
        }
        let mut known = self.step_names(&found.context, true);
        known.extend(found.context.iterator.iter().map(|name| name.to_string()));
        known.extend(["index", "count"].map(str::to_owned));
        self.check_in(found, key, &known, "no task of this step writes it");
    }

    fn check_loop(&mut self, found: &TemplateNameUse, key: Option<&str>) {
        if !found.context.in_iteration {
            let hint = "`_loop` exists in the iterations of a `loop`";
            return self.error(codes::UNKNOWN_NAME, found.span, "`_loop` is used outside of any loop", hint);
        }
        let known = ["index", "count"].map(str::to_owned).into();
        if let Some(key) = key {
            self.check_in(found, key, &known, "a loop does not have it");
        }
    }

    fn check_vars(&mut self, found: &TemplateNameUse, key: &str) {
        let mut known = self.step_names(&found.context, false);
        known.extend(self.run_vars.iter().cloned());
        if found.context.in_iteration {
            known.extend(self.step_names(&found.context, true));
        }
        let other =
            self.declared_names.step.iter().find(|(_, names)| names.contains(key)).map(|(step, _)| step.clone());
        if let (false, Some(step)) = (known.contains(key), other) {
            let message = format!("there is no `{}.{key}`: it is a variable of the step `{step}`", found.name);
            let hint = format!("write it with `set_ctx` there, and read `ctx.{key}`");
            return self.error(codes::UNKNOWN_NAME, found.span, message, hint);
        }
        self.check_in(found, key, &known, "no task of this step writes it");
    }

    fn check_args(&mut self, found: &TemplateNameUse, key: &str) {
        let Some(step) = &found.context.step else { return };
        let Some(Some(known)) = self.declared_names.args.get(&**step).cloned() else { return };
        self.check_in(found, key, &known, "no arc to this step passes it");
    }

    /// Returns the names that a step's own tasks write: those of its iterations, or its own.
    fn step_names(&self, context: &TemplateContext, of_iteration: bool) -> BTreeSet<String> {
        let names = if of_iteration { &self.declared_names.iteration } else { &self.declared_names.step };
        context.step.as_ref().and_then(|step| names.get(&**step)).cloned().unwrap_or_default()
    }

    /// Checks a bare name: an iteration's name, a label, an argument, `ctx`, a step, `workload`.
    pub(crate) fn check_bare(&mut self, found: &TemplateNameUse, name: &str) {
        let known = self.known_bare(&found.context);
        if known.contains(name) {
            return;
        }
        let words = WORDS.iter().copied();
        let close = did_you_mean(name, known.iter().map(String::as_str).chain(words));
        let elsewhere = self.explain_other_scope(&found.context, name);
        if let (Some(hint), None) = (&elsewhere, &self.workload) {
            let message = format!("there is no `{name}` here, unless the run's input provides it");
            return self.warning(codes::OUTSIDE_NAME, found.span, message, hint.clone());
        }
        let close = elsewhere.or(close);
        match (close, &self.workload) {
            (Some(hint), _) => self.error(codes::UNKNOWN_NAME, found.span, format!("there is no `{name}` here"), hint),
            (None, Some(workload)) if !workload.is_empty() => {
                let hint = format!("add it under `workload`, or write `{name} | default(…)`");
                self.error(codes::UNKNOWN_NAME, found.span, format!("there is no `{name}` here"), hint);
            }
            (None, _) => self.warn_outside_name(found.span, name, name),
        }
    }

    /// Warns about names with two meanings when read bare, of which the first wins.
    fn warn_clashes(&mut self) {
        let workload: Vec<String> = self.workload.iter().flat_map(|all| all.keys().cloned()).collect();
        for key in &workload {
            let other = match (self.steps.get(key), self.declared_names.ctx.contains(key)) {
                (Some(span), _) => Some((*span, "a step")),
                (None, true) => self.clashing_use(key).map(|span| (span, "`ctx`")),
                (None, false) => None,
            };
            if let Some((span, what)) = other {
                let message = format!("`{key}` is a key of `workload` and the name of {what}");
                let hint = format!("the bare name means the second; write `workload.{key}` for the first");
                self.warning(codes::NAME_CLASH, span, message, hint);
            }
        }
        let both: Vec<String> =
            self.declared_names.ctx.iter().filter(|name| self.steps.contains_key(*name)).cloned().collect();
        for name in both {
            if let Some(span) = self.clashing_use(&name) {
                let message = format!("`{name}` is a step and is written to `ctx`");
                self.warning(codes::NAME_CLASH, span, message, "the bare name means `ctx`: rename one of them");
            }
        }
    }

    /// Warns about names of the author that are also reserved: read bare, they have the reserved meaning where there is
    /// one.
    fn warn_reserved_words(&mut self) {
        let mut reported: BTreeSet<&str> = BTreeSet::new();
        let mut problems = Vec::new();
        for found in self.uses.iter().filter(|found| POSITION_WORDS.contains(&found.name.as_str())) {
            let (name, here) = (found.name.as_str(), &found.context);
            let (what, instead) = match () {
                () if here.iterator.as_deref() == Some(name) => ("the loop's item", format!("write `iter.{name}`")),
                () if self.step_names(here, true).contains(name) => {
                    ("a name of the iteration", format!("write `iter.{name}`"))
                }
                () if self.step_names(here, false).contains(name) => {
                    ("a name of the step", format!("write `vars.{name}`"))
                }
                () if self.declared_names.ctx.contains(name) => ("written to `ctx`", format!("write `ctx.{name}`")),
                () if self.steps.contains_key(name) => ("a step", "give the step another name".to_owned()),
                () if self.workload.as_ref().is_some_and(|workload| workload.contains_key(name)) => {
                    ("a key of `workload`", format!("write `workload.{name}`"))
                }
                () => continue,
            };
            if reported.insert(name) {
                let message = format!("`{name}` is {what} and a word of the language: bare, it means the word");
                problems.push(Diagnostic::warning(codes::NAME_CLASH, found.span, message).with_hint(instead));
            }
        }
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Returns a position where such a name is read bare; without one there is no clash.
    fn clashing_use(&self, name: &str) -> Option<Span> {
        self.uses.iter().find(|found| found.name == name).map(|found| found.span)
    }
}
