//! The event reference, the JSON Schema and the web UI's types match the declaration of the enum.
//! `UPDATE=1 cargo test -p windlass-core --test event_reference` regenerates them.

#![allow(clippy::unwrap_used)]

mod markdown;
mod schema;
mod typescript;

use std::fs;
use std::path::Path;

use windlass_core::FieldShape;

/// Joins lines of documentation into one text.
fn lines(docs: &[&str]) -> String {
    docs.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Returns the object shapes inside events, each once, in order of first use.
fn objects() -> Vec<&'static windlass_core::ObjectShape> {
    fn add(shape: FieldShape, found: &mut Vec<&'static windlass_core::ObjectShape>) {
        match shape {
            FieldShape::List(inner) | FieldShape::OrNull(inner) => add(*inner, found),
            FieldShape::Object(object) if found.iter().all(|one| one.name != object.name) => {
                found.push(object);
                object.fields.iter().for_each(|field| add(field.shape, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    let fields = windlass_core::EventKind::DOCS.iter().flat_map(|docs| docs.fields);
    fields.for_each(|field| add(field.shape, &mut found));
    found
}

fn check(path: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, expected).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == expected,
        "{path} is not what the event types declare: UPDATE=1 cargo test -p windlass-core --test event_reference"
    );
}

#[test]
fn the_reference_matches_the_declared_types() {
    check("docs/events.md", &markdown::reference());
}

#[test]
fn the_schema_matches_the_declared_types() {
    check("docs/events.schema.json", &format!("{}\n", windlass_value::to_json_pretty(&schema::event_schema())));
}

#[test]
fn the_web_ui_types_match_the_declared_types() {
    check("ui/src/api/events.ts", &typescript::types());
}
