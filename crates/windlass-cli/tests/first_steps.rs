//! `windlass init` and `windlass demo`, as a new user would try them.

use crate::support;

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::{RunningCommand, TestDir, command_output};

/// Every template is valid, runs offline to its end, and is served by `dev` with its mocks.
#[test]
fn a_new_project_runs_offline() {
    for (dialect, definition, part) in [
        ("loom", "orders.json", "\"shipped\":3"),
        ("noetl", "pages.yaml", "\"pages\":2"),
        ("zenflow", "review.yaml", "where the rocks are"),
    ] {
        let place = TestDir::new();
        let written = place.windlass(&["init", "--dialect", dialect]);
        written.exits(0).has("wrote ").has("windlass dev");
        for file in
            ["windlass.toml", "mocks.yaml", "README.md", "AGENTS.md", ".github/workflows/windlass.yml", ".gitignore"]
        {
            let text = std::fs::read_to_string(place.path(file)).expect(file);
            for placeholder in ["DEFINITION", "DIALECT", "PROJECT"] {
                assert!(!text.contains(placeholder), "{file}: {text}");
            }
        }
        place.windlass(&["check", definition]).exits(0);
        // The commands of the README and of the checks.
        let run = ["run", definition, "--static", "mocks.yaml", "--virtual-time", "--json", "-q"];
        let done = place.windlass(&run);
        assert_eq!(done.code, Some(0), "{dialect}: {}{}", done.out, done.err);
        assert!(done.out.replace(": ", ":").contains(part), "{dialect}: {}", done.out);
        let mut dev = place.start(&["dev", "--port", "0", "--json"]);
        let served: Value = serde_json::from_str(&dev.line()).expect("the address");
        assert!(served["address"].is_string(), "{served}");
        dev.signal(Signal::INT);
        let ended = dev.finish();
        assert!(ended.err.contains("mock rule(s)"), "{}", ended.err);
    }
}

#[test]
fn init_never_overwrites() {
    let place = TestDir::new();
    place.write("mocks.yaml", "mine");
    let refused = place.windlass(&["init"]);
    refused.exits(3).has("mocks.yaml exists already").has("nothing was written");
    assert_eq!(std::fs::read_to_string(place.path("mocks.yaml")).expect("the file"), "mine");
    assert!(!place.path("README.md").exists());
    place.windlass(&["init", "fresh"]).exits(0).has("cd fresh");
    assert!(place.path("fresh/orders.json").exists());
}

/// Starts the demo, and returns the line that describes it.
fn start_demo(place: &TestDir) -> (RunningCommand, Value) {
    let mut demo = place.start(&["demo", "--port", "0", "--json"]);
    let line = demo.line();
    let described = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (demo, described)
}

fn status(place: &TestDir, store: &str, run: &str) -> String {
    let report = place.windlass(&["--store", store, "status", run, "--json"]).json();
    report["status"].as_str().unwrap_or_default().to_owned()
}

/// Types a command of the demo into a shell, in another folder.
fn typed(command: &str) -> support::CommandOutput {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(std::env::temp_dir()).env_remove("WINDLASS_STORE");
    command_output(shell.output().expect("a shell"))
}

