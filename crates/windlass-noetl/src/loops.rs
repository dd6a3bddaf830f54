//! Loops over items in the three spellings, and loops with a condition.

use std::sync::Arc;

use windlass_core::plan::{Amount, IterationFailure, LoopCheck, LoopSource};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_text};
use windlass_value::ExpressionMode;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::expr;
use crate::form::NoetlLoop;
use crate::key_support;
use crate::steps::StepForm;

impl NoetlCompiler<'_> {
    /// Parses a loop. From here on, the step's templates are inside an iteration.
    pub(crate) fn looping(&mut self, node: &SyntaxNode, form: StepForm) -> Option<NoetlLoop> {
        let mut object = ObjectReader::read(node, "`loop`", &mut self.diagnostics)?;
        let looping = match form {
            StepForm::Retry => self.retry_loop(&mut object, node.span),
            StepForm::Eval | StepForm::V10 | StepForm::Plain => self.spec_loop(&mut object, node.span),
        };
        object.finish(codes::UNKNOWN_KEY, "`loop`", &mut self.diagnostics);
        // Set even if the loop is invalid, because the author wrote the step's contents for its iterations.
        (self.context.looped, self.context.in_iteration) = (true, true);
        let named = ["iterator", "element"].iter().find_map(|name| node.get(name)).and_then(SyntaxNode::as_str);
        self.context.iterator = named.map(Into::into);
        let looping = looping?;
        self.context.iterator = looping.item.clone();
        self.context.parallel = !matches!(looping.in_flight, Amount::Fixed(1));
        Some(looping)
    }

    /// Parses `{spec: {mode, max_in_flight}, in, iterator}`.
    fn spec_loop(&mut self, object: &mut ObjectReader, span: Span) -> Option<NoetlLoop> {
        if let Some((key, _)) = object.take_entry("cursor") {
            let hint = "read the rows in an earlier step, and loop over them with `in`";
            self.error(codes::NOT_SUPPORTED, key.span, "cursor loops are not supported", hint);
            object.take_rest();
            return None;
        }
        if let Some(condition) = object.take("while") {
            return self.while_loop(condition, object, IterationFailure::Stop { running_finish: false }, span);
        }
        let (items, iterator) = (object.take("in"), object.take("iterator"));
        let spec = object.take("spec").and_then(|node| ObjectReader::read(node, "`loop.spec`", &mut self.diagnostics));
        let in_flight = match spec {
            Some(mut spec) => {
                let (mode, max) = (spec.take("mode"), spec.take("max_in_flight"));
                key_support::check_keys(self, spec, &key_support::LOOP_SPEC, "the `spec` of a loop");
                self.in_flight(mode, max, &["sequential", "parallel"])
            }
            None => Some(Amount::Fixed(1)),
        };
        let item = match iterator {
            Some(node) => self.item_name(node),
            None => {
                let hint = "add `iterator`: the name under which each iteration sees its item";
                self.error(codes::MISSING_KEY, span, "this loop has no `iterator`", hint);
                None
            }
        };
        let source = self.items(items, "in", span)?;
        let on_iteration_failure = IterationFailure::Stop { running_finish: false };
        Some(self.over_items(source, item?, in_flight?, on_iteration_failure, span))
    }

    /// Parses `{collection, element, mode}`, or `{while}`.
    fn retry_loop(&mut self, object: &mut ObjectReader, span: Span) -> Option<NoetlLoop> {
        if let Some(condition) = object.take("while") {
            return self.while_loop(condition, object, IterationFailure::Count, span);
        }
        let mode = object.take("mode");
        let (items, element) = (object.take_entry("collection"), object.take("element"));
        let max = object.take("max_in_flight");
        let in_flight = match mode {
            Some(_) => self.in_flight(mode, max, &["sequential", "async"]),
            None => Some(Amount::Fixed(1)),
        };
        let item = match element {
            Some(node) => self.item_name(node)?,
            None => "item".into(),
        };
        let source = self.items(items.map(|(_, node)| node), "collection", span)?;
        Some(self.over_items(source, item, in_flight?, IterationFailure::Count, span))
    }

    /// Parses `{while}`, which is evaluated before each iteration. `response` and `result` are those of the previous
    /// iteration.
    fn while_loop(
        &mut self,
        condition: &SyntaxNode,
        object: &mut ObjectReader,
        on_iteration_failure: IterationFailure,
        span: Span,
    ) -> Option<NoetlLoop> {
        for name in ["in", "collection", "iterator", "element"] {
            if let Some((key, _)) = object.take_entry(name) {
                let message = format!("`while` and `{name}` exclude each other");
                self.error(codes::CONFLICT, key.span, message, "keep one of the two");
            }
        }
        let (mut mode, mut max) = (object.take("mode"), object.take("max_iterations"));
        let spec = object.take("spec").and_then(|node| ObjectReader::read(node, "`loop.spec`", &mut self.diagnostics));
        if let Some(mut spec) = spec {
            mode = spec.take("mode").or(mode);
            max = spec.take("max_iterations").or(max);
            key_support::check_keys(self, spec, &key_support::WHILE_SPEC, "the `spec` of a loop with `while`");
        }
        let iterations = max.and_then(|max| self.count(max, "max_iterations", 1));
        if let (Some(Amount::Fixed(iterations)), Some(max)) = (&iterations, max)
            && *iterations > self.limits().max_loop_iterations
        {
            let message = format!("{iterations} iterations; the limit is {}", self.limits().max_loop_iterations);
            let hint = "raise `limits.max_loop_iterations` in windlass.toml if this is intended";
            self.error(codes::OVER_LIMIT, max.span, message, hint);
        }
        if let Some(mode) = mode.filter(|mode| mode.as_str() != Some("sequential")) {
            let hint = "its iterations run sequentially: leave `mode` out";
            self.error(codes::NOT_SUPPORTED, mode.span, "a loop with `while` has only one mode", hint);
        }
        self.context.in_iteration = true;
        let condition = self.expression(condition, ExpressionMode::Condition);
        Some(NoetlLoop {
            kind: "while",
            source: LoopSource::Repeat,
            check: LoopCheck::Before { condition, stop_when: false },
            item: None,
            in_flight: Amount::Fixed(1),
            on_iteration_failure,
            entry: None,
            max_iterations: iterations,
            span,
        })
    }

    fn over_items(
        &mut self,
        source: LoopSource,
        item: Arc<str>,
        in_flight: Amount<u64>,
        on_iteration_failure: IterationFailure,
        span: Span,
    ) -> NoetlLoop {
        let item = Some(item);
        NoetlLoop {
            kind: "loop",
            source,
            check: LoopCheck::Never,
            item,
            in_flight,
            on_iteration_failure,
            entry: None,
            max_iterations: None,
            span,
        }
    }

    fn items(&mut self, node: Option<&SyntaxNode>, name: &str, span: Span) -> Option<LoopSource> {
        let Some(node) = node else {
            let message = format!("this loop has no `{name}`");
            self.error(codes::MISSING_KEY, span, message, format!("add `{name}` with the list to iterate over"));
            return None;
        };
        let fits = match &node.kind {
            SyntaxNodeKind::List(_) => true,
            SyntaxNodeKind::Str(text) => expr::is_template(&text.text),
            _ => false,
        };
        if !fits {
            let message = format!("`{name}` must be a list, found {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "write a list, or a template that gives one");
            return None;
        }
        Some(LoopSource::Each(self.value(node)))
    }

    fn item_name(&mut self, node: &SyntaxNode) -> Option<Arc<str>> {
        let text = expect_text(node, "the item's name", &mut self.diagnostics)?;
        let name = text.text.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
            let message = format!("`{name}` cannot be the name of an item");
            self.error(codes::BAD_VALUE, node.span, message, "letters, digits and _, not a template");
            return None;
        }
        Some(name.into())
    }

    /// Returns the concurrency of the iterations: one, or `max_in_flight`.
    fn in_flight(
        &mut self,
        mode: Option<&SyntaxNode>,
        max: Option<&SyntaxNode>,
        modes: &[&str],
    ) -> Option<Amount<u64>> {
        let word = match mode {
            Some(node) => expect_text(node, "`mode`", &mut self.diagnostics)?.text.trim(),
            None => "sequential",
        };
        let limits = self.limits();
        match word {
            "sequential" => {
                if let Some(max) = max.filter(|max| !is_one(max)) {
                    let message = "`max_in_flight` has no effect in a sequential loop";
                    self.no_effect(
                        max.span,
                        message,
                        format!("write `mode: {}` to run iterations concurrently", modes[1]),
                    );
                }
                Some(Amount::Fixed(1))
            }
            word if word == modes[1] || word == "parallel" || word == "async" => {
                let default = limits.default_loop_concurrency.clamp(1, limits.max_loop_concurrency.max(1));
                let Some(node) = max else { return Some(Amount::Fixed(default)) };
                let amount = self.count(node, "max_in_flight", 1)?;
                if let Amount::Fixed(number) = amount
                    && number > limits.max_loop_concurrency
                {
                    let message =
                        format!("{number} exceeds the maximum concurrency of {}", limits.max_loop_concurrency);
                    let hint = "raise `limits.max_loop_concurrency` in windlass.toml if this is intended";
                    self.error(codes::OVER_LIMIT, node.span, message, hint);
                }
                Some(amount)
            }
            "cursor" => {
                let span = mode.map_or(Span::at(0), |mode| mode.span);
                let hint = "read the rows in an earlier step, and loop over them with `in`";
                self.error(codes::NOT_SUPPORTED, span, "cursor loops are not supported", hint);
                None
            }
            other => {
                let span = mode.map_or(Span::at(0), |mode| mode.span);
                let hint =
                    did_you_mean(other, modes.iter().copied()).unwrap_or_else(|| format!("`{}`", modes.join("` or `")));
                self.push(
                    Diagnostic::error(codes::BAD_VALUE, span, format!("there is no loop mode `{other}`"))
                        .with_hint(hint),
                );
                None
            }
        }
    }
}

fn is_one(node: &SyntaxNode) -> bool {
    matches!(&node.kind, SyntaxNodeKind::Number(number) if number.as_int() == Some(1))
}
