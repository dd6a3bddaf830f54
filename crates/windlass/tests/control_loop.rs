//! Guarantees of the control loop for step authors: which steps run, when, in which order, and which events are
//! published.

use crate::support;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use support::{
    Answer, Begin, Done, HOUR, Item, Question, Worked, World, answer, count, done, ended, engine, event_lines, events,
    field, in_time, position_of, refused, run_to_end, started, text, wait_for_events,
};
use windlass::{
    All, Check, Context, Engine, Error, Event, Events, Res, RetryPolicy, Status, StepError, Value, Workflow,
};

#[derive(Events)]
enum Next {
    Item(Item),
    Question(Question),
    Done(Done),
}

fn next(kind: &str) -> Option<Next> {
    match kind {
        "stop" => Some(Next::Done(Done { text: "stop".into() })),
        "item" => Some(Next::Item(Item { n: 1 })),
        "ask" => Some(Next::Question(Question { n: 1 })),
        _ => None,
    }
}

/// The result of a step, and all events from its end on.
#[tokio::test]
async fn a_result_is_published_before_its_events_start_and_a_stop_ends_the_run() {
    let cases: [(&str, &[&str]); 4] = [
        ("stop", &["step.done first", "workflow.finished"]),
        ("item", &["step.done first", "step.started work", "step.done work", "workflow.finished"]),
        // The question is published, and then the run waits.
        ("ask", &["step.done first", "input.required first", "workflow.idle"]),
        ("", &["step.done first", "workflow.idle"]),
    ];
    for (kind, expected) in cases {
        let workflow = Workflow::builder("results")
            .step("first", move |_: Begin| async move { Ok(next(kind)) })
            .step("work", |_: Item| async { done("worked") })
            .step("hear", |answer: Answer| async move { done(answer.text) })
            .build()
            .unwrap();
        let handle = started(&workflow).await;
        let events = wait_for_events(&handle, expected[expected.len() - 1], 1).await;
        assert_eq!(event_lines(&events[position_of(&events, "step.done first")..]), expected, "{kind}");
        if expected.last() == Some(&"workflow.idle") {
            handle.send(answer(1)).await.unwrap();
        }
        text(&handle).await;
    }
}

#[tokio::test]
async fn an_event_goes_to_every_step_that_accepts_it_in_the_order_of_declaration() {
    let world = World::default();
    let noting = |name: &'static str| {
        move |world: Res<World>, item: Item| async move {
            world.note(format!("{name} {}", item.n));
            Ok::<_, StepError>(Worked { n: item.n })
        }
    };
    let workflow = Workflow::builder("broadcast")
        .step("split", |_: Begin| async { Ok(vec![Item { n: 1 }, Item { n: 2 }]) })
        .step("zeta", noting("zeta"))
        .step("alpha", noting("alpha"))
        .step("gather", |all: All<Worked>| async move { done(all.len().to_string()) })
        .resource(world.clone())
        .build()
        .unwrap();
    let (result, events) = run_to_end(&workflow).await;
    assert_eq!(result.unwrap().text, "4");
    let begun: Vec<String> = event_lines(&events).into_iter().filter(|one| one.starts_with("step.started")).collect();
    assert_eq!(
        begun[1..5],
        ["step.started zeta", "step.started zeta", "step.started alpha", "step.started alpha"],
        "by the step, and for each in the order of the events"
    );
}

#[tokio::test]
async fn sent_events_start_in_order_before_returned_events() {
    let world = World::default();
    let workflow = Workflow::builder("sends")
        .step("first", |ctx: Context, _: Begin| async move {
            ctx.send(Item { n: 1 })?;
            ctx.send(Item { n: 2 })?;
            Ok(Item { n: 3 })
        })
        .step("work", |world: Res<World>, item: Item| async move {
            world.note(item.n.to_string());
            match item.n {
                3 => Ok(Some(Done { text: String::new() })),
                _ => Ok(None),
            }
        })
        .workers(1)
        .resource(world.clone())
        .build()
        .unwrap();
    run_to_end(&workflow).await.0.unwrap();
    assert_eq!(world.notes(), ["1", "2", "3"]);
}

