//! A run whose process was killed or interrupted is shown as interrupted, wherever a status is shown.

use serde_json::Value;

use crate::support;

use support::server::wait_until;
use support::{TestDir, counting};

/// Two steps, so that a crash after the first commit leaves work to do.
const STEPS: &str = r#"{"actions": {
    "first": {"type": "compose", "inputs": 1},
    "second": {"type": "wait", "inputs": {"interval": {"count": 1, "unit": "second"}}, "runAfter": {"first": ["Succeeded"]}}
}}"#;

fn killed_run() -> TestDir {
    let place = TestDir::new();
    place.write("steps.json", STEPS);
    let killed = place.windlass(&["run", "steps.json", "--id", "r", "--virtual-time", "-q", "--crash-at", "after:1"]);
    assert_eq!(killed.code, None, "it was killed: {}{}", killed.out, killed.err);
    place
}

fn listed(place: &TestDir, more: &[&str]) -> Vec<(String, String)> {
    let mut arguments = vec!["list", "--json"];
    arguments.extend(more);
    let rows = place.json(&arguments);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.as_array().expect("rows").iter().map(|row| (text(&row["run"]), text(&row["status"]))).collect()
}

#[test]
fn a_killed_run_is_interrupted_until_it_is_resumed() {
    let place = killed_run();
    let interrupted = [("r".to_owned(), "interrupted".to_owned())];
    assert_eq!(listed(&place, &[]), interrupted);
    assert_eq!(listed(&place, &["--status", "interrupted"]), interrupted);
    assert_eq!(listed(&place, &["--status", "running"]), []);
    place.windlass(&["list"]).exits(0).has("interrupted").has("windlass resume r");
    let status = place.json(&["status", "r", "--json"]);
    assert_eq!((&status["status"], &status["owner"]), (&"interrupted".into(), &Value::Null), "{status}");
    assert!(!status["current"].to_string().contains("running"), "none of its steps runs: {status}");
    let shown = place.windlass(&["status", "r"]);
    shown.exits(0).has("Status: Interrupted (no process runs it: windlass resume r)").has("ago");
    assert!(!shown.out.to_lowercase().contains("running"), "{}", shown.out);
    let drawn = place.windlass(&["graph", "--run", "r"]);
    drawn.exits(0).has("r of steps: interrupted");
    assert!(!drawn.out.contains("running"), "{}", drawn.out);

    place.windlass(&["resume", "r", "-q"]).exits(0);
    assert_eq!(listed(&place, &[]), [("r".to_owned(), "succeeded".to_owned())]);
    assert_eq!(listed(&place, &["--status", "interrupted"]), []);
}

#[test]
fn a_run_with_a_live_process_is_running() {
    let place = TestDir::new();
    place.write(
        "held.yaml",
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: held }\nworkflow:\n  - step: start\n    tool:\n      - hold: { kind: shell, command: \"touch begun; sleep 300\" }\n",
    );
    let running = place.start(&["run", "held.yaml", "--id", "r"]);
    while !place.path("begun").exists() {
        std::thread::yield_now();
    }
    assert_eq!(listed(&place, &["--status", "running"]), [("r".to_owned(), "running".to_owned())]);
    assert_eq!(listed(&place, &["--status", "interrupted"]), []);
    // The first Ctrl-C releases the run.
    running.signal(rustix::process::Signal::INT);
    running.finish();
    assert_eq!(listed(&place, &[]), [("r".to_owned(), "interrupted".to_owned())]);
}

/// A run that waits for a time and has no process does not continue: the commands say so, and what resumes it.
#[test]
fn a_waiting_run_without_a_process_is_no_secret() {
    let place = TestDir::new();
    place.write("flow.json", counting(3, "PT1H"));
    let mut run = place.start(&["run", "flow.json", "--id", "w"]);
    run.line();
    place.start(&["events", "w", "--follow"]).line_with("loop.iteration.done");
    wait_until("it waits", || listed(&place, &[]) == [("w".to_owned(), "waiting".to_owned())]);
    assert!(!place.windlass(&["list"]).err.contains("no process"));
    run.signal(rustix::process::Signal::INT);
    run.finish();
    let note = "no process runs w, which waits for a time; to resume it: windlass resume w";
    place.windlass(&["list"]).exits(0).has("waiting").has(note);
    place.windlass(&["doctor"]).exits(0).has("no problems: 1 open run,");
    // Seven minutes after its time.
    let due =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_micros() as i64;
    let store = rusqlite::Connection::open(place.path(".windlass/windlass.db")).expect("the store");
    store.execute("UPDATE runs SET timer = ?1", [due - 7 * 60 * 1_000_000]).expect("written");
    windlass_store_sqlite::reseal_runs(&store).expect("resealed");
    drop(store);
    place.windlass(&["list"]).exits(0).has("which waits for a time and is overdue by 7m");
    let found = place.windlass(&["doctor"]);
    found.exits(1).has("w: no process runs it, and its timer is overdue by 7m").has("hint: windlass resume w");
    found.has("1 finding, 1 open run");
}
