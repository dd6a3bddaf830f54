//! Definitions that call others, the files of a Standard project, triggers with conditions, replies.

use crate::support;

use serde_json::json;
use support::TestDir;

const PARENT: &str = r#"{
  "name": "parent",
  "actions": {
    "each": {
      "type": "foreach", "foreach": [1, 2, 3],
      "actions": { "square": { "type": "workflow", "inputs": { "host": { "workflow": { "id": "square" } }, "body": { "n": "@item()" } } } }
    }
  },
  "outputs": { "squares": { "value": "@outputs('each')" } }
}"#;

const SQUARE: &str = r#"{
  "triggers": { "manual": { "type": "Request", "kind": "Http", "inputs": { "schema": {} } } },
  "actions": {
    "answer": { "type": "Response", "inputs": { "statusCode": 200, "body": "@mul(triggerBody()['n'], triggerBody()['n'])" } },
    "later": { "type": "Wait", "inputs": { "interval": { "count": 1, "unit": "Second" } }, "runAfter": { "answer": ["Succeeded"] } }
  }
}"#;

#[test]
fn a_child_is_found_beside_its_parent_and_answers_it() {
    let place = TestDir::new();
    place.write("parent.json", PARENT);
    place.write("square.json", SQUARE);
    let done = place.windlass(&["run", "parent.json", "--json", "--id", "p", "--virtual-time", "-q"]);
    done.exits(0);
    let squares = done.json()["output"]["squares"].clone();
    let bodies: Vec<_> =
        squares.as_array().expect("a list").iter().map(|iteration| iteration["square"]["body"].clone()).collect();
    assert_eq!(bodies, [json!(1), json!(4), json!(9)]);
    // The children have answered, and then ended as well.
    let runs = place.json(&["list", "--json", "--children"]);
    let runs = runs.as_array().expect("a list");
    assert_eq!(runs.len(), 4);
    assert_eq!(place.json(&["list", "--json"]).as_array().map(Vec::len), Some(1));
    place.windlass(&["status", "last"]).exits(0).has("Workflow: parent");
    assert!(runs.iter().all(|run| run["status"] == "succeeded"), "{runs:?}");
}

/// Cancels its children as soon as the fourth iteration has ended; they would wait for an hour.
const BREAKS: &str = r#"{"name": "breaks", "actions": {"each": {
  "type": "foreach", "foreach": "@range(0, 8)", "breakWhen": "@equals(item(), 3)",
  "actions": {"which": {"type": "if", "expression": "@equals(item(), 3)",
    "actions": {"stop": {"type": "workflow", "inputs": {"name": "quick"}}},
    "else": {"actions": {"call": {"type": "workflow", "inputs": {"name": "slow"}}}}}}}}}"#;
const QUICK: &str = r#"{"name": "quick", "actions": {"one": {"type": "compose", "inputs": 1}}}"#;
const SLOW: &str = r#"{"name": "slow", "actions": {"hold": {"type": "wait", "inputs": {"interval": "PT1H"}}}}"#;

/// Wherever the process was killed: after `resume`, no child is open, whether or not the parent had ended.
#[test]
fn children_of_a_parent_that_ended_early_are_cancelled() {
    for commit in 1.. {
        let place = TestDir::new();
        place.write("breaks.json", BREAKS);
        place.write("slow.json", SLOW);
        place.write("quick.json", QUICK);
        let crash = format!("after:{commit}");
        let run = place.windlass(&["run", "breaks.json", "-q", "--id", "p", "--crash-at", &crash]);
        let undisturbed = run.code == Some(0);
        if !undisturbed {
            place.windlass(&["resume", "p", "-q"]).exits(0);
        }
        let runs = place.json(&["list", "--json", "--children"]);
        for run in runs.as_array().expect("a list") {
            let expected = if run["definition"] == "slow" { "cancelled" } else { "succeeded" };
            assert_eq!(run["status"], expected, "commit {commit}: {run}");
        }
        if undisturbed {
            assert!(commit > 2, "only {commit} commits");
            break;
        }
    }
}

