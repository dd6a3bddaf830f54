//! Watching and steering a run from other processes; interruptions and crashes.

use crate::support;

use rustix::process::Signal;
use support::{RunningCommand, TestDir, counting};

/// Starts a run that has ended its first iteration and now waits for an hour, and a reader of its events.
fn waiting_run(place: &TestDir, id: &str) -> (RunningCommand, RunningCommand) {
    place.write("flow.json", counting(50, "PT1H"));
    let mut run = place.start(&["run", "flow.json", "--id", id]);
    assert_eq!(run.line(), format!("run {id}"));
    let mut events = place.start(&["events", id, "--follow"]);
    events.line_with("loop.iteration.done");
    (run, events)
}

#[test]
fn status_shows_a_run_of_another_process() {
    let place = TestDir::new();
    let (run, mut events) = waiting_run(&place, "s1");
    let shown = place.windlass(&["workflow", "status", "s1"]);
    shown.exits(0).has("Workflow: counting\n").has("Status: Waiting (process ");
    shown.has("Current Action: count (until)\n  Iteration: 1/100\n");
    shown.has("  Condition: @greaterOrEquals(variables('n'), 50)\n  Duration: ").has("  Last Result: {\"add\":");
    shown.has("  count 1/100 (until) waiting").has("  prepare  succeeded");
    let object = place.json(&["status", "last", "--json"]);
    assert_eq!((&object["run"], &object["status"]), (&"s1".into(), &"waiting".into()));
    let current = &object["current"][0];
    assert_eq!((&current["name"], &current["loop"]["iteration"]), (&"count".into(), &1.into()));
    assert_eq!(object["steps"]["prepare"]["status"], "succeeded");
    place.windlass(&["doctor"]).exits(0).has("no problems");
    place.windlass(&["cancel", "s"]).exits(0).has("delivered");
    events.line_with("workflow.finished");
    run.finish().exits(1).has("Cancelled");
}

#[test]
fn pause_resume_and_cancel_come_from_anywhere() {
    let place = TestDir::new();
    let (run, mut events) = waiting_run(&place, "p1");
    place.windlass(&["pause", "p1", "--request-id", "once"]).exits(0).has("delivered");
    place.windlass(&["pause", "p1", "--request-id", "once"]).exits(0).has("made before");
    events.line_with("workflow.paused");
    let paused = place.windlass(&["status", "p1"]);
    paused.exits(0).has("Status: Paused").has("count 1/100 (until) waiting");
    assert!(!paused.out.contains("next iteration") && !paused.out.contains("Next:"), "{}", paused.out);
    assert!(place.json(&["status", "p1", "--json"]).get("next_due").is_none(), "nothing is due while it is paused");
    place.windlass(&["signal", "p1", "early"]).exits(0).has("no node waits for `early` yet; the signal is buffered");
    let early = place.json(&["signal", "p1", "early", "--json"]);
    assert_eq!((&early["delivery"], early["note"].is_string()), (&"buffered".into(), true));
    let follower = place.start(&["resume", "p1", "--json"]);
    events.line_with("workflow.resumed");
    let answer = place.json(&["cancel", "p1", "--reason", "seen enough", "--json"]);
    assert_eq!(answer["delivery"], "delivered");
    run.finish().exits(1).has("seen enough");
    let followed = follower.finish();
    followed.exits(1).has("following");
    assert_eq!(followed.json()["error"]["message"], "seen enough");
    let again = place.windlass(&["resume", "p1", "--json"]);
    assert_eq!(again.exits(1).json(), followed.json(), "an ended run gives its object again");
    place.windlass(&["cancel", "p1"]).exits(1).has("has ended already");
    place.windlass(&["signal", "p1", "go", "--data", "{}"]).exits(1).has("has ended already");
}

/// The fourth iteration runs until a file is created.
const HELD: &str = r#"
metadata: { name: held }
workflow:
  - step: count
    loop: { in: "{{ range(20) | list }}", iterator: n, spec: { mode: sequential } }
    tool:
      kind: shell
      cmds: |
        echo {{ n }} >> log; test {{ n }} -lt 3 || while ! test -e go; do sleep 0.02; done
"#;

