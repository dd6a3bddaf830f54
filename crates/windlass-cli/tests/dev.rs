//! `windlass dev` registers files whenever they change, reports broken ones, and keeps the last valid version.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The file for its stderr, which it does not scan.
const STDERR_FILE: &str = ".said";

struct DevServer {
    child: Child,
    address: String,
}

impl Drop for DevServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl DevServer {
    fn start(folder: &Path) -> DevServer {
        DevServer::start_with(folder, &[])
    }

    fn start_with(folder: &Path, words: &[&str]) -> DevServer {
        let stderr = std::fs::File::create(folder.join(STDERR_FILE)).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["dev", "--json", "--port", "0"]).args(words);
        command.arg("--store").arg(folder.join(".windlass")).arg(folder);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("ours")).read_line(&mut line).expect("its first line");
        let startup: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no address: {line}"));
        let text = |name: &str| startup[name].as_str().unwrap_or_default().to_owned();
        assert!(!line.contains('#') && !line.contains("wl_"), "only a terminal gets a sign-in link: {line}");
        assert_eq!(startup["token_file"].is_string(), words.contains(&"--auth"), "{line}");
        DevServer { child, address: text("address").trim_start_matches("http://").to_owned() }
    }

    fn get(&self, path: &str) -> Value {
        self.send("GET", path, "")
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Value {
        self.send_with(method, path, &format!("host: {}\r\n", self.address), body)
    }

    fn send_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{path}: {answer}"))
    }

    /// Returns a definition's version and the number of problems of its file.
    fn version_and_problems(&self, name: &str) -> Option<(u64, usize)> {
        let page = self.get("/api/v1/definitions");
        let item = page["items"].as_array()?.iter().find(|item| item["name"] == name)?.clone();
        Some((item["version"].as_u64()?, item["problems"].as_array().map_or(0, Vec::len)))
    }

    /// Returns whether a definition of this name is listed, registered or not.
    fn is_listed(&self, name: &str) -> bool {
        let page = self.get("/api/v1/definitions").to_string();
        page.contains(&format!(r#""{name}""#))
    }

    fn wait_for(&self, name: &str, expected: Option<(u64, usize)>) {
        self.wait_until(&format!("{name} is {expected:?}"), || self.version_and_problems(name) == expected);
    }

    fn wait_until(&self, what: &str, is_true: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_true() {
            assert!(begun.elapsed() < Duration::from_secs(300), "{what}: {}", self.get("/api/v1/definitions"));
            std::thread::yield_now();
        }
    }
}

fn definition(word: &str) -> String {
    format!(r#"{{"actions": {{"say": {{"type": "compose", "inputs": "{word}"}}}}}}"#)
}

#[test]
fn files_are_registered_as_they_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("hello.json"), definition("hello")).expect("written");
    std::fs::write(path("notes.json"), r#"{"neither": "nor"}"#).expect("written");
    let dev = DevServer::start(folder.path());
    dev.wait_for("hello", Some((1, 0)));
    assert_eq!(dev.version_and_problems("notes"), None, "other files are left alone");

    std::fs::write(path("hello.json"), r#"{"actions": {"say": {"type": "composee", "inputs": 1}}}"#).expect("written");
    dev.wait_for("hello", Some((1, 1)));
    // A file that was a definition is reported when it no longer is one.
    for text in ["", r#"{"just": "text"}"#, r#"{"a": [1"#] {
        std::fs::write(path("hello.json"), definition("hello")).expect("written");
        dev.wait_for("hello", Some((1, 0)));
        std::fs::write(path("hello.json"), text).expect("written");
        dev.wait_for("hello", Some((1, 1)));
    }
    // As editors do it: a new file replaces the old one.
    std::fs::write(path("hello.json.tmp"), definition("hi")).expect("written");
    std::fs::rename(path("hello.json.tmp"), path("hello.json")).expect("renamed");
    dev.wait_for("hello", Some((2, 0)));
    std::fs::write(path("hello.json"), definition("hello")).expect("written");
    dev.wait_for("hello", Some((1, 0)));

    std::fs::create_dir(path("more")).expect("made");
    std::fs::write(path("more/other.json"), definition("other")).expect("written");
    dev.wait_for("other", Some((1, 0)));
    std::fs::remove_file(path("more/other.json")).expect("removed");
    std::fs::write(path("last.json"), definition("last")).expect("written");
    dev.wait_for("last", Some((1, 0)));
    assert_eq!(dev.version_and_problems("other"), Some((1, 0)), "what was registered stays");

    let pid = dev.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("`kill` runs").success());
    let mut dev = dev;
    assert!(dev.child.wait().expect("it ends").success(), "a polite stop is a good end");
}

/// The next start would register the file again: a change that cannot last is refused, and says what to do.
#[test]
fn a_definition_that_is_a_file_is_changed_only_in_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("hello.json"), definition("hello")).expect("written");
    let dev = DevServer::start(folder.path());
    dev.wait_for("hello", Some((1, 0)));
    let draft = |name: &str| serde_json::json!({ "name": name, "source": definition("edited") }).to_string();
    let file = path("hello.json").display().to_string();
    let refused = dev.send("POST", "/api/v1/definitions", &draft("hello"));
    assert_eq!(refused["status"], 409, "{refused}");
    for part in ["detail", "hint"] {
        assert!(refused[part].as_str().is_some_and(|text| text.contains(&file)), "it names the file: {refused}");
    }
    assert_eq!(dev.send("DELETE", "/api/v1/definitions/hello", "")["status"], 409);
    // A broken file still is the source of its definition.
    std::fs::write(path("hello.json"), "{").expect("written");
    dev.wait_for("hello", Some((1, 1)));
    assert_eq!(dev.send("POST", "/api/v1/definitions", &draft("hello"))["status"], 409);
    assert_eq!(dev.send("POST", "/api/v1/definitions", &draft("other"))["version"], 1, "no file holds this one");
    std::fs::remove_file(path("hello.json")).expect("removed");
    std::fs::write(path("later.json"), definition("later")).expect("written");
    dev.wait_for("later", Some((1, 0)));
    assert_eq!(dev.send("POST", "/api/v1/definitions", &draft("hello"))["version"], 2, "its file is gone");
}

