//! What can be done with a run from outside.

use serde::{Deserialize, Serialize};
use windlass::{Engine, Event, Handle, StepError, Workflow};

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

fn workflow() -> Workflow {
    Greeter.into_workflow().build().unwrap()
}

async fn watch(handle: &Handle) -> Result<Vec<String>, windlass::Error> {
    let mut seen = Vec::new();
    let mut events = handle.events(0)?;
    while let Some(event) = events.next().await {
        let event = event?;
        seen.push(format!("{} {} {}", event.seq, event.kind, event.path));
    }
    Ok(seen)
}

#[tokio::test]
async fn any_number_of_readers() {
    let workflow = workflow();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).id("greeter-1").await.unwrap();
    handle.send(NameGiven { name: "Ada".into() }).await.unwrap();
    let (first, second) = (watch(&handle).await.unwrap(), watch(&handle).await.unwrap());
    assert_eq!(first, second);
    assert!(first.iter().any(|event| event.contains("step.done greet")), "{first:#?}");
}

#[tokio::test]
async fn snapshots_go_elsewhere() {
    let workflow = workflow();
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).await.unwrap();
    let snapshot = handle.snapshot().await.unwrap();
    handle.cancel("it goes on elsewhere").await.unwrap();

    let elsewhere = Engine::in_memory().workflow(&workflow).build().unwrap();
    let restored = elsewhere.restore(&workflow, &snapshot).await.unwrap();
    restored.send(NameGiven { name: "Ada".into() }).await.unwrap();
    assert_eq!(restored.result::<Greeted>().await.unwrap().text, "Hello, Ada!");
    let error = handle.result::<Greeted>().await.err().unwrap();
    assert!(matches!(error, windlass::Error::Run { status: windlass::Status::Cancelled, .. }), "{error}");
}

#[tokio::test]
async fn resumed_by_id() {
    let workflow = workflow();
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(folder.path()).workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin {}).id("greeter-1").await.unwrap();
    handle.pause().await.unwrap();
    handle.send(NameGiven { name: "Ada".into() }).await.unwrap();
    engine.close().await;

    let engine = Engine::open(folder.path()).workflow(&workflow).build().unwrap();
    let handle = engine.resume("greeter-1").await.unwrap();
    assert_eq!(handle.result::<Greeted>().await.unwrap().text, "Hello, Ada!");
    engine.close().await;
}

/// A run keeps its plan: another one is not the same start, but goes on with it.
#[tokio::test]
async fn a_changed_workflow() {
    let folder = tempfile::tempdir().unwrap();
    let changed = || {
        Workflow::builder("greeter")
            .step("ask", |_: Begin| async { Ok(NameWanted {}) })
            .step("greet", |given: NameGiven| async move { Ok(Greeted { text: format!("Hi, {}!", given.name) }) })
            .workers(2)
            .build()
            .unwrap()
    };
    let renamed = Workflow::builder("greeter")
        .step("ask", |_: Begin| async { Ok(NameWanted {}) })
        .step("hail", |given: NameGiven| async move { Ok(Greeted { text: given.name }) })
        .build()
        .unwrap();
    let engine = Engine::open(folder.path()).workflow(&workflow()).build().unwrap();
    engine.start(&workflow(), Begin {}).id("greeter-1").await.unwrap();
    engine.close().await;

    let engine = Engine::open(folder.path()).workflow(&renamed).build().unwrap();
    let error = engine.resume("greeter-1").await.unwrap_err().to_string();
    assert!(error.contains("greeter/greet"), "{error}");
    engine.close().await;

    let engine = Engine::open(folder.path()).workflow(&changed()).build().unwrap();
    assert_eq!(engine.start(&changed(), Begin {}).id("greeter-1").await.unwrap_err().code(), "RunExists");
    let handle = engine.resume("greeter-1").await.unwrap();
    handle.send(NameGiven { name: "Ada".into() }).await.unwrap();
    assert_eq!(handle.result::<Greeted>().await.unwrap().text, "Hi, Ada!");
    engine.close().await;
}
