//! `variables('name')`: resolved in the iteration of the innermost loop, in enclosing loops by `<loop>_…`, in the
//! declared variables, and finally in the run's input.

use std::sync::Arc;

use windlass_value::{EvalError, EvalErrorKind, IterationView, Level, Value};

use super::path::{format_names, property};
use super::values::{WdlContext, WdlResult};

/// The fields of a loop iteration that can be read as variables.
#[derive(Clone, Copy)]
enum IterationField {
    Index,
    Count,
    Result,
    StartTime,
    ElapsedMs,
    Item,
}

const ITERATION_FIELDS: &[(&str, IterationField)] = &[
    ("loopindex", IterationField::Index),
    ("loopcount", IterationField::Count),
    ("loopresult", IterationField::Result),
    ("loopstarttime", IterationField::StartTime),
    ("loopelapsedms", IterationField::ElapsedMs),
    ("item", IterationField::Item),
];

/// A variable name, prepared once for all reads.
pub(crate) struct VariableName {
    written: Arc<str>,
    lower: Arc<str>,
    field: Option<IterationField>,
    /// `<loop>_<field>`: a field of an enclosing loop, if such a loop exists.
    outer: Option<(Box<str>, IterationField)>,
}

impl VariableName {
    pub(crate) fn new(written: &str) -> VariableName {
        let lower = written.to_lowercase();
        let field_of = |name: &str| ITERATION_FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field);
        let outer = lower.rsplit_once('_').and_then(|(loop_name, field)| Some((loop_name.into(), field_of(field)?)));
        VariableName { written: written.into(), field: field_of(&lower), outer, lower: lower.into() }
    }
}

fn read_iteration(context: &WdlContext, iteration: IterationView, field: IterationField) -> Value {
    match field {
        IterationField::Index => Value::from(iteration.iteration_index),
        IterationField::Count => Value::from(iteration.iteration_index.saturating_add(1)),
        IterationField::Result => iteration.previous,
        IterationField::StartTime => Value::Int(iteration.loop_started_at.as_ms()),
        IterationField::ElapsedMs => Value::from(context.scope.now().since(iteration.loop_started_at).as_ms()),
        IterationField::Item => iteration.item,
    }
}

pub(crate) fn read_variable(context: &mut WdlContext, name: &VariableName) -> WdlResult {
    // A loop without items has a null item: it shadows nothing, but is better than an error.
    let mut null_item = false;
    if let (Some(IterationField::Item), Some(item)) = (name.field, &context.item) {
        return Ok(item.clone());
    }
    if let Some(field) = name.field
        && let Some(iteration) = context.scope.iteration(None)
    {
        let value = read_iteration(context, iteration, field);
        match (field, &value) {
            (IterationField::Item, Value::Null) => null_item = true,
            _ => return Ok(value),
        }
    }
    if let Some((loop_name, field)) = &name.outer
        && let Some(iteration) = context.scope.iteration(Some(loop_name))
    {
        return Ok(read_iteration(context, iteration, *field));
    }
    let scope = context.scope;
    let declared = scope.variable(Level::Any, &name.written);
    if let Some(value) = declared.or_else(|| scope.variable_ignoring_case(&name.lower)) {
        return Ok(value);
    }
    let input = match &scope.run().input {
        Value::Stored(stored) => &context.load_for_lookup(stored)?,
        other => other,
    };
    match input.as_map().and_then(|map| property(map, &name.written)) {
        Some(value) => Ok(value.clone()),
        None if null_item => Ok(Value::Null),
        None => Err(unknown_variable(context, name, input)),
    }
}

fn unknown_variable(context: &WdlContext, name: &VariableName, input: &Value) -> EvalError {
    let mut message = format!("there is no variable `{}`", name.written);
    if let Some(iteration) = context.scope.iteration(None) {
        message += &format!("; the loop `{}` has loopIndex, loopCount, loopResult, item", iteration.loop_name);
    } else if name.field.is_some() {
        message += ": it is not inside a loop";
    }
    if let Some(map) = input.as_map().filter(|map| !map.is_empty()) {
        message += &format!("; the run's input has {}", format_names(map));
    }
    EvalError::new(EvalErrorKind::Missing, message)
        .with_hint("declare it with an initializeVariable action, or start the run with an input of that name")
}
