//! Loom's actions through the whole engine: one row per definition and its expected end.

use crate::support;

use std::sync::Arc;

use support::{World, engine, in_time, in_virtual_time, json, loom};
use windlass_core::Status;
use windlass_runtime::FinalReport;
use windlass_store::MemoryStore;
use windlass_value::to_json;

/// The definition that activities and actions of type `workflow` call here.
const CHILD: &str = r#"{"name": "child", "actions": {"say": {"type": "compose", "inputs": "@triggerBody()"}},
    "outputs": {"got": "@outputs('say')"}}"#;

async fn ended(text: &str, input: &str) -> (Arc<FinalReport>, World) {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    engine.add_plan(loom(CHILD)).expect("a plan");
    let (hash, _) = engine.add_plan(loom(text)).expect("a plan");
    let mut handle = engine.start(hash, json(input), in_virtual_time("r")).await.expect("started");
    (in_time(handle.wait()).await.expect("an end"), world)
}

/// A definition, its input, and the run's output or the code of its error.
type Row = (&'static str, &'static str, &'static str);

async fn check(rows: &[Row]) {
    for (text, input, expected) in rows {
        let (report, _) = ended(text, input).await;
        let actual = match &report.error {
            None => to_json(&report.output),
            Some(error) => format!("{} {}", report.status.as_str(), error.code),
        };
        assert_eq!(actual, *expected, "{text} {:?}", report.error);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data() {
    check(&[
        (
            r#"{"actions": {"q": {"type": "query", "inputs": {"from": "@triggerBody().all", "where": "@greater(item(), 1)"}}}, "outputs": {"o": "@body('q')"}}"#,
            r#"{"all": [1, 2, 3]}"#,
            r#"{"o":[2,3]}"#,
        ),
        (
            r#"{"actions": {"q": {"type": "select", "inputs": {"from": [1, 2], "select": {"n": "@item()"}}}}, "outputs": {"o": "@outputs('q').body[1].n"}}"#,
            "{}",
            r#"{"o":2}"#,
        ),
        (
            r#"{"actions": {"q": {"type": "parseJson", "inputs": {"content": "@triggerBody()", "schema": {"required": ["n"]}}}}, "outputs": {"o": "@body('q').n"}}"#,
            r#"{"m": 1}"#,
            "failed ValidationFailed",
        ),
        (
            r#"{"actions": {"j": {"type": "join", "inputs": {"from": [1, 2], "joinWith": "-"}}}, "outputs": {"o": "@body('j')"}}"#,
            "{}",
            r#"{"o":"1-2"}"#,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities() {
    const COMPUTED: &str = r#"{"actions": {"a": {"type": "activity", "inputs": {"activityName": "@triggerBody().name", "input": {"n": 1}}}}, "outputs": {"o": "@body('a')"}}"#;
    check(&[
        (
            r#"{"actions": {"a": {"type": "actor", "inputs": {"actorType": "count", "actorId": "x", "args": [1]}}}, "outputs": {"o": "@body('a')"}}"#,
            "{}",
            r#"{"o":{"saw":{"actorId":"x","args":[1]}}}"#,
        ),
        (COMPUTED, r#"{"name": "count"}"#, r#"{"o":{"saw":{"n":1}}}"#),
        (COMPUTED, r#"{"name": "helper"}"#, r#"{"o":{"got":{"n":1}}}"#),
        // A tool that exists but is no activity: no computed name reaches it.
        (COMPUTED, r#"{"name": "panic"}"#, "failed NoSuchTool"),
        (COMPUTED, r#"{"name": 5}"#, "failed NoSuchTool"),
        (
            r#"{"actions": {"a": {"type": "workflow", "inputs": {"name": "child"}}}, "outputs": {"o": "@body('a').got"}}"#,
            "{}",
            r#"{"o":{}}"#,
        ),
    ])
    .await;
    let flaky = r#"{"type": "activity", "name": "a", "inputs": {"activityName": "@triggerBody().name", "input": {"fail": 2}}, "retry": {"type": "fixed", "count": 2}}"#;
    let (report, world) = ended(flaky, r#"{"name": "flaky"}"#).await;
    assert_eq!((report.status, world.ledger().len()), (Status::Succeeded, 3), "{:?}", report.error);
    assert!(world.ledger().iter().all(|effect| &*effect.path == "a"), "{:?}", world.ledger());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_results() {
    const MOCKED: &str = r#"{"actions": {
        "a": {"type": "http", "uri": "https://x.test", "runtimeConfiguration": {"staticResult": {"name": "STATUS"}}},
        "ok": {"type": "compose", "inputs": "@body('a')", "runAfter": {"a": ["Succeeded"]}},
        "bad": {"type": "compose", "inputs": "@actions('a').error.code", "runAfter": {"a": ["Failed", "TimedOut", "Cancelled"]}},
        "not": {"type": "compose", "inputs": "@actions('a').status", "runAfter": {"a": ["Skipped"]}},
        "end": {"type": "compose", "inputs": 1, "runAfter": {"ok": ["Succeeded", "Skipped"], "bad": ["Succeeded", "Skipped"], "not": ["Succeeded", "Skipped"]}}},
        "outputs": {"o": "@coalesce(outputs('ok'), outputs('bad'), outputs('not'))", "out": "@outputs('a')"},
        "staticResults": {
            "Good": {"status": "Succeeded", "outputs": {"statusCode": "OK", "body": "@{no} expression"}},
            "Bad": {"status": "Failed", "outputs": {"statusCode": 500}, "error": {"code": "Boom", "message": "m"}},
            "Late": {"status": "TimedOut", "code": "Slow"},
            "Off": {"status": "Cancelled"},
            "Not": {"status": "Skipped"}}}"#;
    for (name, expected) in [
        ("Good", r#"{"o":"@{no} expression","out":{"statusCode":"OK","body":"@{no} expression"}}"#),
        ("Bad", r#"{"o":"Boom","out":{"statusCode":500}}"#),
        ("Late", r#"{"o":"Slow","out":null}"#),
        ("Off", r#"{"o":"ActionFailed","out":null}"#),
        ("Not", r#"{"o":"Skipped","out":null}"#),
    ] {
        let (report, _) = ended(&MOCKED.replace("STATUS", name), "{}").await;
        assert_eq!(to_json(&report.output), expected, "{name} {:?}", report.error);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_and_waits() {
    const END: &str = r#"{"type": "terminate", "inputs": {"runStatus": "@triggerBody()?['status']", "runError": {"code": "Mine", "message": "m"}}}"#;
    for (input, status, code) in [
        (r#"{"status": "failed"}"#, Status::Failed, "Mine"),
        (r#"{"status": "CANCELLED"}"#, Status::Cancelled, "Terminated"),
        (r#"{"status": "Succeeded"}"#, Status::Succeeded, ""),
        (r#"{"status": "tired"}"#, Status::Failed, "BadRunStatus"),
    ] {
        let (report, _) = ended(END, input).await;
        let found = report.error.as_ref().map(|error| &*error.code).unwrap_or_default();
        assert_eq!((report.status, found), (status, code), "{input}");
    }
    // Running actions are cancelled; actions that were not reached are not listed.
    const AMID: &str = r#"{"actions": {"t": {"type": "terminate", "inputs": {"runStatus": "Succeeded"}}, "w": {"type": "wait", "inputs": {"interval": "PT5S"}},
        "n": {"type": "compose", "inputs": 1, "runAfter": {"w": ["Succeeded"]}}}}"#;
    let (report, _) = ended(AMID, "{}").await;
    let steps: Vec<String> =
        report.steps.iter().map(|(path, step)| format!("{path} {}", step.status.as_str())).collect();
    assert_eq!(steps, ["t succeeded", "w cancelled"]);
    check(&[(
        r#"{"actions": {"before": {"type": "compose", "inputs": "@utcNow()"},
            "w": {"type": "wait", "inputs": {"interval": {"count": 4, "unit": "Month"}}, "runAfter": {"before": ["Succeeded"]}},
            "after": {"type": "compose", "inputs": "@equals(utcNow('yyyy-MM'), formatDateTime(addToTime(outputs('before'), 4, 'Month'), 'yyyy-MM'))", "runAfter": {"w": ["Succeeded"]}}},
            "outputs": {"o": "@outputs('after')"}}"#,
        "{}",
        r#"{"o":true}"#,
    )])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies() {
    const REPLY: &str = r#"{"actions": {
        "r": {"type": "response", "inputs": {"statusCode": "@triggerBody().code", "body": {"n": 1}}},
        "again": {"type": "response", "runAfter": {"r": ["Succeeded"]}},
        "on": {"type": "compose", "inputs": "@actions('again').error.code", "runAfter": {"again": ["Failed"]}}},
        "outputs": {"o": "@outputs('on')"}}"#;
    for (code, success) in [(200, true), (404, false)] {
        let (report, _) = ended(REPLY, &format!(r#"{{"code": {code}}}"#)).await;
        let reply = report.reply.clone().expect("an answer");
        assert_eq!(to_json(&reply.value), format!(r#"{{"statusCode":{code},"body":{{"n":1}}}}"#));
        assert_eq!((reply.success, to_json(&report.output)), (success, r#"{"o":"AlreadyReplied"}"#.to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_of_loops() {
    check(&[
        (
            r#"{"actions": {"l": {"type": "until", "condition": "false", "breakWhen": "@equals(outputs('a'), 2)", "actions": {"a": {"type": "compose", "inputs": "@variables('loopIndex')"}}}}, "outputs": {"o": "@outputs('l').iterations"}}"#,
            "{}",
            r#"{"o":3}"#,
        ),
        (
            r#"{"actions": {"l": {"type": "foreach", "foreach": [5, 6, 7], "operationOptions": "Sequential", "breakWhen": {"equals": ["@item()", 6]}, "actions": {"a": {"type": "compose", "inputs": "@item()"}}}}, "outputs": {"o": "@length(outputs('l'))"}}"#,
            "{}",
            r#"{"o":2}"#,
        ),
        (
            r#"{"type": "until", "condition": "false", "budget": {"calls": "@triggerBody().max"}, "actions": {"a": {"type": "activity", "inputs": {"activityName": "count"}}}}"#,
            r#"{"max": 3}"#,
            "failed LoopBudget",
        ),
        (
            r#"{"type": "foreach", "foreach": [1, 2, 3, 4], "operationOptions": "Sequential", "budget": {"calls": 2}, "actions": {"a": {"type": "activity", "inputs": {"activityName": "count"}}}}"#,
            "{}",
            "failed LoopBudget",
        ),
        (
            r#"{"type": "until", "condition": "false", "stall": {"watch": "@outputs('a')", "iterations": 3}, "actions": {"a": {"type": "compose", "inputs": 1}}}"#,
            "{}",
            "failed LoopStalled",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_iterations() {
    check(&[
        (
            r#"{"actions": {"l": {"type": "foreach", "foreach": [5, 6], "actions": {"a": {"type": "compose", "inputs": "@item()"}, "b": {"type": "compose", "inputs": 1}}}, "r": {"type": "select", "inputs": {"from": "@result('L')", "select": ["@item()['name']", "@length(item()['outputs'])", "@item()['outputs'][1]['outputs']"]}, "runAfter": {"l": ["Succeeded"]}}}, "outputs": {"o": "@body('r')"}}"#,
            "{}",
            r#"{"o":[["a",2,6],["b",2,1]]}"#,
        ),
        (
            r#"{"actions": {"l": {"type": "until", "condition": "@equals(variables('loopIndex'), 3)", "actions": {"a": {"type": "compose", "inputs": "@variables('loopIndex')"}}}, "r": {"type": "compose", "inputs": "@first(result('l'))", "runAfter": {"l": ["Succeeded"]}}}, "outputs": {"o": "@outputs('r').outputs"}}"#,
            "{}",
            r#"{"o":2}"#,
        ),
    ])
    .await;
}

/// Actions inside a loop that has ended: of the last iteration, or one entry for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_of_loops_that_have_ended() {
    check(&[
        (
            r#"{"actions": {"l": {"type": "Until", "expression": "@equals(variables('loopIndex'), 3)", "actions": {
                    "a": {"type": "compose", "inputs": {"body": {"n": "@variables('loopIndex')"}}}, "s": {"type": "scope", "actions": {"b": {"type": "compose", "inputs": "@variables('loopIndex')"}}}}},
                "r": {"type": "compose", "inputs": ["@body('a').n", "@outputs('A').body.n", "@actions('a').status", "@outputs('b')", "@outputs('s')"], "runAfter": {"l": ["Succeeded"]}}}, "outputs": {"o": "@outputs('r')"}}"#,
            "{}",
            r#"{"o":[2,2,"Succeeded",2,{"b":2}]}"#,
        ),
        // In the order of the items, whichever ends first; result() shows the direct children of the body.
        (
            r#"{"actions": {"l": {"type": "foreach", "foreach": [3, 1, 2], "actions": {"w": {"type": "wait", "inputs": {"interval": "@concat('PT', item(), 'S')"}},
                    "a": {"type": "compose", "inputs": {"body": "@item()"}, "runAfter": {"w": ["Succeeded"]}}, "s": {"type": "scope", "actions": {"b": {"type": "compose", "inputs": "@item()"}}}}},
                "r": {"type": "compose", "inputs": ["@body('a')", "@outputs('a')[1]", "@outputs('b')", "@actions('b')[2].outputs", "@length(result('l'))", "@length(actions('a'))"], "runAfter": {"l": ["Succeeded"]}}},
                "outputs": {"o": "@outputs('r')"}}"#,
            "{}",
            r#"{"o":[[3,1,2],{"body":1},[3,1,2],2,3,3]}"#,
        ),
        // An action that did not run was skipped: its branch was not taken, its predecessors did not match, or the
        // scope around it was skipped.
        (
            r#"{"actions": {"l": {"type": "foreach", "foreach": [1, 0], "actions": {
                    "d": {"type": "compose", "inputs": "@div(1, item())"}, "after": {"type": "compose", "inputs": 7, "runAfter": {"d": ["Succeeded"]}},
                    "i": {"type": "if", "expression": "@equals(item(), 1)", "actions": {"x": {"type": "compose", "inputs": "x"}}},
                    "s": {"type": "scope", "runAfter": {"d": ["Failed"]}, "actions": {"t": {"type": "scope", "actions": {"y": {"type": "compose", "inputs": "y"}}}}}}},
                "r": {"type": "compose", "inputs": ["@outputs('after')", "@outputs('x')", "@outputs('y')", "@actions('y')[0].status", "@actions('y')[1].status", "@actions('x')[1].status", "@actions('d')[1].code"], "runAfter": {"l": ["Failed"]}}},
                "outputs": {"o": "@outputs('r')"}}"#,
            "{}",
            r#"{"o":[[7,null],["x",null],[null,"y"],"Skipped","Succeeded","Skipped","InvalidTemplate"]}"#,
        ),
        (
            r#"{"actions": {"b": {"type": "compose", "inputs": 1}, "l": {"type": "foreach", "foreach": [1], "actions": {"a": {"type": "compose", "inputs": 1}}, "runAfter": {"b": ["Failed"]}},
                "e": {"type": "foreach", "foreach": [], "actions": {"c": {"type": "compose", "inputs": 1}}}, "n": {"type": "while", "condition": "false", "actions": {"m": {"type": "compose", "inputs": 1}}},
                "r": {"type": "compose", "inputs": ["@outputs('a')", "@actions('a').status", "@outputs('c')", "@outputs('m')"], "runAfter": {"l": ["Skipped"], "e": ["Succeeded"], "n": ["Succeeded"]}}}, "outputs": {"o": "@outputs('r')"}}"#,
            "{}",
            r#"{"o":[null,"Skipped",[],null]}"#,
        ),
        // Before the loop has ended there is nothing.
        (
            r#"{"actions": {"l": {"type": "foreach", "foreach": [1], "actions": {"a": {"type": "compose", "inputs": 1}, "w": {"type": "wait", "inputs": {"interval": "PT1S"}}}},
                "r": {"type": "compose", "inputs": "@outputs('a')"}}}"#,
            "{}",
            "failed InvalidTemplate",
        ),
        // A loop that is entered again, in another iteration or another attempt, shows its last execution.
        (
            r#"{"actions": {"l": {"type": "foreach", "foreach": [1, 2], "actions": {"m": {"type": "foreach", "foreach": "@range(0, item())", "actions": {"a": {"type": "compose", "inputs": "@item()"}}},
                    "r": {"type": "compose", "inputs": "@outputs('a')", "runAfter": {"m": ["Succeeded"]}}}}}, "outputs": {"o": "@outputs('r')"}}"#,
            "{}",
            r#"{"o":[[0],[0,1]]}"#,
        ),
        (
            r#"{"actions": {"v": {"type": "initializeVariable", "inputs": {"variables": [{"name": "n", "type": "integer", "value": 0}]}},
                "l": {"type": "foreach", "foreach": [5], "runAfter": {"v": ["Succeeded"]}, "retry": {"count": 3, "interval": "PT1S"}, "actions": {"i": {"type": "incrementVariable", "inputs": {"name": "n", "value": 1}},
                    "a": {"type": "compose", "inputs": "@div(item(), sub(variables('n'), 1))", "runAfter": {"i": ["Succeeded"]}}}},
                "r": {"type": "compose", "inputs": ["@outputs('a')", "@variables('n')"], "runAfter": {"l": ["Succeeded"]}}}, "outputs": {"o": "@outputs('r')"}}"#,
            "{}",
            r#"{"o":[[5],2]}"#,
        ),
        // Deeper than one loop: the path that the compiler reports.
        (
            r#"{"actions": {"Outer": {"type": "Until", "expression": "@equals(1, 1)", "actions": {"Block": {"type": "scope", "actions": {
                    "Inner": {"type": "Until", "expression": "@equals(1, 1)", "actions": {"x": {"type": "compose", "inputs": 4}}}, "Items": {"type": "foreach", "foreach": [6], "actions": {"y": {"type": "compose", "inputs": "@item()"}}}}}}},
                "r": {"type": "compose", "inputs": ["@outputs('Outer')?['lastResult']?['Block']?['Inner']?['lastResult']?['x']", "@outputs('Outer')?['lastResult']?['Block']?['Items']?[0]?['y']"],
                    "runAfter": {"Outer": ["Succeeded"]}}}, "outputs": {"o": "@outputs('r')"}}"#,
            "{}",
            r#"{"o":[4,6]}"#,
        ),
    ])
    .await;
}

