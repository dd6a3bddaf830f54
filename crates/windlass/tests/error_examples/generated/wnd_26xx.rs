//! Generated from the pages of `windlass-errors`: `UPDATE=1 cargo test -p windlass-errors`.

pub(super) const EXAMPLES: &[super::Example] = &[
    ("WND-2612", || Box::pin(wnd_2612::call())),
    ("WND-2613", || Box::pin(wnd_2613::call())),
    ("WND-2614", || Box::pin(wnd_2614::call())),
    ("WND-2623", || Box::pin(wnd_2623::call())),
    ("WND-2625", || Box::pin(wnd_2625::call())),
];

mod wnd_2612 {
use serde::{Deserialize, Serialize};
use windlass::{Engine, Event, RestartRequest, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).id("one").await.unwrap();
    handle.result::<Done>().await.unwrap();
    engine.restart("one", RestartRequest { from: "end".into(), ..RestartRequest::default() }).await.err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2613 {
use serde::{Deserialize, Serialize};
use windlass::{Engine, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    handle.result::<Done>().await.unwrap();
    handle.cancel("too late").await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2614 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let folder = std::env::temp_dir().join(format!("windlass-2614-{}", std::process::id()));
    let workflow = Workflow::builder("example")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.sleep(std::time::Duration::from_secs(3600)).await?;
            Ok(Done {})
        })
        .build()
        .unwrap();
    let engine = Engine::open(&folder).workflow(&workflow).build().unwrap();
    engine.start(&workflow, Begin {}).id("one").await.unwrap();
    engine.close().await;
    let other = Engine::open(&folder).adopt(false).build().unwrap();
    other.resume("one").await.err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2623 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let folder = std::env::temp_dir().join(format!("windlass-2623-{}", std::process::id()));
    let workflow = Workflow::builder("example")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.sleep(std::time::Duration::from_secs(3600)).await?;
            Ok(Done {})
        })
        .build()
        .unwrap();
    let engine = Engine::open(&folder).workflow(&workflow).build().unwrap();
    engine.start(&workflow, Begin {}).id("one").await.unwrap();
    engine.retry_failed("one", None).await.err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2625 {
use serde::{Deserialize, Serialize};
use windlass::{Engine, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    engine.close().await;
    engine.start(&workflow, Begin {}).await.err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}
