//! MCP servers: one program and two HTTP servers, all real.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{Scene, object};
use server::{HttpServer, ReplyFormat};
use windlass_agents::{DefaultRule, McpServer, McpTransport, PermissionPolicy, ToolCatalogue, ToolRegistry};
use windlass_core::ProcessLimits;
use windlass_runtime::{Tool, ToolCall};
use windlass_testing::log::TestLog;
use windlass_tools::{HttpOptions, HttpTool, Outbound, Secret};
use windlass_value::{Duration, Value};

/// Starts this test program as a server: see `serves_mcp_when_started_as_server`.
fn program(env: &[(&str, &str)]) -> McpServer {
    let mut all = vec![("MCP_SERVER".to_owned(), Secret::plain("1"))];
    all.push(("SMALL_TOKEN".to_owned(), Secret::new("hush-hush-hush")));
    all.extend(env.iter().map(|(name, value)| ((*name).to_owned(), Secret::plain(*value))));
    let args = ["serves_mcp_when_started_as_server", "--exact", "--nocapture"].map(str::to_owned).to_vec();
    let command = std::env::current_exe().unwrap().display().to_string();
    McpServer::new("small", McpTransport::Program { command, args, env: all, folder: None })
}

#[test]
fn serves_mcp_when_started_as_server() {
    if std::env::var_os("MCP_SERVER").is_some() {
        server::serve_lines();
        std::process::exit(0);
    }
}

fn service(server: &HttpServer) -> McpServer {
    let headers = vec![("Authorization".to_owned(), Secret::new("Bearer hush-hush-hush"))];
    McpServer::new("small", McpTransport::Url { url: server.url(), headers })
}

fn scene(server: McpServer) -> Scene {
    let http = HttpTool::new(HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() });
    Scene::with(
        ToolRegistry::builder().file_tools().mcp(server).mcp_http(http),
        PermissionPolicy::new(DefaultRule::Allow),
    )
}

/// Checks that each limit of MCP servers has an effect, one line per case.
#[tokio::test]
async fn mcp_limits_have_an_effect() {
    type Change = fn(&mut ProcessLimits);
    let table: [(Change, &str); 4] = [
        (|l| l.max_mcp_tools = 3, "`limits.max_mcp_tools`"),
        (|l| l.max_mcp_description_chars = 5, "The t…"),
        (|l| l.max_agent_answer_bytes = 4, "bytes left out"),
        (|l| l.max_tool_reply_bytes = 10, "length limit exceeded"),
    ];
    for (change, expected) in table {
        let seen = async |limits: &ProcessLimits| {
            let over_http = HttpServer::start(ReplyFormat::Json).await;
            let http = HttpTool::new(HttpOptions { outbound: Outbound::open(), ..HttpOptions::from_limits(limits) });
            let registry = ToolRegistry::builder_with_limits(limits).mcp(service(&over_http)).mcp_http(http);
            let scene = Scene::with(registry, PermissionPolicy::new(DefaultRule::Allow));
            let offered = scene.registry.specs().await;
            let called = scene.call("small__echo", object([("text", "abcdefghij")])).await;
            format!("{offered:?} {called:?}")
        };
        let mut limits = ProcessLimits::default();
        change(&mut limits);
        let (now, before) = (seen(&limits).await, seen(&ProcessLimits::default()).await);
        assert!(now.contains(expected) && !before.contains(expected), "{expected}: {now}");
    }
}

async fn names(scene: &Scene) -> Vec<String> {
    let specs = scene.registry.specs().await.unwrap();
    specs.into_iter().map(|spec| spec.name).filter(|name| name.contains("__")).collect()
}

/// Waits for a condition that soon becomes true, or fails.
async fn wait_until(mut what: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !what().await {
        assert!(began.elapsed().as_secs() < 120, "the condition did not become true within 120 s");
        tokio::task::yield_now().await;
    }
}

