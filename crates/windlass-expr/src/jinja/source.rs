//! References of a source tree, for dialects that check names before anything runs.

use std::ops::Range;
use std::sync::Arc;

use windlass_value::{PathPart, Value};

use super::MAX_TREE_DEPTH;
use super::path::JinjaStep;
use super::text::lower_text;

/// A name that a template uses, with the literal properties and items that follow it.
#[derive(Clone, Debug, PartialEq)]
pub struct JinjaReference {
    pub name: Arc<str>,
    pub path: Vec<PathPart>,
    /// Whether the template handles a missing value.
    pub guarded: bool,
    /// The location in the source tree.
    pub pointer: Vec<PathPart>,
    /// The byte range in that string.
    pub range: Range<usize>,
}

/// Returns every name once for each way it is used in a text. Names that a template binds itself are not included,
/// nor are names in a text that is not a template.
pub fn references(source: &Value) -> Vec<JinjaReference> {
    let mut found = Vec::new();
    walk(source, &mut Vec::new(), &mut found);
    found
}

fn walk(source: &Value, pointer: &mut Vec<PathPart>, found: &mut Vec<JinjaReference>) {
    if pointer.len() > MAX_TREE_DEPTH {
        return;
    }
    match source {
        Value::Str(text) => collect_from_text(text, pointer, found),
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push(PathPart::Index(index));
                walk(item, pointer, found);
                pointer.pop();
            }
        }
        Value::Map(map) => {
            for (key, item) in map.iter() {
                pointer.push(PathPart::Key(key.clone()));
                collect_from_text(key, pointer, found);
                walk(item, pointer, found);
                pointer.pop();
            }
        }
        _ => {}
    }
}

fn collect_from_text(text: &str, pointer: &[PathPart], found: &mut Vec<JinjaReference>) {
    let Ok(lowering) = lower_text(text) else { return };
    for written in lowering.paths {
        let step = |step: &JinjaStep| match step {
            JinjaStep::Key(key) => PathPart::Key(key.clone()),
            JinjaStep::Index(index) => {
                usize::try_from(*index).map_or(PathPart::Key(index.to_string().into()), PathPart::Index)
            }
        };
        found.push(JinjaReference {
            path: written.path.steps.iter().map(step).collect(),
            name: written.path.name,
            guarded: written.guarded,
            pointer: pointer.to_vec(),
            range: written.range,
        });
    }
}
