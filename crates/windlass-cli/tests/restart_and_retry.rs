//! `windlass restart` and `windlass retry` with the real program, including kills around every commit of the new run.

use crate::support;

use support::server::TestServer;
use support::{TestDir, counting};

/// One of five items fails until a file exists; each call appends a line.
const FAN: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fan }
workload: { names: [a, b, c, d, e] }
workflow:
  - step: start
    next: [ { step: each } ]
  - step: each
    loop: { in: "{{ names }}", iterator: name, spec: { mode: sequential } }
    tool:
      - work:
          kind: shell
          command: "echo {{ iter.name }} >> log; test -e mended || test {{ iter.name }} != c"
    next: [ { step: sum } ]
  - step: sum
    tool:
      - add:
          kind: shell
          command: "echo sum >> log"
"#;

fn calls(place: &TestDir) -> Vec<String> {
    let log = place.path("log");
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    // Removed, so that the next call sees only new lines.
    let _ = std::fs::remove_file(log);
    text.lines().map(str::to_owned).collect()
}

fn failed_run() -> TestDir {
    let place = TestDir::new();
    place.write("fan.yaml", FAN);
    place.windlass(&["run", "fan.yaml", "--id", "old", "--quiet"]).exits(1);
    assert_eq!(calls(&place), ["a", "b", "c"]);
    place
}

#[test]
fn a_retry_repeats_only_what_failed() {
    let place = failed_run();
    place.windlass(&["retry", "old", "--id", "still", "--quiet"]).exits(1);
    assert_eq!(calls(&place), ["c"], "it is still broken");
    place.write("mended", "");
    let done = place.json(&["retry", "old", "--id", "new", "--json"]);
    assert_eq!((&done["status"], &done["run"]), (&"succeeded".into(), &"new".into()), "{done}");
    assert_eq!(calls(&place), ["c", "d", "e", "sum"]);
    let again = place.json(&["retry", "old", "--id", "new", "--json"]);
    assert_eq!(again, done, "the same id twice is the same run");
    assert_eq!(calls(&place), Vec::<String>::new());
    place.windlass(&["retry", "new"]).exits(3).has("nothing has failed in the run `new`").has("windlass restart new");
    place.windlass(&["events", "new"]).exits(0).has("workflow.restarted").has("from=old");
    place.windlass(&["status", "new"]).exits(0).has("succeeded");
    place.windlass(&["replay", "new"]).exits(0);
    place.windlass(&["graph", "--run", "new"]).exits(0);
    place.windlass(&["iterations", "new", "each"]).exits(0);
}

/// A failed run says how it is repeated, ready to be pasted.
#[test]
fn failure_texts_name_retry_and_restart_with_the_run() {
    let place = failed_run();
    let status = place.windlass(&["status", "old"]);
    let command = |label: &str| {
        let line = status.out.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
        let line = line.unwrap_or_else(|| panic!("no {label:?} in {}", status.out));
        line.strip_prefix("windlass ").expect("a command").replace('\'', "")
    };
    let (retry, restart) = (command("retry what failed:"), command("restart from there:"));
    assert_eq!((retry.as_str(), restart.as_str()), ("retry old", "restart old --from each[2].work"));
    place.windlass(&["retry", "old", "--quiet"]).exits(1).has("retry what failed: windlass retry ");
    place.write("mended", "");
    for (words, id) in [(retry, "retried"), (restart, "restarted")] {
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["--id", id, "--quiet"]);
        place.windlass(&words).exits(0);
    }
}

/// The new run shows the iterations that it took over, and counts them.
#[test]
fn a_repeated_run_counts_the_iterations_that_it_inherits() {
    let place = failed_run();
    place.write("mended", "");
    place.windlass(&["retry", "old", "--id", "new", "--quiet"]).exits(0);
    let loops = place.json(&["iterations", "new", "--json"]);
    assert_eq!((&loops[0]["iterations"], &loops[0]["retained"]), (&5.into(), &5.into()), "{loops}");
    let page = place.json(&["iterations", "new", "each", "--json"]);
    let listed: Vec<_> = page["iterations"].as_array().expect("rows").iter().map(|row| row["status"].clone()).collect();
    assert_eq!(listed, ["succeeded"; 5], "{page}");
    let graph = place.json(&["graph", "--run", "new", "--json"]);
    let each = graph["nodes"].as_array().expect("nodes").iter().find(|node| node["name"] == "each");
    assert_eq!(each.expect("the loop")["run"]["iterations"]["ended"], 5, "{graph}");
}

#[test]
fn a_run_is_restarted_from_an_iteration() {
    let place = failed_run();
    place.write("mended", "");
    let done = place.json(&["restart", "old", "--from", "each[1]", "--id", "new", "--json"]);
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(calls(&place), ["b", "c", "d", "e", "sum"]);
    place.windlass(&["restart", "new", "--from", "sum.add", "--quiet"]).exits(0).has("it restarts new from `sum.add`");
    assert_eq!(calls(&place), ["sum"]);
    let slip = place.windlass(&["restart", "old", "--from", "eech[1]"]);
    slip.exits(3).has("nothing has started at `eech[1]` in the run `old`").has("windlass restart old --from 'each[1]'");
    place.windlass(&["restart", "old", "--from", "each[99]"]).exits(3).has("did you mean `each[2]`?");
    place.windlass(&["restart", "old", "--from", "each.1"]).exits(3).has("did you mean `each[1]`?");
    place
        .windlass(&["restart", "old", "--from", "each[1]", "--set", "nam=1"])
        .exits(3)
        .has("has no variable `nam` in scope");
    place.windlass(&["restart", "old", "--from", "each", "--set", "x"]).exits(3).has("--set takes name=value");
    place
        .windlass(&["restart", "old", "--from", "each", "--id", "new"])
        .exits(3)
        .has("a run `new` already exists")
        .has("or source run");
    let names = r#"names=["x", "y"]"#;
    place.windlass(&["restart", "old", "--from", "each", "--set", names, "--quiet"]).exits(0);
    assert_eq!(calls(&place), ["x", "y", "sum"]);
}

