//! Reads `steps`, those of the workflow and those inside a loop.

use std::collections::HashSet;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, SpannedKey, SpannedText, SyntaxNode, SyntaxNodeKind};

use super::agents::{ID_HINT, is_id};
use super::extensions::StepExtensions;
use super::{DocumentReader, start};
use crate::codes;
use crate::document::{CelSource, DefinitionCall, Include, Spanned, ZenflowStep};

/// Keys that cannot be combined with `call`: those of agents, and other kinds of work.
const CALL_EXCLUDES: [&str; 7] = ["agent", "instructions", "contextFiles", "model", "maxRetries", "include", "loop"];

impl DocumentReader<'_> {
    pub(crate) fn top_steps(&mut self, key: &SpannedKey, node: &SyntaxNode) -> Vec<ZenflowStep> {
        let hint = "a workflow has at least one step: `- id: first`";
        match &node.kind {
            SyntaxNodeKind::Null => self.error(codes::MISSING_STEPS, key.span, "`steps` is empty", hint),
            SyntaxNodeKind::List(items) if items.is_empty() => {
                self.error(codes::EMPTY_STEPS, node.span, "there is no step in `steps`", hint);
            }
            SyntaxNodeKind::List(items) => {
                self.check_step_count(key, items.len());
                return items
                    .iter()
                    .take(self.options.limits.max_steps_zenflow)
                    .filter_map(|item| self.step(item, false))
                    .collect();
            }
            _ => self.wrong_type(node, "steps", "a list of steps", "write each as `- id: …`"),
        }
        Vec::new()
    }

    /// Reads a step. Returns `None` if it is not an object.
    pub(crate) fn step(&mut self, node: &SyntaxNode, inner: bool) -> Option<ZenflowStep> {
        let mut object = self.object(node, "a step")?;
        let id = self.step_id(node, &mut object);
        if object.peek("include").is_some() {
            self.check_include_keys(&object);
        }
        let StepExtensions { budget, call, accept } =
            object.take("x-windlass").map(|node| self.step_extensions(node)).unwrap_or_default();
        if let Some(call) = &call {
            self.check_call_keys(&object, call);
        }
        let step = ZenflowStep {
            span: node.span,
            id,
            agent: object.take("agent").and_then(|node| self.non_empty_text(node, "agent")),
            instructions: object.take("instructions").and_then(|node| self.model_text(node, "instructions", true)),
            depends_on: object.take("dependsOn").map(|node| self.depends_on(node)).unwrap_or_default(),
            context_files: object.take("contextFiles").map(|node| self.context_files(node)).unwrap_or_default(),
            model: object.take("model").and_then(|node| self.non_empty_text(node, "model")),
            timeout: object.take("timeout").and_then(|node| self.duration(node, "timeout")),
            retries: object.take("retries").and_then(|node| self.retries(node, "retries")),
            max_retries: object.take("maxRetries").and_then(|node| self.retries(node, "maxRetries")),
            condition: object.take("condition").and_then(|node| self.cel(node, "condition")),
            include: object.take("include").and_then(|node| self.include(node)),
            repeat: object.take_entry("loop").and_then(|(key, node)| match inner {
                true => {
                    let hint = "move the inner loop into a separate workflow and `include` it";
                    self.error(codes::NESTED_LOOP, key.span, "a step inside a loop cannot have a loop", hint);
                    None
                }
                false => self.repeat(key, node),
            }),
            budget,
            call,
            accept: accept.iter().map(|stop| stop.value).collect(),
        };
        object.finish(codes::UNKNOWN_KEY, "a step", &mut self.found);
        self.warn_no_effect(&step);
        if let Some(stop) = accept.first().filter(|_| !step.is_agent()) {
            let hint = "set it in the steps whose agents answer";
            self.warning(
                codes::NO_EFFECT,
                stop.span,
                "`accept` has no effect: this step has no agent of its own",
                hint,
            );
        }
        Some(step)
    }

    fn step_id(&mut self, node: &SyntaxNode, object: &mut ObjectReader) -> Spanned<String> {
        let Some(written) = object.take("id").filter(|node| !matches!(node.kind, SyntaxNodeKind::Null)) else {
            self.error(codes::INVALID_STEP_ID, start(node), "a step has no `id`", "add `id: what-it-does`");
            return Spanned::new(String::new(), start(node));
        };
        let Some(id) = self.label(written, "id") else { return Spanned::new(String::new(), written.span) };
        let text = written.as_str().unwrap_or_default();
        if !is_id(text) {
            let message = match text.is_empty() {
                true => "the `id` of this step is empty".to_owned(),
                false => format!("`{}` cannot be the id of a step", id.value),
            };
            self.error(codes::INVALID_STEP_ID, written.span, message, ID_HINT);
        }
        id
    }

    /// Reads ids of siblings. A repeated id is dropped with a warning.
    fn depends_on(&mut self, node: &SyntaxNode) -> Vec<Spanned<String>> {
        let (mut ids, mut seen): (Vec<Spanned<String>>, HashSet<String>) = Default::default();
        for id in self.text_list(node, "dependsOn").unwrap_or_default() {
            match seen.insert(id.value.clone()) {
                true => ids.push(id),
                false => {
                    let message = format!("`{}` appears twice in `dependsOn`", id.value);
                    self.warning(codes::NO_EFFECT, id.span, message, "remove the second one");
                }
            }
        }
        // There are no more siblings than this limit, so a missing one was already reported.
        ids.truncate(self.options.limits.max_steps_zenflow);
        ids
    }

    fn context_files(&mut self, node: &SyntaxNode) -> Vec<Spanned<String>> {
        let Some(items) = node.as_list() else {
            self.wrong_type(node, "contextFiles", "a list of paths", "write [docs/one.md, docs/two.md]");
            return Vec::new();
        };
        items.iter().filter_map(|item| self.path(item, "contextFiles")).collect()
    }

    pub(crate) fn retries(&mut self, node: &SyntaxNode, what: &str) -> Option<Spanned<u64>> {
        let count = self.count(node, what, 0, codes::VALIDATION)?;
        let max_attempts = self.options.limits.max_retry_attempts;
        if count.value >= max_attempts {
            let message = format!("`{what}` is {}, more than the engine allows", count.value);
            let hint =
                format!("at most {}; `limits.max_retry_attempts` in windlass.toml", max_attempts.saturating_sub(1));
            self.error(codes::VALIDATION, node.span, message, hint);
        }
        Some(count)
    }

    /// Reads an expression. Its scope is determined when all steps are known.
    pub(crate) fn cel(&mut self, node: &SyntaxNode, what: &str) -> Option<CelSource> {
        let text: &SpannedText = self.text(node, what)?;
        if text.text.trim().is_empty() {
            let hint = "write an expression, or omit the key";
            self.error(codes::VALIDATION, node.span, format!("`{what}` is empty"), hint);
            return None;
        }
        Some(CelSource::new(text, node.span))
    }

    fn include(&mut self, node: &SyntaxNode) -> Option<Include> {
        let target = self.non_empty_text(node, "include")?;
        Some(Include { target, path: None, document: None })
    }

    fn check_include_keys(&mut self, object: &ObjectReader) {
        let Some((include, _)) = object.peek("include") else { return };
        for (name, code) in codes::INCLUDE_HAS {
            if let Some((key, _)) = object.peek(name) {
                let message = format!("a step with `include` cannot have `{name}`");
                let problem = Diagnostic::error(code, key.span, message).with_label(include.span, "the include");
                let hint = match name {
                    "condition" => "let a step before it decide, or put the condition into the included workflow",
                    "loop" => "write a loop with `steps`, and `include` the workflow in one of them",
                    _ => "the included workflow defines this itself: remove it here",
                };
                self.found.push(problem.with_hint(hint));
            }
        }
    }

    /// Rejects keys of agents in a step that calls another definition.
    fn check_call_keys(&mut self, object: &ObjectReader, call: &DefinitionCall) {
        for name in CALL_EXCLUDES {
            let Some((key, _)) = object.peek(name) else { continue };
            let message = format!("a step with `call` cannot have `{name}`");
            let hint = match name {
                "loop" => "write a loop with `steps`, and `call` the definition in one of them",
                "include" => {
                    "`include` makes another workflow part of this one, `call` runs a definition as a separate run: keep one of them"
                }
                _ => "the called definition does the work: remove it here",
            };
            let problem = Diagnostic::error(codes::VALIDATION, key.span, message);
            self.push(problem.with_label(call.span, "the call").with_hint(hint));
        }
    }

    /// Warns about keys that have no effect.
    fn warn_no_effect(&mut self, step: &ZenflowStep) {
        if step.call.is_some() {
            if let Some(budget) = &step.budget {
                let hint = "the called definition has its own budget";
                self.warning(codes::NO_EFFECT, budget.span, "`budget` has no effect on a call", hint);
            }
            return;
        }
        if step.include.is_some() {
            if let Some(retries) = &step.max_retries {
                let hint = "`retries` repeats the whole include; the included steps have their own `maxRetries`";
                self.warning(codes::NO_EFFECT, retries.span, "`maxRetries` has no effect on an include", hint);
            }
            return;
        }
        if step.inner().is_empty() {
            if step.instructions.is_none() && step.repeat.as_ref().is_none_or(|repeat| repeat.steps.is_empty()) {
                let message = format!("the step `{}` has no `instructions`: its agent has no task", *step.id);
                let span = step.id.span;
                // A broken reference was already reported.
                if !self
                    .found
                    .iter()
                    .any(|problem| problem.span.start >= step.span.start && problem.span.end <= step.span.end)
                {
                    self.warning(codes::NO_EFFECT, span, message, "add `instructions: …`");
                }
            }
            return;
        }
        let ignored_keys = [
            ("agent", step.agent.as_ref().map(|agent| agent.span)),
            ("instructions", step.instructions.as_ref().map(|text| text.span)),
            ("contextFiles", step.context_files.first().map(|path| path.span)),
            ("model", step.model.as_ref().map(|model| model.span)),
            ("maxRetries", step.max_retries.as_ref().map(|retries| retries.span)),
        ];
        for (name, span) in ignored_keys {
            if let Some(span) = span {
                let message = format!("`{name}` has no effect: the steps inside the loop do the work");
                self.warning(codes::NO_EFFECT, span, message, "set it in the steps under `loop`");
            }
        }
    }
}
