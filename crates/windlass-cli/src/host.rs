//! Runs a run in this process: the engine, the progress display and Ctrl-C.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use windlass_core::Event;
use windlass_runtime::{EngineOptions, FinalReport, RunHandle, RuntimeEngine, RuntimeError, TaskLogLimits};
use windlass_store::{CommitHook, CommitMoment, CommitPoint, Store};
use windlass_store_sqlite::{SqliteOptions, SyncMode};

use crate::args::{BenchDurability, TestingArgs};
use crate::config::CliSettings;
use crate::failure::CliFailure;
use crate::progress::{BEAT, ProgressDisplay};

/// A process with a single run does not evict it while it waits: the command that watches it would lose it.
const NEVER_EVICT: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3_600);

/// The control loop and the worker that calls tools, plus the waiting command: more threads would only cost startup
/// time.
const THREADS: usize = 2;

pub(crate) fn runtime() -> Result<Runtime, CliFailure> {
    build_runtime(tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS))
}

/// Builds a runtime in which a write beyond the file size limit fails instead of ending the process: it handles
/// SIGXFSZ. It installs a handler and does not ignore the signal, because child processes would inherit that.
pub(crate) fn build_runtime(builder: &mut tokio::runtime::Builder) -> Result<Runtime, CliFailure> {
    let made = builder.enable_all().build();
    let runtime = made.map_err(|error| CliFailure::usage(format!("could not start threads: {error}")))?;
    let guard = runtime.enter();
    // Without the handler the signal has its default effect.
    let _ = tokio::signal::unix::signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    drop(guard);
    Ok(runtime)
}

/// Must be called inside the runtime.
pub(crate) fn engine(
    store: &Arc<dyn Store>,
    settings: &CliSettings,
    testing: &TestingArgs,
) -> Result<RuntimeEngine, CliFailure> {
    crate::credentials::learn(settings);
    let options = EngineOptions {
        tools: crate::tools::tools(settings)?,
        languages: crate::dialects::languages(),
        limits: settings.limits.clone(),
        max_job_concurrency: settings.process_limits.max_job_concurrency.max(1),
        max_resident_runs: settings.process_limits.max_resident_runs,
        max_idle_runs: settings.process_limits.max_idle_runs,
        max_total_reply_bytes: settings.process_limits.max_total_reply_bytes,
        evict_after: NEVER_EVICT,
        gate: Some(Arc::new(crate::secrets::sealer(settings).lenient())),
        commit_here: true,
        commit_hook: commit_hook(testing)?,
        log_limits: TaskLogLimits::from_limits(&settings.process_limits),
        mock_file: settings.mocks.as_ref().map(|mocks| mocks.file_path()),
        ..EngineOptions::default()
    };
    Ok(RuntimeEngine::new(store.clone(), options)?)
}

pub(crate) fn commit_hook(testing: &TestingArgs) -> Result<Option<CommitHook>, CliFailure> {
    testing.crash_at.as_deref().map(crash_hook).transpose()
}

pub(crate) fn sqlite_options(testing: &TestingArgs) -> SqliteOptions {
    let durability = match testing.bench_durability {
        Some(BenchDurability::Off) => SyncMode::Off,
        Some(BenchDurability::Full) | None => SyncMode::Full,
    };
    SqliteOptions { durability, ..SqliteOptions::default() }
}

/// Parses `--crash-at`: `before:3` kills the process before the third commit, `after:3` when the commit is on disk
/// and not yet acknowledged.
fn crash_hook(text: &str) -> Result<CommitHook, CliFailure> {
    let wrong = || CliFailure::usage(format!("--crash-at takes before:N or after:N, not `{text}`"));
    let (when, number) = text.split_once(':').ok_or_else(wrong)?;
    let when = match when {
        "before" => CommitMoment::Before,
        "after" => CommitMoment::After,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let point = CommitPoint { number, when };
    Ok(Box::new(move |reached| {
        if reached == point {
            // SIGKILL: no unwinding, no destructors, no closing of the store, as in a power cut.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }))
}

/// SIGINT and SIGTERM, listened for from the beginning so that none is missed.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Must be called inside the runtime.
    pub(crate) fn listen() -> Result<Interrupts, CliFailure> {
        let failed = |error: std::io::Error| CliFailure::usage(format!("could not listen for Ctrl-C: {error}"));
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        Ok(Interrupts { interrupt, terminate })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The outcome of watching a run.
pub(crate) enum WatchOutcome {
    Ended(Arc<FinalReport>),
    Interrupted,
}

/// Waits for the run's end and shows its progress.
pub(crate) async fn watch(
    engine: &RuntimeEngine,
    mut handle: RunHandle,
    interrupts: &mut Interrupts,
    progress: &mut ProgressDisplay,
) -> Result<WatchOutcome, CliFailure> {
    let mut events = handle.events.take().filter(|_| !progress.is_quiet());
    let mut beat = tokio::time::interval(BEAT);
    let ended = loop {
        tokio::select! {
            ended = handle.wait() => break Some(ended),
            event = next_event(&mut events) => progress.event(&event),
            _ = beat.tick(), if !progress.is_quiet() => progress.beat(),
            () = interrupts.next() => break None,
        }
    };
    let ended = match ended {
        Some(ended) => ended,
        None => close(engine, &mut handle, interrupts).await,
    };
    while let Some(Ok(event)) = events.as_mut().map(Receiver::try_recv) {
        progress.event(&event);
    }
    progress.finish();
    match ended {
        Ok(report) => Ok(WatchOutcome::Ended(report)),
        Err(RuntimeError::Closing) => Ok(WatchOutcome::Interrupted),
        Err(error) => Err(error.into()),
    }
}

/// Returns the next event; never completes if there are no more. Events published faster than they are read are lost,
/// but only for the display.
async fn next_event(events: &mut Option<Receiver<Event>>) -> Event {
    loop {
        let received = match events {
            Some(receiver) => receiver.recv().await,
            None => std::future::pending().await,
        };
        match received {
            Ok(event) => return event,
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *events = None,
        }
    }
}

/// Releases the run between two ticks. A second Ctrl-C exits immediately.
async fn close(
    engine: &RuntimeEngine,
    handle: &mut RunHandle,
    interrupts: &mut Interrupts,
) -> Result<Arc<FinalReport>, RuntimeError> {
    tokio::select! {
        () = engine.close() => handle.wait().await,
        () = interrupts.next() => std::process::exit(130),
    }
}
