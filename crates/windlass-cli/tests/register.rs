//! `windlass register` against a live server.

use crate::support;

use serde_json::json;
use support::server::{TestServer, wait_until};
use support::{CommandOutput, TestDir};

const HELLO: &str = r#"{"name": "hello", "actions": {"greet": {"type": "compose", "inputs": "hi"}}}"#;
const CHILD: &str = r#"{"name": "child", "actions": {"one": {"type": "compose", "inputs": 1}}}"#;
/// Calls a definition that sorts after it.
const CALLER: &str = r#"{"name": "caller", "actions": {"call": {"type": "workflow",
    "inputs": {"host": {"workflow": {"id": "child"}}, "body": {}}}}}"#;
const NAMELESS: &str = r#"{"actions": {"one": {"type": "compose", "inputs": 1}}}"#;
const PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: book, path: book}\n\
    workflow:\n  - step: start\n    tool: {kind: noop}\n";

struct RegisterFixture {
    place: TestDir,
    server: TestServer,
}

impl RegisterFixture {
    fn new() -> RegisterFixture {
        let place = TestDir::new();
        let server = TestServer::start(&place, &[], &[]);
        RegisterFixture { place, server }
    }

    fn register(&self, arguments: &[&str]) -> CommandOutput {
        let url = self.server.url();
        let after: [&str; 4] = ["--server", &url, "--token-file", ".windlass/token"];
        self.place.windlass(&[&["register"], arguments, &after].concat())
    }

    fn names(&self) -> Vec<String> {
        let listed = self.server.get("/api/v1/definitions");
        let items = listed["items"].as_array().expect("a list");
        items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
    }
}

#[test]
fn a_file_is_registered_once_and_again_when_it_has_changed() {
    let world = RegisterFixture::new();
    world.place.write("hello.json", HELLO);
    let done = world.register(&["hello.json"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "hello version 1\n", ""));
    assert_eq!(world.register(&["hello.json"]).exits(0).out, "hello version 1, as before\n");
    world.place.write("hello.json", HELLO.replace("hi", "hello"));
    assert_eq!(world.register(&["hello.json"]).exits(0).out, "hello version 2\n");
    // Labels are part of a version, and --name overrides the text's name.
    assert_eq!(world.register(&["hello.json", "--label", "gpu=yes"]).exits(0).out, "hello version 3\n");
    assert_eq!(world.register(&["hello.json", "--name", "other"]).exits(0).out, "other version 1\n");
    let reply = world.register(&["hello.json", "--json"]).exits(0).json();
    assert_eq!(
        (&reply["name"], &reply["version"], &reply["is_new"]),
        (&json!("hello"), &json!(2), &json!(true)),
        "{reply}"
    );
    assert_eq!(world.server.run_to_end("other", &json!({}))["status"], "succeeded");
    // A definition without a name is named after its file.
    world.place.write("quiet.json", NAMELESS);
    assert_eq!(world.register(&["quiet.json"]).exits(0).out, "quiet version 1\n");
    // Warnings are printed, and the definition is registered all the same.
    world.place.write("shells.yaml", PLAYBOOK.replace("{kind: noop}", "{kind: shell, cmds: date}"));
    let done = world.register(&["shells.yaml"]);
    done.exits(0).has("shells.yaml:").has("WND-1524").has("book version 1");
}