/// Returns whether a process with this id runs. A zombie does not.
fn is_running(number: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
    let state = state.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("X").to_owned();
    state != "X" && state != "Z"
}

/// Checks the behaviour that all transports share.
async fn check_usual_calls(scene: &Scene) {
    let offered = names(scene).await;
    let expected = ["echo", "mixed", "fail", "refuse", "die", "hang", "grow", "environment", "spawn", "get_key"];
    assert_eq!(offered, expected.map(|name| format!("small__{name}")));
    for (tool, arguments, expected, error) in [
        ("small__echo", r#"{"text": "häl\nlo"}"#, "häl\nlo", false),
        (
            "small__mixed",
            "{}",
            "see\n[a picture, image/png, of about 6 bytes]\n[note://1]\ninner\n[a resource: file:///x (x)]",
            false,
        ),
        ("small__fail", "{}", "no luck", true),
        ("small__refuse", "{}", "the MCP server `small` answers with an error: not today", true),
        ("small__get_key", "{}", r#"{"key":"key"}"#, false),
        (
            "small__echo",
            r#"{"text": 5}"#,
            "the arguments do not match the schema of `small__echo`: /text: 5 is not of type \"string\"",
            true,
        ),
        ("small__ecko", "{}", "there is no tool `small__ecko`; did you mean `small__echo`?", true),
    ] {
        let found = scene.call_json(tool, arguments).await;
        assert_eq!((found.content.as_str(), found.error), (expected, error), "{tool} {arguments}");
    }
    let mut in_flight = tokio::task::JoinSet::new();
    for number in 0..10 {
        let text = number.to_string();
        let input = Value::map(scene.input("small__echo", object([("text", text.as_str())])));
        let calling = scene.tool().call(ToolCall::for_test(input));
        in_flight.spawn(async move { (common::answer(&calling.await).content, text) });
    }
    while let Some(ended) = in_flight.join_next().await {
        let (answered, expected) = ended.unwrap();
        assert_eq!(answered, expected);
    }
}

#[tokio::test]
async fn a_program_serves_tools() {
    let scene = scene(program(&[]));
    check_usual_calls(&scene).await;
    assert!(!names(&scene).await.contains(&"small__grown".to_owned()));
    scene.call("small__grow", object([])).await;
    wait_until(async || names(&scene).await.contains(&"small__grown".to_owned())).await;
    // The program gets only the configured environment, and no secret is returned.
    let environment = scene.call("small__environment", object([])).await.content;
    let (marks, given): (Vec<&str>, Vec<&str>) =
        environment.lines().partition(|line| line.starts_with("WINDLASS_PROCESS_MARK="));
    assert_eq!((marks.len(), given), (1, vec!["MCP_SERVER=1", "SMALL_TOKEN=***"]), "and what it is found by");
}

#[tokio::test]
async fn a_program_that_dies_during_a_call_is_restarted() {
    let scene = scene(program(&[]));
    for _ in 0..3 {
        let dead = scene.call("small__die", object([])).await;
        assert!(dead.error && dead.content.contains("during the call"), "{dead:?}");
        assert!(dead.content.contains("I am dying"), "its last error output: {dead:?}");
        let alive = scene.call("small__echo", object([("text", "again")])).await;
        assert_eq!((alive.content.as_str(), alive.error), ("again", false));
    }
}

#[tokio::test]
async fn a_program_and_its_children_end_with_the_registry() {
    let first = scene(program(&[]));
    let child = first.call("small__spawn", object([])).await.content;
    assert!(is_running(&child), "{child}");
    first.registry.close().await;
    wait_until(async || !is_running(&child)).await;
    let child = first.call("small__spawn", object([])).await.content;
    assert!(is_running(&child), "started anew");
    drop(first);
    wait_until(async || !is_running(&child)).await;
}

#[tokio::test]
async fn programs_that_are_no_servers_are_reported() {
    let of = |command: &str, args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env = vec![("PATH".to_owned(), Secret::plain(std::env::var("PATH").unwrap_or_default()))];
        let reach = McpTransport::Program { command: command.to_owned(), args, env, folder: None };
        McpServer { connect_timeout: Duration::from_secs(60), ..McpServer::new("small", reach) }
    };
    let silent = McpServer { connect_timeout: Duration::from_ms(500), ..of("sleep", &["1000"]) };
    for (server, why) in [
        (of("no-such-program-at-all", &[]), "cannot be started"),
        (of("sh", &["-c", "echo broken >&2; exit 1"]), "broken"),
        (silent.clone(), "did not answer within 500ms"),
        (McpServer { timeout: Duration::from_ms(300), ..silent }, "did not answer within 300ms"),
        (program(&[("MCP_VERSION", "1999-01-01")]), "version 1999-01-01"),
    ] {
        let scene = scene(server.clone());
        let error = scene.registry.specs().await.unwrap_err();
        assert_eq!((&*error.code, &*error.kind), ("McpUnreachable", "mcp"));
        assert!(error.message.contains(why) && error.message.contains("`small`"), "{}", error.message);
        let called = scene.call("small__echo", object([])).await;
        assert!(called.error && called.content.contains(why), "{called:?}");
        let without = self::scene(McpServer { optional: true, ..server });
        assert_eq!(without.registry.specs().await.unwrap().len(), 4, "the others are there");
    }
}

#[tokio::test]
async fn a_bad_tool_does_not_affect_the_others() {
    for (kind, why) in [("no_object", "invalid type"), ("no_schema", "foo"), ("doubling", "more than 10000 subschemas")]
    {
        let scene = scene(program(&[("MCP_BAD", kind)]));
        let offered = names(&scene).await;
        assert!(offered.contains(&"small__echo".to_owned()) && !offered.contains(&"small__bad".to_owned()), "{kind}");
        let warnings = scene.registry.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("the tool `bad` of"), "{kind}: {warnings:?}");
        assert!(warnings[0].contains(why), "{kind}: {warnings:?}");
        let called = scene.call("small__bad", object([])).await;
        assert!(called.error && called.content.contains("there is no tool"), "{kind}: {called:?}");
    }
}

