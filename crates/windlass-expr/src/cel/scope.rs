//! Name resolution at run time: steps, the loop iteration, fields and items.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use windlass_value::{EvalError, ExpressionMode, Level, Map, NodeView, Value, interned, nearest};

use super::eval::CelEvaluator;
use super::lower::format_names;
use super::node::{CelNode, CelVariable, StepPart};
use super::value::{CelNumber, CelResult, CelValue, describe, missing_error, type_error};
use crate::wdl::values::{WdlContext, is_stored_list};

static NOTHING: LazyLock<Arc<Map>> = LazyLock::new(|| Arc::new(Map::new()));

/// The variable in which a loop keeps the result of its last iteration.
const PREVIOUS_ITERATION: &str = "previous";

/// A step's recorded result.
enum ResolvedStep {
    Ended(NodeView),
    /// From the previous iteration: `{content, result, status, stop?}`.
    PreviousIteration(Value),
}

/// Returns a part's value, with defaults: an empty string for null content, an empty map for a missing result,
/// `completed` for a missing status, and `end` for a missing stop.
fn part_or_default(value: Option<Value>, part: StepPart) -> CelValue {
    match (value, part) {
        (Some(value), _) if !value.is_null() => CelValue::from(value),
        (_, StepPart::Content) => CelValue::Str(interned("")),
        (_, StepPart::Result) => CelValue::Object(NOTHING.clone()),
        (_, StepPart::Status) => CelValue::Str(interned("completed")),
        (_, StepPart::Stop) => CelValue::Str(interned("end")),
    }
}

fn status(word: &str) -> &'static str {
    match word {
        "succeeded" => "completed",
        "skipped" => "skipped",
        "cancelled" => "cancelled",
        _ => "failed",
    }
}

