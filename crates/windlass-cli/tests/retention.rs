//! Automatic retention of a server, and `windlass clean` with the same settings.

use crate::support;

use serde_json::{Value, json};
use support::TestDir;
use support::server::{TestServer, wait_until};

const HELLO: &str = r#"{"name": "hello", "parameters": {"n": {"type": "int", "defaultValue": 0}},
    "actions": {"greet": {"type": "compose", "inputs": "hi"}}}"#;

/// Starts a run with an idempotency key and waits for its end.
fn start(server: &TestServer, key: &str, input: &Value) -> (u16, Value) {
    let body = json!({ "definition": "hello", "input": input, "wait_ms": 30_000 }).to_string();
    let bearer = format!("Bearer {}", server.token);
    let headers = [("Authorization", &*bearer), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
    let (status, answer) = server.request_with_headers("POST", "/api/v1/runs", &headers, body.as_bytes());
    let text = String::from_utf8_lossy(&answer).into_owned();
    let at = text.find("\r\n\r\n").map_or(0, |at| at + 4);
    (status, serde_json::from_str(&text[at..]).unwrap_or_default())
}

fn listed(server: &TestServer) -> Vec<String> {
    let items = server.get("/api/v1/runs")["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["run"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_server_removes_runs_and_answers_a_repeated_start_from_the_kept_id() {
    let place = TestDir::new();
    let server = TestServer::start(&place, &[], &[]);
    wait_until("it says what it removes", || server.process.err().contains("ended runs are removed"));
    assert!(server.process.err().contains("\"max_age\":\"P30D\""), "{}", server.process.err());
    server.register("hello", HELLO);
    let runs: Vec<String> = ["one", "two", "three"]
        .map(|key| start(&server, key, &json!({ "n": 1 })).1["run"].as_str().expect("a run").to_owned())
        .into();
    assert_eq!(listed(&server).len(), 3, "the default keeps them");
    let (code, _, err) = server.process.stop();
    assert_eq!(code, Some(0), "{err}");

    place.write(
        "windlass.toml",
        "[retention]\nmax_runs = 5\n[[retention.rules]]\ndefinition = \"hello\"\nmax_runs = 1\n",
    );
    let would = place.json(&["clean", "--dry-run", "--json"]);
    assert_eq!(would["runs"], 2, "{would}");
    let server = TestServer::start(&place, &[], &[]);
    wait_until("two runs are removed", || listed(&server) == [runs[2].clone()]);
    let (status, answer) = start(&server, "one", &json!({ "n": 1 }));
    assert_eq!((status, &answer["run"], &answer["created"]), (202, &json!(runs[0]), &json!(false)), "{answer}");
    assert_eq!((&answer["removed"], &answer["status"]), (&json!(true), &json!("succeeded")), "{answer}");
    assert_eq!(start(&server, "one", &json!({ "n": 2 })).0, 409, "another call under the same key");
    assert_eq!(server.json("GET", &format!("/api/v1/runs/{}", runs[0]), None).0, 404);
    assert_eq!(listed(&server), [runs[2].clone()], "nothing was started");
    assert_eq!(start(&server, "four", &json!({ "n": 1 })).0, 200, "a new key is a new run");
    let (code, _, err) = server.process.stop();
    assert_eq!(code, Some(0), "{err}");
    place.windlass(&["doctor"]).exits(0).has("no problems");
}

#[test]
fn clean_without_an_age_needs_bounds_in_the_settings() {
    let place = TestDir::new();
    place.write("flow.json", HELLO);
    for id in ["a", "b"] {
        place.json(&["run", "flow.json", "--id", id, "--json"]);
    }
    place.windlass(&["clean"]).exits(3).has("no bounds of retention").has("--older-than");
    place.write("windlass.toml", "[retention]\nmax_runs = 1\nkeep_ids = \"0s\"\n");
    assert_eq!(place.json(&["clean", "--json"])["runs"], 1);
    let left = place.json(&["list", "--json"]);
    assert_eq!((left.as_array().map(Vec::len), left[0]["run"].as_str()), (Some(1), Some("b")), "{left}");
    place.json(&["run", "flow.json", "--id", "a", "--json"]);
    place.write("windlass.toml", "[retention]\nmax_runs = 0\n");
    assert_eq!(place.json(&["clean", "--json"])["runs"], 2);
    place.windlass(&["run", "flow.json", "--id", "a"]).exits(3).has("WND-2630").has("keep_ids");
    place.windlass(&["run", "flow.json", "--id", "c"]).exits(0);
}
