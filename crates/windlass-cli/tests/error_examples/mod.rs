//! The examples of the error pages cause the errors that they explain.
//!
//! The files of an example are written into an empty folder. Then the commands of its `sh` blocks and the requests of its
//! `http` blocks run in their order. The output of the last one must have the code. Messages are not compared.

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
use windlass_errors::{ErrorCode, all};

/// The number of examples that run and show their code. It only grows: raise it when more of them do.
const MIN_EXAMPLES: usize = 270;

/// The number of examples that run concurrently. Some only wait for a process or a server.
const MAX_CONCURRENCY: usize = 3;

/// Maximum time of all examples together: they are part of every test run.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Reasons that only events have, by their names: no step or run fails with them.
const IN_EVENTS: [&str; 2] = ["WND-2111", "WND-2123"];

/// Runs an example; returns a description of what is wrong with it.
fn failure_of(entry: &ErrorCode, example: &PageExample, services: &SharedServices) -> Option<String> {
    let outcome = ExampleRun::new(example, services).run(&example.steps);
    // A value of the JSON, or the code of a message on stderr.
    let codes = [format!("\"{}\"", entry.code), format!("[{}]", entry.code)];
    let names = entry.names.iter().filter(|_| IN_EVENTS.contains(&entry.code)).map(|name| format!("\"{name}\""));
    let found = codes.into_iter().chain(names).any(|form| outcome.shown.contains(&form));
    (!found).then(|| format!("{} {:?}:\n{}", entry.code, entry.names, outcome.log))
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
    println!("{} examples ran in {time:?}; skipped: {skipped:?}", runnable.len());
    assert!(failures.is_empty(), "{} of {} examples fail:\n\n{}", failures.len(), runnable.len(), failures.join("\n"));
    assert!(runnable.len() >= MIN_EXAMPLES, "only {} examples run, {MIN_EXAMPLES} did before", runnable.len());
    assert!(time < MAX_TIME, "the examples took {time:?}");
}
