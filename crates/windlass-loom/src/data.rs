//! Actions that give a value or touch the world: `compose`, `http`, `activity`.

use windlass_core::plan::{Action, Effect, NodeKind};
use windlass_syntax::{Diagnostic, Key, Kind, Node, Span, did_you_mean, expect_text, list_of};

use crate::actions::Current;
use crate::codes;
use crate::compiler::Compiler;
use crate::expr;
use crate::retry;

const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];

impl Compiler<'_> {
    pub fn compose(&mut self, current: &mut Current) -> Option<NodeKind> {
        let inputs = current.fields.require("inputs", &mut self.diagnostics)?;
        Some(NodeKind::evaluate(self.value(inputs, current.place.scope)))
    }

    pub fn http(&mut self, current: &mut Current) -> Option<NodeKind> {
        let scope = current.place.scope;
        let mut entries = Vec::new();
        let method = current.fields.take("method", &mut self.diagnostics);
        let start = Span::at(current.fields.span().start);
        entries.push(("method", method.and_then(|node| self.method(node)).unwrap_or_else(|| Node::text("GET", start))));
        match current.fields.take_any(&["uri", "url"], &mut self.diagnostics) {
            Some((_, node)) => entries.push(("uri", self.uri(node))),
            None => current.fields.missing("uri", &mut self.diagnostics),
        }
        for name in ["headers", "queries", "body", "cookie", "authentication"] {
            if let Some(node) = current.fields.take(name, &mut self.diagnostics) {
                entries.push((name, node.clone()));
            }
        }
        self.effect_retry(current);
        if self.azure && current.common.retry.is_none() && !current.common.retry_given {
            current.common.retry = Some(retry::azure_default());
        }
        let input = self.value(&Node::object(current.fields.span(), entries), scope);
        let at = Span::new(start.start, start.start + 1);
        self.check_tool("http", at)?;
        Some(NodeKind::lone(Action::Effect(Effect { tool: "http".into(), input })))
    }

    /// `retry` is the seed's and was read already; `retryPolicy` is Azure's. Either, also as `none`, replaces a default.
    fn effect_retry(&mut self, current: &mut Current) {
        let policy = current.fields.take_entry("retryPolicy", &mut self.diagnostics);
        let Some((key, node)) = policy else { return };
        if let Some((other, _)) = current.fields.action().peek("retry") {
            let problem = Diagnostic::error(codes::CONFLICT, key.span, "`retryPolicy` and `retry` exclude each other");
            self.push(problem.label(other.span, "the other").hint("keep one of the two"));
            return;
        }
        current.common.retry_given = true;
        current.common.retry = self.azure_retry(node, current.place.scope);
    }

    /// Literal methods are upper-cased; an empty one, as templates have it, is the default.
    fn method(&mut self, node: &Node) -> Option<Node> {
        let text = expect_text(node, "`method`", &mut self.diagnostics)?.text.trim();
        if expr::is_expression(text) {
            return Some(node.clone());
        }
        if !text.is_empty() && !METHODS.iter().any(|known| known.eq_ignore_ascii_case(text)) {
            let hint = did_you_mean(text, METHODS.iter().copied());
            let all = || format!("methods: {}", list_of(METHODS.iter().copied()));
            self.error(codes::BAD_VALUE, node.span, format!("there is no method `{text}`"), hint.unwrap_or_else(all));
        }
        let method = if text.is_empty() { "GET".to_owned() } else { text.to_uppercase() };
        Some(Node::text(method, node.span))
    }

    fn uri(&mut self, node: &Node) -> Node {
        if let Some(text) = expect_text(node, "`uri`", &mut self.diagnostics)
            && text.text.trim().is_empty()
        {
            let message = "the `uri` is empty: the call will fail";
            self.push(Diagnostic::warning(codes::NO_EFFECT, node.span, message).hint("fill it in before running"));
        }
        node.clone()
    }

    pub fn activity(&mut self, current: &mut Current) -> Option<NodeKind> {
        let name = current.fields.take_any(&["activityName", "activityType"], &mut self.diagnostics);
        let Some((_, node)) = name else {
            current.fields.missing("activityName", &mut self.diagnostics);
            return None;
        };
        self.effect_retry(current);
        let input = self.activity_input(current);
        let input = self.value(&input, current.place.scope);
        let tool = &expect_text(node, "`activityName`", &mut self.diagnostics)?.text;
        if expr::is_expression(tool) {
            let hint = "use a `switch` with one activity for each name";
            self.error(codes::NOT_SUPPORTED, node.span, "a computed `activityName` is not supported yet", hint);
            return None;
        }
        self.check_tool(tool, node.span)?;
        Some(NodeKind::lone(Action::Effect(Effect { tool: tool.as_str().into(), input })))
    }

    /// `input` alone is passed as it is; other inputs are passed on under their names.
    fn activity_input(&mut self, current: &mut Current) -> Node {
        let span = current.fields.span();
        let input = current.fields.take_entry("input", &mut self.diagnostics);
        let Some(inputs) = current.fields.inputs() else {
            return input.map_or(Node::new(Span::at(span.start), Kind::Null), |(_, node)| node.clone());
        };
        let others: Vec<(Key, Node)> = inputs.rest().map(|(key, node)| (key.clone(), node.clone())).collect();
        inputs.take_rest();
        match (input, others.is_empty()) {
            (Some((_, node)), true) => node.clone(),
            (None, true) => Node::new(Span::at(span.start), Kind::Null),
            (input, false) => {
                let input = input.map(|(key, node)| (key.clone(), node.clone()));
                Node::new(span, Kind::Map(input.into_iter().chain(others).collect()))
            }
        }
    }

    fn check_tool(&mut self, tool: &str, span: Span) -> Option<()> {
        if self.options.tools.iter().any(|known| known == tool) {
            return Some(());
        }
        let known = || self.options.tools.iter().map(String::as_str);
        let hint = did_you_mean(tool, known()).unwrap_or_else(|| match known().next() {
            Some(_) => format!("provided: {}", list_of(known())),
            None => "this engine provides no tools".to_owned(),
        });
        let message = format!("nothing provides `{tool}` here");
        self.error(codes::UNKNOWN_TOOL, span, message, hint);
        None
    }
}
