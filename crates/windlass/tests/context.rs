//! The context of a step: everything a step can do besides returning events.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Res, RetryPolicy, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "note")]
struct Note {
    text: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
struct Answer {
    to: u64,
    text: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "question", input_required)]
struct Question {
    number: u64,
}

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    text: String,
}

fn done(text: impl Into<String>) -> Result<Done, StepError> {
    Ok(Done { text: text.into() })
}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    runs: u64,
    names: Vec<String>,
    last: Option<String>,
}

/// In virtual time: no test waits.
fn engine(workflow: &Workflow) -> Engine {
    Engine::in_memory().virtual_time(true).workflow(workflow).build().unwrap()
}

async fn run(workflow: &Workflow) -> Result<Done, windlass::Error> {
    engine(workflow).start(workflow, Begin).await?.result().await
}

#[tokio::test]
async fn state_is_changed_with_the_result() {
    let workflow = Workflow::builder("totals")
        .step("first", |ctx: Context<Totals>, _: Begin| async move {
            ctx.update(|totals| totals.last = Some("first".into()))?;
            ctx.add("runs", 2)?;
            ctx.append("names", "a")?;
            // A body sees its own changes.
            assert_eq!(ctx.state()?.runs, 2);
            Ok(Note { text: "x".into() })
        })
        .step("second", |ctx: Context<Totals>, _: Note| async move {
            ctx.add("runs", 1)?;
            ctx.append("names", "b")?;
            ctx.update(|totals| totals.names.push("c".into()))?;
            let totals = ctx.state()?;
            done(format!("{} {} {}", totals.runs, totals.names.join(","), totals.last.unwrap_or_default()))
        })
        .build()
        .unwrap();
    assert_eq!(run(&workflow).await.unwrap().text, "3 a,b,c first");
}

#[tokio::test]
async fn a_failed_attempt_changes_and_sends_nothing() {
    let workflow = Workflow::builder("atomic")
        .step("try", |ctx: Context<Totals>, _: Begin| async move {
            ctx.add("runs", 1)?;
            ctx.send(Note { text: format!("attempt {}", ctx.attempt()) })?;
            match ctx.attempt() {
                3 => Ok(()),
                _ => Err(StepError::new("NotYet", "again")),
            }
        })
        .sends::<Note>()
        .retry(RetryPolicy::fixed(Duration::from_secs(60)).attempts(3))
        .step(
            "end",
            |ctx: Context<Totals>, note: Note| async move { done(format!("{} {}", note.text, ctx.state()?.runs)) },
        )
        .build()
        .unwrap();
    assert_eq!(run(&workflow).await.unwrap().text, "attempt 3 1");
}

#[tokio::test]
async fn retry_info_describes_earlier_attempts() {
    let workflow = Workflow::builder("again")
        .step("try", |ctx: Context, _: Begin| async move {
            let before = ctx.retry_info();
            match before.last_error {
                Some(error) if before.retries == 2 => {
                    assert!(before.failed_at.is_some_and(|at| at < ctx.now()));
                    done(format!("{} {}", error.message(), before.elapsed.as_secs()))
                }
                _ => Err(StepError::new("NotYet", format!("attempt {}", ctx.attempt()))),
            }
        })
        .retry(RetryPolicy::fixed(Duration::from_secs(60)).attempts(3))
        .build()
        .unwrap();
    assert_eq!(run(&workflow).await.unwrap().text, "attempt 2 120");
}

/// Each attempt waits again: a failed wait of the previous attempt is not reused.
#[tokio::test]
async fn an_attempt_waits_anew() {
    let workflow = Workflow::builder("anew")
        .step("ask", |ctx: Context, _: Begin| async move {
            let began = ctx.now();
            ctx.wait_for::<Answer>()
                .deadline(Duration::from_secs(60))
                .await
                .map_err(|error| StepError::new(error.code().to_owned(), format!("{} {began}", ctx.attempt())))?;
            done("")
        })
        .retry(RetryPolicy::fixed(Duration::from_secs(1)).attempts(2))
        .on_failure("tell", |failed: windlass::StepFailed| async move {
            assert_eq!(failed.attempts, 2);
            done(failed.error.code())
        })
        .build()
        .unwrap();
    let engine = engine(&workflow);
    let handle = engine.start(&workflow, Begin).await.unwrap();
    assert_eq!(handle.result::<Done>().await.unwrap().text, "WaitTimedOut");
    let mut events = handle.events(0).unwrap();
    let mut times = Vec::new();
    while let Some(event) = events.next().await {
        times.push(event.unwrap().at);
    }
    let took = times[times.len() - 1].since(times[0]);
    assert!(took.as_secs_f64() >= 121.0, "two waits of a minute, and the backoff: {took}");
}