/// Five items, each of which waits at its own gate.
fn crowd(world: &World, workers: u32) -> Workflow {
    Workflow::builder("crowd")
        .step("split", |_: Begin| async { Ok((1..=5).map(|n| Item { n }).collect::<Vec<_>>()) })
        .step("work", |world: Res<World>, item: Item| async move {
            world.note(item.n.to_string());
            world.pass(item.n.to_string()).await;
            Ok(Worked { n: item.n })
        })
        .workers(workers)
        .step("gather", |all: All<Worked>| async move {
            let all: Vec<String> = all.iter().map(|one| one.n.to_string()).collect();
            done(all.join(" "))
        })
        .resource(world.clone())
        .build()
        .unwrap()
}

#[tokio::test]
async fn excess_events_queue_and_start_in_order_on_the_lowest_free_worker() {
    let world = World::default();
    let handle = started(&crowd(&world, 2)).await;
    assert_eq!(world.wait_for_notes(2).await, ["1", "2"]);
    let so_far = wait_for_events(&handle, "step.queued", 3).await;
    assert_eq!(count(&so_far, "step.queued"), 3, "two run, three wait");
    // The second finishes first: its worker number is free, and the third gets it.
    world.open("2");
    assert_eq!(world.wait_for_notes(3).await, ["1", "2", "3"]);
    world.open("1");
    assert_eq!(world.wait_for_notes(4).await, ["1", "2", "3", "4"]);
    ["3", "4", "5"].into_iter().for_each(|gate| world.open(gate));
    let (result, events) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "1 2 3 4 5", "members are joined in their order");
    assert_eq!(world.notes(), ["1", "2", "3", "4", "5"]);
    let numbers = events.iter().filter(|event| event.type_name() == "step.started" && &*event.path == "work");
    let numbers: Vec<i64> = numbers.map(|event| field(event, "worker").as_int().unwrap()).collect();
    assert_eq!(numbers[..4], [0, 1, 1, 0]);
}

#[tokio::test]
async fn a_pending_retry_blocks_no_worker_and_keeps_its_order() {
    let world = World::default();
    let workflow = Workflow::builder("retries")
        .step("split", |_: Begin| async { Ok((1..=4).map(|n| Item { n }).collect::<Vec<_>>()) })
        .step("work", |ctx: Context, world: Res<World>, item: Item| async move {
            world.note(format!("{} {}", item.n, ctx.attempt()));
            match item.n <= 2 && ctx.retry_info().retries == 0 {
                true => Err(refused()),
                false => Ok(Worked { n: item.n }),
            }
        })
        .workers(1)
        .retry(RetryPolicy::fixed(HOUR).attempts(2))
        .step("gather", |all: All<Worked>| async move { done(all.len().to_string()) })
        .resource(world.clone())
        .build()
        .unwrap();
    let (result, events) = run_to_end(&workflow).await;
    assert_eq!(result.unwrap().text, "4");
    assert_eq!(world.notes(), ["1 1", "2 1", "3 1", "4 1", "1 2", "2 2"]);
    assert_eq!(count(&events, "task.retrying"), 2);
    let retrying = events.iter().find(|event| event.type_name() == "task.retrying").unwrap();
    let again = events.iter().find(|event| event.type_name() == "step.running").unwrap();
    assert!(again.at.since(retrying.at).to_std() >= HOUR, "the delay is kept");
}

#[tokio::test]
async fn a_failure_without_a_policy_is_published_and_fails_the_run() {
    let workflow =
        Workflow::builder("fails").step("only", |_: Begin| async { Err::<Done, _>(refused()) }).build().unwrap();
    let (result, events) = run_to_end(&workflow).await;
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::Run { status: Status::Failed, .. }), "{error}");
    assert_eq!((error.code(), count(&events, "task.retrying")), ("NotYet", 0));
    assert!(position_of(&events, "step.failed only") < position_of(&events, "workflow.finished"));
    assert_eq!(event_lines(&events).last().map(String::as_str), Some("workflow.finished"), "no event follows the end");
}