#[test]
fn files_are_registered_in_order_up_to_the_first_invalid_one() {
    let world = RegisterFixture::new();
    for (name, text) in [("child.json", CHILD), ("caller.json", CALLER), ("hello.json", HELLO)] {
        world.place.write(name, text);
    }
    world.place.write("broken.json", r#"{"name": "broken", "actions": {"x": {"type": "compoze", "inputs": 1}}}"#);
    world.register(&["caller.json", "child.json"]).exits(2).has("where: caller.json").has("no registered definition");
    assert_eq!(world.names(), Vec::<String>::new());
    let done = world.register(&["child.json", "caller.json", "broken.json", "hello.json"]);
    assert_eq!((done.code, done.out.as_str()), (Some(2), "child version 1\ncaller version 1\n"));
    // The location in the file, and the nearest name.
    done.has("where: broken.json").has("1:").has("compoze").has("compose");
    assert_eq!(world.names(), ["caller", "child"]);
    world.register(&["child.json", "hello.json", "--name", "x"]).exits(3).has("--name takes a single file");
}

#[test]
fn a_folder_is_registered_in_whatever_order_works() {
    let world = RegisterFixture::new();
    for folder in ["flows", "flows/below", "flows/node_modules", "empty", "bad"] {
        std::fs::create_dir(world.place.path(folder)).expect("made");
    }
    for (name, text) in [
        ("flows/caller.json", CALLER),
        ("flows/child.json", CHILD),
        ("flows/below/book.yaml", PLAYBOOK),
        // None of these is a definition.
        ("flows/notes.txt", "hello"),
        ("flows/settings.yaml", "colour: blue\n"),
        ("flows/parameters.json", "{}"),
        ("flows/node_modules/hello.json", HELLO),
        ("bad/a.json", CALLER),
        ("bad/b.json", r#"{"name": "broken", "actions": {"x": {"type": "compoze"}}}"#),
        ("bad/c.json", HELLO),
    ] {
        world.place.write(name, text);
    }
    let done = world.register(&["bad"]);
    assert_eq!((done.code, done.out.as_str()), (Some(2), "hello version 1\n"), "{}", done.err);
    done.has("where: bad/a.json").has("where: bad/b.json").has("compoze");
    let done = world.register(&["flows"]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{}", done.out);
    assert_eq!(done.out, "book version 1\nchild version 1\ncaller version 1\n");
    assert_eq!(world.register(&["flows"]).exits(0).out.matches(", as before").count(), 3);
    assert_eq!(world.server.run_to_end("caller", &json!({}))["status"], "succeeded");
    world.register(&["empty"]).exits(3).has("no definitions in this folder").has("where: empty");
}

#[test]
fn the_first_of_two_files_with_the_same_name_counts() {
    let world = RegisterFixture::new();
    std::fs::create_dir(world.place.path("flows")).expect("made");
    for (name, text) in [
        ("flows/a.json", HELLO),
        ("flows/b.json", &HELLO.replace("hi", "hello")),
        ("flows/c.json", &NAMELESS.replace("one", "two")),
        ("flows/c.yaml", &PLAYBOOK.replace("name: book", "name: c")),
        ("flows/d.json", CHILD),
    ] {
        world.place.write(name, text);
    }
    for after in ["", ", as before"] {
        let done = world.register(&["flows"]);
        let registered = ["hello", "c", "child"].map(|name| format!("{name} version 1{after}\n")).concat();
        assert_eq!((done.code, &done.out), (Some(2), &registered), "{}", done.err);
        done.has("where: flows/b.json")
            .has("has the same name, `hello`, as that of flows/a.json")
            .has("where: flows/c.yaml");
    }
}

#[test]
fn registration_errors_are_reported() {
    let world = RegisterFixture::new();
    let url = world.server.url();
    world.place.write("hello.json", HELLO);
    world.place.write("stranger", "wl_of_another_server\n");
    let made = world.place.windlass(&["token", "create", "reader", "--scope", "read"]);
    world.place.write("reader", made.exits(0).out.trim());
    // Nothing listens on this port, and the system never assigns it.
    let gone = "http://127.0.0.1:1".to_owned();
    let table: [(&[&str], i32, &[&str]); 8] = [
        (&["hello.json", "--server", &gone], 3, &["there is no token", "WINDLASS_TOKEN"]),
        (&["hello.json", "--server", &url, "--token-file", "none"], 3, &["could not read the token in none"]),
        (&["hello.json", "--server", &url, "--token-file", "stranger"], 3, &["rejects this token", "WND-3001"]),
        (
            &["hello.json", "--server", &url, "--token-file", "reader"],
            3,
            &["may not register", "WND-3002", "scope `admin`"],
        ),
        (&["hello.json", "--server", &gone, "--token-file", "reader"], 1, &["does not respond", &gone]),
        (
            &["none.json", "--server", &url, "--token-file", "reader"],
            3,
            &["could not read the file", "where: none.json"],
        ),
        (&["hello.json", "--server", "127.0.0.1:1", "--token-file", "reader"], 3, &["must begin with http://"]),
        (&["hello.json", "--server", "http://192.0.2.1", "--token-file", "reader"], 3, &["unencrypted"]),
    ];
    for (words, code, parts) in table {
        let done = world.place.windlass(&[&["register"], words].concat());
        assert_eq!(done.code, Some(code), "{words:?}: {}", done.err);
        for part in parts {
            done.has(part);
        }
        assert!(!done.err.contains("wl_") && done.out.is_empty(), "{words:?}: {}{}", done.out, done.err);
    }
    assert_eq!(world.names(), Vec::<String>::new());
}

#[test]
fn status_shows_the_worker_requirements_of_waiting_tasks() {
    let world = RegisterFixture::new();
    world.place.write("book.yaml", PLAYBOOK.replace("{kind: noop}", "{kind: shell, cmds: date}"));
    world.register(&["book.yaml", "--label", "gpu=yes"]).exits(0);
    let run = world.server.start_run("book", &json!({}));
    wait_until("no worker has leased its task", || {
        !world.server.get(&format!("/api/v1/runs/{run}"))["waits_for_worker"].is_null()
    });
    let status = world.place.windlass(&["status", &run]);
    status.exits(0).has("Waiting for a worker with `shell` and gpu=yes: 1 task, since 2");
    let status_json = world.place.json(&["status", &run, "--json"]);
    assert_eq!(status_json["waits_for_worker"][0]["labels"], json!({ "gpu": "yes" }), "{status_json}");
    // Without access to the server, `status` omits this part and shows the rest.
    std::fs::write(world.place.path(".windlass/local-token"), "wl_wrong").expect("written");
    let status = world.place.windlass(&["status", &run]);
    status.exits(0).has("Status: Running");
    assert!(!status.out.contains("Waiting for a worker"), "{}", status.out);
}

/// A definition that a file of `dev` holds is changed there: the reply says so.
#[test]
fn a_file_that_dev_holds_is_not_registered() {
    let place = TestDir::new();
    place.write("hello.json", HELLO);
    let mut dev = place.start(&["dev", "--port", "0", "--json"]);
    dev.line();
    let refused = place.windlass(&["register", "hello.json"]);
    refused.exits(1).has("WND-3004").has("hello.json");
    assert!(!refused.err.contains("another client") && !refused.err.contains("try again"), "{}", refused.err);
}
