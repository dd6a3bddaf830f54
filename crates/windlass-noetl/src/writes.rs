//! Writes: the variable, its level and the operation, all decided at compile time.

use windlass_core::plan::{VariableUpdate, WriteOp};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, did_you_mean};
use windlass_value::{ExpressionMode, Level};

use crate::codes;
use crate::compiler::NoetlCompiler;

/// The reducers of `set_shared`, which combine a value with the existing one.
const REDUCERS: [(&str, WriteOp); 8] = [
    ("append", WriteOp::AppendItem),
    ("extend", WriteOp::Extend),
    ("sum", WriteOp::Add),
    ("max", WriteOp::Max),
    ("min", WriteOp::Min),
    ("merge", WriteOp::Merge),
    ("last", WriteOp::Set),
    ("set", WriteOp::Set),
];

impl NoetlCompiler<'_> {
    /// Reads `set_iter`, `set_vars`, `set_ctx`, `set_shared` of one entry.
    pub(crate) fn eval_writes(&mut self, entry: &mut ObjectReader) -> Vec<VariableUpdate> {
        let mut writes = Vec::new();
        for name in ["set_iter", "set_vars", "set_ctx", "set_shared"] {
            let Some((key, node)) = entry.take_entry(name) else { continue };
            let Some(object) = ObjectReader::read(node, &format!("`{name}`"), &mut self.diagnostics) else { continue };
            for (inner, value) in object.unread_entries() {
                writes.extend(self.eval_write(name, key, inner, value));
            }
        }
        writes
    }

    fn eval_write(
        &mut self,
        set: &str,
        set_key: &SpannedKey,
        key: &SpannedKey,
        value: &SyntaxNode,
    ) -> Option<VariableUpdate> {
        match set {
            "set_iter" => self.iter_write(key, &key.text, value),
            "set_vars" => self.vars_write(key, &key.text, value),
            "set_ctx" => self.ctx_write(set_key.span, &key.text, value),
            _ => self.shared_write(key, value),
        }
    }

    pub(crate) fn iter_write(&mut self, key: &SpannedKey, name: &str, value: &SyntaxNode) -> Option<VariableUpdate> {
        if !self.context.in_iteration {
            let message = format!("`iter.{name}` is written outside of any loop");
            self.error(codes::BAD_VALUE, key.span, message, "give the step a `loop`, or write to `vars` or `ctx`");
            return None;
        }
        if self.context.iterator.as_deref() == Some(name) || name == "index" {
            let message = format!("`iter.{name}` is set by the loop and cannot be written");
            self.error(codes::BAD_VALUE, key.span, message, "choose another name");
            return None;
        }
        self.check_iteration_scope(key, "iter", name)?;
        Some(self.set(Level::Iteration, name, value))
    }

    /// Writes a step's own variable. Concurrent iterations have one each; names of the root's `vars` belong to the run.
    pub(crate) fn vars_write(&mut self, key: &SpannedKey, name: &str, value: &SyntaxNode) -> Option<VariableUpdate> {
        let level = match (self.context.parallel && self.context.in_iteration, self.run_vars.contains(name)) {
            (true, _) => Level::Iteration,
            (false, true) => Level::Run,
            (false, false) => Level::Step,
        };
        if level == Level::Iteration {
            self.check_iteration_scope(key, "vars", name)?;
        }
        Some(self.set(level, name, value))
    }

    /// Checks that a variable of a concurrent iteration has one meaning: `vars.x` is the iteration's there, as `iter.x`
    /// and the item are.
    fn check_iteration_scope(&mut self, key: &SpannedKey, scope: &'static str, name: &str) -> Option<()> {
        if !self.context.parallel {
            return Some(());
        }
        let step = self.context.step.as_deref().unwrap_or_default().to_owned();
        let first = *self.declared_names.iteration_scopes.entry((step, name.to_owned())).or_insert(scope);
        let other = match self.context.iterator.as_deref() == Some(name) {
            true => "iter",
            false => first,
        };
        if other == scope {
            return Some(());
        }
        let message = format!("in a parallel loop `{scope}.{name}` and `{other}.{name}` are the same variable");
        self.error(codes::CONFLICT, key.span, message, "each iteration has its own `vars`: give one another name");
        None
    }

    pub(crate) fn ctx_write(&mut self, span: Span, name: &str, value: &SyntaxNode) -> Option<VariableUpdate> {
        if self.context.parallel && self.context.in_iteration {
            let message = format!("concurrent iterations would overwrite each other's `ctx.{name}`");
            let hint = format!(
                "write `set_shared: {{ctx.{name}: {{sum: …}}}}` (append, sum, max, min, merge or last), or make the loop sequential"
            );
            self.error(codes::SHARED_WRITE, span, message, hint);
            return None;
        }
        Some(self.set(Level::Run, name, value))
    }

    /// Reads `{total: {sum: "{{ iter.n }}"}}`: the reducer makes the result independent of the order of iterations.
    fn shared_write(&mut self, key: &SpannedKey, node: &SyntaxNode) -> Option<VariableUpdate> {
        let entry = node.as_map().filter(|entries| entries.len() == 1).and_then(|entries| entries.first());
        let found = entry.and_then(|(reducer, value)| {
            let op = REDUCERS.iter().find(|(name, _)| reducer.text.eq_ignore_ascii_case(name));
            op.map(|(_, op)| (*op, value))
        });
        let Some((op, value)) = found else {
            let message = format!("`{}` under `set_shared` needs a reducer", key.text);
            let wrong = entry.map(|(reducer, _)| reducer);
            let close = wrong.and_then(|key| did_you_mean(&key.text, REDUCERS.map(|(name, _)| name)));
            let hint =
                format!("write {{{}: {{sum: \"{{{{ … }}}}\"}}}}: append, sum, max, min, merge or last", key.text);
            let problem = Diagnostic::error(codes::BAD_VALUE, wrong.map_or(node.span, |key| key.span), message);
            self.push(problem.with_hint(close.unwrap_or(hint)));
            return None;
        };
        let (level, name) = match key.text.strip_prefix("ctx.") {
            Some(name) => (Level::Run, name),
            None if self.run_vars.contains(&key.text) => (Level::Run, key.text.as_str()),
            None => (Level::Step, key.text.strip_prefix("vars.").unwrap_or(&key.text)),
        };
        let mut write = self.set(level, name, value);
        write.op = op;
        Some(write)
    }

    /// Reads `set` with scoped keys: `ctx.x`, `iter.x`, `step.x`; a bare name belongs to the pipeline.
    pub(crate) fn scoped_writes(&mut self, node: &SyntaxNode) -> Vec<VariableUpdate> {
        let Some(object) = ObjectReader::read(node, "`set`", &mut self.diagnostics) else { return Vec::new() };
        let mut writes = Vec::new();
        for (key, value) in object.unread_entries() {
            writes.extend(self.scoped_write(key, value));
        }
        writes
    }

    fn scoped_write(&mut self, key: &SpannedKey, value: &SyntaxNode) -> Option<VariableUpdate> {
        let (scope, name) = key.text.split_once('.').unwrap_or(("", &key.text));
        if name.contains('.') {
            let message = format!("`{}` is not a variable: only a scope may precede a dot", key.text);
            self.error(codes::BAD_VALUE, key.span, message, "set the whole object, under one name");
            return None;
        }
        match scope {
            "ctx" => self.ctx_write(key.span, name, value),
            "iter" => self.iter_write(key, name, value),
            "step" | "vars" => self.vars_write(key, name, value),
            "" => Some(self.own_write(name, value)),
            _ => {
                let message = format!("there is no scope `{scope}`");
                let hint = did_you_mean(scope, ["ctx", "iter", "step"])
                    .unwrap_or("write ctx.x for the run, step.x for the step, iter.x for the iteration".to_owned());
                self.error(codes::BAD_VALUE, key.span, message, hint);
                None
            }
        }
    }

    /// Writes a variable of the pipeline: of the iteration in a loop, otherwise of the step.
    pub(crate) fn own_write(&mut self, name: &str, value: &SyntaxNode) -> VariableUpdate {
        let level = self.own_level();
        self.set(level, name, value)
    }

    pub(crate) fn own_level(&self) -> Level {
        if self.context.in_iteration { Level::Iteration } else { Level::Step }
    }

    fn set(&mut self, level: Level, name: &str, value: &SyntaxNode) -> VariableUpdate {
        self.declare(level, name);
        let value = self.expression(value, ExpressionMode::Value);
        VariableUpdate { ignores_input: true, ..VariableUpdate::new(level, name, WriteOp::Set, Some(value)) }
    }

    /// Writes a hidden variable that the compiler itself needs.
    pub(crate) fn hidden_write(
        &mut self,
        level: Level,
        name: &str,
        op: WriteOp,
        value: windlass_core::plan::ExprId,
    ) -> VariableUpdate {
        self.declare(level, name);
        VariableUpdate { ignores_input: true, hidden: true, ..VariableUpdate::new(level, name, op, Some(value)) }
    }

    pub(crate) fn declare(&mut self, level: Level, name: &str) {
        let step = self.context.step.as_deref().unwrap_or_default().to_owned();
        let names = match level {
            Level::Run => &mut self.declared_names.ctx,
            Level::Iteration => self.declared_names.iteration.entry(step).or_default(),
            Level::Step | Level::Any => self.declared_names.step.entry(step).or_default(),
        };
        names.insert(name.to_owned());
    }
}
