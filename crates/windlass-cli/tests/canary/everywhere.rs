//! Uses all kinds of tools, at the server and at a worker, with every secret, and then searches all output.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use windlass_testing::test_service::RecordingProxy;

use crate::forms::{CollectedOutput, PLANTED, SecretFinder, planted};
use crate::services::{EchoService, database};
use crate::support::TestDir;
use crate::support::server::{CapturedProcess, TestServer, record_stream, wait_until, worker};
use crate::world::{SecretServerConfig, collect_files, crawl_api, crawl_streams, loom, vault};

/// Secrets that are not sent to the service: one authenticates a webhook, two belong to databases, one to a program.
const NOT_SENT: [&str; 4] = [
    "secret of a webhook",
    "password of a database",
    "password in the address of a database",
    "variable of a tool server",
];

/// Shell commands that try to leak their input: in pieces of output, in other encodings, as an error.
const LEAKING_COMMANDS: &str = "env; echo \"it is $K\"; echo \"$K\" >&2; printf %s \"$K\" | base64; \
    printf %s \"$K\" | od -An -tx1 | tr -d ' \\n'; cat /proc/self/environ PARENT | tr '\\0' ' '; exit 3";

fn authorised(service: &str, path: &str) -> Value {
    json!({ "type": "Http", "runAfter": {}, "inputs": { "method": "POST", "uri": format!("{service}{path}"),
        "headers": { "Authorization": "Bearer @{parameters('key')}", "x-plain": "@parameters('key')" },
        "body": { "inside": "@parameters('key')", "login": "@parameters('login')" } } })
}

fn secure() -> Value {
    json!({ "key": { "type": "SecureString" }, "login": { "type": "SecureObject" },
            "usual": { "type": "SecureString", "defaultValue": { "$secret": "env_api" } } })
}

/// A definition that puts a secure parameter into a header, a body and a text that a service returns as an error, and
/// that calls other tools, which get secrets from the settings.
fn tools(service: &str) -> String {
    let usual =
        json!({ "method": "GET", "uri": format!("{service}/json"), "headers": { "x-usual": "@parameters('usual')" } });
    let actions = json!({
        "echo": authorised(service, "/json"),
        "again": { "type": "Compose", "inputs": "@body('echo')", "runAfter": { "echo": ["Succeeded"] } },
        "usual": { "type": "Http", "inputs": usual },
        "refused": authorised(service, "/refused"),
        "pay": { "type": "activity", "activityName": "pay", "inputs": { "amount": 5 } },
        "ask": { "type": "ai", "inputs": { "prompt": "hello" } }
    });
    loom(&secure(), &actions)
}

/// Iterations that succeed and that fail, and a result too large to be inlined.
fn loops(service: &str) -> String {
    let actions = json!({
        "repeated": { "type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), 3)",
            "limit": { "count": 10, "timeout": "PT1H" }, "actions": { "call": authorised(service, "/json") } },
        "each": { "type": "foreach", "foreach": [1, 2], "actions": { "call": authorised(service, "/refused") } },
        "large": authorised(service, "/large")
    });
    loom(&secure(), &actions)
}

/// Asks for approval with secrets in the question.
fn approval_flow() -> String {
    let ask = json!({ "title": "Take @{parameters('key')}?", "message": "@{parameters('login')}" });
    loom(&secure(), &json!({ "ask": { "type": "approval", "inputs": ask } }))
}

/// Sends everything that a webhook delivered to a service.
fn webhook_flow(service: &str) -> String {
    let post = json!({ "method": "POST", "uri": format!("{service}/json"), "body": "@triggerOutputs()" });
    loom(&json!({}), &json!({ "post": { "type": "Http", "inputs": post } }))
}

/// A playbook of one step that has the worker's or the server's `vault` under `keychain.keys`.
fn playbook(name: &str, tool: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: {name}}}\n\
         keychain: [{{name: keys, kind: bearer, credential: vault}}]\n\
         workflow:\n  - step: start\n    tool:\n{tool}\n"
    )
}

