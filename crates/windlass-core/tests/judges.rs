//! The history of an iteration waits for its judge, and is recorded however the loop or the run ends meanwhile.

use crate::support;

use support::looped::*;
use support::*;
use windlass_core::plan::*;
use windlass_core::{IterationRecord, IterationVerdict, LoopEndReason, Program, Status, TickKind, judged_iterations};
use windlass_value::Value;

/// A loop of up to four iterations whose body computes and whose judge the test answers.
fn judged(adapt: impl FnOnce(&mut Builder, NodeId, &mut Loop)) -> Program {
    let mut b = Builder::new();
    b.looping(None, "loop", |b, id| {
        let body = b.evaluate(id, "body", r#"{"$iteration": "index"}"#);
        let judge = Some(b.effect(id, "judge", r#"{"$node": "body"}"#));
        let mut looping = Loop { judge, ..repeat(4, body) };
        adapt(b, id.expect("the loop"), &mut looping);
        looping
    });
    b.load()
}

/// Starts the loop; its second iteration waits for its judge.
fn at_second_judge(program: &Program) -> Sim<'_> {
    let mut sim = begun(program);
    sim.succeed("loop[0].judge", json(r#"{"done": false, "reason": "not yet"}"#));
    assert_eq!(sim.open_paths(), ["loop[1].judge"]);
    sim
}

/// Returns index, status, whether there is a verdict, and the reason of each recorded iteration.
fn recorded(sim: &Sim) -> Vec<(u64, Status, bool, Option<LoopEndReason>)> {
    let row = |one: &IterationRecord| (one.index, one.status, one.verdict.is_some(), one.reason);
    sim.iterations.iter().map(row).collect()
}

fn expected(last: LoopEndReason) -> Vec<(u64, Status, bool, Option<LoopEndReason>)> {
    vec![(0, Status::Succeeded, true, None), (1, Status::Succeeded, false, Some(last))]
}

/// The counts of the loop's end equal its history: iterations, failed ones, and those without a verdict.
fn check_counts(sim: &Sim) {
    let done = sim.events_of("loop.done");
    let counted = |name: &str| done[0].data.get(name).and_then(Value::as_int).unwrap_or(0) as usize;
    let undecided = |one: &&IterationRecord| one.verdict.as_ref().is_some_and(|verdict| verdict.done.is_none());
    assert_eq!(counted("iterations"), sim.iterations.len());
    assert_eq!(counted("unjudged"), sim.iterations.iter().filter(undecided).count());
    assert_eq!(sim.count("loop.iteration.done"), sim.iterations.len());
    assert_eq!(judged_iterations(&sim.state).count(), 0);
}

#[test]
fn cancelling_the_run_during_a_judge_records_its_iteration() {
    let program = judged(|_, _, _| {});
    let mut sim = at_second_judge(&program);
    sim.cancel().advance(secs(60));
    assert_eq!((sim.status(), recorded(&sim)), (Status::Cancelled, expected(LoopEndReason::Cancelled)));
    check_counts(&sim);
}

#[test]
fn a_verdict_that_arrives_while_the_run_is_cancelled_is_recorded() {
    let program = judged(|_, _, _| {});
    let mut sim = at_second_judge(&program);
    sim.cancel().succeed("loop[1].judge", json(r#"{"done": true}"#)).advance(secs(60));
    assert_eq!((sim.status(), recorded(&sim)), (Status::Cancelled, expected(LoopEndReason::Cancelled)));
    check_counts(&sim);
}

#[test]
fn timeouts_during_a_judge_record_its_iteration() {
    // The time limit of the loop, with both policies, then the timeout of its node.
    for policy in [ExhaustedPolicy::Fail, ExhaustedPolicy::Succeed] {
        let program = judged(|_, _, looping| {
            looping.limits.time = Some(Amount::Fixed(secs(5)));
            looping.limits.cancels_iterations_on_timeout = true;
            looping.on_exhausted = policy;
        });
        let mut sim = at_second_judge(&program);
        sim.advance(secs(60));
        assert_eq!(recorded(&sim), expected(LoopEndReason::Timeout));
        check_counts(&sim);
    }
    for status in [Status::TimedOut, Status::Failed] {
        let program = judged(|b, id, _| {
            b.node_mut(id).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(5)), status });
        });
        let mut sim = at_second_judge(&program);
        sim.advance(secs(60));
        assert_eq!((sim.status(), recorded(&sim)), (status, expected(LoopEndReason::Timeout)));
        check_counts(&sim);
    }
}

#[test]
fn a_judge_that_ends_the_loop_gives_its_iteration_the_reason() {
    for (adapt, verdict, reason) in [
        (None, Some(r#"{"done": true}"#), LoopEndReason::Judge),
        (Some(true), None, LoopEndReason::Failed),
        (Some(false), Some("{}"), LoopEndReason::Failed),
    ] {
        let program = judged(|_, _, looping| match adapt {
            Some(true) => looping.judge_fails = true,
            Some(false) => looping.max_unjudged = Some(0),
            None => {}
        });
        let mut sim = at_second_judge(&program);
        match verdict {
            Some(verdict) => sim.succeed("loop[1].judge", json(verdict)),
            None => sim.fail("loop[1].judge"),
        };
        let rows = vec![(0, Status::Succeeded, true, None), (1, Status::Succeeded, true, Some(reason))];
        assert_eq!(recorded(&sim), rows);
        check_counts(&sim);
    }
}

#[test]
fn the_last_iteration_that_a_limit_allows_has_the_reason_after_its_judge() {
    let program = judged(|_, _, _| {});
    let mut sim = at_second_judge(&program);
    for index in 1..4 {
        sim.succeed(&format!("loop[{index}].judge"), json(r#"{"done": false}"#));
    }
    let reasons: Vec<_> = sim.iterations.iter().map(|one| one.reason).collect();
    assert_eq!(reasons, [None, None, None, Some(LoopEndReason::Count)]);
    check_counts(&sim);
}

/// Another iteration ends the loop while the judge runs.
#[test]
fn a_loop_that_fails_during_a_judge_records_its_iteration() {
    let program = looped(|b, id| {
        let items = range(b, 2);
        let body = b.effect(id, "body", "0");
        let judge = Some(b.effect(id, "judge", "0"));
        let on_iteration_failure = IterationFailure::Stop { running_finish: false };
        Loop { judge, on_iteration_failure, ..each(items, 2, body) }
    });
    let mut sim = begun(&program);
    sim.succeed("loop[0].body", 1u32).fail("loop[1].body").advance(secs(60));
    let rows = vec![(1, Status::Failed, false, None), (0, Status::Succeeded, false, Some(LoopEndReason::Failed))];
    assert_eq!((sim.status(), recorded(&sim)), (Status::Failed, rows));
    check_counts(&sim);
}

/// A paused run keeps the verdict until it is resumed; meanwhile the iteration is among those being judged.
#[test]
fn a_pause_during_a_judge_keeps_its_iteration() {
    let program = judged(|_, _, _| {});
    let mut sim = at_second_judge(&program);
    let waiting = |sim: &Sim| judged_iterations(&sim.state).map(|one| one.index).collect::<Vec<_>>();
    assert_eq!(waiting(&sim), [1]);
    sim.tick(TickKind::Pause { request: None });
    sim.succeed("loop[1].judge", json(r#"{"done": true, "reason": "all is there"}"#));
    assert_eq!((waiting(&sim), sim.iterations.len()), (vec![1], 1));
    sim.tick(TickKind::Resume { request: None });
    let verdict = IterationVerdict { done: Some(true), reason: Some("all is there".into()) };
    assert_eq!(sim.iterations[1].verdict, Some(verdict));
    assert_eq!((sim.status(), sim.iterations[1].reason), (Status::Succeeded, Some(LoopEndReason::Judge)));
    check_counts(&sim);
}
