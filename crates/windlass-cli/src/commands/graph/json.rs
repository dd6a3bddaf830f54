//! JSON, for programs.

use windlass_core::Status;
use windlass_value::{Map, Value};

use super::drawing::{Arrow, Drawing, Item};

pub fn value(drawing: &Drawing) -> Value {
    let mut nodes = Vec::new();
    drawing.items.iter().for_each(|item| add_item(item, None, &mut nodes));
    let edges = drawing.arrows.iter().map(edge).collect();
    Value::object([("nodes", Value::list(nodes)), ("edges", Value::list(edges))])
}

fn add_item(item: &Item, parent: Option<&str>, into: &mut Vec<Value>) {
    into.push(Value::object([
        ("id", Value::from(item.id.as_str())),
        ("name", Value::from(item.title.as_str())),
        ("kind", Value::from(item.kind.as_str())),
        ("parent", Value::from(parent.map(str::to_owned))),
    ]));
    item.items.iter().for_each(|inner| add_item(inner, Some(&item.id), into));
}

/// What comes out of a choice waits for no status, but has a condition.
fn edge(arrow: &Arrow) -> Value {
    let statuses =
        arrow.accepts.iter().flat_map(|accepts| accepts.iter()).map(|status| Value::from(Status::as_str(status)));
    let mut map = Map::new();
    map.insert("from", arrow.from.as_str());
    map.insert("to", arrow.to.as_str());
    map.insert("statuses", Value::list(statuses.collect()));
    if arrow.accepts.is_none() && !arrow.label.is_empty() {
        map.insert("when", arrow.label.as_str());
    }
    Value::map(map)
}
