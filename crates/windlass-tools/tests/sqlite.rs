//! The tool `sqlite`.

#![cfg(feature = "sqlite")]

use crate::support;

use support::{call_tool, class, part, summary};
use windlass_tools::SqliteTool;
use windlass_value::{Value, to_json};

fn input(database: &str, sql: &str, params: &str) -> String {
    let sql = to_json(&Value::from(sql));
    format!(r#"{{"database": {database:?}, "statements": [{{"sql": {sql}, "params": {params}}}]}}"#)
}

#[tokio::test]
async fn values_go_in_and_come_out() {
    let table = [
        ("select $1 as x, ?2 as y", "[1, \"a'b\"]", r#"[{"x":1,"y":"a'b"}]"#),
        ("select $2 as x, $1 as y, $2 as z", "[1, 2]", r#"[{"x":2,"y":1,"z":2}]"#),
        ("select ? as x, ? as y", "[1.5, null]", r#"[{"x":1.5,"y":null}]"#),
        ("select $1 as x, $2 as y", r#"[true, {"a": [1]}]"#, r#"[{"x":1,"y":"{\"a\":[1]}"}]"#),
        ("select x'00ff' as x", "[]", r#"[{"x":"AP8="}]"#),
        ("create table t (a); insert into t values (1), (2); select sum(a) as n from t", "[]", r#"[{"n":3}]"#),
    ];
    for (sql, params, expected) in table {
        let outcome = call_tool(&SqliteTool::new(), &input(":memory:", sql, params)).await;
        assert_eq!(part(&outcome, "rows"), expected, "{sql}: {}", summary(&outcome));
    }
}

/// Statements that run once per item, in the order of the items, and not at all without items.
#[tokio::test]
async fn statements_for_every_item() {
    const MADE: &str = "create table t (a, b); create table u (a)";
    const SQLS: &str = r#"["insert into t values ($1, $2)", "insert into u select count(*) from t"]"#;
    let ask = |each: String| async move {
        let statements = format!(
            r#"[{{"sql": "{MADE}"}}, {{"sqls": {SQLS}, "each": {each}}}, "select (select group_concat(a || b) from t) as t, (select group_concat(a) from u) as u"]"#
        );
        call_tool(&SqliteTool::new(), &format!(r#"{{"database": ":memory:", "statements": {statements}}}"#)).await
    };
    let each = r#"[[["x", 1], []], [["y'", 2], []]]"#;
    let text = to_json(&Value::from(each));
    for each in [each.to_owned(), text] {
        let outcome = ask(each).await;
        assert_eq!(part(&outcome, "rows"), r#"[{"t":"x1,y'2","u":"1,2"}]"#, "{}", summary(&outcome));
    }
    let outcome = ask("[]".to_owned()).await;
    assert_eq!(part(&outcome, "rows"), r#"[{"t":null,"u":null}]"#, "{}", summary(&outcome));
    for each in ["[[1]]", "\"nonsense\"", "[[[1]]]", "1"] {
        assert_eq!(class(&ask(each.to_owned()).await).0, "BadInput", "{each}");
    }
}

#[tokio::test]
async fn a_call_is_a_transaction() {
    let folder = std::env::temp_dir().join(format!("windlass-sqlite-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a.db").display().to_string();
    let tool = SqliteTool::new();
    let make = call_tool(&tool, &input(&file, "create table t (a primary key); insert into t values (1)", "[]")).await;
    assert_eq!(part(&make, "rowcount"), "1", "{}", summary(&make));
    let outcome = call_tool(&tool, &input(&file, "insert into t values (2); insert into t values (1)", "[]")).await;
    assert_eq!(class(&outcome), ("SQLITE_CONSTRAINT", "sqlite", true));
    let two = format!(
        r#"{{"database": {file:?}, "numbered": true, "statements": [{{"sql": "insert into t values ($1)", "params": [5]}}, "select a from t"]}}"#
    );
    let outcome = call_tool(&tool, &two).await;
    assert_eq!(part(&outcome, "command_0"), r#"{"rows":[],"rowcount":1,"row_count":1,"affected_rows":1,"columns":[]}"#);
    assert_eq!(part(&outcome, "rows"), r#"[{"a":1},{"a":5}]"#);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn errors_name_the_statement() {
    let table = [
        (
            input(":memory:", "select * from nowhere", "[]"),
            "SQLITE_ERROR sqlite: no such table: nowhere in `select * from nowhere`",
        ),
        (
            input(":memory:", "select $3", "[1]"),
            "BadInput input: there is no value for `$3`: the statement has 1 values",
        ),
        (
            input("/no/such/folder/a.db", "select 1", "[]"),
            "SQLITE_CANTOPEN sqlite: unable to open database file: /no/such/folder/a.db",
        ),
        (
            input(":memory:", "select 1 where 'a' in ($1)", r#"[["a", "b"]]"#),
            "BadInput input: the value of `$1` is an array, which `IN ($1)` would treat as one text",
        ),
        (r#"{"statements": ["select 1"]}"#.to_owned(), "BadInput input: `sqlite` has no `database`"),
        (r#"{"database": "x", "statements": [5]}"#.to_owned(), "BadInput input: a statement has no `sql`"),
    ];
    for (input, expected) in table {
        assert_eq!(summary(&call_tool(&SqliteTool::new(), &input).await), expected);
    }
    let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n";
    let slow = input(":memory:", endless, "[]").replacen('{', r#"{"timeout": 0.2, "#, 1);
    assert_eq!(class(&call_tool(&SqliteTool::new(), &slow).await), ("timeout", "timeout", false));
}
