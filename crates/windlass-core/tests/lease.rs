//! A pipeline is one job: which worker holds it from task to task, when the lease is returned, and that late reports
//! change nothing.

use crate::support;

use proptest::prelude::*;
use support::random_plan::{Profile, random_program, tight_limits};
use support::sim::{decoded, encoded};
use support::*;
use windlass_core::plan::*;
use windlass_core::{Command, Limits, Program, State, Status, TaskOutcome, TickKind};
use windlass_value::{Duration, Level, Value};

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

fn labelled(b: &mut Builder, labels: &[&str]) -> NodeKind {
    let tasks = labels.iter().map(|label| task(label, b.action("1"))).collect();
    NodeKind::Pipeline(Pipeline { tasks })
}

fn three() -> Program {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| labelled(b, &["one", "two", "three"]));
    b.load()
}

/// One task that is retried after this number of milliseconds.
fn retried(wait_ms: u64) -> Program {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| {
        let task = Task { retry: Some(retry(9, Duration::from_ms(wait_ms))), ..task("one", b.action("1")) };
        NodeKind::Pipeline(Pipeline { tasks: vec![task] })
    });
    b.load()
}

/// Returns job, lease epoch and worker of every dispatch.
fn dispatches(sim: &Sim) -> Vec<(u64, u32, u32)> {
    sim.dispatched.iter().map(|job| (job.job, job.lease_epoch, job.worker)).collect()
}

/// Returns the leases that have ended: job and lease epoch.
fn ended_leases(sim: &Sim) -> Vec<(u64, u32)> {
    let commands = sim.outputs.iter().flat_map(|output| &output.commands);
    let ends = commands.filter_map(|command| match command {
        Command::EndLease { job, lease_epoch } => Some((*job, *lease_epoch)),
        _ => None,
    });
    ends.collect()
}

#[test]
fn a_pipeline_is_one_job_from_task_to_task() {
    let program = three();
    let mut sim = begun(&program);
    sim.succeed("pipe.one", 1i64).succeed("pipe.two", 2i64);
    assert_eq!(ended_leases(&sim), []);
    sim.succeed("pipe.three", 3i64);
    assert_eq!(dispatches(&sim), [(0, 0, 0), (0, 1, 0), (0, 2, 0)]);
    assert_eq!((ended_leases(&sim), sim.status()), (vec![(0, 2)], Status::Succeeded));
}

