//! Impossible states are reported as faults: the reducer neither panics nor continues as if they were valid.

use crate::support;

use proptest::prelude::*;
use support::language::TestLanguage;
use support::looped::{begun, looped, range};
use support::random_plan::{Profile, random_program};
use support::rng::Rng;
use support::sim::{decoded, encoded};
use support::steps::{complete_oldest, step, steps};
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::state::{AgendaItem, FrameBody, FrameId, WaitFrame};
use windlass_core::{
    ImpossibleTick, Limits, LoopEndReason, PartialTick, Program, Reduced, ReducerFault, State, Status, StatusSet,
    SuspendedOn, Suspension, TaskOutcome, Tick, TickKind, reduce,
};
use windlass_value::{Duration, Value};

fn apply(
    program: &Program,
    state: &mut State,
    values: &mut MemoryValues,
    kind: TickKind,
) -> Result<(), ImpossibleTick> {
    let later = if matches!(kind, TickKind::TimerDue) { Duration::from_secs(100_000) } else { Duration::ZERO };
    let tick = Tick { at: state.now + later, seed: 1, kind, more_pending: false, clock_step: 0 };
    let mut resume = PartialTick::default();
    while let Reduced::NeedBlobs(hashes) = reduce(program, state, &tick, values, &mut resume)? {
        values.load(&hashes);
    }
    Ok(())
}

/// A loop in its first iteration, whose body waits for a worker.
fn at_work() -> Program {
    looped(|b, id| repeat(3, b.effect(id, "body", "1")))
}

/// Returns the fault that a worker's report causes in a damaged state.
fn fault_of_report(change: impl FnOnce(&mut State)) -> ImpossibleTick {
    let program = at_work();
    let mut sim = begun(&program);
    let report = report_tick(&sim.state).expect("a job is out");
    change(&mut sim.state);
    apply(&program, &mut sim.state, &mut sim.values, report).expect_err("an impossible state is noticed")
}

fn report_tick(state: &State) -> Option<TickKind> {
    let (job, open) = state.jobs.iter().next()?;
    Some(TickKind::StepResult {
        job: *job,
        lease_epoch: open.job.lease_epoch,
        outcome: TaskOutcome::success(Value::Int(1)),
    })
}

fn find(state: &State, kind: impl Fn(&FrameBody) -> bool) -> FrameId {
    state.frames.iter().find(|(_, frame)| kind(&frame.body)).map(|(id, _)| id).expect("such a frame is live")
}

fn the_loop(state: &State) -> FrameId {
    find(state, |body| matches!(body, FrameBody::Loop(_)))
}

fn the_pipeline(state: &State) -> FrameId {
    find(state, |body| matches!(body, FrameBody::Pipeline(_)))
}

#[test]
fn a_parent_of_the_wrong_kind_is_reported_with_path_expected_and_found() {
    let impossible = fault_of_report(|state| {
        let id = the_loop(state);
        state.frames.get_mut(id).expect("a frame").body = FrameBody::Wait(WaitFrame::Time);
    });
    let ReducerFault::WrongFrame { expected, found, .. } = impossible.fault else { panic!("{impossible}") };
    assert_eq!((impossible.path.as_str(), found), ("loop", "a wait"));
    let message = impossible.to_string();
    assert!(message.contains("StepResult") && message.contains(expected) && message.contains("`loop`"), "{message}");
}

#[test]
fn the_end_of_an_iteration_that_the_loop_does_not_know_is_impossible() {
    let impossible = fault_of_report(|state| {
        let id = the_loop(state);
        let FrameBody::Loop(body) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
        body.iterations.clear();
    });
    assert!(matches!(impossible.fault, ReducerFault::NoSuchPart { part: "iteration", number: 0, .. }), "{impossible}");
}

#[test]
fn a_job_whose_frame_is_gone_is_impossible() {
    let impossible = fault_of_report(|state| {
        let id = the_pipeline(state);
        state.frames.remove(id);
    });
    assert!(matches!(impossible.fault, ReducerFault::NoFrame { .. }), "{impossible}");
}

#[test]
fn a_task_beyond_the_last_is_impossible() {
    let impossible = fault_of_report(|state| {
        let id = the_pipeline(state);
        let FrameBody::Pipeline(body) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
        body.pc = 7;
    });
    assert!(matches!(impossible.fault, ReducerFault::NoSuchPart { part: "task", number: 7, .. }), "{impossible}");
}

