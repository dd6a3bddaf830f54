//! Invariants that hold for every plan, every seed and every point of a run.

use crate::support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::Sim;
use support::check::{check_every_iteration_is_recorded, check_nothing_left};
use support::mail::assert_every_mail_is_settled_once;
use support::naive::grows_without_bound;
use support::random_plan::{Profile, random_program, tight_limits};
use support::sim::{decoded, encoded};
use support::values::MemoryValues;
use support::world::seeded;
use windlass_core::plan::FAILED_KIND;
use windlass_core::{Command, Job, Limits, Program, Status, Tick, TickKind, TickOutput};
use windlass_value::Value;

/// Maximum number of points of a run that are tried.
const MOMENTS: usize = 10;

fn program(seed: u64, profile: Profile, depth: u32, tight: bool) -> Program {
    let limits = if tight { tight_limits(seed) } else { Limits::default() };
    // Random bodies may send each other tokens without end.
    random_program(seed, profile, depth, Limits { max_net_tokens: 60, ..limits })
}

fn run_to_end(program: &Program, seed: u64, disturbance: u64) -> Sim<'_> {
    let mut sim = Sim::seeded(program, seed);
    sim.disturbance = disturbance;
    sim.start_with(input()).run();
    sim
}

fn input() -> Value {
    Value::object([("n", Value::Int(3))])
}

/// Returns some points of a run, including the first and the last.
fn moments(ticks: usize) -> impl Iterator<Item = usize> {
    let stride = (ticks / MOMENTS).max(1);
    (1..=ticks).filter(move |at| at % stride == 0 || *at == 1 || *at == ticks)
}

fn replay(sim: &mut Sim, ticks: &[Tick]) {
    for tick in ticks {
        sim.now = tick.at;
        sim.reduce(tick.clone()).expect("a tick that was possible is possible again");
    }
}

fn undisturbed<'p>(program: &'p Program, seed: u64) -> Sim<'p> {
    Sim::with_seed(program, seed, Box::new(|_, _, _| support::Reply::Never))
}

/// Returns status and output; the order of several errors may depend on timing.
fn ending(sim: &Sim) -> (Status, Value) {
    (sim.status(), sim.output())
}

proptest! {
    #![proptest_config(support::cases(1_000))]

    #[test]
    fn a_replay_equals_the_run_byte_for_byte(seed: u64, depth in 0u32..4, tight: bool) {
        let program = program(seed, Profile::Wild, depth, tight);
        let live = run_to_end(&program, seed, 5);
        let mut again = undisturbed(&program, seed);
        replay(&mut again, &live.journal);
        assert_every_mail_is_settled_once(&live);
        check_every_iteration_is_recorded(&live);
        prop_assert_eq!(encoded(&again.state), encoded(&live.state));
        prop_assert_eq!(&again.outputs, &live.outputs);
    }

    #[test]
    fn values_that_must_be_loaded_change_nothing(seed: u64, depth in 0u32..4) {
        let program = program(seed, Profile::Wild, depth, true);
        let live = run_to_end(&program, seed, 5);
        let mut forgetful = undisturbed(&program, seed);
        forgetful.values = MemoryValues::forgetful();
        for (number, tick) in live.journal.iter().enumerate() {
            replay(&mut forgetful, std::slice::from_ref(tick));
            prop_assert_eq!(&forgetful.outputs[number], &live.outputs[number]);
        }
        prop_assert_eq!(encoded(&forgetful.state), encoded(&live.state));
    }

    #[test]
    fn a_snapshot_and_the_ticks_after_it_equal_the_whole(seed: u64, depth in 0u32..4, tight: bool) {
        let program = program(seed, Profile::Wild, depth, tight);
        let live = run_to_end(&program, seed, 5);
        let mut again = undisturbed(&program, seed);
        for (number, tick) in live.journal.iter().enumerate() {
            let snapshot = encoded(&again.state);
            again.state = decoded(&snapshot);
            prop_assert_eq!(encoded(&again.state), snapshot, "what was read is what was written");
            replay(&mut again, std::slice::from_ref(tick));
            prop_assert_eq!(&again.outputs[number], &live.outputs[number]);
        }
        prop_assert_eq!(encoded(&again.state), encoded(&live.state));
    }

    #[test]
    fn a_cancelled_run_ends_and_leaves_nothing(seed: u64, depth in 0u32..4, tight: bool, paused: bool) {
        check_cancel_at_any_tick(seed, depth, tight, paused);
    }
}

