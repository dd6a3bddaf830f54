//! Values that no expression reads, one line per case.

#![allow(clippy::unwrap_used)]

use windlass_loom::{LoomOptions, compile};
use windlass_syntax::{Colour, SourceText};

/// Returns the names of the actions that the compiler reports as unused.
fn unused(text: &str) -> Vec<String> {
    let source = SourceText::new("t.json", text);
    let options = LoomOptions { tools: vec!["http".into(), "model".into()], ..LoomOptions::default() };
    let compiled = compile(&source, &options).map_err(|problems| problems.render(&source, Colour::Never)).unwrap();
    let warnings = compiled.warnings.iter().filter(|problem| problem.code == "WND-1198");
    warnings.map(|problem| problem.message.split('`').nth(1).unwrap().to_owned()).collect()
}

/// A workflow with explicit outputs only.
fn closed(actions: &str) -> String {
    format!(r#"{{"actions": {{{actions}}}, "outputs": {{"done": true}}}}"#)
}

const READ: &str = r#""read": {"type": "http", "uri": "https://x", "body": "#;

#[test]
fn unused_values_are_reported() {
    let after = |names: &str| format!(r#""runAfter": {{{names}}}"#);
    let ok = |name: &str| after(&format!(r#""{name}": ["Succeeded"]"#));
    let table: Vec<(String, &[&str])> = vec![
        // The run's default output contains the outputs of all actions, at any depth.
        (r#"{"actions": {"a": {"type": "compose", "inputs": 1}}}"#.into(), &[]),
        (r#"{"type": "foreach", "foreach": [1], "actions": {"a": {"type": "compose", "inputs": 1}}}"#.into(), &[]),
        (r#"{"actions": {"s": {"type": "scope", "actions": {"a": {"type": "compose", "inputs": 1}}}}}"#.into(), &[]),
        // Empty outputs, as designers write them, do not change that.
        (r#"{"actions": {"a": {"type": "compose", "inputs": 1}}, "outputs": {}}"#.into(), &[]),
        // With explicit outputs, the run's output contains only those.
        (closed(r#""a": {"type": "compose", "inputs": 1}"#), &["a"]),
        (closed(r#""a": {"type": "parseJson", "inputs": {"content": "{}"}}"#), &["a"]),
        (closed(r#""a": {"type": "query", "inputs": {"from": [1], "where": true}}"#), &["a"]),
        (closed(r#""a": {"type": "select", "inputs": {"from": [1], "select": 1}}"#), &["a"]),
        (closed(r#""a": {"type": "join", "inputs": {"from": [1], "joinWith": ""}}"#), &["a"]),
        (closed(r#""a": {"type": "table", "inputs": {"from": [1], "format": "CSV"}}"#), &["a"]),
        (r#"{"actions": {"a": {"type": "compose", "inputs": 1}, "b": {"type": "compose", "inputs": 1}}, "outputs": {"x": "@outputs('A')"}}"#.into(), &["b"]),
        // Actions with an effect are used for their effect.
        (closed(r#""a": {"type": "http", "uri": "https://x"}, "w": {"type": "wait", "interval": "PT1S"}"#), &[]),
        (closed(r#""a": {"type": "initializeVariable", "inputs": {"variables": [{"name": "v", "value": 1}]}}"#), &[]),
        // Named by an expression, anywhere and in any way.
        (closed(&format!(r#""a": {{"type": "compose", "inputs": 1}}, {READ} "@outputs('a')", {}}}"#, ok("a"))), &[]),
        (closed(&format!(r#""a": {{"type": "compose", "inputs": 1}}, {READ} "x @{{body('a')}}", {}}}"#, ok("a"))), &[]),
        (closed(&format!(r#""a": {{"type": "compose", "inputs": 1}}, {READ} "@actions('a').status", {}}}"#, ok("a"))), &[]),
        (closed(&format!(r#""a": {{"type": "compose", "inputs": 1}}, {READ} "@triggerBody()", {}}}"#, ok("a"))), &["a"]),
        // A computed name may refer to any of them.
        (closed(&format!(r#""a": {{"type": "compose", "inputs": 1}}, {READ} "@outputs(triggerBody())"}}"#)), &[]),
        // Part of an output that is read.
        (closed(&format!(r#""s": {{"type": "scope", "actions": {{"a": {{"type": "compose", "inputs": 1}}}}}}, {READ} "@outputs('s')", {}}}"#, ok("s"))), &[]),
        (closed(&format!(r#""s": {{"type": "scope", "actions": {{"a": {{"type": "compose", "inputs": 1}}}}}}, {READ} "@result('s')", {}}}"#, ok("s"))), &[]),
        (closed(r#""s": {"type": "scope", "actions": {"a": {"type": "compose", "inputs": 1}}}"#), &["a"]),
        (closed(&format!(r#""l": {{"type": "foreach", "foreach": [1], "actions": {{"a": {{"type": "compose", "inputs": 1}}}}}}, {READ} "@body('l')", {}}}"#, ok("l"))), &[]),
        (closed(&format!(r#""i": {{"type": "if", "expression": true, "actions": {{"a": {{"type": "compose", "inputs": 1}}}}, "else": {{"actions": {{"b": {{"type": "compose", "inputs": 1}}}}}}}}, {READ} "@body('i')", {}}}"#, ok("i"))), &[]),
        (closed(&format!(r#""r": {{"type": "retry", "action": {{"type": "compose", "name": "a", "inputs": 1}}}}, {READ} "@body('r')", {}}}"#, ok("r"))), &[]),
        // Read from outside of its loop.
        (closed(&format!(r#""l": {{"type": "foreach", "foreach": [1], "actions": {{"a": {{"type": "compose", "inputs": 1}}, "b": {{"type": "compose", "inputs": 1}}}}}}, {READ} "@outputs('a')", {}}}"#, ok("l"))), &["b"]),
        // A loop's condition, its results and its records read its body.
        (closed(r#""l": {"type": "until", "condition": "@equals(outputs('a'), 1)", "actions": {"a": {"type": "compose", "inputs": 1}}}"#), &[]),
        (closed(r#""l": {"type": "until", "condition": "@equals(variables('loopResult')?.a, 1)", "actions": {"a": {"type": "compose", "inputs": 1}}}"#), &[]),
        (closed(r#""l": {"type": "until", "condition": "@equals(variables('loopIndex'), 1)", "actions": {"a": {"type": "compose", "inputs": 1}}}"#), &["a"]),
        (closed(r#""l": {"type": "until", "condition": "@equals(variables('loopIndex'), 1)", "actions": {"a": {"type": "compose", "inputs": 1}, "m": {"type": "until", "condition": "@equals(variables('l_loopResult'), 1)", "actions": {"b": {"type": "compose", "inputs": 1}}}}}"#), &[]),
        (closed(r#""l": {"type": "until", "condition": "@equals(variables('loopIndex'), 1)", "actions": {"a": {"type": "compose", "inputs": 1}, "m": {"type": "until", "condition": "@equals(variables('loopResult'), 1)", "actions": {"b": {"type": "compose", "inputs": 1}}}}}"#), &["a"]),
        (closed(r#""l": {"type": "foreach", "foreach": [1], "breakWhen": "@equals(outputs('a'), 1)", "actions": {"a": {"type": "compose", "inputs": 1}}}"#), &[]),
        (closed(r#""l": {"type": "until", "condition": "false", "stall": {"watch": "@outputs('a')", "iterations": 2}, "actions": {"a": {"type": "compose", "inputs": 1}}}"#), &[]),
        // Its purpose is to fail: another action waits for its failure.
        (closed(&format!(r#""a": {{"type": "compose", "inputs": 1}}, {READ} 1, {}}}"#, after(r#""a": ["Failed"]"#))), &[]),
        (closed(&format!(r#""s": {{"type": "scope", "actions": {{"a": {{"type": "parseJson", "content": "{{}}"}}, "c": {{"type": "compose", "inputs": 1}}}}}}, {READ} 1, {}}}"#, after(r#""s": ["Failed"]"#))), &["c"]),
    ];
    for (text, expected) in &table {
        assert_eq!(unused(text), *expected, "{text}");
    }
}