#[test]
fn a_child_that_its_parent_does_not_count_is_impossible() {
    let impossible = fault_of_report(|state| {
        let id = the_loop(state);
        state.frames.get_mut(id).expect("a frame").live = 0;
    });
    assert!(matches!(impossible.fault, ReducerFault::Miscounted { .. }), "{impossible}");
}

/// Returns the fault that a tick causes in a damaged state.
fn fault_of_tick(
    program: &Program,
    begin: impl FnOnce(&mut Sim<'_>),
    change: impl FnOnce(&mut State) -> TickKind,
) -> ImpossibleTick {
    let mut sim = begun(program);
    begin(&mut sim);
    let kind = change(&mut sim.state);
    apply(program, &mut sim.state, &mut sim.values, kind).expect_err("an impossible state is noticed")
}

fn suspended_on(awaited: SuspendedOn) -> TaskOutcome {
    TaskOutcome {
        suspension: Some(Box::new(Suspension { waits_for: awaited, published_events: 0 })),
        ..TaskOutcome::success(Value::Null)
    }
}

fn signal_tick() -> TickKind {
    let (payload, metadata, defaults) = (Value::Int(1), Value::Null, Value::Null);
    TickKind::AddEvent {
        name: "go".into(),
        payload,
        request: None,
        origin: None,
        to: None,
        trigger_metadata: metadata,
        defaults,
    }
}

fn cancel_tick() -> TickKind {
    TickKind::CancelRun { reason: "enough".into(), request: None, by_caller: false }
}

#[test]
fn the_job_of_a_pipeline_that_is_not_open_is_impossible() {
    let impossible = fault_of_tick(
        &at_work(),
        |_| (),
        |state| {
            state.jobs.clear();
            cancel_tick()
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::NoJob { job: 0, .. }), "{impossible}");
}

#[test]
fn a_job_under_another_jobs_number_is_detected_on_load() {
    let program = at_work();
    let mut sim = begun(&program);
    sim.state.jobs.values_mut().for_each(|open| open.job.job = 7);
    assert!(matches!(sim.state.check(&program), Err(ReducerFault::NoJob { job: 7, .. })));
}

#[test]
fn a_task_held_by_a_worker_is_not_dispatched_twice() {
    let impossible = fault_of_tick(
        &at_work(),
        |_| (),
        |state| {
            let id = the_pipeline(state);
            state.agenda.push_back(AgendaItem::Task(id));
            TickKind::Proceed
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::NoJob { job: 0, .. }), "{impossible}");
}

#[test]
fn a_task_that_waits_does_not_begin() {
    let time = |sim: &mut Sim<'_>| _ = sim.reply("loop[0].body", suspended_on(SuspendedOn::Time(secs(9))));
    let impossible = fault_of_tick(&at_work(), time, |state| {
        let id = the_pipeline(state);
        state.agenda.push_back(AgendaItem::Task(id));
        TickKind::Proceed
    });
    assert!(matches!(impossible.fault, ReducerFault::NoSuchPart { number: 0, .. }), "{impossible}");
    assert_eq!(impossible.path, "loop[0].body");
}

/// A call that its frame does not wait for, and a wait for a call that is not open.
#[test]
fn a_call_other_than_the_awaited_one_is_impossible() {
    let child = || SuspendedOn::Child { definition: "other".into(), input: Value::Null };
    let wait = |sim: &mut Sim<'_>| _ = sim.reply("loop[0].body", suspended_on(child()));
    let impossible = fault_of_tick(&at_work(), wait, |state| {
        let open = state.calls.pop_first().expect("a call is open").1;
        state.calls.insert(9, open);
        let (status, outcome) = (Status::Succeeded, TaskOutcome::success(Value::Null));
        TickKind::CallResult { call: 9, status, outcome }
    });
    assert!(matches!(impossible.fault, ReducerFault::NoCall { call: 9, .. }), "{impossible}");
    let impossible = fault_of_tick(&at_work(), wait, |state| {
        state.calls.clear();
        cancel_tick()
    });
    assert!(matches!(impossible.fault, ReducerFault::NoCall { call: 0, .. }), "{impossible}");
}

#[test]
fn a_call_of_a_frame_that_waits_for_no_child_run_is_impossible() {
    let mut b = Builder::new();
    b.parallel(None, "root", |b, id| {
        let (definition, input) = (b.expr(r#""other""#), b.expr("1"));
        vec![b.node(id, "call", |_, _| NodeKind::Call(ChildRunCall { definition, input })), b.signal(id, "wait", "go")]
    });
    let impossible = fault_of_tick(
        &b.load(),
        |_| (),
        |state| {
            let wait = find(state, |body| matches!(body, FrameBody::Wait(_)));
            state.calls.values_mut().for_each(|open| open.frame = wait);
            let (status, outcome) = (Status::Succeeded, TaskOutcome::success(Value::Null));
            TickKind::CallResult { call: 0, status, outcome }
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::WrongFrame { found: "a wait", .. }), "{impossible}");
}

#[test]
fn a_first_check_after_an_iteration_has_begun_is_impossible() {
    let impossible = fault_of_tick(
        &at_work(),
        |_| (),
        |state| {
            let id = the_loop(state);
            state.agenda.push_back(AgendaItem::FirstCheck(id));
            TickKind::Proceed
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::NoSuchPart { number: 1, .. }), "{impossible}");
}

#[test]
fn more_failed_iterations_than_have_ended_are_impossible() {
    let impossible = fault_of_tick(
        &at_work(),
        |_| (),
        |state| {
            let id = the_loop(state);
            let FrameBody::Loop(body) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
            body.failed = 9;
            body.stopping = Some(LoopEndReason::Condition);
            report_tick(state).expect("a job is out")
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::Miscounted { what: "successful iterations", .. }), "{impossible}");
}

#[test]
fn a_loop_over_items_without_its_items_is_impossible() {
    let program = looped(|b, id| {
        let items = range(b, 3);
        each(items, 1, b.effect(id, "body", "1"))
    });
    let impossible = fault_of_tick(
        &program,
        |_| (),
        |state| {
            let id = the_loop(state);
            let FrameBody::Loop(body) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
            body.items = None;
            report_tick(state).expect("a job is out")
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::NoSuchPart { number: 1, .. }), "{impossible}");
}

#[test]
fn a_variable_of_a_scope_that_is_gone_is_impossible() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| {
        let write = task("note", Action::Write(b.writes("x", WriteOp::Set, "1")));
        let tasks = vec![task("ask", b.action("1")), write];
        NodeKind::Pipeline(Pipeline { tasks })
    });
    let impossible = fault_of_tick(
        &b.load(),
        |_| (),
        |state| {
            state.scopes.remove(state.root_scope);
            report_tick(state).expect("a job is out")
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::NoScope { .. }), "{impossible}");
}

#[test]
fn a_node_that_did_not_run_has_not_succeeded() {
    let mut b = Builder::new();
    b.node(None, "root", |b, id| {
        let bad = b.effect(Some(id), "bad", "1");
        let then = b.effect(Some(id), "then", "2");
        let after = vec![GraphDependency { child: 0, accepts: StatusSet::from_statuses([Status::Failed]) }];
        let child = |node, after| GraphChild { node, after, condition: None, group: None };
        NodeKind::Graph(graph(vec![child(bad, Vec::new()), child(then, after)]))
    });
    let mut program = b.load();
    // A plan that declares this is not loaded.
    let NodeKind::Graph(graph) = &mut program.plan.nodes[0].kind else { unreachable!() };
    graph.unmet = Status::Succeeded;
    let refused = Program::load(program.plan.clone(), &[&TestLanguage], Limits::default());
    assert!(refused.is_err_and(|error| error.to_string().contains("without having run")));
    let impossible = fault_of_tick(&program, |_| (), |state| report_tick(state).expect("a job is out"));
    let ReducerFault::WrongStatus { found, .. } = impossible.fault else { panic!("{impossible}") };
    assert_eq!((impossible.path.as_str(), found), ("root", Status::Succeeded));
    assert!(impossible.to_string().contains("succeeded"), "{impossible}");
}

#[test]
fn a_firing_that_the_net_does_not_have_is_impossible() {
    let mut b = Builder::new();
    b.node(None, "net", |b, id| {
        let body = b.effect(Some(id), "step", "1");
        NodeKind::Net(Net::new(vec![place("step", &["start"], body)], "start", NetEnd::Quiet))
    });
    let impossible = fault_of_tick(
        &b.load(),
        |_| (),
        |state| {
            let id = find(state, |body| matches!(body, FrameBody::Net(_)));
            let FrameBody::Net(net) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
            net.firings.clear();
            report_tick(state).expect("a job is out")
        },
    );
    assert!(matches!(impossible.fault, ReducerFault::NoSuchPart { part: "firing", number: 0, .. }), "{impossible}");
}

#[test]
fn a_fan_out_with_less_open_work_than_none_is_impossible() {
    let program = steps(vec![step("fan", "start", "item"), step("work", "item", "stop").max_concurrency(2)]).load();
    let fans = |sim: &mut Sim<'_>| complete_oldest(sim, "fan", "[item 1; item 2]");
    let impossible = fault_of_tick(&program, fans, |state| {
        let id = find(state, |body| matches!(body, FrameBody::Net(_)));
        let FrameBody::Net(net) = &mut state.frames.get_mut(id).expect("a frame").body else { unreachable!() };
        net.fan_outs.values_mut().for_each(|fan| fan.open = 0);
        let (job, open) = state.jobs.iter().next().expect("a job is out");
        let outcome = TaskOutcome::success(Value::Null);
        TickKind::StepResult { job: *job, lease_epoch: open.job.lease_epoch, outcome }
    });
    assert!(
        matches!(impossible.fault, ReducerFault::Miscounted { what: "open work of a fan-out", .. }),
        "{impossible}"
    );
}

#[test]
fn a_reader_without_its_mailbox_is_impossible() {
    let program = mail::actors(&["a", "b"]).load();
    let listens = |sim: &mut Sim<'_>| mail::request_op(sim, "a", "listen");
    let impossible = fault_of_tick(&program, listens, |state| {
        state.mail.boxes.clear();
        cancel_tick()
    });
    assert!(matches!(impossible.fault, ReducerFault::NoSuchPart { part: "mailbox", .. }), "{impossible}");
}

/// An agenda item may outlive its frame: this is valid and changes nothing.
#[test]
fn agenda_items_of_an_ended_frame_change_nothing() {
    let program = at_work();
    let mut sim = begun(&program);
    let report = report_tick(&sim.state).expect("a job is out");
    sim.cancel().run();
    assert_eq!(sim.status(), Status::Cancelled);
    assert_eq!(apply(&program, &mut sim.state, &mut sim.values, report), Ok(()));
}

/// A way to damage a state.
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

/// Damages the state and returns whether it held anything that could be damaged in this way.
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
                NodeKind::Call(_) => FrameBody::Wait(WaitFrame::Time),
                _ => FrameBody::Call { call: 999 },
            };
        }
        // A frame without children may have ended; its parent would then only wait forever.
        Damage::Frame if frame.live == 0 => return false,
        Damage::Frame => _ = state.frames.remove(id),
        Damage::Scope => {
            let scope = frame.scope;
            state.scopes.remove(scope);
        }
        Damage::Task => match &mut frame.body {
            FrameBody::Pipeline(body) => body.pc = 999,
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

/// Returns ticks that reach every part of a state.
fn ticks(state: &State) -> Vec<TickKind> {
    let calls = state.calls.keys().map(|call| {
        let outcome = TaskOutcome::success(Value::Null);
        TickKind::CallResult { call: *call, status: Status::Succeeded, outcome }
    });
    let lost =
        state.jobs.iter().map(|(job, open)| TickKind::LeaseLost { job: *job, lease_epoch: open.job.lease_epoch });
    let common = [
        TickKind::Proceed,
        TickKind::TimerDue,
        TickKind::Restart { lived: windlass_value::Duration::ZERO },
        cancel_tick(),
        signal_tick(),
    ];
    common.into_iter().chain(report_tick(state)).chain(calls).chain(lost).collect()
}

proptest! {
    #![proptest_config(support::cases(600))]

    #[test]
    fn a_damaged_state_is_detected_and_never_panics(seed: u64, depth in 0u32..4, at in 0usize..8) {
        let program = random_program(seed, Profile::Wild, depth, Limits { max_net_tokens: 60, ..Limits::default() });
        let mut sim = moment(&program, seed);
        prop_assert_eq!(sim.state.check(&program), Ok(()));
        let sound = encoded(&sim.state);
        let how = DAMAGES[at];
        if !damage(&program, &mut sim.state, how, &mut Rng::new(seed)) {
            return Ok(());
        }
        prop_assert!(sim.state.check(&program).is_err(), "{how:?} is not noticed");
        // Indexes into the plan and parent chains are checked only when a state is loaded.
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
