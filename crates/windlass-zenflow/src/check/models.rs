//! Checks the models of a workflow against those that the caller provides.

use std::collections::{HashMap, HashSet};

use windlass_syntax::{Diagnostic, Diagnostics, Span};

use crate::codes;
use crate::document::{LoopMode, Spanned, WorkflowDocument, ZenflowStep};
use crate::options::ZenflowOptions;

/// Checks every model of one file at its location; a missing one is reported at the first step without a model.
pub(crate) fn check_models(
    document: &WorkflowDocument,
    is_root: bool,
    options: &ZenflowOptions,
    found: &mut Diagnostics,
) {
    // A model for everything comes from the command line and is checked there.
    if options.model.is_some() {
        return;
    }
    let mut uses = Vec::new();
    for step in &document.steps {
        collect_models(step, document, &mut uses);
    }
    if is_root && document.has_coordinator(options) {
        let coordinator = &document.extensions.coordinator;
        let span = coordinator.mode.as_ref().map_or(document.name.span, |mode| mode.span);
        uses.push((coordinator.model.as_ref(), span));
    }
    // Each model is checked once, because the check may read a file.
    let (mut known, mut reported) = (HashMap::new(), HashSet::new());
    for (model, fallback_span) in uses {
        let name = model.map(|model| model.as_str());
        let problem = known.entry(name).or_insert_with(|| options.models.problem(name));
        let Some(problem) = problem.clone() else { continue };
        let span = model.map_or(fallback_span, |model| model.span);
        if !reported.insert(model.map(|_| (span.start, span.end))) {
            continue;
        }
        found.push(match options.strict_files {
            true => Diagnostic::error(codes::MODEL, span, problem.message).with_hint(problem.hint),
            false => {
                let message = format!("{}; `windlass run` rejects this", problem.message);
                Diagnostic::warning(codes::MODEL, span, message).with_hint(problem.hint)
            }
        });
    }
}

type ModelUse<'d> = (Option<&'d Spanned<String>>, Span);

fn collect_models<'d>(step: &'d ZenflowStep, document: &'d WorkflowDocument, uses: &mut Vec<ModelUse<'d>>) {
    // Included files and called definitions are checked separately.
    if step.include.is_some() || step.call.is_some() {
        return;
    }
    let of_agent = |name: &Spanned<String>| document.agent(name).and_then(|agent| agent.model.as_ref());
    match step.inner() {
        [] => uses.push((step.model.as_ref().or_else(|| step.agent.as_ref().and_then(of_agent)), step.id.span)),
        inner => inner.iter().for_each(|inner| collect_models(inner, document, uses)),
    }
    if let Some(LoopMode::Repeat { until_agent: Some(judge), .. }) = step.repeat.as_ref().map(|repeat| &repeat.mode) {
        uses.push((of_agent(judge), judge.span));
    }
}
