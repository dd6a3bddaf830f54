//! Generated from the pages of `windlass-errors`: `UPDATE=1 cargo test -p windlass-errors`.

pub(super) const EXAMPLES: &[super::Example] = &[
    ("WND-2309", || Box::pin(wnd_2309::call())),
    ("WND-2313", || Box::pin(wnd_2313::call())),
    ("WND-2320", || Box::pin(wnd_2320::call())),
    ("WND-2321", || Box::pin(wnd_2321::call())),
    ("WND-2322", || Box::pin(wnd_2322::call())),
    ("WND-2323", || Box::pin(wnd_2323::call())),
    ("WND-2324", || Box::pin(wnd_2324::call())),
    ("WND-2326", || Box::pin(wnd_2326::call())),
    ("WND-2327", || Box::pin(wnd_2327::call())),
    ("WND-2328", || Box::pin(wnd_2328::call())),
    ("WND-2329", || Box::pin(wnd_2329::call())),
    ("WND-2330", || Box::pin(wnd_2330::call())),
    ("WND-2331", || Box::pin(wnd_2331::call())),
    ("WND-2332", || Box::pin(wnd_2332::call())),
    ("WND-2333", || Box::pin(wnd_2333::call())),
    ("WND-2334", || Box::pin(wnd_2334::call())),
    ("WND-2335", || Box::pin(wnd_2335::call())),
    ("WND-2336", || Box::pin(wnd_2336::call())),
    ("WND-2337", || Box::pin(wnd_2337::call())),
];

mod wnd_2309 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let child = Workflow::builder("child").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    let parent = Workflow::builder("example")
        .step("call", |ctx: Context, _: Begin| async move {
            let total: u64 = ctx.call("child", Begin {}).await?;
            println!("{total}");
            Ok(Done {})
        })
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&child).workflow(&parent).build().unwrap();
    let handle = engine.start(&parent, Begin {}).await.unwrap();
    handle.result::<Done>().await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2313 {
use serde::{Deserialize, Serialize};
use windlass::{Collect, Event, Events, Surplus, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "a")]
struct A {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "b")]
struct B {}

#[derive(Events)]
enum Either {
    A(A),
    B(B),
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("give", |_: Begin| async { Ok(vec![Either::A(A {}), Either::A(A {}), Either::B(B {})]) })
        .step("join", |_: Collect<(A, B)>| async { Ok(Done {}) })
        .surplus(Surplus::Fail)
        .build()
        .unwrap();
    workflow.run::<Done>(Begin {}).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2320 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Value, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
struct Answer {
    text: String,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.wait_for::<Answer>().await?;
            Ok(Done {})
        })
        .waits::<Answer>()
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    handle.send_value("answer", Value::from(7_i64)).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2321 {
use serde::{Deserialize, Serialize};
use windlass::{Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {
    #[serde(serialize_with = "refuse")]
    secret: u64,
}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

fn refuse<S: serde::Serializer>(_: &u64, _: S) -> Result<S::Ok, S::Error> {
    Err(serde::ser::Error::custom("not for journals"))
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("end", |_: Begin| async { Ok(Done {}) })
        .build()
        .unwrap();
    workflow.run::<Done>(Begin { secret: 7 }).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2322 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Value, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response, version = 2)]
struct Answer {
    text: String,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.wait_for::<Answer>().await?;
            Ok(Done {})
        })
        .waits::<Answer>()
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    handle.send_value("answer", Value::object([("text", Value::from("yes"))])).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2323 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Value, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
struct Answer {
    text: String,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.wait_for::<Answer>().await?;
            Ok(Done {})
        })
        .waits::<Answer>()
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    let payload = Value::object([("@version", Value::from(9_i64)), ("text", Value::from("yes"))]);
    handle.send_value("answer", payload).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2324 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Value, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
struct Answer {
    text: String,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.wait_for::<Answer>().await?;
            Ok(Done {})
        })
        .waits::<Answer>()
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    handle.send_value("anser", Value::Null).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2326 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
struct Answer {
    text: String,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.wait_for::<Answer>().await?;
            Ok(Done {})
        })
        .waits::<Answer>()
        .build()
        .unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    handle.send_to("wait", Answer { text: "yes".into() }).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2327 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("work", |ctx: Context, _: Begin| async move {
            ctx.send(Begin {})?;
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

mod wnd_2328 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, RetryPolicy, StepError, Workflow};
use std::time::Duration;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let second = Duration::from_secs(1);
    let workflow = Workflow::builder("example")
        .step("work", move |ctx: Context, _: Begin| async move {
            match ctx.attempt() {
                1 => {
                    ctx.sleep(second).await?;
                    Err(StepError::new("Again", "once more"))
                }
                _ => {
                    ctx.once("note", async { Ok::<_, StepError>(1) }).await?;
                    Ok(Done {})
                }
            }
        })
        .retry(RetryPolicy::fixed(second).attempts(2))
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

mod wnd_2329 {
use serde::Deserialize;
use windlass::{Engine, StartOptions, Value};

#[derive(Deserialize)]
struct Order {
    n: u64,
}

async fn example() -> windlass::Error {
    let playbook = "workflow: [{step: start, tool: {kind: rust, name: double, args: {n: many}}}]";
    let engine = Engine::in_memory()
        .function("double", |order: Order| async move { Ok(order.n * 2) })
        .definition("example", playbook)
        .build()
        .unwrap();
    let handle = engine.start_definition("example", Value::Null, StartOptions::default()).await.unwrap();
    handle.output::<u64>().await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2330 {
use serde::{Deserialize, Serialize};
use windlass::{Engine, Event, StartOptions, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    engine.start_definition("exampel", Begin {}, StartOptions::default()).await.err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2331 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
struct Answer {
    text: String,
}

async fn example() -> windlass::Error {
    let waits = Workflow::builder("waits")
        .step("wait", |ctx: Context, _: Begin| async move {
            ctx.wait_for::<Answer>().await?;
            Ok(Done {})
        })
        .waits::<Answer>()
        .build()
        .unwrap();
    let other = Workflow::builder("other").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    let engine = Engine::in_memory().workflow(&waits).workflow(&other).build().unwrap();
    let snapshot = engine.start(&waits, Begin {}).await.unwrap().snapshot().await.unwrap();
    engine.restore(&other, &snapshot).await.err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2332 {
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
    Engine::in_memory().workflow(&workflow).workflow(&workflow).build().err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2333 {
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
    let other = Workflow::builder("example").step("stop", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    engine.start(&other, Begin {}).await.err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2334 {
use serde::{Deserialize, Serialize};
use windlass::{Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "other")]
struct Other {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    workflow.run::<Done>(Other {}).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2335 {
use serde::{Deserialize, Serialize};
use windlass::{Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "other")]
struct Other {}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example").step("end", |_: Begin| async { Ok(Done {}) }).build().unwrap();
    workflow.run::<Other>(Begin {}).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2336 {
use windlass::Engine;

async fn example() -> windlass::Error {
    Engine::in_memory().definition("example", "{\"actions\": 5}").build().err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2337 {
async fn example() -> windlass::Error {
    windlass::described(|n: u64| async move { Ok(n * 2) }, "Doubles a number.", "{").err().unwrap()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}
