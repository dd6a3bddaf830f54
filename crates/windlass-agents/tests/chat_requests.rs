//! The requests to models. Each file of `chat_requests` has an input, the settings of its service, and the request in
//! both protocols; `UPDATE=1` writes the actual requests.

use crate::support;

use std::path::Path;
use std::sync::Arc;

use windlass_agents::chat::{ChatOptions, ModelProtocol, ToolCatalogue, ToolSpec};
use windlass_core::ErrorInfo;
use windlass_value::{Map, Value, parse_json, to_json, to_json_pretty};

use support::canned::CannedService;
use support::models::{BOTH, options, turn_call, turn_with};
use support::{class, error};

/// A catalogue of two tools.
struct TwoTools;

impl ToolCatalogue for TwoTools {
    fn specs(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Vec<ToolSpec>, ErrorInfo>> + Send + '_>> {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: format!("does {name}"),
            parameters: parse_json(r#"{"type": "object", "properties": {"path": {"type": "string"}}}"#).unwrap(),
        };
        let specs = ["read", "write"].map(spec).to_vec();
        Box::pin(std::future::ready(Ok(specs)))
    }
}

fn settings(case: &Value, url: &str, protocol: ModelProtocol) -> ChatOptions {
    let mut options = options(url, protocol, true);
    let service = &mut options.services[0];
    let given = |name: &str| case.get("settings").and_then(|settings| settings.get(name));
    service.stream = given("stream").and_then(Value::as_bool);
    service.stream_usage = given("stream_usage").and_then(Value::as_bool);
    service.max_tokens = given("max_tokens").and_then(Value::as_int).map(|max| max as u64);
    if let Some(name) = given("name").and_then(Value::as_str) {
        service.name = name.to_owned();
        options.default_model = Some(format!("{name}/m"));
    }
    options
}

async fn sent(case: &Value, protocol: ModelProtocol) -> Value {
    let service = CannedService::json(500, "{}").await;
    let call = turn_call(&to_json(case.get("input").unwrap()));
    let outcome = turn_with(settings(case, &service.url, protocol), Arc::new(TwoTools), call).await;
    assert_eq!(class(&outcome), ("500", "http", true), "{:?}", error(&outcome));
    parse_json(&service.body()).unwrap()
}

#[tokio::test]
async fn requests_match_the_recorded_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chat_requests");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 6);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let case = parse_json(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut written: Map = case.as_map().unwrap().clone();
        for protocol in BOTH {
            written.insert(protocol.name(), sent(&case, protocol).await);
        }
        let written = format!("{}\n", to_json_pretty(&Value::map(written)));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, written).unwrap();
        } else {
            let differs = written.lines().zip(text.lines()).position(|(now, then)| now != then);
            let line = differs.unwrap_or(written.lines().count().min(text.lines().count()));
            assert!(written == text, "{}:{} is not what is sent; UPDATE=1 writes it", file.display(), line + 1);
        }
    }
}

#[tokio::test]
async fn invalid_inputs_are_rejected() {
    let table = [
        ("1", "`the input` is integer, not an object", ""),
        (r#"{"mesages": []}"#, "has no `mesages`", "did you mean `messages`?"),
        ("{}", "there are no `messages`", ""),
        (r#"{"messages": []}"#, "`messages` is empty", ""),
        (r#"{"messages": {}}"#, "`messages` is object, not an array", ""),
        (r#"{"messages": [{"content": "x"}]}"#, "`messages[0]` has no `role`", ""),
        (r#"{"messages": [{"role": "system", "content": "x"}]}"#, "`messages[0].role` is `system`", "own field"),
        (r#"{"messages": [{"role": "user"}]}"#, "`messages[0]` has no `content`", ""),
        (
            r#"{"messages": [{"role": "user", "content": [{"type": "video"}]}]}"#,
            "`messages[0].content[0].type`",
            "image",
        ),
        (r#"{"messages": [{"role": "tool"}]}"#, "`messages[0]` has no `results`", ""),
        (
            r#"{"messages": [{"role": "assistant", "calls": [{"id": "a"}]}]}"#,
            "`messages[0].calls[0]` has no `name`",
            "",
        ),
        (r#"{"messages": [{"role": "user", "content": "x"}], "tools": {"allow": "x"}}"#, "`tools.allow` is string", ""),
        (
            r#"{"messages": [{"role": "user", "content": "x"}], "tools": {"own": [{"name": "x"}]}}"#,
            "`tools.own[0]` has no `parameters`",
            "",
        ),
        (r#"{"messages": [{"role": "user", "content": "x"}], "require": "fly"}"#, "`require` names the tool `fly`", ""),
        (r#"{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}"#, "`temperature` is string", ""),
        (r#"{"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}"#, "`max_tokens` is integer", ""),
        (r#"{"messages": [{"role": "user", "content": "x"}], "price": {"input": 0.5}}"#, "`price.input` is float", ""),
        (
            r#"{"messages": [{"role": "user", "content": "x"}], "result": {"tool": "t", "schema": {"type": 5}}}"#,
            "the schema of the result is not valid",
            "2020-12",
        ),
    ];
    for (input, message, hint) in table {
        let outcome = turn_with(
            options("http://127.0.0.1:1/v1", ModelProtocol::OpenAi, true),
            Arc::new(TwoTools),
            turn_call(input),
        );
        let outcome = outcome.await;
        assert_eq!(class(&outcome).1, "input", "{input}: {:?}", outcome.error);
        assert!(error(&outcome).message.contains(message), "{input}: {}", error(&outcome).message);
        assert!(error(&outcome).hint.as_deref().unwrap_or_default().contains(hint), "{input}: {:?}", outcome.error);
    }
}

/// The tools of one available server.
struct OneServer;

impl ToolCatalogue for OneServer {
    fn specs(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Vec<ToolSpec>, ErrorInfo>> + Send + '_>> {
        let parameters = || parse_json(r#"{"type": "object"}"#).unwrap();
        let spec =
            |name: &str| ToolSpec { name: name.to_owned(), description: String::new(), parameters: parameters() };
        Box::pin(std::future::ready(Ok(["calc__add", "calc__sum", "read"].map(spec).to_vec())))
    }
}

#[tokio::test]
async fn a_tool_that_its_server_does_not_have_is_an_error() {
    let table = [
        (r#"["calc__ad"]"#, "NoSuchTool", "did you mean `calc__add`?"),
        (r#"["read", "calc__zzzzzz"]"#, "NoSuchTool", "it has `calc__add`, `calc__sum`"),
        // An optional server that is unavailable, and tools that agents get implicitly.
        (r#"["calc__add", "other__add", "send_message"]"#, "500", ""),
    ];
    for (allow, code, hint) in table {
        let service = CannedService::json(500, "{}").await;
        let input = format!(r#"{{"messages": [{{"role": "user", "content": "x"}}], "tools": {{"allow": {allow}}}}}"#);
        let options = options(&service.url, ModelProtocol::OpenAi, true);
        let outcome = turn_with(options, Arc::new(OneServer), turn_call(&input)).await;
        assert_eq!(class(&outcome).0, code, "{allow}");
        assert!(error(&outcome).hint.as_deref().unwrap_or_default().contains(hint), "{:?}", error(&outcome));
    }
}
