//! The tool `postgres` against a dedicated test server. Each line is a case: a statement, its values, the result.

#![cfg(feature = "postgres")]

use crate::support;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use support::{call, call_tool, class, debug_text, error, fact, part, summary};
use windlass_core::TaskOutcome;
use windlass_runtime::Tool;
use windlass_testing::test_postgres::PostgresServer;
use windlass_tools::{NamedCredentials, Outbound, PostgresOptions, PostgresTool};
use windlass_value::{Value, to_json};

/// One server for all tests of this file; it ends with the last test that uses it.
static SERVER: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());

fn server() -> Arc<PostgresServer> {
    let mut shared = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(PostgresServer::start().unwrap_or_else(|problem| panic!("{problem}")));
        *shared = Arc::downgrade(&server);
        server
    })
}

fn tool() -> PostgresTool {
    let server = server();
    let known = NamedCredentials::new(move |name| match name {
        "WINDLASS_AUTH_POSTGRES" | "WINDLASS_AUTH_PG_MAIN" => Some(server.url()),
        "WINDLASS_AUTH_WRONG" => Some(server.url().replace("tests@", "canary-password@")),
        "WINDLASS_AUTH_MISSING" => Some("postgres://u:canary-password@127.0.0.1:1/x?sslmode=disable".to_owned()),
        "WINDLASS_AUTH_BROKEN" => Some("canary-password :// what".to_owned()),
        "WINDLASS_AUTH_PARTS" => {
            let port = server.port();
            Some(format!(
                r#"{{"type": "postgres", "data": {{"db_host": "127.0.0.1", "db_port": {port}, "db_user": "windlass", "db_password": "tests", "db_name": "postgres"}}}}"#
            ))
        }
        _ => None,
    });
    PostgresTool::new(Arc::new(known), PostgresOptions { max_result_bytes: 1 << 20, ..PostgresOptions::default() })
}