#[tokio::test]
async fn a_timed_out_run_names_its_running_steps_and_ends_its_stream() {
    let workflow = Workflow::builder("slow")
        .timeout(Duration::from_millis(30))
        .step("stuck", |_: Begin| async {
            std::future::pending::<()>().await;
            done("never")
        })
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = in_time(engine.start(&workflow, Begin { n: 0 })).await.unwrap();
    let (result, events) = ended(&handle).await;
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::Run { status: Status::TimedOut, .. }), "{error}");
    assert_eq!(error.code(), "RunTimedOut");
    assert!(error.to_string().contains("still running: stuck"), "{error}");
    let last = events.last().unwrap();
    assert_eq!(last.type_name(), "workflow.finished");
    assert!(format!("{:?}", last.kind).contains("stuck"), "{:?}", last.kind);
}

#[tokio::test]
async fn the_timeout_of_a_run_counts_what_it_sleeps() {
    for (naps, ends) in [(1, true), (3, false)] {
        let workflow = Workflow::builder("sleeps")
            .timeout(2 * HOUR)
            .step("nap", move |ctx: Context, _: Begin| async move {
                for _ in 0..naps {
                    ctx.sleep(HOUR).await?;
                }
                done("rested")
            })
            .build()
            .unwrap();
        let result = run_to_end(&workflow).await.0;
        assert_eq!(result.map_err(|error| error.code().to_owned()).is_ok(), ends, "{naps}");
    }
}

/// Adds a note when it is dropped.
struct DropNote(Res<World>);

