//! The history of a run: events, iterations, replay, listings.

use crate::support;

use serde_json::Value;
use support::{TestDir, counting};

fn parse_events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_follower_sees_every_event_once() {
    let place = TestDir::new();
    place.write("flow.json", counting(30, "PT0.01S"));
    let mut run = place.start(&["run", "flow.json", "--id", "e1"]);
    run.line();
    let followed = place.start(&["events", "e1", "--follow", "--json"]).finish();
    run.finish().exits(0);
    let followed = parse_events(&followed.exits(0).out);
    let numbers: Vec<u64> = followed.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=followed.len() as u64).collect::<Vec<_>>());
    assert_eq!(followed.last().map(|event| &event["type"]), Some(&"workflow.finished".into()));
    let iteration = followed.iter().find(|event| event["type"] == "loop.iteration.done").expect("an iteration");
    let keys: Vec<&String> = iteration.as_object().expect("an object").keys().take(5).collect();
    assert_eq!(keys, ["seq", "at", "type", "path", "workflowId"]);
    assert_eq!(
        (&iteration["path"], &iteration["iteration"], &iteration["loopType"]),
        (&"count[0]".into(), &0.into(), &"until".into())
    );
    // All fields of the seed's `loop:iteration`; its timestamp is `at`.
    for key in ["actionName", "loopType", "iteration", "conditionResult", "result", "duration"] {
        assert!(iteration.get(key).is_some(), "an iteration event has `{key}`");
    }
    assert_eq!((&iteration["workflowId"], &iteration["actionName"]), (&"e1".into(), &"count".into()));
    let rest = place.windlass(&["events", "e1", "--from", "50", "--json"]);
    assert_eq!(parse_events(&rest.out), followed[50..], "what came after the last one seen");
    let beyond = place.windlass(&["events", "e1", "--from", &followed.len().to_string(), "--follow"]);
    assert_eq!(beyond.exits(0).out, "");
    place.windlass(&["events", "e1"]).exits(0).has("loop.done");
}