#[test]
fn called_definitions_must_exist_and_be_valid() {
    let place = TestDir::new();
    place.write("parent.json", PARENT);
    place
        .windlass(&["check", "parent.json"])
        .exits(2)
        .has("there is no workflow `square`")
        .has("parent.json:6:")
        .has("square.json");
    place.write("sqare.json", SQUARE);
    place.windlass(&["check", "parent.json"]).exits(2).has("did you mean `sqare`?");
    place.write("square.json", r#"{"actions": {"x": {"type": "compos", "inputs": 1}}}"#);
    let done = place.windlass(&["check", "parent.json"]);
    done.exits(2).has("`square` has problems").has("did you mean `compose`?");
    // A cycle of files cannot be pinned; a call of itself by name is no cycle.
    let call =
        |name: &str| format!(r#"{{"actions": {{"c": {{"type": "workflow", "inputs": {{"name": "{name}"}}}}}}}}"#);
    place.write("a.json", call("b"));
    place.write("b.json", call("a"));
    place.windlass(&["check", "a.json"]).exits(2).has("calls itself through other files");
    place.write("self.json", call("self"));
    place.windlass(&["check", "self.json"]).exits(0);
    place.write("up.json", call("../parent"));
    place.windlass(&["check", "up.json"]).exits(2);
}

#[test]
fn call_depth_is_limited() {
    let place = TestDir::new();
    place.write("self.json", r#"{"actions": {"c": {"type": "workflow", "inputs": {"name": "self"}}}}"#);
    place.write("windlass.toml", "[limits]\nmax_call_depth = 3\n");
    let done = place.windlass(&["run", "self.json", "--json", "-q"]);
    done.exits(1);
    assert_eq!(
        place.json(&["list", "--json", "--children"]).as_array().map(Vec::len),
        Some(4),
        "the first and three inside it"
    );
}

/// A change of the child's file affects only runs started after it.
#[test]
fn a_run_keeps_the_child_definitions_it_started_with() {
    let place = TestDir::new();
    place.write("parent.json", PARENT.replace("[1, 2, 3]", "[3]"));
    place.write("square.json", SQUARE);
    let killed = place.windlass(&["run", "parent.json", "--id", "p", "--virtual-time", "-q", "--crash-at", "before:2"]);
    assert_eq!(killed.code, None, "{}{}", killed.out, killed.err);
    place.write("square.json", "{");
    let squares = place.json(&["resume", "p", "--json", "-q"])["output"]["squares"].clone();
    assert_eq!(squares[0]["square"]["body"], 9);
}

#[test]
fn a_standard_project_has_its_parameters_settings_and_neighbours() {
    let place = TestDir::new();
    for folder in ["Orders", "Mail"] {
        std::fs::create_dir(place.path(folder)).expect("a folder");
    }
    place.write(
        "parameters.json",
        r#"{"greeting": {"type": "String", "value": "@appsetting('GREETING')"}, "times": {"type": "Int", "value": 2}}"#,
    );
    place.write("local.settings.json", r#"{"IsEncrypted": false, "Values": {"GREETING": "ahoy"}}"#);
    place.write(
        "Orders/workflow.json",
        r#"{"definition": {"triggers": {}, "actions": {
            "mail": {"type": "Workflow", "inputs": {"host": {"workflow": {"id": "Mail"}}, "body": {"to": "x"}}},
            "say": {"type": "Compose", "inputs": "@concat(parameters('greeting'), ' ', string(parameters('times')))"}},
            "outputs": {"said": {"type": "String", "value": "@outputs('say')"}, "mail": {"type": "Object", "value": "@body('mail')"}}}, "kind": "Stateful"}"#,
    );
    place.write(
        "Mail/workflow.json",
        r#"{"definition": {"triggers": {"manual": {"type": "Request", "kind": "Http"}}, "actions": {
            "Response": {"type": "Response", "inputs": {"statusCode": 200, "body": {"sent": "@triggerBody()['to']"}}}}}, "kind": "Stateful"}"#,
    );
    let done = place.json(&["run", "Orders/workflow.json", "--json", "-q"]);
    assert_eq!(done["definition"], "Orders", "called by its folder");
    assert_eq!(done["output"], json!({"said": "ahoy 2", "mail": {"sent": "x"}}));
    // The companion files are checked like the workflows.
    for (file, text, why) in [
        ("parameters.json", r#"{"greeting": {"value": "x"},}"#, "parameters.json:1:"),
        ("parameters.json", r#"{"greeting": {"valeu": "x"}}"#, "has no `value`"),
        ("parameters.json", "[]", "this file"),
        ("local.settings.json", r#"{"Values": {"PORT": 80}}"#, "not a text"),
    ] {
        place.write("parameters.json", r#"{"greeting": {"value": "x"}, "times": {"value": 1}}"#);
        place.write("local.settings.json", "{}");
        place.write(file, text);
        place.windlass(&["check", "Orders/workflow.json"]).exits(2).has(why);
        place.windlass(&["run", "Orders/workflow.json"]).exits(2).has(why);
    }
}

const SPLIT: &str = r#"{
  "triggers": { "orders": { "type": "Request", "kind": "Http", "splitOn": "@triggerBody()?['orders']",
    "conditions": [{ "expression": "@greater(length(triggerBody()['orders']), 1)" }] } },
  "actions": { "double": { "type": "compose", "inputs": "@mul(triggerBody(), 2)" } },
  "outputs": { "double": { "type": "Int", "value": "@outputs('double')" } }
}"#;

#[test]
fn a_trigger_splits_its_input_into_runs_once() {
    let place = TestDir::new();
    place.write("split.json", SPLIT);
    let words = ["run", "split.json", "--json", "-q", "--id", "d", "--input", r#"{"orders": [1, 2, 3]}"#];
    let runs = place.json(&words);
    let outputs = |runs: &serde_json::Value| -> Vec<i64> {
        let runs = runs["runs"].as_array().expect("runs").clone();
        runs.iter().map(|run| run["output"]["double"].as_i64().expect("a number")).collect()
    };
    assert_eq!(outputs(&runs), [2, 4, 6]);
    assert_eq!(runs["runs"][2]["run"], "d-2");
    assert_eq!(outputs(&place.json(&words)), [2, 4, 6], "the same delivery again is the same runs");
    assert_eq!(place.json(&["list", "--json"]).as_array().map(Vec::len), Some(3));
    let none = place.windlass(&["run", "split.json", "--input", r#"{"orders": [1]}"#]);
    none.exits(0).has("no run").has("greater(length");
    place.windlass(&["run", "split.json", "--input", r#"{"orders": 7}"#]).exits(3).has("hint");
    place
        .windlass(&["run", "split.json", "--trigger", "order", "--input", "{}"])
        .exits(3)
        .has("did you mean `orders`?");
}

#[test]
fn repeating_a_killed_delivery_completes_it() {
    let place = TestDir::new();
    place.write("split.json", SPLIT);
    let words = ["run", "split.json", "--json", "-q", "--id", "d", "--input", r#"{"orders": [1, 2, 3, 4]}"#];
    for commit in 1..6 {
        let crash = format!("after:{commit}");
        let killed: Vec<&str> = words.iter().copied().chain(["--crash-at", &crash]).collect();
        place.windlass(&killed);
    }
    let runs = place.json(&words);
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(4));
    assert!(runs["runs"].as_array().expect("runs").iter().all(|run| run["status"] == "succeeded"));
    assert_eq!(place.json(&["list", "--json"]).as_array().map(Vec::len), Some(4));
}

#[test]
fn a_reply_is_part_of_the_result() {
    let place = TestDir::new();
    place.write(
        "flow.json",
        r#"{"actions": {"r": {"type": "Response", "inputs": {"statusCode": 404, "body": "gone"}}}}"#,
    );
    let done = place.json(&["run", "flow.json", "--json", "-q"]);
    assert_eq!(done["reply"]["value"]["statusCode"], 404);
    assert_eq!(done["reply"]["success"], false);
}

#[test]
fn a_mock_rejects_an_invalid_file() {
    let place = TestDir::new();
    place.write("bad.json", r#"{"mock": []}"#);
    place.windlass(&["mock", "bad.json", "--port", "0"]).exits(2).has("mocks").has("bad.json:1:");
}
