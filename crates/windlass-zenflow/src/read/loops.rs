//! Reads `loop`: over a list, or repeated until a condition is met.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, to_value};

use super::DocumentReader;
use crate::codes;
use crate::document::{ForEachItems, LoopMode, OutputMode, Spanned, ZenflowLoop, ZenflowStep};

const OUTPUT_MODES: [(&str, OutputMode); 3] =
    [("last", OutputMode::Last), ("cumulative", OutputMode::Cumulative), ("", OutputMode::Last)];

impl DocumentReader<'_> {
    pub(crate) fn repeat(&mut self, key: &SpannedKey, node: &SyntaxNode) -> Option<ZenflowLoop> {
        let mut object = self.object(node, "`loop`")?;
        let concurrency = object.take("maxConcurrency");
        let concurrency = concurrency.and_then(|node| self.count(node, "maxConcurrency", 0, codes::VALIDATION));
        let mode = match object.take_entry("forEach") {
            Some((for_each, items)) => {
                self.check_for_each_keys(for_each, &object);
                object.ignore(&codes::FOREACH_WITH.map(|(name, _)| name));
                self.items(items).map(|items| LoopMode::ForEach { items, max_concurrency: concurrency })
            }
            None => Some(self.repeat_mode(key, &mut object, concurrency)),
        };
        let output_mode = object.take("outputMode");
        let output_mode =
            output_mode.and_then(|node| self.one_of(node, "outputMode", &OUTPUT_MODES, codes::LOOP_VALIDATION));
        let steps = object.take_entry("steps").map(|(key, node)| self.inner_steps(key, node)).unwrap_or_default();
        let (budget, max_unjudged) =
            object.take("x-windlass").map(|node| self.loop_extensions(node)).unwrap_or_default();
        object.finish(codes::UNKNOWN_KEY, "`loop`", &mut self.found);
        // The placeholder for an unreadable list is never used, because there is an error.
        let nothing = || LoopMode::ForEach {
            items: ForEachItems::Literal(Spanned::new(windlass_value::Value::Null, node.span)),
            max_concurrency: None,
        };
        let mode = mode.unwrap_or_else(nothing);
        if let Some(max) = max_unjudged.filter(|_| !has_judge(&mode)) {
            let message = "`maxUnjudged` has no effect: the loop has no judge";
            self.warning(codes::NO_EFFECT, max.span, message, "add `untilAgent`, or remove it");
        }
        Some(ZenflowLoop { span: node.span, mode, output_mode, steps, budget, max_unjudged })
    }

    fn check_for_each_keys(&mut self, for_each: &SpannedKey, object: &ObjectReader) {
        for (name, code) in codes::FOREACH_WITH {
            if let Some((key, _)) = object.peek(name) {
                let message = format!("a loop with `forEach` cannot have `{name}`");
                let hint = match name {
                    "maxIterations" => "the length of the list sets the number of iterations: remove it",
                    "delay" => "only loops without `forEach` wait between their iterations: remove it",
                    _ => "`forEach` processes the whole list; to stop early, use `maxIterations` without `forEach`",
                };
                let problem = Diagnostic::error(code, key.span, message).with_label(for_each.span, "the list");
                self.found.push(problem.with_hint(hint));
            }
        }
    }

    fn items(&mut self, node: &SyntaxNode) -> Option<ForEachItems> {
        match &node.kind {
            SyntaxNodeKind::Str(_) => self.cel(node, "forEach").map(ForEachItems::Cel),
            SyntaxNodeKind::List(items) if items.is_empty() => {
                let hint = "write at least one item, or an expression that gives a list";
                self.error(codes::FOREACH_EMPTY, node.span, "the list of `forEach` is empty", hint);
                None
            }
            SyntaxNodeKind::List(_) => Some(ForEachItems::Literal(Spanned::new(to_value(node), node.span))),
            _ => {
                let hint = "such as [one, two] or \"steps.list.result.items\"";
                self.wrong_type(node, "forEach", "a list, or an expression that gives one", hint);
                None
            }
        }
    }

    fn repeat_mode(
        &mut self,
        key: &SpannedKey,
        object: &mut ObjectReader,
        concurrency: Option<Spanned<u64>>,
    ) -> LoopMode {
        let max_iterations =
            match object.take("maxIterations").filter(|node| !matches!(node.kind, SyntaxNodeKind::Null)) {
                Some(node) => self.count(node, "maxIterations", 1, codes::NEGATIVE_VALUE),
                None => {
                    let message = "a loop without `forEach` needs `maxIterations`, or it might never end";
                    let hint = "add `maxIterations: 10`, or `forEach` with a list";
                    self.error(codes::LOOP_MISSING_MAX_ITERATIONS, key.span, message, hint);
                    None
                }
            };
        if let Some(concurrency) = concurrency.filter(|concurrency| concurrency.value > 1) {
            let message = "`maxConcurrency` has no effect without `forEach`: iterations run one after the other";
            self.warning(codes::NO_EFFECT, concurrency.span, message, "remove it");
        }
        LoopMode::Repeat {
            max_iterations: max_iterations.unwrap_or_else(|| Spanned::new(1, Span::at(key.span.start))),
            until: object.take("until").and_then(|node| self.cel(node, "until")),
            until_agent: object.take("untilAgent").and_then(|node| self.non_empty_text(node, "untilAgent")),
            delay: object.take("delay").and_then(|node| self.duration(node, "delay")),
        }
    }

    fn inner_steps(&mut self, key: &SpannedKey, node: &SyntaxNode) -> Vec<ZenflowStep> {
        match &node.kind {
            SyntaxNodeKind::List(items) if items.is_empty() => {
                let hint = "write at least one step, or omit `steps` to repeat the step itself";
                self.error(codes::LOOP_VALIDATION, node.span, "the `steps` of the loop are empty", hint);
                Vec::new()
            }
            SyntaxNodeKind::List(items) => {
                self.check_step_count(key, items.len());
                items
                    .iter()
                    .take(self.options.limits.max_steps_zenflow)
                    .filter_map(|item| self.step(item, true))
                    .collect()
            }
            _ => {
                self.wrong_type(node, "steps", "a list of steps", "write each as `- id: …`");
                Vec::new()
            }
        }
    }
}

fn has_judge(mode: &LoopMode) -> bool {
    matches!(mode, LoopMode::Repeat { until_agent: Some(_), .. })
}
