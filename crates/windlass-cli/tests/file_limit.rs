//! A write beyond the file size limit fails for its caller and does not end the server.

#![cfg(target_os = "linux")]

use crate::support;

use serde_json::json;
use support::TestDir;
use support::server::{TestServer, wait_until};

const HELLO: &str = r#"{"name": "hello", "actions": {"greet": {"type": "compose", "inputs": "hi"}}}"#;

#[test]
fn a_server_recovers_from_a_file_size_limit() {
    let place = TestDir::new();
    let mut server = TestServer::start(&place, &[], &[]);
    server.register("hello", HELLO);
    let bytes = |file: &str| std::fs::metadata(place.path(".windlass").join(file)).expect("it is there").len();
    let largest = bytes("windlass.db").max(bytes("windlass.db-wal"));
    server.process.limit_files(Some(largest + 20_000));
    let start = || server.json("POST", "/api/v1/runs", Some(&json!({ "definition": "hello" })));
    let mut refused = (0, json!(null));
    wait_until("a start is refused", || {
        refused = start();
        refused.0 != 202
    });
    assert_eq!(refused.0, 503, "{refused:?}");
    assert!(refused.1["detail"].as_str().is_some_and(|detail| detail.contains("may grow beyond")), "{refused:?}");
    // Reading needs no space.
    assert!(!server.get("/api/v1/runs")["items"].as_array().expect("runs").is_empty());
    server.process.limit_files(None);
    wait_until("it accepts runs again", || start().0 == 202);
    assert!(!server.process.has_ended());
    let (code, _, stderr) = server.process.stop();
    assert_eq!(code, Some(0), "{stderr}");
    place.windlass(&["doctor"]).exits(0).has("no problems");
}
