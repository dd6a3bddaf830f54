//! `response`: a reply to the caller that started the run, which then continues.

use windlass_core::plan::{Action, ExprId, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SyntaxNode, SyntaxNodeKind};
use windlass_value::{ExpressionMode, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr::{self, ExprLanguage};

impl LoomCompiler<'_> {
    pub(crate) fn response(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        self.check_reply_position(current);
        let scope = current.position.scope;
        let span = current.fields.span();
        let status = current.fields.take("statusCode", &mut self.diagnostics);
        let status = match status {
            Some(node) => self.reply_status(node),
            None => Some((SyntaxNode::new(Span::at(span.start), SyntaxNodeKind::Number(200i64.into())), None)),
        };
        let (status, success) = status.unzip();
        let mut entries: Vec<(&str, SyntaxNode)> = status.map(|node| ("statusCode", node)).into_iter().collect();
        for name in ["headers", "body"] {
            if let Some(node) = current.fields.take(name, &mut self.diagnostics) {
                entries.push((name, node.clone()));
            }
        }
        // The schema of the body is for people and designers.
        current.fields.take("schema", &mut self.diagnostics);
        let value = self.value(&SyntaxNode::object(span, entries), scope);
        Some(NodeKind::single_task(Action::Reply { value, success: success? }))
    }

    fn check_reply_position(&mut self, current: &CurrentAction) {
        let span = current.fields.span();
        let at = Span::new(span.start, span.start + 1);
        let around = self.scopes.loops(current.position.scope).next().map(|frame| frame.name.clone());
        if let Some(name) = around {
            let message = format!("`response` is not allowed inside a loop; this one is inside `{name}`");
            self.error(codes::RESPONSE_MISPLACED, at, message, "a run answers once: respond after the loop");
        }
        if let Some(kind) = self.trigger_without_caller {
            let message = format!("no caller waits for a response: a trigger of type `{kind}` starts the run");
            let hint = "add a trigger of type `Request`, or give the result under `outputs`";
            self.error(codes::RESPONSE_MISPLACED, at, message, hint);
        }
    }

    /// Reads the status code, and the condition that it means success; without a condition it always does.
    fn reply_status(&mut self, node: &SyntaxNode) -> Option<(SyntaxNode, Option<ExprId>)> {
        let code = match &node.kind {
            SyntaxNodeKind::Number(Value::Int(code)) => Some(*code),
            SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
                // The problems of the expression are reported when the reply itself is checked.
                let below = Value::from(text.wrap("@less(int(", 1, "), 400)").text);
                let success = self.add_expression(ExprLanguage::Wdl, below, ExpressionMode::Condition, node.span);
                return Some((node.clone(), Some(success)));
            }
            SyntaxNodeKind::Str(text) if expr::is_expression(&text.text) => {
                let hint = "write it as one expression: \"@variables('code')\"";
                self.error(
                    codes::NOT_SUPPORTED,
                    node.span,
                    "`statusCode` must be a number or a single expression",
                    hint,
                );
                return None;
            }
            SyntaxNodeKind::Str(text) => text.text.trim().parse().ok(),
            _ => None,
        };
        let Some(code) = code.filter(|code| matches!(code, 200..=299 | 400..=599)) else {
            let message = format!("`statusCode` cannot be {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "a run answers with 2xx, 4xx or 5xx");
            return None;
        };
        let bad = (code >= 400)
            .then(|| self.add_expression(ExprLanguage::Wdl, false.into(), ExpressionMode::Condition, node.span));
        Some((SyntaxNode::new(node.span, SyntaxNodeKind::Number(code.into())), bad))
    }
}
