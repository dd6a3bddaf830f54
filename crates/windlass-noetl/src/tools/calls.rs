//! `kind: playbook`: a child run.

use windlass_core::plan::ExprId;
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SyntaxNode, SyntaxNodeKind, expect_text};

use super::TaskInputs;
use super::http::text;
use crate::compiler::NoetlCompiler;
use crate::form::TaskWork;
use crate::tasks::overlay_object;
use crate::{codes, expr};

impl NoetlCompiler<'_> {
    pub(crate) fn playbook_call(&mut self, inputs: &mut TaskInputs) -> Option<TaskWork> {
        // Next to a path, `name` is the label of the task.
        let has_path = ["path", "playbook"].iter().any(|key| inputs.object.peek(key).is_some());
        let path = self.one_of(inputs, if has_path { &["path", "playbook"] } else { &["name"] });
        let own = self.one_of(inputs, &["input", "payload", "args", "workload"]).map(|(_, node)| node);
        self.input_timeout(inputs);
        for (name, hint) in [
            ("version", "the playbook is resolved and pinned when this file is compiled"),
            ("poll_interval", "the engine is notified of the child's end and does not poll"),
        ] {
            if let Some((key, _)) = inputs.object.take_entry(name) {
                self.no_effect(key.span, format!("`{name}` has no effect"), hint);
            }
        }
        let returns = inputs.object.take("return_step").and_then(|node| self.return_step(node));
        let input = merged_input(inputs, own);
        let input = self.child_input(&input);
        let Some((_, node)) = path else {
            self.missing_input("playbook", "path", inputs.span);
            return None;
        };
        if inputs.is_mocked {
            return Some(TaskWork::Effect { tool: "playbook".into(), input });
        }
        let name = expect_text(node, "`path`", &mut self.diagnostics)?.text.trim();
        if name.is_empty() {
            self.error(codes::BAD_VALUE, node.span, "the path of the playbook is empty", "give the path of its file");
            return None;
        }
        let among = match expr::is_template(name) {
            true => self.computed_path(name, node.span),
            false => vec![name.to_owned()],
        };
        for name in among {
            let known = self.options.registered.has_definition(&name);
            if !known && !self.calls.iter().any(|(called, _)| *called == name) {
                self.calls.push((name, node.span));
            }
        }
        let definition = match returns {
            Some(step) => text(format!("{name}#{step}"), node.span),
            None => node.clone(),
        };
        let definition = self.value(&definition);
        Some(TaskWork::Call { definition, input })
    }

    /// Adds the input of a child run. It becomes data of that run, so no secret reference in it is opened.
    pub(crate) fn child_input(&mut self, node: &SyntaxNode) -> ExprId {
        if self.deferred_inputs.is_some() { self.input(node) } else { self.value(node) }
    }

    fn return_step(&mut self, node: &SyntaxNode) -> Option<String> {
        let step = expect_text(node, "`return_step`", &mut self.diagnostics)?.text.trim();
        if step.is_empty() || step.contains('#') || expr::is_template(step) {
            self.error(
                codes::BAD_VALUE,
                node.span,
                "`return_step` is not the name of a step",
                "name a step of the child",
            );
            return None;
        }
        Some(step.to_owned())
    }

    /// Returns the playbooks that a computed path can lead to, as far as the file shows it: each must be found and
    /// pinned. Any other path that a run computes must be a definition that the engine knows by that name.
    fn computed_path(&mut self, template: &str, span: Span) -> Vec<String> {
        let mut found = Vec::new();
        let known = expr::single_expression(template).is_some_and(|inner| self.possible_texts(inner, &mut found));
        if !known {
            let message = "the playbooks that this may call cannot be determined from the file";
            let hint = "give the path as `'a' if … else 'b'`, or as a key of `workload` with a default";
            self.warning(codes::OUTSIDE_NAME, span, message, hint);
        }
        found
    }

    /// Collects the texts that an expression can evaluate to: a literal, a key of `workload`, or one of two of these.
    fn possible_texts(&self, expression: &str, found: &mut Vec<String>) -> bool {
        let expression = expression.trim();
        if let Some(literal) = unquote(expression) {
            found.push(literal.to_owned());
            return true;
        }
        if let Some((good, rest)) = expression.split_once(" if ")
            && let Some((_, bad)) = rest.rsplit_once(" else ")
        {
            return self.possible_texts(good, found) & self.possible_texts(bad, found);
        }
        let key = expression.strip_prefix("workload.").unwrap_or(expression);
        let default = self.workload.as_ref().and_then(|workload| workload.get(key)).and_then(|value| value.as_str());
        found.extend(default.map(str::to_owned));
        default.is_some()
    }
}

/// Merges the inputs of the task over those of the step; the default is an empty object.
pub(super) fn merged_input(inputs: &TaskInputs, own: Option<&SyntaxNode>) -> SyntaxNode {
    let input = match (inputs.step_input, own) {
        (Some(given), Some(own)) => overlay_object(given, own),
        (given, own) => own.or(given).cloned().unwrap_or_else(|| SyntaxNode::object(inputs.span, [])),
    };
    match input.kind {
        SyntaxNodeKind::Null => SyntaxNode::object(input.span, []),
        _ => input,
    }
}

fn unquote(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '\'' | '"'))?;
    let inner = text.strip_prefix(mark)?.strip_suffix(mark)?;
    (!inner.contains([mark, '\\'])).then_some(inner)
}
