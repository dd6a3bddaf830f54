//! Compares the reducer with a naive reference interpreter, which is too simple to be wrong: status, output, iterations
//! and stop reason of every node.

use crate::support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::naive::Naive;
use support::random_plan::{Profile, random_program};
use support::values::MemoryValues;
use support::{Sim, json};
use windlass_core::{Limits, Program, Status};
use windlass_value::{IterationRecords, Value};

fn limits(tight: bool, kept: u64) -> Limits {
    let limits = Limits { max_loop_results: kept, ..Limits::default() };
    match tight {
        false => limits,
        true => Limits { loop_chunk_items: 2, slice_iterations: 2, slice_items: 7, max_inline_bytes: 30, ..limits },
    }
}

type Ends = BTreeMap<String, (String, Value)>;
type Loops = BTreeMap<String, (u64, String)>;

/// Returns the last end of every node and the loops by path, from the published events.
fn published_ends(sim: &Sim) -> (Ends, Loops) {
    let mut ends = BTreeMap::new();
    let mut loops = BTreeMap::new();
    for event in &sim.events {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let output = || sim.values.resolve(event.data.get("output").unwrap_or(&Value::Null));
        match &*event.kind {
            "step.done" | "step.failed" => _ = ends.insert(event.path.to_string(), (text("status"), output())),
            "loop.done" => {
                let iterations = event.data.get("iterations").and_then(Value::as_int).unwrap_or(-1) as u64;
                loops.insert(event.path.to_string(), (iterations, text("reason")));
            }
            _ => {}
        }
    }
    (ends, loops)
}

/// Returns the records that the loops of the run scope have collected.
fn recorded(program: &Program, sim: &Sim) -> BTreeMap<String, IterationRecords> {
    let scope = sim.state.scopes.get(sim.state.root_scope).expect("the run's scope");
    let kept = scope.outcomes.iter().filter_map(|(node, outcome)| {
        let records = match &outcome.loop_summary.as_ref()?.records {
            IterationRecords::None => return None,
            IterationRecords::Last(record) => IterationRecords::Last(sim.values.resolve(record)),
            IterationRecords::All(records) => IterationRecords::All(sim.values.resolve(records)),
        };
        Some((program.node(*node).name.to_string(), records))
    });
    kept.collect()
}

fn agree(seed: u64, depth: u32, tight: bool) {
    let program = random_program(seed, Profile::Steady, depth, limits(tight, 1 + seed % 5));
    let mut naive = Naive::new(&program, seed, json(r#"{"n": 3}"#));
    let end = naive.run();
    if naive.heavy {
        return;
    }
    let mut sim = Sim::seeded(&program, seed);
    if tight {
        sim.values = MemoryValues::forgetful();
    }
    sim.start_with(json(r#"{"n": 3}"#)).run();
    let (ends, loops) = published_ends(&sim);
    let expected: Ends = naive
        .ends
        .iter()
        .map(|(path, end)| (path.clone(), (end.status.as_str().to_owned(), end.output.clone())))
        .collect();
    for (path, end) in &expected {
        assert_eq!(ends.get(path), Some(end), "the node at {path}");
    }
    assert_eq!(ends, expected);
    assert_eq!(loops, naive.loops);
    assert_eq!(recorded(&program, &sim), naive.records);
    assert_eq!((sim.status(), sim.output()), (end.status, end.output));
    if end.status != Status::Succeeded {
        assert!(sim.result().error.is_some() || end.status == Status::Cancelled, "a failure says why");
    }
}

proptest! {
    #![proptest_config(support::cases(4_000))]

    #[test]
    fn the_reducer_and_the_naive_interpreter_agree(seed: u64, depth in 0u32..4, tight: bool) {
        agree(seed, depth, tight);
    }
}
