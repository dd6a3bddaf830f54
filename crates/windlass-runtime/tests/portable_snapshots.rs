//! Portable snapshots: a run taken between two ticks into another store. And runs whose tools are missing.

use crate::support;

use std::sync::Arc;

use support::nets::{Tokens, left, ping_pong, ping_pong_tools};
use support::plans::steps;
use support::{World, engine_with, in_time, named, options, until};
use windlass_core::Status;
use windlass_runtime::{Durability, EngineOptions, RunRequest, RuntimeEngine, RuntimeError, Tools};
use windlass_store::{MemoryStore, RunStatus, StoreRead, StoreScan};
use windlass_value::{Language, Value};

const RUN: &str = "r";

fn engine(store: &Arc<MemoryStore>, world: &World, durability: Durability) -> RuntimeEngine {
    let base = options(world);
    let languages = base.languages.iter().cloned().chain([Arc::new(Tokens) as Arc<dyn Language>]).collect();
    engine_with(store, EngineOptions { durability, tools: ping_pong_tools(world.tools()), languages, ..base })
}

/// Completed: one large value. In flight: one task at a gate. Both are in the snapshot, whatever the durability.
#[tokio::test]
async fn a_snapshot_can_be_restored_as_another_run() {
    for (from, to) in [
        (Durability::Durable, Durability::InMemory),
        (Durability::InMemory, Durability::Durable),
        (Durability::Durable, Durability::Durable),
    ] {
        let (here, there) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        let (world, other) = (World::new(), World::new());
        let first = engine(&here, &world, from);
        let plan = steps("carried")
            .effect("large", "big", "100000")
            .effect("held", "gate", r#""open""#)
            .effect("last", "count", r#""@length(body('large'))""#)
            .plan();
        let (plan, _) = first.add_plan(plan).expect("a plan");
        let mut handle = in_time(first.start(plan, Value::Null, named(RUN))).await.expect("started");
        until(|| world.call_counts().in_flight == 1).await;
        let bytes = in_time(first.snapshot(RUN)).await.expect("a snapshot");

        let second = engine(&there, &other, to);
        let mut restored = in_time(second.restore(&bytes, Some("s".to_owned()))).await.expect("restored");
        other.open("open");
        let report = in_time(restored.wait()).await.expect("an end");
        assert_eq!(report.status, Status::Succeeded, "{from:?} to {to:?}: {:?}", report.error);
        let again: Vec<(&str, String)> = other.ledger().iter().map(|one| (one.tool, one.input.clone())).collect();
        assert_eq!(again, [("gate", r#""open""#.to_owned()), ("count", "100000".to_owned())], "{from:?} to {to:?}");
        assert_ne!(other.ledger()[0].key, world.ledger()[1].key, "another run has keys of its own");
        assert_eq!(there.verify().expect("readable"), Vec::<String>::new());

        // The first run was not touched.
        world.open("open");
        assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
        let twice = in_time(second.restore(&bytes, Some("s".to_owned()))).await.err();
        assert!(matches!(twice, Some(RuntimeError::RunExists(_))), "{twice:?}");
        let ended = in_time(first.snapshot(RUN)).await.err();
        assert!(matches!(ended, Some(RuntimeError::HasEnded(_))), "{ended:?}");
    }
}

#[tokio::test]
async fn a_busy_run_can_be_snapshotted() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world, Durability::InMemory);
    let (plan, _) = engine.add_plan(ping_pong()).expect("a plan");
    let _handle = in_time(engine.start(plan, left(i64::MAX), named(RUN))).await.expect("started");
    let bytes = in_time(engine.snapshot(RUN)).await.expect("a snapshot");
    let _second = in_time(engine.restore(&bytes, None)).await.expect("restored");
    assert_eq!(engine.resident(), 2);
}

#[tokio::test]
async fn an_evicted_run_is_snapshotted_with_its_waits() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world, Durability::Durable);
    let (plan, _) = first.add_plan(steps("waits").signal("wait", "go").plan()).expect("a plan");
    let handle = in_time(first.start(plan, Value::Null, named(RUN))).await.expect("started");
    in_time(first.close()).await;
    drop(handle);
    let second = engine(&store, &world, Durability::Durable);
    let bytes = in_time(second.snapshot(RUN)).await.expect("a snapshot");
    let mut restored = in_time(second.restore(&bytes, Some("s".to_owned()))).await.expect("restored");
    second.request("s", "go", RunRequest::Signal { name: "go".to_owned(), payload: Value::Null }).expect("kept");
    assert_eq!(in_time(restored.wait()).await.expect("an end").status, Status::Succeeded);
}

#[tokio::test]
async fn bytes_of_another_kind_are_refused() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world, Durability::Durable);
    for (bytes, why) in [
        (&b"something else"[..], "not a snapshot"),
        (b"windlass-snapshot\x09rest", "snapshot format 9, this program reads up to 1"),
        (b"windlass-snapshot\x01rest", "cannot decode"),
    ] {
        let refused = in_time(engine.restore(bytes, None)).await.err().map(|error| error.to_string());
        assert!(refused.as_ref().is_some_and(|refused| refused.contains(why)), "{refused:?}");
    }
}

/// A run does not fail because a program without its tools opens it.
#[tokio::test]
async fn a_run_whose_tools_are_missing_is_left_unchanged() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world, Durability::Durable);
    let plan = steps("needs").effect("held", "gate", r#""open""#).effect("then", "count", "1").plan();
    let (plan, _) = first.add_plan(plan).expect("a plan");
    let handle = in_time(first.start(plan, Value::Null, named(RUN))).await.expect("started");
    world.calls(1).await;
    in_time(first.close()).await;
    drop(handle);
    let before = store.run(RUN).expect("readable");

    let poor = engine_with(&store, EngineOptions { tools: Tools::new(), adopt: true, ..options(&world) });
    let refused = in_time(poor.resume(RUN)).await.err().map(|error| error.to_string());
    let expected = "the run `r` needs tools that this program does not have: count, gate";
    assert_eq!(refused.as_deref(), Some(expected));
    assert_eq!(store.run(RUN).expect("readable"), before, "the run is unchanged");

    let second = engine(&store, &world, Durability::Durable);
    let mut handle = in_time(second.resume(RUN)).await.expect("resumed");
    world.open("open");
    assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
    assert_eq!(store.run(RUN).expect("readable").map(|row| row.status), Some(RunStatus::Succeeded));
}
