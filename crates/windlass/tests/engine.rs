//! Engines and handles: watching, signalling, restoring and resuming runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use windlass::{Context, Engine, Event, Handle, Res, RunEvent, RunStatus, Status, StepError, Value, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {
    id: u64,
}

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "asked", input_required)]
struct Asked {
    id: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answered", human_response)]
struct Answered {
    text: String,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "stray")]
struct Stray;

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "progress")]
struct Progress {
    percent: u64,
}

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    text: String,
}

/// A temporary directory, removed with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("windlass-engine-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        Directory(std::env::temp_dir().join(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Counts the executed bodies.
#[derive(Default)]
struct Bodies(AtomicU64);

fn asking(bodies: &Arc<Bodies>) -> Workflow {
    Workflow::builder("asking")
        .step("ask", |ctx: Context, begin: Begin, bodies: Res<Bodies>| async move {
            bodies.0.fetch_add(1, Ordering::SeqCst);
            ctx.publish(Progress { percent: 10 })?;
            Ok(Asked { id: begin.id })
        })
        .step("end", |answered: Answered| async move { Ok(Done { text: answered.text }) })
        .shared_resource(bodies.clone())
        .build()
        .unwrap()
}

async fn all(handle: &Handle, after: u64) -> Vec<RunEvent> {
    let mut events = handle.events(after).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap());
    }
    seen
}

async fn until<E: Event>(handle: &Handle) -> E {
    let mut events = handle.events(0).unwrap();
    while let Some(event) = events.next().await {
        if let Some(event) = event.unwrap().event() {
            return event.unwrap();
        }
    }
    panic!("the run has ended without `{}`", E::NAME);
}

#[tokio::test]
async fn many_readers_see_the_same() {
    let workflow = asking(&Arc::default());
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin { id: 7 }).await.unwrap();
    let watching = tokio::spawn({
        let handle = handle.clone();
        async move { all(&handle, 0).await }
    });
    assert_eq!(until::<Asked>(&handle).await, Asked { id: 7 });
    handle.send(Answered { text: "hello".into() }).await.unwrap();
    assert_eq!(handle.result::<Done>().await.unwrap().text, "hello");
    let live = watching.await.unwrap();
    assert_eq!(live, all(&handle, 0).await, "later readers see the same");
    assert_eq!(live.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=live.len() as u64).collect::<Vec<_>>());
    let middle = live.len() as u64 / 2;
    assert_eq!(all(&handle, middle).await, live[middle as usize..], "no gap and no repeat");
    let published: Vec<Progress> = live.iter().filter_map(|event| event.event()).map(Result::unwrap).collect();
    assert_eq!(published, [Progress { percent: 10 }]);
    let end = live.last().and_then(|event| event.event::<Done>()).unwrap().unwrap();
    assert_eq!(end.text, "hello");
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let workflow = asking(&Arc::default());
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin { id: 1 }).await.unwrap();
    let table = [
        (handle.send(Stray).await, "UnknownEvent: unknown event `stray`; known: `answered`, `asked`, `begin`, `done`"),
        (
            handle.send_value("answerd", Value::Null).await,
            "UnknownEvent: unknown event `answerd`; known: `answered`, `asked`, `begin`, `done`",
        ),
        (
            handle.send_value("answered", Value::Null).await,
            "EventNotRead: the event `answered` cannot be read: invalid type: unit value, expected struct Answered (a change of its fields needs a new version: `#[event(version = 2, upgrade = …)]`)",
        ),
        (
            handle.send_to("ends", Answered { text: "".into() }).await,
            "there is no step `ends` in `asking`: did you mean `end`?",
        ),
        (
            handle.send_to("ask", Answered { text: "".into() }).await,
            "the step `ask` does not accept `answered`; it accepts: `begin`",
        ),
        (handle.result::<Answered>().await.map(drop), "`asking` ends with `done`, not with `answered`"),
        (engine.start(&workflow, Stray).await.map(drop), "`asking` starts with `begin`, not with `stray`"),
        (engine.resume("nowhere").await.map(drop), "there is no run `nowhere` in this store"),
        (
            engine.start_definition("askin", (), Default::default()).await.map(drop),
            "this engine does not have `askin`; there are: `asking`",
        ),
    ];
    for (answer, expected) in table {
        assert_eq!(answer.unwrap_err().to_string(), expected);
    }
    let text = Value::object([("text", "by name")]);
    handle.send_value("answered", text).await.unwrap();
    assert_eq!(handle.output::<Done>().await.unwrap().text, "by name");
    let late = handle.send(Answered { text: "late".into() }).await.unwrap_err();
    assert_eq!(late.code(), "Ended");
}

