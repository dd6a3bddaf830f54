//! A workflow of agents that is killed around each of its commits, and once more while it is resumed, ends as if
//! nothing had happened: no model or tool call is repeated whose result was in the journal. A model that outlives the
//! program logs the calls that were made; files record the effects of tools.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::examples::workflow_of;
use crate::support::CommandOutput;
use crate::world::{AgentFixture, Call, ModelAccess, example};

struct Victim {
    script: &'static str,
    /// A file to which each tool call appends a distinct line.
    lines: Option<&'static str>,
    /// Maximum number of concurrent model calls.
    max_in_flight: usize,
    /// The workflow has a coordinator, whose calls depend on which messages arrive together.
    has_coordinator: bool,
}

const VICTIMS: [Victim; 3] = [
    Victim { script: "loop-repeat-until", lines: Some("tests.txt"), max_in_flight: 1, has_coordinator: false },
    Victim { script: "loop-foreach", lines: Some("deployed.txt"), max_in_flight: 3, has_coordinator: false },
    Victim { script: "messaging", lines: None, max_in_flight: 2, has_coordinator: true },
];

const COORDINATOR: &str = "coordinator";

impl Victim {
    fn world(&self) -> AgentFixture {
        AgentFixture::new(&example(&format!("{}.script.yaml", self.script)), ModelAccess::OpenAi)
    }

    fn run(&self, world: &AgentFixture, more: &[&str]) -> CommandOutput {
        world.run(&example(&workflow_of(self.script)), &[&["--id", "one", "-q"], more].concat())
    }

    fn result_of(&self, done: &CommandOutput) -> Value {
        let mut end = done.exits(0).json()["output"].clone();
        if self.has_coordinator
            && let Some(end) = end.as_object_mut()
        {
            end.remove("usage");
        }
        end
    }
}

/// How often each call was made, and how often each line was written.
#[derive(Clone, Debug, PartialEq)]
struct CallCounts {
    calls: BTreeMap<Call, u64>,
    lines: BTreeMap<String, u64>,
}

impl CallCounts {
    fn read(victim: &Victim, world: &AgentFixture) -> CallCounts {
        let mut made = CallCounts { calls: BTreeMap::new(), lines: BTreeMap::new() };
        for asked in world.model_calls() {
            *made.calls.entry(asked.call()).or_default() += 1;
        }
        for line in victim.lines.map(|file| world.lines(file)).unwrap_or_default() {
            *made.lines.entry(line).or_default() += 1;
        }
        made
    }

    /// Returns the distinct calls and lines, without their counts and without the coordinator's calls.
    fn kinds(&self) -> (BTreeSet<&Call>, BTreeSet<&String>) {
        (self.calls.keys().filter(|(step, ..)| step != COORDINATOR).collect(), self.lines.keys().collect())
    }
}

/// The calls whose results are in the journal.
#[derive(Debug, Default)]
struct JournaledCalls {
    calls: BTreeSet<Call>,
    lines: BTreeSet<String>,
}

impl JournaledCalls {
    fn read(world: &AgentFixture) -> JournaledCalls {
        let mut known = JournaledCalls::default();
        let mut turns: BTreeMap<String, u64> = BTreeMap::new();
        let mut requested: BTreeMap<String, Value> = BTreeMap::new();
        for event in world.events("one").iter().filter(|event| event["type"] == "task.processed") {
            let path = event["path"].as_str().unwrap_or_default();
            if let Some(step) = path.strip_suffix(".ask") {
                let turn = turns.entry(step.to_owned()).or_insert(1);
                known.calls.insert((step.to_owned(), *turn, event["attempt"].as_u64().unwrap_or(0)));
                if event["outcome"]["status"] == "success" {
                    *turn += 1;
                }
                requested.insert(step.to_owned(), event["outcome"]["result"]["calls"].clone());
            } else if let Some((step, at)) = path.strip_suffix(']').and_then(|path| path.rsplit_once(".act[")) {
                let at: usize = at.parse().expect("the number of a call");
                let command = requested[step][at]["arguments"]["command"].as_str().unwrap_or_default();
                let line = command.split(" >> ").next().and_then(|command| command.strip_prefix("echo "));
                known.lines.extend(line.map(str::to_owned));
            }
        }
        known
    }

