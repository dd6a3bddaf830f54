//! Recovery of runs that a process has left before their end: all are reloaded, a bounded number at a time; poisoned
//! runs are quarantined with a reason, and the rest continue.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::plans::steps;
use support::{World, engine, engine_with, in_time, json, loom, named, options, until};
use windlass_core::Status;
use windlass_core::plan::Plan;
use windlass_runtime::{
    EngineOptions, RestartRequest, RunRequest, RuntimeEngine, RuntimeError, Tools, quarantine_reason,
};
use windlass_store::{Fault, MemoryStore, RunBatch, RunRow, RunStatus, StoreRead, StoreRecords, StoreWrite};
use windlass_testing::log::{LogTail, TestLog, run_on_threads};
use windlass_value::{CompileError, EvalError, EvalScope, Expression, ExpressionMode, Language, Meter, Value};

fn adopting(store: &Arc<MemoryStore>, world: &World, log: &TestLog) -> (RuntimeEngine, LogTail) {
    adopting_with(store, options(world), log)
}

fn adopting_with(store: &Arc<MemoryStore>, options: EngineOptions, log: &TestLog) -> (RuntimeEngine, LogTail) {
    let log_tail = log.tail();
    (engine_with(store, EngineOptions { adopt: true, ..options }), log_tail)
}

