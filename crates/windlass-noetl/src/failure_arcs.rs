//! Arcs after a failure: a failed step takes only arcs that look at the failure, because any other condition says
//! nothing about it. The condition's names decide that when the file is loaded.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::plan::{VariableUpdate, WriteOp};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, format_names, to_value};
use windlass_value::{ExpressionMode, Level, Value};

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

/// The variable with the names that the `do: fail` rule that ended this visit of the step has written.
const FAILURE: &str = "_failure";
/// The name of the result among them.
const RESULT: &str = "result";

/// Returns the name of a variable in `_failure`.
fn failure_name(level: Level, name: &str) -> String {
    match level {
        Level::Run => format!("ctx.{name}"),
        _ => format!("vars.{name}"),
    }
}

/// The part of a step's end that a name in a condition reads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ConditionSubject {
    Failure,
    /// A variable that a `do: fail` rule writes: the failure, if that rule ended the step.
    Written(String),
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
        let is_failure =
            |subject: &ConditionSubject| matches!(subject, ConditionSubject::Failure | ConditionSubject::Written(_));
        let looks = when.is_some_and(|when| self.subjects(when).iter().any(is_failure));
        ArcEnds { done: true, failed: looks }
    }

    /// Returns the variables that an arc takes as the failure: it fires after a failure only if the rule that ended the
    /// step wrote one of them. Empty if the condition looks at the failure itself.
    pub(crate) fn needed_writes(&self, when: &SyntaxNode) -> Vec<String> {
        let mut needed = Vec::new();
        for subject in self.subjects(when) {
            match subject {
                ConditionSubject::Failure => return Vec::new(),
                ConditionSubject::Written(name) if !needed.contains(&name) => needed.push(name),
                _ => {}
            }
        }
        needed
    }

    /// Returns the condition after a failure of an arc that needs these variables.
    pub(crate) fn failure_condition(&self, source: &Value, needed: &[String]) -> Value {
        let Some(text) = source.as_str().filter(|_| !needed.is_empty()) else { return source.clone() };
        let tests: Vec<String> = needed.iter().map(|name| format!("'{name}' in vars.{FAILURE}")).collect();
        let test = format!("vars.{FAILURE} is defined and ({})", tests.join(" or "));
        Value::from(match expr::single_expression(text) {
            Some(inner) => format!("{{{{ {test} and ({inner}) }}}}"),
            None => format!("{{% if {test} %}}{text}{{% endif %}}"),
        })
    }

    /// Lets each `do: fail` rule of a step note what it has written, if an arc needs it.
    pub(crate) fn note_failure_writes(&mut self, tasks: &mut [NoetlTask], arcs: &[StepArc]) {
        if !arcs.iter().any(|arc| arc.needs_writes) {
            return;
        }
        for task in tasks {
            let span = task.span;
            for rule in task.rules.iter_mut().filter(|rule| matches!(rule.then, RuleAction::Fail)) {
                let result = rule.previous.is_some().then(|| RESULT.to_owned());
                let written = rule.writes.iter().map(|write| failure_name(write.level, &write.name));
                let names: Vec<Value> = written.chain(result).map(Value::from).collect();
                let names = self.add_expression(Value::list(names), ExpressionMode::Value, span);
                let write = VariableUpdate::new(Level::Step, FAILURE, WriteOp::Set, Some(names));
                rule.writes.push(VariableUpdate { ignores_input: true, hidden: true, ..write });
            }
        }
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
        let written = |level: Level, name: &str| {
            let names = if level == Level::Run { &writes.run } else { &writes.step };
            match names.contains(name) {
                true => ConditionSubject::Written(failure_name(level, name)),
                false => ConditionSubject::Data,
            }
        };
        match (name, part) {
            ("event" | "error", _) | ("outcome" | "this", None) => ConditionSubject::Failure,
            ("outcome" | "output" | "this", _) => self.result_subject(found, text),
            ("response" | "result", _) if writes.result => ConditionSubject::Written(RESULT.to_owned()),
            ("response" | "result", _) => ConditionSubject::Result,
            ("ctx", Some(key)) => written(Level::Run, key),
            ("vars" | "step", Some(key)) if self.run_vars.contains(key) => written(Level::Run, key),
            ("vars" | "step", Some(key)) => written(Level::Step, key),
            ("workload" | "payload" | "args" | "input", _) => ConditionSubject::Input,
            _ if self.context.step.as_deref() == Some(name) => self.result_subject(found, text),
            _ if writes.step.contains(name) => written(Level::Step, name),
            _ if writes.run.contains(name) => written(Level::Run, name),
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
            _ if self.failure_writes.result => return ConditionSubject::Written(RESULT.to_owned()),
            _ => false,
        };
        if looks { ConditionSubject::Failure } else { ConditionSubject::Result }
    }

    /// Warns about a condition that reads the failure and may be met by data alone: it is also met after a failure that
    /// it does not mean.
    pub(crate) fn warn_data_alternatives(&mut self, when: &SyntaxNode) {
        let source = to_value(when);
        let Some(condition) = source.as_str().and_then(expr::single_expression) else { return };
        let alternatives = split_alternatives(condition);
        let is_split = alternatives.len() > 1;
        let found = alternatives.into_iter().find(|part| is_vacuous(part) || is_split && !self.looks_at_failure(part));
        let Some(part) = found else { return };
        let message = format!("a failed step may take this arc: `{part}` is also met by a failure that is not meant");
        let hint =
            "say which end is meant: `event.name == 'step.failed' and …`, or `spec: {on: [done]}` next to `step`";
        self.warning(codes::BLIND_ARC, when.span, message, hint);
    }

    fn looks_at_failure(&self, part: &str) -> bool {
        let source = Value::from(format!("{{{{ {part} }}}}"));
        let looks = |subject| matches!(subject, ConditionSubject::Failure | ConditionSubject::Written(_));
        expr::references(&source).iter().any(|found| looks(self.subject(found, part)))
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

/// Splits a condition at each `or` outside of quotes and brackets.
fn split_alternatives(condition: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, letter) in condition.char_indices() {
        match (quote, letter) {
            (Some(open), _) => quote = (letter != open).then_some(open),
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, 'o') if depth == 0 && condition[at..].starts_with("or ") && condition[..at].ends_with(' ') => {
                parts.push(condition[start..at].trim());
                start = at + "or ".len();
            }
            (None, _) => {}
        }
    }
    parts.push(condition[start..].trim());
    parts
}

/// Returns true for a condition that names the end of the step and is met by every end, or by a failure without that
/// detail: `event is defined`, `outcome.http.status | default(200) != 404`.
fn is_vacuous(part: &str) -> bool {
    let names_end = |name: &str| ["event", "outcome", "this"].contains(&name.trim());
    let always = part.strip_suffix(" is defined").is_some_and(names_end);
    let differs = part.split_once("!=").is_some_and(|(before, _)| before.contains("default("));
    always || differs && !part.contains(" and ")
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
