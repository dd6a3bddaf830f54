//! Every run is crashed at every commit, before and after its sync, and once more while it recovers: the end, the
//! events, the iterations and the effects' keys are those of an undisturbed run.

use crate::support;

use std::collections::BTreeSet;
use std::sync::Arc;

use support::audit::{Audit, audit};
use support::plans::{pipelined, steps};
use support::{World, engine_with, in_time, limits, loom, named, options};
use windlass_core::plan::{Amount, Budget, CALLS, NodeKind, Plan};
use windlass_runtime::{RunStartOptions, RuntimeEngine, RuntimeError};
use windlass_store::{MemoryStore, StoreRead};
use windlass_value::Value;

const RUN: &str = "the-run";

/// With fewer commits than this, each recovery is crashed too.
const COMMITS_FOR_TWO_CRASHES: u64 = 16;

#[derive(Clone, Copy, Debug)]
enum Side {
    BeforeSync,
    AfterSync,
}

fn plan_crash(store: &MemoryStore, side: Side, at: u64) {
    match side {
        Side::BeforeSync => store.crash_before_sync(at),
        Side::AfterSync => store.crash_after_sync(at),
    }
}

struct Case {
    plans: Vec<Plan>,
    virtual_time: bool,
}

impl Case {
    fn new(plan: Plan) -> Case {
        Case { plans: vec![plan], virtual_time: false }
    }

    fn in_virtual_time(plan: Plan) -> Case {
        Case { virtual_time: true, ..Case::new(plan) }
    }

    /// One life of the process: starts the run, or resumes it, and ends with the store.
    async fn live(&self, store: &Arc<MemoryStore>, world: &World, commit_here: bool) -> Life {
        let engine = engine_with(store, windlass_runtime::EngineOptions { commit_here, ..options(world) });
        let mut acknowledged = false;
        let ended = self.go(&engine, &mut acknowledged).await;
        Life { acknowledged, ended: ended.is_ok() }
    }

    async fn go(&self, engine: &RuntimeEngine, acknowledged: &mut bool) -> Result<(), RuntimeError> {
        let mut hash = None;
        for plan in self.plans.iter().rev() {
            hash = Some(engine.add_plan(plan.clone())?.0);
        }
        let options = RunStartOptions { virtual_time: self.virtual_time, ..named(RUN) };
        let mut handle = in_time(engine.start(hash.expect("a plan"), Value::Null, options)).await?;
        *acknowledged = true;
        in_time(handle.wait()).await.map(drop)
    }

    async fn undisturbed(&self) -> (Audit, World, u64) {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let life = self.live(&store, &world, false).await;
        assert!(life.ended, "the run ends");
        let repeated: Vec<_> = world.keys().into_values().filter(|calls| calls.len() > 1).collect();
        assert!(repeated.is_empty(), "an undisturbed run repeats no effect: {repeated:?}");
        (audit(&store, RUN), world, store.syncs())
    }
}

struct Life {
    /// The start was acknowledged: it must not be lost.
    acknowledged: bool,
    ended: bool,
}

/// Crashes a process at each of the given points, then runs one to the end, and compares. Returns false if the last
/// point was never reached.
async fn survives(case: &Case, expected: &Audit, keys: &BTreeSet<Arc<str>>, points: &[(Side, u64)]) -> bool {
    let world = World::new();
    let mut store = Arc::new(MemoryStore::new());
    let mut acknowledged = false;
    for (side, at) in points {
        plan_crash(&store, *side, *at);
        let life = case.live(&store, &world, at % 2 == 0).await;
        acknowledged |= life.acknowledged;
        let reached = store.run(RUN).is_err();
        store = Arc::new(store.crash());
        let kept = store.run(RUN).expect("a store that came up again").is_some();
        assert!(kept || !acknowledged, "{points:?}: a start that was answered is lost");
        if !reached {
            assert!(life.ended, "{points:?}: it failed without a crash");
            assert_eq!(&audit(&store, RUN), expected, "{points:?}");
            return false;
        }
    }
    assert!(case.live(&store, &world, false).await.ended, "{points:?}: it does not come to its end");
    assert_eq!(&audit(&store, RUN), expected, "{points:?}");
    let calls = world.keys();
    assert_eq!(&calls.keys().cloned().collect::<BTreeSet<_>>(), keys, "{points:?}: the same effects");
    for (key, calls) in calls {
        assert!(calls.iter().all(|call| call.input == calls[0].input), "{points:?}: {key} with two inputs: {calls:?}");
        assert!(calls.len() <= points.len() + 1, "{points:?}: {key} more often than there were lives: {calls:?}");
    }
    true
}

