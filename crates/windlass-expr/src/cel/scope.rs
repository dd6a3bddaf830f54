//! What names mean: steps, the turn of the loop, fields and items.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use windlass_value::{EvalError, Level, Map, Mode, NodeView, Value, known, nearest};

use super::eval::Eval;
use super::lower::listed;
use super::node::{Bound, Node, Part};
use super::value::{Number, Outcome, Val, missing, tell, type_error};
use crate::wdl::values::{Context, is_stored_list};

static NOTHING: LazyLock<Arc<Map>> = LazyLock::new(|| Arc::new(Map::new()));

/// The variable in which a loop keeps what its last turn gave.
const PREVIOUS_ITERATION: &str = "previous";

/// What is known of a step.
enum Known {
    Ended(NodeView),
    /// From the turn before: `{content, result, status}`.
    PreviousIteration(Value),
}

/// A part as the language has it: a text for null, an empty map for a result that there is not.
fn part_of(value: Option<Value>, part: Part) -> Val {
    match (value, part) {
        (Some(value), _) if !value.is_null() => Val::from(value),
        (_, Part::Content) => Val::Str(known("")),
        (_, Part::Result) => Val::Object(NOTHING.clone()),
        (_, Part::Status) => Val::Str(known("completed")),
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

impl Eval<'_> {
    pub(crate) fn bound(&mut self, bound: Bound) -> Outcome {
        self.spend(1)?;
        if bound == Bound::Inputs {
            let run = self.scope.run();
            let given = if matches!(run.parameters, Value::Map(_)) { &run.parameters } else { &run.input };
            let given = self.look(given.clone())?;
            return Ok(if given.is_null() { Val::Object(NOTHING.clone()) } else { Val::from(given) });
        }
        let Some(iteration) = self.scope.iteration(self.place.loop_name.as_deref()) else {
            return Err(missing("no such key: there is no loop around this expression"));
        };
        let index = i64::try_from(iteration.iteration_index).unwrap_or(i64::MAX);
        Ok(match bound {
            // There the index is the number of turns that are done: the last of them is meant.
            Bound::Iteration if self.mode == Mode::LoopCondition => Val::Int((index - 1).max(0)),
            Bound::Iteration | Bound::Index => Val::Int(index),
            Bound::Item => Val::from(iteration.item),
            Bound::Content => self.previous_part(iteration.previous, Part::Content)?,
            Bound::Result => self.previous_part(iteration.previous, Part::Result)?,
            Bound::Status | Bound::Inputs => self.previous_part(iteration.previous, Part::Status)?,
        })
    }

    fn previous_part(&mut self, previous: Value, part: Part) -> Outcome {
        let previous = self.look(previous)?;
        Ok(part_of(previous.get(part.name()).cloned(), part))
    }

    fn find_step(&mut self, id: &str) -> Result<Option<Known>, EvalError> {
        self.spend(1)?;
        // Scopes find names in any letter case; ids are exact.
        if let Some(view) = self.scope.node(id).filter(|view| *view.name == *id) {
            return Ok(Some(Known::Ended(view)));
        }
        let Some(previous) = self.scope.variable(Level::Any, PREVIOUS_ITERATION) else { return Ok(None) };
        let previous = self.look(previous)?;
        let Some(steps) = previous.get("steps").cloned() else { return Ok(None) };
        let steps = self.look(steps)?;
        match steps.get(id).cloned() {
            Some(step) if !step.is_null() => Ok(Some(Known::PreviousIteration(self.look(step)?))),
            _ => Ok(None),
        }
    }

    fn part(&mut self, step: &Known, part: Part) -> Outcome {
        match step {
            Known::Ended(view) if part == Part::Status => Ok(Val::Str(known(status(view.status)))),
            Known::Ended(view) => {
                let output = self.look(view.output.clone())?;
                Ok(part_of(output.get(part.name()).cloned(), part))
            }
            Known::PreviousIteration(value) => Ok(part_of(value.get(part.name()).cloned(), part)),
        }
    }

    fn whole(&mut self, step: &Known) -> Result<Value, EvalError> {
        let mut object = Map::with_capacity(3);
        for (name, part) in Part::ALL {
            let value = self.part(step, part)?;
            object.insert(known(name), self.outside(&value)?);
        }
        Ok(Value::map(object))
    }

    fn ended(&mut self, id: &str) -> Result<Known, EvalError> {
        self.find_step(id)?.ok_or_else(|| {
            let error = missing(format!("no such key: the step `{id}` has not ended"));
            error.hint(format!("depend on it, or ask first: has(steps.{id}) && …"))
        })
    }

    pub(crate) fn has_step(&mut self, id: &str) -> Outcome {
        Ok(Val::Bool(self.find_step(id)?.is_some()))
    }

    pub(crate) fn step_part(&mut self, id: &str, part: Part) -> Outcome {
        self.spend(1)?;
        let step = self.ended(id)?;
        self.part(&step, part)
    }

    pub(crate) fn step(&mut self, id: &str) -> Outcome {
        let step = self.ended(id)?;
        self.whole(&step).map(Val::from)
    }

    pub(crate) fn step_named(&mut self, name: &Node, of: &Range<usize>) -> Outcome {
        let name = self.node(name)?;
        match self.content(name)? {
            Val::Str(id) if self.place.steps.contains(&id) => self.step(&id),
            Val::Str(id) => {
                let error = missing(format!("no such key: there is no step `{id}`"));
                Err(match nearest(&id, self.place.steps.iter().map(|step| &**step)) {
                    Some(close) => error.hint(format!("did you mean `{close}`?")),
                    None => error,
                })
            }
            other => {
                let message = format!("`{}` gives {}: the id of a step is a string", self.told(of), tell(&other));
                Err(type_error(message))
            }
        }
    }

    /// All that have ended.
    pub(crate) fn all_steps(&mut self) -> Outcome {
        let place = self.place;
        let mut object = Map::with_capacity(place.steps.len());
        for id in &place.steps {
            if let Some(step) = self.find_step(id)? {
                object.insert(id.clone(), self.whole(&step)?);
            }
        }
        Ok(Val::Object(Arc::new(object)))
    }

    /// A map in which one thing is looked for.
    fn looked(&mut self, operand: &Node) -> Outcome {
        match self.node(operand)? {
            Val::Stored(stored) if !is_stored_list(&stored) => self.look(Value::Stored(stored)).map(Val::from),
            value => Ok(value),
        }
    }

    pub(crate) fn select(&mut self, operand: &Node, field: &Arc<str>, of: &Range<usize>) -> Outcome {
        self.spend(1)?;
        let value = self.looked(operand)?;
        let found = match &value {
            Val::Object(map) => map.get(field).cloned().map(Val::from),
            Val::Map(map) => map.get_text(field).cloned(),
            other => return Err(self.no_fields(other, field, of)),
        };
        found.ok_or_else(|| self.no_key(&value, &format!("`{field}`"), Some(field), of))
    }

    pub(crate) fn has(&mut self, operand: &Node, field: &Arc<str>, of: &Range<usize>) -> Outcome {
        self.spend(1)?;
        match self.looked(operand)? {
            Val::Object(map) => Ok(Val::Bool(map.contains_key(field))),
            Val::Map(map) => Ok(Val::Bool(map.get_text(field).is_some())),
            other => Err(self.no_fields(&other, field, of)),
        }
    }

    fn no_fields(&self, value: &Val, field: &str, of: &Range<usize>) -> EvalError {
        let error = type_error(format!("`{}` is {}: it has no field `{field}`", self.told(of), tell(value)));
        match value {
            Val::Items(_) | Val::List(_) | Val::Stored(_) => {
                error.hint(format!("take an item first: list[0].{field}, or list.map(e, e.{field})"))
            }
            Val::Str(_) => error.hint("a text has no fields: let the step give a result by a resultSchema"),
            _ => error,
        }
    }

    fn no_key(&self, map: &Val, key: &str, text: Option<&str>, of: &Range<usize>) -> EvalError {
        let names: Vec<Arc<str>> = match map {
            Val::Object(map) => map.keys().cloned().collect(),
            Val::Map(map) => {
                let keys = map.list.iter().map(|(key, _)| key);
                keys.filter_map(|key| if let Val::Str(key) = key { Some(key.clone()) } else { None }).collect()
            }
            _ => Vec::new(),
        };
        let told = match names.is_empty() {
            true => "which is empty".to_owned(),
            false => format!("which has {}", listed(names.iter().map(|name| &**name))),
        };
        let error = missing(format!("no such key: {key} in `{}`, {told}", self.told(of)));
        match text.and_then(|text| nearest(text, names.iter().map(|name| &**name))) {
            Some(close) => error.hint(format!("did you mean `{close}`?")),
            None => error.hint(match text {
                Some(text) => format!("ask first whether it is there: has({}.{text})", self.told(of)),
                None => format!("ask first whether it is there: key in {}", self.told(of)),
            }),
        }
    }

    pub(crate) fn index(&mut self, operand: &Node, index: &Node, of: &Range<usize>) -> Outcome {
        self.spend(1)?;
        let value = self.looked(operand)?;
        let key = self.node(index)?;
        let key = self.content(key)?;
        let length = match &value {
            Val::Stored(stored) => usize::try_from(stored.items).unwrap_or(usize::MAX),
            Val::Items(_) | Val::List(_) => value.items().unwrap_or(0),
            Val::Object(_) | Val::Map(_) => {
                let text = if let Val::Str(text) = &key { Some(&**text) } else { None };
                return value.under(&key).ok_or_else(|| self.no_key(&value, &shown(&key), text, of));
            }
            other => {
                let message = format!("`{}` is {}: it has no items", self.told(of), tell(other));
                return Err(type_error(message));
            }
        };
        let at = match key.number() {
            Some(Number::Int(at)) => usize::try_from(at).ok(),
            Some(Number::Uint(at)) => usize::try_from(at).ok(),
            Some(Number::Double(at)) if at.fract() == 0.0 && (0.0..1e15).contains(&at) => Some(at as usize),
            Some(Number::Double(at)) if at.fract() == 0.0 => None,
            _ => {
                let message = format!("an item of `{}` is found by an int, not by {}", self.told(of), tell(&key));
                return Err(type_error(message));
            }
        };
        let found = match (&value, at.filter(|at| *at < length)) {
            (_, None) => None,
            (Val::Stored(stored), Some(at)) => {
                Context::new(self.scope, self.meter).stored_item(stored, at)?.map(Val::from)
            }
            (_, Some(at)) => value.item(at),
        };
        found.ok_or_else(|| {
            let items = if length == 1 { "item" } else { "items" };
            let message = format!("index {} is out of bounds: `{}` has {length} {items}", shown(&key), self.told(of));
            type_error(message).hint("the first item has the index 0; ask for size(list) first")
        })
    }
}

/// A key as it is written.
fn shown(key: &Val) -> String {
    match key {
        Val::Str(text) => format!("`{}`", super::value::short(text)),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => format!("{number}u"),
        other => tell(other),
    }
}
