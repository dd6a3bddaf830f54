//! One playbook and its expected results, in `cases`: `NAME.yaml`, and beside it `NAME.json` with any of
//!
//! | key | |
//! |---|---|
//! | `service` | replies of the service, as for `windlass mock`; the playbook gets its address as `api_url` |
//! | `database` | statements to run first |
//! | `set` | inputs, as for `--set` |
//! | `auth` | credentials by alias; no secret of them may appear in the report or in an event |
//! | `output` | the run's output; without it and without `error` any success is accepted |
//! | `error` | the code with which the run fails |
//! | `events` | for an event type, the paths of all such events in order |
//! | `requests` | the requests to the service in order, with the reply status |
//! | `delays` | milliseconds before each retry |
//! | `rows` | for a query, its rows |
//!
//! Every expectation of a case must hold.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value};

use crate::world::{PlaybookFixture, event_paths};

const KEYS: [&str; 10] =
    ["service", "database", "set", "auth", "output", "error", "events", "requests", "delays", "rows"];

#[test]
fn all_cases_have_the_expected_results() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/noetl/cases"));
    let entries = std::fs::read_dir(folder).expect("the cases").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    // DuckDB takes long to build, so it is part of the program only with its feature.
    files.retain(|file| {
        cfg!(feature = "duckdb") || !file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("duckdb"))
    });
    files.sort();
    let (next, problems) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = check(file);
                    problems.lock().expect("no panic").extend(found);
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(!files.is_empty());
}

/// Every test that the README names exists.
#[test]
fn tests_listed_in_the_readme_exist() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/noetl"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a file of these tests");
    let code = ["cases.rs", "examples.rs", "kills.rs", "concurrency.rs"].map(read).concat();
    let (page, mut named) = (read("README.md"), 0);
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        for test in tests.split('`').skip(1).step_by(2) {
            let is_case = folder.join(format!("cases/{test}.yaml")).exists();
            assert!(is_case || code.contains(&format!("fn {test}()")), "there is no `{test}`");
            named += 1;
        }
    }
    assert!(named > 40, "{named}");
}

fn check(file: &Path) -> Vec<String> {
    let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(file.with_extension("json")).unwrap_or_else(|error| panic!("{name}: {error}"));
    let case: Map<String, Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut problems = Vec::new();
    let mut expect = |what: &str, found: &Value, expected: &Value| {
        if found != expected {
            problems.push(format!("{name}, {what}:\n  found  {found}\n  wanted {expected}"));
        }
    };
    for key in case.keys() {
        assert!(KEYS.contains(&key.as_str()), "{name} has an unknown key `{key}`");
    }
    let playbook = std::fs::read_to_string(file).expect("the playbook");
    let mut world = match playbook.contains("postgres") {
        true => PlaybookFixture::new().with_database(),
        false => PlaybookFixture::new(),
    };
    world.place.write("playbook.yaml", playbook);
    if let Some(script) = case.get("service") {
        world.serve(&script.to_string());
    }
    for statement in list(&case, "database") {
        world.execute(statement.as_str().expect("a statement"));
    }
    let sets: Vec<String> = object(&case, "set").iter().map(|(key, value)| format!("{key}={value}")).collect();
    let words: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    for (alias, credential) in object(&case, "auth") {
        world.credentials.push((alias, credential.to_string()));
    }
    let done = world.run("playbook.yaml", &words);
    let Ok(report) = serde_json::from_str::<Value>(&done.out) else {
        return vec![format!("{name}: {}{}", done.out, done.err)];
    };
    let (code, error) = (Value::from(done.code), &report["error"]);
    expect(&format!("exit code ({error})"), &code, &Value::from(i32::from(case.contains_key("error"))));
    if let Some(expected) = case.get("error") {
        expect("error", &error["code"], expected);
    }
    if let Some(expected) = case.get("output") {
        expect("output", &report["output"], expected);
    }
    if let Some(expected) = case.get("requests") {
        expect("requests", &Value::from(world.served()), expected);
    }
    let events = world.events();
    for (kind, expected) in object(&case, "events") {
        expect(&kind, &Value::from(event_paths(&events, &kind)), &expected);
    }
    if let Some(expected) = case.get("delays") {
        let waits = events.iter().filter(|event| event["type"] == "task.retrying");
        expect("delays", &Value::from_iter(waits.map(|event| event["delay"].clone())), expected);
    }
    for (query, expected) in object(&case, "rows") {
        expect(&query, &world.rows(&query), &expected);
    }
    let shown = format!("{report}{}", Value::from(events));
    expect("a hint does not name the run", &Value::from(shown.contains(" RUN`")), &Value::from(false));
    for credential in object(&case, "auth").values() {
        for secret in ["token", "password", "value"].iter().filter_map(|name| credential[name].as_str()) {
            expect("a secret shows up", &Value::from(shown.contains(secret)), &Value::from(false));
        }
    }
    problems
}

fn list<'c>(case: &'c Map<String, Value>, key: &str) -> &'c [Value] {
    case.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn object(case: &Map<String, Value>, key: &str) -> Map<String, Value> {
    case.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}