fn held() -> Plan {
    steps("held").effect("hold", "gate", r#""go""#).effect("then", "count", "1").plan()
}

async fn begin(engine: &RuntimeEngine, plan: Plan, id: &str) {
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    engine.start(hash, Value::Null, named(id)).await.expect("started");
}

fn row(store: &MemoryStore, run: &str) -> RunRow {
    store.run(run).expect("readable").expect("there")
}

fn quarantine_message(store: &MemoryStore, run: &str) -> Option<String> {
    quarantine_reason(&row(store, run)).map(|error| error.message.to_string())
}

#[test]
fn many_runs_are_recovered_together_and_share_commits() {
    run_on_threads(async |log| {
        const RUNS: usize = 300;
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine(&store, &world);
        for n in 0..RUNS {
            begin(&first, held(), &format!("r{n}")).await;
        }
        world.calls(RUNS).await;
        let store = Arc::new(store.crash());
        let (second, log_tail) = adopting(&store, &world, &log);
        assert!(second.is_recovering() || second.recovery().left == 0, "until all runs were checked");
        until(|| !second.is_recovering()).await;
        assert_eq!((second.recovery().found, second.recovery().left), (RUNS as u64, 0));
        let lines = log_tail.lines();
        assert_eq!(lines[0], format!("recovering runs={RUNS}"));
        assert!(
            lines[1].starts_with(&format!("recovered runs={RUNS} quarantined=0 postponed=0 duration_ms=")),
            "{lines:?}"
        );
        world.calls(2 * RUNS).await;
        world.open("go");
        until(|| (0..RUNS).all(|n| row(&store, &format!("r{n}")).status == RunStatus::Succeeded)).await;
        assert_eq!(world.keys().len(), 2 * RUNS, "the same keys again");
        assert!(store.syncs() < 6 * RUNS as u64, "{} syncs", store.syncs());
    });
}

#[test]
fn a_postponed_run_is_counted_and_logged() {
    run_on_threads(async |log| {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine(&store, &world);
        begin(&first, held(), "r").await;
        world.calls(1).await;
        let store = Arc::new(store.crash());
        let (second, log_tail) = adopting_with(&store, EngineOptions { tools: Tools::new(), ..options(&world) }, &log);
        until(|| !second.is_recovering()).await;
        let count_lines = |matches: &dyn Fn(&str) -> bool| log_tail.lines().iter().filter(|line| matches(line)).count();
        until(|| count_lines(&|line| line.starts_with("recovered runs=0 quarantined=0 postponed=1 ")) == 1).await;
        let is_postponed = |line: &str| line.starts_with("postponed run=r ") && line.contains("gate");
        assert!(count_lines(&is_postponed) >= 1, "{:?}", log_tail.lines());
        assert_eq!(row(&store, "r").status, RunStatus::Running, "a program with the tools can resume it");
    });
}

/// A failed commit does not end a run: the run is reloaded from the journal, in the same process.
#[test]
fn a_transient_store_error_only_delays_a_run() {
    run_on_threads(async |log| {
        for fault in [Fault::Full, Fault::Busy] {
            let (store, world) = (Arc::new(MemoryStore::new()), World::new());
            let (engine, log_tail) = adopting(&store, &world, &log);
            begin(&engine, held(), "r").await;
            world.calls(1).await;
            store.fail_next(fault);
            world.open("go");
            until(|| log_tail.has_line_starting("postponed run=r ")).await;
            until(|| row(&store, "r").status == RunStatus::Succeeded).await;
            assert_eq!(world.keys().len(), 2, "the repeated task has its own key");
            until(|| engine.resident() == 0).await;
        }
    });
}

/// A run was claimed for this process and not loaded: it has no live owner and is recovered as well.
#[test]
fn a_claimed_run_that_was_never_loaded_is_recovered() {
    run_on_threads(async |log| {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine(&store, &world);
        begin(&first, steps("waits").signal("wait", "news").plan(), "r").await;
        in_time(first.close()).await;
        let (second, _) = adopting(&store, &world, &log);
        begin(&second, held(), "known").await;
        let own = row(&store, "known").owner.expect("what this engine is called");
        store.claim("r", &own).expect("claimed");
        let signal = RunRequest::Signal { name: "news".to_owned(), payload: Value::Null };
        second.request("r", "signal", signal).expect("buffered");
        until(|| row(&store, "r").status == RunStatus::Succeeded).await;
    });
}

/// The claim of a forked run fails with a temporary store error.
#[test]
fn a_forked_run_is_recovered_when_the_store_works_again() {
    run_on_threads(async |log| {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let (engine, _) = adopting(&store, &world, &log);
        world.open("go");
        begin(&engine, held(), "old").await;
        until(|| row(&store, "old").status == RunStatus::Succeeded).await;
        until(|| engine.resident() == 0).await;
        // The run is written, then claimed.
        store.fail_nth(2, Fault::Busy);
        let restart =
            RestartRequest { from: "then".to_owned(), id: Some("new".to_owned()), ..RestartRequest::default() };
        let made = in_time(engine.restart("old", restart)).await.map(|handle| handle.run.clone());
        assert!(matches!(made, Err(RuntimeError::Store(_))), "{made:?}");
        until(|| row(&store, "new").status == RunStatus::Succeeded).await;
    });
}

#[test]
fn a_poisoned_run_is_quarantined_with_a_reason_and_the_rest_continue() {
    run_on_threads(async |log| {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine(&store, &world);
        for run in ["well", "journal", "plan", "position"] {
            begin(&first, held(), run).await;
        }
        world.calls(4).await;
        let store = Arc::new(store.crash());
        assert!(store.damage_journal("journal", 0));
        // A plan that no longer loads, and a snapshot that cannot be decoded.
        let lost = RunBatch { run: "lost".into(), ..creation(&store, "plan", windlass_value::BlobHash([7; 32])) };
        store.append(vec![lost]).expect("kept");
        let corrupted = row(&store, "position");
        store
            .append(vec![RunBatch {
                run: "position".into(),
                owner_epoch: corrupted.owner_epoch,
                expected_ticks: corrupted.ticks,
                snapshot: Some(windlass_store::NewSnapshot {
                    tick: corrupted.ticks,
                    event: 1,
                    state_hash: [0; 32],
                    body: b"no snapshot".to_vec(),
                }),
                ..RunBatch::default()
            }])
            .expect("kept");
        let (second, log_tail) = adopting(&store, &world, &log);
        until(|| !second.is_recovering()).await;
        for (run, part) in [("journal", "damaged"), ("lost", "missing"), ("position", "cannot decode a snapshot")] {
            assert_eq!(row(&store, run).status, RunStatus::Quarantined, "{run}");
            let reason = quarantine_message(&store, run).expect("a reason");
            assert!(reason.contains(part), "{run}: {reason}");
            assert!(log_tail.has_line_starting(&format!("quarantined run={run} ")), "{run}");
            assert_eq!(row(&store, run).owner, None, "{run} has no owner");
        }
        assert_eq!(second.recovery().quarantined, 3);
        world.open("go");
        until(|| ["well", "plan"].iter().all(|run| row(&store, run).status == RunStatus::Succeeded)).await;
        // A repeated start or a signal does not wake it; an operator may resume it by name.
        let again = second.resume("journal").await.map(|handle| handle.run.clone());
        assert!(matches!(&again, Err(RuntimeError::Store(_))), "{again:?}");
        assert_eq!(row(&store, "journal").status, RunStatus::Quarantined);
    });
}

/// Returns a batch that creates a run with a plan that does not exist.
fn creation(store: &MemoryStore, like: &str, plan: windlass_value::BlobHash) -> RunBatch {
    let like = row(store, like);
    let new = windlass_store::NewRun {
        execution_id: windlass_store::conformance::batches::next_execution_id(),
        plan,
        definition: like.definition,
        dialect: like.dialect,
        owner: like.owner,
        created_at: like.created_at,
        parent: None,
        cancel_request_id: None,
        max_tree_runs: u64::MAX,
        options: like.options,
        labels: Default::default(),
    };
    let status = windlass_store::StatusChange { status: RunStatus::Running, at: like.changed_at, result: None };
    RunBatch { owner_epoch: 1, create: Some(new), status: Some(status), ..RunBatch::default() }
}

/// A language with a defect in one expression.
struct Faulty(Arc<dyn Language>);
struct Panics;

impl Language for Faulty {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn compile(&self, source: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        match source.as_str().is_some_and(|text| text.contains("defect")) {
            true => Ok(Box::new(Panics)),
            false => self.0.compile(source, mode),
        }
    }
}

impl Expression for Panics {
    fn eval(&self, _scope: &dyn EvalScope, _meter: &mut Meter) -> Result<Value, EvalError> {
        panic!("an untested expression")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_inside_a_run_stops_that_run_alone() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let faulty = |language| Arc::new(Faulty(language)) as Arc<dyn Language>;
    let languages = windlass_expr::wdl::languages().into_iter().map(faulty).collect();
    let options = EngineOptions { languages, adopt: true, ..options(&world) };
    let engine = engine_with(&store, options);
    let plan = loom(
        r#"{"actions": {
            "hold": {"type": "activity", "inputs": {"activityName": "gate", "input": "go"}},
            "fails": {"type": "compose", "inputs": "@{'defect'}", "runAfter": {"hold": ["Succeeded"]}}}}"#,
    );
    begin(&engine, plan, "faulty").await;
    begin(&engine, held(), "well").await;
    world.calls(2).await;
    world.open("go");
    until(|| row(&store, "well").status == RunStatus::Succeeded).await;
    until(|| row(&store, "faulty").status == RunStatus::Quarantined).await;
    let reason = quarantine_message(&store, "faulty").expect("a reason");
    assert!(reason.contains("internal error") && reason.contains("untested expression"), "{reason}");
    until(|| engine.resident() == 0).await;
    let outcome = engine.request("faulty", "a", windlass_runtime::RunRequest::Pause).expect("kept");
    assert_eq!(outcome, windlass_runtime::RequestOutcome::Queued, "the request is queued, and does not wake the run");
}