    /// Asserts that all journaled calls were made and were not repeated since.
    fn assert_not_repeated(&self, what: &str, then: &CallCounts, now: &CallCounts) {
        for call in &self.calls {
            let (then, now) = (then.calls.get(call), now.calls.get(call));
            assert!(
                then.is_some() && then == now,
                "{what}: {call:?} was answered, and made {then:?} times, now {now:?}"
            );
        }
        for line in &self.lines {
            let (then, now) = (then.lines.get(line), now.lines.get(line));
            assert!(then == now, "{what}: {line:?} was done {then:?} times, now {now:?}");
        }
    }
}

#[test]
fn a_loop_with_a_judge_and_tools_is_killed_at_every_commit() {
    assert_survives(&VICTIMS[0]);
}

#[test]
fn parallel_iterations_are_killed_at_every_commit() {
    assert_survives(&VICTIMS[1]);
}

#[test]
fn agents_with_mail_are_killed_at_every_commit() {
    assert_survives(&VICTIMS[2]);
}

fn assert_survives(victim: &Victim) {
    let world = victim.world();
    let end = victim.result_of(&victim.run(&world, &[]));
    let made = CallCounts::read(victim, &world);
    let once = made.calls.values().chain(made.lines.values()).all(|times| *times == 1);
    assert!(once && !made.calls.is_empty(), "{}: {made:?}", victim.script);
    // The journal knows all calls, so that the following assertions are not vacuous.
    let known = JournaledCalls::read(&world);
    assert_eq!(known.calls, made.calls.keys().cloned().collect(), "{}", victim.script);
    assert!(made.lines.keys().all(|line| known.lines.contains(line)), "{}: {known:?}", victim.script);
    std::thread::scope(|scope| {
        for moment in ["before", "after"] {
            let (end, made) = (&end, &made);
            scope.spawn(move || kill_at_each_commit(victim, moment, end, made));
        }
    });
}

fn kill_at_each_commit(victim: &Victim, moment: &str, end: &Value, undisturbed: &CallCounts) {
    let mut repeats = 0;
    for commit in 1.. {
        let what = format!("{}, killed {moment} commit {commit}", victim.script);
        let world = victim.world();
        let done = victim.run(&world, &["--crash-at", &format!("{moment}:{commit}")]);
        if done.code.is_some() {
            assert!(commit > 10, "{} has no more than {commit} commits", victim.script);
            // A reply that was not journaled yet is requested again; otherwise no kill hit an open call.
            assert!(moment == "after" || repeats > 0, "{}: nothing was ever in flight", victim.script);
            return;
        }
        // Before the first commit there is nothing to resume.
        if (moment, commit) == ("before", 1) {
            continue;
        }
        let mut lives = vec![(JournaledCalls::read(&world), CallCounts::read(victim, &world))];
        let in_flight = lives[0].1.calls.keys().filter(|call| !lives[0].0.calls.contains(*call)).count();
        assert!(in_flight <= victim.max_in_flight, "{what}: {in_flight} calls were made and not known");
        let resumed = world.windlass(&["resume", "one", "--json", "-q", "--yolo", "--crash-at", "before:3"]);
        let done = match resumed.code {
            Some(_) => resumed,
            None => {
                lives.push((JournaledCalls::read(&world), CallCounts::read(victim, &world)));
                world.windlass(&["resume", "one", "--json", "-q", "--yolo"])
            }
        };
        assert_eq!(done.code, Some(0), "{what}: {}{}", done.out, done.err);
        assert_eq!(victim.result_of(&done), *end, "{what}");
        let made = CallCounts::read(victim, &world);
        assert_eq!(made.kinds(), undisturbed.kinds(), "{what}: other things were done");
        for (known, then) in &lives {
            known.assert_not_repeated(&what, then, &made);
        }
        let max_repeats = made.calls.values().chain(made.lines.values()).max().copied().unwrap_or(0);
        repeats += u64::from(max_repeats > 1);
        assert!(max_repeats <= 1 + lives.len() as u64, "{what}: something was done {max_repeats} times: {made:?}");
        same_keys(&what, &world);
        world.windlass(&["replay", "one"]).exits(0);
    }
}

/// Asserts that a repeated call has the same idempotency key, and that no other call has it.
fn same_keys(what: &str, world: &AgentFixture) {
    let asked = world.model_calls();
    let keys: BTreeMap<&str, Call> = asked.iter().map(|asked| (asked.key.as_str(), asked.call())).collect();
    let calls: BTreeSet<Call> = asked.iter().map(|asked| asked.call()).collect();
    assert_eq!(keys.len(), calls.len(), "{what}: as many keys as calls");
    assert!(asked.iter().all(|asked| keys[asked.key.as_str()] == asked.call()), "{what}: a key of two calls");
}
