//! JSON and YAML.

use windlass_syntax::{
    Colour, Diagnostics, ParseLimits, ScalarRules, SourceText, SyntaxNode, SyntaxNodeKind, YamlRules, parse_json,
    parse_yaml, to_value,
};
use windlass_value::{check_json, to_json};

use super::text;

const LIMITS: ParseLimits = ParseLimits { bytes: 1 << 16, depth: 32 };

/// A value that is written and parsed again is the same; the parser of definitions and that of values agree.
pub(crate) fn json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let value = windlass_value::parse_json(text);
    if let Ok(value) = &value {
        // Whatever it finds, it must end.
        let _ = check_json(text);
        let written = to_json(value);
        let again = windlass_value::parse_json(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(to_json(&again), written, "{text}");
    }
    let source = SourceText::new("fuzz", text);
    let mut found = Diagnostics::new();
    if let Some(tree) = parse_json(&source, LIMITS, &mut found) {
        check_tree(&tree, text, LIMITS.depth);
        let has_mark = text.starts_with('\u{feff}');
        if !found.has_errors() && !has_mark {
            let value =
                value.unwrap_or_else(|error| panic!("a definition may be {text:?}, and a value may not: {error}"));
            assert_eq!(to_json(&to_value(&tree)), to_json(&value));
        }
    }
    found.render(&source, Colour::Never);
}

/// The tree of a file is within the limits, and its spans are within the file.
pub(crate) fn yaml(data: &[u8]) {
    let Some((variant, text)) = text(data) else { return };
    let rules = [YamlRules::GO, ScalarRules::Go.into(), ScalarRules::Yaml11.into(), ScalarRules::Core.into()];
    let source = SourceText::new("fuzz", text);
    let parse = || {
        let mut found = Diagnostics::new();
        let tree = parse_yaml(&source, LIMITS, rules[usize::from(variant) % rules.len()], &mut found);
        (tree, found.render(&source, Colour::Never))
    };
    let (tree, problems) = parse();
    if let Some(tree) = &tree {
        let nodes = check_tree(tree, text, LIMITS.depth);
        assert!(nodes <= LIMITS.bytes, "{nodes} nodes");
    }
    let (again, same) = parse();
    assert_eq!(problems, same);
    assert_eq!(tree.as_ref().map(to_value), again.as_ref().map(to_value));
}

/// Checks spans and depth, and returns the number of nodes.
fn check_tree(node: &SyntaxNode, text: &str, depth: usize) -> usize {
    assert!(depth > 0 || matches!(node.kind, SyntaxNodeKind::Null) || is_leaf(node), "the tree is too deep");
    assert!(text.get(node.span.start..node.span.end).is_some(), "{:?} of {} bytes", node.span, text.len());
    let below = depth.saturating_sub(1);
    match &node.kind {
        SyntaxNodeKind::List(items) => 1 + items.iter().map(|item| check_tree(item, text, below)).sum::<usize>(),
        SyntaxNodeKind::Map(entries) => {
            1 + entries.iter().map(|(_, item)| check_tree(item, text, below)).sum::<usize>()
        }
        _ => 1,
    }
}

fn is_leaf(node: &SyntaxNode) -> bool {
    !matches!(node.kind, SyntaxNodeKind::List(_) | SyntaxNodeKind::Map(_))
}
