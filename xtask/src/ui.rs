//! The web UI: built from `ui/` into `ui/dist`, which is committed, so that building Windlass needs no node.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo xtask ui` builds the web UI; with `--check` the committed build must match the sources and pass its tests.
pub(crate) fn ui(rest: &[String]) -> bool {
    let check = rest.iter().any(|argument| argument == "--check");
    build_or_check(check, || crate::cargo(&["build", "--package", "windlass-cli"]))
}

/// Checks the web UI with the program that the tests have just built.
pub(crate) fn check_with_built_program() -> bool {
    build_or_check(true, || true)
}

fn build_or_check(check: bool, build_program: fn() -> bool) -> bool {
    if !crate::needs::check_web_ui(check) {
        return false;
    }
    let folder = folder();
    // Packages come over a network, which may fail once in a while: up to three attempts.
    let installed = (0..3).any(|_| npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"]));
    let ready = installed && npm(&["run", "types"]);
    match (ready, check) {
        (false, _) => false,
        (true, false) => npm(&["run", "build"]),
        (true, true) => {
            lock_names_no_host(&folder) && npm(&["test"]) && same_build(&folder) && build_program() && browser_tests()
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).join("ui")
}

/// Checks that the lock file names no host: it must work with any registry.
fn lock_names_no_host(folder: &Path) -> bool {
    let lock = fs::read_to_string(folder.join("package-lock.json")).unwrap_or_default();
    let lines = lock.lines().enumerate().filter(|(_, line)| line.contains("://"));
    let found: Vec<usize> = lines.map(|(number, _)| number + 1).collect();
    for line in &found {
        println!(
            "ui/package-lock.json:{line}: contains a URL; `ui/.npmrc` keeps them out, and `funding` may be removed"
        );
    }
    found.is_empty() && !lock.is_empty()
}

/// Checks that a fresh build equals the committed one, byte for byte.
fn same_build(folder: &Path) -> bool {
    let fresh = folder.join("node_modules/.fresh-dist");
    let out = fresh.display().to_string();
    if !npm(&["run", "build", "--", "--outDir", &out, "--emptyOutDir"]) {
        return false;
    }
    let (committed, built) = (files(&folder.join("dist")), files(&fresh));
    let names = committed.keys().chain(built.keys()).collect::<std::collections::BTreeSet<_>>();
    let differs: Vec<_> = names.into_iter().filter(|name| committed.get(*name) != built.get(*name)).collect();
    for name in &differs {
        let how = match (committed.contains_key(*name), built.contains_key(*name)) {
            (true, false) => "is committed, but no longer built",
            (false, true) => "is built, but is not committed",
            _ => "differs from a fresh build",
        };
        println!("ui/dist/{name} {how}");
    }
    if !differs.is_empty() {
        println!("run `cargo xtask ui` and commit ui/dist");
    }
    differs.is_empty()
}

/// Returns every file below a folder, by its relative path. Of compressed files only the names count: another version
/// of node compresses the same file differently, and a test of the web UI compares them with their originals.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(one) = open.pop() {
        for path in fs::read_dir(&one).into_iter().flatten().flatten().map(|entry| entry.path()) {
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                    let is_compressed = path.extension().is_some_and(|ending| ending == "br");
                    found.insert(name, if is_compressed { Vec::new() } else { fs::read(&path).unwrap_or_default() });
                }
            }
        }
    }
    found
}

/// Runs the tests in a real browser with the real program.
fn browser_tests() -> bool {
    npm(&["run", "e2e", "--", &program().display().to_string()])
}

/// Returns the path of the program that was just built.
fn program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| folder().with_file_name("target"));
    let target = std::path::absolute(&target).unwrap_or(target);
    target.join("debug").join(if cfg!(windows) { "windlass.exe" } else { "windlass" })
}

fn npm(arguments: &[&str]) -> bool {
    println!("> npm {}", arguments.join(" "));
    let status = Command::new("npm").args(arguments).current_dir(folder()).status();
    let done = status.as_ref().is_ok_and(|status| status.success());
    if !done {
        println!("npm {} did not succeed", arguments.join(" "));
    }
    done
}
