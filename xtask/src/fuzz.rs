//! Runs the fuzz targets. The toolchain is the ordinary one: the compiler's coverage pass is switched on for the crates of
//! this workspace, and their dependencies are those of the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::features;

/// The time for all targets together, in CI.
pub(crate) const CI_MINUTES: u64 = 2;

/// The time for each target, at night.
const NIGHTLY_MINUTES_PER_TARGET: u64 = 20;

/// The seed in CI: two runs over the same code differ only by what the time allows. With `--minutes` it is random.
const CI_SEED: u32 = 1;

/// The limits of a single input.
const MAX_INPUT_SECONDS: u64 = 25;
const MAX_MEMORY_MIB: u64 = 2_048;
const MAX_INPUT_BYTES: usize = 4_096;

/// `[--minutes M] [TARGET…]`: all targets, or these, for so many minutes together.
pub(crate) fn fuzz(rest: &[String]) -> bool {
    let (mut minutes, mut seed, mut named) = (CI_MINUTES, Some(CI_SEED), Vec::new());
    let mut arguments = rest.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--minutes" => match arguments.next().and_then(|minutes| minutes.parse().ok()) {
                Some(given) => (minutes, seed) = (given, None),
                None => return refuse("--minutes needs a number"),
            },
            name => named.push(name.to_owned()),
        }
    }
    let known = targets();
    if let Some(unknown) = named.iter().find(|name| !known.contains(name)) {
        return refuse(&format!("there is no target {unknown}; there are {}", known.join(", ")));
    }
    let targets = if named.is_empty() { known } else { named };
    build().is_some_and(|program| run_all(&program, &targets, minutes * 60, seed))
}

/// Every target, long enough to find what takes a while.
pub(crate) fn nightly() -> bool {
    let minutes = NIGHTLY_MINUTES_PER_TARGET * targets().len() as u64;
    fuzz(&["--minutes".to_owned(), minutes.to_string()])
}

fn refuse(problem: &str) -> bool {
    println!("fuzz: {problem}");
    false
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Each target has a corpus.
fn targets() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("fuzz/corpus")).into_iter().flatten().flatten();
    let mut names: Vec<String> = folders.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Builds the fuzzer with the features of the tests, so that it shares their dependencies, and returns its path.
fn build() -> Option<PathBuf> {
    let features = format!("{},windlass-fuzz/libfuzzer", features());
    let arguments = ["test", "--workspace", "--features", &features, "--test", "libfuzzer", "--no-run"];
    println!("> cargo {}", arguments.join(" "));
    let begun = std::time::Instant::now();
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--message-format", "json-render-diagnostics"]).current_dir(root());
    command.env("RUSTC_WORKSPACE_WRAPPER", root().join("fuzz/rustc-with-coverage")).env("CARGO_INCREMENTAL", "0");
    let output = command.stderr(Stdio::inherit()).output().ok()?;
    println!("> took {} s", begun.elapsed().as_secs());
    if !output.status.success() {
        println!("fuzz: the fuzzer does not build");
        return None;
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let message =
        messages.lines().find(|line| line.contains("\"name\":\"libfuzzer\"") && line.contains("\"executable\":\""));
    let path = message?.split("\"executable\":\"").nth(1)?.split('"').next()?;
    Some(path.into())
}

/// Runs the targets on all processors; each gets the same share of the time.
fn run_all(program: &Path, targets: &[String], seconds: u64, seed: Option<u32>) -> bool {
    let share = (seconds / targets.len() as u64).max(1);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(false));
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !run(program, target, share, seed) {
                        *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = true;
                    }
                }
            });
        }
    });
    !failed.into_inner().unwrap_or(true)
}

fn run(program: &Path, target: &str, seconds: u64, seed: Option<u32>) -> bool {
    let work = root().join("target/fuzz");
    let (grown, findings) = (work.join("corpus").join(target), work.join("findings"));
    if let Err(error) = std::fs::create_dir_all(&grown).and_then(|()| std::fs::create_dir_all(&findings)) {
        return refuse(&format!("{}: {error}", work.display()));
    }
    let mut command = Command::new(program);
    command.env("WINDLASS_FUZZ_TARGET", target);
    command.arg(&grown).arg(root().join("fuzz/corpus").join(target));
    let settings = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={MAX_INPUT_SECONDS}"),
        format!("-rss_limit_mb={MAX_MEMORY_MIB}"),
        format!("-max_len={MAX_INPUT_BYTES}"),
        format!("-artifact_prefix={}/{target}-", findings.display()),
        "-print_final_stats=1".to_owned(),
    ];
    command.args(seed.map(|seed| format!("-seed={seed}")));
    let Ok(output) = command.args(settings).output() else { return refuse("the fuzzer does not start") };
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    report(program, target, output.status, &log);
    output.status.success()
}

fn report(program: &Path, target: &str, status: ExitStatus, log: &str) {
    let executions = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let coverage = log.lines().rev().find_map(|line| line.split_once("cov: ")?.1.split(' ').next());
    let (executions, coverage) = (executions.unwrap_or("?").trim(), coverage.unwrap_or("?"));
    println!("fuzz: {target}: {executions} executions, {coverage} edges");
    if status.success() {
        return;
    }
    let lines: Vec<&str> = log.lines().collect();
    println!("{}", lines[lines.len().saturating_sub(60)..].join("\n"));
    let found = lines.iter().find_map(|line| line.split_once("Test unit written to ").map(|(_, path)| path));
    let (found, program) = (found.unwrap_or("FILE"), program.display());
    println!("fuzz: {target} has a finding; repeat it with WINDLASS_FUZZ_TARGET={target} {program} {found}");
}
