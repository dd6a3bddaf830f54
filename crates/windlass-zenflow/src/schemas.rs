//! JSON Schema 2020-12: validates result schemas. The only module that uses the `jsonschema` crate.

use jsonschema::{Draft, PatternOptions, ValidationError};
use serde_json::Value as Json;
use windlass_syntax::{Diagnostic, Diagnostics, Span, SyntaxNode, SyntaxNodeKind, to_value};
use windlass_value::{schema_width, to_json};

use crate::codes;

/// The backtracking limit of one regular expression.
const MAX_PATTERN_STEPS: usize = 100_000;
/// The maximum length of a reported problem.
const MAX_MESSAGE_CHARS: usize = 160;

/// Checks a schema in a file.
pub(crate) fn check(node: &SyntaxNode, found: &mut Diagnostics) {
    let value = to_value(node);
    if let Err(problem) = schema_width(&value) {
        let message = format!("this JSON Schema is too large: {problem}");
        let hint = "validation would take too long; let fewer alternatives refer to the same definition";
        found.push(Diagnostic::error(codes::RESULT_SCHEMA, node.span, message).with_hint(hint));
        return;
    }
    let Ok(mut schema) = serde_json::from_str::<Json>(&to_json(&value)) else { return };
    // The draft is fixed, whatever `$schema` says.
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
    }
    let before = found.len();
    for error in jsonschema::draft202012::meta::validator().iter_errors(&schema) {
        report(node, &error, found);
    }
    if found.len() > before {
        return;
    }
    let options = jsonschema::options()
        .offline()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(MAX_PATTERN_STEPS));
    if let Err(error) = options.build(&schema) {
        report(node, &error, found);
    }
    check_is_object(node, found);
}

fn report(node: &SyntaxNode, error: &ValidationError, found: &mut Diagnostics) {
    let mut message: String = error.to_string();
    if message.chars().count() > MAX_MESSAGE_CHARS {
        message = message.chars().take(MAX_MESSAGE_CHARS).chain(['…']).collect();
    }
    let pointer = error.instance_path().to_string();
    let span = span_at_pointer(node, &pointer);
    let problem = Diagnostic::error(codes::RESULT_SCHEMA, span, format!("this is not a valid JSON Schema: {message}"));
    let hint = match pointer.rsplit('/').next() {
        Some("type") => "types are `array`, `boolean`, `integer`, `null`, `number`, `object`, `string`",
        _ => "`resultSchema` is JSON Schema 2020-12; references can only point into the schema itself",
    };
    found.push(problem.with_hint(hint));
}

/// Requires the type `object`: a result is submitted as the arguments of a call, which are always an object.
fn check_is_object(node: &SyntaxNode, found: &mut Diagnostics) {
    let Some(types) = node.get("type") else { return };
    let names =
        types.as_list().map_or_else(|| vec![types.as_str()], |list| list.iter().map(SyntaxNode::as_str).collect());
    if !names.contains(&Some("object")) {
        let problem = Diagnostic::error(codes::RESULT_SCHEMA, types.span, "a result is always an object");
        found.push(problem.with_hint("write `type: object` and put the value into one of its `properties`"));
    }
}

/// Returns the location of a JSON pointer: a value, or the key of a value with children.
fn span_at_pointer(node: &SyntaxNode, pointer: &str) -> Span {
    let (mut at, mut key) = (node, None);
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let below = match &at.kind {
            SyntaxNodeKind::Map(entries) => {
                entries.iter().find(|(entry, _)| entry.text == step).map(|(entry, node)| (Some(entry.span), node))
            }
            SyntaxNodeKind::List(items) => {
                step.parse().ok().and_then(|index: usize| items.get(index)).map(|node| (None, node))
            }
            _ => None,
        };
        let Some((entry, node)) = below else { break };
        (key, at) = (entry, node);
    }
    match &at.kind {
        SyntaxNodeKind::Map(_) | SyntaxNodeKind::List(_) => key.unwrap_or(at.span),
        _ => at.span,
    }
}
