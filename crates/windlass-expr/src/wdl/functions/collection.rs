//! Functions on arrays and objects, and on texts as collections of characters.

use std::collections::HashSet;

use windlass_value::{EvalError, Map, Value};

use super::{
    LoadedArguments, UNLIMITED, WdlFunction, binary_text, int_at, is_binary, list_at, pure, text_at, wrong_argument,
};
use crate::wdl::path::property;
use crate::wdl::values::{
    WdlContext, WdlResult, compare_values, deep_equal, describe, equal_values, fingerprint, is_stored_list, to_text,
    type_error,
};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("length", 1, 1, length).loading(LoadedArguments::None),
    pure("empty", 1, 1, empty).loading(LoadedArguments::None),
    pure("first", 1, 1, first).loading(LoadedArguments::None),
    pure("last", 1, 1, last).loading(LoadedArguments::None),
    pure("contains", 2, 2, contains).loading(LoadedArguments::First),
    pure("join", 2, 2, join),
    pure("take", 2, 2, take),
    pure("skip", 2, 2, skip),
    pure("reverse", 1, 1, reverse),
    pure("sort", 1, 2, sort),
    pure("chunk", 2, 2, chunk),
    pure("union", 1, UNLIMITED, union),
    pure("intersection", 1, UNLIMITED, intersection),
];

/// Returns the length. A stored list knows its length without being loaded.
fn length(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match &arguments[0] {
        Value::List(items) => Ok(Value::from(items.len())),
        Value::Str(text) => {
            context.charge_bytes(text.len())?;
            Ok(Value::from(text.chars().count()))
        }
        Value::Stored(stored) if is_stored_list(stored) => Ok(Value::from(stored.items)),
        Value::Stored(stored) => {
            let content = context.load(stored)?;
            match content {
                Value::Stored(_) => Err(wrong_argument("length", arguments, 0, "a string or an array")),
                content => length(context, &[content]),
            }
        }
        _ => Err(wrong_argument("length", arguments, 0, "a string or an array")),
    }
}

fn empty(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let is_empty = match &arguments[0] {
        Value::Null => true,
        Value::Str(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Stored(stored) if stored.items > 0 => false,
        Value::Stored(stored) => match context.load(stored)? {
            Value::Stored(_) => false,
            content => return empty(context, &[content]),
        },
        _ => return Err(wrong_argument("empty", arguments, 0, "a string, an array or an object")),
    };
    Ok(Value::Bool(is_empty))
}

fn first(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    first_or_last("first", context, &arguments[0], |items| items.first(), |text| text.chars().next(), |_| 0)
}

fn last(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    first_or_last(
        "last",
        context,
        &arguments[0],
        |items| items.last(),
        |text| text.chars().next_back(),
        |items| items - 1,
    )
}

/// Returns one end of a collection: null for an empty array, '' for an empty text.
fn first_or_last(
    function: &str,
    context: &mut WdlContext,
    collection: &Value,
    of_list: fn(&[Value]) -> Option<&Value>,
    of_text: fn(&str) -> Option<char>,
    of_stored: fn(usize) -> usize,
) -> WdlResult {
    match collection {
        Value::List(items) => Ok(of_list(items).cloned().unwrap_or_default()),
        Value::Str(text) => Ok(Value::from(of_text(text).map(String::from).unwrap_or_default())),
        Value::Stored(stored) if stored.items > 0 => {
            let item = context.stored_item(stored, of_stored(stored.items as usize))?;
            Ok(item.unwrap_or_default())
        }
        Value::Stored(stored) => match context.load(stored)? {
            Value::Stored(_) => Err(type_error("a stored value holds another stored value")),
            content => first_or_last(function, context, &content, of_list, of_text, of_stored),
        },
        other => Err(wrong_argument(function, std::slice::from_ref(other), 0, "a string or an array")),
    }
}

/// Returns whether a text, also that of a binary value, contains a part, an array an item, or an object a key;
/// case-sensitive.
fn contains(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let found = match &arguments[0] {
        Value::Str(text) => {
            context.charge_bytes(text.len())?;
            let part = to_text(context, &arguments[1])?;
            text.contains(&*part)
        }
        Value::List(items) => {
            let mut found = false;
            for item in items.iter() {
                if equal_values(context, item, &arguments[1])? {
                    found = true;
                    break;
                }
            }
            found
        }
        // The text of a binary value; its own keys, as every object has them.
        Value::Map(map) if is_binary(map) && !map.contains_key(text_at("contains", arguments, 1)?) => {
            let text = binary_text("a binary value", context, &arguments[0])?;
            context.charge_bytes(text.len())?;
            text.contains(text_at("contains", arguments, 1)?)
        }
        Value::Map(map) => map.contains_key(text_at("contains", arguments, 1)?),
        _ => return Err(wrong_argument("contains", arguments, 0, "a string, an array or an object")),
    };
    Ok(Value::Bool(found))
}

fn join(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (items, delimiter) = (list_at("join", arguments, 0)?, text_at("join", arguments, 1)?);
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        let text = to_text(context, item)?;
        let more = text.len() + delimiter.len();
        context.charge_items(1 + more / 32)?;
        context.meter.check_size(out.len() + more)?;
        out.push_str(if index > 0 { delimiter } else { "" });
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

fn count_at(function: &str, arguments: &[Value], index: usize) -> Result<usize, EvalError> {
    let count = int_at(function, arguments, index)?;
    usize::try_from(count).map_err(|_| type_error(format!("`{function}` needs a count of 0 or more, got {count}")))
}

fn take(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let count = count_at("take", arguments, 1)?;
    match &arguments[0] {
        Value::List(items) => {
            let count = count.min(items.len());
            context.reserve_items(count)?;
            Ok(Value::list(items[..count].to_vec()))
        }
        Value::Str(text) => {
            context.reserve_bytes(text.len())?;
            Ok(Value::from(text.chars().take(count).collect::<String>()))
        }
        _ => Err(wrong_argument("take", arguments, 0, "a string or an array")),
    }
}

fn skip(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let items = list_at("skip", arguments, 0)?;
    let count = count_at("skip", arguments, 1)?.min(items.len());
    context.reserve_items(items.len() - count)?;
    Ok(Value::list(items[count..].to_vec()))
}

fn reverse(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let items = list_at("reverse", arguments, 0)?;
    context.reserve_items(items.len())?;
    Ok(Value::list(items.iter().rev().cloned().collect()))
}

/// Sorts by the items themselves, or by one of their properties. Equal items keep their order.
fn sort(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let items = list_at("sort", arguments, 0)?;
    context.reserve_items(items.len().saturating_mul(1 + items.len().checked_ilog2().unwrap_or(0) as usize))?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let key = match arguments.len() {
            2 => {
                let name = text_at("sort", arguments, 1)?;
                let content = context.content(item.clone())?;
                let found = content.as_map().and_then(|map| property(map, name)).cloned();
                found.ok_or_else(|| type_error(format!("`sort` finds no `{name}` in {}", describe(item))))?
            }
            _ => item.clone(),
        };
        keyed.push((key, item.clone()));
    }
    // Checked first: sorting needs an order between every two keys.
    if let Some((odd, _)) = keyed.iter().find(|(key, _)| compare_values(key, &keyed[0].0).is_none()) {
        return Err(type_error(format!(
            "`sort` orders numbers or strings, got {} and {}",
            describe(&keyed[0].0),
            describe(odd)
        )));
    }
    keyed.sort_by(|(a, _), (b, _)| compare_values(a, b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect()))
}

fn chunk(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let size = count_at("chunk", arguments, 1)?;
    if size == 0 {
        return Err(type_error("`chunk` needs a size of 1 or more"));
    }
    match &arguments[0] {
        Value::List(items) => {
            context.reserve_items(items.len())?;
            Ok(Value::list(items.chunks(size).map(|part| Value::list(part.to_vec())).collect()))
        }
        Value::Str(text) => {
            context.reserve_bytes(text.len())?;
            let letters: Vec<char> = text.chars().collect();
            context.reserve_items(letters.len() / size)?;
            Ok(Value::list(letters.chunks(size).map(|part| Value::from(part.iter().collect::<String>())).collect()))
        }
        _ => Err(wrong_argument("chunk", arguments, 0, "a string or an array")),
    }
}

/// All arguments as arrays, or all as objects.
enum SameKindCollections<'a> {
    Lists(Vec<&'a [Value]>),
    Maps(Vec<&'a Map>),
}

fn same_kind_collections<'a>(function: &str, arguments: &'a [Value]) -> Result<SameKindCollections<'a>, EvalError> {
    let expected = if arguments[0].as_map().is_some() { "an object" } else { "an array" };
    let odd = |index: usize| wrong_argument(function, arguments, index, expected);
    let each = arguments.iter().enumerate();
    match arguments[0].as_map() {
        Some(_) => {
            let maps = each.map(|(index, value)| value.as_map().ok_or_else(|| odd(index))).collect::<Result<_, _>>();
            Ok(SameKindCollections::Maps(maps?))
        }
        None => {
            let lists = each.map(|(index, value)| value.as_list().ok_or_else(|| odd(index))).collect::<Result<_, _>>();
            Ok(SameKindCollections::Lists(lists?))
        }
    }
}

