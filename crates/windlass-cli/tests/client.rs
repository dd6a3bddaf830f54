//! Commands against a server print what the same commands print against the server's store, and say what is wrong with
//! the server, its token or its context.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::server::{CapturedProcess, TestServer, wait_until};
use crate::support::{CommandOutput, TestDir, command_output, counting, start_command};

/// Two loops, the second with failures, and an error at the end.
const MIXED: &str = r#"{
  "name": "mixed",
  "parameters": { "items": { "type": "Array", "defaultValue": [1, 2, 3] } },
  "actions": {
    "each": {
      "type": "foreach", "foreach": "@parameters('items')",
      "actions": { "half": { "type": "compose", "inputs": "@div(6, sub(item(), 2))" } }
    }
  }
}"#;

/// Asks a person, then for a signal.
const ASKS: &str = r#"{
  "name": "asks",
  "actions": {
    "ok": {
      "type": "approval", "inputs": { "title": "Ship it?",
        "schema": { "type": "object", "properties": { "approved": { "type": "boolean" } }, "required": ["approved"] } }
    }
  },
  "outputs": { "answer": { "type": "Object", "value": "@outputs('ok')" } }
}"#;

struct ClientFixture {
    /// The folder of the server.
    home: TestDir,
    /// A folder without a store.
    away: TestDir,
    server: TestServer,
}

impl ClientFixture {
    fn new() -> ClientFixture {
        let home = TestDir::new();
        let server = TestServer::start(&home, &[], &[]);
        let away = TestDir::new();
        away.write("token", &server.token);
        ClientFixture { home, away, server }
    }

    /// Runs a command on the server's store.
    fn local(&self, arguments: &[&str]) -> CommandOutput {
        self.home.windlass(arguments)
    }

    /// Runs the same command on the server, from another folder.
    fn remote(&self, arguments: &[&str]) -> CommandOutput {
        let url = self.server.url();
        self.away.windlass(&[arguments, &["--server", &url, "--token-file", "token"]].concat())
    }

    /// Runs a command in both places and compares what it prints on stdout.
    fn both(&self, arguments: &[&str]) -> CommandOutput {
        let (local, remote) = (self.local(arguments), self.remote(arguments));
        assert_eq!(remote.code, local.code, "{arguments:?}\n{}\n{}", local.err, remote.err);
        let url = self.server.url();
        let options = format!("windlass --server {url} --token-file token ");
        let plain = |output: &CommandOutput| without_times(&output.out.replace(&options, "windlass "));
        assert_eq!(plain(&remote), plain(&local), "{arguments:?}");
        remote
    }
}

/// Removes ages and durations, which differ from one call to the next.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_end_matches(',');
        let digits = word.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        word.starts_with(|letter: char| letter.is_ascii_digit()) && ["ms", "s", "m", "h"].contains(&digits)
    };
    let plain = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_time(word) { "TIME" } else { word });
        words.filter(|word| !word.starts_with("\"duration_ms\"")).collect::<Vec<_>>().join(" ")
    };
    let lines = text.lines().filter(|line| !line.contains("\"duration_ms\""));
    lines.map(plain).collect::<Vec<_>>().join("\n")
}

#[test]
fn ended_runs_look_the_same_from_a_server() {
    let world = ClientFixture::new();
    for (name, text) in [("counting", counting(3, "PT0S")), ("mixed", MIXED.to_owned())] {
        world.server.register(name, &text);
    }
    let done = world.server.run_to_end("counting", &json!({}))["run"].as_str().expect("an id").to_owned();
    let failed = world.server.run_to_end("mixed", &json!({}))["run"].as_str().expect("an id").to_owned();
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["list", "--status", "failed"],
        &["list", "--status", "nonsense"],
        &["list", "--limit", "1"],
        &["list", "--all", "--children"],
        &["status", &done],
        &["status", &done, "--json"],
        &["status", &failed],
        &["status", &failed, "--json"],
        &["status", "last"],
        &["status", &failed[..failed.len() - 1]],
        &["events", &done],
        &["events", &done, "--json"],
        &["events", &failed, "--from", "4"],
        &["events", &failed, "--follow"],
        &["iterations", &done],
        &["iterations", &done, "--json"],
        &["iterations", &done, "count"],
        &["iterations", &done, "count", "--from", "1", "--limit", "1"],
        &["iterations", &failed, "each", "--failed", "--json"],
        &["iterations", &failed, "none"],
        &["cancel", &done],
        &["approvals"],
        &["approvals", "--json"],
        &["resume", &done],
    ] {
        world.both(arguments);
    }
    world.remote(&["status", "nothing"]).exits(3).has("WND-2610").has("on this server");
    world.remote(&["iterations", &done, "coun"]).exits(3).has("did you mean `count`?");
    world
        .remote(&["retry", &done])
        .exits(3)
        .has("WND-2624")
        .has("to repeat a part of it: windlass ")
        .has(" --from PATH");
    let retried = world.remote(&["retry", &failed, "--id", "again", "--quiet"]);
    retried.exits(1).has("run again").has("it retries");
    world.both(&["status", "again"]);
    let restart = ["restart", &done, "--from", "count[1]", "--set", "n=2", "--id", "fork", "--json", "--quiet"];
    let restarted = world.remote(&restart).exits(0).json();
    assert_eq!((&restarted["run"], &restarted["output"]["n"]), (&json!("fork"), &json!(3)), "{restarted}");
    world.remote(&["restart", &done, "--from", "nowhere"]).exits(3).has("WND-2619").has("` shows what has started");
}