/// The process dies each time soon after the run was reloaded: in the end the run is quarantined.
#[test]
fn a_run_present_at_every_crash_is_quarantined() {
    run_on_threads(async |log| {
        let (mut store, world) = (Arc::new(MemoryStore::new()), World::new());
        begin(&engine(&store, &world), held(), "r").await;
        world.calls(1).await;
        let mut deaths = 0;
        loop {
            store = Arc::new(store.crash());
            let owner_epoch = row(&store, "r").owner_epoch;
            let (engine, log_tail) = adopting(&store, &world, &log);
            // It is in memory again, or quarantined: in both cases it was claimed first.
            let is_over = |row: RunRow| engine.resident() == 1 || row.status == RunStatus::Quarantined;
            until(|| row(&store, "r").owner_epoch > owner_epoch && is_over(row(&store, "r"))).await;
            if row(&store, "r").status == RunStatus::Quarantined || deaths > 20 {
                break;
            }
            assert_eq!(log_tail.has_line_starting("suspect runs runs="), deaths >= 3, "after {deaths} deaths");
            deaths += 1;
        }
        until(|| row(&store, "r").status == RunStatus::Quarantined).await;
        assert_eq!(deaths, 6);
        assert!(
            quarantine_message(&store, "r").expect("a reason").contains("crashed 6 times in a row"),
            "{:?}",
            quarantine_message(&store, "r")
        );
        // Its crash record is removed.
        until(|| store.records("recovery", "", 9).expect("readable").is_empty()).await;
        // An operator may resume it, and then the count starts again.
        world.open("go");
        let engine = engine(&store, &world);
        let mut handle = in_time(engine.resume("r")).await.expect("resumed");
        assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
    });
}

