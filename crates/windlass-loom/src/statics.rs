//! Static results: replace the execution of an action, so that a definition can be tested without external services.

use windlass_core::Status;
use windlass_core::plan::{Action, Directive, NodeKind, Pipeline, Task, TaskRule};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, Span, SyntaxNode, did_you_mean, expect_text, format_names, to_value};
use windlass_value::Value;

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;

/// An entry of `staticResults`.
#[derive(Clone)]
pub(crate) struct StaticResult {
    pub name: String,
    pub status: Status,
    pub outputs: Value,
    /// `{code, message}`
    pub error: Value,
    pub span: Span,
}

impl LoomCompiler<'_> {
    pub(crate) fn static_results(&mut self, node: &SyntaxNode) {
        let Some(object) = ObjectReader::read(node, "`staticResults`", &mut self.diagnostics) else { return };
        for (key, node) in object.unread_entries() {
            if let Some(result) = self.read_static_result(&key.text, node) {
                self.static_results.insert(key.text.to_lowercase(), result);
            }
        }
    }

    fn read_static_result(&mut self, name: &str, node: &SyntaxNode) -> Option<StaticResult> {
        let mut object = ObjectReader::read(node, "a static result", &mut self.diagnostics)?;
        let (status, outputs) = (object.take("status"), object.take("outputs"));
        let (error, code) = (object.take("error"), object.take("code"));
        object.finish(codes::UNKNOWN_KEY, "a static result", &mut self.diagnostics);
        let status = match status {
            Some(node) => self.status(node)?,
            None => Status::Succeeded,
        };
        let error = error.and_then(|node| ObjectReader::read(node, "`error`", &mut self.diagnostics));
        let (error_code, message) = error.map_or((None, None), |mut error| {
            let found = (error.take("code"), error.take("message"));
            error.ignore(&["details", "innerError", "target"]);
            error.finish(codes::UNKNOWN_KEY, "`error`", &mut self.diagnostics);
            found
        });
        let mut text = |node: Option<&SyntaxNode>, what: &str| {
            node.and_then(|node| expect_text(node, what, &mut self.diagnostics)).map(|text| text.text.clone())
        };
        let code = text(error_code.or(code), "`code`").unwrap_or_else(|| "ActionFailed".to_owned());
        let message =
            text(message, "`message`").unwrap_or_else(|| format!("the static result `{name}` sets this status"));
        Some(StaticResult {
            name: name.to_owned(),
            status,
            // Azure documents no expressions in static outputs.
            outputs: outputs.map(to_value).unwrap_or_default(),
            error: Value::object([("code", code), ("message", message)]),
            span: node.span,
        })
    }

    /// Returns the static result that an action's `runtimeConfiguration` requests, unless it is disabled.
    pub(crate) fn requested_static_result(&mut self, node: &SyntaxNode) -> Option<StaticResult> {
        let mut object = ObjectReader::read(node, "`staticResult`", &mut self.diagnostics)?;
        let (name, options) = (object.take("name"), object.take("staticResultOptions"));
        object.finish(codes::UNKNOWN_KEY, "`staticResult`", &mut self.diagnostics);
        let enabled = options.map_or(Some(true), |node| self.is_enabled(node))?;
        let Some(name) = name else {
            let hint = "add the `name` of one of the `staticResults`";
            self.error(codes::MISSING_KEY, node.span, "`staticResult` has no `name`", hint);
            return None;
        };
        let text = &expect_text(name, "`name`", &mut self.diagnostics)?.text;
        let found = self.static_results.get(&text.to_lowercase()).cloned();
        if found.is_none() {
            let known = || self.static_results.values().map(|result| result.name.as_str());
            let hint = did_you_mean(text, known()).unwrap_or_else(|| match known().next() {
                Some(_) => format!("static results: {}", format_names(known())),
                None => "add it under `staticResults`, next to `actions`".to_owned(),
            });
            self.error(codes::UNKNOWN_STATIC_RESULT, name.span, format!("there is no static result `{text}`"), hint);
        }
        found.filter(|_| enabled)
    }

    fn is_enabled(&mut self, node: &SyntaxNode) -> Option<bool> {
        let text = &expect_text(node, "`staticResultOptions`", &mut self.diagnostics)?.text;
        match text.to_lowercase().as_str() {
            "enabled" => Some(true),
            "disabled" => Some(false),
            _ => {
                let hint = did_you_mean(text, ["Enabled", "Disabled"]);
                let hint = hint.unwrap_or_else(|| "write \"Enabled\" or \"Disabled\"".to_owned());
                let message = format!("`staticResultOptions` cannot be `{text}`");
                self.error(codes::BAD_VALUE, node.span, message, hint);
                None
            }
        }
    }

    /// Replaces a compiled action by a static result. Not supported for actions that contain others, which would be lost.
    pub(crate) fn replace_with_static_result(
        &mut self,
        current: &CurrentAction,
        result: &StaticResult,
    ) -> Option<NodeKind> {
        if current.kind.holds_actions() {
            let at = Span::new(current.fields.span().start, current.fields.span().start + 1);
            let message = format!("a static result for an action of type `{}` is not supported", current.fields.label);
            self.error(codes::NOT_SUPPORTED, at, message, "give static results to the actions inside it");
            return None;
        }
        // Only generated nodes of this action can follow its node, and the definitions that it calls are not called.
        self.plan.nodes.truncate(current.id.0 as usize + 1);
        self.calls.truncate(current.calls_before);
        if result.status == Status::Skipped {
            self.skipped.insert(current.id);
        }
        let mut task = Task::new(Action::Evaluate(self.constant(result.outputs.clone(), result.span)));
        if !matches!(result.status, Status::Succeeded | Status::Skipped) {
            let error = Some(self.constant(result.error.clone(), result.span));
            let directive = Directive::Fail { status: result.status, error };
            task.rules.push(TaskRule::new(directive));
        }
        Some(NodeKind::Pipeline(Pipeline { tasks: vec![task] }))
    }
}