#[test]
fn open_runs_are_steered_through_a_server() {
    let world = ClientFixture::new();
    world.server.register("asks", ASKS);
    world.server.register("counting", &counting(50, "PT1H"));
    let asks = world.server.start_run("asks", &json!({}));
    let counting = world.server.start_run("counting", &json!({}));
    wait_until("both wait", || {
        let open = world.server.get("/api/v1/approvals")["items"].as_array().map_or(0, Vec::len);
        let detail = world.server.get(&format!("/api/v1/runs/{counting}"));
        open == 1 && detail["status"] == "waiting"
    });
    for arguments in [
        &["list"][..],
        &["status", &asks],
        &["status", &asks, "--json"],
        &["status", &counting],
        &["approvals"],
        &["approvals", &asks, "--json"],
        &["approve", &asks, "--data", "1"],
        &["approve", &asks],
        &["signal", &asks, "ok", "--data", "{}"],
        &["approve", &counting],
        &["pause", &counting, "--request-id", "once"],
    ] {
        world.both(arguments);
    }
    wait_until("it is paused", || world.server.get(&format!("/api/v1/runs/{counting}"))["status"] == "paused");
    let later = world.remote(&["signal", &counting, "later", "--json"]).exits(0).json();
    assert_eq!(later["delivery"], "buffered", "{later}");
    world.remote(&["approve", &asks, "--set", "approved=true"]).exits(0).has("approve: delivered");
    let ended = world.server.wait_for_end(&asks);
    assert_eq!(ended["output"]["answer"]["approved"], json!(true), "{ended}");
    world.remote(&["approve", &asks]).exits(3).has("has ended");
    // Resuming follows the run until someone else cancels it.
    let url = world.server.url();
    let resumed = world.away.start(&["resume", &counting, "--server", &url, "--token-file", "token", "--json"]);
    wait_until("it runs again", || world.server.get(&format!("/api/v1/runs/{counting}"))["status"] != "paused");
    world.remote(&["cancel", &counting, "--reason", "enough"]).exits(0).has("cancel: ");
    let resumed = resumed.finish();
    assert_eq!(resumed.exits(1).json()["status"], "cancelled", "{}", resumed.err);
}

