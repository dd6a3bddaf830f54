//! The use cases of the first seed: each loads as written; the repaired file beside it succeeds, over real
//! connections.

use crate::support;

use serde_json::{Value, json};
use support::{RunningCommand, TestDir};

/// Name and expected output.
fn repaired() -> Vec<(&'static str, Value)> {
    vec![
        ("1-retry-until-success", json!({"status": "complete", "iterations": 3})),
        ("2-queue-until-empty", json!({"done": [{"label": "ANCHOR"}, {"label": "ROPE"}, {"label": "DRUM"}]})),
        ("3-pages", json!({"found": ["hull", "mast", "keel", "sail", "rope"], "pages": 3})),
        ("4-agent", json!({"answer": "42 sails", "observations": "{\"found\":\"a ship has 3 masts of 14 sails\"}; "})),
        ("5-polling", json!({"job": {"status": "complete", "result": 42}})),
        ("6-agent-with-tools", json!({"answer": "42 sails", "iterations": 3})),
        ("7-batches", json!({"batches": 2, "last": [{"processItem": {"label": "KEEL"}}]})),
    ]
}

/// Copies the examples into the folder, with a separate service in place of the usual port.
fn examples(place: &TestDir) -> (RunningCommand, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loom/seed");
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let entry = entry.expect("an entry");
        let text = std::fs::read(entry.path()).expect("read");
        place.write(&entry.file_name().to_string_lossy(), text);
    }
    let mut mock = place.start(&["mock", "service.json", "--port", "0"]);
    let line = mock.line();
    let address = line.strip_prefix("listening on ").expect("the address").trim_end_matches('/').to_owned();
    let settings = std::fs::read_to_string(place.path("windlass.toml")).expect("the settings");
    place.write("windlass.toml", settings.replace("http://127.0.0.1:8090", &address));
    (mock, address)
}

#[test]
fn repaired_examples_succeed() {
    let place = TestDir::new();
    let (_mock, address) = examples(&place);
    for (name, expected) in repaired() {
        let (file, service) = (format!("{name}.repaired.json"), format!("service={address}"));
        let mut words = vec!["run", &file, "--json", "--virtual-time", "-q"];
        if std::fs::read_to_string(place.path(&file)).expect("the file").contains("\"service\"") {
            words.extend(["--set", &service]);
        }
        let done = place.windlass(&words);
        assert_eq!(done.code, Some(0), "{name}: {}{}", done.out, done.err);
        assert_eq!(done.json()["output"], expected, "{name}");
    }
}

#[test]
fn original_examples_are_valid() {
    let place = TestDir::new();
    let (_mock, _) = examples(&place);
    for (name, _) in repaired() {
        place.windlass(&["check", &format!("{name}.json")]).exits(0);
    }
    // Activities come from the settings: without them, the location and the reason are reported.
    place.write("windlass.toml", "");
    place.windlass(&["check", "2-queue-until-empty.json"]).exits(2).has("processor").has("2-queue-until-empty.json:8:");
}

/// A run that calls a configured activity cannot resume without the settings, and is not lost.
#[test]
fn missing_settings_stop_a_resume_and_nothing_else() {
    let place = TestDir::new();
    let (_mock, _) = examples(&place);
    let settings = std::fs::read(place.path("windlass.toml")).expect("the settings");
    place.windlass(&["run", "6-agent-with-tools.repaired.json", "--id", "r", "-q", "--crash-at", "after:2"]);
    place.write("windlass.toml", "");
    place.windlass(&["resume", "r"]).exits(3).has("`search`").has("--config");
    place.write("windlass.toml", settings);
    assert_eq!(place.json(&["resume", "r", "--json", "-q"])["output"]["answer"], "42 sails");
}

/// Killed around each of its commits, a run with calls, a model and child runs has the same output as an undisturbed
/// one.
#[test]
fn a_run_killed_at_any_commit_resumes_where_it_stood() {
    let place = TestDir::new();
    let (_mock, address) = examples(&place);
    let service = format!("service={address}");
    // Only those whose service always replies the same.
    for (name, expected) in repaired().into_iter().filter(|(name, _)| !matches!(name.as_bytes()[0], b'1' | b'5')) {
        for moment in ["before", "after"] {
            let mut commits = 0;
            loop {
                commits += 1;
                let (file, id) = (format!("{name}.repaired.json"), format!("{name}-{moment}-{commits}"));
                let crash = format!("{moment}:{commits}");
                let mut words = vec!["run", &file, "--id", &id, "-q", "--virtual-time", "--crash-at", &crash];
                if matches!(name.as_bytes()[0], b'3' | b'7') {
                    words.extend(["--set", &service]);
                }
                if place.windlass(&words).code.is_some() {
                    break;
                }
                // Before the first commit there is nothing to resume.
                if (moment, commits) != ("before", 1) {
                    let object = place.json(&["resume", &id, "--json", "-q"]);
                    assert_eq!(object["output"], expected, "{name}, killed {moment} commit {commits}");
                }
            }
            assert!(commits > 3, "{name} has no more than {commits} commits");
        }
    }
}
