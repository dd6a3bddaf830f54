//! Runs the cases of `tests/cases-jinja/*.txt` in the scope below.
//!
//! One case per line: `source => expected JSON`, or `source => error: part of the message`. A source that begins with
//! `[` or `"`, or with `{` and a quote, is JSON; any other is the text of a string, in which `\n` is a line break.
//! `mode: value|condition|loop|guard` applies to the lines after it, and so does `outcome: {…}`, the local of that
//! name. Lines that begin with `#` are comments.

use std::sync::Arc;

use windlass_expr::jinja::{JinjaLanguage, names, references};
use windlass_value::{
    BlobHash, CompileError, ContentSummary, EvalError, EvalErrorKind, EvalScope, ExpressionMode, IterationView,
    Language, Level, Meter, NodeView, PathPart, RunView, StoredValue, Timestamp, Value, parse_json, to_json,
};

const NOW: Timestamp = Timestamp(1_794_735_000_125_000);

fn json(text: &str) -> Value {
    parse_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A loop iteration of a step that evaluates a task's outcome. `shadow` exists at every level, with the level's name.
struct TestScope {
    run: RunView,
    outcome: Option<Value>,
    in_loop: bool,
}

impl TestScope {
    fn new(outcome: Option<Value>) -> TestScope {
        let run = RunView {
            execution_id: 7_000_000_000_000_007,
            input: json(r#"{"extra": "from input", "api_url": "ignored"}"#),
            parameters: json(
                r#"{"api_url": "http://x", "limit": 3, "flag": "false", "endpoints": [{"path": "/a"}, {"path": "/b"}],
                    "shadow": "workload", "only_workload": true}"#,
            ),
            ..RunView::new("run-7", "pages", NOW)
        };
        TestScope { run, outcome, in_loop: true }
    }

    fn run_variables(&self) -> Value {
        json(
            r#"{"count": 5, "ratio": 2.5, "name": "Ada", "tags": ["a", "b", "c"], "done": false, "nothing": null, "zip": "007",
                "person": {"name": "Ada", "age": 36, "address": {"city": "London"}}, "empty": "", "none": [], "numbers": [3, 1, 2],
                "rows": [{"id": 2, "ok": true, "n": "b"}, {"id": 1, "ok": false, "n": "a"}, {"id": 3, "ok": true, "n": "c"}],
                "big": 12345678901234567890, "exact": 1e400, "shadow": "ctx", "text": " Hi There ",
                "quote": "it's", "html": "<b>&", "bin": {"$content-type": "text/xml", "$content": "aMOp"},
                "png": {"$content-type": "image/png", "$content": "/w=="}, "items_of": {"items": [1], "keys": "mine"}, "huge": 1e300, "yes": "Yes"}"#,
        )
    }
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

impl EvalScope for TestScope {
    fn local(&self, name: &str) -> Option<Value> {
        match name {
            "outcome" => self.outcome.clone(),
            "_prev" => Some(json(r#"{"last": 1}"#)),
            "_task" => Some(Value::from("fetch_page")),
            "_attempt" => Some(Value::Int(2)),
            "args" => Some(json(r#"{"from_args": 11, "shadow": "args", "below": "args"}"#)),
            "event" => Some(json(r#"{"name": "loop.done"}"#)),
            "kind" => Some(Value::from("not visible")),
            _ => None,
        }
    }

    fn variable(&self, level: Level, name: &str) -> Option<Value> {
        if level == Level::Any
            && let Some(local) = self.local(name)
        {
            return Some(local);
        }
        let of_iteration = || match name {
            "page" => Some(Value::Int(2)),
            "has_more" => Some(Value::Bool(true)),
            "shadow" => Some(Value::from("iter")),
            _ => None,
        };
        let of_step = || match name {
            "label" => Some(json(r#"{"rows": 4}"#)),
            "shadow" | "above_args" => Some(Value::from("label")),
            _ => None,
        };
        let of_run = || match name {
            "stored" => Some(stored(1, 3, false)),
            "chunked" => Some(stored(2, 5, true)),
            "storedobject" => Some(stored(3, 0, false)),
            "storedtext" => Some(stored(6, 0, false)),
            "absent" => Some(stored(9, 7, false)),
            "holder" => Some(Value::list(vec![stored(3, 0, false), stored(3, 0, false)])),
            "waiting" => Some(Value::list(vec![stored(9, 0, false), stored(8, 0, false)])),
            name => self.run_variables().get(name).cloned(),
        };
        match level {
            Level::Run => of_run(),
            Level::Step => of_step(),
            Level::Iteration => of_iteration().filter(|_| self.in_loop),
            Level::Any => of_iteration().filter(|_| self.in_loop).or_else(of_step).or_else(of_run),
        }
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        let output = match name {
            "fetch" => json(r#"{"status_code": 200, "data": {"items": [{"id": 1}, {"id": 2}], "status": "done"}}"#),
            "large" => stored(3, 0, false),
            "shadow" | "only_workload" | "step_name" => Value::from("step"),
            _ => return None,
        };
        Some(NodeView {
            name: name.into(),
            status: "succeeded",
            inputs: Value::Null,
            output,
            error: Value::Null,
            attempts: 1,
            started_at: NOW,
            ended_at: NOW,
            iteration_records: Default::default(),
            body_nodes: Default::default(),
            usage: Value::Null,
        })
    }

    fn children(&self, _name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn iteration(&self, _loop_name: Option<&str>) -> Option<IterationView> {
        self.in_loop.then(|| IterationView {
            loop_name: "all".into(),
            iteration_index: 1,
            item: json(r#"{"path": "/a", "page_size": 10}"#),
            previous: Value::Null,
            loop_started_at: NOW,
            item_name: Some("endpoint".into()),
            count: Some(4),
            concurrent: false,
        })
    }

    fn run(&self) -> &RunView {
        &self.run
    }

    fn now(&self) -> Timestamp {
        NOW
    }

    fn random(&self) -> u64 {
        42
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
            _ => Err(EvalError::need_blobs(vec![stored.hash])),
        }
    }

    fn variables(&self, level: Level) -> Vec<(Arc<str>, Value)> {
        let names: &[&str] = match level {
            Level::Run => &["count", "name"],
            Level::Step => &["label"],
            Level::Iteration => &["page", "has_more"],
            Level::Any => &[],
        };
        names.iter().filter_map(|name| Some((Arc::from(*name), self.variable(level, name)?))).collect()
    }
}

fn meter() -> Meter {
    Meter::new(1_000_000, 1_000_000)
}

fn compile_text(errors: &[CompileError]) -> String {
    let each = errors.iter().map(|error| format!("{} ({})", error.message, error.hint.as_deref().unwrap_or("")));
    each.collect::<Vec<_>>().join("; ")
}

fn run(source: &Value, mode: ExpressionMode, scope: &TestScope) -> Result<Value, String> {
    let expression = JinjaLanguage.compile(source, mode).map_err(|errors| compile_text(&errors))?;
    expression.eval(scope, &mut meter()).map_err(|error| {
        let kind = if error.kind == EvalErrorKind::Missing { "missing: " } else { "" };
        format!("{kind}{} ({})", error.message, error.hint.as_deref().unwrap_or(""))
    })
}

fn eval(source: &str) -> Result<Value, EvalError> {
    let source = Value::from(source);
    let expression =
        JinjaLanguage.compile(&source, ExpressionMode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
    expression.eval(&TestScope::new(None), &mut meter())
}

struct Case {
    location: String,
    mode: ExpressionMode,
    outcome: Option<Value>,
    source: String,
    expected: String,
}

fn all_cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases-jinja");
    let entries = std::fs::read_dir(folder).expect("the folder of cases");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let (mut mode, mut outcome) = (ExpressionMode::Value, None);
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
                line => match line.strip_prefix("outcome: ") {
                    Some(given) => outcome = Some(json(given)).filter(|given| !given.is_null()),
                    None => {
                        let (source, expected) =
                            line.rsplit_once(" => ").unwrap_or_else(|| panic!("{location}: `source => expected`"));
                        let (source, expected) = (source.to_owned(), expected.trim().to_owned());
                        cases.push(Case { location, mode, outcome: outcome.clone(), source, expected });
                    }
                },
            }
        }
    }
    cases
}

fn source_of(text: &str) -> Value {
    match text.starts_with(['[', '"']) || text.starts_with("{\"") {
        true => json(text),
        false => Value::from(text.replace("\\n", "\n")),
    }
}

fn check(case: &Case) -> Result<(), String> {
    let scope = TestScope::new(case.outcome.clone());
    match (run(&source_of(&case.source), case.mode, &scope), case.expected.strip_prefix("error:")) {
        (Ok(value), None) if [to_json(&json(&case.expected)), case.expected.clone()].contains(&to_json(&value)) => {
            Ok(())
        }
        (Ok(value), _) => Err(format!("gives {}", to_json(&value))),
        (Err(error), Some(part)) if error.contains(part.trim()) => Ok(()),
        (Err(error), _) => Err(format!("fails: {error}")),
    }
}

#[test]
fn cases() {
    let cases = all_cases();
    let problem = |case: &Case| {
        let problem = check(case).err()?;
        Some(format!("{}: {} => {}\n    {problem}", case.location, case.source, case.expected))
    };
    let failures: Vec<String> = cases.iter().filter_map(problem).collect();
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(cases.len() >= 250, "only {} cases were found", cases.len());
}

/// Every supported name is used in a case that returns a value.
#[test]
fn every_name_has_a_case() {
    let texts: Vec<String> = all_cases()
        .iter()
        .filter(|case| !case.expected.starts_with("error:"))
        .map(|case| case.source.clone())
        .collect();
    let mut lacking = Vec::new();
    for (kind, names) in names() {
        for name in names.iter().filter(|name| name.starts_with(|c: char| c.is_alphabetic())) {
            let forms = match kind {
                "filter" => [format!("| {name}"), format!("|{name}"), format!("map('{name}'")],
                "test" => [format!("is {name}"), format!("is not {name}"), format!("'{name}'")],
                "function" => [format!("{name}("), format!("{name}("), format!("{name}(")],
                _ => [format!(".{name}("), format!(".{name}("), format!(".{name}(")],
            };
            if !texts.iter().any(|text| forms.iter().any(|form| text.contains(form.as_str()))) {
                lacking.push(format!("{kind} {name}"));
            }
        }
    }
    assert!(lacking.is_empty(), "no case for: {}", lacking.join(", "));
}

#[test]
fn all_problems_of_a_tree_are_reported_with_their_location() {
    let source = json(
        r#"{"a": ["ok", "{{ name | lenght }}"], "b": "{{ nmae() }} {{ keychain.pg }}", "c": "{{ 1 +", "d": "{% do x() %}"}"#,
    );
    let errors = JinjaLanguage.compile(&source, ExpressionMode::Value).err().expect("errors");
    let found: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(found[0], "there is no filter `lenght`");
    assert_eq!(errors[0].hint.as_deref(), Some("did you mean `length`?"));
    assert_eq!(errors[0].pointer, [PathPart::Key("a".into()), PathPart::Index(1)]);
    assert!("{{ name | lenght }}"[errors[0].range.clone()].contains("lenght"), "{:?}", errors[0].range);
    assert_eq!(found[1], "there is no function `nmae`");
    assert_eq!(found[2], "secrets cannot be read in a template");
    assert!(errors[2].hint.as_deref().is_some_and(|hint| hint.contains("auth")));
    assert!(found[3].contains("end of input"), "{}", found[3]);
    assert!(found[4].contains("`do` is not supported"), "{}", found[4]);
}

#[test]
fn errors_name_the_template() {
    let error = eval("{{ fetch.data.count }}").expect_err("a missing property");
    assert_eq!(error.kind, EvalErrorKind::Missing);
    assert_eq!(error.expression.as_deref(), Some("{{ fetch.data.count }}"));
    assert_eq!(error.message, "`fetch.data` has no property `count`; it has `items`, `status`");
    let error = eval("a {{ 1 + fetch.data.count }}").expect_err("a missing property");
    assert_eq!(error.message, "`fetch.data` has no property `count`; it has `items`, `status`");
    assert_eq!(error.kind, EvalErrorKind::Missing);
}

#[test]
fn references_are_found_everywhere_in_a_tree() {
    let source = json(
        r#"{"x": "{{ fetch.data['items'][0].id + ctx.count }}", "y": ["{% for r in ctx.rows %}{{ r.id }}{{ loop.index }}{% endfor %}"],
            "z": "{{ iter.page | default(1) }} {{ n if workload.a is defined else ctx[k] }}"}"#,
    );
    let found = references(&source);
    let shown: Vec<String> = found
        .iter()
        .map(|one| {
            let path: Vec<String> = one
                .path
                .iter()
                .map(|part| match part {
                    PathPart::Key(key) => format!(".{key}"),
                    PathPart::Index(index) => format!("[{index}]"),
                })
                .collect();
            format!("{}{}{}", one.name, path.concat(), if one.guarded { "?" } else { "" })
        })
        .collect();
    let mut sorted = shown.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        ["ctx", "ctx.count", "ctx.rows", "fetch.data.items[0].id", "iter.page?", "k", "n", "workload.a?"]
    );
    let first = &found[0];
    assert_eq!((&*first.name, &first.pointer), ("fetch", &vec![PathPart::Key("x".into())]));
    assert_eq!(&"{{ fetch.data['items'][0].id + ctx.count }}"[first.range.clone()], "fetch.data['items'][0].id");
}

#[test]
fn a_stored_value_passes_through_untouched() {
    assert!(matches!(eval("{{ ctx.stored }}"), Ok(Value::Stored(_))));
    assert!(matches!(eval("{{ ctx.absent }}"), Ok(Value::Stored(_))));
    assert!(matches!(eval("{{ large }}"), Ok(Value::Stored(_))));
    let error = eval("{{ ctx.absent | length }}").expect_err("a blob");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 1));
    let error = eval("{% for one in ctx.waiting %}{{ one.city }}{% endfor %}").expect_err("a blob");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 1));
    let error = eval("{{ ctx.waiting | tojson }}").expect_err("blobs");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 2));
    let source = json(r#"{"a": "{{ ctx.absent | first }}", "b": "{{ ctx.waiting[1].x }}"}"#);
    let expression =
        JinjaLanguage.compile(&source, ExpressionMode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
    let error = expression.eval(&TestScope::new(None), &mut meter()).expect_err("two blobs");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 2));
    // Values in branches that are not evaluated are not requested.
    assert_eq!(eval("{{ 1 if true else ctx.absent[0] }}"), Ok(Value::Int(1)));
}