/// Arrays: every item once, in order of first occurrence. Objects: the last value of a key, at its first position.
fn union(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match same_kind_collections("union", arguments)? {
        SameKindCollections::Lists(lists) => {
            let (mut seen, mut out) = (HashSet::new(), Vec::new());
            for item in lists.into_iter().flatten() {
                context.charge_items(1)?;
                if seen.insert(fingerprint(context, item)?) {
                    out.push(item.clone());
                }
            }
            Ok(Value::list(out))
        }
        SameKindCollections::Maps(maps) => {
            let mut out = Map::new();
            for (key, value) in maps.into_iter().flat_map(Map::iter) {
                context.charge_items(1)?;
                out.insert(key.clone(), value.clone());
            }
            Ok(Value::map(out))
        }
    }
}

/// Arrays: the items that all have, in the order of the first. Objects: the keys with the same value in all.
fn intersection(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match same_kind_collections("intersection", arguments)? {
        SameKindCollections::Lists(lists) => {
            let mut others = Vec::new();
            for list in &lists[1..] {
                context.charge_items(list.len())?;
                others.push(list.iter().map(|item| fingerprint(context, item)).collect::<Result<HashSet<_>, _>>()?);
            }
            let (mut seen, mut out) = (HashSet::new(), Vec::new());
            for item in lists[0] {
                context.charge_items(1)?;
                let mark = fingerprint(context, item)?;
                if others.iter().all(|other| other.contains(&mark)) && seen.insert(mark) {
                    out.push(item.clone());
                }
            }
            Ok(Value::list(out))
        }
        SameKindCollections::Maps(maps) => {
            let mut out = Map::new();
            for (key, value) in maps[0].iter() {
                let mut everywhere = true;
                for other in &maps[1..] {
                    everywhere = everywhere
                        && match other.get(key) {
                            Some(found) => deep_equal(context, value, found)?,
                            None => false,
                        };
                }
                context.charge_items(1)?;
                if everywhere {
                    out.insert(key.clone(), value.clone());
                }
            }
            Ok(Value::map(out))
        }
    }
}