/// A plan whose run once caused a fault.
#[test]
fn regressions_that_caused_a_fault() {
    let program = program(15823780264235098529, Profile::Wild, 3, true);
    let live = run_to_end(&program, 15823780264235098529, 5);
    assert!(live.state.result().is_some());
}

/// Plans whose cancelled runs once left something behind.
#[test]
fn regressions_of_cancelled_runs_that_left_state_behind() {
    for (seed, depth, tight, paused) in [
        // The root was cancelled at the moment of its retry.
        (14403257627770050334, 2, false, false),
        (14403257627770050334, 2, false, true),
    ] {
        check_cancel_at_any_tick(seed, depth, tight, paused);
    }
}

fn check_cancel_at_any_tick(seed: u64, depth: u32, tight: bool, paused: bool) {
    let program = program(seed, Profile::Wild, depth, tight);
    let live = run_to_end(&program, seed, 3);
    for moment in moments(live.journal.len() - 1) {
        let mut sim = Sim::restarted(&program, seed, &live.journal[..moment], seeded(seed));
        if sim.ended() || sim.state.decided_end.is_some() {
            continue;
        }
        if paused {
            sim.tick(TickKind::Pause { request: None });
        }
        sim.cancel().run();
        assert_eq!(sim.status(), Status::Cancelled);
        check_nothing_left(&sim.state);
        assert_every_mail_is_settled_once(&sim);
        check_every_iteration_is_recorded(&sim);
    }
}

proptest! {
    #![proptest_config(support::cases(400))]

    #[test]
    fn every_prefix_of_a_journal_can_be_adopted(seed: u64, depth in 0u32..4, tight: bool) {
        let program = program(seed, Profile::Wild, depth, tight);
        let live = run_to_end(&program, seed, 5);
        for moment in moments(live.journal.len()) {
            let mut sim = Sim::restarted(&program, seed, &live.journal[..moment], seeded(seed));
            sim.run();
            check_nothing_left(&sim.state);
            assert_every_mail_is_settled_once(&sim);
            check_every_iteration_is_recorded(&sim);
        }
    }

    #[test]
    fn a_restart_at_any_tick_gives_the_same_end(seed: u64, depth in 0u32..4, tight: bool) {
        let program = program(seed, Profile::Steady, depth, tight);
        prop_assume!(!grows_without_bound(&program, seed, input()));
        let live = run_to_end(&program, seed, 0);
        for moment in moments(live.journal.len()) {
            let mut sim = Sim::restarted(&program, seed, &live.journal[..moment], seeded(seed));
            if moment < live.journal.len() {
                check_redispatched(&live.outputs[..moment], &sim);
            }
            sim.run();
            prop_assert_eq!(ending(&sim), ending(&live));
        }
    }

    #[test]
    fn a_pause_at_any_tick_changes_nothing_but_time(seed: u64, depth in 0u32..4, tight: bool) {
        let program = program(seed, Profile::Steady, depth, tight);
        prop_assume!(!grows_without_bound(&program, seed, input()));
        let live = run_to_end(&program, seed, 0);
        for moment in moments(live.journal.len() - 1) {
            let mut sim = Sim::restarted(&program, seed, &live.journal[..moment], seeded(seed));
            if sim.ended() {
                continue;
            }
            sim.tick(TickKind::Pause { request: None });
            check_nothing_begins_while_paused(&mut sim);
            sim.run();
            prop_assert_eq!(ending(&sim), ending(&live));
        }
    }

    #[test]
    fn disturbances_and_slices_do_not_change_the_end(seed: u64, depth in 0u32..4) {
        let plain = program(seed, Profile::Steady, depth, false);
        let sliced = Limits { max_loop_results: Limits::default().max_loop_results, ..tight_limits(seed) };
        let sliced = random_program(seed, Profile::Steady, depth, sliced);
        prop_assume!(!grows_without_bound(&plain, seed, input()));
        let (plain, disturbed) = (run_to_end(&plain, seed, 0), run_to_end(&sliced, seed, 15));
        prop_assert_eq!(ending(&disturbed), ending(&plain));
    }
}

