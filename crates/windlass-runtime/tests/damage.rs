//! A damaged row of one run: every other run is recovered, wakes at its timer and continues, and the damage is known.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::plans::steps;
use support::{World, engine, engine_with, named, options, until};
use windlass_core::plan::Plan;
use windlass_runtime::{EngineOptions, RunRequest, RuntimeEngine, open_descendants};
use windlass_store::{DamagedTable, MemoryStore, NewRun, RunBatch, RunStatus, StoreRead, StoreWrite};
use windlass_testing::log::run_on_threads;
use windlass_value::{BlobHash, Timestamp, Value};

fn held() -> Plan {
    steps("held").effect("hold", "gate", r#""go""#).effect("then", "count", "1").plan()
}

async fn begin(engine: &RuntimeEngine, plan: Plan, id: &str) {
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    engine.start(hash, Value::Null, named(id)).await.expect("started");
}

fn status(store: &MemoryStore, run: &str) -> RunStatus {
    store.run(run).expect("readable").expect("there").status
}

/// The damaged run is the one that recovery would begin with.
#[test]
fn the_other_runs_are_recovered_and_woken() {
    run_on_threads(async |log| {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine_with(&store, EngineOptions { evict_after: Duration::ZERO, ..options(&world) });
        let delayed = || support::loom(r#"{"actions": {"hold": {"type": "wait", "inputs": {"interval": "PT1S"}}}}"#);
        for run in ["damaged-delay", "delay"] {
            begin(&first, delayed(), run).await;
        }
        let second = engine(&store, &world);
        for run in ["damaged", "one", "two"] {
            begin(&second, held(), run).await;
        }
        world.calls(3).await;
        let store = Arc::new(store.crash());
        assert!(store.damage_run("damaged") && store.damage_run("damaged-delay"));

        let log_tail = log.tail();
        let engine = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
        world.open("go");
        for run in ["delay", "one", "two"] {
            until(|| status(&store, run) == RunStatus::Succeeded).await;
        }
        until(|| !engine.is_recovering()).await;
        assert_eq!(engine.damaged_rows(), 2);
        let is_reported = |line: &String| line.starts_with("damaged row row=runs/3 name=damaged ");
        until(|| log_tail.lines().iter().any(is_reported)).await;

        // New work is accepted, and the damaged run can only be removed.
        begin(&engine, held(), "three").await;
        until(|| status(&store, "three") == RunStatus::Succeeded).await;
        let refused = engine.request("damaged", "cancel", RunRequest::Cancel { reason: String::new() });
        assert!(refused.expect_err("its row cannot be trusted").to_string().contains("damaged"));
        let damage = engine.damage().await.expect("readable");
        assert!(damage.iter().all(|row| row.id.table == DamagedTable::Runs && row.name.is_some()), "{damage:?}");
        for row in damage {
            assert!(engine.remove_damaged(row.id).await.expect("removed"));
        }
        assert_eq!((engine.damaged_rows(), store.run("damaged").expect("readable")), (0, None));
    });
}

/// A run in memory whose row is damaged stops alone: the others of its group commit.
#[test]
fn a_run_whose_row_is_damaged_while_it_runs_stops_alone() {
    run_on_threads(async |_| {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let engine = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
        for run in ["damaged", "one", "two"] {
            begin(&engine, held(), run).await;
        }
        world.calls(3).await;
        assert!(store.damage_run("damaged"));
        world.open("go");
        for run in ["one", "two"] {
            until(|| status(&store, run) == RunStatus::Succeeded).await;
        }
        until(|| engine.resident() == 0).await;
    });
}

#[test]
fn parents_that_form_a_circle_have_descendants_and_do_not_hang() {
    let store = MemoryStore::new();
    let new = |execution_id, parent: &str| NewRun {
        execution_id,
        plan: BlobHash([1; 32]),
        definition: "d".to_owned(),
        dialect: "loom".to_owned(),
        owner: None,
        created_at: Timestamp(1),
        parent: Some(parent.into()),
        cancel_request_id: None,
        max_tree_runs: u64::MAX,
        options: Vec::new(),
        labels: Default::default(),
    };
    for (number, run, parent) in [(1, "a", "c"), (2, "b", "a"), (3, "c", "b"), (4, "self", "self")] {
        let batch =
            RunBatch { run: run.into(), owner_epoch: 1, create: Some(new(number, parent)), ..RunBatch::default() };
        store.append(vec![batch]).expect("created");
    }
    let below = |run| open_descendants(&store, run).expect("an answer").into_iter().map(|row| row.run.to_string());
    assert_eq!(below("a").collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(below("c").collect::<Vec<_>>(), Vec::<String>::new(), "no run is below a newer one");
    assert_eq!(below("self").collect::<Vec<_>>(), Vec::<String>::new());
    assert!(store.damage_run("b"));
    assert_eq!(below("a").collect::<Vec<_>>(), Vec::<String>::new(), "a damaged row proves nothing");
}
