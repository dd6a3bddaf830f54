//! `windlass run`: results, inputs, exit codes.

use crate::support;

use std::time::{Duration, Instant};

use support::{TestDir, counting};

const FAILING: &str = r#"{
  "actions": {
    "wrong": { "type": "compose", "inputs": "@int('x')" },
    "after": { "type": "compose", "inputs": 1, "runAfter": { "wrong": ["Succeeded"] } }
  }
}"#;

const ECHO: &str = r#"{
  "parameters": { "who": { "type": "String" }, "times": { "type": "Int", "defaultValue": 1 } },
  "actions": { "say": { "type": "compose", "inputs": { "who": "@parameters('who')", "times": "@parameters('times')" } } },
  "outputs": { "said": { "type": "Object", "value": "@outputs('say')" } }
}"#;

#[test]
fn a_run_prints_the_documented_object() {
    let place = TestDir::new();
    place.write("flow.json", counting(3, "PT0.01S"));
    let done = place.windlass(&["run", "flow.json", "--json", "--id", "a1"]);
    done.exits(0);
    assert_eq!(done.err.lines().next(), Some("run a1"), "the id comes first");
    let object = done.json();
    let keys: Vec<&String> = object.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["run", "execution_id", "definition", "dialect", "status", "output", "steps"]);
    assert_eq!(object["run"], "a1");
    assert_eq!(object["definition"], "counting");
    assert_eq!(object["dialect"], "loom");
    assert_eq!(object["status"], "succeeded");
    assert_eq!(object["output"]["n"], 3);
    let looping = &object["steps"]["count"]["loop"];
    assert_eq!(
        (&looping["kind"], &looping["iterations"], &looping["reason"]),
        (&"until".into(), &3.into(), &"condition".into())
    );
}

#[test]
fn human_output_has_the_id_first_and_a_line_per_step() {
    let place = TestDir::new();
    place.write("flow.json", counting(3, "PT0.01S"));
    let done = place.windlass(&["run", "flow.json"]);
    done.exits(0).has("count    succeeded  3/100 condition").has("n: 3");
    assert!(done.out.starts_with("run 0"), "{}", done.out);
}

#[test]
fn a_failed_run_prints_reason_location_and_next_command() {
    let place = TestDir::new();
    place.write("bad.json", FAILING);
    let done = place.windlass(&["run", "bad.json", "--id", "f1"]);
    done.exits(1).has("Failed").has("where: wrong").has("next: windlass events f1").has("after  skipped");
    let object = place.windlass(&["run", "bad.json", "--json"]).exits(1).json();
    assert_eq!(object["status"], "failed");
    assert_eq!(object["error"]["path"], "wrong");
    assert!(object["error"]["code"].is_string() && object["error"]["message"].is_string());
}