impl Drop for DropNote {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

#[tokio::test]
async fn a_stop_event_cancels_other_steps_and_drops_their_late_events() {
    let world = World::default();
    let workflow = Workflow::builder("stops")
        .step("slow", |ctx: Context, world: Res<World>, _: Begin| async move {
            ctx.publish(Item { n: 1 })?;
            let (late, outside) = (ctx.clone(), world.clone());
            tokio::spawn(async move {
                outside.pass("late").await;
                let _ = late.publish(Item { n: 2 });
                outside.note("published");
            });
            let _falls = DropNote(world.clone());
            world.note("begun");
            world.pass("never").await;
            Ok(())
        })
        .allow(Check::DeadEnd)
        .step("fast", |world: Res<World>, _: Begin| async move {
            world.pass("stop").await;
            done("stopped")
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    world.wait_for_notes(1).await;
    wait_for_events(&handle, "item", 1).await;
    world.open("stop");
    assert_eq!(text(&handle).await, "stopped");
    assert_eq!(world.wait_for_notes(2).await, ["begun", "dropped"], "before the end is published");
    world.open("late");
    world.wait_for_notes(3).await;
    let events = events(&handle, 0).await;
    let published: Vec<_> = events.iter().filter_map(|event| event.event::<Item>()).collect();
    assert_eq!(published, [Ok(Item { n: 1 })]);
    assert_eq!(event_lines(&events).last().map(String::as_str), Some("workflow.finished"));
    let (result, _) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "stopped", "the first stop wins");
}

/// A step that asks, concurrently with others that work.
fn asking_and_working(world: &World, fails: u32) -> Workflow {
    Workflow::builder("beside")
        .step("ask", |ctx: Context, _: Begin| async move {
            let answer = ctx.wait_for::<Answer>().asking(Question { n: 1 }).await?;
            done(answer.text)
        })
        .step("work", move |ctx: Context, world: Res<World>, begin: Begin| async move {
            world.note(format!("work {}", begin.n));
            world.pass("work").await;
            match ctx.attempt() <= fails {
                true => Err(refused()),
                false => Ok(()),
            }
        })
        .retry(RetryPolicy::fixed(HOUR).attempts(5))
        .allow(Check::DeadEnd)
        .resource(world.clone())
        .build()
        .unwrap()
}

#[tokio::test]
async fn idle_is_published_once_when_all_wait_and_not_while_work_runs_or_is_delayed() {
    let world = World::default();
    let handle = started(&asking_and_working(&world, 2)).await;
    let before = wait_for_events(&handle, "question", 1).await;
    world.wait_for_notes(1).await;
    assert_eq!(count(&before, "workflow.idle"), 0, "the other step runs");
    world.open("work");
    let idle = wait_for_events(&handle, "workflow.idle", 1).await;
    assert!(position_of(&idle, "step.done work") < position_of(&idle, "workflow.idle"), "not between two attempts");
    assert_eq!(count(&idle, "task.retrying"), 2);
    handle.send(answer(1)).await.unwrap();
    let (result, events) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "answer 1");
    assert_eq!(count(&events, "workflow.idle"), 1, "neither again, nor at the end: {:#?}", event_lines(&events));
}

#[tokio::test]
async fn a_run_that_is_never_out_of_work_is_never_idle() {
    let world = World::default();
    // Queued events are work.
    ["1", "2", "3", "4", "5"].into_iter().for_each(|gate| world.open(gate));
    let (_, events) = run_to_end(&crowd(&world, 1)).await;
    assert_eq!((count(&events, "step.queued"), count(&events, "workflow.idle")), (4, 0));

    // Answers in delivery are work: two questions, both answered before the first is asked.
    let world = World::default();
    let workflow = Workflow::builder("delivered")
        .step("ask", |ctx: Context, world: Res<World>, _: Begin| async move {
            world.note("begun");
            world.pass("ask").await;
            let first = ctx.wait_for::<Answer>().await?;
            let second = ctx.wait_for::<Answer>().await?;
            done(format!("{} {}", first.n, second.n))
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    world.wait_for_notes(1).await;
    handle.send(answer(1)).await.unwrap();
    handle.send(answer(2)).await.unwrap();
    wait_for_events(&handle, "event.unhandled", 2).await;
    world.open("ask");
    let (result, events) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "1 2");
    assert_eq!(count(&events, "workflow.idle"), 0);
}

/// An answer is accepted while the step is about to wait: when the wait begins, the answer is in delivery.
#[tokio::test]
async fn a_run_is_not_idle_while_an_event_is_being_delivered() {
    for durable in [false, true] {
        let world = World::default();
        let workflow = Workflow::builder("delivered")
            .step("ask", |ctx: Context, world: Res<World>, _: Begin| async move {
                world.note("begun");
                world.pass("ask").await;
                done(ctx.wait_for::<Answer>().await?.text)
            })
            .resource(world.clone())
            .build()
            .unwrap();
        let engine = Engine::in_memory().workflow(&workflow);
        let engine = match durable {
            true => engine.store(std::sync::Arc::new(windlass_store::MemoryStore::new())),
            false => engine,
        };
        let engine = engine.build().unwrap();
        let handle = in_time(engine.start(&workflow, Begin { n: 0 })).await.unwrap();
        world.wait_for_notes(1).await;
        // No other task runs between these two.
        world.open("ask");
        handle.send(answer(1)).await.unwrap();
        let (result, events) = ended(&handle).await;
        assert_eq!(result.unwrap().text, "answer 1");
        assert_eq!(count(&events, "workflow.idle"), 0, "durable: {durable}; {:#?}", event_lines(&events));
    }
}

#[tokio::test]
async fn idle_is_published_again_after_progress() {
    let workflow = Workflow::builder("thrice")
        .step("ask", |ctx: Context, _: Begin| async move {
            let first = ctx.wait_for::<Answer>().await?;
            let second = ctx.wait_for::<Answer>().await?;
            let third = ctx.wait_for::<Answer>().await?;
            done(format!("{} {} {}", first.n, second.n, third.n))
        })
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    let so_far = wait_for_events(&handle, "workflow.idle", 1).await;
    assert_eq!(count(&so_far, "workflow.idle"), 1);
    // Two in a row: between them the run is not idle.
    handle.send(answer(1)).await.unwrap();
    handle.send(answer(2)).await.unwrap();
    wait_for_events(&handle, "workflow.idle", 2).await;
    handle.send(answer(3)).await.unwrap();
    let (result, events) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "1 2 3");
    assert_eq!(count(&events, "workflow.idle"), 2, "{:#?}", event_lines(&events));
}

#[tokio::test]
async fn a_proven_hang_fails_with_its_reason_and_without_a_timeout() {
    // The join needs an event that a step could have produced, but did not.
    let workflow = Workflow::builder("hangs")
        .step("first", |_: Begin| async { Ok(None::<Item>) })
        .step("work", |item: Item| async move { done(item.n.to_string()) })
        .build()
        .unwrap();
    let (result, events) = run_to_end(&workflow).await;
    let error = result.unwrap_err();
    assert_eq!(error.code(), "Hang");
    assert!(error.to_string().contains("nothing is left to do, and no `done` of `work` was emitted"), "{error}");
    assert_eq!(count(&events, "workflow.idle"), 0);

    // Input from outside is still possible: no hang.
    let workflow = Workflow::builder("asks")
        .step("first", |_: Begin| async { Ok(Question { n: 1 }) })
        .step("reply", |answer: Answer| async move { done(answer.text) })
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    let so_far = wait_for_events(&handle, "workflow.idle", 1).await;
    assert_eq!(count(&so_far, "event.unhandled"), 0, "a question is for a client outside: {:#?}", event_lines(&so_far));
    let asked: Vec<_> = so_far.iter().filter_map(|event| event.event::<Question>()).collect();
    assert_eq!(asked, [Ok(Question { n: 1 })], "and it is published");
    handle.send(answer(3)).await.unwrap();
    assert_eq!(text(&handle).await, "answer 3");
}

#[tokio::test]
async fn an_unaccepted_outside_event_is_reported() {
    let world = World::default();
    let workflow = Workflow::builder("unanswered")
        .step("wait", |world: Res<World>, _: Begin| async move {
            world.note("begun");
            world.pass("end").await;
            done("")
        })
        .resource(world.clone())
        .event::<Item>()
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    world.wait_for_notes(1).await;
    handle.send(Item { n: 1 }).await.unwrap();
    let so_far = wait_for_events(&handle, "event.unhandled", 1).await;
    let unhandled = so_far.last().unwrap();
    assert_eq!((field(unhandled, "event"), field(unhandled, "idle")), (Value::from("item"), Value::from(false)));
    world.open("end");
    text(&handle).await;
}

#[tokio::test]
async fn an_event_for_one_step_is_checked_before_it_is_stored() {
    let workflow = Workflow::builder("targets")
        .step("ask", |_: Begin| async { Ok(Question { n: 1 }) })
        .step("one", |answer: Answer| async move { done(format!("one {}", answer.n)) })
        .step("other", |answer: Answer| async move { done(format!("other {}", answer.n)) })
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    let code = |sent: Result<(), Error>| sent.unwrap_err().code().to_owned();
    assert_eq!(code(handle.send_to("othr", answer(1)).await), "NoSuchStep");
    assert_eq!(code(handle.send_to("ask", answer(1)).await), "NotAccepted");
    assert_eq!(code(handle.send(Worked { n: 1 }).await), "UnknownEvent");
    handle.send_to("other", answer(2)).await.unwrap();
    assert_eq!(text(&handle).await, "other 2");
    assert_eq!(code(handle.send(answer(3)).await), "Ended");
}

// Failure handlers.

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "again")]
struct Again {
    n: u64,
}

