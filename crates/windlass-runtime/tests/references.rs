//! Large values travel as references: through events, templates, crashes and the removal of runs.

use crate::support;

use std::sync::Arc;

use support::audit::{assert_replays, events, render_report};
use support::{World, engine, in_time, loom, named};
use windlass_core::{Event, Status};
use windlass_runtime::{RunHandle, RuntimeError, clean_runs, codec, real_now, removable, resolve};
use windlass_store::{MemoryStore, RunFilter, StoreRead, StoreScan};
use windlass_value::{BlobHash, Duration, StoredValue, Value, to_json};

const LARGE: usize = 200_000;

/// A large result, a value derived from it, a wait, and a step that reads through the reference.
fn large(gate: &str) -> windlass_core::plan::Plan {
    let text = format!(
        r#"{{"actions": {{
            "keep": {{"type": "initializeVariable", "inputs": {{"name": "kept", "type": "string", "value": ""}}}},
            "fetch": {{"type": "activity", "inputs": {{"activityName": "big", "input": {LARGE}}}, "runAfter": {{"keep": ["Succeeded"]}}}},
            "store": {{"type": "setVariable", "inputs": {{"name": "kept", "value": "@concat(body('fetch'), 'y')"}}, "runAfter": {{"fetch": ["Succeeded"]}}}},
            "wait": {{"type": "activity", "inputs": {{"activityName": "gate", "input": "{gate}"}}, "runAfter": {{"store": ["Succeeded"]}}}},
            "send": {{"type": "activity", "inputs": {{"activityName": "count", "input": "@variables('kept')"}}, "runAfter": {{"wait": ["Succeeded"]}}}},
            "read": {{"type": "compose", "inputs": "@length(variables('kept'))", "runAfter": {{"send": ["Succeeded"]}}}}}},
          "outputs": {{"length": "@outputs('read')", "all": "@variables('kept')"}}}}"#
    );
    loom(&text)
}

async fn begin(store: &Arc<MemoryStore>, world: &World, run: &str) -> RunHandle {
    let engine = engine(store, world);
    let (hash, _) = engine.add_plan(large(run)).expect("a plan");
    in_time(engine.start(hash, Value::Null, named(run))).await.expect("started")
}

