//! Runs the commands printed in the documentation against a live server.

use crate::support;

use std::process::{Command, Output};

use support::TestDir;
use support::server::TestServer;

const WORKERS: &str = include_str!("../../../docs/workers.md");
const TRIGGERS: &str = include_str!("../../../docs/triggers.md");

/// The server URL used in the documentation.
const DOCUMENTED_URL: &str = "http://127.0.0.1:7117";

/// Returns the code blocks of a language in a document, from a heading on.
fn blocks<'a>(page: &'a str, from: &str, language: &str) -> Vec<&'a str> {
    let page = page.split_once(from).unwrap_or_else(|| panic!("there is no {from:?}")).1;
    let begin = format!("```{language}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

/// Runs a script in a shell with this server's URL and the tested `windlass` in PATH.
fn shell(place: &TestDir, server: &TestServer, script: &str, variables: &[(&str, &str)]) -> Output {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_windlass"));
    let folder = program.parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-ec", &script.replace(DOCUMENTED_URL, &server.url())]).current_dir(place.path(""));
    command.envs(variables.iter().copied()).env("PATH", path);
    command.output().expect("a shell")
}

fn stdout_of(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

/// Returns whether a text matches the documented one: `…`, with the letters before it, stands for anything, and line
/// breaks may differ.
fn matches_documented(output: &str, documented: &str) -> bool {
    let plain = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
    let (mut rest, shown) = (plain(output), plain(documented));
    let parts: Vec<&str> = shown.split('…').collect();
    for (number, part) in parts.iter().enumerate() {
        let cut = number + 1 < parts.len();
        let part = if cut { part.trim_end_matches(|letter: char| letter.is_ascii_alphanumeric()) } else { part };
        let Some(at) = rest.find(part).filter(|at| number > 0 || *at == 0) else { return false };
        rest.drain(..at + part.len());
    }
    rest.is_empty() || shown.ends_with('…')
}

/// Returns each command of a block with the answer documented below it.
fn commands(block: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix('#'), commands.last_mut()) {
            (Some(shown), Some((_, answer))) => answer.push_str(shown.split("   –").next().unwrap_or_default()),
            _ if line.is_empty() => {}
            _ => commands.push((line.to_owned(), String::new())),
        }
    }
    commands
}

#[test]
fn the_documented_worker_protocol_works() {
    let place = TestDir::new();
    place.write("windlass.toml", blocks(WORKERS, "## Which jobs go where", "toml")[0]);
    let server = TestServer::start(&place, &[], &[]);
    place.write("counts.yaml", blocks(WORKERS, "### By hand", "yaml")[0]);
    let by_hand = blocks(WORKERS, "### By hand", "sh");
    let [first, second] = by_hand[..] else { panic!("{} blocks", by_hand.len()) };
    let answer = stdout_of(&shell(&place, &server, &format!("{first}\necho \"token=$WINDLASS_TOKEN\""), &[]));
    assert!(answer.starts_with("counts version 1\n{\"run\":\"r1\","), "{answer}");
    let token = answer.rsplit("token=").next().expect("a token").trim().to_owned();
    assert!(token.starts_with("wl_"), "{answer}");
    let (preamble, rest) = second.split_once("\n\n").expect("a function, then what it is used for");
    let mut compared = 0;
    for (command, shown) in commands(rest) {
        let script = format!("{preamble}\n{command}");
        let answer = stdout_of(&shell(&place, &server, &script, &[("WINDLASS_TOKEN", &token)]));
        assert!(matches_documented(&answer, &shown), "{command}\n{answer}\nis shown as\n{shown}");
        compared += usize::from(!shown.is_empty());
    }
    assert_eq!(compared, 6);
    assert_eq!(server.wait_for_end("r1")["error"]["code"], "Tired");
    // The first lines of the document: a token in a file, and the program's offer.
    let words = blocks(WORKERS, "# Workers", "sh")[0].lines().next().expect("a line");
    stdout_of(&shell(&place, &server, words, &[]));
    assert!(std::fs::read_to_string(place.path("token")).is_ok_and(|token| token.starts_with("wl_")));
}

