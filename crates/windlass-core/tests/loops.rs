//! The loop contract of loops.md, rule by rule.

use crate::support;

use support::looped::*;
use support::sim::encoded;
use support::values::MemoryValues;
use support::world::{World, echo, refusal};
use support::*;
use windlass_core::plan::*;
use windlass_core::state::{FrameBody, ItemStorage};
use windlass_core::{Command, Limits, LoopEndReason, Program, Status, TaskOutcome};
use windlass_value::{Duration, Timestamp, Value};

// Number of iterations.

#[derive(Clone, Copy)]
enum When {
    Before,
    After,
}

fn until(when: When, met_after: i64, count: u64, on_exhausted: ExhaustedPolicy) -> (Status, String, i64) {
    let program = looped(|b, id| {
        let condition = completed(b, met_after);
        let body = b.evaluate(id, "body", r#"{"$iteration": "index"}"#);
        let check = match when {
            When::Before => LoopCheck::Before { condition, stop_when: true },
            When::After => LoopCheck::After { condition, stop_when: true },
        };
        Loop { check, on_exhausted, ..repeat(count, body) }
    });
    let sim = ran(&program);
    let (reason, iterations) = sim.loop_end("loop");
    assert_eq!(sim.output().get("iterations"), Some(&Value::Int(iterations)));
    assert_eq!(sim.output().get("conditionMet"), Some(&Value::Bool(reason == "condition")));
    (sim.status(), reason, iterations)
}

#[test]
fn a_check_before_the_iteration_allows_zero_iterations() {
    for iterations in [0, 1, 2, 5] {
        let ended = until(When::Before, iterations, 9, ExhaustedPolicy::Fail);
        assert_eq!(ended, (Status::Succeeded, "condition".to_owned(), iterations));
    }
}

#[test]
fn a_check_after_the_iteration_means_at_least_one() {
    for (met_after, iterations) in [(0, 1), (1, 1), (2, 2), (5, 5)] {
        let ended = until(When::After, met_after, 9, ExhaustedPolicy::Fail);
        assert_eq!(ended, (Status::Succeeded, "condition".to_owned(), iterations));
    }
}

#[test]
fn the_limit_fails_or_succeeds_as_configured() {
    for when in [When::Before, When::After] {
        let failed = until(when, 9, 3, ExhaustedPolicy::Fail);
        assert_eq!(failed, (Status::Failed, "count".to_owned(), 3));
        let succeeded = until(when, 9, 3, ExhaustedPolicy::Succeed);
        assert_eq!(succeeded, (Status::Succeeded, "count".to_owned(), 3));
    }
}

#[test]
fn the_check_runs_once_more_after_the_last_allowed_iteration() {
    for when in [When::Before, When::After] {
        let ended = until(when, 3, 3, ExhaustedPolicy::Fail);
        assert_eq!(ended, (Status::Succeeded, "condition".to_owned(), 3));
    }
}

#[test]
fn a_loop_may_stop_when_its_condition_is_false() {
    let program = looped(|b, id| {
        let condition = b.condition(json(r#"{"$lt": [{"$iteration": "completed"}, 4]}"#));
        let body = b.evaluate(id, "body", "0");
        Loop { check: LoopCheck::Before { condition, stop_when: false }, ..repeat(9, body) }
    });
    assert_eq!(ran(&program).loop_end("loop"), ("condition".to_owned(), 4));
}

#[test]
fn each_processes_every_item_once() {
    for (items, in_flight) in [(0, 1), (1, 1), (4, 1), (0, 3), (1, 3), (7, 3)] {
        let program = looped(|b, id| {
            let items = range(b, items);
            let body = b.evaluate(id, "body", r#"{"$add": [{"$iteration": "item"}, 10]}"#);
            each(items, in_flight, body)
        });
        let sim = ran(&program);
        assert_eq!(sim.loop_end("loop"), ("items".to_owned(), items as i64));
        assert_eq!(sim.output(), Value::list((0..items as i64).map(|item| Value::Int(item + 10)).collect()));
    }
}

#[test]
fn a_loop_over_items_respects_its_limits() {
    let program = looped(|b, id| {
        let items = range(b, 6);
        let body = b.evaluate(id, "body", "0");
        let limits = LoopLimits { iterations: Some(Amount::Fixed(4)), ..no_limits() };
        Loop { limits, on_exhausted: ExhaustedPolicy::Fail, ..each(items, 2, body) }
    });
    let sim = ran(&program);
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("count".to_owned(), 4)));
}

#[test]
fn limits_beyond_the_system_limits_are_rejected() {
    let refused = |change: fn(&mut Loop)| {
        let program = looped(|b, id| {
            let mut looping = repeat(5, b.evaluate(id, "body", "0"));
            change(&mut looping);
            looping
        });
        let sim = ran(&program);
        assert_eq!(sim.count("loop.iteration.started"), 0);
        error_code(&sim)
    };
    assert_eq!(refused(|looping| looping.limits.iterations = Some(Amount::Fixed(0))), "LoopLimit");
    assert_eq!(refused(|looping| looping.limits.max_iterations = 4), "LoopLimit");
    assert_eq!(refused(|looping| looping.max_concurrency = Amount::Fixed(0)), "LoopLimit");
    assert_eq!(
        refused(|looping| {
            looping.limits.time = Some(Amount::Fixed(secs(11)));
            looping.limits.max_time = secs(10);
        }),
        "LoopLimit"
    );
}

#[test]
fn non_lists_and_overlong_lists_are_rejected() {
    let with = |source: &str, max_loop_items: u64| {
        let limits = Limits { max_loop_items, ..Limits::default() };
        let program = looped_with(limits, |b, id| {
            let items = b.expr(source);
            each(items, 1, b.evaluate(id, "body", "0"))
        });
        error_code(&ran(&program))
    };
    assert_eq!(with("5", 10), "NotAnArray");
    let program = looped_with(Limits::default(), |b, id| {
        let items = b.expr("null");
        each(items, 1, b.evaluate(id, "body", "0"))
    });
    let nothing = ran(&program).result().error.clone().unwrap();
    assert_eq!(&*nothing.message, "a foreach needs an array; it got null");
    assert_eq!(with(r#"{"$range": 11}"#, 10), "TooManyItems");
    assert_eq!(with(r#"{"$range": 10}"#, 10), "");
}

// Order and time.

/// Jobs that take two seconds each.
fn slow() -> World<'static> {
    Box::new(|job, _, _| Reply::After(secs(2), TaskOutcome::success(job.input.clone())))
}

fn started_at(sim: &Sim) -> Vec<i64> {
    sim.iterations.iter().map(|iteration| iteration.started_at.0 / 1_000_000).collect()
}

#[test]
fn an_iteration_is_body_then_check_then_delay() {
    let program = looped(|b, id| {
        let condition = b.condition(json(r#"{"$eq": [{"$iteration": "previous"}, 2]}"#));
        let body = b.effect(id, "body", r#"{"$iteration": "index"}"#);
        let delay = Some(Amount::Fixed(secs(10)));
        Loop { check: LoopCheck::After { condition, stop_when: true }, delay, ..repeat(9, body) }
    });
    let mut sim = Sim::new(&program, slow());
    sim.start().run();
    assert_eq!(started_at(&sim), [0, 12, 24], "a delay between iterations, none before the first");
    assert_eq!(sim.now, Timestamp(26_000_000), "and none after the last");
    let conditions: Vec<_> = sim.iterations.iter().map(|iteration| (iteration.condition, iteration.reason)).collect();
    let expected = [(Some(false), None), (Some(false), None), (Some(true), Some(LoopEndReason::Condition))];
    assert_eq!(conditions, expected);
}

#[test]
fn no_delay_follows_the_last_iteration() {
    for each_item in [false, true] {
        let program = looped(|b, id| {
            let items = range(b, 2);
            let body = b.effect(id, "body", "0");
            let delay = Some(Amount::Fixed(secs(10)));
            let looping = if each_item { each(items, 1, body) } else { repeat(2, body) };
            Loop { delay, ..looping }
        });
        let mut sim = Sim::new(&program, slow());
        sim.start().run();
        assert_eq!(started_at(&sim), [0, 12]);
        assert_eq!(sim.now, Timestamp(14_000_000));
    }
}

#[test]
fn an_unneeded_delay_is_not_evaluated() {
    let delayed = |iterations: u64| {
        let program = looped(|b, id| {
            let delay = Some(Amount::Computed(b.expr(r#"{"$fail": "no delay"}"#)));
            Loop { delay, ..repeat(iterations, b.evaluate(id, "body", "0")) }
        });
        ran(&program).status()
    };
    assert_eq!(delayed(1), Status::Succeeded);
    assert_eq!(delayed(2), Status::Failed);
}

fn timed(cancels_iterations: bool, on_exhausted: ExhaustedPolicy) -> Program {
    looped(|b, id| {
        let body = b.effect(id, "body", "1");
        let limits = LoopLimits {
            time: Some(Amount::Fixed(secs(5))),
            cancels_iterations_on_timeout: cancels_iterations,
            ..repeat(9, body).limits
        };
        let on_iteration_failure = IterationFailure::LastDecides;
        Loop { limits, on_exhausted, on_iteration_failure, ..repeat(9, body) }
    })
}

#[test]
fn the_time_limit_cancels_a_running_iteration() {
    for (on_exhausted, status) in
        [(ExhaustedPolicy::Fail, Status::Failed), (ExhaustedPolicy::Succeed, Status::Succeeded)]
    {
        let program = timed(true, on_exhausted);
        let mut sim = begun(&program);
        sim.succeed("loop[0].body", 1u32).advance(secs(5));
        assert!(!sim.ended(), "the worker has its grace");
        assert_eq!(sim.state.jobs.len(), 1);
        sim.advance(secs(10));
        assert_eq!((sim.status(), sim.loop_end("loop")), (status, ("timeout".to_owned(), 2)));
        assert_eq!(sim.output().get("lastResult"), Some(&Value::Int(1)), "a cut iteration gives nothing");
        assert_eq!(
            sim.iterations.last().map(|iteration| (iteration.status, iteration.reason)),
            Some((Status::Cancelled, Some(LoopEndReason::Timeout)))
        );
    }
}

#[test]
fn the_time_limit_may_apply_between_iterations_only() {
    let program = timed(false, ExhaustedPolicy::Fail);
    let mut sim = begun(&program);
    sim.advance(secs(60));
    assert_eq!(sim.open_paths(), ["loop[0].body"], "nothing is cut");
    sim.succeed("loop[0].body", 1u32);
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("timeout".to_owned(), 1)));
    assert_eq!(error_code(&sim), "LoopTimeout");
}

#[test]
fn the_time_limit_ends_a_delay() {
    let program = looped(|b, id| {
        let body = b.evaluate(id, "body", "1");
        let limits = LoopLimits {
            time: Some(Amount::Fixed(secs(5))),
            cancels_iterations_on_timeout: true,
            ..repeat(9, body).limits
        };
        Loop { limits, delay: Some(Amount::Fixed(secs(60))), ..repeat(9, body) }
    });
    let sim = ran(&program);
    assert_eq!((sim.now, sim.loop_end("loop")), (Timestamp(5_000_000), ("timeout".to_owned(), 1)));
}

#[test]
fn iterations_that_end_together_share_one_delay() {
    let program = looped(|b, id| {
        let items = range(b, 4);
        let body = b.effect(id, "body", "0");
        Loop { delay: Some(Amount::Fixed(secs(10))), ..each(items, 2, body) }
    });
    let mut sim = begun(&program);
    sim.succeed("loop[1].body", 1u32).advance(secs(4));
    sim.succeed("loop[0].body", 0u32);
    assert!(sim.flights.is_empty(), "both wait");
    sim.advance(secs(6));
    assert_eq!(sim.open_paths(), ["loop[2].body", "loop[3].body"]);
    sim.succeed("loop[3].body", 3u32).succeed("loop[2].body", 2u32);
    assert_eq!(sim.output(), json("[0, 1, 2, 3]"));
}

// Iteration variables and scopes.

#[test]
fn the_body_index_is_zero_based_and_the_condition_counts_completed_iterations() {
    let program = looped(|b, id| {
        let condition = b.condition(json(r#"{"$eq": [{"$iteration": "completed"}, 3]}"#));
        let body =
            b.evaluate(id, "body", r#"{"index": {"$iteration": "index"}, "before": {"$iteration": "previous"}}"#);
        Loop { check: LoopCheck::After { condition, stop_when: true }, ..repeat(9, body) }
    });
    let results = ran(&program).output().get("results").cloned().unwrap();
    let first = json(r#"{"index": 0, "before": null}"#);
    let second = Value::object([("index", Value::Int(1)), ("before", first.clone())]);
    let third = Value::object([("index", Value::Int(2)), ("before", second.clone())]);
    assert_eq!(results, Value::list(vec![first, second, third]));
}

#[test]
fn before_the_first_iteration_the_index_is_zero_and_the_previous_result_null() {
    let program = looped(|b, id| {
        let zero = json(r#"{"$eq": [[{"$iteration": "completed"}, {"$iteration": "previous"}], [0, null]]}"#);
        let condition = b.condition(zero);
        Loop { check: LoopCheck::Before { condition, stop_when: true }, ..repeat(9, b.evaluate(id, "body", "0")) }
    });
    assert_eq!(ran(&program).loop_end("loop"), ("condition".to_owned(), 0));
}

#[test]
fn an_inner_loop_restarts_each_time_it_is_entered() {
    let mut b = Builder::new();
    b.looping(None, "outer", |b, id| {
        let body = b.looping(id, "inner", |b, id| {
            let condition = completed(b, 2);
            let text = r#"[{"$outer": ["outer", "index"]}, {"$iteration": "index"}, {"$iteration": "previous"}]"#;
            let body = b.evaluate(id, "body", text);
            let check = LoopCheck::Before { condition, stop_when: true };
            Loop { check, collect: CollectMode::Last, ..repeat(9, body) }
        });
        repeat(3, body)
    });
    let program = b.load();
    let sim = ran(&program);
    for outer in 0..3 {
        assert_eq!(sim.loop_end(&format!("outer[{outer}].inner")), ("condition".to_owned(), 2));
        let (_, first) = sim.end_of(&format!("outer[{outer}].inner[0].body")).unwrap();
        assert_eq!(first, Value::list(vec![Value::Int(outer), Value::Int(0), Value::Null]));
    }
}

#[test]
fn iteration_variables_end_with_the_iteration() {
    let mut b = Builder::new();
    b.looping(None, "loop", |b, id| {
        let body = b.sequence(id, "body", |b, id| {
            let seen = b.evaluate(id, "seen", r#"{"$var": "mine"}"#);
            let set = b.node(id, "set", |b, _| {
                let write =
                    VariableUpdate { level: windlass_value::Level::Iteration, ..b.writes("mine", WriteOp::Set, "1") };
                NodeKind::single_task(Action::Write(write))
            });
            let after = b.evaluate(id, "after", r#"{"$var": "mine"}"#);
            vec![seen, set, after]
        });
        repeat(2, body)
    });
    let program = b.load();
    let sim = ran(&program);
    for iteration in 0..2 {
        assert_eq!(sim.end_of(&format!("loop[{iteration}].body.seen")).unwrap().1, Value::Null);
        assert_eq!(sim.end_of(&format!("loop[{iteration}].body.after")).unwrap().1, Value::Int(1));
    }
}

// Concurrent iterations.

#[test]
fn results_are_in_index_order_regardless_of_completion_order() {
    let program = looped(|b, id| {
        let items = range(b, 5);
        each(items, 3, b.effect(id, "body", r#"{"$iteration": "item"}"#))
    });
    let mut sim = begun(&program);
    for path in ["loop[2].body", "loop[3].body", "loop[0].body", "loop[4].body", "loop[1].body"] {
        sim.succeed(path, path);
    }
    assert_eq!(sim.output(), Value::list(jobs_at(5).into_iter().map(Value::from).collect()));
}

#[test]
fn exactly_max_concurrency_iterations_run_concurrently() {
    let program = looped(|b, id| {
        let items = range(b, 7);
        each(items, 3, b.effect(id, "body", "0"))
    });
    let mut sim = begun(&program);
    let mut open = jobs_at(3);
    for next in 3..10 {
        assert_eq!(sim.open_paths(), open, "never fewer, never more");
        let ending = open.remove(1.min(open.len() - 1));
        sim.succeed(&ending, 0u32);
        if next < 7 {
            open.push(format!("loop[{next}].body"));
        }
    }
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn a_cancelled_iteration_keeps_its_slot_until_its_worker_confirms() {
    let mut b = Builder::new();
    b.looping(None, "loop", |b, id| {
        let items = range(b, 3);
        let body = b.effect(id, "body", "0");
        b.node_mut(body).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(1)), status: Status::TimedOut });
        Loop { on_iteration_failure: IterationFailure::Count, ..each(items, 1, body) }
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.advance(secs(2));
    assert_eq!(sim.open_paths(), ["loop[0].body"], "cancelling, and still in its slot");
    sim.fail("loop[0].body");
    assert_eq!(sim.open_paths(), ["loop[1].body"], "confirmed");
    sim.advance(secs(10));
    assert_eq!(sim.state.jobs.len(), 1);
    sim.advance(secs(1));
    assert_eq!(sim.open_paths(), ["loop[1].body", "loop[2].body"], "the grace of ten seconds is over");
    let late = sim.count("job.refused");
    sim.succeed("loop[1].body", "late").succeed("loop[2].body", 2u32);
    assert_eq!(sim.count("job.refused"), late + 1, "the late result is rejected, and an event reports it");
    assert_eq!(sim.output(), json("[null, null, 2]"));
}

// Failed iterations.

fn policy(on_iteration_failure: IterationFailure, collect: CollectMode) -> Program {
    looped(|b, id| {
        let items = range(b, 4);
        Loop { on_iteration_failure, collect, ..each(items, 2, b.effect(id, "body", "0")) }
    })
}

/// Runs four iterations, of which those marked `true` fail.
fn with_failures(on_iteration_failure: IterationFailure, fails: [bool; 4]) -> (Status, String, Value) {
    let program = policy(on_iteration_failure, CollectMode::Stats);
    let mut sim = Sim::new(
        &program,
        Box::new(move |job, _, _| {
            let index = job.path().chars().nth(5).and_then(|digit| digit.to_digit(10)).unwrap() as usize;
            if fails[index] { Reply::fail() } else { Reply::now(index) }
        }),
    );
    sim.start().run();
    let stats = sim.output().get("stats").cloned().unwrap();
    (sim.status(), sim.loop_end("loop").0, stats)
}

#[test]
fn policies_decide_the_effect_of_a_failed_iteration() {
    let stats =
        |total, success, failed| Value::object([("total", total), ("success", success), ("failed", failed as u64)]);
    let one = [false, true, false, false];
    let two = [true, false, true, false];
    let last = [false, false, false, true];
    let (failed, fine) = (Status::Failed, Status::Succeeded);
    let items = || "items".to_owned();
    assert_eq!(with_failures(IterationFailure::FailAtEnd, one), (failed, items(), stats(4, 3, 1)));
    assert_eq!(with_failures(IterationFailure::FailAtEnd, [false; 4]), (fine, items(), stats(4, 4, 0)));
    assert_eq!(with_failures(IterationFailure::Count, two), (fine, items(), stats(4, 2, 2)));
    assert_eq!(with_failures(IterationFailure::LastDecides, two), (fine, items(), stats(4, 2, 2)));
    assert_eq!(with_failures(IterationFailure::LastDecides, last), (failed, items(), stats(4, 3, 1)));
    assert_eq!(with_failures(IterationFailure::Tolerate(1), one), (fine, items(), stats(4, 3, 1)));
    let (status, reason, _) = with_failures(IterationFailure::Tolerate(1), two);
    assert_eq!((status, &*reason), (failed, "failed"));
}

#[test]
fn stop_cancels_the_other_iterations_and_keeps_the_cause() {
    let program = policy(IterationFailure::Stop { running_finish: false }, CollectMode::Stats);
    let mut sim = begun(&program);
    sim.fail("loop[0].body");
    let cancels = |command: &Command| matches!(command, Command::CancelWorker { .. });
    assert_eq!(sim.outputs.last().unwrap().commands.iter().filter(|command| cancels(command)).count(), 1);
    sim.advance(secs(10));
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("failed".to_owned(), 2)));
    assert_eq!(error_code(&sim), "500", "the iteration that failed, not the cancelled one");
    let stats = json(r#"{"total": 2, "success": 0, "failed": 1}"#);
    assert_eq!(sim.output().get("stats"), Some(&stats), "cancelled is not failed");
    assert_eq!(sim.dispatched.len(), 2, "the others never began");
}

#[test]
fn stop_may_let_running_iterations_finish() {
    let program = policy(IterationFailure::Stop { running_finish: true }, CollectMode::List);
    let mut sim = begun(&program);
    sim.fail("loop[0].body");
    assert_eq!(sim.open_paths(), ["loop[1].body"]);
    sim.succeed("loop[1].body", 1u32);
    assert_eq!((sim.status(), error_code(&sim)), (Status::Failed, "500".to_owned()));
    assert_eq!(sim.output(), json("[null, 1]"));
}

#[test]
fn a_non_boolean_condition_fails_the_loop() {
    for (condition, code) in [("5", "NotBoolean"), (r#"{"$fail": "broken"}"#, "InvalidTemplate")] {
        let program = looped(|b, id| {
            let condition = b.condition(json(condition));
            Loop { check: LoopCheck::After { condition, stop_when: true }, ..repeat(9, b.evaluate(id, "body", "0")) }
        });
        let sim = ran(&program);
        assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("failed".to_owned(), 1)));
        assert_eq!(error_code(&sim), code);
    }
}

// Other ways to stop.

#[test]
fn break_when_ends_the_loop_as_succeeded() {
    for on_iteration_failure in [IterationFailure::FailAtEnd, IterationFailure::LastDecides, IterationFailure::Count] {
        let program = looped(|b, id| {
            let items = range(b, 9);
            let break_when = Some(b.condition(json(r#"{"$eq": [{"$iteration": "previous"}, "enough"]}"#)));
            Loop { break_when, on_iteration_failure, ..each(items, 3, b.effect(id, "body", "0")) }
        });
        let mut sim = begun(&program);
        sim.succeed("loop[0].body", "go on").succeed("loop[1].body", "enough").advance(secs(10));
        assert_eq!((sim.status(), sim.loop_end("loop").0), (Status::Succeeded, "condition".to_owned()));
        assert_eq!(sim.output(), json(r#"["go on", "enough", null, null]"#));
    }
}

#[test]
fn a_loop_that_makes_no_progress_stalls() {
    let stalled = |on_exhausted| {
        let program = looped(|b, id| {
            let body = b.evaluate(id, "body", r#"{"$lt": [{"$iteration": "index"}, 2]}"#);
            let watch = b.expr(r#"{"$iteration": "previous"}"#);
            Loop { stall: Some(StallCheck { watch, iterations: 3 }), on_exhausted, ..repeat(20, body) }
        });
        let sim = ran(&program);
        (sim.status(), sim.loop_end("loop"))
    };
    // true, true, false, false, false: the same value three times.
    assert_eq!(stalled(ExhaustedPolicy::Fail), (Status::Failed, ("stalled".to_owned(), 5)));
    assert_eq!(stalled(ExhaustedPolicy::Succeed), (Status::Succeeded, ("stalled".to_owned(), 5)));
}

fn judged(in_flight: u64) -> Program {
    looped(|b, id| {
        let items = range(b, 4);
        let body = b.evaluate(id, "body", r#"{"$iteration": "item"}"#);
        let judge = Some(b.effect(id, "judge", r#"{"$node": "body"}"#));
        let delay = Some(Amount::Fixed(secs(1)));
        Loop { judge, delay, ..each(items, in_flight, body) }
    })
}

#[test]
fn a_judge_checks_every_iteration_and_ends_the_loop() {
    let program = judged(1);
    let mut sim = begun(&program);
    sim.succeed("loop[0].judge", json(r#"{"done": false}"#)).advance(secs(1));
    sim.fail("loop[1].judge").advance(secs(1));
    sim.succeed("loop[2].judge", json(r#"{"done": true}"#));
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Succeeded, ("judge".to_owned(), 3)));
    let keys: Vec<&str> = sim.dispatched.iter().map(|job| &*job.key.path).collect();
    assert_eq!(keys, ["loop[0].judge", "loop[1].judge", "loop[2].judge"], "each verdict is an effect of its own");
    assert_eq!(sim.now, Timestamp(2_000_000));
}

#[test]
fn a_strict_judge_that_fails_fails_the_loop() {
    let program = looped(|b, id| {
        let items = range(b, 4);
        let body = b.evaluate(id, "body", r#"{"$iteration": "item"}"#);
        let judge = Some(b.effect(id, "judge", r#"{"$node": "body"}"#));
        Loop { judge, judge_fails: true, ..each(items, 1, body) }
    });
    let mut sim = begun(&program);
    sim.succeed("loop[0].judge", json(r#"{"done": false}"#));
    sim.fail("loop[1].judge");
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("failed".to_owned(), 2)));
}

#[test]
fn iterations_without_a_verdict_can_be_limited() {
    let program = looped(|b, id| {
        let items = range(b, 4);
        let body = b.evaluate(id, "body", r#"{"$iteration": "item"}"#);
        let judge = Some(b.effect(id, "judge", r#"{"$node": "body"}"#));
        Loop { judge, max_unjudged: Some(1), ..each(items, 1, body) }
    });
    let mut sim = begun(&program);
    sim.fail("loop[0].judge");
    sim.succeed("loop[1].judge", json(r#"{"done": false}"#));
    sim.succeed("loop[2].judge", json("{}"));
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("failed".to_owned(), 3)));
    assert_eq!(error_code(&sim), "LoopUnjudged");
}

#[test]
fn judges_of_concurrent_iterations_are_independent() {
    let program = judged(2);
    let mut sim = begun(&program);
    assert_eq!(sim.open_paths(), ["loop[0].judge", "loop[1].judge"]);
    sim.succeed("loop[1].judge", json(r#"{"done": false}"#)).advance(secs(1));
    assert_eq!(sim.open_paths(), ["loop[0].judge", "loop[2].judge"], "a judge keeps its iteration's slot");
    sim.succeed("loop[0].judge", json(r#"{"done": true}"#)).advance(secs(10));
    assert_eq!((sim.status(), sim.loop_end("loop").0), (Status::Succeeded, "judge".to_owned()));
}

#[test]
fn a_delay_that_fails_after_a_judge_fails_the_loop() {
    let program = looped(|b, id| {
        let body = b.evaluate(id, "body", "0");
        let judge = Some(b.evaluate(id, "judge", r#"{"done": false}"#));
        let delay = Some(Amount::Computed(b.expr(r#"{"$fail": "no delay"}"#)));
        Loop { judge, delay, ..repeat(3, body) }
    });
    let sim = ran(&program);
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("failed".to_owned(), 1)));
}

#[test]
fn a_cancelled_loop_ends_once_and_keeps_its_results() {
    let program = policy(IterationFailure::FailAtEnd, CollectMode::List);
    let mut sim = begun(&program);
    sim.succeed("loop[1].body", "done").cancel().advance(secs(10));
    assert_eq!((sim.status(), sim.loop_end("loop").0), (Status::Cancelled, "cancelled".to_owned()));
    assert_eq!(sim.count("loop.done"), 1);
    let (_, output) = sim.end_of("loop").unwrap();
    assert_eq!(output, json(r#"[null, "done", null]"#));
}

#[test]
fn a_node_timeout_of_a_loop_times_out_the_loop() {
    for status in [Status::TimedOut, Status::Failed] {
        let mut b = Builder::new();
        let id = b.looping(None, "loop", |b, id| repeat(3, b.effect(id, "body", "0")));
        b.node_mut(id).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(1)), status });
        let program = b.load();
        let mut sim = begun(&program);
        sim.advance(secs(11));
        assert_eq!((sim.status(), sim.loop_end("loop").0), (status, "timeout".to_owned()));
        assert_eq!(sim.result().error.as_ref().map(|error| &*error.path), Some("loop"));
    }
}

#[test]
fn only_the_last_iteration_has_the_reason() {
    let program = looped(|b, id| repeat(3, b.evaluate(id, "body", "0")));
    let reasons: Vec<_> = ran(&program).iterations.iter().map(|iteration| iteration.reason).collect();
    assert_eq!(reasons, [None, None, Some(LoopEndReason::Count)]);
    let program = policy(IterationFailure::Stop { running_finish: false }, CollectMode::List);
    let mut sim = begun(&program);
    sim.fail("loop[0].body").advance(secs(10));
    let reasons: Vec<_> = sim.iterations.iter().map(|iteration| (iteration.index, iteration.reason)).collect();
    assert_eq!(reasons, [(0, None), (1, Some(LoopEndReason::Failed))]);
}

#[test]
fn a_retried_loop_restarts_with_new_keys() {
    let mut b = Builder::new();
    let id = b.looping(None, "loop", |b, id| {
        let items = range(b, 2);
        each(items, 2, b.effect(id, "body", "0"))
    });
    b.node_mut(id).retry = Some(retry(2, secs(1)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.succeed("loop[1].body", 1u32).fail("loop[0].body").advance(secs(1));
    assert_eq!(sim.open_paths(), jobs_at(2));
    sim.succeed("loop[0].body", "a").succeed("loop[1].body", "b");
    assert_eq!(sim.output(), json(r#"["a", "b"]"#));
    let generations: Vec<u32> = sim.dispatched.iter().map(|job| job.key.generation).collect();
    assert_eq!(generations, [0, 0, 1, 1]);
}

#[test]
fn a_loop_delay_does_not_end_the_wait_before_a_retry() {
    let mut b = Builder::new();
    let id = b.looping(None, "loop", |b, id| {
        let items = range(b, 4);
        Loop { delay: Some(Amount::Fixed(secs(1))), ..each(items, 2, b.effect(id, "body", "0")) }
    });
    b.node_mut(id).retry = Some(retry(2, secs(60)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.succeed("loop[1].body", 1u32).fail("loop[0].body").advance(secs(59));
    assert!(sim.flights.is_empty(), "the delay of the first try is forgotten");
    sim.advance(secs(1));
    assert_eq!(sim.open_paths(), jobs_at(2));
}

// Retention and storage of results.

#[test]
fn a_condition_loop_keeps_its_newest_thousand_results() {
    let program = looped(|b, id| repeat(1_005, b.evaluate(id, "body", r#"{"$iteration": "index"}"#)));
    let output = ran(&program).output();
    let results = output.get("results").and_then(Value::as_list).unwrap();
    assert_eq!((results.len(), &results[0], &results[999]), (1_000, &Value::Int(5), &Value::Int(1_004)));
    assert_eq!(output.get("resultsDropped"), Some(&Value::Int(5)));
    assert_eq!(output.get("lastResult"), Some(&Value::Int(1_004)));
}

#[test]
fn long_item_and_result_lists_are_chunked() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let first = b.looping(id, "first", |b, id| {
            let items = range(b, 8);
            each(items, 2, b.effect(id, "body", r#"{"$add": [{"$iteration": "item"}, 1]}"#))
        });
        let second = b.looping(id, "second", |b, id| {
            let items = b.expr(r#"{"$node": "first"}"#);
            each(items, 3, b.effect(id, "body", r#"{"$add": [{"$iteration": "item"}, 10]}"#))
        });
        vec![first, second]
    });
    let program = b.load_with(Limits { loop_chunk_items: 3, ..Limits::default() });
    let mut sim = Sim::new(&program, echo());
    sim.values = MemoryValues::forgetful();
    sim.start();
    let chunked = |(_, frame): (_, &windlass_core::state::Frame)| match &frame.body {
        FrameBody::Loop(body) => {
            matches!(&body.items.as_ref().unwrap().storage, ItemStorage::Chunks { chunks, .. } if chunks.len() == 3)
        }
        _ => false,
    };
    assert!(sim.state.frames.iter().any(chunked), "the items are elsewhere");
    sim.run();
    assert!(sim.values.loads > 0, "and were fetched");
    assert!(matches!(sim.result().output.get("first"), Some(Value::Stored(list)) if list.chunked && list.items == 8));
    let numbers = |from: i64| Value::list((from..from + 8).map(Value::Int).collect());
    assert_eq!(sim.output(), Value::object([("first", numbers(1)), ("second", numbers(11))]));
}

#[test]
fn late_computed_iterations_are_published_together() {
    let mut b = Builder::new();
    b.looping(None, "loop", |b, id| {
        let body = b.sequence(id, "body", |b, id| {
            let write = b.write(id, "write", "x", WriteOp::Set, r#"{"$iteration": "index"}"#);
            let tasks = b.node(id, "tasks", |b, _| {
                let one = task("one", Action::Evaluate(b.expr("1")));
                let two = task("two", Action::Evaluate(b.expr(r#"{"$var": "_prev"}"#)));
                NodeKind::Pipeline(Pipeline { tasks: vec![one, two] })
            });
            let inner = b.looping(id, "inner", |b, id| repeat(2, b.evaluate(id, "leaf", "0")));
            vec![write, tasks, inner]
        });
        repeat(12, body)
    });
    let program = b.load_with(Limits { loop_quiet_from_iteration: 5, slice_iterations: 9, ..Limits::default() });
    let sim = ran(&program);
    let loud = sim
        .events
        .iter()
        .filter(|event| (5..12).any(|iteration| event.path.starts_with(&format!("loop[{iteration}]"))));
    assert_eq!(loud.count(), 0, "no event from inside a quiet iteration");
    assert_eq!(sim.events_of("loop.iteration.done").iter().filter(|event| event.path.len() == 7).count(), 5);
    let field = |event: &support::observed_event::ObservedEvent, name: &str| {
        event.data.get(name).and_then(Value::as_int).unwrap()
    };
    let published: Vec<(i64, i64)> =
        sim.events_of("loop.progress").iter().map(|event| (field(event, "from"), field(event, "to"))).collect();
    assert!(published.len() > 1, "one for each slice: {published:?}");
    assert_eq!((published[0].0, published[published.len() - 1].1), (5, 11));
    assert!(published.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "without a gap: {published:?}");
    assert_eq!(
        sim.iterations.iter().filter(|iteration| &*iteration.loop_path == "loop").count(),
        12,
        "history has every iteration"
    );
}

#[test]
fn iterations_with_jobs_are_always_published() {
    let limits = Limits { loop_quiet_from_iteration: 1, ..Limits::default() };
    let program = looped_with(limits, |b, id| repeat(4, b.effect(id, "body", "0")));
    let sim = ran(&program);
    assert_eq!((sim.count("loop.iteration.done"), sim.count("loop.progress")), (4, 0));
}

#[test]
fn a_long_computation_is_cut_into_slices_with_the_same_result() {
    let sliced = |slice_iterations: u64, slice_items: u64| {
        let mut b = Builder::new();
        b.looping(None, "outer", |b, id| {
            let body = b.looping(id, "inner", |b, id| {
                let items = range(b, 4);
                each(
                    items,
                    2,
                    b.write(id, "body", "sum", WriteOp::Set, r#"{"$add": [{"$var": "sum"}, {"$iteration": "item"}]}"#),
                )
            });
            repeat(5, body)
        });
        let program = b.load_with(Limits { slice_iterations, slice_items, ..Limits::default() });
        let sim = ran(&program);
        (
            sim.output(),
            sim.events.iter().map(|event| (event.kind.clone(), event.path.clone())).collect::<Vec<_>>(),
            sim.journal.len(),
        )
    };
    let (output, events, ticks) = sliced(1_000, 50_000);
    assert_eq!(ticks, 1, "all in the tick of the start");
    for (iterations, items) in [(1, 50_000), (3, 50_000), (1_000, 1), (1_000, 7), (2, 5)] {
        let (other, other_events, other_ticks) = sliced(iterations, items);
        assert!(other_ticks > 3, "it yields");
        assert_eq!((&other, &other_events), (&output, &events));
    }
}

#[test]
fn memory_and_tick_cost_do_not_grow_with_completed_iterations() {
    for each_item in [false, true] {
        let limits = Limits { max_loop_results: 10, loop_chunk_items: 4, ..Limits::default() };
        let program = looped_with(limits, |b, id| {
            let items = range(b, 600);
            let body =
                b.sequence(id, "body", |b, id| vec![b.evaluate(id, "a", "1"), b.effect(id, "b", r#"{"$node": "a"}"#)]);
            let looping = if each_item { each(items, 3, body) } else { repeat(600, body) };
            Loop { collect: if each_item { CollectMode::Last } else { CollectMode::Report }, ..looping }
        });
        let mut sim = Sim::new(&program, echo());
        sim.start();
        let mut sizes = Vec::new();
        while !sim.ended() {
            sizes.push(encoded(&sim.state).len());
            sim.step();
        }
        let early = *sizes[50..100].iter().max().unwrap();
        let late = *sizes[500..590].iter().max().unwrap();
        assert!(late <= early + 100, "the state grew from {early} to {late} bytes");
        let (early, late) = (sim.costs[50..100].iter().max(), sim.costs[500..590].iter().max());
        assert_eq!(late, early, "as many expressions a tick as ever");
    }
}

#[test]
fn a_cancelled_iteration_and_a_late_report_do_not_disturb_the_next() {
    let mut b = Builder::new();
    b.looping(None, "loop", |b, id| {
        let items = range(b, 3);
        let body = b.node(id, "body", |b, _| {
            let mut only = Task::new(b.action(r#"{"$iteration": "item"}"#));
            only.retry = Some(retry(3, Duration::from_ms(100)));
            NodeKind::Pipeline(Pipeline { tasks: vec![only] })
        });
        each(items, 2, body)
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.fail("loop[0].body").advance(Duration::from_ms(50));
    assert_eq!(sim.open_paths(), ["loop[1].body"], "an iteration that waits for its retry keeps its slot");
    sim.advance(Duration::from_ms(50));
    assert_eq!(sim.open_paths(), ["loop[1].body", "loop[0].body"]);
    let lost = windlass_core::ErrorInfo::new("lost", "connection", "no reply");
    sim.reply("loop[0].body", TaskOutcome::failure(lost)).advance(secs(1));
    sim.reply("loop[0].body", TaskOutcome::failure(refusal()));
    let groups: Vec<(u32, u32)> = sim.dispatched.iter().map(|job| (job.attempt, job.key.group)).collect();
    assert_eq!(groups, [(1, 0), (1, 0), (2, 1), (3, 1)], "a new key only after a reply");
}
