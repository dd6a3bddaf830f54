//! The commands shown in the documentation work as described.

use std::path::Path;

use crate::support::{TestDir, command_output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const PAGES: [&str; 3] = ["docs/definitions.md", "docs/zenflow.md", "examples/zenflow/README.md"];

/// Runs shell lines that need no network: a script stands in for the model, or no model is called. `# exits 1` gives
/// the exit code.
#[test]
fn documented_commands_work() {
    let mut found = 0;
    for page in PAGES {
        let text = std::fs::read_to_string(Path::new(ROOT).join(page)).expect("the page");
        for line in commands(&text) {
            let (command, remark) = line.split_once('#').unwrap_or((line, ""));
            let words: Vec<String> = command.split_whitespace().skip(1).map(unquoted).collect();
            let place = TestDir::new();
            std::os::unix::fs::symlink(Path::new(ROOT).join("examples"), place.path("examples")).expect("the examples");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let done = command_output(place.command(&words).output().expect("the program starts"));
            let code = remark.trim().strip_prefix("exits ").and_then(|code| code[..1].parse().ok()).unwrap_or(0);
            assert_eq!(done.code, Some(code), "{page}: {line}\n{}\n{}", done.out, done.err);
            found += 1;
        }
    }
    assert!(found >= 10, "only {found} commands");
}

fn commands(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("windlass "));
    lines.filter(|line| {
        line.contains("scripted:examples/")
            || line.contains("check examples/zenflow")
            || line.contains("schema zenflow")
    })
}

fn unquoted(word: &str) -> String {
    word.trim_matches(|quote| quote == '\'' || quote == '"').to_owned()
}

/// Workflows shown in the documentation are valid.
#[test]
fn documented_workflows_are_valid() {
    let mut found = 0;
    for page in PAGES {
        let text = std::fs::read_to_string(Path::new(ROOT).join(page)).expect("the page");
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
        for block in blocks.filter(|block| block.starts_with("name: ")) {
            let place = TestDir::new();
            place.write("shown.yaml", block);
            let done = place.windlass(&["check", "shown.yaml"]);
            assert_eq!(done.code, Some(0), "{page}: {}{}", done.out, done.err);
            found += 1;
        }
    }
    assert!(found >= 2, "only {found} workflows");
}

/// Every test that the README beside this file names exists.
#[test]
fn every_test_listed_in_the_readme_exists() {
    let page = include_str!("README.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let tests: Vec<&str> =
        rows.filter_map(|row| row.trim_end_matches(" |").rsplit_once(" | ")).map(|(_, last)| last).collect();
    assert!(tests.len() > 25, "only {} rows", tests.len());
    let sources = [include_str!("examples.rs"), include_str!("kills.rs"), include_str!("people.rs")];
    let zenflow = Path::new(ROOT).join("crates/windlass-zenflow/tests");
    for name in tests.iter().flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')) {
        let files = [
            Path::new(ROOT).join(format!("crates/windlass-cli/tests/agents/expected/{name}.json")),
            zenflow.join(format!("runs/{name}.yaml")),
            zenflow.join(format!("cases/good/{name}.yaml")),
            zenflow.join(format!("cases/bad/{name}.yaml")),
        ];
        let is_function = sources.iter().any(|source| source.contains(&format!("fn {name}()")));
        assert!(is_function || files.iter().any(|file| file.exists()), "there is no `{name}`");
    }
}