async fn crash_everywhere(case: Case) {
    let (expected, world, commits) = case.undisturbed().await;
    let keys: BTreeSet<Arc<str>> = world.keys().into_keys().collect();
    let mut crashes = 0;
    for side in [Side::BeforeSync, Side::AfterSync] {
        for first in 1.. {
            if !survives(&case, &expected, &keys, &[(side, first)]).await {
                break;
            }
            crashes += 1;
            if commits > COMMITS_FOR_TWO_CRASHES {
                continue;
            }
            for second in 1.. {
                let again = if second % 2 == 0 { Side::BeforeSync } else { Side::AfterSync };
                if !survives(&case, &expected, &keys, &[(side, first), (again, second)]).await {
                    break;
                }
            }
        }
    }
    // Parallel results may share commits, so the number is not exact; most of the commits must have been crashed.
    assert!(crashes > 2 && crashes + 4 >= commits, "{crashes} crashes for {commits} commits on each of two sides");
}

macro_rules! crash_tests {
    ($($name:ident: $case:expr;)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            crash_everywhere($case).await;
        })+
    };
}

crash_tests! {
    until_with_an_effect_and_a_variable: Case::new(loom(UNTIL));
    while_with_an_effect: Case::new(loom(WHILE));
    do_until_with_a_delay: Case::in_virtual_time(loom(DO_UNTIL));
    foreach_with_a_cap: Case::new(loom(FOREACH));
    loops_in_loops: Case::new(loom(NESTED));
    retry_with_backoff: Case::in_virtual_time(loom(RETRY));
    handlers_of_failures: Case::new(loom(HANDLERS));
    terminate: Case::new(loom(TERMINATE));
    parallel_branches: Case::new(loom(PARALLEL));
    large_values: Case::new(loom(LARGE));
    operations_of_several_calls: Case::in_virtual_time(slow());
    a_net_of_pipelines_with_a_loop_among_their_tasks: Case::in_virtual_time(pipelined());
    loops_with_budgets: Case::in_virtual_time(budgeted());
    child_runs: Case { plans: vec![parent(), child()], virtual_time: false };
}

/// An operation that is polled three times before it is finished.
fn slow() -> Plan {
    let slow = steps("slow").effect("wait", "slow", r#"{"left": 3}"#).effect("after", "count", r#""@outputs('wait')""#);
    slow.gives(&[("saw", "@outputs('after').saw"), ("began", "@actions('wait').inputs")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_inside_a_pipeline_runs_once_per_pass() {
    let (audit, world, _) = Case::in_virtual_time(pipelined()).undisturbed().await;
    let calls = |path: &str| world.ledger().iter().filter(|call| &*call.path == path).count();
    assert_eq!((calls("fetch.each[1].get"), calls("fetch.sink"), calls("after.done")), (2, 4, 1));
    let entry = |letter: &str| format!(r#""{letter}",1"#);
    let once = ["a", "b", "c"].map(entry).join(",");
    let saw = format!(r#""output":{{"saw":["loop.done",[{once},{once}]]"#);
    assert!(audit.report.contains(&saw), "{}", audit.report);
}

/// Seven calls, including failing attempts. The inner loop's budget (3 calls) ends the inner loop in the first outer
/// iteration; the outer loop's budget (7 calls) then ends both loops.
fn budgeted() -> Plan {
    let text = r#"{"actions": {
        "outer": {"type": "until", "condition": "false", "actions": {
            "inner": {"type": "until", "condition": "false", "limit": {"count": 5}, "actions": {
                "call": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 1}},
                    "retry": {"type": "fixed", "count": 2, "interval": "PT1M"}}}},
            "after": {"type": "activity", "inputs": {"activityName": "count", "input": "@variables('loopIndex')"}, "runAfter": {"inner": ["Failed"]}}}}}}"#;
    let mut plan = loom(text);
    for (name, max_calls) in [("outer", 7), ("inner", 3)] {
        let node = plan.nodes.iter_mut().find(|node| &*node.name == name).expect("a loop");
        let NodeKind::Loop(looping) = &mut node.kind else { panic!("{name} is no loop") };
        looping.limits.budget.push(Budget { what: CALLS.into(), max: Amount::Fixed(max_calls) });
    }
    plan
}

/// Two calls of one child; their results reach the parent.
fn parent() -> Plan {
    let calls = steps("parent").call("first", "child", r#"{"n": 1}"#).call("second", "child", r#"{"n": 2}"#);
    calls.gives(&[("first", "@outputs('first')"), ("second", "@outputs('second')")])
}

fn child() -> Plan {
    let effect = steps("child").effect("work", "count", r#""@triggerBody().n""#);
    effect.gives(&[("saw", "@outputs('work').saw")])
}

const UNTIL: &str = r#"{"actions": {
    "init": {"type": "initializeVariable", "inputs": {"variables": [{"name": "total", "type": "integer", "value": 0}]}},
    "loop": {"type": "until", "condition": "@greaterOrEquals(variables('total'), 8)", "runAfter": {"init": ["Succeeded"]},
        "actions": {
            "call": {"type": "activity", "inputs": {"activityName": "count", "input": {"iteration": "@variables('loopIndex')", "total": "@variables('total')"}}},
            "add": {"type": "incrementVariable", "inputs": {"name": "total", "value": 2}, "runAfter": {"call": ["Succeeded"]}}}}},
    "outputs": {"total": "@variables('total')", "iterations": "@outputs('loop').iterations", "last": "@outputs('loop').lastResult"}}"#;

const WHILE: &str = r#"{"actions": {
    "init": {"type": "initializeVariable", "inputs": {"variables": [{"name": "left", "type": "integer", "value": 3}]}},
    "loop": {"type": "while", "condition": "@greater(variables('left'), 0)", "runAfter": {"init": ["Succeeded"]},
        "actions": {
            "less": {"type": "decrementVariable", "inputs": {"name": "left"}},
            "call": {"type": "activity", "inputs": {"activityName": "count", "input": "@variables('left')"}, "runAfter": {"less": ["Succeeded"]}}}}},
    "outputs": {"left": "@variables('left')"}}"#;

