//! Loom's loop tests (L1 to L16), with the corrections of the design: a limit that is reached fails the loop, and a
//! doUntil runs its body once, not twice. A new case is a new row.

use crate::support;

use std::sync::Arc;

use support::audit::entries;
use support::{World, engine, in_time, in_virtual_time, json, loom};
use windlass_store::MemoryStore;
use windlass_value::Value;

struct Case {
    name: &'static str,
    action: &'static str,
    /// A part of the step: these fields must exist with these values.
    step: &'static str,
    /// The minimum time that must have passed.
    lasts_ms: u64,
}

const CASES: &[Case] = &[
    Case {
        name: "L1 loops until its condition is true",
        action: r#"{"type": "Until", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 4)", "limit": {"count": 10},
            "actions": {"work": {"type": "Compose", "inputs": "@variables('loopIndex')"}}}}"#,
        step: r#"{"status": "succeeded", "loop": {"iterations": 4, "reason": "condition"}, "output": {"status": "completed", "iterations": 4,
            "conditionMet": true, "results": [{"work": 0}, {"work": 1}, {"work": 2}, {"work": 3}]}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L2 runs out of time",
        action: r#"{"type": "Until", "inputs": {"condition": "false", "limit": {"count": 1000, "timeout": "PT1S"},
            "delay": {"interval": {"count": 1, "unit": "second"}}, "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"status": "failed", "error": {"code": "LoopTimeout"}, "output": {"status": "timeout", "conditionMet": false}}"#,
        lasts_ms: 1_000,
    },
    Case {
        name: "L3 runs out of iterations",
        action: r#"{"type": "Until", "inputs": {"condition": "false", "limit": {"count": 3}, "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"status": "failed", "error": {"code": "LoopCountExceeded"}, "output": {"status": "max-iterations", "iterations": 3,
            "results": [{"work": 1}, {"work": 1}, {"work": 1}]}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L4 gives its iterations their variables",
        action: r#"{"type": "Until", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 2)", "actions": {
            "work": {"type": "Compose", "inputs": {"index": "@variables('loopIndex')", "count": "@variables('loopCount')"}}}}}"#,
        step: r#"{"output": {"results": [{"work": {"index": 0, "count": 1}}, {"work": {"index": 1, "count": 2}}]}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L5 loops while its condition is true",
        action: r#"{"type": "While", "inputs": {"condition": "@less(variables('loopIndex'), 3)", "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"status": "succeeded", "output": {"status": "completed", "iterations": 3, "results": [{"work": 1}, {"work": 1}, {"work": 1}]}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L6 runs once before it checks its condition",
        action: r#"{"type": "DoUntil", "inputs": {"condition": "true", "actions": {"firstRun": {"type": "Compose", "inputs": "executed"}}}}"#,
        step: r#"{"status": "succeeded", "output": {"iterations": 1, "results": [{"firstRun": "executed"}]}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L7 continues after the first iteration",
        action: r#"{"type": "DoUntil", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 3)", "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"output": {"iterations": 3}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L8 retries nothing that succeeds",
        action: r#"{"type": "Retry", "inputs": {"action": {"type": "Compose", "inputs": "done"}, "retryPolicy": {"type": "fixed", "count": 3, "interval": "PT1S"}}}"#,
        step: r#"{"output": {"status": "success", "attempts": 1, "result": "done"}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L9 has a retry policy by default",
        action: r#"{"type": "Retry", "inputs": {"action": {"type": "Compose", "inputs": "done"}}}"#,
        step: r#"{"output": {"status": "success", "attempts": 1}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L10 nests, and the inner loop starts afresh",
        action: r#"{"type": "Until", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 2)", "actions": {
            "inner": {"type": "Until", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 2)", "actions": {"work": {"type": "Compose", "inputs": 1}}}}}}}"#,
        step: r#"{"output": {"iterations": 2, "status": "completed", "results": [
            {"inner": {"iterations": 2, "status": "completed"}}, {"inner": {"iterations": 2, "status": "completed"}}]}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L11 waits between iterations",
        action: r#"{"type": "Until", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 2)", "delay": {"interval": {"count": 1, "unit": "second"}},
            "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"output": {"iterations": 2}}"#,
        lasts_ms: 1_000,
    },
    Case {
        name: "L12 understands not",
        action: r#"{"type": "Until", "inputs": {"condition": "@not(less(variables('loopIndex'), 2))", "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"output": {"iterations": 2}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L13 understands equals, also with an inner @",
        action: r#"{"type": "Until", "inputs": {"condition": "@equals(@variables('loopIndex'), 3)", "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"output": {"iterations": 3, "conditionMet": true}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L14 polls",
        action: r#"{"type": "Until", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 3)", "limit": {"count": 10, "timeout": "PT30S"},
            "delay": {"interval": {"count": 1, "unit": "second"}}, "actions": {"checkStatus": {"type": "Compose", "inputs": {"status": "pending"}}}}}"#,
        step: r#"{"output": {"iterations": 3}}"#,
        lasts_ms: 2_000,
    },
    Case {
        name: "L15 retries with an exponential pause",
        action: r#"{"type": "Retry", "inputs": {"action": {"type": "Compose", "inputs": {"data": "success"}},
            "retryPolicy": {"type": "exponential", "count": 5, "interval": "PT1S", "maxInterval": "PT10S"}}}"#,
        step: r#"{"output": {"status": "success", "result": {"data": "success"}}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "L16 works through a queue",
        action: r#"{"type": "Until", "inputs": {"condition": "@greaterOrEquals(variables('loopIndex'), 5)", "actions": {
            "processItem": {"type": "Compose", "inputs": {"item": "@variables('loopIndex')", "processed": true}}}}}"#,
        step: r#"{"output": {"iterations": 5, "results": [{"processItem": {"processed": true}}, {"processItem": {"item": 1}},
            {"processItem": {"item": 2}}, {"processItem": {"item": 3}}, {"processItem": {"item": 4, "processed": true}}]}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "an until whose condition holds from the start runs no iteration",
        action: r#"{"type": "until", "condition": "@equals(1, 1)", "actions": {"work": {"type": "compose", "inputs": 1}}}"#,
        step: r#"{"status": "succeeded", "output": {"iterations": 0, "conditionMet": true, "lastResult": null, "results": []}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "an until in Azure's form succeeds when a limit is reached",
        action: r#"{"type": "Until", "expression": "@equals(1, 2)", "limit": {"count": 2}, "actions": {"work": {"type": "Compose", "inputs": 1}}}"#,
        step: r#"{"status": "succeeded", "loop": {"iterations": 2, "reason": "count"}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "an until in Azure's form may fail when all iterations are used",
        action: r#"{"type": "Until", "expression": "@equals(1, 2)", "limit": {"count": 2}, "operationOptions": "FailWhenLimitsReached",
            "actions": {"work": {"type": "Compose", "inputs": 1}}}"#,
        step: r#"{"status": "failed", "error": {"code": "LoopCountExceeded"}, "loop": {"iterations": 2, "reason": "count"}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "an until in Azure's form may fail when its time is over",
        action: r#"{"type": "Until", "expression": "@equals(1, 2)", "limit": {"timeout": "PT2S"}, "operationOptions": "FailWhenLimitsReached",
            "actions": {"work": {"type": "Wait", "inputs": {"interval": "PT1S"}}}}"#,
        step: r#"{"status": "failed", "error": {"code": "LoopTimeout"}, "loop": {"iterations": 2, "reason": "timeout"}}"#,
        lasts_ms: 2_000,
    },
    Case {
        name: "a condition that holds after the last allowed iteration is met",
        action: r#"{"type": "until", "condition": "@equals(variables('loopIndex'), 2)", "limit": {"count": 2}, "actions": {"work": {"type": "compose", "inputs": 1}}}"#,
        step: r#"{"status": "succeeded", "output": {"iterations": 2, "conditionMet": true}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "a while whose condition is false from the start runs no iteration",
        action: r#"{"type": "While", "inputs": {"condition": "false", "actions": {"work": {"type": "Compose", "inputs": 1}}}}"#,
        step: r#"{"status": "succeeded", "output": {"iterations": 0, "results": []}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "a failed iteration ends a loop with a condition",
        action: r#"{"type": "until", "condition": "@equals(variables('loopIndex'), 3)", "actions": {"work": {"type": "compose", "inputs": "@div(1, variables('loopIndex'))"}}}"#,
        step: r#"{"status": "failed", "loop": {"iterations": 1, "reason": "failed"}}"#,
        lasts_ms: 0,
    },
    Case {
        name: "a retry that runs out of attempts has failed",
        action: r#"{"type": "Retry", "inputs": {"action": {"type": "Compose", "inputs": "@div(1, 0)"}, "retryPolicy": {"type": "fixed", "count": 2, "interval": "PT1S"}}}"#,
        step: r#"{"status": "failed", "output": {"status": "failed", "attempts": 3, "error": {"code": "InvalidTemplate"}}}"#,
        lasts_ms: 2_000,
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_loop_case() {
    for case in CASES {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let engine = engine(&store, &world);
        let text = format!(r#"{{"triggers": {{}}, "actions": {{"it": {}}}}}"#, case.action);
        let (hash, _) = engine.add_plan(loom(&text)).expect("a plan");
        let mut handle = engine.start(hash, Value::Null, in_virtual_time("r")).await.expect("started");
        let report = in_time(handle.wait()).await.expect("an end");
        let step = report.steps[0].1.to_value();
        assert_holds(case.name, &step, &json(case.step));
        let ticks = entries(&*store, "r");
        let lasted = ticks[ticks.len() - 1].tick.at.since(ticks[0].tick.at).as_ms();
        assert!(lasted >= case.lasts_ms && lasted < case.lasts_ms + 1_000, "{}: {lasted} ms", case.name);
    }
}

/// Checks that everything expected is present and equal; there may be more.
fn assert_holds(name: &str, found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Map(found), Value::Map(expected)) => {
            for (key, value) in expected.iter() {
                let inner = found.get(key).unwrap_or_else(|| panic!("{name}: there is no `{key}` in {found:?}"));
                assert_holds(name, inner, value);
            }
        }
        (Value::List(found), Value::List(expected)) => {
            assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
            found.iter().zip(expected.iter()).for_each(|(found, expected)| assert_holds(name, found, expected));
        }
        (found, expected) => assert_eq!(found, expected, "{name}"),
    }
}
