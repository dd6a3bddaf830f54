//! `windlass credentials` on a store and on a server: which tasks get the values, and that they are shown nowhere.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::server::{TestServer, wait_until, worker};
use crate::support::{CommandOutput, TestDir, command_output};

const SECRET: &str = "canary-of-the-shop";
const OTHER: &str = "canary-of-another";

/// Runs a command with this standard input.
fn with_input(mut command: Command, input: &str) -> CommandOutput {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A command that needs no input may have ended.
    let _ = child.stdin.take().expect("its stdin").write_all(input.as_bytes());
    command_output(child.wait_with_output().expect("it ends"))
}

fn set(place: &TestDir, name: &str, value: &str) -> CommandOutput {
    with_input(place.command(&["credentials", "set", name]), value)
}

fn bearer(secret: &str) -> String {
    format!(r#"{{"type": "bearer", "token": "{secret}"}}"#)
}

/// A service that answers with the head of the request, so that it repeats every secret. Below `/v1` it is a model.
struct EchoService {
    url: String,
    received: Arc<Mutex<Vec<String>>>,
}

impl EchoService {
    fn start() -> EchoService {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received: Arc<Mutex<Vec<String>>> = Arc::default();
        let keep = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(&stream);
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {
                    let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
                    length = line.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap_or(0));
                }
                let mut body = vec![0; length];
                let _ = reader.read_exact(&mut body);
                let said = json!({"role": "assistant", "content": format!("you sent {head}")});
                let answer = match head.contains(" /v1/") {
                    true => json!({"model": "m", "choices": [{"message": said, "finish_reason": "stop"}]}),
                    false => json!({ "head": head }),
                };
                let answer = answer.to_string();
                keep.lock().expect("no panic").push(head);
                let _ = write!(
                    &stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{answer}",
                    answer.len()
                );
            }
        });
        EchoService { url, received }
    }

    /// Returns whether the newest request contains a text.
    fn last_has(&self, text: &str) -> bool {
        self.received.lock().expect("no panic").last().is_some_and(|head| head.contains(text))
    }
}

fn playbook(service: &EchoService, auth: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: shop}}\nworkflow:\n  - step: start\n    \
         tool: {{kind: http, url: '{}/orders', auth: {auth}}}\n",
        service.url
    )
}

fn loom(service: &EchoService) -> String {
    json!({
        "name": "billing",
        "parameters": { "key": { "type": "SecureString" } },
        "actions": { "call": { "type": "Http", "inputs": { "method": "GET", "uri": format!("{}/bills", service.url),
            "headers": { "Authorization": "Bearer @{parameters('key')}" } } } },
        "outputs": { "said": { "type": "String", "value": "@string(body('call'))" } }
    })
    .to_string()
}

/// Searches the bytes of all files below a folder.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => files_with(&path, text),
        false => {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let has_text = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            has_text.then(|| path.display().to_string()).into_iter().collect()
        }
    });
    found.collect()
}

fn assert_nowhere(place: &TestDir, text: &str) {
    assert_eq!(files_with(&place.path(""), text), Vec::<String>::new(), "{text} is readable");
}

fn assert_hidden(done: &CommandOutput, text: &str) {
    assert!(!done.out.contains(text) && !done.err.contains(text), "{text} is shown:\n{}\n{}", done.out, done.err);
}