/// Collects every reference inside a value.
fn references(value: &Value, found: &mut Vec<StoredValue>) {
    match value {
        Value::Stored(stored) => found.push(StoredValue::clone(stored)),
        Value::List(items) => items.iter().for_each(|item| references(item, found)),
        Value::Map(map) => map.values().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn stored_in(events: &[Event]) -> Vec<StoredValue> {
    let mut found = Vec::new();
    events.iter().for_each(|event| references(&Value::map(event.fields()), &mut found));
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_carry_the_reference_and_never_the_body() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let mut handle = begin(&store, &world, "a").await;
    world.open("a");
    let report = in_time(handle.wait()).await.expect("an end");
    assert_eq!(report.status, Status::Succeeded);
    let published = events(&*store, "a");
    for event in &published {
        let text = to_json(&Value::map(event.fields()));
        assert!(
            text.len() < 1_000 && !text.contains("xxxxxxxx"),
            "{} carries a body: {} bytes",
            event.type_name(),
            text.len()
        );
    }
    let found = stored_in(&published);
    let kinds = ["task.processed", "step.done", "ctx.patched", "workflow.finished"];
    for kind in kinds {
        let of_kind = published.iter().filter(|event| event.type_name() == kind).cloned().collect::<Vec<_>>();
        assert!(!stored_in(&of_kind).is_empty(), "`{kind}` refers to the large value");
    }
    for stored in &found {
        let bytes = store.blob(&stored.hash).expect("read").expect("there");
        assert_eq!(blake3::hash(&bytes).as_bytes(), &stored.hash.0, "the key is the checksum");
        assert!(stored.size >= bytes.len() as u64 && bytes.len() > LARGE / 2);
        let json = to_json(&codec::blob_value(&stored.hash, &bytes).expect("read"));
        assert_eq!(
            blake3::hash(json.as_bytes()).as_bytes(),
            &stored.summary.checksum.0,
            "the checksum is that of the JSON"
        );
        assert_eq!(stored.summary.size, json.len() as u64);
        let text = to_json(&Value::Stored(Arc::new(stored.clone())));
        for field in ["\"store\":", "\"key\":", "\"checksum\":\"blake3:", "\"size\":", "\"schema_hint\":"] {
            assert!(text.contains(field), "{text}");
        }
    }
    // Readers of the report get the values; so do the tool and the template.
    assert!(render_report(&*store, &report).contains(&"x".repeat(LARGE)));
    let sent = world.ledger().into_iter().find(|effect| effect.tool == "count").expect("called");
    assert_eq!(sent.input.len(), LARGE + 3);
    let length = resolve(&*store, &report.output).expect("whole").get("length").cloned();
    assert_eq!(length, Some(Value::from(LARGE as i64 + 1)));
    assert_replays(&*store, "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_value_is_found_when_it_is_read_and_named() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let handle = begin(&store, &world, "a").await;
    world.calls(2).await;
    drop(handle);
    let store = Arc::new(store.crash());
    // A value that a worker has reported cannot be recomputed; a value that was derived from it can.
    let reported = events(&*store, "a").into_iter().filter(|event| event.type_name() == "task.processed");
    let kept = stored_in(&reported.collect::<Vec<_>>()).pop().expect("the result is stored");
    assert!(store.damage_blob(&kept.hash));
    // A separate world: the first engine stays at its gate.
    let later = World::new();
    later.open("a");
    let second = engine(&store, &later);
    let error = match in_time(second.resume("a")).await {
        Ok(mut handle) => {
            in_time(handle.wait()).await.map(|report| report.status).expect_err("the run cannot continue")
        }
        Err(error) => error,
    };
    assert!(error.to_string().contains(&kept.hash.to_string()), "{error}");
    assert!(!later.ledger().iter().any(|effect| effect.tool == "count"), "no tool got the damaged value");
}

/// A store that returns other bytes than it was given is detected.
#[test]
fn bytes_under_a_wrong_name_are_refused() {
    let bytes = windlass_value::encode(&Value::from("right"));
    let hash = BlobHash(*blake3::hash(&bytes).as_bytes());
    assert_eq!(codec::blob_value(&hash, &bytes).expect("read"), Value::from("right"));
    let other = windlass_value::encode(&Value::from("wrong"));
    let error = codec::blob_value(&hash, &other).expect_err("refused");
    assert!(matches!(error, RuntimeError::Damaged { .. }) && error.to_string().contains(&hash.to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cleaning_removes_finished_runs_with_their_values_and_keeps_open_ones() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let mut done = begin(&store, &world, "done").await;
    world.open("done");
    assert_eq!(in_time(done.wait()).await.expect("an end").status, Status::Succeeded);
    let open = begin(&store, &world, "open").await;
    world.calls(5).await;
    drop((done, open));
    let store = Arc::new(store.crash());
    let later = real_now() + Duration::from_secs(1);
    assert!(removable(&*store, real_now().min(later) - Duration::from_secs(60)).expect("read").is_empty(), "too young");
    let found = removable(&*store, later).expect("read");
    assert_eq!(found.iter().map(|one| &*one.run).collect::<Vec<_>>(), ["done"]);
    let cleaned = clean_runs(&*store, later).expect("cleaned");
    assert_eq!(cleaned.runs, 1);
    let shared = stored_in(&events(&*store, "open"));
    let there = |stored: &StoredValue| store.blob(&stored.hash).expect("read").is_some();
    assert!(!shared.is_empty() && shared.iter().all(there), "the other run had stored the same values");
    let second = engine(&store, &world);
    let mut open = in_time(second.resume("open")).await.expect("the run continues");
    world.open("open");
    let report = in_time(open.wait()).await.expect("an end");
    assert_eq!(report.status, Status::Succeeded);
    assert!(render_report(&*store, &report).contains(&"x".repeat(LARGE)));
    let cleaned = clean_runs(&*store, real_now() + Duration::from_secs(1)).expect("cleaned");
    assert!(cleaned.runs == 1 && cleaned.bytes > 2 * LARGE as u64, "{cleaned:?}");
    assert!(!shared.iter().any(there), "no run refers to them any more");
    assert!(store.runs(&RunFilter::default(), None, 9).expect("read").is_empty());
}
