//! Regressions found with hostile test programs: large values everywhere, children of steps that have ended, bodies
//! that change the order of their durable calls, runs that another engine ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, RetryPolicy, RunStatus, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answered", human_response)]
struct Answered {
    text: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "shown")]
struct Shown {
    text: String,
}

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    text: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Count {
    n: i64,
}

struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("windlass-regressions-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        Directory(std::env::temp_dir().join(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// More than fits inline into an event.
fn large() -> String {
    "x".repeat(70_000)
}

fn echo() -> Workflow {
    Workflow::builder("echo").step("echo", |_: Begin| async { Ok(Done { text: large() }) }).build().unwrap()
}

#[tokio::test]
async fn large_values_come_back_whole() {
    let workflow = Workflow::builder("large")
        .step("all", |ctx: Context, _: Begin| async move {
            let kept: String = ctx.once("make", async { Ok::<_, StepError>(large()) }).await?;
            let child: Done = ctx.call_workflow("echo", Begin {}).await?;
            let answered = ctx.wait_for::<Answered>().await?;
            ctx.publish(Shown { text: large() })?;
            let same = [kept, child.text, answered.text].iter().all(|text| *text == large());
            Ok(Done { text: if same { large() } else { "not the same".into() } })
        })
        .build()
        .unwrap();
    let directory = Directory::new();
    let (kept, memory) = (Engine::open(&directory.0), Engine::in_memory());
    for engine in [kept, memory] {
        let engine = engine.workflow(&workflow).workflow(&echo()).build().unwrap();
        let handle = engine.start(&workflow, Begin {}).await.unwrap();
        handle.send(Answered { text: large() }).await.unwrap();
        assert_eq!(handle.result::<Done>().await.unwrap().text, large());
        let (mut events, mut shown, mut ended) = (handle.events(0).unwrap(), 0, 0);
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            shown += usize::from(event.event::<Shown>().is_some_and(|shown| shown.unwrap().text == large()));
            ended += usize::from(event.event::<Done>().is_some_and(|done| done.unwrap().text == large()));
        }
        assert_eq!((shown, ended), (1, 1));
        engine.close().await;
    }
}

#[tokio::test]
async fn a_child_ends_with_the_step_that_waits_for_it() {
    let (sender, mut receiver) = tokio::sync::watch::channel(String::new());
    let child = Workflow::builder("child")
        .step("wait", move |ctx: Context, _: Begin| {
            sender.send_replace(ctx.run_id().to_owned());
            async move { Ok(Done { text: ctx.wait_for::<Answered>().await?.text }) }
        })
        .build()
        .unwrap();
    let parent = Workflow::builder("parent")
        .step("call", |ctx: Context, _: Begin| async move { ctx.call_workflow::<Done>("child", Begin {}).await })
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&parent).workflow(&child).build().unwrap();
    let handle = engine.start(&parent, Begin {}).await.unwrap();
    let child_run = receiver.wait_for(|run| !run.is_empty()).await.unwrap().clone();
    handle.cancel("enough").await.unwrap();
    handle.result::<Done>().await.unwrap_err();
    engine.handle(&child_run).unwrap().result::<Done>().await.unwrap_err();
    assert_eq!(engine.status(&child_run).unwrap(), Some(RunStatus::Cancelled));
}

#[tokio::test]
async fn an_answer_to_another_request_is_rejected() {
    let workflow = Workflow::builder("order")
        .step("swap", |ctx: Context, _: Begin| async move {
            match ctx.attempt() {
                1 => {
                    ctx.sleep(std::time::Duration::from_secs(1)).await?;
                    Err(StepError::new("Again", "once more"))
                }
                _ => Ok(Done { text: ctx.wait_for::<Answered>().await?.text }),
            }
        })
        .retry(RetryPolicy::fixed(std::time::Duration::from_secs(1)).attempts(2))
        .build()
        .unwrap();
    let engine = Engine::in_memory().virtual_time(true).workflow(&workflow).build().unwrap();
    let error = engine.start(&workflow, Begin {}).await.unwrap().result::<Done>().await.unwrap_err();
    assert_eq!(error.code(), "DurableCallOrderChanged", "{error}");
}

#[tokio::test]
async fn changes_are_made_together_or_not_at_all() {
    let workflow = Workflow::builder("sums")
        .step("add", |ctx: Context<Count>, _: Begin| async move {
            ctx.add("n", i64::MAX)?;
            ctx.add("n", 1)?;
            Ok(Done { text: String::new() })
        })
        .on_failure("look", |ctx: Context<Count>, _: windlass::StepFailed| async move {
            Ok(Done { text: ctx.state()?.n.to_string() })
        })
        .build()
        .unwrap();
    let done: Done = workflow.run(Begin {}).await.unwrap();
    assert_eq!(done.text, "0");
}

#[tokio::test]
async fn handles_see_an_end_in_another_engine() {
    let workflow = Workflow::builder("waits")
        .step("wait", |ctx: Context, _: Begin| async move { Ok(Done { text: ctx.wait_for::<Answered>().await?.text }) })
        .build()
        .unwrap();
    let directory = Directory::new();
    let open = || Engine::open(&directory.0).adopt(false).evict_after(std::time::Duration::ZERO).workflow(&workflow);
    let (one, other) = (open().build().unwrap(), open().build().unwrap());
    let handle = one.start(&workflow, Begin {}).id("r").await.unwrap();
    // Without taking the run over.
    other.handle("r").unwrap().send(Answered { text: "hello".into() }).await.unwrap();
    assert_eq!(other.handle("r").unwrap().result::<Done>().await.unwrap().text, "hello");
    assert_eq!(handle.result::<Done>().await.unwrap().text, "hello");
}

#[tokio::test]
async fn damaged_snapshots_and_those_of_others_are_refused() {
    let workflow = Workflow::builder("waits")
        .step("wait", |ctx: Context, _: Begin| async move { Ok(Done { text: ctx.wait_for::<Answered>().await?.text }) })
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).workflow(&echo()).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    let snapshot = handle.snapshot().await.unwrap();
    for at in (20..snapshot.len()).step_by(7) {
        let mut damaged = snapshot.clone();
        damaged[at] ^= 1;
        engine.restore(&workflow, &damaged).await.unwrap_err();
    }
    assert_eq!(engine.restore(&echo(), &snapshot).await.unwrap_err().code(), "WrongWorkflow");
}

#[tokio::test]
async fn unreadable_values_are_refused_before_they_are_stored() {
    #[derive(Event, Serialize, Deserialize)]
    #[event(name = "deep", human_response)]
    struct Deep {
        value: windlass::Value,
    }
    let workflow = Workflow::builder("deep")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.wait_for::<Deep>().await?;
            Ok(Done { text: String::new() })
        })
        .waits::<Deep>()
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    let deep = (0..600).fold(windlass::Value::Null, |inner, _| windlass::Value::list(vec![inner]));
    handle.send(Deep { value: deep }).await.unwrap_err();
    handle.send(Deep { value: windlass::Value::Null }).await.unwrap();
    handle.result::<Done>().await.unwrap();
}

#[tokio::test]
async fn another_workflow_of_the_same_name_is_not_run_for_it() {
    let engine = Engine::in_memory().workflow(&echo()).build().unwrap();
    let other =
        Workflow::builder("echo").step("else", |_: Begin| async { Ok(Done { text: "x".into() }) }).build().unwrap();
    assert_eq!(engine.start(&other, Begin {}).await.unwrap_err().code(), "AnotherWorkflow");
    assert!(engine.start(&echo(), Begin {}).await.is_ok());
}
