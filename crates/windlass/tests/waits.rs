//! Steps that wait for answers, and joins of events.

use crate::support;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use support::{
    Answer, Begin, Done, HOUR, Item, Question, Worked, World, answer, count, done, ended, engine, event_lines, field,
    in_time, run_to_end, started, text, wait_for_events,
};
use windlass::{All, Collect, Context, Event, Events, Res, StepError, Surplus, Value, Workflow};

#[tokio::test]
async fn two_waits_of_one_type_get_one_answer_each_in_order() {
    let world = World::default();
    let workflow = Workflow::builder("sequence")
        .step("ask", |ctx: Context, world: Res<World>, _: Begin| async move {
            world.note("body");
            let first = ctx.wait_for::<Answer>().await?;
            let second = ctx.wait_for::<Answer>().await?;
            done(format!("{} {}", first.n, second.n))
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    for n in 1..=2 {
        wait_for_events(&handle, "workflow.idle", n).await;
        handle.send(answer(n as u64)).await.unwrap();
    }
    assert_eq!(text(&handle).await, "1 2");
    assert_eq!(world.notes().len(), 3, "once to each wait, and to the end");
}

/// Three items of one step, each of which waits for its own answer.
fn parallel() -> Workflow {
    Workflow::builder("parallel")
        .step("split", |_: Begin| async { Ok((1..=3).map(|n| Item { n }).collect::<Vec<_>>()) })
        .step("ask", |ctx: Context, item: Item| async move {
            let answer = ctx.wait_for::<Answer>().matching("n", item.n).asking(Question { n: item.n }).await?;
            assert_eq!(answer.n, item.n);
            Ok(Worked { n: item.n * 10 + answer.text.len() as u64 % 10 })
        })
        .workers(1)
        .step("gather", |all: All<Worked>| async move {
            done(format!("{:?}", all.iter().map(|one| one.n).collect::<Vec<_>>()))
        })
        .build()
        .unwrap()
}

#[tokio::test]
async fn parallel_waits_of_one_step_get_each_their_own_answer() {
    let handle = started(&parallel()).await;
    // One worker is enough: a suspended step needs none.
    let so_far = wait_for_events(&handle, "question", 3).await;
    assert_eq!(so_far.iter().filter_map(|event| event.event::<Question>()).count(), 3);
    for n in [3, 1, 2] {
        handle.send(answer(n)).await.unwrap();
    }
    let (result, events) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "[18, 28, 38]");
    assert_eq!(count(&events, "event.unhandled"), 0);
}

#[tokio::test]
async fn parallel_waits_without_requirements_are_answered_oldest_first_one_event_each() {
    let world = World::default();
    let workflow = Workflow::builder("parallel")
        .step("split", |_: Begin| async { Ok(vec![Item { n: 1 }, Item { n: 2 }]) })
        .step("ask", |ctx: Context, world: Res<World>, item: Item| async move {
            let answer = ctx.wait_for::<Answer>().await?;
            world.note(format!("{} got {}", item.n, answer.n));
            Ok(Worked { n: item.n })
        })
        .step("gather", |_: All<Worked>| async { done("") })
        .resource(world.clone())
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    wait_for_events(&handle, "workflow.idle", 1).await;
    handle.send(answer(7)).await.unwrap();
    assert_eq!(world.wait_for_notes(1).await, ["1 got 7"], "one event for one wait");
    handle.send(answer(8)).await.unwrap();
    text(&handle).await;
    assert_eq!(world.notes(), ["1 got 7", "2 got 8"]);
}

#[tokio::test]
async fn the_question_is_published_once_although_the_body_reruns() {
    let world = World::default();
    let workflow = Workflow::builder("once")
        .step("ask", |ctx: Context, world: Res<World>, _: Begin| async move {
            world.note("body");
            ctx.publish(Item { n: 5 })?;
            let first = ctx.wait_for::<Answer>().asking(Question { n: 1 }).await?;
            ctx.sleep(HOUR).await?;
            let second = ctx.wait_for::<Answer>().asking(Question { n: 2 }).await?;
            done(format!("{} {}", first.n, second.n))
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    handle.send(answer(1)).await.unwrap();
    handle.send(answer(2)).await.unwrap();
    let (result, events) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "1 2");
    assert_eq!(world.notes().len(), 4);
    let asked: Vec<u64> = events.iter().filter_map(|event| Some(event.event::<Question>()?.unwrap().n)).collect();
    assert_eq!(asked, [1, 2]);
    assert_eq!(count(&events, "item"), 1, "events published before are not published again");
}

#[derive(Events)]
enum Started {
    Begin(Begin),
    Answer(Answer),
}

#[tokio::test]
async fn a_waiting_step_consumes_the_event_while_other_steps_start_with_it() {
    let world = World::default();
    let workflow = Workflow::builder("routed")
        .step("asks", |ctx: Context, world: Res<World>, started: Started| async move {
            let Started::Begin(_) = started else {
                world.note("began with it");
                return Ok(None);
            };
            let answer = ctx.wait_for::<Answer>().await?;
            world.note(format!("waited for {}", answer.n));
            world.pass("end").await;
            Ok(Some(Done { text: String::new() }))
        })
        .step("listens", |world: Res<World>, answer: Answer| async move {
            world.note(format!("got {}", answer.n));
            Ok(())
        })
        .allow(windlass::Check::DeadEnd)
        .resource(world.clone())
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    wait_for_events(&handle, "workflow.idle", 1).await;
    handle.send(answer(1)).await.unwrap();
    let mut notes = world.wait_for_notes(2).await;
    notes.sort();
    assert_eq!(notes, ["got 1", "waited for 1"]);
    world.open("end");
    text(&handle).await;
    assert_eq!(world.notes().len(), 2);
}

#[tokio::test]
async fn an_expired_wait_fails_inside_the_step_and_a_late_answer_is_unhandled() {
    let world = World::default();
    let workflow = Workflow::builder("late")
        .step("ask", |ctx: Context, world: Res<World>, _: Begin| async move {
            let waited = ctx.wait_for::<Answer>().deadline(HOUR).await;
            let error = waited.expect_err("no answer in time");
            world.note(format!("{} {}", error.kind(), error.code()));
            world.pass("end").await;
            done("went on")
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    assert_eq!(world.wait_for_notes(1).await, ["timeout WaitTimedOut"]);
    handle.send(answer(1)).await.unwrap();
    let so_far = wait_for_events(&handle, "event.unhandled", 1).await;
    assert_eq!(field(so_far.last().unwrap(), "event"), Value::from("answer"));
    world.open("end");
    assert_eq!(text(&handle).await, "went on");
    assert_eq!(world.notes().len(), 1);
}

#[tokio::test]
async fn a_run_that_waits_can_be_cancelled() {
    let handle = started(&parallel()).await;
    wait_for_events(&handle, "workflow.idle", 1).await;
    handle.cancel("enough").await.unwrap();
    let (result, events) = ended(&handle).await;
    let error = result.unwrap_err();
    assert!(matches!(error, windlass::Error::Run { status: windlass::Status::Cancelled, .. }), "{error}");
    assert_eq!(event_lines(&events).last().map(String::as_str), Some("workflow.finished"));
    assert_eq!(handle.send(answer(1)).await.unwrap_err().code(), "Ended");
}

#[tokio::test]
async fn a_retry_keeps_the_answers_of_earlier_attempts() {
    let workflow = Workflow::builder("again")
        .step("ask", |ctx: Context, _: Begin| async move {
            let answer = ctx.wait_for::<Answer>().await?;
            match ctx.attempt() {
                1 => Err(support::refused()),
                attempt => done(format!("{} at attempt {attempt}", answer.n)),
            }
        })
        .retry(windlass::RetryPolicy::fixed(HOUR).attempts(2))
        .build()
        .unwrap();
    let handle = started(&workflow).await;
    wait_for_events(&handle, "workflow.idle", 1).await;
    handle.send(answer(1)).await.unwrap();
    let (result, events) = ended(&handle).await;
    assert_eq!(result.unwrap().text, "1 at attempt 2", "no question is asked twice");
    assert_eq!(count(&events, "workflow.idle"), 1);
}

// Joins of events.

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "A")]
struct A {
    n: u64,
}

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "B")]
struct B {
    n: u64,
}

