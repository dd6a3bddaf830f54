//! Every script of `examples/zenflow` leads its workflow to the result that the file of its name in `expected`
//! describes. A new example consists of a workflow, a script, and such a file:
//!
//! | key | |
//! |---|---|
//! | `exit` | the exit code, 0 by default |
//! | `more` | further command-line arguments |
//! | `output` | fields that the output must have; it may have more |
//! | `asked` | number of model calls by step, retries included; the coordinator counts only if it is named |
//! | `events` | type and path of events that must occur in this order; others may come between them |
//! | `fields` | fields that an event of this type must have |
//! | `lines` | the sorted lines of files in the work folder |
//! | `loops` | loop results by step: iterations, reason, `unjudged` |
//!
//! The number of calls of a coordinator depends on which messages arrive together.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use crate::world::{AgentFixture, FOLDER, ModelAccess, ModelCall, count_by_step, example};

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents/expected");

/// Script names: `name` and, if there are several, `name.variant`.
pub(crate) fn scripts() -> Vec<String> {
    names_in(FOLDER, ".script.yaml")
}

fn names_in(folder: &str, end: &str) -> Vec<String> {
    let names = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let names = names.filter_map(|name| name.to_str()?.strip_suffix(end).map(str::to_owned));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the workflow that a script is for.
pub(crate) fn workflow_of(script: &str) -> String {
    format!("{}.yaml", script.split('.').next().unwrap_or(script))
}

#[test]
fn every_workflow_has_a_script_and_every_script_an_end() {
    let workflows = names_in(FOLDER, ".yaml").into_iter().filter(|name| !name.ends_with(".script"));
    let (scripts, ends) = (scripts(), names_in(EXPECTED, ".json"));
    let without: Vec<String> = workflows.filter(|name| !scripts.contains(name)).collect();
    assert!(without.is_empty(), "without a script: {without:?}");
    assert_eq!(scripts, ends, "each script needs a file in {EXPECTED}");
}

#[test]
fn every_example_is_valid() {
    let world = AgentFixture::new(&example("hello.script.yaml"), ModelAccess::Scripted);
    for script in scripts() {
        let path = example(&workflow_of(&script));
        world.windlass(&["check", crate::world::text(&path)]).exits(0);
    }
}

#[test]
fn examples_have_the_expected_results_by_script() {
    check_all(ModelAccess::Scripted);
}

#[test]
fn examples_have_the_expected_results_over_chat_completions() {
    check_all(ModelAccess::OpenAi);
}

#[test]
fn examples_have_the_expected_results_over_messages() {
    check_all(ModelAccess::Anthropic);
}

/// Reports all failing examples, not only the first.
fn check_all(way: ModelAccess) {
    let wrong = |name: &String| std::panic::catch_unwind(|| check_one(name, way)).is_err();
    let wrong: Vec<String> = scripts().into_iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "by {way:?} these do not end as they should: {wrong:?}");
}

fn check_one(name: &str, way: ModelAccess) {
    let expected = std::fs::read_to_string(Path::new(EXPECTED).join(format!("{name}.json"))).expect("what is expected");
    let expected: Map<String, Value> =
        serde_json::from_str(&expected).unwrap_or_else(|error| panic!("{name}.json: {error}"));
    let known = ["exit", "more", "output", "model_calls", "events", "fields", "lines", "loops"];
    assert!(expected.keys().all(|key| known.contains(&key.as_str())), "{name}.json: unknown keys");
    let what = format!("{name} by {way:?}");
    let world = AgentFixture::new(&example(&format!("{name}.script.yaml")), way);
    let more = expected.get("more").and_then(Value::as_array).cloned().unwrap_or_default();
    let more: Vec<&str> = more.iter().filter_map(Value::as_str).collect();
    let done = world.run(&example(&workflow_of(name)), &[&["--id", "one", "-q"], &more[..]].concat());
    let code = expected.get("exit").and_then(Value::as_i64).unwrap_or(0);
    assert_eq!(done.code.map(i64::from), Some(code), "{what}: {}{}", done.out, done.err);
    let result = done.json();
    let parts = |key: &str| expected.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    assert_contains(&what, "output", &Value::Object(parts("output")), &result["output"]);
    for (step, expected_value) in parts("loops") {
        assert_contains(&what, &step, &expected_value, &result["steps"][&step]["loop"]);
    }
    assert_events(&what, &expected, &world.events("one"));
    assert_calls(&what, &Value::Object(parts("model_calls")), &world.model_calls());
    for (file, expected_value) in parts("lines") {
        assert_eq!(Value::from(world.lines(&file)), expected_value, "{what}: lines of {file}");
    }
    // The replay of the journal must match.
    world.windlass(&["replay", "one"]).exits(0);
}