/// Tasks that only compute between two effects do not cost the worker its lease.
#[test]
fn the_lease_survives_computed_tasks_in_between() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| {
        let computes = task("sum", Action::Evaluate(b.expr(r#"{"$var": "_prev"}"#)));
        NodeKind::Pipeline(Pipeline { tasks: vec![task("one", b.action("1")), computes, task("two", b.action("2"))] })
    });
    let program = b.load_with(Limits { slice_items: 1, ..Limits::default() });
    let mut sim = begun(&program);
    sim.succeed("pipe.one", 1i64).succeed("pipe.two", 2i64);
    assert_eq!(dispatches(&sim), [(0, 0, 0), (0, 1, 0)]);
}

#[test]
fn concurrent_pipelines_keep_their_workers() {
    let mut b = Builder::new();
    b.parallel(None, "all", |b, id| {
        let pipe = |b: &mut Builder, name: &str| b.node(id, name, |b, _| labelled(b, &["x", "y"]));
        vec![pipe(b, "a"), pipe(b, "b")]
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.succeed("all.b.x", 1i64).succeed("all.a.x", 1i64).succeed("all.a.y", 1i64).succeed("all.b.y", 1i64);
    assert_eq!(dispatches(&sim), [(0, 0, 0), (1, 0, 1), (1, 1, 1), (0, 1, 0)]);
    assert_eq!(ended_leases(&sim), [(0, 1), (1, 1)]);
}

#[test]
fn each_entry_of_a_pipeline_is_a_separate_job() {
    let mut b = Builder::new();
    let pipe = b.node(None, "pipe", |b, _| labelled(b, &["one", "two"]));
    b.node_mut(pipe).retry = Some(retry(2, secs(1)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.succeed("pipe.one", 1i64).fail("pipe.two");
    assert_eq!(ended_leases(&sim), [(0, 1)], "a node that is entered again starts over");
    sim.advance(secs(1));
    assert_eq!(dispatches(&sim)[2..], [(1, 0, 0)]);
}

#[test]
fn only_a_long_wait_returns_the_lease() {
    let hold = Limits::default().lease_hold.as_ms();
    for (wait, kept) in [(0, true), (1, true), (hold, true), (hold + 1, false), (10 * hold, false)] {
        let program = retried(wait);
        let mut sim = begun(&program);
        sim.fail("pipe.one");
        assert_eq!(ended_leases(&sim).is_empty(), kept, "{wait} ms");
        assert_eq!((sim.state.jobs.len(), sim.state.is_quiet()), (usize::from(kept), !kept), "{wait} ms");
        assert_eq!(sim.state.free_workers.len(), usize::from(!kept), "{wait} ms");
        assert_eq!(sim.state.next_due(), Some(sim.now + Duration::from_ms(wait)), "the wait is a timer");
        sim.advance(Duration::from_ms(wait)).succeed("pipe.one", 1i64);
        assert_eq!(dispatches(&sim), [(0, 0, 0), (0, 1, 0)], "{wait} ms: the same job, the next epoch");
    }
}

#[test]
fn a_long_operation_returns_the_lease() {
    for (wait, kept) in [(1, true), (60, false)] {
        let mut b = Builder::new();
        b.node(None, "pipe", |b, _| labelled(b, &["one", "two"]));
        let program = b.load();
        let mut sim = begun(&program);
        sim.reply("pipe.one", TaskOutcome::call_again(2i64, secs(wait)));
        assert_eq!(ended_leases(&sim), if kept { vec![] } else { vec![(0, 0)] });
        sim.advance(secs(wait)).succeed("pipe.one", 1i64).succeed("pipe.two", 1i64);
        assert_eq!(dispatches(&sim), [(0, 0, 0), (0, 1, 0), (0, 2, 0)]);
    }
}

/// A returned worker serves other jobs; its old job continues with another worker.
#[test]
fn a_free_worker_gets_the_next_job() {
    let mut b = Builder::new();
    b.parallel(None, "all", |b, id| {
        let slow = b.node(id, "slow", |b, _| {
            let task = Task { retry: Some(retry(2, secs(60))), ..task("one", b.action("1")) };
            NodeKind::Pipeline(Pipeline { tasks: vec![task] })
        });
        let later = b.sequence(id, "later", |b, id| vec![b.effect(id, "first", "1"), b.effect(id, "second", "2")]);
        vec![slow, later]
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.fail("all.slow.one").succeed("all.later.first", 1i64).advance(secs(60));
    let path = |at: usize| sim.dispatched[at].path().to_string();
    assert_eq!(dispatches(&sim), [(0, 0, 0), (1, 0, 1), (2, 0, 0), (0, 1, 1)], "{}, {}", path(2), path(3));
}

#[test]
fn a_task_that_enters_a_node_needs_no_worker_meanwhile() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, id| {
        let inner = b.effect(Some(id), "inner", "5");
        let tasks = vec![task("one", b.action("1")), task("in", Action::Node(inner)), task("two", b.action("2"))];
        NodeKind::Pipeline(Pipeline { tasks })
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.succeed("pipe.one", 1i64).succeed("pipe.inner", 1i64).succeed("pipe.two", 1i64);
    assert_eq!(dispatches(&sim), [(0, 0, 0), (1, 0, 0), (0, 1, 0)]);
    assert_eq!(ended_leases(&sim), [(0, 0), (1, 0), (0, 1)]);
}

#[test]
fn a_pause_returns_the_lease() {
    let program = three();
    let mut sim = begun(&program);
    sim.tick(TickKind::Pause { request: None }).succeed("pipe.one", 1i64);
    assert_eq!((ended_leases(&sim), sim.state.jobs.len()), (vec![(0, 0)], 0), "it ends while the run is paused");
    sim.tick(TickKind::Resume { request: None });
    assert_eq!(dispatches(&sim), [(0, 0, 0), (0, 1, 0)]);

    let program = retried(1_000);
    let mut sim = begun(&program);
    sim.fail("pipe.one").tick(TickKind::Pause { request: None });
    assert_eq!((ended_leases(&sim), sim.state.is_quiet()), (vec![(0, 0)], true), "it rests when the run is paused");
    sim.advance(secs(60)).tick(TickKind::Resume { request: None });
    assert_eq!(dispatches(&sim), [(0, 0, 0), (0, 1, 0)]);
}

#[test]
fn an_idle_worker_has_nothing_to_confirm() {
    let program = retried(1_000);
    let mut sim = begun(&program);
    sim.fail("pipe.one").cancel();
    assert_eq!((sim.status(), ended_leases(&sim)), (Status::Cancelled, vec![(0, 0)]));

    let mut b = Builder::new();
    let pipe = b.node(None, "pipe", |b, _| {
        let task = Task { retry: Some(retry(9, secs(2))), ..task("one", b.action("1")) };
        NodeKind::Pipeline(Pipeline { tasks: vec![task] })
    });
    b.node_mut(pipe).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(1)), status: Status::TimedOut });
    let program = b.load();
    let mut sim = begun(&program);
    sim.fail("pipe.one").advance(secs(1));
    assert_eq!((sim.status(), ended_leases(&sim)), (Status::TimedOut, vec![(0, 0)]));
}

#[test]
fn losing_an_idle_worker_loses_nothing() {
    let program = retried(1_000);
    let mut sim = begun(&program);
    sim.fail("pipe.one").tick(TickKind::LeaseLost { job: 0, lease_epoch: 0 });
    assert_eq!((sim.state.jobs.len(), sim.dispatched.len(), sim.count("job.refused")), (0, 1, 0));
    sim.advance(secs(1)).succeed("pipe.one", 1i64);
    assert_eq!((sim.status(), dispatches(&sim)), (Status::Succeeded, vec![(0, 0, 0), (0, 1, 0)]));
}

/// The first worker was only slow: every later report of it is rejected, and each rejection is published.
#[test]
fn a_stale_worker_is_rejected_by_its_lease_epoch() {
    let program = three();
    let mut sim = begun(&program);
    let zombie = TickKind::StepResult { job: 0, lease_epoch: 0, outcome: TaskOutcome::success("zombie") };
    sim.tick(TickKind::LeaseLost { job: 0, lease_epoch: 0 }).tick(zombie.clone());
    assert_eq!(sim.dispatched[0].key, sim.dispatched[1].key, "a repeat has the same key");
    let rejection = sim.events_of("job.refused")[0];
    assert_eq!(&*rejection.path, "pipe.one");
    let data = r#"{"event": "StepResult", "job": 0, "lease_epoch": 0, "expected": 1, "reason": "its lease has ended; the report changed nothing"}"#;
    assert_eq!(rejection.data, json(data));
    for path in ["pipe.one", "pipe.two"] {
        sim.succeed(path, "good").tick(zombie.clone());
    }
    assert_eq!((sim.count("job.refused"), sim.open_paths()), (3, vec!["pipe.three".to_owned()]));
    sim.succeed("pipe.three", "good");
    assert_eq!(sim.output(), Value::from("good"));
}

#[test]
fn a_report_under_another_lease_epoch_is_rejected() {
    let program = three();
    let mut sim = begun(&program);
    sim.succeed("pipe.one", 1i64);
    for lease_epoch in [0, 1, 2] {
        sim.tick(TickKind::Progress { job: 0, lease_epoch, data: Value::Int(1) });
        sim.tick(TickKind::PublishEvent { job: 0, lease_epoch, kind: "note".into(), data: Value::Int(1) });
    }
    assert_eq!((sim.count("task.progress"), sim.count("note"), sim.count("job.refused")), (1, 1, 4));
}

/// Three tasks, the second of which fails twice, and what they write to the iteration, the step and `_prev`.
fn with_state_writes() -> Program {
    let mut b = Builder::new();
    b.looping(None, "loop", |b, id| {
        let items = b.expr("[10, 20]");
        let body = b.node(id, "pipe", |b, _| {
            let seen = |b: &mut Builder, name: &str| {
                let op = WriteOp::Set;
                VariableUpdate {
                    ignores_input: true,
                    ..VariableUpdate::new(Level::Iteration, name, op, Some(b.expr(r#"{"$var": "_prev"}"#)))
                }
            };
            let ends = |b: &mut Builder, name: &str| TaskRule {
                writes: vec![seen(b, name)],
                ..rule(None, Directive::Continue)
            };
            let two = task("two", b.action(r#"{"$var": "_prev"}"#));
            let one = Task { rules: vec![ends(b, "first")], ..task("one", b.action(r#"{"$iteration": "item"}"#)) };
            let two = Task { retry: Some(retry(3, secs(1))), rules: vec![ends(b, "second")], ..two };
            let input = r#"{"first": {"$var": "first"}, "second": {"$var": "second"}, "before": {"$var": "_prev"}}"#;
            NodeKind::Pipeline(Pipeline { tasks: vec![one, two, task("three", b.action(input))] })
        });
        Loop { collect: CollectMode::List, ..each(items, 1, body) }
    });
    b.load()
}

fn fails_twice<'p>() -> support::world::World<'p> {
    Box::new(|job, _, _| match job.path().ends_with("two") && job.attempt < 3 {
        true => Reply::fail(),
        false => Reply::After(Duration::from_ms(5), TaskOutcome::success(job.input.clone())),
    })
}

/// The ticks contain the pipeline's position, its attempts, `_prev` and its variables: after a cut at any tick it
/// resumes there. (`Sim::check_key` checks with every tick that no reported task is dispatched again.)
#[test]
fn cut_at_any_tick_a_pipeline_resumes_at_its_position() {
    let program = with_state_writes();
    let mut whole = Sim::new(&program, fails_twice());
    whole.start().run();
    assert_eq!(whole.status(), Status::Succeeded);
    let effects = |sim: &Sim| {
        let mut sent: Vec<_> = sim.dispatched.iter().map(|job| format!("{:?} {:?}", job.key, job.input)).collect();
        sent.sort();
        sent.dedup();
        sent
    };
    for cut in 1..whole.journal.len() {
        let mut sim = Sim::restarted(&program, 1, &whole.journal[..cut], fails_twice());
        let in_flight = sim.lost.len();
        sim.run();
        assert_eq!(sim.output(), whole.output(), "cut after {cut} ticks");
        assert_eq!(effects(&sim), effects(&whole), "cut after {cut} ticks");
        assert_eq!(sim.dispatched.len(), whole.dispatched.len() + in_flight, "only what was in flight is repeated");
    }
}

/// Encodes a state without the fields that every tick changes.
fn encoded_without_time(state: &State) -> Vec<u8> {
    let mut state: State = decoded(&encoded(state));
    (state.ticks, state.events, state.seed, state.draws) = (0, 0, 0, 0);
    encoded(&state)
}

proptest! {
    #![proptest_config(support::cases(300))]

    /// A worker that no longer holds a job may report anything at any time.
    #[test]
    fn late_reports_never_change_the_state(seed: u64, depth in 0u32..4, tight: bool) {
        let limits = if tight { tight_limits(seed) } else { Limits::default() };
        let program = random_program(seed, Profile::Wild, depth, limits);
        let mut live = Sim::seeded(&program, seed);
        live.disturbance = 5;
        live.start().run();
        let mut sim = Sim::with_seed(&program, seed, Box::new(|_, _, _| Reply::Never));
        let stride = (live.journal.len() / 25).max(1);
        for (number, tick) in live.journal.iter().enumerate() {
            sim.now = tick.at;
            sim.reduce(tick.clone()).expect("a tick that was possible is possible again");
            // Any tick processes the agenda; only a state with an empty agenda can be compared.
            let at_rest = sim.state.agenda.is_empty() && sim.state.next_due().is_none_or(|due| due > sim.now);
            if number % stride > 0 || sim.ended() || !at_rest {
                continue;
            }
            let before = encoded_without_time(&sim.state);
            let mut other = Sim::with_seed(&program, seed, Box::new(|_, _, _| Reply::Never));
            for job in &sim.dispatched {
                let busy = sim.state.jobs.get(&job.job).is_some_and(|open| open.is_dispatched_under(job.lease_epoch));
                if busy {
                    continue;
                }
                let outcome = TaskOutcome::success("late");
                let (job, lease_epoch) = (job.job, job.lease_epoch);
                other.state = decoded(&encoded(&sim.state));
                other.now = sim.now;
                (other.values, other.buffer) = (sim.values.clone(), Default::default());
                let kinds = [
                    TickKind::StepResult { job, lease_epoch, outcome },
                    TickKind::Progress { job, lease_epoch, data: Value::Int(1) },
                ];
                for kind in kinds {
                    let tick = windlass_core::Tick { at: sim.now, seed: 7, kind, more_pending: false, clock_step: 0 };
                    let mut resume = windlass_core::PartialTick::default();
                    let reduced = windlass_core::reduce(&program, &mut other.state, &tick, &mut other.values, &mut resume);
                    let commands = match reduced {
                        Ok(windlass_core::Reduced::Done(output)) => output.commands,
                        other => panic!("{other:?}"),
                    };
                    prop_assert!(commands.iter().all(|command| matches!(command, Command::PublishEvent(_))), "{commands:?}");
                    prop_assert!(!commands.is_empty(), "people can see it");
                    prop_assert!(encoded_without_time(&other.state) == before, "the state has changed");
                }
            }
        }
    }
}
