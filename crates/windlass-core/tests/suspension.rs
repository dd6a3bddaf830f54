//! Tasks that suspend: they wait for events, timers and child runs, save checkpoints, send tokens, and change run
//! state.

use crate::support;

use support::*;
use windlass_core::plan::*;
use windlass_core::{
    ErrorInfo, ExpectedValue, Job, Program, SentToken, SideOutputs, StateChange, Status, SuspendedOn, Suspension,
    TaskOutcome, TickKind, WaitAnnouncement,
};
use windlass_value::{Timestamp, Value};

/// Builds a net of one worker step, followed by the stop; the input initializes the run variable `n`.
fn step(retry: Option<Retry>) -> Builder {
    let mut b = Builder::new();
    b.node(None, "net", |b, id| {
        let input = b.expr(r#"{"$var": "n"}"#);
        let effect = Effect { reevaluates_input: true, ..Effect::new("tool", input) };
        let task = Task { hidden: true, retry, ..Task::new(Action::Effect(effect)) };
        let body = b.node(Some(id), "step", |_, _| NodeKind::Pipeline(Pipeline { tasks: vec![task] }));
        let produces = vec!["stop".into(), "again".into()];
        let step = Place { produces, max_concurrency: 2, ..place("step", &["start", "again"], body) };
        NodeKind::Net(Net::new(vec![step], "start", NetEnd::Stop("stop".into())))
    });
    b
}

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

fn suspended_on(awaited: SuspendedOn) -> TaskOutcome {
    TaskOutcome {
        suspension: Some(Box::new(Suspension { waits_for: awaited, published_events: 0 })),
        ..TaskOutcome::success(Value::Null)
    }
}

fn event(name: &str, requirements: &str, deadline: Option<u64>) -> TaskOutcome {
    let (requirements, deadline) = (json(requirements), deadline.map(secs));
    suspended_on(SuspendedOn::Event { name: name.into(), requirements, deadline, announcement: None })
}

fn stop(payload: &str) -> TaskOutcome {
    TaskOutcome::success(Value::object([("kind", Value::from("stop")), ("payload", json(payload))]))
}

fn with_side_outputs(sends: Vec<SentToken>, changes: Vec<StateChange>, outcome: TaskOutcome) -> TaskOutcome {
    TaskOutcome { side_outputs: Some(Box::new(SideOutputs { sends, state_changes: changes })), ..outcome }
}

fn change(op: WriteOp, value: i64, was: ExpectedValue) -> StateChange {
    StateChange { name: "n".into(), op, value: Value::Int(value), expected: was, initial: Value::Null }
}

fn last<'s>(sim: &'s Sim) -> &'s Job {
    sim.dispatched.last().unwrap()
}

fn wait_results(job: &Job) -> Vec<Value> {
    let answers = job.resumed.iter().flat_map(|resumed| &resumed.answers);
    answers
        .map(|answer| answer.error.as_ref().map_or(answer.value.clone(), |error| Value::Str(error.code.clone())))
        .collect()
}

