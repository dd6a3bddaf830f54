//! DOT, for Graphviz.

use std::collections::BTreeSet;

use crate::model::{Drawing, DrawingItem, ItemShape};
use crate::text;

pub(crate) fn write(drawing: &Drawing) -> String {
    let mut text = format!("digraph {} {{\n  compound=true;\n  node [shape=box];\n", quoted([&drawing.title]));
    if !drawing.notes.is_empty() {
        text.push_str(&format!("  labelloc=t;\n  label={};\n", quoted(&drawing.notes)));
    }
    drawing.items.iter().for_each(|item| write_item(item, 1, &mut text));
    let groups: BTreeSet<&str> =
        drawing.all_items().iter().filter(|item| item.shape == ItemShape::Group).map(|item| item.id.as_str()).collect();
    for arrow in &drawing.arrows {
        let mut attributes = Vec::new();
        let mut end = |id: &str, name: &str| match groups.contains(id) {
            true => {
                attributes.push(format!("{name}=cluster_{id}"));
                format!("{id}_in")
            }
            false => id.to_owned(),
        };
        let (from, to) = (end(&arrow.from, "ltail"), end(&arrow.to, "lhead"));
        if !arrow.label.is_empty() {
            attributes.push(format!("label={}", quoted([&arrow.label])));
        }
        if arrow.is_dashed() {
            attributes.push("style=dashed".to_owned());
        }
        let attributes = if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        text.push_str(&format!("  {from} -> {to}{attributes};\n"));
    }
    text + "}\n"
}

fn write_item(item: &DrawingItem, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let label = quoted(item.label_lines());
    let state = item.activity.as_ref().map(|passage| passage.state);
    let filled = state.map(|state| {
        let (fill, line) = state.colours();
        format!("fillcolor={}, color={}", quoted([fill]), quoted([line]))
    });
    let mut attributes = vec![format!("label={label}")];
    let mut styles = Vec::new();
    match item.shape {
        ItemShape::Group => return write_group(item, depth, &label, filled, text),
        ItemShape::Plain => {}
        ItemShape::Choice => attributes.push("shape=diamond".to_owned()),
        ItemShape::Event(_) => styles.push("rounded"),
        ItemShape::Outside => attributes.push("shape=ellipse".to_owned()),
    }
    if filled.is_some() {
        styles.push("filled");
    }
    if !styles.is_empty() {
        attributes.push(format!("style={}", quoted([styles.join(",")])));
    }
    attributes.extend(filled);
    text.push_str(&format!("{indent}{} [{}];\n", item.id, attributes.join(", ")));
}

fn write_group(item: &DrawingItem, depth: usize, label: &str, filled: Option<String>, text: &mut String) {
    let indent = "  ".repeat(depth);
    text.push_str(&format!("{indent}subgraph cluster_{} {{\n{indent}  label={label};\n", item.id));
    if let Some(filled) = filled {
        text.push_str(&format!("{indent}  style=filled; {};\n", filled.replace(", ", "; ")));
    }
    // Arrows cannot end at a cluster, only at a node inside it.
    text.push_str(&format!("{indent}  {}_in [shape=point, style=invis];\n", item.id));
    item.items.iter().for_each(|item| write_item(item, depth + 1, text));
    text.push_str(&format!("{indent}}}\n"));
}

/// Quotes lines as one text. Graphviz interprets entities even in quotes, and a backslash before some letters.
fn quoted<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> String {
    let escaped = |line: T| {
        let line = text::one_line(line.as_ref());
        line.replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;")
    };
    format!("\"{}\"", lines.into_iter().map(escaped).collect::<Vec<_>>().join("\\n"))
}
