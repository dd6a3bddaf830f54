//! `docs/errors` has an index and one page per code, generated from this crate.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use windlass_errors::{CodeSeverity, all};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");

/// The ranges of numbers: the first number of each, and its subject. A range ends where the next one begins.
const RANGES: [(&str, &str); 15] = [
    ("WND-0000", "Files and dialect detection"),
    ("WND-1000", "Syntax and shared checks"),
    ("WND-1100", "Loom"),
    ("WND-1200", "NoETL"),
    ("WND-1300", "zenflow"),
    ("WND-1400", "Workflows in Rust: build checks"),
    ("WND-1500", "Projects, settings, registration"),
    ("WND-2000", "Runs: loops and limits"),
    ("WND-2100", "Runs: tasks, retries, timeouts, cancellation"),
    ("WND-2200", "Runs: expressions and values"),
    ("WND-2300", "Runs: child runs, events, waits, mail"),
    ("WND-2400", "Tools: HTTP, SQL, Python, shell"),
    ("WND-2500", "Agents, models, MCP"),
    ("WND-2600", "Store, journal, quarantine"),
    ("WND-3000", "Server API"),
];

fn render_index() -> String {
    let mut index = String::from(
        "# Error codes\n\n\
         `windlass explain CODE` prints the page of a code, and `windlass explain` lists all codes. Some errors have another\n\
         name as well, which definitions match on and results of runs show; `windlass explain NAME` accepts it, too.\n\n\
         The requests of the examples are sent with a token (`Authorization: Bearer TOKEN`), unless they show another.\n\n\
         The pages are generated from `crates/windlass-errors/pages`: edit them there, then run\n\
         `UPDATE=1 cargo test -p windlass-errors`.\n",
    );
    for (number, (first, subject)) in RANGES.iter().enumerate() {
        let end = RANGES.get(number + 1).map_or("WND-9999", |(next, _)| next);
        let entries: Vec<_> = all().iter().filter(|entry| (*first..end).contains(&entry.code)).collect();
        if entries.is_empty() {
            continue;
        }
        let _ = write!(index, "\n## {subject}\n\n| code | title | other names |\n|---|---|---|\n");
        for entry in entries {
            let names: Vec<String> = entry.names.iter().map(|name| format!("`{name}`")).collect();
            let warning = if entry.severity == CodeSeverity::Warning { " (warning)" } else { "" };
            let (code, title, names) = (entry.code, entry.title, names.join(", "));
            let _ = writeln!(index, "| [{code}]({code}.md) | {title}{warning} | {names} |");
        }
    }
    index
}

/// All files of the folder with their content.
fn render_files() -> BTreeMap<String, String> {
    let pages = all().iter().map(|entry| (format!("{}.md", entry.code), entry.page.to_owned()));
    pages.chain([("README.md".to_owned(), render_index())]).collect()
}

fn read_files(folder: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap());
    files
        .map(|file| {
            let text = std::fs::read_to_string(file.path()).unwrap();
            (file.file_name().to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// `UPDATE=1 cargo test -p windlass-errors` regenerates the folder.
#[test]
fn the_folder_has_the_pages_of_all_codes() {
    let (folder, now) = (Path::new(FOLDER), render_files());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(folder).unwrap();
        let kept = read_files(folder);
        kept.keys()
            .filter(|name| !now.contains_key(*name))
            .for_each(|name| std::fs::remove_file(folder.join(name)).unwrap());
        now.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    }
    let kept = read_files(folder);
    let names = kept.keys().chain(now.keys());
    let differing: Vec<&String> = names.filter(|name| kept.get(*name) != now.get(*name)).collect();
    assert!(differing.is_empty(), "docs/errors is outdated: UPDATE=1 cargo test -p windlass-errors; {differing:?}");
}

#[test]
fn every_code_is_in_the_index_once() {
    let index = render_index();
    for entry in all() {
        assert_eq!(index.matches(&format!("]({}.md)", entry.code)).count(), 1, "{}", entry.code);
    }
}
