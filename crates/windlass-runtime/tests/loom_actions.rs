//! Loom's actions through the whole engine: one row, one definition and its end.

mod support;

use std::sync::Arc;

use support::{World, engine, in_time, in_virtual_time, json, loom};
use windlass_core::Status;
use windlass_runtime::FinalReport;
use windlass_store::MemoryStore;
use windlass_value::to_json;

/// What activities and actions of type `workflow` call here.
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
        let said = match &report.error {
            None => to_json(&report.output),
            Some(error) => format!("{} {}", report.status.as_str(), error.code),
        };
        assert_eq!(said, *expected, "{text} {:?}", report.error);
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
            "failed InvalidTemplate",
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
        // A tool that is there, yet no activity: no computed name reaches it.
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
    check(&[(
        r#"{"actions": {"before": {"type": "compose", "inputs": "@utcNow()"},
            "w": {"type": "wait", "inputs": {"interval": {"count": 2, "unit": "Month"}}, "runAfter": {"before": ["Succeeded"]}},
            "after": {"type": "compose", "inputs": "@equals(utcNow('yyyy-MM'), formatDateTime(addToTime(outputs('before'), 2, 'Month'), 'yyyy-MM'))", "runAfter": {"w": ["Succeeded"]}}},
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
    for (code, good) in [(200, true), (404, false)] {
        let (report, _) = ended(REPLY, &format!(r#"{{"code": {code}}}"#)).await;
        let reply = report.reply.clone().expect("an answer");
        assert_eq!(to_json(&reply.value), format!(r#"{{"statusCode":{code},"body":{{"n":1}}}}"#));
        assert_eq!((reply.good, to_json(&report.output)), (good, r#"{"o":"AlreadyReplied"}"#.to_owned()));
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
            r#"{"type": "until", "condition": "false", "budget": {"calls": "@triggerBody().most"}, "actions": {"a": {"type": "activity", "inputs": {"activityName": "count"}}}}"#,
            r#"{"most": 3}"#,
            "failed LoopBudget",
        ),
        (
            r#"{"type": "foreach", "foreach": [1, 2, 3, 4], "operationOptions": "Sequential", "budget": {"calls": 2}, "actions": {"a": {"type": "activity", "inputs": {"activityName": "count"}}}}"#,
            "{}",
            "failed LoopBudget",
        ),
        (
            r#"{"type": "until", "condition": "false", "stall": {"watch": "@outputs('a')", "turns": 3}, "actions": {"a": {"type": "compose", "inputs": 1}}}"#,
            "{}",
            "failed LoopStalled",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_turns() {
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
