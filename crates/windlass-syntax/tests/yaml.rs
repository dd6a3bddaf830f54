//! Each case is a file: `yaml/ok/*.yaml` with the expected tree next to it, `yaml/bad/*.yaml` with the expected
//! diagnostics. The scalar rules are `Core` where the file's name ends with `_core`, all rules are those of Go
//! where it ends with `_go`, else `Yaml11`. `UPDATE=1 cargo test` writes the actual output; then review the
//! difference.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use windlass_syntax::{
    Colour, Diagnostics, ParseLimits, ScalarRules, SourceText, Span, SpannedText, SyntaxNode, SyntaxNodeKind,
    YamlRules, parse_json, parse_yaml, to_value,
};
use windlass_value::to_json;

const LIMITS: ParseLimits = ParseLimits { bytes: 1 << 20, depth: 64 };

fn cases(folder: &str) -> Vec<(PathBuf, SourceText)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/yaml").join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = SourceText::new(name, fs::read_to_string(&path).unwrap());
        (path, source)
    };
    paths.into_iter().map(read).collect()
}

fn rules(path: &Path) -> YamlRules {
    let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
    match stem.rsplit('_').next() {
        Some("core") => ScalarRules::Core.into(),
        Some("go") => YamlRules::GO,
        _ => ScalarRules::Yaml11.into(),
    }
}

fn check(path: &Path, actual: &str, failures: &mut Vec<String>) {
    let expected_path = path.with_extension("txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&expected_path, actual).unwrap();
    }
    let expected = fs::read_to_string(&expected_path).unwrap_or_default();
    if expected != actual {
        failures.push(format!("{}\n--- expected\n{expected}\n--- actual\n{actual}", path.display()));
    }
}

fn parse(source: &SourceText, rules: impl Into<YamlRules>) -> (Option<SyntaxNode>, Diagnostics) {
    let mut diagnostics = Diagnostics::new();
    let node = parse_yaml(source, LIMITS, rules, &mut diagnostics);
    (node, diagnostics)
}

fn format_position(source: &SourceText, span: Span) -> String {
    let (start, end) = (source.position(span.start), source.position(span.end));
    format!("{}:{}-{}:{}", start.line, start.column, end.line, end.column)
}

fn show(node: &SyntaxNode, source: &SourceText, name: &str, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let what = match &node.kind {
        SyntaxNodeKind::List(items) => format!("list of {}", items.len()),
        SyntaxNodeKind::Map(entries) => format!("object of {}", entries.len()),
        _ => to_json(&to_value(node)),
    };
    writeln!(out, "{indent}{name}{what}  {}", format_position(source, node.span)).unwrap();
    match &node.kind {
        SyntaxNodeKind::List(items) => items.iter().for_each(|item| show(item, source, "- ", depth + 1, out)),
        SyntaxNodeKind::Map(entries) => {
            for (key, item) in entries {
                show(item, source, &format!("{} ({}): ", key.text, format_position(source, key.span)), depth + 1, out);
            }
        }
        _ => {}
    }
}

fn texts<'a>(node: &'a SyntaxNode, found: &mut Vec<(&'a SpannedText, Span)>) {
    match &node.kind {
        SyntaxNodeKind::Str(text) => found.push((text, node.span)),
        SyntaxNodeKind::List(items) => items.iter().for_each(|item| texts(item, found)),
        SyntaxNodeKind::Map(entries) => entries.iter().for_each(|(_, item)| texts(item, found)),
        _ => {}
    }
}

