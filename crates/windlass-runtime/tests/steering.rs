//! Steering: runs restarted from a path, and retries of failed runs.

use crate::support;

use std::collections::BTreeSet;
use std::sync::Arc;

use support::audit::events;
use support::plans::steps;
use support::shop::{Shop, ended, visible_end};
use support::{in_time, loom};
use windlass_core::Status;
use windlass_core::plan::Plan;
use windlass_runtime::{RestartRequest, RunOptions, RuntimeError, codec};
use windlass_store::{MemoryStore, RunStatus, StoreRead, StoreScan};
use windlass_value::Value;

fn from(path: &str) -> RestartRequest {
    RestartRequest { from: path.to_owned(), ..RestartRequest::default() }
}

/// Returns the source run of a run, as listings show it.
fn origin(store: &MemoryStore, run: &str) -> (String, String, bool) {
    let row = store.run(run).expect("readable").expect("the run exists");
    let how: RunOptions = codec::decode(&row.options, "options").expect("options");
    let from = how.from.expect("the run has a source run");
    (from.run.to_string(), from.path.to_string(), from.retry)
}

/// Returns all paths that have started according to the events of a run.
fn begun(store: &MemoryStore, run: &str) -> BTreeSet<String> {
    let begins = |kind: &str| matches!(kind, "step.started" | "loop.iteration.started" | "task.started");
    events(store, run).iter().filter(|event| begins(event.type_name())).map(|event| event.path.to_string()).collect()
}

const SEQUENCE: &str = r#"{"actions": {
    "init": {"type": "initializeVariable", "inputs": {"variables": [{"name": "total", "type": "integer", "value": 0}]}},
    "loop": {"type": "until", "condition": "@greaterOrEquals(variables('total'), 8)", "runAfter": {"init": ["Succeeded"]},
        "actions": {
            "call": {"type": "activity", "inputs": {"activityName": "count", "input": {"iteration": "@variables('loopIndex')", "total": "@variables('total')"}}},
            "add": {"type": "incrementVariable", "inputs": {"name": "total", "value": 2}, "runAfter": {"call": ["Succeeded"]}}}},
    "last": {"type": "activity", "inputs": {"activityName": "count", "input": "@variables('total')"}, "runAfter": {"loop": ["Succeeded"]}}},
    "outputs": {"total": "@variables('total')", "iterations": "@outputs('loop').iterations", "last": "@outputs('last').saw"}}"#;

const NESTED: &str = r#"{"actions": {
    "outer": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 2)", "actions": {
        "inner": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 2)", "delay": {"interval": {"count": 10, "unit": "minute"}}, "actions": {
            "call": {"type": "activity", "inputs": {"activityName": "count",
                "input": ["@variables('outer_loopIndex')", "@variables('inner_loopIndex')"]}}}},
        "each": {"type": "foreach", "foreach": ["a", "b"], "runAfter": {"inner": ["Succeeded"]}, "actions": {
            "note": {"type": "compose", "inputs": "@item()"}}}}}},
    "outputs": {"outer": "@outputs('outer').iterations"}}"#;

const LARGE: &str = r#"{"actions": {
    "make": {"type": "activity", "inputs": {"activityName": "big", "input": 100000}},
    "use": {"type": "activity", "inputs": {"activityName": "count", "input": {"size": "@length(outputs('make'))", "whole": "@outputs('make')"}}, "runAfter": {"make": ["Succeeded"]}},
    "again": {"type": "activity", "inputs": {"activityName": "count", "input": "@length(outputs('use').saw.whole)"}, "runAfter": {"use": ["Succeeded"]}}},
    "outputs": {"size": "@outputs('again').saw"}}"#;