const DO_UNTIL: &str = r#"{"actions": {
    "poll": {"type": "doUntil", "condition": "@equals(outputs('ask').saw, 3)", "delay": {"interval": {"count": 10, "unit": "minute"}},
        "actions": {"ask": {"type": "activity", "inputs": {"activityName": "count", "input": "@variables('loopIndex')"}}}}},
    "outputs": {"iterations": "@outputs('poll').iterations"}}"#;

const FOREACH: &str = r#"{"actions": {
    "all": {"type": "foreach", "foreach": "@range(0, 7)", "runtimeConfiguration": {"concurrency": {"repetitions": 3}},
        "actions": {
            "one": {"type": "activity", "inputs": {"activityName": "count", "input": "@item()"}},
            "two": {"type": "activity", "inputs": {"activityName": "count", "input": "@outputs('one')"}, "runAfter": {"one": ["Succeeded"]}}}}},
    "outputs": {"all": "@outputs('all')"}}"#;

const NESTED: &str = r#"{"actions": {
    "outer": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 2)", "actions": {
        "inner": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 2)", "actions": {
            "call": {"type": "activity", "inputs": {"activityName": "count",
                "input": ["@variables('outer_loopIndex')", "@variables('inner_loopIndex')"]}}}},
        "each": {"type": "foreach", "foreach": ["a", "b"], "runAfter": {"inner": ["Succeeded"]}, "actions": {
            "note": {"type": "compose", "inputs": "@item()"}}}}}},
    "outputs": {"outer": "@outputs('outer').iterations"}}"#;

const RETRY: &str = r#"{"actions": {
    "call": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 2}},
        "retry": {"type": "exponential", "count": 4, "interval": "PT10M"}},
    "block": {"type": "scope", "runAfter": {"call": ["Succeeded"]}, "retry": {"type": "fixed", "count": 2, "interval": "PT1H"}, "actions": {
        "good": {"type": "activity", "inputs": {"activityName": "count", "input": "again each time"}},
        "bad": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 9}}, "runAfter": {"good": ["Succeeded"]}}}},
    "after": {"type": "compose", "inputs": "@outputs('call')", "runAfter": {"block": ["Failed"]}}},
    "outputs": {"tries": "@outputs('after')"}}"#;

