//! Loops that end early, by a break or a stall, and the report they give.

use crate::support;

use support::looped::*;
use support::*;
use windlass_core::plan::*;
use windlass_core::{LoopEndReason, Program, Status};
use windlass_value::Value;

/// The loop ends with the first iteration that returns "good".
fn first_success(in_flight: u64, on_iteration_failure: IterationFailure, collect: CollectMode) -> Program {
    looped(|b, id| {
        let items = range(b, 6);
        let body = b.effect(id, "body", "0");
        let break_when = Some(b.condition(json(r#"{"$eq": [{"$status": "body"}, "succeeded"]}"#)));
        Loop { break_when, on_iteration_failure, collect, ..each(items, in_flight, body) }
    })
}

#[test]
fn the_first_success_wins() {
    for on_iteration_failure in [IterationFailure::FailAtEnd, IterationFailure::LastDecides, IterationFailure::Count] {
        let program = first_success(3, on_iteration_failure, CollectMode::Stats);
        let mut sim = begun(&program);
        sim.fail("loop[1].body").succeed("loop[3].body", "good").advance(secs(30));
        assert_eq!((sim.status(), sim.loop_end("loop").0.as_str()), (Status::Succeeded, "condition"));
        let stats = sim.output().get("stats").cloned().unwrap();
        assert_eq!(stats, json(r#"{"total": 4, "success": 1, "failed": 1}"#));
        assert_eq!(sim.output().get("results"), Some(&json(r#"[null, null, null, "good"]"#)));
        let ended: Vec<(u64, Status)> =
            sim.iterations.iter().map(|iteration| (iteration.index, iteration.status)).collect();
        assert_eq!(ended[..2], [(1, Status::Failed), (3, Status::Succeeded)]);
        assert!(ended[2..].iter().all(|(_, status)| *status == Status::Cancelled), "{ended:?}");
        assert_eq!(sim.iterations.last().unwrap().reason, Some(LoopEndReason::Condition));
        assert_eq!(sim.dispatched.len(), 4, "no other iteration begins");
    }
}

#[test]
fn the_first_success_also_wins_in_a_sequential_loop() {
    let program = first_success(1, IterationFailure::FailAtEnd, CollectMode::List);
    let mut sim = begun(&program);
    sim.fail("loop[0].body").fail("loop[1].body").succeed("loop[2].body", "good");
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Succeeded, ("condition".to_owned(), 3)));
    assert_eq!(sim.output(), json(r#"[null, null, "good"]"#));
}

#[test]
fn without_a_success_the_loop_ends_as_its_iterations_do() {
    let program = first_success(2, IterationFailure::FailAtEnd, CollectMode::List);
    let mut sim = begun(&program);
    (0..6).for_each(|index| _ = sim.fail(&format!("loop[{index}].body")));
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("items".to_owned(), 6)));
}

/// The break condition is not evaluated for an iteration whose failure stops the loop.
#[test]
fn a_failure_that_stops_the_loop_precedes_the_break_condition() {
    let program = looped(|b, id| {
        let body = b.effect(id, "body", "0");
        let break_when = Some(b.condition(json("true")));
        Loop { break_when, ..repeat(3, body) }
    });
    let mut sim = begun(&program);
    sim.fail("loop[0].body");
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("failed".to_owned(), 1)));
}

#[test]
fn a_failed_iteration_can_meet_the_break_condition() {
    for on_iteration_failure in [IterationFailure::LastDecides, IterationFailure::Count, IterationFailure::Tolerate(2)]
    {
        let program = looped(|b, id| {
            let body = b.effect(id, "body", "0");
            let break_when = Some(b.condition(json(r#"{"$eq": [{"$status": "body"}, "failed"]}"#)));
            Loop { break_when, on_iteration_failure, ..repeat(5, body) }
        });
        let mut sim = begun(&program);
        sim.succeed("loop[0].body", 1u32).fail("loop[1].body");
        assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Succeeded, ("condition".to_owned(), 2)));
    }
}

fn report(sim: &Sim) -> (String, String, bool, i64) {
    let output = sim.output();
    let text = |key: &str| output.get(key).and_then(Value::as_str).unwrap().to_owned();
    let met = output.get("conditionMet").and_then(Value::as_bool).unwrap();
    (text("status"), text("reason"), met, output.get("iterations").and_then(Value::as_int).unwrap())
}

fn expected_report(status: &str, reason: &str, met: bool, iterations: i64) -> (String, String, bool, i64) {
    (status.to_owned(), reason.to_owned(), met, iterations)
}

/// Returns the checks of every condition loop: until, while, doUntil, and one that never evaluates a condition.
fn checks(b: &mut Builder, met_after: i64) -> [LoopCheck; 4] {
    let met = completed(b, met_after);
    let goes_on = b.condition(json(&format!(r#"{{"$lt": [{{"$iteration": "completed"}}, {met_after}]}}"#)));
    [
        LoopCheck::Before { condition: met, stop_when: true },
        LoopCheck::Before { condition: goes_on, stop_when: false },
        LoopCheck::After { condition: met, stop_when: true },
        LoopCheck::Never,
    ]
}

#[test]
fn every_condition_loop_can_be_broken_off() {
    for which in 0..4 {
        // Broken off after 3 iterations; `met_after` is the number of iterations after which the condition is met.
        for (met_after, expected) in [
            (9, expected_report("break", "condition", false, 3)),
            (3, expected_report("break", "condition", false, 3)),
            (2, expected_report("completed", "condition", true, 2)),
        ] {
            let program = looped(|b, id| {
                let check = checks(b, met_after)[which].clone();
                let break_when = Some(completed(b, 3));
                Loop { check, break_when, ..repeat(20, b.evaluate(id, "body", "1")) }
            });
            let sim = ran(&program);
            let expected = match (which, met_after) {
                // Break and condition in the same iteration: the condition still counts as met.
                (0..3, 3) => expected_report("completed", "condition", true, 3),
                (3, _) => expected_report("break", "condition", false, 3),
                _ => expected,
            };
            assert_eq!(
                (sim.status(), report(&sim)),
                (Status::Succeeded, expected),
                "check {which}, met after {met_after}"
            );
        }
    }
}

/// Each end has a different status word, and the report has `met` only if the condition is met.
#[test]
fn a_report_contains_the_reason_of_the_loop_end() {
    let with = |change: fn(&mut Builder, &mut Loop)| {
        let program = looped(|b, id| {
            let mut looping = repeat(4, b.effect(id, "body", "1"));
            looping.check = LoopCheck::After { condition: completed(b, 9), stop_when: true };
            change(b, &mut looping);
            looping
        });
        report(&ran(&program))
    };
    assert_eq!(with(|_, _| {}), expected_report("max-iterations", "count", false, 4));
    assert_eq!(
        with(|b, l| l.check = LoopCheck::After { condition: completed(b, 2), stop_when: true }),
        expected_report("completed", "condition", true, 2)
    );
    assert_eq!(with(|b, l| l.break_when = Some(completed(b, 2))), expected_report("break", "condition", false, 2));
    assert_eq!(
        with(|b, l| l.stall = Some(StallCheck { watch: b.expr("1"), iterations: 3 })),
        expected_report("stalled", "stalled", false, 3)
    );
    assert_eq!(
        with(|_, l| l.limits.budget.push(Budget { what: CALLS.into(), max: Amount::Fixed(1) })),
        expected_report("budget", "budget", false, 2)
    );
    assert_eq!(with(|b, l| l.break_when = Some(b.condition(json("3")))), expected_report("failed", "failed", false, 1));
}

#[test]
fn a_loop_over_items_can_stall() {
    for (on_exhausted, status) in
        [(ExhaustedPolicy::Fail, Status::Failed), (ExhaustedPolicy::Succeed, Status::Succeeded)]
    {
        for in_flight in [1, 3] {
            let program = looped(|b, id| {
                let items = range(b, 9);
                let body = b.effect(id, "body", "0");
                let watch = b.expr(r#"{"$iteration": "previous"}"#);
                Loop { stall: Some(StallCheck { watch, iterations: 2 }), on_exhausted, ..each(items, in_flight, body) }
            });
            let mut sim = begun(&program);
            sim.succeed("loop[0].body", "a")
                .succeed("loop[1].body", "b")
                .succeed("loop[2].body", "b")
                .advance(secs(30));
            assert_eq!((sim.status(), sim.loop_end("loop").0.as_str()), (status, "stalled"), "{in_flight} in flight");
            let error = sim.result().error.as_ref().map(|error| (&*error.code, error.hint.is_some()));
            assert_eq!(error, (on_exhausted == ExhaustedPolicy::Fail).then_some(("LoopStalled", true)));
        }
    }
}

#[test]
fn a_condition_that_is_met_is_no_stall() {
    let program = looped(|b, id| {
        let check = LoopCheck::After { condition: completed(b, 2), stop_when: true };
        let stall = Some(StallCheck { watch: b.expr("1"), iterations: 2 });
        Loop { check, stall, on_exhausted: ExhaustedPolicy::Fail, ..repeat(9, b.evaluate(id, "body", "1")) }
    });
    let sim = ran(&program);
    assert_eq!((sim.status(), report(&sim)), (Status::Succeeded, expected_report("completed", "condition", true, 2)));
}

#[test]
fn the_iteration_done_event_is_complete() {
    let mut b = Builder::new();
    b.looping(None, "outer.v2", |b, id| {
        let body = b.looping(id, "in.ner", |b, id| {
            let check = LoopCheck::Before { condition: completed(b, 2), stop_when: true };
            Loop { check, kind: "until".into(), ..repeat(9, b.evaluate(id, "body", "7")) }
        });
        let items = range(b, 1);
        Loop { kind: "foreach".into(), ..each(items, 1, body) }
    });
    let program = b.load();
    let sim = ran(&program);
    let done = sim.events_of("loop.iteration.done");
    let published: Vec<(&str, Vec<&Value>)> = done
        .iter()
        .map(|event| {
            let names = ["actionName", "loopType", "iteration", "conditionResult", "duration"];
            (&*event.path, names.iter().map(|name| event.data.get(name).unwrap()).collect())
        })
        .collect();
    let values = |text: &str| json(text).as_list().unwrap().to_vec();
    let expected = [
        ("outer.v2[0].in.ner[0]", values(r#"["in.ner", "until", 0, false, 0]"#)),
        ("outer.v2[0].in.ner[1]", values(r#"["in.ner", "until", 1, true, 0]"#)),
        ("outer.v2[0]", values(r#"["outer.v2", "foreach", 0, null, 0]"#)),
    ];
    let published: Vec<(&str, Vec<Value>)> =
        published.into_iter().map(|(path, values)| (path, values.into_iter().cloned().collect())).collect();
    assert_eq!(published, expected);
    assert!(done.iter().all(|event| event.data.get("result").is_some()));
}
