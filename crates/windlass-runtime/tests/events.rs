//! Readers of a run's events: all see the same events, from any number on, without gaps or duplicates.

use crate::support;

use std::sync::{Arc, Mutex};

use support::nets::{Tokens, left, ping_pong, ping_pong_tools};
use support::plans::steps;
use support::{World, engine_with, in_time, locked, named, options, until};
use windlass_core::{Event, Status, TaskOutcome};
use windlass_runtime::{
    Durability, EngineOptions, EventPublisher, EventReader, RestartRequest, RunRequest, RuntimeEngine, RuntimeError,
};
use windlass_store::MemoryStore;
use windlass_value::{Language, Value, to_json};

const RUN: &str = "r";

const DURABILITIES: [Durability; 2] = [Durability::Durable, Durability::InMemory];

fn engine(
    store: &Arc<MemoryStore>,
    world: &World,
    durability: Durability,
    max_buffered_events: usize,
) -> RuntimeEngine {
    let base = options(world);
    let languages = base.languages.iter().cloned().chain([Arc::new(Tokens) as Arc<dyn Language>]).collect();
    let tools = ping_pong_tools(world.tools());
    engine_with(store, EngineOptions { durability, max_buffered_events, tools, languages, ..base })
}

async fn rest(reader: &mut EventReader) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = in_time(reader.next()).await.expect("readable") {
        events.push(event);
    }
    events
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn all_readers_see_the_same_events_and_a_returning_reader_misses_none() {
    for durability in DURABILITIES {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let engine = engine(&store, &world, durability, 10_000);
        let plan = steps("two").signal("wait", "go").effect("a", "count", "1").effect("b", "count", "2").plan();
        let (plan, _) = engine.add_plan(plan).expect("a plan");
        let mut handle = in_time(engine.start(plan, Value::Null, named(RUN))).await.expect("started");
        let mut first = engine.events(RUN, 0).expect("a reader");
        let mut second = engine.events(RUN, 0).expect("a reader");
        // One reader has seen some events while the run waits, and leaves.
        let mut seen = Vec::new();
        while seen.last().is_none_or(|event: &Event| event.type_name() != "workflow.idle") {
            seen.push(in_time(first.next()).await.expect("readable").expect("an event"));
        }
        let last = first.after();
        drop(first);
        engine.request(RUN, "s", RunRequest::Signal { name: "go".to_owned(), payload: Value::Null }).expect("kept");
        let all = rest(&mut second).await;
        assert_eq!(numbers(&all), (1..=all.len() as u64).collect::<Vec<_>>(), "{durability:?}");
        assert_eq!(all.last().map(|event| event.type_name()), Some("workflow.finished"), "{durability:?}");
        seen.extend(rest(&mut engine.events(RUN, last).expect("a reader")).await);
        assert_eq!(seen, all, "{durability:?}");
        assert_eq!(in_time(handle.wait()).await.expect("an end").status, Status::Succeeded);
        // The run has ended: all its events, from any number on, then no more.
        assert_eq!(rest(&mut engine.events(RUN, 0).expect("a reader")).await, all, "{durability:?}");
        assert_eq!(rest(&mut engine.events(RUN, 3).expect("a reader")).await, all[3..], "{durability:?}");
        assert_eq!(rest(&mut engine.events(RUN, 9_999).expect("a reader")).await, [], "{durability:?}");
    }
}

/// The live channel holds some thousands of events; a reader that sleeps meanwhile still sees every one.
#[tokio::test]
async fn a_slow_reader_sees_a_hundred_thousand_events() {
    for (durability, count) in [(Durability::Durable, 5_000), (Durability::InMemory, 50_000)] {
        let (store, world) = (Arc::new(MemoryStore::new()), World::new());
        let engine = engine(&store, &world, durability, 1_000_000);
        let (plan, _) = engine.add_plan(ping_pong()).expect("a plan");
        let mut handle = in_time(engine.start(plan, left(count), named(RUN))).await.expect("started");
        let mut slow = engine.events(RUN, 0).expect("a reader");
        let mut seen = vec![in_time(slow.next()).await.expect("readable").expect("an event")];
        in_time(handle.wait()).await.expect("an end");
        seen.extend(rest(&mut slow).await);
        assert!(seen.len() as i64 > 2 * count, "{durability:?}: {}", seen.len());
        assert_eq!(numbers(&seen), (1..=seen.len() as u64).collect::<Vec<_>>(), "{durability:?}");
    }
}

