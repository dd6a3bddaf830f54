//! Rules of this code base that no other tool checks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::vocabulary;

/// The only dependencies of the core: none that does I/O, reads the clock or draws random numbers.
const CORE_MAY_USE: [&str; 4] = ["indexmap", "serde", "thiserror", "windlass-value"];

/// The layers of ARCHITECTURE.md: a crate and the dependencies it must not have. Its tests may have them.
const MUST_NOT_USE: [(&str, &[&str]); 9] = [
    ("windlass-expr", &["windlass-core", "windlass-runtime", "windlass-agents"]),
    ("windlass-syntax", &["windlass-core", "windlass-dialect"]),
    ("windlass-store", &["windlass-core", "rusqlite"]),
    ("windlass-store-sqlite", &["windlass-core", "windlass-runtime"]),
    ("windlass-dialect", &["windlass-store", "windlass-runtime", "windlass-tools"]),
    ("windlass-loom", &["windlass-store", "windlass-runtime", "windlass-tools"]),
    ("windlass-noetl", &["windlass-store", "windlass-runtime", "windlass-tools"]),
    ("windlass-zenflow", &["windlass-store", "windlass-runtime", "windlass-tools", "windlass-agents"]),
    ("windlass-runtime", &["windlass-dialect", "windlass-loom", "windlass-noetl", "windlass-zenflow", "hyper"]),
];

/// Crates that execute a plan's effects without access to plans.
const PLAN_FREE_FOLDERS: [&str; 2] = ["crates/windlass-tools/src/", "crates/windlass-agents/src/"];

/// Crates that compute with values of users: their arithmetic is checked in the program as in tests.
const CHECKED_ARITHMETIC: [&str; 3] = ["windlass-core", "windlass-expr", "windlass-value"];

/// The file that declares the event types.
const EVENTS: &str = "crates/windlass-core/src/event/kind.rs";
const EVENTS_FOLDER: &str = "crates/windlass-core/src/event/";

/// The expression language does not depend on the core; NoETL uses these words as names of tokens.
const EVENT_NAMES_ALLOWED: [&str; 1] = ["crates/windlass-expr/src/jinja/outcome.rs"];

/// A source file must be readable in one sitting; a test file is only consulted and may be longer.
const MAX_LINES: usize = 600;
const MAX_TEST_LINES: usize = 900;

pub(crate) fn tidy() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut problems = core_dependencies(root);
    problems.extend(layers(root));
    problems.extend(unchecked_arithmetic(&fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default()));
    let events = event_names(root);
    if events.is_empty() {
        problems.push(format!("{EVENTS} declares no events"));
    }
    for file in ["crates", "examples", "fuzz"].into_iter().flat_map(|folder| rust_files(&root.join(folder))) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        problems.extend(file_problems(&name, &text));
        problems.extend(event_literals(&name, &text, &events));
    }
    problems.extend(compatibility(root));
    problems.extend(unlisted_tests(root));
    problems.extend(vocabulary::problems(root));
    for problem in &problems {
        println!("tidy: {problem}");
    }
    problems.is_empty()
}

/// The names of all event types, as literals.
fn event_names(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(EVENTS)).unwrap_or_default();
    let declared = |line: &str| {
        let (name, variant) = line.strip_prefix("    \"")?.split_once("\" ")?;
        variant.starts_with(char::is_uppercase).then(|| format!("\"{name}\""))
    };
    text.lines().filter_map(declared).collect()
}

/// Event names appear only in their declaration and in tests; all other code uses the enum.
fn event_literals(name: &str, text: &str, events: &[String]) -> Vec<String> {
    if name.starts_with(EVENTS_FOLDER) || name.contains("/tests/") || EVENT_NAMES_ALLOWED.contains(&name) {
        return Vec::new();
    }
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines
        .filter_map(|(number, line)| {
            let event = events.iter().find(|event| line.contains(event.as_str()))?;
            Some(format!("{name}:{}: {event} is the name of an event type: use `EventKind`", number + 1))
        })
        .collect()
}

fn core_dependencies(root: &Path) -> Vec<String> {
    let used = dependencies(root, "windlass-core");
    let others = used.into_iter().filter(|name| !CORE_MAY_USE.contains(&name.as_str()));
    others
        .map(|name| format!("windlass-core depends on {name}: the core may only use the crates listed in CORE_MAY_USE"))
        .collect()
}

/// Finds the crates of [`CHECKED_ARITHMETIC`] whose release profile lets numbers wrap around.
fn unchecked_arithmetic(manifest: &str) -> Vec<String> {
    let is_checked = |name: &&&str| {
        let section = manifest.split(&format!("[profile.release.package.{name}]\n")).nth(1).unwrap_or_default();
        section.split("\n[").next().unwrap_or_default().lines().any(|line| line == "overflow-checks = true")
    };
    let unchecked = CHECKED_ARITHMETIC.iter().filter(|name| !is_checked(name));
    unchecked.map(|name| format!("Cargo.toml: the release profile of {name} has no `overflow-checks = true`")).collect()
}

fn layers(root: &Path) -> Vec<String> {
    let broken = MUST_NOT_USE.iter().flat_map(|(package, others)| {
        let used = dependencies(root, package);
        let broken = others.iter().filter(move |other| used.iter().any(|name| name == *other));
        broken.map(move |other| format!("{package} depends on {other}: see the layers in ARCHITECTURE.md"))
    });
    broken.collect()
}

