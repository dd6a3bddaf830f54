//! A run that is stopped inside a tick, right before a node begins, and continues as another run (fork).

use crate::support;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use support::looped::{looped, ran};
use support::random_plan::{Profile, random_program, tight_limits};
use support::world::{echo, seeded};
use support::*;
use windlass_core::plan::{Amount, NodeKind, Wait};
use windlass_core::state::{ForkOrigin, State};
use windlass_core::{
    Limits, ObservedFailures, PartialTick, Program, Reduced, ReplayPoint, ReplayWatch, Status, Tick, reduce,
};
use windlass_value::{Duration, RunView, Timestamp, Value};

fn program(seed: u64, profile: Profile, depth: u32, tight: bool) -> Program {
    let limits = if tight { tight_limits(seed) } else { Limits::default() };
    random_program(seed, profile, depth, Limits { max_net_tokens: 60, ..limits })
}

fn run_to_end(program: &Program, seed: u64, disturbance: u64) -> Sim<'_> {
    let mut sim = Sim::seeded(program, seed);
    sim.disturbance = disturbance;
    sim.start_with(Value::object([("n", Value::Int(3))])).run();
    sim
}

/// Replays a whole run with a watch and returns the watch.
fn replay_with_watch(live: &Sim, watch: ReplayWatch) -> ReplayWatch {
    let mut state = State::new(RunView::new("run", "plan", Timestamp(0)));
    let mut values = live.values.clone();
    let mut watch = Some(Box::new(watch));
    for tick in &live.journal {
        values.forget();
        let mut resume = PartialTick::with_watch(watch.take());
        while let Reduced::NeedBlobs(hashes) =
            reduce(live.program, &mut state, tick, &mut values, &mut resume).expect("it was possible")
        {
            values.load(&hashes);
        }
        watch = resume.take_watch();
    }
    *watch.expect("it comes back")
}

fn beginnings(live: &Sim, path: &Arc<str>) -> Vec<ReplayPoint> {
    replay_with_watch(live, ReplayWatch::at_path(path.clone())).take_begun()
}

fn begun_paths(live: &Sim) -> Vec<Arc<str>> {
    let paths: BTreeSet<Arc<str>> =
        replay_with_watch(live, ReplayWatch::all_paths()).take_paths().into_iter().collect();
    paths.into_iter().collect()
}

fn fork<'p>(program: &'p Program, seed: u64, journal: &[Tick], at: ReplayPoint) -> Sim<'p> {
    let mut sim = Sim::forked(program, seed, journal, at, seeded(seed));
    sim.run();
    sim
}

fn paths_of(sim: &Sim) -> BTreeSet<String> {
    sim.dispatched.iter().map(|job| job.path().to_string()).collect()
}

proptest! {
    #![proptest_config(support::cases(400))]

    /// The simulation checks with every key that no reported effect is called again.
    #[test]
    fn a_fork_at_any_node_start_ends_as_the_original_run(seed: u64, depth in 0u32..4, tight: bool, chosen: prop::sample::Index) {
        let program = program(seed, Profile::Steady, depth, tight);
        let live = run_to_end(&program, seed, 0);
        let paths = begun_paths(&live);
        prop_assume!(!paths.is_empty());
        let path = chosen.get(&paths);
        let moments = beginnings(&live, path);
        prop_assert!(!moments.is_empty(), "{path} has begun");
        let at = *chosen.get(&moments);
        let fork = fork(&program, seed, &live.journal, at);
        prop_assert_eq!((fork.status(), fork.output()), (live.status(), live.output()), "{} at {:?}", path, at);
        prop_assert_eq!(paths_of(&fork), paths_of(&live));
    }

    /// The end may differ in plans with races; the fork still ends and leaves nothing behind.
    #[test]
    fn a_fork_of_any_plan_ends(seed: u64, depth in 0u32..4, chosen: prop::sample::Index) {
        let program = program(seed, Profile::Wild, depth, false);
        let live = run_to_end(&program, seed, 5);
        let paths = begun_paths(&live);
        prop_assume!(!paths.is_empty());
        let moments = beginnings(&live, chosen.get(&paths));
        let at = *chosen.get(&moments);
        let fork = fork(&program, seed, &live.journal, at);
        prop_assert!(fork.ended());
    }

    /// A watch changes nothing, and a run without failures records none.
    #[test]
    fn failures_are_found_at_the_start_of_the_failed_node(seed: u64, depth in 0u32..4) {
        let program = program(seed, Profile::Wild, depth, false);
        let live = run_to_end(&program, seed, 0);
        let watch = replay_with_watch(&live, ReplayWatch::for_failures());
        let ObservedFailures { first, cancelled, .. } = watch.observed_failures().expect("it was asked for");
        if live.status() == Status::Failed {
            prop_assert!(first.is_some() || cancelled.is_some(), "a run that failed has something that failed first");
        }
        if let Some(failure) = first {
            let at = failure.began_at.expect("all of it was watched");
            let fork = fork(&program, seed, &live.journal, at);
            prop_assert!(fork.ended());
        }
    }
}

