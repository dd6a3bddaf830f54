//! Operations on a run from outside.

use serde::{Deserialize, Serialize};
use windlass::{BuildError, Engine, Event, Handle, Status, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "name.wanted", input_required)]
struct NameWanted {}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "name.given", human_response)]
struct NameGiven {
    name: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "greeted", stop)]
struct Greeted {
    text: String,
}

struct Greeter;

#[windlass::workflow(name = "greeter")]
impl Greeter {
    #[step]
    async fn ask(&self, _begin: Begin) -> Result<NameWanted, StepError> {
        Ok(NameWanted {})
    }

    #[step]
    async fn greet(&self, given: NameGiven) -> Result<Greeted, StepError> {
        Ok(Greeted { text: format!("Hello, {}!", given.name) })
    }
}

fn workflow() -> Result<Workflow, BuildError> {
    Greeter.into_workflow().build()
}

async fn watch(handle: &Handle) -> Result<Vec<String>, windlass::Error> {
    let mut seen = Vec::new();
    let mut events = handle.events(0)?;
    while let Some(event) = events.next().await {
        let event = event?;
        seen.push(format!("{} {} {}", event.seq, event.type_name(), event.path));
    }
    Ok(seen)
}

#[tokio::test]
async fn any_number_of_readers() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = workflow()?;
    let engine = Engine::in_memory().workflow(&workflow).build()?;
    let handle = engine.start(&workflow, Begin {}).id("greeter-1").await?;
    handle.send(NameGiven { name: "Ada".into() }).await?;
    let (first, second) = (watch(&handle).await?, watch(&handle).await?);
    assert_eq!(first, second);
    assert!(first.iter().any(|event| event.contains("step.done greet")), "{first:#?}");
    Ok(())
}

#[tokio::test]
async fn snapshots_go_elsewhere() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = workflow()?;
    let engine = Engine::in_memory().workflow(&workflow).build()?;
    let handle = engine.start(&workflow, Begin {}).await?;
    let snapshot = handle.snapshot().await?;
    handle.cancel("another process continues the run").await?;

    let elsewhere = Engine::in_memory().workflow(&workflow).build()?;
    let restored = elsewhere.restore(&workflow, &snapshot).await?;
    restored.send(NameGiven { name: "Ada".into() }).await?;
    assert_eq!(restored.result::<Greeted>().await?.text, "Hello, Ada!");
    let ended = handle.result::<Greeted>().await;
    assert!(matches!(ended, Err(windlass::Error::Run { status: Status::Cancelled, .. })));
    Ok(())
}

#[tokio::test]
async fn resumed_by_id() -> Result<(), Box<dyn std::error::Error>> {
    let workflow = workflow()?;
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(folder.path()).workflow(&workflow).build()?;
    let handle = engine.start(&workflow, Begin {}).id("greeter-1").await?;
    handle.pause().await?;
    handle.send(NameGiven { name: "Ada".into() }).await?;
    engine.close().await;

    let engine = Engine::open(folder.path()).workflow(&workflow).build()?;
    let handle = engine.resume("greeter-1").await?;
    assert_eq!(handle.result::<Greeted>().await?.text, "Hello, Ada!");
    engine.close().await;
    Ok(())
}

/// A run keeps its plan: a start with a changed workflow is refused, but a resume continues the run with it.
#[tokio::test]
async fn a_changed_workflow() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let before = workflow()?;
    let changed = Workflow::builder("greeter")
        .step("ask", |_: Begin| async { Ok(NameWanted {}) })
        .step("greet", |given: NameGiven| async move { Ok(Greeted { text: format!("Hi, {}!", given.name) }) })
        .workers(2)
        .build()?;
    let renamed = Workflow::builder("greeter")
        .step("ask", |_: Begin| async { Ok(NameWanted {}) })
        .step("hail", |given: NameGiven| async move { Ok(Greeted { text: given.name }) })
        .build()?;
    let engine = Engine::open(folder.path()).workflow(&before).build()?;
    engine.start(&before, Begin {}).id("greeter-1").await?;
    engine.close().await;

    let engine = Engine::open(folder.path()).workflow(&renamed).build()?;
    let refused = engine.resume("greeter-1").await.map_err(|error| error.to_string());
    assert!(refused.is_err_and(|error| error.contains("greeter/greet")));
    engine.close().await;

    let engine = Engine::open(folder.path()).workflow(&changed).build()?;
    let refused = engine.start(&changed, Begin {}).id("greeter-1").await;
    assert!(refused.is_err_and(|error| error.code() == "RunExists"));
    let handle = engine.resume("greeter-1").await?;
    handle.send(NameGiven { name: "Ada".into() }).await?;
    assert_eq!(handle.result::<Greeted>().await?.text, "Hi, Ada!");
    engine.close().await;
    Ok(())
}
