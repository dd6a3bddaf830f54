//! The results of a step's tasks by their labels: `fetch.results.page`, and `results.page` inside the step. The compiler
//! stores them in an internal variable if a template reads them.

use std::sync::Arc;

use windlass_value::{EvalError, EvalScope, Level, Meter, Value};

use super::outcome;
use crate::wdl::values::WdlContext;

/// The internal variable: this, and the name of the step.
const PREFIX: &str = "_results.";

pub(super) fn is_task_results(variable: &str) -> bool {
    variable.starts_with(PREFIX)
}

/// Returns the name of the step whose task this is.
pub(super) fn current_step(scope: &dyn EvalScope) -> Option<Arc<str>> {
    match scope.local("_step")? {
        Value::Str(name) => Some(name),
        _ => None,
    }
}

/// Returns the latest result of the step whose task this is: in a rule, that of the task that has ended.
pub(super) fn own_result(name: &str, scope: &dyn EvalScope) -> Option<Value> {
    (*current_step(scope)? == *name).then(|| scope.local("_own")).flatten()
}

/// Returns the results of a step's tasks: inside the step those of this visit, afterwards those of the last visit, if
/// it succeeded. In a rule, the task that has ended is one of them.
pub(super) fn task_results(step: &str, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Option<Value>, EvalError> {
    let name = format!("{PREFIX}{step}");
    let variable = |level: Level| scope.variable(level, &name);
    let stored = variable(Level::Iteration).or_else(|| variable(Level::Step));
    if let Some((label, result)) = ended_task(step, scope) {
        let before = stored.map(|stored| WdlContext::new(scope, meter).content(stored)).transpose()?;
        let mut all = before.as_ref().and_then(Value::as_map).cloned().unwrap_or_default();
        all.insert(label, result);
        return Ok(Some(Value::map(all)));
    }
    let succeeded = || scope.node(step).is_none_or(|node| node.status == "succeeded");
    Ok(stored.or_else(|| variable(Level::Run).filter(|_| succeeded())))
}

/// Returns the label and the result of the task that has ended, in a rule of this step.
fn ended_task(step: &str, scope: &dyn EvalScope) -> Option<(Arc<str>, Value)> {
    let result = outcome::result(scope).filter(|_| current_step(scope).is_some_and(|own| *own == *step))?;
    match scope.local("_task")? {
        Value::Str(label) => Some((label, result)),
        _ => None,
    }
}
