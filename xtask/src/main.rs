//! The project's maintenance tasks. `cargo xtask` lists them.

mod advisories;
mod budget;
mod compare;
mod fuzz;
mod needs;
mod tidy;
mod ui;
mod vocabulary;

use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test      formatting, lints, tidiness, all tests; what CI runs
cargo xtask nightly   the same, then slower checks: DuckDB, more cases of property tests, more kills and power
                      losses, longer fuzzing, the packages
cargo xtask bench     benchmarks of the engine, as ratios where there is a reference
cargo xtask compare   this revision against another: rates, instructions, syncs and writes
cargo xtask ui        builds the web UI; `--check` compares it with the committed build and tests it in a browser
cargo xtask dist      builds the packages of the program into `dist/`; `--check` installs and tries each of them,
                      `--needs` lists what that needs on this machine, `--program FILE` packages a program that
                      exists, `--help` lists all options
cargo xtask needs     lists what the tests need on this machine, and how to install what is missing;
                      `--packages` leaves out what cargo installs
cargo xtask tidy      checks of our own: dependencies of the core, sizes of files, words
cargo xtask fuzz      runs the fuzz targets, all or those named, for 2 minutes together or `--minutes M`
cargo xtask features  prints the features that the tests enable, for other cargo commands
cargo xtask deny      licences and sources of the dependencies; `--advisories` requires the advisory database, which
                      `test` checks where it can be had
cargo xtask budget    builds the program from nothing and checks the budgets of its build time and size;
                      `--ci` allows for other machines";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let done = match task.as_str() {
        "test" => test(),
        "nightly" => nightly(),
        "bench" => bench(&rest),
        "dist" => dist(&rest),
        "fuzz" => fuzz::fuzz(&rest),
        "compare" => compare::compare(&rest),
        "needs" => needs::needs(&rest),
        "tidy" => tidy::tidy(),
        "ui" => ui::ui(&rest),
        "features" => {
            println!("{}", features());
            true
        }
        "deny" => deny() && (!rest.iter().any(|argument| argument == "--advisories") || advisories::check()),
        "budget" => budget::check(&rest),
        _ => {
            println!("{HELP}");
            return ExitCode::from(if task.is_empty() { 0 } else { 3 });
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Features that take too long to build for every change. Their own tests: `cargo test -p windlass-tools --features
/// duckdb`.
const EXCLUDED_FEATURES: [&str; 1] = ["duckdb"];

/// The factor for the number of cases of nightly property tests and of random kills in crash tests.
const NIGHTLY_FACTOR: &str = "10";

/// The number of cases of property tests that use proptest's own setting, which is 256 by default.
const NIGHTLY_CASES: &str = "2560";

/// The long form of the checks: too slow for every change, short enough for every night.
fn nightly() -> bool {
    let more = [("WINDLASS_TEST_FACTOR", NIGHTLY_FACTOR), ("PROPTEST_CASES", NIGHTLY_CASES)];
    let properties = ["windlass-core", "windlass-value", "windlass-expr", "windlass-triggers"];
    let properties: Vec<&str> = properties.into_iter().flat_map(|name| ["--package", name]).collect();
    test()
        && cargo(&["test", "--package", "windlass-tools", "--features", "duckdb"])
        && cargo_with(&more, &[&["test"], &properties[..]].concat())
        && cargo_with(&more, &["test", "--package", "windlass-testing", "--test", "kill", "--test", "power"])
        && fuzz::nightly()
        // Like CI, it must pass on machines that are slower than the one on which the budget was measured.
        && budget::check(&["--ci".to_owned()])
        && dist(&["--check".to_owned()])
}

/// Runs the crate that builds packages. It compresses and hashes large files, so it is compiled for speed.
fn dist(rest: &[String]) -> bool {
    let mut arguments = vec!["run", "--quiet", "--release", "--package", "windlass-dist", "--"];
    arguments.extend(rest.iter().map(String::as_str));
    cargo(&arguments)
}

fn test() -> bool {
    let features = features();
    // First of all: missing requirements must be reported before a long build.
    needs::check_all()
        && cargo(&["fmt", "--all", "--check"])
        && tidy::tidy()
        && cargo(&["clippy", "--workspace", "--all-targets", "--features", &features, "--", "-D", "warnings"])
        && deny()
        && advisories::check_if_available()
        // It builds the program as well, before any test runs: crash tests kill it, and browsers test it.
        && cargo(&["test", "--workspace", "--features", &features])
        && fuzz::fuzz(&[])
        && ui::check_with_built_program()
}

/// All features of all crates, except the excluded ones.
fn features() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let manifest = std::fs::read_to_string(folder.path().join("Cargo.toml")).unwrap_or_default();
        let section = manifest.split("[features]").nth(1).unwrap_or_default();
        let lines = section.split("\n[").next().unwrap_or_default().lines().filter(|line| !line.starts_with('#'));
        let names = lines.filter_map(|line| line.split_once('=')).map(|(name, _)| name.trim());
        let included = names.filter(|name| !EXCLUDED_FEATURES.contains(name));
        found.extend(included.map(|name| format!("{}/{name}", folder.file_name().to_string_lossy())));
    }
    found.sort();
    found.join(",")
}

fn bench(rest: &[String]) -> bool {
    let mut arguments = vec!["run", "--release", "--package", "windlass-bench", "--"];
    arguments.extend(rest.iter().map(String::as_str));
    cargo(&["build", "--release", "--package", "windlass-cli"]) && cargo(&arguments)
}

/// Checks licences, duplicate dependencies and sources.
fn deny() -> bool {
    cargo(&["deny", "--all-features", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"])
}

fn cargo(arguments: &[&str]) -> bool {
    cargo_with(&[], arguments)
}

fn cargo_with(variables: &[(&str, &str)], arguments: &[&str]) -> bool {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    println!("> {set}cargo {}", arguments.join(" "));
    let started = std::time::Instant::now();
    let status = Command::new(env!("CARGO")).envs(variables.iter().copied()).args(arguments).status();
    let done = status.as_ref().is_ok_and(|status| status.success());
    println!("> took {} s", started.elapsed().as_secs());
    if !done {
        println!("cargo {} did not succeed", arguments.first().copied().unwrap_or_default());
    }
    done
}
