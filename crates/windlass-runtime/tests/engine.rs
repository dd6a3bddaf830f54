//! The engine as embedders see it: time, pause, cancel, signals, ownership, eviction, faults, large values.

use crate::support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use support::audit::{assert_replays, audit, entries, events, program_of, render_report};
use support::plans::steps;
use support::{World, engine, engine_with, in_time, in_virtual_time, json, limits, loom, named, options, until};
use windlass_core::{Status, TickKind};
use windlass_runtime::{
    EngineOptions, FinalReport, RequestOutcome, RunHandle, RunRequest, RuntimeEngine, RuntimeError, load, request,
};
use windlass_store::{ClaimResult, Fault, MemoryStore, RunStatus, StoreErrorKind, StoreRead, StoreWrite};
use windlass_value::Value;

fn fresh() -> (Arc<MemoryStore>, World) {
    (Arc::new(MemoryStore::new()), World::new())
}

async fn begin(engine: &RuntimeEngine, plan: windlass_core::plan::Plan, id: &str) -> RunHandle {
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    engine.start(hash, Value::Null, named(id)).await.expect("started")
}

async fn end(handle: &mut RunHandle) -> Arc<FinalReport> {
    in_time(handle.wait()).await.expect("an end")
}

fn status(store: &MemoryStore, run: &str) -> RunStatus {
    store.run(run).expect("readable").expect("there").status
}

fn cancel() -> RunRequest {
    RunRequest::Cancel { reason: "enough".to_owned() }
}

fn signal(name: &str, payload: &str) -> RunRequest {
    RunRequest::Signal { name: name.to_owned(), payload: json(payload) }
}

fn has_tick(store: &MemoryStore, run: &str, name: &str) -> bool {
    entries(store, run).iter().any(|entry| entry.tick.kind.name() == name)
}

const GATES: &str = r#"{"actions": {
    "first": {"type": "activity", "inputs": {"activityName": "gate", "input": "first"}},
    "second": {"type": "activity", "inputs": {"activityName": "gate", "input": "second"}, "runAfter": {"first": ["Succeeded"]}}},
    "outputs": {"both": ["@outputs('first')", "@outputs('second')"]}}"#;

// ---------------------------------------------------------------------------------------------------------------- time

