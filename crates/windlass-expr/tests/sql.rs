//! Templates in SQL: `tests/cases-sql.txt`. A case is `text => statement; $1 = template; …`, with statements
//! separated by ` ;; `, or `text => error: part of the message`. `\n` in a text is a line break; `raw` at the end
//! means that the statement contains raw text, `each` that it runs for every item.

use windlass_expr::jinja::{JinjaLanguage, NameQuote, SqlStatement, split_sql};
use windlass_value::{ExpressionMode, Language, Value};

fn render(statement: &SqlStatement) -> String {
    let params = statement.params.iter().enumerate();
    let params: String = params.map(|(index, param)| format!("; ${} = {}", index + 1, param.template)).collect();
    let raw = if statement.raw.is_empty() { "" } else { "; raw" };
    let each =
        statement.for_each.as_ref().map(|each| format!("; each {} in {}", each.item, each.list)).unwrap_or_default();
    format!("{}{params}{raw}{each}", statement.sql)
}

#[test]
fn cases() {
    let text = include_str!("cases-sql.txt");
    let mut failures = Vec::new();
    let mut count = 0;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let (source, expected) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("line {}", number + 1));
        count += 1;
        let source = source.replace("\\n", "\n");
        let actual = match split_sql(&source, NameQuote::Double) {
            Ok(statements) => {
                for statement in &statements {
                    let tree: Vec<Value> =
                        statement.params.iter().map(|param| Value::from(param.template.as_str())).collect();
                    let whole = Value::list([vec![Value::from(statement.sql.as_str())], tree].concat());
                    assert!(JinjaLanguage.compile(&whole, ExpressionMode::Value).is_ok(), "line {}", number + 1);
                }
                statements.iter().map(render).collect::<Vec<_>>().join(" ;; ").replace('\n', "\\n")
            }
            Err(errors) => {
                for error in &errors {
                    assert!(source.get(error.range.clone()).is_some(), "line {}", number + 1);
                }
                let each =
                    errors.iter().map(|error| format!("{} ({})", error.message, error.hint.as_deref().unwrap_or("")));
                format!("error: {}", each.collect::<Vec<_>>().join("; "))
            }
        };
        let good = match expected.strip_prefix("error: ") {
            Some(part) => actual.starts_with("error: ") && actual.contains(part),
            None => actual == expected,
        };
        if !good {
            failures.push(format!("{}: {line}\n    {actual}", number + 1));
        }
    }
    assert!(failures.is_empty(), "{} of {count} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 60, "{count}");
}

/// Whatever the text, a template's value never becomes part of the statement, unless it is marked as raw or is a
/// checked name.
#[test]
fn no_template_stays_in_the_text_and_nothing_panics() {
    let parts = [
        "{{ x }}",
        "{{ x | raw }}",
        "{{ x | identifier(['a']) }}",
        "{{ 'a' }}",
        " ORDER BY ",
        "SELECT ",
        " FROM ",
        "'",
        "''",
        "\"",
        "$$",
        "$t$",
        "$1",
        "E'",
        "\\",
        "--",
        "\n",
        "/*",
        "*/",
        ";",
        "(",
        ")",
        "a",
        " ",
        "::text",
        "DATE ",
        "FROM ",
        "{",
        "{%",
        "ä",
        ",",
        ".",
        "||",
        "{# c #}",
        "{% raw %}{{{% endraw %}",
    ];
    let mut state = 9u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut good = 0;
    for _ in 0..40_000 {
        let text: String = (0..1 + next(9)).map(|_| parts[next(parts.len())]).collect();
        match split_sql(&text, NameQuote::Double) {
            Ok(statements) => {
                good += 1;
                let raws: usize = statements.iter().map(|one| one.raw.len()).sum();
                let left: usize = statements.iter().map(|one| one.sql.matches("{{ (x) | string }}").count()).sum();
                assert_eq!(raws, left, "{text:?} {statements:?}");
                let names: usize = statements.iter().map(|one| one.names.len()).sum();
                let name = "{{ (x) | identifier(['a']) }}";
                let left: usize = statements.iter().map(|one| one.sql.matches(name).count()).sum();
                assert_eq!(names, left, "{text:?} {statements:?}");
                for statement in &statements {
                    assert!(!statement.sql.contains("{{ x"), "{text:?}");
                    for number in 1..=statement.params.len() {
                        assert!(statement.sql.contains(&format!("${number}")), "{text:?} {statement:?}");
                    }
                }
            }
            Err(errors) => {
                assert!(!errors.is_empty());
                for error in errors {
                    assert!(text.get(error.range.clone()).is_some(), "{text:?} {error:?}");
                }
            }
        }
    }
    assert!(good > 5_000, "{good}");
}
