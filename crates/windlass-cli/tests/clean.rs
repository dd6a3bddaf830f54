//! Removing ended runs, and how large values are shown.

use crate::support;

use support::{TestDir, counting};

const LARGE: &str = r#"
workload: {letters: 150000}
workflow:
  - step: start
    tool:
      - make: {kind: python, input: {letters: "{{ letters }}"}, code: "result = {'text': 'x' * letters}"}
      - measure: {kind: noop, result: "{{ _prev.text | length }}"}
"#;

#[test]
fn old_ended_runs_are_removed() {
    let place = TestDir::new();
    place.write("large.yaml", LARGE);
    place.write("flow.json", counting(1, "PT0.01S"));
    let done = place.json(&["run", "large.yaml", "--id", "large", "--json"]);
    assert_eq!(done["steps"]["start"]["output"], 150_000, "templates read through: {done}");
    place.json(&["run", "flow.json", "--id", "small", "--json"]);
    place.write("slow.json", counting(50, "PT1H"));
    let mut open = place.start(&["run", "slow.json", "--id", "open"]);
    assert_eq!(open.line(), "run open");

    let events = place.windlass(&["events", "large", "--json"]);
    assert!(events.out.len() < 20_000, "no event carries the body: {} bytes", events.out.len());
    events.has(r#""ref":{"store":"blobs","#).has(r#""checksum":"blake3:"#).has(r#""schema_hint":"#);

    place.windlass(&["clean", "--older-than", "soon"]).exits(3).has("is not a duration").has("30d");
    place.windlass(&["clean", "--older-than", "30d"]).exits(0).has("0 runs and 0 stored values removed");
    let would = place.json(&["clean", "--older-than", "PT0S", "--dry-run", "--json"]);
    assert_eq!((&would["runs"], &would["would_remove"][0]["run"]), (&2.into(), &"large".into()), "{would}");
    assert!(would["bytes"].as_u64() > Some(150_000), "{would}");
    place
        .windlass(&["clean", "--older-than", "0s", "--dry-run"])
        .exits(0)
        .has("large: ")
        .has("2 runs would be removed");
    assert_eq!(place.json(&["list", "--json"]).as_array().map(Vec::len), Some(3), "a look changes nothing");

    let gone = place.json(&["clean", "--older-than", "0s", "--json"]);
    assert_eq!(gone["runs"], 2, "{gone}");
    assert!(gone["blobs"].as_u64() >= Some(1) && gone["bytes"].as_u64() > Some(150_000), "{gone}");
    let left = place.json(&["list", "--json"]);
    assert_eq!((left[0]["run"].as_str(), left.as_array().map(Vec::len)), (Some("open"), Some(1)), "{left}");
    place.windlass(&["events", "large"]).exits(3);
    place.windlass(&["doctor"]).exits(0).has("no problems");
    place.windlass(&["cancel", "open"]).exits(0);
    open.finish().exits(1);
    place.windlass(&["clean", "--older-than", "0s"]).exits(0).has("1 run and ").has("freed");
}
