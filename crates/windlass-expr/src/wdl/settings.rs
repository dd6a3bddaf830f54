//! `appsetting('name')`: in the values of parameters it is replaced before the parameters are used; elsewhere it
//! reads a parameter that no author can declare.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_value::{PathPart, Value};

use super::compile::WdlCompiler;
use super::node::WdlNode;
use super::source::{MAX_TREE_DEPTH, WdlReference, calls};

const KEY: &str = "appsetting:";

/// Returns the name of the parameter that holds an app setting.
pub fn setting_key(name: &str) -> String {
    format!("{KEY}{name}")
}

pub(crate) fn is_setting_key(name: &str) -> bool {
    name.starts_with(KEY)
}

/// Substitutes every setting that the value refers to: `@appsetting('x')` as a whole, `@{appsetting('x')}` inside a
/// text, or within calls of functions that need nothing else. All missing settings are reported together. Everything
/// else in the value is left unchanged.
pub fn with_settings(value: &Value, settings: &BTreeMap<String, String>) -> Result<Value, Vec<WdlReference>> {
    let mut missing = Vec::new();
    let replaced = replace(value, &Arc::new(settings.clone()), &mut Vec::new(), &mut missing);
    if missing.is_empty() { Ok(replaced) } else { Err(missing) }
}

fn replace(
    value: &Value,
    settings: &Arc<BTreeMap<String, String>>,
    pointer: &mut Vec<PathPart>,
    missing: &mut Vec<WdlReference>,
) -> Value {
    if pointer.len() > MAX_TREE_DEPTH {
        return value.clone();
    }
    let mut inside = |part: PathPart, item: &Value| {
        pointer.push(part);
        let item = replace(item, settings, pointer, missing);
        pointer.pop();
        item
    };
    match value {
        Value::Str(text) if calls(text, "appsetting") => {
            let mut compiler = WdlCompiler::with_settings(settings.clone());
            let node = compiler.tree(value);
            missing.extend(
                compiler.missing_settings.into_iter().map(|name| WdlReference { pointer: pointer.clone(), ..name }),
            );
            match node {
                WdlNode::Constant(constant) if compiler.errors.is_empty() => constant,
                _ => value.clone(),
            }
        }
        Value::List(items) => {
            let each = items.iter().enumerate();
            Value::list(each.map(|(index, item)| inside(PathPart::Index(index), item)).collect())
        }
        Value::Map(map) => {
            let each = map.iter();
            Value::map(each.map(|(key, item)| (key.clone(), inside(PathPart::Key(key.clone()), item))).collect())
        }
        other => other.clone(),
    }
}
