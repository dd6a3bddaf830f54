//! Approval requests of runs and their answers, from other processes.

use crate::support;

use rustix::process::Signal;
use support::TestDir;
use support::server::TestServer;

const APPROVAL_FLOW: &str = r#"{"definition": {"triggers": {"manual": {"type": "request"}}, "actions": {
    "Each": {"type": "foreach", "foreach": ["a", "b"], "actions": {
        "Ask": {"type": "approval", "inputs": {"title": "Go on with @{item()}?", "schema": {"type": "object",
            "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}}}}}},
    "outputs": {"answers": {"type": "array", "value": "@outputs('Each')"}}}}"#;

/// The first answer counts, even while no process runs the run; a different second answer is an error.
#[test]
fn a_second_answer_must_be_the_same() {
    let place = TestDir::new();
    place.write("flow.json", APPROVAL_FLOW.replace(r#"["a", "b"]"#, r#"["a"]"#));
    let mut run = place.start(&["run", "flow.json", "--id", "a1"]);
    run.line();
    place.start(&["events", "a1", "--follow"]).line_with("approval.requested");
    run.signal(Signal::INT);
    run.finish().exits(130);
    let approve = |set: &str| place.windlass(&["approve", "a1", "--set", set]);
    // A signal with the request's name is an answer like any other.
    place.windlass(&["status", "a1"]).exits(0).has("Each[0].Ask  (windlass approve a1)");
    let wrong = r#"{"approved": "yes"}"#;
    place
        .windlass(&["signal", "a1", "Each[0].Ask", "--data", wrong])
        .exits(3)
        .has("boolean")
        .has("windlass approve a1");
    place.windlass(&["signal", "a1", "Each[0].Ask"]).exits(3).has("does not match the schema");
    approve("approved=true").exits(0).has("buffered");
    approve("approved=true").exits(0).has("was made before; nothing was done");
    approve("approved=false").exits(3).has("already has");
    place.windlass(&["resume", "a1"]).exits(0).has("Succeeded");
}

/// With a running server, users are not asked to resume by hand.
#[test]
fn a_server_resumes_an_answered_run() {
    let place = TestDir::new();
    place.write("flow.json", APPROVAL_FLOW.replace(r#"["a", "b"]"#, r#"["a"]"#));
    let mut run = place.start(&["run", "flow.json", "--id", "a1"]);
    run.line();
    place.start(&["events", "a1", "--follow"]).line_with("approval.requested");
    run.signal(Signal::INT);
    run.finish().exits(130);
    place.windlass(&["status", "a1"]).exits(0).has("no process runs it");
    let mut server = place.start(&["serve", "--json", "--bind", "127.0.0.1:0"]);
    let startup: serde_json::Value = serde_json::from_str(&server.line()).expect("JSON");
    let address = startup["address"].as_str().expect("an address");
    // Holds whether or not the server has already taken over the run.
    let shown = place.windlass(&["status", "a1"]);
    assert!(!shown.exits(0).out.contains("no process runs it"), "{}", shown.out);
    let approved = place.windlass(&["approve", "a1", "--set", "approved=true"]);
    approved.exits(0);
    assert!(approved.out.contains("delivered") || approved.out.contains(address), "{}", approved.out);
    place.start(&["events", "a1", "--follow"]).finish().exits(0);
    place.windlass(&["status", "a1"]).exits(0).has("Succeeded");
    server.signal(Signal::TERM);
    server.finish().exits(0);
}

#[test]
fn users_answer_from_any_process() {
    let place = TestDir::new();
    place.write("flow.json", APPROVAL_FLOW);
    let mut run = place.start(&["run", "flow.json", "--id", "a1"]);
    assert_eq!(run.line(), "run a1");
    let mut events = place.start(&["events", "a1", "--follow"]);
    events.line_with("approval.requested");
    events.line_with("approval.requested");
    // A published event is durable: the rows exist.
    let open = place.json(&["approvals", "--json"]);
    assert_eq!((&open[0]["title"], &open[0]["path"]), (&"Go on with a?".into(), &"Each[0].Ask".into()));
    place.windlass(&["approvals", "a1"]).exits(0).has("Each[1].Ask").has("Go on with b?");
    let several = place.windlass(&["approve", "a1", "--set", "approved=true"]);
    several.exits(3).has("run `a1` has 2 open requests").has("Each[0].Ask  Go on with a?");
    several.has("windlass approve a1 'Each[1].Ask' --set approved=true");
    place.windlass(&["approve", "a1", "Each[7].Ask"]).exits(3).has("does not ask for `Each[7].Ask`");
    let wrong = place.windlass(&["approve", "a1", "Each[0].Ask", "--data", r#"{"approved": "yes"}"#]);
    wrong.exits(3).has("/approved").has("boolean");
    place.windlass(&["approve", "a1", "Each[0].Ask", "--data", "{}"]).exits(3).has("required");
    place.windlass(&["approve", "a1", "Each[1].Ask", "--set", "approved=true"]).exits(0).has("delivered");
    events.line_with("step.done");
    place.windlass(&["approve", "a1", "--data", r#"{"approved": false}"#]).exits(0).has("delivered");
    let ended = run.finish();
    ended.exits(0).has("Succeeded");
    place.windlass(&["approvals"]).exits(0).has("no open approval requests");
    place
        .windlass(&["approve", "a1", "Each[1].Ask", "--set", "approved=true"])
        .exits(3)
        .has("has no open approval requests");
    place.windlass(&["approve", "a1", "--set", "approved=true"]).exits(3).has("has ended").has("windlass status a1");
    let object = place.json(&["status", "a1", "--json"]);
    assert_eq!(
        object["output"]["answers"],
        serde_json::json!([{"Ask": {"approved": false}}, {"Ask": {"approved": true}}])
    );
}

/// `doctor` finds nothing to repair, neither without a server nor with the next one.
#[test]
fn waits_of_a_killed_server_need_no_repair() {
    let place = TestDir::new();
    let server = TestServer::start(&place, &[], &[]);
    server.register("asks", APPROVAL_FLOW);
    let run = server.start_run("asks", &serde_json::json!({}));
    let mut events = place.start(&["events", &run, "--follow"]);
    events.line_with("approval.requested");
    events.line_with("approval.requested");
    drop(server);
    place.windlass(&["doctor"]).exits(0).has("no problems: 1 open run,");
    let _server = TestServer::start(&place, &[], &[]);
    place.windlass(&["doctor"]).exits(0).has("no problems: 1 open run,");
}

/// A missing answer is rejected unless the schema allows null.
#[test]
fn a_missing_answer_is_rejected() {
    for (schema, exits) in [("", 3), (r#", "schema": {}"#, 3), (r#", "schema": {"type": ["object", "null"]}"#, 0)] {
        let place = TestDir::new();
        let flow = r#"{"definition": {"actions": {"Ask": {"type": "approval", "inputs": {"title": "?"SCHEMA}}}}}"#;
        place.write("flow.json", flow.replace("SCHEMA", schema));
        let mut run = place.start(&["run", "flow.json", "--id", "a1"]);
        run.line();
        place.start(&["events", "a1", "--follow"]).line_with("approval.requested");
        let silent = place.windlass(&["approve", "a1"]);
        silent.exits(exits);
        if exits == 3 {
            silent.has("no answer given").has("--data null");
            place.windlass(&["signal", "a1", "Ask"]).exits(3).has("no answer given");
            place.windlass(&["approve", "a1", "--data", "null"]).exits(0);
        }
        run.finish().exits(0);
    }
}

/// The steps of a playbook start only by their transitions: a signal cannot start a step behind an open approval.
#[test]
fn a_signal_cannot_start_a_playbook_step() {
    let place = TestDir::new();
    place.write(
        "gated.yaml",
        r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: gated }
workflow:
  - step: start
    tool: { kind: approval, title: "Deploy?" }
    next: [{ step: deploy }]
  - step: deploy
    tool: { kind: noop }
"#,
    );
    let mut run = place.start(&["run", "gated.yaml", "--id", "g1"]);
    run.line();
    let mut events = place.start(&["events", "g1", "--follow"]);
    events.line_with("approval.requested");
    place.windlass(&["signal", "g1", "deploy"]).exits(0).has("the signal is buffered");
    events.line_with("event.unhandled");
    place.windlass(&["approve", "g1", "--set", "approved=true"]).exits(0);
    run.finish().exits(0);
    let output = place.windlass(&["events", "g1", "--json"]);
    let begun = output.exits(0).out.lines().filter(|line| line.contains("step.started") && line.contains("\"deploy\""));
    assert_eq!(begun.count(), 1, "{}", output.out);
}

/// A run that stops at an approval names the command that answers it.
#[test]
fn a_run_names_the_command_that_approves() {
    let place = TestDir::new();
    place.write("flow.json", APPROVAL_FLOW.replace(r#"["a", "b"]"#, r#"["a"]"#));
    let mut run = place.start(&["run", "flow.json", "--id", "a1"]);
    run.line();
    place.start(&["events", "a1", "--follow"]).line_with("workflow.idle");
    place.windlass(&["approve", "a1", "--set", "approved=true"]).exits(0);
    let ended = run.finish();
    ended.exits(0).has("Each[0].Ask waits for approval: windlass approve a1 'Each[0].Ask'\n");
    assert!(!ended.err.contains("windlass signal"), "{}", ended.err);
}
