//! The `http` action.

use windlass_core::plan::{Action, Effect, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_text, format_names};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr;
use crate::retry;

const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];

/// Authentication types that the tool supports, followed by those that only Azure has.
const LOGINS: &[&str] = &["Basic", "Raw"];
const OTHER_LOGINS: &[&str] = &["ActiveDirectoryOAuth", "ClientCertificate", "ManagedServiceIdentity"];

impl LoomCompiler<'_> {
    pub(crate) fn http(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let scope = current.position.scope;
        let mut entries = Vec::new();
        let method = current.fields.take("method", &mut self.diagnostics);
        let start = Span::at(current.fields.span().start);
        entries.push((
            "method",
            method.and_then(|node| self.method(node)).unwrap_or_else(|| SyntaxNode::text("GET", start)),
        ));
        match current.fields.take_any(&["uri", "url"], &mut self.diagnostics) {
            Some((_, node)) => entries.push(("uri", self.uri(node))),
            None => current.fields.missing("uri", &mut self.diagnostics),
        }
        for name in ["headers", "queries", "body", "cookie"] {
            if let Some(node) = current.fields.take(name, &mut self.diagnostics) {
                entries.push((name, node.clone()));
            }
        }
        if let Some(node) = current.fields.take("authentication", &mut self.diagnostics)
            && self.logs_in(node)
        {
            entries.push(("authentication", node.clone()));
        }
        if current.common.has_option("DisableAsyncPattern") {
            entries.push(("async", SyntaxNode::new(start, SyntaxNodeKind::Bool(false))));
        }
        if current.common.pagination.is_some() {
            entries.push(("pages", SyntaxNode::new(start, SyntaxNodeKind::Bool(true))));
        }
        self.effect_retry(current);
        if self.azure && current.common.retry.is_none() && !current.common.retry_given {
            current.common.retry = Some(retry::azure_default());
        }
        let input = self.value(&SyntaxNode::object(current.fields.span(), entries), scope);
        let at = Span::new(start.start, start.start + 1);
        self.check_tool("http", at)?;
        if let Some((_, policy)) = current.common.pagination {
            return self.pages(current, policy, input);
        }
        Some(NodeKind::single_task(Action::Effect(Effect::new("http", input))))
    }

    /// Reads the retry policy of an effect. Loom's `retry` was read already; `retryPolicy` is Azure's. Either replaces
    /// the default, also as `none`.
    pub(crate) fn effect_retry(&mut self, current: &mut CurrentAction) {
        let policy = current.fields.take_entry("retryPolicy", &mut self.diagnostics);
        let Some((key, node)) = policy else { return };
        if let Some((other, _)) = current.fields.action().peek("retry") {
            let problem = Diagnostic::error(codes::CONFLICT, key.span, "`retryPolicy` and `retry` exclude each other");
            self.push(problem.with_label(other.span, "the other").with_hint("keep one of the two"));
            return;
        }
        current.common.retry_given = true;
        current.common.retry = self.azure_retry(node, current.position.scope);
    }

    /// Converts a literal method to upper case; an empty one, as in templates, is the default.
    fn method(&mut self, node: &SyntaxNode) -> Option<SyntaxNode> {
        let text = expect_text(node, "`method`", &mut self.diagnostics)?.text.trim();
        if expr::is_expression(text) {
            return Some(node.clone());
        }
        if !text.is_empty() && !METHODS.iter().any(|known| known.eq_ignore_ascii_case(text)) {
            let hint = did_you_mean(text, METHODS.iter().copied());
            let all = || format!("methods: {}", format_names(METHODS.iter().copied()));
            self.error(codes::BAD_VALUE, node.span, format!("there is no method `{text}`"), hint.unwrap_or_else(all));
        }
        let method = if text.is_empty() { "GET".to_owned() } else { text.to_uppercase() };
        Some(SyntaxNode::text(method, node.span))
    }

    /// Checks a literal URI, which must be complete: nothing is added to it.
    fn uri(&mut self, node: &SyntaxNode) -> SyntaxNode {
        let Some(text) = expect_text(node, "`uri`", &mut self.diagnostics) else { return node.clone() };
        let text = text.text.trim();
        if text.is_empty() {
            let message = "the `uri` is empty: the call will fail";
            self.warning(codes::NO_EFFECT, node.span, message, "fill it in before running");
        } else if !expr::is_expression(text) && !has_scheme(text) {
            let message = format!("the `uri` {text:?} begins with neither http:// nor https://");
            self.error(codes::BAD_VALUE, node.span, message, "did you forget http://?");
        }
        node.clone()
    }

    /// Reports whether the request authenticates. A computed type is left to the tool.
    fn logs_in(&mut self, node: &SyntaxNode) -> bool {
        let Some(kind) = node.get("type") else { return true };
        let Some(text) = expect_text(kind, "`type`", &mut self.diagnostics).map(|text| text.text.trim()) else {
            return false;
        };
        let is = |known: &&&str| known.eq_ignore_ascii_case(text);
        if expr::is_expression(text) || LOGINS.iter().any(|known| is(&known)) {
            return true;
        }
        if text.eq_ignore_ascii_case("none") {
            return false;
        }
        if OTHER_LOGINS.iter().any(|known| is(&known)) {
            let message = format!("the authentication type `{text}` is not supported");
            let hint =
                "supported: `Basic`, `Raw`; a token may come from another action: {\"type\": \"Raw\", \"value\"}";
            self.error(codes::NOT_SUPPORTED, kind.span, message, hint);
            return false;
        }
        let all = || LOGINS.iter().chain(OTHER_LOGINS).copied().chain(["None"]);
        let hint = did_you_mean(text, all()).unwrap_or_else(|| format!("types: {}", format_names(all())));
        self.error(codes::BAD_VALUE, kind.span, format!("there is no authentication type `{text}`"), hint);
        false
    }
}

fn has_scheme(uri: &str) -> bool {
    let begins = |scheme: &str| uri.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}