#[tokio::test]
async fn a_run_is_cancelled() {
    let workflow = asking(&Arc::default());
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin { id: 1 }).await.unwrap();
    until::<Asked>(&handle).await;
    handle.cancel("no longer wanted").await.unwrap();
    match handle.result::<Done>().await.unwrap_err() {
        windlass::Error::Run { status, .. } => assert_eq!(status, Status::Cancelled),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_run_is_paused() {
    let workflow = asking(&Arc::default());
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin { id: 1 }).await.unwrap();
    until::<Asked>(&handle).await;
    handle.pause().await.unwrap();
    handle.send(Answered { text: "meanwhile".into() }).await.unwrap();
    handle.unpause().await.unwrap();
    assert_eq!(handle.result::<Done>().await.unwrap().text, "meanwhile");
}

#[tokio::test]
async fn a_run_resumes_after_its_process_ends() {
    let (directory, bodies) = (Directory::new(), Arc::new(Bodies::default()));
    let workflow = asking(&bodies);
    let open = || Engine::open(&directory.0).adopt(false).workflow(&workflow).build().unwrap();
    let engine = open();
    let handle = engine.start(&workflow, Begin { id: 3 }).id("three").await.unwrap();
    until::<Asked>(&handle).await;
    engine.close().await;
    drop((engine, handle));
    let engine = open();
    let handle = engine.resume("three").await.unwrap();
    handle.send(Answered { text: "after all".into() }).await.unwrap();
    assert_eq!(handle.result::<Done>().await.unwrap().text, "after all");
    assert_eq!(bodies.0.load(Ordering::SeqCst), 1, "a completed step is not repeated");
    assert_eq!(until::<Asked>(&handle).await, Asked { id: 3 }, "all its events are stored");
    // The same start again is the same run; with another event it is refused.
    let again = engine.start(&workflow, Begin { id: 3 }).id("three").await.unwrap();
    assert_eq!(again.result::<Done>().await.unwrap().text, "after all");
    assert_eq!(engine.start(&workflow, Begin { id: 4 }).id("three").await.unwrap_err().code(), "RunExists");
    engine.close().await;
}

/// Without a request: the engine finds the run itself when there is work for it.
#[tokio::test]
async fn abandoned_runs_are_adopted() {
    let (directory, workflow) = (Directory::new(), asking(&Arc::default()));
    let first = Engine::open(&directory.0).workflow(&workflow).build().unwrap();
    let handle = first.start(&workflow, Begin { id: 3 }).id("three").await.unwrap();
    until::<Asked>(&handle).await;
    first.close().await;
    handle.send(Answered { text: "while closed".into() }).await.unwrap();
    drop((first, handle));
    // An engine without the workflow does not touch the run.
    let other =
        Workflow::builder("other").step("only", |_: Begin| async { Ok(Done { text: "".into() }) }).build().unwrap();
    let stranger = Engine::open(&directory.0).workflow(&other).build().unwrap();
    let done = stranger.start(&other, Begin { id: 1 }).await.unwrap();
    done.result::<Done>().await.unwrap();
    stranger.close().await;
    drop((stranger, done));
    let second = Engine::open(&directory.0).workflow(&workflow).build().unwrap();
    let mut events = second.events("three", 0).unwrap();
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.unwrap());
    }
    let done: Done = last.and_then(|event| event.event()).unwrap().unwrap();
    assert_eq!(done.text, "while closed");
    assert_eq!(second.status("three").unwrap(), Some(RunStatus::Succeeded));
    assert_eq!(second.status("four").unwrap(), None);
    second.close().await;
}

