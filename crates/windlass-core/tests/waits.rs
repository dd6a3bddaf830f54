//! Waits for time, for signals and for child runs; and cancellation during them.

use crate::support;

use support::world::echo;
use support::*;
use windlass_core::plan::*;
use windlass_core::{
    Command, ErrorInfo, ImpossibleTick, Limits, PartialTick, Program, Status, TaskOutcome, Tick, TickKind, reduce,
};
use windlass_value::{Timestamp, Value};

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

fn waiting(make: impl FnOnce(&mut Builder) -> Wait) -> Program {
    let mut b = Builder::new();
    b.node(None, "wait", |b, _| NodeKind::Wait(make(b)));
    b.load()
}

fn signal(requirements: Option<&str>, deadline: Option<u64>) -> Program {
    waiting(|b| Wait::Signal {
        name: "go".into(),
        requirements: requirements.map(|text| b.expr(text)),
        deadline: deadline.map(|after| Amount::Fixed(secs(after))),
        form: None,
    })
}

/// Two sequential waits for one name.
fn twice() -> Program {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| vec![b.signal(id, "first", "go"), b.signal(id, "second", "go")]);
    b.load()
}

// Time.

#[test]
fn a_delay_lasts_its_configured_time() {
    let program = waiting(|b| Wait::Delay(Amount::Computed(b.expr("\"PT30S\""))));
    let mut sim = begun(&program);
    sim.advance(secs(29));
    assert!(!sim.ended());
    sim.advance(secs(1));
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn a_wait_until_a_past_time_ends_immediately() {
    for (until, ends) in [("\"1970-01-01T00:01:00Z\"", 60), ("30000", 30), ("0", 0)] {
        let program = waiting(|b| Wait::Until(b.expr(until)));
        let mut sim = begun(&program);
        sim.run_until_idle();
        assert_eq!((sim.status(), sim.now), (Status::Succeeded, Timestamp(ends * 1_000_000)));
    }
    let program = waiting(|b| Wait::Until(b.expr("\"tomorrow\"")));
    assert_eq!(begun(&program).status(), Status::Failed);
}

// Signals.

#[test]
fn a_signal_that_precedes_its_wait_is_buffered() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| vec![b.effect(id, "work", "0"), b.signal(id, "wait", "go")]);
    let program = b.load();
    let mut sim = begun(&program);
    sim.event("go", "early");
    assert_eq!(sim.count("event.unhandled"), 1);
    sim.succeed("root.work", "done");
    assert_eq!(sim.output().get("wait"), Some(&Value::from("early")));
    assert!(sim.state.signals.is_empty());
}