/// The names in a crate's section `[dependencies]`.
fn dependencies(root: &Path, package: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root.join("crates").join(package).join("Cargo.toml")).unwrap_or_default();
    let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let lines = section.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split(['.', '=', ' ']).next()).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn compatibility(root: &Path) -> Vec<String> {
    let document = "COMPATIBILITY.md";
    let text = fs::read_to_string(root.join(document)).unwrap_or_default();
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let tests: Vec<(&str, &str)> =
            line.split('`').skip(1).step_by(2).filter_map(|span| span.split_once("::")).collect();
        let heading = line.starts_with("|---") || line.ends_with("| test |");
        if line.starts_with('|') && !heading && tests.is_empty() {
            problems.push(format!("{document}:{}: a row without a test", number + 1));
        }
        for (path, name) in tests {
            let location = format!("{document}:{}: {path}", number + 1);
            match fs::read_to_string(root.join(path)) {
                Err(_) => problems.push(format!("{location} does not exist")),
                Ok(file) if !contains_test(path, &file, name) => problems.push(format!("{location} has no `{name}`")),
                Ok(_) => {}
            }
        }
    }
    if text.is_empty() {
        problems.push(format!("{document} does not exist"));
    }
    problems
}

/// Finds test files that never run: crates with `autotests = false` run only what `tests/suite.rs` or the manifest
/// names.
fn unlisted_tests(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for folder in fs::read_dir(root.join("crates")).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let (manifest, suite) = (read("Cargo.toml"), read("tests/suite.rs"));
        if !manifest.contains("autotests = false") {
            continue;
        }
        for file in fs::read_dir(folder.join("tests")).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let is_program = file.join("main.rs").is_file() || file.extension().is_some_and(|ending| ending == "rs");
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let listed = suite.contains(&format!("\nmod {name};")) || manifest.contains(&format!("name = \"{name}\""));
            if is_program && !listed {
                let file = file.strip_prefix(root).unwrap_or(&file).display();
                problems.push(format!("{file} never runs: add `mod {name};` to tests/suite.rs"));
            }
        }
    }
    problems
}

/// A plain name in a Rust file is a test function; anything else is a text that the file contains.
fn contains_test(path: &str, file: &str, name: &str) -> bool {
    let plain = name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    match path.ends_with(".rs") && plain {
        true => file.contains(&format!("fn {name}()")),
        false => !name.is_empty() && file.contains(name),
    }
}

fn file_problems(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let (lines, max_lines) = (text.lines().count(), if name.contains("/tests/") { MAX_TEST_LINES } else { MAX_LINES });
    if lines > max_lines {
        problems.push(format!("{name} has {lines} lines: the maximum is {max_lines}; split the file"));
    }
    let core = name.contains("windlass-core/src");
    for (number, line) in text.lines().enumerate() {
        let forbidden = ["SystemTime::now", "Instant::now", "HashMap", "tokio", "std::fs", "std::net"];
        if let Some(word) = forbidden.iter().find(|word| core && line.contains(**word)) {
            problems.push(format!("{name}:{}: {word} in the core", number + 1));
        }
        if PLAN_FREE_FOLDERS.iter().any(|folder| name.starts_with(folder)) && line.contains("windlass_core::plan") {
            problems.push(format!("{name}:{}: tools must not use plans", number + 1));
        }
        if compares_dialect_name(name, line) {
            let location = format!("{name}:{}", number + 1);
            problems
                .push(format!("{location}: compares a dialect's name; ask the registry of `windlass-dialect` instead"));
        }
        if line.contains("#[ignore") && !name.starts_with("xtask") {
            problems.push(format!("{name}:{}: an ignored test", number + 1));
        }
    }
    problems
}

/// Returns whether a line compares the dialect of a plan, a row or a definition with a literal, in an `if` or a
/// `match`.
fn compares_dialect_name(name: &str, line: &str) -> bool {
    let compares = |text: &str| {
        let text = text.trim_start_matches([')', ' ']);
        ["== \"", "!= \"", "== *\"", "!= *\""].iter().any(|beginning| text.starts_with(beginning))
    };
    let mut after = line.match_indices(".dialect").map(|(at, found)| &line[at + found.len()..]);
    let matches = line.contains("match ") && line.contains(".dialect {");
    name.contains("/src/") && !name.contains("/conformance/") && (matches || after.any(compares))
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

#[cfg(test)]
mod tests {
    use super::{compares_dialect_name, unchecked_arithmetic};

    #[test]
    fn crates_without_overflow_checks_are_found() {
        let profile = |name: &str, more: &str| format!("[profile.release.package.{name}]\nopt-level = 3\n{more}\n");
        let all = ["windlass-core", "windlass-expr", "windlass-value"];
        let manifest =
            |more: [&str; 3]| all.iter().zip(more).map(|(name, more)| profile(name, more)).collect::<String>();
        let checked = "overflow-checks = true\n";
        assert!(unchecked_arithmetic(&manifest([checked; 3])).is_empty());
        let found = unchecked_arithmetic(&manifest([checked, "", checked]));
        assert!(found.len() == 1 && found[0].contains("windlass-expr"), "{found:?}");
        assert_eq!(unchecked_arithmetic("").len(), 3);
    }

    #[test]
    fn dialect_name_comparisons_are_found() {
        for (line, found) in [
            ("if &*plan.dialect == \"loom\" {", true),
            ("if row.dialect != \"rust\" {", true),
            ("found.filter(|found| (*found.dialect) == *\"zenflow\")", true),
            ("let reads = match &*plan.dialect {", true),
            ("if before.dialect != plan.dialect {", false),
            ("map.insert(\"dialect\", plan.dialect.clone());", false),
        ] {
            assert_eq!(compares_dialect_name("crates/windlass-cli/src/a.rs", line), found, "{line}");
        }
        assert!(!compares_dialect_name("crates/windlass-cli/tests/a.rs", "row.dialect == \"noetl\""));
    }
}
