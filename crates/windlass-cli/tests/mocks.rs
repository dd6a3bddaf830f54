//! Mock files: `--static`, imports of the formats of Logic Apps, and stubs for definitions.

use crate::support;

use serde_json::{Value, json};
use support::TestDir;

/// An address that no test may reach.
const NOWHERE: &str = "http://127.0.0.1:1";

fn loop_over_services() -> String {
    json!({
        "name": "orders",
        "actions": {
            "list": {"type": "http", "inputs": {"method": "GET", "uri": format!("{NOWHERE}/orders?state=open")}},
            "each": {
                "type": "foreach",
                "runAfter": {"list": ["Succeeded"]},
                "foreach": "@body('list')?['orders']",
                "actions": {
                    "pay": {
                        "type": "http",
                        "inputs": {
                            "method": "POST",
                            "uri": format!("{NOWHERE}/pay"),
                            "body": {"id": "@item()?['id']"},
                            "retryPolicy": {"type": "fixed", "count": 2, "interval": "PT10S"}
                        }
                    }
                }
            }
        },
        "outputs": {"paid": "@outputs('each')"}
    })
    .to_string()
}

fn run(place: &TestDir, file: &str, mocks: &str) -> (Value, support::CommandOutput) {
    let done = place.windlass(&["run", file, "--static", mocks, "--virtual-time", "--json", "-q"]);
    (serde_json::from_str(&done.out).unwrap_or_default(), done)
}

/// A step's name matches all its iterations; rules distinguish iterations, attempts and calls; nothing is sent.
#[test]
fn rules_answer_for_steps() {
    let place = TestDir::new();
    place.write("orders.json", loop_over_services());
    place.write(
        "mocks.yaml",
        r#"
mocks:
  - {when: {url: /orders, query: {state: open}}, body: {orders: [{id: 7}, {id: 8}, {id: 9}]}}
  - {when: {step: pay, iteration: 1, attempt: 1}, status: 503, body: busy}
  - {when: {step: each.pay, contains: '"id":9'}, error: {code: 402, kind: http, message: no money}}
  - {when: {step: pay}, body: {receipt: 1}}
"#,
    );
    let (report, done) = run(&place, "orders.json", "mocks.yaml");
    assert_eq!((done.code, &report["status"]), (Some(1), &json!("failed")), "{}{}", done.out, done.err);
    done.has("no money");
    let events = place.windlass(&["events", "last", "--json"]);
    let attempts: Vec<&str> = events.out.lines().filter(|line| line.contains("\"task.processed\"")).collect();
    // One call of the list, one payment, one with a failed attempt before it, and three failed attempts.
    assert!(attempts.len() >= 4, "{}", events.out);
    let iterations = place.windlass(&["iterations", "last", "each", "--json"]).json();
    let statuses: Vec<&str> =
        iterations["iterations"].as_array().expect("a list").iter().filter_map(|one| one["status"].as_str()).collect();
    assert_eq!(statuses, ["succeeded", "succeeded", "failed"], "{iterations}");
}

