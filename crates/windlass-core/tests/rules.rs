//! The names that a task's rules and retries see, how often they match, and what they write.

use crate::support;

use support::looped::{begun, error_code as code, ran};
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::{ErrorInfo, Limits, Program, Status, TaskOutcome};
use windlass_value::{Duration, Level, Timestamp, Value};

fn pipeline(make: impl FnOnce(&mut Builder) -> Vec<Task>) -> Program {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| NodeKind::Pipeline(Pipeline { tasks: make(b) }));
    b.load()
}

fn failure_with_code(code: &str) -> TaskOutcome {
    TaskOutcome::failure(ErrorInfo::new(code, "http", "no").replied())
}

/// A rule for `outcome.error.code`.
fn on_code(b: &mut Builder, code: &str, directive: Directive) -> TaskRule {
    let found = r#"{"$get": [{"$get": [{"$var": "outcome"}, "error"]}, "code"]}"#;
    rule(Some(b.condition(json(&format!(r#"{{"$eq": [{found}, "{code}"]}}"#)))), directive)
}

fn attempts(sim: &Sim) -> Vec<u32> {
    sim.dispatched.iter().map(|job| job.attempt).collect()
}

/// No reply has come: a rule that only retries sends the same request; a rule that writes sends the changed request,
/// under another key.
#[test]
fn a_rule_that_writes_sends_another_request() {
    for (writes, second) in [(false, (0, Value::Null)), (true, (1, Value::Int(7)))] {
        let program = pipeline(|b| {
            let mut again = rule(None, Directive::Retry(retry(3, Duration::ZERO)));
            let seven = b.expr("7");
            again.writes.extend(writes.then(|| VariableUpdate::new(Level::Step, "hint", WriteOp::Set, Some(seven))));
            vec![Task { rules: vec![again], ..task("call", b.action(r#"{"$var": "hint"}"#)) }]
        });
        let mut sim = begun(&program);
        sim.reply("pipe.call", TaskOutcome::failure(ErrorInfo::new("lost", "connection", "no answer")));
        sim.advance(Duration::ZERO);
        let sent: Vec<_> = sim.dispatched.iter().map(|job| (job.key.group, job.input.clone())).collect();
        assert_eq!(sent, [(0, Value::Null), second], "{writes}");
    }
}

// Match counts.

/// Requests page after page while there are more, up to a maximum.
fn pages(times: Amount<u64>) -> Program {
    pipeline(|b| {
        let more = b.condition(json(r#"{"$get": [{"$get": [{"$var": "outcome"}, "result"]}, "more"]}"#));
        let back = TaskRule { max_matches: Some(times), ..rule(Some(more), Directive::Jump(0)) };
        let visit = b.expr(r#"{"last": {"$var": "_visit"}}"#);
        let end = TaskRule { previous: Some(visit), ..TaskRule::new(Directive::Continue) };
        vec![Task { rules: vec![back, end], ..task("call", b.action(r#"{"$var": "_visit"}"#)) }]
    })
}

fn page(sim: &mut Sim, more: bool) {
    sim.succeed("pipe.call", Value::object([("more", more)]));
}

#[test]
fn an_exhausted_bounded_jump_falls_through_to_the_next_rule() {
    let program = pages(Amount::Fixed(2));
    let mut sim = begun(&program);
    (0..3).for_each(|_| page(&mut sim, true));
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, json(r#"{"last": 3}"#)));
    let visits: Vec<Value> = sim.dispatched.iter().map(|job| job.input.clone()).collect();
    assert_eq!(visits, [Value::Int(1), Value::Int(2), Value::Int(3)]);
}

#[test]
fn a_bound_may_be_computed_from_the_outcome_and_zero_never_matches() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| {
        let bound = Amount::Computed(b.expr(r#"{"$get": [{"$get": [{"$var": "outcome"}, "result"]}, "pages"]}"#));
        let back = TaskRule { max_matches: Some(bound), ..TaskRule::new(Directive::Jump(0)) };
        NodeKind::Pipeline(Pipeline { tasks: vec![Task { rules: vec![back], ..task("call", b.action("1")) }] })
    });
    let program = b.load();
    for pages in [0u32, 1, 4] {
        let mut sim = begun(&program);
        while !sim.ended() {
            sim.succeed("pipe.call", Value::object([("pages", pages)]));
        }
        assert_eq!(sim.dispatched.len(), 1 + pages as usize);
    }
}

/// Rules without a bound share the task's attempts; bounded rules count separately.
#[test]
fn a_bounded_retry_counts_its_own_attempts() {
    let program = |bounded: bool| {
        pipeline(|b| {
            let times = bounded.then_some(Amount::Fixed(u64::MAX));
            let busy = on_code(b, "429", Directive::Retry(retry(3, secs(1))));
            let down = on_code(b, "503", Directive::Retry(retry(2, secs(1))));
            let rules = vec![TaskRule { max_matches: times.clone(), ..busy }, TaskRule { max_matches: times, ..down }];
            vec![Task { rules, ..task("call", b.action("1")) }]
        })
    };
    let tried = |bounded: bool, codes: &[&str]| {
        let program = program(bounded);
        let mut sim = begun(&program);
        for code in codes {
            sim.reply("pipe.call", failure_with_code(code)).advance(secs(1));
        }
        (sim.ended(), sim.dispatched.len())
    };
    assert_eq!(tried(false, &["429", "503"]), (true, 2), "two tries were made, whatever for");
    assert_eq!(tried(true, &["429", "503"]), (false, 3));
    assert_eq!(tried(true, &["429", "429", "503"]), (false, 4));
    assert_eq!(tried(true, &["429", "429", "503", "429"]), (true, 4), "its third");
}

/// The backoff grows with the rule's own attempts, not with those of another rule.
#[test]
fn a_bounded_retry_backs_off_by_its_own_attempts() {
    let program = pipeline(|b| {
        let mut slow = retry(9, secs(1));
        slow.backoff.growth = Growth::Exponential(10.0);
        let times = Some(Amount::Fixed(5));
        let busy = TaskRule { max_matches: times.clone(), ..on_code(b, "429", Directive::Retry(retry(9, secs(1)))) };
        let down = TaskRule { max_matches: times, ..on_code(b, "503", Directive::Retry(slow)) };
        vec![Task { rules: vec![busy, down], ..task("call", b.action("1")) }]
    });
    let mut sim = begun(&program);
    sim.reply("pipe.call", failure_with_code("429"))
        .advance(secs(1))
        .reply("pipe.call", failure_with_code("503"))
        .advance(secs(1));
    assert_eq!(sim.dispatched.len(), 3, "one second, although it is the third try");
}

/// Each page has fresh attempts; the page count spans all of them.
#[test]
fn attempts_reset_at_each_visit_and_jumps_do_not() {
    let program = pipeline(|b| {
        let down = on_code(b, "503", Directive::Retry(retry(2, secs(1))));
        let down = TaskRule { max_matches: Some(Amount::Fixed(1)), ..down };
        let back = TaskRule { max_matches: Some(Amount::Fixed(2)), ..TaskRule::new(Directive::Jump(0)) };
        let failed = on_code(b, "503", Directive::Fail { status: Status::Failed, error: None });
        vec![Task { rules: vec![down, failed, back], ..task("call", b.action("1")) }]
    });
    let mut sim = begun(&program);
    for _ in 0..3 {
        sim.reply("pipe.call", failure_with_code("503")).advance(secs(1)).succeed("pipe.call", 1u32);
    }
    assert_eq!((sim.status(), attempts(&sim)), (Status::Succeeded, vec![1, 2, 1, 2, 1, 2]));
}

// The task's own retry.

#[test]
fn the_tasks_own_attempts_precede_its_rules() {
    let program = pipeline(|b| {
        let took = b.expr(r#"[{"$var": "_attempt"}, {"$get": [{"$get": [{"$var": "outcome"}, "meta"]}, "attempt"]}]"#);
        let gives_up = TaskRule { previous: Some(took), ..TaskRule::new(Directive::Continue) };
        vec![Task { retry: Some(retry(3, secs(1))), rules: vec![gives_up], ..task("call", b.action("1")) }]
    });
    let mut sim = begun(&program);
    sim.reply("pipe.call", failure_with_code("500"))
        .advance(secs(1))
        .reply("pipe.call", failure_with_code("500"))
        .advance(secs(1));
    assert!(!sim.ended(), "no rule was evaluated yet");
    sim.reply("pipe.call", failure_with_code("500"));
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, json("[3, 3]")));
}

/// A rule that retries the task resets the task's own attempts.
#[test]
fn each_retry_by_a_rule_has_the_tasks_own_attempts() {
    let program = pipeline(|b| {
        let again = on_code(b, "500", Directive::Retry(retry(2, secs(10))));
        vec![Task { retry: Some(retry(2, secs(1))), rules: vec![again], ..task("call", b.action("1")) }]
    });
    let mut sim = begun(&program);
    for wait in [1, 10, 1] {
        sim.reply("pipe.call", failure_with_code("500"));
        let before = sim.dispatched.len();
        sim.advance(Duration(secs(wait).0 - 1));
        assert_eq!(sim.dispatched.len(), before);
        sim.advance(Duration(1));
    }
    sim.reply("pipe.call", failure_with_code("500"));
    assert_eq!((sim.status(), attempts(&sim)), (Status::Failed, vec![1, 2, 3, 4]));
}

#[test]
fn amounts_of_a_retry_see_the_task() {
    let program = pipeline(|b| {
        let waits = b.expr(r#"{"$get": [{"$get": [{"$var": "outcome"}, "http"]}, "wait"]}"#);
        let mut policy = retry(9, secs(1));
        policy.backoff.interval = Amount::Computed(waits);
        policy.attempts = Amount::Computed(b.expr(r#"{"$add": [{"$var": "_visit"}, 2]}"#));
        vec![Task { retry: Some(policy), ..task("call", b.action("1")) }]
    });
    let mut sim = begun(&program);
    let facts = Value::object([("http", Value::object([("wait", 30u32)]))]);
    let busy = TaskOutcome { facts, ..failure_with_code("429") };
    sim.reply("pipe.call", busy.clone()).advance(secs(29));
    assert_eq!(sim.dispatched.len(), 1);
    sim.advance(secs(1)).reply("pipe.call", busy.clone()).advance(secs(30)).reply("pipe.call", busy);
    assert_eq!((sim.status(), sim.dispatched.len()), (Status::Failed, 3));
}

// Facts about an outcome.

#[test]
fn facts_are_added_to_the_outcome_and_its_meta_is_complete() {
    let program = pipeline(|b| {
        let seen = TaskRule { previous: Some(b.expr(r#"{"$var": "outcome"}"#)), ..TaskRule::new(Directive::Continue) };
        vec![Task { rules: vec![seen], ..task("call", b.action("1")) }]
    });
    let mut sim = begun(&program);
    sim.now = Timestamp(2_000_000);
    let facts = json(r#"{"http": {"status": 404}, "status": "made up"}"#);
    let meta = json(r#"{"usage": {"tokens": 3}, "attempt": 77}"#);
    sim.reply("pipe.call", TaskOutcome { facts, meta, ..failure_with_code("404") });
    let outcome = json(
        r#"{"status": "error", "result": null, "error": {"code": "404", "kind": "http", "message": "no"},
            "meta": {"usage": {"tokens": 3}, "attempt": 1, "duration_ms": 2000, "started_at": "1970-01-01T00:00:00.000Z",
                     "ended_at": "1970-01-01T00:00:02.000Z"},
            "http": {"status": 404}}"#,
    );
    assert_eq!(sim.output(), outcome);
    let published = sim.events_of("task.processed")[0].data.get("outcome").unwrap().clone();
    for part in ["status", "result", "error", "meta", "http"] {
        assert_eq!(published.get(part), outcome.get(part), "{part}");
    }
}

#[test]
fn large_facts_travel_by_reference_and_can_be_read() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| {
        let trace = b.expr(r#"{"$len": {"$get": [{"$get": [{"$var": "outcome"}, "py"]}, "exception"]}}"#);
        let seen = TaskRule { previous: Some(trace), ..TaskRule::new(Directive::Continue) };
        NodeKind::Pipeline(Pipeline { tasks: vec![Task { rules: vec![seen], ..task("call", b.action("1")) }] })
    });
    let program = b.load_with(Limits { max_inline_bytes: 1_000, ..Limits::default() });
    let mut sim = begun(&program);
    let py = Value::object([("exception", Value::from("x".repeat(5_000)))]);
    sim.reply("pipe.call", TaskOutcome { facts: Value::object([("py", py)]), ..failure_with_code("py") });
    assert_eq!(sim.output(), Value::Int(5_000));
    let published = &sim.events_of("task.processed")[0].data;
    assert!(matches!(published.get("outcome").unwrap().get("py"), Some(Value::Stored(_))));
}

#[test]
fn a_hidden_task_has_no_events() {
    let program = pipeline(|b| {
        let hidden = |task: Task| Task { hidden: true, ..task };
        let write = VariableUpdate { hidden: true, ..b.writes("x", WriteOp::Set, "1") };
        let call = Task { retry: Some(retry(2, secs(1))), ..task("call", b.action("1")) };
        vec![hidden(call), hidden(task("write", Action::Write(write))), task("end", Action::Evaluate(b.expr("2")))]
    });
    let mut sim = begun(&program);
    sim.reply("pipe.call", failure_with_code("500")).advance(secs(1)).succeed("pipe.call", 1u32);
    let published: Vec<&str> =
        sim.kinds().into_iter().filter(|kind| kind.starts_with("task") || *kind == "ctx.patched").collect();
    assert_eq!((sim.output(), published), (Value::Int(2), vec!["task.started", "task.processed"]));
}

#[test]
fn a_single_labelled_task_sees_itself_and_is_published() {
    let program =
        pipeline(|b| vec![task("only", Action::Evaluate(b.expr(r#"[{"$var": "_task"}, {"$var": "_attempt"}]"#)))]);
    let sim = ran(&program);
    assert_eq!(sim.output(), json(r#"["only", 1]"#));
    assert_eq!((sim.count("task.started"), sim.count("task.processed")), (1, 1));
    let program = pipeline(|b| vec![Task::new(Action::Evaluate(b.expr(r#"{"$var": "_task"}"#)))]);
    let sim = ran(&program);
    assert_eq!((sim.output(), sim.count("task.started")), (Value::Null, 0));
}

/// The input of a later attempt contains the attempt number.
#[test]
fn an_attempt_sees_its_number() {
    let program = pipeline(|b| {
        vec![Task { retry: Some(retry(2, secs(1))), ..task("call", b.action(r#"{"$var": "_attempt"}"#)) }]
    });
    let mut sim = begun(&program);
    sim.reply("pipe.call", failure_with_code("500")).advance(secs(1));
    let inputs: Vec<Value> = sim.dispatched.iter().map(|job| job.input.clone()).collect();
    assert_eq!(inputs, [Value::Int(1), Value::Int(2)]);
}

// Guards.

#[test]
fn missing_values_make_a_guard_false() {
    let missing = json(r#"{"$eq": [{"$node": "missing"}, 1]}"#);
    let program = |guard: bool| {
        pipeline(|b| {
            let when = if guard { b.guard(missing.clone()) } else { b.value(missing.clone()) };
            vec![Task { rules: vec![rule(Some(when), Directive::Break)], ..task("a", Action::Evaluate(b.expr("1"))) }]
        })
    };
    assert_eq!(ran(&program(true)).output(), Value::Int(1));
    assert_eq!(code(&ran(&program(false))), "InvalidTemplate");
}

/// Only missing values make a guard false; any other error fails it.
#[test]
fn any_other_guard_error_is_a_failure() {
    for wrong in [r#"{"$not": 5}"#, "7"] {
        let program = pipeline(|b| {
            let when = b.guard(json(wrong));
            vec![Task { rules: vec![rule(Some(when), Directive::Break)], ..task("a", Action::Evaluate(b.expr("1"))) }]
        });
        assert_eq!(ran(&program).status(), Status::Failed, "{wrong}");
    }
}

/// A guard requests values stored outside the state as any other expression does.
#[test]
fn a_guard_loads_values_stored_outside_the_state() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let large = b.evaluate(id, "large", r#"{"$text": 300}"#);
        let look = b.node(id, "look", |b, _| {
            let when = b.guard(json(r#"{"$eq": [{"$len": {"$node": "large"}}, 300]}"#));
            let rules = vec![TaskRule { previous: Some(b.expr("\"long\"")), ..rule(Some(when), Directive::Break) }];
            NodeKind::Pipeline(Pipeline { tasks: vec![Task { rules, ..task("a", Action::Evaluate(b.expr("1"))) }] })
        });
        vec![large, look]
    });
    let program = b.load_with(Limits { max_inline_bytes: 100, ..Limits::default() });
    let mut sim = Sim::new(&program, support::world::echo());
    sim.values = MemoryValues::forgetful();
    sim.start().run();
    assert_eq!(sim.output().get("look"), Some(&Value::from("long")));
}

// Writes.

/// Applies the writes and returns the value of the last one.
fn written(input: &str, writes: &[(WriteOp, &str)], level: Level, fresh: bool) -> Result<Value, String> {
    let program = pipeline(|b| {
        let write =
            |b: &mut Builder, op, value| VariableUpdate { level, ignores_input: fresh, ..b.writes("n", op, value) };
        let mut tasks: Vec<Task> =
            writes.iter().map(|(op, value)| task("w", Action::Write(write(b, *op, value)))).collect();
        tasks.push(task("end", Action::Evaluate(b.expr(r#"{"$var": "n"}"#))));
        tasks
    });
    let mut sim = Sim::new(&program, support::world::echo());
    sim.start_with(json(input)).run();
    if sim.status() == Status::Succeeded { Ok(sim.output()) } else { Err(code(&sim)) }
}

#[test]
fn writes_start_from_null_or_the_run_input() {
    let run = |writes: &[(WriteOp, &str)]| written("{}", writes, Level::Run, false);
    assert_eq!(run(&[(WriteOp::Add, "4")]), Ok(Value::Int(4)));
    assert_eq!(run(&[(WriteOp::Subtract, "4"), (WriteOp::Add, "1.5")]), Ok(json("-2.5")));
    assert_eq!(run(&[(WriteOp::Add, "null")]), Err("VariableKind".to_owned()), "null is no number");
    assert_eq!(
        run(&[(WriteOp::Extend, "[1, 2]"), (WriteOp::Extend, "[3]"), (WriteOp::Extend, "4")]),
        Ok(json("[1, 2, 3, 4]"))
    );
    assert_eq!(run(&[(WriteOp::Extend, "5"), (WriteOp::AppendItem, "[6]")]), Ok(json("[5, [6]]")));
    assert_eq!(run(&[(WriteOp::Set, "5"), (WriteOp::Extend, "[6]")]), Err("VariableKind".to_owned()));

    let add = [(WriteOp::Add, "1")];
    assert_eq!(written(r#"{"n": 10}"#, &add, Level::Run, false), Ok(Value::Int(11)));
    assert_eq!(written(r#"{"n": 10}"#, &add, Level::Run, true), Ok(Value::Int(1)));
    assert_eq!(written(r#"{"n": 10}"#, &add, Level::Step, false), Ok(Value::Int(1)), "an input is the run's");
}

#[test]
fn a_write_among_tasks_sees_what_the_task_sees() {
    let program = pipeline(|b| {
        let first = task("first", Action::Evaluate(b.expr("[1, 2]")));
        let write = Action::Write(b.writes("all", WriteOp::Extend, r#"{"$var": "_prev"}"#));
        vec![first, task("keep", write), task("end", Action::Evaluate(b.expr(r#"{"$var": "all"}"#)))]
    });
    assert_eq!(ran(&program).output(), json("[1, 2]"));
}

/// A list is extended in place, whether its parts are resident or stored.
#[test]
fn lists_are_extended_by_stored_values() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let parts = b.evaluate(id, "parts", r#"{"$range": 40}"#);
        let once = b.write(id, "once", "list", WriteOp::Extend, r#"{"$node": "parts"}"#);
        let twice = b.write(id, "twice", "list", WriteOp::Extend, r#"{"$node": "parts"}"#);
        vec![parts, once, twice, b.evaluate(id, "length", r#"{"$len": {"$var": "list"}}"#)]
    });
    let program = b.load_with(Limits { max_inline_bytes: 100, ..Limits::default() });
    let mut sim = Sim::new(&program, support::world::echo());
    sim.values = MemoryValues::forgetful();
    sim.start().run();
    assert_eq!(sim.output().get("length"), Some(&Value::Int(80)));
}

/// The path of an error is the task; the events of a task have one path. A single task without a label is its node.
#[test]
fn a_failure_path_names_the_task() {
    let failing = |label: &'static str| {
        pipeline(move |b| vec![Task { retry: Some(retry(2, secs(1))), ..task(label, b.action("1")) }])
    };
    for (label, path) in [("load", "pipe.load"), ("", "pipe")] {
        let program = failing(label);
        let mut sim = begun(&program);
        sim.reply(path, failure_with_code("500")).advance(secs(1)).reply(path, failure_with_code("500"));
        for kind in ["task.started", "task.processed"] {
            assert_eq!(sim.paths(kind), [path, path], "{kind}");
        }
        assert_eq!(sim.paths("task.retrying"), [path]);
        let failed = sim.events_of("step.failed");
        assert_eq!(
            failed.first().map(|event| &*event.path),
            Some("pipe"),
            "the step is still reported under its own path"
        );
        let error_path = failed.first().and_then(|event| event.data.get("error")?.get("path"));
        assert_eq!(error_path, Some(&Value::from(path)));
    }
}
