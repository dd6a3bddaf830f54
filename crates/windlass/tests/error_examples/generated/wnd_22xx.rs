//! Generated from the pages of `windlass-errors`: `UPDATE=1 cargo test -p windlass-errors`.

pub(super) const EXAMPLES: &[super::Example] = &[
    ("WND-2213", || Box::pin(wnd_2213::call())),
    ("WND-2220", || Box::pin(wnd_2220::call())),
    ("WND-2221", || Box::pin(wnd_2221::call())),
    ("WND-2222", || Box::pin(wnd_2222::call())),
    ("WND-2223", || Box::pin(wnd_2223::call())),
    ("WND-2224", || Box::pin(wnd_2224::call())),
    ("WND-2225", || Box::pin(wnd_2225::call())),
    ("WND-2226", || Box::pin(wnd_2226::call())),
];

mod wnd_2213 {
use serde::{Deserialize, Serialize};
use windlass::{All, Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "item")]
struct Item {
    n: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "kept")]
struct Kept {}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    last: u64,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("split", |_: Begin| async { Ok(vec![Item { n: 1 }, Item { n: 2 }]) })
        .step("set", |ctx: Context<Totals>, item: Item| async move {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            ctx.update(|totals| totals.last = item.n)?;
            Ok(Kept {})
        })
        .step("join", |_: All<Kept>| async { Ok(Done {}) })
        .build()
        .unwrap();
    workflow.run::<Done>(Begin {}).await.unwrap_err()
}

pub(super) async fn call() -> windlass::Error {
    example().await
}
}

mod wnd_2220 {
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
            ctx.state()?;
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

mod wnd_2221 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    #[serde(rename(serialize = "seen", deserialize = "count"))]
    seen: u64,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("work", |ctx: Context<Totals>, _: Begin| async move {
            ctx.state()?;
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

mod wnd_2222 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Serialize, Deserialize)]
struct Totals {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals { name: Some("Ada".into()) }
    }
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("work", |ctx: Context<Totals>, _: Begin| async move {
            ctx.update(|totals| totals.name = None)?;
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

mod wnd_2223 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Totals {
    Named { seen: u64 },
    Bare(u64),
}

impl Default for Totals {
    fn default() -> Totals {
        Totals::Named { seen: 0 }
    }
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("work", |ctx: Context<Totals>, _: Begin| async move {
            ctx.update(|totals| *totals = Totals::Bare(1))?;
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

mod wnd_2224 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    seen: u64,
    name: String,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("work", |ctx: Context<Totals>, _: Begin| async move {
            ctx.add("sen", 1)?;
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

mod wnd_2225 {
use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Debug, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {}

#[derive(Default, Serialize, Deserialize)]
struct Totals {
    seen: u64,
    name: String,
}

async fn example() -> windlass::Error {
    let workflow = Workflow::builder("example")
        .step("work", |ctx: Context<Totals>, _: Begin| async move {
            ctx.add("name", 1)?;
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

mod wnd_2226 {
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
            ctx.resource::<String>()?;
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