#[tokio::test]
async fn sends_are_declared() {
    let workflow = Workflow::builder("sends")
        .step("begin", |ctx: Context, _: Begin| async move {
            ctx.send(Note { text: "x".into() })?;
            done("")
        })
        .build()
        .unwrap();
    let error = run(&workflow).await.unwrap_err();
    assert_eq!(error.code(), "NotDeclared");
    assert!(
        error.to_string().contains("the step `begin` does not declare that it sends `note`; it may send: `done`"),
        "{error}"
    );
}

#[tokio::test]
async fn targets_are_checked() {
    let to = |step: &'static str| {
        let workflow = Workflow::builder("targets")
            .step("begin", move |ctx: Context, _: Begin| async move {
                ctx.send_to(step, Note { text: step.into() })?;
                Ok(())
            })
            .sends::<Note>()
            .step("one", |note: Note| async move { done(format!("one {}", note.text)) })
            .step("other", |note: Note| async move { done(format!("other {}", note.text)) })
            .build()
            .unwrap();
        async move { run(&workflow).await }
    };
    assert_eq!(to("other").await.unwrap().text, "other other");
    let error = to("othr").await.unwrap_err().to_string();
    assert!(error.contains("there is no step `othr` in `targets` (did you mean `other`?)"), "{error}");
    let error = to("begin").await.unwrap_err().to_string();
    assert!(error.contains("the step `begin` does not accept `note` (it accepts: `begin`)"), "{error}");
}

#[tokio::test]
async fn durable_calls_get_their_answers_in_order() {
    static BODIES: AtomicU32 = AtomicU32::new(0);
    static WORK: AtomicU32 = AtomicU32::new(0);
    let workflow = Workflow::builder("waits")
        .step("ask", |ctx: Context, _: Begin| async move {
            BODIES.fetch_add(1, Ordering::SeqCst);
            let began = ctx.now();
            let (number, id) = (ctx.random(), ctx.uuid());
            let kept: u64 = ctx
                .once("work", async {
                    WORK.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, StepError>(number)
                })
                .await?;
            assert_eq!(kept, number, "the same each time the body runs");
            let first = ctx.wait_for::<Answer>().asking(Question { number: 1 }).await?;
            ctx.sleep(Duration::from_secs(3600)).await?;
            let second = ctx.wait_for::<Answer>().matching("to", 2).await?;
            assert_eq!(began, ctx.now());
            assert_eq!(id.len(), 36);
            done(format!("{} {}", first.text, second.text))
        })
        .build()
        .unwrap();
    let engine = engine(&workflow);
    let handle = engine.start(&workflow, Begin).await.unwrap();
    handle.send(Answer { to: 1, text: "one".into() }).await.unwrap();
    handle.send(Answer { to: 2, text: "two".into() }).await.unwrap();
    assert_eq!(handle.result::<Done>().await.unwrap().text, "one two");
    assert_eq!(WORK.load(Ordering::SeqCst), 1);
    assert_eq!(BODIES.load(Ordering::SeqCst), 5, "once for each of four calls, and to the end");
}

#[tokio::test]
async fn a_wait_has_a_deadline() {
    let workflow = Workflow::builder("deadline")
        .step("ask", |ctx: Context, _: Begin| async move {
            match ctx.wait_for::<Answer>().deadline(Duration::from_secs(86_400)).await {
                Err(error) if error.kind() == "timeout" => done(error.code()),
                other => done(format!("{:?}", other.map(|answer| answer.text))),
            }
        })
        .build()
        .unwrap();
    assert_eq!(run(&workflow).await.unwrap().text, "WaitTimedOut");
}

#[tokio::test]
async fn resources_come_by_type() {
    struct Gateway(&'static str);
    let builder = || {
        Workflow::builder("resources").step("ask", |gateway: Res<Gateway>, ctx: Context, _: Begin| async move {
            assert_eq!(ctx.resource::<Gateway>()?.0, gateway.0);
            done(gateway.0)
        })
    };
    let error = builder().build().unwrap_err();
    assert!(error.has("missing_resource"), "{error}");
    let workflow = builder().resource(Gateway("up")).build().unwrap();
    assert_eq!(run(&workflow).await.unwrap().text, "up");
}

#[tokio::test]
async fn a_child_in_rust() {
    let inner = Workflow::builder("inner").step("only", |_: Begin| async { done("from inside") }).build().unwrap();
    let outer = Workflow::builder("outer")
        .step("call", |ctx: Context, _: Begin| async move {
            let inside: Done = ctx.call("inner", Begin).await?;
            let again: Done = ctx.call_workflow("inner", Begin).await?;
            done(format!("{} {}", inside.text, again.text))
        })
        .build()
        .unwrap();
    let engine = Engine::in_memory().virtual_time(true).workflow(&inner).workflow(&outer).build().unwrap();
    let handle = engine.start(&outer, Begin).await.unwrap();
    assert_eq!(handle.result::<Done>().await.unwrap().text, "from inside from inside");
}
