//! Runs the cases of `tests/cases/*.txt`; the scope they see is described in `tests/common/mod.rs`.
//!
//! One case per line: `source => expected JSON`, or `source => error: part of the message`. A source that begins with
//! `{`, `[` or `"` is JSON, any other is the text of a string. `mode: value|condition|loop` holds for the lines after
//! it, `language: NAME` too. Lines that begin with `#` are comments.

mod common;

use common::{MockScope, json};
use windlass_expr::wdl::{Wdl, function_names, languages, references, warnings};
use windlass_value::{
    CompileError, EvalError, EvalErrorKind, Expression, Language, Meter, Mode, PathPart, Value, to_json,
};

fn meter() -> Meter {
    Meter::new(1_000_000, 1_000_000)
}

fn compile(source: &Value, mode: Mode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
    Wdl.compile(source, mode)
}

fn compile_text(errors: &[CompileError]) -> String {
    let each = errors.iter().map(|error| format!("{} ({})", error.message, error.hint.as_deref().unwrap_or("")));
    each.collect::<Vec<_>>().join("; ")
}

fn eval_text(error: &EvalError) -> String {
    format!("{} ({})", error.message, error.hint.as_deref().unwrap_or(""))
}

fn run(source: &Value, mode: Mode) -> Result<Value, String> {
    run_in("wdl", source, mode)
}

fn run_in(language: &str, source: &Value, mode: Mode) -> Result<Value, String> {
    let language = languages().into_iter().find(|one| one.name() == language).expect("a language of that name");
    let expression = language.compile(source, mode).map_err(|errors| compile_text(&errors))?;
    expression.eval(&MockScope::new(), &mut meter()).map_err(|error| eval_text(&error))
}