#[test]
fn credentials_of_a_store_are_set_listed_and_removed_but_never_shown() {
    let home = TestDir::new();
    home.windlass(&["credentials", "list"]).exits(0).has("no stored credentials");
    assert!(!home.path(".windlass").exists(), "listing creates no store");
    let stored = set(&home, "shop", &bearer(SECRET));
    stored.exits(0).has("shop is stored (bearer; fields: token, type)");
    home.write("pg.yaml", format!("type: postgres\nhost: db\nuser: app\npassword: {OTHER}\n"));
    let stored = home.windlass(&["credentials", "set", "pg-main", "--from-file", "pg.yaml"]);
    stored.exits(0).has("pg-main is stored (postgres; fields: host, password, type, user)");
    set(&home, "lines", &format!("user=app\npassword={OTHER}\n")).exits(0).has("(fields: password, user)");
    set(&home, "plain", OTHER).exits(0).has("plain is stored (text)");
    set(&home, "short", "1234").exits(0).has("too few to be redacted");
    for (name, value, part) in [
        ("empty", "\n", "the value is empty"),
        ("bad", "{\"token\": canary", "not valid JSON (line 1"),
        ("PG_MAIN", "x", "cannot be told apart"),
        ("ümlaut", "x", "the name of a credential"),
    ] {
        let failed = set(&home, name, value);
        failed.exits(3).has(part).has("WND-3071");
        assert_hidden(&failed, "canary");
    }
    home.windlass(&["credentials", "set", "x", "value-on-the-command-line"]).exits(3).has("unexpected argument");
    let listed = home.windlass(&["credentials", "list"]);
    listed.exits(0).has("NAME").has("KIND").has("CHANGED").has("BY").has("bearer").has("postgres");
    assert_hidden(&listed, "canary");
    let listed = home.json(&["credentials", "list", "--json"]);
    let names: Vec<&str> = listed.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["lines", "pg-main", "plain", "shop", "short"]);
    let keys: BTreeSet<&str> = listed[0].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["by", "changed_at", "kind", "name"]), "nothing else is listed");
    home.windlass(&["credentials", "remove", "plain"]).exits(3).has("--yes");
    home.windlass(&["credentials", "remove", "plain", "--yes"]).exits(0).has("plain is removed");
    home.windlass(&["credentials", "remove", "plain", "--yes"]).exits(3).has("there is no stored credential `plain`");
    std::fs::remove_file(home.path("pg.yaml")).expect("removed");
    assert_nowhere(&home, "canary");
    let mode = std::fs::metadata(home.path(".windlass/credentials.key")).expect("the key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Types at a terminal: the answer to the question, and what the terminal shows.
const AT_A_TERMINAL: &str = r#"
import os, pty, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:2] + sys.argv[4:])
shown = b""
def read():
    global shown
    try:
        part = os.read(terminal, 4096)
    except OSError:
        part = b""
    shown += part
    return part
while sys.argv[2].encode() not in shown and read():
    pass
hidden = not termios.tcgetattr(terminal)[3] & termios.ECHO
os.write(terminal, sys.argv[3].encode())
while read():
    pass
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.stdout.write(shown.decode() + "\nhidden: %s, exit: %d" % (hidden, code))
"#;

fn at_terminal(place: &TestDir, question: &str, answer: &str, arguments: &[&str]) -> CommandOutput {
    let program = place.command(&[]);
    let mut command = Command::new("python3");
    command.args(["-c", AT_A_TERMINAL]).arg(program.get_program()).args([question, answer]).args(arguments);
    command_output(command.current_dir(place.path("")).output().expect("python3 runs"))
}

#[test]
fn a_value_is_typed_without_being_shown() {
    let home = TestDir::new();
    let typed = at_terminal(&home, "(not shown)", "canary-typed\n", &["credentials", "set", "shop"]);
    typed.has("hidden: True, exit: 0").has("shop is stored (text)");
    assert_hidden(&typed, "canary");
    let interrupted = at_terminal(&home, "(not shown)", "canary-typed\u{3}", &["credentials", "set", "other"]);
    interrupted.has("hidden: True, exit: 130");
    at_terminal(&home, "[y/N]", "n\n", &["credentials", "remove", "shop"]).has("nothing was removed");
    home.windlass(&["credentials", "list"]).exits(0).has("shop");
    at_terminal(&home, "[y/N]", "y\n", &["credentials", "remove", "shop"]).has("shop is removed");
}

