//! `windlass check` reports all problems in one run, for users and for programs.

use crate::support;

use support::TestDir;

const WRONG: &str = r#"{
  "actions": {
    "first": { "type": "composse", "inputs": 1 },
    "second": {
      "type": "until",
      "condition": "@equal(variables('x'), 1)",
      "actions": { "inner": { "type": "compose", "inputs": "@body('firts')" } },
      "runAfter": { "frist": ["Succeeded"] }
    }
  }
}"#;

#[test]
fn all_problems_are_shown_with_excerpt_caret_and_nearest_name() {
    let place = TestDir::new();
    place.write("wrong.json", WRONG);
    let done = place.windlass(&["check", "wrong.json"]);
    done.exits(2);
    let expected = r#"error[WND-1101]: there is no action type `composse`
 --> wrong.json:3:24
  |
3 |     "first": { "type": "composse", "inputs": 1 },
  |                        ^^^^^^^^^^
  |
  = help: did you mean `compose`?"#;
    assert!(done.out.starts_with(expected), "{}", done.out);
    done.has("did you mean `equals`").has("did you mean `first`").has("^");
    let [.., verdict, details] = &done.out.trim_end().lines().collect::<Vec<_>>()[..] else { panic!("{}", done.out) };
    assert!(verdict.starts_with("wrong.json: "), "{}", done.out);
    assert_eq!(*details, "details: windlass explain WND-1101");
}

#[test]
fn a_special_file_is_rejected_without_waiting() {
    let place = TestDir::new();
    let done = place.windlass(&["check", "/dev/null"]);
    assert!(done.err.contains("not a regular file") && done.err.contains("`-` reads"), "{}", done.err);
}

#[test]
fn programs_get_one_array() {
    let place = TestDir::new();
    place.write("wrong.json", WRONG);
    place.write("fine.json", r#"{ "actions": { "a": { "type": "compose", "inputs": 1 } } }"#);
    let done = place.windlass(&["check", "fine.json", "wrong.json", "--json"]);
    let reports = done.exits(2).json();
    let reports = reports.as_array().expect("an array");
    assert!(reports.len() >= 3, "{reports:?}");
    let first = &reports[0];
    assert_eq!((&first["file"], &first["severity"]), (&"wrong.json".into(), &"error".into()));
    assert_eq!((&first["line"], &first["column"]), (&3.into(), &24.into()));
    assert!(first["code"].is_string() && first["message"].is_string());
    assert_eq!(place.json(&["check", "fine.json", "--json"]), serde_json::json!([]));
}

#[test]
fn warnings_do_not_fail_the_check() {
    let place = TestDir::new();
    let race = r#"{
  "actions": {
    "start": { "type": "InitializeVariable", "inputs": { "variables": [{ "name": "x", "type": "integer", "value": 0 }] } },
    "each": {
      "type": "foreach", "foreach": [1, 2],
      "actions": { "set": { "type": "SetVariable", "inputs": { "name": "x", "value": "@item()" } } },
      "runAfter": { "start": ["Succeeded"] }
    }
  }
}"#;
    place.write("race.json", race);
    place.windlass(&["check", "race.json"]).exits(0).has("warning[WND-").has("race.json: valid, 1 warning");
}

#[test]
fn unreadable_and_malformed_files_are_reported() {
    let place = TestDir::new();
    place.write("fine.json", r#"{ "actions": { "a": { "type": "compose", "inputs": 1 } } }"#);
    place.write("bytes.json", [0x7b, 0xff, 0x7d]);
    place.write("empty.json", "");
    place.write("deep.json", "[".repeat(100_000));
    place.write("large.json", vec![b' '; 2_000_000]);
    place.windlass(&["check", "fine.json", "bytes.json", "missing.json", "."]).exits(3).has("fine.json: valid");
    for file in ["empty.json", "deep.json", "large.json"] {
        place.windlass(&["check", file]).exits(2).has(file);
    }
    place.windlass(&["check"]).exits(3);
    place.windlass(&["check", "fine.json", "--dialect", "zoom"]).exits(3).has("loom");
}

/// Workflow YAML supports more than playbook YAML; the difference is reported only where it matters.
#[test]
fn workflows_with_anchors_are_recognised() {
    let place = TestDir::new();
    let flow = "name: a\nsteps:\n  - &one {id: one, instructions: Work.}\n  - {<<: *one, id: two, dependsOn: [one]}\n";
    place.write("flow.yaml", flow);
    place.windlass(&["check", "flow.yaml"]).exits(0);
    place.write("wrong.yaml", flow.replace("dependsOn: [one]", "dependsOn: [none]"));
    place.windlass(&["check", "wrong.yaml"]).exits(2).has("error[WND-1309]");
    place.write("playbook.yaml", "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: &a []\n");
    place.windlass(&["check", "playbook.yaml"]).exits(2).has("anchors");
}
