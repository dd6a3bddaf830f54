//! The agent is killed with SIGKILL repeatedly, and must end as if nothing had happened: the same result, each call
//! done once, and no call repeated whose answer had been stored.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use common::{command, run_example};

/// The minimum number of kills at the end: a test without kills proves nothing.
const MIN_KILLS: usize = 20;

fn calls(folder: &Path) -> String {
    fs::read_to_string(folder.join(".windlass/agent-calls.txt")).unwrap_or_default()
}

fn lines<'t>(calls: &'t str, word: &'t str) -> impl Iterator<Item = &'t str> {
    calls.lines().filter(move |line| line.starts_with(word))
}

/// Returns the output from the result line on.
fn result(output: &str) -> &str {
    output.find("Done after").map_or("", |at| &output[at..])
}

/// Starts the agent and kills it when this many lines are written; returns false if it ended first.
fn killed_at(folder: &Path, written: usize) -> bool {
    let mut child = command(folder, "agent", &["approve"]).spawn().expect("the agent can be started");
    loop {
        if let Some(status) = child.try_wait().expect("a child can be looked at") {
            assert!(status.success(), "{status}");
            return false;
        }
        if calls(folder).lines().count() >= written {
            break;
        }
        std::thread::yield_now();
    }
    child.kill().expect("a child can be killed");
    child.wait().expect("a child can be waited for").signal() == Some(9)
}

#[test]
fn killed_anywhere_it_ends_the_same() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let reference = run_example(folder.path(), "agent", &["approve"]);
    let reference_calls = calls(folder.path());
    assert!(result(&reference).starts_with("Done after 3 turns"), "{reference}");
    assert_eq!(lines(&reference_calls, "asked").count(), lines(&reference_calls, "done").count());

    let mut kills = 0;
    for written in 0..=reference_calls.lines().count() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let first = killed_at(folder.path(), written);
        let second = first && killed_at(folder.path(), written + 2);
        let output = run_example(folder.path(), "agent", &["approve"]);
        let killed = usize::from(first) + usize::from(second);
        let now = calls(folder.path());
        assert_eq!(result(&output), result(&reference), "killed at {written}");
        assert_eq!(
            lines(&now, "done").collect::<Vec<_>>(),
            lines(&reference_calls, "done").collect::<Vec<_>>(),
            "killed at {written}: other calls"
        );
        let again = lines(&now, "asked").count() - lines(&now, "done").count();
        assert!(again <= killed, "killed {killed} times at {written}, and {again} calls were asked for again:\n{now}");
        kills += killed;
    }
    println!("{kills} kills survived");
    assert!(kills >= MIN_KILLS, "only {kills} kills");
}
