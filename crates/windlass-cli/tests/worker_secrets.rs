//! Reports of remote workers to a server with secrets.

use crate::support::TestDir;
use crate::support::server::TestServer;

use serde_json::{Value, json};

const DEFINITION: &str = r#"{
    "actions": {
        "note": {"type": "initializeVariable", "inputs": {"variables": [{"name": "note", "type": "string", "value": ""}]}},
        "count": {"type": "activity", "runAfter": {"note": ["Succeeded"]}, "inputs": {"activityName": "count", "input": 3}},
        "after": {"type": "compose", "runAfter": {"count": ["Succeeded"]}, "inputs": "@variables('note')"}
    },
    "outputs": {"after": {"type": "string", "value": "@outputs('after')"}}
}"#;

/// A worker need not know the server's secrets, so the server redacts them in its reports.
#[test]
fn secrets_of_the_server_are_redacted_in_reports_of_workers() {
    const SECRET: &str = "s3cret-of-the-shop";
    let place = TestDir::new();
    place.write("windlass.toml", "[activities.count]\nworker = true\n");
    let server = TestServer::start(&place, &[], &[("WINDLASS_AUTH_SHOP", &format!(r#"{{"token": "{SECRET}"}}"#))]);
    server.register("counts", DEFINITION);
    let run = server.start_run("counts", &json!({}));
    let say = |route: &str, body: Value| {
        let (status, answer) = server.json("POST", &format!("/api/v1/worker/{route}"), Some(&body));
        assert!((200..300).contains(&status), "{route}: {status} {answer}");
        answer
    };
    let leased = say("lease", json!({"worker": "w", "name": "w", "tools": ["count"], "wait_ms": 20_000}));
    let job = |more: Value| {
        let leased = &leased["jobs"][0];
        let mut report = json!({"worker": "w", "run": run, "job": leased["job"], "lease_epoch": leased["lease_epoch"]});
        report.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        report
    };
    say("progress", job(json!({"data": {"seen": format!("<{SECRET}>"), "counted": 2}})));
    let change = json!({"name": "note", "op": "Set", "value": format!("({SECRET})")});
    say("complete", job(json!({"output": {"seen": SECRET}, "side_outputs": {"state_changes": [change]}})));
    let ended = server.wait_for_end(&run);
    assert!(ended["output"]["after"].as_str().is_some_and(|note| note.starts_with('(')), "{ended}");
    assert!(!ended.to_string().contains(SECRET), "{ended}");
    let (_, events) = server.request("GET", &format!("/api/v1/runs/{run}/events"), None);
    assert!(events.contains("\"counted\":2"), "the progress is there: {events}");
    assert!(!events.contains(SECRET), "{events}");
}
