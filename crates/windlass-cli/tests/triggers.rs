//! Triggers of definitions in every dialect with the real program: starts, queueing, and recovery after kill -9.

use crate::support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::{RunningCommand, TestDir};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Starts a server without authentication, and returns its address.
fn serve(place: &TestDir) -> (RunningCommand, String) {
    let mut server = place.start(&["serve", "--json", "--no-auth", "--bind", "127.0.0.1:0"]);
    let startup: Value = serde_json::from_str(&server.line()).expect("JSON");
    let address = startup["address"].as_str().expect("an address").trim_start_matches("http://").to_owned();
    (server, address)
}

/// Sends a request and returns status and body.
fn request(address: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let body = body.to_string();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let from = body.find('{').unwrap_or(0);
    let to = body.rfind('}').map_or(0, |at| at + 1);
    (status, serde_json::from_str(body.get(from..to).unwrap_or("null")).unwrap_or_default())
}

fn register(address: &str, source: &str) {
    let (status, reply) = request(address, "POST", "/api/v1/definitions", &json!({ "source": source }));
    assert!(status < 300, "{status}: {reply}");
}

fn wait_for_status(address: &str, run: &str, expected: &str) -> Value {
    let begun = Instant::now();
    loop {
        let (_, seen) = request(address, "GET", &format!("/api/v1/runs/{run}"), &json!({}));
        if seen["status"] == expected {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{run} never was {expected}: {seen}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn example(name: &str) -> String {
    std::fs::read_to_string(format!("{EXAMPLES}/{name}")).expect("the example")
}

/// The examples have schedules and webhooks, and a delivery's body becomes the run's input.
#[test]
fn a_playbook_and_a_workflow_of_agents_have_triggers() {
    let place = TestDir::new();
    place.write("windlass.toml", "[model]\nmodel = \"ollama/qwen3\"\n");
    let (server, address) = serve(&place);
    register(&address, &example("noetl/nightly.yaml"));
    register(&address, &example("zenflow/research.yaml"));
    let (_, seen) = request(&address, "GET", "/api/v1/triggers", &json!({}));
    let facts = |name: &str| {
        let items = seen["items"].as_array().expect("a list");
        items.iter().find(|one| one["trigger"] == name).unwrap_or_else(|| panic!("no {name} in {seen}")).clone()
    };
    let nightly = facts("nightly");
    assert_eq!(nightly["schedule"], json!({"cron": "30 2 * * 1-5", "time_zone": "Europe/Berlin"}));
    assert!(nightly["next_at"].is_string() && nightly["catch_up"] == "last", "{nightly}");
    assert_eq!((&facts("now")["url"], &facts("now")["waiting"]), (&json!("/hooks/nightly/now"), &json!(0)));
    assert_eq!(facts("schedule")["definition"], "research");

    let (status, made) = request(&address, "POST", "/hooks/nightly/now", &json!({"region": "us"}));
    assert_eq!(status, 202, "{made}");
    let run = made["runs"][0].as_str().expect("a run");
    assert_eq!(wait_for_status(&address, run, "succeeded")["output"], "The books of us are closed.");
    server.signal(Signal::TERM);
    let done = server.finish();
    done.exits(0).has("trigger fired definition=nightly trigger=now kind=webhook run=");
}

/// A schedule of every second fires with the input of the definition.
#[test]
fn a_schedule_of_a_playbook_fires() {
    let place = TestDir::new();
    let (server, address) = serve(&place);
    let source = example("noetl/nightly.yaml").replace("0 6 * * 7", "* * * * * *");
    register(&address, &source);
    let begun = Instant::now();
    let run = loop {
        let (_, seen) = request(&address, "GET", "/api/v1/runs?limit=1", &json!({}));
        match seen["items"][0]["run"].as_str() {
            Some(run) => break run.to_owned(),
            None => assert!(begun.elapsed() < Duration::from_secs(300), "nothing fired: {seen}"),
        }
    };
    assert_eq!(wait_for_status(&address, &run, "succeeded")["output"], "The books of all are closed.");
    server.signal(Signal::TERM);
    server.finish().exits(0).has("trigger fired definition=nightly trigger=weekly kind=schedule due=");
}

/// Runs are queued by a concurrency limit. After a kill, the next server starts them in order, and none is lost.
#[test]
fn queued_runs_survive_a_kill() {
    let place = TestDir::new();
    let (server, address) = serve(&place);
    register(
        &address,
        r#"{"name": "queue", "triggers": {"new": {"type": "request",
            "runtimeConfiguration": {"concurrency": {"runs": 1, "maximumWaitingRuns": 2}}}},
          "actions": {"go": {"type": "wait", "inputs": {"signal": {"name": "go"}}}}}"#,
    );
    let mut runs = Vec::new();
    for number in 0..3 {
        let (status, made) = request(&address, "POST", "/hooks/queue/new", &json!({"n": number}));
        assert_eq!(status, 202, "{made}");
        runs.push(made["runs"][0].as_str().expect("a run").to_owned());
    }
    assert_eq!(request(&address, "POST", "/hooks/queue/new", &json!({})).0, 429);
    wait_for_status(&address, &runs[0], "waiting");
    let status = place.windlass(&["status", &runs[2]]);
    status.exits(0).has("Queued: 1 run of the trigger `new` is in flight (limit 1), position 2");
    assert_eq!(place.json(&["status", &runs[1], "--json"])["queue_position"]["position"], 1);
    server.signal(Signal::KILL);
    drop(server.finish());

    let (server, address) = serve(&place);
    for (at, run) in runs.iter().enumerate() {
        wait_for_status(&address, run, "waiting");
        for later in &runs[at + 1..] {
            wait_for_status(&address, later, "pending");
        }
        let (status, reply) = request(&address, "POST", &format!("/api/v1/runs/{run}/signal"), &json!({"name": "go"}));
        assert_eq!(status, 202, "{reply}");
        wait_for_status(&address, run, "succeeded");
    }
    server.signal(Signal::TERM);
    server.finish().exits(0);
}