impl CelEvaluator<'_> {
    pub(crate) fn variable(&mut self, bound: CelVariable) -> CelResult {
        self.spend(1)?;
        if bound == CelVariable::Inputs {
            let run = self.scope.run();
            let given = if matches!(run.parameters, Value::Map(_)) { &run.parameters } else { &run.input };
            let given = self.load_for_lookup(given.clone())?;
            return Ok(if given.is_null() { CelValue::Object(NOTHING.clone()) } else { CelValue::from(given) });
        }
        let Some(iteration) = self.scope.iteration(self.env.loop_name.as_deref()) else {
            return Err(missing_error("no such key: this expression is not inside a loop"));
        };
        let index = i64::try_from(iteration.iteration_index).unwrap_or(i64::MAX);
        Ok(match bound {
            // In a loop condition the index is the number of completed iterations: `iteration` is the last of them.
            CelVariable::Iteration if self.mode == ExpressionMode::LoopCondition => CelValue::Int((index - 1).max(0)),
            CelVariable::Iteration | CelVariable::Index => CelValue::Int(index),
            CelVariable::Item => CelValue::from(iteration.item),
            CelVariable::Content => self.previous_part(iteration.previous, StepPart::Content)?,
            CelVariable::Result => self.previous_part(iteration.previous, StepPart::Result)?,
            CelVariable::Stop => self.previous_part(iteration.previous, StepPart::Stop)?,
            CelVariable::Status | CelVariable::Inputs => self.previous_part(iteration.previous, StepPart::Status)?,
        })
    }

    fn previous_part(&mut self, previous: Value, part: StepPart) -> CelResult {
        let previous = self.load_for_lookup(previous)?;
        Ok(part_or_default(previous.get(part.name()).cloned(), part))
    }

    fn find_step(&mut self, id: &str) -> Result<Option<ResolvedStep>, EvalError> {
        self.spend(1)?;
        // Scopes match names case-insensitively; step ids are exact.
        if let Some(view) = self.scope.node(id).filter(|view| *view.name == *id) {
            return Ok(Some(ResolvedStep::Ended(view)));
        }
        let Some(previous) = self.scope.variable(Level::Any, PREVIOUS_ITERATION) else { return Ok(None) };
        let previous = self.load_for_lookup(previous)?;
        let Some(steps) = previous.get("steps").cloned() else { return Ok(None) };
        let steps = self.load_for_lookup(steps)?;
        match steps.get(id).cloned() {
            Some(step) if !step.is_null() => Ok(Some(ResolvedStep::PreviousIteration(self.load_for_lookup(step)?))),
            _ => Ok(None),
        }
    }

    fn part_value(&mut self, step: &ResolvedStep, part: StepPart) -> CelResult {
        match step {
            ResolvedStep::Ended(view) if part == StepPart::Status => Ok(CelValue::Str(interned(status(view.status)))),
            ResolvedStep::Ended(view) => {
                let output = self.load_for_lookup(view.output.clone())?;
                Ok(part_or_default(output.get(part.name()).cloned(), part))
            }
            ResolvedStep::PreviousIteration(value) => Ok(part_or_default(value.get(part.name()).cloned(), part)),
        }
    }

    fn step_object(&mut self, step: &ResolvedStep) -> Result<Value, EvalError> {
        let mut object = Map::with_capacity(3);
        for (name, part) in StepPart::ALL {
            let value = self.part_value(step, part)?;
            object.insert(interned(name), self.convert(&value)?);
        }
        Ok(Value::map(object))
    }

    fn require_step(&mut self, id: &str) -> Result<ResolvedStep, EvalError> {
        self.find_step(id)?.ok_or_else(|| {
            let error = missing_error(format!("no such key: the step `{id}` has not ended"));
            error.with_hint(format!("depend on it, or check first: has(steps.{id}) && …"))
        })
    }

    pub(crate) fn has_step(&mut self, id: &str) -> CelResult {
        Ok(CelValue::Bool(self.find_step(id)?.is_some()))
    }

    pub(crate) fn step_part(&mut self, id: &str, part: StepPart) -> CelResult {
        self.spend(1)?;
        let step = self.require_step(id)?;
        self.part_value(&step, part)
    }

    pub(crate) fn step(&mut self, id: &str) -> CelResult {
        let step = self.require_step(id)?;
        self.step_object(&step).map(CelValue::from)
    }

    pub(crate) fn step_named(&mut self, name: &CelNode, of: &Range<usize>) -> CelResult {
        let name = self.node(name)?;
        match self.content(name)? {
            CelValue::Str(id) if self.env.steps.contains(&id) => self.step(&id),
            CelValue::Str(id) => {
                let error = missing_error(format!("no such key: there is no step `{id}`"));
                Err(match nearest(&id, self.env.steps.iter().map(|step| &**step)) {
                    Some(close) => error.with_hint(format!("did you mean `{close}`?")),
                    None => error,
                })
            }
            other => {
                let message =
                    format!("`{}` gives {}: the id of a step is a string", self.source_text(of), describe(&other));
                Err(type_error(message))
            }
        }
    }

    /// Returns an object with all steps that have ended.
    pub(crate) fn all_steps(&mut self) -> CelResult {
        let place = self.env;
        let mut object = Map::with_capacity(place.steps.len());
        for id in &place.steps {
            if let Some(step) = self.find_step(id)? {
                object.insert(id.clone(), self.step_object(&step)?);
            }
        }
        Ok(CelValue::Object(Arc::new(object)))
    }

    /// Evaluates a map operand for a single lookup.
    fn lookup_operand(&mut self, operand: &CelNode) -> CelResult {
        match self.node(operand)? {
            CelValue::Stored(stored) if !is_stored_list(&stored) => {
                self.load_for_lookup(Value::Stored(stored)).map(CelValue::from)
            }
            value => Ok(value),
        }
    }

    pub(crate) fn select(&mut self, operand: &CelNode, field: &Arc<str>, of: &Range<usize>) -> CelResult {
        self.spend(1)?;
        let value = self.lookup_operand(operand)?;
        let found = match &value {
            CelValue::Object(map) => map.get(field).cloned().map(CelValue::from),
            CelValue::Map(map) => map.get_text(field).cloned(),
            other => return Err(self.no_fields(other, field, of)),
        };
        found.ok_or_else(|| self.no_key(&value, &format!("`{field}`"), Some(field), of))
    }

    pub(crate) fn has(&mut self, operand: &CelNode, field: &Arc<str>, of: &Range<usize>) -> CelResult {
        self.spend(1)?;
        match self.lookup_operand(operand)? {
            CelValue::Object(map) => Ok(CelValue::Bool(map.contains_key(field))),
            CelValue::Map(map) => Ok(CelValue::Bool(map.get_text(field).is_some())),
            other => Err(self.no_fields(&other, field, of)),
        }
    }

    fn no_fields(&self, value: &CelValue, field: &str, of: &Range<usize>) -> EvalError {
        let error = type_error(format!("`{}` is {}: it has no field `{field}`", self.source_text(of), describe(value)));
        match value {
            CelValue::Items(_) | CelValue::List(_) | CelValue::Stored(_) => {
                error.with_hint(format!("take an item first: list[0].{field}, or list.map(e, e.{field})"))
            }
            CelValue::Str(_) => {
                error.with_hint("a text has no fields: let the step return a result with a resultSchema")
            }
            _ => error,
        }
    }

    fn no_key(&self, map: &CelValue, key: &str, text: Option<&str>, of: &Range<usize>) -> EvalError {
        let names: Vec<Arc<str>> = match map {
            CelValue::Object(map) => map.keys().cloned().collect(),
            CelValue::Map(map) => {
                let keys = map.list.iter().map(|(key, _)| key);
                keys.filter_map(|key| if let CelValue::Str(key) = key { Some(key.clone()) } else { None }).collect()
            }
            _ => Vec::new(),
        };
        let available = match names.is_empty() {
            true => "which is empty".to_owned(),
            false => format!("which has {}", format_names(names.iter().map(|name| &**name))),
        };
        let error = missing_error(format!("no such key: {key} in `{}`, {available}", self.source_text(of)));
        match text.and_then(|text| nearest(text, names.iter().map(|name| &**name))) {
            Some(close) => error.with_hint(format!("did you mean `{close}`?")),
            None => error.with_hint(match text {
                Some(text) => format!("check first whether it exists: has({}.{text})", self.source_text(of)),
                None => format!("check first whether it exists: key in {}", self.source_text(of)),
            }),
        }
    }

    pub(crate) fn index(&mut self, operand: &CelNode, index: &CelNode, of: &Range<usize>) -> CelResult {
        self.spend(1)?;
        let value = self.lookup_operand(operand)?;
        let key = self.node(index)?;
        let key = self.content(key)?;
        let length = match &value {
            CelValue::Stored(stored) => usize::try_from(stored.items).unwrap_or(usize::MAX),
            CelValue::Items(_) | CelValue::List(_) => value.list_len().unwrap_or(0),
            CelValue::Object(_) | CelValue::Map(_) => {
                let text = if let CelValue::Str(text) = &key { Some(&**text) } else { None };
                return value.get_key(&key).ok_or_else(|| self.no_key(&value, &format_key(&key), text, of));
            }
            other => {
                let message = format!("`{}` is {}: it has no items", self.source_text(of), describe(other));
                return Err(type_error(message));
            }
        };
        let at = match key.number() {
            Some(CelNumber::Int(at)) => usize::try_from(at).ok(),
            Some(CelNumber::Uint(at)) => usize::try_from(at).ok(),
            Some(CelNumber::Double(at)) if at.fract() == 0.0 && (0.0..1e15).contains(&at) => Some(at as usize),
            Some(CelNumber::Double(at)) if at.fract() == 0.0 => None,
            _ => {
                let message =
                    format!("an item of `{}` is selected by an int, not by {}", self.source_text(of), describe(&key));
                return Err(type_error(message));
            }
        };
        let found = match (&value, at.filter(|at| *at < length)) {
            (_, None) => None,
            (CelValue::Stored(stored), Some(at)) => {
                WdlContext::new(self.scope, self.meter).stored_item(stored, at)?.map(CelValue::from)
            }
            (_, Some(at)) => value.item(at),
        };
        found.ok_or_else(|| {
            let items = if length == 1 { "item" } else { "items" };
            let message =
                format!("index {} is out of bounds: `{}` has {length} {items}", format_key(&key), self.source_text(of));
            type_error(message).with_hint("the first item has the index 0; check size(list) first")
        })
    }
}

/// Formats a key as it would be written in source.
fn format_key(key: &CelValue) -> String {
    match key {
        CelValue::Str(text) => format!("`{}`", super::value::truncate(text)),
        CelValue::Int(number) => number.to_string(),
        CelValue::Uint(number) => format!("{number}u"),
        other => describe(other),
    }
}
