//! kill -9 of a server under load: every accepted start exists, every run ends, no effect is executed under two keys,
//! and damaged runs are quarantined.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_testing::crash::SeededRng;
use windlass_testing::crash::server::{ServerProcess, read_log, wait_until};
use windlass_testing::test_service::TestService;

/// Definitions that are active when the server dies: calls, waits, retries, loops, child runs. `SERVICE` is the
/// address of the calls, and each run calls its own paths.
const DEFINITIONS: [(&str, &str); 6] = [
    (
        "child",
        r#"{"actions": {
        "call": {"type": "http", "inputs": {"method": "POST", "uri": "SERVICE/count/child-@{triggerBody().me}"}},
        "wait": {"type": "wait", "inputs": {"interval": {"count": 1, "unit": "second"}}, "runAfter": {"call": ["Succeeded"]}}}}"#,
    ),
    (
        "calls",
        r#"{"actions": {
        "slow": {"type": "http", "inputs": {"uri": "SERVICE/slow?ms=300"}},
        "call": {"type": "http", "runAfter": {"slow": ["Succeeded"]},
            "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-1"}}}}"#,
    ),
    (
        "waits",
        r#"{"actions": {
        "call": {"type": "http", "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-1"}},
        "wait": {"type": "wait", "inputs": {"interval": {"count": 2, "unit": "second"}}, "runAfter": {"call": ["Succeeded"]}},
        "again": {"type": "http", "runAfter": {"wait": ["Succeeded"]},
            "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-2"}}}}"#,
    ),
    (
        "retries",
        r#"{"actions": {
        "flaky": {"type": "http", "retry": {"type": "fixed", "count": 6, "interval": "PT1S", "on": ["503"]},
            "inputs": {"method": "POST", "uri": "SERVICE/flaky?fail=2&key=@{triggerBody().me}"}},
        "call": {"type": "http", "runAfter": {"flaky": ["Succeeded"]},
            "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-1"}}}}"#,
    ),
    (
        "loops",
        r#"{"actions": {"work": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 5)",
        "limit": {"count": 50, "timeout": "PT1H"}, "actions": {
            "call": {"type": "http", "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-@{variables('loopIndex')}"}},
            "slow": {"type": "http", "inputs": {"uri": "SERVICE/slow?ms=150"}, "runAfter": {"call": ["Succeeded"]}}}}}}"#,
    ),
    (
        "parents",
        r#"{"actions": {
        "below": {"type": "workflow", "inputs": {"host": {"workflow": {"id": "child"}}, "body": {"me": "@triggerBody().me"}}},
        "call": {"type": "http", "runAfter": {"below": ["Succeeded"]},
            "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-1"}}}}"#,
    ),
];

/// Returns the effect paths that one run must have, by its definition.
fn expected(definition: &str, me: &str) -> Vec<String> {
    let numbered = |numbers: std::ops::Range<u32>| numbers.map(|number| format!("/count/{me}-{number}")).collect();
    match definition {
        "waits" => numbered(1..3),
        "loops" => numbered(0..5),
        "parents" => vec![format!("/count/child-{me}"), format!("/count/{me}-1")],
        _ => numbered(1..2),
    }
}

fn register(server: &ServerProcess, service: &TestService) {
    let base = service.url("");
    let mut client = server.client();
    for (name, source) in DEFINITIONS {
        client.register(name, &source.replace("SERVICE", base.trim_end_matches('/')));
    }
}

/// Every accepted start with its definition. Starts that were cut off may exist or not.
type Accepted = BTreeMap<String, String>;