#[test]
fn a_file_is_run_and_started_on_a_server() {
    let world = ClientFixture::new();
    world.away.write("mixed.json", MIXED);
    let run = ["run", "mixed.json", "--set", "items=[3,4]", "--json", "--quiet"];
    let (local, remote) = (world.away.windlass(&run).exits(0).json(), world.remote(&run).exits(0).json());
    assert_eq!(remote["steps"], local["steps"]);
    let listed = world.server.get("/api/v1/definitions");
    assert_eq!((&listed["items"][0]["name"], &listed["items"][0]["version"]), (&json!("mixed"), &json!(1)), "{listed}");
    // The same text needs no registration, so that a token that may start runs is enough.
    let token = world.home.json(&["token", "create", "starter", "--scope", "run", "--json"]);
    world.away.write("run-token", token["token"].as_str().expect("a token"));
    let url = world.server.url();
    let as_starter = |arguments: &[&str]| {
        world.away.windlass(&[arguments, &["--server", &url, "--token-file", "run-token"]].concat())
    };
    as_starter(&run).exits(0);
    world.away.write("mixed.json", MIXED.replace("[1, 2, 3]", "[4]"));
    as_starter(&run).exits(3).has("WND-3002").has("needs the scope `admin`");
    world.remote(&run).exits(0);
    let started = as_starter(&["start", "mixed@1", "--id", "old", "--quiet"]);
    started.exits(1).has("run old").has("Failed");
    let started = as_starter(&["start", "mixed", "--set", "item=[1]", "--detach", "--id", "new"]);
    started.exits(0).has("WND-1531");
    assert_eq!(started.out, "run new\n");
    as_starter(&["start", "mixd"]).exits(3).has("did you mean `mixed`?");
    as_starter(&["start", "nothing"]).exits(3).has("definitions list` shows the definitions of the server");
    as_starter(&["start", "mixed@9"]).exits(3).has("WND-3003");
    world.remote(&["definitions", "list"]).exits(0).has("mixed  2        loom");
    assert_eq!(world.remote(&["definitions", "show", "mixed@1", "--source"]).exits(0).out.trim_end(), MIXED);
    world.remote(&["definitions", "show", "mixed"]).exits(0).has("Input: items (array, default [4])");
    as_starter(&["definitions", "remove", "mixed"]).exits(3).has("WND-3002");
    world.remote(&["definitions", "remove", "mixed"]).exits(0).has("mixed is removed");
    world.remote(&["definitions", "list"]).exits(0).has("no definitions");
    world.remote(&["run", "mixed.json", "--ephemeral"]).exits(3).has("--ephemeral is for runs in this process");
    world.remote(&["doctor"]).exits(3).has("WND-3042");
}

#[test]
fn the_server_of_a_store_is_found_beside_it() {
    let home = TestDir::new();
    home.windlass(&["start", "fails"]).exits(3).has("WND-3041").has("windlass serve");
    let server = TestServer::start(&home, &[], &[]);
    let mode = std::fs::metadata(home.path(".windlass/local-token")).expect("a token").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The first token may be gone: programs of the same user need none.
    std::fs::remove_file(home.path(".windlass/token")).expect("removed");
    let fails = MIXED.replace("mixed", "fails");
    home.write("fails.json", &fails);
    home.windlass(&["register", "fails.json"]).exits(0).has("fails version 1");
    let failed = home.windlass(&["start", "fails", "--id", "f1", "--quiet"]);
    failed.exits(1).has("retry what failed: windlass retry f1").has("windlass restart f1 --from");
    home.windlass(&["retry", "f1", "--id", "f2", "--quiet"]).exits(1).has("it retries f1");
    home.windlass(&["restart", "f1", "--from", "each", "--set", "items=[3]", "--id", "f3", "--quiet"]).exits(0);
    home.windlass(&["definitions", "list"]).exits(0).has("fails");
    assert_eq!(server.get("/api/v1/runs/f3")["status"], "succeeded");
    drop(server.process.stop());
    assert!(!home.path(".windlass/local-token").exists());
    home.windlass(&["retry", "f1"]).exits(3).has("start `windlass serve`, then `windlass retry f1`");
}