#[test]
fn sequential_waits_of_one_name_get_their_answers_in_order() {
    let program = step(None).load();
    let mut sim = begun(&program);
    let key = last(&sim).key.clone();
    for (n, payload) in [(1, "first"), (2, "second")] {
        sim.reply("net.step", event("go", "{}", None));
        assert!(sim.state.jobs.is_empty(), "no worker is occupied");
        assert!(sim.state.is_idle());
        sim.event("go", payload);
        assert_eq!((sim.dispatched.len(), last(&sim).attempt), (n + 1, 1));
        assert_eq!(last(&sim).key, key);
    }
    assert_eq!(wait_results(last(&sim)), vec![Value::from("first"), Value::from("second")]);
    sim.reply("net.step", stop("1"));
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn an_answer_that_precedes_its_wait_is_buffered() {
    let program = step(None).load();
    let mut sim = begun(&program);
    sim.event("go", 7i64);
    sim.reply("net.step", event("go", "{}", None));
    assert_eq!(wait_results(last(&sim)), vec![Value::Int(7)]);
}

#[test]
fn parallel_waits_each_get_their_own_answer() {
    let program = step(None).load();
    let mut sim = begun(&program);
    let again = SentToken { kind: "again".into(), payload: Value::Int(2), to: None };
    let more = TaskOutcome::success(Value::object([("kind", Value::from("again")), ("payload", Value::Int(1))]));
    sim.reply("net.step", with_side_outputs(vec![again], Vec::new(), more));
    assert_eq!(sim.flights.len(), 2);
    let jobs: Vec<u64> = sim.flights.iter().map(|flight| flight.job.job).collect();
    for (job, order) in jobs.iter().zip([1, 2]) {
        sim.reply_to(*job, event("go", &format!(r#"{{"order": {order}}}"#), None));
    }
    sim.event("go", json(r#"{"order": 2}"#));
    assert_eq!((last(&sim).job, wait_results(last(&sim))), (jobs[1], vec![json(r#"{"order": 2}"#)]));
    sim.event("go", json(r#"{"order": 1}"#));
    assert_eq!((last(&sim).job, wait_results(last(&sim))), (jobs[0], vec![json(r#"{"order": 1}"#)]));
}

#[test]
fn an_awaited_event_also_reaches_other_accepting_steps_but_not_the_waiting_step_again() {
    for inside in [false, true] {
        let mut b = step(None);
        let other = b.effect(Some(b.plan.root), "other", "1");
        if let NodeKind::Net(net) = &mut b.plan.nodes[b.plan.root.0 as usize].kind {
            net.places[0].accepts.push("go".into());
            net.places.push(place("other", &["go"], other));
        }
        let program = b.load();
        let mut sim = begun(&program);
        let again = SentToken { kind: "again".into(), payload: Value::Int(2), to: None };
        sim.reply("net.step", with_side_outputs(vec![again.clone()], Vec::new(), TaskOutcome::success(Value::Null)));
        sim.reply("net.step", event("go", "{}", None));
        match inside {
            true => {
                sim.event("again", 3i64);
                let go = SentToken { kind: "go".into(), ..again };
                sim.reply("net.step", with_side_outputs(vec![go], Vec::new(), TaskOutcome::success(Value::Null)));
            }
            false => _ = sim.event("go", 2i64),
        }
        assert_eq!(
            wait_results(sim.dispatched.iter().rfind(|job| &**job.path() == "net.step").unwrap()),
            vec![Value::Int(2)]
        );
        assert_eq!(sim.open_paths().iter().filter(|path| *path == "net.other").count(), 1);
        assert_eq!(sim.open_paths().iter().filter(|path| *path == "net.step").count(), 1);
    }
}

#[test]
fn an_expired_deadline_is_a_wait_result() {
    let program = step(None).load();
    let mut sim = begun(&program);
    sim.reply("net.step", event("go", "{}", Some(30)));
    sim.advance(secs(29));
    assert_eq!(sim.dispatched.len(), 1);
    sim.advance(secs(1));
    assert_eq!(wait_results(last(&sim)), vec![Value::from("WaitTimedOut")]);
    // No wait is open any more.
    sim.event("go", 1i64);
    assert_eq!(sim.events.last().map(|event| &*event.kind), Some("event.unhandled"));
}

#[test]
fn the_input_request_is_published_once() {
    let program = step(None).load();
    let mut sim = begun(&program);
    let asks = Some(WaitAnnouncement { kind: "please".into(), data: json(r#"{"amount": 3}"#) });
    sim.reply(
        "net.step",
        suspended_on(SuspendedOn::Event {
            name: "go".into(),
            requirements: Value::Null,
            deadline: None,
            announcement: asks,
        }),
    );
    sim.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
    sim.event("go", 1i64);
    let requests: Vec<&Value> =
        sim.events.iter().filter(|event| &*event.kind == "please").map(|event| &event.data).collect();
    assert_eq!(requests, vec![&json(r#"{"amount": 3}"#)]);
}

#[test]
fn a_timer_wait_needs_no_worker_and_is_not_idle() {
    let program = step(None).load();
    let mut sim = begun(&program);
    sim.reply("net.step", suspended_on(SuspendedOn::Time(secs(3_600))));
    assert!(sim.state.jobs.is_empty() && !sim.state.is_idle());
    sim.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
    sim.advance(secs(3_600));
    assert_eq!((wait_results(last(&sim)), last(&sim).at), (vec![Value::Null], Some(Timestamp(0))));
}

#[test]
fn a_child_run_is_started_once_and_its_end_is_the_result() {
    let program = step(None).load();
    let mut sim = begun(&program);
    for (status, outcome, expected) in [
        (Status::Succeeded, TaskOutcome::success(5i64), Value::Int(5)),
        (Status::Failed, TaskOutcome::failure(ErrorInfo::new("Broken", "tool", "no")), Value::from("Broken")),
        (Status::Cancelled, TaskOutcome::success(Value::Null), Value::from("ChildFailed")),
    ] {
        sim.reply("net.step", suspended_on(SuspendedOn::Child { definition: "other".into(), input: Value::Int(1) }));
        let call = *sim.state.calls.keys().next().unwrap();
        let key = sim.state.calls[&call].key.clone();
        sim.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
        assert_eq!(sim.state.calls[&call].key, key);
        sim.tick(TickKind::CallResult { call, status, outcome });
        assert_eq!(wait_results(last(&sim)).last(), Some(&expected));
    }
}

#[test]
fn a_checkpoint_is_restored_and_passed_to_the_next_attempt() {
    let program = step(Some(retry(2, secs(1)))).load();
    let mut sim = begun(&program);
    sim.reply("net.step", suspended_on(SuspendedOn::Checkpoint(Value::Int(42))));
    assert_eq!((wait_results(last(&sim)), last(&sim).attempt), (vec![Value::Int(42)], 1));
    sim.reply("net.step", TaskOutcome::failure(ErrorInfo::new("Oops", "step", "no")));
    sim.advance(secs(1));
    assert_eq!((wait_results(last(&sim)), last(&sim).attempt), (vec![Value::Int(42)], 2));
}

#[test]
fn the_next_attempt_sees_the_last_failure_and_repeats_failed_waits() {
    let program = step(Some(retry(3, secs(1)))).load();
    let mut sim = begun(&program);
    let mut children = Vec::new();
    sim.reply("net.step", suspended_on(SuspendedOn::Checkpoint(Value::Int(42))));
    for attempt in 1..=2 {
        let job = last(&sim);
        assert_eq!((wait_results(job), job.attempt), (vec![Value::Int(42)], attempt));
        sim.reply("net.step", suspended_on(SuspendedOn::Child { definition: "other".into(), input: Value::Null }));
        let (call, open) = sim.state.calls.iter().next().map(|(call, open)| (*call, open.key.clone())).unwrap();
        children.push(open);
        let outcome = TaskOutcome::failure(ErrorInfo::new("Broken", "tool", "no"));
        sim.tick(TickKind::CallResult { call, status: Status::Failed, outcome: outcome.clone() });
        assert_eq!(wait_results(last(&sim)), vec![Value::Int(42), Value::from("Broken")]);
        sim.reply("net.step", outcome);
        sim.advance(secs(1));
        let tried = last(&sim).previous_attempts.clone().unwrap();
        assert_eq!((tried.since, &*tried.error.code), (Timestamp(0), "Broken"));
        assert_eq!(tried.failed_at, Timestamp(0) + secs(u64::from(attempt) - 1));
    }
    assert_ne!(children[0], children[1], "another try calls another child");
}

/// The input cannot be evaluated when the task resumes after the wait; the next attempt has the same wait results.
#[test]
fn a_task_that_cannot_resume_after_its_wait_is_retried_with_the_same_results() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| {
        let input = r#"{"$not": {"$get": [{"x": true, "xxx": true}, {"$text": {"$var": "_attempt"}}]}}"#;
        let effect = Effect { reevaluates_input: true, ..Effect::new("tool", b.expr(input)) };
        let task = Task { retry: Some(retry(3, secs(1))), ..task("ask", Action::Effect(effect)) };
        NodeKind::Pipeline(Pipeline { tasks: vec![task] })
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.reply("pipe.ask", event("go", "{}", None));
    sim.event("go", 7i64);
    assert_eq!((sim.dispatched.len(), sim.count("task.retrying")), (1, 1));
    sim.advance(secs(1));
    assert_eq!((sim.dispatched.len(), wait_results(last(&sim))), (2, vec![Value::Int(7)]));
    sim.succeed("pipe.ask", 1i64);
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn side_outputs_and_the_result_are_applied_in_one_tick() {
    let program = step(None).load();
    let mut sim = begun(&program);
    let again = SentToken { kind: "again".into(), payload: Value::Null, to: None };
    let done = TaskOutcome::success(Value::Null);
    sim.reply(
        "net.step",
        with_side_outputs(
            vec![again],
            vec![change(WriteOp::Set, 8, ExpectedValue::Absent), change(WriteOp::Add, 1, ExpectedValue::Any)],
            done,
        ),
    );
    assert_eq!(last(&sim).input, Value::Int(9), "the next step sees the change");
    assert_eq!(sim.dispatched.len(), 2);
}

#[test]
fn a_failed_step_applies_no_side_outputs() {
    let program = step(Some(retry(2, secs(1)))).load();
    let mut sim = begun(&program);
    let again = SentToken { kind: "again".into(), payload: Value::Null, to: None };
    let failed = TaskOutcome::failure(ErrorInfo::new("Oops", "step", "no"));
    sim.reply("net.step", with_side_outputs(vec![again], vec![change(WriteOp::Set, 8, ExpectedValue::Any)], failed));
    sim.advance(secs(1));
    assert_eq!((sim.dispatched.len(), &last(&sim).input), (2, &Value::Null));
}

#[test]
fn a_conflicting_state_change_fails_with_its_own_error_kind() {
    let others = [
        (change(WriteOp::Set, 8, ExpectedValue::Value(Value::Int(1))), "StateConflict"),
        (change(WriteOp::Set, 8, ExpectedValue::Absent), "StateConflict"),
        (change(WriteOp::AppendItem, 8, ExpectedValue::Any), "VariableKind"),
        (change(WriteOp::Set, 8, ExpectedValue::Value(Value::Int(5))), ""),
        (change(WriteOp::Add, 8, ExpectedValue::Any), ""),
    ];
    for (late, code) in others {
        let program = step(None).load();
        let mut sim = begun(&program);
        let again = |n: i64| SentToken { kind: "again".into(), payload: Value::Int(n), to: None };
        let done = TaskOutcome::success(Value::Null);
        sim.reply(
            "net.step",
            with_side_outputs(vec![again(1)], vec![change(WriteOp::Set, 5, ExpectedValue::Any)], done),
        );
        sim.reply(
            "net.step",
            with_side_outputs(Vec::new(), vec![change(WriteOp::Set, 5, ExpectedValue::Any), late], stop("1")),
        );
        let error = sim.result().error.clone();
        assert_eq!(error.map(|error| error.code.to_string()).unwrap_or_default(), code);
    }
}

#[test]
fn the_initial_value_initializes_the_variable() {
    let program = step(None).load();
    let mut sim = begun(&program);
    let first = StateChange {
        name: "m".into(),
        op: WriteOp::Add,
        value: Value::Int(1),
        expected: ExpectedValue::Any,
        initial: Value::Int(10),
    };
    sim.reply("net.step", with_side_outputs(Vec::new(), vec![first], stop("1")));
    let scope = sim.state.scopes.get(sim.state.root_scope).unwrap();
    assert_eq!(scope.variables["m"].value, Value::Int(11));
}

#[test]
fn cancelling_a_run_with_a_suspended_step_leaves_nothing_behind() {
    let program = step(None).load();
    for awaited in [
        SuspendedOn::Event {
            name: "go".into(),
            requirements: Value::Null,
            deadline: Some(secs(9)),
            announcement: None,
        },
        SuspendedOn::Time(secs(9)),
        SuspendedOn::Child { definition: "other".into(), input: Value::Null },
    ] {
        let mut sim = begun(&program);
        sim.reply("net.step", suspended_on(awaited));
        sim.cancel().drain_buffer();
        sim.run_until_idle();
        assert_eq!(sim.status(), Status::Cancelled);
        assert!(sim.state.waits.is_empty() && sim.state.timers.is_empty() && sim.state.frames.is_empty());
    }
}
