//! Killed around each of its commits in turn, a workflow of agents goes on in the turn where it stood: the same end, and no
//! call of a model or a tool is made again whose end was in the journal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::examples::workflow_of;
use crate::support::Done;
use crate::world::{Call, Way, World, example};

struct Victim {
    script: &'static str,
    /// A file to which each call of a tool adds a line of its own.
    lines: Option<&'static str>,
    exit: i32,
}

const VICTIMS: [Victim; 3] = [
    Victim { script: "loop-repeat-until", lines: None, exit: 0 },
    Victim { script: "loop-foreach", lines: Some("deployed.txt"), exit: 0 },
    Victim { script: "messaging", lines: None, exit: 0 },
];

/// What of a run does not depend on when it was killed.
fn end_of(done: &Done) -> Value {
    let mut end = done.json()["output"].clone();
    forget_usage(&mut end);
    end
}

/// A call that was made twice was paid for twice.
fn forget_usage(value: &mut Value) {
    match value {
        Value::Object(parts) => {
            parts.remove("usage");
            parts.values_mut().for_each(forget_usage);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_usage),
        _ => {}
    }
}

fn run(world: &World, victim: &Victim, more: &[&str]) -> Done {
    world.run(&example(&workflow_of(victim.script)), &[&["--id", "one", "-q"], more].concat())
}

fn world_of(victim: &Victim) -> World {
    World::new(&example(&format!("{}.script.yaml", victim.script)), Way::OpenAi)
}

fn count(world: &World) -> BTreeMap<Call, u64> {
    let mut calls = BTreeMap::new();
    for asked in world.asked() {
        *calls.entry(asked.call()).or_default() += 1;
    }
    calls
}

/// The questions whose answers are in the journal, without those to a coordinator.
fn answered(world: &World) -> BTreeSet<Call> {
    let processed = world.events("one").into_iter().filter(|event| event["type"] == "task.processed");
    let calls = processed.filter_map(|event| {
        let step = event["path"].as_str()?.strip_suffix(".ask")?.to_owned();
        Some((step, event["visit"].as_u64().unwrap_or(0), event["attempt"].as_u64()?))
    });
    calls.collect()
}

#[test]
fn killed_at_any_commit_agents_go_on_in_the_turn_where_they_stood() {
    for victim in VICTIMS {
        let world = world_of(&victim);
        let done = run(&world, &victim, &[]);
        done.exits(victim.exit);
        let (end, calls) = (end_of(&done), count(&world));
        assert!(calls.values().all(|times| *times == 1), "{}: {calls:?}", victim.script);
        let lines = victim.lines.map(|file| world.lines(file));
        std::thread::scope(|scope| {
            for moment in ["before", "after"] {
                let (victim, end, calls, lines) = (&victim, &end, &calls, &lines);
                scope.spawn(move || killed(victim, moment, end, calls, lines.as_deref()));
            }
        });
    }
}

fn killed(victim: &Victim, moment: &str, end: &Value, calls: &BTreeMap<Call, u64>, lines: Option<&[String]>) {
    for commit in 1.. {
        let what = format!("{}, killed {moment} commit {commit}", victim.script);
        let world = world_of(victim);
        let done = run(&world, victim, &["--crash-at", &format!("{moment}:{commit}")]);
        if done.code.is_some() {
            assert!(commit > 20, "{} has no more than {commit} commits", victim.script);
            return;
        }
        // Before the first commit there is nothing yet to go on with.
        if (moment, commit) == ("before", 1) {
            continue;
        }
        let known = answered(&world);
        let done = world.windlass(&["resume", "one", "--json", "-q", "--yolo"]);
        assert_eq!(done.code, Some(victim.exit), "{what}: {}{}", done.out, done.err);
        assert_eq!(end_of(&done), *end, "{what}");
        let made = count(&world);
        for (call, times) in &made {
            let most = if known.contains(call) { 1 } else { 2 };
            assert!(*times <= most, "{what}: {call:?} was made {times} times, its answer was known: {}", most == 1);
        }
        let steps = |calls: &BTreeMap<Call, u64>| {
            calls.keys().filter(|(step, ..)| step != "coordinator").cloned().collect::<BTreeSet<Call>>()
        };
        assert_eq!(steps(&made), steps(calls), "{what}: other calls");
        world.windlass(&["replay", "one"]).exits(0);
        if let (Some(file), Some(lines)) = (victim.lines, lines) {
            let mut found = world.lines(file);
            found.dedup();
            assert_eq!(found, lines, "{what}: what the tools have done");
        }
    }
}