#[derive(Events)]
enum Either {
    A(A),
    B(B),
}

fn either(text: &str) -> Either {
    let (kind, n) = text.split_at(1);
    let n = n.parse().expect("a number");
    if kind == "A" { Either::A(A { n }) } else { Either::B(B { n }) }
}

/// Produces these events; each complete set adds a note, and the run ends with `B9`.
fn joins(world: &World, given: &'static str, surplus: Surplus) -> Workflow {
    Workflow::builder("joins")
        .step("give", move |_: Begin| async move { Ok(given.split(' ').map(either).collect::<Vec<_>>()) })
        .step("join", |world: Res<World>, set: Collect<(A, A, B)>| async move {
            let Collect((first, second, b)) = set;
            world.note(format!("{} {} {}", first.n, second.n, b.n));
            match b.n {
                9 => Ok(Some(Done { text: String::new() })),
                _ => Ok(None),
            }
        })
        .surplus(surplus)
        .workers(1)
        .resource(world.clone())
        .allow(windlass::Check::Join)
        .build()
        .unwrap()
}

#[tokio::test]
async fn events_come_together_in_the_order_of_the_needs_and_a_surplus_has_a_rule() {
    // The events, the rule; the complete sets; the number of dropped events, and the error code.
    let cases: [(&str, Surplus, &[&str], usize, &str); 5] = [
        ("B9 A1 A2", Surplus::Keep, &["1 2 9"], 0, ""),
        ("A1 B1 A2 A3 A4 B9", Surplus::Keep, &["1 2 1", "3 4 9"], 0, ""),
        ("A1 A2 A3 B1 A4 B9", Surplus::Keep, &["1 2 1", "3 4 9"], 0, ""),
        ("A1 A2 A3 B9", Surplus::Drop, &["1 2 9"], 1, ""),
        ("A1 A2 A3 B9", Surplus::Fail, &[], 0, "SurplusEvent"),
    ];
    for (given, surplus, sets, dropped, code) in cases {
        let world = World::default();
        let (result, events) = run_to_end(&joins(&world, given, surplus)).await;
        assert_eq!(world.notes(), sets, "{given} {surplus:?}");
        assert_eq!(count(&events, "event.unhandled"), dropped, "{given} {surplus:?}");
        assert_eq!(result.map_or_else(|error| error.code().to_owned(), |_| String::new()), code, "{given} {surplus:?}");
    }
}

