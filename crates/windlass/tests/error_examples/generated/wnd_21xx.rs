//! Generated from the pages of `windlass-errors`: `UPDATE=1 cargo test -p windlass-errors`.

pub(super) const EXAMPLES: &[super::Example] = &[
    ("WND-2103", || Box::pin(wnd_2103::call())),
    ("WND-2124", || Box::pin(wnd_2124::call())),
    ("WND-2130", || Box::pin(wnd_2130::call())),
];

mod wnd_2103 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Workflow};
use std::time::Duration;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .timeout(Duration::from_secs(60))
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.sleep(Duration::from_secs(3600)).await?;
            Ok(Done {})
        })
        .build()
        .unwrap();
    let engine = Engine::in_memory().virtual_time(true).workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    handle.result::<Done>().await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2124 {
use serde::{Deserialize, Serialize};
use windlass::{Event, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("check", |_: Begin| async { Err::<Done, _>(StepError::new("OutOfStock", "no rope left")) })
        .build()
        .unwrap();
    workflow.run::<Done>(Begin {}).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2130 {
use serde::{Deserialize, Serialize};
use windlass::{Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("first", |_: Begin| async {
            let numbers: Vec<u64> = Vec::new();
            println!("{}", numbers[0]);
            Ok(Done {})
        })
        .build()
        .unwrap();
    workflow.run::<Done>(Begin {}).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}
