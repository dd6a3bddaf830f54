//! Secrets are planted wherever secrets come from, and workflows use them against a service that tells back all it was
//! told. Then they are looked for in everything that a server keeps, answers or says.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::Place;

/// What is planted, and where. Each is a text that no other text holds.
const PLANTED: [(&str, &str); 9] = [
    ("credential of the environment", "cnry-01/aK+9=zQw3x"),
    ("credential of the settings", "cnry-02/bL+8=yRe4v"),
    ("text in the settings under a telling name", "cnry-03/cM+7=xTr5u"),
    ("key of a model", "cnry-04/dN+6=wYt6s"),
    ("header of an activity", "cnry-05/eP+5=vUy7r"),
    ("header of a tool server", "cnry-06/fQ+4=uIu8q"),
    ("secret of a webhook", "cnry-07/gR+3=tOi9p"),
    ("password of a database", "cnry-08/hS+2=sPo1n"),
    ("key of an agent's model", "cnry-09/iT+1=rAp2m"),
];

/// These are not sent to a service: one proves who sends a webhook, one belongs to a database that is not there.
const KEPT_HERE: [&str; 2] = ["secret of a webhook", "password of a database"];

fn planted(number: usize) -> &'static str {
    PLANTED[number - 1].1
}

/// A service that answers every request with all of it, and keeps what it was sent. Below `/refused` it refuses.
struct Echo {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Echo {
    fn start() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        let keep = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let keep = keep.clone();
                std::thread::spawn(move || drop(answer(stream, &keep)));
            }
        });
        Echo { port, heard }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn has_heard(&self, secret: &str) -> bool {
        let heard = self.heard.lock().expect("nobody panics here");
        heard.windows(secret.len()).any(|window| window == secret.as_bytes())
    }
}

fn answer(mut stream: TcpStream, keep: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(given) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = given.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let all = format!("{head}{}", String::from_utf8_lossy(&body));
    keep.lock().expect("nobody panics here").extend_from_slice(all.as_bytes());
    let status = if head.contains("/refused") { "401 Unauthorized" } else { "200 OK" };
    let headers: serde_json::Map<String, Value> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), Value::from(value.trim())))
        .collect();
    let hex: String = all.bytes().map(|byte| format!("{byte:02x}")).collect();
    let told =
        json!({ "headers": headers, "body": String::from_utf8_lossy(&body), "all": all, "hex": hex }).to_string();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", told.len());
    stream.write_all(format!("{head}Connection: close\r\n\r\n{told}").as_bytes())
}

const CREDENTIALS: &str = r#"
[auth]
vault = { token = { env = "CANARY_VAULT" }, user = "ann" }
db = { host = "127.0.0.1", port = 1, user = "ann", password = { env = "CANARY_PG" }, database = "x" }
"#;

/// Loom: a secure parameter in a header, in a body and in a text that a service answers with as an error.
fn loom(service: &str) -> String {
    let authorised = |path: &str| {
        json!({ "type": "Http", "runAfter": {}, "inputs": { "method": "POST", "uri": format!("{service}{path}"),
            "headers": { "Authorization": "Bearer @{parameters('key')}", "x-plain": "@parameters('key')" },
            "body": { "inside": "@parameters('key')", "login": "@parameters('login')" } } })
    };
    json!({ "definition": {
        "parameters": { "key": { "type": "SecureString" }, "login": { "type": "SecureObject" },
                        "usual": { "type": "SecureString", "defaultValue": { "$secret": "env_api" } } },
        "triggers": { "manual": { "type": "Request", "kind": "Http" } },
        "actions": {
            "echo": authorised("/json"),
            "again": { "type": "Compose", "inputs": "@body('echo')", "runAfter": { "echo": ["Succeeded"] } },
            "usual": { "type": "Http", "inputs": { "method": "GET", "uri": format!("{service}/json"), "headers": { "x-usual": "@parameters('usual')" } } },
            "refused": authorised("/refused"),
            "pay": { "type": "activity", "activityName": "pay", "inputs": { "amount": 5 } },
            "ask": { "type": "ai", "inputs": { "prompt": "hello" } }
        }
    } })
    .to_string()
}

fn playbook(service: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: book, path: book}}\n\
         keychain: [{{name: keys, kind: bearer, credential: vault}}]\n\
         workflow:\n  - step: start\n    tool: {{kind: http, method: POST, url: '{service}/json', auth: env_api, headers: {{x-keys: '{{{{ keychain.keys.token }}}}'}}, json: {{a: 1}}}}\n    next: [{{step: base}}]\n  \
         - step: base\n    tool: {{kind: postgres, auth: db, query: 'select 1'}}\n"
    )
}

