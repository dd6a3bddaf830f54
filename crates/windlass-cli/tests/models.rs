//! Models of agents: scripts, services of the settings, prices, and what was asked.

mod support;

use serde_json::Value;
use support::Place;

const FLOW: &str = "name: talk\nsteps:\n  - {id: plan, instructions: make a plan}\n  - {id: act, dependsOn: [plan], instructions: do it}\n";

const SCRIPT: &str = r#"
model:
  - when: {step: plan}
    replies:
      - text: first I look
        calls: [{name: glob, arguments: {pattern: "*.none"}}]
      - {text: the plan, usage: {inputTokens: 100, outputTokens: 10}}
  - when: {step: act, contains: the plan}
    text: done
    usage: {inputTokens: 100, outputTokens: 10}
"#;

/// Each request as `step turn`.
fn asked(place: &Place, log: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.path(log)).expect("a log");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| format!("{} {}", line["step"].as_str().unwrap_or("?"), line["turn"])).collect()
}

#[test]
fn a_script_answers_for_all_models() {
    let place = Place::new();
    place.write("flow.yaml", FLOW);
    place.write("model.yaml", SCRIPT);
    place.write("windlass.toml", "[prices.scripted]\ninput = 3.0\noutput = 15.0\n");
    let mut command = place.command(&["run", "flow.yaml", "--model", "scripted:model.yaml", "--yolo", "--json"]);
    let done = support::done(command.env("WINDLASS_SCRIPT_LOG", place.path("log")).output().expect("it runs"));
    assert_eq!(done.code, Some(0), "{} {}", done.out, done.err);
    let result: Value = serde_json::from_str(&done.out).expect("JSON");
    assert_eq!(result["output"]["usage"]["money"], 900, "{result}");
    assert_eq!(asked(&place, "log"), ["plan 1", "plan 2", "act 1"]);
    // What nobody foresaw is told with its place.
    place.write("model.yaml", SCRIPT.replace("step: act", "step: other"));
    let done = place.windlass(&["run", "flow.yaml", "--model", "scripted:model.yaml", "--yolo"]);
    done.exits(1).has("no rule of the script fits step `act`, role `step`, turn 1");
}

#[test]
fn services_of_the_settings_are_asked_in_their_protocol() {
    let place = Place::new();
    place.write("flow.yaml", FLOW);
    place.write("model.yaml", SCRIPT);
    let mut mock = place.start(&["mock", "model.yaml", "--port", "0", "--log", "log"]);
    let line = mock.line();
    let address = line.split_whitespace().last().expect("an address").to_owned();
    for protocol in ["openai", "anthropic"] {
        let settings = format!(
            "[model]\nmodel = \"house/large\"\n[models.house]\nbase_url = \"{address}/v1\"\nprotocol = \"{protocol}\"\n"
        );
        place.write("windlass.toml", settings);
        let result = place.json(&["run", "flow.yaml", "--yolo", "--json"]);
        assert_eq!(result["output"]["steps"]["act"]["content"], "done", "{result}");
    }
    assert_eq!(asked(&place, "log"), ["plan 1", "plan 2", "act 1", "plan 1", "plan 2", "act 1"]);
    for (settings, said) in [
        ("[model]\nmodel = \"hous/large\"\n", "there is no model provider `hous`"),
        ("[models.house]\nprotocol = \"openai\"\n", "says not where the service is"),
        (
            "[model]\nmodel = \"house/x\"\n[models.house]\nbase_url = \"http://h\"\nkey_env = \"NO_KEY_HERE\"\n",
            "NO_KEY_HERE is not set",
        ),
    ] {
        place.write("windlass.toml", settings);
        let done = place.windlass(&["run", "flow.yaml", "--yolo"]);
        assert_ne!(done.code, Some(0), "{settings}");
        done.has(said);
    }
}
