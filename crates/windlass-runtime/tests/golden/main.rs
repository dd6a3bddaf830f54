//! Golden journals: one small definition per dialect and kind of node, run with virtual time, fixed seeds and
//! scripted results, together with the resulting journal.
//!
//! A case is a file `cases/DIALECT/NAME.case`: the definition, then a line `=== script`, then the script (see
//! [`script`]). Its journal is `NAME.jsonl`: one tick with its commands per line, and the end of the run in the last
//! line. `UPDATE=1 cargo test -p windlass-runtime --test golden` rewrites the journals; the difference is part of a
//! review.

mod case;
mod drive;
mod journal;
mod script;
mod values;
mod workflows;

use std::collections::BTreeSet;
use std::fs;

use case::Case;
use journal::Journal;
use windlass_core::plan::{Action, NodeKind, Plan};
use windlass_core::{Command, TickKind};

fn cases() -> Vec<Case> {
    let cases = Case::all();
    assert!(!cases.is_empty(), "there are golden journals");
    cases
}

/// Reports whether the journals are to be rewritten.
fn is_updating() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// Returns the committed journal of a case, or the one that will be committed: tests run concurrently, and only one
/// of them writes.
fn committed_journal(case: &Case) -> Journal {
    if is_updating() {
        return Journal::parse(&case.name, &drive::run(case).render());
    }
    let text = fs::read_to_string(case.journal_path());
    let text = text.unwrap_or_else(|error| panic!("{}: {error}; run with UPDATE=1", case.journal_path().display()));
    Journal::parse(&case.name, &text)
}

#[test]
fn running_a_case_anew_gives_its_journal() {
    let mut failures = Vec::new();
    for case in cases() {
        let actual = drive::run(&case).render();
        if is_updating() {
            fs::write(case.journal_path(), &actual).expect("a journal can be written");
        }
        let expected = fs::read_to_string(case.journal_path()).unwrap_or_default();
        if let Some(difference) = journal::first_difference(&expected, &actual) {
            failures.push(format!("{}: {difference}", case.name));
        }
    }
    assert!(failures.is_empty(), "{}\n\nUPDATE=1 writes the journals anew", failures.join("\n\n"));
}

#[test]
fn a_committed_journal_replays_to_the_same_commands_and_state() {
    for case in cases() {
        drive::replay(&case, &committed_journal(&case), drive::Between::Nothing);
    }
}

/// A snapshot after each tick, decoded before the next one: a replay may begin at any of them.
#[test]
fn a_replay_may_begin_at_every_snapshot() {
    for case in cases() {
        drive::replay(&case, &committed_journal(&case), drive::Between::Snapshot);
    }
}

/// Each prefix of a journal is a run whose process was lost there: it accepts a restart.
#[test]
fn a_restart_is_possible_after_every_tick() {
    for case in cases() {
        drive::restart_everywhere(&case, &committed_journal(&case));
    }
}

#[test]
fn every_kind_of_node_task_tick_and_command_has_a_case() {
    let mut seen = BTreeSet::new();
    for case in cases() {
        let journal = committed_journal(&case);
        nodes(&case.plan(), &mut seen);
        seen.extend(journal.entries.iter().map(|entry| tick_name(&entry.tick.kind).to_owned()));
        seen.extend(drive::commands(&case, &journal).iter().map(|command| command_name(command).to_owned()));
    }
    let missing: Vec<&&str> = EVERY_KIND.iter().filter(|kind| !seen.contains(**kind)).collect();
    assert!(missing.is_empty(), "no golden journal has {missing:?}");
}

/// The names that the functions below return; a new variant does not compile there before it is named.
const EVERY_KIND: &[&str] = &[
    "node pipeline",
    "node graph",
    "node branch",
    "node loop over items",
    "node loop with a condition",
    "node net",
    "node wait",
    "node call",
    "task evaluate",
    "task write",
    "task end",
    "task effect",
    "task reply",
    "task node",
    "task post",
    "task publish",
    "tick AddEvent",
    "tick StepResult",
    "tick LeaseLost",
    "tick CallResult",
    "tick CancelRun",
    "tick PublishEvent",
    "tick Timeout",
    "tick TimerDue",
    "tick Pause",
    "tick Resume",
    "tick Progress",
    "tick Restart",
    "tick Proceed",
    "command QueueEvent",
    "command RunWorker",
    "command CancelWorker",
    "command EndLease",
    "command StartChild",
    "command CancelChild",
    "command Reply",
    "command CompleteRun",
    "command Halt",
    "command FailWorkflow",
    "command PublishEvent",
];

fn nodes(plan: &Plan, seen: &mut BTreeSet<String>) {
    for node in &plan.nodes {
        let name = match &node.kind {
            NodeKind::Pipeline(pipeline) => {
                seen.extend(pipeline.tasks.iter().map(|task| task_name(&task.action).to_owned()));
                "node pipeline"
            }
            NodeKind::Graph(_) => "node graph",
            NodeKind::Branch(_) => "node branch",
            NodeKind::Loop(looping) => match looping.source {
                windlass_core::plan::LoopSource::Each(_) => "node loop over items",
                windlass_core::plan::LoopSource::Repeat => "node loop with a condition",
            },
            NodeKind::Net(_) => "node net",
            NodeKind::Wait(_) => "node wait",
            NodeKind::Call(_) => "node call",
        };
        seen.insert(name.to_owned());
    }
}

fn task_name(action: &Action) -> &'static str {
    match action {
        Action::Evaluate(_) => "task evaluate",
        Action::Write(_) => "task write",
        Action::End { .. } => "task end",
        Action::Effect(_) => "task effect",
        Action::Reply { .. } => "task reply",
        Action::Node(_) => "task node",
        Action::Post(_) => "task post",
        Action::PublishEvent { .. } => "task publish",
    }
}

fn tick_name(kind: &TickKind) -> String {
    format!("tick {}", kind.name())
}

fn command_name(command: &Command) -> &'static str {
    match command {
        Command::QueueEvent(_) => "command QueueEvent",
        Command::RunWorker(_) => "command RunWorker",
        Command::CancelWorker { .. } => "command CancelWorker",
        Command::EndLease { .. } => "command EndLease",
        Command::StartChild { .. } => "command StartChild",
        Command::CancelChild { .. } => "command CancelChild",
        Command::Reply(_) => "command Reply",
        Command::CompleteRun(_) => "command CompleteRun",
        Command::Halt(_) => "command Halt",
        Command::FailWorkflow(_) => "command FailWorkflow",
        Command::PublishEvent(_) => "command PublishEvent",
    }
}
