//! DOT, for Graphviz.

use super::drawing::{Drawing, Item, Shape};

pub fn write(drawing: &Drawing) -> String {
    let mut text = format!("digraph {} {{\n  compound=true;\n  node [shape=box];\n", quoted(&drawing.title));
    drawing.items.iter().for_each(|item| write_item(item, 1, &mut text));
    for arrow in &drawing.arrows {
        let (from, to) = (end(drawing, &arrow.from), end(drawing, &arrow.to));
        let mut attributes = Vec::new();
        if from != arrow.from {
            attributes.push(format!("ltail=cluster_{}", arrow.from));
        }
        if to != arrow.to {
            attributes.push(format!("lhead=cluster_{}", arrow.to));
        }
        if !arrow.label.is_empty() {
            attributes.push(format!("label={}", quoted(&arrow.label)));
        }
        let attributes = if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        text.push_str(&format!("  {from} -> {to}{attributes};\n"));
    }
    text + "}\n"
}

fn write_item(item: &Item, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let label = match item.detail.is_empty() {
        true => quoted(&item.title),
        false => quoted(&format!("{}\n{}", item.title, item.detail)),
    };
    match item.shape {
        Shape::Plain => text.push_str(&format!("{indent}{} [label={label}];\n", item.id)),
        Shape::Choice => text.push_str(&format!("{indent}{} [label={label}, shape=diamond];\n", item.id)),
        Shape::Group => {
            text.push_str(&format!("{indent}subgraph cluster_{} {{\n{indent}  label={label};\n", item.id));
            // Arrows cannot end at a cluster, only at something inside it.
            text.push_str(&format!("{indent}  {}_in [shape=point, style=invis];\n", item.id));
            item.items.iter().for_each(|item| write_item(item, depth + 1, text));
            text.push_str(&format!("{indent}}}\n"));
        }
    }
}

fn end(drawing: &Drawing, id: &str) -> String {
    if is_group(&drawing.items, id) { format!("{id}_in") } else { id.to_owned() }
}

fn is_group(items: &[Item], id: &str) -> bool {
    items.iter().any(|item| (item.id == id && item.shape == Shape::Group) || is_group(&item.items, id))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
