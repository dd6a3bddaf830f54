//! The compiler terminates quickly with a diagnostic for any input, and never panics.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use windlass_core::Limits;
use windlass_loom::{ActivityTarget, LoomActivity, LoomOptions, compile, compile_tree, recognise};
use windlass_syntax::{Colour, Diagnostics, ParseLimits, SourceText, Span, SyntaxNode, SyntaxNodeKind, parse_json};

fn options() -> LoomOptions {
    let activity = |name: &str, target| LoomActivity { name: name.to_owned(), target };
    LoomOptions {
        tools: vec!["http".into(), "echo".into(), "model".into()],
        activities: vec![
            activity("search", ActivityTarget::Tool),
            activity("archive", ActivityTarget::Workflow("child".into())),
        ],
        ..LoomOptions::default()
    }
}

fn first_problem(text: &str) -> String {
    let source = SourceText::new("big.json", text);
    let problems = compile(&source, &options()).expect_err("refused");
    problems.iter().next().unwrap().message.clone()
}

fn tree(text: &str) -> SyntaxNode {
    let mut problems = Diagnostics::new();
    let limits = ParseLimits { bytes: 1 << 20, depth: 64 };
    parse_json(&SourceText::new("t", text), limits, &mut problems).unwrap()
}

#[test]
fn ten_thousand_levels_are_refused() {
    let nested = r#"{"type":"scope","actions":{"a":"#.repeat(10_000);
    assert_eq!(first_problem(&nested), "the file nests deeper than 64");
    let calls = format!("{}1{}", "not(".repeat(1_000), ")".repeat(1_000));
    let text = format!(r#"{{"type":"compose","inputs":"@{calls}"}}"#);
    assert!(first_problem(&text).contains("deeper"));
}

#[test]
fn large_files_are_refused() {
    let text = format!(r#"{{"actions":{{"a":{{"type":"compose","inputs":"{}"}}}}}}"#, "x".repeat(2 << 20));
    assert!(first_problem(&text).contains("the maximum of 1048576"));
}

#[test]
fn too_many_actions_are_refused_once_and_quickly() {
    let actions: Vec<String> =
        (0..20_000).map(|n| format!(r#""a{n}":{{"type":"compose","runAfter":{{"b":[]}}}}"#)).collect();
    let text = format!(r#"{{"actions":{{{}}}}}"#, actions.join(","));
    let source = SourceText::new("many.json", text);
    let problems = compile(&source, &options()).expect_err("refused");
    let over = problems.iter().filter(|problem| problem.message.contains("more than 500 actions")).count();
    assert_eq!(over, 1);
    assert!(problems.render(&source, Colour::Always).len() < 10_000_000);
}

#[test]
fn a_flood_of_problems_on_one_line_is_truncated() {
    let bad = r#""@body('absent')","#.repeat(50_000);
    let source = SourceText::new("flood.json", format!(r#"{{"type":"compose","inputs":[{bad}0]}}"#));
    let problems = compile(&source, &options()).expect_err("refused");
    assert_eq!((problems.len(), problems.omitted()), (1_000, 49_000));
    let first = problems.render(&source, Colour::Never);
    assert!(first.starts_with("error[WND-1112]: there is no action `absent`\n"), "{}", &first[..200]);
    assert!(first.contains(" --> flood.json:1:36\n") && first.len() < 1_000_000, "{}", &first[..500]);
    assert!(first.ends_with("and 49000 more"));
}

#[test]
fn limits_come_from_the_options() {
    let text = r#"{"type":"until","condition":"false","actions":{},"limit":{"count":11,"timeout":"PT2M"}}"#;
    let limits =
        Limits { max_loop_iterations: 10, max_loop_time: windlass_value::Duration::from_secs(60), ..Limits::default() };
    let source = SourceText::new("t.json", text);
    let problems = compile(&source, &LoomOptions { limits, ..options() }).expect_err("refused");
    let hints: Vec<_> = problems.iter().map(|problem| problem.hint.clone().unwrap_or_default()).collect();
    assert!(hints[0].contains("max_loop_iterations") && hints[1].contains("max_loop_time"), "{hints:?}");
}

#[test]
fn definitions_are_recognised() {
    for text in [
        r#"{"definition":{"actions":{}}}"#,
        r#"{"actions":{}}"#,
        r#"{"triggers":{}}"#,
        r#"{"type":"Until"}"#,
        r#"{"type":"untill","condition":"x"}"#,
        r#"{"Until":{"type":"Until"}}"#,
        r#"{"$schema":"https://example.test"}"#,
    ] {
        assert!(recognise(&tree(text)), "{text}");
    }
    for text in ["[]", "{}", "5", r#"{"steps":[]}"#, r#"{"name":"x","type":"playbook"}"#] {
        assert!(!recognise(&tree(text)), "{text}");
    }
}

/// Replaces every part of every valid definition by an odd value.
#[test]
fn odd_values_anywhere_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/ok");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let (source, whole) = (SourceText::new("t.json", text.as_str()), tree(&text));
        let texts = ["", "@", "@{", "@@", "@nothing()", "@variables('')", "PT", "é"];
        let mut odds = vec![
            SyntaxNodeKind::Null,
            SyntaxNodeKind::Number((-1i64).into()),
            SyntaxNodeKind::List(Vec::new()),
            SyntaxNodeKind::Map(Vec::new()),
        ];
        odds.extend(texts.map(|text| SyntaxNode::text(text, Span::default()).kind));
        // Each position gets some of them, its neighbours get others.
        for index in 0..count(&whole) {
            for odd in odds.iter().cycle().skip(index * 5 % odds.len()).step_by(3).take(4) {
                check_answer(&source, &replace_node(&whole, &mut { index }, odd));
            }
        }
    }
}

fn check_answer(source: &SourceText, changed: &SyntaxNode) {
    if let Err(problems) = compile_tree(source, changed, Diagnostics::new(), &options()) {
        assert!(problems.has_errors());
        assert!(!problems.render(source, Colour::Never).is_empty());
    }
}

fn count(node: &SyntaxNode) -> usize {
    1 + match &node.kind {
        SyntaxNodeKind::List(items) => items.iter().map(count).sum(),
        SyntaxNodeKind::Map(entries) => entries.iter().map(|(_, node)| count(node)).sum::<usize>(),
        _ => 0,
    }
}

/// Returns the tree with its n-th node replaced.
fn replace_node(node: &SyntaxNode, index: &mut usize, odd: &SyntaxNodeKind) -> SyntaxNode {
    if *index == 0 {
        *index = usize::MAX;
        return SyntaxNode::new(node.span, odd.clone());
    }
    *index = index.saturating_sub(usize::from(*index != usize::MAX));
    let kind = match &node.kind {
        SyntaxNodeKind::List(items) => {
            SyntaxNodeKind::List(items.iter().map(|item| replace_node(item, index, odd)).collect())
        }
        SyntaxNodeKind::Map(entries) => SyntaxNodeKind::Map(
            entries.iter().map(|(key, item)| (key.clone(), replace_node(item, index, odd))).collect(),
        ),
        other => other.clone(),
    };
    SyntaxNode::new(node.span, kind)
}
