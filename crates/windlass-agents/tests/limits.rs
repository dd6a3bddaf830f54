//! Checks that every limit of agents' tools has an effect, one line per case.

use windlass_agents::chat::{ChatOptions, ModelProtocol};
use windlass_agents::{AgentFiles, BashOptions, DefaultRule, PermissionPolicy, ToolRegistry};
use windlass_core::{Limits, ProcessLimits};
use windlass_runtime::{Tool, ToolCall};
use windlass_tools::{HttpOptions, HttpTool, Outbound};
use windlass_value::{Duration, Value, parse_json};

use crate::common::Scene;
use crate::support::canned::{AfterReply, CannedService};
use crate::support::error;
use crate::support::models::{ASK, options, turn};

const SHORT: Duration = Duration::from_ms(50);

fn scene_with_limits(limits: &ProcessLimits) -> Scene {
    let path = [("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())];
    let http = HttpTool::new(HttpOptions { outbound: Outbound::open(), ..HttpOptions::from_limits(limits) });
    let registry = ToolRegistry::builder_with_limits(limits)
        .file_tools()
        .bash(BashOptions::with_environment(path))
        .http(http)
        .function("long", "d", parse_json(r#"{"type": "object"}"#).unwrap(), |_| async {
            Ok(Value::from("abcdefghij"))
        });
    let scene = Scene::with(registry, PermissionPolicy::new(DefaultRule::Allow));
    for name in ["a.txt", "b.txt", "c.txt"] {
        std::fs::write(scene.work(name), "line one\n".repeat(20) + "line two\n").unwrap();
    }
    scene
}

#[tokio::test]
async fn tool_limits_have_an_effect() {
    let slow = CannedService::start(Vec::new(), AfterReply::Silence).await;
    let slow = format!(r#"{{"url": "{}"}}"#, slow.url);
    type Change = fn(&mut ProcessLimits);
    let table: [(Change, &str, &str, &str); 12] = [
        (|l| l.max_agent_answer_bytes = 4, "long", "{}", "… 2 bytes left out …"),
        (
            |l| l.max_agent_answer_bytes = 100,
            "read",
            r#"{"path": "a.txt"}"#,
            "… cut after 100 bytes: continue with offset 12",
        ),
        (|l| l.max_agent_answer_bytes = 4, "bash", r#"{"command": "echo abcdefgh"}"#, "bytes left out"),
        (
            |l| l.max_agent_write_bytes = 2,
            "write",
            r#"{"path": "x", "content": "abc"}"#,
            "`limits.max_agent_write_bytes`",
        ),
        (
            |l| l.default_agent_tool_time = SHORT,
            "bash",
            r#"{"command": "sleep 600"}"#,
            "did not end within 0.05 seconds",
        ),
        (|l| l.default_agent_tool_time = SHORT, "http", &slow, "within 50ms"),
        (|l| l.max_agent_tool_time = SHORT, "bash", r#"{"command": "true", "timeout": 1}"#, "the maximum of 0.05"),
        (|l| l.max_agent_search_results = 1, "glob", r#"{"pattern": "*"}"#, "only the first 1 are shown"),
        (|l| l.max_agent_search_results = 2, "grep", r#"{"pattern": "line"}"#, "only the first 2 are shown"),
        (|l| l.max_agent_search_file_bytes = 5, "grep", r#"{"pattern": "line"}"#, "no line matches"),
        (|l| l.max_agent_search_entries = 1, "grep", r#"{"pattern": "two"}"#, "not everything was searched"),
        (|l| l.max_agent_search_entries = 1, "glob", r#"{"pattern": "*"}"#, "not everything was searched"),
    ];
    for (change, tool, arguments, expected) in table {
        let mut limits = ProcessLimits::default();
        change(&mut limits);
        let answer = scene_with_limits(&limits).call_json(tool, arguments).await.content;
        assert!(answer.contains(expected), "{tool} {arguments}: {answer}");
        // Cases that would wait long with the default limits are not tried.
        if !expected.contains("within") {
            let answer = scene_with_limits(&ProcessLimits::default()).call_json(tool, arguments).await.content;
            assert!(!answer.contains(expected), "{tool} {arguments}: {answer}");
        }
    }
}

/// The tool descriptions for models name the limits.
#[test]
fn descriptions_name_the_limits() {
    let limits = ProcessLimits {
        max_agent_answer_bytes: 2_048,
        max_agent_tool_time: Duration::from_secs(77),
        max_agent_search_file_bytes: 3 << 20,
        ..ProcessLimits::default()
    };
    let specs = scene_with_limits(&limits).registry.local_specs();
    let descriptions: String =
        specs.iter().map(|spec| format!("{} {:?}\n", spec.description, spec.parameters)).collect();
    for part in ["at most 2 KiB at a time", "files over 3 MiB", "77"] {
        assert!(descriptions.contains(part), "{part}: {descriptions}");
    }
}

#[tokio::test]
async fn model_limits_have_an_effect() {
    let options_within = |limits: ProcessLimits, url: &str| {
        let ChatOptions { timeout, max_retry_after, .. } = ChatOptions::with_limits(&limits);
        ChatOptions { timeout, max_retry_after, ..options(url, ModelProtocol::OpenAi, false) }
    };
    let busy = CannedService::reply(429, "retry-after: 30\r\n", b"{}").await;
    let limits = ProcessLimits { max_retry_after: Duration::from_secs(20), ..ProcessLimits::default() };
    let outcome = turn(options_within(limits, &busy.url), ASK).await;
    assert!(error(&outcome).hint.as_deref().unwrap_or_default().contains("`limits.max_retry_after`"), "{outcome:?}");
    let slow = CannedService::start(Vec::new(), AfterReply::Silence).await;
    let limits = ProcessLimits { max_model_time: SHORT, ..ProcessLimits::default() };
    let outcome = turn(options_within(limits, &slow.url), ASK).await;
    assert!(error(&outcome).hint.as_deref().unwrap_or_default().contains("`limits.max_model_time`"), "{outcome:?}");
}

#[tokio::test]
async fn context_file_limit_has_an_effect() {
    let scene = scene_with_limits(&ProcessLimits::default());
    let input = Value::object([("folder", Value::from(scene.folder())), ("paths", Value::list(vec!["a.txt".into()]))]);
    let small = AgentFiles::with_limits(&Limits { max_context_file_bytes: 3, ..Limits::default() });
    let outcome = small.call(ToolCall::for_test(input.clone())).await;
    assert!(error(&outcome).message.contains("`limits.max_context_file_bytes`"), "{outcome:?}");
    assert_eq!(AgentFiles::default().call(ToolCall::for_test(input)).await.error, None);
}
