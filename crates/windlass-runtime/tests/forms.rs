//! Open forms of runs are in the store as long as they are open, whatever happens to the process.

use crate::support;

use std::sync::Arc;

use support::{World, engine, in_time, json, loom, named, until};
use windlass_core::Status;
use windlass_runtime::{RunRequest, codec};
use windlass_store::{MemoryStore, StoreScan};
use windlass_value::Value;

const ASKS: &str = r#"{"actions": {
    "each": {"type": "foreach", "foreach": "@triggerBody()['of']", "actions": {
        "ask": {"type": "approval", "inputs": {"title": "Go on with @{item()}?", "schema": {"type": "boolean"}},
            "limit": {"timeout": "PT1H"}}}},
    "last": {"type": "approval", "inputs": {"title": "Done?"}, "runAfter": {"each": ["Succeeded"]}}},
    "outputs": {"answers": "@outputs('each')", "last": "@body('last')"}}"#;

fn open(store: &MemoryStore) -> Vec<String> {
    let title = |body: &[u8]| codec::decode::<Value>(body, "a form").expect("readable").get("title").cloned();
    let waits = store.waits(None, 0, 99).expect("readable");
    waits.iter().map(|open| format!("{} {:?}", open.wait.name, title(&open.wait.body).unwrap_or_default())).collect()
}

fn signal(name: &str, payload: &str) -> RunRequest {
    RunRequest::Signal { name: name.to_owned(), payload: json(payload) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_forms_are_rows_until_they_are_answered() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    let (hash, _) = first.add_plan(loom(ASKS)).expect("a plan");
    first.start(hash, json(r#"{"of": ["a", "b"]}"#), named("r")).await.expect("started");
    until(|| open(&store).len() == 2).await;
    assert_eq!(open(&store), [r#"each[0].ask "Go on with a?""#, r#"each[1].ask "Go on with b?""#]);
    let row = store.waits(Some("r"), 0, 1).expect("readable").remove(0).wait;
    assert_eq!(row.deadline.map(|at| at.since(row.since).as_ms()), Some(3_600_000));
    first.request("r", "1", signal("each[1].ask", "true")).expect("delivered");
    until(|| open(&store).len() == 1).await;

    // The process dies; another one takes over and knows the open forms without any run in memory.
    let store = Arc::new(store.crash());
    assert_eq!(open(&store), [r#"each[0].ask "Go on with a?""#]);
    let second = engine(&store, &world);
    second.request("r", "2", signal("each[0].ask", "false")).expect("kept");
    let mut handle = second.resume("r").await.expect("taken over");
    until(|| open(&store) == [r#"last "Done?""#]).await;
    second.request("r", "3", signal("last", "\"yes\"")).expect("delivered");
    let report = in_time(handle.wait()).await.expect("an end");
    assert_eq!(
        (report.status, &report.output),
        (Status::Succeeded, &json(r#"{"answers": [{"ask": false}, {"ask": true}], "last": "yes"}"#))
    );
    assert_eq!(open(&store), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_closes_its_forms() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let (hash, _) = engine.add_plan(loom(ASKS)).expect("a plan");
    let mut handle = engine.start(hash, json(r#"{"of": ["a"]}"#), named("r")).await.expect("started");
    until(|| open(&store).len() == 1).await;
    engine.request("r", "c", RunRequest::Cancel { reason: "enough".to_owned() }).expect("delivered");
    assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Cancelled);
    assert_eq!(open(&store), Vec::<String>::new());
}