#[tokio::test]
async fn an_incomplete_set_hangs_and_names_what_is_missing() {
    let world = World::default();
    let error = run_to_end(&joins(&world, "A1 B1", Surplus::Keep)).await.0.unwrap_err();
    assert_eq!(error.code(), "Hang");
    assert!(error.to_string().contains("`join` waits for `A` of `give`"), "{error}");
}

#[tokio::test]
async fn an_empty_fan_out_is_joined_at_once_and_a_failed_member_fails_the_run() {
    let workflow = Workflow::builder("empty")
        .step("split", |begin: Begin| async move { Ok((0..begin.n).map(|n| Item { n }).collect::<Vec<_>>()) })
        .step("work", |item: Item| async move {
            match item.n {
                1 => Err(StepError::new("Broken", "the second breaks")),
                n => Ok(Worked { n }),
            }
        })
        .step("gather", |all: All<Worked>| async move { done(format!("{} came", all.len())) })
        .build()
        .unwrap();
    for (n, expected) in [(0, "0 came"), (1, "1 came"), (2, "Broken")] {
        let handle = in_time(engine(&workflow).start(&workflow, Begin { n })).await.unwrap();
        let result = in_time(handle.result::<Done>()).await;
        assert_eq!(result.map_or_else(|error| error.code().to_owned(), |done| done.text), expected);
    }
}

#[tokio::test]
async fn a_deadline_survives_eviction() {
    use std::sync::Arc;
    let workflow = Workflow::builder("released")
        .step("ask", |ctx: Context, _: Begin| async move {
            match ctx.wait_for::<Answer>().deadline(Duration::from_millis(80)).await {
                Ok(_) => done("answered"),
                Err(error) => done(error.code()),
            }
        })
        .build()
        .unwrap();
    let store = Arc::new(windlass_store::MemoryStore::new());
    let engine = windlass::Engine::in_memory().store(store).evict_after(Duration::ZERO).workflow(&workflow).build();
    let engine = engine.unwrap();
    let handle = in_time(engine.start(&workflow, Begin { n: 0 })).await.unwrap();
    assert_eq!(text(&handle).await, "WaitTimedOut");
}
