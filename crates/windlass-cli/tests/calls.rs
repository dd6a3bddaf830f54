//! Definitions of every dialect call those of the others, as files beside each other.

use crate::support;

use support::TestDir;

const LOOM: &str = r#"{
  "actions": { "price": { "type": "compose", "inputs": "@mul(triggerBody()?['pieces'], 7)" } },
  "outputs": { "price": { "type": "Int", "value": "@outputs('price')" } }
}"#;

const NOETL: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: callee-noetl}
workload: {pieces: 1}
workflow:
  - step: start
    tool: {kind: noop, result: {price: '{{ pieces * 7 }}'}}
";

const ZENFLOW: &str = "name: callee-zenflow
x-windlass: {inputs: {pieces: 1}}
steps:
  - id: price
    instructions: Say the price.
";

const SCRIPT: &str = "mocks: [{when: {step: price}, text: '21'}]\n";

fn loom(callee: &str) -> String {
    let body = r#"{ "pieces": "@triggerBody()?['pieces']" }"#;
    format!(
        r#"{{
  "actions": {{
    "ask": {{ "type": "workflow", "inputs": {{ "host": {{ "workflow": {{ "id": "{callee}" }} }}, "body": {body} }} }}
  }},
  "outputs": {{ "answer": {{ "type": "Object", "value": "@body('ask')" }} }}
}}"#
    )
}

fn noetl(callee: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: caller}}
workload: {{pieces: 1}}
workflow:
  - step: start
    tool: {{kind: playbook, path: {callee}, input: {{pieces: '{{{{ pieces }}}}'}}}}
"
    )
}

fn zenflow(callee: &str) -> String {
    format!(
        "name: caller
x-windlass: {{inputs: {{pieces: 1}}}}
steps:
  - id: ask
    x-windlass:
      call: {{definition: {callee}, input: \"{{'pieces': inputs.pieces}}\"}}
  - id: after
    dependsOn: [ask]
    condition: steps.ask.content.contains('21')
    x-windlass: {{call: callee-loom-again}}
"
    )
}

fn place() -> TestDir {
    let place = TestDir::new();
    place.write("callee-loom.json", LOOM);
    place.write("callee-loom-again.json", r#"{"actions": {"a": {"type": "compose", "inputs": 1}}}"#);
    place.write("callee-noetl.yaml", NOETL);
    place.write("callee-zenflow.yaml", ZENFLOW);
    place.write("script.yaml", SCRIPT);
    place
}

#[test]
fn each_file_dialect_calls_the_others() {
    let place = place();
    for (from, ending) in [("loom", "json"), ("noetl", "yaml"), ("zenflow", "yaml")] {
        for to in ["loom", "noetl", "zenflow"].into_iter().filter(|to| *to != from) {
            let file = format!("{from}-calls-{to}.{ending}");
            let callee = format!("callee-{to}");
            place.write(
                &file,
                if from == "loom" {
                    loom(&callee)
                } else if from == "noetl" {
                    noetl(&callee)
                } else {
                    zenflow(&callee)
                },
            );
            place.windlass(&["check", &file]).exits(0);
            let run = ["run", &file, "--set", "pieces=3", "--model", "scripted:script.yaml", "--ephemeral", "--json"];
            let done = place.windlass(&run).exits(0).json();
            assert!(done["output"].to_string().contains("21"), "{file}: {done}");
            assert_eq!(done["dialect"], from, "{file}");
        }
    }
}

#[test]
fn a_call_is_checked_where_it_is_written() {
    let place = place();
    let table = [
        ("{call: callee-lom}", "did you mean `callee-loom`?"),
        ("{call: {definitoin: callee-loom}}", "did you mean `definition`?"),
        ("{call: {input: {a: 1}}}", "`call` has no `definition`"),
        ("{call: {definition: callee-loom, input: 3}}", "an object, or an expression that gives one"),
        ("{call: {definition: callee-loom, input: inputs.x}}", "inputs"),
        ("{cal: callee-loom}", "did you mean `call`?"),
    ];
    for (written, expected) in table {
        place.write("w.yaml", format!("name: w\nsteps:\n  - id: ask\n    x-windlass: {written}\n"));
        place.windlass(&["check", "w.yaml"]).exits(2).has(expected).has("w.yaml:4:");
    }
    for (more, expected) in [
        ("instructions: x", "a step with `call` cannot have `instructions`"),
        ("loop: {maxIterations: 2}", "`call` the definition in one of them"),
        ("include: callee-zenflow.yaml", "keep one"),
    ] {
        place.write(
            "w.yaml",
            format!("name: w\nsteps:\n  - id: ask\n    x-windlass: {{call: callee-loom}}\n    {more}\n"),
        );
        place.windlass(&["check", "w.yaml"]).exits(2).has(expected);
    }
    place.write("w.yaml", "name: w\nsteps: [{id: ask, include: callee-loom.json}]\n");
    place.windlass(&["check", "w.yaml"]).exits(2).has("another dialect").has("{call: callee-loom}");
}