const HANDLERS: &str = r#"{"actions": {
    "try": {"type": "scope", "actions": {
        "ok": {"type": "activity", "inputs": {"activityName": "count", "input": 1}},
        "bad": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 9}}, "runAfter": {"ok": ["Succeeded"]}},
        "unreached": {"type": "activity", "inputs": {"activityName": "count", "input": 2}, "runAfter": {"bad": ["Succeeded"]}}}},
    "catch": {"type": "activity", "inputs": {"activityName": "count", "input": "caught"}, "runAfter": {"try": ["Failed"]}},
    "choose": {"type": "if", "expression": "@equals(outputs('catch').saw, 'caught')", "runAfter": {"catch": ["Succeeded"]},
        "actions": {"yes": {"type": "activity", "inputs": {"activityName": "count", "input": "yes"}}},
        "else": {"actions": {"no": {"type": "activity", "inputs": {"activityName": "count", "input": "no"}}}}},
    "finally": {"type": "activity", "inputs": {"activityName": "count", "input": "finally"}, "runAfter": {"choose": ["Succeeded", "Failed"]}}},
    "outputs": {"caught": "@outputs('catch').saw"}}"#;

const TERMINATE: &str = r#"{"actions": {
    "one": {"type": "activity", "inputs": {"activityName": "count", "input": 1}},
    "stop": {"type": "terminate", "inputs": {"runStatus": "Failed", "runError": {"code": "Enough", "message": "after @{outputs('one').saw}"}}, "runAfter": {"one": ["Succeeded"]}},
    "never": {"type": "activity", "inputs": {"activityName": "count", "input": 2}, "runAfter": {"stop": ["Succeeded"]}}}}"#;

const PARALLEL: &str = r#"{"actions": {
    "both": {"type": "parallel", "actions": {
        "left": {"type": "scope", "actions": {
            "l1": {"type": "activity", "inputs": {"activityName": "count", "input": "l1"}},
            "l2": {"type": "activity", "inputs": {"activityName": "count", "input": "l2"}, "runAfter": {"l1": ["Succeeded"]}}}},
        "right": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": 0}}}}},
    "join": {"type": "activity", "inputs": {"activityName": "count", "input": ["@outputs('l2')", "@outputs('right')"]}, "runAfter": {"both": ["Succeeded"]}}},
    "outputs": {"join": "@outputs('join')"}}"#;

const LARGE: &str = r#"{"actions": {
    "make": {"type": "activity", "inputs": {"activityName": "big", "input": 100000}},
    "use": {"type": "activity", "inputs": {"activityName": "count", "input": {"size": "@length(outputs('make'))", "whole": "@outputs('make')"}}, "runAfter": {"make": ["Succeeded"]}},
    "again": {"type": "activity", "inputs": {"activityName": "count", "input": "@length(outputs('use').saw.whole)"}, "runAfter": {"use": ["Succeeded"]}}},
    "outputs": {"size": "@outputs('again').saw"}}"#;

/// One iteration with one effect is one commit; start and end cost a little more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iteration_with_an_effect_is_one_commit() {
    const ITERATIONS: u64 = 200;
    let case = Case::new(loom(&format!(
        r#"{{"type": "until", "name": "loop", "condition": "@greaterOrEquals(variables('loopIndex'), {ITERATIONS})", "limit": {{"count": 1000}},
            "actions": {{"call": {{"type": "activity", "inputs": {{"activityName": "count", "input": "@variables('loopIndex')"}}}}}}}}"#
    )));
    let (audit, world, syncs) = case.undisturbed().await;
    assert_eq!(world.ledger().len() as u64, ITERATIONS);
    assert_eq!(audit.iterations["loop"].len() as u64, ITERATIONS);
    assert!(syncs <= ITERATIONS + 3, "{syncs} syncs for {ITERATIONS} iterations");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computing_needs_no_commits_of_its_own() {
    const ITERATIONS: u64 = 100_000;
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let case = Case::new(loom(&format!(
        r#"{{"type": "until", "name": "loop", "condition": "@greaterOrEquals(variables('loopIndex'), {ITERATIONS})",
            "limit": {{"count": {ITERATIONS}1}}, "actions": {{"note": {{"type": "compose", "inputs": "@variables('loopIndex')"}}}}}}"#
    )));
    let begun = std::time::Instant::now();
    assert!(case.live(&store, &world, false).await.ended);
    let row = store.run(RUN).expect("readable").expect("there");
    assert_eq!(row.ticks, ITERATIONS / limits().slice_iterations, "one tick for each slice");
    // A commit is due at most every 50 ms, so that events are seen; no more are made.
    let owed = begun.elapsed().as_millis() as u64 / 50;
    assert!(store.syncs() <= owed + 4, "{} syncs, {owed} owed", store.syncs());
    support::audit::assert_replays(&*store, RUN);
}
