//! A store of each released format, and of the current one, can be opened, verified and continued.
//!
//! `UPDATE=1 cargo test -p windlass-cli --test suite golden_store::` writes the store of the current format anew: do that
//! only together with a new format number, unless the format was never released.

use crate::support;

use std::path::{Path, PathBuf};

use support::TestDir;
use support::counting;

const ASKS: &str = r#"{"name": "asks", "actions": {"wait": {"type": "wait", "inputs": {"signal": {"name": "go"}}}},
    "outputs": {"said": "@outputs('wait')"}}"#;
const FAILS: &str = r#"{"name": "fails", "actions": {"end": {"type": "terminate", "inputs": {"runStatus": "Failed", "runError": {"code": "Broken"}}}}}"#;
const LARGE: &str = r#"
workload: {letters: 150000}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ 'x' * letters }}"}
"#;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../windlass-store-sqlite/tests/golden")
}

/// Creates a store with the same runs as the golden ones.
fn make_store(place: &TestDir) {
    place.write("asks.json", ASKS);
    place.write("fails.json", FAILS);
    place.write("large.yaml", LARGE);
    place.write("loop.json", counting(3, "PT0S"));
    place.windlass(&["run", "fails.json", "--id", "failed"]).exits(1);
    place.windlass(&["run", "loop.json", "--id", "looped", "--label", "customer=acme"]).exits(0);
    place.windlass(&["run", "large.yaml", "--id", "large"]).exits(0);
    let mut waiting = place.start(&["run", "asks.json", "--id", "waiting"]);
    waiting.line_with("waiting");
    support::server::wait_until("it waits", || place.json(&["status", "waiting", "--json"])["status"] == "waiting");
    waiting.signal(rustix::process::Signal::INT);
    waiting.finish();
}

/// Returns the format of a store, and its tables and indexes.
fn format_of(store: &Path) -> (i64, Vec<String>) {
    let shell = rusqlite::Connection::open(store.join("windlass.db")).expect("any tool can open it");
    let format = shell.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a format");
    let mut select = shell.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").expect("SQL");
    let tables = select.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("texts");
    (format, tables)
}

#[test]
fn a_golden_store_is_opened_verified_and_continued() {
    let fresh = TestDir::new();
    make_store(&fresh);
    let (format, tables) = format_of(&fresh.path(".windlass"));
    let current = golden().join(format!("format-{format}"));
    if std::env::var_os("UPDATE").is_some() {
        let _ = std::fs::remove_dir_all(&current);
        fresh.windlass(&["backup", &current.to_string_lossy()]).exits(0);
        let _ = std::fs::remove_file(current.join("backup.lock"));
    }
    assert!(current.is_dir(), "the store format {format} has no golden store: UPDATE=1 writes one");

    let place = TestDir::new();
    place.windlass(&["restore", &current.to_string_lossy()]).exits(0).has("1 open run");
    let stored = format_of(&place.path(".windlass"));
    assert_eq!(stored, (format, tables), "the tables have changed: raise the format number, and write a golden store");
    place.windlass(&["doctor"]).exits(0).has("no problems");
    let listed = place.json(&["list", "--json"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let rows = listed.as_array().expect("runs").iter();
    let mut runs: Vec<_> = rows.map(|run| (text(&run["run"]), text(&run["status"]))).collect();
    runs.sort();
    let expected = [("failed", "failed"), ("large", "succeeded"), ("looped", "succeeded"), ("waiting", "waiting")];
    assert_eq!(runs, expected.map(|(run, status)| (run.to_owned(), status.to_owned())));
    for run in ["failed", "large", "looped", "waiting"] {
        place.windlass(&["replay", run]).exits(0);
    }
    assert!(place.windlass(&["status", "large", "--json"]).exits(0).out.len() > 10);
    assert_eq!(place.json(&["list", "--label", "customer=acme", "--json"])[0]["run"], "looped");
    assert_eq!(place.json(&["iterations", "looped", "--json"]).as_array().map(|loops| !loops.is_empty()), Some(true));

    place.windlass(&["signal", "waiting", "go", "--data", "5"]).exits(0);
    let done = place.json(&["resume", "waiting", "--json"]);
    assert_eq!((&done["status"], &done["output"]["said"]), (&"succeeded".into(), &5.into()), "{done}");
    place.windlass(&["doctor"]).exits(0).has("no problems");
}