/// Starts runs over several connections until the server is gone or `max_runs` were accepted.
fn load(server: &ServerProcess, round: usize, max_runs: usize, accepted: &mut Accepted) {
    let done = AtomicBool::new(false);
    let from_all = std::thread::scope(|scope| {
        let one = |line: usize| {
            let (mut client, done) = (server.client(), &done);
            move || {
                let mut mine = Accepted::new();
                for number in 0..max_runs / 8 {
                    let definition = DEFINITIONS[1 + (line + number) % (DEFINITIONS.len() - 1)].0;
                    let id = format!("r{round}-{line}-{number}");
                    match client.start(definition, &id, &json!({ "me": id })) {
                        Ok((202, _)) => drop(mine.insert(id, definition.to_owned())),
                        Ok((status, body)) => panic!("{id}: {status} {body}"),
                        Err(_) => break,
                    }
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
                mine
            }
        };
        let threads: Vec<_> = (0..8).map(|line| scope.spawn(one(line))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    from_all.into_iter().for_each(|mine| accepted.extend(mine));
}

/// Asserts from outside that each effect has one key and none is missing.
fn check_effects(service: &TestService, accepted: &Accepted, deaths: u64) {
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for effect in service.effects() {
        assert!(effect.times <= 1 + deaths, "{} was called {} times after {deaths} deaths", effect.path, effect.times);
        keys.entry(effect.path).or_default().insert(effect.key);
    }
    for (run, definition) in accepted {
        for path in expected(definition, run) {
            let found = keys.get(&path).map_or(0, BTreeSet::len);
            assert_eq!(found, 1, "{definition} {run}: {path} was called under {found} keys");
        }
    }
}

#[test]
fn accepted_runs_survive_random_kills_under_load() {
    const DEATHS: u64 = 4;
    let folder = tempfile::tempdir().expect("a folder");
    let service = TestService::start().expect("the service starts");
    let mut random = SeededRng(7);
    let mut accepted = Accepted::new();
    for round in 0..DEATHS as usize {
        let server = ServerProcess::start(folder.path(), &[]);
        server.wait_until_ready();
        if round == 0 {
            register(&server, &service);
        }
        let target = service.requests() + 20 + random.below(200);
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| {
                let mut mine = Accepted::new();
                load(&server, round, 160, &mut mine);
                mine
            });
            wait_until(|| service.requests() >= target || loading.is_finished());
            accepted.extend(loading.join().expect("no panic"));
        });
        server.kill();
    }
    let server = ServerProcess::start(folder.path(), &[]);
    server.wait_until_ready();
    let mut client = server.client();
    wait_until(|| {
        client.statuses().values().all(|status| status != "running" && status != "waiting" && status != "pending")
    });
    let statuses = client.statuses();
    for run in accepted.keys() {
        assert_eq!(statuses.get(run).map(String::as_str), Some("succeeded"), "{run}: {:?}", read_log(folder.path()));
    }
    check_effects(&service, &accepted, DEATHS);
    assert!(accepted.len() > 100, "{} accepted", accepted.len());
    println!("{} runs accepted, {DEATHS} deaths", accepted.len());
    server.terminate();
    let status = server.wait_for_exit();
    assert!(status.success(), "{status}");
}

/// A thousand active runs, some of them paused, are all resumed soon after a restart.
#[test]
fn a_thousand_active_runs_are_resumed() {
    const RUNS: usize = 1_000;
    let folder = tempfile::tempdir().expect("a folder");
    let service = TestService::start().expect("the service starts");
    let server = ServerProcess::start(folder.path(), &[]);
    register(&server, &service);
    let base = service.url("");
    server.client().register(
        "long",
        &r#"{"actions": {"call": {"type": "http", "inputs": {"uri": "SERVICE/slow?ms=600000"},
            "retry": {"type": "fixed", "count": 90, "interval": "PT1S", "on": ["timeout"]}}}}"#
            .replace("SERVICE", base.trim_end_matches('/')),
    );
    server.client().register(
        "paused",
        r#"{"actions": {"wait": {"type": "wait", "inputs": {"interval": {"count": 1, "unit": "day"}}}}}"#,
    );
    let mut client = server.client();
    for number in 0..RUNS {
        let definition = ["long", "paused"][number % 2];
        let (status, body) = client.start(definition, &format!("a{number}"), &json!({})).expect("an answer");
        assert_eq!(status, 202, "{body}");
    }
    for number in (1..RUNS).step_by(20) {
        let (status, body) = client.request("POST", &format!("/api/v1/runs/a{number}/pause"), None).expect("an answer");
        assert_eq!(status, 202, "{body}");
    }
    let paused = (1..RUNS).step_by(20).count();
    wait_until(|| client.statuses().values().filter(|status| *status == "paused").count() == paused);
    wait_until(|| service.requests() >= RUNS as u64 / 2);
    server.kill();
    let before = service.requests();
    let server = ServerProcess::start(folder.path(), &[]);
    let took = server.wait_until_ready();
    println!("{RUNS} active runs: ready after {took:?}");
    // The machine may be slow and busy.
    assert!(took < Duration::from_secs(if cfg!(debug_assertions) { 120 } else { 5 }), "ready after {took:?}");
    wait_until(|| service.requests() >= before + RUNS as u64 / 2);
    let statuses = server.client().statuses();
    assert_eq!(statuses.len(), RUNS, "none lost, none doubled");
    assert!(statuses.values().all(|status| ["running", "waiting", "paused"].contains(&status.as_str())));
    let still = statuses.values().filter(|status| *status == "paused").count();
    assert_eq!(still, paused, "paused runs stay paused");
    let recovered: Vec<String> =
        read_log(folder.path()).into_iter().filter(|line| line.contains("\"recovered\"")).collect();
    assert!(recovered.iter().any(|line| line.contains("\"quarantined\":0")), "{recovered:?}");
}