#[tokio::test]
async fn a_snapshot_is_restored_in_another_engine() {
    let workflow = asking(&Arc::default());
    let engine = Engine::in_memory().workflow(&workflow).build().unwrap();
    let handle = engine.start(&workflow, Begin { id: 1 }).await.unwrap();
    until::<Asked>(&handle).await;
    let snapshot = handle.snapshot().await.unwrap();
    let directory = Directory::new();
    let elsewhere = Engine::open(&directory.0).workflow(&workflow).build().unwrap();
    for (engine, text) in [(&engine, "here"), (&elsewhere, "there")] {
        let restored = engine.restore(&workflow, &snapshot).await.unwrap();
        restored.send(Answered { text: text.into() }).await.unwrap();
        assert_eq!(restored.result::<Done>().await.unwrap().text, text);
    }
    handle.send(Answered { text: "still".into() }).await.unwrap();
    assert_eq!(handle.result::<Done>().await.unwrap().text, "still");
    elsewhere.close().await;
}

/// The same event in the programs of two releases.
mod versions {
    use super::*;

    #[derive(Event, Serialize, Deserialize)]
    #[event(name = "answered", human_response, version = 3, upgrade = newer)]
    pub(crate) struct Answered {
        pub words: Vec<String>,
    }

    /// Version 2 had the words in one text, like version 1, under another name.
    fn newer(from: u32, payload: Value) -> Result<Value, StepError> {
        let text = payload.get(if from == 1 { "text" } else { "content" }).and_then(Value::as_str).unwrap_or_default();
        let words = text.split(' ').map(Value::from).collect::<Vec<_>>();
        Ok(Value::object([("words", words)]))
    }

    pub(crate) fn asking() -> Workflow {
        Workflow::builder("asking")
            .step("ask", |begin: Begin| async move { Ok(Asked { id: begin.id }) })
            .step("end", |answered: Answered| async move { Ok(Done { text: answered.words.join("+") }) })
            .build()
            .unwrap()
    }
}

#[tokio::test]
async fn a_run_of_an_older_release_continues_in_a_newer_one() {
    let directory = Directory::new();
    let old = asking(&Arc::default());
    let engine = Engine::open(&directory.0).workflow(&old).build().unwrap();
    for id in ["older", "newer"] {
        until::<Asked>(&engine.start(&old, Begin { id: 1 }).id(id).await.unwrap()).await;
    }
    engine.close().await;
    drop(engine);
    let new = versions::asking();
    let engine = Engine::open(&directory.0).workflow(&new).build().unwrap();
    let older = engine.resume("older").await.unwrap();
    let newer = engine.resume("newer").await.unwrap();
    older.send(Answered { text: "one two".into() }).await.unwrap();
    newer.send(versions::Answered { words: vec!["three".into(), "four".into()] }).await.unwrap();
    assert_eq!(older.result::<Done>().await.unwrap().text, "one+two");
    assert_eq!(newer.result::<Done>().await.unwrap().text, "three+four");
    let version_2 = Value::object([("content", Value::from("a b")), ("@version", Value::Int(2))]);
    let read = new.read_event("answered", &version_2).unwrap();
    assert_eq!(windlass::from_value::<Vec<String>>(read.get("words").unwrap()).unwrap(), ["a", "b"]);
    let too_new = new.read_event("answered", &Value::object([("@version", Value::Int(4))])).unwrap_err();
    assert_eq!(too_new.code(), "EventTooNew");
    engine.close().await;
}
