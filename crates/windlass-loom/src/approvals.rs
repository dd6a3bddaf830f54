//! `approval`, and `wait` for a signal.

use std::sync::Arc;

use windlass_core::plan::{Amount, ExprId, NodeKind, Wait};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, SyntaxNode, SyntaxNodeKind, expect_text};
use windlass_value::Duration;

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr;

/// Fields of the form: what people see and what they may answer.
const FORM: &[&str] = &["title", "message", "schema", "assignees"];

impl LoomCompiler<'_> {
    /// Compiles an approval. The answer is the action's output; the definition decides whether it is a yes.
    pub(crate) fn approval(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let signal = current.fields.take("signal", &mut self.diagnostics).map(|node| self.signal_name(node));
        let mut entries = Vec::new();
        for name in FORM {
            let Some(node) = current.fields.take(name, &mut self.diagnostics) else { continue };
            self.check_form(name, node);
            entries.push((*name, node.clone()));
        }
        if !entries.iter().any(|(name, _)| *name == "title") {
            current.fields.missing("title", &mut self.diagnostics);
            return None;
        }
        let form = self.value(&SyntaxNode::object(current.fields.span(), entries), current.position.scope);
        let name = match signal {
            Some(name) => name?,
            None => "".into(),
        };
        Some(self.wait_for(current, name, Some(form)))
    }

    /// Compiles `{"signal": {"name": …}}` of a `wait`.
    pub(crate) fn wait_for_signal(&mut self, current: &mut CurrentAction, node: &SyntaxNode) -> Option<NodeKind> {
        let mut object = ObjectReader::read(node, "`signal`", &mut self.diagnostics)?;
        let name = object.take("name");
        object.finish(codes::UNKNOWN_KEY, "`signal`", &mut self.diagnostics);
        let Some(name) = name else {
            let hint = "write {\"signal\": {\"name\": \"paid\"}}";
            self.error(codes::MISSING_KEY, node.span, "the signal has no `name`", hint);
            return None;
        };
        let name = self.signal_name(name)?;
        Some(self.wait_for(current, name, None))
    }

    /// Creates the wait. The timeout of the action becomes the deadline of the wait, which the assignee sees.
    fn wait_for(&mut self, current: &mut CurrentAction, name: Arc<str>, form: Option<ExprId>) -> NodeKind {
        let deadline: Option<Amount<Duration>> = current.common.timeout.take().map(|timeout| timeout.after);
        NodeKind::Wait(Wait::Signal { name, requirements: None, deadline, form })
    }

    fn signal_name(&mut self, node: &SyntaxNode) -> Option<Arc<str>> {
        let text = &expect_text(node, "the name of a signal", &mut self.diagnostics)?.text;
        if text.trim().is_empty() || expr::is_expression(text) {
            let message = format!("the name of a signal cannot be {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "write a literal, such as \"paid\"");
            return None;
        }
        Some(text.trim().into())
    }

    fn check_form(&mut self, name: &str, node: &SyntaxNode) {
        let computed = matches!(&node.kind, SyntaxNodeKind::Str(text) if expr::is_expression(&text.text));
        let (fits, hint) = match name {
            "schema" => (node.as_map().is_some(), "a JSON Schema: {\"type\": \"object\", \"properties\": {…}}"),
            "assignees" => (node.as_list().is_some(), "a list of names: [\"anna\", \"bert\"]"),
            _ => (
                matches!(node.kind, SyntaxNodeKind::Str(_)),
                "a text, which may hold expressions: \"Pay @{variables('sum')}?\"",
            ),
        };
        if !fits && !computed {
            let message = format!("`{name}` of an approval cannot be {}", node.describe());
            self.error(codes::WRONG_KIND, node.span, message, hint);
        }
    }
}