fn http(service: &str, auth: &str) -> String {
    format!(
        "      kind: http\n      method: POST\n      url: {service}/json\n      auth: {auth}\n      \
         headers: {{x-keys: '{{{{ keychain.keys.token }}}}'}}\n      json: {{a: 1}}\n"
    )
}

/// A shell task that also reads the environment of another process.
fn shell(parent: &str) -> String {
    let commands =
        LEAKING_COMMANDS.replace("PARENT", parent).replace('"', "\\\"").replace("\\n", "\\\\n").replace("\\0", "\\\\0");
    format!("      kind: shell\n      env: {{K: '{{{{ keychain.keys.token }}}}'}}\n      cmds: \"{commands}\"\n")
}

fn python() -> &'static str {
    "      kind: python\n      args: {k: '{{ keychain.keys.token }}'}\n      code: |\n        \
     print(k)\n        print(k[:9] + k[9:])\n        raise ValueError('not with ' + k)\n"
}

const AGENTS: &str = "name: crew\nagents: {a: {description: d, prompt: x, model: house/m}}\nsteps: [{id: s, agent: a, instructions: y}]\n";

/// Starts a worker with separate credentials, behind a recorded connection.
fn start_remote_worker(
    place: &TestDir,
    service: &EchoService,
    server: &TestServer,
    token: &str,
    key: &str,
) -> (CapturedProcess, RecordingProxy) {
    place.write(
        "windlass.toml",
        format!(
            "[auth]\nvault = {{ token = {{ env = \"CANARY_FAR_VAULT\" }} }}\n\
             [activities.tally]\nurl = \"{}/json/tally\"\nheaders = {{ x-team = {{ env = \"CANARY_FAR_TEAM\" }} }}\n",
            service.url()
        ),
    );
    let wire = RecordingProxy::start(server.address.parse().expect("an address")).expect("a wire");
    let api = format!(r#"{{"type": "bearer", "token": "{}"}}"#, planted(12));
    let variables = [
        ("WINDLASS_TOKEN", token),
        ("WINDLASS_LOG", "trace"),
        ("WINDLASS_AUTH_PLANT_API", &api),
        ("CANARY_FAR_VAULT", planted(13)),
        ("CANARY_FAR_TEAM", planted(14)),
        ("WINDLASS_SEAL_KEY", key),
    ];
    let words = ["--tools", "http,http_call,shell,python,tally", "--label", "at=plant", "--name", "plant"];
    (worker(place, &wire.url(), &words, &variables), wire)
}

/// Returns the signature of a delivery, as the standard specifies it.
fn sign(secret: &str, id: &str, time: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Sends one correctly signed delivery and several wrong ones, some of which contain the secret in place of the
/// signature.
fn deliver(server: &TestServer, seen: &mut CollectedOutput) -> String {
    let (status, answer) = server.request(
        "PUT",
        "/api/v1/definitions/hooked/triggers/manual",
        Some(&json!({ "secret": "env:CANARY_HOOK" })),
    );
    assert_eq!(status, 200, "{answer}");
    seen.keep("PUT trigger", answer);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let (time, body) = (now.as_secs().to_string(), r#"{"n": 1}"#);
    let mut run = None;
    let (other, coded) = (sign("another", "d-2", &time, body), format!("v1,{}", STANDARD.encode(planted(7))));
    for (id, signature, expected) in [
        ("d-1", sign(planted(7), "d-1", &time, body), 202),
        ("d-2", other, 401),
        ("d-3", planted(7).to_owned(), 401),
        ("d-4", format!("v1,{}", planted(7)), 401),
        ("d-5", coded, 401),
    ] {
        let headers = [
            ("webhook-id", id),
            ("webhook-timestamp", time.as_str()),
            ("webhook-signature", signature.as_str()),
            ("Content-Type", "application/json"),
        ];
        let (status, answer) = server.request_with_headers("POST", "/hooks/hooked/manual", &headers, body.as_bytes());
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(status, expected, "{id}: {answer}");
        run = run.or_else(|| crate::support::server::parse_body(&answer)["runs"][0].as_str().map(str::to_owned));
        seen.keep(format!("delivery {id}"), answer);
    }
    // The secret itself is not a reference and is not echoed.
    let wrong = json!({ "secret": planted(7) });
    let (status, answer) = server.request("PUT", "/api/v1/definitions/hooked/triggers/manual", Some(&wrong));
    assert!(status == 400 || status == 422, "{status} {answer}");
    seen.keep("PUT trigger with the secret", answer);
    run.expect("the first has started a run")
}

#[test]
fn no_secret_leaves_its_tool() {
    let service = EchoService::start();
    let url = service.url();
    let passwords = Default::default();
    let (place, far) = (TestDir::new(), TestDir::new());
    let planted_in = SecretServerConfig { database: database(&passwords), ..SecretServerConfig::new(&service) };
    let server = planted_in.start(&place);
    let mut seen = CollectedOutput::default();
    let bearer = format!("Bearer {}", server.token);
    let changes = record_stream(server.send("GET", "/api/v1/runs/changes", &[("Authorization", &bearer)], b""));

    // At the server.
    server.register("tools", &tools(&url));
    server.register("loops", &loops(&url));
    server.register("asks", &approval_flow());
    server.register("hooked", &webhook_flow(&url));
    server.register("book", &playbook("book", &http(&url, "env_api")));
    server.register("base", &playbook("base", "      {kind: postgres, auth: db, query: 'select 1'}\n"));
    server.register("far", &playbook("far", "      {kind: postgres, auth: far_db, query: 'select 1'}\n"));
    server.register("shells", &playbook("shells", &shell("")));
    server.register("crew", AGENTS);
    let secrets = json!({ "key": vault(), "login": { "password": { "$secret": "env_api" } } });
    let mut runs = Vec::new();
    for name in ["tools", "loops", "book", "base", "far", "shells", "crew"] {
        let secure = matches!(name, "tools" | "loops");
        runs.push(server.run_to_end(name, if secure { &secrets } else { &Value::Null }));
    }
    let asking = server.start_run("asks", &secrets);
    wait_until("it asks", || {
        server.get("/api/v1/approvals")["items"].as_array().is_some_and(|items| !items.is_empty())
    });
    runs.push(server.wait_for_end(&deliver(&server, &mut seen)));
    assert_eq!(*passwords.lock().expect("no thread panicked"), [planted(8)], "the database was asked");
    assert!(place.path("started").exists() && place.path("called").exists(), "the program was asked: {}", runs[6]);

    // At a worker with secrets that the server does not know.
    let key =
        std::fs::read_to_string(place.path(".windlass/seal.key")).expect("there were references").trim().to_owned();
    let made = server.json("POST", "/api/v1/tokens", Some(&json!({ "name": "plant", "scopes": ["work"] }))).1;
    let token = made["token"].as_str().or(made["secret"].as_str()).expect("a token").to_owned();
    let (working, wire) = start_remote_worker(&far, &service, &server, &token, &key);
    let labels = json!({ "at": "plant" });
    server.register_for("far_tools", &loops(&url), &labels);
    server.register_for("far_book", &playbook("far_book", &http(&url, "plant_api")), &labels);
    server.register_for("far_shells", &playbook("far_shells", &shell("/proc/$PPID/environ")), &labels);
    server.register_for("far_python", &playbook("far_python", python()), &labels);
    for name in ["far_tools", "far_book", "far_shells", "far_python"] {
        let given = json!({ "key": vault(), "login": { "password": vault() } });
        let id = server.start_run(name, if name == "far_tools" { &given } else { &Value::Null });
        runs.push(server.wait_for_end(&id));
    }
    let tally = loom(&json!({}), &json!({ "tally": { "type": "activity", "activityName": "tally", "inputs": {} } }));
    server.register("tallied", &tally);
    runs.push(server.wait_for_end(&server.start_run("tallied", &json!({}))));

    // The services received and echoed the secrets: otherwise there would be nothing to find.
    let all = serde_json::to_string(&runs).expect("JSON");
    assert!(all.matches("***").count() >= 60, "{} times: {all}", all.matches("***").count());
    for (what, secret) in PLANTED.iter().filter(|(what, _)| !NOT_SENT.contains(what)) {
        assert!(service.has_received(secret), "the {what} was not used: {all}");
    }
    let by_name = |name: &str| runs.iter().find(|run| run["definition"] == name).expect("it has run").to_string();
    for (name, part) in [
        ("base", "the password *** is wrong"),
        ("far", "127.0.0.1"),
        ("shells", "it is ***"),
        ("far_shells", "it is ***"),
        ("far_python", "not with ***"),
    ] {
        assert!(by_name(name).contains(part), "{name}: {}", by_name(name));
    }

    // A literal secret is rejected where a reference is required, and is not echoed.
    let literal = json!({ "definition": "tools", "input": { "key": planted(2), "login": {} } });
    let (status, answer) = server.request("POST", "/api/v1/runs", Some(&literal));
    assert_eq!(status, 422, "{answer}");
    seen.keep("a literal secret as an input", answer);
    let leaking = tools(&url).replace(r#"{"$secret":"env_api"}"#, &format!("\"{}\"", planted(2)));
    let body = json!({ "name": "leaking", "source": leaking });
    let (status, refusal) = server.json("POST", "/api/v1/definitions", Some(&body));
    assert_eq!((status, refusal.to_string().contains("WND-1522")), (422, true), "{refusal}");

    let ids: Vec<String> = runs.iter().map(|run| run["run"].as_str().expect("an id").to_owned()).collect();
    crawl_api(&server, &mut seen);
    crawl_streams(&server, &mut seen, &ids);
    collect_files(&mut seen, &place, "while it runs");
    for id in ids.iter().chain([&asking]) {
        for words in [["status", id, "--json"], ["events", id, "--json"], ["graph", "--run", id]] {
            let done = place.windlass(&words);
            assert_ne!(done.code, Some(3), "{words:?}: {}", done.err);
            seen.keep(format!("windlass {words:?}"), done.out + &done.err);
        }
    }
    let (code, out, err) = working.stop();
    assert_eq!(code, Some(0), "{err}");
    seen.keep("stdout of the worker", out);
    seen.keep("stderr of the worker", err);
    let operator = server.token.clone();
    let (code, out, err) = server.process.stop();
    assert_eq!(code, Some(0), "{err}");
    seen.keep("stdout of the server", out);
    assert!(err.contains("\"event\":\"request answered\"") && err.contains("\"event\":\"run left memory\""), "{err}");
    seen.keep("stderr of the server", err);
    seen.keep("the wire", wire.recorded());
    seen.keep("changes", changes.lock().expect("no thread panicked").clone());
    let spans = service.spans.lock().expect("no thread panicked").clone();
    assert_eq!(!spans.is_empty(), cfg!(feature = "otel"), "traces are sent if it can");
    seen.keep("spans", spans);
    collect_files(&mut seen, &place, "after the end");
    collect_files(&mut seen, &far, "of the worker");
    seen.keep("windlass doctor", place.windlass(&["doctor", "--json"]).out);

    let finder = SecretFinder::new(&[
        ("token of the operator", &operator),
        ("token of the worker", &token),
        ("key of references", &key),
    ]);
    let allowed = [("token of the worker", "the wire"), ("key of references", "seal.key")];
    assert_eq!(seen.leaks(&finder, &allowed), Vec::<String>::new());
    assert!(seen.size() > 500_000, "only {} bytes in {:?}", seen.size(), seen.sources().collect::<Vec<_>>());
}
