//! Child runs: name resolution, nesting depth, and children that reply before they end.

use crate::support;

use std::sync::Arc;

use support::audit::{assert_replays, entries};
use support::plans::steps;
use support::{World, engine, engine_with, in_time, in_virtual_time, json, named, options, until};
use windlass_core::plan::Plan;
use windlass_core::{RunReply, Status, TickKind};
use windlass_runtime::{EngineOptions, FinalReport, RunHandle, RunRequest, RuntimeEngine, RuntimeError, codec};
use windlass_store::{
    CommitMoment, CommitPoint, MemoryStore, RunBatch, RunFilter, RunRow, RunStatus, StoreRead, StoreScan, StoreWrite,
};
use windlass_value::{BlobHash, Value};

fn fresh() -> (Arc<MemoryStore>, World) {
    (Arc::new(MemoryStore::new()), World::new())
}

fn added(engine: &RuntimeEngine, plan: Plan) -> BlobHash {
    engine.add_plan(plan).expect("a plan").0
}

async fn begin(engine: &RuntimeEngine, plan: Plan, id: &str) -> RunHandle {
    engine.start(added(engine, plan), Value::Null, named(id)).await.expect("started")
}

async fn end(handle: &mut RunHandle) -> Arc<FinalReport> {
    in_time(handle.wait()).await.expect("an end")
}

fn code(report: &FinalReport) -> &str {
    report.error.as_ref().map(|error| &*error.code).unwrap_or_default()
}

fn runs(store: &MemoryStore) -> Vec<RunRow> {
    store.runs(&RunFilter::default(), None, 100).expect("readable")
}

fn child_of(store: &MemoryStore, parent: &str) -> Option<RunRow> {
    runs(store).into_iter().find(|row| row.parent.as_deref() == Some(parent))
}

fn report_of(row: &RunRow) -> FinalReport {
    codec::decode(row.result.as_ref().expect("an end"), "result").expect("a report")
}

fn call_results(store: &MemoryStore, run: &str) -> usize {
    let is_one = |kind: &TickKind| matches!(kind, TickKind::CallResult { .. });
    entries(store, run).iter().filter(|entry| is_one(&entry.tick.kind)).count()
}

// --------------------------------------------------------------------------------------------------- name resolution

fn gives(name: &str, value: &str) -> Plan {
    steps(name).compose("which", &format!("\"{value}\"")).gives(&[("which", "@outputs('which')")])
}

