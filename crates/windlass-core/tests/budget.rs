//! Budgets shared by the iterations of a loop.

use crate::support;

use std::collections::BTreeSet;

use support::looped::*;
use support::sim::encoded;
use support::world::World;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Job, LoopEndReason, NextCall, Program, Status, TaskOutcome, TickKind};
use windlass_value::{Duration, Value};

fn budget_of(what: &str, max: u64) -> Budget {
    Budget { what: what.into(), max: Amount::Fixed(max) }
}

/// Two sequential effects per iteration.
fn two_calls(b: &mut Builder, id: Option<NodeId>) -> NodeId {
    b.sequence(id, "body", |b, id| vec![b.effect(id, "one", "1"), b.effect(id, "two", "2")])
}

fn limited(iterations: u64, budget: Vec<Budget>, on_exhausted: ExhaustedPolicy) -> Program {
    looped(|b, id| {
        let body = two_calls(b, id);
        let limits = LoopLimits { budget, ..repeat(iterations, body).limits };
        Loop { limits, on_exhausted, ..repeat(iterations, body) }
    })
}

fn usage(value: &Value, what: &str) -> Option<i64> {
    value.get("usage")?.get(what)?.as_int()
}

fn outcome_using(tokens: i64) -> TaskOutcome {
    let usage = Value::object([("tokens", Value::Int(tokens))]);
    TaskOutcome { meta: Value::object([("usage", usage)]), ..TaskOutcome::success(0u32) }
}

/// Every worker reports that it has used `tokens` tokens.
fn world_using<'p>(tokens: i64) -> World<'p> {
    Box::new(move |_, _, rng| Reply::After(Duration::from_ms(rng.below(900)), outcome_using(tokens)))
}

/// Returns the number of dispatched effects; an effect that several workers received counts once.
fn effects(sim: &Sim) -> usize {
    let which = |job: &Job| (job.job, job.key.path.clone(), job.key.visit, job.attempt, job.key.call);
    sim.dispatched.iter().map(which).collect::<BTreeSet<_>>().len()
}

#[test]
fn calls_are_counted_before_dispatch() {
    // Allowed calls, iterations that begin, effects, reason.
    for (calls, iterations, sent, reason) in [
        (0, 1, 0, "budget"),
        (1, 1, 1, "budget"),
        (4, 3, 4, "budget"),
        (5, 3, 5, "budget"),
        (6, 3, 6, "count"),
        (9, 3, 6, "count"),
    ] {
        // A budget too small for one iteration is a failure in any case.
        let content = if calls < 2 { Status::Failed } else { Status::Succeeded };
        for (on_exhausted, status) in [(ExhaustedPolicy::Fail, Status::Failed), (ExhaustedPolicy::Succeed, content)] {
            let program = limited(3, vec![budget_of(CALLS, calls)], on_exhausted);
            let sim = ran(&program);
            assert_eq!((sim.loop_end("loop"), effects(&sim)), ((reason.to_owned(), iterations), sent), "{calls} calls");
            assert_eq!(sim.status(), status, "{calls} calls");
            assert_eq!(usage(&sim.output(), CALLS), Some(sent as i64));
            assert_eq!(usage(&sim.events_of("loop.done")[0].data, CALLS), Some(sent as i64));
        }
    }
}

