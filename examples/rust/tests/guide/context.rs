//! The context of a step: everything a step can do besides returning events.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, RetryPolicy, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "audit.noted")]
struct Noted {
    text: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "progress")]
struct Progress {
    percent: u32,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    text: String,
}

struct Auditing;

#[windlass::workflow(name = "auditing")]
impl Auditing {
    #[step(sends = [Noted])]
    async fn work(&self, ctx: Context, _begin: Begin) -> Result<(), StepError> {
        ctx.publish(Progress { percent: 50 })?;
        ctx.send(Noted { text: "half of it".into() })?;
        ctx.send_to("file", Noted { text: "all of it".into() })?;
        Ok(())
    }

    #[step(workers = 1)]
    async fn file(&self, ctx: Context<Totals>, noted: Noted) -> Result<Option<Done>, StepError> {
        ctx.add("seen", 1)?;
        ctx.append("names", noted.text)?;
        let totals = ctx.state()?;
        Ok((totals.seen == 2).then(|| Done { text: totals.names.join(", ") }))
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    seen: u64,
    names: Vec<String>,
    last: Option<String>,
}

#[tokio::test]
async fn sends_and_state() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Auditing.into_workflow().event::<Progress>().build()?;
    let done: Done = workflow.run(Begin {}).await?;
    assert_eq!(done.text, "half of it, all of it");
    Ok(())
}

#[tokio::test]
async fn state_in_one_go() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Workflow::builder("state")
        .step("name", |ctx: Context<Totals>, _: Begin| async move {
            ctx.update(|totals| {
                totals.seen += 1;
                totals.last = Some("Ada".into());
            })?;
            Ok(Done { text: ctx.state()?.last.unwrap_or_default() })
        })
        .retry(RetryPolicy::fixed(Duration::from_millis(10)).on(["conflict"]))
        .build()?;
    assert_eq!(workflow.run::<Done>(Begin {}).await?.text, "Ada");
    Ok(())
}

async fn order_taxi() -> Result<String, StepError> {
    Ok("taxi 7".into())
}

#[derive(Serialize)]
struct Trip {
    to: String,
}

async fn travel(ctx: Context, _begin: Begin) -> Result<Done, StepError> {
    let began = ctx.now();
    let ticket = ctx.uuid();
    let taxi: String = ctx.once("taxi", order_taxi()).await?;
    ctx.sleep(Duration::from_secs(3600)).await?;
    let hotel: Done = ctx.call("hotel", Trip { to: "Graz".into() }).await?;
    assert_eq!(began, ctx.now());
    Ok(Done { text: format!("{ticket}: {taxi}, {}", hotel.text) })
}

#[tokio::test]
async fn durable_calls() -> Result<(), Box<dyn std::error::Error>> {
    #[derive(Event, Serialize, Deserialize)]
    #[event(name = "trip", start)]
    struct Wanted {
        to: String,
    }
    let hotel = Workflow::builder("hotel").step("book", |trip: Wanted| async move { Ok(Done { text: trip.to }) });
    let (hotel, travel) = (hotel.build()?, Workflow::builder("travel").step("travel", travel).build()?);
    let engine = Engine::in_memory().virtual_time(true).workflow(&hotel).workflow(&travel).build()?;
    let done: Done = engine.start(&travel, Begin {}).await?.result().await?;
    assert!(done.text.ends_with(": taxi 7, Graz"), "{}", done.text);
    Ok(())
}

/// The work for one event has one idempotency key, however often it is tried.
#[tokio::test]
async fn keys() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Workflow::builder("keys")
        .step("try", |ctx: Context, _: Begin| async move {
            ctx.sleep(Duration::from_secs(1)).await?;
            let seen = ctx.resource::<std::sync::Mutex<Vec<String>>>()?;
            let mut seen = seen.lock().map_err(|_| StepError::new("Poisoned", "a lock"))?;
            seen.push(ctx.key().to_owned());
            match seen.as_slice() {
                [first, second] => Ok(Done { text: (first == second).to_string() }),
                _ => Err(StepError::new("NotYet", "once more")),
            }
        })
        .retry(RetryPolicy::fixed(Duration::from_secs(1)))
        .resource(std::sync::Mutex::new(Vec::<String>::new()))
        .build()?;
    let engine = Engine::in_memory().virtual_time(true).workflow(&workflow).build()?;
    let done: Done = engine.start(&workflow, Begin {}).await?.result().await?;
    assert_eq!(done.text, "true");
    Ok(())
}
