//! `docs/limits.md` lists every limit of `[limits]`, and every limit named in a message or a docs page exists.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use windlass_core::{Limits, ProcessLimits, ServerLimits};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const HEAD: &str = "| limit | default | meaning |\n|---|---|---|\n";

fn render_page() -> String {
    let mut page = String::from(
        "# Limits\n\n\
         `windlass limits` prints those in force. Change one in `windlass.toml`, section `[limits]`, or in the environment as\n\
         `WINDLASS_<NAME>` in capitals. An error that a limit causes names it. Limits of the server are in\n\
         [serving.md](serving.md#limits-of-the-server).\n\n\
         ## Definitions and runs\n\n\
         A run keeps the limits that its definition was stored with: a changed limit applies to runs of definitions that are stored\n\
         afterwards.\n\n",
    );
    page.push_str(HEAD);
    for (name, value, meaning) in Limits::default().describe() {
        let _ = writeln!(page, "| `{name}` | {value} | {} |", meaning.trim());
    }
    page.push_str(
        "\n## Tools, agents and workers\n\n\
         They apply to the process that does the work, for every run: `windlass run`, a server, a worker. A changed limit\n\
         takes effect with the next start of that process.\n\n",
    );
    page.push_str(HEAD);
    for (name, value, meaning) in ProcessLimits::default().describe() {
        let _ = writeln!(page, "| `{name}` | {value} | {} |", meaning.trim());
    }
    page
}

/// `UPDATE=1 cargo test -p windlass-core limits_page` regenerates the page.
#[test]
fn the_page_lists_every_limit() {
    let now = render_page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &now).expect("the file");
    }
    let kept = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(kept == now, "docs/limits.md is outdated: UPDATE=1 cargo test -p windlass-core limits_page");
}

/// A shared name would have two settings.
#[test]
fn no_two_limits_share_a_name() {
    let (limits, process) = (Limits::default().describe(), ProcessLimits::default().describe());
    let names: Vec<&str> = limits.iter().chain(&process).map(|(name, _, _)| *name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

/// Keys of `[server]` besides its limits, which messages may name.
const SERVER_KEYS: [&str; 4] = ["max_connections", "max_connections_per_address", "outbound", "rate_per_second"];

#[test]
fn messages_name_limits_that_exist() {
    let (limits, process) = (Limits::default().describe(), ProcessLimits::default().describe());
    let known: BTreeSet<&str> = limits.iter().chain(&process).map(|(name, _, _)| *name).collect();
    let server = ServerLimits::default().describe();
    let server: BTreeSet<&str> = server.iter().map(|(name, _, _)| *name).chain(SERVER_KEYS).collect();
    let (mut sources, mut named) = (Vec::new(), BTreeSet::new());
    collect_files(&Path::new(ROOT).join("crates"), &mut sources);
    collect_files(&Path::new(ROOT).join("docs"), &mut sources);
    for file in sources {
        let text = std::fs::read_to_string(&file).expect("a text");
        for (prefix, known) in [("`limits.", &known), ("`server.", &server)] {
            for (at, _) in text.match_indices(prefix) {
                let name = text[at + prefix.len()..].split('`').next().unwrap_or_default();
                // A name that is assembled at run time, or a method of another type.
                if name.starts_with('{') || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
                    continue;
                }
                assert!(known.contains(name), "{} names {prefix}{name}`, which does not exist", file.display());
                named.insert(name.to_owned());
            }
        }
    }
    assert!(named.len() > 20, "the messages were not found: {named:?}");
}

/// Collects source files and docs pages; tests may name limits that do not exist.
fn collect_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_source = path.extension().is_some_and(|end| ["rs", "md", "py"].iter().any(|known| end == *known));
        match path.is_dir() {
            true if path.file_name().is_some_and(|name| name == "tests") => {}
            true => collect_files(&path, found),
            false if is_source => found.push(path),
            false => {}
        }
    }
}
