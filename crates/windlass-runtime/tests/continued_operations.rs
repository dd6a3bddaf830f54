//! Operations that take more than one call, as the tool sees them.

use crate::support;

use std::sync::{Arc, Mutex};

use support::plans::steps;
use support::{World, engine_with, in_time, in_virtual_time, json, locked, options};
use windlass_core::{Status, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_store::MemoryStore;
use windlass_value::{Duration, Value, to_json};

type RecordedCalls = Arc<Mutex<Vec<(String, bool, Arc<str>, u32)>>>;

/// Finishes on its third call.
fn slow(seen: &RecordedCalls, call: ToolCall) -> TaskOutcome {
    let mut seen = locked(seen);
    seen.push((to_json(&call.input), call.is_continuation, call.key, call.attempt));
    match call.input.get("step").and_then(Value::as_int) {
        Some(2) => TaskOutcome::success("done"),
        step => TaskOutcome::call_again(Value::object([("step", step.unwrap_or(0) + 1)]), Duration::from_secs(3600)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continuation_is_distinguished_from_an_input_of_the_definition() {
    let (store, world, seen) = (Arc::new(MemoryStore::new()), World::new(), RecordedCalls::default());
    let mut options = options(&world);
    let shared = seen.clone();
    options.tools = options.tools.with_fn("slow", move |call| std::future::ready(slow(&shared, call)));
    let engine = engine_with(&store, options);
    let plan = steps("p").effect("a", "slow", r#"{"step": 0}"#).gives(&[("said", "@outputs('a')")]);
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    let mut handle = engine.start(hash, Value::Null, in_virtual_time("r")).await.expect("started");
    let report = in_time(handle.wait()).await.expect("an end");
    assert_eq!((report.status, &report.output), (Status::Succeeded, &json(r#"{"said": "done"}"#)));
    let seen = locked(&seen);
    let calls: Vec<_> = seen.iter().map(|(input, goes_on, _, attempt)| (input.as_str(), *goes_on, *attempt)).collect();
    assert_eq!(calls, [(r#"{"step":0}"#, false, 1), (r#"{"step":1}"#, true, 1), (r#"{"step":2}"#, true, 1)]);
    assert!(seen[0].2 != seen[1].2 && seen[1].2 != seen[2].2, "each call is another effect");
}
