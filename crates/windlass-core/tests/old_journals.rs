//! Journals that an older program has written, with the digests of what it asked for then: they must replay.
//!
//! `tests/old_journals/semantics_2.bin` holds runs of plans by chance from before a pipeline was one job. Each is its
//! plan, the simulation's seed, and its ticks with the digests of their commands.

mod support;

use support::language::TestLanguage;
use support::rng::digest;
use support::{Reply, Sim};
use windlass_core::plan::Plan;
use windlass_core::{Limits, Program, Tick};

type OldRun = (Plan, u64, Vec<(Tick, u64)>);

#[test]
fn what_was_journaled_before_replays() {
    let bytes = include_bytes!("old_journals/semantics_2.bin");
    let runs: Vec<OldRun> = rmp_serde::from_slice(bytes).expect("old journals are read");
    assert!(runs.len() >= 10, "only {} runs", runs.len());
    for (number, (plan, seed, entries)) in runs.into_iter().enumerate() {
        assert_eq!(plan.semantics, 2);
        let program = Program::load(plan, &[&TestLanguage], Limits::default()).expect("an old plan loads");
        let mut sim = Sim::with_seed(&program, seed, Box::new(|_, _, _| Reply::Never));
        for (at, (tick, then)) in entries.into_iter().enumerate() {
            let name = tick.kind.name();
            sim.now = tick.at;
            sim.reduce(tick).unwrap_or_else(|why| panic!("run {number}, tick {at} ({name}): {why}"));
            let commands = &sim.outputs.last().expect("a tick has an output").commands;
            let now = digest(0, &rmp_serde::to_vec(commands).expect("commands can be written"));
            assert_eq!(now, then, "run {number}, tick {at} ({name}) asks for other things: {commands:?}");
        }
        assert!(sim.ended(), "run {number} comes to its end");
    }
}