/// The leaves decide the status: actions without successors, and in place of a skipped one its predecessors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_of_a_run() {
    const OK: &str = r#""type": "compose", "inputs": 1"#;
    const BAD: &str = r#""type": "compose", "inputs": "@div(1, 0)""#;
    const SLOW: &str = r#""type": "wait", "inputs": {"interval": "PT5S"}"#;
    for (actions, expected) in [
        (r#""a": {OK}"#, Status::Succeeded),
        (r#""a": {BAD}"#, Status::Failed),
        (r#""a": {BAD}, "b": {OK}"#, Status::Failed),
        // A handler that is the only successor handles the failure. The letter case of the status does not matter.
        (r#""a": {BAD}, "h": {OK, "runAfter": {"a": ["Failed"]}}"#, Status::Succeeded),
        (r#""a": {BAD}, "h": {OK, "runAfter": {"a": ["FAILED"]}}"#, Status::Succeeded),
        (r#""a": {BAD}, "h": {BAD, "runAfter": {"a": ["Failed"]}}"#, Status::Failed),
        (
            r#""a": {BAD}, "h": {OK, "runAfter": {"a": ["Failed"]}}, "i": {OK, "runAfter": {"h": ["Succeeded"]}}"#,
            Status::Succeeded,
        ),
        // With a skipped branch next to it, the handler does not handle the failure, unless both branches join again.
        (
            r#""a": {BAD}, "h": {OK, "runAfter": {"a": ["Failed"]}}, "n": {OK, "runAfter": {"a": ["Succeeded"]}}"#,
            Status::Failed,
        ),
        (
            r#""a": {BAD}, "h": {OK, "runAfter": {"a": ["Failed"]}}, "n": {OK, "runAfter": {"a": ["Succeeded"]}},
            "j": {OK, "runAfter": {"h": ["Succeeded", "Skipped"], "n": ["Succeeded", "Skipped"]}}"#,
            Status::Succeeded,
        ),
        (r#""a": {BAD}, "n": {OK, "runAfter": {"a": ["Succeeded"]}}"#, Status::Failed),
        (
            r#""a": {BAD}, "n": {OK, "runAfter": {"a": ["Succeeded"]}}, "m": {OK, "runAfter": {"n": ["Succeeded"]}}"#,
            Status::Failed,
        ),
        (r#""a": {OK}, "h": {OK, "runAfter": {"a": ["Failed"]}}"#, Status::Succeeded),
        (r#""a": {OK}, "b": {BAD}, "j": {OK, "runAfter": {"a": ["Succeeded"], "b": ["Succeeded"]}}"#, Status::Failed),
        // Failed comes before TimedOut; an action that its own limit has cancelled decides nothing.
        (r#""a": {SLOW, "timeout": "PT1S"}"#, Status::TimedOut),
        (r#""a": {SLOW, "timeout": "PT1S"}, "b": {BAD}"#, Status::Failed),
        (r#""a": {SLOW, "timeout": "PT1S"}, "h": {OK, "runAfter": {"a": ["TimedOut"]}}"#, Status::Succeeded),
        (r#""a": {SLOW, "timeout": "PT1S"}, "h": {OK, "runAfter": {"a": ["Failed"]}}"#, Status::TimedOut),
        (r#""a": {SLOW, "limit": {"timeout": "PT1S"}}"#, Status::Succeeded),
        (r#""a": {SLOW, "limit": {"timeout": "PT1S"}}, "b": {OK}"#, Status::Succeeded),
        (r#""a": {SLOW, "limit": {"timeout": "PT1S"}}, "b": {SLOW, "timeout": "PT1S"}"#, Status::TimedOut),
        (
            r#""a": {SLOW, "limit": {"timeout": "PT1S"}}, "h": {OK, "runAfter": {"a": ["Cancelled"]}}"#,
            Status::Succeeded,
        ),
        // The same rule for a scope, a branch, an iteration.
        (
            r#""s": {"type": "scope", "actions": {"a": {BAD}, "h": {OK, "runAfter": {"a": ["Failed"]}}}}"#,
            Status::Succeeded,
        ),
        (r#""s": {"type": "scope", "actions": {"a": {SLOW, "timeout": "PT1S"}}}"#, Status::TimedOut),
        (r#""s": {"type": "if", "expression": "@equals(1, 2)", "actions": {"a": {BAD}}}"#, Status::Succeeded),
        (
            r#""s": {"type": "foreach", "foreach": [1, 0], "actions": {"a": {"type": "compose", "inputs": "@div(1, item())"}}}"#,
            Status::Failed,
        ),
        (
            r#""t": {"type": "terminate", "inputs": {"runStatus": "Succeeded"}, "runAfter": {"a": ["Failed"]}}, "a": {BAD}"#,
            Status::Succeeded,
        ),
    ] {
        let text =
            format!(r#"{{"actions": {{{actions}}}}}"#).replace("OK", OK).replace("BAD", BAD).replace("SLOW", SLOW);
        let (report, _) = ended(&text, "{}").await;
        assert_eq!(report.status, expected, "{text} {:?}", report.error);
    }
}

/// The contents of an action's record, with the exact status and code names that definitions compare with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_actions() {
    check(&[
        (
            r#"{"actions": {"a": {"type": "compose", "inputs": "@div(1, 0)"},
                "s": {"type": "scope", "actions": {"x": {"type": "compose", "inputs": "@div(1, 0)"}, "y": {"type": "compose", "inputs": 1, "runAfter": {"x": ["Succeeded"]}}}},
                "h": {"type": "compose", "runAfter": {"a": ["Failed"], "s": ["Failed"]}, "inputs": ["@equals(actions('a').status, 'Failed')", "@actions('a').code",
                    "@actions('s').status", "@actions('s').code", "@result('s')[0].status", "@result('s')[0].code", "@result('s')[1].status", "@result('s')[1].code", "@result('s')[1].error.code"]}},
                "outputs": {"o": "@outputs('h')"}}"#,
            "{}",
            r#"{"o":[true,"InvalidTemplate","Failed","ActionFailed","Failed","InvalidTemplate","Skipped","ActionSkipped","ActionDependencyFailed"]}"#,
        ),
        // A scope that was skipped has no results.
        (
            r#"{"actions": {"a": {"type": "compose", "inputs": 1}, "s": {"type": "scope", "actions": {"x": {"type": "compose", "inputs": 1}}, "runAfter": {"a": ["Failed"]}},
                "h": {"type": "compose", "inputs": "@result('s')", "runAfter": {"s": ["Skipped"]}}}, "outputs": {"o": "@outputs('h')"}}"#,
            "{}",
            r#"{"o":[]}"#,
        ),
        // Inputs are recorded where something was called with them.
        (
            r#"{"actions": {"c": {"type": "compose", "inputs": 1}, "q": {"type": "join", "inputs": {"from": [1], "joinWith": "-"}}, "t": {"type": "activity", "inputs": {"activityName": "count", "input": 5}},
                "h": {"type": "compose", "inputs": ["@actions('c').inputs", "@actions('q').inputs", "@actions('t').inputs", "@actions('c').code"], "runAfter": {"c": ["Succeeded"], "q": ["Succeeded"], "t": ["Succeeded"]}}},
                "outputs": {"o": "@outputs('h')"}}"#,
            "{}",
            r#"{"o":[null,null,5,"OK"]}"#,
        ),
        // An action in a branch that was not taken is skipped; an action that contains others has an output.
        (
            r#"{"actions": {"i": {"type": "if", "expression": {"equals": [1, 2]}, "actions": {"x": {"type": "compose", "inputs": 1}}, "else": {"actions": {"y": {"type": "compose", "inputs": 2}}}},
                "h": {"type": "compose", "inputs": ["@actions('x').error.code", "@actions('x').code", "@outputs('i')"], "runAfter": {"i": ["Succeeded"]}}}, "outputs": {"o": "@outputs('h')"}}"#,
            "{}",
            r#"{"o":["ActionBranchingConditionNotSatisfied","ActionSkipped",{"y":2}]}"#,
        ),
        (
            r#"{"triggers": {"When_called": {"type": "Request"}}, "actions": {"c": {"type": "compose", "inputs": ["@trigger().name", "@triggerOutputs()"]}}, "outputs": {"o": "@outputs('c')"}}"#,
            r#"{"n": 1}"#,
            r#"{"o":["When_called",{"body":{"n":1}}]}"#,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_variables() {
    const CHANGE: &str = r#"{"actions": {"i": {"type": "initializeVariable", "inputs": {"variables": [{"name": "w", "type": "integer"}, {"name": "v", "type": "KIND", "value": FIRST}]}},
        "c": {"type": "TYPE", "inputs": {"name": "v", "value": VALUE}, "runAfter": {"i": ["Succeeded"]}}}, "outputs": {"o": "@variables('v')"}}"#;
    for (kind, first, change, value, expected) in [
        ("array", "[1]", "appendToArrayVariable", "null", r#"{"o":[1,null]}"#),
        ("array", "[1]", "appendToArrayVariable", "[2, 3]", r#"{"o":[1,[2,3]]}"#),
        ("array", "null", "appendToArrayVariable", "2", r#"{"o":[2]}"#),
        ("array", "[1]", "setVariable", r#""@union(variables('v'), createArray(2))""#, r#"{"o":[1,2]}"#),
        ("array", "[1]", "setVariable", r#""@null""#, r#"{"o":null}"#),
        ("string", r#""a""#, "setVariable", r#""@concat(variables('v'), 'b')""#, r#"{"o":"ab"}"#),
        ("string", r#""a""#, "setVariable", r#""@5""#, "failed VariableKind"),
        ("string", r#""a""#, "appendToStringVariable", r#""@5.0""#, r#"{"o":"a5"}"#),
        ("string", r#""a""#, "appendToStringVariable", "true", r#"{"o":"aTrue"}"#),
        ("string", r#""a""#, "appendToStringVariable", r#"{"x": 5.0}"#, r#"{"o":"a{\"x\":5.0}"}"#),
        ("string", "null", "appendToStringVariable", r#""@null""#, r#"{"o":""}"#),
        ("float", "1.5", "setVariable", "3", r#"{"o":3}"#),
        ("integer", "1", "setVariable", r#""@3.0""#, "failed VariableKind"),
        ("integer", "1", "setVariable", r#""@null""#, "failed VariableKind"),
        ("boolean", "true", "setVariable", r#""@null""#, "failed VariableKind"),
        ("integer", "1", "incrementVariable", "0.5", "failed VariableKind"),
        ("integer", "1", "incrementVariable", r#""@null""#, "failed VariableKind"),
        ("float", "1.5", "decrementVariable", "1", r#"{"o":0.5}"#),
    ] {
        let text = CHANGE.replace("KIND", kind).replace("FIRST", first).replace("TYPE", change).replace("VALUE", value);
        let (report, _) = ended(&text, "{}").await;
        let actual = match &report.error {
            None => to_json(&report.output),
            Some(error) => format!("{} {}", report.status.as_str(), error.code),
        };
        assert_eq!(actual, expected, "{change} {value} {:?}", report.error);
    }
}

/// A binary body is its text wherever a text is built, and fails where it is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_bodies_in_texts() {
    const TEXTS: &str = r#"{"actions": {
        "get": {"type": "http", "uri": "https://x.test", "runtimeConfiguration": {"staticResult": {"name": "body"}}},
        "i": {"type": "initializeVariable", "inputs": {"variables": [{"name": "log", "type": "string", "value": "got "}]}},
        "append": {"type": "appendToStringVariable", "inputs": {"name": "log", "value": "@body('get')"}, "runAfter": {"get": ["Succeeded"], "i": ["Succeeded"]}},
        "text": {"type": "compose", "inputs": ["@{body('get')}!", "@concat(body('get'), '?')", "@string(body('get'))"], "runAfter": {"get": ["Succeeded"]}},
        "rows": {"type": "table", "inputs": {"from": [1], "format": "CSV", "columns": [{"header": "h", "value": "@body('get')"}]}, "runAfter": {"get": ["Succeeded"]}},
        "list": {"type": "join", "inputs": {"from": ["@body('get')", "@body('get')"], "joinWith": "+"}, "runAfter": {"get": ["Succeeded"]}}},
        "outputs": {"o": ["@variables('log')", "@outputs('text')", "@body('rows')", "@body('list')"]},
        "staticResults": {"body": {"status": "Succeeded", "outputs": {"statusCode": 200, "body": {"$content-type": "TYPE", "$content": "BASE64"}}}}}"#;
    for (content_type, base64, expected) in [
        ("application/octet-stream", "b2s=", r#"{"o":["got ok",["ok!","ok?","ok"],"h\r\nok\r\n","ok+ok"]}"#),
        ("text/plain; charset=iso-8859-1", "5A==", r#"{"o":["got ä",["ä!","ä?","ä"],"h\r\nä\r\n","ä+ä"]}"#),
        ("image/png", "/w==", "failed InvalidTemplate"),
    ] {
        let (report, _) = ended(&TEXTS.replace("TYPE", content_type).replace("BASE64", base64), "{}").await;
        let actual = match &report.error {
            None => to_json(&report.output),
            Some(error) => format!("{} {}", report.status.as_str(), error.code),
        };
        assert_eq!(actual, expected, "{:?}", report.error);
    }
}

/// A variable is found in any letter case and shown in the declared one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variable_names_keep_their_case() {
    const NAMES: &str = r#"{"actions": {
        "write": {"type": "incrementVariable", "inputs": {"name": "TOTALCount", "value": 2}, "runAfter": {"i": ["Succeeded"]}},
        "i": {"type": "initializeVariable", "inputs": {"variables": [{"name": "totalCount", "type": "integer", "value": 1}]}},
        "read": {"type": "compose", "inputs": "@add(variables('totalcount'), variables('totalCount'))", "runAfter": {"write": ["Succeeded"]}}}}"#;
    let (report, _) = ended(NAMES, "{}").await;
    assert_eq!(
        to_json(&report.output),
        r#"{"write":{"name":"totalCount","value":3},"i":{"name":"totalCount","value":1},"read":6}"#,
        "{:?}",
        report.error
    );
    // A bare action writes a variable of the run's input, in any letter case.
    const BARE: &str = r#"{"one": {"type": "incrementVariable", "inputs": {"name": "Left", "value": 1}},
        "two": {"type": "incrementVariable", "inputs": {"name": "LEFT", "value": "@variables('left')"}, "runAfter": {"one": ["Succeeded"]}}}"#;
    let (report, _) = ended(BARE, r#"{"lefT": 5}"#).await;
    let expected = r#"{"one":{"name":"Left","value":6},"two":{"name":"Left","value":12}}"#;
    assert_eq!(to_json(&report.output), expected, "{:?}", report.error);
}

/// The duration of nested loops whose iterations take one second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_side_by_side() {
    const ITERATION: &str = r#""actions": {"w": {"type": "wait", "inputs": {"interval": "PT1S"}}}"#;
    const THREE: &str = r#""type": "foreach", "foreach": [1, 2, 3]"#;
    for (action, expected) in [
        ("{THREE, ITERATION}", "00:00:01"),
        (r#"{THREE, "operationOptions": "Sequential", ITERATION}"#, "00:00:03"),
        (r#"{THREE, "actions": {"in": {THREE, ITERATION}}}"#, "00:00:03"),
        (r#"{THREE, "actions": {"s": {"type": "scope", "actions": {"in": {THREE, ITERATION}}}}}"#, "00:00:03"),
        (
            r#"{THREE, "actions": {"in": {THREE, "runtimeConfiguration": {"concurrency": {"repetitions": 3}}, ITERATION}}}"#,
            "00:00:01",
        ),
        (r#"{"type": "until", "expression": "@true", "actions": {"in": {THREE, ITERATION}}}"#, "00:00:01"),
        (r#"{"type": "until", "expression": "@false", "limit": {"timeout": "PT0.5S"}, ITERATION}"#, "00:00:01"),
    ] {
        let action = action.replace("THREE", THREE).replace("ITERATION", ITERATION);
        let text = format!(
            r#"{{"actions": {{"l": {action}, "d": {{"type": "compose", "inputs": "@dateDifference(actions('l').startTime, actions('l').endTime)", "runAfter": {{"l": ["Succeeded"]}}}}}}, "outputs": {{"o": "@outputs('d')"}}}}"#
        );
        let (report, _) = ended(&text, "{}").await;
        assert_eq!(to_json(&report.output), format!(r#"{{"o":"{expected}"}}"#), "{text} {:?}", report.error);
    }
    check(&[
        (
            r#"{"actions": {"l": {"type": "foreach", "foreach": ["a", "b"], "actions": {"x": {"type": "compose", "inputs": "@iterationIndexes('l')"}}}}, "outputs": {"o": "@outputs('l')"}}"#,
            "{}",
            r#"{"o":[{"x":0},{"x":1}]}"#,
        ),
        (
            r#"{"actions": {"l": {"type": "until", "expression": "@equals(iterationIndexes('l'), 2)", "actions": {"x": {"type": "compose", "inputs": "@iterationIndexes('l')"}}}}, "outputs": {"o": "@outputs('l').results"}}"#,
            "{}",
            r#"{"o":[{"x":0},{"x":1}]}"#,
        ),
        // The condition reads an action that failed: null, and the loop continues.
        (
            r#"{"actions": {"l": {"type": "until", "expression": "@equals(outputs('x').n, 2)", "limit": {"count": 3}, "actions": {"x": {"type": "compose", "inputs": "@json('{').n"}}},
                "h": {"type": "compose", "inputs": "@outputs('l').iterations", "runAfter": {"l": ["Failed"]}}}, "outputs": {"o": "@outputs('h')"}}"#,
            "{}",
            r#"{"o":3}"#,
        ),
        // The result of the last iteration contains nothing of earlier ones: a failure in one of them is forgotten.
        (
            r#"{"actions": {"l": {"type": "until", "expression": "@equals(iterationIndexes('l'), 2)", "actions": {"x": {"type": "compose", "inputs": "@div(1, iterationIndexes('l'))"}}}}, "outputs": {"o": "@outputs('l').lastResult"}}"#,
            "{}",
            r#"{"o":{"x":1}}"#,
        ),
        // A failing action does not end the other parallel actions.
        (
            r#"{"actions": {"p": {"type": "parallel", "actions": {"bad": {"type": "compose", "inputs": "@div(1, 0)"}, "w": {"type": "wait", "inputs": {"interval": "PT5S"}},
                "late": {"type": "compose", "inputs": 2, "runAfter": {"w": ["Succeeded"]}}}}, "h": {"type": "compose", "inputs": "@outputs('p').late", "runAfter": {"p": ["Failed"]}}}, "outputs": {"o": "@outputs('h')"}}"#,
            "{}",
            r#"{"o":2}"#,
        ),
        (r#"{"actions": {"l": {"type": "foreach", "foreach": "@null", "actions": {}}}}"#, "{}", "failed NotAnArray"),
        (
            r#"{"actions": {"a": {"type": "response"}, "b": {"type": "response"}}}"#,
            "{}",
            "failed AlreadyReplied",
        ),
    ])
    .await;
}

/// Limits of Azure that do not apply here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_azure_do_not_apply() {
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join(", ");
    let deep = (0..12).fold(r#"{"type": "compose", "inputs": 1}"#.to_owned(), |inner, level| {
        format!(r#"{{"type": "scope", "actions": {{"level{level}": {inner}}}}}"#)
    });
    let text = format!(
        r#"{{"parameters": {{{}}}, "actions": {{
            "variables": {{"type": "initializeVariable", "inputs": {{"variables": [{}]}}}},
            "cases": {{"type": "switch", "expression": "@25", "cases": {{{}}}}},
            "deep": {deep},
            "{}": {{"type": "compose", "inputs": 1}}}},
            "outputs": {{{}}}}}"#,
        many(51, &|n| format!(r#""p{n}": {{"type": "int", "defaultValue": {n}}}"#)),
        many(251, &|n| format!(r#"{{"name": "v{n}", "type": "integer", "value": {n}}}"#)),
        many(26, &|n| format!(
            r#""c{n}": {{"case": {n}, "actions": {{"say{n}": {{"type": "compose", "inputs": {n}}}}}}}"#
        )),
        "n".repeat(81),
        many(11, &|n| format!(r#""o{n}": "@add(parameters('p50'), variables('v250'))""#)),
    );
    let (report, _) = ended(&text, "{}").await;
    assert_eq!(report.status, Status::Succeeded, "{:?}", report.error);
    assert_eq!(report.output.get("o10").and_then(|value| value.as_int()), Some(300));
}
