//! `kind: approval`: waits for a person's answer, which is the task's result.

use std::sync::Arc;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{SyntaxNode, SyntaxNodeKind, expect_text};

use super::TaskInputs;
use crate::compiler::NoetlCompiler;
use crate::form::TaskWork;
use crate::{codes, expr};

const FORM: [&str; 4] = ["title", "message", "schema", "assignees"];

impl NoetlCompiler<'_> {
    pub(crate) fn approval(&mut self, inputs: &mut TaskInputs) -> Option<TaskWork> {
        let signal = inputs.object.take("signal").map(|node| self.signal(node));
        let mut entries = Vec::new();
        for name in FORM {
            if let Some(node) = inputs.object.take(name) {
                self.check_form(name, node);
                entries.push((name, node.clone()));
            }
        }
        self.input_timeout(inputs);
        if !entries.iter().any(|(name, _)| *name == "title") {
            self.missing_input("approval", "title", inputs.span);
            return None;
        }
        let form = self.value(&SyntaxNode::object(inputs.span, entries));
        let name = match signal {
            Some(name) => name?,
            None => "".into(),
        };
        Some(TaskWork::Ask { name, form, deadline: inputs.timeout.take() })
    }

    fn signal(&mut self, node: &SyntaxNode) -> Option<Arc<str>> {
        let text = expect_text(node, "`signal`", &mut self.diagnostics)?.text.trim();
        if text.is_empty() || expr::is_template(text) {
            let message = format!("the name of a signal cannot be {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "write a literal, such as `signal: paid`");
            return None;
        }
        Some(text.into())
    }

    fn check_form(&mut self, name: &str, node: &SyntaxNode) {
        let computed = node.as_str().is_some_and(expr::is_template);
        let (fits, hint) = match name {
            "schema" => (node.as_map().is_some(), "a JSON Schema: `{type: object, properties: {…}}`"),
            "assignees" => (node.as_list().is_some(), "a list of names: `[anna, bert]`"),
            _ => (matches!(node.kind, SyntaxNodeKind::Str(_)), "a text, which may hold templates"),
        };
        if !fits && !computed {
            let message = format!("`{name}` of an approval cannot be {}", node.describe());
            self.error(codes::WRONG_KIND, node.span, message, hint);
        }
    }
}
