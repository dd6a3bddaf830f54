//! Runs the cases of `tests/cases-cel/*.txt`.
//!
//! One case per line: `expression => expected JSON`, or `expression => error: parts of the message`, with ` ~ `
//! between parts that must all occur. The message begins with its kind (`compile:`, `missing:`, `type:`, `limit:`,
//! `blobs:`), followed by the hint in brackets and, for `compile:`, the text at its range in `<…>`. `⏎` is a line
//! break. A line `{…} :: expression => expected` has its own variables, merged over those of the file: `given: {…}`
//! applies to the lines after it, and so does `mode: value|condition|loop|guard`. Variables:
//! - `known`: the ids that may be referred to, default those of `steps`; `loop`, `binds`: as in a source
//! - `steps`: `{id: {status, output}}` of the steps that have ended; `previous`: the variable
//! - `index`, `item`, `previous_result`: of the loop `around`; `parameters`, `input`: of the run
//!
//! A text `@list`, `@chunks`, `@object`, `@text`, `@step`, `@away` in them is a stored value. Lines that begin with
//! `#` are comments.

use std::sync::Arc;

use windlass_expr::cel::{CelLanguage, references};
use windlass_value::{
    BlobHash, CompileError, ContentSummary, EvalError, EvalErrorKind, EvalScope, ExpressionMode, IterationView,
    Language, Level, Map, Meter, NodeView, PathPart, RunView, StoredValue, Timestamp, Value, parse_json, to_json,
};

const NOW: Timestamp = Timestamp(1_794_735_000_125_000);