const FOREACH: &str = r#"{"actions": {
    "all": {"type": "foreach", "foreach": "@range(0, 7)", "runtimeConfiguration": {"concurrency": {"repetitions": 3}},
        "actions": {
            "one": {"type": "activity", "inputs": {"activityName": "count", "input": "@item()"}},
            "two": {"type": "activity", "inputs": {"activityName": "count", "input": "@outputs('one')"}, "runAfter": {"one": ["Succeeded"]}}}},
    "sum": {"type": "activity", "inputs": {"activityName": "count", "input": "@outputs('all')"}, "runAfter": {"all": ["Succeeded", "Failed"]}}},
    "outputs": {"all": "@outputs('all')", "sum": "@outputs('sum')"}}"#;

const PARALLEL: &str = r#"{"actions": {
    "both": {"type": "parallel", "actions": {
        "left": {"type": "scope", "actions": {
            "l1": {"type": "activity", "inputs": {"activityName": "count", "input": "l1"}},
            "l2": {"type": "activity", "inputs": {"activityName": "count", "input": "l2"}, "runAfter": {"l1": ["Succeeded"]}}}},
        "right": {"type": "activity", "inputs": {"activityName": "count", "input": "r"}}}},
    "join": {"type": "activity", "inputs": {"activityName": "count", "input": ["@outputs('l2')", "@outputs('right')"]}, "runAfter": {"both": ["Succeeded"]}}},
    "outputs": {"join": "@outputs('join')"}}"#;

