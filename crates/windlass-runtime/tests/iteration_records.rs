//! The iteration records of loops, and what `result()` returns for them.

use crate::support;

use std::sync::Arc;

use support::{World, engine, in_time, in_virtual_time, json, loom};
use windlass_core::plan::{ExpressionSource, NodeKind, Plan, RecordRetention, RecordingSpec, SourceSpan};
use windlass_store::MemoryStore;
use windlass_value::{ExpressionMode, Value};

/// Makes a loop of a plan record its body's actions.
fn recording(mut plan: Plan, name: &str, actions: &[&str], keep: RecordRetention) -> Plan {
    let source = Value::list(actions.iter().map(|action| Value::from(format!("@actions('{action}')"))).collect());
    let span = SourceSpan::default();
    let value =
        plan.add_expression(ExpressionSource { language: "wdl".into(), source, mode: ExpressionMode::Value, span });
    let node = plan.nodes.iter_mut().find(|node| &*node.name == name).expect("a loop of that name");
    let NodeKind::Loop(looping) = &mut node.kind else { panic!("{name} is no loop") };
    looping.records = Some(RecordingSpec::new(value, keep));
    plan
}

async fn output_of(plan: Plan) -> Value {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world);
    let (hash, _) = engine.add_plan(plan).expect("a plan");
    let mut handle = engine.start(hash, Value::Null, in_virtual_time("r")).await.expect("started");
    let report = in_time(handle.wait()).await.expect("an end");
    assert!(report.steps.iter().all(|(_, step)| step.to_value().get("records").is_none()));
    report.output.clone()
}

/// `ask` fails for the second item only: in that iteration `handle` runs and `after` does not. `maybe` is in a branch
/// that is never taken.
const EACH: &str = r#"{"actions": {
    "each": {"type": "foreach", "foreach": [0, 9, 0], "actions": {
        "ask": {"type": "activity", "inputs": {"activityName": "flaky", "input": {"fail": "@item()"}}},
        "after": {"type": "compose", "inputs": "@item()", "runAfter": {"ask": ["Succeeded"]}},
        "handle": {"type": "compose", "inputs": "handled", "runAfter": {"ask": ["Failed"]}},
        "choose": {"type": "if", "expression": "@equals(1, 2)", "actions": {"maybe": {"type": "compose", "inputs": 1}}}}},
    "seen": {"type": "compose", "inputs": "@result('each')", "runAfter": {"each": ["Succeeded", "Failed"]}}},
    "outputs": {"seen": "@outputs('seen')"}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreach_records_every_action_of_all_iterations() {
    let plan = recording(loom(EACH), "each", &["ask", "after", "handle", "choose", "maybe"], RecordRetention::All);
    let seen = output_of(plan).await.get("seen").cloned().expect("seen");
    let recorded: Vec<(String, String, Vec<String>)> = seen
        .as_list()
        .expect("a list")
        .iter()
        .map(|action| {
            let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let iterations = action.get("outputs").and_then(Value::as_list).expect("a record for each iteration");
            (
                text(action, "name"),
                text(action, "status"),
                iterations.iter().map(|iteration| text(iteration, "status")).collect(),
            )
        })
        .collect();
    let expected = [
        ("ask", "Failed", ["Succeeded", "Failed", "Succeeded"]),
        ("after", "Succeeded", ["Succeeded", "Skipped", "Succeeded"]),
        ("handle", "Succeeded", ["Skipped", "Succeeded", "Skipped"]),
        ("choose", "Succeeded", ["Succeeded", "Succeeded", "Succeeded"]),
        ("maybe", "Skipped", ["Skipped", "Skipped", "Skipped"]),
    ];
    assert_eq!(
        recorded,
        expected.map(|(name, status, iterations)| (
            name.to_owned(),
            status.to_owned(),
            iterations.map(str::to_owned).to_vec()
        ))
    );
}

const UNTIL: &str = r#"{"actions": {
    "loop": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 3)", "actions": {
        "note": {"type": "compose", "inputs": "@variables('loopIndex')"}}},
    "seen": {"type": "compose", "inputs": ["@result('loop')[0].name", "@result('loop')[0].outputs", "@length(result('loop'))"],
        "runAfter": {"loop": ["Succeeded"]}}},
    "outputs": {"seen": "@outputs('seen')"}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_loop_records_the_actions_of_its_last_iteration() {
    let plan = recording(loom(UNTIL), "loop", &["note"], RecordRetention::Last);
    assert_eq!(output_of(plan).await, json(r#"{"seen": ["note", 2, 1]}"#));
}

/// Actions by name, from records that are stored in chunks. Some outputs are so large that they are stored separately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_of_many_iterations() {
    let text = r#"{"actions": {
        "each": {"type": "foreach", "foreach": "@range(0, 2500)", "actions": {
            "note": {"type": "compose", "inputs": {"body": "@item()"}},
            "some": {"type": "compose", "inputs": {"body": "@if(equals(mod(item(), 500), 0), join(range(0, 30000), ''), item())"}}}},
        "seen": {"type": "compose", "runAfter": {"each": ["Succeeded"]}, "inputs": ["@length(outputs('note'))", "@body('note')[2499]", "@last(body('note'))",
            "@length(body('some')[2000])", "@body('some')[2001]", "@actions('some')[2002].name"]}},
        "outputs": {"seen": "@outputs('seen')"}}"#;
    assert_eq!(output_of(loom(text)).await, json(r#"{"seen": [2500, 2499, 2499, 138890, 2001, "some"]}"#));
}

/// So many and so large iterations that neither a single record nor the list of records stays in the state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_may_be_many_and_large() {
    let text = r#"{"actions": {
        "each": {"type": "foreach", "foreach": "@range(0, 2500)", "actions": {
            "note": {"type": "compose", "inputs": "@concat('0123456789012345678901234567890123456789', item())"}}},
        "seen": {"type": "compose", "inputs": ["@length(result('each')[0].outputs)", "@result('each')[0].outputs[2499].outputs"],
            "runAfter": {"each": ["Succeeded"]}}},
        "outputs": {"seen": "@outputs('seen')"}}"#;
    let plan = recording(loom(text), "each", &["note"], RecordRetention::All);
    assert_eq!(output_of(plan).await, json(r#"{"seen": [2500, "01234567890123456789012345678901234567892499"]}"#));
}
