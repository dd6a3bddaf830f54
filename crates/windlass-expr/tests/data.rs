//! The data operations end to end: locations of problems, and the cost of many items.

use crate::common;

use common::{MockScope, json};
use windlass_expr::wdl::languages;
use windlass_value::{CompileError, EvalErrorKind, Expression, ExpressionMode, Meter, PathPart, Value};

fn compile(name: &str, source: &Value) -> Result<Box<dyn Expression>, Vec<CompileError>> {
    let language = languages().into_iter().find(|one| one.name() == name).expect("a language of that name");
    language.compile(source, ExpressionMode::Value)
}

fn error_location(name: &str, source: &str) -> String {
    let errors = compile(name, &json(source)).err().expect("errors");
    let steps = errors[0].pointer.iter().map(|part| match part {
        PathPart::Key(key) => format!("/{key}"),
        PathPart::Index(index) => format!("/{index}"),
    });
    steps.collect()
}

#[test]
fn language_names_are_unique() {
    let mut names: Vec<&str> = languages().iter().map(|language| language.name()).collect();
    assert_eq!(names[0], "wdl");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["wdl", "wdl.join", "wdl.parse", "wdl.query", "wdl.select", "wdl.table"]);
}

#[test]
fn problems_are_reported_with_their_location() {
    assert_eq!(error_location("wdl.query", r#"{"from": [1], "were": "@true", "where": true}"#), "/were");
    assert_eq!(error_location("wdl.query", r#"{"from": ["@nope()"], "where": true}"#), "/from/0");
    assert_eq!(error_location("wdl.query", r#"{"from": "x", "where": true}"#), "/from");
    assert_eq!(
        error_location("wdl.query", r#"{"from": [1], "where": {"and": [true, {"grater": [1, 2]}]}}"#),
        "/where/and/1/grater"
    );
    assert_eq!(error_location("wdl.select", r#"{"from": [1], "select": {"a": {"b": "@nope()"}}}"#), "/select/a/b");
    let source = r#"{"from": [], "format": "CSV", "columns": [{"value": 1}, {"value": "@nope()"}]}"#;
    assert_eq!(error_location("wdl.table", source), "/columns/1/value");
    assert_eq!(
        error_location("wdl.table", r#"{"from": [], "format": "CSV", "columns": [{"header": "x"}]}"#),
        "/columns/0"
    );
    assert_eq!(error_location("wdl.parse", r#"{"content": 1}"#), "");
    let source = r#"{"content": 1, "schema": {"properties": {"a/b": {"type": "intger"}}}}"#;
    assert_eq!(error_location("wdl.parse", source), "/schema/properties/a/b/type");
    let source = r#"{"content": 1, "schema": {"anyOf": [{}, {"minLength": -1}]}}"#;
    assert_eq!(error_location("wdl.parse", source), "/schema/anyOf/1/minLength");
}

#[test]
fn content_rejected_by_the_schema_has_its_own_error_kind() {
    let kind = |source: &str| {
        let expression = compile("wdl.parse", &json(source)).unwrap_or_else(|errors| panic!("{errors:?}"));
        expression.eval(&MockScope::new(), &mut Meter::new(10_000, 1_000_000)).expect_err(source).kind
    };
    assert_eq!(kind(r#"{"content": "@item()", "schema": {"type": "array"}}"#), EvalErrorKind::Invalid);
    assert_eq!(kind(r#"{"content": "{", "schema": {}}"#), EvalErrorKind::Type);
    assert_eq!(kind(r#"{"content": "@variables('nothing')", "schema": {}}"#), EvalErrorKind::Type);
}

#[test]
fn fuel_is_spent_for_each_item() {
    let source = json(r#"{"from": "@range(0, 1000)", "where": "@greater(item(), 500)"}"#);
    let expression = compile("wdl.query", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut enough = Meter::new(10_000, 1_000_000);
    expression.eval(&MockScope::new(), &mut enough).expect("enough fuel");
    let spent = 10_000 - enough.fuel;
    assert!((2_000..8_000).contains(&spent), "{spent}");
    let error = expression.eval(&MockScope::new(), &mut Meter::new(1_500, 1_000_000)).expect_err("too little");
    assert_eq!(error.kind, EvalErrorKind::Limit);
}

/// The stored object counts a thousand bytes; reading one property of it must not be charged by its size.
#[test]
fn lookup_cost_is_independent_of_the_stored_size() {
    let source = json(r#"{"from": "@range(0, 1000)", "where": "@equals(body('large')?['city'], item())"}"#);
    let expression = compile("wdl.query", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut meter = Meter::new(100_000, 1_000_000);
    expression.eval(&MockScope::new(), &mut meter).expect("a value");
    let spent = 100_000 - meter.fuel;
    assert!(spent < 14_000, "{spent}");
}

#[test]
fn all_missing_blobs_are_requested_together() {
    let source = json(r#"{"from": ["absent", "stored"], "select": "@first(variables(item()))"}"#);
    let expression = compile("wdl.select", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let error = expression.eval(&MockScope::new(), &mut Meter::new(10_000, 10_000)).expect_err("a blob is missing");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 1));
    let source = json(r#"{"from": ["absent", "stored"], "where": "@empty(variables(item()))"}"#);
    let expression = compile("wdl.query", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert!(expression.eval(&MockScope::new(), &mut Meter::new(10_000, 10_000)).is_ok());
}

/// The default limits must suffice for as many items as a loop may have.
#[test]
fn a_hundred_thousand_items_are_within_the_limits() {
    let cases = [
        ("wdl.query", r#"{"from": "@range(0, 100000)", "where": "@and(greater(item(), 10), less(item(), 90000))"}"#),
        (
            "wdl.select",
            r#"{"from": "@range(0, 100000)", "select": {"a": "@item()", "b": "<@{item()}>", "c": "@add(item(), 1)"}}"#,
        ),
        ("wdl.join", r#"{"from": "@range(0, 100000)", "joinWith": ","}"#),
        (
            "wdl.table",
            r#"{"from": "@range(0, 100000)", "format": "CSV", "columns": [{"header": "n", "value": "@item()"}]}"#,
        ),
    ];
    for (name, source) in cases {
        let expression = compile(name, &json(source)).unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut meter = Meter::new(10_000_000, 104_857_600);
        expression.eval(&MockScope::new(), &mut meter).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        println!("{name}: {} steps", 10_000_000 - meter.fuel);
    }
}

/// A validation that is not known to be small is rejected before it starts, with the same message each time.
#[test]
fn no_schema_exceeds_the_limits() {
    let checked = |fuel: u64, schema: &str, content: String| {
        let source = json(&format!(r#"{{"content": {content}, "schema": {schema}}}"#));
        let expression = compile("wdl.parse", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut results = (0..2).map(|_| expression.eval(&MockScope::new(), &mut Meter::new(fuel, 104_857_600)));
        let (first, second) = (results.next().expect("one"), results.next().expect("two"));
        let error_message = |result: Result<Value, windlass_value::EvalError>| {
            result.map_or_else(|error| (Some(error.kind), error.message.to_string()), |_| (None, String::new()))
        };
        let first = error_message(first);
        assert_eq!(first, error_message(second));
        first
    };
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let twice = |keyword: &str| {
        format!(r##"{{"type": "array", "{keyword}": [{{"items": {{"$ref": "#"}}}}, {{"items": {{"$ref": "#"}}}}]}}"##)
    };
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let (kind, message) = checked(100_000, &twice(keyword), nested(3));
        assert_eq!(kind, Some(EvalErrorKind::Invalid), "{keyword}: {message}");
        assert!(!message.contains("too large to report"), "{message}");
        let (kind, message) = checked(2_000_000, &twice(keyword), nested(16));
        assert_eq!(kind, Some(EvalErrorKind::Invalid), "{keyword}: {message}");
        assert!(message.contains("too large to report"), "{message}");
        for depth in [20, 60, 100] {
            let (kind, message) = checked(100_000, &twice(keyword), nested(depth));
            assert_eq!(kind, Some(EvalErrorKind::Limit), "{keyword} {depth}: {message}");
        }
    }
    // Two references to the same schema count twice, also without recursion.
    let rows =
        (0..40).map(|n| format!(r##""d{n}": {{"allOf": [{{"$ref": "#/d{}"}}, {{"$ref": "#/d{}"}}]}}"##, n + 1, n + 1));
    let rows = rows.collect::<Vec<_>>().join(", ");
    let (kind, message) =
        checked(100_000, &format!(r##"{{"$ref": "#/d0", {rows}, "d40": {{"type": "string"}}}}"##), "1".to_owned());
    assert_eq!(kind, Some(EvalErrorKind::Limit), "{message}");
    // Many branches over many items.
    let branches = (0..300).map(|n| format!(r#"{{"const": "c{n}"}}"#)).collect::<Vec<_>>().join(", ");
    let schema = format!(r#"{{"items": {{"anyOf": [{branches}]}}}}"#);
    let items = |count: usize| format!("[{}]", vec!["7"; count].join(","));
    assert_eq!(checked(1_000_000, &schema, items(20_000)).0, Some(EvalErrorKind::Limit));
    let (kind, message) = checked(1_000_000, &schema, items(1_000));
    assert_eq!((kind, message.contains("too large to report")), (Some(EvalErrorKind::Invalid), true), "{message}");
    let (_, message) = checked(1_000_000, &schema, items(100));
    assert!(message.contains("/0: found number 7"), "{message}");
}
