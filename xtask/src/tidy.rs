//! Rules of this code base that no other tool knows.

use std::fs;
use std::path::{Path, PathBuf};

/// What the core may depend on: nothing that does I/O, keeps time or draws random numbers.
const CORE_MAY_USE: [&str; 4] = ["indexmap", "serde", "thiserror", "windlass-value"];

/// A file that a person can read at a sitting; a file of tests is looked things up in.
const LINES_MAX: usize = 600;
const TEST_LINES_MAX: usize = 900;

pub fn tidy() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut problems = core_dependencies(root);
    for file in ["crates", "examples"].into_iter().flat_map(|folder| rust_files(&root.join(folder))) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        problems.extend(file_problems(&name, &text));
    }
    problems.extend(compatibility(root));
    for problem in &problems {
        println!("tidy: {problem}");
    }
    problems.is_empty()
}

fn core_dependencies(root: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(root.join("crates/windlass-core/Cargo.toml")).unwrap_or_default();
    let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split(['.', '=', ' ']).next()).filter(|name| !name.is_empty());
    names
        .filter(|name| !CORE_MAY_USE.contains(name))
        .map(|name| format!("windlass-core depends on {name}: the reducer knows no such thing"))
        .collect()
}

/// Every row of the page names a test as `path::name`, and every such test is there.
fn compatibility(root: &Path) -> Vec<String> {
    let page = "COMPATIBILITY.md";
    let text = fs::read_to_string(root.join(page)).unwrap_or_default();
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let tests: Vec<(&str, &str)> =
            line.split('`').skip(1).step_by(2).filter_map(|span| span.split_once("::")).collect();
        let heading = line.starts_with("|---") || line.ends_with("| test |");
        if line.starts_with('|') && !heading && tests.is_empty() {
            problems.push(format!("{page}:{}: a row without a test", number + 1));
        }
        for (path, name) in tests {
            let place = format!("{page}:{}: {path}", number + 1);
            match fs::read_to_string(root.join(path)) {
                Err(_) => problems.push(format!("{place} is not there")),
                Ok(file) if !holds(path, &file, name) => problems.push(format!("{place} has no `{name}`")),
                Ok(_) => {}
            }
        }
    }
    if text.is_empty() {
        problems.push(format!("{page} is not there"));
    }
    problems
}

/// A plain name in a file of Rust is a test function; anything else is a text that stands in the file.
fn holds(path: &str, file: &str, name: &str) -> bool {
    let plain = name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    match path.ends_with(".rs") && plain {
        true => file.contains(&format!("fn {name}()")),
        false => !name.is_empty() && file.contains(name),
    }
}

fn file_problems(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let (lines, most) = (text.lines().count(), if name.contains("/tests/") { TEST_LINES_MAX } else { LINES_MAX });
    if lines > most {
        problems.push(format!("{name} has {lines} lines: more than {most} are hard to read at a sitting"));
    }
    let core = name.contains("windlass-core/src");
    for (number, line) in text.lines().enumerate() {
        let forbidden = ["SystemTime::now", "Instant::now", "HashMap", "tokio", "std::fs", "std::net"];
        if let Some(word) = forbidden.iter().find(|word| core && line.contains(**word)) {
            problems.push(format!("{name}:{}: {word} in the core", number + 1));
        }
        if line.contains("#[ignore") && !name.starts_with("xtask") {
            problems.push(format!("{name}:{}: an ignored test", number + 1));
        }
    }
    problems
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => files.extend(rust_files(&path)),
            false if path.extension().is_some_and(|extension| extension == "rs") => files.push(path),
            false => {}
        }
    }
    files
}
