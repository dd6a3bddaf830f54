//! Secret references are opened only in the run they were made for and in its run tree.

use base64::Engine;
use serde_json::{Value, json};

use crate::forms::planted;
use crate::services::EchoService;
use crate::support::TestDir;
use crate::world::{SecretServerConfig, loom, vault};

/// Everyone who may read a run sees its references: only the run that a reference was made for, its children and runs
/// derived from it open the reference, however it gets into another run.
#[test]
fn a_reference_is_opened_only_in_its_run_tree() {
    let service = EchoService::start();
    let url = service.url();
    let place = TestDir::new();
    let server = SecretServerConfig::new(&service).start(&place);
    let post = |path: &str, body: &str| json!({ "type": "Http", "inputs": { "method": "POST", "uri": format!("{url}{path}"), "body": body } });
    let definition = |parameters: Value, actions: Value| loom(&parameters, &actions);
    let key = json!({ "key": { "type": "SecureString" } });
    let usual = json!({ "key": { "type": "SecureString", "defaultValue": vault() } });
    let text = json!({ "type": "String", "defaultValue": "" });
    let call = json!({ "type": "Workflow", "inputs": { "host": { "workflow": { "id": "child" } }, "body": { "key": "@parameters('key')" } } });
    let note = json!({ "type": "InitializeVariable", "inputs": { "variables": [{ "name": "note", "type": "string", "value": "none" }] } });
    let after = |mut action: Value, before: &str| {
        action["runAfter"] = json!({ before: ["Succeeded"] });
        action
    };
    server.register("child", &definition(key, json!({ "post": post("/refused", "@parameters('key')") })));
    server.register("parent", &definition(usual.clone(), json!({ "call": call })));
    server.register(
        "own",
        &definition(usual, json!({ "note": note, "post": after(post("/json", "@variables('note')"), "note") })),
    );
    let encodings = [
        "@concat(parameters('left'), parameters('right'))",
        "@json(parameters('escaped'))",
        "@base64ToString(parameters('coded'))",
    ];
    let actions = encodings.iter().enumerate().map(|(at, way)| (format!("way{at}"), post("/json", way)));
    let texts = json!({ "left": text, "right": text, "escaped": text, "coded": text });
    server.register("relay", &definition(texts, Value::Object(actions.collect())));
    server.register("hooked", &definition(json!({}), json!({ "post": post("/json", "@json(triggerBody()['text'])") })));

    let received = || service.take_received();
    let ended = |run: &Value| server.wait_for_end(run.as_str().expect("a run"));
    let victim = server.run_to_end("parent", &json!({ "key": vault() }));
    assert!(received().contains(planted(2)), "a child has it opened: {victim}");
    let (status, retried) = server.json(
        "POST",
        &format!("/api/v1/runs/{}/retry", victim["run"].as_str().expect("a run")),
        Some(&json!({})),
    );
    assert_eq!(status, 202, "{retried}");
    ended(&retried["run"]);
    assert!(received().contains(planted(2)), "and so has what is made from it");
    server.run_to_end("parent", &json!({}));
    assert!(received().contains(planted(2)), "a default is opened too");

    let shown = victim["input"]["key"].as_str().expect("a reference").to_owned();
    assert!(shown.starts_with("<secret:vault:token:"), "{shown}");
    let escaped = format!("\"\\u003c{}\"", &shown[1..]);
    let coded = base64::engine::general_purpose::STANDARD.encode(&shown);
    let relayed = server
        .run_to_end("relay", &json!({ "left": shown[..4], "right": shown[4..], "escaped": escaped, "coded": coded }));
    let received_text = received();
    assert!(
        received_text.matches(&shown).count() == 3 && !received_text.contains(planted(2)),
        "{received_text} {relayed}"
    );

    server.request("PUT", "/api/v1/definitions/hooked/triggers/manual", Some(&json!({ "insecure": true })));
    let (_, hooked) = server.json("POST", "/hooks/hooked/manual", Some(&json!({ "text": escaped })));
    ended(&hooked["runs"][0]);
    let received_text = received();
    assert!(received_text.contains(&shown) && !received_text.contains(planted(2)), "{received_text}");

    let own = server.run_to_end("own", &json!({ "key": vault() }));
    let restart = json!({ "from": "post", "set": { "note": own["input"]["key"] } });
    let path = format!("/api/v1/runs/{}/restart", own["run"].as_str().expect("a run"));
    let (status, restarted) = server.json("POST", &path, Some(&restart));
    assert_eq!(status, 202, "{restarted}");
    ended(&restarted["run"]);
    let received_text = received();
    assert!(received_text.contains("<secret :vault") && !received_text.contains(planted(2)), "{received_text}");

    // The same call twice is one run, also with a secret.
    let body = json!({ "definition": "own", "id": "twice", "input": { "key": { "$secret": "vault" } } });
    let (_, first) = server.json("POST", "/api/v1/runs", Some(&body));
    let (status, second) = server.json("POST", "/api/v1/runs", Some(&body));
    assert_eq!((status, &first["created"], &second["created"]), (202, &json!(true), &json!(false)), "{second}");
}

/// The id of a removed run may be reused by another run, which is not part of its run tree.
#[test]
fn a_reference_is_not_opened_in_another_run_of_the_same_id() {
    let service = EchoService::start();
    let url = service.url();
    let place = TestDir::new();
    let server = SecretServerConfig::new(&service).start(&place);
    let post = |body: &str| json!({ "type": "Http", "inputs": { "method": "POST", "uri": format!("{url}/json"), "body": body } });
    let text = json!({ "type": "String", "defaultValue": "" });
    server.register(
        "own",
        &loom(&json!({ "key": { "type": "SecureString" } }), &json!({ "post": post("@parameters('key')") })),
    );
    let relay = post("@concat(parameters('left'), parameters('right'))");
    server.register("relay", &loom(&json!({ "left": text, "right": text }), &json!({ "post": relay })));
    let start = |server: &crate::support::server::TestServer, definition: &str, input: Value| {
        let body = json!({ "definition": definition, "id": "reused", "input": input, "wait_ms": 60_000 });
        let (status, run) = server.json("POST", "/api/v1/runs", Some(&body));
        assert_eq!(status, 200, "{run}");
        run
    };
    let victim = start(&server, "own", json!({ "key": vault() }));
    assert!(service.take_received().contains(planted(2)), "its own is opened");
    let shown = victim["input"]["key"].as_str().expect("a reference").to_owned();
    server.process.stop();
    place.windlass(&["clean", "--older-than", "0s"]).exits(0);

    let server = SecretServerConfig::new(&service).start(&place);
    assert_eq!(server.json("GET", "/api/v1/runs/reused", None).0, 404, "it was removed");
    let relayed = start(&server, "relay", json!({ "left": shown[..4], "right": shown[4..] }));
    let received_text = service.take_received();
    assert!(received_text.contains(&shown) && !received_text.contains(planted(2)), "{received_text} {relayed}");
}
