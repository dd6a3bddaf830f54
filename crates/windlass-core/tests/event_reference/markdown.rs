//! `docs/events.md`

use std::fmt::Write;

use windlass_core::{EventKind, FieldDoc, FieldShape};

use super::{lines, objects};

const HEAD: &str = "# Events

<!-- Written by `UPDATE=1 cargo test -p windlass-core --test event_reference` from crates/windlass-core/src/event/kind.rs. -->

A run reports what happens in it as events: `windlass events RUN --json` prints one JSON object a line, and the HTTP streams
give the same objects. [events.schema.json](events.schema.json) is their JSON Schema; `windlass schema events` prints it.

Every event has these fields:

| field | type | meaning |
|---|---|---|
| `seq` | integer | counts from 1 per run without a gap |
| `at` | time | when it happened |
| `type` | text | one of the types below, or a custom one |
| `path` | text | the step, task or iteration that it is about; empty for the run |
| `workflowId` | text | the run's id |

The fields of the event's type follow. A value over 64 KiB is a reference `{\"ref\": {\"store\", \"key\", \"checksum\", \"size\",
\"schema_hint\"}}`. Fields marked *optional* are omitted when they have no value. A custom event, which a step or a worker
publishes under a name of its choice, has the fields that it was published with.
";

pub(crate) fn reference() -> String {
    let mut text = HEAD.to_owned();
    for docs in EventKind::DOCS {
        write!(text, "\n## `{}`\n\n{}\n", docs.type_name, lines(docs.docs)).unwrap();
        table(&mut text, docs.fields);
    }
    text.push_str("\n# Objects inside events\n");
    for object in objects() {
        write!(text, "\n## {}\n\n{}\n", object.name, lines(object.docs)).unwrap();
        table(&mut text, object.fields);
    }
    text
}

fn table(text: &mut String, fields: &[FieldDoc]) {
    if fields.is_empty() {
        return;
    }
    text.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    for field in fields {
        let optional = if field.optional { ", optional" } else { "" };
        writeln!(text, "| `{}` | {}{optional} | {} |", field.name, shape(field.shape), lines(field.docs)).unwrap();
    }
}

fn shape(shape_of: FieldShape) -> String {
    match shape_of {
        FieldShape::Bool => "boolean".to_owned(),
        FieldShape::Integer => "integer".to_owned(),
        FieldShape::Milliseconds => "integer (ms)".to_owned(),
        FieldShape::Text => "text".to_owned(),
        FieldShape::Time => "time".to_owned(),
        FieldShape::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        FieldShape::List(inner) => format!("list of {}", shape(*inner)),
        FieldShape::OrNull(inner) => format!("{} or null", shape(*inner)),
        FieldShape::Object(object) => format!("[{}](#{})", object.name, object.name.to_lowercase()),
        _ => "any".to_owned(),
    }
}
