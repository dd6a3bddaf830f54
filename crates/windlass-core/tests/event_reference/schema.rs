//! The JSON Schema of events, generated from the declaration of their types.

use windlass_core::{EventDoc, EventKind, FieldDoc, FieldShape, ObjectShape};
use windlass_value::{Map, Value};

use super::lines;

/// Returns one schema for all events: one alternative per engine event type, and one for custom types.
pub(crate) fn event_schema() -> Value {
    let mut defs = Map::new();
    let mut events: Vec<Value> = EventKind::DOCS.iter().map(|docs| event(docs, &mut defs)).collect();
    let names = Value::list(EventKind::TYPES.iter().map(|name| Value::from(*name)).collect());
    let custom = Value::object([("type", Value::from("string")), ("not", Value::object([("enum", names)]))]);
    events.push(object(
        "An event of a custom type, with the fields that a step or a worker gave it.",
        fixed(custom),
        &FIXED,
        true,
    ));
    Value::object([
        ("$schema", Value::from("https://json-schema.org/draft/2020-12/schema")),
        ("title", Value::from("Windlass events")),
        ("description", Value::from("One event, as `windlass events RUN --json` and the HTTP streams give it.")),
        ("anyOf", Value::list(events)),
        ("$defs", Value::map(defs)),
    ])
}

const FIXED: [&str; 4] = ["seq", "at", "type", "path"];

fn event(docs: &EventDoc, defs: &mut Map) -> Value {
    let mut properties = fixed(Value::object([("const", docs.type_name)]));
    let mut required = FIXED.to_vec();
    add_fields(docs.fields, &mut properties, &mut required, defs);
    object(&lines(docs.docs), properties, &required, false)
}

fn fixed(type_name: Value) -> Map {
    let text = |docs: &str| Value::object([("type", "string"), ("description", docs)]);
    let seq = [("type", Value::from("integer")), ("minimum", Value::Int(1))];
    let seq = seq.into_iter().chain([("description", Value::from("Counts from 1 per run without a gap."))]);
    let mut map = Map::new();
    map.insert("seq", Value::object(seq));
    map.insert("at", time("When it happened."));
    map.insert("type", type_name);
    map.insert("path", text("The step, task or iteration that it is about; empty for the run."));
    map.insert("workflowId", text("The run's id."));
    map
}

fn time(docs: &str) -> Value {
    Value::object([("type", "string"), ("format", "date-time"), ("description", docs)])
}

fn object(docs: &str, properties: Map, required: &[&str], open: bool) -> Value {
    let required = required.iter().map(|name| Value::from(*name)).collect();
    Value::object([
        ("description", Value::from(docs)),
        ("type", Value::from("object")),
        ("properties", Value::map(properties)),
        ("required", Value::list(required)),
        ("additionalProperties", Value::Bool(open)),
    ])
}

fn add_fields(fields: &'static [FieldDoc], properties: &mut Map, required: &mut Vec<&'static str>, defs: &mut Map) {
    for field in fields {
        let mut schema = shape(field.shape, defs).as_map().cloned().unwrap_or_default();
        schema.insert("description", lines(field.docs));
        properties.insert(field.name, Value::map(schema));
        if !field.optional {
            required.push(field.name);
        }
    }
}

fn shape(shape_of: FieldShape, defs: &mut Map) -> Value {
    let of_type = |name: &str| Value::object([("type", name)]);
    match shape_of {
        FieldShape::Bool => of_type("boolean"),
        FieldShape::Integer | FieldShape::Milliseconds => {
            Value::object([("type", Value::from("integer")), ("minimum", Value::Int(0))])
        }
        FieldShape::Text => of_type("string"),
        FieldShape::Time => Value::object([("type", "string"), ("format", "date-time")]),
        FieldShape::OneOf(words) => {
            Value::object([("enum", Value::list(words.iter().map(|word| Value::from(*word)).collect()))])
        }
        FieldShape::List(inner) => Value::object([("type", Value::from("array")), ("items", shape(*inner, defs))]),
        FieldShape::OrNull(inner) => {
            Value::object([("anyOf", Value::list(vec![shape(*inner, defs), of_type("null")]))])
        }
        FieldShape::Object(inner) => reference(inner, defs),
        _ => Value::map(Map::new()),
    }
}

fn reference(inner: &'static ObjectShape, defs: &mut Map) -> Value {
    if !defs.contains_key(inner.name) {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        add_fields(inner.fields, &mut properties, &mut required, defs);
        defs.insert(inner.name, object(&lines(inner.docs), properties, &required, inner.open));
    }
    Value::object([("$ref", format!("#/$defs/{}", inner.name))])
}
