//! Guarantees of the parser: strict JSON, exact positions, hints for common mistakes, no panics.

#![allow(clippy::unwrap_used)]

use windlass_syntax::{Colour, Diagnostics, ParseLimits, SourceText, SyntaxNode, SyntaxNodeKind, parse_json, to_value};
use windlass_value::to_json;

const LIMITS: ParseLimits = ParseLimits { bytes: 1 << 20, depth: 64 };

fn parse(text: &str) -> Result<SyntaxNode, (usize, usize, String, String)> {
    let source = SourceText::new("test.json", text);
    let mut diagnostics = Diagnostics::new();
    let node = parse_json(&source, LIMITS, &mut diagnostics);
    match (node, diagnostics.iter().next()) {
        (Some(node), None) => Ok(node),
        (_, Some(problem)) => {
            let place = source.position(problem.span.start);
            Err((place.line, place.column, problem.message.clone(), problem.hint.clone().unwrap_or_default()))
        }
        (None, None) => panic!("no tree and no problem for {text:?}"),
    }
}

#[test]
fn valid_json_reads_as_it_stands() {
    for text in [
        r#"{"a":[1,-2.5,true,false,null,"x"],"b":{}}"#,
        "[]",
        "0",
        "-0.5",
        r#""""#,
        r#"[{"deep":[[[{}]]]}]"#,
        "123456789012345678901234567890",
    ] {
        assert_eq!(to_json(&to_value(&parse(text).unwrap())), text);
    }
    assert_eq!(to_json(&to_value(&parse("\u{feff} {\"a\" : 1e2}\r\n").unwrap())), r#"{"a":100.0}"#);
    assert_eq!(to_json(&to_value(&parse(r#""\u00e9\n\ud83d\ude00\/""#).unwrap())), "\"é\\n😀/\"");
}

#[test]
fn typos_are_reported_at_their_position() {
    let table = [
        ("", 1, 1, "the file is empty", "begins with"),
        ("  \n ", 2, 2, "the file is empty", "begins with"),
        ("{\"a\": 1,}", 1, 8, "a comma with nothing after it", "remove"),
        ("[1,\n2,\n]", 2, 2, "a comma with nothing after it", "remove"),
        ("{'a': 1}", 1, 2, "a key must be in double quotes", "\"key\""),
        ("{a: 1}", 1, 2, "a key must be in double quotes", "\"a\""),
        ("{\"a\": 'b'}", 1, 7, "texts are in double quotes", "'text'"),
        ("{\"a\": b}", 1, 7, "`b` is not a value", "\"b\""),
        ("{\"a\": True}", 1, 7, "`True` is not a value", "lower case: true"),
        ("{\"a\": None}", 1, 7, "`None` is not a value", "write null"),
        ("{\n  // note\n}", 2, 3, "expected a key in double quotes, found `/`", "no comments"),
        ("{\"a\": 1 /* x */}", 1, 9, "expected `,` or `}`, found `/`", "no comments"),
        ("{\"a\": {\"b\": 1}", 1, 15, "the file ends inside `{`", "missing `}`"),
        ("[1, 2", 1, 6, "the file ends inside `[`", "missing `]`"),
        ("{\"a\" 1}", 1, 6, "expected `:` after the key, found `1`", "separated"),
        ("{\"a\": 1 \"b\": 2}", 1, 9, "expected `,` or `}`, found `\"`", "comma is missing"),
        ("{\"a\": [1}", 1, 9, "expected `,` or `]`, found `}`", "does not match"),
        ("{\"a\": }", 1, 7, "a value is missing before `}`", "null"),
        ("{\"a\": \"b\n\"}", 1, 7, "the text is not closed", "missing"),
        ("{\"a\": \"\\x\"}", 1, 8, "`\\x` is not a valid escape", "backslash"),
        ("\"\\ud800\"", 1, 2, "this is not a Unicode character", "pairs"),
        ("\"\\u12\"", 1, 2, "this is not a Unicode character", "four"),
        ("01", 1, 1, "`01` is not a number", "leading zeros"),
        ("1.", 1, 1, "`1.` is not a number", "written like"),
        ("[5m]", 1, 2, "`5m` is not a number", "double quotes"),
        ("{} {}", 1, 4, "the definition has ended, but more text follows", "one value"),
        ("{}}", 1, 3, "this bracket closes nothing", "remove"),
        ("{\"a\": 1, \"a\": 2}", 1, 10, "the key \"a\" is given twice", "rename"),
        ("{\"é\": é}", 1, 7, "`é` is not a value", "double quotes"),
    ];
    for (text, line, column, message, hint) in table {
        let (at_line, at_column, actual_message, hinted) = parse(text).expect_err(text);
        assert_eq!((at_line, at_column, actual_message.as_str()), (line, column, message), "{text}");
        assert!(hinted.contains(hint), "{text}: {hinted}");
    }
}

#[test]
fn depth_and_size_have_limits() {
    for opening in ["[", "{\"a\":"] {
        let deep = opening.repeat(10_000);
        assert_eq!(parse(&deep).expect_err("deep").2, "the file nests deeper than 64");
    }
    assert!(parse(&format!("{}{}", "[".repeat(64), "]".repeat(64))).is_ok());
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    assert!(parse(&large).expect_err("large").2.contains("the maximum of 1048576"));
}

#[test]
fn spans_account_for_escapes() {
    let text = r#"{"a": "\"\u00e9\n@add(1, x)"}"#;
    let node = parse(text).unwrap();
    let inner = node.get("a").unwrap();
    let SyntaxNodeKind::Str(decoded) = &inner.kind else { panic!("not a text") };
    let start = decoded.text.find('x').unwrap();
    let span = decoded.span_of(start..start + 1, inner.span);
    assert_eq!(&text[span.start..span.end], "x");
    let all = decoded.span_of(0..decoded.text.len(), inner.span);
    assert_eq!(&text[all.start..all.end], r#"\"\u00e9\n@add(1, x)"#);
}

#[test]
fn every_truncation_of_a_file_is_refused_without_a_panic() {
    let text = r#"{"a": ["\u00e9", {"b": -1.5e3, "c": [true, null]}], "d": "x\\y"}"#;
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        assert!(parse(&text[..end]).is_err(), "{}", &text[..end]);
    }
}

#[test]
fn problems_render_with_an_excerpt() {
    let source = SourceText::new("test.json", "{\n  \"a\": 1,\n  \"a\": 2\n}");
    let mut diagnostics = Diagnostics::new();
    parse_json(&source, LIMITS, &mut diagnostics);
    let text = diagnostics.render(&source, Colour::Never);
    assert_eq!(
        text,
        "error[WND-1002]: the key \"a\" is given twice\n \
         --> test.json:3:3\n  |\n2 |   \"a\": 1,\n  |   --- first here\n3 |   \"a\": 2\n  |   ^^^\n  |\n  \
         = help: rename or remove one of them"
    );
    let report = serde_json::to_value(&diagnostics.reports(&source)[0]).unwrap();
    assert_eq!(report["line"], 3);
    assert_eq!(report["end_column"], 6);
    assert_eq!(report["severity"], "error");
}