#[test]
fn ctrl_c_leaves_a_run_that_can_be_resumed() {
    let place = TestDir::new();
    place.write("flow.yaml", HELD);
    let mut run = place.start(&["run", "flow.yaml", "--id", "i1"]);
    run.line();
    place.start(&["events", "i1", "--follow"]).line_with("count[3]");
    run.signal(Signal::INT);
    run.finish().exits(130).has("windlass resume i1");
    place.windlass(&["status", "i1"]).exits(0).has("no process runs it: windlass resume i1");
    place.windlass(&["doctor"]).exits(1).has("it is open but stuck");
    place.write("go", "");
    let object = place.json(&["resume", "i1", "--json"]);
    assert_eq!(object["status"], "succeeded", "{object}");
    assert_eq!(object["steps"]["count"]["loop"]["iterations"], 20, "each iteration exactly once");
    let log = std::fs::read_to_string(place.path("log")).expect("what was done");
    let mut done: Vec<&str> = log.lines().collect();
    done.dedup();
    assert_eq!(
        done,
        (0..20).map(|iteration| iteration.to_string()).collect::<Vec<_>>(),
        "only what was cut off is done again"
    );
    place.windlass(&["replay", "i1"]).exits(0).has("all commands as journaled");
}

#[test]
fn requests_to_an_unowned_run_are_buffered() {
    let place = TestDir::new();
    let (run, _events) = waiting_run(&place, "k1");
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None, "killed");
    place.windlass(&["doctor"]).exits(1).has("is no longer running").has("windlass resume k1");
    place.windlass(&["cancel", "k1"]).exits(0).has("buffered").has("windlass resume k1");
    place.windlass(&["resume", "k1"]).exits(1).has("cancelled by hand");
}

#[test]
fn a_buffered_pause_is_superseded_by_a_later_resume() {
    let place = TestDir::new();
    place.write("flow.json", counting(5, "PT1M"));
    let words = ["run", "flow.json", "--id", "g1", "--virtual-time", "--crash-at", "after:2"];
    assert_eq!(place.windlass(&words).code, None, "killed");
    place.windlass(&["pause", "g1"]).exits(0).has("buffered").has("so it is not running");
    assert_eq!(place.json(&["resume", "g1", "--json"])["status"], "succeeded");
}

#[test]
fn a_crash_around_any_commit_changes_nothing() {
    let place = TestDir::new();
    place.write("flow.json", counting(4, "PT1M"));
    for moment in ["before:2", "after:1", "after:2", "before:4", "after:4"] {
        let id = format!("c-{}", moment.replace(':', "-"));
        let words = ["run", "flow.json", "--id", &id, "--virtual-time", "--crash-at", moment];
        assert_eq!(place.windlass(&words).code, None, "killed at {moment}");
        let object = place.json(&["resume", &id, "--json"]);
        assert_eq!((&object["status"], &object["output"]["n"]), (&"succeeded".into(), &4.into()), "{moment}");
        place.windlass(&["replay", &id]).exits(0);
    }
    place.windlass(&["run", "flow.json", "--crash-at", "during:1"]).exits(3);
}

#[test]
fn a_run_in_another_process_is_followed_by_its_id() {
    let place = TestDir::new();
    let (run, _events) = waiting_run(&place, "same");
    let second = place.start(&["run", "flow.json", "--id", "same", "--json"]);
    place.windlass(&["cancel", "same"]).exits(0);
    run.finish().exits(1);
    second.finish().exits(1).has("cancelled");
}

#[test]
fn runs_are_found_by_id_prefix_and_typos_are_reported() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0.01S"));
    for id in ["alpha-1", "alpha-2", "beta-1"] {
        place.windlass(&["run", "flow.json", "--id", id]).exits(0);
    }
    place.windlass(&["status", "be"]).exits(0).has("Run: beta-1");
    place.windlass(&["status", "last"]).exits(0).has("Run: beta-1");
    place.windlass(&["status", "alpha"]).exits(3).has("several runs begin with").has("alpha-2");
    place.windlass(&["status", "bets-1"]).exits(3).has("did you mean `beta-1`");
    place.windlass(&["events", "nothing-like-it"]).exits(3).has("windlass list");
    place.windlass(&["signal", "beta-1", "x", "--data", "{"]).exits(3).has("not valid JSON");
}

