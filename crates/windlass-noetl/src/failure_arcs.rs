//! Arcs after a failure: a failed step takes only arcs that look at the failure, because any other condition says
//! nothing about it. The condition's names decide that when the file is loaded.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, format_names, to_value};
use windlass_value::Level;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::expr::{self, TemplateReference};
use crate::form::{NoetlRule, NoetlTask, RuleAction, StepArc};

/// The words of an arc's `spec.on`.
const ENDS: [&str; 2] = ["done", "failed"];
/// Parts of a target's name that say that it handles failures.
const HANDLER_NAMES: [&str; 8] =
    ["error", "fail", "exception", "rescue", "recover", "rollback", "roll_back", "compensat"];
/// Words for the status of a step, here and in other systems.
const STATUS_WORDS: [&str; 6] = ["success", "succeeded", "error", "failed", "failure", "ok"];

/// The ends of a step after which an arc may fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArcEnds {
    pub done: bool,
    pub failed: bool,
}

impl ArcEnds {
    pub(crate) const DONE: ArcEnds = ArcEnds { done: true, failed: false };
}

/// Names that `do: fail` rules of a step write: an arc that reads one looks at the failure.
#[derive(Debug, Default)]
pub(crate) struct FailureWrites {
    run: BTreeSet<Arc<str>>,
    step: BTreeSet<Arc<str>>,
    /// A rule sets `_prev`, which is the result of the failed step.
    result: bool,
}

impl FailureWrites {
    pub(crate) fn collect<'t>(tasks: impl IntoIterator<Item = &'t NoetlTask>) -> FailureWrites {
        let mut found = FailureWrites::default();
        let rules = tasks.into_iter().flat_map(|task| &task.rules);
        rules.filter(|rule| matches!(rule.then, RuleAction::Fail)).for_each(|rule| found.add(rule));
        found
    }

    fn add(&mut self, rule: &NoetlRule) {
        self.result |= rule.previous.is_some();
        for write in &rule.writes {
            match write.level {
                Level::Run => _ = self.run.insert(write.name.clone()),
                Level::Step => _ = self.step.insert(write.name.clone()),
                // No arc can read the variables of an iteration.
                Level::Iteration | Level::Any => {}
            }
        }
    }
}

/// The part of a step's end that a name in a condition reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionSubject {
    Failure,
    /// The step's result.
    Result,
    /// A variable, an earlier step.
    Data,
    /// The run's input, which no step changes.
    Input,
}

