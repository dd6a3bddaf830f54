//! Navigation into values: `.name`, `['name']`, `[0]`, and the safe forms with `?`.

use std::sync::Arc;

use windlass_value::{EvalError, EvalErrorKind, Map, Value};

use super::node::{WdlNode, eval};
use super::values::{WdlContext, WdlResult, describe, exact_int, exact_int_from_decimal, is_stored_list, type_error};

/// The maximum number of names that a message lists.
const MAX_NAMES_SHOWN: usize = 20;

pub(crate) struct WdlPath {
    pub root: WdlNode,
    pub steps: Box<[WdlStep]>,
    /// The text of the whole path, for messages; each step knows its start offset in it.
    pub text: Arc<str>,
    /// Set for a node's result in a loop's own condition: a missing value is null.
    pub lenient: bool,
}

pub(crate) struct WdlStep {
    pub key: WdlKey,
    pub safe: bool,
    pub start: usize,
}

pub(crate) enum WdlKey {
    Name(Arc<str>),
    Index(usize),
    Computed(WdlNode),
}

/// Returns the property of that name; the exact letter case wins, otherwise the first match in any case.
pub(crate) fn property<'a>(map: &'a Map, name: &str) -> Option<&'a Value> {
    map.get(name).or_else(|| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

/// Formats the first names of an object, for messages.
pub(crate) fn format_names(map: &Map) -> String {
    if map.is_empty() {
        return "no properties".to_owned();
    }
    let shown: Vec<String> = map.keys().take(MAX_NAMES_SHOWN).map(|key| format!("`{key}`")).collect();
    let more = map.len().saturating_sub(MAX_NAMES_SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

pub(crate) fn eval_path(path: &WdlPath, context: &mut WdlContext) -> WdlResult {
    let mut current = eval(&path.root, context)?;
    for step in &path.steps {
        context.charge_items(1)?;
        let found = match &step.key {
            WdlKey::Name(name) => by_name(path, step, context, &current, name)?,
            WdlKey::Index(index) => by_index(path, step, context, &current, Some(*index))?,
            WdlKey::Computed(node) => match eval(node, context)? {
                Value::Str(name) => by_name(path, step, context, &current, &name)?,
                Value::Int(index) => by_index(path, step, context, &current, usize::try_from(index).ok())?,
                Value::Float(number) if exact_int(number).is_some() => {
                    let index = exact_int(number).and_then(|index| usize::try_from(index).ok());
                    by_index(path, step, context, &current, index)?
                }
                Value::Big(text) if exact_int_from_decimal(&text).is_some() => {
                    let index = exact_int_from_decimal(&text).and_then(|index| usize::try_from(index).ok());
                    by_index(path, step, context, &current, index)?
                }
                other => return Err(bad_key(path, step, &current, &other)),
            },
        };
        current = found;
    }
    Ok(current)
}

fn by_name(path: &WdlPath, step: &WdlStep, context: &mut WdlContext, current: &Value, name: &str) -> WdlResult {
    match current {
        Value::Map(map) => {
            if let Some(value) = map.get(name) {
                return Ok(value.clone());
            }
            context.charge_items(map.len() / 8)?;
            if let Some(value) = property(map, name) {
                return Ok(value.clone());
            }
            match by_slash_path(context, current, name)? {
                Some(value) => Ok(value),
                None if step.safe || path.lenient => Ok(Value::Null),
                None => Err(missing_error(path, step, &format!("no property `{name}`; it has {}", format_names(map)))),
            }
        }
        Value::Null if step.safe || path.lenient => Ok(Value::Null),
        Value::Null => Err(missing_error(path, step, &format!("no property `{name}`: it is null"))),
        Value::Stored(stored) if !is_stored_list(stored) => match context.load_for_lookup(stored)? {
            Value::Stored(_) => Err(type_error("a stored value holds another stored value")),
            content => by_name(path, step, context, &content, name),
        },
        Value::List(_) | Value::Stored(_) => {
            Err(type_error(format!("`{}` is an array, so it has no property `{name}`", &path.text[..step.start]))
                .with_hint("take one item first: [0], first(…), or a loop over it"))
        }
        other => Err(type_error(format!(
            "`{}` is {}, so it has no property `{name}`",
            &path.text[..step.start],
            describe(other)
        ))
        .with_hint("json(…) reads an object from a text")),
    }
}

/// Resolves `body/items/0/id`, a notation that the Logic Apps designer writes: one part after the other, numbers index
/// arrays. Returns None if a part does not exist.
fn by_slash_path(context: &mut WdlContext, start: &Value, name: &str) -> Result<Option<Value>, EvalError> {
    if !name.contains('/') {
        return Ok(None);
    }
    let mut current = start.clone();
    for part in name.split('/') {
        context.charge_items(1)?;
        if let Value::Stored(stored) = &current
            && !is_stored_list(stored)
        {
            current = context.load_for_lookup(stored)?;
        }
        let found = match &current {
            Value::Map(map) => {
                context.charge_items(map.len() / 8)?;
                property(map, part).cloned()
            }
            Value::List(items) => part.parse().ok().and_then(|index: usize| items.get(index)).cloned(),
            Value::Stored(stored) => match part.parse() {
                Ok(index) if (index as u64) < stored.items => context.stored_item(stored, index)?,
                _ => None,
            },
            _ => None,
        };
        let Some(found) = found else { return Ok(None) };
        current = found;
    }
    Ok(Some(current))
}

/// Resolves an index. None stands for a negative index, which is always out of range.
fn by_index(
    path: &WdlPath,
    step: &WdlStep,
    context: &mut WdlContext,
    current: &Value,
    index: Option<usize>,
) -> WdlResult {
    let (found, length) = match current {
        Value::List(items) => (index.and_then(|index| items.get(index)).cloned(), items.len()),
        Value::Null if step.safe || path.lenient => return Ok(Value::Null),
        Value::Null => return Err(missing_error(path, step, "no items: it is null")),
        Value::Stored(stored) if is_stored_list(stored) => {
            let within = index.filter(|index| (*index as u64) < stored.items);
            let found = match within {
                Some(index) => context.stored_item(stored, index)?,
                None => None,
            };
            (found, stored.items as usize)
        }
        Value::Stored(stored) => match context.load_for_lookup(stored)? {
            Value::Stored(_) => return Err(type_error("a stored value holds another stored value")),
            content => return by_index(path, step, context, &content, index),
        },
        other => {
            let text = &path.text[..step.start];
            return Err(type_error(format!("`{text}` is {}, which has no items to index", describe(other)))
                .with_hint("properties of an object are reached by name: ['name']"));
        }
    };
    match found {
        Some(value) => Ok(value),
        None if step.safe || path.lenient => Ok(Value::Null),
        None => {
            let requested = index.map_or_else(|| "of a negative index".to_owned(), |index| index.to_string());
            Err(missing_error(path, step, &format!("no item {requested}; it has {length} items")))
        }
    }
}

fn missing_error(path: &WdlPath, step: &WdlStep, what: &str) -> EvalError {
    let (before, at) = (&path.text[..step.start], &path.text[step.start..]);
    let step_text: String = at.chars().take(40).collect();
    EvalError::new(EvalErrorKind::Missing, format!("`{before}` has {what}"))
        .with_hint(format!("write `?{step_text}` to get null instead"))
}

fn bad_key(path: &WdlPath, step: &WdlStep, current: &Value, key: &Value) -> EvalError {
    let text = &path.text[..step.start];
    type_error(format!("`{text}` ({}) cannot be indexed by {}", current.kind(), describe(key)))
        .with_hint("an object is indexed by a string, an array by an integer")
}
