//! Shared parts of the scenarios: a few events, a world with gates and notes, engines on stores that can crash.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod lives;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass::{Engine, Error, Event, Handle, RunEvent, StepError, Value, Workflow};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// No test takes this long; a longer wait is a hang.
const HANG: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
pub(crate) struct Begin {
    pub n: u64,
}

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "item")]
pub(crate) struct Item {
    pub n: u64,
}

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "worked")]
pub(crate) struct Worked {
    pub n: u64,
}

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "question", input_required)]
pub(crate) struct Question {
    pub n: u64,
}

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
pub(crate) struct Answer {
    pub n: u64,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
pub(crate) struct Done {
    pub text: String,
}

pub(crate) fn done(text: impl Into<String>) -> Result<Done, StepError> {
    Ok(Done { text: text.into() })
}

pub(crate) fn answer(n: u64) -> Answer {
    Answer { n, text: format!("answer {n}") }
}

pub(crate) fn refused() -> StepError {
    StepError::new("NotYet", "it is refused")
}

/// The outside world: gates at which steps wait until the test opens them, and notes of what steps have done.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Outside>);

#[derive(Default)]
struct Outside {
    open: watch::Sender<BTreeSet<String>>,
    notes: watch::Sender<Vec<String>>,
}

impl World {
    pub(crate) fn note(&self, note: impl Into<String>) {
        self.0.notes.send_modify(|notes| notes.push(note.into()));
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.0.notes.borrow().clone()
    }

    /// Waits until there are this many notes.
    pub(crate) async fn wait_for_notes(&self, count: usize) -> Vec<String> {
        let mut notes = self.0.notes.subscribe();
        let notes = in_time(notes.wait_for(|notes| notes.len() >= count)).await;
        notes.expect("the world goes on").clone()
    }

    /// Opens a gate for all current and later steps.
    pub(crate) fn open(&self, gate: impl Into<String>) {
        self.0.open.send_modify(|open| _ = open.insert(gate.into()));
    }

    pub(crate) async fn pass(&self, gate: impl Into<String>) {
        let gate = gate.into();
        let mut open = self.0.open.subscribe();
        open.wait_for(|open| open.contains(&gate)).await.expect("the world goes on");
    }
}

pub(crate) async fn in_time<T>(future: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(HANG, future.into_future()).await.expect("it hangs")
}

/// In memory and in virtual time, so that no test waits.
pub(crate) fn engine(workflow: &Workflow) -> Engine {
    Engine::in_memory().virtual_time(true).workflow(workflow).build().expect("an engine")
}

pub(crate) async fn started(workflow: &Workflow) -> Handle {
    in_time(engine(workflow).start(workflow, Begin { n: 0 })).await.expect("started")
}

/// Runs a workflow from the start to the end.
pub(crate) async fn run_to_end(workflow: &Workflow) -> (Result<Done, Error>, Vec<RunEvent>) {
    let handle = started(workflow).await;
    ended(&handle).await
}

pub(crate) async fn ended(handle: &Handle) -> (Result<Done, Error>, Vec<RunEvent>) {
    let result = in_time(handle.result()).await;
    (result, events(handle, 0).await)
}

pub(crate) async fn text(handle: &Handle) -> String {
    in_time(handle.result::<Done>()).await.expect("it succeeds").text
}

/// Returns all events after this sequence number, up to the run's end.
pub(crate) async fn events(handle: &Handle, after: u64) -> Vec<RunEvent> {
    let mut stream = handle.events(after).expect("readable");
    let mut events = Vec::new();
    while let Some(event) = in_time(stream.next()).await {
        events.push(event.expect("readable"));
    }
    events
}

/// Waits until this many events of a kind have been published.
pub(crate) async fn wait_for_events(handle: &Handle, kind: &str, times: usize) -> Vec<RunEvent> {
    let mut stream = handle.events(0).expect("readable");
    let mut events: Vec<RunEvent> = Vec::new();
    while events.iter().filter(|event| event.type_name() == kind).count() < times {
        let event = in_time(stream.next()).await.unwrap_or_else(|| panic!("no {kind} in {:#?}", event_lines(&events)));
        events.push(event.expect("readable"));
    }
    events
}

/// Returns kind and path of each event.
pub(crate) fn event_lines(events: &[RunEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", event.type_name(), event.path).trim_end().to_owned()).collect()
}

pub(crate) fn count(events: &[RunEvent], kind: &str) -> usize {
    events.iter().filter(|event| event.type_name() == kind).count()
}

pub(crate) fn position_of(events: &[RunEvent], line: &str) -> usize {
    let found = events.iter().position(|event| format!("{} {}", event.type_name(), event.path).trim_end() == line);
    found.unwrap_or_else(|| panic!("no {line} in {:#?}", self::event_lines(events)))
}

pub(crate) fn field(event: &RunEvent, name: &str) -> Value {
    event.fields().get(name).cloned().unwrap_or_default()
}

/// A temporary directory, removed with its test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("windlass-scenario-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
