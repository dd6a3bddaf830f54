//! Durability across restarts: runs cut at every commit in memory, and successive processes on SQLite.

use crate::support;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use support::lives::{cut_everywhere, one_value_each, replays, same_notes};
use support::{
    Answer, Begin, Directory, Done, HOUR, Item, Question, Worked, World, answer, count, done, events, in_time, refused,
    text, wait_for_events,
};
use windlass::{
    All, Collect, Context, Engine, Error, Event, Events, Handle, Res, RetryPolicy, StepError, Value, Workflow,
};
use windlass_store::MemoryStore;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

// Cut at every commit.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_keep_their_order_and_their_counts() {
    let (expected, all) = cut_everywhere(|world| {
        Workflow::builder("retries")
            .step("split", |_: Begin| async { Ok((1..=3).map(|n| Item { n }).collect::<Vec<_>>()) })
            .step("work", |ctx: Context, world: Res<World>, item: Item| async move {
                world.note(format!("{} {} {} {}", item.n, ctx.attempt(), ctx.key(), ctx.uuid()));
                match u64::from(ctx.attempt()) < item.n {
                    true => Err(refused()),
                    false => Ok(Worked { n: item.n }),
                }
            })
            .workers(1)
            .retry(RetryPolicy::exponential(HOUR).attempts(3))
            .step("gather", |all: All<Worked>| async move { done(all.len().to_string()) })
            .resource(world.clone())
            .build()
            .unwrap()
    })
    .await;
    assert_eq!(expected.ending.result, "3");
    same_notes(&expected, &all);
    for notes in all {
        // The order of first attempts: a restart repeats attempts, and none overtakes another.
        let mut first: Vec<&str> = Vec::new();
        for note in &notes {
            let tried = &note[..3];
            if !first.contains(&tried) {
                first.push(tried);
            }
        }
        assert_eq!(first, ["1 1", "2 1", "3 1", "2 2", "3 2", "3 3"]);
    }
}

