//! `fetch.results.page`: the result of the task `page` of the step `fetch`. The results are stored only if a template
//! reads them: during the visit in the step's own scope, and at its end for the other steps.

use windlass_core::plan::{VariableUpdate, WriteOp};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, did_you_mean, format_names};
use windlass_value::{ExpressionMode, Level, Map, Value};

use crate::codes;
use crate::compiler::{NoetlCompiler, TemplatePosition};
use crate::emit::PipelineContext;
use crate::form::{NoetlRule, NoetlTask, RuleAction};
use crate::names::TemplateNameUse;

/// The name inside a step for the results of its tasks.
pub(crate) const RESULTS: &str = "results";

/// Returns the variable that holds the results of a step's tasks; the template language knows it too.
fn variable(step: &str) -> String {
    format!("_results.{step}")
}

fn reads_through(found: &TemplateNameUse, step: &str) -> bool {
    found.name == step && found.path.first().is_some_and(|part| part == RESULTS)
}

impl NoetlCompiler<'_> {
    /// Reports whether a template reads results of the tasks. Outside of its iterations, `results` of a loop is its list.
    pub(crate) fn reads_task_results(&self, step: &str, own: Level) -> bool {
        let inside = |found: &TemplateNameUse| found.context.step.as_deref() == Some(step);
        let here = |found: &TemplateNameUse| own != Level::Iteration || (inside(found) && found.context.in_iteration);
        let by_name = |found: &TemplateNameUse| found.name == RESULTS && inside(found);
        self.uses.iter().any(|found| (reads_through(found, step) || by_name(found)) && here(found))
    }

    pub(crate) fn is_read_elsewhere(&self, step: &str) -> bool {
        let elsewhere = |found: &TemplateNameUse| found.context.step.as_deref() != Some(step);
        let read = self.uses.iter().any(|found| reads_through(found, step) && elsewhere(found));
        read && self.declared_names.labels.contains_key(step)
    }

    /// Stores the result of a task for the rest of this visit.
    pub(crate) fn task_result_write(&mut self, task: &NoetlTask, pipeline: &PipelineContext) -> VariableUpdate {
        let result = match task.select {
            Some(select) => self.plan.expressions[select.0 as usize].source.clone(),
            None => Value::from("{{ outcome.result }}"),
        };
        let mut entry = Map::new();
        entry.insert(task.label.clone(), result);
        let value = self.add_expression(Value::map(entry), ExpressionMode::Value, task.span);
        let write = VariableUpdate::new(pipeline.own, variable(pipeline.step), WriteOp::Merge, Some(value));
        VariableUpdate { ignores_input: true, hidden: true, ..write }
    }

    /// Returns a task at the end of a step that stores the results for other steps.
    pub(crate) fn task_results_task(&mut self, step: &str, span: Span) -> NoetlTask {
        let value = self.synthetic_template("{{ outcome.result }}", ExpressionMode::Value, span);
        let write = VariableUpdate::new(Level::Run, variable(step), WriteOp::Set, Some(value));
        let rule = NoetlRule {
            writes: vec![VariableUpdate { ignores_input: true, hidden: true, ..write }],
            ..NoetlRule::new(None, RuleAction::Continue)
        };
        let task = self.evaluate_task("results", "{{ _results | default({}) }}", span);
        NoetlTask { rules: vec![rule], keeps_previous: true, ..task }
    }

    /// Checks a bare `results`, unless it is a name of the author.
    pub(crate) fn check_task_results(&mut self, found: &TemplateNameUse) {
        let step = found.context.step.as_deref().unwrap_or_default();
        let labels = self.declared_names.labels.get(step).cloned().unwrap_or_default();
        if labels.is_empty() || matches!(found.context.position, TemplatePosition::Guard | TemplatePosition::Arc) {
            return self.check_bare(found, RESULTS);
        }
        let Some(label) = found.path.first().filter(|label| !labels.contains(*label)) else { return };
        let names = || labels.iter().map(String::as_str);
        let hint = did_you_mean(label, names()).unwrap_or_else(|| format!("tasks here: {}", format_names(names())));
        self.error(codes::UNKNOWN_NAME, found.span, format!("this step has no task `{label}`"), hint);
    }
}
