//! Runs playbooks in the engine with fake tools.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, Event, TaskOutcome};
use windlass_expr::jinja::JinjaLanguage;
use windlass_noetl::{NoetlOptions, RegisteredNames, compile};
use windlass_runtime::{EngineOptions, FinalReport, RunStartOptions, RuntimeEngine, ToolCall, Tools};
use windlass_store::{MemoryStore, Store};
use windlass_syntax::{Colour, SourceText};
use windlass_value::{Value, parse_json, to_json};

const TOOLS: [&str; 5] = ["http_call", "postgres", "python", "shell", FUNCTION];

/// A function registered by the embedding program.
const FUNCTION: &str = "add";

/// One call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub tool: &'static str,
    pub path: String,
    pub attempt: u32,
    pub input: Value,
}

/// The outcome of a run.
pub(crate) struct RunOutcome {
    pub report: Arc<FinalReport>,
    pub calls: Vec<Call>,
    pub events: Vec<Event>,
}

pub(crate) fn json(text: &str) -> Value {
    parse_json(text).expect("a test's own JSON")
}

pub(crate) fn plan(text: &str) -> Plan {
    let source = SourceText::new("test.yaml", text);
    let options = NoetlOptions {
        name: Some("test".to_owned()),
        tools: TOOLS.map(str::to_owned).to_vec(),
        registered: RegisteredNames { functions: vec![FUNCTION.to_owned()], ..RegisteredNames::default() },
        ..NoetlOptions::default()
    };
    match compile(&source, &options) {
        Ok(compiled) => compiled.plan,
        Err(problems) => panic!("{}", problems.render(&source, Colour::Never)),
    }
}

/// A fake tool: Python returns `gives` of its `args`, otherwise all of them; other tools succeed without a result.
pub(crate) fn obliging(tool: &str, call: &ToolCall) -> TaskOutcome {
    let args = call.input.get("args").cloned().unwrap_or_default();
    match tool {
        "python" => TaskOutcome::success(args.get("gives").cloned().unwrap_or(args)),
        "postgres" => TaskOutcome::success(json(r#"{"rows": [], "rowcount": 1}"#)),
        "http_call" => replied(200, "null"),
        _ => TaskOutcome::success(Value::Null),
    }
}

/// Returns the outcome of the http tool for a reply.
pub(crate) fn replied(status: i64, body: &str) -> TaskOutcome {
    let result = Value::object([("status_code", Value::Int(status)), ("headers", json("{}")), ("data", json(body))]);
    let facts = Value::object([("http", Value::object([("status", Value::Int(status)), ("headers", json("{}"))]))]);
    let outcome = match status < 400 {
        true => TaskOutcome::success(result),
        false => {
            let error = ErrorInfo::new(status.to_string(), "http", format!("the server says {status}")).replied();
            TaskOutcome { output: result, ..TaskOutcome::failure(error) }
        }
    };
    TaskOutcome { facts, ..outcome }
}

pub(crate) async fn run(text: &str, input: &str) -> RunOutcome {
    run_with(text, input, obliging).await
}

pub(crate) async fn run_with(
    text: &str,
    input: &str,
    answer: impl Fn(&str, &ToolCall) -> TaskOutcome + Send + Sync + 'static,
) -> RunOutcome {
    run_plans(&[text], input, answer).await
}

/// Runs the last playbook; the others can be called.
pub(crate) async fn run_plans(
    texts: &[&str],
    input: &str,
    answer: impl Fn(&str, &ToolCall) -> TaskOutcome + Send + Sync + 'static,
) -> RunOutcome {
    let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
    let answer = Arc::new(answer);
    let mut tools = Tools::new();
    for tool in TOOLS {
        let (calls, answer) = (calls.clone(), answer.clone());
        tools = tools.with_fn(tool, move |call| {
            let (path, input) = (call.path.to_string(), call.input.clone());
            let noted = Call { tool, path, attempt: call.attempt, input };
            calls.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
            let outcome = answer(tool, &call);
            async move { outcome }
        });
    }
    let (report, events) = run_tools(texts, input, tools).await;
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    RunOutcome { report, calls, events }
}

pub(crate) async fn run_tools(texts: &[&str], input: &str, tools: Tools) -> (Arc<FinalReport>, Vec<Event>) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let options = EngineOptions {
        tools,
        languages: vec![Arc::new(JinjaLanguage)],
        poll_every: Duration::from_millis(2),
        ..EngineOptions::default()
    };
    let engine = RuntimeEngine::new(store, options).expect("an engine");
    let mut last = None;
    for text in texts {
        last = Some(engine.add_plan(plan(text)).expect("a plan").0);
    }
    let start = RunStartOptions { id: Some("r".to_owned()), virtual_time: true, ..RunStartOptions::default() };
    let mut handle = engine.start(last.expect("a playbook"), json(input), start).await.expect("started");
    let mut stream = handle.events.take().expect("events");
    let listening = tokio::spawn(async move {
        let mut events = Vec::new();
        while let Ok(event) = stream.recv().await {
            let ended = event.type_name().starts_with("workflow.") && event.type_name() != "workflow.started";
            events.push(event);
            if ended {
                break;
            }
        }
        events
    });
    let report = tokio::time::timeout(Duration::from_secs(20), handle.wait()).await.expect("it hangs").expect("an end");
    engine.close().await;
    drop(handle);
    let events = tokio::time::timeout(Duration::from_secs(5), listening).await.expect("events end").expect("events");
    (report, events)
}

impl RunOutcome {
    /// Returns the output, or the status and the code of the error.
    pub(crate) fn output(&self) -> String {
        match &self.report.error {
            None => to_json(&self.report.output),
            Some(error) => format!("{} {}", self.report.status.as_str(), error.code),
        }
    }

    pub(crate) fn paths(&self) -> Vec<&str> {
        self.calls.iter().map(|call| call.path.as_str()).collect()
    }

    /// Returns the paths of the events of one kind.
    pub(crate) fn event_paths(&self, kind: &str) -> Vec<&str> {
        self.events.iter().filter(|event| event.type_name() == kind).map(|event| &*event.path).collect()
    }

    /// Returns the inputs of a tool's calls at one path.
    pub(crate) fn inputs_at(&self, tool: &str, path: &[&str]) -> Vec<String> {
        let at = |input: &Value| {
            let found = path.iter().try_fold(input.clone(), |value, key| match key.parse::<usize>() {
                Ok(index) => value.as_list().and_then(|list| list.get(index)).cloned(),
                Err(_) => value.get(key).cloned(),
            });
            found.map_or("-".to_owned(), |value| to_json(&value))
        };
        self.calls.iter().filter(|call| call.tool == tool).map(|call| at(&call.input)).collect()
    }
}
