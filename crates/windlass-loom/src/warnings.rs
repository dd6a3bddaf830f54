//! Warnings about definitions that run but are probably not what the author meant.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, format_names};
use windlass_value::{Value, to_json};

use crate::checks::is_iteration_variable;
use crate::codes;
use crate::compiler::{LoomCompiler, LoopCondition};
use crate::expr::{self, ReferenceKind};

impl LoomCompiler<'_> {
    pub(crate) fn warn(&mut self) {
        for condition in std::mem::take(&mut self.conditions) {
            self.warn_fixed_condition(&condition);
        }
        self.warn_parallel_writes();
        let uses = std::mem::take(&mut self.uses);
        self.spread_redaction(&uses);
        self.warn_unused_outputs(&uses);
    }

    /// Warns about a condition that reads only variables, none of which its own loop writes.
    fn warn_fixed_condition(&mut self, condition: &LoopCondition) {
        let references = expr::references(&condition.source).list;
        let changes = |one: &expr::ExprReference| {
            let lower = one.name.to_lowercase();
            let per_iteration = is_iteration_variable(lower.rsplit('_').next().unwrap_or_default());
            one.kind != ReferenceKind::Variable || per_iteration
        };
        if references.is_empty() || references.iter().any(changes) || reads_the_clock(&condition.source) {
            return;
        }
        let reads = |name: &str| references.iter().any(|one| one.name.to_lowercase() == name);
        let inside = |write: &&crate::compiler::VariableWrite| self.scopes.is_within(write.scope, condition.body);
        if self.writes.iter().filter(inside).any(|write| reads(&write.name)) {
            return;
        }
        let names = format_names(references.iter().map(|one| one.name.as_str()));
        let message = format!("nothing in the loop `{}` changes {names}: it will run until a limit", condition.name);
        let hint = "set the variable in the loop, for instance with `setVariable`";
        self.push(Diagnostic::warning(codes::CONDITION_NEVER_CHANGES, condition.span, message).with_hint(hint));
    }

    fn warn_parallel_writes(&mut self) {
        let mut found = Vec::new();
        for write in &self.writes {
            if let Some(frame) = self.scopes.loops(write.scope).find(|frame| frame.parallel) {
                let message = format!("concurrent iterations of `{}` all write `{}`", frame.name, write.written);
                let hint = "add \"operationOptions\": \"Sequential\" to the loop, or use the loop's output instead";
                found.push(Diagnostic::warning(codes::PARALLEL_WRITE, write.span, message).with_hint(hint));
            }
        }
        found.into_iter().for_each(|warning| self.push(warning));
    }
}

/// Reports whether a condition may change without any write.
fn reads_the_clock(source: &Value) -> bool {
    let text = to_json(source).to_lowercase();
    ["utcnow(", "rand(", "guid(", "getfuturetime(", "getpasttime("].iter().any(|name| text.contains(name))
}