const AGENTS: &str = "name: crew\nagents: {a: {description: d, prompt: x, model: house/m}}\nsteps: [{id: s, agent: a, instructions: y}]\n";

/// A test that fails leaves no server behind.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Server {
    child: Process,
    address: String,
    token: String,
    out: std::thread::JoinHandle<String>,
    err: std::thread::JoinHandle<String>,
}

fn settings(service: &str, port: u16) -> String {
    format!(
        "{CREDENTIALS}\n[server.outbound]\nallow = [\"127.0.0.1:{port}\"]\n\
         [activities.pay]\nurl = \"{service}/json/pay\"\nheaders = {{ x-team = {{ env = \"CANARY_ACTIVITY\" }}, authorization = \"Bearer {}\" }}\n\
         [model]\nbase_url = \"{service}/json\"\nmodel = \"m\"\nkey_env = \"CANARY_MODEL\"\n\
         [models.house]\nbase_url = \"{service}/json\"\nkey_env = \"CANARY_AGENT\"\n\
         [mcp.web]\nurl = \"{service}/json/mcp\"\nheaders = {{ authorization = {{ env = \"CANARY_MCP\" }} }}\noptional = true\n",
        planted(3)
    )
}

fn start(place: &Place) -> Server {
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0", "--json", "--log", "json"]);
    let variables = [
        ("WINDLASS_AUTH_ENV_API", format!(r#"{{"type": "bearer", "token": "{}"}}"#, planted(1))),
        ("CANARY_VAULT", planted(2).to_owned()),
        ("CANARY_MODEL", planted(4).to_owned()),
        ("CANARY_ACTIVITY", planted(5).to_owned()),
        ("CANARY_MCP", planted(6).to_owned()),
        ("CANARY_HOOK", planted(7).to_owned()),
        ("CANARY_PG", planted(8).to_owned()),
        ("CANARY_AGENT", planted(9).to_owned()),
    ];
    command.envs(variables).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Process(command.spawn().expect("the server starts"));
    let mut out = BufReader::new(child.0.stdout.take().expect("its stdout"));
    let mut err = child.0.stderr.take().expect("its stderr");
    let err = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = err.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let mut first = String::new();
    let told: Value = loop {
        let more = out.read_line(&mut first).expect("its first lines");
        match serde_json::from_str(&first) {
            Ok(told) => break told,
            Err(_) => assert_ne!(more, 0, "what it says first: {first:?}"),
        }
    };
    let token_file = told["token_file"].as_str().expect("where the token is");
    let token = std::fs::read_to_string(place.path("").join(token_file)).expect("the token").trim().to_owned();
    let out = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = out.read_to_string(&mut said);
        said
    });
    Server {
        child,
        address: told["address"].as_str().expect("an address").trim_start_matches("http://").to_owned(),
        token,
        out,
        err,
    }
}

impl Server {
    /// Status and body.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("asked");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        (status, answer)
    }

    fn json(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let (status, answer) = self.ask(method, path, body);
        let text = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let text = text.find(['{', '[']).map_or("", |at| &text[at..]);
        let read = serde_json::Deserializer::from_str(text).into_iter().next();
        (status, read.and_then(Result::ok).unwrap_or_default())
    }

    fn register(&self, name: &str, source: &str) {
        let (status, answer) =
            self.json("POST", "/api/v1/definitions", Some(&json!({ "name": name, "source": source })));
        assert!(status == 201 || status == 200, "{name}: {status} {answer}");
    }

    /// The run, when it has ended.
    fn run(&self, definition: &str, input: &Value) -> Value {
        let body = json!({ "definition": definition, "input": input, "wait_ms": 25_000 });
        let (status, answer) = self.json("POST", "/api/v1/runs", Some(&body));
        assert_eq!(status, 200, "{definition} has not ended: {answer}");
        answer
    }
}

/// All ways in which a secret may be written.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = secret
        .bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || byte == b'-' {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect();
    let mut forms = vec![
        secret.to_owned(),
        percent.to_lowercase(),
        percent,
        hex.to_uppercase(),
        hex,
        secret.replace('/', "\\/"),
        secret.replace('=', "\\u003d"),
        // Half of one is still one.
        secret[..12].to_owned(),
        secret[7..].to_owned(),
    ];
    for before in ["", "a", "ab"] {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}{secret}"));
        forms.push(encoded[4..encoded.len() - 4].to_owned());
    }
    forms.into_iter().map(String::into_bytes).collect()
}