#[test]
fn fuel_and_size_are_bounded() {
    let limited = |source: &str, fuel: u64, bytes: usize| {
        let source = Value::from(source);
        let expression =
            JinjaLanguage.compile(&source, ExpressionMode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
        expression.eval(&TestScope::new(None), &mut Meter::new(fuel, bytes)).map_err(|error| error.kind)
    };
    let limit = Err(EvalErrorKind::Limit);
    assert_eq!(limited("{% for i in range(9999) %}{{ i }}{% endfor %}", 1_000, 1_000_000), limit);
    assert_eq!(limited("{% for i in range(9999) %}{{ i }}{% endfor %}", 1_000_000, 1_000), limit);
    assert_eq!(limited("{% for i in range(9999) %}some text{% endfor %}", 1_000_000, 1_000), limit);
    assert_eq!(limited("{{ range(9999) | list }}", 1_000, 1_000_000), limit);
    assert_eq!(limited("{{ ctx.rows | map(attribute='id') | sum }}", 5, 1_000_000), limit);
    assert_eq!(limited("{{ 'abc' * 1000000 }}", 1_000_000, 10_000), limit);
    let longer = "{% set a = 'x' * 1000 %}{% set b = a ~ a ~ a ~ a ~ a ~ a ~ a ~ a %}{% set c = b ~ b ~ b ~ b ~ b ~ b ~ b ~ b %}\
                  {% set d = c + c + c + c + c + c + c + c %}{{ d | length }}";
    assert_eq!(limited(longer, 1_000_000, 100_000), limit);
    assert_eq!(limited("{{ ('a' * 5000) | replace('a', 'b' * 5000) }}", 1_000_000, 100_000), limit);
    assert_eq!(limited("{{ [1, 2, 3] | join('x' * 60000) }}", 1_000_000, 100_000), limit);
    assert_eq!(limited("{{ ctx.name }}", 0, 10), limit);
}

/// Templates that would run forever or exhaust the memory: everything they repeat a thousand times is charged.
#[test]
fn hostile_templates_run_out_of_fuel() {
    let (list, text) = (Value::list((0..5_000).map(Value::Int).collect()), Value::from("x ".repeat(20_000)));
    let outcome = Value::object([("result", Value::object([("list", list), ("text", text)]))]);
    let scope = TestScope::new(Some(outcome));
    let eval = |source: &str| {
        let source = Value::from(source);
        let expression =
            JinjaLanguage.compile(&source, ExpressionMode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
        expression.eval(&scope, &mut Meter::new(100_000, 200_000)).map_err(|error| error.kind)
    };
    let text = [
        "upper",
        "length",
        "trim",
        "title",
        "reverse",
        "list",
        "lower",
        "int(0)",
        "capitalize",
        "string | upper",
        "unique",
        "sort",
        "batch(2)",
        "urlencode",
        "b64encode",
        "tojson",
        "replace('y', '')",
        "split(' ')",
        "lines",
    ];
    let list = [
        "sort",
        "unique",
        "string",
        "tojson",
        "zip(outcome.result.list)",
        "batch(3)",
        "reverse | list",
        "map('string') | list",
        "select('odd') | list",
        "sum",
        "max",
        "min",
        "join",
        "slice(3)",
        "list",
        "groupby('x')",
    ];
    let each = |value: &str, filter: &str| format!("{{% set y = outcome.result.{value} | {filter} %}}");
    let bodies = text.iter().map(|filter| each("text", filter)).chain(list.iter().map(|filter| each("list", filter)));
    let operations = [
        "outcome.result.text.upper()",
        "outcome.result.text.count('y')",
        "outcome.result.text.find('y')",
        "outcome.result.text.split(' ')",
        "'y' in outcome.result.text",
        "outcome.result.text == outcome.result.text",
        "outcome.result.text[1:]",
        "outcome.result.list[1:]",
        "outcome.result.list == outcome.result.list",
        "-1 in outcome.result.list",
        "outcome.result.list + outcome.result.list",
        "outcome.result.text * 2",
        "outcome.result.text is upper",
        "outcome.result.text is startingwith(outcome.result.text)",
        "outcome.result.text in [outcome.result.text ~ 'x']",
        "{outcome.result.text: 1}",
        "[outcome.result.text, outcome.result.text] | max",
        "[outcome.result.text, outcome.result.text] | unique",
        "outcome.result.list | sum(start=0)",
        "[outcome.result.list, outcome.result.list] | sum(start=[])",
        "outcome.result.text | list | sum(start='')",
    ];
    let bodies = bodies.chain(operations.iter().map(|operation| format!("{{% set y = {operation} %}}")));
    for body in bodies {
        let result = eval(&format!("{{% for i in range(5000) %}}{body}{{% endfor %}}"));
        assert_eq!(result, Err(EvalErrorKind::Limit), "{body}");
    }
    for source in [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
        "{{ outcome.result.text | replace('', outcome.result.text) }}",
        "{{ [outcome.result.text, outcome.result.text] | join(outcome.result.text * 9) }}",
        "{% set a = range(9999) | list %}{% for i in range(999) %}{% set y = a | sort | unique | list %}{% endfor %}",
        "{% set a = range(9999) | list %}{% for i in range(999) %}{% set y = -1 in a %}{% endfor %}",
        "{{ [1, 2, 3] | slice(2000000000) | list }}",
        "{{ [1, 2, 3] | batch(2000000000, 'x') | list }}",
        "{{ [1, 2, 3] | slice(9223372036854775807, 'x') | list }}",
    ] {
        assert_eq!(eval(source), Err(EvalErrorKind::Limit), "{source}");
    }
    // These end on their own, with either outcome.
    for source in [
        "{{ 'a' * 999999999999 }}",
        "{{ range(99999999) | list }}",
        "{{ 10 ** 10 ** 10 }}",
        "{{ (9999999999 * 9999999999) ** 99 }}",
    ] {
        assert!(eval(source).is_err(), "{source}");
    }
}

/// Time and randomness come from the tick: the same evaluation returns the same result, and nothing else is random.
#[test]
fn results_depend_only_on_the_tick() {
    for source in ["{{ now() }}", "{{ uuid() }}", "{{ [uuid(), uuid(), now()] }}"] {
        assert_eq!(eval(source), eval(source), "{source}");
    }
    assert_ne!(eval("{{ uuid() }}"), eval("{{ [uuid(), uuid()][1] }}"));
    for source in [
        "{{ random() }}",
        "{{ [1] | random }}",
        "{{ utcnow() }}",
        "{{ lipsum() }}",
        "{{ env('HOME') }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
    ] {
        assert!(JinjaLanguage.compile(&Value::from(source), ExpressionMode::Value).is_err(), "{source}");
    }
}

#[test]
fn an_untouched_value_costs_nothing() {
    let big = Value::list(vec![Value::from("x".repeat(1000)); 10_000]);
    let outcome = Value::object([("result", big.clone()), ("status", Value::from("success"))]);
    let scope = TestScope::new(Some(outcome));
    let run = |source: &str| {
        let expression = JinjaLanguage
            .compile(&Value::from(source), ExpressionMode::Value)
            .unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut meter = meter();
        let value = expression.eval(&scope, &mut meter).unwrap_or_else(|error| panic!("{error:?}"));
        (value, 1_000_000 - meter.fuel)
    };
    let (value, spent) = run("{{ outcome.status ~ (outcome.result | length) }}");
    assert_eq!(value, Value::from("success10000"));
    assert!(spent < 50, "{spent}");
    // The list itself is returned, not a copy.
    let (value, spent) = run("{{ outcome.result if outcome.status == 'success' else [] }}");
    let (Value::List(a), Value::List(b)) = (&value, &big) else { panic!("lists") };
    assert!(Arc::ptr_eq(a, b) && spent < 50, "{spent}");
}

#[test]
fn there_is_no_iteration_outside_loops() {
    let scope = TestScope { in_loop: false, ..TestScope::new(None) };
    let evaluate = |source: &str| run(&Value::from(source), ExpressionMode::Value, &scope);
    assert!(
        evaluate("{{ iter.page }}").is_err_and(|error| error.starts_with("missing: `iter` has no property `page`"))
    );
    assert_eq!(evaluate("{{ iter.page | default(1) }}"), Ok(Value::Int(1)));
    assert_eq!(evaluate("{{ iter is defined }}"), Ok(Value::Bool(false)));
    assert_eq!(evaluate("{{ shadow }}"), Ok(Value::from("label")));
}

#[test]
fn nesting_is_bounded() {
    let mut tree = Value::from("{{ ctx.name }}");
    for _ in 0..1_000 {
        tree = Value::list(vec![tree]);
    }
    assert!(
        compile_text(&JinjaLanguage.compile(&tree, ExpressionMode::Value).err().expect("an error"))
            .contains("nests deeper")
    );
    references(&tree);
    for (open, close) in [("(", ")"), ("[", "]"), ("not ", ""), ("-", ""), ("{'a':", "}")] {
        let text = format!("{{{{ {}1{} }}}}", open.repeat(5_000), close.repeat(5_000));
        let _ = JinjaLanguage
            .compile(&Value::from(text), ExpressionMode::Value)
            .map(|one| one.eval(&TestScope::new(None), &mut meter()));
    }
    let sums = format!("{{{{ {}1 }}}}", "ctx.count + ".repeat(3_000));
    let _ = JinjaLanguage
        .compile(&Value::from(sums), ExpressionMode::Value)
        .map(|one| one.eval(&TestScope::new(None), &mut meter()));
}

struct Generator(u64);

impl Generator {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

#[test]
fn nothing_panics_on_any_text() {
    let mut parts: Vec<String> = [
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "'",
        "\"",
        ".",
        "|",
        ":",
        "~",
        "+",
        "-",
        "*",
        "//",
        "/",
        "%",
        "**",
        "==",
        "!=",
        "<",
        "in",
        "not",
        "and",
        "or",
        "is",
        "if",
        "else",
        "elif",
        "endif",
        "for",
        "endfor",
        "set",
        "endset",
        "with",
        "filter",
        "raw",
        "0",
        "-1",
        "1.5",
        "1e999",
        "99999999999999999999",
        "ctx.count",
        "ctx.rows",
        "name",
        "fetch.data",
        "x",
        "__p0",
        "__s",
        "loop",
        "none",
        "true",
        "'a'",
        "'ä😀'",
        "\\",
        "\n",
        "ctx.stored",
        "ctx.big",
        "ctx.exact",
        "{% if",
        "{% for x in",
        "{% endfor %}",
        "{% endif %}",
        "ctx.tags",
        "a=1",
        "*x",
        "**x",
    ]
    .map(str::to_owned)
    .to_vec();
    for (kind, list) in names() {
        parts.extend(list.iter().map(|name| match kind {
            "filter" => format!("|{name}"),
            "test" => format!(" is {name}"),
            "function" => format!("{name}("),
            _ => format!(".{name}("),
        }));
    }
    let mut generator = Generator(5);
    let mut compiled = 0;
    for round in 0..30_000 {
        let mut text = String::from(if round % 4 == 0 { "" } else { "{{ " });
        for _ in 0..1 + generator.next(8) {
            text.push_str(&parts[generator.next(parts.len())]);
            text.push_str(["", " "][generator.next(2)]);
        }
        if round % 2 == 0 {
            let open = text.matches('(').count().saturating_sub(text.matches(')').count());
            text.push_str(&")".repeat(open));
        }
        if round % 4 != 0 {
            text.push_str(" }}");
        }
        let source = Value::from(text.as_str());
        references(&source);
        for mode in [ExpressionMode::Value, ExpressionMode::Condition, ExpressionMode::LoopCondition] {
            match JinjaLanguage.compile(&source, mode) {
                Ok(expression) => {
                    compiled += 1;
                    let _ = expression.eval(&TestScope::new(None), &mut Meter::new(20_000, 100_000));
                }
                Err(errors) => {
                    assert!(!errors.is_empty());
                    for error in errors {
                        assert!(text.get(error.range.clone()).is_some(), "{text:?}: {error:?}");
                    }
                }
            }
        }
    }
    assert!(compiled > 3_000, "{compiled}");
}
