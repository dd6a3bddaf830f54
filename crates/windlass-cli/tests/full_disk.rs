//! A server whose disk is full: nothing new begins, and everything that exists stays under control.

#![cfg(target_os = "linux")]

use crate::support;

use serde_json::{Value, json};
use support::TestDir;
use support::server::{TestServer, wait_until};
use windlass_testing::small_disk::{SmallDisk, on_small_disk};

const HELLO: &str = r#"{"name": "hello", "actions": {"greet": {"type": "compose", "inputs": "hi"}}}"#;
const ASKS: &str = r#"{"name": "asks", "actions": {"wait": {"type": "wait", "inputs": {"signal": {"name": "go"}}}}}"#;

fn start(server: &TestServer, definition: &str, id: &str) -> (u16, Value) {
    server.json("POST", "/api/v1/runs", Some(&json!({ "definition": definition, "id": id })))
}

fn wait_for_status(server: &TestServer, run: &str, status: &str) {
    wait_until(&format!("{run} is {status}"), || server.get(&format!("/api/v1/runs/{run}"))["status"] == status);
}

fn controlled(disk: &SmallDisk) {
    let place = TestDir::in_directory(disk.directory());
    let server = TestServer::start(&place, &[], &[]);
    server.register("hello", HELLO);
    server.register("asks", ASKS);
    for id in ["cancelled", "paused", "answered", "asked-locally"] {
        assert_eq!(start(&server, "asks", id).0, 202);
        wait_for_status(&server, id, "waiting");
    }
    assert_eq!(server.json("GET", "/readyz", None).0, 200);
    disk.fill();
    let (mut accepted, mut refused) = (Vec::new(), (0, Value::Null));
    for number in 0..2_000 {
        let id = format!("run-{number}");
        refused = start(&server, "hello", &id);
        match refused.0 {
            202 => accepted.push(id),
            _ => break,
        }
    }
    assert_eq!((refused.0, &refused.1["cause"]), (503, &json!("WND-2603")), "{refused:?}");
    let ready = server.json("GET", "/readyz", None);
    assert_eq!(ready.0, 503, "readiness follows at once: {ready:?}");
    assert!(ready.1["detail"].as_str().is_some_and(|detail| detail.contains("the disk is full")), "{ready:?}");
    assert_eq!(server.json("GET", "/healthz", None).0, 200);
    let again = start(&server, "hello", "again");
    assert_eq!(again.0, 503, "{again:?}");
    assert!(again.1["hint"].as_str().is_some_and(|hint| hint.contains("nothing was changed")), "{again:?}");
    assert_eq!(server.json("GET", "/api/v1/runs/again", None).0, 404, "503 means that nothing has happened");
    let name = format!("/api/v1/runs/run-{}", accepted.len());
    assert_eq!(server.json("GET", &name, None).0, 404, "the refused start left nothing behind");

    for (run, call) in [("cancelled", "cancel"), ("paused", "pause")] {
        let (status, answer) = server.json("POST", &format!("/api/v1/runs/{run}/{call}"), None);
        assert_eq!(status, 202, "{call}: {answer}");
        wait_for_status(&server, run, run);
    }
    let signal = json!({ "name": "go", "data": 1 });
    assert_eq!(server.json("POST", "/api/v1/runs/answered/signal", Some(&signal)).0, 202);
    wait_for_status(&server, "answered", "succeeded");
    place.windlass(&["cancel", "asked-locally"]).exits(0);
    wait_for_status(&server, "asked-locally", "cancelled");
    for run in &accepted {
        wait_for_status(&server, run, "succeeded");
    }

    wait_until("the log says so", || server.process.err().contains("\"disk full\""));
    disk.free();
    wait_until("it is ready again", || server.json("GET", "/readyz", None).0 == 200);
    assert_eq!(start(&server, "hello", "again").0, 202);
    wait_for_status(&server, "again", "succeeded");
    wait_until("the log says so", || server.process.err().contains("\"space available\""));
    let (code, _, err) = server.process.stop();
    assert_eq!(code, Some(0), "{err}");
    place.windlass(&["doctor"]).exits(0).has("no problems");
}

#[test]
fn a_server_on_a_full_disk_stays_under_control() {
    on_small_disk("full_disk::a_server_on_a_full_disk_stays_under_control", 64 << 20, controlled);
}
