//! `variables('name')`: the turn of the innermost loop, enclosing loops by `<loop>_…`, declared variables, and at last
//! what the run was started with.

use std::sync::Arc;

use windlass_value::{EvalError, EvalErrorKind, Level, TurnView, Value};

use super::path::{names, property};
use super::values::{Context, Outcome};

/// What a loop turn offers as variables.
#[derive(Clone, Copy)]
enum TurnField {
    Index,
    Count,
    Result,
    StartTime,
    ElapsedMs,
    Item,
}

const TURN_FIELDS: &[(&str, TurnField)] = &[
    ("loopindex", TurnField::Index),
    ("loopcount", TurnField::Count),
    ("loopresult", TurnField::Result),
    ("loopstarttime", TurnField::StartTime),
    ("loopelapsedms", TurnField::ElapsedMs),
    ("item", TurnField::Item),
];

/// A name, prepared once for all its readings.
pub(crate) struct VariableName {
    written: Arc<str>,
    lower: Arc<str>,
    field: Option<TurnField>,
    /// `<loop>_<field>`: an enclosing loop's field, should there be such a loop.
    outer: Option<(Box<str>, TurnField)>,
}

impl VariableName {
    pub(crate) fn new(written: &str) -> VariableName {
        let lower = written.to_lowercase();
        let field_of = |name: &str| TURN_FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field);
        let outer = lower.rsplit_once('_').and_then(|(loop_name, field)| Some((loop_name.into(), field_of(field)?)));
        VariableName { written: written.into(), field: field_of(&lower), outer, lower: lower.into() }
    }
}

fn read_turn(context: &Context, turn: TurnView, field: TurnField) -> Value {
    match field {
        TurnField::Index => Value::from(turn.index),
        TurnField::Count => Value::from(turn.index.saturating_add(1)),
        TurnField::Result => turn.previous,
        TurnField::StartTime => Value::Int(turn.loop_started_at.as_ms()),
        TurnField::ElapsedMs => Value::from(context.scope.now().since(turn.loop_started_at).as_ms()),
        TurnField::Item => turn.item,
    }
}

pub(crate) fn read_variable(context: &mut Context, name: &VariableName) -> Outcome {
    // A loop without items has a null one: it hides nothing, but is better than an error.
    let mut null_item = false;
    if let (Some(TurnField::Item), Some(item)) = (name.field, &context.item) {
        return Ok(item.clone());
    }
    if let Some(field) = name.field
        && let Some(turn) = context.scope.turn(None)
    {
        let value = read_turn(context, turn, field);
        match (field, &value) {
            (TurnField::Item, Value::Null) => null_item = true,
            _ => return Ok(value),
        }
    }
    if let Some((loop_name, field)) = &name.outer
        && let Some(turn) = context.scope.turn(Some(loop_name))
    {
        return Ok(read_turn(context, turn, *field));
    }
    if let Some(value) = context.scope.variable(Level::Any, &name.lower) {
        return Ok(value);
    }
    let scope = context.scope;
    let input = match &scope.run().input {
        Value::Stored(stored) => &context.look(stored)?,
        other => other,
    };
    match input.as_map().and_then(|map| property(map, &name.written)) {
        Some(value) => Ok(value.clone()),
        None if null_item => Ok(Value::Null),
        None => Err(unknown(context, name, input)),
    }
}

fn unknown(context: &Context, name: &VariableName, input: &Value) -> EvalError {
    let mut message = format!("there is no variable `{}`", name.written);
    if let Some(turn) = context.scope.turn(None) {
        message += &format!("; the loop `{}` has loopIndex, loopCount, loopResult, item", turn.loop_name);
    } else if name.field.is_some() {
        message += ": no loop is around it";
    }
    if let Some(map) = input.as_map().filter(|map| !map.is_empty()) {
        message += &format!("; the run's input has {}", names(map));
    }
    EvalError::new(EvalErrorKind::Missing, message)
        .hint("declare it with an initializeVariable action, or start the run with an input of that name")
}