/// A file that has been broken since the start may become valid at any time: its name is as good as taken.
#[test]
fn a_file_that_is_broken_at_the_start_protects_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("again.json"), definition("again")).expect("written");
    drop(DevServer::start(folder.path()));
    let broken = r#"{"actions": {"say": {"type": "composee", "inputs": 1}}}"#;
    let named = broken.replacen('{', r#"{"name": "named", "#, 1);
    let files = [("broken.json", broken), ("a.json", &named), ("b.yaml", "name: cut\nsteps: ["), ("again.json", "{")];
    for (name, text) in files {
        std::fs::write(path(name), text).expect("written");
    }
    let dev = DevServer::start(folder.path());
    assert!(dev.is_listed("a"), "its problems are listed under the name of the file");
    let draft = |name: &str| serde_json::json!({ "name": name, "source": definition("edited") }).to_string();
    for (name, file) in [("broken", "broken.json"), ("named", "a.json"), ("cut", "b.yaml"), ("again", "again.json")] {
        let refused = dev.send("POST", "/api/v1/definitions", &draft(name));
        let file = path(file).display().to_string();
        assert_eq!(refused["status"], 409, "{name}: {refused}");
        assert!(refused["detail"].as_str().is_some_and(|text| text.contains(&file)), "it names the file: {refused}");
    }
    // Once the file is repaired, its definition is listed under its own name, and nothing under that of the file.
    std::fs::write(path("a.json"), definition("named").replacen('{', r#"{"name": "named", "#, 1)).expect("written");
    dev.wait_for("named", Some((1, 0)));
    dev.wait_until("the problems of `a` are gone", || !dev.is_listed("a"));
}

#[test]
fn unchanged_files_are_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let named = |word: &str| definition(word).replacen('{', r#"{"name": "twice", "#, 1);
    let warns =
        r#"{"actions": {"a": {"type": "compose", "inputs": 1}, "b": {"type": "compose", "inputs": "@outputs('a')"}}}"#;
    for (name, text) in [("warns.json", warns), ("one.json", &named("one")), ("two.json", &named("two"))] {
        std::fs::write(path(name), text).expect("written");
    }
    let dev = DevServer::start(folder.path());
    dev.wait_for("twice", Some((1, 0)));
    std::fs::remove_file(path("one.json")).expect("removed");
    dev.wait_for("twice", Some((2, 0)));
    std::fs::rename(path("two.json"), path("three.json")).expect("renamed");
    std::fs::write(path("last.json"), definition("last")).expect("written");
    dev.wait_for("last", Some((1, 0)));
    drop(dev);
    let stderr = std::fs::read_to_string(path(STDERR_FILE)).expect("text");
    assert_eq!(stderr.matches("WND-").count(), 1, "warnings of what has not changed are not repeated: {stderr}");
    assert!(stderr.contains("registered twice, version 2 (") && !stderr.contains("was removed"), "{stderr}");
}

/// Programs and browsers of this machine need no token, and pages of other sites get nothing. `--auth` requires one.
#[test]
fn only_other_sites_and_auth_need_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = DevServer::start(folder.path());
    let draft = serde_json::json!({ "name": "hello", "source": definition("hello") }).to_string();
    assert_eq!(dev.get("/api/v1/session")["signed_in"], true);
    let address = dev.address.clone();
    let post = |headers: &str| dev.send_with("POST", "/api/v1/definitions", headers, &draft)["status"].clone();
    let table = [
        (format!("host: {address}\r\norigin: http://evil.example\r\n"), 403),
        (format!("host: {address}\r\norigin: http://{address}1\r\nsec-fetch-site: same-site\r\n"), 403),
        (format!("host: {address}\r\nsec-fetch-site: cross-site\r\n"), 403),
        ("host: evil.example\r\norigin: http://evil.example\r\n".to_owned(), 421),
    ];
    for (headers, status) in table {
        assert_eq!(post(&headers), status, "{headers}");
    }
    let own = format!("host: {address}\r\norigin: http://{address}\r\nsec-fetch-site: same-origin\r\n");
    assert_eq!(dev.send_with("POST", "/api/v1/definitions", &own, &draft)["version"], 1);
    drop(dev);
    let dev = DevServer::start_with(folder.path(), &["--auth"]);
    for _ in 0..25 {
        assert_eq!(dev.get("/api/v1/runs")["status"], 401, "and never 429: no token was guessed");
    }
    let token = std::fs::read_to_string(folder.path().join(".windlass/token")).expect("a token");
    let headers = format!("host: {}\r\nauthorization: Bearer {}\r\n", dev.address, token.trim());
    assert!(dev.send_with("GET", "/api/v1/runs", &headers, "")["items"].is_array());
}

/// Output to a pipe is read by others: it has no link that signs in. Hints name options that `dev` has.
#[test]
fn startup_output_in_a_pipe_has_no_sign_in_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = occupied.local_addr().expect("an address").port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let refused = command.args(["dev", "--port", &port]).current_dir(&folder).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("choose another with --port") && refused.status.code() == Some(3), "{stderr}");
    let (open, closed) = ("no token is needed", "token is in .windlass/token");
    for (words, access, stop) in [
        (&[][..], open, "at the next start"),
        (&["--ephemeral"], open, "nothing is stored"),
        (&["--auth"], closed, "at the next start"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["dev", "--port", "0"]).args(words).current_dir(&folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("ours")).read_line(&mut line).expect("its first line");
        let lines = BufReader::new(child.stderr.take().expect("ours")).lines().map_while(Result::ok);
        let mut said = String::new();
        for line in lines {
            said.push_str(&line);
            if line.contains("Ctrl-C") {
                break;
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        assert!(line.starts_with("http://127.0.0.1:") && line.trim_end().ends_with('/'), "{words:?}: {line}");
        assert!(said.contains(access) && said.contains(stop), "{words:?}: {said}");
    }
}