#[test]
fn a_strict_file_fails_what_it_does_not_know() {
    let place = TestDir::new();
    place.write("orders.json", loop_over_services());
    place.write("mocks.json", r#"{"otherwise": "fail", "mocks": [{"when": {"step": "pay"}, "body": 1}]}"#);
    let (report, done) = run(&place, "orders.json", "mocks.json");
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_eq!(report["error"]["code"], "MockUnmatched", "{report}");
    done.has("step `list`");
    // Without it, the tool is called: nothing listens there.
    place.write("mocks.json", r#"{"mocks": [{"when": {"step": "pay"}, "body": 1}]}"#);
    let (report, _) = run(&place, "orders.json", "mocks.json");
    assert_eq!(report["error"]["kind"], "connection", "{report}");
}

/// The input of the file is used if the command line has none, and its problems have positions.
#[test]
fn the_file_has_an_input_and_its_problems_positions() {
    let place = TestDir::new();
    let definition = json!({
        "name": "greet",
        "parameters": {"who": {"type": "String"}},
        "actions": {"say": {"type": "compose", "inputs": "Hello, @{parameters('who')}!"}},
        "outputs": {"text": "@outputs('say')"}
    });
    place.write("greet.json", definition.to_string());
    place.write("mocks.yaml", "input: {who: world}\nmocks: []\n");
    let (report, done) = run(&place, "greet.json", "mocks.yaml");
    assert_eq!(report["output"]["text"], "Hello, world!", "{}", done.err);
    let set = ["run", "greet.json", "--static", "mocks.yaml", "--set", "who=you", "--json", "-q"];
    assert_eq!(place.json(&set)["output"]["text"], "Hello, you!");
    place.write("mocks.yaml", "mocks:\n  - {when: {stp: a}, output: 1}\n");
    let (_, done) = run(&place, "greet.json", "mocks.yaml");
    done.exits(2).has("mocks.yaml:2:13").has("did you mean `step`?").has("docs/mocks.md");
}

/// Rules for requests and models of a service answer in the engine, too.
#[test]
fn the_file_of_a_service_works_for_steps_and_models() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loom/seed");
    let place = TestDir::new();
    for name in ["5-polling.repaired.json", "3-pages.repaired.json", "6-agent-with-tools.repaired.json"] {
        let text = std::fs::read_to_string(format!("{folder}/{name}")).expect("an example");
        place.write(name, text.replace("http://127.0.0.1:8090", NOWHERE));
    }
    let settings = std::fs::read_to_string(format!("{folder}/windlass.toml")).expect("the settings");
    place.write("windlass.toml", settings.replace("http://127.0.0.1:8090", NOWHERE));
    place.write("service.json", std::fs::read_to_string(format!("{folder}/service.json")).expect("the mocks"));
    for (file, expected) in [
        ("5-polling.repaired.json", json!({"job": {"status": "complete", "result": 42}})),
        ("3-pages.repaired.json", json!({"found": ["hull", "mast", "keel", "sail", "rope"], "pages": 3})),
    ] {
        let (report, done) = run(&place, file, "service.json");
        assert_eq!(report["output"], expected, "{file}: {}{}", done.out, done.err);
    }
}

/// The mocks of a unit test of Microsoft's answer for connectors, which nothing here can call.
#[test]
fn mocks_of_a_unit_test_are_imported() {
    let place = TestDir::new();
    let definition = json!({
        "definition": {
            "triggers": {"When_messages_are_available": {"type": "ServiceProvider", "inputs": {}}},
            "actions": {
                "Call_External_API": {"type": "Http", "inputs": {"method": "GET", "uri": format!("{NOWHERE}/status")}},
                "CompleteMessage": {
                    "type": "ServiceProvider",
                    "inputs": {
                        "parameters": {"queueName": "q", "lockToken": "@triggerBody()?['lockToken']"},
                        "serviceProviderConfiguration": {"connectionName": "serviceBus", "operationId": "completeQueueMessageV2", "serviceProviderId": "/serviceProviders/serviceBus"}
                    },
                    "runAfter": {"Call_External_API": ["Succeeded"]}
                },
                "Call_child": {
                    "type": "Workflow",
                    "inputs": {"host": {"workflow": {"id": "not-here"}}},
                    "runAfter": {"CompleteMessage": ["Succeeded"]}
                }
            },
            "outputs": {
                "status": {"type": "String", "value": "@body('Call_External_API')?['status']"},
                "code": {"type": "Int", "value": "@outputs('CompleteMessage')['statusCode']"},
                "child": {"type": "String", "value": "@body('Call_child')?['answer']"},
                "token": {"type": "String", "value": "@triggerBody()?['lockToken']"}
            }
        },
        "kind": "Stateful"
    });
    place.write("workflow.json", definition.to_string());
    let mocks = json!({
        "triggerMocks": {
            "When_messages_are_available": {"name": "When_messages_are_available", "status": "Succeeded", "outputs": {"body": {"lockToken": "78232fa8"}}}
        },
        "actionMocks": {
            "Call_External_API": {"name": "Call_External_API", "status": "Succeeded", "outputs": {"statusCode": 200, "body": {"status": "Awesome!"}}},
            "CompleteMessage": {"name": "CompleteMessage", "status": "Succeeded", "outputs": {"statusCode": "OK", "body": {}}},
            "Call_child": {"status": "Succeeded", "outputs": {"statusCode": "OK", "body": {"answer": "from the mock"}}}
        }
    });
    place.write("wf-mock.json", mocks.to_string());
    let (report, done) = run(&place, "workflow.json", "wf-mock.json");
    let expected = json!({"status": "Awesome!", "code": 200, "child": "from the mock", "token": "78232fa8"});
    assert_eq!(report["output"], expected, "{}{}", done.out, done.err);
    // A mocked failure is that of the action.
    let mut failing = mocks;
    failing["actionMocks"]["CompleteMessage"]["status"] = json!("Failed");
    failing["actionMocks"]["CompleteMessage"]["error"] = json!({"code": "BadRequest", "message": "gone"});
    place.write("wf-mock.json", failing.to_string());
    let (report, done) = run(&place, "workflow.json", "wf-mock.json");
    assert_eq!((&report["status"], done.code), (&json!("failed"), Some(1)), "{}", done.out);
    done.has("gone");
}

/// `--static` with a definition turns on its static results, also those that are disabled.
#[test]
fn static_results_are_imported() {
    let place = TestDir::new();
    let definition = json!({
        "name": "static",
        "actions": {
            "get": {
                "type": "http",
                "uri": format!("{NOWHERE}/x"),
                "runtimeConfiguration": {"staticResult": {"name": "HTTP0", "staticResultOptions": "Disabled"}}
            }
        },
        "staticResults": {"HTTP0": {"status": "Succeeded", "outputs": {"statusCode": "OK", "body": {"n": 5}}}},
        "outputs": {"n": "@body('get').n"}
    });
    place.write("static.json", definition.to_string());
    let (report, done) = run(&place, "static.json", "static.json");
    assert_eq!(report["output"], json!({"n": 5}), "{}{}", done.out, done.err);
    let done = place.windlass(&["run", "static.json", "--json", "-q", "--virtual-time"]);
    assert_eq!(done.code, Some(1), "{}", done.out);
}

/// A rule that names a step answers in place of the definition that the step calls, in every dialect. The definition
/// need not exist; one that exists is not run.
#[test]
fn rules_answer_for_child_definitions() {
    let place = TestDir::new();
    let fails = json!({"name": "exists", "actions": {"no": {"type": "terminate", "inputs": {"runStatus": "Failed"}}}});
    place.write("exists.json", fails.to_string());
    place.write("windlass.toml", "[activities.processor]\nworkflow = \"exists.json\"\n");
    let loom = |ask: Value| {
        let outputs = json!({"answer": {"type": "Object", "value": "@outputs('ask')"}});
        json!({"name": "caller", "actions": {"ask": ask}, "outputs": outputs}).to_string()
    };
    let workflow = |id: &str| loom(json!({"type": "workflow", "inputs": {"host": {"workflow": {"id": id}}}}));
    let actor = |name: &str| loom(json!({"type": "actor", "inputs": {"actorType": name, "input": {"a": 1}}}));
    let playbook = |path: &str, tool: &str| {
        let tool = tool.replace("PATH", path);
        format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: caller}}\nworkflow:\n  - step: ask\n{tool}")
    };
    let single = "    tool: {kind: playbook, path: PATH}\n";
    let labelled = "    tool:\n      - get: {kind: playbook, path: PATH}\n";
    let text = "    tool: playbook\n    path: PATH\n";
    let agents = |name: &str| format!("name: caller\nsteps:\n  - id: ask\n    x-windlass: {{call: {name}}}\n");
    place.write("mocks.yaml", "mocks: [{when: {step: ask}, output: {price: 21}}]\n");
    for called in ["exists", "missing"] {
        let processor = if called == "exists" { "processor" } else { "missing" };
        for (file, content) in [
            ("workflow.json", workflow(called)),
            ("actor.json", actor(processor)),
            ("single.yaml", playbook(called, single)),
            ("labelled.yaml", playbook(called, labelled)),
            ("text.yaml", playbook(called, text)),
            ("agents.yaml", agents(called)),
        ] {
            place.write(file, content);
            let (report, done) = run(&place, file, "mocks.yaml");
            assert_eq!(done.code, Some(0), "{file} calls {called}: {}{}", done.out, done.err);
            assert!(report.to_string().contains(r#""price":21"#), "{file} calls {called}: {report}");
        }
    }
    place.write("fail.yaml", "mocks: [{when: {step: ask}, error: {code: 7, message: closed}}]\n");
    for file in ["workflow.json", "actor.json", "single.yaml", "agents.yaml"] {
        run(&place, file, "fail.yaml").1.exits(1).has("closed");
    }
}

/// Problems of a mock file name the mock file and the range that counts.
#[test]
fn problems_of_a_mock_file_are_true() {
    let place = TestDir::new();
    place.write("orders.json", loop_over_services());
    let (_, missing) = run(&place, "orders.json", "none.yaml");
    missing.exits(3).has("could not read the mock file").has("where: none.yaml");
    place.write("bytes.yaml", b"mocks: [\xff]");
    run(&place, "orders.json", "bytes.yaml").1.exits(3).has("the mock file is not UTF-8 text");
    for (answer, message, hint) in [
        ("status: 700", "`status` is out of range: 700", "from 200 to 599"),
        ("status: 100", "`status` is out of range: 100", "from 200 to 599"),
        ("status: ok", "`status` must be a whole number, found the text", "from 200 to 599"),
        ("body: 1, delay_ms: 600001", "`delay_ms` is out of range: 600001", "from 0 to 600000"),
        ("body: 1, delay_ms: -1", "`delay_ms` is out of range: -1", "from 0 to 600000"),
        ("body: 1, delay_ms: 1.5", "`delay_ms` must be a whole number", "from 0 to 600000"),
    ] {
        place.write("mocks.yaml", format!("mocks: [{{when: {{step: pay}}, {answer}}}]\n"));
        run(&place, "orders.json", "mocks.yaml").1.exits(2).has(message).has(hint);
    }
}

/// A rule for one run does not answer for a retry of it, whichever process answers.
#[test]
fn a_rule_can_be_for_one_run() {
    let place = TestDir::new();
    place.write("orders.json", loop_over_services());
    place.write(
        "mocks.yaml",
        "mocks:
  - {when: {url: /orders}, body: {orders: [{id: 7}]}}
  - {when: {run: 'first*', step: pay}, error: {code: 402, message: declined}}
  - {when: {step: pay}, body: {receipt: 1}}
",
    );
    let words = ["run", "orders.json", "--id", "first-1", "--static", "mocks.yaml", "--virtual-time", "-q"];
    place.windlass(&words).exits(1).has("declined");
    place.windlass(&["retry", "first-1", "--static", "mocks.yaml", "-q"]).exits(0);
}

/// The stubs of a definition are valid, answer every call, and have the values that it reads.
#[test]
fn stubs_let_a_definition_run() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let place = TestDir::new();
    place.write("orders.json", loop_over_services());
    for (name, file) in [
        ("polling.json", "loom/seed/5-polling.repaired.json"),
        ("pages.json", "loom/seed/3-pages.repaired.json"),
        ("medications.yaml", "noetl/medications.yaml"),
        ("review.yaml", "zenflow/loop-repeat-until.yaml"),
    ] {
        let text = std::fs::read_to_string(format!("{examples}/{file}")).expect("an example");
        place.write(name, text.replace("http://127.0.0.1:8090", NOWHERE));
    }
    for (file, parts) in [
        ("orders.json", &[r#"step: "list""#, r#"{"orders":[{"id":1}]}"#, r#"step: "pay""#, "# http POST"][..]),
        ("polling.json", &[r#"step: "checkStatus""#, r#"{"status":"complete"}"#]),
        ("pages.json", &[r#""nextPageUrl":null"#]),
        (
            "medications.yaml",
            &[r#"step: "fetch_medications.sink""#, r#"step: "fetch_medications""#, r#""hasMore":false"#, r#""data":["#],
        ),
        ("review.yaml", &[r#"step: "dev_cycle.judge""#, r#""done":true"#, r#"text: "LGTM""#]),
    ] {
        let mocks = format!("{file}.mocks.yaml");
        let written = place.windlass(&["mock", "--from", file, &mocks]);
        written.exits(0).has("--static");
        let text = std::fs::read_to_string(place.path(&mocks)).expect("the stubs");
        parts.iter().for_each(|part| assert!(text.contains(part), "{file}: no {part} in\n{text}"));
        let again = place.windlass(&["mock", "--from", file, &mocks]);
        again.exits(3).has("never overwritten");
        assert_eq!(place.windlass(&["mock", "--from", file]).exits(0).out.trim_end(), text.trim_end());
    }
    for file in ["orders.json", "polling.json", "review.yaml"] {
        let (_, done) = run(&place, file, &format!("{file}.mocks.yaml"));
        assert_eq!(done.code, Some(0), "{file}: {}{}", done.out, done.err);
    }
}

/// The stubs of every example let it run to success, without an edit.
#[test]
fn stubs_of_all_examples_succeed() {
    let examples = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let mut tried = 0;
    for folder in ["loom", "loom/seed", "noetl", "zenflow"] {
        for entry in std::fs::read_dir(examples.join(folder)).expect("a folder of examples") {
            let file = entry.expect("an entry").path();
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let is_definition = name.ends_with(".json") || name.ends_with(".yaml");
            // The seeds are as they were found; each has a repaired form beside it.
            let has_repaired_form = file.with_extension("repaired.json").exists();
            if !is_definition || name.contains(".script.") || name == "service.json" || has_repaired_form {
                continue;
            }
            let place = TestDir::new();
            let file = file.display().to_string();
            place.windlass(&["mock", "--from", &file, "mocks.yaml"]).exits(0);
            // A file of an agent is read from the folder of the definition, which stays as it is.
            let words = ["run", &file, "--static", "mocks.yaml", "--virtual-time", "--ephemeral", "-q", "--sandbox"];
            let done = place.windlass(&words);
            let mocks = std::fs::read_to_string(place.path("mocks.yaml")).expect("the stubs");
            assert_eq!(done.code, Some(0), "{file}: {}{}\n{mocks}", done.out, done.err);
            assert!(!done.err.contains("name steps that do not exist"), "{file}: {}\n{mocks}", done.err);
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried} examples");
}

/// All shapes that the inference of each dialect knows.
#[test]
fn stubs_have_the_shapes_that_are_read() {
    let place = TestDir::new();
    let definition = json!({
        "definition": {
            "actions": {
                "Get": {"type": "ApiConnection", "inputs": {"path": "/x"}},
                "Parse": {
                    "type": "ParseJson",
                    "inputs": {
                        "content": "@body('Get')",
                        "schema": {"type": "object", "properties": {
                            "when": {"type": "string", "format": "date-time"},
                            "kind": {"enum": ["a", "b"]},
                            "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
                        }}
                    },
                    "runAfter": {"Get": ["Succeeded"]}
                },
                "Filter": {"type": "Query", "inputs": {"from": "@body('Parse')?['rows']", "where": "@equals(item()?['flag'], true)"}, "runAfter": {"Parse": ["Succeeded"]}},
                "Each": {
                    "type": "Foreach",
                    "foreach": "@body('Filter')",
                    "actions": {"Use": {"type": "Compose", "inputs": "@items('Each')?['deep']?['url']"}},
                    "runAfter": {"Filter": ["Succeeded"]}
                }
            }
        }
    });
    place.write("workflow.json", definition.to_string());
    let text = place.windlass(&["mock", "--from", "workflow.json"]).exits(0).out.clone();
    let expected = r#"output: {"statusCode":200,"body":{"rows":[{"n":1,"flag":true,"deep":{"url":"https://example.com"}}],"when":"2026-01-31T12:00:00Z","kind":"a"}}"#;
    assert!(text.contains(expected), "{text}");
    place.write(
        "flow.yaml",
        r#"
metadata: {name: flow}
workload: {url: "http://127.0.0.1:1"}
workflow:
  - step: fetch
    tool:
      - page: {kind: http, url: "{{ workload.url }}/x", eval: [{expr: "{{ outcome.result.data.state == 'ready' }}", do: continue}, {else: {do: fail}}]}
      - count: {kind: python, args: {rows: "{{ _prev.data.rows }}"}, code: "result = len(rows)"}
    next: [{step: each}]
  - step: each
    loop: {in: "{{ page.data.rows }}", iterator: row}
    tool: {kind: http, url: "{{ workload.url }}/{{ iter.row.id }}", method: POST}
"#,
    );
    let text = place.windlass(&["mock", "--from", "flow.yaml"]).exits(0).out.clone();
    for part in
        [r#"step: "fetch.page""#, r#"{"rows":[{"id":1}],"state":"ready"}"#, r#"step: "fetch.count""#, r#"step: "each""#]
    {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    place.write(
        "agents.yaml",
        r#"
name: agents
agents: {writer: {description: x, resultSchema: {type: object, properties: {title: {type: string}, good: {type: boolean}}}}}
steps:
  - {id: write, agent: writer, instructions: "Write."}
  - {id: send, dependsOn: [write], condition: "steps.write.result.title == 'Ahoy'", instructions: "Send."}
"#,
    );
    let text = place.windlass(&["mock", "--from", "agents.yaml"]).exits(0).out.clone();
    for part in [r#""arguments":{"title":"Ahoy","good":true}"#, r#"text: "The reply of send.""#] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    place.write("none.json", r#"{"a": 1}"#);
    place.windlass(&["mock", "--from", "none.json"]).exits(2).has("WND-0001");
}

/// Tools of agents are mocked by their own names.
#[test]
fn tools_of_agents_are_mocked() {
    let place = TestDir::new();
    place.write("flow.yaml", "name: flow\nsteps: [{id: work, instructions: 'List.'}]\n");
    place.write(
        "mocks.yaml",
        r#"
mocks:
  - when: {tool: bash, contains: "rm -rf"}
    output: it was not run
  - when: {step: work}
    answers:
      - calls: [{name: bash, arguments: {command: "rm -rf /"}}]
      - text: done
"#,
    );
    let (report, done) = run(&place, "flow.yaml", "mocks.yaml");
    assert_eq!(report["output"]["steps"]["work"]["content"], "done", "{}{}", done.out, done.err);
    place.windlass(&["events", "last"]).has("it was not run");
}

#[test]
fn the_schema_is_printed() {
    let place = TestDir::new();
    let schema = place.windlass(&["schema", "mocks"]).exits(0).json();
    assert_eq!(schema["required"], json!(["mocks"]));
    assert!(schema["$defs"]["condition"]["properties"]["iteration"].is_object());
}

/// A rule that names no step is reported, with the step that was probably meant.
#[test]
fn a_misspelt_step_of_a_rule_is_reported() {
    let place = TestDir::new();
    place.write("orders.json", loop_over_services());
    place.write("mocks.yaml", "otherwise: fail\nmocks: [{when: {step: listt}, body: {orders: []}}]\n");
    let (_, done) = run(&place, "orders.json", "mocks.yaml");
    done.exits(1).has("warning: rules of mocks.yaml name steps that do not exist: `listt` (did you mean `list`?)");
    done.has("no rule of the mock file matches step `list`").has("mocks.yaml is for step `listt`");
    place.write("windlass.toml", "[dev]\nmocks = \"mocks.yaml\"\n");
    place.windlass(&["check", "orders.json"]).exits(0).has("`listt` (did you mean `list`?)");
    // `check` does not see the other definitions of the folder.
    place.write("mocks.yaml", "mocks: [{when: {step: other}, body: 1}, {when: {step: each.pay}, body: 1}]\n");
    assert!(!place.windlass(&["check", "orders.json"]).err.contains("other"));
    let mut dev = place.start(&["dev", "--port", "0", "--json"]);
    dev.line();
    dev.signal(rustix::process::Signal::INT);
    let ended = dev.finish();
    assert_eq!(ended.err.matches("name steps that do not exist: `other`").count(), 1, "{}", ended.err);
}

/// The reason of a failed iteration is shown in full, since that is what was asked for.
#[test]
fn reasons_of_failed_iterations_are_not_cut() {
    let place = TestDir::new();
    place.write("orders.json", loop_over_services());
    let reason = format!("{}and this is why", "the service is down ".repeat(12));
    let mocks = json!({"mocks": [
        {"when": {"step": "list"}, "body": {"orders": [{"id": 1}, {"id": 2}, {"id": 3}]}},
        {"when": {"step": "pay"}, "error": {"code": "Down", "kind": "tool", "message": reason}},
    ]});
    place.write("mocks.json", mocks.to_string());
    run(&place, "orders.json", "mocks.json");
    let failed = place.windlass(&["iterations", "last", "each", "--failed", "--limit", "2"]);
    failed.exits(0).has("and this is why").has(" each --from 2 --limit 2 --failed");
    assert!(!place.windlass(&["iterations", "last", "each"]).exits(0).out.contains("and this is why"));
}