#[test]
fn valid_files_parse_to_their_trees() {
    let mut failures = Vec::new();
    for (path, source) in cases("ok") {
        let (node, diagnostics) = parse(&source, rules(&path));
        let mut text = String::new();
        match node {
            Some(node) if diagnostics.is_empty() => show(&node, &source, "", 0, &mut text),
            _ => failures.push(format!("{}:\n{}", path.display(), diagnostics.render(&source, Colour::Never))),
        }
        check(&path, &text, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn invalid_files_are_refused_with_their_diagnostics() {
    let mut failures = Vec::new();
    for (path, source) in cases("bad") {
        let (_, diagnostics) = parse(&source, rules(&path));
        assert!(diagnostics.has_errors(), "{} is read", path.display());
        for problem in diagnostics.iter() {
            assert!(problem.hint.is_some(), "{}: {} has no hint", path.display(), problem.message);
            assert!(problem.span.end <= source.text.len(), "{}", path.display());
        }
        check(&path, &(diagnostics.render(&source, Colour::Never) + "\n"), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn go_rules_read_only_the_first_document() {
    let source = SourceText::new("two.yaml", "name: first\n---\nname: second\n: [ this is not even read\n");
    let (node, diagnostics) = parse(&source, YamlRules::GO);
    assert_eq!(to_json(&to_value(&node.unwrap())), r#"{"name":"first"}"#);
    assert!(!diagnostics.has_errors());
    assert_eq!(diagnostics.reports(&source)[0].line, 2);
}

/// Every letter and digit of a text is found in the file, in any notation.
#[test]
fn texts_map_back_to_their_file_positions() {
    let mut letters = 0;
    for (path, source) in cases("ok") {
        let (node, _) = parse(&source, rules(&path));
        let node = node.unwrap();
        let mut found = Vec::new();
        texts(&node, &mut found);
        for (text, whole) in found {
            for (at, letter) in text.text.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()) {
                let span = text.span_of(at..at + 1, whole);
                let written = &source.text[span.start..span.end];
                // The character of an escape is not in the file itself; its position is that of the escape.
                if !written.starts_with('\\') {
                    assert_eq!(written, letter.to_string(), "{} {:?} at {at}", path.display(), text.text);
                }
                letters += 1;
            }
        }
    }
    assert!(letters > 500, "{letters}");
}

/// A JSON file is a YAML file, with the same values and the same positions.
#[test]
fn json_is_yaml() {
    let text = r#"{"a": [1, -2.5, "x\ny", null, true], "b": {"c": {}, "d": []}, "e": 12345678901234567890}"#;
    let source = SourceText::new("a.json", text);
    let json = parse_json(&source, LIMITS, &mut Diagnostics::new()).unwrap();
    let yaml = parse(&source, ScalarRules::Core).0.unwrap();
    let (mut a, mut b) = (String::new(), String::new());
    show(&json, &source, "", 0, &mut a);
    show(&yaml, &source, "", 0, &mut b);
    assert_eq!(a, b);
}

#[test]
fn limits_hold() {
    let render = |text: String, limits: ParseLimits| {
        let source = SourceText::new("a.yaml", text);
        let mut diagnostics = Diagnostics::new();
        assert!(parse_yaml(&source, limits, ScalarRules::Yaml11, &mut diagnostics).is_none());
        diagnostics.render(&source, Colour::Never)
    };
    assert!(render("[".repeat(65) + &"]".repeat(65), LIMITS).contains("nests deeper than 64"));
    let deep: String = (0..100).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(render(deep, LIMITS).contains("nests deeper than 64"));
    assert!(render("[".repeat(100_000), ParseLimits { depth: 1 << 30, ..LIMITS }).contains("error[WND-10"));
    assert!(render("a: 1\n".repeat(9), ParseLimits { bytes: 20, ..LIMITS }).contains("the maximum of 20 bytes"));
}

/// A deterministic pseudo-random generator.
struct Generator(u64);

impl Generator {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Files with letters changed, removed and inserted: parsing never panics, and every reported position is in the
/// file.
#[test]
fn nothing_panics_on_any_text() {
    let parts = [
        "{{",
        "}}",
        "{%",
        "- ",
        ": ",
        ":",
        "\n",
        "\n  ",
        "'",
        "\"",
        "\\",
        "|",
        ">",
        "|2\n",
        ">-\n",
        "#",
        "&a",
        "*a",
        "!!int ",
        "!x ",
        "<<",
        "? ",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "\t",
        "ä",
        "😀",
        "\r\n",
        "[",
        "]",
        "{",
        "}",
        ",",
        "0x",
        "1e",
        "\u{feff}",
        "\0",
        "\\u",
        "\\x4",
        "~",
        "@",
        "`",
        "\u{85}",
        "\u{2028}",
    ];
    let sources: Vec<String> =
        ["ok", "bad"].iter().flat_map(|folder| cases(folder)).map(|(_, source)| source.text.to_string()).collect();
    let mut generator = Generator(3);
    let mut read = 0;
    for round in 0..30_000 {
        let mut text: Vec<char> = sources[round % sources.len()].chars().take(400).collect();
        for _ in 0..1 + generator.next(6) {
            let at = generator.next(text.len() + 1);
            match generator.next(3) {
                0 => drop(text.drain(at..(at + generator.next(5)).min(text.len()))),
                _ => drop(text.splice(at..at, parts[generator.next(parts.len())].chars())),
            }
        }
        let text: String = text.into_iter().collect();
        let source = SourceText::new("any.yaml", text);
        let rules: YamlRules = [ScalarRules::Yaml11.into(), ScalarRules::Core.into(), YamlRules::GO][round % 3];
        let (node, diagnostics) = parse(&source, rules);
        assert!(node.is_some() || diagnostics.has_errors());
        diagnostics.render(&source, Colour::Never);
        if let Some(node) = node {
            read += 1;
            assert_spans_inside(&node, &source);
        }
    }
    assert!(read > 2_000, "{read}");
}

fn assert_spans_inside(node: &SyntaxNode, source: &SourceText) {
    assert!(source.text.get(node.span.start..node.span.end).is_some(), "{:?}", node.span);
    match &node.kind {
        SyntaxNodeKind::Str(text) => {
            for (at, letter) in text.text.char_indices() {
                let span = text.span_of(at..at + letter.len_utf8(), node.span);
                assert!(span.start >= node.span.start && span.end <= node.span.end);
            }
        }
        SyntaxNodeKind::List(items) => items.iter().for_each(|item| assert_spans_inside(item, source)),
        SyntaxNodeKind::Map(entries) => {
            for (key, item) in entries {
                assert!(source.text.get(key.span.start..key.span.end).is_some());
                assert_spans_inside(item, source);
            }
        }
        _ => {}
    }
}
