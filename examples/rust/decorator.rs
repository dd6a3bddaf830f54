//! A decorator around the engine's adapter: it prints each tick, moves the run to the year 2100, and hides step
//! events.

use serde::{Deserialize, Serialize};
use windlass::adapter::{PublishedEvent, RunDecorator, RunState, Tick};
use windlass::{Context, Engine, Event, StepError, Timestamp};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "ask", start)]
struct Ask;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "time", stop)]
struct Time {
    at: String,
}

struct Clerk;

#[windlass::workflow(name = "clerk")]
impl Clerk {
    #[step]
    async fn reply(&self, ctx: Context, _ask: Ask) -> Result<Time, StepError> {
        Ok(Time { at: ctx.now().to_string() })
    }
}

/// 2100-01-01T00:00:00Z, in microseconds.
const THEN: i64 = 4_102_444_800_000_000;

struct Onlooker {
    /// The engine's time when the run became resident.
    since: Option<Timestamp>,
}

impl RunDecorator for Onlooker {
    fn get_now(&mut self, now: Timestamp) -> Timestamp {
        let since = *self.since.get_or_insert(now);
        Timestamp(THEN + (now.0 - since.0))
    }

    fn on_tick(&mut self, tick: &Tick, state: &RunState) {
        println!("tick {} {}", state.ticks, tick.kind.name());
    }

    fn write_to_event_stream(&mut self, event: PublishedEvent, show: &mut dyn FnMut(PublishedEvent)) {
        if !event.kind.type_name().starts_with("step.") {
            show(event);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = Clerk.into_workflow().build()?;
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .wrap_adapter(|_run, _definition| Some(Box::new(Onlooker { since: None })))
        .build()?;
    let handle = engine.start(&workflow, Ask).await?;
    let answer: Time = handle.result().await?;
    println!("the clerk says that it is {}", &answer.at[..10]);
    let mut events = handle.events(0)?;
    while let Some(event) = events.next().await {
        println!("event {}", event?.kind.type_name());
    }
    Ok(())
}