#[test]
fn contexts_name_servers_and_their_tokens() {
    let world = ClientFixture::new();
    let url = world.server.url();
    let config = world.away.path("config");
    let run = |arguments: &[&str], stdin: Option<&str>| {
        let mut command = world.away.command(arguments);
        // A keyring in a file, in place of the system's.
        command
            .env("XDG_CONFIG_HOME", &config)
            .env("PATH", format!("{}:/usr/bin:/bin", world.away.path("bin").display()));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("the program starts");
        let mut input = child.stdin.take().expect("its stdin");
        input.write_all(stdin.unwrap_or_default().as_bytes()).expect("written");
        drop(input);
        command_output(child.wait_with_output().expect("it ends"))
    };
    run(&["context", "list"], None).exits(0).has("no contexts");
    run(&["list", "--server", "prod"], None).exits(3).has("WND-3040").has("windlass context add prod --server URL");
    run(&["context", "add", "prod"], None).exits(3).has("a context needs a server");
    run(&["context", "add", "prod", "--server", "http://10.0.0.7:1", "--token-file", "token"], None)
        .exits(3)
        .has("unencrypted")
        .has("--insecure");
    run(&["context", "add", "prod", "--server", &url, "--token-file", "token"], None).exits(0).has("prod is added");
    run(&["context", "add", "shell", "--server", &url, "--token-command", "cat token"], None).exits(0);
    run(&["context", "add", "broken", "--server", &url, "--token-command", "exit 4"], None).exits(0);
    let file = config.join("windlass/contexts.json");
    let text = std::fs::read_to_string(&file).expect("the contexts");
    assert!(!text.contains(&world.server.token), "{text}");
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    for name in ["prod", "shell"] {
        run(&["list", "--server", name], None).exits(0).has("no runs");
    }
    run(&["list", "--server", "prud"], None).exits(3).has("WND-3040").has("did you mean `prod`?");
    run(&["list", "--server", "broken"], None).exits(3).has("WND-1528").has("exit 4").has("context `broken`");
    run(&["list"], None).exits(3).has("there is no store");
    run(&["context", "use", "prod"], None).exits(0);
    run(&["list"], None).exits(0).has("no runs");
    // The health of a server needs no token.
    for words in [&["health"][..], &["health", "--server", "broken"], &["health", "--ready", "--server", &url]] {
        run(words, None).exits(0).has("\"status\"");
    }
    run(&["health", "--server", "prud"], None).exits(3).has("WND-3040").has("did you mean `prod`?");
    run(&["list", "--store", "elsewhere"], None).exits(3).has("there is no store in elsewhere");
    let listed = run(&["context", "list", "--json"], None).exits(0).json();
    let prod =
        listed.as_array().expect("a list").iter().find(|context| context["name"] == "prod").expect("it is there");
    assert_eq!((&prod["current"], &prod["server"]), (&json!(true), &json!(url)), "{prod}");
    // The keyring is used through the program of the system.
    run(&["context", "add", "ring", "--server", &url, "--keyring"], Some(&world.server.token))
        .exits(3)
        .has("secret-tool")
        .has("--token-file");
    std::fs::create_dir(world.away.path("bin")).expect("made");
    let tool = world.away.write(
        "bin/secret-tool",
        "#!/bin/sh\ncase $1 in store) cat > ring.$7;; lookup) cat ring.$5;; clear) rm ring.$5;; esac\n",
    );
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("executable");
    run(&["context", "add", "ring", "--server", &url, "--keyring"], None).exits(3).has("it is empty");
    run(&["context", "add", "ring", "--server", &url, "--keyring"], Some(&world.server.token)).exits(0);
    run(&["list", "--server", "ring"], None).exits(0).has("no runs");
    run(&["context", "remove", "ring"], None).exits(0);
    assert!(!world.away.path("ring.ring").exists());
    run(&["context", "remove", "prod"], None).exits(0).has("it was the current context: commands use the store");
    run(&["list"], None).exits(3).has("there is no store");
}

#[test]
fn problems_with_a_server_are_named() {
    let world = ClientFixture::new();
    let url = world.server.url();
    let with = |server: &str, more: &[&str]| world.away.windlass(&[&["list", "--server", server], more].concat());
    world.away.write("wrong", "wl_wrong");
    with(&url, &[]).exits(3).has("WND-3001").has("requires a token").has("--token-file");
    with(&url, &["--token-file", "wrong"]).exits(3).has("WND-3001").has("rejects this token");
    with(&url, &["--token-file", "missing"])
        .exits(3)
        .has("WND-1528")
        .has("could not read the token in missing")
        .has("the first start of `windlass serve` writes .windlass/token");
    let tls = url.replace("http://", "https://");
    with(&tls, &["--token-file", "token"]).exits(1).has("WND-1527").has(&format!("without TLS: try {url}"));
    with("http://127.0.0.1:9", &["--token-file", "token"]).exits(1).has("WND-1527").has("windlass serve");
    with("http://10.255.255.1", &["--token-file", "token"]).exits(3).has("unencrypted").has("--insecure");
    with("ftp://x.example", &[]).exits(3).has("must begin with http");
    let failure = with("http://127.0.0.1:9", &["--json"]).exits(1).json();
    assert_eq!(failure["error"]["code"], "WND-1527", "{failure}");
    let by_variable = |token: &str| {
        let mut command = world.away.command(&["list"]);
        command.env("WINDLASS_SERVER", &url).env("WINDLASS_TOKEN", token);
        command_output(command.output().expect("the program starts"))
    };
    by_variable(&world.server.token).exits(0).has("no runs");
    by_variable("wl_wrong").exits(3).has("WND-3001");
}