fn json(text: &str) -> Value {
    parse_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn stored(mark: u8, items: u64, chunked: bool) -> Value {
    Value::Stored(Arc::new(StoredValue {
        hash: BlobHash([mark; 32]),
        size: 1000,
        items,
        chunked,
        summary: ContentSummary::default(),
    }))
}

/// Replaces the names of stored values by the stored values.
fn with_stored(value: &Value) -> Value {
    match value {
        Value::Str(text) => match &**text {
            "@list" => stored(1, 3, false),
            "@chunks" => stored(2, 5, true),
            "@object" => stored(3, 0, false),
            "@text" => stored(6, 0, false),
            "@step" => stored(7, 0, false),
            "@away" => stored(9, 0, false),
            "@gone" => stored(10, 0, false),
            _ => value.clone(),
        },
        Value::List(items) => Value::list(items.iter().map(with_stored).collect()),
        Value::Map(map) => Value::object(map.iter().map(|(key, value)| (key.clone(), with_stored(value)))),
        other => other.clone(),
    }
}

struct TestScope {
    given: Value,
    run: RunView,
}

impl TestScope {
    fn new(given: &Value) -> TestScope {
        let given = with_stored(given);
        let part = |name: &str| given.get(name).cloned().unwrap_or_default();
        let run =
            RunView { input: part("input"), parameters: part("parameters"), ..RunView::new("run-1", "flow", NOW) };
        TestScope { given, run }
    }
}

impl EvalScope for TestScope {
    fn variable(&self, level: Level, name: &str) -> Option<Value> {
        assert_eq!((level, name), (Level::Any, "previous"));
        self.given.get(name).cloned()
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        let steps = self.given.get("steps")?.as_map()?;
        // As in the engine: in any letter case.
        let (name, step) = steps.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        let status = match step.get("status").and_then(Value::as_str).unwrap_or("succeeded") {
            "succeeded" => "succeeded",
            "failed" => "failed",
            "skipped" => "skipped",
            "cancelled" => "cancelled",
            "timed_out" => "timed_out",
            other => panic!("{other}"),
        };
        Some(NodeView {
            name: name.clone(),
            status,
            inputs: Value::Null,
            output: step.get("output").cloned().unwrap_or_default(),
            error: Value::Null,
            attempts: 1,
            started_at: NOW,
            ended_at: NOW,
            iteration_records: Default::default(),
            body_nodes: None,
            usage: Value::Null,
        })
    }

    fn children(&self, _name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn iteration(&self, loop_name: Option<&str>) -> Option<IterationView> {
        let index = self.given.get("index")?.as_int()?;
        loop_name.is_none_or(|name| name == "around").then(|| IterationView {
            loop_name: "around".into(),
            iteration_index: index as u64,
            item: self.given.get("item").cloned().unwrap_or_default(),
            previous: self.given.get("previous_result").cloned().unwrap_or_default(),
            loop_started_at: NOW,
            item_name: None,
            count: None,
            concurrent: false,
        })
    }

    fn run(&self) -> &RunView {
        &self.run
    }

    fn now(&self) -> Timestamp {
        panic!("nothing here reads a clock")
    }

    fn random(&self) -> u64 {
        panic!("nothing here is random")
    }

    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError> {
        let chunk = |mark: u8, items: u64| {
            Value::Stored(Arc::new(StoredValue {
                hash: BlobHash([mark; 32]),
                size: 10,
                items,
                chunked: false,
                summary: ContentSummary::default(),
            }))
        };
        match stored.hash.0[0] {
            1 => Ok(json("[10,20,30]")),
            2 => Ok(Value::list(vec![chunk(4, 3), chunk(5, 2)])),
            3 => Ok(json(r#"{"city":"Paris"}"#)),
            4 => Ok(json("[1,2,3]")),
            5 => Ok(json("[4,5]")),
            6 => Ok(Value::from("a long text")),
            7 => Ok(with_stored(&json(r#"{"content": "@text", "result": {"places": "@list", "of": "@object"}}"#))),
            _ => Err(EvalError::need_blobs(vec![stored.hash])),
        }
    }
}

fn meter() -> Meter {
    Meter::new(1_000_000, 1_000_000)
}

fn source(text: &str, given: &Value) -> Value {
    let of_steps =
        given.get("steps").and_then(Value::as_map).map(|steps| steps.keys().cloned().map(Value::Str).collect());
    let known = given.get("known").cloned().or(of_steps.map(Value::list));
    Value::object([
        ("cel", Value::from(text)),
        ("steps", known.unwrap_or_default()),
        ("loop", given.get("loop").cloned().unwrap_or_default()),
        ("binds", given.get("binds").cloned().unwrap_or_default()),
    ])
}

fn compile_text(errors: &[CompileError], text: &str) -> String {
    let each = errors.iter().map(|error| {
        assert_eq!(error.pointer, [PathPart::Key("cel".into())]);
        let at = text.get(error.range.clone()).unwrap_or_else(|| panic!("{:?} in {text}", error.range));
        format!("compile: {} ({}) <{at}>", error.message, error.hint.as_deref().unwrap_or(""))
    });
    each.collect::<Vec<_>>().join("; ")
}

fn run(text: &str, given: &Value, mode: ExpressionMode) -> Result<Value, String> {
    let expression = CelLanguage.compile(&source(text, given), mode).map_err(|errors| compile_text(&errors, text))?;
    expression.eval(&TestScope::new(given), &mut meter()).map_err(|error| {
        let kind = match error.kind {
            EvalErrorKind::Missing => "missing",
            EvalErrorKind::Type => "type",
            EvalErrorKind::Limit => "limit",
            EvalErrorKind::NeedBlobs => return format!("blobs: {}", error.blobs.len()),
            EvalErrorKind::Invalid => "invalid",
        };
        format!("{kind}: {} ({})", error.message, error.hint.as_deref().unwrap_or(""))
    })
}

struct Case {
    location: String,
    mode: ExpressionMode,
    given: Value,
    text: String,
    expected: String,
}

/// Merges one object over the other.
fn merge(below: &Value, above: &Value) -> Value {
    let mut object: Map = below.as_map().cloned().unwrap_or_default();
    for (key, value) in above.as_map().into_iter().flat_map(Map::iter) {
        object.insert(key.clone(), value.clone());
    }
    Value::map(object)
}

fn all_cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases-cel");
    let entries = std::fs::read_dir(folder).expect("the folder of cases");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let (mut mode, mut given) = (ExpressionMode::Value, Value::Null);
        let text = std::fs::read_to_string(&path).expect("a file of cases");
        for (number, line) in text.lines().enumerate() {
            let location = format!("{}:{}", path.display(), number + 1);
            match line.trim() {
                "" => continue,
                "mode: value" => mode = ExpressionMode::Value,
                "mode: condition" => mode = ExpressionMode::Condition,
                "mode: loop" => mode = ExpressionMode::LoopCondition,
                "mode: guard" => mode = ExpressionMode::Guard,
                comment if comment.starts_with('#') => continue,
                line => match line.strip_prefix("given: ") {
                    Some(object) => given = json(object),
                    None => {
                        let (text, expected) =
                            line.rsplit_once(" => ").unwrap_or_else(|| panic!("{location}: `expression => expected`"));
                        let (own, text) = match text.split_once(" :: ") {
                            Some((own, text)) if own.starts_with('{') => (json(own), text),
                            _ => (Value::Null, text),
                        };
                        let given = merge(&given, &own);
                        let (text, expected) = (text.replace('⏎', "\n"), expected.trim().to_owned());
                        cases.push(Case { location, mode, given, text, expected });
                    }
                },
            }
        }
    }
    cases
}

fn check(case: &Case) -> Result<(), String> {
    match (run(&case.text, &case.given, case.mode), case.expected.strip_prefix("error:")) {
        // The text is compared too: 1 and 1.0 are equal, but not identical.
        (Ok(value), None) if to_json(&value) == to_json(&json(&case.expected)) => Ok(()),
        (Ok(value), _) => Err(format!("gives {}", to_json(&value))),
        (Err(error), Some(parts)) if holds(&error, parts) => Ok(()),
        (Err(error), _) => Err(format!("fails: {error}")),
    }
}

fn holds(error: &str, parts: &str) -> bool {
    let (kind, parts) = parts.trim().split_once(": ").unwrap_or_else(|| panic!("{parts}: a kind, then parts"));
    error.contains(&format!("{kind}: ")) && parts.split(" ~ ").all(|part| error.contains(part))
}

#[test]
fn cases() {
    let cases = all_cases();
    let problem = |case: &Case| {
        let problem = check(case).err()?;
        Some(format!("{}: {} => {}\n    {problem}", case.location, case.text, case.expected))
    };
    let failures: Vec<String> = cases.iter().filter_map(problem).collect();
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(cases.len() >= 400, "only {} cases were found", cases.len());
}

#[test]
fn step_references_have_their_ranges() {
    let steps: Vec<Arc<str>> = ["list-services", "list", "x", "y"].map(Arc::from).to_vec();
    let text =
        r#"steps.list-services.result.n > 0 && steps["x"].status == 'completed' || steps.list-y + steps.y.content-x"#;
    let found = references(text, &steps);
    let shown: Vec<(&str, &str)> = found.steps.iter().map(|name| (&*name.id, &text[name.range.clone()])).collect();
    assert_eq!(shown, [("list-services", "list-services"), ("x", "\"x\""), ("list", "list"), ("y", "y")]);
    assert!(!found.any_step);
    for (text, any) in [
        ("steps[item].status == 'failed'", true),
        ("steps.all(s, steps[s].status == 'completed')", true),
        ("size(steps) > 1", true),
        ("[1].all(steps, steps > 0)", false),
        ("steps.unknown.content", false),
        ("steps.", false),
    ] {
        assert_eq!(references(text, &steps).any_step, any, "{text}");
    }
    assert_eq!(references("steps.no-such.content", &steps).steps[0].id.as_ref(), "no-such");
}

#[test]
fn all_problems_of_a_text_are_reported() {
    let text = "steps.reveiw.content.contains('x') && unknown > 1 && lenn(steps.review.contents) == 2 && 1 + 'a' == 2";
    let given = json(r#"{"known": ["review"]}"#);
    let errors = CelLanguage.compile(&source(text, &given), ExpressionMode::Condition).err().expect("errors");
    let found: Vec<(&str, &str)> =
        errors.iter().map(|error| (error.message.as_str(), &text[error.range.clone()])).collect();
    assert_eq!(
        found,
        [
            ("there is no step `reveiw`", "reveiw"),
            ("there is no variable `unknown`", "unknown"),
            ("a step has `content`, `result`, `status` and `stop`, not `contents`", "contents"),
            ("there is no function `lenn`", "lenn"),
            ("`+` does not work between an int and a string", "1 + 'a'"),
        ]
    );
}

#[test]
fn errors_name_the_expression() {
    let given = json(r#"{"steps": {"a": {"output": {"result": {"b": 1}}}}}"#);
    let expression =
        CelLanguage.compile(&source(" steps.a.result.c == 1 ", &given), ExpressionMode::Guard).expect("compiles");
    let error = expression.eval(&TestScope::new(&given), &mut meter()).expect_err("a missing key");
    assert_eq!(error.expression.as_deref(), Some("steps.a.result.c == 1"));
    assert_eq!(error.kind, EvalErrorKind::Missing);
    assert_eq!(error.message, "no such key: `c` in `steps.a.result`, which has `b`");
}

#[test]
fn sources_are_texts_or_objects() {
    assert!(CelLanguage.compile(&Value::from("1 + 1"), ExpressionMode::Value).is_ok());
    let made = windlass_expr::cel::source("steps.a.content + item", ["a"], Some("each"), ["item"]);
    assert_eq!(made, json(r#"{"cel": "steps.a.content + item", "steps": ["a"], "loop": "each", "binds": ["item"]}"#));
    assert!(CelLanguage.compile(&made, ExpressionMode::Value).is_ok());
    for (wrong, message) in [
        ("1", "an expression is a text, got integer"),
        ("{}", "the source has no text `cel`"),
        (r#"{"cel": "1", "steps": 1}"#, "`steps` is a list of names, got integer"),
        (r#"{"cel": "1", "steps": [1]}"#, "`steps` holds names, got integer"),
        (r#"{"cel": "1", "binds": ["itme"]}"#, "`itme` is not a name that can be bound"),
        (r#"{"cel": "1", "loop": 1}"#, "`loop` is a name, got integer"),
    ] {
        let errors = CelLanguage.compile(&json(wrong), ExpressionMode::Value).err().expect("an error");
        assert_eq!(errors[0].message, message);
    }
}
