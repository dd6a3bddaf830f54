//! In-memory runs: everything works as with a journal, and only data that other processes need is written.

use crate::support;

use std::sync::Arc;

use support::nets::{Tokens, left, net, ping_pong, ping_pong_tools};
use support::plans::steps;
use support::{World, engine_with, in_time, in_virtual_time, json, loom, named, options, until};
use windlass_core::plan::Join;
use windlass_core::{Status, TaskOutcome};
use windlass_runtime::{Durability, EngineOptions, RequestOutcome, RunRequest, RuntimeEngine, RuntimeError};
use windlass_store::{MemoryStore, RunStatus, StoreRead};
use windlass_value::{Language, Value, to_json};

const RUN: &str = "r";

fn in_memory_engine(store: &Arc<MemoryStore>, world: &World) -> RuntimeEngine {
    let base = options(world);
    let languages = base.languages.iter().cloned().chain([Arc::new(Tokens) as Arc<dyn Language>]).collect();
    let tools = ping_pong_tools(world.tools());
    engine_with(store, EngineOptions { durability: Durability::InMemory, tools, languages, ..base })
}

fn status(store: &MemoryStore, run: &str) -> RunStatus {
    store.run(run).expect("readable").expect("the run exists").status
}

#[tokio::test]
async fn an_in_memory_run_writes_only_its_start_and_its_end() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = in_memory_engine(&store, &world);
    let (plan, _) = engine.add_plan(ping_pong()).expect("a plan");
    let begun = store.syncs();
    let mut handle = in_time(engine.start(plan, left(20_000), named(RUN))).await.expect("started");
    let report = in_time(handle.wait()).await.expect("an end");
    assert_eq!((report.status, to_json(&report.output)), (Status::Succeeded, r#"{"left":-1}"#.to_owned()));
    assert_eq!(status(&store, RUN), RunStatus::Succeeded);
    assert!(store.journal(RUN, 0, 9).expect("readable").is_empty(), "no tick was written");
    assert!(store.snapshot(RUN, None).expect("readable").is_none(), "no state was written");
    assert!(store.syncs() - begun <= 3, "only the beginning and the end: {}", store.syncs() - begun);
    // A later handle sees the end.
    assert_eq!(
        in_time(in_time(engine.resume(RUN)).await.expect("a handle").wait()).await.expect("an end").status,
        report.status
    );
}

/// Tools that complete immediately leave the loop no idle moment: it still receives its messages.
#[tokio::test]
async fn a_run_that_is_always_busy_can_be_paused_and_cancelled() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = in_memory_engine(&store, &world);
    let (plan, _) = engine.add_plan(ping_pong()).expect("a plan");
    let mut handle = in_time(engine.start(plan, left(i64::MAX), named(RUN))).await.expect("started");
    assert_eq!(engine.request(RUN, "p", RunRequest::Pause).expect("kept"), RequestOutcome::Delivered);
    until(|| status(&store, RUN) == RunStatus::Paused).await;
    engine.request(RUN, "u", RunRequest::Resume).expect("kept");
    until(|| status(&store, RUN) == RunStatus::Running).await;
    engine.request(RUN, "c", RunRequest::Cancel { reason: "enough".to_owned() }).expect("kept");
    assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Cancelled);
    assert!(store.inbox(RUN, 9).expect("readable").is_empty(), "messages are taken once");
}

#[tokio::test]
async fn children_signals_and_large_values_work_as_with_a_journal() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = in_memory_engine(&store, &world);
    let child = steps("child").signal("wait", "go").effect("large", "big", "100000").plan();
    engine.add_plan(child).expect("a plan");
    let parent = steps("parent")
        .call("call", "child", "1")
        .effect("look", "count", r#""@length(body('call')['large'])""#)
        .plan();
    let (plan, _) = engine.add_plan(parent).expect("a plan");
    let mut handle = in_time(engine.start(plan, Value::Null, named(RUN))).await.expect("started");
    let descendants = || windlass_runtime::open_descendants(&*store, RUN).expect("readable");
    until(|| !descendants().is_empty()).await;
    let child = &descendants()[0];
    engine.request(&child.run, "s", RunRequest::Signal { name: "go".to_owned(), payload: json("1") }).expect("kept");
    let report = in_time(handle.wait()).await.expect("an end");
    assert_eq!(report.status, Status::Succeeded, "{:?}", report.error);
    assert_eq!(world.ledger().last().map(|effect| effect.input.clone()), Some("100000".to_owned()));
}

#[tokio::test]
async fn virtual_time_is_skipped_in_memory() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = in_memory_engine(&store, &world);
    let text = r#"{"type": "until", "name": "poll", "condition": "@greaterOrEquals(variables('loopIndex'), 6)",
        "limit": {"count": 9, "timeout": "PT9H"},
        "actions": {"nap": {"type": "wait", "inputs": {"interval": {"count": 1, "unit": "hour"}}}}}"#;
    let (plan, _) = engine.add_plan(loom(text)).expect("a plan");
    let mut handle = in_time(engine.start(plan, Value::Null, in_virtual_time(RUN))).await.expect("started");
    assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
}

#[tokio::test]
async fn an_in_memory_run_is_lost_with_its_engine() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = in_memory_engine(&store, &world);
    let (plan, _) = first.add_plan(steps("waits").signal("wait", "go").plan()).expect("a plan");
    let mut handle = in_time(first.start(plan, Value::Null, named(RUN))).await.expect("started");
    in_time(first.close()).await;
    assert!(matches!(in_time(handle.wait()).await, Err(RuntimeError::Closing)));
    let second = in_memory_engine(&store, &world);
    let refused = in_time(second.resume(RUN)).await.err();
    assert!(matches!(refused, Some(RuntimeError::InMemoryOnly(_))), "{refused:?}");
}

/// Every result is one tick; its cost must not grow with the number of results that are outstanding.
#[tokio::test]
async fn a_fan_out_of_ten_thousand_joins_once() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let fan = |call: windlass_runtime::ToolCall| async move {
        let count = call.input.get("payload").and_then(Value::as_int).unwrap_or(0);
        TaskOutcome::success(Value::list((0..count).map(|at| support::nets::event("work", Value::Int(at))).collect()))
    };
    let tools = world
        .tools()
        .with_fn("fan", fan)
        .with_fn("work", |call| async move {
            tokio::task::yield_now().await;
            let payload = call.input.get("payload").cloned().unwrap_or_default();
            TaskOutcome::success(support::nets::event("join", payload))
        })
        .with_fn("join", |call| async move {
            let count = call.input.get("payload").and_then(|all| all.as_list().map(<[Value]>::len)).unwrap_or(0);
            TaskOutcome::success(support::nets::event("done", Value::from(count as i64)))
        });
    let languages: Vec<Arc<dyn Language>> = vec![Arc::new(Tokens)];
    let options = EngineOptions { durability: Durability::InMemory, tools, languages, ..options(&world) };
    let engine = engine_with(&store, options);
    let plan = net(&[("fan", 1, Join::None), ("work", 100, Join::None), ("join", 1, Join::FanOut)]);
    let (plan, _) = engine.add_plan(plan).expect("a plan");
    let mut handle = in_time(engine.start(plan, Value::Int(10_000), named(RUN))).await.expect("started");
    let report = in_time(handle.wait()).await.expect("an end");
    assert_eq!((report.status, &report.output), (Status::Succeeded, &Value::Int(10_000)), "{:?}", report.error);
}