#[test]
fn the_error_names_the_budget() {
    let program = limited(9, vec![budget_of("tokens", 100), budget_of(CALLS, 5)], ExhaustedPolicy::Fail);
    let sim = ran(&program);
    let error = sim.result().error.clone().unwrap();
    assert_eq!(&*error.code, "LoopBudget");
    assert_eq!(&*error.message, "the loop has used up its budget after 3 iterations: 5 of 5 calls");
    assert!(error.hint.is_some());
    assert_eq!(sim.output().get("status").and_then(Value::as_str), Some("budget"));
    let started = sim.events_of("loop.started")[0].data.get("limits").unwrap().clone();
    assert_eq!(started.get("budget"), Some(&json(r#"{"tokens": 100, "calls": 5}"#)));
}

#[test]
fn the_iteration_that_exceeds_the_budget_is_cancelled() {
    let program = limited(3, vec![budget_of(CALLS, 3)], ExhaustedPolicy::Fail);
    let sim = ran(&program);
    let last = sim.iterations.last().unwrap();
    assert_eq!((last.index, last.status, last.reason), (1, Status::Cancelled, Some(LoopEndReason::Budget)));
    assert_eq!(sim.loop_end("loop"), ("budget".to_owned(), 2));
    let done: Vec<Option<i64>> =
        sim.events_of("loop.iteration.done").iter().map(|event| usage(&event.data, CALLS)).collect();
    assert_eq!(done, [Some(2), Some(3)]);
}

#[test]
fn an_iteration_without_calls_needs_no_budget() {
    let program = looped(|b, id| {
        let body = b.evaluate(id, "body", "1");
        let limits = LoopLimits { budget: vec![budget_of(CALLS, 0)], ..repeat(4, body).limits };
        Loop { limits, ..repeat(4, body) }
    });
    assert_eq!(ran(&program).loop_end("loop"), ("count".to_owned(), 4));
}

#[test]
fn budget_amounts_are_evaluated_when_the_loop_is_entered() {
    let with = |source: &str| {
        let program = looped(|b, id| {
            let body = two_calls(b, id);
            let budget = vec![Budget { what: CALLS.into(), max: Amount::Computed(b.expr(source)) }];
            let limits = LoopLimits { budget, ..repeat(9, body).limits };
            Loop { limits, on_exhausted: ExhaustedPolicy::Fail, ..repeat(9, body) }
        });
        let sim = ran(&program);
        (error_code(&sim), effects(&sim))
    };
    assert_eq!(with(r#"{"$input": "n"}"#), ("LoopBudget".to_owned(), 3));
    assert_eq!(with("-1"), ("BadCount".to_owned(), 0));
}

#[test]
fn every_attempt_counts() {
    let program = looped(|b, id| {
        let body = b.effect(id, "body", "1");
        if let NodeKind::Pipeline(pipeline) = &mut b.node_mut(body).kind {
            pipeline.tasks[0].retry = Some(retry(9, secs(1)));
        }
        let limits = LoopLimits { budget: vec![budget_of(CALLS, 4)], ..repeat(9, body).limits };
        Loop { limits, on_exhausted: ExhaustedPolicy::Fail, ..repeat(9, body) }
    });
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::fail()));
    sim.start().run();
    assert_eq!((error_code(&sim).as_str(), effects(&sim)), ("LoopBudget", 4));
}

#[test]
fn a_redispatched_job_is_the_same_call() {
    let program = limited(9, vec![budget_of(CALLS, 2)], ExhaustedPolicy::Succeed);
    let mut sim = begun(&program);
    let lost = |sim: &Sim| TickKind::LeaseLost {
        job: sim.dispatched.last().unwrap().job,
        lease_epoch: sim.dispatched.last().unwrap().lease_epoch,
    };
    for _ in 0..3 {
        let tick = lost(&sim);
        sim.tick(tick);
        sim.restart();
    }
    sim.succeed("loop[0].body.one", 1u32).succeed("loop[0].body.two", 2u32).advance(secs(30));
    assert_eq!((sim.loop_end("loop"), effects(&sim)), (("budget".to_owned(), 2), 2));
}

#[test]
fn nested_loops_all_count() {
    // Outer and inner budget, how the outer loop ends, effects.
    for (outer, inner, reason, sent) in
        [(5, 99, "budget", 5), (99, 2, "items", 6), (4, 2, "budget", 4), (6, 2, "items", 6)]
    {
        let program = looped(|b, id| {
            let items = range(b, 3);
            let body = b.looping(id, "inner", |b, id| {
                let body = two_calls(b, id);
                let limits = LoopLimits { budget: vec![budget_of(CALLS, inner)], ..repeat(2, body).limits };
                Loop { limits, ..repeat(2, body) }
            });
            let limits = LoopLimits { budget: vec![budget_of(CALLS, outer)], ..no_limits() };
            Loop { limits, ..each(items, 1, body) }
        });
        let sim = ran(&program);
        assert_eq!((sim.loop_end("loop").0.as_str(), effects(&sim)), (reason, sent), "{outer} and {inner}");
        assert_eq!(sim.status(), Status::Succeeded);
    }
}

#[test]
fn concurrent_iterations_share_the_budget() {
    let program = looped(|b, id| {
        let items = range(b, 9);
        let body = two_calls(b, id);
        let limits = LoopLimits { budget: vec![budget_of(CALLS, 4)], ..no_limits() };
        Loop { limits, on_exhausted: ExhaustedPolicy::Fail, ..each(items, 3, body) }
    });
    let mut sim = begun(&program);
    assert_eq!(sim.open_paths(), ["loop[0].body.one", "loop[1].body.one", "loop[2].body.one"]);
    sim.succeed("loop[1].body.one", 1u32);
    assert_eq!(sim.state.jobs.len(), 3, "the fourth call");
    sim.succeed("loop[0].body.one", 1u32).advance(secs(30));
    assert_eq!((sim.loop_end("loop").0.as_str(), effects(&sim)), ("budget", 4));
    assert_eq!(error_code(&sim), "LoopBudget");
    assert!(sim.iterations.iter().all(|iteration| iteration.status == Status::Cancelled), "all of them are cancelled");
}

#[test]
fn reported_usage_ends_the_loop_between_iterations() {
    // 10 tokens per effect, 20 per iteration: no iteration follows the one that exceeds the budget.
    for (tokens, iterations) in [(1, 1), (20, 1), (35, 2), (60, 3)] {
        let program = limited(9, vec![budget_of("tokens", tokens)], ExhaustedPolicy::Fail);
        let mut sim = Sim::new(&program, world_using(10));
        sim.start().run();
        assert_eq!((sim.loop_end("loop").0.as_str(), error_code(&sim).as_str()), ("budget", "LoopBudget"));
        let used = usage(&sim.output(), "tokens").unwrap();
        let sent = effects(&sim) as i64;
        assert_eq!(used, 10 * sent, "nothing is forgotten");
        assert!(used >= tokens as i64 && used - 10 < tokens as i64, "{used} of {tokens}");
        assert_eq!(sim.loop_end("loop").1, iterations);
    }
}

#[test]
fn a_met_condition_precedes_the_budget() {
    let program = looped(|b, id| {
        let body = two_calls(b, id);
        let check = LoopCheck::After { condition: completed(b, 1), stop_when: true };
        let limits = LoopLimits { budget: vec![budget_of("tokens", 20)], ..repeat(9, body).limits };
        Loop { check, limits, on_exhausted: ExhaustedPolicy::Fail, ..repeat(9, body) }
    });
    let mut sim = Sim::new(&program, world_using(10));
    sim.start().run();
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Succeeded, ("condition".to_owned(), 1)));
}

#[test]
fn invalid_usage_is_ignored() {
    let program = limited(2, vec![budget_of("tokens", 5)], ExhaustedPolicy::Fail);
    for meta in [
        r#"{"usage": {"tokens": -7}}"#,
        r#"{"usage": {"tokens": "many"}}"#,
        r#"{"usage": 9}"#,
        r#"{"usage": {"words": 9}}"#,
        "null",
    ] {
        let outcome = TaskOutcome { meta: json(meta), ..TaskOutcome::success(1u32) };
        let mut sim = Sim::new(&program, Box::new(move |_, _, _| Reply::After(Duration::ZERO, outcome.clone())));
        sim.start().run();
        assert_eq!(sim.loop_end("loop"), ("count".to_owned(), 2), "{meta}");
    }
}

#[test]
fn a_cancelled_job_still_reports_its_usage() {
    let program = looped(|b, id| {
        let items = range(b, 2);
        let body = b.effect(id, "body", "1");
        let break_when = Some(b.condition(json("true")));
        let limits = LoopLimits { budget: vec![budget_of("tokens", 500)], ..no_limits() };
        Loop { limits, break_when, ..each(items, 2, body) }
    });
    let mut sim = begun(&program);
    sim.reply("loop[0].body", outcome_using(3));
    if !sim.open_paths().is_empty() {
        sim.reply("loop[1].body", outcome_using(4));
    }
    assert_eq!(usage(&sim.events_of("loop.done")[0].data, "tokens"), Some(7));
}

#[test]
fn a_crash_at_any_point_spends_nothing_twice() {
    let nested = looped(|b, id| {
        let items = range(b, 6);
        let body = b.looping(id, "inner", |b, id| {
            let body = two_calls(b, id);
            let limits = LoopLimits { budget: vec![budget_of(CALLS, 3)], ..repeat(2, body).limits };
            Loop { limits, ..repeat(2, body) }
        });
        let limits = LoopLimits { budget: vec![budget_of(CALLS, 11), budget_of("tokens", 90)], ..no_limits() };
        Loop { limits, on_exhausted: ExhaustedPolicy::Fail, ..each(items, 1, body) }
    });
    let mut whole = Sim::new(&nested, world_using(10));
    whole.start().run();
    for moment in 1..=whole.journal.len() {
        let mut sim = Sim::restarted(&nested, 1, &whole.journal[..moment], world_using(10));
        sim.run();
        assert_eq!(
            (error_code(&sim), sim.loop_end("loop"), effects(&sim)),
            ("LoopBudget".to_owned(), whole.loop_end("loop"), effects(&whole)),
            "after {moment} ticks"
        );
        assert_eq!(usage(&sim.events_of("loop.done").last().unwrap().data, CALLS), Some(effects(&whole) as i64));
    }
    let mut again = Sim::new(&nested, Box::new(|_, _, _| Reply::Never));
    for tick in &whole.journal {
        again.now = tick.at;
        again.reduce(tick.clone()).unwrap();
    }
    assert_eq!(encoded(&again.state), encoded(&whole.state));
}

#[test]
fn a_continued_operation_is_one_call() {
    let program = looped(|b, id| {
        let body = b.effect(id, "body", "1");
        let limits =
            LoopLimits { budget: vec![budget_of(CALLS, 2), budget_of("tokens", 99)], ..repeat(2, body).limits };
        Loop { limits, on_exhausted: ExhaustedPolicy::Fail, ..repeat(2, body) }
    });
    // Each operation takes three calls, and each call reports usage.
    let mut sim = Sim::new(
        &program,
        Box::new(|_, which, _| {
            let after = Duration::from_secs(1);
            let again = (which.run < 2).then_some(NextCall { input: Value::Null, after });
            Reply::After(Duration::ZERO, TaskOutcome { next_call: again, ..outcome_using(5) })
        }),
    );
    sim.start().run();
    assert_eq!((sim.loop_end("loop"), effects(&sim)), (("count".to_owned(), 2), 6));
    assert_eq!(sim.output().get("usage"), Some(&json(r#"{"calls": 2, "tokens": 30}"#)));
}

/// A graph of two agents, each with one call that reserves budget; the outer node has the budget.
fn reserving(max_tokens: u64, each: u64) -> Program {
    let mut b = Builder::new();
    let root = b.node(None, "root", |b, id| {
        let children = ["one", "two"].map(|name| {
            let (input, reserves) = (b.expr("1"), b.value(Value::object([("tokens", Value::from(each))])));
            let effect = Effect { reservation: Some(reserves), ..Effect::new("0", input) };
            let node = b.node(Some(id), name, |_, _| NodeKind::single_task(Action::Effect(effect)));
            b.node_mut(node).meters_usage = true;
            GraphChild { node, after: Vec::new(), condition: None, group: None }
        });
        NodeKind::Graph(Graph { ending: GraphStatusRule::Any, ..graph(children.to_vec()) })
    });
    let node = b.node_mut(root);
    (node.meters_usage, node.budget) = (true, vec![budget_of("tokens", max_tokens)]);
    b.load()
}

#[test]
fn reservations_are_released_and_insufficient_calls_wait() {
    // Budget, reservation of each call, concurrent calls, total calls, how the run ends.
    for (budget, each, in_flight, calls, status) in [
        (100, 40, 2, 2, Status::Succeeded),
        (60, 40, 1, 2, Status::Succeeded),
        (40, 40, 1, 1, Status::Failed),
        (30, 40, 0, 0, Status::Failed),
    ] {
        let program = reserving(budget, each);
        let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::Never));
        sim.start().drain_buffer();
        assert_eq!(sim.state.jobs.len(), in_flight, "{budget} {each}");
        let mut done = 0;
        while let Some(job) = sim.state.jobs.keys().next().copied() {
            sim.reply_to(job, outcome_using(10)).drain_buffer();
            done += 1;
        }
        assert_eq!((done, sim.status()), (calls, status), "{budget} {each}");
        let finished = sim.events_of("workflow.finished")[0];
        assert_eq!(usage(&finished.data, "tokens"), (calls > 0).then_some(10 * calls as i64), "{budget} {each}");
        if status == Status::Failed {
            assert_eq!(error_code(&sim), "BudgetExceeded");
        }
    }
}

#[test]
fn a_time_budget_ends_its_node() {
    let program = looped(|b, id| {
        let body = two_calls(b, id);
        let limits = LoopLimits { budget: vec![budget_of(TIME, 2_500)], ..repeat(9, body).limits };
        Loop { limits, on_exhausted: ExhaustedPolicy::Succeed, ..repeat(9, body) }
    });
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::After(Duration::from_ms(1_000), outcome_using(1))));
    sim.start().run();
    assert_eq!(sim.loop_end("loop").0, LoopEndReason::Budget.as_str());
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn usage_is_published_with_every_metered_end() {
    let program = reserving(1_000, 1);
    let mut sim = Sim::new(&program, world_using(7));
    sim.start().run();
    let of = |path: &str| sim.events_of("step.done").into_iter().find(|event| &*event.path == path).unwrap();
    assert_eq!(usage(&of("root.one").data, "tokens"), Some(7));
    assert_eq!(usage(&of("root").data, "tokens"), Some(14));
}

#[test]
fn calls_admitted_before_the_budget_ended_complete() {
    let program = looped(|b, id| {
        let items = range(b, 20);
        let (input, reserves) = (b.expr("1"), b.value(Value::object([("tokens", Value::from(1u64))])));
        let effect = Effect { reservation: Some(reserves), ..Effect::new("0", input) };
        let body = b.node(id, "body", |_, _| NodeKind::single_task(Action::Effect(effect)));
        let looping = each(items, 20, body);
        let limits = LoopLimits { budget: vec![budget_of(CALLS, 3)], ..looping.limits };
        Loop { limits, on_exhausted: ExhaustedPolicy::Succeed, ..looping }
    });
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    assert_eq!(sim.state.jobs.len(), 3, "the others wait for how these end");
    while let Some(job) = sim.state.jobs.keys().next().copied() {
        sim.reply_to(job, outcome_using(1)).drain_buffer();
    }
    assert_eq!(sim.loop_end("loop").0, LoopEndReason::Budget.as_str());
    let done = sim.events_of("loop.iteration.done");
    let good = done.iter().filter(|event| event.data.get("status").and_then(Value::as_str) == Some("succeeded"));
    assert_eq!(good.count(), 3);
}