/// A redirect is not followed: the other address gets neither the token nor a request.
#[test]
fn a_redirect_does_not_get_the_token() {
    let place = TestDir::new();
    place.write("token", "wl_secret");
    let (front, thief) =
        (TcpListener::bind("127.0.0.1:0").expect("a port"), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let target = format!("http://{}/api/v1/runs", thief.local_addr().expect("an address"));
    let url = format!("http://{}", front.local_addr().expect("an address"));
    let location = target.clone();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = front.accept().expect("a request");
        let mut lines = BufReader::new(stream.try_clone().expect("the same stream")).lines();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let head = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("answered");
    });
    let done = place.windlass(&["list", "--server", &url, "--token-file", "token"]);
    done.exits(1).has("WND-1527").has(&format!("redirects to {target}")).has("--server");
    answering.join().expect("answered");
    thief.set_nonblocking(true).expect("set");
    assert!(thief.accept().is_err(), "the redirect was followed");
}

#[test]
fn a_server_that_goes_away_ends_the_stream_with_an_error() {
    let world = ClientFixture::new();
    world.server.register("counting", &counting(50, "PT1H"));
    let run = world.server.start_run("counting", &json!({}));
    let url = world.server.url();
    let mut following = world.away.start(&["events", &run, "--follow", "--server", &url, "--token-file", "token"]);
    following.line_with("iteration.done");
    world.server.process.signal(Signal::KILL);
    let done = following.finish();
    done.exits(1).has("WND-1527").has("does not respond");
    done.has(&format!("windlass --server {url} --token-file token events {run} --after"));
}

/// A server that returns soon goes unnoticed: the stream continues with the next event.
#[test]
fn a_server_that_restarts_is_followed_on() {
    let home = TestDir::new();
    let port = crate::support::reserved_port();
    let bind = format!("127.0.0.1:{port}");
    let serve = || {
        let mut process = CapturedProcess::start(home.command(&["serve", "--bind", &bind, "--drain", "1", "--json"]));
        wait_until("it serves", || {
            assert!(!process.has_ended(), "{}", process.err());
            !process.out().is_empty()
        });
        process
    };
    let first = serve();
    home.write("counting.json", counting(2, "PT1S"));
    home.windlass(&["register", "counting.json"]).exits(0);
    home.windlass(&["start", "counting", "--id", "c1", "--detach"]).exits(0);
    let token = std::fs::read_to_string(home.path(".windlass/token")).expect("a token");
    let away = TestDir::new();
    away.write("token", token);
    let url = format!("http://{bind}");
    let mut following =
        start_command(away.command(&["events", "c1", "--follow", "--json", "--server", &url, "--token-file", "token"]));
    let first_line: Value = serde_json::from_str(&following.line()).expect("JSON");
    assert_eq!(first_line["seq"], 1, "{first_line}");
    drop(first.stop());
    let second = serve();
    let done = following.finish();
    let events: Vec<Value> = done.exits(0).out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (2..2 + numbers.len() as u64).collect::<Vec<_>>(), "each event once");
    assert_eq!(events.last().map(|event| &event["type"]), Some(&json!("workflow.finished")), "{}", done.out);
    drop(second.stop());
}

/// A run that a server resumes shows the iteration in which it is, with the limit of its loop.
#[test]
fn a_resume_at_a_server_shows_where_the_loop_is() {
    let world = ClientFixture::new();
    world.server.register("counting", &counting(90, "PT0.02S"));
    let run = world.server.start_run("counting", &json!({}));
    let ended = || world.server.get(&format!("/api/v1/runs/{run}"))["current"][0]["loop"]["ended"].as_u64();
    wait_until("iterations have ended", || ended() >= Some(3));
    world.remote(&["pause", &run]).exits(0);
    let status = || world.server.get(&format!("/api/v1/runs/{run}"))["status"].clone();
    wait_until("it is paused", || status() == "paused");
    let at = world.remote(&["status", &run]).exits(0).out.clone();
    let at = at.lines().find_map(|line| line.trim().strip_prefix("Iteration: ")).expect("a position").to_owned();
    assert!(at.ends_with("/100"), "{at}");
    let resumed = world.remote(&["resume", &run]);
    let position = resumed.err.lines().find_map(|line| line.strip_prefix("count continues at ")).expect("a position");
    let number = |position: &str| position.split('/').next().and_then(|number| number.parse::<u64>().ok());
    assert!(position.ends_with("/100") && number(position) >= number(&at), "{position} after {at}");
}