/// Killed before and after every commit, a repeated retry gets the same run; successful calls are not repeated.
#[test]
fn a_retry_survives_kills() {
    for moment in ["before", "after"] {
        for number in 1.. {
            let place = failed_run();
            place.write("mended", "");
            let at = format!("{moment}:{number}");
            let killed = place.windlass(&["retry", "old", "--id", "new", "--quiet", "--crash-at", &at]);
            let done = place.json(&["retry", "old", "--id", "new", "--json"]);
            assert_eq!(done["status"], "succeeded", "{at}: {done}");
            let mut called = calls(&place);
            called.dedup();
            assert_eq!(called, ["c", "d", "e", "sum"], "{at}");
            if killed.code == Some(0) {
                assert!(number > 3, "{at}: there are commits to be killed at");
                break;
            }
        }
    }
}

/// The script lacks a reply for one of three services at first. Conversations that succeeded are not repeated.
#[test]
fn successful_agents_are_not_called_again() {
    let place = TestDir::new();
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/zenflow");
    let read = |name: &str| std::fs::read_to_string(examples.join(name)).expect("an example");
    let script = read("loop-foreach.script.yaml");
    place.write("flow.yaml", read("loop-foreach.yaml"));
    place.write("script.yaml", script.replace("deploy_each[1].deploy", "unknown"));
    let model = "scripted:script.yaml";
    place.windlass(&["run", "flow.yaml", "--model", model, "--yolo", "--id", "old", "--quiet"]).exits(1);
    place.write("script.yaml", script);
    let done = place.json(&["retry", "old", "--id", "new", "--yolo", "--json"]);
    assert_eq!(done["status"], "succeeded", "{done}");
    let deployed = std::fs::read_to_string(place.path("deployed.txt")).expect("what was deployed");
    let mut deployed: Vec<&str> = deployed.lines().collect();
    assert_eq!(deployed.pop(), Some("deployed billing"), "it alone comes later");
    deployed.sort_unstable();
    assert_eq!(deployed, ["deployed auth", "deployed search"]);
}

/// A run of a definition that was registered over the API gets the permissions of a user at a terminal only with
/// `--trusted`.
#[test]
fn a_run_of_a_server_keeps_its_rules() {
    let place = TestDir::new();
    let server = TestServer::start(&place, &[], &[]);
    server.register("fan", FAN);
    // The server has no shell, so the job waits for a worker.
    let run = server.start_run("fan", &serde_json::json!({}));
    let mut events = place.start(&["events", &run, "--follow"]);
    events.line_with("task.started");
    let restart = ["restart", &run, "--from", "each", "--id", "again", "--quiet"];
    // The running server restarts it, under its own rules.
    let mut there = place.start(&["restart", &run, "--from", "each", "--id", "there", "--quiet"]);
    assert_eq!(there.line(), "run there");
    let mut events = place.start(&["events", "there", "--follow"]);
    events.line_with("task.started");
    there.signal(rustix::process::Signal::INT);
    there.finish().exits(130).has("the run continues on the server: windlass status there");
    drop(server);
    for (words, hint) in [
        (&["resume", &run][..], "`windlass serve` resumes it"),
        (&["retry", &run], "start `windlass serve`, then `windlass retry "),
        (&restart, "start `windlass serve`, then `windlass restart "),
    ] {
        place.windlass(words).exits(3).has("is registered with a server").has(hint).has("--trusted");
    }
    place.windlass(&["status", &run]).exits(0).has("no process runs it: windlass serve)");
    place.windlass(&["doctor"]).exits(1).has("hint: windlass serve\n");
    place.windlass(&["cancel", &run]).exits(0).has("it takes effect with\n  windlass serve\n");
    assert_eq!(calls(&place), Vec::<String>::new());
    place.write("mended", "");
    place.windlass(&[&restart[..], &["--trusted"]].concat()).exits(0);
    assert_eq!(calls(&place), ["a", "b", "c", "d", "e", "sum"]);
    // A run of this terminal in the same store resumes as usual.
    place.write("own.yaml", FAN.replace("name: fan", "name: own"));
    let killed = place.windlass(&["run", "own.yaml", "--id", "own", "--quiet", "--crash-at", "before:3"]);
    assert_eq!(killed.code, None, "{}", killed.err);
    place.windlass(&["resume", "own", "--quiet"]).exits(0);
}

/// A restart inside a loop continues it: the progress, the last line and `status` count from there and know its limit.
#[test]
fn a_restart_inside_a_loop_shows_where_it_continues() {
    let place = TestDir::new();
    let flow = counting(40, "PT0.02S").replace(r#""count": 100"#, r#""count": "@add(60, 0)""#);
    place.write("flow.json", flow);
    place.windlass(&["run", "flow.json", "--id", "old", "-q"]).exits(0).has("40/60 condition");
    let done = place.windlass(&["restart", "old", "--from", "count[2]", "--id", "new"]);
    done.exits(0).has("count continues at 3/60\n").has("40/60 condition");
    place.windlass(&["status", "new"]).exits(0).has("40/60 condition");
    place.windlass(&["restart", "new", "--from", "count[39]", "-q"]).exits(0).has("40/60 condition");
}
