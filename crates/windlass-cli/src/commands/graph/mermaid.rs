//! Mermaid, for pages that draw it themselves.

use super::drawing::{Drawing, Item, Shape};

pub fn write(drawing: &Drawing) -> String {
    let mut text = "flowchart TD\n".to_owned();
    drawing.items.iter().for_each(|item| write_item(item, 1, &mut text));
    for arrow in &drawing.arrows {
        let label = if arrow.label.is_empty() { String::new() } else { format!("|\"{}\"|", escaped(&arrow.label)) };
        text.push_str(&format!("  {} -->{label} {}\n", arrow.from, arrow.to));
    }
    text
}

fn write_item(item: &Item, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let label = match item.detail.is_empty() {
        true => escaped(&item.title),
        false => format!("{}<br/>{}", escaped(&item.title), escaped(&item.detail)),
    };
    match item.shape {
        Shape::Plain => text.push_str(&format!("{indent}{}[\"{label}\"]\n", item.id)),
        Shape::Choice => text.push_str(&format!("{indent}{}{{\"{label}\"}}\n", item.id)),
        Shape::Group => {
            text.push_str(&format!("{indent}subgraph {}[\"{label}\"]\n", item.id));
            item.items.iter().for_each(|item| write_item(item, depth + 1, text));
            text.push_str(&format!("{indent}end\n"));
        }
    }
}

/// Labels are quoted; within quotes Mermaid reads entities, written with `#` instead of `&`.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, letter| {
        match letter {
            '#' => out.push_str("#35;"),
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            other => out.push(other),
        }
        out
    })
}
