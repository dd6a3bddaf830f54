//! Checks expressions and determines the names that each can use.

use std::collections::HashSet;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::Diagnostic;
use windlass_value::ExpressionMode;

use super::DependencyGraph;
use crate::codes;
use crate::document::{CelSource, ForEachItems, LoopMode, WorkflowDocument, ZenflowStep};
use crate::expr::{self, CelReference};
use crate::read::DocumentReader;

/// The name under which expressions see the inputs of a run.
const INPUTS: &str = "inputs";

/// The context of an expression.
struct ExpressionContext<'p> {
    /// All steps whose names are in scope, inner ones first.
    known: &'p [&'p str],
    /// The steps that have certainly ended.
    ended: HashSet<&'p str>,
    /// The steps that cannot have ended: the step itself and those after it.
    later: HashSet<&'p str>,
    /// The step that the expression belongs to. Hints suggest to add a dependency to it.
    step: &'p str,
    enclosing_loop: Option<&'p str>,
    binds: Vec<&'static str>,
    /// The inputs of the run.
    inputs: &'p [&'p str],
    mode: ExpressionMode,
}

impl DocumentReader<'_> {
    pub(crate) fn expressions(&mut self, document: &mut WorkflowDocument) {
        let declared: Vec<&str> = document.extensions.inputs.iter().map(|(name, _)| name.value.as_str()).collect();
        let inputs: &[&'static str] = if declared.is_empty() { &[] } else { &[INPUTS] };
        let mut labels = std::mem::take(&mut document.extensions.labels);
        for cel in labels.iter_mut().filter_map(|(_, value)| value.as_cel_mut()) {
            let context = ExpressionContext {
                known: &[],
                ended: HashSet::new(),
                later: HashSet::new(),
                step: "",
                enclosing_loop: None,
                binds: inputs.to_vec(),
                inputs: &declared,
                mode: ExpressionMode::Value,
            };
            self.expression(cel, &context);
        }
        // The steps are taken out, because their expressions are changed while the other steps are read.
        let mut steps = std::mem::take(&mut document.steps);
        let bare_steps = outline(&steps);
        let graph = DependencyGraph::new(&bare_steps);
        let ids: Vec<&str> = graph.ids().collect();
        for step in &mut steps {
            let id = step.id.value.clone();
            let ended: HashSet<&str> = graph.ancestors(&id).into_iter().collect();
            let context = |mode| ExpressionContext {
                known: &ids,
                ended: ended.clone(),
                later: graph.with_dependents(&id),
                step: &id,
                enclosing_loop: None,
                binds: inputs.to_vec(),
                inputs: &declared,
                mode,
            };
            for (cel, mode) in own_expressions(step) {
                self.expression(cel, &context(mode));
            }
            let Some(repeat) = &mut step.repeat else { continue };
            let siblings = self::outline(&repeat.steps);
            let inner = DependencyGraph::new(&siblings);
            let known: Vec<&str> = inner.ids().chain(ids.iter().copied()).collect();
            let single = repeat.steps.is_empty();
            let repeats = match &mut repeat.mode {
                LoopMode::ForEach { items, .. } => {
                    if let ForEachItems::Cel(cel) = items {
                        self.expression(cel, &context(ExpressionMode::Value));
                    }
                    false
                }
                LoopMode::Repeat { until, .. } => {
                    if let Some(cel) = until {
                        let own: &[&'static str] =
                            if single { &["iteration", "content", "result", "status", "stop"] } else { &["iteration"] };
                        let context = ExpressionContext {
                            known: &known,
                            ended: ended.iter().copied().chain(inner.ids()).collect(),
                            later: graph.with_dependents(&id),
                            step: &id,
                            enclosing_loop: Some(&id),
                            binds: [own, inputs].concat(),
                            inputs: &declared,
                            mode: ExpressionMode::LoopCondition,
                        };
                        self.expression(cel, &context);
                    }
                    true
                }
            };
            let iteration_names: &[&'static str] =
                if repeats { &["iteration"] } else { &["item", "index", "iteration"] };
            for step in &mut repeat.steps {
                let own = &*step.id.value.clone();
                let (before, after) = (inner.ancestors(own), inner.with_dependents(own));
                // In a repeat loop, the name of a later step means its result of the previous iteration.
                let previous = after.iter().copied().filter(|_| repeats);
                let ended: HashSet<&str> = ended.iter().copied().chain(before).chain(previous).collect();
                for (cel, mode) in own_expressions(step) {
                    let context = ExpressionContext {
                        known: &known,
                        ended: ended.clone(),
                        later: after.clone(),
                        step: own,
                        enclosing_loop: Some(&id),
                        binds: [iteration_names, inputs].concat(),
                        inputs: &declared,
                        mode,
                    };
                    self.expression(cel, &context);
                }
            }
        }
        document.steps = steps;
        document.extensions.labels = labels;
    }

    fn expression(&mut self, cel: &mut CelSource, context: &ExpressionContext) {
        cel.enclosing_loop = context.enclosing_loop.map(str::to_owned);
        cel.binds.clone_from(&context.binds);
        // All names are in scope for now, so that suggestions can be found.
        cel.steps = unique(context.known.iter().copied());
        let errors = expr::errors(&cel.source(), context.mode);
        if !errors.is_empty() {
            for error in errors {
                let span = cel.written.span_of(error.range, cel.span);
                let problem = Diagnostic::error(codes::EXPRESSION, span, error.message);
                self.found.push(problem.with_hint(error.hint.unwrap_or_else(|| "check the CEL syntax".to_owned())));
            }
            return;
        }
        let names = expr::referenced_names(&cel.text, context.known);
        let inputs = names.fields.iter().filter(|(of, _)| &**of == INPUTS && context.binds.contains(&INPUTS));
        inputs.for_each(|(_, name)| self.name_of_input(name, cel, context));
        let named = names.steps;
        named.iter().for_each(|found| self.name_of_step(found, cel, context));
        let seen = |id: &&str| context.ended.contains(id) || named.iter().any(|found| *found.id == **id);
        cel.steps = unique(context.known.iter().copied().filter(seen));
    }

    fn name_of_input(&mut self, found: &CelReference, cel: &CelSource, context: &ExpressionContext) {
        if context.inputs.iter().any(|name| **name == *found.id) {
            return;
        }
        let span = cel.written.span_of(found.range.clone(), cel.span);
        let hint = self.suggestion(&found.id, context.inputs.iter().copied());
        self.error(codes::EXPRESSION, span, format!("there is no input `{}`", found.id), hint);
    }

    fn name_of_step(&mut self, found: &CelReference, cel: &CelSource, context: &ExpressionContext) {
        let span = cel.written.span_of(found.range.clone(), cel.span);
        let id = &*found.id;
        if !context.ended.contains(id) {
            let message = format!("the step `{id}` may not have ended when this is evaluated");
            let hint = match context.later.contains(id) {
                true => "this step runs later; use a step that ends before this expression is evaluated".to_owned(),
                false => format!("let `{}` depend on `{id}`, directly or through another step", context.step),
            };
            self.warning(codes::NOT_AN_ANCESTOR, span, message, hint);
        }
        let quoted = cel.text[found.range.clone()].starts_with(['\'', '"']);
        let shorter = |other: &&&str| id.strip_prefix(**other).is_some_and(|rest| rest.starts_with('-'));
        if let Some(shorter) = context.known.iter().find(shorter).filter(|_| !quoted) {
            let message = format!("this is read as the step `{id}`, not as `{shorter}` minus a value");
            let hint = format!("write steps[\"{id}\"], or an id with `_`");
            self.warning(codes::AMBIGUOUS, span, message, hint);
        }
    }
}

/// Returns the expressions of a step itself, without those of its loop.
fn own_expressions(step: &mut ZenflowStep) -> impl Iterator<Item = (&mut CelSource, ExpressionMode)> {
    let input = step.call.as_mut().and_then(|call| call.input.as_cel_mut()).map(|cel| (cel, ExpressionMode::Value));
    step.condition.as_mut().map(|cel| (cel, ExpressionMode::Guard)).into_iter().chain(input)
}

fn unique<'i>(ids: impl Iterator<Item = &'i str>) -> Vec<String> {
    let mut once = HashSet::new();
    ids.filter(|id| !id.is_empty() && once.insert(*id)).map(str::to_owned).collect()
}

/// Copies ids and dependencies only: the rest of the steps is being changed.
fn outline(steps: &[ZenflowStep]) -> Vec<ZenflowStep> {
    let bare = |step: &ZenflowStep| ZenflowStep {
        span: step.span,
        id: step.id.clone(),
        depends_on: step.depends_on.clone(),
        agent: None,
        instructions: None,
        context_files: Vec::new(),
        model: None,
        timeout: None,
        retries: None,
        max_retries: None,
        condition: None,
        include: None,
        repeat: None,
        budget: None,
        call: None,
        accept: Vec::new(),
    };
    steps.iter().map(bare).collect()
}
