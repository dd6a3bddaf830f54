//! XML and XPath with hostile input: every evaluation ends, by fuel or by a limit, and nothing panics.

use crate::common;

use common::MockScope;
use windlass_expr::wdl::WdlLanguage;
use windlass_value::{EvalError, EvalErrorKind, Expression, ExpressionMode, Language, Meter, Value};

fn compiled(text: &str) -> Box<dyn Expression> {
    WdlLanguage.compile(&Value::from(text), ExpressionMode::Value).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

/// Evaluates with the run's default limits.
fn eval(text: &str) -> Result<Value, EvalError> {
    compiled(text).eval(&MockScope::new(), &mut Meter::new(10_000_000, 104_857_600))
}

fn with(xml: &str, path: &str) -> Result<Value, EvalError> {
    with_fuel(xml, path, 10_000_000)
}

fn with_fuel(xml: &str, path: &str, fuel: u64) -> Result<Value, EvalError> {
    // Longer than an expression may be, so it is assembled as data.
    let source = Value::object([("from", Value::list(vec![Value::from(xml)])), ("select", Value::from(path))]);
    let language = windlass_expr::wdl::languages().into_iter().find(|one| one.name() == "wdl.select").expect("select");
    let expression = language.compile(&source, ExpressionMode::Value).unwrap_or_else(|errors| panic!("{errors:?}"));
    let value = expression.eval(&MockScope::new(), &mut Meter::new(fuel, 104_857_600))?;
    Ok(value.get("body").and_then(Value::as_list).map(|items| items[0].clone()).expect("one item"))
}

fn kind(outcome: Result<Value, EvalError>) -> EvalErrorKind {
    outcome.expect_err("an error").kind
}

#[test]
fn entity_bombs_are_rejected() {
    let bomb =
        r#"<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;">]><l>&c;</l>"#;
    for path in ["@xml(item())", "@xpath(item(), '/l')"] {
        assert!(with(bomb, path).expect_err("refused").message.contains("document type"));
    }
    assert!(eval("@xml('<a>&unknown;</a>')").expect_err("refused").message.contains("not valid XML"));
}

#[test]
fn depth_and_numbers_are_bounded() {
    let deep = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    assert_eq!(with(&deep(100), "@xpath(item(), 'count(//*)')"), Ok(Value::Int(100)));
    assert_eq!(kind(with(&deep(200), "@xml(item())")), EvalErrorKind::Limit);
    assert_eq!(kind(with(&deep(100_000), "@xml(item())")), EvalErrorKind::Limit);
    let many: String = (0..5_000).map(|n| format!(" a{n}=\"\"")).collect();
    assert_eq!(kind(with(&format!("<a{many}/>"), "@xml(item())")), EvalErrorKind::Limit);
    let spaces: String = (0..900).map(|n| format!(" xmlns:p{n}=\"u{n}\"")).collect();
    let children: String = (0..20_000).map(|n| format!("<b xmlns:q=\"{n}\"/>")).collect();
    assert_eq!(kind(with(&format!("<a{spaces}>{children}</a>"), "@xml(item())")), EvalErrorKind::Limit);
}

#[test]
fn hostile_paths_end_by_fuel() {
    let items: String = (0..5_000).map(|n| format!("<i>{n}</i>")).collect();
    let xml = format!("<a>{items}</a>");
    assert_eq!(with(&xml, "@xpath(item(), 'count(//i[. mod 2 = 0])')"), Ok(Value::Int(2_500)));
    for path in [
        "//i[. = //i]",
        "//*[count(//*[count(//*) > 1]) > 1]",
        "//i/preceding::i/following::i",
        "//i[preceding-sibling::i = 5]",
        "//i[string(/) = 5]",
    ] {
        let outcome = with_fuel(&xml, &format!("@xpath(item(), '{path}')"), 1_000_000);
        assert_eq!(kind(outcome), EvalErrorKind::Limit, "{path}");
    }
    let nested = format!("@xpath(item(), '{}1{}')", "(".repeat(200), ")".repeat(200));
    assert!(WdlLanguage.compile(&Value::from(nested), ExpressionMode::Value).is_err());
    let chain = format!("@xpath('<a/>', '1{}')", "+1".repeat(3_000));
    assert_eq!(eval(&chain), Ok(Value::Int(3_001)));
    let minus = format!("@xpath('<a/>', '{}1')", "-".repeat(4_000));
    assert_eq!(eval(&minus), Ok(Value::Int(1)));
    let long = "@xpath('<a/>', 'concat(\"\", \"\")')";
    assert_eq!(eval(long), Ok(Value::from("")));
}

#[test]
fn an_invalid_literal_xpath_is_reported_with_its_location() {
    let text = "@length(xpath(variables('name'), '/a['))";
    let errors = WdlLanguage.compile(&Value::from(text), ExpressionMode::Value).err().expect("an error");
    assert_eq!(&text[errors[0].range.clone()], "'/a['");
    let source = Value::object([("equals", Value::list(vec![Value::from("@xpath('<a/>', '/a[')"), Value::Int(1)]))]);
    assert!(WdlLanguage.compile(&source, ExpressionMode::Condition).is_err());
}

/// Deterministic pseudo-random numbers.
struct Generator(u64);

impl Generator {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

#[test]
fn nothing_panics_on_any_path() {
    let parts = [
        "/",
        "//",
        ".",
        "..",
        "@",
        "*",
        "a",
        "b",
        "p:a",
        "p:*",
        "::",
        "child::",
        "ancestor::",
        "preceding::",
        "following::",
        "namespace::",
        "attribute::",
        "self::",
        "preceding-sibling::",
        "[",
        "]",
        "(",
        ")",
        ",",
        "|",
        "+",
        "-",
        "=",
        "!=",
        "<",
        ">=",
        " and ",
        " or ",
        " div ",
        " mod ",
        "1",
        ".5",
        "2.",
        "\"x\"",
        "node()",
        "text()",
        "comment()",
        "processing-instruction()",
        "last()",
        "position()",
        "count(",
        "string(",
        "substring(\"äö\", ",
        "translate(",
        "concat(",
        "sum(",
        "name()",
        "lang(\"en\")",
        "not(",
        "ä",
        "😀",
        "$",
        "#",
        " ",
    ];
    let xml = "<a xmlns:p=\"u\" x=\"1\">t<b y=\"2\"><!--c--><?p v?><p:a/></b>ä<![CDATA[d]]>e</a>";
    let (mut generator, mut parsed) = (Generator(3), 0);
    for round in 0..10_000 {
        let mut path = String::new();
        for _ in 0..1 + generator.next(10) {
            path.push_str(parts[generator.next(parts.len())]);
        }
        if round % 2 == 0 {
            let open = path.matches('(').count().saturating_sub(path.matches(')').count());
            path.push_str(&")".repeat(open));
        }
        let text = format!("@xpath('{xml}', '{path}')");
        if let Ok(expression) = WdlLanguage.compile(&Value::from(text), ExpressionMode::Value) {
            parsed += 1;
            let _ = expression.eval(&MockScope::new(), &mut Meter::new(20_000, 100_000));
        }
    }
    assert!(parsed > 300, "{parsed}");
}

#[test]
fn nothing_panics_on_any_markup() {
    let parts = [
        "<a>",
        "</a>",
        "<a/>",
        "<b x=\"1\">",
        "</b>",
        "<p:c xmlns:p='u'>",
        "</p:c>",
        "text",
        "&amp;",
        "&#x41;",
        "&#0;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?x ",
        "?>",
        "<?xml version=\"1.0\"?>",
        "<!DOCTYPE a>",
        " ",
        "\r\n",
        "ä",
        "<",
        ">",
        "\"",
        "=",
        "xmlns",
        "'",
    ];
    let (mut generator, mut parsed) = (Generator(5), 0);
    for _ in 0..8_000 {
        let inside: String = (0..generator.next(9)).map(|_| parts[generator.next(parts.len())]).collect();
        let source = format!("<r>{inside}</r>");
        let path =
            "@createArray(xml(item()), json(xml(item())), string(xml(json(xml(item())))), xpath(item(), '//node()'))";
        parsed += usize::from(with(&source, path).is_ok());
    }
    assert!(parsed > 300, "{parsed}");
}