#[test]
fn progress_continues_where_the_run_was() {
    let place = TestDir::new();
    place.write("flow.json", counting(8, "PT1M"));
    let words = ["run", "flow.json", "--id", "w1", "--virtual-time", "-q", "--crash-at", "after:4"];
    assert_eq!(place.windlass(&words).code, None, "killed");
    let object = place.json(&["status", "w1", "--json"]);
    let ended = object["current"][0]["loop"]["ended"].as_u64().expect("a number of iterations");
    assert!((1..8).contains(&ended), "{object}");
    // The position is the one that `status` shows.
    let status = place.windlass(&["status", "w1"]).exits(0).out.clone();
    let position = status.lines().find_map(|line| line.trim().strip_prefix("Iteration: ")).expect("a position");
    assert!(position.ends_with("/100"), "{status}");
    place.windlass(&["resume", "w1"]).exits(0).has(&format!("count continues at {position}\n")).has("count succeeded");
}

#[test]
fn parallel_iterations_are_counted_when_they_end() {
    let place = TestDir::new();
    place.write(
        "flow.json",
        r#"{
  "parameters": { "many": { "type": "Int", "defaultValue": 9 } },
  "actions": {
    "each": {
      "type": "foreach", "foreach": "@range(0, parameters('many'))",
      "runtimeConfiguration": { "concurrency": { "repetitions": 3 } },
      "actions": { "hold": { "type": "wait", "inputs": { "interval": { "count": "@if(less(item(), 3), 0, 3600)", "unit": "second" } } } }
    }
  }
}"#,
    );
    let mut run = place.start(&["run", "flow.json", "--id", "b1", "--set", "manny=3"]);
    run.line();
    let mut events = place.start(&["events", "b1", "--follow"]);
    events.line_with("each[5].hold");
    place.windlass(&["status", "b1"]).exits(0).has("Iteration: 3/9 (3 running)").has("[4] hold (wait) waiting");
    place.windlass(&["pause", "b1"]).exits(0);
    events.line_with("workflow.paused");
    let paused = place.windlass(&["status", "b1"]);
    paused.exits(0).has("each 3/9 (3 paused) (foreach) paused");
    assert!(!paused.out.contains("running"), "{}", paused.out);
    place.windlass(&["cancel", "b1"]).exits(0);
    let done = run.finish();
    done.exits(1)
        .has("each  cancelled  6 of 9 iterations, cancelled, 3 cut off")
        .has("does not read the input `manny`");
    done.has("did you mean `many`?");
}

/// A signal with a slip in its name is buffered, and the reply has the name that the run waits for.
#[test]
fn a_misspelt_signal_is_answered_with_the_name_that_is_waited_for() {
    let place = TestDir::new();
    place.write("flow.json", r#"{"actions": {"wait": {"type": "wait", "inputs": {"signal": {"name": "paid"}}}}}"#);
    let mut run = place.start(&["run", "flow.json", "--id", "s1"]);
    run.line();
    place.start(&["events", "s1", "--follow"]).line_with("workflow.idle");
    place.windlass(&["signal", "s1", "payd"]).exits(0).has("no node waits for `payd` yet").has("; it waits for `paid`");
    place.windlass(&["signal", "s1", "paid"]).exits(0);
    run.finish().exits(0).has("waiting for paid: windlass signal s1 paid\n");
}

/// A step that is retried shows its last error, and which of its attempts failed.
#[test]
fn status_shows_why_a_step_is_retried() {
    let place = TestDir::new();
    place.write(
        "flow.json",
        r#"{"actions": {"call": {"type": "http", "inputs": {"method": "GET", "uri": "http://127.0.0.1:1/x",
            "retryPolicy": {"type": "fixed", "count": 4, "interval": "PT1H"}}}}}"#,
    );
    place.write("mocks.yaml", "mocks: [{when: {step: call}, status: 503, body: busy}]\n");
    let mut run = place.start(&["run", "flow.json", "--id", "r1", "--static", "mocks.yaml"]);
    run.line();
    place.start(&["events", "r1", "--follow"]).line_with("task.retrying");
    let shown = place.windlass(&["status", "r1"]);
    shown.exits(0).has("retry in ").has("attempt 1 of 5 failed: ").has("503");
    run.signal(Signal::INT);
    run.finish();
}
