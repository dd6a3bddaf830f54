//! Models of agents: scripts, configured services, prices, and logged requests.

use crate::support;

use serde_json::Value;
use support::TestDir;

const FLOW: &str = "name: talk\nsteps:\n  - {id: plan, instructions: make a plan}\n  - {id: act, dependsOn: [plan], instructions: do it}\n";

const SCRIPT: &str = r#"
mocks:
  - when: {step: plan}
    answers:
      - text: first I look
        calls: [{name: glob, arguments: {pattern: "*.none"}}]
        usage: {input_tokens: 100, output_tokens: 10}
      - {text: the plan, usage: {input_tokens: 100, output_tokens: 10}}
  - when: {step: act, contains: the plan}
    text: done
    usage: {input_tokens: 100, output_tokens: 10}
"#;

/// Returns each logged request as `step turn`.
fn logged_requests(place: &TestDir, log: &str) -> Vec<String> {
    let text = std::fs::read_to_string(place.path(log)).expect("a log");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| format!("{} {}", line["step"].as_str().unwrap_or("?"), line["turn"])).collect()
}

#[test]
fn a_script_answers_for_all_models() {
    let place = TestDir::new();
    place.write("flow.yaml", FLOW);
    place.write("model.yaml", SCRIPT);
    place.write("windlass.toml", "[prices.scripted]\ninput = 3.0\noutput = 15.0\n");
    let mut command = place.command(&["run", "flow.yaml", "--model", "scripted:model.yaml", "--yolo", "--json"]);
    let command_output =
        support::command_output(command.env("WINDLASS_SCRIPT_LOG", place.path("log")).output().expect("it runs"));
    assert_eq!(command_output.code, Some(0), "{} {}", command_output.out, command_output.err);
    let result: Value = serde_json::from_str(&command_output.out).expect("JSON");
    assert_eq!(result["output"]["usage"]["money"], 1350, "{result}");
    assert_eq!(logged_requests(&place, "log"), ["plan 1", "plan 2", "act 1"]);
    // A request without a matching rule is reported with its step.
    place.write("model.yaml", SCRIPT.replace("step: act", "step: other"));
    let done = place.windlass(&["run", "flow.yaml", "--model", "scripted:model.yaml", "--yolo"]);
    done.exits(1).has("no rule of the mock file matches step `act`, role `step`, turn 1");
}

#[test]
fn configured_services_are_called_in_their_protocol() {
    let place = TestDir::new();
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
    assert_eq!(logged_requests(&place, "log"), ["plan 1", "plan 2", "act 1", "plan 1", "plan 2", "act 1"]);
    for (settings, expected) in [
        ("[model]\nmodel = \"hous/large\"\n", "there is no model provider `hous`"),
        ("[models.house]\nprotocol = \"openai\"\n", "has no `base_url`"),
        (
            "[model]\nmodel = \"house/x\"\n[models.house]\nbase_url = \"http://h\"\nkey_env = \"NO_KEY_HERE\"\n",
            "NO_KEY_HERE is not set",
        ),
    ] {
        place.write("windlass.toml", settings);
        let done = place.windlass(&["run", "flow.yaml", "--yolo"]);
        assert_ne!(done.code, Some(0), "{settings}");
        done.has(expected);
    }
}

/// A step, and the messages about its model: an error from `run` before any call, a warning or nothing from `check`.
const MODELS: [(&str, i32, &str, &str); 7] = [
    (
        "{id: b, model: opnai/gpt-9, instructions: x}",
        2,
        "flow.yaml:5:20",
        "warning[WND-1346]: there is no model provider",
    ),
    ("{id: b, agent: two, instructions: x}", 2, "OPENAI_API_KEY is not set", "valid"),
    ("{id: b, instructions: x}", 2, "no model is named", "valid"),
    ("{id: b, model: 'scripted:bad.yaml', instructions: x}", 2, "did you mean `judge`?", "valid"),
    ("{id: b, include: part.yaml}", 2, "part.yaml:1:38", "part.yaml:1:38"),
    (
        "{id: b, model: 'scripted:model.yaml', instructions: x, loop: {maxIterations: 2, untilAgent: two}}",
        2,
        "_KEY",
        "valid",
    ),
    ("{id: b, model: 'scripted:model.yaml', instructions: x}", 0, "", "valid"),
];

#[test]
fn models_are_checked_before_a_run() {
    for (step, exit, expected, checked) in MODELS {
        let place = TestDir::new();
        let schema = "{type: object, required: [done], properties: {done: {type: boolean}}}";
        let agents = format!("agents: {{two: {{description: x, model: openai/gpt-5, resultSchema: {schema}}}}}");
        let first = "{id: a, model: 'scripted:model.yaml', instructions: x}";
        place.write("flow.yaml", format!("name: talk\n{agents}\nsteps:\n  - {first}\n  - {step}\n"));
        place.write("part.yaml", "{name: part, steps: [{id: in, model: 'unknown/x', instructions: x}]}");
        place.write("model.yaml", "mocks: [{text: done}]\n");
        place.write("bad.yaml", "mocks: [{when: {role: juge}, text: done}]\n");
        let mut command = place.command(&["run", "flow.yaml"]);
        let command = command.env("WINDLASS_SCRIPT_LOG", place.path("log")).env_remove("ZENFLOW_MODEL");
        let done = command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").output();
        support::command_output(done.expect("it runs")).exits(exit).has(expected);
        assert_eq!(place.path("log").exists(), exit == 0, "{step}: model calls");
        place.windlass(&["check", "flow.yaml"]).exits(0).has(checked);
    }
}

#[test]
fn command_line_typos_are_reported() {
    let place = TestDir::new();
    let inputs = "x-windlass: {inputs: {topic: knots}}\n";
    place.write("flow.yaml", format!("name: talk\nsteps:\n  - {{id: a, instructions: x}}\n{inputs}"));
    place.write("model.yaml", "mocks: [{text: done}]\n");
    place.write("bad.yaml", "mocks: [{txt: done}]\n");
    place.write("windlass.toml", "[mcp.calc]\ncommand = \"no-such-program\"\noptional = true\n");
    let table: [(&[&str], i32, &str); 8] = [
        (&["--model", "opnai/x"], 3, "did you mean `openai`?"),
        (&["--model", "scripted:bad.yaml"], 3, "bad.yaml:1:10"),
        (&["--set", "tpic=rope"], 0, "does not read the input `tpic`\n  hint: did you mean `topic`?"),
        (&["--allow", "bsah(git *)"], 0, "--allow bsah(git *): there is no such tool\n  hint: did you mean `bash`?"),
        (&["--deny", "clac__add"], 0, "did you mean `calc__add`?"),
        (&["--deny", "zzzzzz"], 0, "there are `bash`"),
        (&["--set", "topic=rope", "--context", "we sail"], 0, ""),
        (&["--allow", "bash", "--allow", "calc__add", "--deny", "other__*"], 0, ""),
    ];
    for (words, exit, expected) in table {
        let model: &[&str] = if words[0] == "--model" { &[] } else { &["--model", "scripted:model.yaml"] };
        let done = place.windlass(&[&["run", "flow.yaml", "-q"], model, words].concat());
        done.exits(exit).has(expected);
        assert_eq!(done.err.contains("hint"), !expected.is_empty(), "{words:?}: {}", done.err);
    }
}
