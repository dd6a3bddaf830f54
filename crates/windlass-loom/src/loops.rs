//! Loops with a condition: `until`, `while`, `doUntil`, and Azure's `Until`, which is recognised by its `expression`.

use windlass_core::plan::{Amount, ExhaustedPolicy, ExprId, IterationFailure, Loop, LoopCheck, LoopLimits, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, to_value};
use windlass_value::{Duration, ExpressionMode, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::{LoomCompiler, LoopCondition};
use crate::expr;
use crate::graph::StartOrder;
use crate::scopes::{LoomLoop, NameScopeId};
use crate::types::ActionType;

/// The dialect whose rules a loop follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopRules {
    /// `condition`: checked before the first iteration; reaching a limit fails the loop.
    Seed,
    /// `expression` of an `Until`: checked after each iteration; the loop succeeds when it reaches a limit.
    Azure,
}

impl LoomCompiler<'_> {
    pub(crate) fn condition_loop(&mut self, current: &mut CurrentAction, kind: ActionType) -> Option<NodeKind> {
        let outer = current.position.scope;
        let condition = current.fields.take_any(&["condition", "expression"], &mut self.diagnostics);
        match condition {
            None if kind == ActionType::Until => self.report_missing_condition(current),
            None => current.fields.missing("condition", &mut self.diagnostics),
            Some(_) => {}
        }
        let azure =
            kind == ActionType::Until && condition.is_some_and(|(key, _)| key.text.eq_ignore_ascii_case("expression"));
        let rules = if azure { LoopRules::Azure } else { LoopRules::Seed };
        let frame = LoomLoop { name: current.name.clone(), node: current.id, foreach: false, parallel: false };
        let inner = self.scopes.open(outer, frame);
        let order = if azure { StartOrder::Together } else { StartOrder::Written };
        let body = current
            .fields
            .require("actions", &mut self.diagnostics)
            .map(|actions| self.body((format!("{}#body", current.name), "body"), current.id, actions, inner, order));
        let bounds = self.bounds(current, inner);
        let condition = condition.map(|(_, node)| {
            if bounds.break_when.is_none() {
                self.record_condition(current, node, inner);
            }
            self.expression(node, ExpressionMode::LoopCondition, inner)
        });
        let limits = current.fields.take("limit", &mut self.diagnostics);
        let limits = LoopLimits { budget: bounds.budget, ..self.loop_limits(limits, rules, outer) };
        let delay = current.fields.take("delay", &mut self.diagnostics);
        let delay = delay.and_then(|node| self.delay(node, inner));
        let exhausted = self.on_exhausted(current, rules);
        let check = loop_check(kind, rules, condition?);
        Some(NodeKind::Loop(Box::new(Loop {
            kind: current.fields.label.into(),
            check,
            limits,
            on_exhausted: exhausted,
            delay,
            on_iteration_failure: match rules {
                LoopRules::Seed => IterationFailure::Stop { running_finish: false },
                LoopRules::Azure => IterationFailure::LastDecides,
            },
            break_when: bounds.break_when,
            stall: bounds.stall,
            ..Loop::repeat(body?, self.limits())
        })))
    }

    /// Reports a missing condition. The message names both keys, since the choice decides how the loop runs.
    fn report_missing_condition(&mut self, current: &CurrentAction) {
        let start = current.fields.span().start;
        let message =
            "an `Until` needs `expression` (checked after each iteration, as in Azure) or `condition` (checked first)";
        self.error(codes::MISSING_KEY, Span::new(start, start + 1), message, "add one of the two");
    }

    fn record_condition(&mut self, current: &CurrentAction, node: &SyntaxNode, inner: NameScopeId) {
        self.conditions.push(LoopCondition {
            name: current.name.clone(),
            source: to_value(node),
            span: node.span,
            body: inner,
        });
    }

    fn on_exhausted(&mut self, current: &CurrentAction, rules: LoopRules) -> ExhaustedPolicy {
        match rules {
            LoopRules::Azure if !current.common.has_option("FailWhenLimitsReached") => ExhaustedPolicy::Succeed,
            _ => ExhaustedPolicy::Fail,
        }
    }

    fn loop_limits(&mut self, node: Option<&SyntaxNode>, rules: LoopRules, scope: NameScopeId) -> LoopLimits {
        let limits = self.limits();
        let (max_iterations, limit_key) = match rules {
            LoopRules::Seed => (limits.max_loop_iterations, "max_loop_iterations"),
            LoopRules::Azure => (limits.max_loop_iterations_azure, "max_loop_iterations_azure"),
        };
        let (mut iterations, mut time) = (None, None);
        if let Some(node) = node
            && let Some(mut object) = ObjectReader::read(node, "`limit`", &mut self.diagnostics)
        {
            iterations =
                object.take("count").and_then(|count| self.iteration_limit(count, max_iterations, limit_key, scope));
            time = object.take("timeout").and_then(|timeout| self.loop_time(timeout, scope));
            object.finish(codes::UNKNOWN_KEY, "`limit`", &mut self.diagnostics);
        }
        let default = LoopLimits::for_repeats(limits);
        LoopLimits {
            // A maximum that an operator lowers below the default also applies to loops that set no limit.
            iterations: Some(iterations.unwrap_or(Amount::Fixed(limits.default_loop_iterations.min(max_iterations)))),
            time: time.or(default.time.clone()),
            cancels_iterations_on_timeout: rules == LoopRules::Seed,
            max_iterations,
            ..default
        }
    }

    fn iteration_limit(&mut self, node: &SyntaxNode, max: u64, key: &str, scope: NameScopeId) -> Option<Amount<u64>> {
        let count = self.whole_number(node, "`limit.count`", scope)?;
        let Amount::Fixed(iterations) = count else { return Some(count) };
        if iterations == 0 {
            let hint = format!("a loop has 1 to {max} iterations; leave `count` out for the default");
            self.error(codes::BAD_VALUE, node.span, "`limit.count` cannot be 0", hint);
        }
        if iterations > max {
            let message =
                format!("`limit.count` is {iterations}, more than the {max} iterations that the engine allows");
            self.over_limit(node.span, message, key);
        } else if iterations >= max - max / 10 {
            let message = format!("`limit.count` is {iterations}, near the limit of {max} iterations");
            self.warning(codes::NEAR_LIMIT, node.span, message, near_limit_hint(key));
        }
        Some(count)
    }

    fn loop_time(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<Amount<Duration>> {
        let amount = self.duration(node, "`limit.timeout`", scope)?;
        let Amount::Fixed(time) = amount else { return Some(amount) };
        let max = self.limits().max_loop_time;
        if time == Duration::ZERO {
            let hint = "no iteration could run; leave `timeout` out for the default";
            self.error(codes::BAD_VALUE, node.span, "`limit.timeout` cannot be zero", hint);
        }
        if time > max {
            let message = format!("`limit.timeout` is {time}, more than the {max} that the engine allows");
            self.over_limit(node.span, message, "max_loop_time");
        } else if time.0 >= max.0 - max.0 / 10 {
            let message = format!("`limit.timeout` is {time}, near the limit of {max}");
            self.warning(codes::NEAR_LIMIT, node.span, message, near_limit_hint("max_loop_time"));
        }
        Some(amount)
    }

    pub(crate) fn over_limit(&mut self, span: Span, message: String, key: &str) {
        let hint = format!("use a lower value, or let the operator raise `limits.{key}` in windlass.toml");
        self.push(Diagnostic::error(codes::OVER_LIMIT, span, message).with_hint(hint));
    }

    /// Reads an integer from 0, or an expression that evaluates to one.
    pub(crate) fn whole_number(&mut self, node: &SyntaxNode, what: &str, scope: NameScopeId) -> Option<Amount<u64>> {
        match &node.kind {
            SyntaxNodeKind::Number(Value::Int(number)) if *number >= 0 => Some(Amount::Fixed(number.unsigned_abs())),
            SyntaxNodeKind::Number(number) => {
                let message = format!("{what} cannot be {number:?}");
                self.error(codes::BAD_VALUE, node.span, message, "it is a whole number from 1");
                None
            }
            SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
                Some(Amount::Computed(self.value(node, scope)))
            }
            SyntaxNodeKind::Str(text) if text.text.trim().parse::<i64>().is_ok() => {
                let message = format!("{what} must be a number, found {}", node.describe());
                self.error(codes::WRONG_KIND, node.span, message, "write it without the quotes");
                None
            }
            _ => {
                let message = format!("{what} must be a number, found {}", node.describe());
                self.error(codes::WRONG_KIND, node.span, message, "write a whole number or an expression");
                None
            }
        }
    }
}

fn near_limit_hint(key: &str) -> String {
    format!("give the loop a condition that ends it sooner, or let the operator raise `limits.{key}`")
}

fn loop_check(kind: ActionType, rules: LoopRules, condition: ExprId) -> LoopCheck {
    match (kind, rules) {
        (ActionType::While, _) => LoopCheck::Before { condition, stop_when: false },
        (ActionType::DoUntil, _) | (_, LoopRules::Azure) => LoopCheck::After { condition, stop_when: true },
        _ => LoopCheck::Before { condition, stop_when: true },
    }
}
