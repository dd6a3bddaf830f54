//! The project's own chores. `cargo xtask` lists them.

mod needs;
mod tidy;

use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask test     formatting, lints, tidiness, all tests; what CI runs
cargo xtask bench    the figures of the engine, as ratios where there is something to compare with
cargo xtask needs    what the tests need of this machine, and how to install what is missing
cargo xtask tidy     what no other tool checks: dependencies of the core, sizes of files, words
cargo xtask deny     licences and advisories of the dependencies (needs cargo-deny)";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let chore = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let done = match chore.as_str() {
        "test" => test(),
        "bench" => bench(&rest),
        "needs" => needs::there(),
        "tidy" => tidy::tidy(),
        "deny" => deny(),
        _ => {
            println!("{HELP}");
            return ExitCode::from(if chore.is_empty() { 0 } else { 3 });
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn test() -> bool {
    // First of all: nobody should wait for a build to hear what is missing.
    needs::there()
        && cargo(&["fmt", "--all", "--check"])
        && tidy::tidy()
        && cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
        && deny_if_there()
        // The crash tests kill the program that is built here.
        && cargo(&["build", "--package", "windlass-cli"])
        && cargo(&["test", "--workspace", "--all-features"])
}

fn bench(rest: &[String]) -> bool {
    let mut arguments = vec!["run", "--release", "--package", "windlass-bench", "--"];
    arguments.extend(rest.iter().map(String::as_str));
    cargo(&["build", "--release", "--package", "windlass-cli"]) && cargo(&arguments)
}

fn deny() -> bool {
    cargo(&["deny", "--all-features", "check"])
}

/// A fresh machine has no cargo-deny, and CI must not depend on installing one.
fn deny_if_there() -> bool {
    let there = Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if !there {
        println!("cargo-deny is not installed: skipped (cargo install cargo-deny; cargo xtask deny)");
        return true;
    }
    cargo(&["deny", "--all-features", "check", "licenses", "bans", "sources"])
}

fn cargo(arguments: &[&str]) -> bool {
    println!("> cargo {}", arguments.join(" "));
    let status = Command::new(env!("CARGO")).args(arguments).status();
    let done = status.as_ref().is_ok_and(|status| status.success());
    if !done {
        println!("cargo {} did not succeed", arguments.first().copied().unwrap_or_default());
    }
    done
}