/// Asserts that an object has at least these fields, and any other value is equal.
fn assert_contains(what: &str, location: &str, expected: &Value, found: &Value) {
    match expected {
        Value::Object(parts) => {
            for (name, expected_value) in parts {
                assert_contains(what, &format!("{location}.{name}"), expected_value, &found[name]);
            }
        }
        _ => assert_eq!(found, expected, "{what}: {location}"),
    }
}

fn assert_events(what: &str, expected: &Map<String, Value>, events: &[Value]) {
    let lines: Vec<String> = events.iter().map(line_of).collect();
    let mut rest = lines.iter();
    for expected_event in expected.get("events").and_then(Value::as_array).into_iter().flatten() {
        let expected_event = expected_event.as_str().unwrap_or_default();
        assert!(
            rest.any(|line| line == expected_event),
            "{what}: no `{expected_event}` in its place among\n{}",
            lines.join("\n")
        );
    }
    for (kind, expected_fields) in expected.get("fields").and_then(Value::as_object).into_iter().flatten() {
        let has = |event: &&Value| {
            let fields = expected_fields.as_object().into_iter().flatten();
            event["type"] == *kind && fields.into_iter().all(|(name, value)| event[name] == *value)
        };
        let alike: Vec<&Value> = events.iter().filter(|event| event["type"] == *kind).collect();
        assert!(events.iter().any(|event| has(&event)), "{what}: no {kind} with {expected_fields}, but {alike:#?}");
    }
}

fn line_of(event: &Value) -> String {
    format!("{} {}", event["type"].as_str().unwrap_or_default(), event["path"].as_str().unwrap_or_default())
}

fn assert_calls(what: &str, expected: &Value, asked: &[ModelCall]) {
    let mut found = count_by_step(asked);
    if expected.get("coordinator").is_none() {
        found.remove("coordinator");
    }
    assert_eq!(serde_json::to_value(&found).expect("numbers"), *expected, "{what}: what the model was asked");
}

/// The summary shows the last answer with its lines and without control characters, and earlier ones shortened.
#[test]
fn answers_are_shown() {
    let place = crate::support::TestDir::new();
    let steps = "steps:\n  - {id: one, instructions: 'One.'}\n  - {id: two, dependsOn: [one], instructions: 'Two.'}\n";
    place.write("two.yaml", format!("name: two\n{steps}"));
    let reply = r#"{"mocks": [{"when": {"step": "one"}, "text": "a\nb"}, {"when": {"step": "two"}, "text": "first \u001b[2J\nsecond"}]}"#;
    place.write("script.json", reply);
    let done = place.windlass(&["run", "two.yaml", "--model", "scripted:script.json", "-q"]);
    done.exits(0).has("answers\n  one: a b\n  two: \n    first  [2J\n    second");
}

/// Steps, loops and judges are drawn with their conditions as written; the agents' internal nodes are not.
#[test]
fn workflows_of_agents_are_drawn() {
    let world = AgentFixture::new(&example("hello.script.yaml"), ModelAccess::Scripted);
    let path = example("loop-repeat-until.yaml");
    let drawn = world.windlass(&["graph", crate::world::text(&path)]);
    drawn.exits(0).has("dev_cycle<br/>loop, at most 5: steps.review.content.contains('LGTM')\"").has("judge<br/>judge");
    assert!(!drawn.out.contains("choice") && !drawn.out.contains("#quot;agent"), "{}", drawn.out);
}
