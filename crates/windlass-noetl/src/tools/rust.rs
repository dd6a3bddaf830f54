//! `kind: rust`: a function that the embedding program has registered.

use std::sync::Arc;

use windlass_core::plan::ToolName;
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, expect_text};

use super::TaskInputs;
use super::calls::merged_input;
use crate::compiler::NoetlCompiler;
use crate::form::TaskWork;
use crate::{codes, expr};

impl NoetlCompiler<'_> {
    pub(crate) fn rust(&mut self, inputs: &mut TaskInputs) -> Option<TaskWork> {
        // In a list of tasks, `name` is also the task's own.
        let name = match (inputs.object.take("function"), inputs.object.take("name")) {
            (Some(function), _) => Some(function),
            (None, name) => name,
        };
        let own = self.one_of(inputs, &["input", "args"]).map(|(_, node)| node);
        self.input_timeout(inputs);
        let input = merged_input(inputs, own);
        // The function gets its input unchanged: no secret in it would be opened.
        if crate::keychain::mentions_secret(&input) {
            let hint = "let the function read its own secrets from the program that contains it";
            self.error(codes::SECRET, input.span, "a function in Rust gets no secrets of the keychain", hint);
            return None;
        }
        let input = self.child_input(&input);
        let Some(node) = name else {
            self.missing_input("rust", "name", inputs.span);
            return None;
        };
        let name = expect_text(node, "`name`", &mut self.diagnostics)?.text.trim();
        let tool = match expr::is_template(name) {
            true => {
                let computed = self.value(node);
                self.computed_function(name, node.span, computed)?
            }
            false => {
                self.check_function(name, node.span)?;
                name.into()
            }
        };
        Some(TaskWork::Effect { tool, input })
    }

    fn check_function(&mut self, name: &str, span: Span) -> Option<()> {
        let registered = &self.options.registered;
        if registered.has_function(name) {
            return Some(());
        }
        let (message, hint) = registered.missing_function_message(name);
        self.error(codes::UNKNOWN_TOOL, span, message, hint);
        None
    }

    /// Compiles a computed name, which can reach the functions and nothing else.
    fn computed_function(&mut self, name: &str, span: Span, computed: windlass_core::plan::ExprId) -> Option<ToolName> {
        let functions = &self.options.registered.functions;
        if functions.is_empty() {
            return self.check_function(name, span).map(|()| name.into());
        }
        let among = functions.iter().map(|name| Arc::from(name.as_str())).collect();
        Some(ToolName::Computed { computed, among })
    }
}
