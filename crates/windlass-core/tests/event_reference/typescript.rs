//! `ui/src/api/events.ts`

use std::fmt::Write;

use windlass_core::{EventKind, FieldDoc, FieldShape};

use super::{lines, objects};

const HEAD: &str =
    "// Written by `UPDATE=1 cargo test -p windlass-core --test event_reference` from the event types of windlass-core.

/** A value of a run: any JSON, or a reference `{ref: …}` to one that is too large to travel. */
export type EventValue = unknown;

interface Fixed<Type extends string> {
  seq: number;
  at: string;
  type: Type;
  path: string;
  workflowId?: string;
}
";

pub(crate) fn types() -> String {
    let mut text = HEAD.to_owned();
    for object in objects() {
        write!(text, "\n/** {} */\nexport interface {} {{\n", lines(object.docs), object.name).unwrap();
        fields(&mut text, object.fields);
        if object.open {
            text.push_str("  [more: string]: EventValue;\n");
        }
        text.push_str("}\n");
    }
    let mut names = Vec::new();
    for docs in EventKind::DOCS {
        let name = interface(docs.type_name);
        write!(
            text,
            "\n/** {} */\nexport interface {name} extends Fixed<\"{}\"> {{\n",
            lines(docs.docs),
            docs.type_name
        )
        .unwrap();
        fields(&mut text, docs.fields);
        text.push_str("}\n");
        names.push(name);
    }
    text.push_str("\n/** An event of a type that the engine defines. */\nexport type EngineEvent =\n");
    writeln!(text, "  | {};", names.join("\n  | ")).unwrap();
    text.push_str(
        "\n/** The names of the types that the engine defines. */\nexport type EventType = EngineEvent[\"type\"];\n",
    );
    text.push_str("\n/** The event of a type. */\nexport type EventOf<Type extends EventType> = Extract<EngineEvent, { type: Type }>;\n");
    text
}

fn fields(text: &mut String, fields: &[FieldDoc]) {
    for field in fields {
        let optional = if field.optional { "?" } else { "" };
        let docs = lines(field.docs);
        write!(text, "  /** {docs} */\n  {}{optional}: {};\n", field.name, shape(field.shape)).unwrap();
    }
}

/// Returns the interface name of an event type: `LoopIterationDone` for `loop.iteration.done`.
fn interface(type_name: &str) -> String {
    let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
    let words: String = type_name.split(['.', '_']).map(upper).collect();
    format!("{words}Event")
}

fn shape(shape_of: FieldShape) -> String {
    match shape_of {
        FieldShape::Bool => "boolean".to_owned(),
        FieldShape::Integer | FieldShape::Milliseconds => "number".to_owned(),
        FieldShape::Text | FieldShape::Time => "string".to_owned(),
        FieldShape::OneOf(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | "),
        FieldShape::List(inner) => format!("{}[]", shape(*inner)),
        FieldShape::OrNull(inner) => format!("{} | null", shape(*inner)),
        FieldShape::Object(object) => object.name.to_owned(),
        _ => "EventValue".to_owned(),
    }
}
