//! Hints name commands that work when they are typed: with the store, the server, the mocks and the rights in use.

use rustix::process::Signal;
use serde_json::json;

use crate::support::server::TestServer;
use crate::support::{CommandOutput, TestDir};

/// An address that no test may reach.
const NOWHERE: &str = "http://127.0.0.1:1";

fn fetching() -> String {
    json!({
        "name": "fetching",
        "actions": {"fetch": {"type": "http", "inputs": {"method": "GET", "uri": format!("{NOWHERE}/x"), "retryPolicy": {"type": "none"}}}}
    })
    .to_string()
}

/// A definition of which a step is mocked and the next one waits.
fn waiting() -> String {
    json!({
        "name": "waiting",
        "actions": {
            "fetch": {"type": "http", "inputs": {"method": "GET", "uri": format!("{NOWHERE}/x")}},
            "hold": {"type": "wait", "inputs": {"interval": "PT1H"}, "runAfter": {"fetch": ["Succeeded"]}},
            "again": {"type": "http", "inputs": {"method": "GET", "uri": format!("{NOWHERE}/y")}, "runAfter": {"hold": ["Succeeded"]}}
        }
    })
    .to_string()
}

/// Returns the command after a label, as it was printed.
fn command_after(shown: &CommandOutput, label: &str) -> Vec<String> {
    let text = format!("{}\n{}", shown.out, shown.err);
    let line = text.lines().find_map(|line| line.split_once(label).map(|(_, command)| command.trim().to_owned()));
    let line = line.unwrap_or_else(|| panic!("no {label:?} in\n{text}"));
    let words = line.strip_prefix("windlass ").unwrap_or_else(|| panic!("no command: {line}"));
    words.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect()
}

