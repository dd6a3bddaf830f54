//! Detects workflows of this dialect, valid or not.

use windlass_syntax::{SyntaxNode, SyntaxNodeKind};

const TOP: [&str; 8] = ["name", "description", "version", "agents", "includes", "steps", "options", "x-windlass"];
/// Top-level keys that only other formats have.
const FOREIGN: [&str; 11] = [
    "apiVersion",
    "kind",
    "workflow",
    "workbook",
    "actions",
    "definition",
    "triggers",
    "type",
    "jobs",
    "on",
    "services",
];
const STEP: [&str; 6] = ["id", "agent", "instructions", "dependsOn", "include", "loop"];

/// Returns whether a tree looks like a workflow of agents. Top-level keys of other formats exclude it.
pub fn recognise(tree: &SyntaxNode) -> bool {
    let Some(entries) = tree.as_map() else { return false };
    let has = |name: &str| entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node);
    if is_foreign(tree) {
        return false;
    }
    let is_step = |node: &SyntaxNode| {
        STEP.iter().any(|name| node.as_map().is_some_and(|step| step.iter().any(|(key, _)| key.text == *name)))
    };
    let steps = has("steps").is_some_and(|steps| match &steps.kind {
        SyntaxNodeKind::List(items) => items.is_empty() || items.iter().any(is_step),
        _ => has("name").is_some(),
    });
    let agents = has("agents").is_some_and(|agents| agents.as_map().is_some());
    let only = !entries.is_empty() && entries.iter().all(|(key, _)| TOP.contains(&key.text.as_str()));
    steps || (agents && has("name").is_some()) || (only && has("name").is_some())
}

/// Returns whether a tree has top-level keys that only other formats have.
pub(crate) fn is_foreign(tree: &SyntaxNode) -> bool {
    tree.as_map().is_some_and(|entries| entries.iter().any(|(key, _)| FOREIGN.contains(&key.text.as_str())))
}
