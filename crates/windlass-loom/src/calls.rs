//! Child runs: `workflow`, and activities that are workflows.

use std::sync::Arc;

use windlass_core::plan::{ChildRunCall, ExprId, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, expect_text};
use windlass_value::ExpressionMode;

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr::{self, ExprLanguage};

impl LoomCompiler<'_> {
    pub(crate) fn workflow_action(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let scope = current.position.scope;
        let definition = self.called_definition(current);
        let body = current.fields.take("body", &mut self.diagnostics);
        for name in ["headers", "queries"] {
            if let Some(node) = current.fields.take(name, &mut self.diagnostics) {
                self.check_expression(ExprLanguage::Wdl, node, ExpressionMode::Value, scope);
                let message = format!("`{name}` of a child run have no effect: it gets the `body` only");
                self.warning(codes::NO_EFFECT, node.span, message, "pass what it needs in the `body`");
            }
        }
        self.effect_retry(current);
        match definition {
            Some((name, span)) => {
                let input = call_input(body, span);
                let input = self.value(&input, scope);
                Some(self.call((&name, span), input))
            }
            None => {
                body.map(|body| self.check_expression(ExprLanguage::Wdl, body, ExpressionMode::Value, scope));
                None
            }
        }
    }

    /// Compiles a child run of the definition of this name.
    pub(crate) fn call(&mut self, (definition, span): (&str, Span), input: ExprId) -> NodeKind {
        let known = self.options.registered.has_definition(definition);
        if !known && !self.calls.iter().any(|(name, _)| *name == definition) {
            self.calls.push((definition.into(), span));
        }
        let definition = self.constant(definition.into(), span);
        NodeKind::Call(ChildRunCall { definition, input })
    }

    /// Returns the called definition. Azure names the workflow by its resource under `host`; the short form gives its
    /// `name`.
    fn called_definition(&mut self, current: &mut CurrentAction) -> Option<(Arc<str>, Span)> {
        let name = current.fields.inputs().and_then(|inputs| inputs.take_entry("name"));
        let host = current.fields.take_entry("host", &mut self.diagnostics);
        if let (Some((first, _)), Some((second, _))) = (host, name) {
            let problem = Diagnostic::error(codes::CONFLICT, second.span, "`host` and `name` exclude each other");
            self.push(problem.with_label(first.span, "the other").with_hint("keep one of the two"));
        }
        let node = match (host, name) {
            (Some((_, host)), _) => self.host(host)?,
            (None, Some((_, name))) => name,
            (None, None) => {
                current.fields.missing("host", &mut self.diagnostics);
                return None;
            }
        };
        self.definition_name(node).map(|name| (name, node.span))
    }

    fn host<'n>(&mut self, node: &'n SyntaxNode) -> Option<&'n SyntaxNode> {
        let mut host = ObjectReader::read(node, "`host`", &mut self.diagnostics)?;
        let workflow = host.take("workflow");
        host.ignore(&["triggerName"]);
        host.finish(codes::UNKNOWN_KEY, "`host`", &mut self.diagnostics);
        let Some(workflow) = workflow else {
            let hint = "write {\"workflow\": {\"id\": \"child\"}}";
            self.error(codes::MISSING_KEY, node.span, "`host` has no `workflow`", hint);
            return None;
        };
        let mut object = ObjectReader::read(workflow, "`workflow`", &mut self.diagnostics)?;
        let id = object.take("id");
        object.finish(codes::UNKNOWN_KEY, "`workflow`", &mut self.diagnostics);
        if id.is_none() {
            self.error(
                codes::MISSING_KEY,
                workflow.span,
                "`workflow` has no `id`",
                "add the name of the workflow as `id`",
            );
        }
        id
    }

    /// Returns the name itself, or the last segment of a resource id.
    fn definition_name(&mut self, node: &SyntaxNode) -> Option<Arc<str>> {
        let text = expect_text(node, "the name of a workflow", &mut self.diagnostics)?.text.trim();
        if expr::is_expression(text) || text.starts_with('[') {
            let hint = "write a literal name; a `switch` can choose between workflows";
            self.error(codes::NOT_SUPPORTED, node.span, "a computed workflow name is not supported", hint);
            return None;
        }
        let last = || text.rsplit('/').next().unwrap_or_default();
        let name = if self.options.registered.has_definition(text) { text } else { last() };
        if name.is_empty() {
            self.error(
                codes::BAD_VALUE,
                node.span,
                "the name of a workflow is empty",
                "give the name of its definition",
            );
            return None;
        }
        Some(name.into())
    }
}

/// Returns a run's input, which is an object: a missing or null input becomes an empty one.
pub(crate) fn call_input(input: Option<&SyntaxNode>, span: Span) -> SyntaxNode {
    let Some(node) = input else { return SyntaxNode::object(span, []) };
    match &node.kind {
        SyntaxNodeKind::Null => SyntaxNode::object(node.span, []),
        SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
            SyntaxNode::new(node.span, SyntaxNodeKind::Str(text.wrap("@coalesce(", 1, ", json('{}'))")))
        }
        _ => node.clone(),
    }
}