#[derive(Events)]
enum Tried {
    Item(Item),
    Again(Again),
}

#[derive(Events)]
enum Rescued {
    Again(Again),
    Done(Done),
}

/// `work` fails a number of times in one chain of events; the handler tries again whenever it is called.
fn handled(fails: u64, times: u32, of: Option<&'static str>, rescue_fails: bool) -> Workflow {
    let workflow = Workflow::builder("handled")
        .step("first", |_: Begin| async { Ok(Item { n: 0 }) })
        .step("work", move |tried: Tried| async move {
            let n = match tried {
                Tried::Item(item) => item.n,
                Tried::Again(again) => again.n,
            };
            match n < fails {
                true => Err(refused()),
                false => done(format!("after {n}")),
            }
        })
        .step("other", |_: Begin| async { Ok(()) })
        .allow(Check::DeadEnd)
        .on_failure("rescue", move |failed: windlass::StepFailed| async move {
            if rescue_fails {
                return Err(StepError::new("Lost", "the handler fails"));
            }
            let n = match failed.event::<Item>() {
                Some(item) => item?.n,
                None => failed.event::<Again>().expect("one or the other")?.n,
            };
            Ok(match n < 9 {
                true => Rescued::Again(Again { n: n + 1 }),
                false => Rescued::Done(Done { text: "enough".into() }),
            })
        })
        .times(times);
    let workflow = match of {
        Some(step) => workflow.for_steps([step]),
        None => workflow,
    };
    workflow.build().unwrap()
}

