//! Loads plans and events from the case files.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;
use windlass_core::plan::{
    Action, Amount, Backoff, Effect, ExpressionSource, FailureHandler, Growth, Jitter, Join, Net, NetEnd, Node, NodeId,
    NodeKind, Pipeline, Place, Plan, Retry, SurplusPolicy, Task,
};
use windlass_core::{Event, EventKind};
use windlass_syntax::SourceText;
use windlass_value::{Duration, ExpressionMode, Timestamp, Value, parse_json};

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// Returns the files of a folder with these endings, in order.
pub(crate) fn files(name: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)));
    paths.sort();
    paths
}

pub(crate) const DEFINITIONS: [&str; 3] = [".loom.json", ".noetl.yaml", ".steps.json"];

/// Compiles a definition of any dialect; its file name ending selects the dialect.
pub(crate) fn plan_of(path: &Path) -> Plan {
    let text = fs::read_to_string(path).unwrap();
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let name = Some(file.split('.').next().unwrap().to_owned());
    match file {
        file if file.ends_with(".steps.json") => steps(&serde_json::from_str(&text).unwrap()),
        file if file.ends_with(".loom.json") => {
            let tools = ["http", "echo"].map(str::to_owned).to_vec();
            let options = windlass_loom::LoomOptions { name, tools, ..Default::default() };
            windlass_loom::compile(&SourceText::new(file, text), &options).unwrap().plan
        }
        file => {
            let tools = ["http_call", "postgres", "python"].map(str::to_owned).to_vec();
            let options = windlass_noetl::NoetlOptions { name, tools, aliases: None, ..Default::default() };
            windlass_noetl::compile(&SourceText::new(file, text), &options).unwrap().plan
        }
    }
}

fn texts(value: &Json) -> Vec<Arc<str>> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().unwrap().into()).collect()
}

/// Builds a workflow of steps as Rust code does: `{name, start, stop, events, waits, asks, steps: [{name, accepts,
/// produces, workers, join, handler, fans_into, attempts}]}`.
pub(crate) fn steps(definition: &Json) -> Plan {
    let name = definition["name"].as_str().unwrap();
    let mut plan = Plan::new(name, "rust", "");
    plan.metadata =
        Value::object([("events", value_of(&definition["events"])), ("waits", value_of(&definition["waits"]))]);
    let (language, source, mode) = ("steps".into(), Value::Null, ExpressionMode::Value);
    let input = plan.add_expression(ExpressionSource { language, source, mode, span: Default::default() });
    let placeholder = NodeKind::Pipeline(Pipeline { tasks: Vec::new() });
    plan.root = plan.add_node(Node { hidden: true, ..Node::new(name, "workflow", None, placeholder) });
    let mut places = Vec::new();
    for step in definition["steps"].as_array().unwrap() {
        let step_name = step["name"].as_str().unwrap();
        let effect = Effect::new(format!("{name}/{step_name}").as_str(), input);
        let retry = step["attempts"].as_u64().map(retry);
        let task = Task { hidden: true, retry, ..Task::new(Action::Effect(effect)) };
        let body = NodeKind::Pipeline(Pipeline { tasks: vec![task] });
        let body = plan.add_node(Node::new(step_name, "step", Some(plan.root), body));
        places.push(place(step, step_name, body));
    }
    let end = NetEnd::Stop(definition["stop"].as_str().unwrap().into());
    let asks = texts(&definition["asks"]);
    let net = Net {
        publishes_slots: true,
        input_requests: asks,
        ..Net::new(places, definition["start"].as_str().unwrap(), end)
    };
    plan.nodes[0].kind = NodeKind::Net(net);
    plan
}

fn place(step: &Json, name: &str, body: NodeId) -> Place {
    let join = match step["join"].as_str() {
        Some("all") => Join::FanOut,
        Some("each") => Join::All,
        Some("collect") => Join::Each {
            needs: texts(&step["needs"]),
            key: step["key"].as_str().map(Into::into),
            surplus: SurplusPolicy::Drop,
        },
        _ => Join::None,
    };
    let handler = step["handler"].as_array().map(|handler| {
        let number = |at: usize| handler[at].as_u64().unwrap() as u32;
        FailureHandler { place: number(0), max_uses: number(1) }
    });
    let fans_into =
        step["fans_into"].as_array().map(|into| into.iter().map(|at| at.as_u64().unwrap() as u32).collect());
    Place {
        max_concurrency: step["workers"].as_u64().unwrap_or(1) as u32,
        produces: texts(&step["produces"]),
        join,
        handler,
        fan_out_joins: fans_into,
        ..Place::new(name, texts(&step["accepts"]), body)
    }
}

fn retry(attempts: u64) -> Retry {
    let interval = Amount::Fixed(Duration::from_secs(1));
    let backoff = Backoff { interval, growth: Growth::Fixed, min: None, max: None, jitter: Jitter::None };
    Retry { attempts: Amount::Fixed(attempts), backoff, on: Vec::new(), window: None }
}

pub(crate) fn value_of(json: &Json) -> Value {
    parse_json(&json.to_string()).unwrap()
}

/// Parses an event as `windlass events --json` prints it.
pub(crate) fn event_of(line: &str) -> Event {
    let mut json: Json = serde_json::from_str(line).unwrap();
    let fields = json.as_object_mut().unwrap();
    fields.remove("workflowId");
    let seq = fields.remove("seq").unwrap().as_u64().unwrap();
    let at = Timestamp::parse_rfc3339(fields.remove("at").unwrap().as_str().unwrap()).unwrap();
    let kind = fields.remove("type").unwrap();
    let path = fields.remove("path").unwrap().as_str().unwrap().into();
    // Cases omit fields that are not drawn.
    let kind = EventKind::with_defaults(kind.as_str().unwrap(), value_of(&json).as_map().unwrap().clone());
    Event { seq, at, path, kind }
}

/// Compares with the file next to the case, or writes it.
pub(crate) fn check(path: &Path, actual: &str, failures: &mut Vec<String>) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, actual).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected != actual {
        failures.push(format!("{}\n--- expected\n{expected}\n--- actual\n{actual}", path.display()));
    }
}
