//! `windlass backup` beside a server, and `windlass restore`.

use crate::support;

use rustix::process::Signal;
use serde_json::json;
use support::TestDir;
use support::server::{TestServer, wait_until};

const ASKS: &str = r#"{"name": "asks", "actions": {"wait": {"type": "wait", "inputs": {"signal": {"name": "go"}}}},
    "outputs": {"said": "@outputs('wait')"}}"#;

fn start(server: &TestServer, id: &str) {
    let (status, answer) = server.json("POST", "/api/v1/runs", Some(&json!({ "definition": "asks", "id": id })));
    assert_eq!(status, 202, "{answer}");
}

fn wait_for_status(server: &TestServer, run: &str, status: &str) {
    wait_until(&format!("{run} is {status}"), || server.get(&format!("/api/v1/runs/{run}"))["status"] == status);
}

#[test]
fn a_store_in_use_is_backed_up_and_the_restored_runs_continue() {
    let place = TestDir::new();
    let server = TestServer::start(&place, &[], &[]);
    server.register("asks", ASKS);
    start(&server, "before");
    wait_for_status(&server, "before", "waiting");
    let saved = place.json(&["backup", "saved", "--json"]);
    assert_eq!((saved["backups"].as_u64(), saved["findings"].as_array().map(Vec::len)), (Some(1), Some(0)), "{saved}");
    let again = place.json(&["backup", "saved", "--json"]);
    assert!(again["added_bytes"].as_u64() < saved["added_bytes"].as_u64(), "only what has changed: {again}");
    start(&server, "after");
    place.windlass(&["restore", "saved"]).exits(3).has("another server already uses this store");
    place.windlass(&["backup", ".windlass"]).exits(3).has("the store itself");

    let restored = place.windlass(&["restore", "saved", "--store", "restored/store"]);
    restored.exits(0).has("1 open run").has("the same idempotency keys");
    place.windlass(&["restore", "saved", "--store", "restored/store"]).exits(3).has("WND-2629").has("--replace");
    let listed = place.json(&["list", "--json", "--store", "restored/store"]);
    assert_eq!((listed.as_array().map(Vec::len), listed[0]["run"].as_str()), (Some(1), Some("before")), "{listed}");
    place.windlass(&["doctor", "--store", "restored/store"]).exits(0).has("no problems");
    // The backup has the audit log of the time before.
    assert!(place.path("restored/store/audit.log").exists());

    // Tokens stay valid; the file with the first one is not in the backup.
    std::fs::copy(place.path(".windlass/token"), place.path("restored/store/token")).expect("copied");
    let other = TestServer::start(&place, &["--store", "restored/store"], &[]);
    let signal = json!({ "name": "go", "data": "from the copy" });
    assert_eq!(other.json("POST", "/api/v1/runs/before/signal", Some(&signal)).0, 202);
    wait_for_status(&other, "before", "succeeded");
    wait_for_status(&server, "before", "waiting");
    server.process.signal(Signal::KILL);
    drop(server);

    place.windlass(&["restore", "saved", "--replace"]).exits(0).has("the store that was there is in");
    let listed = place.json(&["list", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "the later run is not in the backup: {listed}");
    place.windlass(&["restore", "nothing"]).exits(3).has("There is no backup");
}
