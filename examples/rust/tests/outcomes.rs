//! Runs each example as a reader would, and checks its output. One case per line.

mod common;

use common::run_example;

#[test]
fn each_example_prints_the_expected_output() {
    let table: [(&str, &[&str], &str); 4] = [
        ("hello", &[], "Hello, Ada!\n"),
        ("fan_out", &[], "5 parcels, 1400 cents\n0 parcels, 0 cents\n"),
        (
            "retry",
            &["--virtual-time"],
            "ada: card (attempt 3)\n\
             charge failed after 1 attempt: NoSuchAccount: there is no account `bob`\n\
             bob: an invoice over 1990 cents (attempt 1)\n",
        ),
        (
            "mixing",
            &[],
            "DE: 714 cents with 19 % tax\n\
             AT: 720 cents with 20 % tax\n\
             XX: NoSuchCountry\n",
        ),
    ];
    for (name, args, expected) in table {
        let folder = tempfile::tempdir().expect("a folder can be made");
        assert_eq!(run_example(folder.path(), name, args), expected, "{name}");
    }
}

#[test]
fn a_decorator_sees_ticks_moves_time_and_keeps_events_to_itself() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let output = run_example(folder.path(), "decorator", &[]);
    assert!(output.starts_with("tick 1 AddEvent\n"), "{output}");
    assert!(output.contains("the clerk says that it is 2100-01-01\n"), "{output}");
    assert!(output.contains("event workflow.") && !output.contains("event step."), "{output}");
}

/// The first process has exited when the answer arrives.
#[test]
fn an_approval_over_two_processes() {
    for (verdict, expected) in [("approve", "granted by Ada\n"), ("refuse", "refused by Ada\n")] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        assert_eq!(run_example(folder.path(), "approval", &["ask"]), "4200 cents: is that right?\n");
        assert_eq!(
            run_example(folder.path(), "approval", &["ask"]),
            "4200 cents: is that right?\n",
            "the same run again"
        );
        assert_eq!(run_example(folder.path(), "approval", &[verdict, "Ada"]), expected);
    }
}

/// Returns the output of the agent without the line with the process id.
fn agent(folder: &std::path::Path, args: &[&str]) -> String {
    let output = run_example(folder, "agent", args);
    output.lines().filter(|line| !line.starts_with("process ")).map(|line| format!("{line}\n")).collect()
}

/// Builds the expected output: each call is printed when it begins and when it is done.
fn expected_output(one: &[&str], two: &[&str], three: &[&str], end: &str) -> String {
    let calls = one.iter().chain(two).chain(three);
    let calls = calls.map(|call| format!("{} …\n{call}\n", call.split(':').next().unwrap_or_default()));
    calls.chain([end.to_owned()]).collect()
}

#[test]
fn the_agent_asks_before_it_deletes() {
    let asks = expected_output(
        &["plan: look around", "look around: 10", "judge: more"],
        &["plan: compress logs", "compress logs: 22", "judge: more"],
        &["plan: delete backups"],
        "May I delete backups? Start me again with `approve` or `refuse`.\n",
    );
    let granted = expected_output(
        &["delete backups: 52", "judge: good"],
        &[],
        &[],
        "Done after 3 turns: 52 GB are free\n  \
           1. look around: 10 GB free\n  \
           2. compress logs: 22 GB free\n  \
           3. delete backups: 52 GB free\n",
    );
    let refused = expected_output(
        &["judge: more"],
        &["plan: compress photos", "compress photos: 42", "judge: good"],
        &[],
        "Done after 4 turns: 42 GB are free\n  \
           1. look around: 10 GB free\n  \
           2. compress logs: 22 GB free\n  \
           3. delete backups: refused: 22 GB free\n  \
           4. compress photos: 42 GB free\n",
    );
    for (verdict, expected) in [("approve", granted), ("refuse", refused)] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        assert_eq!(agent(folder.path(), &[]), asks);
        assert_eq!(agent(folder.path(), &[verdict]), expected);
    }
}
