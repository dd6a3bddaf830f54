//! The examples of the error pages cause the errors that they explain.
//!
//! The files of an example are written into an empty folder. Then the commands of its `sh` blocks and the requests of its
//! `http` blocks run in their order. The output of the last one must have the code, or another name of it. Messages are
//! not compared.

mod example_run;
mod page;
mod request;
mod shell;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use example_run::{ExampleRun, SharedServices};
use page::{PageExample, SkippedKind};
use windlass_errors::{ErrorCode, all, lookup};

/// The number of examples that run and show their code. It only grows: raise it when more of them do.
const MIN_EXAMPLES: usize = 235;

/// The number of examples that run concurrently. Some only wait for a process or a server.
const MAX_CONCURRENCY: usize = 3;

/// Maximum time of all examples together: they are part of every test run.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Errors that the program reports without a code or a name so far. Their examples run and are not compared.
const WITHOUT_CODE: &[&str] = &[
    "WND-1500", "WND-1501", "WND-1502", "WND-1503", "WND-1504", "WND-1525", "WND-1526", "WND-1527", "WND-1528",
    "WND-1530", "WND-1531", "WND-1532", "WND-1533", "WND-1590", "WND-2208", "WND-2502", "WND-2504", "WND-2520",
    "WND-2602", "WND-2603", "WND-2604", "WND-2605", "WND-2606", "WND-2607", "WND-2609", "WND-2610", "WND-2615",
    "WND-2618", "WND-2619", "WND-2620", "WND-2621", "WND-2622", "WND-2624", "WND-2626", "WND-2627",
];

/// Errors that are named by another program, and the name in their example: an HTTP status, a code of SQLite or
/// Postgres, a Python class, an exit code, a name from a worker.
const FOREIGN_NAMES: &[(&str, &str)] = &[
    ("WND-2125", "PrinterJammed"),
    ("WND-2401", "503"),
    ("WND-2432", "SQLITE_ERROR"),
    ("WND-2433", "42P01"),
    ("WND-2441", "ZeroDivisionError"),
    ("WND-2450", "exit_3"),
];

/// Runs an example; returns a description of what is wrong with it.
fn failure_of(entry: &ErrorCode, example: &PageExample, services: &SharedServices) -> Option<String> {
    let outcome = ExampleRun::new(example, services).run(&example.steps);
    let foreign = FOREIGN_NAMES.iter().filter(|(code, _)| *code == entry.code).map(|(_, name)| name);
    // A name is a whole value of the JSON: many names are words that messages contain, too.
    let mut names = entry.names.iter().chain([&entry.code]).chain(foreign).map(|name| format!("\"{name}\""));
    let found = names.any(|name| outcome.shown.contains(&name));
    match (found, is_without_code(entry)) {
        (true, true) => Some(format!("{} shows its code and need not be listed in WITHOUT_CODE\n", entry.code)),
        (false, false) => Some(format!("{} {:?}:\n{}", entry.code, entry.names, outcome.log)),
        (true, false) | (false, true) => None,
    }
}

fn is_without_code(entry: &ErrorCode) -> bool {
    WITHOUT_CODE.contains(&entry.code)
}

/// Runs all examples, several concurrently, and returns the descriptions of those that fail.
fn failures_of(examples: &[(&ErrorCode, PageExample)]) -> Vec<String> {
    let services = SharedServices::default();
    let (next, failures) = (Mutex::new(examples.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..MAX_CONCURRENCY {
            scope.spawn(|| {
                loop {
                    let Some((entry, example)) = next.lock().expect("no panic").next() else { break };
                    let failure = failure_of(entry, example, &services);
                    failures.lock().expect("no panic").extend(failure);
                }
            });
        }
    });
    failures.into_inner().expect("no panic")
}

#[test]
fn examples_cause_the_errors_of_their_pages() {
    let started = Instant::now();
    let (mut runnable, mut skipped) = (Vec::new(), BTreeMap::<SkippedKind, usize>::new());
    for entry in all() {
        match PageExample::read(entry) {
            Ok(example) => runnable.push((entry, example)),
            Err(kind) => *skipped.entry(kind).or_default() += 1,
        }
    }
    // The longest ones begin first, so that none of them runs alone at the end.
    runnable.sort_by_key(|(_, example)| Reverse(example.steps.len()));
    let (failures, time) = (failures_of(&runnable), started.elapsed());
    let compared = runnable.iter().filter(|(entry, _)| !is_without_code(entry)).count();
    println!("{} examples ran in {time:?}, {compared} were compared; skipped: {skipped:?}", runnable.len());
    assert!(failures.is_empty(), "{} of {} examples fail:\n\n{}", failures.len(), runnable.len(), failures.join("\n"));
    assert!(compared >= MIN_EXAMPLES, "only {compared} examples show their code, {MIN_EXAMPLES} did before");
    assert!(time < MAX_TIME, "the examples took {time:?}");
}

/// A listed code that does not exist, or whose example does not run, is outdated.
#[test]
fn listed_codes_have_examples() {
    for code in WITHOUT_CODE.iter().chain(FOREIGN_NAMES.iter().map(|(code, _)| code)) {
        let runs = lookup(code).iter().any(|entry| PageExample::read(entry).is_ok());
        assert!(runs, "{code} need not be listed");
    }
}