fn found_in(bytes: &[u8]) -> Vec<&'static str> {
    let has = |form: &Vec<u8>| bytes.windows(form.len()).any(|window| window == form.as_slice());
    PLANTED.iter().filter(|(_, secret)| forms(secret).iter().any(has)).map(|(name, _)| *name).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn no_secret_leaves_the_tool_that_it_was_meant_for() {
    let service = Echo::start();
    let url = service.url();
    let place = Place::new();
    place.write("windlass.toml", settings(&url, service.port));
    let mut server = start(&place);
    server.register("loom", &loom(&url));
    server.register("book", &playbook(&url));
    server.register("crew", AGENTS);

    let secure = json!({ "key": { "$secret": "vault", "field": "token" },
                         "login": { "password": { "$secret": "env_api" } } });
    let runs = [server.run("loom", &secure), server.run("book", &json!({})), server.run("crew", &json!({}))];
    // The service was told, and has told back: otherwise there was nothing to look for.
    let all = serde_json::to_string(&runs).expect("JSON");
    assert!(all.matches("***").count() >= 20, "{all}");
    for (what, secret) in PLANTED.iter().filter(|(what, _)| !KEPT_HERE.contains(what)) {
        assert!(service.has_heard(secret), "the {what} was not used");
    }
    // A secret itself is refused where a reference is wanted, and not repeated.
    let literal = json!({ "definition": "loom", "input": { "key": planted(2), "login": {} } });
    let (status, answer) = server.ask("POST", "/api/v1/runs", Some(&literal));
    assert_eq!(status, 422, "{answer}");
    assert_eq!(found_in(answer.as_bytes()), Vec::<&str>::new(), "{answer}");
    let leaking = loom(&url).replace(r#"{"$secret":"env_api"}"#, &format!("\"{}\"", planted(2)));
    let (status, refusal) =
        server.json("POST", "/api/v1/definitions", Some(&json!({ "name": "leaking", "source": leaking })));
    assert_eq!((status, refusal.to_string().contains("WND-1298")), (422, true), "{refusal}");
    server.ask("PUT", "/api/v1/definitions/loom/triggers/manual", Some(&json!({ "secret": "env:CANARY_HOOK" })));
    let (_, made) = server.json("POST", "/api/v1/tokens", Some(&json!({ "name": "other", "scopes": ["read"] })));
    let tokens: Vec<String> = [Some(server.token.as_str()), made["token"].as_str(), made["secret"].as_str()]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();

    let mut seen: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut answered = 0;
    let mut paths: Vec<String> = [
        "definitions",
        "runs",
        "runs?children=true",
        "audit",
        "triggers",
        "workers",
        "approvals",
        "tokens",
        "openapi.json",
    ]
    .map(|path| format!("/api/v1/{path}"))
    .to_vec();
    paths.extend(["/metrics", "/", "/healthz", "/readyz"].map(str::to_owned));
    for name in ["loom", "book", "crew"] {
        paths
            .extend(["", "/versions", "/versions/1", "/graph"].map(|part| format!("/api/v1/definitions/{name}{part}")));
    }
    for run in &runs {
        let id = run["run"].as_str().expect("its name");
        let parts = ["", "/graph", "/steps", "/loops", "/journal?limit=500", "/events?follow=false&limit=1000"];
        paths.extend(parts.map(|part| format!("/api/v1/runs/{id}{part}")));
    }
    for path in paths {
        let (status, answer) = server.ask("GET", &path, None);
        answered += usize::from(status == 200);
        seen.insert(format!("GET {path}"), answer.into_bytes());
    }
    assert!(answered >= 20, "only {answered} answers: {:?}", seen.keys());
    for path in files(&place.path("")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The operator's own file; the token that is for whoever starts the server.
        if name != "windlass.toml" && name != "token" {
            seen.insert(path.display().to_string(), std::fs::read(&path).expect("readable"));
        }
    }
    let process = rustix::process::Pid::from_child(&server.child.0);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("told to stop");
    server.child.0.wait().expect("stopped");
    seen.insert("stdout".to_owned(), server.out.join().expect("read").into_bytes());
    seen.insert("stderr".to_owned(), server.err.join().expect("read").into_bytes());
    for path in files(&place.path("")).into_iter().filter(|path| path.extension().is_some()) {
        if path.file_name().is_some_and(|name| name != "windlass.toml") {
            seen.insert(format!("{} after the end", path.display()), std::fs::read(&path).expect("readable"));
        }
    }
    let leaks: Vec<String> = seen
        .iter()
        .flat_map(|(place, bytes)| found_in(bytes).into_iter().map(move |what| format!("{what} in {place}")))
        .collect();
    assert_eq!(leaks, Vec::<String>::new());
    for token in tokens {
        let holds = |bytes: &[u8]| bytes.windows(token.len()).any(|window| window == token.as_bytes());
        let leaks: Vec<&String> = seen.iter().filter(|(_, bytes)| holds(bytes)).map(|(place, _)| place).collect();
        assert_eq!(leaks, Vec::<&String>::new(), "a token");
    }
}

/// A reference is there for whoever may read the run: only the run that it was made for, its children and what is made from
/// it have it opened, however it comes into another.
#[test]
fn a_reference_is_opened_in_its_own_family_alone() {
    use base64::Engine;
    let service = Echo::start();
    let url = service.url();
    let place = Place::new();
    place.write("windlass.toml", settings(&url, service.port));
    let server = start(&place);
    let post = |path: &str, body: &str| json!({ "type": "Http", "inputs": { "method": "POST", "uri": format!("{url}{path}"), "body": body } });
    let definition = |parameters: Value, actions: Value| {
        let triggers = json!({ "manual": { "type": "Request", "kind": "Http" } });
        json!({ "definition": { "parameters": parameters, "triggers": triggers, "actions": actions } }).to_string()
    };
    let key = json!({ "key": { "type": "SecureString" } });
    let usual = json!({ "key": { "type": "SecureString", "defaultValue": { "$secret": "vault", "field": "token" } } });
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
    let ways = [
        "@concat(parameters('left'), parameters('right'))",
        "@json(parameters('escaped'))",
        "@base64ToString(parameters('coded'))",
    ];
    let ways = ways.iter().enumerate().map(|(at, way)| (format!("way{at}"), post("/json", way)));
    let texts = json!({ "left": text, "right": text, "escaped": text, "coded": text });
    server.register("relay", &definition(texts, Value::Object(ways.collect())));
    server.register("hooked", &definition(json!({}), json!({ "post": post("/json", "@json(triggerBody()['text'])") })));

    let heard_since = || {
        let mut heard = service.heard.lock().expect("nobody panics here");
        String::from_utf8_lossy(&std::mem::take(&mut *heard)).into_owned()
    };
    let ended = |run: &Value| loop {
        let (_, now) = server.json("GET", &format!("/api/v1/runs/{}", run.as_str().expect("a run")), None);
        if !matches!(now["status"].as_str(), Some("running" | "waiting" | "pending")) {
            break now;
        }
    };
    let victim = server.run("parent", &json!({ "key": { "$secret": "vault", "field": "token" } }));
    assert!(heard_since().contains(planted(2)), "a child has it opened: {victim}");
    let (status, retried) = server.json(
        "POST",
        &format!("/api/v1/runs/{}/retry", victim["run"].as_str().expect("a run")),
        Some(&json!({})),
    );
    assert_eq!(status, 202, "{retried}");
    ended(&retried["run"]);
    assert!(heard_since().contains(planted(2)), "and so has what is made from it");
    server.run("parent", &json!({}));
    assert!(heard_since().contains(planted(2)), "a default is opened too");

    let shown = victim["input"]["key"].as_str().expect("a reference").to_owned();
    assert!(shown.starts_with("<secret:vault:token:"), "{shown}");
    let escaped = format!("\"\\u003c{}\"", &shown[1..]);
    let coded = base64::engine::general_purpose::STANDARD.encode(&shown);
    let told =
        server.run("relay", &json!({ "left": shown[..4], "right": shown[4..], "escaped": escaped, "coded": coded }));
    let heard = heard_since();
    assert!(heard.matches(&shown).count() == 3 && !heard.contains(planted(2)), "{heard} {told}");

    server.ask("PUT", "/api/v1/definitions/hooked/triggers/manual", Some(&json!({ "insecure": true })));
    let (_, hooked) = server.json("POST", "/hooks/hooked/manual", Some(&json!({ "text": escaped })));
    ended(&hooked["runs"][0]);
    let heard = heard_since();
    assert!(heard.contains(&shown) && !heard.contains(planted(2)), "{heard}");

    let own = server.run("own", &json!({ "key": { "$secret": "vault", "field": "token" } }));
    let restart = json!({ "from": "post", "set": { "note": own["input"]["key"] } });
    let path = format!("/api/v1/runs/{}/restart", own["run"].as_str().expect("a run"));
    let (status, restarted) = server.json("POST", &path, Some(&restart));
    assert_eq!(status, 202, "{restarted}");
    ended(&restarted["run"]);
    let heard = heard_since();
    assert!(heard.contains("<secret :vault") && !heard.contains(planted(2)), "{heard}");

    // The same call twice is one run, also with a secret.
    let body = json!({ "definition": "own", "id": "twice", "input": { "key": { "$secret": "vault" } } });
    let (_, first) = server.json("POST", "/api/v1/runs", Some(&body));
    let (status, second) = server.json("POST", "/api/v1/runs", Some(&body));
    assert_eq!((status, &first["created"], &second["created"]), (202, &json!(true), &json!(false)), "{second}");
}
