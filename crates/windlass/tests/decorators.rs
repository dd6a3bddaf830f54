//! Decorators around the engine's adapter: what they see, what they change, and what they cannot break.

use crate::support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Begin, Directory, Done, done, in_time};
use windlass::adapter::{PublishedEvent, RunDecorator, RunResult, RunState, Tick};
use windlass::{Context, Engine, Handle, Timestamp, Workflow};
use windlass_store::StoreRead;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

const DAY: i64 = 86_400_000_000;

fn clock_workflow() -> Workflow {
    let tell = |ctx: Context, _: Begin| async move { done(ctx.now().0.to_string()) };
    Workflow::builder("tells").step("tell", tell).build().unwrap()
}

async fn kinds(handle: &Handle) -> Vec<String> {
    let mut events = handle.events(0).unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = in_time(events.next()).await {
        kinds.push(event.unwrap().kind.type_name().to_owned());
    }
    kinds
}

async fn ran(engine: &Engine, workflow: &Workflow) -> (Handle, String) {
    let handle = engine.start(workflow, Begin { n: 1 }).await.unwrap();
    let text = in_time(handle.result::<Done>()).await.unwrap().text;
    (handle, text)
}

type RecordedTicks = Vec<(String, u64, &'static str)>;

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<RecordedTicks>>);

struct Recording {
    run: String,
    ticks: Recorder,
}

impl RunDecorator for Recording {
    fn on_tick(&mut self, tick: &Tick, state: &RunState) {
        self.ticks.0.lock().unwrap().push((self.run.clone(), state.ticks, tick.kind.name()));
    }

    fn close(&mut self) {
        self.ticks.0.lock().unwrap().push((self.run.clone(), 0, "closed"));
    }
}

#[tokio::test]
async fn a_tick_recorder_sees_every_tick_of_its_runs() {
    let (workflow, recorder) = (clock_workflow(), Recorder::default());
    let ticks = recorder.clone();
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .wrap_adapter(move |run, definition| {
            assert_eq!(definition, "tells");
            let recording = Recording { run: run.to_owned(), ticks: ticks.clone() };
            (run == "watched").then(|| Box::new(recording) as Box<dyn RunDecorator>)
        })
        .build()
        .unwrap();
    for id in ["watched", "other"] {
        let handle = engine.start(&workflow, Begin { n: 1 }).id(id).await.unwrap();
        in_time(handle.result::<Done>()).await.unwrap();
    }
    engine.close().await;
    let seen = recorder.0.lock().unwrap().clone();
    assert!(seen.iter().all(|(run, _, _)| run == "watched"), "{seen:?}");
    let seen: Vec<_> = seen.iter().map(|(_, number, name)| (*number, *name)).collect();
    assert_eq!(seen, [(1, "AddEvent"), (2, "StepResult"), (0, "closed")]);
}

struct Tomorrow;

impl RunDecorator for Tomorrow {
    fn get_now(&mut self, now: Timestamp) -> Timestamp {
        Timestamp(now.0 + DAY)
    }
}

/// The run's time and its timers are shifted alike, so a timer waits no longer than without the decorator.
#[tokio::test]
async fn a_clock_decorator_shifts_run_time_and_timers() {
    let sleeps = |ctx: Context, _: Begin| async move {
        let before = ctx.now();
        ctx.sleep(Duration::from_millis(20)).await?;
        done(before.0.to_string())
    };
    let workflow = Workflow::builder("sleeps").step("sleep", sleeps).build().unwrap();
    let engine = Engine::in_memory().workflow(&workflow).wrap_adapter(|_, _| Some(Box::new(Tomorrow))).build().unwrap();
    let before = windlass_runtime::real_now();
    let (_, text) = ran(&engine, &workflow).await;
    let reported: i64 = text.parse().unwrap();
    assert!(reported >= before.0 + DAY && reported < before.0 + DAY + DAY / 2, "{reported}");
}

/// Drops step events, and publishes the others when the run ends.
#[derive(Default)]
struct DelayingDecorator {
    held: Vec<PublishedEvent>,
    shown: Arc<AtomicU64>,
}

impl RunDecorator for DelayingDecorator {
    fn write_to_event_stream(&mut self, event: PublishedEvent, _show: &mut dyn FnMut(PublishedEvent)) {
        if !event.kind.type_name().starts_with("step.") {
            self.held.push(event);
        }
    }

    fn ended(&mut self, _result: &RunResult, show: &mut dyn FnMut(PublishedEvent)) {
        self.shown.store(self.held.len() as u64, Ordering::SeqCst);
        self.held.drain(..).for_each(show);
    }
}

#[tokio::test]
async fn a_filtering_decorator_controls_the_stream_of_an_in_memory_run() {
    let workflow = clock_workflow();
    let plain = Engine::in_memory().workflow(&workflow).build().unwrap();
    let (handle, _) = ran(&plain, &workflow).await;
    let expected: Vec<String> = kinds(&handle).await.into_iter().filter(|kind| !kind.starts_with("step.")).collect();

    let shown = Arc::new(AtomicU64::new(0));
    let count = shown.clone();
    let engine = Engine::in_memory()
        .workflow(&workflow)
        .wrap_adapter(move |_, _| Some(Box::new(DelayingDecorator { held: Vec::new(), shown: count.clone() })))
        .build()
        .unwrap();
    let (handle, _) = ran(&engine, &workflow).await;
    assert_eq!(kinds(&handle).await, expected);
    assert_eq!(shown.load(Ordering::SeqCst), expected.len() as u64);
}

/// Reads the store, as another process would, before an event is published.
struct Auditor {
    store: SqliteStore,
    run: String,
    journaled: Arc<AtomicU64>,
}

impl RunDecorator for Auditor {
    fn write_to_event_stream(&mut self, event: PublishedEvent, show: &mut dyn FnMut(PublishedEvent)) {
        let rows = self.store.journal_by_event(&self.run, event.seq, 1).unwrap();
        let row = rows.first().expect("the journal has it before it is shown");
        assert!(row.first_event <= event.seq && event.seq < row.first_event + u64::from(row.events));
        self.journaled.fetch_add(1, Ordering::SeqCst);
        show(event);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_comes_first_and_keeps_what_a_decorator_hides() {
    let (directory, workflow) = (Directory::new(), clock_workflow());
    let journaled = Arc::new(AtomicU64::new(0));
    let (path, count) = (directory.path().to_owned(), journaled.clone());
    let engine = Engine::open(directory.path())
        .workflow(&workflow)
        .wrap_adapter(move |run, _| match run {
            "audited" => {
                let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
                Some(Box::new(Auditor { store, run: run.to_owned(), journaled: count.clone() }))
            }
            _ => Some(Box::new(DelayingDecorator::default())),
        })
        .build()
        .unwrap();
    let mut seen = Vec::new();
    for id in ["audited", "hidden"] {
        let handle = engine.start(&workflow, Begin { n: 1 }).id(id).await.unwrap();
        in_time(handle.result::<Done>()).await.unwrap();
        seen.push(kinds(&handle).await);
    }
    assert_eq!(seen[0], seen[1], "readers of a journal read the journal");
    assert_eq!(journaled.load(Ordering::SeqCst), seen[0].len() as u64);
    engine.close().await;
}
