//! Extensions of loops: an exit condition after an iteration, a budget, stall detection. Off unless written.

use windlass_core::plan::{Amount, Budget, ExprId, StallCheck};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, SyntaxNode, SyntaxNodeKind, did_you_mean, format_names};
use windlass_value::{ExpressionMode, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr;
use crate::scopes::NameScopeId;

/// Countable budgets: the calls of tools, and the usage that tools report.
const BUDGETS: &[&str] = &[windlass_core::plan::CALLS, "tokens"];

#[derive(Default)]
pub(crate) struct LoopBounds {
    pub break_when: Option<ExprId>,
    pub budget: Vec<Budget>,
    pub stall: Option<StallCheck>,
}

impl LoomCompiler<'_> {
    /// Compiles the bounds. `inner` is the scope of an iteration; a budget is evaluated before the first one.
    pub(crate) fn bounds(&mut self, current: &mut CurrentAction, inner: NameScopeId) -> LoopBounds {
        let mut take = |name| current.fields.take(name, &mut self.diagnostics);
        let (break_when, budget, stall) = (take("breakWhen"), take("budget"), take("stall"));
        LoopBounds {
            break_when: break_when.map(|node| self.expression(node, ExpressionMode::LoopCondition, inner)),
            budget: budget.map(|node| self.budget(node, current.position.scope)).unwrap_or_default(),
            stall: stall.and_then(|node| self.stall(node, inner)),
        }
    }

    fn budget(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Vec<Budget> {
        let Some(object) = ObjectReader::read(node, "`budget`", &mut self.diagnostics) else { return Vec::new() };
        let mut budgets = Vec::new();
        for (key, node) in object.unread_entries() {
            let Some(what) = BUDGETS.iter().find(|known| known.eq_ignore_ascii_case(&key.text)) else {
                let all = || format!("a budget may have: {}", format_names(BUDGETS.iter().copied()));
                let hint = did_you_mean(&key.text, BUDGETS.iter().copied()).unwrap_or_else(all);
                self.error(codes::UNKNOWN_KEY, key.span, format!("unknown key `{}` in `budget`", key.text), hint);
                continue;
            };
            let Some(max) = self.whole_number(node, &format!("`budget.{what}`"), scope) else { continue };
            if max == Amount::Fixed(0) {
                let message = format!("`budget.{what}` cannot be 0");
                self.error(codes::BAD_VALUE, node.span, message, "leave it out for no budget");
            }
            budgets.push(Budget { what: (*what).into(), max });
        }
        budgets
    }

    fn stall(&mut self, node: &SyntaxNode, inner: NameScopeId) -> Option<StallCheck> {
        let mut object = ObjectReader::read(node, "`stall`", &mut self.diagnostics)?;
        let (watch, iterations) = (object.take("watch"), object.take("iterations"));
        object.finish(codes::UNKNOWN_KEY, "`stall`", &mut self.diagnostics);
        for (found, name) in [(watch, "watch"), (iterations, "iterations")] {
            if found.is_none() {
                let hint = "write {\"watch\": \"@outputs('step')\", \"iterations\": 3}";
                self.error(codes::MISSING_KEY, node.span, format!("`stall` has no `{name}`"), hint);
            }
        }
        let iterations = iterations.and_then(|node| self.stall_iterations(node));
        let watch = watch?;
        if watch.as_str().is_some_and(|text| !expr::is_expression(text)) {
            let hint = "watch an expression, such as \"@outputs('step')\"";
            self.error(codes::BAD_VALUE, watch.span, "`watch` never changes", hint);
        }
        Some(StallCheck { watch: self.value(watch, inner), iterations: iterations? })
    }

    fn stall_iterations(&mut self, node: &SyntaxNode) -> Option<u64> {
        match &node.kind {
            SyntaxNodeKind::Number(Value::Int(iterations)) if *iterations > 1 => Some(iterations.unsigned_abs()),
            _ => {
                let message = format!("`iterations` cannot be {}", node.describe());
                self.error(codes::BAD_VALUE, node.span, message, "it is a whole number from 2");
                None
            }
        }
    }
}