#[test]
fn inputs_from_several_sources_are_merged_and_later_ones_win() {
    let place = TestDir::new();
    place.write("echo.json", ECHO);
    place.write("in.json", r#"{"who": "file", "times": 7}"#);
    let output_of = |words: &[&str]| {
        let words: Vec<&str> = ["run", "echo.json", "--json", "-q"].iter().chain(words).copied().collect();
        place.json(&words)["output"]["said"].clone()
    };
    assert_eq!(output_of(&["--input-file", "in.json"]), serde_json::json!({"who": "file", "times": 7}));
    assert_eq!(output_of(&["--input-file", "in.json", "--input", r#"{"who":"line"}"#])["who"], "line");
    assert_eq!(output_of(&["--input-file", "in.json", "--set", "who=one=two", "--set", "times=3"])["who"], "one=two");
    place.windlass(&["run", "echo.json"]).exits(3).has("`who` has no value");
    place.windlass(&["run", "echo.json", "--set", "who=x", "--set", "times=many"]).exits(3).has("integer");
    place.windlass(&["run", "echo.json", "--input", "{"]).exits(3).has("not valid JSON");
    place.windlass(&["run", "echo.json", "--input", "[1]", "--set", "a=1"]).exits(3).has("cannot be merged");
    place.windlass(&["run", "-", "--input", "-"]).exits(3).has("only once");
}

#[test]
fn a_definition_can_come_from_standard_input() {
    let place = TestDir::new();
    let file = place.write("echo.json", ECHO);
    let mut command = place.command(&["run", "-", "--set", "who=in", "--json"]);
    let output = command.stdin(std::fs::File::open(file).expect("opened")).output().expect("it runs");
    assert_eq!(support::command_output(output).json()["output"]["said"]["who"], "in");
}

#[test]
fn the_same_id_twice_is_the_same_run() {
    let place = TestDir::new();
    place.write("echo.json", ECHO);
    let first = place.json(&["run", "echo.json", "--id", "same", "--set", "who=a", "--json"]);
    let second = place.json(&["run", "echo.json", "--id", "same", "--set", "who=a", "--json"]);
    assert_eq!(first, second);
    assert_eq!(place.json(&["list", "--json"]).as_array().map(Vec::len), Some(1));
    place.windlass(&["run", "echo.json", "--id", "same", "--set", "who=b"]).exits(3).has("already exists");
    place.windlass(&["run", "echo.json", "--id", "no blanks", "--set", "who=b"]).exits(3);
    place.windlass(&["run", "echo.json", "--id", "last", "--set", "who=b"]).exits(3);
}

#[test]
fn virtual_time_skips_six_hours_of_polling() {
    let place = TestDir::new();
    place.write("poll.json", counting(72, "PT5M"));
    let began = Instant::now();
    let object = place.json(&["run", "poll.json", "--virtual-time", "--json", "--id", "v"]);
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    assert_eq!(object["output"]["n"], 72);
    let hours = place.json(&["list", "--json"])[0]["duration_ms"].as_u64().expect("a number") / 3_600_000;
    assert_eq!(hours, 5, "71 pauses of five minutes");
}

#[test]
fn an_ephemeral_run_leaves_nothing() {
    let place = TestDir::new();
    place.write("bad.json", FAILING);
    place.windlass(&["run", "bad.json", "--ephemeral"]).exits(1).has("next: run it without --ephemeral");
    place.write("flow.json", counting(2, "PT0.01S"));
    place.windlass(&["run", "flow.json", "--ephemeral", "--json"]).exits(0);
    assert!(!place.path(".windlass").exists());
    place.windlass(&["list"]).exits(3).has("there is no store").has("windlass run FILE");
}

#[test]
fn invalid_inputs_have_distinct_exit_codes() {
    let place = TestDir::new();
    place.write("broken.json", "{ \"actions\": ");
    place.write("strange.yaml", "steps:\n  - a\n");
    place.write("bytes.json", [0xff, 0xfe, 0x00]);
    place.windlass(&["run", "broken.json"]).exits(2).has("broken.json:1");
    place.windlass(&["run", "strange.yaml"]).exits(2).has("dialect").has("loom");
    place.windlass(&["run", "bytes.json"]).exits(3).has("UTF-8");
    place.windlass(&["run", "missing.json"]).exits(3).has("missing.json");
    place.windlass(&["run", "."]).exits(3).has("could not read");
    place.windlass(&["run"]).exits(3);
    place.windlass(&["rum", "x"]).exits(3).has("run");
    place.windlass(&["--help"]).exits(0).has("doctor");
    assert!(!place.path(".windlass").exists(), "nothing was run, nothing is left");
}

#[test]
fn every_example_runs_offline() {
    let place = TestDir::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loom");
    let mut count = 0;
    let entries = std::fs::read_dir(examples).expect("examples");
    // The folder of the seed's use cases has a service and separate tests.
    for path in entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
        let path = path.to_str().expect("UTF-8");
        place.windlass(&["check", path]).exits(0).has(": valid");
        let object = place.json(&["run", path, "--virtual-time", "--json"]);
        assert_eq!(object["status"], "succeeded", "{path}");
        count += 1;
    }
    assert!(count >= 6);
}

#[test]
fn outputs_that_were_not_requested_are_shortened() {
    let place = TestDir::new();
    let whole = counting(30, "PT1S");
    let without = &whole[..whole.rfind(",\n  \"outputs\"").expect("outputs")];
    place.write("flow.json", format!("{without}\n}}"));
    let done = place.windlass(&["run", "flow.json", "-q", "--virtual-time", "--id", "o1"]);
    done.exits(0)
        .has("count    succeeded  30/100 condition")
        .has("  count: {\"status\":\"completed\"")
        .has("Succeeded in 29s");
    assert!(done.out.lines().all(|line| line.chars().count() < 120), "{}", done.out);
    place.windlass(&["status", "o1"]).exits(0).has("Succeeded in 29s");
}

#[test]
fn a_computed_limit_is_shown_at_the_end() {
    let place = TestDir::new();
    let flow = counting(4, "PT1S").replace("\"count\": 100", "\"count\": \"@add(2, 5)\"");
    place.write("flow.json", flow);
    place.windlass(&["run", "flow.json", "-q", "--virtual-time"]).exits(0).has("count    succeeded  4/7 condition");
}

#[test]
fn an_action_alone_takes_variables_from_its_input() {
    let place = TestDir::new();
    let action = r#"{
  "type": "until", "condition": "@greaterOrEquals(variables('n'), parameters('most'))",
  "actions": { "add": { "type": "IncrementVariable", "inputs": { "name": "n" } } }
}"#;
    place.write("bare.json", action);
    let done = place.windlass(&["run", "bare.json", "-q", "--set", "n=1", "--set", "most=3"]);
    done.exits(0).has("until  succeeded  2/60 condition");
    assert_eq!(done.err, "", "nothing to warn of");
}

#[test]
fn a_file_that_is_too_large_is_rejected_with_the_limit() {
    let place = TestDir::new();
    place.write("large.json", format!("{}{{}}", " ".repeat(3_000_000)));
    place.windlass(&["check", "large.json"]).exits(2).has("WND-1003").has("the maximum of 1048576 bytes");
}

#[test]
fn hints_name_the_run() {
    let place = TestDir::new();
    let endless = r#"{"type": "until", "name": "wait", "condition": "@equals(1, 2)", "limit": {"count": 2},
        "actions": {"a": {"type": "compose", "inputs": 1}}}"#;
    place.write("endless.json", endless);
    let done = place.windlass(&["run", "endless.json", "--id", "q1"]);
    done.exits(1).has("hint: ").has("`windlass events q1`");
}
