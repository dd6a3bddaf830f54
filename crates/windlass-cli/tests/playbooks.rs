//! The messages that a first-time user of playbooks reads.

use crate::support;

use support::TestDir;

/// A step whose second task fails.
const FAILING: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: failing}
workload: {base: {a: 1, b: {c: 2}}, kind: small}
workflow:
  - step: start
    tool:
      - name: greet
        kind: noop
      - name: load
        kind: shell
        cmd: 'echo gone wrong >&2; exit 3'
";

/// A step that only reads its inputs.
const READING: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: reading}
workload: {base: {a: 1, b: {c: 2}}, kind: small}
workflow:
  - step: start
    tool:
      kind: python
      args: {base: '{{ base }}'}
      code: 'result = base'
";

/// Every iteration fails; the loop counts the failures and continues.
const COUNTING: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: counting}
workload: {ids: [a, b]}
workflow:
  - step: fetch
    tool: shell
    cmd: 'exit 1'
    loop: {collection: '{{ ids }}', element: id}
";

#[test]
fn an_error_names_its_task_and_line() {
    let place = TestDir::new();
    place.write("bad.yaml", FAILING);
    let done = place.windlass(&["run", "bad.yaml", "--id", "f1"]);
    done.exits(1).has("where: start.load, line 1");
    place.windlass(&["status", "f1"]).has("where: start.load");
    assert_eq!(place.windlass(&["status", "f1", "--json"]).json()["error"]["path"], "start.load");
    let events = place.windlass(&["events", "f1"]).out;
    let line = events.lines().find(|line| line.contains("task.processed") && line.contains("start.load"));
    assert!(line.is_some_and(|line| line.contains("error=3: ") || line.contains("gone wrong")), "{events}");
}

#[test]
fn an_ended_run_cannot_be_resumed() {
    let place = TestDir::new();
    place.write("bad.yaml", FAILING);
    place.windlass(&["run", "bad.yaml", "--id", "f1"]);
    let done = place.windlass(&["resume", "f1"]);
    done.exits(1).has("has already ended (failed)").has("start a new run").has("where: start.load");
}

#[test]
fn programs_get_problems_as_json() {
    let place = TestDir::new();
    place.write("bad.yaml", FAILING.replace("cmd:", "cmmd:"));
    let invalid = place.windlass(&["run", "bad.yaml", "--json"]);
    assert_eq!(invalid.exits(2).json()["error"]["problems"][0]["severity"], "error");
    let missing = place.windlass(&["run", "nowhere.yaml", "--json"]);
    assert_eq!(missing.exits(3).json()["error"]["where"], "nowhere.yaml");
    let checked = place.windlass(&["check", "nowhere.yaml", "--json"]);
    assert_eq!(checked.exits(3).json()[0]["code"], "WND-0002");
    place.write("good.yaml", READING);
    place.windlass(&["run", "good.yaml"]);
    let unknown = place.windlass(&["status", "unknown", "--json"]);
    assert!(unknown.exits(3).json()["error"]["message"].as_str().is_some_and(|text| text.contains("unknown")));
}

#[test]
fn dotted_inputs_reach_into_objects_and_typos_are_reported() {
    let place = TestDir::new();
    place.write("read.yaml", READING);
    let done = place.windlass(&["run", "read.yaml", "--json", "--set", "base.b.c=9", "--set", "knd=x"]);
    assert_eq!(done.exits(0).json()["steps"]["start"]["output"], serde_json::json!({"a": 1, "b": {"c": 9}}));
    assert!(done.err.contains("does not read the input `knd`") && done.err.contains("`kind`"), "{}", done.err);
    // A template reads it, declared or not.
    place.write("read.yaml", READING.replace("{{ base }}", "{{ knd }}"));
    let done = place.windlass(&["run", "read.yaml", "--set", "knd=x"]);
    assert!(!done.err.contains("does not read"), "{}", done.err);
}

#[test]
fn failed_iterations_are_reported_at_the_end() {
    let place = TestDir::new();
    place.write("count.yaml", COUNTING);
    let done = place.windlass(&["run", "count.yaml"]);
    done.exits(0).has("2 of 2 iterations, 2 failed").has("fetch: 2 of 2 iterations failed");
}

/// The credential is configured; the environment variable it needs is not set.
#[test]
fn a_variable_that_is_not_set_is_named() {
    let place = TestDir::new();
    place.write(
        "windlass.toml",
        "[auth.pg]\nhost = \"127.0.0.1\"\nuser = \"u\"\npassword = { env = \"PGPW_OF_A_TEST\" }\n",
    );
    let step = "    tool: {name: load, kind: postgres, auth: pg, command: select 1}\n";
    let head = FAILING.split("    tool:").next().unwrap_or_default();
    place.write("pg.yaml", format!("{head}{step}"));
    place.windlass(&["check", "pg.yaml"]).exits(0).has("PGPW_OF_A_TEST").has("valid, 1 warning");
    let done = place.windlass(&["run", "pg.yaml"]);
    done.exits(1).has("the credential `pg`").has("the variable PGPW_OF_A_TEST, which is not set");
    assert!(!done.out.contains("file of credentials"), "{}", done.out);
}

#[test]
fn playbook_kinds_and_tools_are_listed_separately() {
    let place = TestDir::new();
    place.windlass(&["tools"]).exits(0).has("kinds of a playbook").has("tools below them").has("workbook");
    place.windlass(&["tools", "postgres"]).exits(0).has("in a playbook").has("command");
    let noop = place.windlass(&["tools", "noop"]);
    assert!(!noop.out.contains("kinds of errors"), "{}", noop.out);
}

/// A missing child is reported together with any other problem.
#[test]
fn a_missing_child_is_reported_with_other_problems() {
    let place = TestDir::new();
    let text = "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: two}
workflow:
  - step: start
    tool: {kind: playbook, path: nowhere}
    nxt: end
";
    place.write("two.yaml", text);
    place.windlass(&["check", "two.yaml"]).exits(2).has("unknown key `nxt`").has("nowhere");
}
