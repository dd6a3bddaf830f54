//! States that cannot be are reported as such: nothing panics, and nothing goes on as if they were right.

use crate::support;

use proptest::prelude::*;
use support::Sim;
use support::build::repeat;
use support::looped::{begun, looped};
use support::random_plan::{Profile, random_program};
use support::rng::Rng;
use support::sim::{decoded, encoded};
use support::values::MemoryValues;
use windlass_core::plan::{NodeId, NodeKind};
use windlass_core::state::{Body, FrameId, WaitFrame};
use windlass_core::{
    Fault, Impossible, Limits, Program, Reduced, Resume, State, Status, TaskOutcome, Tick, TickKind, reduce,
};
use windlass_value::{Duration, Value};

fn apply(program: &Program, state: &mut State, values: &mut MemoryValues, kind: TickKind) -> Result<(), Impossible> {
    let later = if matches!(kind, TickKind::TimerDue) { Duration::from_secs(100_000) } else { Duration::ZERO };
    let tick = Tick { at: state.now + later, seed: 1, kind, more: false };
    let mut resume = Resume::default();
    while let Reduced::NeedBlobs(hashes) = reduce(program, state, &tick, values, &mut resume)? {
        values.load(&hashes);
    }
    Ok(())
}

/// A loop in its first iteration, whose body waits for a worker.
fn at_work() -> Program {
    looped(|b, id| repeat(3, b.effect(id, "body", "1")))
}

/// What the worker's report leads to in a state that somebody has changed.
fn reported(change: impl FnOnce(&mut State)) -> Impossible {
    let program = at_work();
    let mut sim = begun(&program);
    let report = report(&sim.state).expect("a job is out");
    change(&mut sim.state);
    apply(&program, &mut sim.state, &mut sim.values, report).expect_err("an impossible state is noticed")
}

fn report(state: &State) -> Option<TickKind> {
    let (job, open) = state.jobs.iter().next()?;
    Some(TickKind::StepResult { job: *job, dispatch: open.dispatch, outcome: TaskOutcome::success(Value::Int(1)) })
}

fn find(state: &State, kind: impl Fn(&Body) -> bool) -> FrameId {
    state.frames.iter().find(|(_, frame)| kind(&frame.body)).map(|(id, _)| id).expect("such a frame is live")
}

fn the_loop(state: &State) -> FrameId {
    find(state, |body| matches!(body, Body::Loop(_)))
}

fn the_pipeline(state: &State) -> FrameId {
    find(state, |body| matches!(body, Body::Pipeline(_)))
}

#[test]
fn a_parent_of_another_kind_is_told_with_path_expected_and_found() {
    let impossible = reported(|state| {
        let id = the_loop(state);
        state.frames.get_mut(id).expect("a frame").body = Body::Wait(WaitFrame::Time);
    });
    let Fault::WrongFrame { expected, found, .. } = impossible.fault else { panic!("{impossible}") };
    assert_eq!((impossible.path.as_str(), found), ("loop", "a wait"));
    let told = impossible.to_string();
    assert!(told.contains("StepResult") && told.contains(expected) && told.contains("`loop`"), "{told}");
}

#[test]
fn the_end_of_an_iteration_that_the_loop_does_not_know_is_impossible() {
    let impossible = reported(|state| {
        let id = the_loop(state);
        let Body::Loop(body) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
        body.iterations.clear();
    });
    assert!(matches!(impossible.fault, Fault::NoSuchPart { part: "iteration", number: 0, .. }), "{impossible}");
}

#[test]
fn a_job_whose_frame_is_gone_is_impossible() {
    let impossible = reported(|state| {
        let id = the_pipeline(state);
        state.frames.remove(id);
    });
    assert!(matches!(impossible.fault, Fault::NoFrame { .. }), "{impossible}");
}

#[test]
fn a_task_beyond_the_last_is_impossible() {
    let impossible = reported(|state| {
        let id = the_pipeline(state);
        let Body::Pipeline(body) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
        body.pc = 7;
    });
    assert!(matches!(impossible.fault, Fault::NoSuchPart { part: "task", number: 7, .. }), "{impossible}");
}

#[test]
fn a_child_that_its_parent_does_not_count_is_impossible() {
    let impossible = reported(|state| {
        let id = the_loop(state);
        state.frames.get_mut(id).expect("a frame").live = 0;
    });
    assert!(matches!(impossible.fault, Fault::Miscounted { .. }), "{impossible}");
}

