//! The tool `duckdb`. Its feature compiles all of DuckDB: `cargo test -p windlass-tools --features duckdb`.

#![cfg(feature = "duckdb")]
#![allow(clippy::unwrap_used)]

mod support;

use std::path::PathBuf;

use support::{call, call_tool, class, error, part, summary};
use windlass_runtime::Tool;
use windlass_tools::DuckdbTool;
use windlass_value::{Value, to_json};

fn input(database: &str, sql: &str, params: &str) -> String {
    let sql = to_json(&Value::from(sql));
    format!(r#"{{"database": {database:?}, "statements": [{{"sql": {sql}, "params": {params}}}]}}"#)
}

async fn in_memory(sql: &str, params: &str) -> windlass_core::TaskOutcome {
    call_tool(&DuckdbTool::new(), &input(":memory:", sql, params)).await
}

/// A temporary folder per test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("windlass-duckdb-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn values_go_in_and_come_out() {
    let table = [
        ("select $1 as x, $2 as y", "[1, \"a'b\"]", r#"[{"x":1,"y":"a'b"}]"#),
        ("select $2 as x, $1 as y, $2 as z", "[1, 2]", r#"[{"x":2,"y":1,"z":2}]"#),
        ("select $2 as x", "[1, 2]", r#"[{"x":2}]"#),
        ("select ? as x, ? as y", "[1.5, null]", r#"[{"x":1.5,"y":null}]"#),
        ("select 1; select ? as x; select ? as x, ? as y", "[1, 2, 3]", r#"[{"x":2,"y":3}]"#),
        ("select $1 as x, $2 as y", r#"[true, {"a": [1]}]"#, r#"[{"x":true,"y":"{\"a\":[1]}"}]"#),
        ("select ($1::json).a as x", r#"[{"a": [1, null]}]"#, r#"[{"x":[1,null]}]"#),
        (
            "select $1 as x",
            "[170141183460469231731687303715884105727]",
            r#"[{"x":170141183460469231731687303715884105727}]"#,
        ),
    ];
    for (sql, params, expected) in table {
        let outcome = in_memory(sql, params).await;
        assert_eq!(part(&outcome, "rows"), expected, "{sql}: {}", summary(&outcome));
    }
}

/// Numbers that no other type can hold pass through unchanged.
#[tokio::test]
async fn exact_numbers_stay_exact() {
    let table = [
        ("12345678901234567890.12", "12345678901234567890.13"),
        ("-0.05", "-0.04"),
        ("12345678901234567890123456789012345", "12345678901234567890123456789012345.01"),
    ];
    for (given, expected) in table {
        let entry = Value::object([
            ("sql", Value::from("select $1 + 0.01 as x")),
            ("params", Value::list(vec![Value::Big(given.into())])),
        ]);
        let mut request = call("{}");
        request.input = Value::object([("database", ":memory:".into()), ("statements", Value::list(vec![entry]))]);
        let outcome = DuckdbTool::new().call(request).await;
        assert_eq!(part(&outcome, "rows"), format!("[{{\"x\":{expected}}}]"), "{given}: {}", summary(&outcome));
    }
}

#[tokio::test]
async fn every_type_is_data() {
    let table = [
        ("true", "true"),
        ("(-128)::tinyint", "-128"),
        ("(-32768)::smallint", "-32768"),
        ("(-2147483648)::integer", "-2147483648"),
        ("9223372036854775807::bigint", "9223372036854775807"),
        ("255::utinyint", "255"),
        ("65535::usmallint", "65535"),
        ("4294967295::uinteger", "4294967295"),
        ("18446744073709551615::ubigint", "18446744073709551615"),
        ("5::hugeint", "5"),
        ("(-170141183460469231731687303715884105728)::hugeint", "-170141183460469231731687303715884105728"),
        ("'340282366920938463463374607431768211455'::uhugeint", "340282366920938463463374607431768211455"),
        ("['340282366920938463463374607431768211455'::uhugeint]", "[340282366920938463463374607431768211455]"),
        ("0.1::float", "0.1"),
        ("1.5::double", "1.5"),
        ("'nan'::double", "\"NaN\""),
        ("'-inf'::float", "\"-Infinity\""),
        ("1.50::decimal(4,2)", "1.50"),
        ("-0.05::decimal(18,2)", "-0.05"),
        ("12345678901234567890123456.789::decimal(38,3)", "12345678901234567890123456.789"),
        ("7::decimal(38,0)", "7"),
        ("'Grüße'", "\"Grüße\""),
        ("'\\x00\\xFF'::blob", "\"AP8=\""),
        ("'101'::bit", "\"101\""),
        ("date '2024-02-29'", "\"2024-02-29\""),
        ("'infinity'::date", "\"infinity\""),
        ("time '01:02:03.5'", "\"01:02:03.5\""),
        ("time '24:00:00'", "\"24:00:00\""),
        ("timestamp '2024-02-29 01:02:03.000004'", "\"2024-02-29T01:02:03.000004\""),
        ("timestamp '1969-12-31 23:59:59.5'", "\"1969-12-31T23:59:59.5\""),
        ("'2024-02-29 01:02:03'::timestamp_s", "\"2024-02-29T01:02:03\""),
        ("'2024-02-29 01:02:03.5'::timestamp_ms", "\"2024-02-29T01:02:03.5\""),
        ("'2024-02-29 01:02:03.000000004'::timestamp_ns", "\"2024-02-29T01:02:03.000000004\""),
        ("'-infinity'::timestamp", "\"-infinity\""),
        ("timestamptz '2024-02-29 01:02:03+02'", "\"2024-02-28T23:02:03Z\""),
        ("[timestamptz '2024-02-29 01:02:03+02']", "[\"2024-02-28T23:02:03Z\"]"),
        ("interval '14 months 3 days 4 hours'", "\"P1Y2M3DT4H\""),
        ("'11111111-2222-3333-4444-555555555555'::uuid", "\"11111111-2222-3333-4444-555555555555\""),
        ("'b'::enum('a', 'b')", "\"b\""),
        ("[1, null, 3]", "[1,null,3]"),
        ("[[1], [], null]", "[[1],[],null]"),
        ("[1, 2]::integer[2]", "[1,2]"),
        ("{'a': 1, 'b': ['x'], 'c': {'d': null}}", "{\"a\":1,\"b\":[\"x\"],\"c\":{\"d\":null}}"),
        ("map {'a': 1.5, 'b': null}", "{\"a\":1.5,\"b\":null}"),
        ("map {1: 'x'}", "{\"1\":\"x\"}"),
        ("union_value(num := 2)", "{\"num\":2}"),
        ("'{\"a\": [1, 2.5]}'::json", "{\"a\":[1,2.5]}"),
        ("{'j': '[1]'::json}", "{\"j\":[1]}"),
        ("null", "null"),
    ];
    for (sql, expected) in table {
        let outcome = in_memory(&format!("select {sql} as x"), "[]").await;
        assert_eq!(part(&outcome, "rows"), format!("[{{\"x\":{expected}}}]"), "{sql}: {}", summary(&outcome));
    }
    // More than one batch of the library, and enums whose labels are shared by the batches.
    let many = "select i, (case when i % 2 = 0 then 'a' end)::enum('b', 'a') as e from range(5000) r(i) order by i";
    let outcome = in_memory(many, "[]").await;
    assert_eq!(part(&outcome, "rowcount"), "5000", "{}", summary(&outcome));
    let rows = outcome.output.get("rows").and_then(Value::as_list).unwrap();
    assert_eq!(to_json(&rows[4998]), r#"{"i":4998,"e":"a"}"#);
    assert_eq!(to_json(&rows[4999]), r#"{"i":4999,"e":null}"#);
}

/// Each statement has its own result, and statements that change rows report how many.
#[tokio::test]
async fn several_statements() {
    const NONE: &str = r#"{"rows":[],"rowcount":0,"row_count":0,"affected_rows":0,"columns":[]}"#;
    let table = [
        ("create table t (a integer, b text)", NONE),
        (
            "insert into t values (1, 'x;y'), (2, 'z')",
            r#"{"rows":[],"rowcount":2,"row_count":2,"affected_rows":2,"columns":[]}"#,
        ),
        (
            "with n as (select 3 as a) insert into t select a, 'n' from n",
            r#"{"rows":[],"rowcount":1,"row_count":1,"affected_rows":1,"columns":[]}"#,
        ),
        ("update t set b = 'none' where a > 5", NONE),
        (
            "update t set b = 'q' where a = 2 returning a",
            r#"{"rows":[{"a":2}],"rowcount":1,"row_count":1,"columns":["a"]}"#,
        ),
        ("delete from t where a = 3", r#"{"rows":[],"rowcount":1,"row_count":1,"affected_rows":1,"columns":[]}"#),
        ("set threads = 1", NONE),
        ("from t select a order by a", r#"{"rows":[{"a":1},{"a":2}],"rowcount":2,"row_count":2,"columns":["a"]}"#),
        (
            "with n as (select 7 as \"Count\") select * from n",
            r#"{"rows":[{"Count":7}],"rowcount":1,"row_count":1,"columns":["Count"]}"#,
        ),
        ("select a from t where false", r#"{"rows":[],"rowcount":0,"row_count":0,"columns":["a"]}"#),
    ];
    let all = table.map(|(sql, _)| sql).join("; -- next;\n");
    let listed = table.map(|(sql, _)| to_json(&Value::from(sql))).join(", ");
    for statements in [to_json(&Value::from(all.as_str())), listed] {
        let request = format!(r#"{{"database": ":memory:", "numbered": true, "statements": [{statements}]}}"#);
        let outcome = call_tool(&DuckdbTool::new(), &request).await;
        for (number, (sql, expected)) in table.iter().enumerate() {
            assert_eq!(part(&outcome, &format!("command_{number}")), *expected, "{sql}: {}", summary(&outcome));
        }
    }
}

#[tokio::test]
async fn a_call_is_a_transaction() {
    let folder = Folder::new("transaction");
    let (file, tool) = (folder.file("a.db"), DuckdbTool::new());
    let make =
        call_tool(&tool, &input(&file, "create table t (a integer primary key); insert into t values (1)", "[]")).await;
    assert_eq!(part(&make, "rowcount"), "1", "{}", summary(&make));
    let outcome = call_tool(&tool, &input(&file, "insert into t values (2); insert into t values (1)", "[]")).await;
    assert_eq!(class(&outcome), ("ConstraintError", "duckdb", true), "{}", summary(&outcome));
    let own =
        call_tool(&tool, &input(&file, "begin; insert into t values (5); commit; checkpoint; nonsense", "[]")).await;
    assert_eq!(class(&own).0, "ParserError", "{}", summary(&own));
    let outcome = call_tool(&tool, &input(&file, "select a from t order by a", "[]")).await;
    assert_eq!(part(&outcome, "rows"), r#"[{"a":1},{"a":5}]"#);
}

/// Concurrent calls share the open file, however it is spelled, and the last one closes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_at_the_same_time_share_a_file() {
    let folder = Folder::new("share");
    let file = folder.file("a.db");
    let other = folder.file("./a.db");
    let make = call_tool(&DuckdbTool::new(), &input(&file, "create table t (a integer)", "[]")).await;
    assert!(make.error.is_none(), "{}", summary(&make));
    for round in 0..5 {
        let calls = (0..8).map(|number| {
            let request = input(
                if number % 2 == 0 { &file } else { &other },
                "insert into t values ($1)",
                &format!("[{number}]"),
            );
            tokio::spawn(async move { DuckdbTool::new().call(call(&request)).await })
        });
        for done in calls.collect::<Vec<_>>() {
            let outcome = done.await.unwrap();
            assert!(outcome.error.is_none(), "{}", summary(&outcome));
        }
        let outcome = call_tool(&DuckdbTool::new(), &input(&file, "select count(*) as n from t", "[]")).await;
        assert_eq!(part(&outcome, "rows"), format!(r#"[{{"n":{}}}]"#, (round + 1) * 8), "{}", summary(&outcome));
    }
    // Closing checkpoints the write-ahead log into the file and removes it.
    assert!(!PathBuf::from(folder.file("a.db.wal")).exists());
}

#[tokio::test]
async fn errors_name_the_statement() {
    let table = [
        (
            input(":memory:", "select $3", "[1]"),
            "BadInput input: there is no value for parameter $3: the statements have 1 values",
        ),
        (
            input(":memory:", "select ?, ?", "[1]"),
            "BadInput input: there is no value for `$2`: the statement has 1 values",
        ),
        (
            input(":memory:", "select $name", "[1]"),
            "BadInput input: there is no value for `$name`: the statement has 1 values",
        ),
        (r#"{"statements": ["select 1"]}"#.to_owned(), "BadInput input: `duckdb` has no `database`"),
        (r#"{"database": "x", "statements": [5]}"#.to_owned(), "BadInput input: a statement has no `sql`"),
    ];
    for (input, expected) in table {
        assert_eq!(summary(&call_tool(&DuckdbTool::new(), &input).await), expected);
    }
    let missing = summary(&in_memory("select 1; select  *\nfrom nowhere", "[]").await);
    let begins = missing.starts_with("CatalogError duckdb: Table with name");
    assert!(begins && missing.ends_with(" in `select * from nowhere`"), "{missing}");
    let folder = call_tool(&DuckdbTool::new(), &input("/no/such/folder/a.db", "select 1", "[]")).await;
    assert_eq!(class(&folder).0, "IOError", "{}", summary(&folder));
    assert!(error(&folder).message.contains("/no/such/folder/a.db"), "{}", summary(&folder));
    // A statement that mentions an extension does not download it.
    let fetched = in_memory("select * from read_csv('https://127.0.0.1:1/a.csv')", "[]").await;
    assert!(summary(&fetched).contains("httpfs"), "{}", summary(&fetched));
    for sql in ["select '01:02:03+02'::timetz as x", "select ['5'::bignum] as x"] {
        let outcome = in_memory(sql, "[]").await;
        assert_eq!(class(&outcome).0, "UnreadableValue", "{sql}: {}", summary(&outcome));
        let outcome = in_memory(&sql.replace(" as x", "::text as x"), "[]").await;
        assert!(outcome.error.is_none(), "{sql}: {}", summary(&outcome));
    }
    let large = in_memory("select repeat('x', 1000) as x from range(100000)", "[]").await;
    assert_eq!(class(&large), ("ResultTooLarge", "limit", false));
}

/// The statement ends at its timeout, and its changes are rolled back.
#[tokio::test]
async fn a_statement_ends_at_its_timeout() {
    const ENDLESS: &str =
        "insert into t select count(*) from range(1000000000) a(x), range(1000000000) b(y) where x + y > 5";
    let folder = Folder::new("time");
    let (file, tool) = (folder.file("a.db"), DuckdbTool::new());
    call_tool(&tool, &input(&file, "create table t (a bigint)", "[]")).await;
    let slow = input(&file, &format!("insert into t values (1); {ENDLESS}"), "[]");
    let slow = slow.replacen('{', r#"{"timeout": 0.2, "#, 1);
    assert_eq!(class(&call_tool(&tool, &slow).await), ("timeout", "timeout", false));
    let outcome = call_tool(&tool, &input(&file, "select count(*) as n from t", "[]")).await;
    assert_eq!(part(&outcome, "rows"), r#"[{"n":0}]"#, "{}", summary(&outcome));
    // The interrupted call has ended, so the file is no longer open.
    let gone = call_tool(&tool, &input(&file, "drop table t; checkpoint", "[]")).await;
    assert!(gone.error.is_none(), "{}", summary(&gone));
}