fn input(sql: &str, params: &str) -> String {
    format!(r#"{{"statements": [{{"sql": {}, "params": {params}}}]}}"#, to_json(&Value::from(sql)))
}

/// Returns the first value of the first row.
fn value(outcome: &TaskOutcome) -> String {
    let rows = outcome.output.get("rows").and_then(Value::as_list).unwrap_or_default();
    let first = rows.first().and_then(Value::as_map).and_then(|row| row.values().next());
    first.map_or_else(|| summary(outcome), to_json)
}

#[tokio::test]
async fn values_are_typed_both_ways() {
    let table = [
        ("select 1::int2", "[]", "1"),
        ("select $1::int4", "[-7]", "-7"),
        ("select $1::int8", "[9223372036854775807]", "9223372036854775807"),
        ("select $1::int4", r#"[" 42 "]"#, "42"),
        ("select $1::int4", "[5.0]", "5"),
        ("select $1::float4", "[0.1]", "0.1"),
        ("select $1::float8", "[1e300]", "1e+300"),
        ("select 'NaN'::float8", "[]", r#""NaN""#),
        (
            "select $1::numeric",
            r#"["123456789012345678901234567890.1234567890"]"#,
            "123456789012345678901234567890.1234567890",
        ),
        ("select $1::numeric", r#"["-0.00010"]"#, "-0.00010"),
        ("select $1::numeric", "[100000000]", "100000000"),
        ("select 1e-20::numeric", "[]", "0.00000000000000000001"),
        ("select 'NaN'::numeric", "[]", r#""NaN""#),
        ("select $1::text", r#"["a'; drop table x; --"]"#, r#""a'; drop table x; --""#),
        ("select $1::text", "[5]", r#""5""#),
        ("select $1::text", r#"[{"a": 1}]"#, r#""{\"a\":1}""#),
        ("select $1::varchar(2)", r#"["abc"]"#, r#""ab""#),
        ("select $1 || 'x'", r#"["007"]"#, r#""007x""#),
        ("select $1::bool", "[true]", "true"),
        ("select $1::bool", r#"["False"]"#, "false"),
        ("select $1::jsonb", r#"[{"b": [1, null], "a": "x"}]"#, r#"{"a":"x","b":[1,null]}"#),
        ("select $1::json", r#"["{\"a\": 1.10}"]"#, r#"{"a":1.1}"#),
        ("select $1::jsonb", "[[1, 2]]", "[1,2]"),
        ("select $1::jsonb", "[null]", "null"),
        ("select $1::timestamptz", r#"["2026-01-02T03:04:05.5+01:00"]"#, r#""2026-01-02T02:04:05.5Z""#),
        ("select $1::timestamp", r#"["2026-01-02 03:04:05"]"#, r#""2026-01-02T03:04:05""#),
        ("select $1::timestamp", r#"["1969-12-31T23:59:59.000001"]"#, r#""1969-12-31T23:59:59.000001""#),
        ("select 'infinity'::timestamptz", "[]", r#""infinity""#),
        ("select $1::date", r#"["1999-12-31"]"#, r#""1999-12-31""#),
        ("select $1::time", r#"["23:59:59.25"]"#, r#""23:59:59.25""#),
        ("select $1::uuid", r#"["018F2F6E-7C4B-7000-8000-00000000000a"]"#, r#""018f2f6e-7c4b-7000-8000-00000000000a""#),
        ("select $1::bytea", r#"["AAH/"]"#, r#""AAH/""#),
        ("select $1::int[]", "[[1, null, 3]]", "[1,null,3]"),
        ("select $1::int[]", "[[[1, 2], [3, 4]]]", "[[1,2],[3,4]]"),
        ("select $1::text[]", r#"[["a,b", "\"q\\", "", "NULL", "{x}"]]"#, r#"["a,b","\"q\\","","NULL","{x}"]"#),
        ("select $1::text[]", "[[]]", "[]"),
        ("select $1::jsonb[]", r#"[[{"a": 1}, [2]]]"#, r#"[{"a":1},[2]]"#),
        ("select $1 = any($2::text[])", r#"["b", ["a", "b"]]"#, "true"),
        ("select $1::interval", r#"["1 day 02:00"]"#, r#""1 day 02:00:00""#),
        ("select $1::inet", r#"["10.0.0.1/8"]"#, r#""10.0.0.1/8""#),
        ("select int4range(1, 5)", "[]", r#""[1,5)""#),
        ("select row(1, 'a')", "[]", r#""(1,a)""#),
        ("select '1 day'::interval as x, 2 as x -- twice", "[]", "2"),
        ("select jsonb_build_object('a', $1, 'b', $2)", r#"["x", 2]"#, r#"{"a":"x","b":2}"#),
        ("select pg_notify('x', '')", "[]", "null"),
        ("select $1::int4", "[null]", "null"),
        ("show server_encoding", "[]", r#""UTF8""#),
    ];
    let tool = tool();
    for (sql, params, expected) in table {
        assert_eq!(value(&call_tool(&tool, &input(sql, params)).await), expected, "{sql} {params}");
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_names_its_parameter() {
    let table = [
        (
            "select 1, $1::int4",
            r#"["x"]"#,
            r#"the 1st value of the statement ($1) is the string "x", which is not a valid int4"#,
        ),
        (
            "select $1::int4, $2::int2",
            "[1, 70000]",
            "the 2nd value of the statement ($2) is the integer 70000, which is not a valid int2",
        ),
        ("select $1::int4", "[1.5]", "the 1st value of the statement ($1) is the float 1.5, which is not a valid int4"),
        ("select $1::int4", "[{}]", "the 1st value of the statement ($1) is an object, which is not a valid int4"),
        (
            "select $1::bool",
            r#"["maybe"]"#,
            r#"the 1st value of the statement ($1) is the string "maybe", which is not a valid bool"#,
        ),
        (
            "select $1::jsonb",
            r#"["Bob"]"#,
            r#"the 1st value of the statement ($1) is the string "Bob", which is not a valid jsonb"#,
        ),
        (
            "select $1::timestamptz",
            "[5]",
            "the 1st value of the statement ($1) is the integer 5, which is not a valid timestamptz",
        ),
        (
            "select $1::uuid",
            r#"["x"]"#,
            r#"the 1st value of the statement ($1) is the string "x", which is not a valid uuid"#,
        ),
        (
            "select $1::bytea",
            r#"["%"]"#,
            r#"the 1st value of the statement ($1) is the string "%", which is not a valid bytea"#,
        ),
        (
            "select $1::int[]",
            "[[1, \"x\"]]",
            "the 1st value of the statement ($1) is an array, which is not a valid _int4",
        ),
        (
            "select $1::text",
            r#"["a\u0000b"]"#,
            "the 1st value of the statement ($1) contains a NUL character, which Postgres text cannot",
        ),
        ("select $1::int4", "[1, 2]", "the statement has 1 parameters, but 2 values"),
        (
            "select 1; select $2::int4",
            r#"[1, "x"]"#,
            r#"the 2nd value of the statement ($2) is the string "x", which is not a valid int4"#,
        ),
    ];
    let tool = tool();
    for (sql, params, expected) in table {
        let outcome = call_tool(&tool, &input(sql, params)).await;
        assert_eq!(summary(&outcome), format!("BadInput input: {expected}"), "{sql} {params}");
    }
    let hints = [
        ("select 1 where 1 in ($1)", "[[1, 2]]", "= ANY("),
        ("select 1 where 'a'::text in ($1)", r#"[["a", "b"]]"#, "= ANY("),
        ("select 1 where 1 < $1", "[1.5]", "::numeric"),
        ("select 1 where 1 < $1", r#"["x"]"#, "whole number"),
    ];
    for (sql, params, hint) in hints {
        let outcome = call_tool(&tool, &input(sql, params)).await;
        let hint_text = error(&outcome).hint.clone().unwrap_or_default();
        assert!(hint_text.contains(hint), "{sql}: {hint_text}");
    }
    let outcome = call_tool(&tool, &input("select $1::date, $2::timestamp", r#"["2026-01-01", "soon"]"#)).await;
    assert_eq!(class(&outcome), ("22007", "pg", true));
    assert!(error(&outcome).message.contains("parameter $2"), "{}", error(&outcome).message);
}

#[tokio::test]
async fn several_statements_are_one_transaction() {
    let tool = tool();
    let script = "create table many (id int primary key, t text); -- first; one\n insert into many values (1, 'a;b'), (2, $x$c;d$x$); select * from many order by id";
    let outcome =
        call_tool(&tool, &format!(r#"{{"statements": [{}], "numbered": true}}"#, to_json(&Value::from(script)))).await;
    let rows = r#"[{"id":1,"t":"a;b"},{"id":2,"t":"c;d"}]"#;
    assert_eq!(part(&outcome, "rows"), rows, "{}", summary(&outcome));
    assert_eq!(part(&outcome, "columns"), r#"["id","t"]"#);
    assert_eq!(part(&outcome, "command_2.rows"), rows);
    assert_eq!(part(&outcome, "command_1"), r#"{"rows":[],"rowcount":2,"row_count":2,"affected_rows":2,"columns":[]}"#);
    assert_eq!(outcome.output.get("commands").and_then(Value::as_list).map(<[Value]>::len), Some(3));
    // The second statement fails, so the first is rolled back.
    let outcome = call_tool(&tool, &input("delete from many; insert into many values (3), ($1)", "[3]")).await;
    assert_eq!(class(&outcome), ("23505", "pg", true));
    assert_eq!(value(&call_tool(&tool, &input("select count(*) from many", "[]")).await), "2");
    // Each statement takes the parameters that it names.
    let both = "update many set t = $2 where id = $1; insert into many values ($3, $2) returning id, t";
    let outcome = call_tool(&tool, &input(both, r#"[1, "new", 9]"#)).await;
    assert_eq!(
        summary(&outcome),
        r#"{"rows":[{"id":9,"t":"new"}],"rowcount":1,"row_count":1,"columns":["id","t"],"commands":[{"rows":[],"rowcount":1,"row_count":1,"affected_rows":1,"columns":[]},{"rows":[{"id":9,"t":"new"}],"rowcount":1,"row_count":1,"columns":["id","t"]}]}"#
    );
    // The script's own transaction control, and statements that cannot run in a transaction.
    let own = call_tool(&tool, &input("begin; delete from many; rollback; select count(*) from many", "[]")).await;
    assert_eq!(value(&own), "3");
    assert_eq!(value(&call_tool(&tool, &input("vacuum many; select 1 as x", "[]")).await), "1");
    // A cached plan does not outlive a change of its table.
    assert_eq!(value(&call_tool(&tool, &input("select * from many where id = $1", "[9]")).await), "9");
    assert!(
        call_tool(&tool, &input("alter table many add column more int; alter table many drop column t", "[]"))
            .await
            .error
            .is_none()
    );
    let again = call_tool(&tool, &input("select * from many where id = $1", "[9]")).await;
    assert_eq!(part(&again, "rows"), r#"[{"id":9,"more":null}]"#, "{}", summary(&again));
}

#[tokio::test]
async fn custom_types_are_read() {
    let tool = tool();
    let make = "create type mood as enum ('sad', 'ok'); create domain small as int check (value < 10); create table own (m mood, s small, ms mood[])";
    assert!(call_tool(&tool, &input(make, "[]")).await.error.is_none());
    let insert = "insert into own values ($1, $2, $3) returning m, s, ms, '5 min'::interval as i";
    let outcome = call_tool(&tool, &input(insert, r#"["ok", 5, ["sad", null]]"#)).await;
    assert_eq!(
        part(&outcome, "rows"),
        r#"[{"m":"ok","s":5,"ms":["sad",null],"i":"00:05:00"}]"#,
        "{}",
        summary(&outcome)
    );
    let outcome = call_tool(&tool, &input(insert, r#"["great", 5, []]"#)).await;
    assert_eq!(
        summary(&outcome),
        r#"BadInput input: the 1st value of the statement ($1) is the string "great", which is not a valid mood"#
    );
    assert_eq!(class(&call_tool(&tool, &input(insert, r#"["ok", 50, []]"#)).await), ("23514", "pg", true));
}

#[tokio::test]
async fn refusals_have_their_sqlstate() {
    let tool = tool();
    let table = [
        ("select * from nowhere", "42P01", r#"relation "nowhere" does not exist"#),
        ("selekt 1", "42601", r#"syntax error at or near "selekt""#),
        ("select 1/0", "22012", "division by zero"),
    ];
    for (sql, code, message) in table {
        let outcome = call_tool(&tool, &input(sql, "[]")).await;
        assert_eq!(class(&outcome), (code, "pg", true), "{sql}");
        assert_eq!(fact(&outcome, "pg.code"), format!("{code:?}"));
        assert_eq!(fact(&outcome, "pg.message"), to_json(&Value::from(message)));
    }
    assert_eq!(fact(&call_tool(&tool, &input("select 1", "[]")).await, "pg.code"), "null");
    let large = call_tool(&tool, &input("select repeat('x', 600000) from generate_series(1, 3)", "[]")).await;
    assert_eq!(class(&large), ("ResultTooLarge", "limit", false));
}

#[tokio::test]
async fn credentials_authenticate_and_are_redacted() {
    let tool = tool();
    let ask_as =
        async |auth: &str| call_tool(&tool, &format!(r#"{{"auth": {auth}, "statements": ["select 7 as x"]}}"#)).await;
    for auth in [r#""pg-main""#, r#"{"type": "postgres", "credential": "parts"}"#, r#""parts""#, "null"] {
        assert_eq!(value(&ask_as(auth).await), "7", "{auth}");
    }
    let unknown = ask_as(r#""some alias""#).await;
    assert_eq!(class(&unknown), ("UnknownCredential", "auth", false));
    let table =
        [("wrong", "28P01", "pg"), ("missing", "connection", "connection"), ("broken", "BadCredential", "auth")];
    for (auth, code, kind) in table {
        let outcome = ask_as(&format!("{auth:?}")).await;
        assert_eq!((class(&outcome).0, class(&outcome).1), (code, kind), "{auth}");
        assert!(!debug_text(&outcome).contains("canary"), "{}", debug_text(&outcome));
        let message = &error(&outcome).message;
        assert!(message.contains(&format!("the credential `{auth}`")), "{message}");
        assert_eq!(message.contains("127.0.0.1:"), auth != "broken", "{message}");
    }
    assert_eq!(fact(&ask_as(r#""missing""#).await, "pg.code"), r#""08001""#);
}

/// Returns how many statements with this text the server is running.
async fn running(tool: &PostgresTool, text: &str) -> String {
    let sql = "select count(*) from pg_stat_activity where state = 'active' and query = $1";
    value(&call_tool(tool, &input(sql, &format!("[{}]", to_json(&Value::from(text))))).await)
}

#[tokio::test]
async fn an_abandoned_statement_is_cancelled_on_the_server() {
    let tool = tool();
    let slow = "select pg_sleep(1000)";
    let outcome = call_tool(&tool, &input(slow, "[]").replacen('{', r#"{"timeout": 0.3, "#, 1)).await;
    assert_eq!(class(&outcome), ("timeout", "timeout", false));
    while running(&tool, slow).await != "0" {}
    let slow = "select pg_sleep(2000)";
    let call = tokio::spawn(tool.call(call(&input(slow, "[]"))));
    while running(&tool, slow).await != "1" {}
    call.abort();
    while running(&tool, slow).await != "0" {}
}

#[test]
fn the_cancel_request_is_sent_before_the_call_ends() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reading = runtime();
    let watching = tool();
    let mark = "given_up_at_the_end";
    let setup = format!("create table {mark} (n int)");
    assert!(reading.block_on(call_tool(&watching, &input(&setup, "[]"))).error.is_none());
    let slow = format!("insert into {mark} select 1 from pg_sleep(60)");
    let timed = input(&slow, "[]").replacen('{', r#"{"timeout": 0.3, "#, 1);
    // After the call nothing runs on this runtime, as when a program exits: a request not sent by then is never sent.
    let ending = runtime();
    let outcome = ending.block_on(call_tool(&tool(), &timed));
    assert_eq!(class(&outcome), ("timeout", "timeout", false));
    drop(ending);
    reading.block_on(async { while running(&watching, &slow).await != "0" {} });
    let count = reading.block_on(call_tool(&watching, &input(&format!("select count(*) from {mark}"), "[]")));
    assert_eq!(value(&count), "0");
}

#[tokio::test]
async fn connections_are_kept_and_broken_ones_are_not() {
    let tool = tool();
    let number = async |tool: &PostgresTool| value(&call_tool(tool, &input("select pg_backend_pid()", "[]")).await);
    let first = number(&tool).await;
    assert_eq!(number(&tool).await, first);
    assert_eq!(class(&call_tool(&tool, &input("select 1/0", "[]")).await).0, "22012");
    assert_eq!(number(&tool).await, first);
    // Session settings of a statement end with its connection.
    assert!(call_tool(&tool, &input("set search_path to nowhere", "[]")).await.error.is_none());
    let second = number(&tool).await;
    assert_ne!(second, first);
    // The server closes the connection.
    let other = self::tool();
    assert_eq!(
        value(&call_tool(&other, &input("select pg_terminate_backend($1)", &format!("[{second}]"))).await),
        "true"
    );
    // The backend was asked to terminate and does so soon.
    let there = input("select count(*) from pg_stat_activity where pid = $1", &format!("[{second}]"));
    while value(&call_tool(&other, &there).await) != "0" {}
    assert_ne!(number(&tool).await, second);
    // During a statement this is a broken connection.
    let outcome = call_tool(&tool, &input("select pg_terminate_backend(pg_backend_pid())", "[]")).await;
    assert_eq!(class(&outcome).1, "connection", "{}", summary(&outcome));
}

/// Lets the server write a PEM file into its own folder, where only it can read it.
async fn write_pem(tool: &PostgresTool, file: &str, label: &str, der: &[u8]) {
    let hex: String = der.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = format!(
        "'-----BEGIN {label}-----' || chr(10) || encode(decode('{hex}', 'hex'), 'base64') || chr(10) || '-----END {label}-----'"
    );
    let sql = format!("copy (select unnest(string_to_array({lines}, chr(10)))) to program 'umask 077; cat > {file}'");
    let outcome = call_tool(tool, &input(&sql, "[]")).await;
    assert!(outcome.error.is_none(), "{}", summary(&outcome));
}

#[tokio::test]
async fn connections_can_use_tls() {
    let server = PostgresServer::start().unwrap_or_else(|problem| panic!("{problem}"));
    let url = server.url();
    let known = NamedCredentials::new(move |name| {
        let mode = name.strip_prefix("WINDLASS_AUTH_")?.to_ascii_lowercase().replace('_', "-");
        let mode = if mode == "postgres" { "disable" } else { &mode };
        Some(format!("{url}?sslmode={mode}"))
    });
    let tool = PostgresTool::new(Arc::new(known), PostgresOptions::default());
    let ask_as = async |auth: &str, sql: &str| {
        call_tool(&tool, &input(sql, "[]").replacen('{', &format!(r#"{{"auth": "{auth}", "#), 1)).await
    };
    assert_eq!(class(&ask_as("require", "select 1").await).1, "connection");
    write_pem(&tool, "server.crt", "CERTIFICATE", include_bytes!("tls/localhost.cert.der")).await;
    write_pem(&tool, "server.key", "PRIVATE KEY", include_bytes!("tls/localhost.key.der")).await;
    for sql in ["alter system set ssl = on", "select pg_reload_conf()"] {
        assert!(ask_as("disable", sql).await.error.is_none());
    }
    let is_secret = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    // The server applies its new settings after a delay.
    while ask_as("require", "select 1").await.error.is_some() {}
    assert_eq!(value(&ask_as("require", is_secret).await), "true");
    assert_eq!(value(&ask_as("prefer", is_secret).await), "true");
    assert_eq!(value(&ask_as("disable", is_secret).await), "false");
    let stranger = ask_as("verify-full", "select 1").await;
    assert_eq!(class(&stranger).1, "connection");
    assert!(error(&stranger).message.contains("certificate"), "{}", summary(&stranger));
    assert_eq!(class(&ask_as("sometimes", "select 1").await).0, "BadCredential");
}

#[tokio::test]
async fn servers_named_by_a_definition_must_be_public() {
    let (url, port) = (server().url(), server().port());
    let by_name = url.replace("127.0.0.1", "localhost");
    let known = move |name: &str| match name {
        "WINDLASS_AUTH_POSTGRES" => Some(url.clone()),
        "WINDLASS_AUTH_NAMED" => Some(by_name.clone()),
        "WINDLASS_AUTH_DENIED" => Some("postgres://u:p@127.9.9.9:1/x".to_owned()),
        "WINDLASS_AUTH_METADATA" => Some("postgres://u:p@metadata.localhost:1/x?hostaddr=169.254.169.254".to_owned()),
        _ => None,
    };
    let outbound = Outbound::default().with_rules(Vec::new(), vec!["127.9.0.0/16".parse().unwrap()], "server.outbound");
    let options = PostgresOptions { outbound, ..PostgresOptions::default() };
    let tool = PostgresTool::new(Arc::new(NamedCredentials::new(known)), options);
    let facts = |url: &str| format!(r#"{{"type": "postgres", "url": "{url}"}}"#);
    let own = format!(
        r#"{{"host": "127.0.0.1", "port": {port}, "user": "windlass", "password": "tests", "database": "postgres"}}"#
    );
    for (auth, expected) in [
        (r#""postgres""#.to_owned(), "1"),
        (r#""named""#.to_owned(), "1"),
        (r#""denied""#.to_owned(), "`127.9.9.9` is denied"),
        (own, "`127.0.0.1` is not public"),
        (facts(&server().url()), "`127.0.0.1` is not public"),
        (facts("postgres://u:p@[::ffff:10.0.0.1]:5432/x"), "not public"),
        (facts("postgres://u:p@0x7f.1/x"), "usual spelling"),
        (facts("postgres://u:p@example.com/x?hostaddr=10.0.0.1"), "`10.0.0.1` is not public"),
        (facts("postgres://u:p@%2Fvar%2Frun%2Fpostgresql/x"), "a file of this machine"),
        (facts("postgres://u:p@1.1.1.1,10.0.0.1/x"), "`10.0.0.1` is not public"),
    ] {
        let outcome = call_tool(&tool, &format!(r#"{{"auth": {auth}, "statements": [{{"sql": "select 1"}}]}}"#)).await;
        let description = value(&outcome);
        assert!(description.contains(expected), "{auth}: {description}");
        if expected != "1" {
            assert_eq!(class(&outcome), ("BlockedAddress", "input", false), "{auth}");
        }
    }
}