/// Returns plans that succeed, whether each runs sequentially, and the plans it calls.
fn cases() -> Vec<(&'static str, bool, Vec<Plan>)> {
    let alone = |text: &str| vec![loom(text)];
    let parent = steps("parent").call("first", "child", r#"{"n": 1}"#).call("second", "child", r#"{"n": 2}"#);
    let parent = parent.gives(&[("first", "@outputs('first')"), ("second", "@outputs('second')")]);
    let child =
        steps("child").effect("work", "count", r#""@triggerBody().n""#).gives(&[("saw", "@outputs('work').saw")]);
    let stages =
        steps("stages").pipeline("work", &[("a", "count", "1"), ("b", "count", r#""@variables('_prev').saw""#)]);
    vec![
        ("a sequence", true, alone(SEQUENCE)),
        ("loops in loops", true, alone(NESTED)),
        ("large values", true, alone(LARGE)),
        ("concurrent iterations", false, alone(FOREACH)),
        ("branches", false, alone(PARALLEL)),
        ("child runs", false, vec![parent, child]),
        ("tasks of a pipeline", true, vec![stages.effect("after", "count", r#""@outputs('work')""#).plan()]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_from_any_started_path_ends_as_the_original_run() {
    for (name, in_order, plans) in cases() {
        let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
        let engine = shop.engine(&store);
        let old = shop.old_run(&engine, &plans).await;
        assert_eq!(old.status, Status::Succeeded, "{name}: {:?}", old.error);
        let before = shop.calls_of("old");
        for (number, path) in begun(&store, "old").into_iter().enumerate() {
            let id = format!("new-{number}");
            let restart = RestartRequest { id: Some(id.clone()), ..from(&path) };
            let new = ended(engine.restart("old", restart.clone()).await).await;
            assert_eq!(visible_end(&store, &new), visible_end(&store, &old), "{name} from {path}");
            let again = shop.calls_of(&id);
            let known: Vec<_> = again.iter().filter(|call| before.contains(call)).collect();
            assert_eq!(known.len(), again.len(), "{name} from {path}: nothing else is called");
            if in_order {
                assert!(before.ends_with(&again), "{name} from {path}: {before:?}, then {again:?}");
                let first = before.iter().position(|(at, _)| at.starts_with(&path));
                let expected = first.map_or(again.len(), |first| before.len() - first);
                assert_eq!(again.len(), expected, "{name} from {path}: all from there on");
            }
            assert_eq!(origin(&store, &id), ("old".to_owned(), path.clone(), false));
            let published = events(&*store, &id);
            assert_eq!(published[0].type_name(), "workflow.restarted", "{name} from {path}");
            assert_eq!(published[0].fields().get("from_path").and_then(Value::as_str), Some(&*path));
            // The same request again gives the same run; another path gives another run.
            let calls = shop.calls().len();
            ended(engine.restart("old", restart).await).await;
            assert_eq!(shop.calls().len(), calls, "{name} from {path}: the same id twice is one run");
        }
        let keys: BTreeSet<String> = shop.calls().into_iter().map(|call| call.key).collect();
        assert_eq!(keys.len(), shop.calls().len(), "{name}: another run has keys of its own");
        assert_eq!(store.verify().expect("readable"), Vec::<String>::new());
    }
}

/// The status of the old run, its broken inputs, and the paths that are called again.
struct RetryCase {
    name: &'static str,
    plans: Vec<Plan>,
    broken: &'static [&'static str],
    status: Status,
    again: &'static [&'static str],
    /// The path at which the new run starts.
    path: &'static str,
}

fn retry_cases() -> Vec<RetryCase> {
    let hundred = r#"{"actions": {
        "all": {"type": "foreach", "foreach": "@range(0, 100)", "actions": {
            "one": {"type": "activity", "inputs": {"activityName": "count", "input": "@item()"}, "retry": {"type": "none"}}}},
        "sum": {"type": "activity", "inputs": {"activityName": "count", "input": "@outputs('all')"}, "runAfter": {"all": ["Succeeded", "Failed"]}}},
        "outputs": {"sum": "@length(outputs('sum').saw)"}}"#;
    let line = r#"{"actions": {
        "a": {"type": "activity", "inputs": {"activityName": "count", "input": "a"}, "retry": {"type": "none"}},
        "b": {"type": "activity", "inputs": {"activityName": "count", "input": "b"}, "retry": {"type": "none"}, "runAfter": {"a": ["Succeeded"]}},
        "c": {"type": "activity", "inputs": {"activityName": "count", "input": "@outputs('b').saw"}, "retry": {"type": "none"}, "runAfter": {"b": ["Succeeded"]}}}}"#;
    let nested = r#"{"actions": {
        "rows": {"type": "foreach", "foreach": "@range(0, 4)", "actions": {
            "cells": {"type": "foreach", "foreach": "@range(0, 4)", "actions": {
                "one": {"type": "activity", "inputs": {"activityName": "count", "input": ["@items('rows')", "@items('cells')"]}, "retry": {"type": "none"}}}}}}},
        "outputs": {"rows": "@length(outputs('rows'))"}}"#;
    let parallel = r#"{"actions": {
        "both": {"type": "parallel", "actions": {
            "left": {"type": "scope", "actions": {
                "l1": {"type": "activity", "inputs": {"activityName": "count", "input": "l1"}, "retry": {"type": "none"}},
                "l2": {"type": "activity", "inputs": {"activityName": "count", "input": "l2"}, "retry": {"type": "none"}, "runAfter": {"l1": ["Succeeded"]}}}},
            "right": {"type": "activity", "inputs": {"activityName": "count", "input": "r"}, "retry": {"type": "none"}}}}}}"#;
    let child = steps("child").effect("work", "count", r#""@triggerBody().n""#).plan();
    let parent = steps("parent")
        .call("first", "child", r#"{"n": 1}"#)
        .call("second", "child", r#"{"n": 2}"#)
        .call("third", "child", r#"{"n": 3}"#)
        .plan();
    let below =
        steps("below").effect("one", "count", "1").effect("two", "count", "[7]").effect("three", "count", "3").plan();
    let between = steps("between").effect("first", "count", "4").call("inner", "below", "{}").plan();
    let above = steps("above").call("call", "between", "{}").effect("last", "count", "5").plan();
    vec![
        RetryCase {
            name: "three of a hundred",
            plans: vec![loom(hundred)],
            broken: &["17", "50", "83"],
            status: Status::Succeeded,
            again: &["all[17].one", "all[50].one", "all[83].one", "sum"],
            path: "all[17].one",
        },
        RetryCase {
            name: "the end of a line",
            plans: vec![loom(line)],
            broken: &[r#""b""#],
            status: Status::Failed,
            again: &["b", "c"],
            path: "b",
        },
        RetryCase {
            name: "a cell of a table",
            plans: vec![loom(nested)],
            broken: &["[1,2]", "[3,0]"],
            status: Status::Failed,
            again: &["rows[1].cells[2].one", "rows[3].cells[0].one"],
            path: "rows[3].cells[0].one",
        },
        RetryCase {
            name: "one of two branches",
            plans: vec![loom(parallel)],
            broken: &[r#""l2""#],
            status: Status::Failed,
            again: &["both.left.l2"],
            path: "both.left.l2",
        },
        RetryCase {
            name: "a task of a pipeline",
            plans: vec![steps("stages").pipeline("work", &[("a", "count", "1"), ("b", "count", "2")]).plan()],
            broken: &["2"],
            status: Status::Failed,
            again: &["work.b"],
            path: "work",
        },
        RetryCase {
            name: "a part of a child run of a child run",
            plans: vec![above, between, below],
            broken: &["[7]"],
            status: Status::Failed,
            again: &["two", "three", "last"],
            path: "call",
        },
        RetryCase {
            name: "a child run",
            plans: vec![parent, child],
            broken: &["2"],
            status: Status::Failed,
            again: &["work", "work"],
            path: "second",
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_calls_only_failed_tasks_and_those_that_depend_on_them() {
    for RetryCase { name, plans, broken, status, again, path } in retry_cases() {
        let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
        let engine = shop.engine(&store);
        shop.breaks(broken);
        let old = shop.old_run(&engine, &plans).await;
        let calls = shop.calls().len();
        assert_eq!(old.status, status, "{name}: {:?}", old.error);
        shop.breaks(&[]);
        let new = ended(engine.retry_failed("old", Some("new".to_owned())).await).await;
        assert_eq!(new.status, Status::Succeeded, "{name}: {:?}", new.error);
        let mut called: Vec<String> = shop.calls()[calls..].iter().map(|call| call.path.clone()).collect();
        called.sort();
        let mut again: Vec<&str> = again.to_vec();
        again.sort_unstable();
        assert_eq!(called, again, "{name}");
        assert_eq!(origin(&store, "new"), ("old".to_owned(), path.to_owned(), true), "{name}");
        // The end is that of a run in which nothing was ever broken.
        let (other, whole) = (Arc::new(MemoryStore::new()), Shop::default());
        let undisturbed = whole.old_run(&whole.engine(&other), &plans).await;
        assert_eq!(visible_end(&store, &new), visible_end(&other, &undisturbed), "{name}");
        let nothing = engine.retry_failed("new", None).await.err();
        assert!(matches!(nothing, Some(RuntimeError::NothingFailed(_))), "{name}: {nothing:?}");
        assert_eq!(store.verify().expect("readable"), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_fails_again_can_be_retried_again() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    shop.breaks(&["2", "5"]);
    let plan =
        loom(FOREACH.replace(r#""input": "@item()"}"#, r#""input": "@item()"}, "retry": {"type": "none"}"#).as_str());
    shop.old_run(&engine, &[plan]).await;
    shop.breaks(&["5"]);
    let second = ended(engine.retry_failed("old", Some("second".to_owned())).await).await;
    let called: BTreeSet<String> = shop.paths_of("second").into_iter().collect();
    let expected = ["all[2].one", "all[2].two", "all[5].one", "sum"].map(str::to_owned);
    assert_eq!(called, BTreeSet::from(expected));
    assert_eq!(second.status, Status::Succeeded);
    shop.breaks(&[]);
    ended(engine.retry_failed("second", Some("third".to_owned())).await).await;
    let called: BTreeSet<String> = shop.paths_of("third").into_iter().collect();
    assert_eq!(called, BTreeSet::from(["all[5].one", "all[5].two", "sum"].map(str::to_owned)));
    assert_eq!(origin(&store, "third").0, "second");
}

/// A failure that no tool has reported: the step failed in spite of the results inside it, so they are not reused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_failed_without_a_tool_error_is_repeated_completely() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    let plan = loom(
        r#"{"actions": {
            "get": {"type": "activity", "inputs": {"activityName": "count", "input": 1}},
            "poll": {"type": "until", "condition": "@equals(outputs('ask').saw, 'done')", "limit": {"count": 3}, "runAfter": {"get": ["Succeeded"]}, "actions": {
                "ask": {"type": "activity", "inputs": {"activityName": "count", "input": "pending"}}}}}}"#,
    );
    assert_eq!(shop.old_run(&engine, &[plan]).await.status, Status::Failed);
    ended(engine.retry_failed("old", Some("new".to_owned())).await).await;
    assert_eq!(shop.paths_of("new"), ["poll[0].ask", "poll[1].ask", "poll[2].ask"], "a poll asks again");
    assert_eq!(origin(&store, "new").1, "poll");
}

/// The run's own outputs could not be computed: nothing is called again for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_failed_in_its_last_expression_computes_it_again() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    let plan = steps("end").effect("only", "count", "\"x\"").gives(&[("number", "@int(outputs('only').saw)")]);
    let old = shop.old_run(&engine, &[plan]).await;
    assert_eq!(old.status, Status::Failed);
    let new = ended(engine.retry_failed("old", Some("new".to_owned())).await).await;
    assert_eq!((new.status, shop.paths_of("new")), (Status::Failed, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_a_later_retry_repaired_is_no_failure() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    let plan = loom(
        r#"{"actions": {
            "call": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 1}}, "retry": {"type": "fixed", "count": 2, "interval": "PT1M"}},
            "bad": {"type": "activity", "inputs": {"activityName": "count", "input": "bad"}, "retry": {"type": "none"}, "runAfter": {"call": ["Succeeded"]}}}}"#,
    );
    shop.breaks(&[r#""bad""#]);
    shop.old_run(&engine, &[plan]).await;
    shop.breaks(&[]);
    ended(engine.retry_failed("old", Some("new".to_owned())).await).await;
    assert_eq!(origin(&store, "new").1, "bad");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_can_be_overridden_from_the_restart_point_on() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    shop.old_run(&engine, &[loom(SEQUENCE)]).await;
    let set = |name: &str, value: Value| RestartRequest { set: vec![(name.to_owned(), value)], ..from("loop[2]") };
    let named = |restart: RestartRequest| RestartRequest { id: Some("new".to_owned()), ..restart };
    let new = ended(engine.restart("old", named(set("total", Value::Int(6)))).await).await;
    assert_eq!(shop.paths_of("new"), ["loop[2].call", "last"]);
    assert_eq!(new.output.get("iterations"), Some(&Value::Int(3)));
    // The same id with another value is another run.
    let other = engine.restart("old", named(set("total", Value::Int(5)))).await.err();
    assert!(matches!(other, Some(RuntimeError::RunExists(_))), "{other:?}");
    let unknown = engine.restart("old", set("totl", Value::Int(6))).await.err().expect("no such variable").to_string();
    assert_eq!(unknown, "`loop[2]` has no variable `totl` in scope; did you mean `total`?");
    let unfit = engine.restart("old", set("total", Value::from("six"))).await.err();
    assert!(matches!(unfit, Some(RuntimeError::Input(_))), "{unfit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_restarts_are_refused_with_a_reason() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    shop.old_run(&engine, &[loom(SEQUENCE)]).await;
    let message = |error: Option<RuntimeError>| error.expect("it is refused").to_string();
    let slip = message(engine.restart("old", from("loop[2].cal")).await.err());
    assert_eq!(slip, "nothing has started at `loop[2].cal` in the run `old`; did you mean `loop[2].call`?");
    let second = RestartRequest { occurrence: Some(2), ..from("loop[2]") };
    let often = message(engine.restart("old", second).await.err());
    assert_eq!(often, "`loop[2]` has started once in the run `old`; there is no occurrence 2");
    let unknown = engine.restart("unknown", from("loop")).await.err();
    assert!(matches!(unknown, Some(RuntimeError::NoSuchRun(_))), "{unknown:?}");
    let existing = RestartRequest { id: Some("old".to_owned()), ..from("loop") };
    let existing = engine.restart("old", existing).await.err();
    assert!(matches!(existing, Some(RuntimeError::RunExists(_))), "{existing:?}");

    let (plan, _) = engine.add_plan(steps("waits").signal("wait", "go").plan()).expect("a plan");
    let open = in_time(engine.start(plan, Value::Null, support::named("open"))).await.expect("started");
    let refused = engine.retry_failed("open", None).await.err();
    assert!(matches!(refused, Some(RuntimeError::StillOpen(_))), "{refused:?}");
    // An open run can be restarted as well; it is not touched.
    let _again = in_time(engine.restart("open", from("wait"))).await.expect("restarted");
    assert_eq!(store.run("open").expect("readable").map(|row| row.status.is_final()), Some(false));
    drop(open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trimmed_part_of_the_journal_cannot_be_restarted() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let base = shop.options();
    let limits = windlass_core::Limits { max_journal_bytes: 4_000, snapshot_interval: 5, ..base.limits.clone() };
    let engine = support::engine_with(&store, windlass_runtime::EngineOptions { limits, ..base });
    let plan = loom(&SEQUENCE.replace("'total'), 8)", "'total'), 80)"));
    let old = shop.old_run(&engine, &[plan]).await;
    assert_eq!(old.status, Status::Succeeded, "{:?}", old.error);
    let error = engine.restart("old", from("loop[1]")).await.err();
    assert!(matches!(error, Some(RuntimeError::BeganBefore { tick, .. }) if tick > 0), "{error:?}");
    let late = RestartRequest { id: Some("late".to_owned()), ..from("loop[39]") };
    let late = ended(engine.restart("old", late).await).await;
    assert_eq!(visible_end(&store, &late), visible_end(&store, &old));
    assert_eq!(shop.paths_of("late"), ["loop[39].call", "last"]);
}

/// Thousands of iterations are a few ticks: the requested one is in the middle of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iteration_of_a_computing_loop_is_found_inside_its_tick() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    let plan = loom(
        r#"{"actions": {
            "init": {"type": "initializeVariable", "inputs": {"variables": [{"name": "sum", "type": "integer", "value": 0}]}},
            "loop": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 10000)", "limit": {"count": 20000}, "runAfter": {"init": ["Succeeded"]},
                "actions": {"add": {"type": "incrementVariable", "inputs": {"name": "sum", "value": 3}}}}},
            "outputs": {"sum": "@variables('sum')"}}"#,
    );
    let old = shop.old_run(&engine, &[plan]).await;
    assert_eq!(old.output.get("sum"), Some(&Value::Int(30_000)));
    for iteration in [0_i64, 1, 4_321, 9_999] {
        let set = vec![("sum".to_owned(), Value::Int(0))];
        let restart = RestartRequest { set, ..from(&format!("loop[{iteration}]")) };
        let new = ended(engine.restart("old", restart).await).await;
        assert_eq!(new.output.get("sum"), Some(&Value::Int((10_000 - iteration) * 3)), "iteration {iteration}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_of_a_cancelled_run_continues_where_it_was_cancelled() {
    let (store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
    let engine = shop.engine(&store);
    let plan = steps("cut").effect("first", "count", "1").signal("wait", "go").effect("last", "count", "2").plan();
    let (plan, _) = engine.add_plan(plan).expect("a plan");
    let mut old = in_time(engine.start(plan, Value::Null, support::named("old"))).await.expect("started");
    support::until(|| begun(&store, "old").contains("wait")).await;
    engine.request("old", "c", windlass_runtime::RunRequest::Cancel { reason: "enough".to_owned() }).expect("asked");
    in_time(old.wait()).await.expect("an end");
    assert_eq!(store.run("old").expect("readable").map(|row| row.status), Some(RunStatus::Cancelled));
    let mut new = in_time(engine.retry_failed("old", Some("new".to_owned()))).await.expect("retried");
    let go = windlass_runtime::RunRequest::Signal { name: "go".to_owned(), payload: Value::Null };
    engine.request("new", "g", go).expect("asked");
    assert_eq!(in_time(new.wait()).await.expect("an end").status, Status::Succeeded);
    assert_eq!(shop.paths_of("new"), ["last"]);
    assert_eq!(origin(&store, "new").1, "wait");
}

/// One life of a process that creates the new run, or resumes it.
async fn life(store: &Arc<MemoryStore>, shop: &Shop, make: &ForkKind) -> Result<String, RuntimeError> {
    let engine = shop.engine(store);
    let id = Some("new".to_owned());
    let made = match make {
        ForkKind::Retry => in_time(engine.retry_failed("old", id)).await,
        ForkKind::Restart(path) => in_time(engine.restart("old", RestartRequest { id, ..from(path) })).await,
    };
    let report = in_time(made?.wait()).await?;
    Ok(visible_end(store, &report))
}

enum ForkKind {
    Retry,
    Restart(&'static str),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_run_survives_a_crash_at_every_commit() {
    let foreach = FOREACH.replace(r#""input": "@item()"}"#, r#""input": "@item()"}, "retry": {"type": "none"}"#);
    let cases = [
        ("a retry", ForkKind::Retry, foreach.as_str(), &["2", "5"][..]),
        ("a restart", ForkKind::Restart("loop[2].call"), SEQUENCE, &[]),
        ("a restart of concurrent iterations", ForkKind::Restart("all[3]"), foreach.as_str(), &[]),
    ];
    for (name, make, text, broken) in cases {
        let mut expected = None;
        let mut crashes = 0;
        for (after, at) in (1..).flat_map(|at| [(false, at), (true, at)]) {
            let (mut store, shop) = (Arc::new(MemoryStore::new()), Shop::default());
            let engine = shop.engine(&store);
            shop.breaks(broken);
            shop.old_run(&engine, &[loom(text)]).await;
            in_time(engine.close()).await;
            drop(engine);
            shop.breaks(&[]);
            let calls = shop.calls().len();
            if expected.is_some() {
                match after {
                    true => store.crash_after_sync(at),
                    false => store.crash_before_sync(at),
                }
            }
            let mut ended = life(&store, &shop, &make).await;
            let crashed = store.run("old").is_err();
            if crashed {
                crashes += 1;
                store = Arc::new(store.crash());
                ended = life(&store, &shop, &make).await;
            }
            let ended = ended.unwrap_or_else(|error| panic!("{name}, crash {at}: {error}"));
            assert_eq!(&ended, expected.get_or_insert(ended.clone()), "{name}, crash {at}");
            // Earlier or reused work is never called; all else at most once in each life.
            let mut times = std::collections::BTreeMap::<String, usize>::new();
            shop.calls()[calls..].iter().for_each(|call| *times.entry(call.path.clone()).or_default() += 1);
            assert!(times.values().all(|times| *times <= 2), "{name}, crash {at}: {times:?}");
            if matches!(make, ForkKind::Retry) {
                let called: BTreeSet<&str> = times.keys().map(|path| &**path).collect();
                let expected_paths = ["all[2].one", "all[2].two", "all[5].one", "all[5].two", "sum"];
                assert_eq!(called, BTreeSet::from(expected_paths), "{name}, crash {at}");
            }
            assert_eq!(store.verify().expect("readable"), Vec::<String>::new());
            if !crashed && (at, after) != (1, false) {
                break;
            }
        }
        assert!(crashes > 4, "{name}: {crashes} crashes");
    }
}