#[tokio::test]
async fn a_handler_has_a_scope_and_a_budget_and_is_not_for_itself() {
    // The number of failures of the step, the budget, the scope, whether the handler fails too; the result.
    let cases = [
        (1, 1, None, false, "after 1"),
        (2, 1, None, false, "NotYet"),
        (2, 2, None, false, "after 2"),
        (3, 2, None, false, "NotYet"),
        (1, 1, Some("work"), false, "after 1"),
        (1, 1, Some("other"), false, "NotYet"),
        (1, 3, None, true, "Lost"),
    ];
    for (fails, times, of, rescue_fails, expected) in cases {
        let result = run_to_end(&handled(fails, times, of, rescue_fails)).await.0;
        let end = result.map_or_else(|error| error.code().to_owned(), |done| done.text);
        assert_eq!(end, expected, "{fails} {times} {of:?} {rescue_fails}");
    }
}

#[tokio::test]
async fn a_handler_does_not_see_run_timeouts_or_cancellation() {
    let world = World::default();
    let workflow = Workflow::builder("handled")
        .timeout(HOUR)
        .step("ask", |ctx: Context, _: Begin| async move { done(ctx.wait_for::<Answer>().await?.text) })
        .on_failure("rescue", |world: Res<World>, _: windlass::StepFailed| async move {
            world.note("handled");
            done("rescued")
        })
        .resource(world.clone())
        .build()
        .unwrap();
    assert_eq!(run_to_end(&workflow).await.0.unwrap_err().code(), "RunTimedOut");
    let handle =
        in_time(Engine::in_memory().workflow(&workflow).build().unwrap().start(&workflow, Begin { n: 0 })).await;
    let handle = handle.unwrap();
    wait_for_events(&handle, "workflow.idle", 1).await;
    handle.cancel("enough").await.unwrap();
    let error = in_time(handle.result::<Done>()).await.unwrap_err();
    assert!(matches!(error, Error::Run { status: Status::Cancelled, .. }), "{error}");
    assert!(world.notes().is_empty());
}