fn type_it(place: &TestDir, words: &[String]) -> CommandOutput {
    place.windlass(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn the_options_of_a_run_are_in_the_commands_that_follow() {
    let place = TestDir::new();
    place.write("flow.json", fetching());
    place.write("mocks.yaml", "mocks: [{when: {step: fetch}, status: 500, body: broken}]\n");
    place.write("settings.toml", "");
    let options = ["--store", "my runs", "--config", "settings.toml"];
    let failed =
        place.windlass(&[&options[..], &["run", "flow.json", "--id", "r", "-q", "--static", "mocks.yaml"]].concat());
    failed.exits(1);
    let target = "windlass --store 'my runs' --config settings.toml";
    failed.has(&format!("next: {target} events r\n"));
    failed.has(&format!("retry what failed: {target} retry r --static mocks.yaml\n"));
    failed.has(&format!("restart from there: {target} restart r --from fetch --static mocks.yaml\n"));
    // Later, the run itself knows its mocks.
    let shown = place.windlass(&[&options[..], &["status", "r"]].concat());
    let retry = shown.out.lines().find(|line| line.contains("retry what failed")).expect("a line");
    assert!(retry.contains(&format!("{target} retry r --static ")) && retry.ends_with("mocks.yaml"), "{retry}");
    // Errors of the command line do the same.
    let retried =
        place.windlass(&[&options[..], &["restart", "r", "--from", "fetsh", "--static", "mocks.yaml"]].concat());
    retried.exits(3).has(&format!("hint: {target} restart r --from 'fetch' --static mocks.yaml\n"));
    place.windlass(&[&options[..], &["status", "none"]].concat()).exits(3).has(&format!("`{target} list` shows"));
}

/// A run with mocks that was killed is resumed with them.
#[test]
fn a_killed_run_is_resumed_with_its_mocks() {
    let place = TestDir::new();
    place.write("flow.json", waiting());
    let mocks = place.write("mocks.yaml", "otherwise: fail\nmocks: [{when: {url: '/*'}, body: 1}]\n");
    let words =
        ["run", "flow.json", "--id", "r", "-q", "--static", "mocks.yaml", "--virtual-time", "--crash-at", "after:2"];
    assert_eq!(place.windlass(&words).code, None, "killed");
    let listed = place.windlass(&["list"]);
    let resume = command_after(listed.exits(0), "to resume r: ");
    assert_eq!(resume, ["resume", "r", "--static", &mocks.canonicalize().unwrap().display().to_string()]);
    type_it(&place, &resume).exits(0).has("Succeeded");
    // Without them it warns.
    let place = TestDir::new();
    place.write("flow.json", fetching());
    place.write("mocks.yaml", "mocks: [{when: {url: '/x'}, body: 1}]\n");
    let real_time = ["run", "flow.json", "--id", "r", "-q", "--static", "mocks.yaml", "--crash-at", "after:1"];
    assert_eq!(place.windlass(&real_time).code, None, "killed");
    place.windlass(&["resume", "r", "-q"]).exits(1).has("warning: the run was started with --static ");
}

/// A run in virtual time goes on only with its mocks: else its waits would be skipped between calls of real services.
#[test]
fn a_run_in_virtual_time_needs_its_mocks() {
    let place = TestDir::new();
    place.write("flow.json", fetching());
    place.write("mocks.yaml", "mocks: [{when: {step: fetch}, status: 500, body: broken}]\n");
    let words = ["run", "flow.json", "--id", "r", "-q", "--virtual-time", "--static", "mocks.yaml"];
    place.windlass(&words).exits(1);
    let count = || place.windlass(&["list", "--json"]).json().as_array().expect("runs").len();
    for words in [&["retry", "r"][..], &["restart", "r", "--from", "fetch", "--set", "a=b c"]] {
        let refused = place.windlass(words);
        refused.exits(3).has("skip the waits").has(&format!("hint: windlass {} r ", words[0]));
        assert_eq!(count(), 1, "nothing was started");
    }
    place.windlass(&["restart", "r", "--from", "fetch", "--set", "a=b c"]).has("--from fetch --set 'a=b c' --static ");
    place.windlass(&["restart", "r", "--from", ""]).exits(3).has("--from is empty");
    place.windlass(&["retry", "r", "-q", "--static", "mocks.yaml"]).exits(1).has("broken");
    assert_eq!(count(), 2);
}

/// A server with mocks is started again with them: any other would call real services.
#[test]
fn a_killed_dev_is_started_again_with_its_mocks() {
    let place = TestDir::new();
    place.write("flow.json", waiting());
    place.write("mocks.yaml", "mocks: [{when: {url: '/*'}, body: 1, delay_ms: 600000}]\n");
    let mut dev = place.start(&["dev", "--port", "0", "--json", "--static", "mocks.yaml"]);
    dev.line();
    let mut started = place.start(&["start", "waiting", "--id", "w"]);
    started.line();
    place.start(&["events", "w", "--follow"]).line_with("task.started");
    dev.signal(Signal::KILL);
    dev.finish();
    let lost = started.finish();
    lost.exits(1).has("if the server was stopped, the run continues with `windlass dev --static mocks.yaml`");
    assert!(!lost.err.contains("not affected"), "{}", lost.err);
    place.windlass(&["list"]).exits(0).has("to resume w: windlass dev --static mocks.yaml\n");
    // In another folder, too.
    let away = TestDir::new();
    let store = place.path(".windlass").display().to_string();
    let folder = place.path(".").canonicalize().unwrap();
    let there = format!("cd {} && windlass dev --static mocks.yaml", folder.display());
    away.windlass(&["--store", &store, "status", "w"]).exits(0).has(&format!("no process runs it: {there})"));
    // A server without the mocks warns.
    let mut serve = place.start(&["serve", "--bind", "127.0.0.1:0"]);
    serve.line();
    serve.signal(Signal::INT);
    serve.finish().has("mocks answered the calls of the last server").has("`windlass dev --static mocks.yaml`");
}

/// The path and the run of a command belong together, when a child run has failed.
#[test]
fn the_restart_of_a_failed_child_names_a_path_of_the_run() {
    let place = TestDir::new();
    place.write("child.json", fetching());
    let call = json!({"type": "workflow", "inputs": {"host": {"workflow": {"id": "child"}}}});
    place.write("parent.json", json!({"name": "parent", "actions": {"ask": call}}).to_string());
    place.write("mocks.yaml", "mocks: [{when: {step: fetch}, status: 500, body: broken}]\n");
    let failed = place.windlass(&["run", "parent.json", "--id", "p", "-q", "--static", "mocks.yaml"]);
    failed.exits(1).has("where: ask, line 1 of the definition").has(" at fetch: windlass status ");
    let restart = command_after(&failed, "restart from there: ");
    assert_eq!(restart, ["restart", "p", "--from", "ask", "--static", "mocks.yaml"]);
    let again: Vec<String> = restart.iter().cloned().chain(["--id".to_owned(), "p2".to_owned()]).collect();
    type_it(&place, &again).exits(1).has("it restarts p from `ask`");
    let child = command_after(&failed, " at fetch: ");
    type_it(&place, &child).exits(0).has("where: fetch");
    let report = place.windlass(&["status", "p", "--json"]).json();
    assert_eq!(
        (&report["error"]["path"], &report["error"]["child"]["path"]),
        (&json!("ask"), &json!("fetch")),
        "{report}"
    );
}

/// Advice for the runs of a server names the run and the server.
#[test]
fn hints_about_a_server_name_the_run() {
    let home = TestDir::new();
    let server = TestServer::start(&home, &[], &[]);
    let away = TestDir::new();
    away.write("token", &server.token);
    let url = server.url();
    let remote = |words: &[&str]| away.windlass(&[words, &["--server", &url, "--token-file", "token"]].concat());
    away.write("fine.json", r#"{"name": "fine", "actions": {"a": {"type": "compose", "inputs": 1}}}"#);
    remote(&["run", "fine.json", "--id", "f:1", "-q"]).exits(0);
    let target = format!("windlass --server {url} --token-file token");
    let retried = remote(&["retry", "f:1"]);
    retried.exits(3).has("WND-2624").has(&format!("{target} restart f:1 --from PATH"));
    let restarted = remote(&["restart", "f:1", "--from", "zzzzzz"]);
    restarted.exits(3).has("WND-2619");
    assert!(!restarted.err.contains("RUN"), "{}", restarted.err);
    let existing = remote(&["restart", "f:1", "--from", "a", "--id", "f:1", "-q"]);
    existing.exits(3).has("WND-2615").has(&format!("`{target} status f:1`"));
    remote(&["status", "none"]).exits(3).has(&format!("`{target} list` shows the runs"));
    away.write("mocks.yaml", "mocks: []\n");
    for verb in ["resume", "retry"] {
        remote(&[verb, "f:1", "--static", "mocks.yaml"]).exits(3).has("--static is for runs in this process");
    }
}

/// A path that leads out of the folder is refused for what it is.
#[test]
fn a_path_out_of_the_folder_is_explained() {
    let place = TestDir::new();
    let playbook = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: caller}\nworkflow:\n  - step: ask\n    tool: {kind: playbook, path: ../x}\n";
    place.write("caller.yaml", playbook);
    let checked = place.windlass(&["check", "caller.yaml"]);
    checked.exits(2).has("there is no workflow `../x`").has("a path cannot lead out of the folder of this file");
    assert!(!checked.out.contains("standard input") && !checked.err.contains("standard input"), "{}", checked.out);
}

#[test]
fn help_has_options_under_their_headings() {
    let place = TestDir::new();
    let help = place.windlass(&["dev", "--help"]).exits(0).out.clone();
    let mocks = help.split_once("\nMocks:\n").unwrap_or_else(|| panic!("no heading in\n{help}")).1;
    let mocks = mocks.split("\n\n").next().unwrap_or_default();
    assert!(mocks.contains("--static") && mocks.contains("--no-mocks"), "{help}");
    for command in ["status", "events", "logs", "iterations", "resume", "restart", "retry", "cancel", "approve"] {
        place.windlass(&[command, "--help"]).exits(0).has("its execution id");
    }
}

/// A file that `dev` has registered as well: the printed commands work beside it, and so does `--static` without more.
#[test]
fn a_run_beside_a_server_is_repeated_by_the_printed_command() {
    let place = TestDir::new();
    place.write("flow.json", fetching());
    place.write("mocks.yaml", "mocks: [{when: {step: fetch}, status: 500, body: broken}]\n");
    let mut dev = place.start(&["dev", "--port", "0", "--json", "--static", "mocks.yaml"]);
    dev.line();
    let failed = place.windlass(&["run", "flow.json", "--id", "r", "-q", "--static", "mocks.yaml"]);
    let retry = command_after(failed.exits(1), "retry what failed: ");
    assert_eq!(retry, ["retry", "r", "--static", "mocks.yaml", "--trusted"]);
    for command in [retry, command_after(&failed, "restart from there: ")] {
        type_it(&place, &command).exits(1).has("answered 500").has("--trusted --static mocks.yaml");
    }
    let ignored = "--static mocks.yaml is not used: the server on this store, `windlass dev --static mocks.yaml`";
    place.windlass(&["retry", "r", "--static", "mocks.yaml", "-q"]).exits(1).has(ignored).has("answered 500");
    place.windlass(&["restart", "r", "--from", "fetch", "--static", "mocks.yaml", "-q"]).exits(1).has(ignored);
    dev.signal(Signal::INT);
    dev.finish();
    let mut serve = place.start(&["serve", "--port", "0", "--json"]);
    serve.line();
    let refused = place.windlass(&["retry", "r", "--static", "mocks.yaml", "-q"]);
    let refused = refused.exits(3).has("the server on this store continues this run, without mocks");
    refused.has("hint: `windlass retry r --trusted --static mocks.yaml` runs it in this process with the mocks");
    place.windlass(&["retry", "r", "--trusted", "--static", "mocks.yaml", "-q"]).exits(1).has("answered 500");
}
