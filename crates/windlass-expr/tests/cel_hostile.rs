//! Hostile or meaningless texts: they cause an error, never a panic, an exhausted stack or a long wait.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use windlass_expr::cel::{CelLanguage, references};
use windlass_value::{
    EvalError, EvalErrorKind, EvalScope, Expression, ExpressionMode, IterationView, Language, Level, Meter, MeterCaps,
    NodeView, RunView, StoredValue, Timestamp, Value,
};

/// One step `big-list` whose result is 200 numbers, and whose content is 300 kB of text.
struct LargeScope {
    run: RunView,
    output: Value,
}

static OUTPUT: LazyLock<Value> = LazyLock::new(|| {
    let items = Value::list((0..200).map(Value::Int).collect());
    let rows = Value::list((0..50_000).map(Value::Int).collect());
    let content = "word ".repeat(60_000) + "LGTM";
    Value::object([("content", Value::from(content)), ("result", Value::object([("items", items), ("rows", rows)]))])
});

impl LargeScope {
    fn new() -> LargeScope {
        LargeScope { run: RunView::new("run", "flow", Timestamp(0)), output: OUTPUT.clone() }
    }
}

impl EvalScope for LargeScope {
    fn variable(&self, _level: Level, _name: &str) -> Option<Value> {
        None
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        (name == "big-list").then(|| NodeView {
            name: name.into(),
            status: "succeeded",
            inputs: Value::Null,
            output: self.output.clone(),
            error: Value::Null,
            attempts: 1,
            started_at: Timestamp(0),
            ended_at: Timestamp(0),
            iteration_records: Default::default(),
            body_nodes: None,
            usage: Value::Null,
        })
    }