#[tokio::test]
async fn a_step_timeout_is_retried_and_reaches_the_handler() {
    let world = World::default();
    let workflow = Workflow::builder("slow")
        .step("stuck", |ctx: Context, world: Res<World>, _: Begin| async move {
            world.note(format!("attempt {}", ctx.attempt()));
            std::future::pending::<()>().await;
            done("never")
        })
        .timeout(Duration::from_millis(20))
        .retry(RetryPolicy::fixed(Duration::from_millis(1)).attempts(2))
        .on_failure("rescue", |failed: windlass::StepFailed| async move {
            done(format!("{} {} after {}", failed.step, failed.error.kind(), failed.attempts))
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = in_time(engine.start(&workflow, Begin { n: 0 })).await.unwrap();
    assert_eq!(text(&handle).await, "stuck timeout after 2");
    assert_eq!(world.notes(), ["attempt 1", "attempt 2"]);
}

// Streams.

#[tokio::test]
async fn readers_miss_nothing_and_see_nothing_twice() {
    let world = World::default();
    let handle = started(&crowd(&world, 2)).await;
    world.wait_for_notes(2).await;
    let early = wait_for_events(&handle, "step.queued", 3).await;
    let last = early.last().unwrap().seq;
    ["1", "2", "3", "4", "5"].into_iter().for_each(|gate| world.open(gate));
    text(&handle).await;
    let (all, other) = tokio::join!(events(&handle, 0), events(&handle, 0));
    assert_eq!(all, other, "two readers see the same");
    assert_eq!(all[..early.len()], early, "live and stored events are the same");
    assert_eq!(
        events(&handle, last).await,
        all[early.len()..],
        "a reader that reconnects misses nothing and sees nothing twice"
    );
    let numbers: Vec<u64> = all.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    assert!(events(&handle, all.len() as u64).await.is_empty(), "after the end there is nothing");
    assert!(events(&handle, 9_999).await.is_empty());
    // Only events: a stream sends no heartbeats.
    assert!(all.iter().all(|event| !event.type_name().is_empty()));
}

#[tokio::test]
async fn a_snapshot_continues_where_the_run_was_cancelled() {
    let workflow = Workflow::builder("carried")
        .step("ask", |ctx: Context, _: Begin| async move {
            let first = ctx.wait_for::<Answer>().await?;
            let second = ctx.wait_for::<Answer>().await?;
            done(format!("{} {}", first.n, second.n))
        })
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    wait_for_events(&handle, "workflow.idle", 1).await;
    handle.send(answer(1)).await.unwrap();
    wait_for_events(&handle, "workflow.idle", 2).await;
    let snapshot = in_time(handle.snapshot()).await.unwrap();
    handle.cancel("enough").await.unwrap();
    let (result, published) = ended(&handle).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Run { status: Status::Cancelled, .. }), "{error}");
    assert!(error.to_string().contains("enough"), "{error}");
    assert_eq!(event_lines(&published).last().map(String::as_str), Some("workflow.finished"));

    let carried = in_time(engine(&workflow).restore(&workflow, &snapshot)).await.unwrap();
    carried.send(answer(7)).await.unwrap();
    assert_eq!(text(&carried).await, "1 7");
}

#[tokio::test]
async fn handler_budgets_are_part_of_a_snapshot() {
    // One failure before the snapshot, two in total, of which the budget covers one.
    let make = |times: u32, world: &World| {
        Workflow::builder("carried")
            .step("first", |_: Begin| async { Ok(Item { n: 0 }) })
            .step("work", |world: Res<World>, tried: Tried| async move {
                match tried {
                    Tried::Item(_) => Err(refused()),
                    Tried::Again(again) => {
                        world.note("again");
                        world.pass("work").await;
                        match again.n {
                            1 => Err(refused()),
                            _ => done("after 2"),
                        }
                    }
                }
            })
            .on_failure("rescue", |failed: windlass::StepFailed| async move {
                let n = failed.event::<Again>().transpose()?.map_or(0, |again| again.n);
                Ok(Again { n: n + 1 })
            })
            .times(times)
            .resource(world.clone())
            .build()
            .unwrap()
    };
    for (times, expected) in [(1, "NotYet"), (2, "after 2")] {
        let world = World::default();
        let workflow = make(times, &world);
        let handle = started(&workflow).await;
        world.wait_for_notes(1).await;
        let snapshot = in_time(handle.snapshot()).await.unwrap();
        handle.cancel("continued elsewhere").await.unwrap();
        in_time(handle.result::<Done>()).await.unwrap_err();
        let there = World::default();
        there.open("work");
        let workflow = make(times, &there);
        let carried = in_time(engine(&workflow).restore(&workflow, &snapshot)).await.unwrap();
        let result = in_time(carried.result::<Done>()).await;
        assert_eq!(result.map_or_else(|error| error.code().to_owned(), |done| done.text), expected);
    }
}