fn eval(source: &str) -> Result<Value, EvalError> {
    let expression = compile(&Value::from(source), Mode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
    expression.eval(&MockScope::new(), &mut meter())
}

fn check(line: &str, language: &str, mode: Mode) -> Result<(), String> {
    let (source, expected) = line.rsplit_once(" => ").ok_or("a case is `source => expected`")?;
    let source = source.trim();
    let source = match source.starts_with(['{', '[', '"']) {
        true => json(source),
        false => Value::from(source),
    };
    match (run_in(language, &source, mode), expected.trim().strip_prefix("error:")) {
        (Ok(value), None) if to_json(&value) == to_json(&json(expected.trim())) => Ok(()),
        (Ok(value), _) => Err(format!("gives {}", to_json(&value))),
        (Err(error), Some(part)) if error.contains(part.trim()) => Ok(()),
        (Err(error), _) => Err(format!("fails: {error}")),
    }
}

#[test]
fn cases() {
    let (mut failures, mut count) = (Vec::new(), 0);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let entries = std::fs::read_dir(folder).expect("the folder of cases");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let text = std::fs::read_to_string(&path).expect("a file of cases");
        let (mut mode, mut language) = (Mode::Value, "wdl");
        for (number, line) in text.lines().enumerate() {
            match line.trim() {
                "" => continue,
                "mode: value" => mode = Mode::Value,
                "mode: condition" => mode = Mode::Condition,
                "mode: loop" => mode = Mode::LoopCondition,
                comment if comment.starts_with('#') => continue,
                line if line.starts_with("language: ") => language = &line["language: ".len()..],
                case => {
                    count += 1;
                    if let Err(problem) = check(case, language, mode) {
                        failures.push(format!("{}:{}: {case}\n    {problem}", path.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases failed:\n{}", failures.len(), failures.join("\n"));
    println!("{count} cases");
    assert!(count > 200, "only {count} cases were found");
}

#[test]
fn every_function_has_a_case() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let entries = std::fs::read_dir(folder).expect("the folder of cases");
    let texts = entries.map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).expect("cases"));
    let all = texts.collect::<Vec<_>>().join("\n").to_lowercase();
    let untested = function_names().into_iter().filter(|name| !all.contains(&format!("{}(", name.to_lowercase())));
    assert_eq!(untested.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn all_problems_of_a_tree_are_reported_with_their_place() {
    let source = json(r#"{"a": ["ok", "@grater(1, 2)"], "b": "@{length()} @{listCallbackUrl()}", "c": "@equals(1"}"#);
    let errors = compile(&source, Mode::Value).err().expect("errors");
    let found: Vec<(usize, &str, &str)> = errors
        .iter()
        .map(|error| (error.pointer.len(), error.message.as_str(), error.hint.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(found[0], (2, "there is no function `grater`", "did you mean `greater`?"));
    assert_eq!(errors[0].pointer, [PathPart::Key("a".into()), PathPart::Index(1)]);
    assert_eq!(errors[0].range, 1..7);
    assert_eq!((found[1].0, found[1].1), (1, "`length` takes 1 argument, got 0"));
    assert!(found[2].1.contains("not supported"));
    assert!(found[3].1.contains("not closed"));
    assert_eq!(found.len(), 4);
}

#[test]
fn errors_name_the_expression() {
    let error = eval("@body('http').count").expect_err("a missing property");
    assert_eq!(error.kind, EvalErrorKind::Missing);
    assert_eq!(error.expression.as_deref(), Some("@body('http').count"));
    assert_eq!(error.message, "`body('http')` has no property `count`; it has `items`, `status`");
    assert_eq!(error.hint.as_deref(), Some("write `?.count` to get null instead"));
    let error = eval("in a text: @{add('1', 2)} and on").expect_err("a wrong kind");
    assert_eq!(error.expression.as_deref(), Some("@{add('1', 2)}"));
}

#[test]
fn references_are_found_wherever_they_stand() {
    let source = json(
        r#"{"x": "@if(true, variables('V'), outputs('n')?[string(items('L'))])", "y": ["a @{parameters('p')} b"],
            "dynamic": "@body(variables('which'))"}"#,
    );
    let found = references(&source);
    let names = |list: &[windlass_expr::wdl::Ref]| list.iter().map(|one| one.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&found.variables), ["V", "which"]);
    assert_eq!(names(&found.nodes), ["n"]);
    assert_eq!(names(&found.loops), ["L"]);
    assert_eq!(names(&found.parameters), ["p"]);
    assert_eq!(found.variables[0].range, 20..23);
    assert_eq!(found.parameters[0].pointer, [PathPart::Key("y".into()), PathPart::Index(0)]);
}

#[test]
fn an_inner_at_is_a_warning() {
    let source = json(r#"{"c": "@greaterOrEquals(@variables('loopIndex'), 4)"}"#);
    let found = warnings(&source);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].range, 17..27);
    assert!(warnings(&json(r#"["@equals(1, 1)", "a@b", "@@x"]"#)).is_empty());
}

#[test]
fn a_stored_value_passes_through_untouched() {
    assert!(matches!(eval("@variables('stored')"), Ok(Value::Stored(_))));
    assert!(matches!(eval("@body('large')"), Ok(Value::Stored(_))));
    assert!(matches!(eval("@if(true, variables('absent'), 1)"), Ok(Value::Stored(_))));
    assert_eq!(eval("@length(variables('absent'))"), Ok(Value::Int(7)));
    let error = eval("@join(variables('absent'), ',')").expect_err("a blob");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 1));
    let source = json(r#"{"a": "@first(variables('absent'))", "b": "@last(variables('absent'))"}"#);
    let expression = compile(&source, Mode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
    let error = expression.eval(&MockScope::new(), &mut meter()).expect_err("two blobs");
    assert_eq!((error.kind, error.blobs.len()), (EvalErrorKind::NeedBlobs, 2));
}

#[test]
fn fuel_and_size_are_bounded() {
    let limited = |source: &str, fuel: u64, bytes: usize| {
        let expression = compile(&Value::from(source), Mode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
        expression.eval(&MockScope::new(), &mut Meter::new(fuel, bytes)).map_err(|error| error.kind)
    };
    assert_eq!(limited("@range(variables('count'), 90000)", 1_000, 1_000_000), Err(EvalErrorKind::Limit));
    assert_eq!(limited("@range(variables('count'), 90000)", 1_000_000, 1_000), Err(EvalErrorKind::Limit));
    assert_eq!(limited("@concat(variables('name'), variables('name'))", 1_000, 5), Err(EvalErrorKind::Limit));
    assert_eq!(limited("@createArray(variables('person'))", 1_000, 10), Err(EvalErrorKind::Limit));
    assert_eq!(limited("@variables('name')", 0, 10), Err(EvalErrorKind::Limit));
}

#[test]
fn nesting_is_bounded() {
    let calls = |depth: usize| Value::from(format!("@{}1{}", "array(".repeat(depth), ")".repeat(depth)));
    assert!(compile(&calls(99), Mode::Value).is_ok());
    assert!(compile_text(&compile(&calls(100), Mode::Value).err().expect("an error")).contains("nests deeper"));
    assert!(compile(&calls(1_000), Mode::Value).is_err());
    let steps = Value::from(format!("@variables('person'){}", "?.x".repeat(2_000)));
    assert_eq!(run(&steps, Mode::Value), Ok(Value::Null));
    let mut tree = Value::from("@variables('name')");
    for _ in 0..1_000 {
        tree = Value::list(vec![tree]);
    }
    assert!(compile_text(&compile(&tree, Mode::Value).err().expect("an error")).contains("nests deeper"));
    references(&tree);
    let mut deepest = calls(99);
    for _ in 0..120 {
        deepest = Value::list(vec![deepest]);
    }
    assert!(compile(&deepest, Mode::Value).is_ok());
    let inner = format!("@{}variables('tags'){}", "if(true, array(".repeat(49), "), 1)".repeat(49));
    let mut deepest = Value::from(inner);
    for _ in 0..60 {
        deepest = Value::list(vec![deepest]);
    }
    assert!(run(&deepest, Mode::Value).is_ok());
    for _ in 0..60 {
        deepest = Value::list(vec![deepest]);
    }
    assert!(run(&deepest, Mode::Value).expect_err("too deep").contains("nests deeper"));
    let long = Value::from(format!("@concat('{}')", "x".repeat(9_000)));
    assert!(compile_text(&compile(&long, Mode::Value).err().expect("an error")).contains("longer than"));
    let mut condition = json("true");
    for _ in 0..1_000 {
        condition = Value::object([("not", condition)]);
    }
    assert!(compile(&condition, Mode::Condition).is_err());
}

#[test]
fn outside_loops_there_is_no_turn() {
    let source = Value::from("@variables('loopIndex')");
    let expression = compile(&source, Mode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
    let error = expression.eval(&MockScope::without_loop(), &mut meter()).expect_err("no loop");
    assert!(error.message.contains("no loop is around it"), "{}", error.message);
}

/// Numbers that look random and are the same every time.
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
        "@",
        "@{",
        "@@",
        "@@{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "{",
        ",",
        "'",
        "''",
        "?",
        ".",
        "?.",
        "?[",
        "0",
        "-1",
        "1.5",
        ".",
        "e9",
        "+",
        "9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999",
        "1e999",
        " ",
        "\n",
        "ä",
        "😀",
        "\u{301}",
        "null",
        "true",
        "'a'",
        "'İß'",
        "''''",
        "variables('person')",
        "variables('tags')",
        "body('http')",
        "item()",
        "x",
        "$",
        "'2026-02-30'",
        "'2026-01-31T23:59:59.9999999+14:00'",
        "'0001-01-01'",
        "'9999-12-31T23:59:59Z'",
        "'yyyy-\\'",
        "'Month'",
        "'{\"a\":[1,2]}'",
        "'%4%zz%C3'",
        "'#,##0.0;x;y'",
        "'N99'",
        "variables('stored')",
        "variables('big')",
        "\"",
    ]
    .map(str::to_owned)
    .to_vec();
    parts.extend(function_names().into_iter().flat_map(|name| [format!("{name}("), format!("{name}(")]));
    let mut generator = Generator(7);
    let mut compiled = 0;
    for round in 0..60_000 {
        let mut text = String::from(if round % 4 == 0 { "" } else { "@" });
        for _ in 0..1 + generator.next(9) {
            text.push_str(&parts[generator.next(parts.len())]);
            text.push_str(["", "", ","][generator.next(3)]);
        }
        if round % 2 == 0 {
            let open = text.matches('(').count().saturating_sub(text.matches(')').count());
            text.push_str(&")".repeat(open));
        }
        compiled += attempt(&text);
    }
    assert!(compiled > 1_000, "{compiled}");
}

/// Calls of every function with all sorts of arguments: whatever they give, they give it without a panic.
#[test]
fn nothing_panics_on_any_argument() {
    let values = [
        "null",
        "true",
        "0",
        "1",
        "-1",
        "2.5",
        "9223372036854775807",
        "-9223372036854775808",
        "1e300",
        "''",
        "'a'",
        "'äÖ😀'",
        "'2026-11-15T09:30:00Z'",
        "'Month'",
        "'yyyyyyyyyyyyyyyyyyyyyyyyy'",
        "'N3'",
        "'en-us'",
        "'https://a:1/b?c'",
        "'{}'",
        "'data:,x'",
        "variables('tags')",
        "variables('person')",
        "variables('big')",
        "variables('chunked')",
        "variables('absent')",
        "variables('storedobject')",
        "createArray(3, 1, 2)",
        "createArray(1, 'x', null)",
        "'-0.000'",
        "-0.0",
        "'0,0.00%'",
    ];
    let mut generator = Generator(11);
    for name in function_names() {
        for _ in 0..600 {
            let count = generator.next(5);
            let arguments: Vec<&str> = (0..count).map(|_| values[generator.next(values.len())]).collect();
            attempt(&format!("@{name}({})", arguments.join(", ")));
        }
    }
}

fn attempt(text: &str) -> usize {
    let source = Value::from(text);
    references(&source);
    warnings(&source);
    let mut compiled = 0;
    for mode in [Mode::Value, Mode::Condition, Mode::LoopCondition] {
        match compile(&source, mode) {
            Ok(expression) => {
                compiled = 1;
                let _ = expression.eval(&MockScope::new(), &mut Meter::new(20_000, 100_000));
            }
            Err(errors) => {
                assert!(!errors.is_empty());
                for error in errors {
                    assert!(text.get(error.range.clone()).is_some(), "{text:?}: {error:?}");
                }
            }
        }
    }
    compiled
}