/// Waits at a gate, then calls `child`.
fn gated_call() -> support::plans::Steps {
    steps("parent").effect("hold", "gate", r#""go""#).call("call", "child", "{}")
}

const WHICH: [(&str, &str); 1] = [("which", "@outputs('call').which")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_plan_wins_over_the_one_added_last() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let pinned = added(&engine, gives("another name", "pinned"));
    added(&engine, gives("child", "added"));
    world.open("go");
    for (plan, which) in [(gated_call().pin("child", pinned), "pinned"), (gated_call().pin("other", pinned), "added")] {
        let report = end(&mut begin(&engine, plan.gives(&WHICH), which).await).await;
        assert_eq!(report.output.get("which"), Some(&which.into()));
    }
}

/// The process that resumes the parent has never loaded the child's plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_child_is_found_by_another_process() {
    let (store, world) = fresh();
    let first = engine(&store, &world);
    let pinned = added(&first, gives("child", "pinned"));
    begin(&first, gated_call().pin("child", pinned).gives(&WHICH), "r").await;
    world.calls(1).await;
    let store = Arc::new(store.crash());
    let second = engine(&store, &world);
    let mut handle = second.resume("r").await.expect("resumed");
    world.open("go");
    assert_eq!(end(&mut handle).await.output, json(r#"{"which": "pinned"}"#));
    assert_eq!(child_of(&store, "r").expect("a child").plan, pinned);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_of_an_unknown_plan_is_refused_when_the_plan_is_added() {
    let (store, world) = fresh();
    let problem = engine(&store, &world).add_plan(gated_call().pin("child", BlobHash([7; 32])).plan());
    let problem = problem.err().expect("refused");
    assert!(matches!(problem, RuntimeError::Plan(_)) && problem.to_string().contains("`child`"), "{problem}");
}

/// A definition may call itself; it calls the plan it was started with, not the one that has its name now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_calls_itself_stops_at_the_limit() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let mut plan =
        steps("itself").effect("work", "count", r#""@workflow().run.name""#).call("call", "itself", "{}").plan();
    plan.limits = Some(windlass_core::Limits { max_call_depth: 3, ..support::limits() });
    let hash = added(&engine, plan);
    added(&engine, gives("itself", "another"));
    let report = end(&mut engine.start(hash, Value::Null, named("r")).await.expect("started")).await;
    assert_eq!((report.status, code(&report)), (Status::Failed, "CallDepth"));
    let error = report.error.clone().expect("an error");
    assert_eq!((&*error.kind, error.hint.is_some()), ("limit", true));
    assert_eq!((runs(&store).len(), world.ledger().len()), (4, 4), "the run itself and three nested child runs");
    assert!(runs(&store).iter().all(|row| row.plan == hash));
}

// ------------------------------------------------------------------------------------------------------------- replies

/// Replies with 7, then works.
fn replies(success: bool, gate: &str) -> Plan {
    let reply = steps("child").reply("reply", r#"{"answer": 7}"#, success);
    reply.effect("hold", "gate", &format!("\"{gate}\"")).effect("work", "count", "1").plan()
}

fn asks() -> support::plans::Steps {
    steps("parent").call("call", "child", "{}")
}

const SAW: [(&str, &str); 1] = [("saw", "@outputs('call')")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_gets_the_reply_while_the_child_continues() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    added(&engine, replies(true, "later"));
    let report = end(&mut begin(&engine, asks().gives(&SAW), "r").await).await;
    assert_eq!(report.output, json(r#"{"saw": {"answer": 7}}"#));
    assert_eq!(report.reply, None, "the parent itself has not replied");
    assert_eq!(child_of(&store, "r").expect("a child").status, RunStatus::Running);
    world.open("later");
    until(|| child_of(&store, "r").is_some_and(|row| row.status == RunStatus::Succeeded)).await;
    let child = report_of(&child_of(&store, "r").expect("a child"));
    assert_eq!(child.reply, Some(RunReply { value: json(r#"{"answer": 7}"#), success: true }));
    assert_eq!(child.to_value().get("reply"), Some(&json(r#"{"value": {"answer": 7}, "success": true}"#)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_reply_fails_the_call_and_is_reported() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    added(&engine, replies(false, "later"));
    let report = end(&mut begin(&engine, asks().plan(), "r").await).await;
    assert_eq!((report.status, code(&report)), (Status::Failed, "ChildReplied"));
    assert!(report.error.as_ref().is_some_and(|error| error.message.contains("\"answer\":7")), "{:?}", report.error);
    let (_, call) = report.steps.first().expect("a step");
    assert_eq!(call.output, json(r#"{"answer": 7}"#));
}

/// The child ends while the parent is still running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_child_that_has_replied_sends_no_second_result() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    added(&engine, replies(true, "child"));
    let mut handle = begin(&engine, asks().effect("hold", "gate", r#""parent""#).gives(&SAW), "r").await;
    world.calls(2).await;
    world.open("child");
    until(|| child_of(&store, "r").is_some_and(|row| row.status == RunStatus::Succeeded)).await;
    world.open("parent");
    assert_eq!(end(&mut handle).await.output, json(r#"{"saw": {"answer": 7}}"#));
    assert_eq!(call_results(&store, "r"), 1);
    assert_replays(&*store, "r");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_has_replied_outlives_a_cancelled_parent() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    added(&engine, replies(true, "child"));
    let mut handle = begin(&engine, asks().effect("hold", "gate", r#""parent""#).plan(), "r").await;
    world.calls(2).await;
    engine.request("r", "c", RunRequest::Cancel { reason: "enough".to_owned() }).expect("kept");
    assert_eq!(end(&mut handle).await.status, Status::Cancelled);
    world.open("child");
    until(|| child_of(&store, "r").is_some_and(|row| row.status == RunStatus::Succeeded)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_reply_arrives_complete() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    let child = steps("child").effect("make", "big", "100000").reply("reply", r#""@outputs('make')""#, true);
    added(&engine, child.plan());
    let report = end(&mut begin(&engine, asks().gives(&[("size", "@length(outputs('call'))")]), "r").await).await;
    assert_eq!(report.output, json(r#"{"size": 100000}"#));
}

fn all_ended(store: &MemoryStore) -> bool {
    let rows = store.runs(&RunFilter::default(), None, 100).unwrap_or_default();
    rows.len() == 2 && rows.iter().all(|row| row.status.is_final())
}

/// One life of a process with a parent and its child. Returns true if the store was still available at its end.
async fn life(store: &Arc<MemoryStore>, world: &World) -> bool {
    let engine = engine_with(store, EngineOptions { adopt: true, ..options(world) });
    let start = async {
        let child = engine.add_plan(replies(true, "child"))?.0;
        let parent = asks().effect("after", "count", r#""@outputs('call')""#).pin("child", child).gives(&SAW);
        let parent = engine.add_plan(parent)?.0;
        engine.start(parent, Value::Null, named("r")).await.map(drop)
    };
    let started = in_time(start).await;
    until(|| store.run("r").is_err() || (started.is_ok() && all_ended(store))).await;
    store.run("r").is_ok()
}

/// At whatever commit the process dies, the parent gets the reply once, and the child ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_survives_a_crash_at_every_commit() {
    for after in [false, true] {
        for at in 1.. {
            let (store, world) = fresh();
            world.open("child");
            match after {
                false => store.crash_before_sync(at),
                true => store.crash_after_sync(at),
            }
            let undisturbed = life(&store, &world).await;
            let store = Arc::new(store.crash());
            assert!(life(&store, &world).await, "commit {at}");
            let report = report_of(&store.run("r").expect("readable").expect("there"));
            assert_eq!(report.output, json(r#"{"saw": {"answer": 7}}"#), "commit {at}");
            assert_eq!(call_results(&store, "r"), 1, "commit {at}");
            let child = child_of(&store, "r").expect("a child");
            assert_eq!(child.status, RunStatus::Succeeded, "commit {at}");
            for run in ["r", &*child.run] {
                assert_replays(&*store, run);
            }
            assert_eq!(world.keys().len(), 3, "commit {at}: each effect has one key");
            if undisturbed {
                assert!(at > 4, "only {at} commits");
                break;
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------ cancelled children

/// Calls five children that never end by themselves, then cancels them.
const BREAKS: &str = r#"{"name": "parent", "actions": {"each": {"type": "foreach", "foreach": "@range(0, 6)",
    "breakWhen": "@equals(item(), 3)", "actions": {"which": {"type": "if", "expression": "@equals(item(), 3)",
        "actions": {"stop": {"type": "activity", "inputs": {"activityName": "count"}}},
        "else": {"actions": {"call": {"type": "workflow", "inputs": {"name": "child"}}}}}}}}}"#;
const TERMINATES: &str = r#"{"name": "parent", "actions": {
    "each": {"type": "foreach", "foreach": "@range(0, 6)",
        "actions": {"call": {"type": "workflow", "inputs": {"name": "child"}}}},
    "hold": {"type": "activity", "inputs": {"activityName": "count"}},
    "stop": {"type": "terminate", "inputs": {"runStatus": "Succeeded"}, "runAfter": {"hold": ["Succeeded"]}}}}"#;

fn holds() -> Plan {
    steps("child").call("below", "grandchild", "{}").plan()
}

/// One life of a process with a parent that ends early. Returns true if the store was still available at its end.
async fn early_end(store: &Arc<MemoryStore>, world: &World, parent: &str) -> bool {
    let engine = engine(store, world);
    let start = async {
        engine.add_plan(steps("grandchild").effect("hold", "gate", r#""never""#).plan())?;
        engine.add_plan(holds())?;
        let (parent, _) = engine.add_plan(support::loom(parent))?;
        engine.start(parent, Value::Null, named("r")).await
    };
    let started = in_time(start).await;
    let over = || runs_of(store).is_some_and(|rows| rows.iter().all(|row| row.status.is_final()));
    until(|| store.run("r").is_err() || (started.is_ok() && over())).await;
    // Work that is still in progress when all runs seem to have ended would show now.
    in_time(engine.close()).await;
    assert!(store.run("r").is_err() || over());
    store.run("r").is_ok()
}

fn runs_of(store: &MemoryStore) -> Option<Vec<RunRow>> {
    store.runs(&RunFilter::default(), None, 100).ok()
}

/// At whatever commit the process dies: once the parent has been resumed, none of its descendants is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_child_outlives_a_parent_that_ends_early() {
    for parent in [BREAKS, TERMINATES] {
        for after in [false, true] {
            for at in 1.. {
                let (store, world) = fresh();
                match after {
                    false => store.crash_before_sync(at),
                    true => store.crash_after_sync(at),
                }
                let undisturbed = early_end(&store, &world, parent).await;
                let store = Arc::new(store.crash());
                assert!(early_end(&store, &world, parent).await, "commit {at}");
                let report = report_of(&store.run("r").expect("readable").expect("there"));
                assert_eq!(report.status, Status::Succeeded, "commit {at}");
                for row in runs(&store).iter().filter(|row| row.parent.is_some()) {
                    assert_eq!(row.status, RunStatus::Cancelled, "commit {at}: {}", row.run);
                }
                if undisturbed {
                    assert!(at > 3, "only {at} commits");
                    break;
                }
            }
        }
    }
}

/// Returns the id of the child that `asks` calls, as run `r`.
async fn id_of_child() -> Arc<str> {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    added(&engine, gives("child", "any"));
    end(&mut begin(&engine, asks().plan(), "r").await).await;
    child_of(&store, "r").expect("a child").run
}

/// The start is in progress when the call is cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_cancelled_before_its_start_is_never_created() {
    let (child, (store, world)) = (id_of_child().await, fresh());
    let disk = store.clone();
    let message = windlass_store::InboxRow {
        run: child.clone(),
        request_id: codec::cancel_request_id("r"),
        body: Vec::new(),
        at: windlass_value::Timestamp(0),
    };
    let hook: windlass_store::CommitHook = Box::new(move |point| {
        // The second commit would create the child.
        if point == (CommitPoint { number: 2, when: CommitMoment::Before }) {
            let row = disk.run("r").expect("readable").expect("there");
            let cancellations = vec![message.clone()];
            let (owner_epoch, expected_ticks) = (row.owner_epoch, row.ticks);
            let batch = RunBatch { run: row.run, owner_epoch, expected_ticks, cancellations, ..RunBatch::default() };
            disk.append(vec![batch]).expect("written");
        }
    });
    let engine = engine_with(&store, EngineOptions { commit_hook: Some(hook), ..options(&world) });
    added(&engine, steps("child").effect("work", "count", "1").plan());
    let mut handle = begin(&engine, asks().plan(), "r").await;
    until(|| engine.commits().0 >= 2).await;
    engine.request("r", "c", RunRequest::Cancel { reason: "enough".to_owned() }).expect("kept");
    assert_eq!(end(&mut handle).await.status, Status::Cancelled);
    in_time(engine.close()).await;
    assert_eq!((runs(&store).len(), world.ledger().len()), (1, 0), "only the parent");
}

/// The id that a call would give its child belongs to an unrelated run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_id_that_is_already_in_use_fails_the_call() {
    let (child, (store, world)) = (id_of_child().await, fresh());
    let engine = engine(&store, &world);
    end(&mut begin(&engine, gives("child", "foreign"), &child).await).await;
    let report = end(&mut begin(&engine, asks().plan(), "r").await).await;
    assert_eq!((report.status, code(&report)), (Status::Failed, "ChildExists"));
    assert!(report.error.as_ref().is_some_and(|error| error.message.contains(&*child)), "{:?}", report.error);
}

/// No polling of the store: each end is a notification from the run itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_is_notified_of_a_childs_end_without_polling() {
    let (store, world) = fresh();
    let hour = std::time::Duration::from_secs(3_600);
    let engine = engine_with(&store, EngineOptions { poll_every: hour, ..options(&world) });
    added(&engine, gives("child", "any"));
    let parent = (0..100).fold(steps("parent"), |steps, at| steps.call(&format!("call{at}"), "child", "{}"));
    assert_eq!(end(&mut begin(&engine, parent.plan(), "r").await).await.status, Status::Succeeded);
}

// ------------------------------------------------------------------------------------------ operations of several
// calls

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continued_operation_occupies_no_worker_and_survives_a_crash() {
    let (store, world) = fresh();
    let first = engine_with(&store, EngineOptions { evict_after: std::time::Duration::ZERO, ..options(&world) });
    let plan = steps("s")
        .effect("wait", "slow", r#"{"left": 3}"#)
        .gives(&[("gave", "@outputs('wait')"), ("began", "@actions('wait').inputs")]);
    let hash = added(&first, plan);
    first.start(hash, Value::Null, named("r")).await.expect("started");
    until(|| first.resident() == 0).await;
    let row = store.run("r").expect("readable").expect("there");
    assert_eq!((row.status, row.timer.is_some(), world.call_counts().in_flight), (RunStatus::Waiting, true, 0));
    let store = Arc::new(store.crash());
    let second = engine(&store, &world);
    let report = end(&mut second.start(hash, Value::Null, in_virtual_time("again")).await.expect("started")).await;
    assert_eq!(report.output, json(r#"{"gave": "finished", "began": {"left": 3}}"#));
    let calls: Vec<_> = world.ledger().into_iter().skip(1).map(|call| (call.attempt, call.input)).collect();
    assert_eq!(calls, [3, 2, 1, 0].map(|left| (1, format!(r#"{{"left":{left}}}"#))));
    assert_eq!(world.keys().len(), 5, "each call has a key of its own");
    second.resume("r").await.expect("resumed");
    assert_eq!(world.ledger().len(), 5, "the timer is not due");
}

// --------------------------------------------------------------------------------------------------- origin of a run

fn origin_of(store: &MemoryStore, run: &str) -> Option<(String, String)> {
    let entries = entries(store, run);
    let TickKind::AddEvent { origin, .. } = &entries.first().expect("a start").tick.kind else { panic!("no start") };
    origin.as_ref().map(|origin| (origin.parent.to_string(), origin.trace.to_string()))
}

/// The origin is in the journal, so a replay has it too, even if the parent was deleted long ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_knows_its_parent_and_its_root_run() {
    let (store, world) = fresh();
    let engine = engine(&store, &world);
    added(&engine, gives("inmost", "x"));
    added(&engine, steps("middle").call("call", "inmost", "{}").plan());
    let top = steps("top").call("call", "middle", "{}").plan();
    end(&mut begin(&engine, top, "top").await).await;
    let middle = child_of(&store, "top").expect("a child").run;
    let inmost = child_of(&store, &middle).expect("its child").run;
    assert_eq!(origin_of(&store, "top"), None);
    assert_eq!(origin_of(&store, &middle), Some(("top".to_owned(), "top".to_owned())));
    assert_eq!(origin_of(&store, &inmost), Some((middle.to_string(), "top".to_owned())));
    assert_replays(&*store, &inmost);
}