#[test]
fn documented_webhooks_and_schedules_work() {
    let place = TestDir::new();
    let secret = "5f".repeat(32);
    let server = TestServer::start(&place, &[], &[("ORDERS_SECRET", &secret)]);
    for (name, text) in ["orders.json", "cleanup.json"].into_iter().zip(blocks(TRIGGERS, "# Triggers", "json")) {
        place.write(name, text);
    }
    let variables = [("ORDERS_SECRET", secret.as_str()), ("TOKEN", &server.token)];
    let all = blocks(TRIGGERS, "# Triggers", "sh");
    let [start, opened, delivery, nightly] = all[..] else { panic!("{} blocks", all.len()) };
    // The server already runs with a secret: the line that creates one is tested separately.
    let (make, serve) = start.split_once('\n').expect("two commands");
    assert!(serve.starts_with("ORDERS_SECRET=$(cat orders.secret) windlass serve"), "{serve}");
    let made = stdout_of(&shell(&place, &server, &format!("{make}\ncat orders.secret"), &[]));
    assert_eq!(made.trim().len(), 64, "{made}");
    place.write("orders.secret", &secret);
    let output = stdout_of(&shell(&place, &server, opened, &[]));
    assert!(output.starts_with("orders version 1\n"), "{output}");
    assert!(output.contains(r#""proof":"signature""#) && output.contains(r#""scheme":"standard""#), "{output}");
    let (script, shown) = delivery.split_once('#').expect("what is answered");
    let script = script.replace("curl ", "curl -i ");
    let answer = stdout_of(&shell(&place, &server, &script, &variables));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let [status, runs, location] = parts(shown);
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")) && matches_documented(body, runs), "{answer}");
    let found = head.lines().find_map(|line| line.strip_prefix("location: ")).expect("a place");
    assert!(matches_documented(found, location), "{found}");
    let run = found.rsplit('/').next().expect("its id");
    assert_eq!(server.wait_for_end(run)["output"]["keep"]["n"], 1);
    // A repeated delivery starts nothing.
    let again = stdout_of(&shell(&place, &server, &script, &variables));
    assert!(again.contains("\"repeated\":true"), "{again}");
    let output = stdout_of(&shell(&place, &server, nightly, &variables));
    assert!(output.contains(r#""kind":"schedule""#) && output.contains("next_at"), "{output}");
}

/// Splits `202 {…}, Location: …` into its three parts.
fn parts(shown: &str) -> [&str; 3] {
    let (status, rest) = shown.trim().split_once(' ').expect("a status");
    let (body, location) = rest.split_once(", Location: ").expect("a place");
    [status, body, location]
}

/// Returns the texts of all files below a folder.
fn texts_below(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
    let texts = |path: std::path::PathBuf| match path.is_dir() {
        true => texts_below(&path),
        false => vec![std::fs::read_to_string(path).expect("a text")],
    };
    entries.flat_map(texts).collect()
}

/// A command that the web UI suggests must exist.
#[test]
fn the_web_ui_names_only_commands_that_exist() {
    let sources = texts_below(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src"));
    let marked = sources.iter().flat_map(|text| ["<code>windlass ", "`windlass "].map(|mark| text.split(mark).skip(1)));
    let word =
        |rest: &str| rest.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap_or_default().to_owned();
    let mut named: Vec<String> = marked.flatten().map(word).collect();
    named.sort_unstable();
    named.dedup();
    assert!(named.contains(&"run".to_owned()), "the texts were found: {named:?}");
    let help = TestDir::new().windlass(&["--help"]);
    let commands: Vec<&str> = help.out.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    for name in named {
        assert!(commands.contains(&name.as_str()), "`windlass {name}` does not exist; there are {commands:?}");
    }
}