/// An item may outlive its frame: that is not impossible, and changes nothing.
#[test]
fn what_comes_for_a_frame_that_has_ended_changes_nothing() {
    let program = at_work();
    let mut sim = begun(&program);
    let report = report(&sim.state).expect("a job is out");
    sim.cancel().run();
    assert_eq!(sim.status(), Status::Cancelled);
    assert_eq!(apply(&program, &mut sim.state, &mut sim.values, report), Ok(()));
}

/// A way to make a state one that cannot be.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Kind,
    Frame,
    Scope,
    Task,
    Count,
    Job,
    Node,
    Cycle,
}

const DAMAGES: [Damage; 8] =
    [Damage::Kind, Damage::Frame, Damage::Scope, Damage::Task, Damage::Count, Damage::Job, Damage::Node, Damage::Cycle];

/// Whether there was something that could be damaged in this way.
fn damage(program: &Program, state: &mut State, how: Damage, rng: &mut Rng) -> bool {
    let all: Vec<FrameId> = state.frames.iter().map(|(id, _)| id).collect();
    if all.is_empty() {
        return false;
    }
    let id = *rng.pick(&all);
    let frame = state.frames.get_mut(id).expect("a frame");
    match how {
        Damage::Kind => {
            frame.body = match program.node(frame.node).kind {
                NodeKind::Call(_) => Body::Wait(WaitFrame::Time),
                _ => Body::Call { call: 999 },
            };
        }
        // One without children may have ended; its parent would only wait for ever.
        Damage::Frame if frame.live == 0 => return false,
        Damage::Frame => _ = state.frames.remove(id),
        Damage::Scope => {
            let scope = frame.scope;
            state.scopes.remove(scope);
        }
        Damage::Task => match &mut frame.body {
            Body::Pipeline(body) => body.pc = 999,
            _ => return false,
        },
        Damage::Count => frame.live = if frame.live == 0 { 1 } else { 0 },
        Damage::Job => {
            let copy = frame.clone();
            let gone = state.frames.insert(copy);
            state.frames.remove(gone);
            let Some(open) = state.jobs.values_mut().next() else { return false };
            open.frame = gone;
        }
        Damage::Node => frame.node = NodeId(99_999),
        Damage::Cycle => frame.parent = Some(id),
    }
    true
}

fn moment<'p>(program: &'p Program, seed: u64) -> Sim<'p> {
    let mut sim = Sim::seeded(program, seed);
    sim.start();
    let steps = Rng::new(seed ^ 7).below(30);
    for _ in 0..steps {
        if sim.ended() || !sim.step() {
            break;
        }
    }
    sim
}

/// Ticks that reach every part of a state.
fn ticks(state: &State) -> Vec<TickKind> {
    let cancel = TickKind::CancelRun { reason: "enough".into(), request: None, by_caller: false };
    let calls = state.calls.keys().map(|call| {
        let outcome = TaskOutcome::success(Value::Null);
        TickKind::CallResult { call: *call, status: Status::Succeeded, outcome }
    });
    let lost = state.jobs.iter().map(|(job, open)| TickKind::LeaseLost { job: *job, dispatch: open.dispatch });
    let common = [TickKind::Proceed, TickKind::TimerDue, TickKind::Restart, cancel];
    common.into_iter().chain(report(state)).chain(calls).chain(lost).collect()
}

proptest! {
    #![proptest_config(support::cases(600))]

    #[test]
    fn a_damaged_state_is_noticed_and_never_panics(seed: u64, depth in 0u32..4, at in 0usize..8) {
        let program = random_program(seed, Profile::Wild, depth, Limits { net_tokens_max: 60, ..Limits::default() });
        let mut sim = moment(&program, seed);
        prop_assert_eq!(sim.state.check(&program), Ok(()));
        let sound = encoded(&sim.state);
        let how = DAMAGES[at];
        if !damage(&program, &mut sim.state, how, &mut Rng::new(seed)) {
            return Ok(());
        }
        prop_assert!(sim.state.check(&program).is_err(), "{how:?} is not noticed");
        // Indexes into the plan and chains of parents are only looked at when a state is loaded.
        if matches!(how, Damage::Node | Damage::Cycle) {
            return Ok(());
        }
        let damaged = encoded(&sim.state);
        for kind in ticks(&decoded(&sound)) {
            let mut state = decoded(&damaged);
            _ = apply(&program, &mut state, &mut sim.values, kind);
        }
    }
}
