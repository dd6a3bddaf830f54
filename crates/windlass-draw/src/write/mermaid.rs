//! Mermaid output, for pages that render it themselves.

use crate::model::{ActivityState, Drawing, DrawingItem, ItemShape};
use crate::text;

pub(crate) fn write(drawing: &Drawing) -> String {
    let mut text = "flowchart TD\n".to_owned();
    for (at, note) in drawing.notes.iter().enumerate() {
        text.push_str(&format!("  note{at}[\"{}\"]:::note\n", escaped(note)));
    }
    drawing.items.iter().for_each(|item| write_item(item, 1, &mut text));
    for arrow in &drawing.arrows {
        let label = if arrow.label.is_empty() { String::new() } else { format!("|\"{}\"|", escaped(&arrow.label)) };
        let line = if arrow.is_dashed() { "-.->" } else { "-->" };
        text.push_str(&format!("  {} {line}{label} {}\n", arrow.from, arrow.to));
    }
    write_classes(drawing, &mut text);
    text
}

fn write_item(item: &DrawingItem, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let label = item.label_lines().iter().map(|line| escaped(line)).collect::<Vec<_>>().join("<br/>");
    match item.shape {
        ItemShape::Plain => text.push_str(&format!("{indent}{}[\"{label}\"]\n", item.id)),
        ItemShape::Choice => text.push_str(&format!("{indent}{}{{\"{label}\"}}\n", item.id)),
        ItemShape::Event(_) => text.push_str(&format!("{indent}{}([\"{label}\"])\n", item.id)),
        ItemShape::Outside => text.push_str(&format!("{indent}{}((\"{label}\"))\n", item.id)),
        ItemShape::Group => {
            text.push_str(&format!("{indent}subgraph {}[\"{label}\"]\n", item.id));
            item.items.iter().for_each(|item| write_item(item, depth + 1, text));
            text.push_str(&format!("{indent}end\n"));
        }
    }
}

/// Writes colours only for states that occur: the drawing of a plan has none.
fn write_classes(drawing: &Drawing, text: &mut String) {
    let items = drawing.all_items();
    for state in ActivityState::ALL {
        let of_state = |item: &&&DrawingItem| item.activity.as_ref().is_some_and(|passage| passage.state == state);
        let ids: Vec<&str> = items.iter().filter(of_state).map(|item| item.id.as_str()).collect();
        if !ids.is_empty() {
            let ((fill, line), name) = (state.colours(), state.as_str());
            text.push_str(&format!("  classDef {name} fill:{fill},stroke:{line},color:#222\n"));
            text.push_str(&format!("  class {} {name}\n", ids.join(",")));
        }
    }
    if !drawing.notes.is_empty() {
        text.push_str("  classDef note fill:#fffbe6,stroke:#bba94a,color:#222\n");
    }
}

/// Escapes a label. Within quotes Mermaid interprets entities, written with `#` instead of `&`.
///
/// Besides the characters that end a label, `%%` could begin a directive, a backtick a text with markup, a
/// backslash a new line and `$$` a formula.
fn escaped(text: &str) -> String {
    text::one_line(text).chars().fold(String::new(), |mut out, letter| {
        match letter {
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '#' | '%' | '`' | '\\' | '$' => out.push_str(&format!("#{};", letter as u32)),
            other => out.push(other),
        }
        out
    })
}
