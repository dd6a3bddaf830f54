//! `kind: http`.

use windlass_syntax::{Span, SpannedKey, SpannedText, SyntaxNode, SyntaxNodeKind};

use super::TaskInputs;
use crate::compiler::NoetlCompiler;
use crate::expr;
use crate::form::TaskWork;

/// Inputs that are passed under their own name.
const PASSED: [&str; 5] = ["method", "headers", "params", "verify_ssl", "follow_redirects"];

impl NoetlCompiler<'_> {
    pub(crate) fn http(&mut self, inputs: &mut TaskInputs, span: Span) -> Option<TaskWork> {
        let input = self.http_input(inputs, span)?;
        self.effect("http_call", span, &input)
    }

    /// Builds the request as a tree of templates.
    pub(crate) fn http_input(&mut self, inputs: &mut TaskInputs, span: Span) -> Option<SyntaxNode> {
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = Vec::new();
        match self.one_of(inputs, &["url", "endpoint", "uri"]) {
            Some((key, node)) => entries.push((SpannedKey { text: "url".to_owned(), span: key.span }, node.clone())),
            None => self.missing_input("http", "url", span),
        }
        for name in PASSED {
            if let Some((key, node)) = inputs.object.take_entry(name) {
                entries.push((SpannedKey { text: name.to_owned(), span: key.span }, node.clone()));
            }
        }
        if let Some((key, node)) = self.one_of(inputs, &["json", "data", "payload", "body", "form"]) {
            entries.push((key.clone(), run_numbers_as_text(node)));
        }
        if let Some(auth) = self.auth(inputs) {
            entries.push((SpannedKey { text: "auth".to_owned(), span: auth.span }, auth));
        }
        // Names for the templates of the request; not part of the request itself.
        for name in ["input", "args"] {
            inputs.object.take(name);
        }
        self.input_timeout(inputs);
        (!entries.is_empty()).then(|| SyntaxNode::new(inputs.span, SyntaxNodeKind::Map(entries)))
    }
}

/// Returns a body in which the numbers of the run and its parent are texts: many readers of JSON round such numbers.
fn run_numbers_as_text(node: &SyntaxNode) -> SyntaxNode {
    let kind = match &node.kind {
        SyntaxNodeKind::Map(entries) => {
            SyntaxNodeKind::Map(entries.iter().map(|(key, node)| (key.clone(), run_numbers_as_text(node))).collect())
        }
        SyntaxNodeKind::List(items) => SyntaxNodeKind::List(items.iter().map(run_numbers_as_text).collect()),
        SyntaxNodeKind::Str(source) => {
            let name = expr::single_expression(&source.text).unwrap_or_default();
            return match name {
                "execution_id" => text("{{ execution_id | string }}", node.span),
                "parent_execution_id" => {
                    text("{{ parent_execution_id | string if parent_execution_id else none }}", node.span)
                }
                _ => node.clone(),
            };
        }
        _ => return node.clone(),
    };
    SyntaxNode::new(node.span, kind)
}

/// Creates a text that the author did not write.
pub(super) fn text(text: impl Into<String>, span: Span) -> SyntaxNode {
    SyntaxNode::new(span, SyntaxNodeKind::Str(SpannedText::synthetic(text)))
}
