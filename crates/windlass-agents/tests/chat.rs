//! The tool `agent_model` against a scripted model, in both protocols, plain and streamed.

use crate::support;

use windlass_agents::chat::{
    AgentModelTool, ChatOptions, HeaderSource, ModelProtocol, ModelService, NoTools, PROVIDERS, Prices, TokenPrice,
};
use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall};
use windlass_testing::mock::{MockService, ModelRequest};
use windlass_testing::test_service::TestService;
use windlass_value::{Duration, Value, parse_json, to_json};

use std::sync::Arc;

use support::canned::CannedService;
use support::models::{ASK, BOTH, KEY, options, turn, turn_call, variables};
use support::{class, debug_text, error, part};

fn service(script: &str) -> MockService {
    TestService::from_mocks(script).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Calls in all four ways; all outcomes must be equal, except for ids that the service generates.
async fn ask_in_all_ways(service: &MockService, input: &str) -> TaskOutcome {
    let mut outcomes = Vec::new();
    for protocol in BOTH {
        for stream in [false, true] {
            outcomes.push((protocol, stream, turn(options(&service.model_url(), protocol, stream), input).await));
        }
    }
    let (_, _, first) = outcomes[0].clone();
    for (protocol, stream, outcome) in outcomes {
        assert_eq!(outcome_text(&outcome), outcome_text(&first), "{protocol:?}, stream {stream}");
    }
    first
}

fn outcome_text(outcome: &TaskOutcome) -> String {
    let error = outcome.error.as_ref().map(|error| format!("{} {}", error.code, error.kind));
    format!("{} {} {}", to_json(&outcome.output), to_json(&outcome.meta), error.unwrap_or_default())
}

#[tokio::test]
async fn answers_are_the_same_in_both_protocols() {
    let service = service(
        r#"{"mocks": [
            {"when": {"contains": "hello"}, "text": "Good morning, dear “reader”.",
             "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 60, "cache_write_tokens": 10}},
            {"when": {"contains": "tools"}, "text": "both", "calls": [
                {"name": "read", "arguments": {"path": "a/\"b\".txt", "lines": [1, 2]}},
                {"name": "list", "id": "own"}]},
            {"when": {"contains": "silent"}, "calls": [{"name": "read", "arguments": {"path": "x"}}]},
            {"when": {"contains": "long"}, "text": "cut o", "stop": "length"},
            {"when": {"contains": "bad"}, "text": "I will not.", "stop": "refusal"},
            {"when": {"contains": "wordless"}, "text": "", "stop": "refusal"}
        ]}"#,
    );
    let outcome = ask_in_all_ways(&service, ASK).await;
    assert_eq!(
        to_json(&outcome.output),
        r#"{"content":"Good morning, dear “reader”.","calls":[],"stop":"end","model":"m","usage":{"input_tokens":100,"output_tokens":20,"total_tokens":120,"reasoning_tokens":0,"cache_read_tokens":60,"cache_write_tokens":10}}"#
    );
    assert_eq!(
        to_json(&outcome.meta),
        r#"{"usage":{"input_tokens":100,"output_tokens":20,"total_tokens":120,"reasoning_tokens":0,"cache_read_tokens":60,"cache_write_tokens":10,"tokens":120}}"#
    );
    for (text, content, calls, stop) in [
        (
            "tools",
            r#""both""#,
            r#"[{"id":"call_1_1","name":"read","arguments":{"path":"a/\"b\".txt","lines":[1,2]},"problem":null},{"id":"own","name":"list","arguments":{},"problem":null}]"#,
            r#""tools""#,
        ),
        (
            "silent",
            r#""""#,
            r#"[{"id":"call_1_1","name":"read","arguments":{"path":"x"},"problem":null}]"#,
            r#""tools""#,
        ),
        ("long", r#""cut o""#, "[]", r#""length""#),
        ("bad", r#""I will not.""#, "[]", r#""refusal""#),
        ("wordless", r#""refused""#, "[]", r#""refusal""#),
    ] {
        let outcome = ask_in_all_ways(&service, &ASK.replace("hello", text)).await;
        let found = (part(&outcome, "content"), part(&outcome, "calls"), part(&outcome, "stop"));
        assert_eq!(found, (content.to_owned(), calls.to_owned(), stop.to_owned()));
    }
}

#[tokio::test]
async fn reasoning_is_counted_and_tokens_have_their_price() {
    let service = service(
        r#"{"mocks": [{"text": "x", "usage": {"input_tokens": 1000, "output_tokens": 500, "reasoning_tokens": 400, "cache_read_tokens": 600}}]}"#,
    );
    let ask = |options: ChatOptions, price: &str| {
        let input = ASK.replace("\"turn\": 1", &format!("\"turn\": 1, \"price\": {price}"));
        async move { turn(options, &input).await }
    };
    let plain = || options(&service.model_url(), ModelProtocol::OpenAi, true);
    let outcome =
        ask(plain(), r#"{"input": 3000000, "output": 15000000, "cache_read": 300000, "cache_write": null}"#).await;
    assert_eq!(part(&outcome, "usage.reasoning_tokens"), "400");
    let money = |outcome: &TaskOutcome| outcome.meta.get("usage").unwrap().get("money").map(to_json);
    assert_eq!(money(&outcome), Some((1_200 + 180 + 7_500).to_string()));
    assert_eq!(money(&ask(plain(), "null").await), None);
    let price = TokenPrice { input: 1_000_000, output: 0, ..TokenPrice::default() };
    let priced = ChatOptions { prices: Prices::new([("m".to_owned(), price)]), ..plain() };
    assert_eq!(money(&ask(priced, "null").await), Some("1000".to_owned()));
}

#[tokio::test]
async fn faults_are_errors_with_hints() {
    let service = service(
        r#"{"mocks": [
            {"when": {"contains": "slow down"}, "status": 429, "text": "calm", "retry_after": 3},
            {"when": {"contains": "overloaded"}, "status": 529},
            {"when": {"contains": "broken"}, "status": 500},
            {"when": {"contains": "cut"}, "text": "a text that never comes to its end, however long one waits", "fault": "truncated"},
            {"when": {"contains": "key"}, "status": 401, "text": "no such key"},
            {"when": {"contains": "gone"}, "status": 404, "text": "no such model"},
            {"when": {"contains": "long"}, "status": 400, "text": "prompt is too long: 300000 tokens > 200000 maximum"},
            {"when": {"contains": "large"}, "status": 413}
        ]}"#,
    );
    for (text, code, kind, replied, message, hint) in [
        (
            "slow down",
            "429",
            "http",
            true,
            "answered 429 Too Many Requests: calm",
            "is retried when the service allows",
        ),
        ("overloaded", "529", "http", true, "answered 529", ""),
        ("broken", "500", "http", true, "answered 500 Internal Server Error", ""),
        ("cut", "connection", "connection", false, "", ""),
        ("key", "401", "http", true, "no such key", "TEST_KEY"),
        ("gone", "404", "http", true, "no such model", "[models.test]"),
        ("long", "ContextTooLong", "model", true, "prompt is too long", "less to read"),
        ("large", "ContextTooLong", "model", true, "413", "less to read"),
        ("an unexpected prompt", "MockUnmatched", "model", true, "turn 1, attempt 1", "add a rule"),
    ] {
        let outcome = ask_in_all_ways(&service, &ASK.replace("hello", text)).await;
        assert_eq!(class(&outcome), (code, kind, replied), "{text}: {:?}", outcome.error);
        assert!(error(&outcome).message.contains(message), "{text}: {:?}", outcome.error);
        assert!(error(&outcome).hint.as_deref().unwrap_or_default().contains(hint), "{text}: {:?}", outcome.error);
        let waits = if code == "429" { r#"{"retry_after_ms":3000}"# } else { "null" };
        assert_eq!(to_json(&outcome.meta), waits, "{text}");
    }
    let outcome =
        turn(options(&service.model_url(), ModelProtocol::OpenAi, true), &ASK.replace("hello", "nothing fits")).await;
    let message = &error(&outcome).message;
    for part in ["step `loop[0].inner`", "role `step`", "(model `m`, tools: none)", "the prompt ends: nothing fits"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_model_that_hangs_is_given_up() {
    let service = service(r#"{"mocks": [{"fault": "hang"}]}"#);
    for protocol in BOTH {
        let hasty = ChatOptions { timeout: Duration::from_ms(50), ..options(&service.model_url(), protocol, true) };
        let outcome = turn(hasty, ASK).await;
        assert_eq!(class(&outcome), ("timeout", "timeout", false));
        assert!(error(&outcome).message.contains("`m` of `test`"), "{:?}", outcome.error);
    }
    let by_task = ToolCall { timeout: Some(Duration::from_ms(50)), ..turn_call(ASK) };
    let tool = AgentModelTool::new(
        options(&service.model_url(), ModelProtocol::OpenAi, true),
        support::tool(),
        Arc::new(NoTools),
    );
    assert_eq!(class(&tool.call(by_task).await), ("timeout", "timeout", false));
}

#[tokio::test]
async fn malformed_arguments_are_a_problem_not_an_error() {
    let service =
        service(r#"{"mocks": [{"calls": [{"name": "read", "arguments": {"path": "x"}}], "fault": "malformed"}]}"#);
    for (protocol, stream, problem) in [
        (ModelProtocol::OpenAi, true, "not valid JSON at line 1"),
        (ModelProtocol::OpenAi, false, "not valid JSON at line 1"),
        (ModelProtocol::Anthropic, true, "not valid JSON at line 1"),
        (ModelProtocol::Anthropic, false, "string, not a JSON object"),
    ] {
        let outcome = turn(options(&service.model_url(), protocol, stream), ASK).await;
        let calls = outcome.output.get("calls").unwrap().as_list().unwrap().to_vec();
        let reported = calls[0].get("problem").and_then(Value::as_str).unwrap();
        assert!(reported.contains(problem), "{reported}");
        assert!(calls[0].get("arguments").unwrap().as_str().unwrap().contains("path"), "{:?}", calls[0]);
    }
}

#[tokio::test]
async fn results_are_checked_by_their_schema() {
    let service = service(
        r#"{"mocks": [
            {"when": {"contains": "good"}, "calls": [{"name": "submit_result", "arguments": {"done": true, "score": 3}}]},
            {"when": {"contains": "other"}, "calls": [{"name": "read", "arguments": {"done": 5}}]},
            {"when": {"contains": "wrong"}, "calls": [{"name": "submit_result", "arguments": {"done": "yes", "score": 11, "extra": 1}}]},
            {"when": {"contains": "empty"}, "calls": [{"name": "submit_result"}]}
        ]}"#,
    );
    let schema = r#"{"type": "object", "required": ["done"], "additionalProperties": false,
        "properties": {"done": {"type": "boolean"}, "score": {"type": "integer", "maximum": 10}}}"#;
    for (text, problems) in [
        ("good", vec![]),
        ("other", vec![]),
        ("wrong", vec!["/done: ", "boolean", "/score: ", "10", "extra"]),
        ("empty", vec!["\"done\""]),
    ] {
        let result = format!(r#""turn": 1, "result": {{"tool": "submit_result", "schema": {schema}}}"#);
        let outcome = ask_in_all_ways(&service, &ASK.replace("hello", text).replace("\"turn\": 1", &result)).await;
        let calls = outcome.output.get("calls").unwrap().as_list().unwrap().to_vec();
        let problem = calls[0].get("problem").and_then(Value::as_str).unwrap_or_default().to_owned();
        assert_eq!(problem.is_empty(), problems.is_empty(), "{text}: {problem}");
        assert!(problems.iter().all(|part| problem.contains(part)), "{text}: {problem}");
        assert!(problem.chars().count() < 600);
    }
}

#[tokio::test]
async fn requests_carry_the_step_in_their_headers() {
    let service =
        service(r#"{"mocks": [{"when": {"url": "/v1/messages"}, "status": 418, "body": "$echo"}, {"text": "x"}]}"#);
    let echo = CannedService::json(500, "{}").await;
    let mut settings = options(&echo.url, ModelProtocol::Anthropic, true);
    settings.services[0].headers = vec![
        ("X-Team".to_owned(), HeaderSource::Text("blue".to_owned())),
        ("X-Pass".to_owned(), HeaderSource::Variable("TEST_KEY".to_owned())),
    ];
    turn(settings, ASK).await;
    let head = echo.requests()[0].to_lowercase();
    for line in [
        "post /v1/messages http/1.1",
        "x-windlass-run: run-1",
        "x-windlass-step: loop[0].inner",
        "x-windlass-role: step",
        "x-windlass-turn: 1",
        "x-windlass-attempt: 1",
        "idempotency-key: wl-1",
        "anthropic-version: 2023-06-01",
        "x-team: blue",
    ] {
        assert!(head.lines().any(|found| found == line), "{line}\n{head}");
    }
    for header in ["x-api-key", "x-pass"] {
        assert!(head.contains(&format!("{header}: {}\r\n", KEY.to_lowercase())), "{head}");
    }
    let ask = options(&service.model_url(), ModelProtocol::OpenAi, true);
    for _ in 0..2 {
        turn(ask.clone(), ASK).await;
    }
    turn(ask, &ASK.replace("\"turn\": 1", "\"turn\": 2")).await;
    let request = |turn| ModelRequest { run: "run-1".to_owned(), step: "loop[0].inner".to_owned(), turn, attempt: 1 };
    let times: Vec<_> = service.model_request_counts().into_iter().collect();
    assert_eq!(times, [(request(1), 2), (request(2), 1)]);
}

#[tokio::test]
async fn keys_are_redacted_everywhere() {
    let settings = options("http://127.0.0.1:1/v1", ModelProtocol::OpenAi, true);
    assert!(!format!("{settings:?}").contains(KEY));
    let delta = format!(r#"data: {{"choices": [{{"delta": {{"content": "{}"}}}}]}}"#, &KEY[..9]);
    let rest =
        format!(r#"data: {{"choices": [{{"delta": {{"content": "{}"}}, "finish_reason": "{KEY}"}}]}}"#, &KEY[9..]);
    let call = format!(
        r#"data: {{"model": "{KEY}", "choices": [{{"delta": {{"tool_calls": [{{"index": 0, "id": "{KEY}", "function": {{"name": "{KEY}", "arguments": "{{{KEY}"}}}}]}}, "finish_reason": "stop"}}]}}"#
    );
    let failed = format!(r#"data: {{"error": {{"message": "{KEY}", "code": "{KEY}"}}}}"#);
    for events in
        [vec![delta.as_str(), rest.as_str()], vec![call.as_str()], vec![failed.as_str()], vec![&delta[..50]], vec![KEY]]
    {
        let service = CannedService::events(&events, support::canned::AfterReply::Close).await;
        let outcome = turn(options(&service.url, ModelProtocol::OpenAi, true), ASK).await;
        assert!(!debug_text(&outcome).contains("Canary/0123"), "{outcome:?}");
    }
    for (status, body) in [
        (401, format!(r#"{{"error": {{"message": "the key {KEY} is wrong", "code": "{KEY}"}}}}"#)),
        (500, format!("oops {KEY}")),
        (200, format!("text with {KEY}")),
    ] {
        for protocol in BOTH {
            let service = CannedService::json(status, &body).await;
            let outcome = turn(options(&service.url, protocol, true), ASK).await;
            assert!(outcome.error.is_some() && !debug_text(&outcome).contains("Canary"), "{outcome:?}");
        }
    }
}

/// Variables and their values.
type Set<'a> = &'a [(&'a str, &'a str)];

/// Each line: a model name, the variables, and the expected error; empty if the model can be called.
#[tokio::test]
async fn the_model_name_selects_the_provider() {
    let own = ModelService {
        name: "house".to_owned(),
        base_url: Some("http://h/v2?v=1".to_owned()),
        ..ModelService::default()
    };
    let keyed = ModelService { name: "keyed".to_owned(), key_env: Some("HOUSE_KEY".to_owned()), ..own.clone() };
    let changed =
        ModelService { name: "groq".to_owned(), key_env: Some("OTHER".to_owned()), ..ModelService::default() };
    let table: &[(&str, Set, &str)] = &[
        ("openai/gpt-5", &[("OPENAI_API_KEY", "k")], ""),
        ("openai/gpt-5", &[], "OPENAI_API_KEY is not set"),
        ("openai/gpt-5", &[("OPENAI_BASE_URL", "http://x")], ""),
        ("gpt-5-mini", &[], "models of `openai`"),
        ("o3", &[], "models of `openai`"),
        ("claude-sonnet-4-5", &[], "ANTHROPIC_API_KEY is not set"),
        ("gemini-2.5-pro", &[], "GEMINI_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY or GOOGLE_API_KEY"),
        ("gemini-2.5-pro", &[("GOOGLE_API_KEY", "k")], ""),
        ("grok-4", &[], "XAI_API_KEY is not set"),
        ("gpt-oss:20b", &[], "cannot tell which provider serves the model `gpt-oss:20b`"),
        ("llama3", &[], "cannot tell which provider serves the model"),
        ("llama3", &[("GROQ_API_KEY", "k"), ("OTHER", "k")], ""),
        ("ollama/llama3", &[], ""),
        ("vllm/x", &[], ""),
        ("compat/x", &[], ""),
        ("openrouter/meta/llama-3", &[("OPENROUTER_API_KEY", "k")], ""),
        ("house/x", &[], ""),
        ("keyed/x", &[], "HOUSE_KEY is not set"),
        ("groq/x", &[("GROQ_API_KEY", "k")], "OTHER is not set"),
        ("azure/x", &[("AZURE_OPENAI_API_KEY", "k")], "the address of the provider `azure` is unknown"),
        ("azure/x", &[("AZURE_OPENAI_API_KEY", "k"), ("AZURE_OPENAI_BASE_URL", "http://x")], ""),
        (
            "antropic/x",
            &[],
            "there is no model provider `antropic`; did you mean `anthropic`? known are `anthropic`, `azure`",
        ),
        ("zzzzzz/x", &[], "there is no model provider `zzzzzz`; known are"),
        ("openai/", &[("OPENAI_API_KEY", "k")], "names a provider but no model"),
        ("", &[], "no model is named"),
        ("scripted:no-such-file.json", &[], "the mock file no-such-file.json cannot be read"),
        ("scripted:Cargo.toml", &[], "is not valid"),
    ];
    for (name, set, expected) in table {
        let options = ChatOptions {
            services: vec![own.clone(), keyed.clone(), changed.clone()],
            variables: variables(set),
            ..ChatOptions::default()
        };
        let found = options.check(Some(name)).err();
        let found = found.map(|error| format!("{}; {}", error.message, error.hint.unwrap_or_default()));
        let found = found.unwrap_or_default().replace(&format!(", which `{name}` names"), "");
        assert_eq!(found.is_empty(), expected.is_empty(), "{name} {set:?}: {found}");
        assert!(found.contains(expected), "{name} {set:?}: {found}");
    }
    let by_default = ChatOptions { default_provider: Some("ollama".to_owned()), ..ChatOptions::default() };
    assert_eq!(by_default.check(Some("llama3")), Ok(()));
    let by_model =
        ChatOptions { default_model: Some("house/x".to_owned()), services: vec![own], ..ChatOptions::default() };
    assert_eq!((by_model.check(None), by_model.check(Some("y"))), (Ok(()), Ok(())));
}

#[test]
fn the_documentation_lists_all_providers() {
    let page = include_str!("../../../docs/models.md");
    for provider in PROVIDERS {
        let (prefix, protocol) = (provider.prefix, provider.protocol.name());
        let address = provider.base_url.unwrap_or("your own");
        let row = format!("| `{prefix}` | {protocol} | {address} | `{}` | `", provider.url_variable);
        let found = page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row {row}"));
        assert!(provider.key_variables.iter().all(|name| found.contains(&format!("`{name}`"))), "{found}");
    }
}

#[tokio::test]
async fn a_script_file_can_be_a_model() {
    let folder = tempfile();
    let file = folder.join("model.yaml");
    let log = folder.join("log.jsonl");
    std::fs::write(
        &file,
        "mocks:\n  - when: {step: 'loop.*.inner'}\n    answers:\n      - [{status: 503}, {text: first}]\n      - calls: [{name: read, arguments: {path: a}}]\n    after_last: next\n",
    )
    .unwrap();
    let settings = ChatOptions {
        default_model: Some(format!("scripted:{}", file.display())),
        variables: variables(&[("WINDLASS_SCRIPT_LOG", log.to_str().unwrap())]),
        ..ChatOptions::default()
    };
    // With the default options the client reaches only public addresses; scripts on this machine work nevertheless.
    let http = windlass_tools::HttpTool::new(windlass_tools::HttpOptions::default());
    let tool = AgentModelTool::new(settings, http, Arc::new(NoTools));
    let ask = async |turn: u64, attempt: u32| {
        let input = ASK.replace("\"turn\": 1", &format!("\"turn\": {turn}"));
        tool.call(ToolCall { attempt, ..turn_call(&input) }).await
    };
    assert_eq!(class(&ask(1, 1).await), ("503", "http", true));
    assert_eq!(part(&ask(1, 2).await, "content"), r#""first""#);
    assert_eq!(part(&ask(1, 3).await, "content"), r#""first""#);
    assert_eq!(part(&ask(2, 1).await, "stop"), r#""tools""#);
    assert_eq!(class(&ask(3, 1).await), ("MockUnmatched", "model", true));
    let lines: Vec<Value> =
        std::fs::read_to_string(&log).unwrap().lines().map(|line| parse_json(line).unwrap()).collect();
    let seen: Vec<String> = lines
        .iter()
        .map(|line| {
            ["step", "turn", "attempt", "times", "status", "by"].map(|name| to_json(line.get(name).unwrap())).join(" ")
        })
        .collect();
    assert_eq!(
        seen,
        [
            r#""loop[0].inner" 1 1 1 503 "rule 1, answer 1""#,
            r#""loop[0].inner" 1 2 1 200 "rule 1, answer 1""#,
            r#""loop[0].inner" 1 3 1 200 "rule 1, answer 1""#,
            r#""loop[0].inner" 2 1 1 200 "rule 1, answer 2""#,
            r#""loop[0].inner" 3 1 1 500 "no rule matches""#,
        ]
    );
    assert_eq!(
        to_json(lines[0].get("body").unwrap().get("messages").unwrap()),
        r#"[{"role":"user","content":"hello"}]"#
    );

    for (name, content, message) in
        [("none.json", None, "cannot be read"), ("bad.json", Some(r#"{"mocks": [{"rply": "x"}]}"#), "bad.json:1:13")]
    {
        let file = folder.join(name);
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let settings =
            ChatOptions { default_model: Some(format!("scripted:{}", file.display())), ..ChatOptions::default() };
        let outcome = turn(settings, ASK).await;
        assert_eq!(class(&outcome), ("BadMockFile", "input", false));
        assert!(error(&outcome).message.contains(message), "{:?}", outcome.error);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn tempfile() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("windlass-chat-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