#[tokio::test]
async fn trimmed_events_are_reported_once() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world, Durability::InMemory, 10);
    let (plan, _) = engine.add_plan(ping_pong()).expect("a plan");
    let run = async |id: &str| {
        let mut handle = in_time(engine.start(plan, left(100), named(id))).await.expect("started");
        in_time(handle.wait()).await.expect("an end");
        handle
    };
    let handle = run(RUN).await;
    let seen = rest(&mut engine.events(RUN, 5).expect("a reader")).await;
    let (trimmed, newest) = seen.split_first().expect("events");
    let newest_number = newest.last().map_or(0, |event| event.seq);
    assert_eq!((trimmed.type_name(), newest.len()), ("events.trimmed", 10));
    assert_eq!(to_json(&Value::map(trimmed.fields())), format!(r#"{{"from":6,"to":{}}}"#, newest_number - 10));
    assert_eq!(numbers(newest), (newest_number - 9..=newest_number).collect::<Vec<_>>());
    // A reader that returns with the number of the gap event gets the same rest.
    assert_eq!(rest(&mut engine.events(RUN, trimmed.seq).expect("a reader")).await, newest);
    // Another run's events replace them, but not while a handle exists.
    drop(run("other").await);
    assert_eq!(rest(&mut engine.events(RUN, 5).expect("a reader")).await, seen);
    drop(handle);
    let gone = rest(&mut engine.events(RUN, 5).expect("a reader")).await;
    assert_eq!(
        gone.iter().map(|event| to_json(&Value::map(event.fields()))).collect::<Vec<_>>(),
        [format!(r#"{{"from":6,"to":{newest_number}}}"#)]
    );
}

/// Another engine on the same store owns the run: the readers poll the store.
#[tokio::test]
async fn a_run_of_another_process_is_followed_to_its_end() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let (here, there) =
        (engine(&store, &world, Durability::Durable, 10), engine(&store, &world, Durability::Durable, 10));
    let (plan, _) = there.add_plan(steps("waits").signal("wait", "go").plan()).expect("a plan");
    let _handle = in_time(there.start(plan, Value::Null, named(RUN))).await.expect("started");
    let reader = here.events(RUN, 0).expect("a reader");
    let reading = tokio::spawn(async move {
        let mut reader = reader;
        rest(&mut reader).await
    });
    until(|| there.resident() == 1).await;
    there.request(RUN, "s", RunRequest::Signal { name: "go".to_owned(), payload: Value::Null }).expect("kept");
    let seen = in_time(reading).await.expect("read");
    assert_eq!(seen.last().map(|event| event.type_name()), Some("workflow.finished"));
    assert!(matches!(here.events("unknown", 0), Err(RuntimeError::NoSuchRun(_))));
}

#[tokio::test]
async fn worker_events_are_accepted_before_its_result_and_refused_after() {
    for durability in DURABILITIES {
        let (store, world, publisher) = (Arc::new(MemoryStore::new()), World::new(), Arc::new(Mutex::new(None)));
        let shared = publisher.clone();
        let tools = world.tools().with_fn("publishes", move |call| {
            *locked(&shared) = Some(call.publish.clone());
            async move {
                for word in ["one", "two"] {
                    call.publish.send("progress_note", Value::object([("word", word)]));
                    tokio::task::yield_now().await;
                }
                TaskOutcome::success("result")
            }
        });
        let engine = engine_with(&store, EngineOptions { durability, tools, ..options(&world) });
        let plan = steps("publishes").effect("a", "publishes", "1").signal("wait", "go").plan();
        let (plan, _) = engine.add_plan(plan).expect("a plan");
        let _handle = in_time(engine.start(plan, Value::Null, named(RUN))).await.expect("started");
        let mut reader = engine.events(RUN, 0).expect("a reader");
        let mut published = Vec::new();
        while published.last().is_none_or(|kind: &String| kind != "job.refused") {
            let event = in_time(reader.next()).await.expect("readable").expect("an event");
            if event.type_name() == "task.processed" {
                let late_publisher: Option<EventPublisher> = locked(&publisher).take();
                late_publisher.expect("it was called").send("progress_note", Value::from("late"));
            }
            let word = event.fields().get("word").and_then(Value::as_str).unwrap_or_default().to_owned();
            published.push(format!("{} {word}", event.type_name()).trim_end().to_owned());
        }
        published.retain(|kind| kind.starts_with("progress_note") || kind == "task.processed");
        assert_eq!(published, ["progress_note one", "progress_note two", "task.processed"], "{durability:?}");
    }
}

/// A server has any number of waiting runs: the buffer for live subscribers is not allocated for each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_without_live_events_gives_handles_without_them() {
    let (store, world) = (Arc::new(MemoryStore::new()), World::new());
    let engine = engine(&store, &world, Durability::Durable, 10);
    let (hash, _) = engine.add_plan(steps("held").effect("hold", "gate", r#""go""#).plan()).expect("a plan");
    let with = engine.start(hash, Value::Null, named("with")).await.expect("started");
    assert!(with.events.is_some());
    let server = engine.without_live_events();
    let started = server.start(hash, Value::Null, named(RUN)).await.expect("started");
    let resumed = server.resume(RUN).await.expect("resumed");
    world.open("go");
    let mut reader = server.events(RUN, 0).expect("a reader");
    assert_eq!(rest(&mut reader).await.first().map(|event| event.seq), Some(1), "they are read by their numbers");
    let restart = RestartRequest { from: "hold".to_owned(), ..RestartRequest::default() };
    let restarted = in_time(server.restart(RUN, restart)).await.expect("restarted");
    for handle in [started, resumed, restarted] {
        assert!(handle.events.is_none(), "{}", handle.run);
    }
}