const SIX_HOURS: &str = r#"{"actions": {
    "poll": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 37)", "limit": {"count": 100, "timeout": "PT12H"},
        "delay": {"interval": {"count": 10, "unit": "minute"}}, "actions": {
            "ask": {"type": "activity", "inputs": {"activityName": "count", "input": "@variables('loopIndex')"}},
            "hold": {"type": "if", "expression": "@equals(variables('loopIndex'), 20)", "runAfter": {"ask": ["Succeeded"]},
                "actions": {"wait": {"type": "activity", "inputs": {"activityName": "gate", "input": "half"}}}}}}},
    "outputs": {"iterations": "@outputs('poll').iterations"}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_hours_of_polling_in_virtual_time_also_across_a_crash() {
    let (store, world) = fresh();
    let begun = Instant::now();
    let first = engine(&store, &world);
    let (hash, _) = first.add_plan(loom(SIX_HOURS)).expect("a plan");
    first.start(hash, Value::Null, in_virtual_time("r")).await.expect("started");
    world.calls(22).await;
    let store = Arc::new(store.crash());
    world.open("half");
    let second = engine(&store, &world);
    // The caller does not pass virtual time: the run's options have it.
    let report = end(&mut second.resume("r").await.expect("resumed")).await;
    assert_eq!(report.output, json(r#"{"iterations": 37}"#));
    assert!(begun.elapsed() < Duration::from_secs(120), "it took {:?}", begun.elapsed());
    let ticks = entries(&*store, "r");
    let lasted = ticks[ticks.len() - 1].tick.at.since(ticks[0].tick.at);
    assert_eq!(lasted.as_ms() / 60_000, 360);
    assert!(ticks.is_sorted_by_key(|entry| entry.tick.at), "time never goes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_time_does_not_skip_while_a_job_runs_or_the_run_is_paused() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let (hash, _) = engine
        .add_plan(loom(
            r#"{"type": "until", "name": "loop", "condition": "@greaterOrEquals(variables('loopIndex'), 2)",
                "limit": {"count": 5, "timeout": "PT1H"}, "delay": "PT1M",
                "actions": {"hold": {"type": "activity", "inputs": {"activityName": "gate", "input": "go"}}}}"#,
        ))
        .expect("a plan");
    let mut handle = engine.start(hash, Value::Null, in_virtual_time("r")).await.expect("started");
    world.calls(1).await;
    assert_eq!(engine.request("r", "p", RunRequest::Pause).expect("kept"), RequestOutcome::Delivered);
    until(|| status(&store, "r") == RunStatus::Paused).await;
    world.open("go");
    until(|| has_tick(&store, "r", "StepResult")).await;
    // The loop's time limit is the only timer now. If time were skipped to it, the loop would fail.
    let marker = store.syncs();
    engine.request("r", "knock", signal("unused", "1")).expect("buffered");
    until(|| has_tick(&store, "r", "AddEvent") && store.syncs() > marker + 1).await;
    engine.resume("r").await.expect("continues");
    assert_eq!(end(&mut handle).await.status, Status::Succeeded);
    let ticks = entries(&*store, "r");
    assert!(ticks[ticks.len() - 1].tick.at.since(ticks[0].tick.at).as_ms() < 10 * 60_000);
}

/// A message that another process has written is read before any time is skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_time_reads_the_inbox_before_it_skips() {
    let (store, world) = fresh();
    let engine = engine_with(&store, EngineOptions { poll_every: Duration::from_secs(60), ..options(&world) });
    let wait = windlass_core::plan::Wait::Signal {
        name: "answer".into(),
        requirements: None,
        deadline: Some(windlass_core::plan::Amount::Fixed(windlass_value::Duration::from_secs(3_600))),
        form: None,
    };
    let plan = steps("s").effect("hold", "gate", r#""go""#).step("wait", windlass_core::plan::NodeKind::Wait(wait));
    let (hash, _) = engine.add_plan(plan.gives(&[("answer", "@outputs('wait')")])).expect("a plan");
    let mut handle = engine.start(hash, Value::Null, in_virtual_time("r")).await.expect("started");
    world.calls(1).await;
    // Written directly into the store: the engine is not notified.
    request(&*store, "r", "a", signal("answer", "42")).expect("kept");
    world.open("go");
    assert_eq!(end(&mut handle).await.output, json(r#"{"answer": 42}"#));
}

// ------------------------------------------------------------------------------------------- pause, cancel, signal

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_stops_between_tasks_and_resume_continues() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut handle = begin(&engine, loom(GATES), "r").await;
    world.calls(1).await;
    assert_eq!(engine.request("r", "p", RunRequest::Pause).expect("kept"), RequestOutcome::Delivered);
    until(|| status(&store, "r") == RunStatus::Paused).await;
    world.open("first");
    until(|| has_tick(&store, "r", "StepResult")).await;
    assert_eq!(world.ledger().len(), 1, "the job in flight may end; nothing new begins");
    engine.resume("r").await.expect("continues");
    world.calls(2).await;
    until(|| status(&store, "r") == RunStatus::Running).await;
    world.open("second");
    assert_eq!(end(&mut handle).await.output, json(r#"{"both": ["first", "second"]}"#));
    let kinds: Vec<String> = events(&*store, "r").iter().map(|event| event.type_name().to_owned()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "workflow.paused").count(), 1);
    assert_eq!(kinds.iter().filter(|kind| *kind == "workflow.resumed").count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_survives_a_crash_until_the_run_is_resumed() {
    let (store, world) = fresh();
    let first = engine(&store, &world);
    begin(&first, loom(GATES), "r").await;
    world.calls(1).await;
    first.request("r", "p", RunRequest::Pause).expect("kept");
    until(|| status(&store, "r") == RunStatus::Paused).await;
    let store = Arc::new(store.crash());
    world.open("first");
    world.open("second");
    let second = engine(&store, &world);
    // Starting the same run again does not end a pause that was requested.
    let mut handle = begin(&second, loom(GATES), "r").await;
    until(|| has_tick(&store, "r", "StepResult")).await;
    assert_eq!(status(&store, "r"), RunStatus::Paused);
    assert!(world.ledger().iter().all(|call| &*call.path == "first"));
    second.resume("r").await.expect("continues");
    assert_eq!(end(&mut handle).await.status, Status::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_reaches_the_tool_in_flight() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut handle = begin(&engine, loom(GATES), "r").await;
    world.calls(1).await;
    assert_eq!(engine.request("r", "c", cancel()).expect("kept"), RequestOutcome::Delivered);
    let report = end(&mut handle).await;
    assert_eq!(report.status, Status::Cancelled);
    assert_eq!(report.error.as_ref().map(|error| &*error.message), Some("enough"));
    assert_eq!(world.cancelled().iter().map(|path| &**path).collect::<Vec<_>>(), ["first"]);
    assert_eq!(world.call_counts().in_flight, 0);
    assert_eq!(status(&store, "r"), RunStatus::Cancelled);
    // The job was open until its worker had confirmed.
    let names: Vec<&str> = entries(&*store, "r").iter().map(|entry| entry.tick.kind.name()).collect();
    assert_eq!(names, ["AddEvent", "CancelRun", "StepResult"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_job_can_be_cancelled() {
    let (store, world) = fresh();
    let engine = engine_with(&store, EngineOptions { max_job_concurrency: 1, ..options(&world) });
    let mut holder = begin(&engine, loom(GATES), "holder").await;
    world.calls(1).await;
    let mut queued = begin(&engine, loom(GATES), "queued").await;
    engine.request("queued", "c", cancel()).expect("kept");
    assert_eq!(end(&mut queued).await.status, Status::Cancelled);
    assert_eq!(world.ledger().len(), 1, "its tool was never called");
    world.open("first");
    world.open("second");
    assert_eq!(end(&mut holder).await.status, Status::Succeeded);
    assert_eq!(world.call_counts().max_concurrency, 1);
}

fn two_waits() -> windlass_core::plan::Plan {
    steps("waits")
        .signal("one", "answer")
        .signal("two", "answer")
        .gives(&[("one", "@outputs('one')"), ("two", "@outputs('two')")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_answers_a_wait_and_a_repeated_request_acts_once() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut handle = begin(&engine, two_waits(), "r").await;
    assert_eq!(engine.request("r", "a", signal("answer", r#"{"n": 1}"#)).expect("kept"), RequestOutcome::Delivered);
    assert_eq!(engine.request("r", "a", signal("answer", r#"{"n": 1}"#)).expect("kept"), RequestOutcome::Duplicate);
    until(|| store.inbox("r", 9).expect("readable").is_empty()).await;
    assert_eq!(
        engine.request("r", "a", signal("answer", r#"{"n": 1}"#)).expect("kept"),
        RequestOutcome::Duplicate,
        "also after it took effect"
    );
    assert_eq!(engine.request("r", "b", signal("answer", r#"{"n": 2}"#)).expect("kept"), RequestOutcome::Delivered);
    assert_eq!(end(&mut handle).await.output, json(r#"{"one": {"n": 1}, "two": {"n": 2}}"#));
    assert_eq!(engine.request("r", "c", signal("answer", "3")).expect("accepted"), RequestOutcome::Ended);
    assert_eq!(engine.request("r", "d", cancel()).expect("accepted"), RequestOutcome::Ended);
    assert!(matches!(engine.request("unknown", "e", cancel()), Err(RuntimeError::NoSuchRun(_))));
    assert_eq!(status(&store, "r"), RunStatus::Succeeded);
    let again = end(&mut engine.resume("r").await.expect("its report")).await;
    assert_eq!(again.output, json(r#"{"one": {"n": 1}, "two": {"n": 2}}"#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_run_without_an_owner_are_kept_for_its_resume() {
    let (store, world) = fresh();
    begin(&engine(&store, &world), two_waits(), "r").await;
    let store = Arc::new(store.crash());
    assert_eq!(request(&*store, "r", "a", signal("answer", "1")).expect("kept"), RequestOutcome::Queued);
    assert_eq!(request(&*store, "r", "b", signal("answer", "2")).expect("kept"), RequestOutcome::Queued);
    let second = engine(&store, &world);
    assert_eq!(end(&mut second.resume("r").await.expect("resumed")).await.output, json(r#"{"one": 1, "two": 2}"#));
    assert_eq!(store.inbox("r", 10).expect("readable"), []);
}

// ------------------------------------------------------------------------------------------------- ownership, ids

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_from_other_engines_reach_the_owner() {
    let (store, world) = fresh();
    let (first, second) = (engine(&store, &world), engine(&store, &world));
    let mut handle = begin(&first, loom(GATES), "r").await;
    world.calls(1).await;
    let refused = second.resume("r").await.map(|handle| handle.run.clone());
    assert!(matches!(&refused, Err(RuntimeError::Owned { run, .. }) if run == "r"), "{refused:?}");
    assert_eq!(second.resident(), 0);
    assert_eq!(second.request("r", "c", cancel()).expect("kept"), RequestOutcome::Delivered);
    assert_eq!(end(&mut handle).await.status, Status::Cancelled, "the first engine has received it through the store");
    assert_eq!(end(&mut second.resume("r").await.expect("its report")).await.status, Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_is_the_same_run() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let (hash, _) = engine.add_plan(loom(GATES)).expect("a plan");
    let (other, _) = engine.add_plan(two_waits()).expect("a plan");
    let start = |input: &str| engine.start(hash, json(input), named("r"));
    // Concurrently: one of them creates the run, the others find it.
    let (one, two, three) = tokio::join!(start("1"), start("1"), start("1"));
    let mut handles = [one.expect("started"), two.expect("the same"), three.expect("the same")];
    world.open("first");
    world.open("second");
    for handle in &mut handles {
        assert_eq!(end(handle).await.status, Status::Succeeded);
    }
    let late = end(&mut start("1").await.expect("the same, though it has ended")).await;
    assert_eq!(late.output, json(r#"{"both": ["first", "second"]}"#));
    assert_eq!(world.ledger().len(), 2);
    let written = |input: &str| engine.start(hash, json(input), named("object"));
    written(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).await.expect("started");
    written(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).await.expect("the same input in another order");
    let refused = start("2").await.map(|handle| handle.run.clone());
    assert!(matches!(&refused, Err(RuntimeError::RunExists(run)) if run == "r"), "{refused:?}");
    let refused = engine.start(other, json("1"), named("r")).await.map(|handle| handle.run.clone());
    assert!(matches!(refused, Err(RuntimeError::RunExists(_))), "{refused:?}");
}

/// Another process may draw the same number in the same millisecond.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_execution_id_is_drawn_again() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let (hash, _) = engine.add_plan(loom(GATES)).expect("a plan");
    store.repeat_execution_ids(3);
    let mut handle = engine.start(hash, json("1"), named("r")).await.expect("started at the fourth attempt");
    assert!(handle.created);
    let row = store.run("r").expect("readable").expect("there");
    let state = engine.state("r").await.expect("readable").expect("in memory");
    assert_eq!(state.run.execution_id, row.execution_id, "expressions and the store agree");
    world.open("first");
    world.open("second");
    assert_eq!(end(&mut handle).await.status, Status::Succeeded);
    assert_replays(&*store, "r");
    let mut later = engine.start(hash, json("1"), named("later")).await.expect("started");
    assert!(store.run("later").expect("readable").expect("there").execution_id > row.execution_id);
    assert_eq!(end(&mut later).await.status, Status::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_engine_writes_nothing() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut handle = begin(&engine, loom(GATES), "r").await;
    world.calls(1).await;
    let before = store.run("r").expect("readable").expect("there");
    // Another process that believes the owner dead takes the run over.
    let owner = before.owner.clone().expect("an owner");
    assert_eq!(store.claim("r", &owner).expect("claimed"), ClaimResult::Owned { owner_epoch: before.owner_epoch + 1 });
    let syncs = store.syncs();
    world.open("first");
    let error = in_time(handle.wait()).await.expect_err("fenced");
    assert!(matches!(error, RuntimeError::Fenced), "{error}");
    until(|| engine.resident() == 0).await;
    engine.close().await;
    let after = store.run("r").expect("readable").expect("there");
    assert_eq!((after.ticks, after.owner_epoch, after.owner), (before.ticks, before.owner_epoch + 1, Some(owner)));
    assert!(store.syncs() <= syncs + 1, "one refused commit, and nothing after it");
    assert_eq!(world.ledger().len(), 1, "no effect of the refused commit");
}

// ---------------------------------------------------------------------------------------------------- idle eviction

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_run_is_evicted_and_reloaded_for_timers_and_signals() {
    let (store, world) = fresh();
    let engine = engine_with(&store, EngineOptions { evict_after: Duration::ZERO, ..options(&world) });
    let plan = steps("s")
        // Long enough to be checked before, even on a busy machine.
        .delay("short", windlass_value::Duration::from_secs(3))
        .effect("work", "count", "1")
        .signal("wait", "answer")
        .gives(&[("answer", "@outputs('wait')")]);
    let mut handle = begin(&engine, plan, "r").await;
    until(|| engine.resident() == 0).await;
    assert_eq!(world.ledger().len(), 0, "the timer is not due");
    let row = store.run("r").expect("readable").expect("there");
    assert_eq!((row.status, row.owner.is_none(), row.timer.is_some()), (RunStatus::Waiting, true, true));
    world.calls(1).await;
    until(|| engine.resident() == 0 && status(&store, "r") == RunStatus::Waiting).await;
    assert_eq!(store.run("r").expect("readable").expect("there").timer, None, "only a signal can move it");
    assert_eq!(engine.request("r", "a", signal("answer", r#""yes""#)).expect("kept"), RequestOutcome::Queued);
    assert_eq!(end(&mut handle).await.output, json(r#"{"answer": "yes"}"#));
    assert_eq!(world.ledger().len(), 1);
    assert_replays(&*store, "r");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopting_engine_reloads_runs_that_other_engines_left() {
    let (store, world) = fresh();
    let first = engine_with(&store, EngineOptions { evict_after: Duration::ZERO, ..options(&world) });
    // Long enough that the first engine is closed by then, even on a busy machine.
    let plan = steps("s").delay("short", windlass_value::Duration::from_secs(3)).effect("work", "count", "1").plan();
    let mut handle = begin(&first, plan, "timed").await;
    begin(&first, two_waits(), "signalled").await;
    until(|| first.resident() == 0).await;
    first.close().await;
    let detached = in_time(handle.wait()).await.expect_err("the owner released it");
    assert!(matches!(detached, RuntimeError::Closing), "{detached}");
    let second = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
    until(|| status(&store, "timed") == RunStatus::Succeeded).await;
    request(&*store, "signalled", "a", signal("answer", "1")).expect("kept");
    request(&*store, "signalled", "b", signal("answer", "2")).expect("kept");
    until(|| status(&store, "signalled") == RunStatus::Succeeded).await;
    until(|| second.resident() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_for_unowned_runs_do_not_delay_our_own() {
    let (store, world) = fresh();
    let dead = engine(&store, &world);
    let (hash, _) = dead.add_plan(two_waits()).expect("a plan");
    for n in 0..300 {
        dead.start(hash, Value::Null, named(&format!("dead-{n}"))).await.expect("started");
    }
    let store = Arc::new(store.crash());
    for n in 0..300 {
        request(&*store, &format!("dead-{n}"), "p", RunRequest::Pause).expect("kept");
    }
    let living = engine(&store, &world);
    let mut handle = begin(&living, two_waits(), "ours").await;
    // Directly into the store, as another process would.
    request(&*store, "ours", "a", signal("answer", "1")).expect("kept");
    request(&*store, "ours", "b", signal("answer", "2")).expect("kept");
    assert_eq!(end(&mut handle).await.output, json(r#"{"one": 1, "two": 2}"#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopting_engine_takes_over_runs_of_dead_owners_only() {
    let (store, world) = fresh();
    begin(&engine(&store, &world), loom(GATES), "orphan").await;
    world.calls(1).await;
    let store = Arc::new(store.crash());
    let living = engine(&store, &world);
    begin(&living, loom(GATES), "owned").await;
    world.calls(2).await;
    let _adopting = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
    world.calls(3).await;
    world.open("first");
    world.open("second");
    until(|| ["orphan", "owned"].iter().all(|run| status(&store, run) == RunStatus::Succeeded)).await;
    assert!(has_tick(&store, "orphan", "Restart"));
    assert!(!has_tick(&store, "owned", "Restart"), "its owner is alive");
    assert_eq!(world.keys().len(), 4);
}

// ------------------------------------------------------------------------------------------------------------ closing

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_an_engine_stops_every_run_even_a_computing_one() {
    let (store, world) = fresh();
    let first = engine(&store, &world);
    let forever = loom(
        r#"{"type": "until", "name": "count", "condition": "@greaterOrEquals(variables('loopIndex'), 9000000)",
            "limit": {"count": 9000001, "timeout": "P6D"}, "actions": {"note": {"type": "compose", "inputs": "@variables('loopIndex')"}}}"#,
    );
    let mut computing = begin(&first, forever, "computing").await;
    let mut holding = begin(&first, loom(GATES), "holding").await;
    world.calls(1).await;
    in_time(first.close()).await;
    for handle in [&mut computing, &mut holding] {
        let error = in_time(handle.wait()).await.expect_err("left");
        assert!(matches!(error, RuntimeError::Closing), "{error}");
        assert_eq!(store.run(&handle.run).expect("readable").expect("there").owner, None, "given back");
    }
    let refused = first.resume("holding").await.map(|handle| handle.run.clone());
    assert!(matches!(refused, Err(RuntimeError::Closing)), "{refused:?}");
    world.open("first");
    world.open("second");
    let second = engine(&store, &world);
    assert_eq!(end(&mut second.resume("holding").await.expect("resumed")).await.status, Status::Succeeded);
    let mut again = second.resume("computing").await.expect("resumed");
    second.request("computing", "c", cancel()).expect("kept");
    assert_eq!(end(&mut again).await.status, Status::Cancelled);
    assert_replays(&*store, "computing");
}

// ------------------------------------------------------------------------------------------------------------ workers

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_numbered_from_0_after_a_restart() {
    let (store, world) = fresh();
    let plan = loom(
        r#"{"type": "foreach", "name": "all", "foreach": ["a", "b", "c"],
            "actions": {"hold": {"type": "activity", "inputs": {"activityName": "gate", "input": "@item()"}}}}"#,
    );
    begin(&engine(&store, &world), plan, "r").await;
    world.calls(3).await;
    let jobs = |store: &MemoryStore| -> Vec<(u64, u32, u32)> {
        let program = program_of(store, "r", limits());
        let row = store.run("r").expect("readable").expect("there");
        let image = load(store, &row, &program).expect("it loads");
        image.state.jobs.iter().map(|(job, open)| (*job, open.job.worker, open.job.lease_epoch)).collect()
    };
    assert_eq!(jobs(&store), [(0, 0, 0), (1, 1, 0), (2, 2, 0)]);
    world.open("a");
    until(|| jobs(&store).len() == 2).await;
    assert_eq!(jobs(&store), [(1, 1, 0), (2, 2, 0)]);
    let store = Arc::new(store.crash());
    let second = engine(&store, &world);
    let mut handle = second.resume("r").await.expect("resumed");
    assert_eq!(jobs(&store), [(1, 0, 1), (2, 1, 1)], "job, worker, lease epoch");
    world.open("b");
    world.open("c");
    assert_eq!(end(&mut handle).await.status, Status::Succeeded);
    assert_eq!(world.keys().len(), 3, "dispatched again under the same keys");
}

/// Longer than any lease: a queued job sends heartbeats like a running one.
#[tokio::test(start_paused = true)]
async fn a_job_keeps_its_lease_while_it_runs_and_while_it_is_queued() {
    let (store, world) = fresh();
    let tools = world.tools().with_fn("http", |_| async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        windlass_core::TaskOutcome::success(Value::Null)
    });
    let poll_every = Duration::from_secs(10);
    let one_by_one = EngineOptions { tools, max_job_concurrency: 1, commit_here: true, poll_every, ..options(&world) };
    let engine = engine_with(&store, one_by_one);
    let slow = loom(r#"{"actions": {"slow": {"type": "http", "inputs": {"uri": "http://slow.test"}}}}"#);
    let begun = tokio::time::Instant::now();
    let mut handles = [begin(&engine, slow.clone(), "a").await, begin(&engine, slow, "b").await];
    for handle in &mut handles {
        assert_eq!(handle.wait().await.expect("an end").status, Status::Succeeded);
        assert!(!has_tick(&store, &handle.run, "LeaseLost"));
    }
    assert!(begun.elapsed() >= Duration::from_secs(600), "one after the other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_tool_fails_only_its_task() {
    let (store, world) = fresh();
    let tools = world.tools().with_fn("http", |call| {
        assert!(call.input.is_null(), "panics before there is a future");
        async { windlass_core::TaskOutcome::success(Value::Null) }
    });
    let engine = engine_with(&store, EngineOptions { tools, ..options(&world) });
    let mut handle = begin(
        &engine,
        loom(
            r#"{"actions": {
                "bad": {"type": "activity", "inputs": {"activityName": "panic"}},
                "worse": {"type": "http", "inputs": {"uri": "http://unknown.test"}},
                "good": {"type": "activity", "inputs": {"activityName": "count", "input": 1}},
                "after": {"type": "compose", "inputs": "@outputs('good').saw", "runAfter": {"bad": ["Failed"], "worse": ["Failed"], "good": ["Succeeded"]}}},
                "outputs": {"after": "@outputs('after')"}}"#,
        ),
        "r",
    )
    .await;
    let report = end(&mut handle).await;
    assert_eq!((report.status, &report.output), (Status::Succeeded, &json(r#"{"after": 1}"#)));
    for step in ["bad", "worse"] {
        let (_, report) = report.steps.iter().find(|(name, _)| &**name == step).expect("a step");
        assert_eq!(report.error.as_ref().map(|error| &*error.code), Some("ToolPanicked"), "{step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_never_returns_runs_out_of_time() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut handle = begin(
        &engine,
        loom(
            r#"{"actions": {
                "stuck": {"type": "activity", "inputs": {"activityName": "never"}, "timeout": "PT0.05S"},
                "after": {"type": "compose", "inputs": "went on", "runAfter": {"stuck": ["TimedOut", "Failed"]}}},
                "outputs": {"after": "@outputs('after')"}}"#,
        ),
        "r",
    )
    .await;
    let report = end(&mut handle).await;
    assert_eq!(report.output, json(r#"{"after": "went on"}"#));
    let stuck = &report.steps.iter().find(|(name, _)| &**name == "stuck").expect("a step").1;
    assert_eq!(stuck.error.as_ref().map(|error| &*error.kind), Some("timeout"));
    assert_eq!(world.call_counts().in_flight, 0, "the call is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_concurrent_runs() {
    let (store, world) = fresh();
    let engine = engine_with(&store, EngineOptions { max_job_concurrency: 64, ..options(&world) });
    let (hash, _) = engine
        .add_plan(loom(
            r#"{"actions": {
                "one": {"type": "activity", "inputs": {"activityName": "count", "input": "@triggerBody()"}},
                "two": {"type": "activity", "inputs": {"activityName": "count", "input": "@outputs('one').saw"}, "runAfter": {"one": ["Succeeded"]}}},
                "outputs": {"n": "@outputs('two').saw"}}"#,
        ))
        .expect("a plan");
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..1_000_i64 {
        let engine = engine.clone();
        runs.spawn(async move {
            let input = Value::object([("n", Value::from(n))]);
            let mut handle = engine.start(hash, input.clone(), Default::default()).await.expect("started");
            (end(&mut handle).await, input)
        });
    }
    let mut ended = 0;
    while let Some(run) = runs.join_next().await {
        let (report, input) = run.expect("no panic");
        assert_eq!(report.output, Value::object([("n", input)]));
        ended += 1;
    }
    assert_eq!(ended, 1_000);
    assert_eq!(world.keys().len(), 2_000, "every effect once, under its own key");
    assert!(world.call_counts().max_concurrency <= 64, "{} at once", world.call_counts().max_concurrency);
    let (commits, batches) = engine.commits();
    assert!(commits < batches, "commits are shared: {commits} for {batches} batches");
    until(|| engine.resident() == 0).await;
}

// -------------------------------------------------------------------------------------------------------- large values

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_values_travel_as_references_and_are_resolved_for_tools() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let (hash, _) = engine
        .add_plan(loom(
            r#"{"parameters": {"text": {"type": "String"}}, "actions": {
                "keep": {"type": "initializeVariable", "inputs": {"variables": [{"name": "kept", "type": "string", "value": "@parameters('text')"}]}},
                "make": {"type": "activity", "inputs": {"activityName": "big", "input": 200000}},
                "join": {"type": "compose", "inputs": "@concat(outputs('make'), parameters('text'))", "runAfter": {"make": ["Succeeded"]}},
                "send": {"type": "activity", "inputs": {"activityName": "count", "input": {"whole": "@outputs('join')", "text": "@parameters('text')"}}, "runAfter": {"join": ["Succeeded"]}},
                "size": {"type": "compose", "inputs": "@length(outputs('send').saw.whole)", "runAfter": {"send": ["Succeeded"]}}},
                "outputs": {"size": "@outputs('size')", "kept": "@length(variables('kept'))", "whole": "@outputs('join')"}}"#,
        ))
        .expect("a plan");
    let text = "y".repeat(200_000);
    let input = Value::object([("text", text.as_str())]);
    let report = end(&mut engine.start(hash, input, named("r")).await.expect("started")).await;
    assert_eq!(report.error, None);
    assert_eq!(report.output.get("size"), Some(&Value::from(400_000_i64)));
    assert_eq!(report.output.get("kept"), Some(&Value::from(200_000_i64)), "a variable can hold it too");
    let whole = "x".repeat(200_000) + &text;
    assert!(render_report(&*store, &report).contains(&whole), "readers get the complete output");
    let sent = world.ledger().into_iter().find(|call| call.tool == "count").expect("sent");
    assert!(sent.input.contains(&whole) && sent.input.contains(&text), "the tool got the complete value");
    for row in store.journal("r", 0, u32::MAX).expect("readable") {
        assert!(row.body.len() < 32 * 1024, "a journal row of {} bytes", row.body.len());
    }
    assert_replays(&*store, "r");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_signal_and_a_large_child_result_stay_out_of_the_journal() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    engine
        .add_plan(steps("child").effect("make", "big", "200000").gives(&[("text", "@outputs('make')")]))
        .expect("a plan");
    let parent = steps("parent")
        .signal("wait", "answer")
        .call("child", "child", "{}")
        .gives(&[("signal", "@length(outputs('wait'))"), ("child", "@length(outputs('child').text)")]);
    let mut handle = begin(&engine, parent, "r").await;
    let payload = Value::from("z".repeat(150_000));
    engine.request("r", "a", RunRequest::Signal { name: "answer".to_owned(), payload }).expect("kept");
    let report = end(&mut handle).await;
    assert_eq!(report.output, json(r#"{"signal": 150000, "child": 200000}"#));
    for row in store.journal("r", 0, u32::MAX).expect("readable") {
        assert!(row.body.len() < 32 * 1024, "a journal row of {} bytes", row.body.len());
    }
    assert_replays(&*store, "r");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_items_with_large_results() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut handle = begin(
        &engine,
        loom(
            r#"{"actions": {
                "all": {"type": "foreach", "foreach": "@range(0, 5000)", "runtimeConfiguration": {"concurrency": {"repetitions": 50}},
                    "actions": {"ask": {"type": "activity", "inputs": {"activityName": "count", "input": "@item()"}}}},
                "last": {"type": "compose", "inputs": "@last(outputs('all'))", "runAfter": {"all": ["Succeeded"]}},
                "send": {"type": "activity", "inputs": {"activityName": "count", "input": "@outputs('all')"}, "runAfter": {"all": ["Succeeded"]}}},
                "outputs": {"count": "@length(outputs('all'))", "last": "@outputs('last')"}}"#,
        ),
        "r",
    )
    .await;
    let report = end(&mut handle).await;
    assert_eq!(report.error, None);
    assert_eq!(report.output.get("count"), Some(&Value::from(5_000_i64)));
    assert!(windlass_value::to_json(&report.output).contains("4999"), "{:?}", report.output);
    assert_eq!(world.keys().len(), 5_001);
    assert!(world.call_counts().max_concurrency <= 50, "{} at once", world.call_counts().max_concurrency);
    let sent = world.ledger().into_iter().find(|call| &*call.path == "send").expect("sent");
    assert_eq!(json(&sent.input).as_list().map(<[Value]>::len), Some(5_000), "the tool got the complete value");
    let audit = audit(&store, "r");
    assert_eq!(audit.iterations["all"].len(), 5_000);
}

// -------------------------------------------------------------------------------------------------------- store errors

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_the_run_and_loses_nothing() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let (hash, _) = engine.add_plan(loom(GATES)).expect("a plan");
    store.fail_next(Fault::Full);
    let refused = engine.start(hash, Value::Null, named("r")).await.map(|handle| handle.run.clone());
    assert!(matches!(&refused, Err(RuntimeError::Store(error)) if error.kind == StoreErrorKind::Full), "{refused:?}");
    assert_eq!(store.run("r").expect("readable"), None, "a refused start leaves nothing behind");
    let mut handle = engine.start(hash, Value::Null, named("r")).await.expect("there is room again");
    world.calls(1).await;
    store.fail_next(Fault::Full);
    world.open("first");
    let error = in_time(handle.wait()).await.expect_err("full");
    assert!(matches!(&error, RuntimeError::Store(error) if error.kind == StoreErrorKind::Full), "{error}");
    until(|| engine.resident() == 0).await;
    world.open("second");
    let report = end(&mut engine.resume("r").await.expect("room was made")).await;
    assert_eq!(report.output, json(r#"{"both": ["first", "second"]}"#));
    assert_eq!(world.keys().len(), 2, "the repeated task has its own key");
    audit(&store, "r");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_stops_everything_and_loses_nothing() {
    let (store, world) = fresh();
    let first = engine(&store, &world);
    let mut handle = begin(&first, loom(GATES), "r").await;
    let mut other = begin(&first, two_waits(), "other").await;
    world.calls(1).await;
    assert_eq!(first.request("other", "a", signal("answer", "1")).expect("kept"), RequestOutcome::Delivered);
    until(|| store.inbox("other", 9).expect("readable").is_empty()).await;
    store.fail_next(Fault::SyncFailed);
    world.open("first");
    let error = in_time(handle.wait()).await.expect_err("a failed sync");
    // Its own commit or the store watcher: the first one reports the error.
    assert!(matches!(error, RuntimeError::Store(_)) && error.to_string().contains("A sync failed."), "{error}");
    let refused = first.request("other", "b", signal("answer", "2"));
    assert!(
        matches!(&refused, Err(RuntimeError::Store(error)) if error.kind == StoreErrorKind::Stopped),
        "{refused:?}"
    );
    // Nothing will ever move this run again in this process: it must not wait forever.
    let error = in_time(other.wait()).await.expect_err("the store is gone");
    assert!(matches!(error, RuntimeError::Store(_)), "{error}");
    until(|| first.resident() == 0).await;
    let store = Arc::new(store.crash());
    world.open("second");
    let second = engine(&store, &world);
    assert_eq!(end(&mut second.resume("r").await.expect("resumed")).await.status, Status::Succeeded);
    let mut other = second.resume("other").await.expect("resumed");
    second.request("other", "b", signal("answer", "2")).expect("kept");
    assert_eq!(end(&mut other).await.output, json(r#"{"one": 1, "two": 2}"#));
}

// ---------------------------------------------------------------------------------------------------------- child runs

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_lives_in_its_parents_time() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let day = windlass_value::Duration::from_secs(86_400);
    engine
        .add_plan(
            steps("child").delay("day", day).compose("now", r#""@utcNow()""#).gives(&[("now", "@outputs('now')")]),
        )
        .expect("a plan");
    let parent = steps("parent").delay("day", day).compose("now", r#""@utcNow()""#).call("child", "child", "{}");
    let (hash, _) =
        engine.add_plan(parent.gives(&[("later", "@greater(outputs('child').now, outputs('now'))")])).expect("a plan");
    let begun = Instant::now();
    let report = end(&mut engine.start(hash, Value::Null, in_virtual_time("r")).await.expect("started")).await;
    assert_eq!(report.output, json(r#"{"later": true}"#));
    assert!(begun.elapsed() < Duration::from_secs(120));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_an_unknown_definition_fails_with_a_reason() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let report = end(&mut begin(&engine, steps("parent").call("child", "nowhere", "{}").plan(), "r").await).await;
    assert_eq!(report.status, Status::Failed);
    assert_eq!(report.error.as_ref().map(|error| &*error.code), Some("ChildNotStarted"));
    assert!(report.error.as_ref().is_some_and(|error| error.message.contains("nowhere")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_uses_the_definition_that_was_added_last() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    for version in 0..8 {
        let child = steps("child").compose("which", &version.to_string()).gives(&[("which", "@outputs('which')")]);
        engine.add_plan(child).expect("a plan");
        let parent = steps("parent").call("call", "child", "{}").gives(&[("which", "@outputs('call').which")]);
        let report = end(&mut begin(&engine, parent, &format!("r{version}")).await).await;
        assert_eq!(report.output.get("which"), Some(&Value::from(i64::from(version))));
    }
}

fn calls_a_gate(engine: &RuntimeEngine) -> windlass_core::plan::Plan {
    engine.add_plan(steps("child").effect("hold", "gate", r#""child""#).plan()).expect("a plan");
    steps("parent").call("call", "child", "{}").plan()
}

fn child_of(store: &MemoryStore, parent: &str) -> Option<(String, RunStatus)> {
    use windlass_store::{RunFilter, StoreScan};
    let rows = store.runs(&RunFilter::default(), None, 100).expect("readable");
    rows.into_iter().find(|row| row.parent.as_deref() == Some(parent)).map(|row| (row.run.to_string(), row.status))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_parent_cancels_its_child() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut handle = begin(&engine, calls_a_gate(&engine), "r").await;
    world.calls(1).await;
    engine.request("r", "c", cancel()).expect("kept");
    assert_eq!(end(&mut handle).await.status, Status::Cancelled);
    until(|| child_of(&store, "r").is_some_and(|(_, status)| status == RunStatus::Cancelled)).await;
    assert_eq!(world.cancelled().len(), 1);
}

/// The cancellation of the child is in the same commit as the parent's end: a crash right after it cannot lose it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_cancelled_even_if_the_process_crashes_after_its_parents_last_commit() {
    let (store, world) = fresh();
    let first = engine(&store, &world);
    let mut handle = begin(&first, calls_a_gate(&first), "r").await;
    world.calls(1).await;
    // The message itself is the first write, the parent's last commit the second.
    store.crash_after_sync(2);
    first.request("r", "c", cancel()).expect("kept");
    in_time(handle.wait()).await.expect_err("the store is gone");
    let store = Arc::new(store.crash());
    assert_eq!(status(&store, "r"), RunStatus::Cancelled);
    assert_eq!(child_of(&store, "r").map(|(_, status)| status), Some(RunStatus::Running));
    let _second = engine_with(&store, EngineOptions { adopt: true, ..options(&world) });
    until(|| child_of(&store, "r").is_some_and(|(_, status)| status == RunStatus::Cancelled)).await;
}

/// A child that runs in another process has not failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_can_move_to_another_engine_while_its_child_stays() {
    let (store, world) = fresh();
    let (first, second) = (engine(&store, &world), engine(&store, &world));
    let plan = calls_a_gate(&first);
    begin(&first, plan, "r").await;
    world.calls(1).await;
    // Only the parent is released.
    let owner = store.run("r").expect("readable").expect("there");
    store.release("r", owner.owner_epoch).expect("released");
    let mut handle = second.resume("r").await.expect("taken over");
    until(|| has_tick(&store, "r", "Restart")).await;
    world.open("child");
    let report = end(&mut handle).await;
    assert_eq!((report.status, &report.error), (Status::Succeeded, &None));
    assert_eq!(world.ledger().len(), 1);
}

/// A store error stops the parent; it does not become a failure inside the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_cannot_be_stored_stops_its_parent() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    engine.add_plan(steps("child").effect("work", "count", "1").plan()).expect("a plan");
    let plan = steps("parent").effect("hold", "gate", r#""go""#).call("call", "child", "{}").plan();
    let mut handle = begin(&engine, plan, "r").await;
    world.calls(1).await;
    // The parent's commit succeeds, the child's first one does not.
    store.crash_before_sync(2);
    world.open("go");
    let error = in_time(handle.wait()).await.expect_err("the store is gone");
    assert!(matches!(error, RuntimeError::Store(_)), "{error}");
    let store = Arc::new(store.crash());
    assert_eq!(child_of(&store, "r"), None);
    let second = support::engine(&store, &world);
    second.add_plan(steps("child").effect("work", "count", "1").plan()).expect("a plan");
    assert_eq!(end(&mut second.resume("r").await.expect("resumed")).await.status, Status::Succeeded);
    assert!(child_of(&store, "r").is_some_and(|(_, status)| status == RunStatus::Succeeded));
}

/// Journaled ticks do not change: a request is in the journal once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_becomes_one_tick_even_across_a_crash() {
    for after in [false, true] {
        let (store, world) = fresh();
        let first = engine(&store, &world);
        let mut handle = begin(&first, two_waits(), "r").await;
        // The message is the first write, its tick the second.
        match after {
            false => store.crash_before_sync(2),
            true => store.crash_after_sync(2),
        }
        first.request("r", "a", signal("answer", "1")).expect("kept");
        in_time(handle.wait()).await.expect_err("the store is gone");
        let store = Arc::new(store.crash());
        let second = engine(&store, &world);
        let mut handle = second.resume("r").await.expect("resumed");
        assert_eq!(second.request("r", "a", signal("answer", "1")).expect("accepted"), RequestOutcome::Duplicate);
        assert_eq!(second.request("r", "b", signal("answer", "2")).expect("kept"), RequestOutcome::Delivered);
        assert_eq!(end(&mut handle).await.output, json(r#"{"one": 1, "two": 2}"#));
        let ticks = entries(&*store, "r");
        let of = |id: &str| {
            ticks.iter().filter(|entry| matches!(&entry.tick.kind, TickKind::AddEvent { request: Some(request), .. } if &**request == id)).count()
        };
        assert_eq!((of("a"), of("b")), (1, 1));
    }
}
