//! Objects and their properties.

use std::sync::Arc;

use windlass_value::{EvalError, Map, Value};

use super::{LoadedArguments, UNLIMITED, WdlFunction, lazy, pure, text_at, wrong_argument};
use crate::wdl::node::{WdlNode, eval};
use crate::wdl::values::{WdlContext, WdlResult, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    lazy("coalesce", 1, UNLIMITED, coalesce),
    pure("addProperty", 3, 3, add_property).loading(LoadedArguments::First),
    pure("setProperty", 3, 3, set_property).loading(LoadedArguments::First),
    pure("removeProperty", 2, 2, remove_property).loading(LoadedArguments::First),
];

fn coalesce(context: &mut WdlContext, arguments: &[WdlNode]) -> WdlResult {
    for argument in arguments {
        let value = eval(argument, context)?;
        if !value.is_null() {
            return Ok(value);
        }
    }
    Ok(Value::Null)
}

fn object_at<'a>(function: &str, arguments: &'a [Value]) -> Result<&'a Arc<Map>, EvalError> {
    match &arguments[0] {
        Value::Map(map) => Ok(map),
        _ => Err(wrong_argument(function, arguments, 0, "an object")),
    }
}

fn copy_with_room(context: &mut WdlContext, map: &Map) -> Result<Map, EvalError> {
    context.reserve_items(map.len() + 1)?;
    Ok(map.clone())
}

fn add_property(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (map, name) = (object_at("addProperty", arguments)?, text_at("addProperty", arguments, 1)?);
    if map.contains_key(name) {
        return Err(type_error(format!("`addProperty`: the object has a property `{name}` already"))
            .with_hint("setProperty(…) replaces a value"));
    }
    let mut map = copy_with_room(context, map)?;
    map.insert(name, arguments[2].clone());
    Ok(Value::map(map))
}

fn set_property(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (map, name) = (object_at("setProperty", arguments)?, text_at("setProperty", arguments, 1)?);
    let mut map = copy_with_room(context, map)?;
    map.insert(name, arguments[2].clone());
    Ok(Value::map(map))
}

/// Removes a property. A missing property is not an error.
fn remove_property(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (map, name) = (object_at("removeProperty", arguments)?, text_at("removeProperty", arguments, 1)?);
    if !map.contains_key(name) {
        return Ok(arguments[0].clone());
    }
    let mut map = copy_with_room(context, map)?;
    map.remove(name);
    Ok(Value::map(map))
}
