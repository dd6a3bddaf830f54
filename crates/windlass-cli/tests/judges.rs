//! An iteration whose judge runs is shown, and recorded however the run ends.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support;

use support::{RunningCommand, TestDir};

const JUDGED: &str = "name: judged
agents:
  critic:
    description: Judges the work.
    resultSchema: {type: object, properties: {done: {type: boolean}, reason: {type: string}}, required: [done]}
steps:
  - id: work
    instructions: Work.
    loop: {maxIterations: 3, untilAgent: critic}
";

/// A model whose judge answers at once, or after ten minutes.
fn model(judge_delay_ms: u32) -> String {
    let verdict = |step: &str, done: bool, delay: u32| {
        format!(
            "  - {{when: {{step: '{step}'}}, delay_ms: {delay}, calls: [{{name: submit_result, arguments: {{done: {done}}}}}]}}\n"
        )
    };
    let (first, second) = (verdict("work[0].judge", false, judge_delay_ms), verdict("work[1].judge", true, 0));
    format!("mocks:\n{first}{second}  - {{text: a draft}}\n")
}

/// Starts a run; when this returns, its first iteration waits for the judge.
fn start_judged(place: &TestDir, id: &str) -> RunningCommand {
    place.write("judged.yaml", JUDGED);
    place.write("model.yaml", model(600_000));
    let mut run = place.start(&["run", "judged.yaml", "--id", id, "--model", "scripted:model.yaml"]);
    run.line();
    place.start(&["events", id, "--follow"]).line_with("work[0].judge");
    run
}

/// Returns what `iterations` shows: the number of the loop's iterations and its end, then result, verdict and reason
/// of each iteration.
fn shown(place: &TestDir, id: &str) -> (Value, Value, Vec<[Value; 3]>) {
    let loops = place.json(&["iterations", id, "--json"]);
    let page = place.json(&["iterations", id, "work", "--json"]);
    let rows = page["iterations"].as_array().expect("rows").iter();
    let rows = rows.map(|row| ["status", "verdict", "reason"].map(|name| row[name].clone())).collect();
    (loops[0]["iterations"].clone(), loops[0]["reason"].clone(), rows)
}

#[test]
fn killing_the_process_during_a_judge_loses_no_iteration() {
    let place = TestDir::new();
    let run = start_judged(&place, "k");
    let waiting = (json!(1), Value::Null, vec![[json!("succeeded"), Value::Null, Value::Null]]);
    assert_eq!(shown(&place, "k"), waiting, "while the judge runs");
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code, None, "killed");
    assert_eq!(shown(&place, "k"), waiting, "after the kill");
    place.write("model.yaml", model(0));
    place.windlass(&["resume", "k", "-q"]).exits(0);
    let expected = vec![
        [json!("succeeded"), json!({"done": false, "reason": null}), Value::Null],
        [json!("succeeded"), json!({"done": true, "reason": null}), json!("judge")],
    ];
    assert_eq!(shown(&place, "k"), (json!(2), json!("judge"), expected));
    place.windlass(&["replay", "k"]).exits(0).has("all commands as journaled");
}

#[test]
fn pausing_and_cancelling_during_a_judge_loses_no_iteration() {
    let place = TestDir::new();
    let run = start_judged(&place, "c");
    let mut events = place.start(&["events", "c", "--follow"]);
    place.windlass(&["pause", "c"]).exits(0);
    events.line_with("workflow.paused");
    let row = |reason: Value| vec![[json!("succeeded"), Value::Null, reason]];
    assert_eq!(shown(&place, "c"), (json!(1), Value::Null, row(Value::Null)), "paused");
    place.windlass(&["cancel", "c"]).exits(0);
    run.finish().exits(1).has("cancelled");
    assert_eq!(shown(&place, "c"), (json!(1), json!("cancelled"), row(json!("cancelled"))));
}
