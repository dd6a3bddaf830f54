//! Workflows through the whole engine, with models and tools that follow a script.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod expect;
mod script;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_agents::language::AgentLanguage;
use windlass_core::Event;
use windlass_core::plan::Plan;
use windlass_expr::cel::CelLanguage;
use windlass_runtime::{EngineOptions, FinalReport, RunRequest, RunStartOptions, RuntimeEngine, Tools};
use windlass_store::{MemoryStore, Store};
use windlass_syntax::{Colour, Diagnostics, ParseLimits, ScalarRules, SourceText, parse_yaml, to_value};
use windlass_value::{Value, to_json};
use windlass_zenflow::{DiskFiles, ModelPrice, ZenflowOptions, compile};

pub(crate) use script::{Call, Script};

pub(crate) const RUN: &str = "r";

/// The separators of a case: document, script, expectations.
const PARTS: [&str; 2] = ["=== script\n", "=== expect\n"];

/// A document, the replies to its requests, and the expectations.
pub(crate) struct Case {
    pub name: String,
    pub path: PathBuf,
    pub document: String,
    pub script: Value,
    pub expect: Value,
}

/// The result of a run.
pub(crate) struct RunResult {
    pub report: Arc<FinalReport>,
    pub calls: Vec<Call>,
    pub events: Vec<Event>,
}

pub(crate) fn yaml(name: &str, text: &str) -> Value {
    let mut found = Diagnostics::new();
    let source = SourceText::new(name, text);
    let limits = ParseLimits { bytes: 1 << 20, depth: 64 };
    let tree = parse_yaml(&source, limits, ScalarRules::Core, &mut found);
    match tree.filter(|_| !found.has_errors()) {
        Some(tree) => to_value(&tree),
        None => panic!("{}", found.render(&source, Colour::Never)),
    }
}

impl Case {
    pub(crate) fn read(path: &Path) -> Case {
        let text = std::fs::read_to_string(path).expect("a case");
        let (document, rest) = text.split_once(PARTS[0]).expect("a case has a script");
        let (script, expect) = rest.split_once(PARTS[1]).expect("a case has expectations");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        Case {
            document: document.to_owned(),
            script: yaml(&name, script),
            expect: yaml(&name, expect),
            path: path.to_owned(),
            name,
        }
    }

    /// Returns the cases of a folder, in order.
    pub(crate) fn all(folder: &str) -> Vec<Case> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
        let files = std::fs::read_dir(&folder).expect("cases").map(|file| file.expect("a file").path());
        let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
        files.sort();
        files.iter().map(|path| Case::read(path)).collect()
    }

    pub(crate) fn by_name(folder: &str, name: &str) -> Case {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder).join(format!("{name}.yaml"));
        Case::read(&path)
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.document, &self.path, self.script.get("options").unwrap_or(&Value::Null))
    }

    pub(crate) fn input(&self) -> Value {
        self.script.get("input").cloned().unwrap_or_default()
    }

    pub(crate) async fn run(&self) -> RunResult {
        let script = Script::new(self.script.clone());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = engine(store, script.tools());
        let (hash, _) = engine.add_plan(self.plan()).expect("a plan that loads");
        let start = RunStartOptions { id: Some(RUN.to_owned()), virtual_time: true, ..RunStartOptions::default() };
        let mut handle = engine.start(hash, self.input(), start).await.expect("started");
        let mut stream = handle.events.take().expect("events");
        let received: Arc<Mutex<Vec<Event>>> = Arc::default();
        let kept = received.clone();
        let mails = script.mails();
        for (number, mail) in mails.iter().enumerate() {
            let signal = RunRequest::Signal { name: "mail".to_owned(), payload: mail.clone() };
            engine.request(RUN, &format!("mail-{number}"), signal).expect("mail");
        }
        let (scripted, mut on_their_way) = (script.clone(), mails.len());
        let listening = tokio::spawn(async move {
            while let Ok(event) = stream.recv().await {
                if matches!(event.type_name(), "message.sent" | "message.dropped") && on_their_way > 0 {
                    on_their_way -= 1;
                    if on_their_way == 0 {
                        scripted.open_gate();
                    }
                }
                let ended = event.type_name() == "workflow.finished" || event.type_name() == "workflow.halted";
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(event);
                if ended {
                    break;
                }
            }
        });
        let waited = tokio::time::timeout(Duration::from_secs(20), handle.wait()).await;
        let report = match waited {
            Ok(report) => report.expect("an end"),
            Err(_) => panic!("{} hangs:\n{}", self.name, event_lines(&received.lock().expect("events"))),
        };
        engine.close().await;
        drop(handle);
        let _ = tokio::time::timeout(Duration::from_secs(2), listening).await;
        let events = received.lock().unwrap_or_else(PoisonError::into_inner).clone();
        RunResult { report, calls: script.calls(), events }
    }
}

/// Formats events as lines, to debug a failing case.
pub(crate) fn event_lines(events: &[Event]) -> String {
    let line = |event: &Event| {
        let data: String = to_json(&Value::map(event.fields())).chars().take(300).collect();
        format!("{} {} {data}", event.type_name(), event.path)
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(crate) fn engine(store: Arc<dyn Store>, tools: Tools) -> RuntimeEngine {
    let options = EngineOptions {
        tools,
        languages: vec![Arc::new(AgentLanguage), Arc::new(CelLanguage)],
        poll_every: Duration::from_millis(2),
        ..EngineOptions::default()
    };
    RuntimeEngine::new(store, options).expect("an engine")
}

pub(crate) fn plan(text: &str, path: &Path, settings: &Value) -> Plan {
    let source = SourceText::new("test.yaml", text);
    let folder = path.parent().map(Path::to_path_buf);
    let word = |key: &str| settings.get(key).and_then(Value::as_str).map(str::to_owned);
    let prices = [("m".to_owned(), ModelPrice { input: 1_000_000, output: 2_000_000, cache_read: 0, cache_write: 0 })];
    let options = ZenflowOptions {
        folder: folder.clone(),
        work_folder: Some("/work-folder".into()),
        tools: ["bash", "read", "write"].map(str::to_owned).to_vec(),
        model: word("model"),
        default_model: word("default_model"),
        prices: prices.into_iter().collect(),
        files: Arc::new(DiskFiles),
        ..ZenflowOptions::default()
    };
    match compile(&source, &options) {
        Ok(compiled) => compiled.plan,
        Err(problems) => {
            let others = problems.included_files.iter().map(|(source, found)| found.render(source, Colour::Never));
            panic!("{}\n{}", problems.own.render(&source, Colour::Never), others.collect::<Vec<_>>().join("\n"))
        }
    }
}

impl RunResult {
    /// Returns the model requests of a step.
    pub(crate) fn model_requests(&self, path: &str) -> Vec<&Call> {
        self.calls.iter().filter(|call| call.tool == "agent_model" && call.step() == path).collect()
    }

    pub(crate) fn event_lines(&self) -> String {
        event_lines(&self.events)
    }
}
