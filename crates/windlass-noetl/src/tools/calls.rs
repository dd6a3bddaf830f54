//! `kind: playbook`: a child run.

use windlass_syntax::{Kind, Node, expect_text};

use super::Inputs;
use super::http::text;
use crate::compiler::Compiler;
use crate::form::Work;
use crate::tasks::overlaid;
use crate::{codes, expr};

impl Compiler<'_> {
    pub fn playbook_call(&mut self, inputs: &mut Inputs) -> Option<Work> {
        let path = self.one_of(inputs, &["path", "name", "playbook"]);
        let own = self.one_of(inputs, &["input", "payload", "args", "workload"]).map(|(_, node)| node);
        self.input_timeout(inputs);
        for (name, hint) in [
            ("return_step", "the child's output is that of its last step"),
            ("version", "the file that is found when this one is compiled is pinned"),
            ("poll_interval", "the end of the child is told, not asked for"),
        ] {
            if let Some((key, _)) = inputs.object.take_entry(name) {
                self.no_effect(key.span, format!("`{name}` has no effect"), hint);
            }
        }
        let input = match (inputs.given, own) {
            (Some(given), Some(own)) => overlaid(given, own),
            (given, own) => own.or(given).cloned().unwrap_or_else(|| Node::object(inputs.span, [])),
        };
        let input = match input.kind {
            Kind::Null => Node::object(input.span, []),
            _ => input,
        };
        let input = self.value(&input);
        let Some((_, node)) = path else {
            self.missing_input("playbook", "path", inputs.span);
            return None;
        };
        let name = expect_text(node, "`path`", &mut self.diagnostics)?.text.trim();
        if expr::is_template(name) {
            let hint = "write the path down; arcs can choose between steps that call different ones";
            self.error(codes::NOT_SUPPORTED, node.span, "a computed playbook is not supported", hint);
            return None;
        }
        if name.is_empty() {
            self.error(codes::BAD_VALUE, node.span, "the path of the playbook is empty", "give the path of its file");
            return None;
        }
        if !self.calls.iter().any(|(called, _)| called == name) {
            self.calls.push((name.to_owned(), node.span));
        }
        let definition = text(name, node.span);
        let definition = self.value(&definition);
        Some(Work::Call { definition, input })
    }
}