#[test]
fn two_waits_of_one_name_get_their_answers_in_order() {
    let program = twice();
    let mut sim = begun(&program);
    sim.event("go", "one").drain_buffer().event("go", "two").drain_buffer();
    assert_eq!(sim.output(), json(r#"{"first": "one", "second": "two"}"#));
    let mut sim = begun(&program);
    sim.tick(TickKind::Pause { request: None }).event("go", "one").event("go", "two");
    sim.tick(TickKind::Resume { request: None }).drain_buffer();
    assert_eq!(sim.output(), json(r#"{"first": "one", "second": "two"}"#));
}

#[test]
fn the_oldest_wait_is_answered_first() {
    let mut b = Builder::new();
    b.parallel(None, "root", |b, id| vec![b.signal(id, "older", "go"), b.signal(id, "younger", "go")]);
    let program = b.load();
    let mut sim = begun(&program);
    sim.event("go", 1u32).event("go", 2u32).drain_buffer();
    assert_eq!(sim.output(), json(r#"{"older": 1, "younger": 2}"#));
}

#[test]
fn an_answer_is_accepted_once_even_while_the_output_is_evaluated() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let first = b.signal(id, "first", "go");
        b.node_mut(first).kind = NodeKind::Wait(Wait::Signal {
            name: "go".into(),
            requirements: None,
            deadline: Some(Amount::Fixed(secs(5))),
            form: None,
        });
        let output = b.expr(r#"[{"$node": "first"}]"#);
        b.node_mut(first).output = Some(output);
        vec![first, b.signal(id, "second", "go")]
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.tick(TickKind::Pause { request: None }).event("go", "one").event("go", "two").advance(secs(10));
    sim.tick(TickKind::Resume { request: None }).drain_buffer();
    assert_eq!(sim.output(), json(r#"{"first": ["one"], "second": "two"}"#), "nothing is lost, nothing is late");
}

#[test]
fn an_answer_must_meet_the_requirements() {
    let program = signal(Some(r#"{"by": "boss", "n": {"$input": "n"}}"#), None);
    let mut sim = begun(&program);
    sim.event("go", json(r#"{"by": "boss"}"#)).event("go", json(r#"{"by": "clerk", "n": 3}"#)).event("go", "yes");
    assert!(!sim.ended());
    let answer = json(r#"{"by": "boss", "n": 3, "why": "because"}"#);
    sim.event("go", answer.clone());
    assert_eq!(sim.output(), answer);
}

#[test]
fn an_unsuitable_buffered_signal_stays_for_another_wait() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let picky = b.node(id, "picky", |b, _| {
            let requirements = Some(b.expr(r#"{"k": 1}"#));
            NodeKind::Wait(Wait::Signal { name: "go".into(), requirements, deadline: None, form: None })
        });
        vec![b.effect(id, "work", "0"), picky, b.signal(id, "any", "go")]
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.event("go", json(r#"{"k": 2}"#)).event("go", json(r#"{"k": 1}"#)).succeed("root.work", "done");
    assert_eq!(sim.output().get("picky"), Some(&json(r#"{"k": 1}"#)));
    assert_eq!(sim.output().get("any"), Some(&json(r#"{"k": 2}"#)));
}

#[test]
fn without_an_answer_in_time_the_wait_times_out() {
    let program = signal(None, Some(5));
    let mut sim = begun(&program);
    assert!(sim.state.is_idle(), "a deadline is not work");
    sim.advance(secs(5));
    assert_eq!(sim.status(), Status::TimedOut);
    assert_eq!(sim.result().error.as_ref().map(|error| &*error.code), Some("WaitTimedOut"));
}

#[test]
fn idle_is_published_once_until_the_run_moves() {
    let program = twice();
    let mut sim = begun(&program);
    assert_eq!(sim.events_of("workflow.idle")[0].data.get("waits"), Some(&json(r#"["go"]"#)));
    sim.tick(TickKind::TimerDue)
        .event("other", 0u32)
        .tick(TickKind::Restart { lived: windlass_value::Duration::ZERO })
        .tick(TickKind::TimerDue);
    assert_eq!(sim.count("workflow.idle"), 1);
    sim.event("go", 1u32).drain_buffer();
    assert_eq!(sim.count("workflow.idle"), 1, "it waits as it waited before: nothing new");
    sim.event("go", 2u32).drain_buffer();
    assert!(sim.ended());
}

#[test]
fn a_run_with_a_job_or_a_delay_is_not_idle() {
    let mut b = Builder::new();
    b.parallel(None, "root", |b, id| {
        let delay = b.node(id, "delay", |_, _| NodeKind::Wait(Wait::Delay(Amount::Fixed(secs(5)))));
        vec![b.signal(id, "wait", "go"), b.effect(id, "work", "0"), delay]
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.advance(secs(5));
    assert_eq!(sim.count("workflow.idle"), 0, "a job is open");
    sim.succeed("root.work", "done");
    assert_eq!(sim.count("workflow.idle"), 1);
}

#[test]
fn too_many_buffered_signals_are_rejected() {
    let program = signal(Some(r#"{"k": 1}"#), None);
    let mut sim = begun(&program);
    for number in 0..1_001u32 {
        sim.event("go", number);
    }
    assert_eq!(sim.state.signals["go"].len(), 1_000);
}

// Child runs.

fn calling() -> Program {
    let mut b = Builder::new();
    b.node(None, "call", |b, _| {
        NodeKind::Call(ChildRunCall { definition: b.expr("\"child\""), input: b.expr(r#"{"n": {"$input": "n"}}"#) })
    });
    b.load()
}

fn started(sim: &Sim) -> Vec<(u64, Value)> {
    let commands = sim.outputs.iter().flat_map(|output| &output.commands);
    let started = commands.filter_map(|command| match command {
        Command::StartChild { call, definition, input, key } => {
            assert_eq!((&**definition, &*key.path, key.generation), ("child", "call", 0));
            Some((*call, input.clone()))
        }
        _ => None,
    });
    started.collect()
}

#[test]
fn a_call_starts_a_child_and_ends_as_it_does() {
    let program = calling();
    for status in [Status::Succeeded, Status::Failed, Status::Cancelled, Status::TimedOut] {
        let mut sim = begun(&program);
        assert_eq!(started(&sim), [(0, json(r#"{"n": 3}"#))]);
        assert_eq!(sim.count("workflow.idle"), 0, "a child is at work");
        let error = (status != Status::Succeeded).then(|| ErrorInfo::new("Child", "call", "no"));
        let outcome = TaskOutcome { error, ..TaskOutcome::success("result") };
        sim.tick(TickKind::CallResult { call: 0, status, outcome }).drain_buffer();
        assert_eq!((sim.status(), sim.output()), (status, Value::from("result")));
    }
}

#[test]
fn a_restart_requests_the_same_child_again() {
    let program = calling();
    let mut sim = begun(&program);
    sim.restart();
    assert_eq!(started(&sim).len(), 2);
    assert_eq!(sim.calls.len(), 1, "one child");
}

#[test]
fn an_unneeded_child_is_cancelled_and_its_late_end_is_ignored() {
    let program = calling();
    let mut sim = begun(&program);
    sim.cancel().drain_buffer();
    assert_eq!(sim.status(), Status::Cancelled);
    let cancels = |command: &Command| matches!(command, Command::CancelChild { key } if &*key.path == "call");
    assert!(sim.outputs.iter().flat_map(|output| &output.commands).any(cancels));
    let outcome = TaskOutcome::success("too late");
    sim.tick(TickKind::CallResult { call: 0, status: Status::Succeeded, outcome });
    assert_eq!((sim.status(), sim.count("event.unhandled")), (Status::Cancelled, 1));
}

#[test]
fn a_definition_must_be_named() {
    let mut b = Builder::new();
    b.node(None, "call", |b, _| NodeKind::Call(ChildRunCall { definition: b.expr("5"), input: b.expr("0") }));
    let program = b.load();
    assert_eq!(begun(&program).result().error.as_ref().map(|error| &*error.code), Some("BadDefinition"));
}

// Cancellation.

fn one_effect(limits: Limits) -> Program {
    let mut b = Builder::new();
    b.effect(None, "work", "0");
    b.load_with(limits)
}

#[test]
fn a_cancelled_job_has_a_grace_period_and_a_later_result_is_rejected() {
    let program = one_effect(Limits::default());
    let mut sim = begun(&program);
    sim.cancel().advance(secs(9));
    assert!(!sim.ended(), "cancelling");
    sim.advance(secs(1));
    assert_eq!(sim.status(), Status::Cancelled);
    sim.succeed("work", "too late");
    assert_eq!((sim.status(), sim.output()), (Status::Cancelled, Value::Null));
    assert_eq!(sim.count("event.unhandled"), 1);
}

#[test]
fn a_worker_confirmation_ends_the_grace_period() {
    let program = one_effect(Limits::default());
    for outcome in [TaskOutcome::success("done after all"), TaskOutcome::failure(support::world::refusal())] {
        let mut sim = begun(&program);
        sim.cancel().reply("work", outcome);
        assert_eq!((sim.status(), sim.output()), (Status::Cancelled, Value::Null), "its payload is not used");
    }
}

#[test]
fn a_lost_lease_redispatches_the_job_and_rejects_the_first_worker() {
    let program = one_effect(Limits::default());
    let mut sim = begun(&program);
    sim.tick(TickKind::LeaseLost { job: 0, lease_epoch: 0 });
    let [first, second] = &sim.dispatched[..] else { panic!("handed out twice") };
    assert_eq!((second.lease_epoch, &second.key, second.worker), (1, &first.key, first.worker));
    sim.tick(TickKind::StepResult { job: 0, lease_epoch: 0, outcome: TaskOutcome::success("first") });
    assert!(!sim.ended());
    sim.succeed("work", "second");
    assert_eq!(sim.output(), Value::from("second"));
}

#[test]
fn a_paused_run_begins_nothing_and_a_cancel_ends_it() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| vec![b.effect(id, "one", "0"), b.effect(id, "two", "0")]);
    let program = b.load();
    let mut sim = begun(&program);
    sim.tick(TickKind::Pause { request: None }).succeed("root.one", "done");
    assert!(sim.flights.is_empty() && !sim.ended());
    sim.tick(TickKind::Pause { request: None });
    assert_eq!(sim.count("workflow.paused"), 1);
    let mut resumed = begun(&program);
    resumed.tick(TickKind::Pause { request: None }).succeed("root.one", "done");
    resumed.tick(TickKind::Resume { request: None });
    assert_eq!(resumed.open_paths(), ["root.two"]);
    sim.cancel().drain_buffer();
    assert_eq!(sim.status(), Status::Cancelled);
}

#[test]
fn the_run_timeout_counts_only_while_the_run_is_live() {
    let mut b = Builder::new();
    b.effect(None, "work", "0");
    b.plan.timeout = Some(secs(10));
    let program = b.load();
    let mut sim = begun(&program);
    sim.advance(secs(4)).tick(TickKind::TimerDue);
    sim.now = sim.now + secs(1_000);
    sim.restart();
    assert!(!sim.ended(), "the thousand seconds without a process do not count");
    sim.advance(secs(5));
    assert!(sim.state.decided_end.is_none());
    sim.advance(secs(11));
    assert_eq!(sim.status(), Status::TimedOut);
}

/// The time that a killed process was up after its last tick counts; the time until the next process does not.
#[test]
fn the_run_timeout_counts_the_time_up_to_the_last_heartbeat() {
    let mut b = Builder::new();
    b.effect(None, "work", "0");
    b.plan.timeout = Some(secs(10));
    let program = b.load();
    let mut sim = begun(&program);
    sim.advance(secs(4)).tick(TickKind::TimerDue);
    sim.now = sim.now + secs(1_000);
    sim.tick(TickKind::Restart { lived: secs(3) });
    assert_eq!(
        (sim.state.alive_time, sim.state.next_due()),
        (secs(7), Some(sim.now + secs(3))),
        "three seconds are left"
    );
    assert!(sim.state.decided_end.is_none());

    // A step that hangs in a process that is killed again and again.
    let mut sim = begun(&program);
    let mut restarts = 0;
    while sim.state.decided_end.is_none() && restarts < 9 {
        sim.now = sim.now + secs(1_000);
        sim.tick(TickKind::Restart { lived: secs(4) });
        sim.tick(TickKind::TimerDue);
        restarts += 1;
    }
    assert_eq!(restarts, 3, "4 + 4 + 4 seconds are more than 10");
    sim.advance(secs(11));
    assert_eq!(sim.status(), Status::TimedOut);
}

#[test]
fn a_timeout_tick_ends_a_run_only_when_its_time_is_over() {
    let mut b = Builder::new();
    b.effect(None, "work", "0");
    b.plan.timeout = Some(secs(10));
    let program = b.load();
    let mut sim = begun(&program);
    sim.now = sim.now + secs(9);
    sim.tick(TickKind::Timeout);
    assert!(sim.state.decided_end.is_none(), "a second is left");
    assert_eq!(sim.state.next_due(), Some(sim.now + secs(1)), "and it is still waited for");
    sim.now = sim.now + secs(1);
    sim.tick(TickKind::Timeout);
    assert!(sim.state.decided_end.is_some());
    // The job in flight has its grace period.
    sim.advance(secs(11));
    assert_eq!(sim.status(), Status::TimedOut);

    let untimed = one_effect(Limits::default());
    let mut sim = begun(&untimed);
    sim.now = sim.now + secs(1_000_000);
    sim.tick(TickKind::Timeout);
    assert!(sim.state.decided_end.is_none(), "a run without a timeout has none");
}

#[test]
fn workers_are_numbered_from_the_smallest_free_one() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        vec![b.parallel(id, "three", |b, id| ["a", "b", "c"].map(|name| b.effect(id, name, "0")).to_vec())]
    });
    let program = b.load();
    let mut sim = begun(&program);
    assert_eq!(sim.dispatched.iter().map(|job| job.worker).collect::<Vec<_>>(), [0, 1, 2]);
    sim.succeed("root.three.a", 0u32);
    sim.restart();
    assert_eq!(sim.dispatched[3..].iter().map(|job| job.worker).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn an_impossible_tick_is_detected_and_changes_nothing() {
    let program = one_effect(Limits::default());
    let mut sim = Sim::new(&program, echo());
    let before = support::sim::encoded(&sim.state);
    let early = TickKind::AddEvent {
        name: "go".into(),
        payload: Value::Null,
        request: None,
        origin: None,
        to: None,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    };
    for kind in [TickKind::Restart { lived: windlass_value::Duration::ZERO }, TickKind::TimerDue, early] {
        let tick = Tick { at: Timestamp(5), seed: 0, kind, more_pending: false, clock_step: 0 };
        assert!(impossible(&program, &mut sim, &tick).is_some());
        assert_eq!(support::sim::encoded(&sim.state), before);
    }
    sim.now = Timestamp(10);
    sim.start();
    let back = Tick { at: Timestamp(9), seed: 0, kind: TickKind::TimerDue, more_pending: false, clock_step: 0 };
    assert!(impossible(&program, &mut sim, &back).is_some(), "time never goes back");
}

fn impossible(program: &Program, sim: &mut Sim, tick: &Tick) -> Option<ImpossibleTick> {
    reduce(program, &mut sim.state, tick, &mut sim.values, &mut PartialTick::default()).err()
}

/// The control loop marks each tick that has more behind it: a run with pending deliveries is not idle.
#[test]
fn a_run_with_pending_deliveries_is_not_idle() {
    let program = twice();
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::Never));
    let start = TickKind::AddEvent {
        name: "start".into(),
        payload: Value::Null,
        request: None,
        origin: None,
        to: None,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    };
    sim.reduce(Tick { at: sim.now, seed: 0, kind: start, more_pending: true, clock_step: 0 }).unwrap();
    assert_eq!((sim.state.is_idle(), sim.count("workflow.idle")), (true, 0));
    sim.tick(TickKind::TimerDue);
    assert_eq!(sim.count("workflow.idle"), 1);
    sim.tick(TickKind::TimerDue);
    assert_eq!(sim.count("workflow.idle"), 1, "once");
}