#[tokio::test]
async fn all_protocol_versions_are_supported() {
    for version in ["2026-07-28", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let scene = scene(program(&[("MCP_VERSION", version)]));
        assert_eq!(scene.call("small__echo", object([("text", version)])).await.content, version);
    }
}

#[tokio::test]
async fn http_servers_serve_tools() {
    for format in [ReplyFormat::Json, ReplyFormat::Stream] {
        let server = HttpServer::start(format).await;
        let scene = scene(service(&server));
        check_usual_calls(&scene).await;
        assert_eq!((server.handshakes(), server.wrong()), (1, Vec::new()), "{format:?}");
        // The session has expired: a new one is opened, and the call is made.
        server.forget_sessions();
        let again = scene.call("small__echo", object([("text", "again")])).await;
        assert_eq!((again.content.as_str(), again.error), ("again", false), "{format:?}");
        assert_eq!(server.handshakes(), 2, "{format:?}");
        scene.registry.close().await;
    }
}

#[tokio::test]
async fn an_http_server_announces_changed_tools() {
    let server = HttpServer::start(ReplyFormat::Stream).await;
    let scene = scene(service(&server));
    assert!(!names(&scene).await.contains(&"small__grown".to_owned()));
    wait_until(async || server.has_listener()).await;
    scene.call("small__grow", object([])).await;
    wait_until(async || names(&scene).await.contains(&"small__grown".to_owned())).await;
}

