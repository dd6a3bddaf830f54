//! What runs ask of people, and the answers, from other processes.

mod support;

use support::Place;

const ASKS: &str = r#"{"definition": {"triggers": {"manual": {"type": "request"}}, "actions": {
    "Each": {"type": "foreach", "foreach": ["a", "b"], "actions": {
        "Ask": {"type": "approval", "inputs": {"title": "Go on with @{item()}?", "schema": {"type": "object",
            "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}}}}}},
    "outputs": {"answers": {"type": "array", "value": "@outputs('Each')"}}}}"#;

#[test]
fn people_answer_from_anywhere() {
    let place = Place::new();
    place.write("flow.json", ASKS);
    let mut run = place.start(&["run", "flow.json", "--id", "a1"]);
    assert_eq!(run.line(), "run a1");
    let mut events = place.start(&["events", "a1", "--follow"]);
    events.line_with("approval.requested");
    events.line_with("approval.requested");
    // Told, and so durable: the rows are there.
    let open = place.json(&["approvals", "--json"]);
    assert_eq!((&open[0]["title"], &open[0]["path"]), (&"Go on with a?".into(), &"Each[0].Ask".into()));
    place.windlass(&["approvals", "a1"]).exits(0).has("Each[1].Ask").has("Go on with b?");
    place.windlass(&["approve", "a1", "--set", "approved=true"]).exits(3).has("several places").has("`Each[0].Ask`");
    place.windlass(&["approve", "a1", "Each[7].Ask"]).exits(3).has("does not ask for `Each[7].Ask`");
    let wrong = place.windlass(&["approve", "a1", "Each[0].Ask", "--data", r#"{"approved": "yes"}"#]);
    wrong.exits(3).has("/approved").has("boolean");
    place.windlass(&["approve", "a1", "Each[0].Ask", "--data", "{}"]).exits(3).has("required");
    place.windlass(&["approve", "a1", "Each[1].Ask", "--set", "approved=true"]).exits(0).has("delivered");
    events.line_with("step.done");
    place.windlass(&["approve", "a1", "--data", r#"{"approved": false}"#]).exits(0).has("delivered");
    let ended = run.finish();
    ended.exits(0).has("Succeeded");
    place.windlass(&["approvals"]).exits(0).has("nobody is asked anything");
    place.windlass(&["approve", "a1", "Each[1].Ask", "--set", "approved=true"]).exits(3).has("does not ask");
    let object = place.json(&["status", "a1", "--json"]);
    assert_eq!(
        object["output"]["answers"],
        serde_json::json!([{"Ask": {"approved": false}}, {"Ask": {"approved": true}}])
    );
}
