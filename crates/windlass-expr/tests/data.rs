//! The data operations as a whole: places of problems, and what many items cost.

mod common;

use common::{MockScope, json};
use windlass_expr::wdl::languages;
use windlass_value::{CompileError, EvalErrorKind, Expression, Meter, Mode, PathPart, Value};

fn compile(name: &str, source: &Value) -> Result<Box<dyn Expression>, Vec<CompileError>> {
    let language = languages().into_iter().find(|one| one.name() == name).expect("a language of that name");
    language.compile(source, Mode::Value)
}

fn place(name: &str, source: &str) -> String {
    let errors = compile(name, &json(source)).err().expect("errors");
    let steps = errors[0].pointer.iter().map(|part| match part {
        PathPart::Key(key) => format!("/{key}"),
        PathPart::Index(index) => format!("/{index}"),
    });
    steps.collect()
}

#[test]
fn every_language_has_a_name_of_its_own() {
    let mut names: Vec<&str> = languages().iter().map(|language| language.name()).collect();
    assert_eq!(names[0], "wdl");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["wdl", "wdl.join", "wdl.parse", "wdl.query", "wdl.select", "wdl.table"]);
}

#[test]
fn problems_are_told_with_their_place() {
    assert_eq!(place("wdl.query", r#"{"from": [1], "were": "@true", "where": true}"#), "/were");
    assert_eq!(place("wdl.query", r#"{"from": ["@nope()"], "where": true}"#), "/from/0");
    assert_eq!(place("wdl.query", r#"{"from": "x", "where": true}"#), "/from");
    assert_eq!(
        place("wdl.query", r#"{"from": [1], "where": {"and": [true, {"grater": [1, 2]}]}}"#),
        "/where/and/1/grater"
    );
    assert_eq!(place("wdl.select", r#"{"from": [1], "select": {"a": {"b": "@nope()"}}}"#), "/select/a/b");
    let source = r#"{"from": [], "format": "CSV", "columns": [{"value": 1}, {"value": "@nope()"}]}"#;
    assert_eq!(place("wdl.table", source), "/columns/1/value");
    assert_eq!(place("wdl.table", r#"{"from": [], "format": "CSV", "columns": [{"header": "x"}]}"#), "/columns/0");
    assert_eq!(place("wdl.parse", r#"{"content": 1}"#), "");
    let source = r#"{"content": 1, "schema": {"properties": {"a/b": {"type": "intger"}}}}"#;
    assert_eq!(place("wdl.parse", source), "/schema/properties/a/b/type");
    let source = r#"{"content": 1, "schema": {"anyOf": [{}, {"minLength": -1}]}}"#;
    assert_eq!(place("wdl.parse", source), "/schema/anyOf/1/minLength");
}

#[test]
fn content_that_the_schema_refuses_is_told_apart() {
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

/// The stored object counts a thousand bytes; asking it for one property must not be paid by its size.
#[test]
fn looking_into_a_stored_value_costs_the_same_however_large_it_is() {
    let source = json(r#"{"from": "@range(0, 1000)", "where": "@equals(body('large')?['city'], item())"}"#);
    let expression = compile("wdl.query", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut meter = Meter::new(100_000, 1_000_000);
    expression.eval(&MockScope::new(), &mut meter).expect("a value");
    let spent = 100_000 - meter.fuel;
    assert!(spent < 14_000, "{spent}");
}

#[test]
fn all_stored_values_are_asked_for_at_once() {
    let source = json(r#"{"from": ["absent", "stored"], "select": "@first(variables(item()))"}"#);
    let expression = compile("wdl.select", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let error = expression.eval(&MockScope::new(), &mut Meter::new(10_000, 10_000)).expect_err("a blob is missing");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 1));
    let source = json(r#"{"from": ["absent", "stored"], "where": "@empty(variables(item()))"}"#);
    let expression = compile("wdl.query", &source).unwrap_or_else(|errors| panic!("{errors:?}"));
    assert!(expression.eval(&MockScope::new(), &mut Meter::new(10_000, 10_000)).is_ok());
}

/// The defaults must be enough for as many items as a loop may have.
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