/// A playbook, a secure parameter and the key of a model: set, used, changed, removed.
#[test]
fn runs_use_stored_credentials_until_they_are_removed() {
    let (home, service) = (TestDir::new(), EchoService::start());
    home.write("shop.yaml", playbook(&service, "shop"));
    home.write("billing.json", loom(&service));
    home.write("talk.yaml", "name: talk\nsteps:\n  - {id: plan, instructions: make a plan}\n");
    home.write("ask.json", r#"{"name": "ask", "actions": {"ask": {"type": "ai", "inputs": {"prompt": "hello"}}}}"#);
    home.write(
        "windlass.toml",
        format!(
            "[model]\nbase_url = \"{0}/v1\"\nmodel = \"house/m\"\nkey_env = \"HOUSE_KEY\"\n\
             [models.house]\nbase_url = \"{0}/v1\"\nkey_env = \"HOUSE_KEY\"\nstream = false\n",
            service.url
        ),
    );
    let secure = ["--set", r#"key={"$secret": "shop"}"#];
    let runs: [(&str, &str, &[&str]); 4] = [
        ("shop.yaml", "shop", &[]),
        ("billing.json", "shop", &secure),
        ("talk.yaml", "HOUSE_KEY", &[]),
        ("ask.json", "HOUSE_KEY", &[]),
    ];
    for (file, name, options) in runs {
        let run = || home.windlass(&[&["run", file, "--json"], options].concat());
        for secret in [SECRET, OTHER] {
            let value = if name == "shop" { bearer(secret) } else { secret.to_owned() };
            set(&home, name, &value).exits(0);
            let done = run();
            done.exits(0);
            assert!(service.last_has(&format!("Bearer {secret}")), "{file}: {}{}", done.out, done.err);
            assert_hidden(&done, secret);
        }
        home.windlass(&["credentials", "remove", name, "--yes"]).exits(0);
        let done = run();
        match file {
            // A service at an address of its own may need no key.
            "ask.json" => assert!(!service.last_has("Bearer"), "{}{}", done.out, done.err),
            _ => {
                assert_ne!(done.code, Some(0), "{file}: {}{}", done.out, done.err);
                done.has(&format!("windlass credentials set {name}"));
            }
        }
    }
    home.windlass(&["check", "shop.yaml"]).exits(0).has("windlass credentials set shop");
    set(&home, "shop", &bearer(SECRET)).exits(0);
    let checked = home.windlass(&["check", "shop.yaml"]);
    checked.exits(0);
    assert_hidden(&checked, "not configured");
    // The environment comes first.
    let mut command = home.command(&["run", "shop.yaml"]);
    command.env("WINDLASS_AUTH_SHOP", bearer("from-the-environment"));
    command_output(command.output().expect("it runs")).exits(0);
    assert!(service.last_has("Bearer from-the-environment"));
    // A run that stores nothing uses them as well.
    home.windlass(&["run", "shop.yaml", "--ephemeral"]).exits(0);
    assert!(service.last_has(SECRET));
    assert_nowhere(&home, "canary");
}

#[test]
fn a_key_that_is_missing_wrong_or_open_is_reported() {
    let (home, service) = (TestDir::new(), EchoService::start());
    home.write("shop.yaml", playbook(&service, "shop"));
    set(&home, "shop", &bearer(SECRET)).exits(0);
    let with_key = |arguments: &[&str], key: &str| {
        let mut command = home.command(arguments);
        command.env("WINDLASS_SECRET_KEY", key);
        with_input(command, "a new value")
    };
    let other_key = "1".repeat(64);
    let failed = with_key(&["run", "shop.yaml"], &other_key);
    failed.exits(1).has("the credential `shop` cannot be opened: it was encrypted with another key").has("WND-3072");
    with_key(&["credentials", "list"], &other_key).exits(0).has("shop cannot be opened");
    with_key(&["credentials", "set", "new"], &other_key).exits(3).has("another key").has("WND-3070");
    with_key(&["credentials", "set", "new"], "abc").exits(3).has("WINDLASS_SECRET_KEY is not a valid key");
    let key = home.path(".windlass/credentials.key");
    let set_mode = |mode| std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).expect("changed");
    set_mode(0o644);
    home.windlass(&["run", "shop.yaml"]).exits(1).has("is open to others (mode 644)").has("chmod 600");
    set(&home, "new", "x").exits(3).has("is open to others").has("WND-3070");
    set_mode(0o600);
    home.windlass(&["run", "shop.yaml"]).exits(0);
    // The key may be kept elsewhere, and is not created there.
    let elsewhere = home.path("elsewhere.key");
    home.write("windlass.toml", "[credentials]\nkey_file = \"elsewhere.key\"\n");
    home.windlass(&["run", "shop.yaml"]).exits(1).has("elsewhere.key is missing");
    set(&home, "new", "x").exits(3).has("is missing");
    std::fs::rename(&key, &elsewhere).expect("moved");
    home.windlass(&["run", "shop.yaml"]).exits(0);
    // Without its key, the only credential can be set again, with a new key.
    std::fs::remove_file(&elsewhere).expect("removed");
    home.write("windlass.toml", "");
    home.windlass(&["run", "shop.yaml"]).exits(1).has("credentials.key is missing");
    set(&home, "new", "x").exits(3).has("restore it from a backup");
    set(&home, "shop", &bearer(OTHER)).exits(0);
    home.windlass(&["run", "shop.yaml"]).exits(0);
    assert!(service.last_has(OTHER));
}

#[test]
fn a_damaged_record_fails_only_its_own_credential() {
    let (home, service) = (TestDir::new(), EchoService::start());
    home.write("shop.yaml", playbook(&service, "shop"));
    home.write("other.yaml", playbook(&service, "other"));
    set(&home, "shop", &bearer(SECRET)).exits(0);
    set(&home, "other", &bearer(OTHER)).exits(0);
    let database = rusqlite::Connection::open(home.path(".windlass/windlass.db")).expect("the store");
    let change =
        "UPDATE records SET body = substr(body, 1, 40) WHERE kind = 'credential' AND key = 'WINDLASS_AUTH_SHOP'";
    assert_eq!(database.execute(change, []).expect("changed"), 1);
    drop(database);
    let failed = home.windlass(&["run", "shop.yaml"]);
    failed.exits(1).has("its record in the store is damaged").has("windlass credentials set SHOP").has("WND-3072");
    home.windlass(&["run", "other.yaml"]).exits(0);
    assert!(service.last_has(OTHER));
    home.windlass(&["credentials", "list"]).exits(0).has("SHOP cannot be opened").has("other");
    set(&home, "third", "value of it").exits(0);
    set(&home, "shop", &bearer(SECRET)).exits(0);
    home.windlass(&["run", "shop.yaml"]).exits(0);
    assert!(service.last_has(SECRET));
}

#[test]
fn a_server_keeps_credentials_for_admins_only() {
    let (home, away, service) = (TestDir::new(), TestDir::new(), EchoService::start());
    let port = service.url.rsplit(':').next().expect("a port").to_owned();
    home.write(
        "windlass.toml",
        format!("[server]\nmax_credentials = 2\n[server.outbound]\nallow = [\"127.0.0.1:{port}\"]\n"),
    );
    let read_token = home.windlass(&["token", "create", "reader", "--scope", "read,run,control,work"]);
    let server = TestServer::start(&home, &[], &[]);
    away.write("token", &server.token);
    away.write("read-token", read_token.out.trim());
    let url = server.url();
    let remote = |token: &str, arguments: &[&str], input: &str| {
        let words = [&["credentials"], arguments, &["--server", &url, "--token-file", token]].concat();
        with_input(away.command(&words), input)
    };
    for words in [&["list"] as &[&str], &["set", "shop"], &["remove", "shop", "--yes"]] {
        remote("read-token", words, "x").exits(3).has("WND-3002").has("admin");
    }
    remote("token", &["set", "shop"], &bearer(SECRET)).exits(0).has("shop is stored (bearer; fields: token, type)");
    // Beside the server, the program finds it: the server knows the value at once.
    set(&home, "other", OTHER).exits(0).has("other is stored (text)");
    let listed = remote("token", &["list", "--json"], "");
    assert_eq!(listed.json(), home.json(&["credentials", "list", "--json"]));
    assert_eq!(
        (&listed.json()[0]["by"], &listed.json()[1]["by"]),
        (&json!("local"), &json!("first")),
        "{}",
        listed.out
    );
    remote("token", &["set", "third"], "x").exits(3).has("the maximum").has("WND-3071");
    remote("token", &["set", "bad"], "{").exits(3).has("WND-3071");
    remote("token", &["remove", "nothing", "--yes"], "").exits(3).has("there is no stored credential `nothing`");
    server.register("shop", &playbook(&service, "shop"));
    let ended = server.run_to_end("shop", &json!({}));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert!(service.last_has(&format!("Bearer {SECRET}")));
    // Changed while the server runs.
    remote("token", &["set", "shop"], &bearer("canary-changed")).exits(0);
    server.run_to_end("shop", &json!({}));
    assert!(service.last_has("Bearer canary-changed"));
    let (status, answer) = server.request("GET", "/api/v1/credentials/shop", None);
    assert_eq!(status, 405, "{answer}");
    let audit = server.get("/api/v1/audit?limit=500");
    let lines = audit["items"].as_array().expect("lines").iter();
    let lines: Vec<&Value> = lines.filter(|line| line["route"] == "/api/v1/credentials/{name}").collect();
    let stored = |line: &&&Value| line["method"] == "PUT" && line["path"]["name"] == "shop";
    assert_eq!(lines.iter().filter(stored).count(), 3, "one refused, two accepted: {audit}");
    assert!(lines.iter().all(|line| line.get("body").is_none()), "no hash of a value: {audit}");
    remote("token", &["remove", "shop", "--yes"], "").exits(0).has("shop is removed");
    let failed = server.run_to_end("shop", &json!({}));
    assert!(failed.to_string().contains("windlass credentials set shop"), "{failed}");
    for route in ["credentials", "audit", "runs?limit=100", "definitions/shop"] {
        let (_, answer) = server.request("GET", &format!("/api/v1/{route}"), None);
        assert!(!answer.contains("canary"), "{route}: {answer}");
    }
    assert!(!server.process.err().contains("canary"), "{}", server.process.err());
    // Acknowledged is durable, whatever happens next.
    remote("token", &["set", "shop"], &bearer(SECRET)).exits(0);
    server.process.signal(Signal::KILL);
    drop(server);
    let server = TestServer::start(&home, &[], &[]);
    server.run_to_end("shop", &json!({}));
    assert!(service.last_has(&format!("Bearer {SECRET}")));
    drop(server);
    assert_nowhere(&home, "canary");
}

/// A worker of another machine gets the credentials that a job refers to, and nothing that it reports contains them.
#[test]
fn a_worker_gets_the_credentials_of_its_job_only() {
    let (home, away, service) = (TestDir::new(), TestDir::new(), EchoService::start());
    set(&home, "shop", &bearer(SECRET)).exits(0);
    set(&home, "other", OTHER).exits(0);
    let server = TestServer::start(&home, &[], &[("WINDLASS_LOG", "trace")]);
    server.register_for("shop", &playbook(&service, "shop"), &json!({"place": "away"}));
    away.write("token", &server.token);
    let options = ["--token-file", "token", "--label", "place=away"];
    let log = [("WINDLASS_LOG", "trace")];
    let remote = worker(&away, &server.url(), &options, &log);
    let ended = server.run_to_end("shop", &json!({}));
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert!(service.last_has(&format!("Bearer {SECRET}")));
    // Changed and removed while the worker runs.
    set(&home, "shop", &bearer("canary-changed")).exits(0);
    server.run_to_end("shop", &json!({}));
    assert!(service.last_has("Bearer canary-changed"));
    home.windlass(&["credentials", "remove", "shop", "--yes"]).exits(0);
    let failed = server.run_to_end("shop", &json!({}));
    assert!(failed.to_string().contains("windlass credentials set shop"), "{failed}");
    let runs = server.get("/api/v1/runs?limit=100");
    for run in runs["items"].as_array().expect("runs").iter().filter_map(|run| run["run"].as_str()) {
        for part in ["", "/events?follow=false&limit=500", "/journal?limit=500", "/logs", "/steps", "/plan"] {
            let (_, answer) = server.request("GET", &format!("/api/v1/runs/{run}{part}"), None);
            assert!(!answer.contains("canary"), "{run}{part}: {answer}");
        }
    }
    let (_, out, err) = remote.stop();
    assert!(!out.contains("canary") && !err.contains("canary"), "{out}{err}");
    let (_, out, err) = server.process.stop();
    assert!(!out.contains("canary") && !err.contains("canary"), "{out}{err}");
    assert_nowhere(&home, "canary");
    assert_nowhere(&away, "canary");
}

/// The protocol of workers: a job has what its task refers to, and a worker's report is redacted.
#[test]
fn a_lease_has_the_named_credentials_and_reports_are_redacted() {
    let home = TestDir::new();
    home.write("windlass.toml", "[activities.count]\nworker = true\n");
    set(&home, "shop", &bearer(SECRET)).exits(0);
    set(&home, "other", OTHER).exits(0);
    let server = TestServer::start(&home, &[], &[]);
    let input = json!({"auth": "shop", "text": "other", "deeper": {"auth": "other", "key": "other"}});
    let definition = json!({"name": "counts", "actions": {"count": {"type": "activity",
        "inputs": {"activityName": "count", "input": input}}},
        "outputs": {"seen": {"type": "String", "value": "@string(outputs('count'))"}}});
    server.register("counts", &definition.to_string());
    let run = server.start_run("counts", &json!({}));
    let lease = json!({"worker": "w", "name": "w", "tools": ["count"], "wait_ms": 20_000});
    let (status, leased) = server.json("POST", "/api/v1/worker/lease", Some(&lease));
    assert_eq!(status, 200, "{leased}");
    let job = &leased["jobs"][0];
    assert_eq!(job["credentials"], json!({"shop": {"value": bearer(SECRET)}}), "{job}");
    let report = |more: Value| {
        let mut report = json!({"worker": "w", "run": run, "job": job["job"], "lease_epoch": job["lease_epoch"]});
        report.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        report
    };
    let lines = json!({"lines": [{"text": format!("it is {SECRET}")}]});
    assert_eq!(server.json("POST", "/api/v1/worker/log", Some(&report(lines))).0, 204);
    let output = json!({"output": format!("it is {SECRET}")});
    assert_eq!(server.json("POST", "/api/v1/worker/complete", Some(&report(output))).0, 200);
    let ended = server.wait_for_end(&run);
    assert_eq!(ended["output"]["seen"], "it is ***", "{ended}");
    wait_until("the log is stored", || {
        server.request("GET", &format!("/api/v1/runs/{run}/logs"), None).1.contains("it is")
    });
    for part in ["", "/events?follow=false", "/journal", "/logs"] {
        let (_, answer) = server.request("GET", &format!("/api/v1/runs/{run}{part}"), None);
        assert!(!answer.contains(SECRET), "{part}: {answer}");
    }
    drop(server);
    assert_nowhere(&home, SECRET);
}
