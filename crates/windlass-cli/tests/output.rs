//! Output for people: previews, lists, labels.

use serde_json::{Value, json};
use windlass_syntax::SourceText;
use windlass_testing::mock::{MockFile, MockService};

use crate::support::{TestDir, counting};

fn service(routes: &Value) -> MockService {
    let source = SourceText::new("service.json", json!({"mocks": routes}).to_string());
    let script = MockFile::parse(&source)
        .unwrap_or_else(|problems| panic!("{}", problems.render(&source, windlass_syntax::Colour::Never)));
    MockService::with_observer(script, 0, |_| {}).expect("a service")
}

/// A definition that polls an address three times.
fn polling(url: &str) -> String {
    json!({
        "actions": {
            "poll": {
                "type": "until",
                "expression": "@equals(body('get')?['state'], 'ready')",
                "limit": {"count": 3},
                "actions": {"get": {"type": "http", "inputs": {"method": "GET", "uri": url}}}
            }
        }
    })
    .to_string()
}

#[test]
fn http_results_are_previewed_by_their_body() {
    let headers = json!({"x-one": "a".repeat(120), "x-two": "b".repeat(120)});
    let reply = |state: &str| json!({"headers": headers, "body": {"state": state, "n": 7}});
    let mock = service(&json!([{"when": {"url": "/job"}, "answers": [reply("busy"), reply("ready")]}]));
    let place = TestDir::new();
    place.write("poll.json", polling(&mock.url("/job")));
    let ran = place.windlass(&["run", "poll.json", "--id", "p1", "--virtual-time"]);
    ran.exits(0);
    let table = place.windlass(&["iterations", "p1", "poll"]);
    table.exits(0).has(r#""state":"busy""#).has(r#""state":"ready""#);
    place.windlass(&["iterations", "p1", "poll", "--failed"]).exits(0).has("no iteration has failed");
    place.windlass(&["iterations", "p1", "poll", "--from", "9"]).exits(0).has("no iteration from 9 on is retained");
    let events = place.windlass(&["events", "p1"]);
    events.exits(0).has(r#""state":"busy""#);
    for done in [&ran, &table, &events] {
        assert!(!done.out.contains("x-one"), "headers come before the body:\n{}", done.out);
    }
    let whole = place.json(&["iterations", "p1", "poll", "--json"]).to_string();
    assert!(whole.contains("x-two"), "programs get all of it: {whole}");
}

/// Runs five small definitions with labels: r0 to r4.
fn labelled_runs() -> TestDir {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0.01S"));
    place.write("bad.json", r#"{ "actions": { "a": { "type": "compose", "inputs": "@int('x')" } } }"#);
    for at in 0..5 {
        let (id, file) = (format!("r{at}"), if at == 3 { "bad.json" } else { "flow.json" });
        let (customer, env) =
            (format!("customer=c{}", at % 2), format!("env={}", if at < 2 { "test, eu" } else { "prod" }));
        place.windlass(&["run", file, "--id", &id, "-q", "--label", &customer, "--label", &env]);
    }
    place
}

fn listed(place: &TestDir, words: &[&str]) -> Vec<String> {
    let words: Vec<&str> = ["list", "--json"].iter().chain(words).copied().collect();
    let rows = place.json(&words);
    rows.as_array().expect("an array").iter().map(|row| row["run"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn lists_are_filtered() {
    let place = labelled_runs();
    for (words, expected) in [
        (vec!["--status", "failed"], vec!["r3"]),
        (vec!["--status", "failed,Succeeded", "--limit", "2"], vec!["r4", "r3"]),
        (vec!["--status", "running,waiting"], vec![]),
        (vec!["--definition", "bad"], vec!["r3"]),
        (vec!["--since", "2h"], vec!["r4", "r3", "r2", "r1", "r0"]),
        (vec!["--since", "2999-01-01T00:00:00Z"], vec![]),
        (vec!["--search", "R2"], vec!["r2"]),
        (vec!["--label", "customer=c0"], vec!["r4", "r2", "r0"]),
        (vec!["--label", "customer=c0", "--label", "env=prod"], vec!["r4", "r2"]),
        (vec!["--label", "env=test, eu", "--status", "succeeded"], vec!["r1", "r0"]),
        (vec!["--label", "env=eu"], vec![]),
    ] {
        assert_eq!(listed(&place, &words), expected, "{words:?}");
    }
    let row = &place.json(&["list", "--json", "--limit", "1"])[0];
    assert_eq!(row["labels"], json!({"customer": "c0", "env": "prod"}));
    assert!(row.get("ticks").is_none(), "{row}");
    place.windlass(&["list", "--since", "yesterday"]).exits(3).has("neither a duration nor a time");
    place.windlass(&["list", "--label", "customer"]).exits(3).has("NAME=VALUE");
    place.windlass(&["list", "--status", "failed,runing"]).exits(3).has("did you mean `running`");
}

#[test]
fn a_list_has_pages() {
    let place = labelled_runs();
    let first = place.windlass(&["list", "--limit", "2", "--label", "env=prod"]);
    first.exits(0).has("r4 ").has("r3 ").has("LABELS").has("customer=c0, env=prod");
    let more = first.err.lines().find_map(|line| line.strip_prefix("more: windlass ")).expect("the next page");
    assert_eq!(more, "list --label env=prod --limit 2 --before 4");
    let words: Vec<&str> = more.split(' ').collect();
    let second = place.windlass(&words);
    second.exits(0).has("r2 ");
    assert!(!second.err.contains("more:") && !second.out.contains("r3"), "{}{}", second.out, second.err);
    assert_eq!(listed(&place, &["--before", "2"]), ["r0"]);
    assert_eq!(listed(&place, &["--all"]).len(), 5);
}

#[test]
fn labels_are_shown_inherited_and_bounded() {
    let place = labelled_runs();
    place.windlass(&["status", "r3"]).exits(0).has("Labels: customer=c1, env=prod");
    assert_eq!(place.json(&["status", "r3", "--json"])["labels"]["customer"], "c1");
    place.windlass(&["retry", "r3", "--id", "again", "-q"]).exits(1);
    assert_eq!(place.json(&["status", "again", "--json"])["labels"]["customer"], "c1", "a retry inherits them");
    let bad = |label: &str, problem: &str| {
        place.windlass(&["run", "flow.json", "--id", "none", "--label", label]).exits(3).has(problem);
    };
    bad("a b=1", "cannot be the name of a label");
    bad(&format!("a={}", "x".repeat(257)), "max_label_value_chars");
    assert_eq!(listed(&place, &["--search", "none"]), [""; 0], "an invalid label starts nothing");
}

#[test]
fn definitions_label_their_runs() {
    let place = TestDir::new();
    place.write(
        "loom.json",
        r#"{
  "parameters": { "customer": { "type": "String" } },
  "actions": { "say": { "type": "compose", "inputs": 1 } },
  "x-windlass": { "labels": { "customer": "@parameters('customer')", "kind": "loom", "none": "@null" } }
}"#,
    );
    place.write(
        "noetl.yaml",
        "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: noetl}
workload: {customer: unknown, key: '{{ customer }}-7'}
workflow:
  - step: start
    tool: {kind: noop}
x-windlass:
  labels: {customer: '{{ customer }}', key: '{{ key }}', kind: noetl}
",
    );
    place.write(
        "zenflow.yaml",
        "name: zenflow
x-windlass:
  inputs: {customer: unknown}
  labels: {customer: inputs.customer, kind: \"'zenflow'\", level: 3}
steps:
  - id: say
    instructions: Say it.
",
    );
    place.write("model.yaml", "mocks: [{text: done}]\n");
    for (file, expected) in [
        ("loom.json", json!({"customer": "acme", "kind": "loom"})),
        ("noetl.yaml", json!({"customer": "acme", "key": "acme-7", "kind": "noetl"})),
        ("zenflow.yaml", json!({"customer": "acme", "kind": "zenflow", "level": "3"})),
    ] {
        let words = ["run", file, "--set", "customer=acme", "-q", "--id", file, "--model", "scripted:model.yaml"];
        let words = if file.starts_with("zen") { &words[..] } else { &words[..7] };
        place.windlass(words).exits(0);
        assert_eq!(place.json(&["status", file, "--json"])["labels"], expected, "{file}");
    }
    place.write(
        "over.json",
        r#"{ "actions": {}, "x-windlass": { "labels": { "a b": "1", "list": [1] }, "lables": {} } }"#,
    );
    let checked = place.windlass(&["check", "over.json"]);
    checked.exits(2).has("`a b` cannot be the name of a label").has("the label `list` cannot be").has("lables");
}

/// Labels see the ids of the run that they belong to, also those of its parent run.
#[test]
fn labels_contain_the_ids_of_their_run() {
    let place = TestDir::new();
    place.write(
        "child.yaml",
        "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child}
workflow:
  - step: start
    tool: {kind: noop}
x-windlass:
  labels:
    number: '{{ execution_id }}'
    run: '{{ job.uuid }}'
    parent: '{{ parent_execution_id }}'
    trace: '{{ trace_id }}'
",
    );
    place.write(
        "parent.json",
        r#"{"name": "parent", "actions": {
            "ask": {"type": "workflow", "inputs": {"host": {"workflow": {"id": "child"}}, "body": {}}}},
            "x-windlass": {"labels": {"run": "@workflow().run.name"}}}"#,
    );
    place.windlass(&["run", "parent.json", "--id", "p", "-q"]).exits(0);
    let rows = place.json(&["list", "--children", "--json"]);
    let (child, parent) = (&rows[0], &rows[1]);
    assert_eq!(parent["labels"], json!({"run": "p"}));
    let expected = json!({
        "number": child["execution_id"], "run": child["run"], "parent": parent["execution_id"], "trace": "p",
    });
    assert_eq!(child["labels"], expected);
    let listed = place.json(&[
        "list",
        "--label",
        &format!("number={}", child["execution_id"].as_str().expect("text")),
        "--children",
        "--json",
    ]);
    assert_eq!(listed[0]["run"], child["run"], "the label finds its run");
}

const PRINTING: &str = r#"apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: printing}
workflow:
  - step: start
    tool: {kind: shell, command: "echo out; echo err >&2; seq 3"}
    next: {arcs: [{step: code}]}
  - step: code
    tool:
      kind: python
      code: |
        import sys
        print("from python")
        print("a warning", file=sys.stderr)
        result = 1
"#;

#[test]
fn output_of_programs_and_code_is_stored() {
    let place = TestDir::new();
    place.write("printing.yaml", PRINTING);
    place.windlass(&["run", "printing.yaml", "--id", "p1", "-q"]).exits(0);
    let shown = place.windlass(&["logs", "p1"]);
    shown.exits(0).has(" (UTC)").has("stdout  out").has("stderr  err").has("stdout  from python");
    let json = |words: &[&str]| -> Vec<Value> {
        let words: Vec<&str> = ["logs", "p1", "--json"].iter().chain(words).copied().collect();
        let done = place.windlass(&words);
        done.exits(0).out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let all = json(&[]);
    let texts = |lines: &[Value], stream: &str| -> Vec<String> {
        let of_stream = lines.iter().filter(|line| line["stream"] == stream);
        of_stream.map(|line| line["text"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(texts(&all, "stdout"), ["out", "1", "2", "3", "from python"]);
    assert_eq!(texts(&all, "stderr"), ["err", "a warning"]);
    assert_eq!(texts(&json(&["code"]), "stdout"), ["from python"]);
    assert_eq!(json(&["--limit", "2"]).len(), 2);
    let after = all[2]["position"].to_string();
    assert_eq!(json(&["--after", &after]), all[3..], "after the last line seen");
    assert_eq!(all[0]["attempt"], 1);
    place.windlass(&["logs", "p1", "--follow"]).exits(0).has("from python");
    place.windlass(&["logs", "p1", "nowhere"]).exits(0).has("no log lines");
    let events = place.windlass(&["events", "p1", "--json"]);
    assert!(!events.out.contains("\"log\""), "log lines are no events");
}

#[test]
fn lines_beyond_the_limit_are_counted() {
    let place = TestDir::new();
    place.write("windlass.toml", "[limits]\nmax_log_attempt_bytes = 100\nmax_log_line_bytes = 20\n");
    place.write("printing.yaml", PRINTING.replace("seq 3", "seq 1 1000; printf '%040d\\\\n' 7"));
    place.windlass(&["run", "printing.yaml", "--id", "p1", "-q"]).exits(0);
    let shown = place.windlass(&["logs", "p1", "start"]);
    shown.exits(0).has("lost    ").has("lines of this attempt were not stored");
    assert!(shown.out.lines().count() < 60, "{}", shown.out);
    place.windlass(&["logs", "p1", "code"]).exits(0).has("from python");
}

/// Whatever commit a kill follows: a result that is stored has its log lines.
#[test]
fn the_lines_of_a_stored_result_survive_a_kill() {
    let mut stored = 0;
    for commit in 1..=6 {
        let place = TestDir::new();
        place.write("printing.yaml", PRINTING);
        let at = format!("after:{commit}");
        place.windlass(&["run", "printing.yaml", "--id", "p1", "-q", "--crash-at", &at]);
        let events = place.windlass(&["events", "p1", "--json"]).out;
        let logs = place.windlass(&["logs", "p1"]).out;
        for (step, lines) in [("start", ["stdout  out", "stderr  err"]), ("code", ["from python", "a warning"])] {
            let path = format!(r#""path":"{step}."#);
            if events.lines().any(|line| line.contains("\"task.processed\"") && line.contains(&path)) {
                stored += 1;
                lines.iter().for_each(|line| assert!(logs.contains(line), "{at}: no {line} in\n{logs}\n{events}"));
            }
        }
    }
    assert!(stored > 0, "no kill came after a result");
}

#[test]
fn logs_go_with_their_run() {
    let place = TestDir::new();
    place.write("printing.yaml", PRINTING);
    place.windlass(&["run", "printing.yaml", "--id", "p1", "-q"]).exits(0);
    place.windlass(&["clean", "--older-than", "0s"]).exits(0);
    place.windlass(&["logs", "p1"]).exits(3).has("there is no run");
}

#[test]
fn a_waiting_loop_says_when_it_continues() {
    let place = TestDir::new();
    place.write("flow.json", counting(5, "PT1H"));
    let mut run = place.start(&["run", "flow.json", "--id", "w1"]);
    run.line();
    place.start(&["events", "w1", "--follow"]).line_with("loop.iteration.done");
    let shown = place.windlass(&["status", "w1"]);
    shown.exits(0).has("Next: count").has("next iteration in ");
    let status = place.json(&["status", "w1", "--json"]);
    assert_eq!((&status["next_due"]["path"], &status["next_due"]["what"]), (&"count".into(), &"iteration".into()));
    assert!(status["current"][0]["due_at"].is_string(), "{status}");
    let page = place.json(&["iterations", "w1", "count", "--json"]);
    assert_eq!(page["next_iteration_at"], status["next_due"]["at"]);
    place.windlass(&["iterations", "w1", "count"]).exits(0).has("next iteration in ");
    run.signal(rustix::process::Signal::INT);
    run.finish().exits(130);
}

#[test]
fn events_have_a_line_for_each_date() {
    let place = TestDir::new();
    let definition = r#"{"actions": {"hold": {"type": "wait", "inputs": {"interval": "PT30H"}}}}"#;
    place.write("flow.json", definition);
    place.windlass(&["run", "flow.json", "--id", "d1", "-q", "--virtual-time"]).exits(0);
    let shown = place.windlass(&["events", "d1"]);
    let dates: Vec<&str> = shown.exits(0).out.lines().filter(|line| line.ends_with(" (UTC)")).collect();
    assert!((2..=3).contains(&dates.len()) && dates.iter().all(|date| date.starts_with("20")), "{dates:?}");
    let full = place.windlass(&["events", "d1", "--utc", "--limit", "2"]);
    assert_eq!(full.exits(0).out.lines().count(), 2);
    full.has("T").has("Z  ");
}

#[test]
fn iterations_show_the_verdict_of_the_judge() {
    let place = TestDir::new();
    place.write(
        "judged.yaml",
        "name: judged
agents:
  critic:
    description: Judges the work.
    resultSchema: {type: object, properties: {done: {type: boolean}, reason: {type: string}}, required: [done]}
steps:
  - id: work
    instructions: Work.
    loop: {maxIterations: 3, untilAgent: critic}
",
    );
    place.write(
        "model.yaml",
        "mocks:
  - {when: {step: 'work[1].judge'}, calls: [{name: submit_result, arguments: {done: true, reason: all tests pass}}]}
  - {when: {role: judge}, calls: [{name: submit_result, arguments: {done: false, reason: tests are missing}}]}
  - {when: {step: 'work[1]'}, text: second}
  - {text: first}
",
    );
    let ran = place.windlass(&["run", "judged.yaml", "--id", "j1", "--model", "scripted:model.yaml", "-q"]);
    ran.exits(0);
    let page = place.json(&["iterations", "j1", "work", "--json"]);
    assert_eq!(page["iterations"][0]["verdict"], json!({"done": false, "reason": "tests are missing"}));
    assert_eq!(page["iterations"][1]["verdict"], json!({"done": true, "reason": "all tests pass"}));
    let shown = place.windlass(&["iterations", "j1", "work"]);
    shown.exits(0).has("JUDGE").has("not done: tests are missing").has("done: all tests pass");
}

#[test]
fn child_runs_inherit_labels() {
    let place = TestDir::new();
    place.write(
        "child.json",
        r#"{"name": "child", "actions": {"say": {"type": "compose", "inputs": 1}},
            "x-windlass": {"labels": {"kind": "child"}}}"#,
    );
    place.write(
        "parent.json",
        r#"{"name": "parent", "actions": {
            "ask": {"type": "workflow", "inputs": {"host": {"workflow": {"id": "child"}}, "body": {}}}},
            "x-windlass": {"labels": {"kind": "parent"}}}"#,
    );
    place.windlass(&["run", "parent.json", "--id", "p", "-q", "--label", "customer=acme"]).exits(0);
    let rows = place.json(&["list", "--children", "--label", "customer=acme", "--json"]);
    let rows = rows.as_array().expect("an array");
    let labels: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["definition"], &row["labels"])).collect();
    let expected = |kind: &str| json!({"customer": "acme", "kind": kind});
    assert_eq!(labels, [(&json!("child"), &expected("child")), (&json!("parent"), &expected("parent"))]);
}

/// The number of a run finds it as its id does; an empty text finds nothing.
#[test]
fn runs_are_found_by_their_execution_id() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0S"));
    let done = place.json(&["run", "flow.json", "--id", "only", "--json"]);
    let number = done["execution_id"].as_str().expect("a decimal string").to_owned();
    assert_eq!(place.json(&["status", &number, "--json"])["run"], "only");
    place.windlass(&["status", "only"]).exits(0).has(&format!("Run: only (execution id {number})"));
    let found = place.json(&["list", "--search", &number, "--json"]);
    assert_eq!(found[0]["run"], "only", "{found}");
    place.windlass(&["list", "--search", "9999999999999999"]).exits(0).has("no runs");
    for command in ["status", "cancel", "retry"] {
        place.windlass(&[command, ""]).exits(3).has("the run's id is empty");
    }
    place.windlass(&["status", "99999999999999999999"]).exits(3).has("WND-2610");
}