/// The replay of each journal at the end of every series compares the random draws.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_by_chance_are_drawn_once() {
    let (expected, all) = cut_everywhere(|world| {
        Workflow::builder("jitter")
            .step("work", |ctx: Context, world: Res<World>, _: Begin| async move {
                world.note(format!("attempt {} at {:?}", ctx.attempt(), ctx.now()));
                match ctx.attempt() {
                    3 => done("third"),
                    _ => Err(refused()),
                }
            })
            .retry(RetryPolicy::fixed(HOUR).attempts(3).jitter(0.9))
            .resource(world.clone())
            .build()
            .unwrap()
    })
    .await;
    assert_eq!(expected.ending.result, "third");
    for notes in all {
        // A repeated attempt has its original start time: nothing was drawn again.
        let mut notes: Vec<String> = notes.into_iter().map(|note| note.replace(" at ", ": ")).collect();
        one_value_each(&notes);
        notes.dedup();
        assert_eq!(notes.len(), 3, "{notes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_keep_their_answers_and_their_deadlines() {
    let (expected, all) = cut_everywhere(|world| {
        Workflow::builder("waits")
            .step("ask", |ctx: Context, world: Res<World>, _: Begin| async move {
                world.note(format!("{} now: {:?}", ctx.key(), ctx.now()));
                world.note(format!("{} random: {}", ctx.key(), ctx.random()));
                let first = ctx.wait_for::<Answer>().asking(Question { n: 1 }).await?;
                let kept: u64 = ctx.once("draw", async { Ok::<_, StepError>(7) }).await?;
                let second = ctx.wait_for::<Answer>().await?;
                let third = ctx.wait_for::<Answer>().deadline(24 * HOUR).await;
                let third = third.map_or_else(|error| error.code().to_owned(), |answer| answer.text);
                done(format!("{} {} {kept} {third}", first.n, second.n))
            })
            .waits::<Answer>()
            .step("tell", |ctx: Context, _: Begin| async move {
                ctx.sleep(HOUR).await?;
                ctx.send(answer(1))?;
                Ok(answer(2))
            })
            .resource(world.clone())
            .build()
            .unwrap()
    })
    .await;
    assert_eq!(expected.ending.result, "1 2 7 WaitTimedOut");
    assert_eq!(expected.ending.events.iter().filter(|one| one.starts_with("question")).count(), 1);
    for notes in all {
        one_value_each(&notes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_events_appear_once() {
    let (expected, _) = cut_everywhere(|_| {
        Workflow::builder("publishes")
            .step("work", |ctx: Context, _: Begin| async move {
                ctx.publish(Item { n: 1 })?;
                tokio::task::yield_now().await;
                ctx.publish(Item { n: 2 })?;
                ctx.sleep(HOUR).await?;
                ctx.publish(Item { n: 3 })?;
                tokio::task::yield_now().await;
                done("published")
            })
            .build()
            .unwrap()
    })
    .await;
    assert_eq!(expected.ending.events.iter().filter(|one| one.starts_with("item")).count(), 3);
}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    count: u64,
    seen: Vec<u64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_is_counted_exactly() {
    let (expected, all) = cut_everywhere(|world| {
        Workflow::builder("counts")
            .step("split", |_: Begin| async { Ok((1..=6).map(|n| Item { n }).collect::<Vec<_>>()) })
            .step("work", |ctx: Context<Totals>, world: Res<World>, item: Item| async move {
                world.note(format!("{} {}", item.n, ctx.key()));
                ctx.add("count", 1)?;
                ctx.append("seen", item.n)?;
                Ok(Worked { n: item.n })
            })
            .workers(2)
            .step("gather", |ctx: Context<Totals>, all: All<Worked>| async move {
                let mut totals = ctx.state()?;
                totals.seen.sort();
                done(format!("{} {:?} {}", totals.count, totals.seen, all.len()))
            })
            .resource(world.clone())
            .build()
            .unwrap()
    })
    .await;
    assert_eq!(expected.ending.result, "6 [1, 2, 3, 4, 5, 6] 6");
    same_notes(&expected, &all);
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_budgets_and_joins_survive_restarts() {
    let (expected, all) = cut_everywhere(|world| {
        Workflow::builder("handled")
            .step("split", |_: Begin| async { Ok(vec![Item { n: 1 }, Item { n: 2 }]) })
            .step("work", |world: Res<World>, tried: Tried| async move {
                match tried {
                    Tried::Item(item) => {
                        world.note(format!("item {}", item.n));
                        Err(StepError::new("Broken", format!("{} breaks", item.n)))
                    }
                    Tried::Again(again) => Ok(Worked { n: again.n }),
                }
            })
            .step("pair", |both: Collect<(Worked, Worked)>| async move {
                let Collect((one, other)) = both;
                done(format!("{}", one.n + other.n))
            })
            .on_failure("rescue", |failed: windlass::StepFailed| async move {
                let item = failed.event::<Item>().expect("an item")?;
                Ok(Again { n: item.n * 10 })
            })
            .for_steps(["work"])
            .resource(world.clone())
            .build()
            .unwrap()
    })
    .await;
    assert_eq!(expected.ending.result, "30");
    same_notes(&expected, &all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_run_fails_in_the_same_way_and_tries_end_at_their_time() {
    let (expected, all) = cut_everywhere(|world| {
        Workflow::builder("bounded")
            .step("work", |ctx: Context, world: Res<World>, _: Begin| async move {
                world.note(format!("attempt {}", ctx.attempt()));
                Err::<Done, _>(refused())
            })
            .retry(RetryPolicy::fixed(HOUR).attempts(100).stop_after(150 * HOUR / 60))
            .resource(world.clone())
            .build()
            .unwrap()
    })
    .await;
    assert!(expected.ending.result.starts_with("Failed NotYet"), "{}", expected.ending.result);
    assert_eq!(expected.notes, ["attempt 1", "attempt 2", "attempt 3", "attempt 4"], "150 minutes, tried each hour");
    same_notes(&expected, &all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_is_rebuilt_from_its_ticks() {
    let workflow = looping();
    let store = Arc::new(MemoryStore::new());
    let engine = Engine::in_memory().store(store.clone()).workflow(&workflow).build().unwrap();
    let mut ticks = Vec::new();
    for iterations in [0, 10, 3_000] {
        let id = format!("r{iterations}");
        let handle = in_time(engine.start(&workflow, Begin { n: iterations }).id(id.as_str())).await.unwrap();
        assert_eq!(text(&handle).await, format!("after {iterations}"));
        ticks.push(replays(&*store, &id));
    }
    assert!(ticks[2] > 3_000 && ticks[0] < 10, "{ticks:?}");
}

#[derive(Events)]
enum LoopOutput {
    Item(Item),
    Done(Done),
}

#[derive(Events)]
enum LoopInput {
    Begin(Begin),
    Item(Item),
}

fn looping() -> Workflow {
    Workflow::builder("looping")
        .step("iterate", |ctx: Context<Totals>, given: LoopInput| async move {
            let left = match given {
                LoopInput::Begin(begin) => begin.n,
                LoopInput::Item(item) => item.n,
            };
            if left == 0 {
                return Ok(LoopOutput::Done(Done { text: format!("after {}", ctx.state()?.count) }));
            }
            ctx.add("count", 1)?;
            Ok(LoopOutput::Item(Item { n: left - 1 }))
        })
        .build()
        .unwrap()
}

// Successive processes on SQLite: the end of a process drops its engine, whatever it is doing.

fn life<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { in_time(body).await })
    // The runtime is dropped here, and with it all running tasks.
}

fn open(directory: &Directory, workflow: &Workflow) -> Engine {
    Engine::open(directory.path()).virtual_time(true).workflow(workflow).build().expect("an engine")
}

async fn begin(engine: &Engine, workflow: &Workflow) -> Handle {
    engine.start(workflow, Begin { n: 0 }).id("r").await.expect("started")
}

#[test]
fn restarted_at_the_same_wait_three_times() {
    let (directory, world) = (Directory::new(), World::default());
    let workflow = Workflow::builder("waits")
        .step("ask", |ctx: Context, world: Res<World>, _: Begin| async move {
            world.note("body");
            let answer = ctx.wait_for::<Answer>().asking(Question { n: 1 }).await?;
            done(answer.text)
        })
        .resource(world.clone())
        .build()
        .unwrap();
    life(async {
        let handle = begin(&open(&directory, &workflow), &workflow).await;
        wait_for_events(&handle, "workflow.idle", 1).await;
    });
    for _ in 0..3 {
        life(async {
            let handle = open(&directory, &workflow).resume("r").await.unwrap();
            let so_far = wait_for_events(&handle, "workflow.idle", 1).await;
            assert_eq!(count(&so_far, "question"), 1);
        });
    }
    life(async {
        let handle = open(&directory, &workflow).resume("r").await.unwrap();
        handle.send(answer(4)).await.unwrap();
        assert_eq!(text(&handle).await, "answer 4");
        let all = events(&handle, 0).await;
        assert_eq!((count(&all, "question"), count(&all, "workflow.idle")), (1, 1));
    });
    assert_eq!(world.notes().len(), 2, "a restart does not run a step that waits");
}

#[test]
fn a_deadline_outlives_its_process_and_raises_inside_the_step() {
    let directory = Directory::new();
    let workflow = Workflow::builder("deadline")
        .step("ask", |ctx: Context, _: Begin| async move {
            match ctx.wait_for::<Answer>().deadline(Duration::from_millis(200)).await {
                Ok(answer) => done(answer.text),
                Err(error) => done(error.code()),
            }
        })
        .build()
        .unwrap();
    let open = || Engine::open(directory.path()).workflow(&workflow).build().unwrap();
    life(async {
        let handle = begin(&open(), &workflow).await;
        wait_for_events(&handle, "workflow.idle", 1).await;
    });
    life(async {
        let handle = open().resume("r").await.unwrap();
        assert_eq!(text(&handle).await, "WaitTimedOut");
    });
}

#[test]
fn a_stored_result_is_read_without_running() {
    let (directory, world) = (Directory::new(), World::default());
    let workflow = Workflow::builder("ends")
        .step("only", |world: Res<World>, begin: Begin| async move {
            world.note("ran");
            match begin.n {
                0 => done("kept"),
                _ => Err(refused()),
            }
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let expected = life(async {
        let engine = open(&directory, &workflow);
        let handle = begin(&engine, &workflow).await;
        assert_eq!(text(&handle).await, "kept");
        let failed = engine.start(&workflow, Begin { n: 1 }).id("f").await.unwrap();
        assert_eq!(failed.result::<Done>().await.unwrap_err().code(), "NotYet");
        events(&handle, 0).await
    });
    life(async {
        let engine = open(&directory, &workflow);
        let handle = engine.resume("r").await.unwrap();
        assert_eq!(text(&handle).await, "kept");
        assert_eq!(events(&handle, 0).await, expected, "and its events are those published before");
        assert_eq!(text(&begin(&engine, &workflow).await).await, "kept", "the same start is the same run");
        let failed = engine.resume("f").await.unwrap();
        assert_eq!(failed.result::<Done>().await.unwrap_err().code(), "NotYet");
    });
    assert_eq!(world.notes().len(), 2);
}

#[test]
fn a_retry_that_was_decided_is_not_decided_again() {
    // The first program retries after an hour; the second would not, and a third would retry immediately, and twice.
    for policy in
        [RetryPolicy::none(), RetryPolicy::fixed(Duration::ZERO).attempts(9), RetryPolicy::fixed(HOUR).on(["Other"])]
    {
        let (directory, world) = (Directory::new(), World::default());
        let make = |retry: RetryPolicy| {
            Workflow::builder("policy")
                .step("work", |ctx: Context, world: Res<World>, _: Begin| async move {
                    world.note(format!("attempt {}", ctx.attempt()));
                    match ctx.attempt() {
                        1 => Err(refused()),
                        2 => {
                            world.pass("second").await;
                            Err(refused())
                        }
                        _ => done("third time lucky"),
                    }
                })
                .retry(retry)
                .resource(world.clone())
                .build()
                .unwrap()
        };
        let first = make(RetryPolicy::fixed(HOUR).attempts(2));
        let at = life(async {
            let handle = begin(&open(&directory, &first), &first).await;
            world.wait_for_notes(2).await;
            let so_far = wait_for_events(&handle, "step.running", 1).await;
            so_far.last().unwrap().at
        });
        world.open("second");
        life(async {
            let second = make(policy.clone());
            let handle = open(&directory, &second).resume("r").await.unwrap();
            let error = handle.result::<Done>().await.unwrap_err();
            assert_eq!(error.code(), "NotYet", "two attempts, as the run's own policy says");
            let all = events(&handle, 0).await;
            assert_eq!(count(&all, "task.retrying"), 1);
            let running = all.iter().find(|event| event.type_name() == "step.running").unwrap();
            assert_eq!(running.at, at, "past attempts stay unchanged");
        });
        assert_eq!(world.notes(), ["attempt 1", "attempt 2", "attempt 2"]);
    }
}

#[derive(Debug)]
struct Vanishing;

impl std::fmt::Display for Vanishing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is gone in the next version")
    }
}

impl std::error::Error for Vanishing {}

#[test]
fn an_error_whose_type_is_gone_is_still_read() {
    let (directory, world) = (Directory::new(), World::default());
    let rescue = |world: Res<World>, failed: windlass::StepFailed| async move {
        world.note("rescue");
        world.pass("rescue").await;
        done(format!("{} {} {}", failed.step, failed.error.code(), failed.error.message()))
    };
    let with = |broken: bool| {
        let workflow = Workflow::builder("vanishing");
        let workflow = match broken {
            true => workflow.step("work", |_: Begin| async { Err::<Done, StepError>(Vanishing.into()) }),
            false => workflow.step("work", |_: Begin| async { done("repaired") }),
        };
        workflow.on_failure("rescue", rescue).resource(world.clone()).build().unwrap()
    };
    life(async {
        let old = with(true);
        begin(&open(&directory, &old), &old).await;
        world.wait_for_notes(1).await;
    });
    world.open("rescue");
    life(async {
        let handle = open(&directory, &with(false)).resume("r").await.unwrap();
        assert_eq!(text(&handle).await, "work Vanishing it is gone in the next version");
    });
}

mod old {
    use super::*;

    #[derive(Event, Serialize, Deserialize)]
    #[event(name = "order")]
    pub(crate) struct Order {
        pub name: String,
    }
}

fn split_name(from: u32, payload: Value) -> Result<Value, StepError> {
    assert_eq!(from, 1);
    let name = payload.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (first, last) = name.split_once(' ').unwrap_or((&name, ""));
    Ok(Value::object([("first", first), ("last", last)]))
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "order", version = 2, upgrade = split_name)]
struct Order {
    first: String,
    last: String,
}

#[test]
fn events_of_an_older_program_are_read_by_the_newer_one() {
    let (directory, world) = (Directory::new(), World::default());
    let before = Workflow::builder("upgraded")
        .step("give", |_: Begin| async { Ok(old::Order { name: "Ada Lovelace".into() }) })
        .step("take", |world: Res<World>, order: old::Order| async move {
            world.note("old");
            world.pass("never").await;
            done(order.name)
        })
        .resource(world.clone())
        .build()
        .unwrap();
    let after = Workflow::builder("upgraded")
        .step("give", |_: Begin| async { Ok(Order { first: "New".into(), last: "One".into() }) })
        .step("take", |order: Order| async move { done(format!("{}, {}", order.last, order.first)) })
        .build()
        .unwrap();
    life(async {
        begin(&open(&directory, &before), &before).await;
        world.wait_for_notes(1).await;
    });
    life(async {
        let engine = open(&directory, &after);
        assert_eq!(text(&engine.resume("r").await.unwrap()).await, "Lovelace, Ada");
        let fresh = engine.start(&after, Begin { n: 1 }).id("s").await.unwrap();
        assert_eq!(text(&fresh).await, "One, New");
    });
    // An event of the newer program is rejected by the older one as too new, instead of being misread.
    let waiting = Workflow::builder("upgraded")
        .step("give", |_: Begin| async { Ok(Order { first: "New".into(), last: "One".into() }) })
        .step("take", |world: Res<World>, order: Order| async move {
            world.note("new");
            world.pass("never").await;
            done(order.first)
        })
        .resource(world.clone())
        .build()
        .unwrap();
    life(async {
        let engine = open(&directory, &waiting);
        engine.start(&waiting, Begin { n: 2 }).id("t").await.unwrap();
        world.wait_for_notes(2).await;
    });
    life(async {
        let handle = open(&directory, &before).resume("t").await.unwrap();
        let error = handle.result::<Done>().await.unwrap_err();
        assert_eq!(error.code(), "EventTooNew", "{error}");
    });
}

#[test]
fn two_engines_on_one_store_do_not_both_run_it() {
    let (directory, world) = (Directory::new(), World::default());
    let workflow = Workflow::builder("owned")
        .step("work", |world: Res<World>, _: Begin| async move {
            world.note("ran");
            world.pass("end").await;
            done("once")
        })
        .resource(world.clone())
        .build()
        .unwrap();
    life(async {
        let (one, other) = (open(&directory, &workflow), open(&directory, &workflow));
        let handle = begin(&one, &workflow).await;
        world.wait_for_notes(1).await;
        let refused = other.resume("r").await.expect_err("another engine runs it");
        assert_eq!(refused.code(), "Owned", "{refused}");
        let refused = other.start(&workflow, Begin { n: 0 }).id("r").await.expect_err("nor does it start twice");
        assert_eq!(refused.code(), "Owned", "{refused}");
        world.open("end");
        assert_eq!(text(&handle).await, "once");
        assert_eq!(text(&other.resume("r").await.unwrap()).await, "once", "every engine sees its end");
    });
    assert_eq!(world.notes(), ["ran"]);
}

#[test]
fn elapsed_run_time_survives_a_restart() {
    // One of two hours is used up when the process ends; then there is one hour left, not two.
    for (nap, ends) in [(HOUR / 2, true), (HOUR * 3 / 2, false)] {
        let (directory, world) = (Directory::new(), World::default());
        let workflow = Workflow::builder("alive")
            .timeout(2 * HOUR)
            .step("work", move |ctx: Context, world: Res<World>, _: Begin| async move {
                ctx.sleep(HOUR).await?;
                world.note("slept");
                world.pass("on").await;
                ctx.sleep(nap).await?;
                done("in time")
            })
            .resource(world.clone())
            .build()
            .unwrap();
        life(async {
            begin(&open(&directory, &workflow), &workflow).await;
            world.wait_for_notes(1).await;
        });
        world.open("on");
        life(async {
            let handle = open(&directory, &workflow).resume("r").await.unwrap();
            let result = handle.result::<Done>().await;
            let end = result.map_or_else(|error| error.code().to_owned(), |done| done.text);
            assert_eq!(end, if ends { "in time" } else { "RunTimedOut" });
        });
    }
}

#[test]
fn an_evicted_run_still_times_out() {
    let directory = Directory::new();
    let workflow = Workflow::builder("released")
        .timeout(Duration::from_millis(60))
        .step("ask", |ctx: Context, _: Begin| async move { done(ctx.wait_for::<Answer>().await?.text) })
        .build()
        .unwrap();
    life(async {
        let engine = Engine::open(directory.path()).evict_after(Duration::ZERO).workflow(&workflow).build().unwrap();
        let handle = begin(&engine, &workflow).await;
        let error = handle.result::<Done>().await.unwrap_err();
        assert_eq!(error.code(), "RunTimedOut", "{error}");
    });
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let ticks = replays(&store, "r");
    assert!(ticks < 8, "it was reloaded once, when its time was over, and not repeatedly: {ticks} ticks");
}

#[test]
fn a_retry_survives_eviction() {
    let (directory, world) = (Directory::new(), World::default());
    let workflow = Workflow::builder("released")
        .step("work", |ctx: Context, world: Res<World>, _: Begin| async move {
            world.note(format!("attempt {}", ctx.attempt()));
            match ctx.attempt() {
                3 => done("third"),
                _ => Err(refused()),
            }
        })
        .retry(RetryPolicy::fixed(Duration::from_millis(20)).attempts(3))
        .resource(world.clone())
        .build()
        .unwrap();
    life(async {
        let engine = Engine::open(directory.path()).evict_after(Duration::ZERO).workflow(&workflow).build().unwrap();
        assert_eq!(text(&begin(&engine, &workflow).await).await, "third");
    });
    assert_eq!(world.notes(), ["attempt 1", "attempt 2", "attempt 3"]);
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    replays(&store, "r");
}

#[test]
fn events_sent_before_a_crash_are_kept() {
    let (directory, world) = (Directory::new(), World::default());
    let workflow = Workflow::builder("kept")
        .step("ask", |ctx: Context, _: Begin| async move {
            let first = ctx.wait_for::<Answer>().await?;
            let second = ctx.wait_for::<Answer>().await?;
            done(format!("{} {}", first.n, second.n))
        })
        .resource(world)
        .build()
        .unwrap();
    life(async {
        let handle = begin(&open(&directory, &workflow), &workflow).await;
        wait_for_events(&handle, "workflow.idle", 1).await;
        // Accepted, and the process ends before the events are processed.
        handle.send(answer(1)).await.unwrap();
        handle.send(answer(2)).await.unwrap();
    });
    life(async {
        let handle = open(&directory, &workflow).resume("r").await.unwrap();
        assert_eq!(text(&handle).await, "1 2");
        let error: Error = handle.send(answer(3)).await.unwrap_err();
        assert_eq!(error.code(), "Ended");
    });
}