/// After a restart every dispatched task is dispatched once more: same key, next lease epoch, workers from 0.
fn check_redispatched(before: &[TickOutput], sim: &Sim) {
    let commands =
        |outputs: &[TickOutput]| outputs.iter().flat_map(|output| output.commands.clone()).collect::<Vec<_>>();
    let jobs = |commands: Vec<Command>| -> Vec<Job> {
        let job = |command| if let Command::RunWorker(job) = command { Some(job) } else { None };
        commands.into_iter().filter_map(job).collect()
    };
    let first = jobs(commands(before));
    let restart = sim.outputs.last().expect("a restart is a tick");
    let again = jobs(restart.commands.clone());
    let repeats = again.iter().filter(|job| sim.lost.contains(&job.job)).collect::<Vec<_>>();
    assert_eq!(repeats.iter().map(|job| job.job).collect::<Vec<_>>(), sim.lost, "each, in order");
    for (worker, job) in repeats.iter().enumerate() {
        let known = first.iter().rfind(|known| known.job == job.job).expect("a job that was open");
        assert_eq!((&job.key, job.lease_epoch, &job.input), (&known.key, known.lease_epoch + 1, &known.input));
        assert_eq!((job.attempt, job.worker), (known.attempt, worker as u32));
    }
    for job in again.iter().filter(|job| !sim.lost.contains(&job.job)) {
        let before = first.iter().rfind(|known| known.job == job.job).map(|known| known.lease_epoch + 1);
        assert_eq!(job.lease_epoch, before.unwrap_or(0), "a pipeline that continues keeps its number");
    }
}

/// During a pause, time may pass and jobs may end, but no job begins.
fn check_nothing_begins_while_paused(sim: &mut Sim) {
    let handed_out = sim.dispatched.len();
    sim.buffer.clear();
    while sim.state.paused && !sim.flights.is_empty() && !sim.ended() {
        let before = sim.flights.len();
        sim.step();
        assert!(sim.flights.len() <= before, "nothing begins");
    }
    let begun = sim.dispatched.len() - handed_out;
    assert!(begun == 0 || !sim.state.paused, "a paused run hands out no new job");
}

/// Random plans are useful only if they reach every feature.
#[test]
fn random_plans_reach_every_feature() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut loads = 0;
    for seed in 0..600 {
        let program = program(seed, Profile::Wild, 3, true);
        let mut sim = Sim::seeded(&program, seed);
        sim.values = MemoryValues::forgetful();
        sim.disturbance = 5;
        sim.start().run();
        loads += sim.values.loads;
        for event in &sim.events {
            let field = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
            let detail = if &*event.kind == "loop.done" { field("reason") } else { field("status") };
            *seen.entry(format!("{} {detail}", event.kind)).or_default() += 1;
            if let Some(code) =
                sim.values.resolve(&event.data).get("error").and_then(|error| error.get("code")?.as_str())
            {
                *seen.entry(format!("error {code}")).or_default() += 1;
            }
            if &*event.kind == "message.dropped" {
                *seen.entry(format!("dropped {}", field("reason"))).or_default() += 1;
            }
            if field("token") == FAILED_KIND {
                *seen.entry("handler ".to_owned()).or_default() += 1;
            }
        }
    }
    let reasons = ["condition", "items", "judge", "count", "timeout", "budget", "stalled", "failed", "cancelled"];
    let statuses = ["failed", "cancelled", "timed_out"];
    let others = [
        "loop.progress ",
        "task.retrying ",
        "task.waiting ",
        "run.replied ",
        "step.skipped skipped",
        "workflow.idle ",
        "event.unhandled ",
        "ctx.patched ",
        "step.queued ",
        "step.idle ",
        "step.running ",
        "input.required ",
        "message.sent ",
        "message.delivered ",
        "mail.hold_timeout ",
        "mail.wakes_warning ",
        "dropped unknown-step",
        "dropped target-terminal",
        "dropped max-wake-cycles",
        "handler ",
        "error Hang",
        "error SurplusEvent",
    ];
    let expected = reasons.iter().map(|reason| format!("loop.done {reason}"));
    let expected = expected.chain(statuses.iter().map(|status| format!("step.failed {status}")));
    for corner in expected.chain(others.iter().map(|other| other.to_string())) {
        assert!(seen.get(&corner).is_some_and(|times| *times >= 3), "`{corner}` is reached too rarely: {seen:?}");
    }
    assert!(loads > 200, "values were fetched only {loads} times");
}