/// Running calls may end when the server is asked to stop; the next server does not repeat them.
#[test]
fn a_graceful_stop_drains_running_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = TestService::start().expect("the service starts");
    // A caller of this port waits until the test replies.
    let slow = TcpListener::bind("127.0.0.1:0").expect("a port");
    // The drain time is longer than the test may take; the server does not wait that long.
    let server = ServerProcess::start(folder.path(), &["--drain", "3600"]);
    let source = r#"{"actions": {
        "slow": {"type": "http", "inputs": {"method": "POST", "uri": "http://SLOW/"}},
        "call": {"type": "http", "runAfter": {"slow": ["Succeeded"]}, "inputs": {"method": "POST", "uri": "SERVICE/count/after"}}}}"#;
    let source = source.replace("SLOW", &slow.local_addr().expect("an address").to_string());
    server.client().register("slow", &source.replace("SERVICE", service.url("").trim_end_matches('/')));
    let (status, body) = server.client().start("slow", "r", &json!({})).expect("an answer");
    assert_eq!(status, 202, "{body}");
    let (called, _) = slow.accept().expect("it calls");
    let mut head = BufReader::new(&called).lines().map_while(Result::ok);
    assert!(head.any(|line| line.is_empty()), "a request");
    server.terminate();
    wait_until(|| server.client().request("GET", "/readyz", None).is_ok_and(|(status, _)| status == 503));
    (&called).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").expect("it listens");
    drop(called);
    let status = server.wait_for_exit();
    assert!(status.success(), "{status}");
    assert_eq!(service.requests(), 0, "nothing new was started");
    let server = ServerProcess::start(folder.path(), &[]);
    let mut client = server.client();
    wait_until(|| client.statuses()["r"] == "succeeded");
    assert_eq!(service.requests(), 1);
    slow.set_nonblocking(true).expect("a setting");
    assert!(slow.accept().is_err(), "the call that had ended was not made again");
}

/// A run whose journal is damaged is quarantined with a visible reason; the other runs continue.
#[test]
fn a_damaged_run_is_quarantined_and_the_others_continue() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = TestService::start().expect("the service starts");
    let server = ServerProcess::start(folder.path(), &[]);
    register(&server, &service);
    for id in ["bad", "good"] {
        let (status, body) = server.client().start("waits", id, &json!({ "me": id })).expect("an answer");
        assert_eq!(status, 202, "{body}");
    }
    wait_until(|| service.requests() >= 2);
    server.kill();
    corrupt_journal(&folder.path().join("store"), "bad");
    let server = ServerProcess::start(folder.path(), &[]);
    server.wait_until_ready();
    let mut client = server.client();
    wait_until(|| client.statuses()["good"] == "succeeded");
    assert_eq!(client.statuses()["bad"], "quarantined");
    let detail = client.get("/api/v1/runs?status=quarantined");
    assert!(detail["items"][0]["error"]["message"].as_str().is_some_and(|why| !why.is_empty()), "{detail:#}");
    assert!(read_log(folder.path()).iter().any(|line| line.contains("\"quarantined\"") && line.contains("\"bad\"")));
    drop(server);
    let doctor = Command::new(windlass_testing::crash::program())
        .args(["doctor", "--json", "--store"])
        .arg(folder.path().join("store"))
        .output();
    let findings: Value = serde_json::from_slice(&doctor.expect("it runs").stdout).expect("JSON");
    let named = findings.as_array().expect("findings").iter().any(|finding| finding["run"] == "bad");
    assert!(named, "{findings:#}");
}

/// Flips a bit in a row of the run's journal, as a bad disk would.
fn corrupt_journal(store: &Path, run: &str) {
    let connection = rusqlite::Connection::open(store.join("windlass.db")).expect("the store's file");
    let changed = connection.execute(
        "UPDATE journal SET checksum = checksum + 1 WHERE run = (SELECT number FROM runs WHERE id = ?1)",
        [run],
    );
    assert!(changed.expect("a row") > 0);
}