#[tokio::test]
async fn failing_http_servers_are_reported() {
    let server = HttpServer::start(ReplyFormat::Stream).await;
    let quick = McpServer { timeout: Duration::from_ms(700), ..service(&server) };
    let scene = scene(quick.clone());
    // A busy machine may need several tries to connect or to get an answer.
    let answers = async |text| scene.call("small__echo", object([("text", text)])).await.content == text;
    wait_until(async || answers("there").await).await;
    let hung = scene.call("small__hang", object([])).await;
    assert!(hung.error && hung.content.contains("has not answered within 700ms"), "{hung:?}");
    // A reply that breaks off is detected immediately, not at the timeout.
    let patient = self::scene(service(&server));
    let dead = patient.call("small__die", object([])).await;
    assert!(dead.error && dead.content.contains("it is unknown whether the call was executed"), "{dead:?}");
    assert!(!dead.content.contains("within"), "{dead:?}");
    assert_eq!(patient.call("small__echo", object([("text", "anew")])).await.content, "anew");
    wait_until(async || answers("still there").await).await;
    let McpTransport::Url { url, .. } = quick.transport else { panic!("a service") };
    let of = |url: &str, headers: Vec<(String, Secret)>| {
        let reach = McpTransport::Url { url: url.to_owned(), headers };
        McpServer { connect_timeout: Duration::from_secs(60), ..McpServer::new("small", reach) }
    };
    for (server, why) in [
        (of(&url, Vec::new()), "HTTP 401"),
        (of(&url, vec![("Authorization".to_owned(), Secret::new("Bearer wrong-wrong"))]), "HTTP 401"),
        (of("http://127.0.0.1:1/", Vec::new()), "127.0.0.1:1"),
        (of("nonsense", Vec::new()), "nonsense"),
        (of(&url, vec![("Mcp-Session-Id".to_owned(), Secret::plain("x"))]), "cannot be sent"),
    ] {
        let error = self::scene(server).registry.specs().await.unwrap_err();
        assert!(error.message.contains(why), "{why}: {}", error.message);
        assert!(!error.message.contains("wrong-wrong"), "{}", error.message);
    }
    // The address rules apply to MCP servers, too.
    let http = HttpTool::new(HttpOptions::default());
    let closed = Scene::with(
        ToolRegistry::builder().mcp(service(&server)).mcp_http(http),
        PermissionPolicy::new(DefaultRule::Allow),
    );
    let error = closed.registry.specs().await.unwrap_err();
    assert!(error.message.contains("not public"), "{}", error.message);
}

#[tokio::test]
async fn a_stopped_http_server_is_reported() {
    let server = HttpServer::start(ReplyFormat::Json).await;
    let settings = service(&server);
    let scene = scene(McpServer { timeout: Duration::from_secs(60), ..settings });
    assert_eq!(scene.call("small__echo", object([("text", "a")])).await.content, "a");
    drop(server);
    let away = scene.call("small__echo", object([("text", "b")])).await;
    assert!(away.error && away.content.contains("`small`"), "{away:?}");
    assert!(names(&scene).await.contains(&"small__echo".to_owned()), "what it offers is known");
}

#[test]
fn server_names_are_checked() {
    for (name, good) in [("github", true), ("a-b_c", true), ("a__b", false), ("", false), ("a b", false), ("a_", false)]
    {
        assert_eq!(windlass_agents::is_server_name(name), good, "{name}");
    }
    let twice = ToolRegistry::builder().mcp(program(&[])).mcp(program(&[])).build();
    assert!(twice.err().unwrap().message.contains("two"));
}

#[tokio::test]
async fn an_unavailable_optional_server_is_logged_once() {
    let (log, _listening) = TestLog::for_this_thread();
    let command = "no-such-program-at-all".to_owned();
    let reach = McpTransport::Program { command, args: Vec::new(), env: Vec::new(), folder: None };
    let server = McpServer { optional: true, ..McpServer::new("small", reach) };
    let registry = ToolRegistry::builder().mcp(server).build().unwrap();
    for _ in 0..2 {
        assert!(registry.specs().await.unwrap().is_empty());
    }
    let lines = log.lines();
    assert!(
        lines.len() == 1 && lines[0].contains("`small`") && lines[0].contains("without this optional server"),
        "{lines:?}"
    );
}
