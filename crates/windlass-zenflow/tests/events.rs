//! Events and reports beyond the output: a cancelled run, and loops with many items.

use crate::world;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::{Status, TaskOutcome};
use windlass_runtime::{RunRequest, RunStartOptions};
use windlass_store::{MemoryStore, Store};
use windlass_value::Value;
use world::{Case, RUN, Script, engine, plan, yaml};

/// Creates a case without expectations.
fn case(document: &str, script: &str) -> Case {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/none.yaml");
    let (document, script) = (document.to_owned(), yaml("script", script));
    Case { name: "case".into(), path, document, script, expect: Value::Null }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_outputs_its_completed_steps() {
    let script = Script::new(yaml("script", "replies: {a: fine}"));
    let document = "name: x\nsteps: [{id: a}, {id: b, dependsOn: [a]}]\n";
    let answers = script.tools();
    let (notify, mut requests) = tokio::sync::mpsc::unbounded_channel();
    // The second step's model never replies.
    let tools = answers.with_fn("agent_model", move |call| {
        let hangs = &*call.path == "b.ask";
        let reply = Value::object([("content", Value::from("fine")), ("calls", Value::list(Vec::new()))]);
        let notify = notify.clone();
        async move {
            if hangs {
                let _ = notify.send(());
                std::future::pending::<()>().await;
            }
            TaskOutcome::success(reply)
        }
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = engine(store, tools);
    let (hash, _) = engine.add_plan(plan(document, Path::new("/x.yaml"), &Value::Null)).unwrap();
    let start = RunStartOptions { id: Some(RUN.to_owned()), ..RunStartOptions::default() };
    let mut handle = engine.start(hash, Value::Null, start).await.unwrap();
    requests.recv().await.unwrap();
    engine.request(RUN, "c", RunRequest::Cancel { reason: "enough".to_owned() }).unwrap();
    let report = tokio::time::timeout(Duration::from_secs(20), handle.wait()).await.unwrap().unwrap();
    assert_eq!(report.status, Status::Cancelled);
    let steps = report.output.get("steps").cloned().unwrap_or_default();
    let part = |id: &str, part: &str| steps.get(id).and_then(|step| step.get(part)).cloned().unwrap_or_default();
    assert_eq!((part("a", "content"), part("a", "status")), (Value::from("fine"), Value::from("completed")));
    assert_eq!(part("b", "status"), Value::from("cancelled"));
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loop_events_report_their_max_concurrency() {
    for (items, max_concurrency) in [(3, Value::Null), (120, Value::Int(100))] {
        let all: Vec<String> = (0..items).map(|item| item.to_string()).collect();
        let document = format!("name: x\nsteps: [{{id: each, loop: {{forEach: [{}]}}}}]\n", all.join(","));
        let replies: Vec<String> = (0..items).map(|item| format!("\"each[{item}]\": ok")).collect();
        let ran = case(&document, &format!("replies: {{{}}}", replies.join(", "))).run().await;
        let started = ran.events.iter().find(|event| event.type_name() == "loop.started").unwrap();
        let limits = started.fields().get("limits").cloned().unwrap_or_default();
        assert_eq!(limits.get("max_concurrency").cloned().unwrap_or_default(), max_concurrency);
    }
}