#[test]
fn iterations_are_paged() {
    let place = TestDir::new();
    let some_fail = r#"{
  "actions": {
    "each": {
      "type": "foreach", "foreach": "@range(0, 250)",
      "actions": { "check": { "type": "compose", "inputs": "@if(equals(mod(item(), 100), 99), int('x'), item())" } }
    },
    "after": { "type": "compose", "inputs": 1, "runAfter": { "each": ["Failed"] } }
  }
}"#;
    place.write("flow.json", some_fail);
    place.windlass(&["run", "flow.json", "--id", "t1", "-q"]);
    let loops = place.json(&["iterations", "t1", "--json"]);
    assert_eq!(
        (&loops[0]["loop"], &loops[0]["iterations"], &loops[0]["failed"]),
        (&"each".into(), &250.into(), &2.into())
    );
    let (mut seen, mut from) = (Vec::new(), 0);
    loop {
        let page = place.json(&["iterations", "t1", "each", "--json", "--limit", "90", "--from", &from.to_string()]);
        seen.extend(
            page["iterations"]
                .as_array()
                .expect("iterations")
                .iter()
                .filter_map(|iteration| iteration["iteration"].as_u64()),
        );
        match page["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(seen, (0..250).collect::<Vec<_>>());
    let failed = place.json(&["iterations", "t1", "each", "--json", "--failed"]);
    let failed: Vec<&Value> =
        failed["iterations"].as_array().expect("iterations").iter().map(|iteration| &iteration["iteration"]).collect();
    assert_eq!(failed, [99, 199]);
    let page = place.json(&["iterations", "t1", "each", "--json", "--from", "199", "--limit", "1"]);
    assert_eq!(page["iterations"][0]["item"], 199, "the item of the iteration");
    place.windlass(&["iterations", "t1", "each", "--failed"]).exits(0).has("ITEM");
    place
        .windlass(&["iterations", "t1", "each", "--limit", "2"])
        .exits(0)
        .has("more: windlass iterations t1 each --from 2 --limit 2");
    place.windlass(&["iterations", "t1", "eahc"]).exits(3).has("did you mean `each`");
}

#[test]
fn a_replay_rebuilds_the_same_state() {
    let place = TestDir::new();
    place.write("flow.json", counting(12, "PT1M"));
    let mut command = place.command(&["run", "flow.json", "--virtual-time", "--id", "r1", "-q"]);
    let ran = command.env("WINDLASS_SNAPSHOT_INTERVAL", "4").output().expect("it runs");
    assert!(ran.status.success());
    let whole = place.json(&["replay", "r1", "--json"]);
    assert_eq!(whole["state"]["variables"]["n"], 12);
    assert_eq!(whole["state"]["status"], "succeeded");
    assert!(whole["snapshots_compared"].as_u64() >= Some(2), "{whole}");
    assert_eq!(whole["retained"]["from"], 0);
    let part = place.json(&["replay", "r1", "--to", "5", "--json"]);
    assert_eq!((&part["ticks"], &part["state"]["variables"]["n"]), (&5.into(), &5.into()));
    assert_ne!(part["state_hash"], whole["state_hash"]);
    place.windlass(&["replay", "r1", "--to", "999"]).exits(3).has("are retained");
}

#[test]
fn runs_are_listed_newest_first() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0.01S"));
    place.write("bad.json", r#"{ "actions": { "a": { "type": "compose", "inputs": "@int('x')" } } }"#);
    for (id, file) in [("l1", "flow.json"), ("l2", "bad.json"), ("l3", "flow.json")] {
        place.windlass(&["run", file, "--id", id]);
    }
    let ids = |words: &[&str]| -> Vec<String> {
        let rows = place.json(words);
        rows.as_array()
            .expect("an array")
            .iter()
            .map(|row| row["run"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(ids(&["list", "--json"]), ["l3", "l2", "l1"]);
    assert_eq!(ids(&["list", "--json", "--limit", "1"]), ["l3"]);
    assert_eq!(ids(&["list", "--json", "--all", "--status", "failed"]), ["l2"]);
    place.windlass(&["list"]).exits(0).has("RUN  DEFINITION  STATUS").has("l2   bad         failed").has(" ago");
    place.windlass(&["list", "--status", "faild"]).exits(3).has("did you mean `failed`");
    place.windlass(&["doctor", "--json"]).exits(0);
}

#[test]
fn a_damaged_store_is_distinguished_from_a_missing_one() {
    let place = TestDir::new();
    std::fs::create_dir(place.path(".windlass")).expect("made");
    std::fs::write(place.path(".windlass/windlass.db"), "this is no database, whatever it says".repeat(200))
        .expect("written");
    place.windlass(&["list"]).exits(3).has("error[WND-2605]: ").has("windlass.db").has("hint: ");
}

#[test]
fn a_definition_is_drawn_in_three_formats() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT0.01S"));
    let mermaid = place.windlass(&["graph", "flow.json"]);
    mermaid.exits(0).has("flowchart TD").has("subgraph").has("count<br/>until, at most 100").has("-->");
    place
        .windlass(&["graph", "flow.json", "--format", "dot"])
        .exits(0)
        .has("digraph \"counting\"")
        .has("lhead=cluster_");
    place.windlass(&["graph", "flow.json", "--format", "svg"]).exits(0).has("<svg ").has(">count</text>").has("</svg>");
}

#[test]
fn a_definition_is_drawn_for_programs() {
    let place = TestDir::new();
    place.write("flow.json", counting(3, "PT1S"));
    let graph = place.json(&["graph", "flow.json", "--json"]);
    let nodes = graph["nodes"].as_array().expect("nodes");
    let id_of = |name: &str| nodes.iter().find(|node| node["name"] == name).expect("the node")["id"].clone();
    let add = nodes.iter().find(|node| node["name"] == "add").expect("the node");
    assert_eq!((&add["kind"], &add["parent"]), (&"incrementVariable".into(), &id_of("count")));
    let edge = serde_json::json!({ "from": id_of("prepare"), "to": id_of("count"), "statuses": ["succeeded"] });
    assert_eq!(graph["edges"], serde_json::json!([edge]));
}

#[test]
fn dropped_iterations_are_reported() {
    let place = TestDir::new();
    place.write("flow.json", counting(90, "PT1S"));
    place.write("windlass.toml", "[limits]\nhistory_first_iterations = 10\nhistory_newest_iterations = 20\n");
    place.windlass(&["run", "flow.json", "--id", "d1", "-q", "--virtual-time"]).exits(0);
    let page = place.json(&["iterations", "d1", "count", "--limit", "1000", "--json"]);
    let kept = page["iterations"].as_array().expect("iterations").len() as u64;
    let gaps = page["not_retained"].as_array().expect("gaps");
    let dropped: u64 =
        gaps.iter().map(|gap| gap["to"].as_u64().unwrap_or(0) + 1 - gap["from"].as_u64().unwrap_or(0)).sum();
    assert!(dropped > 0 && kept + dropped == 90, "{page}");
    place.windlass(&["iterations", "d1", "count", "--limit", "1000"]).exits(0).has("not retained: iteration");
}