#[test]
fn time_between_run_and_fork_does_not_count() {
    let mut b = Builder::new();
    b.node(None, "wait", |_, _| NodeKind::Wait(Wait::Delay(Amount::Fixed(secs(60)))));
    let program = b.load();
    let mut sim = Sim::seeded(&program, 1);
    sim.start();
    let (begun, due) = (sim.state.now, sim.state.next_due().expect("a delay"));
    let day = Duration::from_secs(86_400);
    sim.state.shift_time_to(&program, begun + day);
    assert_eq!((sim.state.now, sim.state.next_due()), (begun + day, Some(due + day)));
    sim.now = begun + day;
    sim.run();
    assert_eq!((sim.status(), sim.now), (Status::Succeeded, due + day));
}

/// One tick holds hundreds of iterations: the fork point lies between two of them.
#[test]
fn a_fork_point_can_lie_between_two_iterations_of_one_tick() {
    let program = looped(|b, id| {
        let body = b.evaluate(id, "body", r#"{"$iteration": "index"}"#);
        repeat(10_000, body)
    });
    let live = ran(&program);
    for iteration in [0, 1, 999, 1_000, 1_001, 5_432, 9_999] {
        let [at] = beginnings(&live, &format!("loop[{iteration}]").into())[..] else {
            panic!("iteration {iteration} begins once")
        };
        let mut fork = Sim::forked(&program, 1, &live.journal, at, echo());
        fork.state.fork_origin = None;
        let begun = fork.iterations.first().map(|first| first.index);
        fork.run();
        assert_eq!((fork.status(), fork.output()), (live.status(), live.output()), "iteration {iteration}");
        assert!(begun.is_none_or(|begun| begun <= iteration), "iteration {iteration} runs again");
    }
}

#[test]
fn the_first_event_contains_the_fork_origin() {
    let program = looped(|b, id| {
        let body = b.effect(id, "body", r#"{"$iteration": "index"}"#);
        repeat(3, body)
    });
    let live = ran(&program);
    let [at] = beginnings(&live, &"loop[1].body".into())[..] else { panic!("it begins once") };
    let [fork_point] = beginnings(&live, &"loop[1]".into())[..] else { panic!("it begins once") };
    assert_eq!(at, fork_point, "an iteration begins with its body");
    let mut state = Sim::forked(&program, 1, &live.journal, at, echo()).state;
    assert_eq!(state.iterations, 2);
    state.fork_origin = Some(Box::new(ForkOrigin { run: "old".into(), path: "loop[1]".into(), retry: true }));
    let mut sim = Sim::new(&program, echo());
    (sim.state, sim.now) = (state.clone(), state.now);
    sim.state.events = 0;
    sim.tick(windlass_core::TickKind::Restart { lived: windlass_value::Duration::ZERO });
    let first = sim.events.first().expect("an event");
    assert_eq!(&*first.kind, "workflow.restarted");
    assert_eq!(first.data.get("from").and_then(Value::as_str), Some("old"));
    assert!(sim.state.fork_origin.is_none(), "it is published once");
}

/// A node that ends the run as failed counts as the failure, even if no other node has failed.
#[test]
fn a_run_failed_by_its_definition_is_forked_at_the_ending_node() {
    let seed = 12758975746410542315;
    let program = program(seed, Profile::Wild, 0, false);
    let live = run_to_end(&program, seed, 0);
    assert_eq!(
        live.state.result().and_then(|result| result.error.as_ref()).map(|error| &*error.code),
        Some("Terminated")
    );
    let watch = replay_with_watch(&live, ReplayWatch::for_failures());
    let first = watch.observed_failures().and_then(|failures| failures.first.clone()).expect("it has failed");
    assert_eq!(&*first.path, "n1");
    let fork = fork(&program, seed, &live.journal, first.began_at.expect("all of it was watched"));
    assert_eq!(fork.status(), Status::Failed);
}
