//! Every limit of the tools: a changed value takes effect, and the error it causes names it. Each line is a case.

use crate::support;

use support::{call_tool, error, service, summary};
use windlass_core::{ProcessLimits, TaskOutcome};
use windlass_runtime::Tool;
use windlass_testing::test_service::TestService;
use windlass_tools::{HttpOptions, HttpTool, Outbound};
use windlass_value::{Duration, to_json};

const SHORT: Duration = Duration::from_ms(50);

/// Describes an outcome: its error with the hint, or else its delay, its result and its `meta`.
fn describe(outcome: &TaskOutcome) -> String {
    match (&outcome.error, &outcome.next_call) {
        (Some(_), _) => format!("{} ({})", summary(outcome), error(outcome).hint.as_deref().unwrap_or_default()),
        (None, Some(again)) => format!("again after {}", again.after),
        (None, None) => format!("{} {}", summary(outcome), to_json(&outcome.meta)),
    }
}

/// Calls the tool with the default limits and with the changed one; only the second may yield `expected`.
async fn check<T: Tool>(
    tool: impl Fn(&ProcessLimits) -> T,
    change: impl FnOnce(&mut ProcessLimits),
    input: &str,
    expected: &str,
) {
    let (usual, mut changed) = (ProcessLimits::default(), ProcessLimits::default());
    change(&mut changed);
    let now = describe(&call_tool(&tool(&changed), input).await);
    assert!(now.contains(expected), "{expected}: {now}");
    // A call that would wait long with the default limits is skipped.
    if !expected.contains("_time") {
        let before = describe(&call_tool(&tool(&usual), input).await);
        assert!(!before.contains(expected), "{expected}: {before}");
    }
}

fn http(limits: &ProcessLimits) -> HttpTool {
    HttpTool::new(HttpOptions { outbound: Outbound::open(), ..HttpOptions::from_limits(limits) })
}

fn get(service: &TestService, path: &str) -> String {
    format!(r#"{{"uri": "{}"}}"#, service.url(path))
}

#[tokio::test]
async fn http_calls() {
    let one = service();
    let accepted = |more: &str| {
        format!(r#"{{"method": "POST", "uri": "{}", "body": 1}}"#, one.url(&format!("/async/w?times=99{more}")))
    };
    check(http, |l| l.max_tool_reply_bytes = 3, &get(&one, "/text"), "`limits.max_tool_reply_bytes`").await;
    check(http, |l| l.default_http_time = SHORT, &get(&one, "/slow?ms=600000"), "`limits.default_http_time`").await;
    check(http, |l| l.max_http_redirects = 0, &get(&one, "/redirect?to=/text"), "`limits.max_http_redirects`").await;
    check(http, |l| l.default_http_poll_wait = Duration::from_secs(5), &accepted(""), "again after PT5S").await;
    check(http, |l| l.max_retry_after = Duration::from_secs(6), &accepted("&retry-after=99"), "again after PT6S").await;
}

#[cfg(feature = "shell")]
#[tokio::test]
async fn programs() {
    let shell = |limits: &ProcessLimits| {
        windlass_tools::ShellTool::new(windlass_tools::ShellOptions::from_limits(limits, |name| {
            std::env::var(name).ok()
        }))
    };
    check(shell, |l| l.max_shell_output_bytes = 3, r#"{"command": "echo abcdef"}"#, r#""stdout_truncated":true"#).await;
    check(shell, |l| l.default_tool_time = SHORT, r#"{"command": "sleep 600"}"#, "`limits.default_tool_time`").await;
}

#[cfg(feature = "python")]
#[tokio::test]
async fn python() {
    use windlass_tools::{PythonOptions, PythonTool};
    let options = |limits: &ProcessLimits| PythonOptions::from_limits(limits, |name| std::env::var(name).ok());
    let python = |limits: &ProcessLimits| PythonTool::new(options(limits));
    check(python, |l| l.max_python_print_chars = 3, r#"{"code": "print('abcdef')"}"#, r#""stdout_truncated":true"#)
        .await;
    check(python, |l| l.max_python_result_bytes = 3, r#"{"code": "'abcdef'"}"#, "`limits.max_python_result_bytes`")
        .await;
    // Two concurrent calls need two interpreters.
    let one = python(&ProcessLimits { max_python_interpreters: 1, ..ProcessLimits::default() });
    let which = r#"{"code": "import os, time\ntime.sleep(0.1)\nresult = os.getpid()"}"#;
    let (first, second) = tokio::join!(call_tool(&one, which), call_tool(&one, which));
    assert_eq!(summary(&first), summary(&second));
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sqlite() {
    use windlass_tools::SqliteTool;
    let rows = r#"{"database": ":memory:", "statements": ["select 'abcdef' as a"]}"#;
    check(SqliteTool::with_limits, |l| l.max_sql_result_bytes = 3, rows, "`limits.max_sql_result_bytes`").await;
    let endless = r#"{"database": ":memory:", "statements": ["with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"]}"#;
    check(SqliteTool::with_limits, |l| l.default_tool_time = SHORT, endless, "`limits.default_tool_time`").await;
    let folder = std::env::temp_dir().join(format!("windlass-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a.db");
    let locked = rusqlite::Connection::open(&file).unwrap();
    locked.execute_batch("create table t (a); begin immediate").unwrap();
    let insert = format!(r#"{{"database": "{}", "statements": ["insert into t values (1)"]}}"#, file.display());
    let impatient = SqliteTool::with_limits(&ProcessLimits { max_sql_lock_wait: SHORT, ..ProcessLimits::default() });
    let began = std::time::Instant::now();
    assert!(summary(&call_tool(&impatient, &insert).await).starts_with("SQLITE_BUSY"));
    assert!(began.elapsed() < ProcessLimits::default().max_sql_lock_wait.to_std());
    drop(locked);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres() {
    use windlass_tools::{NamedCredentials, PostgresOptions, PostgresTool};
    // The port accepts connections and never replies.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://u:p@{}/x?sslmode=disable", silent.local_addr().unwrap());
    let postgres = |limits: &ProcessLimits| {
        let url = url.clone();
        let known = NamedCredentials::new(move |_| Some(url.clone()));
        PostgresTool::new(std::sync::Arc::new(known), PostgresOptions::from_limits(limits))
    };
    let select = r#"{"statements": ["select 1"]}"#;
    check(postgres, |l| l.max_connect_time = SHORT, select, "`limits.max_connect_time`").await;
    let limits = ProcessLimits { max_sql_connections: 3, max_sql_result_bytes: 4, ..ProcessLimits::default() };
    let options = PostgresOptions::from_limits(&limits);
    assert_eq!((options.max_connections, options.max_result_bytes), (3, 4));
}