/// Progress counts: the run is then not the one that kills the process.
#[test]
fn a_run_that_makes_progress_is_no_suspect() {
    run_on_threads(async |log| {
        let (mut store, world) = (Arc::new(MemoryStore::new()), World::new());
        let plan = loom(
            r#"{"type": "until", "name": "loop", "condition": "@greaterOrEquals(variables('loopIndex'), 200)",
            "limit": {"count": 500, "timeout": "PT1H"},
            "actions": {"work": {"type": "activity", "inputs": {"activityName": "count", "input": "@variables('loopIndex')"}}}}"#,
        );
        let mut alive = engine(&store, &world);
        begin(&alive, plan, "r").await;
        for _ in 0..9 {
            let ticks = row(&store, "r").ticks;
            until(|| row(&store, "r").ticks > ticks + 12 || row(&store, "r").status.is_final()).await;
            store = Arc::new(store.crash());
            let (next, log_tail) = adopting(&store, &world, &log);
            alive = next;
            until(|| !alive.is_recovering()).await;
            assert!(!log_tail.has_line_starting("suspect runs runs="));
        }
        assert_ne!(row(&store, "r").status, RunStatus::Quarantined);
    });
}

// -------------------------------------------------------------------------------------------------------------
// draining

#[test]
fn a_drain_finishes_running_tasks_and_starts_no_new_ones() {
    run_on_threads(async |log| {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let first = engine(&store, &world);
        begin(&first, held(), "r").await;
        world.calls(1).await;
        let draining = tokio::spawn({
            let first = first.clone();
            async move { first.drain(Duration::from_secs(15)).await }
        });
        in_time(first.wait_until_closing()).await;
        let refused =
            first.start(row(&store, "r").plan, Value::Null, named("late")).await.map(|handle| handle.run.clone());
        assert!(matches!(refused, Err(RuntimeError::Closing)), "{refused:?}");
        world.open("go");
        in_time(draining).await.expect("no panic");
        assert_eq!(world.ledger().len(), 1, "the second task was not started");
        assert_eq!((row(&store, "r").owner, row(&store, "r").status), (None, RunStatus::Running));
        let (second, _) = adopting(&store, &world, &log);
        until(|| row(&store, "r").status == RunStatus::Succeeded).await;
        drop(second);
        let keys = world.keys();
        assert!(
            keys.values().all(|calls| calls.len() == 1),
            "tasks that ended within the drain time were not repeated: {keys:?}"
        );
        assert_eq!(json("1"), json(&world.ledger()[1].input));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_respects_its_time_limit() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let first = engine(&store, &world);
    begin(&first, held(), "r").await;
    world.calls(1).await;
    in_time(first.drain(Duration::from_millis(10))).await;
    assert_eq!((row(&store, "r").owner, row(&store, "r").status), (None, RunStatus::Running));
}
