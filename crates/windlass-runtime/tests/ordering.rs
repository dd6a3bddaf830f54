//! The order of what happens: total within a run, none between runs, and the signals of one sender in the order in
//! which they were accepted.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use support::plans::steps;
use support::{World, engine_with, in_time, loom, named, options, until};
use windlass_core::plan::Plan;
use windlass_runtime::inspect::final_report;
use windlass_runtime::{EngineOptions, RunRequest, RuntimeEngine};
use windlass_store::{MemoryStore, RunStatus, StoreRead};
use windlass_value::{Value, to_json};

const SENDERS: usize = 4;
const SIGNALS: usize = 25;

async fn begin(engine: &RuntimeEngine, plan: Plan, id: &str) {
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    engine.start(hash, Value::Null, named(id)).await.expect("started");
}

fn status(store: &MemoryStore, run: &str) -> RunStatus {
    store.run(run).expect("readable").expect("there").status
}

/// Collects as many signals as are sent, one per iteration.
fn collector() -> Plan {
    let all = SENDERS * SIGNALS;
    loom(&format!(
        r#"{{"actions": {{
            "init": {{"type": "initializeVariable", "inputs": {{"variables": [{{"name": "got", "type": "array", "value": []}}]}}}},
            "collect": {{"type": "until", "expression": "@equals(length(variables('got')), {all})", "limit": {{"count": {all}}},
                "runAfter": {{"init": ["Succeeded"]}},
                "actions": {{
                    "ask": {{"type": "wait", "inputs": {{"signal": {{"name": "go"}}}}}},
                    "add": {{"type": "appendToArrayVariable", "inputs": {{"name": "got", "value": "@body('ask')"}},
                        "runAfter": {{"ask": ["Succeeded"]}}}}}}}}}},
            "outputs": {{"got": "@variables('got')"}}}}"#
    ))
}

fn signal(sender: usize, number: usize) -> RunRequest {
    RunRequest::Signal { name: "go".to_owned(), payload: Value::from(format!("{sender}:{number}")) }
}

/// Returns what each sender's signals were received as, in order.
fn received(store: &MemoryStore, run: &str) -> BTreeMap<String, Vec<usize>> {
    let report = final_report(&store.run(run).expect("readable").expect("there")).expect("readable").expect("ended");
    let output = to_json(&report.output);
    let mut by_sender: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for part in output.split('"').filter(|part| part.contains(':') && !part.starts_with(':')) {
        let (sender, number) = part.split_once(':').expect("a signal");
        by_sender.entry(sender.to_owned()).or_default().push(number.parse().expect("a number"));
    }
    by_sender
}

/// Four senders send at the same time, while the run is in memory, while it is evicted, and across a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_of_one_sender_are_received_in_order() {
    let world = World::new();
    for evict_after in [Duration::from_secs(600), Duration::ZERO] {
        let store = Arc::new(MemoryStore::new());
        let adopting = || EngineOptions { adopt: true, evict_after, ..options(&world) };
        let engine = engine_with(&store, adopting());
        begin(&engine, collector(), "r").await;
        let mut senders = tokio::task::JoinSet::new();
        for sender in 0..SENDERS {
            let engine = engine.clone();
            senders.spawn(async move {
                for number in 0..SIGNALS - 5 {
                    engine.request("r", &format!("{sender}-{number}"), signal(sender, number)).expect("accepted");
                    tokio::task::yield_now().await;
                }
            });
        }
        in_time(senders.join_all()).await;
        // What was accepted survives the process, in its order.
        let store = Arc::new(store.crash());
        for sender in 0..SENDERS {
            for number in SIGNALS - 5..SIGNALS {
                let id = format!("{sender}-{number}");
                windlass_runtime::request(&*store, "r", &id, signal(sender, number)).expect("accepted");
            }
        }
        let second = engine_with(&store, adopting());
        until(|| status(&store, "r") == RunStatus::Succeeded).await;
        let received = received(&store, "r");
        assert_eq!(received.len(), SENDERS, "{received:?}");
        for (sender, numbers) in received {
            assert_eq!(numbers, (0..SIGNALS).collect::<Vec<_>>(), "sender {sender}");
        }
        in_time(second.close()).await;
    }
}

/// Ticks and events of a run are numbered without gaps and in one order, also after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_in_a_run_has_one_order() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
    begin(&first, collector(), "r").await;
    for number in 0..SENDERS * SIGNALS / 2 {
        first.request("r", &format!("a{number}"), signal(0, number)).expect("accepted");
    }
    let store = Arc::new(store.crash());
    let second = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
    for number in SENDERS * SIGNALS / 2..SENDERS * SIGNALS {
        second.request("r", &format!("a{number}"), signal(0, number)).expect("accepted");
    }
    until(|| status(&store, "r") == RunStatus::Succeeded).await;
    let (mut tick, mut event, mut from) = (0, None, 0);
    loop {
        let rows = store.journal("r", from, 16).expect("readable");
        let Some(last) = rows.last() else { break };
        from = last.first_tick + u64::from(last.ticks);
        for row in rows {
            assert_eq!(row.first_tick, tick, "ticks follow each other");
            tick += u64::from(row.ticks);
            if row.events > 0 {
                assert!(event.is_none_or(|next| next == row.first_event), "events follow each other");
                event = Some(row.first_event + u64::from(row.events));
            }
        }
    }
    assert!(tick > (SENDERS * SIGNALS) as u64 && event > Some(tick / 2), "{tick} ticks, {event:?} events");
    in_time(second.close()).await;
}

/// No run waits for another one: the first to start may be the last to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_have_no_order_between_them() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine_with(&store, options(&world));
    begin(&engine, steps("held").effect("hold", "gate", r#""go""#).plan(), "first").await;
    for number in 0..20 {
        begin(&engine, steps("counts").effect("count", "count", "1").plan(), &format!("later-{number}")).await;
    }
    until(|| (0..20).all(|number| status(&store, &format!("later-{number}")) == RunStatus::Succeeded)).await;
    assert_eq!(status(&store, "first"), RunStatus::Running);
    world.open("go");
    until(|| status(&store, "first") == RunStatus::Succeeded).await;
}