    fn children(&self, _name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn iteration(&self, _loop_name: Option<&str>) -> Option<IterationView> {
        None
    }

    fn run(&self) -> &RunView {
        &self.run
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> u64 {
        0
    }

    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError> {
        Err(EvalError::need_blobs(vec![stored.hash]))
    }
}

fn compile(text: &str, mode: ExpressionMode) -> Result<Box<dyn Expression>, String> {
    let binds = ["iteration", "item", "index", "content", "result", "status", "inputs"];
    let source = windlass_expr::cel::source(text, ["big-list", "a", "a-b"], None, binds);
    CelLanguage.compile(&source, mode).map_err(|errors| {
        for error in &errors {
            assert!(text.get(error.range.clone()).is_some(), "{:?} is no part of {text:?}", error.range);
        }
        errors.first().map_or_else(String::new, |error| error.message.clone())
    })
}

fn eval(text: &str, fuel: u64) -> Result<Value, EvalError> {
    let expression = compile(text, ExpressionMode::Value).unwrap_or_else(|error| panic!("{text}: {error}"));
    let caps = MeterCaps { max_cel_cost: 10_000, ..MeterCaps::default() };
    expression.eval(&LargeScope::new(), &mut Meter::new(fuel, 1_000_000).with_caps(caps))
}

#[test]
fn deep_and_long_texts_are_rejected() {
    let many = 10_000;
    let repeated =
        |open: &str, middle: &str, close: &str| format!("{}{middle}{}", open.repeat(many), close.repeat(many));
    for text in [
        repeated("(", "1", ")"),
        repeated("[", "", "]"),
        repeated("(", "", ""),
        repeated("[", "", ""),
        repeated("{1:", "1", "}"),
        repeated("-", "1", ""),
        repeated("!", "true", ""),
        repeated("1 + ", "1", ""),
        repeated("1 < ", "1", ""),
        repeated("a.a.", "a", ""),
        repeated("size(", "1", ")"),
        repeated("true ? 1 : ", "1", ""),
        repeated("[1].map(x, ", "x", ")"),
        repeated("a[", "1", "]"),
        repeated("1 + (1 * (", "1", "))"),
        format!("{}{}", "[1]", ".map(x, x)".repeat(many)),
        format!("a{}", "[0]".repeat(many)),
        format!("a{}", ".b".repeat(many)),
    ] {
        let error = compile(&text, ExpressionMode::Value).err().unwrap_or_default();
        assert!(error.contains("nests deeper") || error.contains("at most"), "{}…: {error}", &text[..20]);
        assert_eq!(references(&text, &[]).steps, []);
    }
    let error = compile(&format!("'{}'", "a".repeat(200_000)), ExpressionMode::Value).err().unwrap_or_default();
    assert!(error.contains("at most 100000 bytes"), "{error}");
}

/// An expression of the maximum depth takes at most half of a thread's stack, in a build without optimisation.
#[test]
fn texts_of_maximum_depth_are_evaluated() {
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(evaluate_the_deepest).expect("a thread");
    thread.join().expect("it ends");
}

fn evaluate_the_deepest() {
    for depth in [50, 98] {
        let nested =
            |open: &str, middle: &str, close: &str| format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
        for text in [
            nested("(", "1", ")"),
            nested("[", "1", "]"),
            nested("{'a': ", "1", "}"),
            nested("1 + ", "1", ""),
            nested("[1].all(x, ", "true", ")"),
            nested("true && (false || ", "true", ")"),
            nested("true ? ", "1", " : 2"),
            nested("-", "1", ""),
            nested("dyn(", "1", ")"),
        ] {
            // Some of these have more than one level each: they are rejected, which is fine too.
            if let Ok(expression) = compile(&text, ExpressionMode::Value) {
                expression
                    .eval(&LargeScope::new(), &mut Meter::new(1_000_000, 1_000_000))
                    .unwrap_or_else(|error| panic!("{text}: {error:?}"));
            }
        }
    }
    assert!(compile(&format!("{}1{}", "[".repeat(98), "]".repeat(98)), ExpressionMode::Value).is_ok());
}

/// A long chain of `&&` or `||` is not deep.
#[test]
fn long_chains_of_logic_are_fine() {
    let text = vec!["1 < 2"; 4_000].join(" && ");
    assert_eq!(eval(&text, 1_000_000), Ok(Value::Bool(true)));
    let text = vec!["1 > 2"; 4_000].join(" || ");
    assert_eq!(eval(&text, 1_000_000), Ok(Value::Bool(false)));
}

#[test]
fn expensive_expressions_are_stopped() {
    let items = "steps.big-list.result.items";
    let rows = "steps.big-list.result.rows";
    for text in [
        format!("{items}.map(a, {items}.map(b, {items}.map(c, a + b + c)))"),
        format!("{items}.all(a, {items}.all(b, {items}.all(c, true)))"),
        format!("{items}.exists(a, {items}.exists(b, {items}.exists(c, false)))"),
        format!("{items}.filter(a, {items}.filter(b, {items}.exists_one(c, true) || true) == [] || true)"),
        format!("{rows}.map(r, r)"),
        format!("{rows}.map(r, {rows}.map(q, q))"),
        format!("{items}.all(a, {rows} + {rows} == {rows})"),
        format!("{items}.all(a, !(a in {rows}) || a in {rows})"),
        format!("{items}.all(a, {rows} == {rows}.filter(x, true) || true)"),
        format!("{items}.all(a, steps.big-list.content.contains('x' + string(a)) || true)"),
        format!("{items}.all(a, steps.big-list.content.matches('(a+)+b' + string(a)) || true)"),
        format!("{items}.all(a, size(steps.big-list.content) > a)"),
        "[0].map(a, steps.big-list.content + steps.big-list.content)".to_owned(),
        format!("{items}.map(a, {items}.map(b, 1 / 0 == 1 || true))"),
    ] {
        let error = eval(&text, 100_000_000).expect_err(&text);
        assert_eq!(
            (error.kind, error.message.contains("maximum cost of 10000")),
            (EvalErrorKind::Limit, true),
            "{text}: {error:?}"
        );
    }
}

/// Typical workflow expressions are far below the limit, even when replies and lists are large.
#[test]
fn ordinary_expressions_stay_within_the_cost_limit() {
    for text in [
        "steps.big-list.content.contains('LGTM')",
        "steps.big-list.content.endsWith('LGTM') && !steps.big-list.content.startsWith('LGTM')",
        "steps.big-list.content.matches('L[A-Z]+M')",
        "size(steps.big-list.content) > 100",
        "steps.big-list.content == steps.big-list.content",
        "size(steps.big-list.result.items.filter(i, i % 2 == 0 && i > 10)) == 94",
        "size(steps.big-list.result.rows) == 50000 && steps.big-list.result.rows[49999] == 49999",
        "49999 in steps.big-list.result.rows",
    ] {
        assert_eq!(eval(text, 1_000_000), Ok(Value::Bool(true)), "{text}");
    }
}

/// Lists that hold each other twice are small until they are walked.
#[test]
fn lists_that_share_their_parts_are_stopped() {
    let doubled = format!("[1]{}", ".map(a, [a, a])".repeat(60));
    for text in [doubled.clone(), format!("{doubled} == {doubled}"), format!("{doubled} in [{doubled}]")] {
        let error = eval(&text, 10_000_000).expect_err(&text);
        assert_eq!(error.kind, EvalErrorKind::Limit, "{error:?}");
    }
}

#[test]
fn fuel_and_size_are_limits_too() {
    let error = eval("steps.big-list.result.items.map(i, i)", 100).expect_err("no fuel");
    assert_eq!(error.kind, EvalErrorKind::Limit);
    let expression =
        compile("['aaaaaaaaaa', 'aaaaaaaaaa']", ExpressionMode::Value).unwrap_or_else(|error| panic!("{error}"));
    let error = expression.eval(&LargeScope::new(), &mut Meter::new(1_000, 20)).expect_err("too large");
    assert_eq!(error.kind, EvalErrorKind::Limit);
    let expression = compile("size('aaaaaaaaaa' + 'aaaaaaaaaa' + 'a')", ExpressionMode::Value)
        .unwrap_or_else(|error| panic!("{error}"));
    let error = expression.eval(&LargeScope::new(), &mut Meter::new(1_000, 20)).expect_err("too large on the way");
    assert_eq!(error.kind, EvalErrorKind::Limit);
}

/// Fields of a step's result are shared, not copied.
#[test]
fn large_values_are_not_copied() {
    let scope = LargeScope::new();
    let expression =
        compile("steps.big-list.result.rows", ExpressionMode::Value).unwrap_or_else(|error| panic!("{error}"));
    let value = expression.eval(&scope, &mut Meter::new(1_000, 10_000_000)).expect("the rows");
    let (Value::List(given), Some(Value::List(held))) =
        (&value, scope.output.get("result").and_then(|it| it.get("rows")))
    else {
        panic!("lists")
    };
    assert!(Arc::ptr_eq(given, held));
}

const PIECES: [&str; 74] = [
    "steps",
    ".",
    "big-list",
    "a",
    "a-b",
    "result",
    "content",
    "status",
    "items",
    "rows",
    "iteration",
    "item",
    "index",
    "inputs",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "!=",
    "&&",
    "||",
    " in ",
    " ",
    "1",
    "0",
    "2.5",
    "7u",
    "'x'",
    "\"y\"",
    "b'z'",
    "r'\\d'",
    "'''",
    "'",
    "\"",
    "\\",
    "null",
    "true",
    "false",
    "size(",
    "has(",
    ".map(x, ",
    ".all(x, ",
    ".filter(x, ",
    ".exists(x, ",
    "x",
    ".contains(",
    ".matches(",
    "int(",
    "string(",
    "timestamp(",
    "duration(",
    ".getHours(",
    "type(",
    "dyn(",
    "9223372036854775807",
    "//",
    "\n",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        run_any(&text);
    }

    #[test]
    fn no_mixture_panics(picks in prop::collection::vec(0..PIECES.len(), 0..30)) {
        run_any(&picks.into_iter().map(|pick| PIECES[pick]).collect::<String>());
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Well-formed texts, so that evaluation is reached too.
    #[test]
    fn no_expression_panics(text in expression()) {
        run_any(&text);
    }
}

fn run_any(text: &str) {
    for mode in [ExpressionMode::Value, ExpressionMode::Guard] {
        if let Ok(expression) = compile(text, mode) {
            let _ = expression.eval(&LargeScope::new(), &mut Meter::new(100_000, 100_000));
        }
    }
    references(text, &["a".into(), "a-b".into()]);
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "2u",
        "18446744073709551615u",
        "0.0",
        "-2.5",
        "1e300",
        "''",
        "'é😀'",
        "'2026-11-15T09:30:00Z'",
        "'1h30m'",
        "'('",
        "b'\\xff'",
        "null",
        "true",
        "false",
        "[]",
        "{}",
        "steps.big-list.result.items",
        "steps.big-list",
        "steps",
        "int",
        "timestamp(0)",
        "duration('1s')",
        "dyn(1)",
        "dyn('a')",
        "x",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 40, 3, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "/", "%", "<", "==", "in", "&&", "||", ">="]);
        let function = prop::sample::select(vec![
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "bool",
            "timestamp",
            "duration",
            "type",
        ]);
        let method = prop::sample::select(vec!["contains", "startsWith", "matches", "getHours", "getDayOfYear"]);
        let folding = prop::sample::select(vec!["all", "exists", "exists_one", "map", "filter"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, sign, b)| format!("(dyn({a}) {sign} dyn({b}))")),
            (function, inner.clone()).prop_map(|(name, a)| format!("{name}(dyn({a}))")),
            (inner.clone(), method, inner.clone()).prop_map(|(a, name, b)| format!("dyn({a}).{name}(dyn({b}))")),
            (inner.clone(), folding, inner.clone()).prop_map(|(a, name, b)| format!("dyn({a}).{name}(x, dyn({b}))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("dyn({a})[dyn({b})]")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("(dyn({a}) ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{dyn({a}): {b}}}")),
            inner.clone().prop_map(|a| format!("-dyn({a})")),
            inner.prop_map(|a| format!("has(dyn({a}).y)")),
        ]
    })
}
