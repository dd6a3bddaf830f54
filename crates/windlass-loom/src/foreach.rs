//! The loop over items.

use windlass_core::plan::{Amount, IterationFailure, Loop, LoopLimits, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, SyntaxNode, SyntaxNodeKind};

use crate::actions::CurrentAction;
use crate::bounds::LoopBounds;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr;
use crate::graph::StartOrder;
use crate::scopes::LoomLoop;

impl LoomCompiler<'_> {
    pub(crate) fn foreach(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let outer = current.position.scope;
        let items = current.fields.take_any(&["foreach", "items"], &mut self.diagnostics);
        if items.is_none() {
            current.fields.missing("foreach", &mut self.diagnostics);
        }
        let in_flight = self.in_flight(current);
        let parallel = !matches!(in_flight, Amount::Fixed(1));
        let frame = LoomLoop { name: current.name.clone(), node: current.id, foreach: true, parallel };
        let inner = self.scopes.open(outer, frame);
        let actions = current.fields.require("actions", &mut self.diagnostics);
        let body = actions.map(|actions| {
            self.body((format!("{}#body", current.name), "body"), current.id, actions, inner, StartOrder::Together)
        });
        let items = items.map(|(_, node)| {
            self.check_items(node);
            self.value(node, outer)
        });
        let limits = self.limits();
        let LoopBounds { break_when, budget, stall } = self.bounds(current, inner);
        let looping = Loop::each(items?, body?, limits);
        Some(NodeKind::Loop(Box::new(Loop {
            limits: LoopLimits { budget, ..looping.limits },
            max_concurrency: in_flight,
            on_iteration_failure: IterationFailure::FailAtEnd,
            break_when,
            stall,
            ..looping
        })))
    }

    /// Checks literal items: an array that is too long, or a value that can never be an array.
    fn check_items(&mut self, node: &SyntaxNode) {
        match &node.kind {
            SyntaxNodeKind::List(items) => {
                let max = self.limits().max_loop_items;
                if items.len() as u64 > max {
                    let message = format!("the array has {} items, more than the {max} allowed", items.len());
                    self.over_limit(node.span, message, "max_loop_items");
                }
            }
            SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {}
            _ => {
                let message =
                    format!("`foreach` needs an array or an expression that gives one, found {}", node.describe());
                self.error(codes::WRONG_KIND, node.span, message, "such as \"@body('fetch')?['items']\"");
            }
        }
    }

    /// Returns the concurrency of the iterations: concurrent by default, sequential by default inside another foreach.
    fn in_flight(&mut self, current: &CurrentAction) -> Amount<u64> {
        let limits = self.limits();
        let sequential = current.common.has_option("Sequential");
        let Some(node) = current.common.repetitions else {
            let nested = self.scopes.loops(current.position.scope).any(|frame| frame.foreach);
            let default = limits.default_loop_concurrency.clamp(1, limits.max_loop_concurrency_azure.max(1));
            return Amount::Fixed(if sequential || nested { 1 } else { default });
        };
        if sequential {
            let message = "`repetitions` and the option `Sequential` exclude each other";
            self.push(Diagnostic::error(codes::CONFLICT, node.span, message).with_hint("keep one of the two"));
        }
        let amount = self.whole_number(node, "`repetitions`", current.position.scope).unwrap_or(Amount::Fixed(1));
        if let Amount::Fixed(repetitions) = amount {
            self.check_in_flight(node, repetitions);
        }
        amount
    }

    fn check_in_flight(&mut self, node: &SyntaxNode, repetitions: u64) {
        let max = self.limits().max_loop_concurrency_azure;
        if repetitions == 0 {
            self.error(codes::BAD_VALUE, node.span, "`repetitions` cannot be 0", format!("it is 1 to {max}"));
        }
        if repetitions > max {
            let message = format!(
                "`repetitions` is {repetitions}, more than the maximum concurrency of {max} that the engine allows"
            );
            self.over_limit(node.span, message, "max_loop_concurrency_azure");
        }
    }
}