impl NoetlCompiler<'_> {
    /// Returns the ends after which an arc may fire: those of its `spec.on`; otherwise a success, and a failure if its
    /// condition looks at it.
    pub(crate) fn arc_ends(&mut self, on: Option<&SyntaxNode>, when: Option<&SyntaxNode>) -> ArcEnds {
        if let Some(ends) = on.and_then(|on| self.listed_ends(on)) {
            return ends;
        }
        let looks = when.is_some_and(|when| self.subjects(when).contains(&ConditionSubject::Failure));
        ArcEnds { done: true, failed: looks }
    }

    /// Reads `on: [failed]`, `on: [done]` or both.
    fn listed_ends(&mut self, node: &SyntaxNode) -> Option<ArcEnds> {
        let items = expect_list(node, "`on`", &mut self.diagnostics)?;
        let mut ends = ArcEnds { done: false, failed: false };
        for item in items {
            match item.as_str().unwrap_or_default().trim() {
                "done" => ends.done = true,
                "failed" => ends.failed = true,
                other => {
                    let hint = did_you_mean(other, ENDS).unwrap_or_else(|| format!("one of {}", format_names(ENDS)));
                    let message = format!("`on` lists {}, which is no end of a step", item.describe());
                    self.error(codes::BAD_VALUE, item.span, message, hint);
                    return None;
                }
            }
        }
        if items.is_empty() {
            self.error(codes::BAD_VALUE, node.span, "`on` is empty: the arc is never taken", "write `on: [failed]`");
            return None;
        }
        Some(ends)
    }

    fn subjects(&self, when: &SyntaxNode) -> Vec<ConditionSubject> {
        let source = to_value(when);
        let text = source.as_str().unwrap_or_default();
        expr::references(&source).iter().map(|found| self.subject(found, text)).collect()
    }

    fn subject(&self, found: &TemplateReference, text: &str) -> ConditionSubject {
        let (name, part) = (found.name.as_str(), found.path.first().map(String::as_str));
        let writes = &self.failure_writes;
        let written = |names: &BTreeSet<Arc<str>>, name: &str| match names.contains(name) {
            true => ConditionSubject::Failure,
            false => ConditionSubject::Data,
        };
        match (name, part) {
            ("event" | "error", _) | ("outcome" | "this", None) => ConditionSubject::Failure,
            ("outcome" | "output" | "this", _) => self.result_subject(found, text),
            ("response" | "result", _) if writes.result => ConditionSubject::Failure,
            ("response" | "result", _) => ConditionSubject::Result,
            ("ctx", Some(key)) => written(&writes.run, key),
            ("vars" | "step", Some(key)) if self.run_vars.contains(key) => written(&writes.run, key),
            ("vars" | "step", Some(key)) => written(&writes.step, key),
            ("workload" | "payload" | "args" | "input", _) => ConditionSubject::Input,
            _ if self.context.step.as_deref() == Some(name) => self.result_subject(found, text),
            _ if writes.run.contains(name) || writes.step.contains(name) => ConditionSubject::Failure,
            _ if self.workload.as_ref().is_some_and(|keys| keys.contains_key(name)) => ConditionSubject::Input,
            _ => ConditionSubject::Data,
        }
    }

    /// Returns the subject of `output.x`, `outcome.x`, `this.x`, or `x` of the step's own name, which is its result.
    fn result_subject(&self, found: &TemplateReference, text: &str) -> ConditionSubject {
        let part = |at: usize| found.path.get(at).map(String::as_str);
        let has_status = self.context.step.as_deref() != Some(&found.name);
        let looks = match (part(0), part(1)) {
            (Some("error" | "pg" | "py"), _) | (Some("http"), None | Some("status")) if has_status => true,
            (Some("status"), _) if has_status => reads_step_status(found, text),
            (Some("stats"), Some("failed")) => true,
            // A reply and a program report their failure in the result as well.
            (Some("status_code" | "exit_code"), _) | (Some("result"), Some("status_code" | "exit_code")) => true,
            _ => self.failure_writes.result,
        };
        if looks { ConditionSubject::Failure } else { ConditionSubject::Result }
    }

    /// Warns about conditions that may be meant for a failure and do not look at it, unless another arc of the step
    /// takes failures. A condition over data on a step that can fail is normal: the failure fails the run.
    pub(crate) fn warn_blind_arcs(&mut self, arcs: &[StepArc]) {
        if arcs.iter().any(|arc| arc.ends.failed) {
            return;
        }
        for arc in arcs {
            let Some(span) = arc.blind else { continue };
            let target = &arc.step;
            let message =
                format!("this condition does not look at the failure: a failed step does not go to `{target}`");
            let hint = "for an arc after a failure write `spec: {on: [failed]}` next to `step`, or \
                        `output.status == 'error'` in the condition; without one, the failure fails the run";
            self.warning(codes::BLIND_ARC, span, message, hint);
        }
    }

    /// Returns the span of a condition that may be meant for a failure and does not look at it.
    pub(crate) fn blind_condition(&self, target: &str, when: &SyntaxNode) -> Option<Span> {
        self.seems_to_handle_failures(target, when).then_some(when.span)
    }

    fn seems_to_handle_failures(&self, target: &str, when: &SyntaxNode) -> bool {
        let source = to_value(when);
        let text = source.as_str().unwrap_or_default();
        let found = expr::references(&source);
        let of_result = |found: &&TemplateReference| self.subject(found, text) == ConditionSubject::Result;
        let about_failures = found.iter().filter(of_result).any(|found| expects_failure(found, text));
        let only_input = found.iter().all(|found| self.subject(found, text) == ConditionSubject::Input);
        let target = target.to_ascii_lowercase();
        about_failures || only_input && HANDLER_NAMES.iter().any(|name| target.contains(name))
    }

    /// Warns about an outcome's status that is compared with a word that it never is.
    pub(crate) fn check_status_words(&mut self, node: &SyntaxNode) {
        const NAME: &str = "outcome.status";
        let SyntaxNodeKind::Str(text) = &node.kind else { return };
        for (at, _) in text.text.match_indices(NAME) {
            let Some((_, word)) = compared_word(&text.text[at + NAME.len()..]) else { continue };
            if matches!(word, "success" | "error") {
                continue;
            }
            let span = text.span_of(at..at + NAME.len(), node.span);
            let hint = match word {
                "failed" | "failure" => "write 'error'",
                "ok" | "succeeded" | "done" => "write 'success'",
                _ => "write `outcome.result.status` for a property of the result",
            };
            let message = format!("`{NAME}` is 'success' or 'error', never '{word}'");
            self.warning(codes::NEVER_REACHED, span, message, hint);
        }
    }
}

/// Returns the operator and the text with which a status is compared, if it is compared with a literal.
fn compared_word(after: &str) -> Option<(&str, &str)> {
    let after = after.trim_start();
    let (operator, after) = after.split_at_checked(2).filter(|(operator, _)| matches!(*operator, "==" | "!="))?;
    let after = after.trim_start();
    let quote = after.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    Some((operator, after[1..].split_once(quote)?.0))
}

/// Returns the texts after each occurrence of a reference.
fn after_uses<'t>(found: &TemplateReference, text: &'t str) -> impl Iterator<Item = &'t str> {
    let name = text.get(found.range.clone()).filter(|name| !name.is_empty()).unwrap_or("\0").to_owned();
    let ends: Vec<usize> = text.match_indices(&name).map(|(at, name)| at + name.len()).collect();
    ends.into_iter().map(|end| &text[end..])
}

/// Returns true if `output.status` means the status of the step. Compared with a word that no step's status has, it is
/// a property of the result: a service that is polled until its `status` is `done`.
fn reads_step_status(found: &TemplateReference, text: &str) -> bool {
    let compared: Vec<Option<(&str, &str)>> = after_uses(found, text).map(compared_word).collect();
    let is_own = |word: &Option<(&str, &str)>| match word {
        Some((_, "error")) | None => true,
        Some((_, word)) => *word == if found.name == "output" { "ok" } else { "success" },
    };
    compared.is_empty() || compared.iter().any(is_own)
}

/// Returns true if a condition over the result seems to be meant for a failure: there is no result, or its status is
/// one of a step.
fn expects_failure(found: &TemplateReference, text: &str) -> bool {
    const MISSING: [&str; 5] = ["is not defined", "is undefined", "is none", "== none", "== None"];
    after_uses(found, text).any(|after| match found.path.first().map(String::as_str) {
        Some("error") => true,
        Some("status") => compared_word(after).is_some_and(|(_, word)| STATUS_WORDS.contains(&word)),
        Some(_) => false,
        None => MISSING.iter().any(|test| after.trim_start().starts_with(test)),
    })
}