/// The runs of the demo are as announced, and each command that it prints works when typed.
#[test]
fn the_commands_of_the_demo_work() {
    let place = TestDir::new();
    let (demo, described) = start_demo(&place);
    let store = place.path("windlass-demo/.windlass").display().to_string();
    for (run, expected) in [
        ("polling", "running"),
        ("deploy", "waiting"),
        ("climb", "failed"),
        ("review", "succeeded"),
        ("orders", "failed"),
    ] {
        assert_eq!(status(&place, &store, run), expected, "{run}");
    }
    let commands = described["commands"].as_array().expect("commands");
    let command = |part: &str| -> String {
        let found = commands.iter().find_map(|one| one["command"].as_str().filter(|command| command.contains(part)));
        found.unwrap_or_else(|| panic!("no {part} in {commands:?}")).to_owned()
    };
    // Killed in the middle of its work, it continues: the same runs, no iteration of the poll lost.
    let iterations = |place: &TestDir| -> u64 {
        let report = place.windlass(&["--store", &store, "iterations", "polling", "poll", "--json"]).json();
        report["iterations"].as_array().map_or(0, |all| all.len() as u64)
    };
    let before = iterations(&place);
    let kill = command("kill -9");
    let (kill, again) = kill.split_once("; ").expect("two commands");
    typed(kill).exits(0);
    demo.finish();
    assert!(again.ends_with("windlass-demo --port 0"), "{again}");
    // The hints name the command that brings the mocks back, not a server that would call real services.
    let resume = format!("windlass demo {} --port 0", place.path("windlass-demo").canonicalize().unwrap().display());
    place.windlass(&["--store", &store, "list"]).exits(0).has(&format!(": {resume}\n"));
    place.windlass(&["--store", &store, "status", "polling"]).exits(0).has(&format!("no process runs it: {resume})"));
    place.windlass(&["--store", &store, "resume", "polling"]).exits(3).has(&format!("`{resume}` resumes it"));
    let (demo, again) = start_demo(&place);
    assert_eq!(again["folder"], described["folder"]);
    assert_eq!(again["service"], described["service"]);
    assert!(iterations(&place) >= before);
    assert_eq!(status(&place, &store, "polling"), "running");
    // All commands that it has printed still work.
    let looked = typed(&command("iterations"));
    looked.exits(0).has("card declined");
    assert_eq!(looked.out.matches("402").count().min(7), 7, "{}", looked.out);
    typed(&command("retry")).exits(0).has("succeeded");
    typed(&command("restart review")).exits(0);
    typed(&command("restart climb")).exits(0).has("4");
    typed(&command("approve")).exits(0);
    demo.signal(Signal::INT);
    let ended = demo.finish();
    assert!(ended.err.contains("rm -r"), "{}", ended.err);
}

#[test]
fn the_demo_takes_no_folder_that_is_in_use() {
    let place = TestDir::new();
    place.write("mine.txt", "mine");
    place.windlass(&["demo", "."]).exits(3).has("is not empty").has("windlass demo FOLDER");
    for option in [["--store", "s"], ["--server", "http://127.0.0.1:1"], ["--config", "c.toml"]] {
        let refused = place.windlass(&[option[0], option[1], "demo"]);
        refused.exits(3).has(&format!("the demo does not take {}", option[0]));
    }
    assert!(!place.path("windlass-demo").exists());
}

/// Each command in the notes for coding agents works, and the exit codes are those of the program.
#[test]
fn the_commands_of_the_notes_for_agents_work() {
    for (dialect, definition) in [("loom", "orders.json"), ("noetl", "pages.yaml"), ("zenflow", "review.yaml")] {
        let place = TestDir::new();
        place.windlass(&["init", "--dialect", dialect]).exits(0);
        let notes = std::fs::read_to_string(place.path("AGENTS.md")).expect("the notes");
        let commands: Vec<&str> = notes.split('`').filter(|part| part.starts_with("windlass ")).collect();
        assert!(commands.len() >= 9, "{notes}");
        for command in commands {
            let words = command.replace("CODE", "WND-0001").replace('\n', " ");
            let words: Vec<&str> = words.split_whitespace().skip(1).collect();
            let done = place.windlass(&words);
            assert_eq!(done.code, Some(0), "{dialect}: {command}: {}{}", done.out, done.err);
        }
        assert!(notes.contains("2 invalid definition or mock file, 3 invalid usage or input"), "{notes}");
        place.windlass(&["run", definition, "--no-such-option"]).exits(3);
        place.windlass(&["run", definition, "--input", "{", "--static", "mocks.yaml"]).exits(3);
        place.write("wrong.yaml", "mocks: [{when: {stepp: x}, body: 1}]\n");
        place.windlass(&["run", definition, "--static", "wrong.yaml"]).exits(2);
        place.write(definition, "{}");
        place.windlass(&["check", definition]).exits(2);
    }
}

/// Without a port, the demo takes a free one if the usual one is in use.
#[test]
fn the_demo_finds_a_free_port() {
    let place = TestDir::new();
    // If this fails, another process has the port, which is the same.
    let _held = std::net::TcpListener::bind(("127.0.0.1", 7117));
    let mut demo = place.start(&["demo", "--json"]);
    let described: Value = serde_json::from_str(&demo.line()).expect("JSON");
    let url = described["url"].as_str().expect("an address");
    assert!(!url.contains(":7117"), "{url}");
    demo.signal(Signal::INT);
    let ended = demo.finish();
    ended.has("port 7117 is in use; the demo takes a free one").has("` continues the demo");
    // The program of a test is not on the PATH: the closing line names it.
    assert!(ended.err.contains(&format!("`{} demo ", env!("CARGO_BIN_EXE_windlass"))), "{}", ended.err);
}
